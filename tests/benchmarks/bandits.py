"""What a pull of a bandit costs: the strategies of sm.identify, and a Python package's, as tables.

    python -m tests.benchmarks.bandits [--quick]     from the top of the checkout, by hand

One process, one thread, CPU times, medians over rounds; every round times everything once, and
ratios are medians of the ratios within a round. Limits are what the package promises. Compiling
is not timed. Trust ratios, not digits.

The rival is SMPyBandits, the package of bandits on PyPI that is installed most easily; without it
its rows say `not installed`. It is made for regret: it has neither lil'UCB nor successive
elimination nor sequential halving, so what is compared is UCB1, an index of all arms at every
pull, on the same arms. banditpylib, which has these algorithms, is not on PyPI (2026).
"""

import argparse
import importlib
import importlib.util
import statistics
import sys
import time
from pathlib import Path

from tests.benchmarks import machine  # first: it limits the threads of numpy and the rivals

# isort: split
import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.bandits import UCB1
from tests.benchmarks.report import table

NU, SCALE = 0.1, 0.5  # of the 1-sparse problem: rewards of variance 1/4


# --------------------------------------------------------------------------------- the rewards
def sparse(data, arm, rng):
    """One arm of mean 1/2, the others of mean 0."""
    return data.means[arm] + 0.5 * rng.standard_normal()


def scaled(data, arm, rng):
    """A standard deviation for each arm."""
    return data.means[arm] + data.deviations[arm] * rng.standard_normal()


def one_good(arms: int) -> dict:
    """The 1-sparse problem."""
    means = np.zeros(arms)
    means[0] = 0.5
    return {"means": means}


def perturbed(rng) -> dict:
    """The arms of the papers on variance-adaptive halving, K = 64, anew for every run."""
    i = np.arange(64)
    means = 1.0 - np.sqrt(i / 64.0)
    spread = np.where(i % 2 == 0, 0.9 * means**2 + 0.1, 0.1) * rng.uniform(0.5, 1.5, 64)
    return {
        "means": means + 0.05 * rng.standard_normal(64),
        "variances": spread,
        "deviations": np.sqrt(spread),
    }


# ----------------------------------------------------------------------------------- the work
def lil(arms: int, seed: int) -> tuple[float, int]:
    """(CPU seconds, pulls) of runs of the lil'UCB heuristic, so many that starting is not felt."""
    runs = max(1, 2000 // arms)
    began = time.process_time()
    made = sm.identify(
        sparse, arms, sm.LilUCB(NU, scale=SCALE), seed, runs=runs, data=one_good(arms), cores=1,
        progress=False,
    )  # fmt: skip
    return time.process_time() - began, int(made.totals.sum())


def ucb(arms: int, seed: int, pulls: int) -> tuple[float, int]:
    """So many pulls by UCB1."""
    return timed(sparse, arms, UCB1(SCALE), seed, one_good(arms), pulls)


def aligned(seed: int, rule: str = "greedy") -> tuple[float, int]:
    """LinGapE on five unit vectors and one more at an angle of .01 to the first."""
    features = np.vstack([np.eye(5), [np.cos(0.01), np.sin(0.01), 0.0, 0.0, 0.0]])
    strategy = sm.LinGapE(features, rule=rule, norm=2.0)
    return timed(linear, 6, strategy, seed, {"means": 2.0 * features[:, 0]}, 300_000)


def linear(data, arm, rng):
    """Standard normal noise."""
    return data.means[arm] + rng.standard_normal()


def bayes(seed: int, strategy) -> tuple[float, int]:
    """One run of BayesGap on 357 places of a line."""
    means = np.sin(np.linspace(0.0, 40.0, 357))
    return timed(smooth, 357, strategy, seed, {"means": means})


def smooth(data, arm, rng):
    """Noise of standard deviation .3."""
    return data.means[arm] + 0.3 * rng.standard_normal()


def timed(pull, arms, strategy, seed, data, most=None) -> tuple[float, int]:
    """One run."""
    began = time.process_time()
    made = sm.identify(pull, arms, strategy, seed, most, data=data, progress=False)
    return time.process_time() - began, made.total


def halving(allocation: str, runs: int, seed: int) -> float:
    """CPU seconds of `runs` runs of sequential halving, K = 64, n = 5000."""

    def strategy(data):
        known = data.variances if allocation == "known-variance" else None
        return sm.SequentialHalving(5000, allocation, variances=known)

    began = time.process_time()
    sm.identify(
        scaled, 64, strategy, seed, runs=runs, data=perturbed, truth=lambda data: data.means,
        cores=1, progress=False,
    )  # fmt: skip
    return time.process_time() - began


# ---------------------------------------------------------------------------------- the rival
def rival_policy():
    """The class UCB of SMPyBandits; None if it is not there.

    From its folder: the package as a whole (0.9.7) imports a function SciPy 1.14 has dropped.
    """
    spec = importlib.util.find_spec("SMPyBandits")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = str(Path(next(iter(spec.submodule_search_locations))) / "Policies")
    sys.path.append(folder)
    try:
        return importlib.import_module("UCB").UCB
    finally:
        sys.path.remove(folder)


def rival(policy, arms: int, seed: int, pulls: int) -> tuple[float, int]:
    """The same pulls by the loop its own evaluator has: choose, draw, tell."""
    means, rng = one_good(arms)["means"], np.random.default_rng(seed)
    player = policy(arms)
    began = time.process_time()
    player.startGame()
    with np.errstate(all="ignore"):  # it divides by zero pulls
        for _ in range(pulls):
            arm = player.choice()
            player.getReward(arm, means[arm] + 0.5 * rng.standard_normal())
    return time.process_time() - began, pulls


# ---------------------------------------------------------------------------------- the tables
def rates(work, rounds: int) -> list[float]:
    """Pulls a second in each round, after one that compiles."""
    work(0)
    found = []
    for i in range(rounds):
        seconds, pulls = work(i + 1)
        found.append(pulls / seconds)
    return found


def kept(value: float, limit: float, at_least: bool) -> str:
    """Is a limit kept."""
    return "yes" if (value >= limit) == at_least else "NO"


def speeds(options) -> list[dict]:
    """Pulls a second, against limits."""
    covariance = np.exp(-(np.subtract.outer(*2 * [np.linspace(0.0, 40.0, 357)]) ** 2))
    gap = sm.BayesGap(400, covariance + 0.1 * np.eye(357), noise=0.09)
    rows = []
    for name, work, limit in (
        ("lil'UCB heuristic, K = 1000", lambda i: lil(1000, i), 5e6),
        ("LinGapE greedy, d = 5, K = 6", aligned, 3e5),
        ("LinGapE ratio, d = 5, K = 6", lambda i: aligned(i, "ratio"), None),
    ):
        rate = statistics.median(rates(work, options.rounds))
        rows.append({"what": name, "measured": rate, "unit": "pulls/s", "limit": limit or "-",
                     "kept": kept(rate, limit, True) if limit else "-"})  # fmt: skip
    bayes(0, gap)
    each = [bayes(i, gap)[0] * 1e3 for i in range(1, options.rounds + 1)]
    took = statistics.median(each)
    rows.append({"what": "BayesGap, K = 357, T = 400", "measured": took, "unit": "ms a run",
                 "limit": 50.0, "kept": kept(took, 50.0, False)})  # fmt: skip
    runs = 500 if options.quick else 5000
    for allocation in ("equal", "known-variance", "adaptive-variance"):
        halving(allocation, 2, 0)
        took = halving(allocation, runs, 1) * 5000 / runs
        rows.append({"what": f"halving, {allocation}, K = 64, n = 5000", "measured": took,
                     "unit": "s for 5000 runs", "limit": 60.0,
                     "kept": kept(took, 60.0, False)})  # fmt: skip
    return rows


def against(options) -> list[dict]:
    """UCB1 of both, round by round; and lil'UCB beside it."""
    policy, pulls, rows = rival_policy(), 3000 if options.quick else 10_000, []
    for arms in (10, 1000):
        ways = {"ours: lil'UCB": lambda i, k=arms: lil(k, i),
                "ours: UCB1": lambda i, k=arms: ucb(k, i, 10 * pulls)}  # fmt: skip
        if policy is not None:
            ways["SMPyBandits: UCB"] = lambda i, k=arms: rival(policy, k, i, pulls)
        for work in ways.values():
            work(0)
        found: dict = {name: [] for name in ways}
        for i in range(options.rounds):
            for name, work in ways.items():
                seconds, made = work(i + 1)
                found[name].append(made / seconds)
        theirs = found.get("SMPyBandits: UCB")
        for name, speed in found.items():
            ratio = "-"
            if theirs:
                ratio = statistics.median(a / b for a, b in zip(speed, theirs, strict=True))
            rows.append({"K": arms, "what": name, "pulls/s": statistics.median(speed),
                         "times as fast": ratio})  # fmt: skip
        if policy is None:
            rows.append({"K": arms, "what": "SMPyBandits: UCB", "pulls/s": "not installed",
                         "times as fast": "-"})  # fmt: skip
    return rows


def main(given=None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.bandits",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="few rounds and runs: a minute")
    parser.add_argument("--rounds", type=int, help="default 7; 3 with --quick")
    options = parser.parse_args(given)
    options.rounds = options.rounds or (3 if options.quick else 7)
    for name, value in machine.describe(machine.pin()).items():
        print(f"{name:26s}{value}")
    print(f"{'SMPyBandits':26s}{machine.version('SMPyBandits')}")
    print(f"{'rounds':26s}{options.rounds}\n{machine.warning()}", flush=True)
    print(table("Pulls, and limits (promised for an idle core)", speeds(options)), flush=True)
    print(table("The 1-sparse problem: pulls a second, ours and a package's", against(options)))
    print(
        "\nlil'UCB: whole runs, started from Python (at K = 10 of some 350 pulls each); O(log K) a "
        "pull.\nUCB1: a fixed number of pulls, O(K) each in both. The rival has no best-arm rule."
    )
    print(f"load average at the end   {machine.load()}")


if __name__ == "__main__":
    main()
