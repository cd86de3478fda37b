"""subsample-mcmc compile: the machine code that all models share, made before it is needed.

Each unit is a short program in a process of its own; what it compiles, the next process finds in
the cache on disk. A model's own functions, which are few, are compiled when it is first sampled.
"""

import os
import subprocess
import sys
import time
import warnings
from argparse import Namespace
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np

from subsample_mcmc.approx.bins.bins import Bins
from subsample_mcmc.approx.fit.fit import Fit
from subsample_mcmc.approx.fit.laplace import laplace
from subsample_mcmc.approx.taylor.taylor import Taylor
from subsample_mcmc.decisions.choose import choose, draw
from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.racing import Racing
from subsample_mcmc.decisions.rules.betting import Betting
from subsample_mcmc.decisions.rules.normal import Normal
from subsample_mcmc.kernels.base import Kernel
from subsample_mcmc.kernels.compose import mixture, repeat, when
from subsample_mcmc.kernels.gibbs import Gibbs
from subsample_mcmc.kernels.langevin import Langevin
from subsample_mcmc.kernels.metropolis import Metropolis
from subsample_mcmc.kernels.proposals import pcn
from subsample_mcmc.kernels.slice import Slice
from subsample_mcmc.models import glm
from subsample_mcmc.numerics.cache import cache_directory
from subsample_mcmc.numerics.fastmath import log
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.runs.sample import sample
from subsample_mcmc.target.constraints import positive
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.population import Population

SIZE = 3_000  # data: enough that no kernel sums them all because they are few
UNITS: dict[str, Callable[[], None]] = {}


def unit(make: Callable[[], None]) -> Callable[[], None]:
    """Make a function one of the units."""
    UNITS[make.__name__.replace("_", " ")] = make
    return make


def log_likelihood(state, data, n):
    z = (data.y[n] - 0.1 * state.k[0] - state.mu[0]) / state.sigma[0]
    return -0.5 * z * z - log(state.sigma[0])


def log_prior(state):
    return -0.5 * state.mu[0] ** 2 - state.sigma[0]


def mixed() -> Model:
    """A model with a discrete, a free and a positive block."""
    return Model(
        log_likelihood, {"y": np.random.default_rng(0).standard_normal(SIZE)},
        {"k": 1, "mu": 0.0, "sigma": 1.0}, log_prior, support={"k": 12},
        constraints={"sigma": positive},
    )  # fmt: skip


def tall() -> tuple[Model, Fit]:
    """A regression, and its fit."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(SIZE), rng.standard_normal((SIZE, 2))])
    model = glm.logistic(x, (rng.random(SIZE) < 0.5).astype(float))
    return model, laplace(model)


def run(model: Model, kernel: Kernel) -> None:
    """A draw or two."""
    sample(model, kernel, draws=2, warmup=2, chains=1, seed=1, audit=0.5)


@unit
def draws() -> None:
    data = {"y": np.random.default_rng(0).standard_normal(SIZE)}
    population = Population(lambda data, arm, n: -abs(data.y[n] - arm), data, arms=3)
    for selector in (Racing(), Exact(), Racing(Betting(spread=5.0))):
        draw(population, selector=selector, seed=1)
    choose([np.zeros(9), np.ones(7)], selector=Racing(Normal(paired=False)), seed=1)


@unit
def Gibbs_and_Metropolis() -> None:
    run(mixed(), Gibbs("k") >> Metropolis("mu") >> Metropolis("sigma"))


@unit
def exact_Gibbs_and_Metropolis() -> None:
    mu, sigma = (Metropolis(name, selector=Exact()) for name in ("mu", "sigma"))
    run(mixed(), Gibbs("k", Exact()) >> mu >> sigma)


@unit
def slices() -> None:
    run(mixed(), Gibbs("k") >> Slice("mu") >> Slice("sigma", selector=Exact()))


@unit
def compositions() -> None:
    walks = mixture((Metropolis("mu"), 0.5), (Metropolis("sigma"), 0.5))
    some = when(lambda state: state.k[0] >= 0, repeat(walks, 2))
    run(mixed(), Gibbs("k") >> some)


@unit
def Gibbs_with_Taylor() -> None:
    model = mixed()
    control = Taylor(laplace(model))
    run(model, Gibbs("k", control=control) >> Metropolis("mu") >> Metropolis("sigma"))


@unit
def Gibbs_with_Bins() -> None:
    walks = Metropolis("mu", control=Bins()) >> Metropolis("sigma")
    run(mixed(), Gibbs("k", control=Bins()) >> walks)


@unit
def Metropolis_with_Taylor() -> None:
    model, fit = tall()
    run(model, Metropolis("beta", control=Taylor(fit)))


@unit
def pCN_with_Taylor() -> None:
    model, fit = tall()
    run(model, Metropolis("beta", proposal=pcn(fit), control=Taylor(fit)))


@unit
def interpolated_Taylor() -> None:
    model = mixed()
    control = Taylor(laplace(model))
    mu, sigma = (Metropolis(name, control=control) for name in ("mu", "sigma"))
    run(model, Gibbs("k") >> mu >> sigma)


@unit
def betting_with_Taylor() -> None:
    model, fit = tall()
    sure = Racing(Betting(), delta=0.01)
    run(model, Metropolis("beta", selector=sure, control=Taylor(fit)))


@unit
def Langevin_steps() -> None:
    model, _ = tall()
    run(model, Langevin("beta", batch=32))


@unit
def Langevin_with_Taylor() -> None:
    model, fit = tall()
    run(model, Langevin("beta", gradient="control", control=Taylor(fit)))


@unit
def slices_with_Taylor() -> None:
    model, fit = tall()
    run(model, Slice("beta", control=Taylor(fit)))


def compile_engine(options: Namespace) -> int:
    """Make all units in child processes; 1 if one of them failed."""
    if options.unit:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of models that nobody wants
            UNITS[options.unit]()
        return 0
    folder = cache_directory()
    if folder is None or DISABLED:
        raise ValueError(
            "there is nowhere to keep machine code, or nothing is compiled: let "
            "SUBSAMPLE_MCMC_CACHE be a folder that can be written to, and NUMBA_DISABLE_JIT unset."
        )
    begun, failed = time.monotonic(), 0
    command = [sys.executable, "-m", "subsample_mcmc", "compile", "--unit"]
    with (
        ThreadPoolExecutor(options.jobs or os.cpu_count() or 1) as pool,
        Bar(total=len(UNITS), desc="compiling the engine, once per machine", unit="part") as bar,
    ):
        made = {pool.submit(quiet, [*command, name]): name for name in UNITS}
        for one in as_completed(made):
            bar.update(1)
            if told := one.result():
                failed += 1
                print(f"subsample-mcmc: {made[one]}: {told}", file=sys.stderr)
    seconds = time.monotonic() - begun
    print(f"{len(UNITS) - failed} of {len(UNITS)} parts in {seconds:.0f} s, kept in {folder}")
    return 1 if failed else 0


def quiet(command: list[str]) -> str:
    """Run a process; the last line of what it complained of, if it failed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["failed"])[-1]
