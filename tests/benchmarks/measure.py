"""Timing that survives a busy machine: CPU time, every rival once a round, ratios by round."""

import statistics
import time
from dataclasses import asdict, dataclass, field

import numpy as np

from tests.benchmarks import work
from tests.benchmarks.rivals import EXACT, NAIVE, RIVALS

MOST = 50_000  # draws timed at once
# Float64 log1p of a factor needs about .24 ns on an AVX-512 core: a reader of everything that is
# this fast has not done the work.
TOO_FAST = 0.12


@dataclass
class Row:
    """One rival on one case."""

    case: str
    size: int
    rival: str
    reads_all: bool
    reason: str = ""  # why it was not run
    seconds: list[float] = field(default_factory=list)  # CPU per draw, one entry per round
    share: float = float("nan")  # of the log factors
    draws: int = 0
    errors: int = 0
    lost: float = 0.0  # nats, over all draws
    most_lost: float = 0.0
    versus_exact: float = float("nan")  # times faster than our Exact, median over rounds
    versus_naive: float = float("nan")

    @property
    def microseconds(self) -> float:
        return statistics.median(self.seconds) * 1e6 if self.seconds else float("nan")

    @property
    def per_factor(self) -> float:
        """ns a factor, for those who read them all."""
        if not self.reads_all:
            return float("nan")
        return self.microseconds * 1e3 / (work.ARMS * self.size)

    @property
    def warning(self) -> str:
        """What a reader must not overlook."""
        if self.reads_all and self.per_factor < TOO_FAST and "f32" not in self.rival:
            return "too fast to be true"
        if self.reads_all and self.errors:
            return "differs from exact"
        return ""

    def record(self) -> dict:
        derived = {"microseconds": self.microseconds, "ns_per_factor": self.per_factor}
        return {**asdict(self), **derived, "warning": self.warning}


def cpu_seconds(run, *arguments):
    """CPU time of all threads, and the result."""
    then = time.process_time()
    made = run(*arguments)
    return time.process_time() - then, made


def how_many(run, budget: float, seed: int) -> int:
    """Draws that take about `budget` seconds; the first call compiles and does not count."""
    run(1, work.Recorder(seed, 0))
    size = 1
    while True:
        spent, _ = cpu_seconds(run, size, work.Recorder(seed, 1))
        if spent > budget / 8.0 or size >= MOST:
            return int(np.clip(size * budget / max(spent, 1e-9), 1, MOST))
        size = min(size * 8, MOST)


def compare(case: str, size: int, rounds: int, budget: float, seed: int) -> list[Row]:
    """Every rival on fresh data of one case."""
    location = work.locations(work.spacing(case, size))
    y = work.fresh_data(case, size, seed)
    totals = work.exact_totals(y, location)
    rows, running = [], []
    for rival in RIVALS:
        row = Row(case, size, rival.name, rival.reads_all)
        rows.append(row)
        if size > rival.largest:
            row.reason = f"not run above N = {rival.largest:.0e}"
            continue
        try:
            run = rival.make(y, location)
            if isinstance(run, str):
                row.reason = run
            else:
                running.append((row, run, how_many(run, budget, seed)))
        except Exception as error:
            row.reason = failure(error)
    shares: dict[str, list[float]] = {row.rival: [] for row, _, _ in running}
    for k in range(rounds):
        turn = k % len(running)
        for row, run, draws in running[turn:] + running[:turn]:
            if row.reason:
                continue
            rng = work.Recorder(seed, size, 2 + k)
            try:
                spent, (arms, share) = cpu_seconds(run, draws, rng)
            except Exception as error:
                row.reason, row.draws, row.seconds = failure(error), 0, []
                continue
            row.seconds.append(spent / draws)
            shares[row.rival].append(share)
            judge(row, arms, work.regrets(arms, rng.gumbels(), totals))
    finished = [row for row, _, _ in running if not row.reason]
    by_name = {row.rival: row.seconds for row in finished}
    for row in finished:
        row.share = statistics.fmean(shares[row.rival])
        row.versus_exact = ratio(by_name.get(EXACT), row.seconds)
        row.versus_naive = ratio(by_name.get(NAIVE), row.seconds)
    return rows


def failure(error: Exception) -> str:
    """A rival that breaks keeps its row: the table says how."""
    return f"FAILED: {type(error).__name__}: {str(error).partition(chr(10))[0][:70]}"


def judge(row: Row, arms: np.ndarray, regrets: np.ndarray) -> None:
    """Count the draws that are not the exact one under the same Gumbels, and what they lose."""
    row.draws += len(arms)
    row.errors += int(np.count_nonzero(regrets))
    row.lost += float(regrets.sum())
    row.most_lost = max(row.most_lost, float(regrets.max()))


def ratio(above: list[float] | None, below: list[float]) -> float:
    """Median over rounds of above / below."""
    if not above:
        return float("nan")
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def quantile(values: list[float], q: float) -> float:
    return float(np.quantile(np.asarray(values), q))
