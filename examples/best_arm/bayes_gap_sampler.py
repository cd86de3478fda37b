"""The second half of bayes_gap.py: draws of a change point among a thousand candidates.

A change over a stretch of the data makes a smooth likelihood in its place: BayesGap needs the exact
totals of a dozen candidates. Its prior fails silently with a length scale that is ten times too
long, and for a sudden change, whose likelihood is a random walk.
"""

import time

import numpy as np
from paper import share, size, table
from scipy.stats import binomtest

import subsample_mcmc as sm


def log_factor(data, arm, n):
    """A datum jumps by `rise` around the place of its arm, over a stretch of length `width`."""
    place = data.places[arm]
    step = 1.0 / (1.0 + sm.exp((place - data.x[n]) / data.width))
    apart = data.y[n] - data.rise * step
    return -0.5 * apart * apart


def change(rows: int, arms: int, width: float, seed: int) -> dict:
    """Data with one change, at 0.6; some thirty arms of a thousand are likely if it is smooth."""
    rng = np.random.default_rng(seed)
    x = np.arange(rows) / rows
    rise = (6.0 * 0.05 / (rows * 0.03**2)) ** 0.5
    step = 1.0 / (1.0 + np.exp(np.clip((0.6 - x) / width, -700.0, 700.0)))
    y = rise * step + rng.standard_normal(rows)
    return {"x": x, "y": y, "places": np.linspace(0.0, 1.0, arms), "width": width, "rise": rise}


def totals(data) -> np.ndarray:
    """Exact log likelihood of every arm."""
    found = []
    for place in data["places"]:
        step = 1.0 / (1.0 + np.exp(np.clip((place - data["x"]) / data["width"], -700.0, 700.0)))
        found.append(-0.5 * np.sum((data["y"] - data["rise"] * step) ** 2))
    return np.array(found)


def fitted(places, values) -> tuple[float, float, float]:
    """(length scale, variance, mean) of a Gaussian process by likelihood, from a coarse grid."""
    best = (-np.inf, 0.0, 0.0, 0.0)
    for length in 0.02 * 1.25 ** np.arange(16):
        for variance in 4.0 ** np.arange(1, 10):  # sd 2 .. 512 nats
            covariance = variance * kernel(places, length) + 1e-3 * np.eye(len(places))
            root = np.linalg.cholesky(covariance)
            one, y = np.linalg.solve(root, np.ones(len(places))), np.linalg.solve(root, values)
            mean = one @ y / (one @ one)
            fit = -np.log(np.diag(root)).sum() - 0.5 * np.sum((y - mean * one) ** 2)
            best = max(best, (fit, length, variance, mean))
    return best[1:]


def kernel(places, length):
    return np.exp(-0.5 * ((places[:, None] - places) / length) ** 2)


def sampler(chosen, claims) -> list:
    """Draws of the place of a change by four selectors, in three cases; what was found."""
    rows, draws = size(chosen, (2_000, 200), (5_000, 300), (20_000, 2_000))
    arms, pulls, found = 1000, 40, []
    print(f"\nSampler: {arms} candidates, N = {rows:,}, {draws:,} draws with the same Gumbels;")
    print(f"BayesGap may sum {pulls} arms in a draw; its prior is fitted to the totals of 41 arms,")
    print("once for all draws and not counted (a Gibbs sampler would have them from its warmup).")
    cases = (("smooth", 0.05, 1.0), ("scale x 10", 0.05, 10.0), ("rough", 1e-4, 1.0))
    for case, width, wrong_by in cases:
        data = change(rows, arms, width, chosen.seed + 2)
        exact = totals(data)
        p = np.exp(exact - exact.max())
        p /= p.sum()
        coarse = np.arange(0, arms, 25)
        length, variance, mean = fitted(data["places"][coarse], exact[coarse])
        covariance = variance * kernel(data["places"], wrong_by * length)
        population = sm.Population(log_factor, data, arms, rows)
        selectors = {
            "Exact": sm.Exact(),
            "BayesGap": sm.BayesGap(pulls * rows, covariance, mean=mean),
            "Racing": sm.Racing(),
            "SequentialHalving": sm.SequentialHalving(pulls * rows),
            "SequentialHalving x 5": sm.SequentialHalving(5 * pulls * rows),
        }
        truth, lines = None, []
        for name, selector in selectors.items():
            sm.draw(population, 1, selector, seed=1, progress=False)  # compiles
            began = time.perf_counter()
            made = sm.draw(population, draws, selector, seed=chosen.seed + 3, progress=False)
            took = (time.perf_counter() - began) / draws
            truth = made.arms if truth is None else truth
            wrong = int(np.sum(made.arms != truth))
            interval = binomtest(wrong, draws).proportion_ci()
            rate = (wrong / draws, float(interval.low), float(interval.high))
            found.append((case, name, rate, made.share_read, made.arms, p))
            lines.append([
                name, share(rate), f"{distance(made.arms, p):.3f}", f"{made.pulls.mean():,.0f}",
                f"{made.share_read:.2%}", f"{took * 1e6:,.0f}",
            ])  # fmt: skip
        columns = ["selector", "wrong draws", "TV", "rewards read", "share", "us per draw"]
        told = f"length scale {wrong_by * length:.3f}, sd {variance**0.5:.0f} nats"
        table(columns, lines, f"{case}: change over {width:g} of the range; {told}")
    print(
        "\nTV: total variation distance of draws from the exact posterior, over ten ranges of equal"
    )
    print("mass where arms allow it; that of Exact is chance alone.")
    judge_sampler(found, claims)
    return found


def distance(drawn, p) -> float:
    """Total variation distance over ten ranges of arms of about the same mass."""
    place = np.minimum(10.0 * (np.cumsum(p) - 0.5 * p), 9.0).astype(int)
    shares = np.bincount(place[drawn], minlength=10) / len(drawn)
    return float(0.5 * np.abs(shares - np.bincount(place, weights=p, minlength=10)).sum())


def judge_sampler(found, claims) -> None:
    """Ours, not the paper's: where the prior holds, and where it does not."""
    by = {(case, name): (rate, read) for case, name, rate, read, *_ in found}
    for case, wins in (("smooth", True), ("scale x 10", False), ("rough", False)):
        (gap, read), (halving, _) = by[case, "BayesGap"], by[case, "SequentialHalving"]
        better, worse = gap[2] < halving[1], gap[1] > 0.1
        claims.add(
            f"(ours) Sampler, {case}: BayesGap "
            + ("errs less than halving of the same budget" if wins else "is wrong in over 10%"),
            f"BayesGap {share(gap)} at {read:.2%} read; SequentialHalving {share(halving)}; "
            f"Racing {share(by[case, 'Racing'][0])} at {by[case, 'Racing'][1]:.0%}",
            better if wins else worse,
        )
