"""Every selector against Exact under the same Gumbels: what it reads, takes, and gets wrong.

    python -m tests.benchmarks.backends [--draws 2000]     from the top of the checkout, by hand

The table of docs/benchmarks.md, 'Selectors'. Three cases: ten arms far apart; twenty arms at the
scale of a posterior whose control variate leaves N v = .01; a thousand arms in order, whose totals
are smooth and linear in known features (N v = .0004), which is what BayesGap and LinGapE are for.

wrong: draws that differ from Exact's; their share bounds the total variation. TV: between the draws
and the exact probabilities over at most ten groups of arms; Exact's is chance alone. time: CPU
seconds of a draw, Exact's divided by it, medians of ratios within rounds.
"""

import argparse
import statistics
import time
from typing import NamedTuple

from tests.benchmarks import machine  # first: it limits the threads of numpy

# isort: split
import numpy as np
from scipy.special import softmax
from scipy.stats import binomtest

import subsample_mcmc as sm
from tests.benchmarks.report import table

GROUPS = 10


class Case(NamedTuple):
    """A population, its totals, and the selectors that can serve it."""

    name: str
    population: sm.Population
    totals: np.ndarray
    selectors: dict


# --------------------------------------------------------------------------------- populations
def location(data, arm, n):
    """Student-t log likelihood."""
    z = data.y[n] - data.location[arm]
    return -2.5 * sm.log1p(z * z / 4.0)


def entry(data, arm, n):
    """A table of rewards."""
    return data.rewards[n, arm]


def quadratic(data, arm, n):
    """x' g_n."""
    return (
        data.x[arm, 0] * data.g[n, 0]
        + data.x[arm, 1] * data.g[n, 1]
        + data.x[arm, 2] * data.g[n, 2]
    )


def usual(rewards: np.ndarray) -> dict:
    """Selectors that know nothing of the arms but how far their rewards may differ."""
    budget = rewards.size
    differ = float(np.ptp(rewards, axis=1).max())  # of two arms, for one datum
    spread = float(np.ptp(rewards))
    return {
        "Exact()": sm.Exact(),
        "Racing()": sm.Racing(),
        "Racing(Betting(bounds))": sm.Racing(sm.Betting(bounds=(-differ, differ))),
        "Racing(BernsteinSerfling(spread))": sm.Racing(sm.BernsteinSerfling(spread)),
        "LilUCB()": sm.LilUCB(),
        'LilUCB("theory", scale)': sm.LilUCB(variant="theory", scale=0.5 * spread),
        "SequentialHalving(1% of all)": sm.SequentialHalving(max(budget // 100, 1)),
        "SequentialHalving(10%)": sm.SequentialHalving(budget // 10),
        '  "adaptive-variance" (10%)': sm.SequentialHalving(budget // 10, "adaptive-variance"),
    }


def apart(seed: int) -> Case:
    """Ten locations, neighbours some hundred nats apart."""
    rng, size = np.random.default_rng(seed), 100_000
    data = {"y": rng.standard_t(df=4, size=size) + 0.25, "location": np.arange(10) * 0.05}
    rewards = -2.5 * np.log1p((data["y"][:, None] - data["location"]) ** 2 / 4.0)
    population = sm.Population(location, data, 10, size)
    selectors = usual(rewards)
    return Case("ten arms far apart, N = 1e5", population, rewards.sum(axis=0), selectors)


def posterior(seed: int) -> Case:
    """Totals within a few nats; what a control variate leaves of the rewards, N v = .01."""
    rng, size, arms = np.random.default_rng(seed), 100_000, 20
    totals = rng.normal(0.0, 1.5, arms)
    noise = rng.standard_normal((size, arms)) * 0.1 / size**0.5
    rewards = noise - noise.mean(axis=0) + totals / size
    population = sm.Population(entry, {"rewards": rewards}, arms, size)
    selectors = usual(rewards)
    return Case("twenty arms, N v = .01, N = 1e5", population, rewards.sum(axis=0), selectors)


def ordered(seed: int) -> Case:
    """A thousand places, totals a parabola of some nats."""
    rng, size, arms = np.random.default_rng(seed), 10_000, 1000
    place = np.linspace(-1.0, 1.0, arms)
    x = np.column_stack([np.ones(arms), place, place**2])
    spread = 0.02
    g = rng.standard_normal((size, 3)) * spread / size**0.5
    g += np.array([0.0, 2.0, -6.0]) / size - g.mean(axis=0)
    rewards = g @ x.T
    scale, length = float(rewards.std(axis=0).max()), 1.1 * float(np.linalg.norm(g.mean(axis=0)))
    covariance = 9.0 * np.exp(-0.5 * ((place[:, None] - place) / 0.8) ** 2)
    selectors = usual(rewards) | {
        "LinGapE(features)": sm.LinGapE(
            x, 0.01, noise=scale, norm=length, ridge=(scale / length) ** 2
        ),
        "BayesGap(40 arms of 1,000)": sm.BayesGap(40 * size, covariance, mean=-2.0),
    }
    population = sm.Population(quadratic, {"g": g, "x": x}, arms, size)
    return Case("1,000 arms in order, N = 1e4", population, rewards.sum(axis=0), selectors)


# -------------------------------------------------------------------------------- measurements
def variation(drawn, p) -> float:
    """Total variation over groups of arms of about the same probability."""
    group = np.minimum(GROUPS * (np.cumsum(p) - 0.5 * p), GROUPS - 1).astype(int)
    shares = np.bincount(group[drawn], minlength=GROUPS) / len(drawn)
    return float(0.5 * np.abs(shares - np.bincount(group, weights=p, minlength=GROUPS)).sum())


def measured(case: Case, draws: int, rounds: int, seed: int) -> list[dict]:
    """A row for each selector."""
    p, exact, rows = softmax(case.totals), None, []
    seconds: dict[str, list[float]] = {}
    found = {}
    for name, selector in case.selectors.items():
        found[name] = sm.draw(case.population, draws, selector, seed, progress=False)
    few = max(5, draws // 100)
    for turn in range(rounds):
        for name, selector in case.selectors.items():
            began = time.process_time()
            sm.draw(case.population, few, selector, seed + turn, progress=False)
            seconds.setdefault(name, []).append((time.process_time() - began) / few)
    for name, made in found.items():
        exact = made if exact is None else exact
        wrong = int(np.sum(made.arms != exact.arms))
        high = binomtest(wrong, draws).proportion_ci().high
        sooner = statistics.median(
            a / b for a, b in zip(seconds["Exact()"], seconds[name], strict=True)
        )
        rows.append({
            "selector": name, "read": f"{made.share_read:.2%}",
            "sooner": f"{sooner:,.0f}x" if sooner > 9.5 else f"{sooner:.2g}x",
            "wrong": f"{wrong} of {draws:,}", "TV at most": f"{high:.4f}",
            "TV found": f"{variation(made.arms, p):.3f}",
        })  # fmt: skip
    return rows


def main() -> None:
    """Print a table for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    for name, value in machine.describe(machine.pin()).items():
        print(f"{name:26s}{value}")
    print(machine.warning(), flush=True)
    for make in (apart, posterior, ordered):
        case = make(chosen.seed)
        rows = measured(case, chosen.draws, chosen.rounds, chosen.seed)
        print(table(case.name, rows), flush=True)


if __name__ == "__main__":
    main()
