"""Stored runs from the command line: report on one, go on with one, cite what one used."""

import argparse
import runpy
import sys
import traceback
import webbrowser
from pathlib import Path
from types import FunctionType
from typing import Any

from subsample_mcmc.cli.cite import cite as citations
from subsample_mcmc.kernels.base import Kernel
from subsample_mcmc.runs.sample import load
from subsample_mcmc.runs.sample import resume as go_on
from subsample_mcmc.runs.store import store
from subsample_mcmc.target.model import Model

INTERRUPTED = 130
NEEDED = """\
To go on, the model and the kernel are needed as code, which FILE does not hold:

    subsample-mcmc resume {file} --script SCRIPT

SCRIPT is the Python file that started the run, or another that defines `model` and `kernel`, or
functions of these names that return them. Its sm.sample must be under
`if __name__ == "__main__":`."""


class ScriptError(Exception):
    """A user's script cannot be run, or does not define what it should."""


# -------------------------------------------------------------------------------------- report
def report(options: argparse.Namespace) -> int:
    """Print the report of a run, and write a page with figures."""
    file = Path(options.file)
    if file.is_dir():
        raise IsADirectoryError(f"{file} is a folder: give the file that sm.sample(store=) wrote.")
    target = Path(options.html) if options.html else file.with_suffix(".html")
    if target.exists() and file.exists() and target.samefile(file):
        raise ValueError(f"{target} is the run itself: give another place by --html PATH.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent}, where the page is to go, is not a folder.")
    progress = store.peek(file)
    trace = load(file)
    if trace.shape[1] == 0:
        raise ValueError(f"{file} holds no draws yet: {how_far(progress)}. Try again later.")
    if not progress.finished:
        print(f"{file} is not complete: {how_far(progress)}.", file=sys.stderr)
    print(trace.report(), flush=True)
    from subsample_mcmc.runs.views.html_page import (
        page,  # figures: they may be missing, the text is there already
    )

    target.write_text(page(trace), encoding="utf-8")
    print(f"\nA page with figures: {target}")
    if options.open and not webbrowser.open(target.resolve().as_uri()):
        raise OSError(f"no browser was found: open {target} yourself.")
    return 0


def how_far(progress: store.Progress) -> str:
    """Draws by chain, of how many."""
    total, drawn = progress.meta["draws"], progress.draws
    made = f"{drawn[0]:,}" if len(set(drawn)) == 1 else f"{min(drawn):,} to {max(drawn):,}"
    begun = sum(saved is not None for saved in progress.checkpoints)
    warm = "" if max(drawn) else f", {begun} begun: in warm-up" if begun else ", none begun"
    return f"{len(drawn)} chains x {made} draws of {total:,}{warm}"


def cite(options: argparse.Namespace) -> int:
    """Print BibTeX for what a run used."""
    print(citations(*([load(options.file)] if options.file else [])))
    return 0


# -------------------------------------------------------------------------------------- resume
def resume(options: argparse.Namespace) -> int:
    """Go on with a run, by the model and the kernel of a script."""
    file = Path(options.file)
    progress = store.peek(file)
    done = progress.finished and options.draws in (None, min(progress.draws))
    if done or options.script is None:
        print(facts(file, progress))
    if done:
        print(f"\nThe run is complete. To report on it: subsample-mcmc report {file}")
        further = min(progress.draws) * 2
        print(f"To go further: subsample-mcmc resume {file} --script SCRIPT --draws {further}")
        return 0
    if options.script is None:
        print(f"\n{NEEDED.format(file=file)}", file=sys.stderr)
        return 2
    model, kernel = defined(Path(options.script))
    trace = go_on(file, model, kernel, draws=options.draws, cores=options.cores)
    print(facts(file, store.peek(file)))
    if trace.interrupted:
        print("Stopped by Ctrl-C. The same command goes on from here.", file=sys.stderr)
        return INTERRUPTED
    print(f"\nThe run is complete. To report on it: subsample-mcmc report {file}")
    return 0


def facts(file: Path, progress: store.Progress) -> str:
    """What a file knows about its run."""
    meta = progress.meta
    lines = [
        ("run", f"{file}, {'complete' if progress.finished else 'not complete'}"),
        ("draws", how_far(progress)),
        ("warm-up", f"{meta['warmup']:,} steps" + f", thin {meta['thin']}" * (meta["thin"] != 1)),
        ("kernels", ", ".join(f"{told['label']} ({told['kind']})" for told in meta["kernels"])),
        ("guarantee", meta["guarantee"]),
        ("seed", meta["seed"]),
        ("seconds", ", ".join(f"{s:.1f}" for s in progress.seconds) + " of sampling, by chain"),
        ("version", meta["version"]),
    ]
    return "\n".join(f"{name:11}{text}" for name, text in lines)


def defined(script: Path) -> tuple[Model, Kernel]:
    """The model and the kernel that a script defines."""
    if not script.is_file():
        raise ScriptError(f"{script} does not exist: give the Python file that defines the model.")
    place, arguments = list(sys.path), list(sys.argv)
    # Its neighbours can be imported, and it sees no options of ours.
    sys.path.insert(0, str(script.resolve().parent))
    sys.argv = [str(script)]
    try:
        names = runpy.run_path(str(script), run_name="subsample_mcmc_resumes")
        return found(names, "model", Model, script), found(names, "kernel", Kernel, script)
    except SystemExit as error:
        raise ScriptError(
            f"{script} ended itself (exit code {error.code}) before `model` and `kernel` were "
            'defined: keep what runs it under `if __name__ == "__main__":`.'
        ) from error
    except (KeyboardInterrupt, ScriptError):
        raise
    except Exception as error:
        raise ScriptError(
            f"{script} failed{line_of(error, script)}: {type(error).__name__}: {error}"
        ) from error
    finally:
        sys.path[:], sys.argv = place, arguments


def found(names: dict[str, Any], name: str, kind: type, script: Path) -> Any:
    """What a script calls by a name, or what its function of that name returns."""
    if name not in names:
        raise ScriptError(
            f"{script} defines no `{name}` at its top level: assign it there, or define a function "
            f"{name}() that returns it."
        )
    value = names[name]
    if isinstance(value, FunctionType):
        value = value()
    if not isinstance(value, kind):
        raise ScriptError(
            f"`{name}` of {script} is of type {type(value).__name__}; it must be an sm."
            f"{'Model' if kind is Model else 'kernel, such as sm.Gibbs(...)'}, or a function that "
            "returns one."
        )
    return value


def line_of(error: Exception, script: Path) -> str:
    """Where in a script an error came from."""
    if isinstance(error, SyntaxError) and error.filename == str(script):
        return f" in line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(script)]
    return f" in line {lines[-1]}" if lines else ""
