"""Examples and benchmarks: where they lie, and running one as a process of its own."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
EXTRAS = {"matplotlib": "plots", "sklearn": "learn", "joblib": "parallel"}
INTERRUPTED = 130

# A benchmark limits the threads of numpy before anything imports it, so nothing of the package may
# be imported here. Another package's `tests` is not ours: the name is taken before it is looked up.
BENCHMARK = """
import runpy, sys, types
root, name = sys.argv[1:3]
del sys.argv[1:3]
sys.path[0] = root
tests = sys.modules["tests"] = types.ModuleType("tests")
tests.__path__ = [root + "/tests"]
runpy.run_module("tests.benchmarks." + name, run_name="__main__", alter_sys=True)
"""


def root() -> Path:
    """The folder of examples/ and tests/benchmarks/: the checkout, else what the wheel brings."""
    for place in (PACKAGE.parent, PACKAGE / "scripts"):
        if (place / "examples" / "arch_model_selection.py").is_file():
            return place
    raise FileNotFoundError(
        f"There are no examples beside {PACKAGE}: install the package anew from its wheel, or run "
        "this from a checkout."
    )


def example(name: str) -> Path:
    """The path of an example, such as "best_arm/sh_var.py"."""
    return root() / "examples" / name


def benchmarks() -> dict[str, str]:
    """The first sentence of every benchmark that can be run, by name."""
    found = {}
    for path in sorted((root() / "tests" / "benchmarks").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if '__name__ == "__main__"' in text:
            found[path.stem] = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    return found


def need(modules: tuple[str, ...], what: str) -> None:
    """Raise ImportError if a module that a script imports is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        extras = ",".join(EXTRAS[name] for name in missing)
        raise ImportError(
            f"{what} needs {' and '.join(missing)}, not installed here: "
            f"pip install 'subsample-mcmc[{extras}]'"
        )


def run_example(name: str, options: list[str]) -> int:
    """Run an example with these options; its exit code."""
    return launch([str(example(name)), *options])


def run_benchmark(name: str, options: list[str]) -> int:
    """Run a benchmark with these options; its exit code."""
    return launch(["-c", BENCHMARK, str(root()), name, *options])


def launch(arguments: list[str]) -> int:
    """Run this interpreter and wait; the exit code, 130 after Ctrl-C.

    In a process of its own the script is `__main__`, finds its neighbours, reads its own options
    and sees a Ctrl-C itself: it may write what it has. A second Ctrl-C ends it.
    """
    paths = [str(root()), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    sys.stdout.flush()
    interrupted = False
    with subprocess.Popen([sys.executable, *arguments], env=surroundings) as process:
        while True:
            try:
                code = process.wait()
                break
            except KeyboardInterrupt:
                if interrupted:
                    process.kill()
                interrupted = True
    if interrupted:
        return INTERRUPTED
    return 128 - code if code < 0 else code
