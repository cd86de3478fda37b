"""The cells of examples/synthetic.py: populations with a known p(X), selectors, measured errors.

A cell is one population, one selector and one delta. Its error is the share of draws whose arm
differs from the exact one under the same Gumbels, which is what delta promises to bound.
"""

import signal
import time
import zlib
from typing import NamedTuple

import numpy as np
from scipy import stats

import subsample_mcmc as sm

NORMAL, EBS, LIL, BETTING = "Racing-Normal", "Racing-EBS", "lil'UCB", "Racing-Betting"
GUARDED = "Racing-Normal guarded"  # ours: Normal with the skewness guard the paper does not have

# The paper's three distributions, and the three of our own page.
SAMPLERS = {
    "Normal": lambda rng, shape: rng.standard_normal(shape),
    "Uniform": lambda rng, shape: rng.random(shape),
    "LogNormal": lambda rng, shape: rng.lognormal(0.0, 2.0, shape),
    "skewed LogNormal(0,1)": lambda rng, shape: rng.lognormal(0.0, 1.0, shape),
    "skewed LogNormal(0,2)": lambda rng, shape: rng.lognormal(0.0, 2.0, shape),
    "skewed Gamma(.15)": lambda rng, shape: rng.standard_gamma(0.15, shape),
}
DISTRIBUTIONS = [name for name in SAMPLERS if not name.startswith("skewed")]
SKEWED = [name for name in SAMPLERS if name.startswith("skewed")]
SIGMAS = (0.1, 1e-4, 1e-5)
SKEWED_SIGMAS = (0.1, 1e-3)
DELTAS = (0.001, 0.003, 0.01, 0.03, 0.05, 0.1)
ARMS = (2, 10, 100)


class Cell(NamedTuple):
    """What identifies a row of the table; `variance` is that of a race's radius."""

    D: int
    distribution: str
    sigma: float
    selector: str
    variance: str  # paired, marginal, or none (the selector has no choice)
    delta: float


class Row(NamedTuple):
    """A cell and what was measured in it."""

    D: int
    distribution: str
    sigma: float
    selector: str
    variance: str
    delta: float
    draws: int
    errors: int
    error: float
    low: float  # 95% Clopper-Pearson interval of the error
    high: float
    share_read: float
    us_per_draw: float
    regret_mean: float  # nats lost by a wrong arm: mean and largest over the wrong draws
    regret_max: float
    stopped_by: str  # interval, draws, or time


class Settings(NamedTuple):
    """What a whole run shares; two runs can be merged only if these agree."""

    size: int
    most_draws: int
    seed: int


class World(NamedTuple):
    """A population, its exact totals, and the widths of its rewards."""

    population: sm.Population
    totals: np.ndarray
    widths: np.ndarray  # per arm
    width: float  # of one interval that holds all arms


def cells(deltas=DELTAS) -> list[Cell]:
    """Every cell, cheap ones first: the time they leave goes to the dear ones."""
    made = []
    for sigma in sorted({*SIGMAS, *SKEWED_SIGMAS}):
        for D in ARMS:
            for name in DISTRIBUTIONS if sigma in SIGMAS else ():
                kinds = [(NORMAL, "paired"), (EBS, "paired"), (LIL, "none"), (BETTING, "paired")]
                if D == 10:  # the paper's Figure 5
                    kinds += [(NORMAL, "marginal"), (EBS, "marginal")]
                made += [Cell(D, name, sigma, *kind, d) for kind in kinds for d in deltas]
            for name in SKEWED if D == 2 and sigma in SKEWED_SIGMAS else ():
                for selector in (NORMAL, GUARDED, BETTING):
                    made += [Cell(D, name, sigma, selector, "paired", d) for d in deltas]
    return made


# -------------------------------------------------------------------------------- populations
def log_factor(data, arm, n):
    return data.l[arm, n]


def probabilities(D: int) -> np.ndarray:
    """p(X): .7 and .3, or a geometric sequence whose ends have the ratio of .74^9."""
    if D == 2:
        return np.array([0.7, 0.3])
    weights = 0.74 ** np.linspace(0.0, 9.0, D)
    return weights / weights.sum()


def standardised(D, distribution, settings) -> np.ndarray:
    """(D, N) rewards with mean 0 and population variance 1 in every arm, exactly."""
    name = zlib.crc32(distribution.encode())
    rng = np.random.default_rng(np.random.SeedSequence([settings.seed, D, name]))
    z = SAMPLERS[distribution](rng, (D, settings.size))
    for arm in z:  # arm by arm: with 100 arms whole-array temporaries are 80 MB each
        arm -= arm.mean()
        arm /= np.sqrt(np.mean(arm * arm))
        arm -= arm.mean()
    if distribution in SKEWED:  # differences of two such arms would be symmetric again
        z[1] = 0.0
    return z


def world_of(cell: Cell, settings: Settings) -> World:
    """The population of a cell: total of arm i = log p_i, variance of its rewards = sigma^2."""
    rewards = cell.sigma * standardised(cell.D, cell.distribution, settings)
    rewards += np.log(probabilities(cell.D))[:, None] / settings.size
    population = sm.Population(log_factor, {"l": rewards}, arms=cell.D, size=settings.size)
    widths = np.ptp(rewards, axis=1)
    return World(population, rewards.sum(axis=1), widths, float(np.ptp(rewards)))


def selector_of(cell: Cell, world: World):
    """The selectors of the paper's section 5.1, and ours.

    The retreat is not in the paper and never changes an arm wrongly, so it is off: what is
    measured here is the race.
    """
    paired = cell.variance == "paired"
    if cell.selector == NORMAL:
        rule = sm.Normal(paired=paired, guard=False)
        return sm.Racing(rule, delta=cell.delta, batch=50, growth=2.0, retreat=False)
    if cell.selector == EBS:
        rule = sm.BernsteinSerfling(spread=world.widths, paired=paired)
        return sm.Racing(rule, delta=cell.delta, batch=2, growth=2.0, retreat=False)
    if cell.selector == LIL:
        return sm.LilUCB(delta=cell.delta, variant="heuristic", scale=float(world.widths.max()) / 2)
    if cell.selector == GUARDED:
        return sm.Racing(sm.Normal(), delta=cell.delta, batch=50, retreat=False)
    return sm.Racing(sm.Betting(spread=world.width), delta=cell.delta, retreat=False)


# ---------------------------------------------------------------------------------- measuring
def exact_scores(totals, draws: int, seed) -> np.ndarray:
    """(draws, D) totals plus the Gumbels of sm.draw(seed=seed), whose argmax is the exact arm.

    sm.draw(population, draws, sm.Exact(), seed) finds the same arms by streaming D N rewards for
    every draw; here the totals never change.
    """
    generator = np.random.default_rng(seed)
    generator.integers(2**64, size=1, dtype=np.uint64)  # sm.draw starts its rows with this
    return totals - np.log(generator.standard_exponential((draws, len(totals))))


def check_exact(settings: Settings, draws: int = 8) -> None:
    """Raise unless `exact_scores` agrees with sm.Exact on a few draws."""
    for D in (2, 10):
        world = world_of(Cell(D, "Normal", 0.1, NORMAL, "paired", 0.1), settings)
        streamed = sm.draw(world.population, draws, sm.Exact(), seed=settings.seed).arms
        scores = exact_scores(world.totals, draws, settings.seed)
        if not np.array_equal(streamed, scores.argmax(axis=1)):
            raise AssertionError(f"D={D}: sm.Exact chose {streamed}, the totals {scores.argmax(1)}")


def interval(errors: int, draws: int) -> tuple[float, float]:
    """95% Clopper-Pearson interval."""
    low = stats.beta.ppf(0.025, errors, draws - errors + 1) if errors else 0.0
    high = stats.beta.isf(0.025, errors + 1, draws - errors) if errors < draws else 1.0
    return float(low), float(high)


def measure(cell: Cell, world: World, settings: Settings, limit: float, stopped) -> Row | None:
    """Draw in growing portions until the error is known well enough; None if interrupted."""
    selector = selector_of(cell, world)
    sm.draw(world.population, 1, selector, seed=settings.seed)  # compiles outside the clock
    name = zlib.crc32(repr(cell).encode())
    draws = errors = portions = pulls = 0
    seconds, portion, lost = 0.0, 4, np.zeros(0)
    while True:
        if stopped():
            return None
        seed = np.random.SeedSequence([settings.seed, name, portions])
        then = time.perf_counter()
        made = sm.draw(world.population, portion, selector, seed, progress=False)
        seconds += time.perf_counter() - then
        scores = exact_scores(world.totals, portion, seed)
        wrong = np.flatnonzero(made.arms != scores.argmax(axis=1))
        lost = np.append(lost, scores[wrong].max(axis=1) - scores[wrong, made.arms[wrong]])
        draws, portions = draws + portion, portions + 1
        errors, pulls = errors + len(wrong), pulls + int(made.pulls.sum())
        low, high = interval(errors, draws)
        if high - low < cell.delta / 3:
            why = "interval"
        elif draws >= settings.most_draws:
            why = "draws"
        elif seconds >= limit:
            why = "time"
        else:
            # Twice as many, but no portion of more than a second: Ctrl-C is looked at between.
            affordable = int(min(limit - seconds, 1.0) * draws / seconds)
            portion = max(min(draws, settings.most_draws - draws, affordable), 1)
            continue
        return Row(
            *cell, draws, errors, errors / draws, low, high, pulls / draws / made.everything,
            1e6 * seconds / draws, float(lost.mean()) if errors else np.nan,
            float(lost.max()) if errors else np.nan, why,
        )  # fmt: skip


# ------------------------------------------------------------------------------------ workers
_worker: dict = {}


def start_worker(stop) -> None:
    """A worker leaves Ctrl-C to the parent, which sets `stop`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _worker["stop"] = stop


def work(cell: Cell, settings: Settings, limit: float) -> Row | None:
    """Measure one cell; neighbouring cells share a population, which is kept."""
    key = (cell.D, cell.distribution, cell.sigma)
    if _worker.get("key") != key:
        _worker.pop("world", None)  # free one before making the next
        _worker["world"], _worker["key"] = world_of(cell, settings), key
    return measure(cell, _worker["world"], settings, limit, _worker["stop"].is_set)
