"""A logistic regression of rows that are in files: as many as the disk holds, in little memory.

    python examples/billion_rows.py [--rows 20000000] [--folder rows] [--draws 100000] [--quick]

Rows are written to Parquet in parts, unless the folder has them. A fit and the sums of a control
variate are some passes over the files; then nearly all decisions of a chain read no row, and those
that do find theirs in memory: which rows will be drawn is known beforehand. Needs pyarrow:
pip install 'subsample-mcmc[parquet]'.
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

import subsample_mcmc as sm

TRUTH = np.array([-1.0, 0.5, -0.5, 0.25, 0.1])
PART = 1_000_000  # rows of a file


def write(folder: Path, rows: int, seed: int = 7) -> None:
    """Files of a million rows each, float32."""
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    for part, first in enumerate(range(0, rows, PART)):
        rng, count = np.random.default_rng([seed, part]), min(PART, rows - first)
        x = rng.standard_normal((count, len(TRUTH)), dtype=np.float32)
        x[:, 0] = 1.0
        y = rng.random(count) < 1.0 / (1.0 + np.exp(-x @ TRUTH))
        columns = {f"x{j}": x[:, j] for j in range(len(TRUTH))} | {"y": y.astype(np.float32)}
        path = folder / f"{part:05}.parquet"
        parquet.write_table(pyarrow.table(columns), path, row_group_size=PART // 4)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--folder", type=Path, help="where the files are, or are written to")
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--quick", action="store_true", help="fewer rows and draws")
    given = parser.parse_args()
    rows, draws = (200_000, 5_000) if given.quick else (given.rows, given.draws)
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        if not any(folder.glob("*.parquet")):
            write(folder, rows)
            write(folder / "more", rows // 20, seed=8)
        analyse(folder, draws)


def analyse(folder: Path, draws: int) -> None:
    """Fit, sums, chains; and what each of them took."""
    seconds, then = {}, time.perf_counter()

    def lap(name):
        nonlocal then
        seconds[name], then = time.perf_counter() - then, time.perf_counter()

    rows = sm.parquet(folder / "*.parquet")
    model = sm.models.glm.logistic(rows, "y")
    lap("files opened, some rows tried")
    model.remember(folder / "learnt.npz")  # fit and sums, for another process
    lap("looked for what is remembered")
    fit = sm.laplace(model)
    lap("fit")
    control = sm.Taylor(fit)
    kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), control=control)
    options = {"chains": 2, "warmup": 500, "start": [fit.state] * 2, "seed": 1}
    sm.sample(model, kernel, draws=1, **options)
    lap("sums of the control variate")
    trace = sm.sample(model, kernel, draws=draws, **options)
    lap(f"2 chains of {draws:,} draws")
    bigger = model.append(sm.parquet(folder / "more" / "*.parquet"))
    grown = control.append(bigger)  # sums of the new rows, added to the others
    lap(f"{bigger.size - model.size:,} rows appended")

    print(model)
    for name, took in seconds.items():
        print(f"{name:32} {took:8.2f} s")
    stats = trace.stats["beta"]
    without = stats["predicted"].sum() / stats["decisions"].sum()
    print(f"decisions without a row: {without:.3%}; rewards read: {stats['pulls'].sum():,}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory at most: {peak:,.0f} MB")
    print(trace.summary()[["mean", "sd", "ess_bulk"]])
    print("mode with the rows appended", *grown.fit.state["beta"].round(4))
    print("drawn with", *TRUTH)


if __name__ == "__main__":
    main()
