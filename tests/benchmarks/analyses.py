"""Three of examples/analyses beside NumPyro's and PyMC's NUTS: the same posterior, and how long.

    python -m tests.benchmarks.analyses --numpyro PYTHON [--pymc PYTHON] [--small]

The models have the same priors. Ours is what the example does, `sm.sample(model)` with its pilots;
CPU seconds are those of sampling, and of compiling for NUTS; lines are those of the model and the
call, without data and tables. --small: the data of tests/test_analyses.py, which has the means
and standard deviations that NumPyro found in it.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks import machine  # first: it limits the threads of numpy

# isort: split
import arviz
import numpy as np

from examples.analyses import ab_test, election, ranking
from tests.benchmarks.nuts import nuts
from tests.benchmarks.report import table

AB_TEST = """
cell, changed, visitors, buyers = (jnp.asarray(found[k]) for k in
                                   ("cell", "changed", "visitors", "buyers"))
def model():
    usual_mean = numpyro.sample("usual_mean", dist.Normal(0.0, 3.0))
    lift_mean = numpyro.sample("lift_mean", dist.Normal(0.0, 1.0))
    usual_sd = numpyro.sample("usual_sd", dist.Exponential(1.0))
    lift_sd = numpyro.sample("lift_sd", dist.Exponential(1.0))
    u = numpyro.sample("u", dist.Normal(0.0, 1.0).expand([given[0]]))
    v = numpyro.sample("v", dist.Normal(0.0, 1.0).expand([given[0]]))
    usual = numpyro.deterministic("usual", usual_mean + usual_sd * u)
    lift = numpyro.deterministic("lift", lift_mean + lift_sd * v)
    numpyro.sample("y", dist.BinomialLogits(usual[cell] + changed * lift[cell], visitors),
                   obs=buyers)
"""
RANKING = """
winner, loser = jnp.asarray(found["winner"]), jnp.asarray(found["loser"])
def model():
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([given[0]]))
    skill = numpyro.deterministic("skill", tau * z)
    numpyro.factor("y", jnp.sum(jax.nn.log_sigmoid(skill[winner] - skill[loser])))
"""
ELECTION = """
state, pollster, asked, favour = (jnp.asarray(found[k]) for k in
                                  ("state", "pollster", "asked", "favour"))
def model():
    mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
    between = numpyro.sample("between", dist.Exponential(1.0))
    bias = numpyro.sample("bias", dist.Exponential(5.0))
    u = numpyro.sample("u", dist.Normal(0.0, 1.0).expand([given[0]]))
    v = numpyro.sample("v", dist.Normal(0.0, 1.0).expand([given[1]]))
    support = numpyro.deterministic("support", mean + between * u)
    house = numpyro.deterministic("house", bias * v)
    numpyro.sample("y", dist.BinomialLogits(support[state] + house[pollster], asked), obs=favour)
"""
PYMC_AB_TEST = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np, pymc as pm
found, draws, cells = np.load(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
cell, changed, visitors, buyers = (found[k] for k in ("cell", "changed", "visitors", "buyers"))
begun = time.process_time()
with pm.Model():
    usual_mean, lift_mean = pm.Normal("usual_mean", 0.0, 3.0), pm.Normal("lift_mean", 0.0, 1.0)
    usual_sd, lift_sd = pm.Exponential("usual_sd", 1.0), pm.Exponential("lift_sd", 1.0)
    u, v = pm.Normal("u", shape=cells), pm.Normal("v", shape=cells)
    usual = usual_mean + usual_sd * u
    lift = pm.Deterministic("lift", lift_mean + lift_sd * v)
    pm.Binomial("y", visitors, logit_p=usual[cell] + changed * lift[cell], observed=buyers)
    run = pm.sample(draws, tune=draws, chains=1, cores=1, random_seed=1, progressbar=False)
names = ("usual_mean", "lift_mean", "usual_sd", "lift_sd", "lift")
np.savez(sys.argv[1] + ".out.npz", **{k: run.posterior[k].values[0] for k in names})
print(json.dumps({"seconds": time.process_time() - begun}))
"""


def codes(frame) -> dict[str, np.ndarray]:
    """Columns as arrays, categories as their codes."""
    return {
        name: np.asarray(c.cat.codes, dtype=np.int64) if c.dtype == "category" else np.asarray(c)
        for name, c in frame.items()
    }


def pymc(python: str, source: str, arrays, *numbers: int):
    """(draws by name, CPU seconds) of PyMC in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "data.npz")
        np.savez(place, **arrays)
        command = [python, "-W", "ignore", "-c", source, place, *map(str, numbers)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds = json.loads(done.stdout.strip().splitlines()[-1])["seconds"]
        return dict(np.load(place + ".out.npz")), seconds


def row(who: str, name: str, draws: np.ndarray, seconds: float, lines: int) -> dict:
    """One line: draws (chains, draws) of a quantity."""
    ess = float(arviz.ess(draws))
    return {
        "who": who, "quantity": name, "mean": float(draws.mean()), "sd": float(draws.std()),
        "ESS": ess, "CPU s": seconds, "ESS/s": ess / seconds, "lines": lines,
    }  # fmt: skip


def lines_of(text: str) -> int:
    return sum(1 for line in text.splitlines() if line.strip())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--numpyro", help="a Python that has NumPyro")
    parser.add_argument("--pymc", help="a Python that has PyMC")
    parser.add_argument("--small", action="store_true", help="the data of the tests")
    parser.add_argument("--draws", type=int, default=2_000)
    given = parser.parse_args()
    machine.pin()
    sizes = ((200,), (60, 6_000), (400, 20, 10)) if given.small else ((), (), ())
    cases = (
        (ab_test, ab_test.visits(*sizes[0]), AB_TEST, ("cell",), 36,
         ("usual_mean", "lift_mean", "usual_sd", "lift_sd")),
        (ranking, ranking.matches(*sizes[1]), RANKING, ("winner",), 20, ("tau",)),
        (election, election.polls(*sizes[2]), ELECTION, ("state", "pollster"), 33,
         ("mean", "between", "bias")),
    )  # fmt: skip
    for module, frame, source, groups, lines, names in cases:
        rows = []
        begun = time.process_time()
        trace = module.analysis(frame, draws=given.draws)[0]
        spent = time.process_time() - begun
        rows += [row("ours", n, np.asarray(trace.draws[n]), spent, lines) for n in names]
        counts = [frame[g].nunique() for g in groups]
        if given.numpyro:
            found, spent = nuts(given.numpyro, source, codes(frame), names, given.draws, *counts)
            rows += [row("NumPyro", n, found[n][None], spent, lines_of(source) + 3) for n in names]
        if given.pymc and module is ab_test:
            found, spent = pymc(given.pymc, PYMC_AB_TEST, codes(frame), given.draws, *counts)
            own = lines_of(PYMC_AB_TEST) - 6
            rows += [row("PyMC", n, found[n][None], spent, own) for n in names]
        print(table(f"{module.__name__}, {len(frame):,} rows", rows), flush=True)


if __name__ == "__main__":
    sys.exit(main())
