"""LinGapE as a sampler of log-linear factors: where it wins, where not, and what beats it.

p(arm) is proportional to exp(sum_n x' g_n): a quadratic in the place of the arm. Every datum has a
vector g_n, the same for all arms. LinGapE reads single rewards x' g_n. If g_n itself can be read,
the closed form is better: sum the vectors once (N d), then an exact draw takes K d; or race on a
shared subsample of vectors. One vector says of all arms what one reward says of one direction, so
LinGapE is for factors that are dear and show only one number each.
"""

import time
from typing import NamedTuple

import numpy as np
from paper import share, size, table
from scipy.stats import beta, norm

import subsample_mcmc as sm

DELTA, FIRST = 0.05, 64
GROUPS = 10  # of arms, equally probable, over which the total variation is taken


class Case(NamedTuple):
    """spread: standard deviation of a vector's coordinates, times sqrt(N)."""

    name: str
    arms: int
    rows: int
    spread: float
    draws: int


class Way(NamedTuple):
    """How one way to draw fared."""

    name: str
    arms: np.ndarray
    read: np.ndarray  # rewards, or vectors, of each draw
    seconds: float  # a draw


def reward(data, arm, n):
    """x' g_n."""
    return (
        data.x[arm, 0] * data.g[n, 0]
        + data.x[arm, 1] * data.g[n, 1]
        + data.x[arm, 2] * data.g[n, 2]
    )


def made(case: Case, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of arms and vectors of data, whose sum is (0, 2, -6)."""
    rng = np.random.default_rng([seed, case.arms])
    place = np.linspace(-1.0, 1.0, case.arms)
    vectors = rng.standard_normal((case.rows, 3)) * case.spread / case.rows**0.5
    vectors += np.array([0.0, 2.0, -6.0]) / case.rows - vectors.mean(axis=0)
    return np.column_stack([np.ones(case.arms), place, place**2]), vectors


def gumbels(case: Case, seed: int) -> np.ndarray:
    """Those that sm.draw makes of this seed (no more than 4096 draws)."""
    rng = np.random.default_rng(seed)
    rng.integers(2**64, size=1, dtype=np.uint64)
    return -np.log(rng.standard_exponential((case.draws, case.arms)))


# ------------------------------------------------------------------------------ the closed forms
def summed(x, vectors, noise) -> Way:
    """Sum the vectors once; every draw is exact."""
    began = time.perf_counter()
    means = x @ vectors.sum(axis=0)
    arms = np.array([np.argmax(means + row) for row in noise])
    each = (time.perf_counter() - began) / len(noise)
    return Way(
        "sums of vectors, once for all draws",
        arms,
        np.full(len(noise), len(vectors) / len(noise)),
        each,
    )


def raced(x, vectors, noise, rng) -> Way:
    """Race on a shared subsample of vectors: all rivals of the leader, by a normal bound."""
    began, read, arms = time.perf_counter(), [], []
    rows = len(vectors)
    looks = int(np.ceil(np.log2(rows / FIRST))) + 1
    wide = norm.isf(DELTA / (looks * (len(x) - 1)))
    for row in noise:
        many = FIRST
        while True:
            seen = vectors[rng.choice(rows, many, replace=False)] if many < rows else vectors
            value = rows * (x @ seen.mean(axis=0)) + row
            best = int(np.argmax(value))
            apart = x[best] - x
            length = np.sqrt(np.einsum("kd,de,ke->k", apart, np.cov(seen.T), apart).clip(0.0))
            radius = wide * length * rows * np.sqrt((1.0 / many) * (1.0 - many / rows))
            if many == rows or np.sum(value[best] - value < radius) == 0:
                break
            many = min(2 * many, rows)
        read.append(many)
        arms.append(best)
    each = (time.perf_counter() - began) / len(noise)
    return Way("a race on shared vectors", np.array(arms), np.array(read), each)


# ------------------------------------------------------------------------------------ comparison
def selected(case, population, name, selector, seed, draws) -> Way:
    """A selector of sm.draw, compiled before it is timed."""
    sm.draw(population, 1, selector, seed, progress=False)
    began = time.perf_counter()
    found = sm.draw(population, draws, selector, seed, progress=False)
    each = (time.perf_counter() - began) / draws
    return Way(name, found.arms, found.pulls, each)


def variation(arms, truth) -> float:
    """Distance between draws and the truth, over groups of neighbouring arms."""
    group = np.minimum((np.cumsum(truth) * GROUPS).astype(int), GROUPS - 1)
    drawn = np.bincount(group[arms], minlength=GROUPS) / len(arms)
    return 0.5 * np.abs(drawn - np.bincount(group, truth, minlength=GROUPS)).sum()


def one(case: Case, chosen, seed: int) -> dict[str, Way]:
    """All ways, under the same Gumbels."""
    x, vectors = made(case, chosen.seed)
    noise = gumbels(case, seed)
    population = sm.Population(reward, {"g": vectors, "x": x}, case.arms, case.rows)
    scale = float(np.linalg.norm(x, axis=1).max()) * case.spread / case.rows**0.5
    length = 1.1 * float(np.linalg.norm(vectors.mean(axis=0)))
    # With this ridge the bound pays as much for it as for a standard deviation of noise.
    linear = sm.LinGapE(x, DELTA, noise=scale, norm=length, ridge=(scale / length) ** 2)
    closed = summed(x, vectors, noise)
    few = min(case.draws, max(3, int(1e9 / (case.arms * case.rows))))
    ways = [
        selected(case, population, "Exact", sm.Exact(), seed, few),
        selected(case, population, "Racing", sm.Racing(), seed, case.draws),
        selected(case, population, "LinGapE", linear, seed, case.draws),
        closed,
        raced(x, vectors, noise, np.random.default_rng(seed)),
    ]
    log_p = x @ vectors.sum(axis=0)
    truth = np.exp(log_p - log_p.max())
    truth /= truth.sum()
    rows = []
    for way in ways:
        wrong, count = int(np.sum(way.arms != closed.arms[: len(way.arms)])), len(way.arms)
        apart = f"{variation(way.arms, truth):.3f}" if count == case.draws else "-"
        rows.append([way.name, count, rate(wrong, count), apart, f"{way.read.mean():,.0f}",
                     f"{np.median(way.read):,.0f}", f"{1e6 * way.seconds:,.0f}"])  # fmt: skip
    columns = ["way", "draws", "wrong", "total variation", "read a draw", "median", "us a draw"]
    told = f"{case.arms:,} arms, {case.rows:,} data, N v = {case.spread**2:g}"
    table(columns, rows, f"{case.name}: {told}")
    return {way.name: way for way in ways}


def rate(wrong: int, count: int) -> str:
    """A share and its Clopper-Pearson interval."""
    low = beta.ppf(0.025, wrong, count - wrong + 1) if wrong else 0.0
    high = beta.ppf(0.975, wrong + 1, count - wrong) if wrong < count else 1.0
    return share((wrong / count, low, high))


def compare(chosen, claims) -> None:
    """Three cases, from the one that suits LinGapE to one that does not."""
    print(
        "\nAs a sampler. Wrong: another arm than the exact one under the same Gumbels; total "
        f"variation\nover {GROUPS} groups of arms, and an exact sample is not at zero, either. "
        "Read: rewards;\nvectors in the last two rows, which say more than a reward each."
    )
    draws = size(chosen, 50, 300, 2000)
    many, rows = size(chosen, (1000, 10_000), (5_000, 20_000), (10_000, 50_000))
    suits = one(Case("Many arms, tiny N v", many, rows, 0.0003, draws), chosen, 5)
    middle = one(Case("Many arms, small N v", many, rows, 0.02, draws), chosen, 6)
    not_so = one(Case("Few arms, large N v", 20, rows, 1.0, draws), chosen, 7)
    print(
        "\nA draw whose two best arms nearly tie is decided by LinGapE as Exact does, all arms "
        "summed:\nrare, but such draws make up its mean. Racing then sums the two arms alone.\n"
        "Where a datum shows its whole vector the closed form is better: one vector says of all\n"
        "arms what one reward says of one direction, the sums serve all draws, and they are exact."
    )
    ours, theirs = suits["LinGapE"].read, suits["Racing"].read
    claims.add(
        "(ours, no claim of the paper) many arms, tiny N v: LinGapE reads less than Racing",
        f"{ours.mean():,.0f} rewards a draw, Racing {theirs.mean():,.0f}",
        bool(ours.mean() < theirs.mean()),
    )
    ours, theirs = not_so["LinGapE"].read, not_so["Racing"].read
    claims.add(
        "(ours, no claim of the paper) few arms, large N v: no gain, within a tenth of Racing",
        f"{ours.mean():,.0f} rewards a draw, Racing {theirs.mean():,.0f}",
        bool(ours.mean() > 0.9 * theirs.mean()),
    )
    ours, theirs = middle["LinGapE"].read, middle["Racing"].read
    claims.add(
        "(ours, no claim of the paper) many arms, small N v: less in half of all draws",
        f"median {np.median(ours):,.0f}, Racing {np.median(theirs):,.0f}; mean {ours.mean():,.0f}, "
        f"Racing {theirs.mean():,.0f}",
        bool(np.median(ours) < np.median(theirs)),
    )
