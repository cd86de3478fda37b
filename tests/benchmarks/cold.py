"""How long a new model takes to its first draws, in processes of their own.

    python -m tests.benchmarks.cold [--runs 3] [--before FOLDER]

For each scenario of cold_program.py: with an empty cache; then with an engine that is there (by
`subsample-mcmc compile`, and by the same scenario with another likelihood): a new model, the same
model in the next process, and it with another selector, one more kernel, another composition.
--before: a checkout to compare with, by ratios in the same run. Medians of CPU seconds, without the
import; what remains of them when the same is done once more in the process is not compiling, but
work.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("cold_program.py")
NAMES = ("readme", "draw", "predictors", "plain", "three")


def environment(root: Path, cache: Path) -> dict[str, str]:
    """Where a process finds the package, its bytecode and its machine code."""
    given = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return given | {
        "PYTHONPATH": str(root), "SUBSAMPLE_MCMC_CACHE": str(cache),
        "PYTHONPYCACHEPREFIX": str(Path(tempfile.gettempdir()) / "subsample-mcmc-bytecode"),
    }  # fmt: skip


def seconds(root: Path, cache: Path, name: str, constant: float) -> dict[str, float]:
    """What one process says of itself."""
    command = [sys.executable, str(PROGRAM), name, str(constant)]
    told = subprocess.run(
        command, env=environment(root, cache), check=True, capture_output=True, text=True
    )
    return json.loads(told.stdout.splitlines()[-1])


def measured(root: Path, runs: int) -> dict[str, list[dict[str, float]]]:
    """Times by case."""
    found: dict[str, list[dict[str, float]]] = {}

    def note(case, cache, *given):
        found.setdefault(case, []).append(seconds(root, cache, *given))

    for name in NAMES:
        for k in range(runs):
            cache = Path(tempfile.mkdtemp())
            note(f"{name}: empty cache", cache, name, 4.0 + k)
            shutil.rmtree(cache)
    engine = Path(tempfile.mkdtemp())
    command, given = [sys.executable, "-m", "subsample_mcmc", "compile"], environment(root, engine)
    subprocess.run(command, env=given, check=False, capture_output=True)  # older ones have none
    for name in NAMES:
        seconds(root, engine, name, 100.0)
        for k in range(runs):
            note(f"{name}: new model", engine, name, 4.0 + k)
            note(f"{name}: the same in the next process", engine, name, 4.0 + k)
    for k in range(runs):
        for name in ("selector", "kernel", "composition"):
            note(f"three: another {name}", engine, name, 4.0 + k)
    shutil.rmtree(engine)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--before", type=Path)
    given = parser.parse_args()
    now = measured(ROOT, given.runs)
    then = measured(given.before, given.runs) if given.before else {}
    more = f"{'before':>9}{'ratio':>8}" if then else ""
    print(f"{'CPU seconds':45}{'now':>8}{'wall':>8}{'work':>8}{more}")
    for case, times in now.items():
        cpu, wall = (statistics.median(t[f"first {c}"] for t in times) for c in ("cpu", "wall"))
        work = statistics.median(t["again cpu"] for t in times)
        line = f"{case:45}{cpu:8.2f}{wall:8.2f}{work:8.2f}"
        if then:
            old = statistics.median(t["first cpu"] for t in then[case])
            line += f"{old:9.2f}{cpu / old:8.3f}"
        print(line)
    for side, times in (("now", now), ("before", then)):
        every = [t["import cpu"] for case in times.values() for t in case]
        if every:
            print(f"import, {side}: {statistics.median(every):.2f} s CPU")


if __name__ == "__main__":
    main()
