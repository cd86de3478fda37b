"""One sweep over the sites of a block: by a kernel alone, and by sm.side_by_side on several cores.

    python -m tests.benchmarks.side_by_side [--cores 1 2] [--rounds 60] [--kernel Slice]

Milliseconds of wall time and of CPU a sweep, medians over rounds; all ways take turns in a round,
and `times as fast` is the median over rounds of the wall time of the kernel alone over that of a
way. `at best` is the same of each way's fastest round: what a machine does that others leave alone
for some milliseconds. y is Poisson with 6 rows for each of 50,000 groups, sorted (and for fewer, to
see where it begins to pay), or 0 or 1 with 500 rows for each of 2,000. Sweeps are after some of
warm-up; what runs beside, mu and tau by their prior, takes 20 microseconds.
"""

import argparse
import statistics
import time

import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.runs.chain import Program, Walker
from tests.benchmarks.report import table

CASES = {
    "Poisson, 50,000 groups of 6": (50_000, 6, False),
    "logistic, 2,000 groups of 500": (2_000, 500, True),
    "Poisson, 10,000 groups of 6": (10_000, 6, False),
    "Poisson, 2,500 groups of 6": (2_500, 6, False),
}
TURN = 0.02  # seconds of a way in a round


def poisson(state, data, n):
    eta = state.a[data.group[n]]
    return data.y[n] * eta - sm.exp(eta)


def logistic(state, data, n):
    eta = state.a[data.group[n]] + 0.5 * data.x[n]
    return data.y[n] * eta - sm.softplus(eta)


def of_site(state, g):
    z = (state.a[g] - state.mu[0]) / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def of_common(state):
    return -0.5 * (state.mu[0] ** 2 + state.tau[0] ** 2)


def model_of(groups: int, each: int, binary: bool) -> sm.Model:
    """A hierarchy whose data are sorted by group."""
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(groups), each)
    x = rng.standard_normal(len(group))
    eta = 0.5 + 0.6 * rng.standard_normal(groups)[group]
    if binary:
        y = (rng.random(len(group)) < 1.0 / (1.0 + np.exp(-eta - 0.5 * x))).astype(float)
    else:
        y = rng.poisson(np.exp(eta)).astype(float)
    return sm.Model(
        logistic if binary else poisson, {"y": y, "x": x, "group": group},
        {"a": np.zeros(groups), "mu": 0.0, "tau": 1.0}, of_common,
        constraints={"tau": sm.positive}, touches={"a": "group"}, site_prior={"a": of_site},
    )  # fmt: skip


def compared(case: str, kind: str, cores: list[int], rounds: int) -> list[dict]:
    """A row for each way."""
    model, kernel = model_of(*CASES[case]), getattr(sm, kind)("a")
    ways = {"alone": kernel}
    ways |= {f"{n} core{'s' * (n > 1)}": sm.side_by_side(kernel, cores=n) for n in cores}
    walkers, count = {}, 1
    for name, way in ways.items():
        program = Program(model, way >> sm.Metropolis(("mu", "tau")))
        walkers[name] = Walker(program, np.random.SeedSequence(1))
        walkers[name].advance(20, warm=True)
        begun = time.perf_counter()
        walkers[name].advance(1, warm=True)
        count = max(count, int(TURN / (time.perf_counter() - begun)))
    told: dict[str, list] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, walker in walkers.items():
            wall, cpu = time.perf_counter(), time.process_time()
            walker.advance(count)
            spent = time.perf_counter() - wall, time.process_time() - cpu
            told[name].append([1e3 * seconds / count for seconds in spent])
    rows = []
    for name, times in told.items():
        ratios = [a[0] / b[0] for a, b in zip(told["alone"], times, strict=True)]
        wall, cpu = (statistics.median(part) for part in zip(*times, strict=True))
        rows.append(
            {"case": case, "by": name, "wall ms": round(wall, 3), "CPU ms": round(cpu, 3),
             "times as fast": round(statistics.median(ratios), 2),
             "at best": round(min(told["alone"])[0] / min(times)[0], 2)}
        )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument(
        "--kernel", default="Metropolis", choices=("Metropolis", "Slice", "Langevin")
    )
    given = parser.parse_args()
    for case in CASES:
        print(table(case, compared(case, given.kernel, given.cores, given.rounds)), flush=True)


if __name__ == "__main__":
    main()
