"""One chain: a compiled loop over steps, entered once per chunk of draws, and its checkpoint.

All that a chain is stands in arrays: the state, what kernels have learnt, three random streams
and a few counters. A checkpoint is a copy of them, and a chain restored from one goes on bit for
bit, whatever the sizes of the chunks were.
"""

import time
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.decisions.compared import check_compiled
from subsample_mcmc.errors import CompileError
from subsample_mcmc.kernels.base import NOW, Chain, Kernel, check, columns_of, run_step
from subsample_mcmc.kernels.checks import check_elsewhere, check_reached, check_run, is_doubtful
from subsample_mcmc.kernels.custom import Custom
from subsample_mcmc.numerics.jit import DISABLED, FLAGS, NUMBA_ERRORS, compiles, jit
from subsample_mcmc.numerics.pointers import call_step, functions_in, pointer_to
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.numerics.rows import BACK
from subsample_mcmc.runs.failures import explanation
from subsample_mcmc.runs.kept import kept_of
from subsample_mcmc.runs.padding import check_padding
from subsample_mcmc.target.elsewhere.pool import Pool
from subsample_mcmc.target.elsewhere.resident import SUMS
from subsample_mcmc.target.elsewhere.shared_sums import SharedSums
from subsample_mcmc.target.layout import Layout, Run
from subsample_mcmc.target.model import Model, must_be_model
from subsample_mcmc.target.user_functions import uncompiled

READS = ("pulls", "gradients")  # what a kernel counts of the data it read


REMEMBERED = 16  # numbers of a state, of each kind, whose lowest and highest are kept
PATIENT = 2.0  # seconds after which a bar shows what compiles


class Chunk(NamedTuple):
    """Consecutive draws of one chain."""

    ints: np.ndarray
    floats: np.ndarray
    words: np.ndarray


@jit(inner="always")
def write_numbers(out, d, ints, floats, words):
    """Keep draw number d."""
    for i in range(len(ints)):
        out.ints[d, i] = ints[i]
    for i in range(len(floats)):
        out.floats[d, i] = floats[i]
    for i in range(len(words)):
        out.words[i, d] = words[i]


def write_arrays(out, d, ints, floats, words):
    """The same in Python."""
    out.ints[d], out.floats[d], out.words[:, d] = ints, floats, words


def loop_over(run, write) -> Any:
    """loop(chain, main, ...): makes draws first .. last - 1, and returns where it stopped.

    run(step, chain, tools): makes a step. write(out, d, ints, floats, words): keeps a draw.
    mark: of rows that are elsewhere, see Pool.mark: no draw begins where few are left.
    """

    def loop(chain, main, ints, floats, words, reads, before, mark, out, first, last, thin, keep):
        now = chain.now[0]
        for d in range(first, last):
            if (chain.rows[0] - mark[0]) * BACK > mark[1]:
                return d
            for w in range(len(words)):
                words[w] = 0
            for _ in range(thin):
                run(main.step, chain, main.tools)
                if now.code != 0:
                    return d
                now.iteration += 1
            for i in range(len(reads)):
                before[0] += words[reads[i]]
            if keep:
                write(out, d, ints, floats, words)
        return last

    return loop


NOWHERE = np.array([0, 2**64 - 1], dtype=np.uint64)  # a mark, of rows that are all here
LOOP = jit(loop_over(call_step, write_numbers))
# Where a step is plain Python, and others are compiled.
PLAIN_LOOP = loop_over(run_step, write_arrays)


class Program:
    """A model and a kernel, checked and compiled: what all chains of a run share."""

    def __init__(self, model: Model, kernel: Kernel, prepared: tuple = (), keep: Any = None):
        must_be_model(model, "sm.sample(model, kernel)")
        model.notice_changes()
        model.prepared.update(prepared)
        if model.elsewhere is not None and isinstance(kernel, Kernel):
            check_elsewhere(kernel, model)
        check(kernel, model)
        kernel = kernel.settled(model)
        check_run(kernel, model)
        check_padding(model.near)
        self.doubtful = is_doubtful(kernel, model.near)
        self.model, self.kernel = model, kernel
        self.keep, self.kept = keep, kept_of(keep, model)
        self.layout = Layout(self.kept.blocks, columns_of(kernel))  # of what is kept
        # Words that count rewards read, and gradients, which read data too; users' counts are f8.
        self.reads = np.array(
            [c.word for c in self.layout.columns if c.field in READS and c.kind == "i8"], np.int64
        )
        customs = [leaf for leaf in kernel.leaves() if isinstance(leaf, Custom)]
        self.compiled = not any(leaf.obstacle(model) for leaf in customs)
        self.compiled &= not kernel.interpreted
        for leaf in kernel.leaves():  # now, while a bar may show passes over the data
            leaf.prepared(model)
        self.steps = {leaf: leaf.build(model) for leaf in kernel.leaves()}
        self.loop = LOOP if self.compiled or DISABLED else PLAIN_LOOP
        self.functions: list = []  # what is called by address: held, so that no chain compiles it
        self.sums = None if model.elsewhere is None else SharedSums(model.elsewhere)

    def parts(self) -> tuple:
        """What makes the same program elsewhere, without another pass over the data."""
        controls = [getattr(leaf, "control", None) for leaf in self.kernel.leaves()]
        known = [
            (c, p) for c, p in self.model.prepared.items() if any(c is own for own in controls)
        ]
        return self.model, self.kernel, tuple(known), self.keep

    def compile(self, audit: float = 0.0) -> None:
        """Compile before any work starts, so that a mistake in a user function shows by itself."""
        if not self.compiled and (reason := self.blamed()):
            raise CompileError(reason)  # in a Python loop, steps compile when they are first run
        try:
            Walker(self, np.random.SeedSequence(0), audit, watched=True).advance(0)
        except NUMBA_ERRORS as error:
            told = f"{self.kernel.text()} cannot be compiled: {' '.join(str(error).split())[:600]}"
            raise CompileError(self.blamed() or told) from error
        check_compiled(self.model.near)

    def blamed(self) -> str:
        """Which of the user's functions does not compile, and why; empty if all do."""
        if told := uncompiled(self.model):
            return told
        state = self.model.state(self.model.ints.copy(), self.model.floats.copy())
        suspects = self.kernel.suspects(self.model, state)
        reasons = (compiles(function, given, FLAGS) for function, given in suspects)
        return next((reason for reason in reasons if reason), "")


def compile_watched(functions: list) -> None:
    """Compile one after the other; where the engine is new to a machine, a bar says so."""
    if DISABLED:
        return
    told = "compiling the engine, once per machine"
    with Bar(total=len(functions) + 1, desc=told, unit="part", postfix="", delay=PATIENT) as bar:
        for function in functions:
            function.address  # noqa: B018
            bar.update(1)


class Walker:
    """One chain of a program: its state, its random streams, and the tools of its kernels."""

    def __init__(
        self, program: Program, seed: np.random.SeedSequence, audit: float = 0.0, number: int = 0,
        watched: bool = False,
    ):  # fmt: skip
        self.program, self.number = program, number
        self.error: Exception | None = None
        model, layout = program.model, program.layout
        self.ints, self.floats = model.ints.copy(), model.floats.copy()
        self.words = np.zeros(layout.words, dtype=np.int64)
        main, rows, audits = seed.spawn(3)
        self.bits = np.random.PCG64(main)
        now = np.zeros(1, dtype=NOW).view(np.recarray)
        now["audit"], now["warm"] = audit, 1
        self.chain = Chain(
            np.random.Generator(self.bits), rows.generate_state(1, np.uint64),
            audits.generate_state(1, np.uint64), now,
        )  # fmt: skip
        self.shared = pointer_to(self.chain)
        self.steps: int | None = None  # that it will make in all, if that is known
        sums = program.sums
        self.pool = None if sums is None else Pool(model, self.ints, self.floats, sums)
        # May it return while it waits for exact sums, so that others go on, and share the pass.
        self.patient, self.waits = False, 0  # so often it has waited within this draw
        self.processor = 0.0  # seconds in which its steps had a core, and nothing besides
        self.take_tools(watched)
        self.drawn = 0  # draws kept
        # Calls of advance that drew: after 1, 2, 4, ... of them, doubtful look-ups are checked.
        self.turns = 0
        self.extremes: dict[tuple, tuple] = {}  # draws of such a program, looked at in the end

    def take_tools(self, watched: bool = False) -> None:
        """Make the kernels' tools anew: a step that broke may have left anything in others.

        watched: a bar shows what compiles, if that takes long.
        """
        program, audit = self.program, float(self.chain.now[0].audit)
        data = None if self.pool is None else self.pool.data
        self.run = Run.over(
            self.ints, self.floats, self.words, program.reads, audit > 0.0, audit < 0.0, data
        )  # fmt: skip
        part = program.kernel.at_work(program.model, self.run, program.steps)
        if watched:
            functions = list({id(one): one for one in functions_in(part)}.values())
            compile_watched(functions)
            program.functions = [one.function for one in functions]
        self.main = pointer_to(part)

    @property
    def iteration(self) -> int:
        """Steps made, warm-up included."""
        return int(self.chain.now[0].iteration)

    @property
    def waiting(self) -> bool:
        """Does it stand aside until exact sums are made."""
        return self.pool is not None and self.pool.asked is not None

    @property
    def waited(self) -> float:
        """Seconds for rows that are elsewhere, and for sums over them."""
        return 0.0 if self.pool is None else self.pool.waited

    def advance(
        self, draws: int, thin: int = 1, warm: bool = False, into: tuple | None = None
    ) -> Chunk:
        """Make draws, and return them unless they are warm-up; into: arrays of integers, of floats.

        Where rows are elsewhere, it may be fewer: up to where others have to come; or none, while
        `waiting`.
        If a step fails, `error` says why, and the chain stands at the last whole draw before it.
        """
        before = self.checkpoint() if draws else {}
        rows = 0 if warm else draws
        blocks = into or (
            np.empty((rows, len(self.ints)), dtype=np.int64), np.empty((rows, len(self.floats)))
        )  # fmt: skip
        words = np.empty((len(self.words), rows), dtype=np.int64)  # by columns, as they are read
        out = Chunk(blocks[0][:rows], blocks[1][:rows], words)
        now = self.chain.now
        now["warm"] = int(warm)
        begun = self.iteration
        if self.pool is not None and self.waiting:
            self.serve(self.pool, before)
        mark = NOWHERE if self.pool is None else self.pool.mark
        while True:
            then = time.thread_time()
            try:
                with np.errstate(all="ignore"):  # plain Python warns where machine code goes on
                    reached = self.program.loop(
                        self.shared, self.main, self.ints, self.floats, self.words, self.run.reads,
                        self.run.before, mark, out, 0, draws, thin, not warm,
                    )  # fmt: skip
            except Exception as error:  # raised by a user's function
                if not draws:
                    raise
                error.add_note(f"This was chain {self.number}, iteration {self.iteration}.")
                reached, self.error = (self.iteration - begun) // thin, error
                self.take_tools()
                self.restore(before)
                return self.advance(reached, thin, warm, into)
            self.processor += time.thread_time() - then
            broke = int(now[0].code) != 0
            few = reached < draws and not broke  # rows are here; a draw would begin with few
            if self.pool is None or not (self.pool.stopped or (few and not reached)):
                break
            self.restore(before)
            now["code"] = 0
            if broke and reached:  # rows for these draws are here: the next one begins a turn
                self.pool.forget()
                return self.advance(reached, thin, warm, into)
            self.waits += 1
            if self.waits > 2 * SUMS:
                raise RuntimeError(
                    f"one draw asks for more than {SUMS:,} exact sums of rows that are elsewhere, "
                    "and so many are kept: give its kernels a control variate, "
                    "control=sm.Taylor(fit), or blocks of fewer sites."
                )
            if self.patient and self.pool.ask():
                return Chunk(out.ints[:0], out.floats[:0], words[:, :0].T)
            self.serve(self.pool, before)
        self.waits = 0
        if int(now[0].code) != 0:
            self.error = explanation(self)
            self.restore(before)
            now["code"] = 0
            return self.advance(reached, thin, warm, into)
        if not warm:
            out = Chunk(out.ints[:reached], out.floats[:reached], out.words[:, :reached])
        self.drawn += len(out.ints)
        self.turns += draws > 0
        if self.program.doubtful and draws:
            self.remember(out)
            if self.turns & (self.turns - 1) == 0:
                self.look_again([(self.ints, self.floats)])
        return out._replace(words=out.words.T)

    def serve(self, pool: Pool, before: dict[str, np.ndarray]) -> None:
        """Have what is wanted, and what will be; before: where the chain stands."""
        left = None if self.steps is None else self.steps - self.iteration
        if pool.serve(self.chain.rows, self.iteration, left):  # there are new arrays
            self.take_tools()
            self.restore(before)

    def close(self) -> None:
        """Nothing more is drawn: rows that are on their way need not come."""
        if self.pool is not None:
            self.pool.close()

    def remember(self, out: Chunk) -> None:
        """Keep the draws in which each of the first numbers was lowest and highest."""
        for kind, values in enumerate((out.ints, out.floats)):
            for j in range(min(values.shape[1], REMEMBERED)) if len(values) else ():
                for sign in (-1, 1):
                    i = int(np.argmax(sign * values[:, j]))
                    known = self.extremes.get((kind, j, sign))
                    if known is None or sign * values[i, j] > sign * known[kind][j]:
                        self.extremes[kind, j, sign] = out.ints[i].copy(), out.floats[i].copy()

    def look_again(self, states: list | None = None) -> None:
        """End the chain if something is looked up that is not there, in states that it reached.

        states: integers and floats; without: those that were remembered.
        """
        if self.error is not None or not self.program.doubtful:
            return
        if states is None:
            states = list({a.tobytes() + b.tobytes(): (a, b) for a, b in self.extremes.values()}
                          .values())  # fmt: skip
        for ints, floats in states:
            try:
                check_reached(self.program.kernel, self.program.model, ints, floats, len(states))
            except IndexError as error:
                error.add_note(f"This was chain {self.number}, iteration {self.iteration}.")
                self.error = error
                return

    # ------------------------------------------------------------------------------ checkpoint
    def checkpoint(self) -> dict[str, np.ndarray]:
        """Copies of all the arrays that the chain is."""
        state: Any = self.bits.state
        pcg, low = state["state"], (1 << 64) - 1
        generator = [
            pcg["state"] >> 64, pcg["state"] & low, pcg["inc"] >> 64, pcg["inc"] & low,
            state["has_uint32"], state["uinteger"],
        ]  # fmt: skip
        kept = {f"kernel {name}": array.copy() for name, array in self.run.kept.items()}
        return {
            "ints": self.ints.copy(), "floats": self.floats.copy(),
            "generator": np.array(generator, dtype=np.uint64),
            "rows": self.chain.rows.copy(), "audits": self.chain.audits.copy(),
            "counters": np.array([self.iteration, self.drawn], dtype=np.int64), **kept,
        }  # fmt: skip

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Go on from a checkpoint."""
        self.ints[:], self.floats[:] = saved["ints"], saved["floats"]
        a, b, c, d, has, spare = (int(v) for v in saved["generator"])
        self.bits.state = {
            "bit_generator": "PCG64", "state": {"state": a << 64 | b, "inc": c << 64 | d},
            "has_uint32": has, "uinteger": spare,
        }  # fmt: skip
        self.chain.rows[:], self.chain.audits[:] = saved["rows"], saved["audits"]
        self.chain.now["iteration"], self.drawn = (
            int(saved["counters"][0]),
            int(saved["counters"][1]),
        )
        for name, array in self.run.kept.items():
            array[...] = saved[f"kernel {name}"]
