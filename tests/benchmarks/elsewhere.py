"""What it costs that rows are elsewhere: passes and decisions, against the same rows in memory.

    python -m tests.benchmarks.elsewhere                    arrays in parts of this process
    python -m tests.benchmarks.elsewhere --parquet          and files, which needs pyarrow
    python -m tests.benchmarks.elsewhere --rows 1e7 --rounds 5

Logistic regression, five coefficients, float32. Times are CPU times, medians over rounds, each of
which times every way once. Draws of all ways are compared. The control variate is its sums of third
order, which are told alone, too, as million rows a second and core; its bounds; and pilots, which
make exact sums. Decoding is what files take without any sums. Short runs pay for the first rows
that are fetched, some .1 s: --draws 1000000 tells more of long ones.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from tests.benchmarks import machine  # first: it limits the threads of numpy and the rivals

# isort: split
import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor.predictor_chunks import Keep
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.target.sources.local import parts_of

TRUTH = np.array([-1.0, 0.5, -0.5, 0.25, 0.1])
PART = 250_000


def columns_of(rows: int) -> dict[str, np.ndarray]:
    """x of five columns, and y."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((rows, len(TRUTH)), dtype=np.float32)
    x[:, 0] = 1.0
    y = rng.random(rows) < 1.0 / (1.0 + np.exp(-x @ TRUTH))
    return {"x": x, "y": y.astype(np.float32)}


def in_files(columns: dict[str, np.ndarray], folder: Path):
    """The same in files of Parquet."""
    import pyarrow
    from pyarrow import parquet

    names = [f"x{j}" for j in range(len(TRUTH))]
    table = {name: columns["x"][:, j] for j, name in enumerate(names)} | {"y": columns["y"]}
    parquet.write_table(pyarrow.table(table), folder / "rows.parquet", row_group_size=PART)
    return sm.parquet(folder / "rows.parquet", columns={"x": names, "y": "y"})


def timed(work, *given):
    """(what it returns, CPU seconds)."""
    begun = time.process_time()
    found = work(*given)
    return found, time.process_time() - begun


def measured(model, draws: int) -> tuple[dict[str, float], np.ndarray]:
    """(CPU seconds of each part of an analysis, draws)."""
    seconds = {}
    fit, seconds["fit"] = timed(lambda: sm.laplace(model, progress=False))
    control = sm.Taylor(fit)
    _, seconds["control"] = timed(prepared_for, model, control)
    source, *_ = control.source_of(model, [fit.point], lambda table: model.ints)
    keep, bar = Keep(np.zeros(0, dtype=np.int64)), Bar(delay=1e9)
    _, seconds["sums"] = timed(source.sums, model.ints, fit.point, keep, bar)
    selector = sm.Racing(sm.Betting())
    kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), selector=selector, control=control)
    options = {"warmup": 0, "chains": 1, "start": [fit.state], "seed": 1, "progress": False}
    sm.sample(model, kernel, draws=1, **options)
    _, few = timed(lambda: sm.sample(model, kernel, draws=draws, **options))
    trace, many = timed(lambda: sm.sample(model, kernel, draws=3 * draws, **options))
    seconds["decision"] = (many - few) / (2 * draws)
    return seconds, trace.draws["beta"]


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.elsewhere", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=2_000_000)
    parser.add_argument("--draws", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parquet", action="store_true", help="files, too")
    given = parser.parse_args()
    columns = columns_of(given.rows)
    cuts = [PART] * (given.rows // PART) + [given.rows % PART]
    with tempfile.TemporaryDirectory() as folder:
        ways = {
            "memory": lambda: sm.models.glm.logistic(columns["x"], columns["y"]),
            "arrays in parts": lambda: sm.models.glm.logistic(parts_of(columns, cuts), "y"),
        }
        if given.parquet:
            rows = in_files(columns, Path(folder))
            ways["Parquet"] = lambda: sm.models.glm.logistic(rows, "y")
        found, decoding = {way: [] for way in ways}, []
        for number in range(1 + given.rounds):  # the first compiles
            drawn = []
            for way, model in ways.items():
                seconds, draws = measured(model(), given.draws)
                drawn.append(draws)
                if number:
                    found[way].append(seconds)
            if given.parquet:
                decoding.append(timed(lambda: [rows.load(part) for part in range(rows.count)])[1])
            assert all(np.array_equal(drawn[0], other) for other in drawn[1:]), "other draws"
    print(f"{given.rows:,} rows, {len(TRUTH)} coefficients, float32; {machine.processor()}")
    heads = ("fit, s", "control, s", "sums, Mrow/s", "us/decision", "rate, of memory")
    print(" " * 18 + "".join(f"{head:>16}" for head in heads))
    million = given.rows / 1e6
    for way, each in found.items():
        fit, control, sums, decision = (
            statistics.median(one[part] for one in each)
            for part in ("fit", "control", "sums", "decision")
        )
        ratio = statistics.median(
            one["decision"] / other["decision"]
            for one, other in zip(found["memory"], each, strict=True)
        )
        row = fit, control, million / sums, 1e6 * decision, ratio
        print(f"{way:18}" + "".join(f"{number:16.2f}" for number in row))
    if decoding:
        print(f"decoding alone: {million / statistics.median(decoding):.1f} M rows/s a core")


if __name__ == "__main__":
    main()
