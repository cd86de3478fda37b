"""The chains of a run side by side: in threads, or as tasks of any joblib backend.

A chain does not know the others, and its draws do not depend on the sizes of its chunks; so they
are the same on one core and on many, in threads and in processes.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.kernels.base import labelled
from subsample_mcmc.numerics.progress import Bars, quietly
from subsample_mcmc.runs.backends import as_sent, joblib_with, parcel
from subsample_mcmc.runs.chain import Program, Walker
from subsample_mcmc.runs.counts import Counts
from subsample_mcmc.runs.fingerprint import spelled
from subsample_mcmc.runs.kept import fingerprints
from subsample_mcmc.target.model import SENT

CHUNK_SECONDS = 0.1  # of compiled work between two looks at Ctrl-C
FETCH_SECONDS = 0.02  # the same where rows are elsewhere: a draw that lacks some begins it anew
TURN_SECONDS = 1.0  # of one chain, then it is appended to the store, and another may go on ...
TURN_BYTES = 1 << 24  # ... or this much
TASK_SECONDS = 5.0  # of work in one task of a joblib backend ...
TASK_BYTES = 1 << 28  # ... or this much, which it sends back
LOOK_SECONDS = 0.1  # between two updates of the bars
COUNTS = ("accepted", "decisions", "pulls", "everything")  # that the bars show


@dataclass
class ChainPlan:
    """What every chain of a run is told: how far it goes, and how it is set up.

    It is pickled with every task, so it holds neither model nor kernel: they travel once a run.
    """

    draws: int  # per chain
    warmup: int  # steps
    thin: int  # steps per draw
    audit: float  # share of decisions that are made again, exactly; see NOW
    entropy: Any  # of the run's SeedSequence ...
    key: tuple[int, ...]  # ... and its spawn key; chain c has this key and c
    start: list[dict] | None = None  # initial states, by chain

    def walker(self, program: Program, chain: int, saved: dict | None = None) -> Walker:
        """A chain at its start, or at a checkpoint."""
        seed = np.random.SeedSequence(self.entropy, spawn_key=(*self.key, chain))
        walker = Walker(program, seed, self.audit, chain)
        walker.chain.now["warmup"] = self.warmup
        walker.steps = self.warmup + self.draws * self.thin
        if saved is not None:
            walker.restore(saved)
        elif self.start is not None:
            program.model.set_state(walker.ints, walker.floats, self.start[chain])
        return walker


class Drawn(NamedTuple):
    """Consecutive draws of one chain, and what was counted."""

    ints: Any
    floats: Any
    counts: Counts
    thinned: tuple[np.ndarray, ...] = ()  # of blocks of which not every draw is kept

    @property
    def nbytes(self) -> int:
        """In all."""
        rest = sum(part.nbytes for part in self.thinned)
        return self.ints.nbytes + self.floats.nbytes + self.counts.nbytes + rest


@dataclass(kw_only=True)
class Member:
    """One chain under way: what it has drawn and not yet handed on."""

    number: int
    seconds: float = 0.0
    processor: float = 0.0  # seconds in which its steps had a core, in this call
    steps: int = 0  # warm-up and draws, for the bar
    drawn: int = 0
    chunks: list[Drawn] = field(default_factory=list)
    # Where all draws of a run that is not stored are written: integers, floats.
    room: tuple[np.ndarray, np.ndarray] | None = None
    checkpoint: dict[str, np.ndarray] | None = None
    error: Exception | None = None
    counts: np.ndarray = field(default_factory=lambda: np.zeros(4, np.int64))
    fetched: np.ndarray | None = None  # of rows elsewhere: see elsewhere/pool.py, told

    @property
    def told(self) -> str:
        """Acceptance and share of the data read, for the bar."""
        accepted, decisions, pulls, whole = self.counts
        told = f"accepted {accepted / decisions:.2f}" if decisions else ""
        return told + (f", read {pulls / whole:.1%}" if whole else "")

    def add(self, drawn: "Drawn") -> None:
        """Take over what was drawn in another process."""
        if self.room is not None and len(drawn.counts):
            first = sum(len(one.counts) for one in self.chunks)
            for room, part in zip(self.room, drawn, strict=False):
                room[first : first + len(part)] = part
            drawn = drawn._replace(ints=None, floats=None)
        self.chunks.append(drawn)

    def taken(self) -> "Drawn":
        """All chunks as one; the member starts collecting anew."""
        chunks, self.chunks = self.chunks, []
        counts = Counts.joined([one.counts for one in chunks])
        thinned = tuple(map(np.concatenate, zip(*(one.thinned for one in chunks), strict=True)))
        if self.room is not None:
            ints, floats = self.room
            return Drawn(ints[: len(counts)], floats[: len(counts)], counts, thinned)
        ints, floats = (np.concatenate([one[i] for one in chunks]) for i in range(2))
        return Drawn(ints, floats, counts, thinned)


def pieces(
    walker: Walker, chain_plan: ChainPlan, until: float | None = None, into: tuple | None = None
) -> Iterator[tuple[Drawn, np.ndarray, float]]:
    """Warm up and draw, a tenth of a second at a time: draws, sums of COUNTS, seconds.

    Nothing is drawn while a patient chain waits. Stops early once `until` has passed.
    into: arrays for all integers and floats of the chain.
    """
    size, kept = 1, walker.program.kept
    lasts = CHUNK_SECONDS if walker.pool is None else FETCH_SECONDS
    room = max(TURN_BYTES // (8 * (len(walker.ints) + len(walker.floats) + len(walker.words))), 1)
    while walker.drawn < chain_plan.draws and walker.error is None:
        warm = walker.iteration < chain_plan.warmup
        # Warm-up steps are not thinned: they are steps, draws are every thin-th of them.
        left = chain_plan.warmup - walker.iteration if warm else chain_plan.draws - walker.drawn
        count, then, waited = min(size, left, room), time.monotonic(), walker.waited
        begun = walker.iteration
        rows = slice(walker.drawn, walker.drawn + count)
        place = None if into is None or warm else tuple(part[rows] for part in into)
        direct = place if kept.everything else None
        chunk = walker.advance(count, 1 if warm else chain_plan.thin, warm, direct)
        ints, floats = chunk.ints, chunk.floats
        thinned = kept.thinned_of(ints, floats, walker.drawn - len(ints))
        if not kept.everything:
            ints, floats = taken = kept.of(ints, floats)
            for own, part in zip(place or (), taken, strict=False):
                own[: len(part)] = part
        if walker.drawn >= chain_plan.draws:
            walker.look_again()
        spent = time.monotonic() - then
        drawn = Drawn(ints, floats, Counts.of(chunk.words), thinned)
        if walker.waiting:
            yield drawn, np.zeros(4, np.int64), spent
            continue
        yield drawn, counted(walker, drawn.counts), spent
        worked = spent - (walker.waited - waited)
        # Where rows are elsewhere, it may have made fewer.
        count = max((walker.iteration - begun) // (1 if warm else chain_plan.thin), 1)
        size = count * 2 if worked < lasts / 2 else max(int(count * lasts / worked), 1)
        if until is not None and time.monotonic() > until:
            return


def counted(walker: Walker, counts: Counts) -> np.ndarray:
    """COUNTS, summed over a chunk's draws; of the last step, in warm-up."""
    counts, found = counts if len(counts) else Counts.of(walker.words[None]), np.zeros(4, np.int64)
    for column in walker.program.layout.columns:
        if column.field in COUNTS and column.kind == "i8":  # what users count is f8
            found[COUNTS.index(column.field)] += counts.total(column.word, "i8")
    return found


class Team:
    """All chains of a run. `run` returns when they are done, broken or interrupted."""

    def __init__(
        self, program: Program, chain_plan: ChainPlan, members: list[Member],
        keep: Callable[[Member], None] | None, show: bool,
    ):  # fmt: skip
        self.program, self.chain_plan, self.members = program, chain_plan, members
        self.keep, self.show = keep, show
        if keep is None:
            layout, shape = program.layout, (len(members), chain_plan.draws)
            with suppress(MemoryError):  # more than anybody waits for: parts are put together
                ints = np.empty((*shape, layout.ints), dtype=np.int64)
                floats = np.empty((*shape, layout.floats))
                for member, *room in zip(members, ints, floats, strict=True):
                    member.room = room[0], room[1]
        self.stop = threading.Event()
        self.interrupted = False

    def bars(self) -> Bars:
        """One for each chain."""
        total = self.chain_plan.warmup + self.chain_plan.draws
        return Bars(self.show, len(self.members), total, [m.steps for m in self.members])

    def run(self, cores: int, backend: str | None, bars: Bars) -> None:
        """Go on until every chain has its draws; Ctrl-C ends it with what there is."""
        if backend is None:
            self.in_threads(cores, bars)
        else:
            self.as_tasks(cores, backend, bars)
        self.look(bars)

    def look(self, bars: Bars) -> None:
        """Show on the bars how far the chains are."""
        bars.update([m.steps for m in self.members], [m.told for m in self.members])

    # ------------------------------------------------------------------------------- threads
    def in_threads(self, cores: int, bars: Bars) -> None:
        """At most `cores` threads take the chains in turns; compiled steps hold no lock.

        So an early end finds all of them about equally far, also if they are more than cores.
        """
        turns = deque(self.walk(member) for member in self.members if not self.over(member))
        pool = ThreadPoolExecutor(max_workers=cores, thread_name_prefix="chain")
        try:
            left = {pool.submit(self.work, turns) for _ in range(min(cores, len(turns)))}
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
        for walk in turns:  # chains that stood aside at an early end: they hand on what they drew
            next(walk, False)

    def over(self, member: Member) -> bool:
        """Has a chain all its draws."""
        return member.drawn >= self.chain_plan.draws

    def work(self, turns: deque[Iterator[bool]]) -> None:
        """Give waiting chains a turn until none waits: the others are then in other hands."""
        while not self.stop.is_set():
            try:
                walk = turns.popleft()
            except IndexError:
                return
            if next(walk, False):
                turns.append(walk)

    def walk(self, member: Member) -> Iterator[bool]:
        """One chain from where it stands to its end; yields after each turn.

        All is handed on then; to a store not by a chain that only stands aside: it may go on from
        where it was before.
        """
        if self.stop.is_set():
            return
        walker = self.chain_plan.walker(self.program, member.number, member.checkpoint)
        walker.patient = True  # others have a turn before a pass is made for all that wait
        began, held = time.monotonic(), 0
        for drawn, counts, spent in pieces(walker, self.chain_plan, into=member.room):
            self.collect(member, walker, drawn, counts, spent)
            held += drawn.nbytes
            if self.stop.is_set():
                break
            late = time.monotonic() - began > TURN_SECONDS or held > TURN_BYTES
            if late or (walker.waiting and self.keep is None):  # a store is not written so often
                self.hand_on(member, walker)
            if late or walker.waiting:
                yield True
                if self.stop.is_set():
                    break
            if late:
                began, held = time.monotonic(), 0
        walker.close()
        member.processor = walker.processor
        if walker.pool is not None:
            member.fetched = walker.pool.told
        member.error = walker.error
        if walker.error is not None:
            self.stop.set()
        self.hand_on(member, walker)

    def collect(self, member: Member, walker: Walker, drawn: Drawn, counts, spent: float) -> None:
        """Take over a chunk: its draws, its time, and what was counted."""
        member.seconds += spent
        member.chunks.append(drawn)
        member.drawn = walker.drawn
        member.steps = min(walker.iteration, self.chain_plan.warmup) + walker.drawn
        member.counts += counts

    def hand_on(self, member: Member, walker: Walker) -> None:
        """Give what was drawn, and the state after it, to the store."""
        member.checkpoint = walker.checkpoint()
        if self.keep is not None and member.chunks:
            self.keep(member)

    # --------------------------------------------------------------------------------- tasks
    def as_tasks(self, cores: int, backend: str, bars: Bars) -> None:
        """Chains as tasks of some seconds each, which carry their checkpoint there and back."""
        if self.program.model.elsewhere is not None:
            raise TypeError(SENT)
        joblib = joblib_with(backend)
        shared = (*self.program.parts(), marks(self.program))
        chain_plan, name = self.chain_plan, os.urandom(16)
        try:
            with (
                parcel(shared, backend) as (parcelled, options),
                joblib.parallel_config(backend=backend, n_jobs=cores, **options),
                joblib.Parallel() as pool,  # the same workers for all rounds
            ):
                while waiting := [m for m in self.members if not self.over(m)]:
                    tasks = [
                        joblib.delayed(task)(
                            name, parcelled, chain_plan, m.number, m.checkpoint, TASK_SECONDS
                        )
                        for m in waiting
                    ]
                    for member, result in zip(waiting, pool(tasks), strict=True):
                        chunks, spent, steps, drawn, counts, member.checkpoint, member.error = (
                            result
                        )
                        for drawn_there in chunks:
                            member.add(drawn_there)
                        member.seconds += spent
                        member.steps, member.drawn = steps, drawn
                        member.counts += counts
                        if self.keep is not None:
                            self.keep(member)
                    self.look(bars)
                    if any(m.error for m in self.members):
                        return
        except KeyboardInterrupt:
            self.interrupted = True


# No memo: the one live program of this process, by its run's name, so that the tasks of a run share
# it. The next run throws it away: a program holds its data, and two might not fit.
_programs: dict[bytes, Program] = {}
_opening = threading.Lock()  # a worker may run several tasks in threads


def program_of(run: bytes, parcelled) -> Program:
    """What a task runs: made when a process first meets a run.

    run: its name. Processes outlive runs, and another run may have another model.
    """
    with _opening, quietly(False):
        if run not in _programs:
            _programs.clear()
            *parts, told = parcelled.open()
            program = Program(*parts)
            now = marks(program)  # what repeats itself is another there, and stands in none
            differ = [name for name, said in told.items() if now.get(name, said) != said]
            if differ:
                raise RuntimeError(
                    f"in this worker process {', '.join(differ)} is another than where the run was "
                    "begun: a worker has modules as it imported them, and files as they are now. "
                    "Start workers anew (joblib.externals.loky.get_reusable_executor().shutdown(), "
                    "client.restart(), ray.shutdown()), or define functions in the script itself."
                )
            _programs[run] = program
        return _programs[run]


def marks(program: Program) -> dict[str, Any]:
    """What tells whether a program elsewhere is the same: its functions, data and kernels."""
    model, found = program.model, program.model.hashes_of_functions()
    for name, value, seen in zip(model.data._fields, model.data, model.noticed, strict=True):
        if 0 not in np.asarray(value).strides:  # what repeats itself is sent whole
            found[f"data {name}"] = seen
    for label, leaf in labelled(program.kernel):
        found[f"kernel {label}"] = spelled(leaf)
    found["how kernels are composed"] = spelled(program.kernel, inside=False)  # predicates, too
    return found | fingerprints(program.kept)


def task(run: bytes, parcelled, chain_plan: ChainPlan, number: int, saved, most: float) -> tuple:
    """Some seconds of one chain, in whatever process this is; most: how many."""
    walker = chain_plan.walker(program_of(run, parcelled), number, saved)
    chunks, spent, held, counts = [], 0.0, 0, np.zeros(4, np.int64)
    for chunk, more, seconds in pieces(walker, chain_plan, until=time.monotonic() + most):
        chunks.append(chunk)
        spent += seconds
        counts += more
        held += chunk.nbytes
        if held > TASK_BYTES:
            break
    steps = min(walker.iteration, chain_plan.warmup) + walker.drawn
    error = walker.error if walker.error is None else as_sent(walker.error)
    return chunks, spent, steps, walker.drawn, counts, walker.checkpoint(), error
