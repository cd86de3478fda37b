"""What a draw costs: ours, naive numba, numpy, scipy and JAX, as a table.

    make bench                                          the package's own environment
    make bench ARGS="--quick"                           under a minute
    python -m tests.benchmarks.draws --json bench.json  the same, from the top of the checkout

JAX is an optional rival; without it its rows say `not installed`. An environment with all of them:

    python3.11 -m venv .venv-b && .venv-b/bin/pip install -r tests/benchmarks/environment.txt
    .venv-b/bin/python -m tests.benchmarks.draws

The work: one exact Gibbs draw, or one at a stated risk, over D = 10 Student-t locations
mu_i = h (i - 3), data from the location 0; h = .5 (easy), .05 (medium), .005 (hard), 1/sqrt(N)
(posterior). One process on one thread. Times are CPU times, medians over rounds; every round
times every rival once, and ratios are medians of the ratios within a round, so that a busy
machine disturbs them less than the times. Data are fresh for every case; every draw of every
rival is compared with the exact arm under the same Gumbels. Trust ratios, not digits.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from tests.benchmarks import machine  # first: it limits the threads of numpy and the rivals

# isort: split
from tests.benchmarks import extras, report
from tests.benchmarks.measure import compare
from tests.benchmarks.work import SPACING

SIZES = (10**4, 10**5, 10**6, 10**7)
HUGE, HUGE_NEEDS = 10**8, 3.0  # GB: the data, and what making them takes
TABLES = ("draws", "retreat", "betting", "rows", "calls", "first")


def arguments(given=None):
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.draws",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="N = 1e4 and 1e5, few rounds: under a minute")
    add("--huge", action="store_true", help="also N = 1e8, racing and Exact only (needs 3 GB)")
    add("--sizes", type=lambda s: int(float(s)), nargs="+", help="N, such as 1e5 1e6")
    add("--cases", nargs="+", choices=list(SPACING), default=list(SPACING))
    add("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    add("--rounds", type=int, help="default 7; 3 with --quick")
    add("--budget", type=float, help="CPU seconds per rival and round; default .15, .03 quick")
    add("--seed", type=int, default=1)
    add("--json", type=Path, metavar="FILE", help="save everything, every round included")
    options = parser.parse_args(given)
    options.sizes = options.sizes or list(SIZES[:2] if options.quick else SIZES)
    options.rounds = options.rounds or (3 if options.quick else 7)
    options.budget = options.budget or (0.03 if options.quick else 0.15)
    if options.huge and HUGE not in options.sizes:
        options.sizes.append(HUGE)
    return options


def say(text: str) -> None:
    """Progress, on stderr: the tables on stdout stay clean."""
    print(text, file=sys.stderr, flush=True)


def draws(options) -> list:
    """The rows of the W1 table."""
    rows = []
    for size in options.sizes:
        if size >= HUGE and machine.free_gigabytes() < HUGE_NEEDS:
            say(f"N = {size:.0e} skipped: {machine.free_gigabytes():.1f} GB of memory are free, "
                f"{HUGE_NEEDS} are needed")  # fmt: skip
            continue
        for case in options.cases:
            then = time.monotonic()
            rows += compare(case, size, options.rounds, options.budget, options.seed)
            say(f"{case}, N = {size:.0e}: {time.monotonic() - then:.0f} s")
    return rows


def main(given=None) -> None:
    """Measure and print."""
    options = arguments(given)
    about = machine.describe(machine.pin())
    for name, value in about.items():
        print(f"{name:26s}{value}")
    print(f"{'rounds':26s}{options.rounds}, {options.budget} CPU s per rival and round", flush=True)
    print(machine.warning(), flush=True)
    quick, rounds, budget, seed = options.quick, options.rounds, options.budget, options.seed
    wanted = set(options.tables)
    made: dict = {name: [] for name in TABLES}

    def show(name, title, measured):
        made[name] = measured
        print(report.table(title, measured), flush=True)

    if "draws" in wanted:
        made["draws"] = draws(options)
        print(report.draws_table(made["draws"]), flush=True)
    if "retreat" in wanted:
        sizes = [size for size in options.sizes if size < HUGE]
        show(
            "retreat",
            "The retreat: Racing over Exact, paired by round, near the posterior's scale",
            extras.retreat(sizes, 8 if quick else 40, budget / 3.0, seed),
        )
    if "betting" in wanted:
        show(
            "betting",
            "What Betting costs: equal arms, rewards in an array, all rows read in mini-batches",
            extras.betting_overhead(10**4 if quick else 10**5, rounds, budget, seed),
        )
    if "rows" in wanted:
        sizes = [10**4, 10**6] if quick else options.sizes
        show(
            "rows",
            "Mini-batches alone: rows drawn without replacement, and put back",
            extras.rows_per_second(sizes, rounds, budget / 3.0, seed),
        )
    if "calls" in wanted:
        show("calls", "One decision per Python call", extras.call_overhead(rounds))
    if "first" in wanted:
        show(
            "first",
            "The first draw of a process (default Racing, ten arms, 1e5 rows)",
            extras.first_draws(1 if quick else 3),
        )
    kept = report.promises(made["draws"], made["retreat"], made["betting"], made["first"])
    print(report.table("Promised (for one AVX-512 core) and measured", kept))
    print(f"\nload average at the end   {machine.load()}")
    if options.json:
        saved = {**made, "draws": [row.record() for row in made["draws"]]}
        document = {"machine": about, "options": vars(options), "tables": saved, "promises": kept}
        text = json.dumps(report.without_nan(document), indent=1, default=str, allow_nan=False)
        options.json.write_text(text, encoding="utf-8")
        say(f"saved {options.json}")


if __name__ == "__main__":
    main()
