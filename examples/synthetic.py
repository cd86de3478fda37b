"""The synthetic experiment of Chen & Ghahramani (2016), section 5.1 and appendices B and C.1.

    python examples/synthetic.py            Figures 1, 4, 5, 6, 7 and Table 1; 40 minutes, 2 cores
    python examples/synthetic.py --quick    the same files from small populations, in a minute

How often does a race that reads few rewards choose another arm than an exact draw with the same
Gumbels, and how much does it read? D arms have N = 100,000 rewards each, from a Normal, a Uniform
or a LogNormal(0, 2) distribution, scaled so that p(X) is always the same and that the rewards
have standard deviation sigma: .1 (very hard), 1e-4 (easy) or 1e-5 (very easy). The errors of
Racing-Normal, Racing-EBS and lil'UCB are set against the delta they were asked for.

Two things are ours. Racing-Betting is measured beside the others, in figures of its own. And one
page shows two arms whose difference is skewed, where the normal approximation fails.

Every cell runs until its 95% interval is narrower than delta/3, or to 10,000 draws, or until its
share of the time is spent; which of them stands in the last column. An interrupted run goes on
where it stopped when it is started again.

Y. Chen and Z. Ghahramani, "Scalable discrete sampling as a multi-armed bandit problem",
ICML 2016, arXiv:1506.09039.
"""

import argparse
import csv
import json
import multiprocessing
import time
from collections import deque
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from typing import get_type_hints

import pandas as pd
import synthetic_plots
import synthetic_report
from synthetic_cells import DELTAS, Cell, Row, Settings, cells, check_exact, start_worker, work
from tqdm import tqdm

FULL = Settings(size=100_000, most_draws=10_000, seed=0)
QUICK = Settings(size=4_000, most_draws=200, seed=0)
QUICK_DELTAS = (0.01, 0.1)
ROW_TYPES = list(get_type_hints(Row).values())


def main() -> None:
    options = parsed()
    started = time.monotonic()
    settings = (QUICK if options.quick else FULL)._replace(seed=options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    table = Results(options.out, settings, options.fresh)
    wanted = cells(QUICK_DELTAS if options.quick else DELTAS)
    todo = [cell for cell in wanted if cell not in table.done]
    if len(todo) < len(wanted):
        print(f"{len(wanted) - len(todo)} cells are there already; --fresh would start anew.")
    check_exact(settings)
    # The rest of the time is for figures.
    deadline = started + 60.0 * options.minutes - (5.0 if options.quick else 40.0)
    complete = measure_all(todo, settings, deadline, options.jobs, table)
    files = table.finish(wanted)
    frame = table.frame()
    if frame.empty:
        print("Nothing was measured.")
        return
    files += synthetic_plots.draw_all(frame, settings, options.out)
    files += synthetic_report.write_table1(options.out)
    synthetic_report.summarise(frame)
    files += synthetic_report.write_claims(frame, options.out, options.quick)
    print(f"\nWritten in {(time.monotonic() - started) / 60:.1f} minutes:")
    for file in files:
        print(f"  {file}")
    if not complete:
        print("Interrupted: start it again with the same --out to go on.")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small populations, 1 minute")
    parser.add_argument("--out", type=Path, default=Path("results/synthetic"), help="folder")
    parser.add_argument("--minutes", type=float, help="time for everything (default 38; quick .5)")
    parser.add_argument("--seed", type=int, default=0, help="of populations, Gumbels and rows")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--fresh", action="store_true", help="forget what --out already holds")
    options = parser.parse_args()
    if options.minutes is None:
        options.minutes = 0.5 if options.quick else 38.0
    if options.jobs < 1 or options.minutes <= 0 or options.seed < 0:
        parser.error("--jobs must be at least 1, --minutes positive and --seed not negative")
    return options


class Results:
    """The CSV file: a row is written when its cell is done, so nothing is lost."""

    def __init__(self, out: Path, settings: Settings, fresh: bool):
        self.path = out / "results.csv"
        self.done: dict[Cell, Row] = {}
        note = out / "settings.json"
        if fresh:
            self.path.unlink(missing_ok=True)
        elif self.path.exists():
            stored = json.loads(note.read_text()) if note.exists() else None
            if stored != settings._asdict():
                raise SystemExit(
                    f"{self.path} was made with {stored}, not {settings._asdict()}: "
                    "give another --out, or --fresh to overwrite it."
                )
            with self.path.open(newline="") as file:
                for values in list(csv.reader(file))[1:]:
                    self.keep(read_row(values))
        note.write_text(json.dumps(settings._asdict()))
        if not self.path.exists():
            self.path.write_text(",".join(Row._fields) + "\n")

    def keep(self, row: Row) -> None:
        self.done[Cell(*row[: len(Cell._fields)])] = row

    def add(self, row: Row) -> None:
        self.keep(row)
        with self.path.open("a", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(row)

    def finish(self, order) -> list[Path]:
        """Put the rows in the order of the cells, whoever was done first."""
        place = {cell: i for i, cell in enumerate(order)}
        rows = sorted(self.done.items(), key=lambda item: place.get(item[0], len(place)))
        self.done = dict(rows)
        with self.path.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([Row._fields, *self.done.values()])
        return [self.path]

    def frame(self) -> pd.DataFrame:
        return pd.DataFrame(list(self.done.values()), columns=list(Row._fields))


def read_row(values) -> Row:
    """A line of the CSV with the types of Row; floats come back exactly, as cells need them."""
    return Row(*(kind(value) for kind, value in zip(ROW_TYPES, values, strict=True)))


def measure_all(todo, settings, deadline, jobs, table) -> bool:
    """Spread the cells over processes; False if Ctrl-C ended it."""
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    pending, running = deque(todo), {}
    bar = tqdm(total=len(todo), unit="cell", smoothing=0.0, mininterval=0.5)
    pool = ProcessPoolExecutor(jobs, context, initializer=start_worker, initargs=(stop,))
    with bar, pool:
        try:
            while pending or running:
                while pending and len(running) < jobs:
                    # An equal share of what is left: time saved passes on to the cells to come.
                    left = max(deadline - time.monotonic(), 0.0)
                    limit = min(jobs * left / (len(pending) + len(running)), left)
                    cell = pending.popleft()
                    running[pool.submit(work, cell, settings, limit)] = cell
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    cell = running.pop(future)
                    row = future.result()
                    table.add(row)
                    bar.update()
                    where = f"D={cell.D} {cell.distribution} {cell.sigma:g}"
                    bar.set_postfix_str(f"{where} {cell.selector}: {row.stopped_by}", refresh=False)
        except KeyboardInterrupt:
            stop.set()
            return False
    return True


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit("Interrupted; what was measured is kept.") from None
