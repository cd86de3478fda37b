"""subsample-mcmc compile: the machine code that all models share, made before it is needed.

Each unit is a short program; what it compiles, other processes find in the cache on disk. A model's
own functions, which are few, are compiled when it is first sampled.
"""

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
import warnings
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import numpy as np

from subsample_mcmc.approx.bins.bins import Bins
from subsample_mcmc.approx.fit.fit import Fit
from subsample_mcmc.approx.fit.laplace import laplace
from subsample_mcmc.approx.taylor.found.derivatives_found import MANY
from subsample_mcmc.approx.taylor.taylor import Taylor
from subsample_mcmc.bandits.identify import identify
from subsample_mcmc.bandits.selectors.halving import SequentialHalving
from subsample_mcmc.bandits.selectors.lilucb import LilUCB
from subsample_mcmc.decisions.choose import choose, draw
from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.racing import Racing
from subsample_mcmc.decisions.rules.austerity import Confidence, TTest
from subsample_mcmc.decisions.rules.betting import Betting
from subsample_mcmc.decisions.rules.normal import Normal
from subsample_mcmc.decisions.rules.serfling import BernsteinSerfling
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.decisions.thinned import Thinned
from subsample_mcmc.kernels.base import Kernel
from subsample_mcmc.kernels.compose import cycle, mixture, repeat, when
from subsample_mcmc.kernels.gibbs import Gibbs
from subsample_mcmc.kernels.langevin import Langevin
from subsample_mcmc.kernels.metropolis import Metropolis
from subsample_mcmc.kernels.partition.gibbs_partition import GibbsPartition
from subsample_mcmc.kernels.proposals.choose import independence, pcn
from subsample_mcmc.kernels.pseudoprior import PseudoPrior
from subsample_mcmc.kernels.sites.interweave import interweave
from subsample_mcmc.kernels.sites.side_by_side import side_by_side
from subsample_mcmc.kernels.slice import Slice
from subsample_mcmc.kernels.spikes import SpikeAndSlab
from subsample_mcmc.kernels.surrogate.transition import SurrogateTransition
from subsample_mcmc.kernels.wanglandau import WangLandau
from subsample_mcmc.models import glm
from subsample_mcmc.numerics.cache import cache_directory, may_write
from subsample_mcmc.numerics.fastmath import exp, log, log1p
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.numerics.special import softplus
from subsample_mcmc.runs.sample import sample
from subsample_mcmc.target.constraints import positive
from subsample_mcmc.target.lookups.checked import first_beyond
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.population import Population, whole
from subsample_mcmc.target.predictors import Predictors

FROM_INPUT = "-"  # in place of a unit's name: names come line by line, results go out alike
DONE = "made:"  # begins the line of a result, before what went wrong
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


def grid(arms: int) -> Model:
    """A model of one discrete block."""
    data = {"y": np.random.default_rng(0).standard_normal(SIZE)}
    place = {"k": 1}
    return Model(lambda s, data, n: -abs(data.y[n] - s.k[0]), data, place, support={"k": arms})


def walks() -> Any:
    """The other blocks of `mixed`."""
    return cycle(Metropolis("mu", selector=Exact()), Metropolis("sigma", selector=Exact()))


def tall() -> tuple[Model, Fit]:
    """A regression, and its fit."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(SIZE), rng.standard_normal((SIZE, 2))])
    model = glm.logistic(x, (rng.random(SIZE) < 0.5).astype(float))
    return model, laplace(model)


def run(model: Model, kernel: Kernel) -> None:
    """A draw or two."""
    sample(model, kernel, draws=2, warmup=2, chains=1, seed=1, audit=0.5)


# Steps of kernels know neither the selector nor the control variate of their decisions.
@unit
def draws() -> None:
    data = {"y": np.random.default_rng(0).standard_normal(SIZE)}
    population = Population(lambda data, arm, n: -abs(data.y[n] - arm), data, arms=3)
    for selector in (Racing(), Exact(), Racing(Betting(spread=5.0))):
        draw(population, selector=selector, seed=1)
    choose([np.zeros(9), np.ones(7)], selector=Racing(Normal(paired=False)), seed=1)


@unit
def Gibbs_and_Metropolis_steps() -> None:
    run(mixed(), Gibbs("k", Exact()) >> walks())


@unit
def sites_that_move_by_their_own_data() -> None:
    data = {"y": np.random.default_rng(0).standard_normal(SIZE), "group": np.arange(SIZE) % 3}
    model = Model(
        lambda s, data, n: -abs(data.y[n] - s.a[data.group[n]]), data,
        {"a": np.zeros(3), "mu": 0.0}, touches={"a": "group"},
        site_prior={"a": lambda s, i: -abs(s.a[i] - s.mu[0])},
    )  # fmt: skip
    moves = Metropolis("a") >> Slice("a") >> Langevin("a") >> Metropolis("mu", proposal=pcn())
    run(model, moves >> interweave("a", "mu"))
    run(model, side_by_side(Metropolis("a"), 1) >> Metropolis("mu"))


@unit
def spikes_and_slabs() -> None:
    def spiked(given: Model) -> Model:
        start = {"gamma": np.ones(3, int), "beta": np.zeros(3)}
        return Model(
            given.predictors, given.data, start, lambda s: -0.5 * (s.gamma * s.beta**2).sum(),
            support={"gamma": 2},
        )  # fmt: skip

    model = spiked(tall()[0])
    run(model, SpikeAndSlab("beta", "gamma", laplace(model, "beta"), selector=Exact()))
    rng = np.random.default_rng(0)  # of so few rows that each decision reads one column
    x, y = rng.standard_normal((60, 3)), (rng.random(60) < 0.5).astype(float)
    model = spiked(glm.logistic(x, y))
    fit = laplace(model, "beta")
    run(model, SpikeAndSlab("beta", "gamma", fit, control=Taylor(fit, order=2)))


@unit
def surrogate_transitions() -> None:
    model = Model(
        lambda s, data, n: -0.5 * (data.y[n] - s.a[0] - s.b[0]) ** 2,
        {"y": np.random.default_rng(0).standard_normal(SIZE)}, {"a": 0.0, "b": 0.0},
        lambda s: -0.5 * (s.a[0] ** 2 + s.b[0] ** 2),
    )  # fmt: skip
    run(model, SurrogateTransition(("a", "b"), laplace(model)))


@unit
def slice_steps() -> None:
    mu, sigma = (Slice(name, selector=Exact()) for name in ("mu", "sigma"))
    run(mixed(), Gibbs("k", Exact()) >> mu >> sigma)


@unit
def compositions() -> None:
    mu, sigma = walks().parts
    some = when(lambda state: state.k[0] >= 0, repeat(mixture((mu, 0.5), (sigma, 0.5)), 2))
    run(mixed(), Gibbs("k", Exact()) >> some)


@unit
def steps_of_a_fit() -> None:
    model, fit = tall()
    for proposal in (pcn(fit), independence(fit)):
        run(model, Metropolis("beta", proposal=proposal, selector=Exact()))


@unit
def Langevin_steps() -> None:
    model, _ = tall()
    run(model, Langevin("beta", batch=32, selector=Exact()))


@unit
def Langevin_steps_with_Taylor() -> None:
    model, fit = tall()
    run(model, Langevin("beta", gradient="control", control=Taylor(fit)))


@unit
def choices_of_models() -> None:
    x = np.linspace(-1.0, 1.0, SIZE)
    y = x + np.random.default_rng(0).standard_normal(SIZE)

    def log_likelihood(state, data, n):
        value = state.theta[0] + state.theta[1] * data.x[n]
        if state.q[0] == 1:
            value += state.theta[2] * data.x[n] ** 2
        return -0.5 * (data.y[n] - value) ** 2

    model = Model(
        log_likelihood, {"x": x, "y": y}, {"q": 0, "theta": np.zeros(3)}, support={"q": 2},
        lengths={"theta": ("q", [2, 3])},
    )  # fmt: skip
    fits = [laplace(model, "theta", given={"q": k}) for k in range(2)]
    moves = Metropolis("theta", proposal=independence(fits), selector=Exact())
    run(model, Gibbs("q", Exact(), pseudo=PseudoPrior(fits)) >> moves >> WangLandau("q"))


@unit
def partitions() -> None:
    places = np.random.default_rng(0).standard_normal(200)
    model = Model(None, {"x": places}, {"y": np.arange(200)}, support={"y": 200})
    for selector in (Exact(), Racing(Normal(paired=False), batch=3)):
        moves = GibbsPartition("y", lambda data, i, j: 1.0 - abs(data.x[i] - data.x[j]),
                               selector=selector)  # fmt: skip
        run(model, moves)


@unit
def checked_look_ups() -> None:  # of users' functions; those of this package are trusted
    first_beyond(lambda values, n: values[n], (np.zeros(3),), (), range(3))


@unit
def best_arms() -> None:
    for strategy in (LilUCB(scale=1.0), SequentialHalving(300)):
        identify(lambda arm, rng: rng.normal() + arm, 3, strategy, seed=1, max_pulls=1_000)


def decisions(*selectors: Selector, arms: int = 3) -> None:
    """Units of decisions without a control variate."""
    for selector in selectors:
        run(grid(arms), Gibbs("k", selector))


@unit
def races() -> None:
    decisions(Racing())


@unit
def races_by_betting() -> None:
    decisions(Racing(Betting(spread=50.0)))


@unit
def races_by_ttest_and_confidence() -> None:
    decisions(Racing(TTest()), Racing(Confidence(spread=50.0)), arms=2)


@unit
def races_by_serfling() -> None:
    decisions(Racing(BernsteinSerfling(spread=50.0)))


@unit
def bandits_as_selectors() -> None:
    decisions(LilUCB(), SequentialHalving(budget=9_000))


@unit
def sites_that_touch_some_data() -> None:
    data = {"y": np.random.default_rng(0).standard_normal(SIZE), "i": np.arange(SIZE) % 2}
    pointers, rows = np.array([0, SIZE // 2, SIZE]), np.argsort(data["i"], kind="stable")
    model = Model(
        lambda state, data, n: -abs(data.y[n] - state.z[data.i[n]]), data, {"z": [0, 1]},
        support={"z": 3}, touches={"z": (pointers, rows)},
    )  # fmt: skip
    for selector in (Racing(), Exact()):
        run(model, Gibbs("z", selector))


def interpolated(selector: Selector) -> None:
    """A decision with Taylor, by interpolation."""
    model = mixed()
    run(model, Gibbs("k", selector, control=Taylor(laplace(model))) >> walks())


@unit
def races_with_interpolated_Taylor() -> None:
    interpolated(Racing())


@unit
def exact_sums_with_interpolated_Taylor() -> None:
    interpolated(Exact())


def differentiated(selector: Selector) -> None:
    """A decision with Taylor of a function that is differentiated as it stands."""
    data = tall()[0].data._asdict()
    model = Model(plain_logistic, data, {"beta": np.zeros(3)})
    run(model, Metropolis("beta", selector=selector, control=Taylor({"beta": np.zeros(3)})))


@unit
def predictors_and_bounds_that_are_found() -> None:
    """What is looked for in many data, of two predictors."""
    rng = np.random.default_rng(0)
    data = {"x": rng.standard_normal((MANY, 3)), "y": rng.standard_normal(MANY)}
    model = Model(plain_location, data, {"beta": np.zeros(3), "log_scale": 0.0})
    both = ("beta", "log_scale")
    run(model, Metropolis(both, control=Taylor(laplace(model))))


def plain_location(state, data, n):
    total = 0.0
    for j in range(3):
        total += data.x[n, j] * state.beta[j]
    z = (data.y[n] - total) * exp(-state.log_scale[0])
    return -state.log_scale[0] - softplus(z) - 0.5 * log1p(z * z)


def plain_logistic(state, data, n):
    total = 0.0
    for j in range(3):
        total += data.x[n, j] * state.beta[j]
    return data.y[n] * total - softplus(total)


@unit
def races_with_differentiated_Taylor() -> None:
    differentiated(Racing())


@unit
def exact_sums_with_differentiated_Taylor() -> None:
    differentiated(Exact())


def of_predictors(selector: Selector) -> None:
    """A decision with Taylor of a regression."""
    model, fit = tall()
    run(model, Metropolis("beta", selector=selector, control=Taylor(fit)))


@unit
def races_with_Taylor() -> None:
    of_predictors(Racing())


@unit
def races_by_betting_with_Taylor() -> None:
    of_predictors(Racing(Betting(), delta=0.01))


@unit
def exact_sums_with_Taylor() -> None:
    of_predictors(Exact())


@unit
def thinned_decisions() -> None:
    of_predictors(Thinned())


@unit
def thinned_draws() -> None:
    x = np.linspace(-1.0, 1.0, SIZE)
    y = x + np.random.default_rng(0).standard_normal(SIZE)
    parts = Predictors(
        lambda state, data, n: state.k[0] + state.mu[0] * data.x[n],
        lambda e, data, n: -0.5 * (data.y[n] - e) ** 2,
        lambda e, data, n: (data.y[n] - e, -1.0, 0.0),
        lambda e, data, n: (1.0, 1.0),
    )
    model = Model(parts, {"x": x, "y": y}, {"k": 0, "mu": 0.0}, support={"k": 2})
    draw = Gibbs("k", Thinned(), control=Taylor({"mu": 0.0}))
    run(model, draw >> Metropolis("mu", selector=Exact()))


@unit
def races_with_Bins() -> None:
    run(mixed(), Gibbs("k", control=Bins()) >> walks())


@unit
def races_with_Bins_of_predictors() -> None:
    model, fit = tall()
    run(model, Metropolis("beta", control=Bins(fit=fit)))


def compile_engine(options: Namespace) -> int:
    """Make all units in child processes; 1 if one of them failed."""
    if options.unit:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of models that nobody wants
            if options.unit != FROM_INPUT:
                UNITS[options.unit]()
            else:
                for line in sys.stdin:  # a unit may have left half a line
                    print(f"\n{attempt(line.rstrip())}", flush=True)
        return 0
    folder = cache_directory()
    if folder is None or not may_write(folder) or DISABLED:
        raise ValueError(
            "there is nowhere to keep machine code, or nothing is compiled: let "
            "SUBSAMPLE_MCMC_CACHE be a folder that can be written to, and NUMBA_DISABLE_JIT unset."
        )
    usual = os.cpu_count() or 1
    jobs = usual if options.jobs is None else whole(options.jobs, "--jobs", "how many, at least 1")
    begun, failed, left = time.monotonic(), 0, queue.SimpleQueue[str]()
    for name in UNITS:
        left.put(name)
    told: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    with Bar(total=len(UNITS), desc="compiling the engine, once per machine", unit="part") as bar:
        working = [
            threading.Thread(target=work_through, args=(left, told), daemon=True)
            for _ in range(min(jobs, len(UNITS)))
        ]
        for one in working:
            one.start()
        for _ in UNITS:
            name, wrong = told.get()
            bar.update(1)
            if wrong:
                failed += 1
                print(f"subsample-mcmc: {name}: {wrong}", file=sys.stderr)
        for one in working:
            one.join()
    seconds = time.monotonic() - begun
    print(f"{len(UNITS) - failed} of {len(UNITS)} parts in {seconds:.0f} s, kept in {folder}")
    return 1 if failed else 0


def attempt(name: str) -> str:
    """Run a unit; what went wrong, in one line, after a mark that nothing else begins with."""
    try:
        UNITS[name]()
    except Exception as error:
        return " ".join(f"{DONE} {type(error).__name__}: {error}".split())
    return DONE


def work_through(left: queue.SimpleQueue, told: queue.SimpleQueue) -> None:
    """Let one process make unit after unit: most of a process of its own is its imports."""
    child = None
    while True:
        try:
            name = left.get_nowait()
        except queue.Empty:
            break
        try:
            child = child or Child()
            wrong = child.make(name)
        except Exception as error:  # there is no room for a process, say
            wrong = f"{type(error).__name__}: {error}"
        told.put((name, wrong))
        if child is not None and child.process.poll() is not None:
            child = None  # it died: the next unit has another one
    if child is not None:
        child.process.communicate()


class Child:
    """A process that makes units."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "subsample_mcmc", "compile", "--unit", FROM_INPUT],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def make(self, name: str) -> str:
        """What went wrong, if it did."""
        ask, answers = self.process.stdin, self.process.stdout
        assert ask is not None
        assert answers is not None
        with contextlib.suppress(BrokenPipeError):
            ask.write(f"{name}\n")
            ask.flush()
        last = "it ended"
        for line in answers:
            if line.startswith(DONE):
                return line[len(DONE) :].strip()
            last = line.strip() or last
        with contextlib.suppress(BrokenPipeError):
            ask.close()
        answers.close()
        self.process.wait()
        return last
