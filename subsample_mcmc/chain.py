"""One chain: a compiled loop over steps, entered once per chunk of draws, and its checkpoint.

All that a chain is stands in arrays: the state, what kernels have learnt, three random streams
and a few counters. A checkpoint is a copy of them, and a chain restored from one goes on bit for
bit, whatever the sizes of the chunks were.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.errors import CompileError, RewardError, SpreadError, compile_message
from subsample_mcmc.jit import DISABLED, FLAGS, NUMBA_ERRORS, compiles, jit
from subsample_mcmc.kernels.custom import Custom
from subsample_mcmc.kernels.kernel import (
    BAD_PREDICATE,
    BAD_PRIOR,
    BAD_PROPOSAL,
    NOW,
    Chain,
    Kernel,
    Run,
    check,
    columns_of,
    labelled,
)
from subsample_mcmc.kernels.trial import Judge
from subsample_mcmc.layout import Layout
from subsample_mcmc.model import Model
from subsample_mcmc.rules.race import ALL_IMPOSSIBLE, NOT_FINITE, OUT_OF_SPREAD


class Chunk(NamedTuple):
    """Consecutive draws of one chain."""

    ints: np.ndarray
    floats: np.ndarray
    words: np.ndarray


_loops: dict[Any, Any] = {}


def loop_over(step, compiled: bool) -> Any:
    """The loop over draws; plain Python if a step is."""
    if (step, compiled) in _loops:
        return _loops[step, compiled]

    def loop(chain, tools, ints, floats, words, out, first, last, thin, keep):
        now = chain.now[0]
        for d in range(first, last):
            for w in range(len(words)):
                words[w] = 0
            for _ in range(thin):
                step(chain, tools)
                if now.code != 0:
                    return d
                now.iteration += 1
            if keep:
                for i in range(len(ints)):
                    out.ints[d, i] = ints[i]
                for i in range(len(floats)):
                    out.floats[d, i] = floats[i]
                for i in range(len(words)):
                    out.words[d, i] = words[i]
        return last

    _loops[step, compiled] = jit(loop) if compiled else loop
    return _loops[step, compiled]


class Program:
    """A model and a kernel, checked and compiled: what all chains of a run share."""

    def __init__(self, model: Model, kernel: Kernel):
        if not isinstance(model, Model):
            raise TypeError(f"model={model!r}: give an sm.Model.")
        check(kernel, model)
        self.model, self.kernel = model, kernel
        self.layout = Layout(model.blocks, columns_of(kernel))
        self.labels = [label for label, _ in labelled(kernel)]
        customs = [leaf for leaf in kernel.leaves() if isinstance(leaf, Custom)]
        self.compiled = not any(leaf.obstacle(model) for leaf in customs)
        self.loop = loop_over(kernel.build(model, inner=self.compiled), self.compiled)

    def compile(self) -> None:
        """Compile before any work starts, so that a mistake in a user function shows by itself."""
        try:
            Walker(self, np.random.SeedSequence(0)).advance(0)
        except NUMBA_ERRORS as error:
            raise CompileError(self.blamed(error)) from error

    def blamed(self, error) -> str:
        """Which of the user's functions does not compile."""
        model = self.model
        state = model.state(model.ints.copy(), model.floats.copy())
        made = () if model.prepare is None else (model.prepare(state, model.data),)
        arguments = (state, model.data, np.int64(0), *made)
        suspects = [(model.log_likelihood, arguments)]
        if model.prepare is not None:
            suspects.insert(0, (model.prepare, (state, model.data)))
        if model.log_prior is not None:
            suspects.append((model.log_prior, (state,)))
        suspects += self.kernel.suspects(model, state)
        for function, given in suspects:
            if reason := compiles(function, given, FLAGS):
                return reason
        return (
            compile_message(error, model.log_likelihood)
            if DISABLED
            else (f"{self.kernel.text()} cannot be compiled: {' '.join(str(error).split())[:600]}")
        )


class Walker:
    """One chain of a program."""

    def __init__(
        self, program: Program, seed: np.random.SeedSequence, audit: float = 0.0, number: int = 0
    ):
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
        self.run = Run(self.ints, self.floats, self.words)
        self.tools = program.kernel.bind(model, self.run)
        self.drawn = 0  # draws kept

    @property
    def iteration(self) -> int:
        """Steps made, warm-up included."""
        return int(self.chain.now[0].iteration)

    def advance(self, draws: int, thin: int = 1, warm: bool = False) -> Chunk:
        """Make draws, and return them unless they are warm-up.

        If a step fails, `error` says why, and the chain stands at the last whole draw before it.
        """
        before = self.checkpoint() if draws else {}
        rows = 0 if warm else draws
        out = Chunk(
            np.zeros((rows, len(self.ints)), dtype=np.int64), np.zeros((rows, len(self.floats))),
            np.zeros((rows, len(self.words)), dtype=np.int64),
        )  # fmt: skip
        now = self.chain.now
        now["warm"] = int(warm)
        begun = self.iteration
        try:
            with np.errstate(all="ignore"):  # plain Python warns where machine code goes on
                reached = self.program.loop(
                    self.chain, self.tools, self.ints, self.floats, self.words, out, 0, draws,
                    thin, not warm,
                )  # fmt: skip
        except Exception as error:
            if self.program.compiled or not draws:
                raise
            # A user's kernel, in a loop that runs in Python: as with any other failing step.
            error.add_note(f"This was chain {self.number}, iteration {self.iteration}.")
            reached, self.error = (self.iteration - begun) // thin, error
            self.restore(before)
            return self.advance(reached, thin, warm)
        if int(now[0].code) != 0:
            self.error = self.explanation()
            self.restore(before)
            now["code"] = 0
            return self.advance(reached, thin, warm)
        self.drawn += len(out.ints)
        return out

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

    # ---------------------------------------------------------------------------------- errors
    def explanation(self) -> Exception:
        """Why the chain broke, with kernel, arm, datum and state."""
        now, model = self.chain.now[0], self.program.model
        label, leaf = labelled(self.program.kernel)[int(now.kernel)]
        arm, row, code = int(now.arm), int(now.row), int(now.code)
        where = f"chain {self.number}, iteration {self.iteration}, kernel {label}"
        state = f"the state was {model.show(self.ints, self.floats)}"
        if code == BAD_PRIOR:
            return RewardError(
                f"{where}: the log prior is nan or +inf at {candidate(leaf, arm)}; {state}. It "
                "must be a number, or -inf where the prior is zero."
            )
        if code == BAD_PREDICATE:
            return RuntimeError(
                f"{where}: the predicate of when() no longer holds after its kernel ran; {state}. "
                "The kernel must not change what the predicate reads, or the posterior is not "
                "left fixed."
            )
        if code == BAD_PROPOSAL:
            return ValueError(
                f"{where}: it left a value that is nan, infinite or off its support, or a proposal "
                f"density or a surrogate is not a number; {state}."
            )
        if code == ALL_IMPOSSIBLE:
            return RewardError(
                f"{where}: every arm is impossible, the current value included; {state}. Start "
                "where likelihood and prior are positive."
            )
        if row < 0:  # an exact sum does not say which of its terms it was
            row = self.first_bad(int(now.kernel), arm, code)
        datum = f" at datum {row}" if row >= 0 else ""
        if code == NOT_FINITE:
            return RewardError(
                f"{where}: log_likelihood is nan or +inf{datum} for {candidate(leaf, arm)}; "
                f"{state}. It must be finite, or -inf where the state is impossible."
            )
        if code == OUT_OF_SPREAD:
            return SpreadError(
                f"{where}: a reward of {candidate(leaf, arm)}{datum} breaks the range declared in "
                f"{getattr(leaf, 'selector', None)!r}; {state}. Declare a wider one, or use "
                "sm.Normal(), which needs none."
            )
        return RuntimeError(f"{where}: unknown error {code}; {state}.")

    def first_bad(self, leaf: int, arm: int, code: int) -> int:
        """The first datum whose log likelihood cannot be added, found by a scan; -1 if none is."""
        model = self.program.model
        judge = next((j for j in judges(self.tools) if j.trial.target[0].leaf == leaf), None)
        if judge is None:
            return -1
        trial, target = judge.trial, judge.trial.target[0]
        where, value = (
            (trial.ints, arm) if target.site >= 0 else (trial.floats, trial.candidates[arm])
        )
        first = int(target.start + max(target.site, 0))
        last = first + (1 if target.site >= 0 else int(target.length))
        kept = where[first:last].copy()
        where[first:last] = value
        try:
            with np.errstate(all="ignore"):
                made = () if model.prepare is None else (model.prepare(trial.state, model.data),)
                for n in range(model.size):
                    found = model.log_likelihood(trial.state, model.data, n, *made)
                    if not found < np.inf if code == NOT_FINITE else found == -np.inf:
                        return n
        except ArithmeticError:  # plain Python raises where compiled code goes on
            return -1
        finally:
            where[first:last] = kept
        return -1


def judges(tools):
    """The decisions' tools among nested tools, in the order of the leaves."""
    if isinstance(tools, Judge):
        yield tools
    elif isinstance(tools, tuple):
        for part in tools:
            yield from judges(part)


def candidate(leaf, arm: int) -> str:
    """What an arm is, in words."""
    block = leaf.writes[0]
    if type(leaf).__name__ == "Gibbs":
        return f"{block}={arm}"
    return f"the current {block}" if arm == 0 else f"a proposal for {block}"
