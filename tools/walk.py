"""How many files of the package a step crosses: the functions that run, in order, without the JIT.

    NUMBA_DISABLE_JIT=1 python tools/walk.py [metropolis | gibbs | draw] [--made]

Prints each function when it is first called in some steps (decisions, for draw), with its file, and
how many files that are: steps that the control variate decides, that are raced, and that retreat.
--made: also what makes a step, a kernel's check, build and bind, or all of sm.draw.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.decisions.choose import engine_of
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.runs.chain import Program, Walker
from subsample_mcmc.target.layout import Run

ROOT = Path(sm.__file__).parent
STEPS = 40
RACING = sm.Racing(batch=16)  # few rows are read at a time, where there are few


def crossed(run) -> list[tuple[str, str]]:
    """(file, function) of the package, in the order of their first calls."""
    seen: dict[tuple[str, str], None] = {}

    def note(frame, event, argument):
        if event == "call":
            path = Path(frame.f_code.co_filename)
            if ROOT in path.parents:
                seen.setdefault((path.relative_to(ROOT).as_posix(), frame.f_code.co_qualname))

    with np.errstate(all="ignore"):  # numbers of rows wrap around
        sys.setprofile(note)
        try:
            run()
        finally:
            sys.setprofile(None)
    return list(seen)


def one_step(model, kernel, made: bool):
    """A chain's second step; the first has passed over the data."""
    walker = Walker(Program(model, kernel), np.random.SeedSequence(1))
    walker.advance(1)
    step, tools = walker.main.step.function, walker.main.tools.record

    def make_and_step():
        kernel.check(model)
        run = Run.over(walker.ints, walker.floats, walker.words)
        leaves = {leaf: leaf.build(model) for leaf in kernel.leaves()}
        part = kernel.at_work(model, run, leaves)
        part.step.function(walker.chain, part.tools.record)

    def steps():
        for _ in range(STEPS):
            step(walker.chain, tools)

    return make_and_step if made else steps


def metropolis(made: bool):
    """A Metropolis step of a logistic regression, with sm.Taylor."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(300), rng.standard_normal(300)])
    y = rng.random(300) < 1.0 / (1.0 + np.exp(-x @ [0.3, 0.7]))
    model = sm.models.glm.logistic(x, y)
    fit = sm.laplace(model, progress=False)
    kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), control=sm.Taylor(fit), selector=RACING)
    return one_step(model, kernel, made)


def gibbs(made: bool):
    """A draw of a discrete site by racing."""

    def log_likelihood(state, data, n):
        return -abs(data.y[n] - 0.5 * state.k[0])

    y = np.random.default_rng(0).laplace(1.5, 1.0, 5_000)
    model = sm.Model(log_likelihood, {"y": y}, state={"k": 0}, support={"k": 6})
    return one_step(model, sm.Gibbs("k", RACING), made)


def draw(made: bool):
    """One draw of an arm."""

    def log_factor(data, arm, n):
        return -abs(data.y[n] - data.location[arm])

    y = np.random.default_rng(0).normal(1.0, 1.0, 5_000)
    population = sm.Population(log_factor, {"y": y, "location": np.arange(3.0)}, arms=3)
    if made:
        return lambda: sm.draw(population, size=1, seed=1)
    engine = engine_of(population, sm.Racing())
    results = np.zeros((1, 7), dtype=np.int64)
    where = np.ones(1, dtype=np.uint64), engine.calls, np.zeros((1, 3)), engine.params
    return lambda: engine.loop(*where, engine.idle[0], results, 0, 0, 1)


def main() -> int:
    """Walk, and say where it led."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["metropolis", "gibbs", "draw"])
    parser.add_argument("--made", action="store_true", help="count what makes the step, too")
    given = parser.parse_args()
    if not DISABLED:
        print("set NUMBA_DISABLE_JIT=1: compiled functions cannot be followed", file=sys.stderr)
        return 2
    for name in [given.what] if given.what else ["metropolis", "gibbs", "draw"]:
        found = crossed(globals()[name](given.made))
        print(f"{name}: {len({file for file, _ in found})} files, {len(found)} functions")
        for file, function in found if given.what else ():
            print(f"  {file:40} {function}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
