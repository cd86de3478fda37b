"""What it costs that rows are elsewhere: passes and decisions, against the same rows in memory.

    python -m tests.benchmarks.elsewhere                    arrays in parts of this process
    python -m tests.benchmarks.elsewhere --parquet          and files, which needs pyarrow
    python -m tests.benchmarks.elsewhere --rows 1e7 --rounds 5
    python -m tests.benchmarks.elsewhere --emulate 1e9      so many rows: a million, again and again
    python -m tests.benchmarks.elsewhere --emulate 1e8 --beside      and the same in memory, 2.4 GB
    python -m tests.benchmarks.elsewhere --emulate 1e5,1e6,1e7,1e8 --figure rates.svg

Logistic regression, five coefficients, float32. Times are CPU times, medians over rounds, each of
which times every way once. Draws of all ways are compared. The control variate is its sums of third
order, which are told alone, too, as million rows a second and core; its bounds; and pilots, which
make exact sums. Decoding is what files take without any sums. Short runs pay for the first rows
that are fetched, some .1 s: --draws 1000000 tells more of long ones.

--emulate: each number of rows in a process of its own, of parts that are the same million rows
repeated. Rows a second are those of all passes, by CPU time; memory is the most that the process
had, with numpy, the compiler and the million rows.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks import machine  # first: it limits the threads of numpy and the rivals

# isort: split
import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor.predictor_chunks import Keep
from subsample_mcmc.numerics.progress import Bar, quietly
from subsample_mcmc.target.sources.local import LocalSource, parts_of
from tests.benchmarks.cost_figure import BLACK, BLUE, RED, portable

TRUTH = np.array([-1.0, 0.5, -0.5, 0.25, 0.1])
PART = 250_000
REPEATED = 1_000_000  # rows that stand for many more


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


class Counted(LocalSource):
    """Counts the rows of all passes."""

    rows_read = 0

    def map(self, task, shared, parts=None, bar=None):
        for part, result in super().map(task, shared, parts, bar):
            self.rows_read += int(self.lengths()[part])
            yield part, result


def repeated(size: int) -> LocalSource:
    """So many rows, of which only the first REPEATED are in memory."""
    columns = columns_of(min(size, REPEATED))
    whole = parts_of(columns, cuts_of(min(size, REPEATED))).parts
    parts = whole * (size // REPEATED) if size > REPEATED else whole
    if (left := size - sum(len(part["y"]) for part in parts)) > 0:
        parts = [*parts, {name: array[:left] for name, array in columns.items()}]
    return Counted(parts)


def cuts_of(rows: int) -> list[int]:
    """Lengths of parts."""
    return [PART] * (rows // PART) + [rows % PART] * (rows % PART > 0)


def in_memory(size: int):
    """The same rows as arrays."""
    columns = columns_of(min(size, REPEATED))
    times = -(-size // REPEATED)
    return {n: np.tile(a, (times, 1)[: a.ndim])[:size] for n, a in columns.items()}


def emulated(size: int, draws: int, rounds: int, beside: bool) -> dict[str, float]:
    """What one number of rows takes: of a process of its own."""
    models = {"elsewhere": sm.models.glm.logistic(repeated(size), "y")}
    if beside:
        arrays = in_memory(size)
        models["memory"] = sm.models.glm.logistic(arrays["x"], arrays["y"])
    found: dict[str, float] = {"rows": size}
    ready, drawn = {}, {}
    for way, model in models.items():
        fit, found[f"{way}, fit"] = timed(lambda model=model: sm.laplace(model, progress=False))
        control = sm.Taylor(fit)
        with quietly(False):
            _, found[f"{way}, sums"] = timed(prepared_for, model, control)
        selector = sm.Racing(sm.Betting())
        ready[way] = (
            fit,
            sm.Metropolis("beta", proposal=sm.pcn(fit), selector=selector, control=control),
        )
    found["passed"] = models["elsewhere"].elsewhere.source.rows_read
    took: dict[str, list[float]] = {way: [] for way in models}
    for number in range(1 + rounds):
        for way, model in models.items():
            fit, kernel = ready[way]
            run = {"warmup": 0, "chains": 1, "start": [fit.state], "seed": 1, "progress": False}
            _, few = timed(sampled, model, kernel, 1, run)
            if number:  # the first compiles
                drawn[way], seconds = timed(sampled, model, kernel, draws, run)
                took[way].append(seconds - few)
    for way, each in took.items():
        found[f"{way}, decisions"] = draws / statistics.median(each)
        found[f"{way}, raced"] = float((drawn[way].stats["beta"]["pulls"] > 0).mean())
    found["fetched"], found["passes"] = drawn["elsewhere"].fetched[:2].tolist()
    if beside:
        draws_of = [trace.draws["beta"] for trace in drawn.values()]
        assert np.array_equal(*draws_of), "other draws"
        ratios = [one / other for one, other in zip(took["memory"], took["elsewhere"], strict=True)]
        found["of memory"] = statistics.median(ratios)
    found["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def sampled(model, kernel, draws: int, run: dict):
    """A chain."""
    return sm.sample(model, kernel, draws=draws, **run)


def emulate(sizes: list[int], given) -> list[dict[str, float]]:
    """A process for each number of rows; and the table of what they took."""
    heads = ("rows", "fit, s", "sums, s", "M rows/s", "decisions/s", "raced", "fetched", "MB")
    print("".join(f"{head:>14}" for head in heads) + ("     of memory" if given.beside else ""))
    found = []
    for size in sizes:
        own = ["--one", str(size), "--draws", str(given.draws), "--rounds", str(given.rounds)]
        command = [sys.executable, "-m", "tests.benchmarks.elsewhere", *own]
        if given.beside:
            command.append("--beside")
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        one = json.loads(done.stdout.splitlines()[-1])
        found.append(one)
        told = (
            f"{size:14,}{one['elsewhere, fit']:14.2f}{one['elsewhere, sums']:14.2f}"
            f"{rate_of(one) / 1e6:14.1f}{one['elsewhere, decisions']:14,.0f}"
            f"{one['elsewhere, raced']:14.1e}{one['fetched']:14,.0f}{one['memory']:14.0f}"
        )
        print(told + (f"{one['of memory']:14.2f}" if given.beside else ""), flush=True)
    return found


def rate_of(one: dict[str, float]) -> float:
    """Rows a second, of all passes."""
    return one["passed"] / (one["elsewhere, fit"] + one["elsewhere, sums"])


def draw(found: list[dict[str, float]], path: Path) -> None:
    """Rates and memory against N; hollow where rows are repeated."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    look = {
        "font.size": 9, "font.family": "DejaVu Sans", "svg.hashsalt": "elsewhere",
        "svg.fonttype": "none", "axes.spines.top": False, "axes.spines.right": False,
    }  # fmt: skip
    sizes = [one["rows"] for one in found]
    lines = (
        ("a   million rows a second, one core", BLUE, [rate_of(one) / 1e6 for one in found]),
        ("b   million decisions a second", RED,
         [one["elsewhere, decisions"] / 1e6 for one in found]),
        ("c   memory, MB", BLACK, [one["memory"] for one in found]),
    )  # fmt: skip
    with matplotlib.rc_context(look):
        figure, panels = pyplot.subplots(1, 3, figsize=(10.2, 3.0))
        for axis, (title, colour, values) in zip(panels, lines, strict=True):
            axis.plot(sizes, values, color=colour, linewidth=1.3)
            for size, value in zip(sizes, values, strict=True):
                face = "white" if size > REPEATED else colour
                axis.plot([size], [value], "o", color=colour, markerfacecolor=face)
            axis.set(xscale="log", ylim=(0, 1.2 * max(values)), xlabel="rows elsewhere")
            axis.set_title(title, loc="left", fontsize=9)
            axis.grid(True, axis="y", linewidth=0.4, color="#DDDDDD")
            axis.set_axisbelow(True)
            axis.minorticks_off()
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None}, facecolor="white")
    path.write_text(portable(path.read_text(encoding="utf-8")), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.elsewhere", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=2_000_000)
    parser.add_argument("--draws", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parquet", action="store_true", help="files, too")
    parser.add_argument("--emulate", help="numbers of rows, with commas between")
    parser.add_argument("--beside", action="store_true", help="and in memory, where emulated")
    parser.add_argument("--figure", type=Path, help="an SVG of rates and memory against N")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(emulated(given.one, given.draws, given.rounds, given.beside)))
        return
    if given.emulate:
        found = emulate([int(float(size)) for size in given.emulate.split(",")], given)
        if given.figure:
            draw(found, given.figure)
        print(f"{len(TRUTH)} coefficients, float32; {machine.processor()}")
        return
    columns = columns_of(given.rows)
    cuts = cuts_of(given.rows)
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
