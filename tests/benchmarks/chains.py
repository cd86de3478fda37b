"""What a chain costs: composition, a Potts sweep, threads, starting, storing; PyMC and NumPyro.

    python -m tests.benchmarks.chains            all tables
    python -m tests.benchmarks.chains --only potts peers

PyMC and NumPyro are optional rivals, compared on the model of the draws' benchmark: one Gibbs
update of an indicator with D = 8 Student-t locations, N = 1e5. Times are medians over rounds,
wall-clock (chains run in threads); ratios are between things measured in the same run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.runs.chain import Program, Walker
from tests.benchmarks.report import table

ROUNDS = 7


def seconds(function, rounds=ROUNDS) -> float:
    """Median time of a call, the first one left out."""
    function()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        taken.append(time.perf_counter() - start)
    return median(taken)


def walker(model, kernel) -> Walker:
    program = Program(model, kernel)
    program.compile()
    return Walker(program, np.random.SeedSequence(1))


# --------------------------------------------------------------------------------- composition
def nothing(state, data, n):
    return 0.0 * state.x[0]


@sm.kernel(writes="x")
def tick(rng, state, data):
    state.x[0] += 1.0


def composition() -> list[dict]:
    """Time per kernel step of a cycle of trivial kernels, over one of them alone."""
    model = sm.Model(nothing, {"y": np.zeros(4)}, {"x": 0.0})
    found, steps = [], 100_000
    for parts in (1, 4, 8):
        chain = walker(model, sm.cycle(*[tick] * parts))
        spent = seconds(lambda chain=chain: chain.advance(1, thin=steps)) / steps / parts
        found.append({"kernels in the cycle": parts, "ns per kernel step": spent * 1e9})
    return found


# --------------------------------------------------------------------------------------- Potts
def agree(state, data, n):
    return 0.4 if state.z[data.i[n]] == state.z[data.j[n]] else 0.0


def potts() -> list[dict]:
    """A sweep of 1e4 two-state sites with four neighbours."""
    side = 100
    site = np.arange(side * side).reshape(side, side)
    i = np.concatenate([site.ravel(), site.ravel()])
    j = np.concatenate([np.roll(site, -1, 0).ravel(), np.roll(site, -1, 1).ravel()])
    ends = np.concatenate([i, j])
    order = np.argsort(ends, kind="stable")
    touches = (np.r_[0, np.cumsum(np.bincount(ends))], np.tile(np.arange(len(i)), 2)[order])
    start = np.random.default_rng(1).integers(0, 2, side * side)
    model = sm.Model(
        agree, {"i": i, "j": j}, {"z": start}, support={"z": 2}, touches={"z": touches}
    )
    chain = walker(model, sm.Gibbs("z"))
    spent = seconds(lambda: chain.advance(20)) / 20
    return [{"sites": side * side, "ms per sweep": spent * 1e3, "limit": 1.5}]


# ------------------------------------------------------------------------------------- threads
def student(state, data, n):
    z = (data.y[n] - 0.003 * (state.k[0] - 3.0)) / state.sigma[0]
    return -2.5 * sm.log1p(z * z / 4.0) - sm.log(state.sigma[0])


def prior(state):
    return -state.sigma[0]


def student_model(size, spread=1.0):
    y = np.random.default_rng(1).standard_t(4, size) * spread
    return sm.Model(
        student, {"y": y}, {"k": 3, "sigma": 1.0}, log_prior=prior, support={"k": 8},
        constraints={"sigma": sm.positive},
    )  # fmt: skip


def two_kernels(selector=None):
    return sm.Gibbs("k", selector) >> sm.Metropolis("sigma", scale=0.02, selector=selector)


def threads() -> list[dict]:
    """Two chains on one core and on two."""
    found = []
    for name, selector in (("Exact", sm.Exact()), ("Racing", sm.Racing())):
        model, kernel = student_model(5000), two_kernels(selector)

        def run(cores, model=model, kernel=kernel):
            sm.sample(
                model, kernel, draws=4000, warmup=0, chains=2, seed=1, cores=cores, progress=False
            )

        one, two = seconds(lambda: run(1), 3), seconds(lambda: run(2), 3)
        found.append(
            {"selector": name, "one core, s": one, "two cores, s": two, "ratio": one / two}
        )
    return found


# -------------------------------------------------------------------------------------- storing
def storing() -> list[dict]:
    """The same run with and without a file, conversion to netCDF and reading it back included."""
    found = []
    for size, draws in ((5_000, 10_000), (50_000, 10_000)):
        model, kernel = student_model(size), two_kernels(sm.Exact())

        def run(path, model=model, kernel=kernel, draws=draws):
            sm.sample(
                model, kernel, draws=draws, warmup=0, chains=2, seed=1, store=path, progress=False
            )

        with tempfile.TemporaryDirectory() as folder:
            ratios, plain, added = [], [], []
            run(None)
            for i in range(5):
                begun = time.perf_counter()
                run(None)
                middle = time.perf_counter()
                run(Path(folder) / f"{i}.nc")
                plain.append(middle - begun)
                ratios.append((time.perf_counter() - middle) / plain[-1])
                added.append((ratios[-1] - 1.0) * plain[-1])
        found.append(
            {"N": size, "draws": draws, "without, s": median(plain), "added, s": median(added),
             "with / without": median(ratios), "limit": 1.05}
        )  # fmt: skip
    return found


# ------------------------------------------------------------------------------------- starting
STARTING = """
import sys, time, json
begun = time.perf_counter()
from tests.benchmarks import chains
import subsample_mcmc as sm
from subsample_mcmc.runs.chain import Program
imported = time.perf_counter()
model, kernel = chains.student_model(5000), chains.two_kernels()
def start(model, kernel):
    then = time.perf_counter()
    Program(model, kernel).compile()
    return time.perf_counter() - then
two = start(model, kernel)
third = start(model, kernel >> sm.Metropolis("sigma", scale=0.3, adapt=False))
numbers = start(chains.student_model(9000, 2.0), sm.Gibbs("k", sm.Racing(delta=0.01))
                >> sm.Metropolis("sigma", scale=0.5))
print(json.dumps({"import": imported - begun, "two kernels": two, "a third": third,
                  "other numbers": numbers}))
"""


def starting() -> list[dict]:
    """A two-kernel chain in a fresh process: nothing cached, then everything."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ("cold", "from the cache"):
            done = subprocess.run(
                [sys.executable, "-c", STARTING], check=True, capture_output=True, text=True,
                env=os.environ | {"SUBSAMPLE_MCMC_CACHE": folder},
            )  # fmt: skip
            found.append({"start, s": name} | json.loads(done.stdout.splitlines()[-1]))
    return found


# ---------------------------------------------------------------------------------------- peers
def peers() -> list[dict]:
    """One Gibbs update of an indicator, D = 8, N = 1e5, with and without its rivals' tools."""
    size = 100_000
    model = student_model(size)
    y = np.asarray(model.data.y)
    found = []
    for name, selector in (("Exact", sm.Exact()), ("Racing", sm.Racing())):
        chain = walker(model, sm.Gibbs("k", selector) >> hold)
        spent = seconds(lambda chain=chain: chain.advance(20)) / 20
        found.append({"update by": f"sm.Gibbs, {name}", "ms": spent * 1e3})
    for name, rival in (
        ("PyMC CategoricalGibbsMetropolis", pymc),
        ("NumPyro DiscreteHMCGibbs", numpyro),
    ):
        try:
            found.append({"update by": name, "ms": rival(y) * 1e3})
        except ImportError as error:
            print(f"{name}: {error}", file=sys.stderr)
    for row in found:
        row["times ours, exact"] = row["ms"] / found[0]["ms"]
    return found


@sm.kernel(writes="sigma")
def hold(rng, state, data):
    state.sigma[0] = 1.0


def pymc(y) -> float:
    """The step alone, called as its sampler calls it."""
    import pymc as pm

    with pm.Model():
        k = pm.Categorical("k", np.full(8, 1 / 8))
        pm.StudentT("y", nu=4, mu=0.003 * (k - 3.0), sigma=1.0, observed=y)
        step = pm.CategoricalGibbsMetropolis([k], proposal="proportional")
        point = pm.model.modelcontext(None).initial_point()
    state = [point]

    def update():
        state[0], _ = step.step(state[0])

    return seconds(update)


def numpyro(y) -> float:
    """The Gibbs part: an iteration with a discrete site, less one without."""
    import jax
    import numpyro as npy
    import numpyro.distributions as dist
    from numpyro.infer import HMC, MCMC, DiscreteHMCGibbs

    jax.config.update("jax_enable_x64", True)

    def both(y):
        x = npy.sample("x", dist.Normal(0.0, 1.0))
        k = npy.sample("k", dist.Categorical(probs=np.full(8, 1 / 8)))
        npy.sample("y", dist.StudentT(4.0, 0.003 * (k - 3.0) + 0.0 * x, 1.0), obs=y)

    def alone(y):
        x = npy.sample("x", dist.Normal(0.0, 1.0))
        npy.sample("y", dist.StudentT(4.0, 0.0 * x, 1.0), obs=y)

    def per_iteration(kernel, draws=100):
        chain = MCMC(kernel, num_warmup=1, num_samples=draws, progress_bar=False)
        return seconds(lambda: chain.run(jax.random.PRNGKey(0), y), 3) / draws

    plain = HMC(alone, num_steps=1, adapt_step_size=False)
    inner = HMC(both, num_steps=1, adapt_step_size=False)
    return per_iteration(DiscreteHMCGibbs(inner)) - per_iteration(plain)


TABLES = {
    "composition": composition, "potts": potts, "threads": threads, "storing": storing,
    "starting": starting, "peers": peers,
}  # fmt: skip


def main(given=None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(TABLES), default=list(TABLES))
    for name in parser.parse_args(given).only:
        print(table(name, TABLES[name]()), flush=True)


if __name__ == "__main__":
    main()
