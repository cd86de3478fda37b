"""The chains of a run side by side: in threads, or as tasks of any joblib backend.

A chain does not know the others, and its draws do not depend on the sizes of its chunks; so they
are the same on one core and on many, in threads and in processes.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from subsample_mcmc.chain import Chunk, Program, Walker
from subsample_mcmc.progress import Bars

CHUNK_SECONDS = 0.1  # of compiled work between two looks at Ctrl-C
FLUSH_SECONDS = 1.0  # of work between two appends to a store ...
FLUSH_BYTES = 1 << 24  # ... or this much
TASK_SECONDS = 5.0  # of work in one task of a joblib backend
LOOK_SECONDS = 0.1  # between two updates of the bars


@dataclass
class Plan:
    """How far each chain goes, and how it is set up."""

    draws: int
    warmup: int
    thin: int
    audit: float
    entropy: Any
    key: tuple[int, ...]
    start: list[dict] | None = None

    def walker(self, program: Program, chain: int, saved: dict | None = None) -> Walker:
        """A chain at its start, or at a checkpoint."""
        seed = np.random.SeedSequence(self.entropy, spawn_key=(*self.key, chain))
        walker = Walker(program, seed, self.audit, chain)
        if saved is not None:
            walker.restore(saved)
        elif self.start is not None:
            program.model.set_state(walker.ints, walker.floats, self.start[chain])
        return walker


@dataclass
class Member:
    """One chain under way: what it has drawn and not yet handed on."""

    number: int
    seconds: float = 0.0
    steps: int = 0  # warm-up and draws, for the bar
    drawn: int = 0
    chunks: list[Chunk] = field(default_factory=list)
    checkpoint: dict[str, np.ndarray] | None = None
    error: Exception | None = None
    told: str = ""

    def taken(self) -> Chunk:
        """All chunks as one; the member starts collecting anew."""
        chunks, self.chunks = self.chunks, []
        return Chunk(*(np.concatenate(parts) for parts in zip(*chunks, strict=True)))


def pieces(walker: Walker, plan: Plan, until: float | None = None) -> Iterator[tuple[Chunk, float]]:
    """Warm up and draw, a tenth of a second at a time; stops early once `until` has passed."""
    size = 1
    while walker.drawn < plan.draws and walker.error is None:
        warm = walker.iteration < plan.warmup
        # Warm-up steps are not thinned: they are steps, draws are every thin-th of them.
        left = plan.warmup - walker.iteration if warm else plan.draws - walker.drawn
        count, then = min(size, left), time.monotonic()
        chunk = walker.advance(count, 1 if warm else plan.thin, warm)
        spent = time.monotonic() - then
        yield chunk, spent
        size = (
            count * 2 if spent < CHUNK_SECONDS / 2 else max(int(count * CHUNK_SECONDS / spent), 1)
        )
        if until is not None and time.monotonic() > until:
            return


def words_of(program: Program, words: np.ndarray) -> str:
    """Acceptance and share of the data read, for the bar."""
    accepted = decisions = pulls = whole = 0
    for column in program.layout.columns:
        if column.field in ("accepted", "decisions", "pulls", "everything"):
            value = int(words[column.word])
            accepted += value if column.field == "accepted" else 0
            decisions += value if column.field == "decisions" else 0
            pulls += value if column.field == "pulls" else 0
            whole += value if column.field == "everything" else 0
    told = f"accepted {accepted / decisions:.2f}" if decisions else ""
    return told + (f", read {pulls / whole:.1%}" if whole else "")


class Team:
    """All chains of a run. `run` returns when they are done, broken or interrupted."""

    def __init__(
        self, program: Program, plan: Plan, members: list[Member],
        keep: Callable[[Member], None] | None, show: bool,
    ):  # fmt: skip
        self.program, self.plan, self.members = program, plan, members
        self.keep, self.show = keep, show
        self.stop = threading.Event()
        self.interrupted = False

    def run(self, cores: int, backend: str | None) -> None:
        """Go on until every chain has its draws; Ctrl-C ends it with what there is."""
        total = self.plan.warmup + self.plan.draws
        bars = Bars(self.show, len(self.members), total, [m.steps for m in self.members])
        try:
            if backend is None:
                self.in_threads(cores, bars)
            else:
                self.as_tasks(cores, backend, bars)
            self.look(bars)
        finally:
            bars.close()

    def look(self, bars: Bars) -> None:
        bars.update([m.steps for m in self.members], [m.told for m in self.members])

    # ------------------------------------------------------------------------------- threads
    def in_threads(self, cores: int, bars: Bars) -> None:
        """One thread a chain, at most `cores` at a time; compiled steps hold no lock."""
        pool = ThreadPoolExecutor(max_workers=cores, thread_name_prefix="chain")
        futures = [pool.submit(self.walk, member) for member in self.members]
        try:
            left = set(futures)
            while left:
                done, left = wait(left, timeout=LOOK_SECONDS, return_when=FIRST_EXCEPTION)
                self.look(bars)
                for future in done:
                    future.result()  # an error of ours, or of the store
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self.stop.set()
            pool.shutdown(wait=True, cancel_futures=True)

    def walk(self, member: Member) -> None:
        """One chain from where it stands to its end."""
        if self.stop.is_set():
            return
        walker = self.plan.walker(self.program, member.number, member.checkpoint)
        flushed, bytes_held = time.monotonic(), 0
        for chunk, spent in pieces(walker, self.plan):
            self.collect(member, walker, chunk, spent)
            bytes_held += sum(part.nbytes for part in chunk)
            late = time.monotonic() - flushed > FLUSH_SECONDS or bytes_held > FLUSH_BYTES
            if self.keep is not None and late:
                self.hand_on(member, walker)
                flushed, bytes_held = time.monotonic(), 0
            if self.stop.is_set():
                break
        member.error = walker.error
        if walker.error is not None:
            self.stop.set()
        self.hand_on(member, walker)

    def collect(self, member: Member, walker: Walker, chunk: Chunk, spent: float) -> None:
        member.seconds += spent
        member.chunks.append(chunk)
        member.drawn = walker.drawn
        member.steps = min(walker.iteration, self.plan.warmup) + walker.drawn
        member.told = words_of(self.program, walker.words)

    def hand_on(self, member: Member, walker: Walker) -> None:
        """Give what was drawn, and the state after it, to the store."""
        member.checkpoint = walker.checkpoint()
        if self.keep is not None and member.chunks:
            self.keep(member)

    # --------------------------------------------------------------------------------- tasks
    def as_tasks(self, cores: int, backend: str, bars: Bars) -> None:
        """Chains as tasks of some seconds each, which carry their checkpoint there and back."""
        try:
            import joblib
        except ImportError:
            raise ImportError(
                f"parallel={backend!r} needs joblib: pip install joblib; without it chains run in "
                "threads (parallel=None)."
            ) from None
        model, kernel, plan = self.program.model, self.program.kernel, self.plan
        try:
            with joblib.parallel_config(backend=backend, n_jobs=cores):
                while waiting := [m for m in self.members if m.drawn < plan.draws]:
                    tasks = [
                        joblib.delayed(task)(model, kernel, plan, m.number, m.checkpoint)
                        for m in waiting
                    ]
                    for member, result in zip(waiting, joblib.Parallel()(tasks), strict=True):
                        chunks, spent, steps, drawn, told, member.checkpoint, member.error = result
                        member.chunks += chunks
                        member.seconds += spent
                        member.steps, member.drawn, member.told = steps, drawn, told
                        if self.keep is not None:
                            self.keep(member)
                    self.look(bars)
                    if any(m.error for m in self.members):
                        return
        except KeyboardInterrupt:
            self.interrupted = True


_programs: dict[Any, Program] = {}


def task(model, kernel, plan: Plan, number: int, saved) -> tuple:
    """Some seconds of one chain, in whatever process this is."""
    from subsample_mcmc.fingerprint import of_run

    key = tuple(of_run(model, kernel).items())
    if key not in _programs:
        _programs.clear()
        _programs[key] = Program(model, kernel)
    program = _programs[key]
    walker = plan.walker(program, number, saved)
    chunks, spent = [], 0.0
    for chunk, seconds in pieces(walker, plan, until=time.monotonic() + TASK_SECONDS):
        chunks.append(chunk)
        spent += seconds
    steps = min(walker.iteration, plan.warmup) + walker.drawn
    told = words_of(program, walker.words)
    return chunks, spent, steps, walker.drawn, told, walker.checkpoint(), walker.error
