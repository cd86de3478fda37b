"""What can go wrong, by name. Messages say what was given, what is needed and what to do.

`warn` points at the user's line, however many of our functions lie between. Of calls that do not
fit their function see calls.py.
"""

import linecache
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

HOME = os.path.dirname(__file__) + os.sep  # where this package's own code stands


class RewardError(ValueError):
    """A reward is nan or +inf, or every arm is impossible: no arm can be called the best.

    Example:
        >>> try:
        ...     sm.choose(np.array([[0.0, np.nan], [1.0, 2.0]]))
        ... except sm.RewardError as error:
        ...     print(str(error)[:40])
        ...
        the reward of arm 0 at datum 1 is nan: r
    """


class SpreadError(ValueError):
    """A reward lies outside the declared range, so the guarantee built on it would be void.

    Example:
        >>> racing = sm.Racing(sm.Betting(spread=1.0), retreat=False)
        >>> try:
        ...     sm.choose(np.array([[0.0, 9.0] * 5_000, [1.0, 2.0] * 5_000]), selector=racing)
        ... except sm.SpreadError as error:
        ...     print("outside the declared range" in str(error))
        ...
        True
    """


class CompileError(TypeError):
    """A user function cannot be compiled; the message shows the line numba stopped at.

    Example:
        >>> import scipy.special
        >>> def log_factor(data, arm, n):
        ...     return scipy.special.gammaln(data.y[n])  # use math.lgamma
        >>> try:
        ...     sm.draw(sm.Population(log_factor, {"y": np.ones(10)}, arms=2))
        ... except sm.CompileError as error:
        ...     print(str(error).splitlines()[0].split(":")[0])
        ...
        log_factor cannot be compiled
    """


class StoreError(OSError):
    """A stored run cannot be made, read or gone on with; the message says what is safe.

    Example:
        >>> try:
        ...     sm.load("no_such_run.nc")
        ... except OSError as error:
        ...     print(type(error).__name__)
        ...
        StoreError
    """


class SlowMathWarning(UserWarning):
    """A reward uses math.log and the like, which do not vectorise; sm.log and the like do.

    Example:
        >>> import math, warnings
        >>> def log_factor(data, arm, n):
        ...     return -math.log(1.0 + (data.y[n] - arm) ** 2)
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     population = sm.Population(log_factor, {"y": np.zeros(10)}, arms=2)
        >>> caught[0].category.__name__
        'SlowMathWarning'
    """


TEXT = r"f-string|Literal\[str\]|unicode_type"
FROM_OUTSIDE = r"ntyped (?:global name|closure variable)\W+(\w+).*<class '([\w.]+)'>"
PLAIN = (
    "Or run everything as plain Python, much slower: set NUMBA_DISABLE_JIT=1 in the environment "
    "before Python starts."
)


SEEN = 50  # lines of a function that are looked at
ELEMENTWISE = r"\b(?:\w+\.)?(?:log|log1p|exp|expm1|sqrt|f?abs|sin|cos|tan|tanh|lgamma|erf|float)\($"


def unread_field(line: str, own: str, index: str, given: Any = None) -> str:
    """Advice on a line that computes with a field of `own` without index; empty if none does.

    index: what one number of it is read with. given: the record itself, if it is at hand.
    """
    for found in re.finditer(rf"\b{own}\.([a-zA-Z]\w*)", line):
        before, after = line[: found.start()].rstrip(), line[found.end() :].lstrip()
        if after.startswith(("[", ".", "(")):
            continue
        if after.startswith((",", ")")) and re.search(r"(\w\(|,|=)$", before):  # handed on whole
            if not (after.startswith(")") and re.search(ELEMENTWISE, before)):
                continue
        field, value = found[0], np.asarray(getattr(given, found[1], 0.0))
        if given is not None and value.ndim == 0:
            continue
        if index == "0" and value.size > 1:
            return (
                f"{field} is an array of shape {value.shape}: read each component, such as "
                f"{field}[0], not {field}."
            )
        within = ", i" * (value.ndim - 1)
        return (
            f"{field} is an array, even of one number: read {field}[{index}{within}], not {field}."
        )
    return ""


def instead_of(name: str, kind: str) -> str:
    """What to write where a function reads an object from outside."""
    if kind.startswith("scipy.") or (kind == "numpy.ufunc" and not hasattr(np, name)):
        return (
            "Write the formula out, or use math.lgamma, math.erf: scipy's functions do not compile."
        )
    if kind == "numpy.ufunc":
        return "Write the formula out: this function of numpy does not compile."
    if kind == "functools.partial":
        return "Make it a function, with def."
    if kind.startswith("pandas."):
        return "Pass it as data, sm.Model(..., data=df), and read data.y[n]."
    item = f"{name}[...]" if kind in ("dict", "list") else f"{name}.sigma"
    return f"Take its numbers out before the function, sigma = {item}, or pass arrays as data."


def place_of(text: str, code) -> tuple[str, int]:
    """The file and line of a user's that an error of numba's names first; the innermost call."""
    for found in re.finditer(r'File "([^"]+)", line (\d+)|(?:at|from) (\S+) \((\d+)\)', text):
        file, line = found[1] or found[3], int(found[2] or found[4])
        if Path(file).name == Path(code.co_filename).name:
            return code.co_filename, line
        if not {"numba", Path(__file__).parent.name} & set(Path(file).parts):
            path = os.path.abspath(file)
            if linecache.getline(path, line):
                return path, line
    return code.co_filename, code.co_firstlineno


def unread_in(source: str, code) -> str:
    """Advice on a line of a function of (state, data, n, ...), (data, arm, n) or (state)."""
    own = code.co_varnames[: code.co_argcount]
    found = own and unread_field(source, own[0], "0")
    if found and len(own) > 2:  # of data, if it is indexed with n elsewhere
        whole = "".join(linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :][:SEEN])
        if re.search(rf"\b{own[0]}\.\w+\[{own[2]}\b", whole):
            return unread_field(source, own[0], own[2])
    return found or (unread_field(source, own[1], own[2]) if len(own) > 2 else "")


def compile_message(error: Exception, function) -> str:
    """What the compiler objects to, with the line of the user's function it stopped at."""
    text = str(error)
    code = getattr(function, "py_func", function).__code__
    file, line = place_of(text, code)
    source = linecache.getline(file, line).strip()
    boilerplate = ("Failed in nopython", "During:", "File ", "There are", "- Resolution", "def ")
    reasons = [s.strip() for s in text.splitlines() if s.strip()]
    reason = next((r for r in reasons if not r.startswith(boilerplate)), type(error).__name__)
    reason, advice = reason.partition(" Raised from ")[0], ""
    if found := re.search(FROM_OUTSIDE, reason):
        reason = f"it reads {found[1]!r}, of type {found[2]}, from outside"
        advice = instead_of(found[1], found[2])
    elif "exception_match" in reason:
        reason, advice = "except with a name does not compile", "Test before, with if."
    elif re.search(TEXT, reason):
        advice = "Leave text out."
    if "Cannot modify readonly array" in text:
        reason = "it writes into an array that it may only read"
    advice = advice or unread_in(source, code)
    return (
        f"{function.__name__} cannot be compiled: {reason[:200]}\n"
        f"  {Path(file).name}, line {line}: {source}\n"
        f"{advice}{' ' * bool(advice)}Use numbers, arrays indexed with n, and sm.log, sm.log1p, "
        "sm.exp or the math module; scipy and Python objects do not compile.\n"
        f"{PLAIN}"
    )


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn, at the line of the caller outside this package."""
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HOME):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, category, stacklevel=depth)
