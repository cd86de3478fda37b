"""The command `subsample-mcmc`: what it understands, and how it ends.

Exit codes: 0 done; 1 it failed, one line on stderr says why; 2 it was not understood; 130 Ctrl-C.
Results go to stdout, progress to stderr.
"""

import argparse
import ast
import difflib
import importlib.util
import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from subsample_mcmc import __version__
from subsample_mcmc.cli import papers, stored
from subsample_mcmc.cli.engine import FROM_INPUT, UNITS, compile_engine

# ------------------------------------------------------------- examples and benchmarks as scripts
PACKAGE = Path(__file__).resolve().parents[1]
EXTRAS = {"matplotlib": "plots", "sklearn": "learn", "joblib": "parallel"}

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
        return stored.INTERRUPTED
    return 128 - code if code < 0 else code


# --------------------------------------------------------------------------------- the command
FAILED, MISUSED = 1, 2
EXAMPLES = """\
examples:
  subsample-mcmc demo                            choose an ARCH model: figures in ./results/arch
  subsample-mcmc demo --help                     its options, such as --data BARS.csv
  subsample-mcmc reproduce --list                figures and tables of the papers
  subsample-mcmc reproduce chen2016-fig5 --quick
  subsample-mcmc bench draws --quick             what a draw costs on this machine
  subsample-mcmc report run.nc                   print a report, write run.html
  subsample-mcmc resume run.nc --script model.py
  subsample-mcmc cite run.nc                     BibTeX of what a run used

`subsample-mcmc COMMAND --help` says more. Exit codes: 0 done, 1 failed, 2 not understood,
130 stopped by Ctrl-C.
"""
AFTER = "Options after NAME go to its script; `%(prog)s NAME --help` lists them."
RESUME = """\
FILE holds draws, not code: --script names a Python file that defines `model` and `kernel`, or
functions of these names without arguments that return them. It is run, but not as __main__: keep
sm.sample under `if __name__ == "__main__":`. Model, data and kernel must be those of the run, and
are compared with it. Draws are then the same, bit for bit, as if it had never stopped.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = carried_out(given)
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse: help, a version, or a mistake
        return stop.code if isinstance(stop.code, int) else FAILED
    except KeyboardInterrupt:
        complain("stopped by Ctrl-C")
        return stored.INTERRUPTED
    except BrokenPipeError:  # whoever read us, such as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (OSError, ValueError, TypeError, ImportError, stored.ScriptError) as error:
        if "--traceback" in itertools.takewhile(lambda word: word.startswith("-"), given):
            raise
        complain(str(error) or type(error).__name__)
        for note in getattr(error, "__notes__", ()):
            print(note, file=sys.stderr)
        return FAILED


def complain(message: str) -> None:
    print(f"subsample-mcmc: {message}", file=sys.stderr)


def carried_out(given: list[str]) -> int:
    """What the arguments ask for."""
    parser, commands = parsers()
    if not given:
        parser.print_help()
        return 0
    command = next((word for word in given if not word.startswith("-")), "")
    if command and command not in commands:
        complain(unknown("command", command, list(commands)))
        return MISUSED
    if command == "demo":  # everything after the name is the script's
        own = given.index("demo") + 1
        parser.parse_args(given[:own])
        return demo(given[own:])
    options = parser.parse_args(given)
    return options.run(options)


def unknown(kind: str, name: str, names: Sequence[str]) -> str:
    """What to say to a name that is not there."""
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names)}."
    return f"no {kind} {name!r}: {hint}"


# ------------------------------------------------------------------------------------ commands
def demo(options: list[str]) -> int:
    """The ARCH example; it writes to ./results/arch unless told."""
    if {"-h", "--help"} & set(options):
        print("subsample-mcmc demo runs examples/arch_model_selection.py; its options:\n")
    need(("matplotlib",), "subsample-mcmc demo")
    return run_example("arch_model_selection.py", options)


def reproduce(options: argparse.Namespace) -> int:
    """A figure or a table of a paper, or the list of them."""
    name = options.name
    if options.list or name is None:
        print(papers.listing())
        return 0
    if name not in papers.ENTRIES:
        known = list(papers.ENTRIES)
        message = unknown("figure or table", name, known) + " `reproduce --list` describes all."
        complain(message)
        return MISUSED
    entry = papers.ENTRIES[name]
    if entry.script is None:
        complain(f"{name} ({entry.shows}) is not reproduced: {entry.missing}.")
        return FAILED
    need(entry.script.needs, name)
    asked = {"-h", "--help"} & set(options.rest)
    if not asked:
        print(f"{name}: {papers.command(entry)} ({entry.script.time})", file=sys.stderr)
    code = run_example(entry.script.path, [*entry.script.options, *options.rest])
    if code == 0 and not asked:
        place = f"{entry.file}, in the folder above" if entry.file else "the table above"
        print(f"{name}: {place}")
    return code


def bench(options: argparse.Namespace) -> int:
    """A benchmark, or the list of them."""
    known, name = benchmarks(), options.name
    if options.list or name is None:
        width = max(map(len, known)) + 2
        for key, first in known.items():
            print(f"{key:{width}}{first}")
        return 0
    if name not in known:
        complain(unknown("benchmark", name, list(known)))
        return MISUSED
    return run_benchmark(name, options.rest)


# ------------------------------------------------------------------------------------- options
def parsers() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of everything, and that of each command."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="subsample-mcmc", description="MCMC that reads only the data it needs.",
        epilog=EXAMPLES, formatter_class=raw, allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    tell = "also show where an error came from"
    parser.add_argument("--traceback", action="store_true", help=tell)
    named = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")

    def add(name, run, text, **more):
        described = f"{text[0].upper()}{text[1:]}."
        named.add_parser(name, help=text, description=described, **more).set_defaults(run=run)

    text = "choose the order of an ARCH model on embedded data, every step subsampled"
    add("demo", None, text, add_help=False, allow_abbrev=False)
    for name, run, text in (
        ("reproduce", reproduce, "make a figure or a table of the papers again"),
        ("bench", bench, "run a benchmark of the package"),
    ):
        add(name, run, text, epilog=AFTER, allow_abbrev=False)
        which = named.choices[name]
        which.add_argument("name", nargs="?", metavar="NAME", help="which one; default: --list")
        which.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
        which.add_argument("--list", action="store_true", help="list the names")

    add("compile", compile_engine, "make the machine code that all models share, once per machine")
    engine = named.choices["compile"]
    engine.add_argument("--jobs", type=int, help="processes at a time; default: one for each core")
    engine.add_argument("--unit", choices=[*UNITS, FROM_INPUT], help=argparse.SUPPRESS)

    add("report", stored.report, "report on a saved run, also one that is still going on")
    report = named.choices["report"]
    report.add_argument("file", metavar="FILE", help="what sm.sample(store=FILE) wrote")
    where = "where the page with figures goes; default: beside FILE, ending in .html"
    report.add_argument("--html", metavar="PATH", help=where)
    report.add_argument("--open", action="store_true", help="open the page in a browser")

    text = "go on with a run that was stopped, or further than was asked for"
    add("resume", stored.resume, text, epilog=RESUME, formatter_class=raw)
    resume = named.choices["resume"]
    resume.add_argument("file", metavar="FILE", help="what sm.sample(store=FILE) wrote")
    resume.add_argument("--script", metavar="SCRIPT", help="Python file with `model`, `kernel`")
    resume.add_argument("--draws", type=int, metavar="N", help="the new total per chain")
    resume.add_argument("--cores", type=int, metavar="N", help="chains at a time; default: all")

    add("cite", stored.cite, "print BibTeX for what a saved run used, or for the package")
    saved = "a saved run; default: the package's main papers"
    named.choices["cite"].add_argument("file", nargs="?", metavar="FILE", help=saved)
    return parser, dict(named.choices)
