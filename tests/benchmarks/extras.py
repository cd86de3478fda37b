"""Small tables: what a rule, a retreat, a call, a row and a first draw cost."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.rows import CHUNK, make_rows, put_back, take
from tests.benchmarks import work
from tests.benchmarks.measure import cpu_seconds, how_many, quantile
from tests.benchmarks.rivals import betting_spread, exact, ours, racing

ROOT = Path(__file__).resolve().parents[2]
RULES = {"Normal": racing, "Betting, spread": betting_spread}
SCALES = (1.0, 3.0, 10.0, 30.0)  # h sqrt(N): the posterior's scale, and towards easier


def interleaved(runs: dict, rounds: int, budget: float, seed: int) -> dict[str, list[float]]:
    """CPU seconds per unit of work; run(size, rng) returns how many units `size` draws were."""
    sizes = {name: how_many(run, budget, seed) for name, run in runs.items()}
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for k in range(rounds):
        for name in names if k % 2 == 0 else names[::-1]:
            spent, units = cpu_seconds(runs[name], sizes[name], work.Recorder(seed, 2 + k))
            seconds[name].append(spent / units)
    return seconds


# --------------------------------------------------------------------------- a rule's overhead
def lookup(data, arm, n):
    return data[0][arm, n]


def betting_overhead(size: int, rounds: int, budget: float, seed: int) -> list[dict]:
    """ns per reward that Betting adds to Normal, when all rewards are read and cost a load.

    Arms of equal totals at a tiny delta: no rule drops any, both read every row in mini-batches.
    """
    rng = np.random.default_rng((seed, size))
    rows = []
    for arms in (2, work.ARMS):
        rewards = rng.random((arms, size))
        rewards -= rewards.mean(axis=1, keepdims=True)
        population = sm.Population(lookup, (rewards,), arms, size)
        rules = {"Normal": sm.Normal(), "Betting": sm.Betting(spread=2.0)}

        def runner(rule, population=population):
            selector = sm.Racing(rule, delta=1e-9, retreat=False)

            def run(draws, rng):
                made = sm.draw(population, draws, selector, seed=rng, progress=False)
                return float(made.pulls.sum())

            return run

        runs = {name: runner(rule) for name, rule in rules.items()}
        seconds = interleaved(runs, rounds, budget, seed)
        pairs = zip(seconds["Betting"], seconds["Normal"], strict=True)
        rows.append(
            {
                "arms": arms,
                "N": size,
                "Normal, ns/pull": statistics.median(seconds["Normal"]) * 1e9,
                "Betting, ns/pull": statistics.median(seconds["Betting"]) * 1e9,
                "overhead, ns/pull": statistics.median(b - n for b, n in pairs) * 1e9,
                "share read": runs["Betting"](3, rng) / (3 * arms * size),
            }
        )
    return rows


# ------------------------------------------------------------------------------- the retreat
def retreat(sizes, rounds: int, budget: float, seed: int) -> list[dict]:
    """Racing over Exact, paired by round, where data cannot tell the arms apart."""
    rows = []
    for size in sizes:
        y = work.fresh_data("posterior", size, seed + 1)
        for scale in SCALES:
            location = work.locations(scale / np.sqrt(size))
            drawers = {
                name: ours(work.student_t, selector)(y, location)
                for name, selector in (("exact", exact), *RULES.items())
            }

            def runner(drawer):
                def run(draws, rng):
                    drawer(draws, rng)
                    return draws

                return run

            runs = {name: runner(drawer) for name, drawer in drawers.items()}
            seconds = interleaved(runs, rounds, budget, seed)
            for rule in RULES:
                ratios = [r / e for r, e in zip(seconds[rule], seconds["exact"], strict=True)]
                rows.append(
                    {
                        "rule": rule,
                        "h sqrt(N)": scale,
                        "N": size,
                        "exact, us": statistics.median(seconds["exact"]) * 1e6,
                        "racing / exact": statistics.median(ratios),
                        "95% of rounds below": quantile(ratios, 0.95),
                        "rounds": rounds,
                        "share read": drawers[rule](8, work.Recorder(seed, 1))[1],
                    }
                )
    return rows


# ------------------------------------------------------------------------------------ calls
def call_overhead(rounds: int) -> list[dict]:
    """One decision per call from Python where nothing is left to decide: arms but one excluded."""
    y = np.zeros(1000)
    prior = np.where(np.arange(work.ARMS) == 0, 0.0, -np.inf)
    data = {"y": y, "location": work.locations(0.5)}
    population = sm.Population(work.student_t, data, arms=work.ARMS, log_prior=prior)
    long = {**data, "y": np.random.default_rng(0).standard_t(work.FREEDOM, 10**5)}
    raced = sm.Population(work.student_t, long, arms=work.ARMS)
    rng = np.random.default_rng(1)
    selector = sm.Racing()
    calls = {
        "sm.draw(population, seed=generator)": lambda: sm.draw(population, seed=rng),
        "sm.draw(population)": lambda: sm.draw(population),
        "sm.draw(..., selector=made before)": lambda: sm.draw(
            population, selector=selector, seed=rng
        ),
        "sm.choose(population, seed=generator)": lambda: sm.choose(population, seed=rng),
        "sm.draw, an easy race of 1e5 rows": lambda: sm.draw(raced, seed=rng),
    }

    def many(call, times):
        for _ in range(times):
            call()

    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            seconds[name].append(cpu_seconds(many, call, 1000)[0] / 1000)
    return [{"call": n, "us": statistics.median(s) * 1e6} for n, s in seconds.items()]


# ------------------------------------------------------------------------------------- rows
@jit
def take_rows(rows, stream, wanted, decisions):
    """Draw `wanted` rows in mini-batches, then put them back; as often as told."""
    for _ in range(decisions):
        drawn = 0
        while drawn < wanted:
            take(rows, stream, 0, min(wanted - drawn, CHUNK))
            drawn += min(wanted - drawn, CHUNK)
        put_back(rows)


def rows_per_second(sizes, rounds: int, budget: float, seed: int) -> list[dict]:
    """Mini-batches alone: random rows without replacement, no reward read."""
    table = []
    for size in sizes:
        for wanted in sorted({64, 1024, size // 16, size}):
            rows, stream = make_rows((size,)), np.array([seed], dtype=np.uint64)

            def run(decisions, rng, rows=rows, stream=stream, wanted=wanted):
                take_rows(rows, stream, wanted, decisions)
                return decisions * wanted

            each = statistics.median(interleaved({"take": run}, rounds, budget, seed)["take"])
            table.append(
                {"N": size, "rows a decision": wanted, "ns/row": each * 1e9, "rows/s": 1.0 / each}
            )
    return table


# ------------------------------------------------------------------------------- first draws
def first_draws(repeats: int) -> list[dict]:
    """New processes: with an empty cache, with a full one, and with a log factor that is new."""
    found: dict[str, list[dict]] = {}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="subsample-mcmc-bench-") as cache:
            found.setdefault("cold: empty cache", []).append(process(cache))
            found.setdefault("next process", []).append(process(cache))
            found.setdefault("next process, new function", []).append(process(cache, "other"))
    return [
        {
            "process": name,
            **{
                f"{k}, s": statistics.median(t[k] for t in times)
                for k in times[0]
                if "sec" not in k
            },
            "second draw, us": statistics.median(t["second wall"] for t in times) * 1e6,
        }
        for name, times in found.items()
    ]


def process(cache: str, *arguments: str) -> dict:
    command = [sys.executable, "-m", "tests.benchmarks.first_draw", *arguments]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    surroundings = {**os.environ, "SUBSAMPLE_MCMC_CACHE": cache, "PYTHONPATH": path}
    made = subprocess.run(
        command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{made.stderr}")
    return json.loads(made.stdout)
