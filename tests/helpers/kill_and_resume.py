"""Kills stored runs at random moments, resumes them, and compares every bit.

    python -m tests.helpers.kill_and_resume [--rounds 20] [--seed 0]

Each round starts a run of four chains in a process of its own and kills that (SIGKILL) as it
begins, in warm-up, while it draws, or as it turns its journal into netCDF; a fresh process resumes
it, and may be killed too. In the end draws, statistics and checkpoints must equal those of a run
that was never stopped, and nothing else may lie beside the file.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.errors import StoreError
from subsample_mcmc.runs import parallel
from subsample_mcmc.runs.store import netcdf
from tests.helpers import runs

ROOT = Path(__file__).resolve().parents[2]
SIZES = {"draws": 2000, "warmup": 30_000, "thin": 40, "chains": 4, "seed": 7, "audit": 0.01}
# Where to kill, and within how many seconds from there.
PHASES = {"begin": 0.5, "warming": 0.6, "drawing": 1.2, "converting": 1.5}
MOST = 4  # kills in a round


# ------------------------------------------------------------------------------------ the victim
def tell(phase: str) -> None:
    print(phase, flush=True)


def victim(path: Path, slow: bool) -> None:
    """Start the run, or go on with it; say where it is."""
    parallel.TURN_SECONDS = 0.15  # many frames
    hand_on, write = parallel.Team.hand_on, netcdf.write
    told = set()

    def telling(self, member, walker):
        phase = "drawing" if walker.drawn else "warming"
        if phase not in told:
            told.add(phase)
            tell(phase)
        hand_on(self, member, walker)

    def slowly(create):
        def created(*given):
            time.sleep(0.04)
            return create(*given)

        return created

    def converting(made, run):
        tell("converting")
        write(made, run)
        time.sleep(0.3 if slow else 0.0)

    parallel.Team.hand_on, netcdf.write = telling, converting
    if slow:
        netcdf._create = slowly(netcdf._create)
    tell("begin")
    # A kill may come before the header is whole: there is nothing to resume then.
    if path.exists():
        try:
            sm.load(path)
        except StoreError as error:
            if "Delete it and sample again" not in str(error):
                raise
            path.unlink()
            tell("nothing was stored")
    if path.exists():
        sm.resume(path, runs.model(), runs.kernel(), progress=False)
    else:
        sm.sample(runs.model(), runs.kernel(), store=path, progress=False, **SIZES)
    tell("complete")


# ------------------------------------------------------------------------------------ the killer
def attempt(path: Path, phase: str | None, delay: float) -> str:
    """One process, killed some time after it reached a phase; how far it got."""
    command = [sys.executable, "-m", "tests.helpers.kill_and_resume", "--victim", str(path)]
    if phase == "converting":
        command.append("--slow")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        reached = ""
        assert process.stdout is not None
        for line in process.stdout:
            reached = line.strip()
            if reached == phase:
                try:
                    process.wait(delay)
                except subprocess.TimeoutExpired:
                    process.kill()
                break
        rest = process.stdout.read().split("\n")
        code = process.wait()
    reached = [reached, *filter(None, rest)][-1]
    assert code in (0, -9), f"the run ended with code {code} after {reached}"
    return reached


def one_round(rng: np.random.Generator, first: str, whole: sm.Trace) -> list[str]:
    """Kill and resume until the run is complete; where it was killed."""
    killed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path, phase = Path(folder) / "run.nc", first
        while True:
            delay = rng.uniform(0.0, PHASES.get(phase, 0.0))
            reached = attempt(path, phase, delay)
            if reached == "complete":
                break
            killed.append(reached)
            again = len(killed) < MOST and rng.random() < 0.6
            phase = str(rng.choice(list(PHASES))) if again else ""
        found = sm.load(path)
        assert runs.same(found, whole), "draws or statistics differ"
        assert runs.same_states(found, whole), "checkpoints differ"
        left = sorted(p.name for p in path.parent.iterdir())
        assert left == ["run.nc"], f"left behind after kills {killed}: {left}"
        with path.open("rb") as file:
            assert file.read(4) == b"\x89HDF", "the run is not netCDF"
    return killed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--victim", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--slow", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.victim:
        victim(given.victim, given.slow)
        return
    rng = np.random.default_rng(given.seed)
    whole = sm.sample(runs.model(), runs.kernel(), progress=False, **SIZES)
    phases = list(PHASES)[::-1]
    for number in range(given.rounds):
        killed = one_round(rng, phases[number % len(phases)], whole)
        print(f"round {number}: killed {', '.join(killed) or 'nowhere'}; equal", flush=True)
    print(f"{given.rounds} rounds: all equal")


if __name__ == "__main__":
    main()
