"""What can go wrong, by name. Messages say what was given, what is needed and what to do."""

import linecache
import re
from pathlib import Path


class RewardError(ValueError):
    """A reward is nan or +inf, or every arm is impossible: no arm can be called the best."""


class SpreadError(ValueError):
    """A reward lies outside the declared range, so the guarantee built on it would be void."""


class CompileError(TypeError):
    """A user function cannot be compiled; the message shows the line numba stopped at."""


class StoreError(OSError):
    """A stored run cannot be made, read or gone on with; the message says what is safe."""


class SlowMathWarning(UserWarning):
    """A reward uses math.log and the like, which do not vectorise; sm.log and the like do."""


def compile_message(error: Exception, function) -> str:
    """What the compiler objects to, with the line of the user's function it stopped at."""
    text = str(error)
    code = getattr(function, "py_func", function).__code__
    lines = [int(n) for f, n in re.findall(r'File "([^"]+)", line (\d+)', text)
             if Path(f).name == Path(code.co_filename).name]  # fmt: skip
    line = lines[0] if lines else code.co_firstlineno  # numba names the innermost call first
    source = linecache.getline(code.co_filename, line).strip()
    boilerplate = ("Failed in nopython", "During:", "File ", "There are", "- Resolution", "def ")
    reasons = [s.strip() for s in text.splitlines() if s.strip()]
    reason = next((r for r in reasons if not r.startswith(boilerplate)), type(error).__name__)
    if "Cannot modify readonly array" in text:
        reason = "it writes into an array that it may only read"
    return (
        f"{function.__name__} cannot be compiled: {reason[:200]}\n"
        f"  {Path(code.co_filename).name}, line {line}: {source}\n"
        "Use numbers, arrays indexed with n, and sm.log, sm.log1p, sm.exp or the math module; "
        "scipy and Python objects do not compile."
    )
