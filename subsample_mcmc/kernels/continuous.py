"""What kernels of one continuous block share: its free coordinates, and the decision to stay or go.

A kernel proposes a point. The block as it is and the proposal are candidates 0 and 1 of one
decision; they are arms with the log prior as offset, and what the kernel's own ratio adds.
"""

from math import log
from typing import ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.decisions.selector import Selector, not_a_sum
from subsample_mcmc.kernels.base import BAD_PRIOR, BAD_PROPOSAL, OneBlock
from subsample_mcmc.kernels.decision import Decision, Judge, decide, fail
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.pointers import FunctionAddress, call
from subsample_mcmc.target.blocks import Variable
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.rewards import of_state, place, prior_of


class BlockCoordinates(NamedTuple):
    """A block's constraint as numbers, and room for two points."""

    kind: int
    low: float
    high: float
    u: np.ndarray  # free coordinates of the current value
    v: np.ndarray  # and of the proposal
    place: int  # in the integers: the site that tells how long the block is; -1: none does
    lengths: np.ndarray  # by its value


def coordinates(variable) -> BlockCoordinates:
    """The coordinates of one continuous block."""
    constraint = variable.constraint
    u, v = np.zeros((2, constraint.free_length(variable.block.length)))
    return BlockCoordinates(
        constraint.kind, constraint.low, constraint.high, u, v, variable.place, variable.lengths
    )


def ends_of(model, variable, count: int = 2) -> np.ndarray:
    """Candidates of one continuous block, with what stands still where it is shorter."""
    block = variable.block
    return np.tile(model.floats[block.start : block.start + block.length], (count, 1))


@jit(inner="always")
def in_use(to, ints):
    """(u, v, which): free coordinates that the block has now, and the model it belongs to."""
    if to.place < 0:
        return to.u, to.v, 0
    which = ints[to.place]
    return to.u[: to.lengths[which]], to.v[: to.lengths[which]], which


class ContinuousBlock(OneBlock):
    """A leaf that moves one continuous block and decides between staying and a proposed point."""

    sized: ClassVar[str] = ""  # the argument that is one number, or one for each free coordinate

    @property
    def decision(self) -> Decision:
        """Stay or go: the decision of kernels that propose."""
        return Decision(self.selector, self.control, proposes=True)  # type: ignore[attr-defined]

    def usual_selector(self, model) -> Selector:
        """What decides where no selector was given."""
        return self.decision.usual_selector(model, self.block)

    def judge(self, model, run) -> Judge:
        """What one chain decides with; a kernel registers what it keeps (run.keep) before."""
        variable = model.variables[self.block]
        ends = ends_of(model, variable)
        made = (None, None) if self.selector is None else self.decision.deciders(model)
        judge = self.decision.bind(model, run, variable.block, model.size, made, ends)
        if (surrogate := getattr(self, "surrogate", None)) is None:
            return judge
        function = of_state(jit(surrogate, flags=FLAGS, user=True, inner=True))
        return judge._replace(surrogate=FunctionAddress(function, judge.trial.calls.context))

    def check(self, model) -> None:
        """Refuse discrete blocks, numbers of the wrong length, and control variates of others."""
        variable = self.continuous(model)
        if self.sized:
            numbers = getattr(self, self.sized)
            free = variable.constraint.free_length(variable.block.length)
            if np.ndim(numbers) and np.shape(numbers) != (free,):
                raise ValueError(
                    f"{self.sized} has shape {np.shape(numbers)}: block {self.block!r} has {free} "
                    "free coordinates."
                )
        self.decision.check(model, self.block)

    def continuous(self, model: Model) -> Variable:
        """Its variable; refuses a discrete one."""
        variable = model.variables[self.block]
        if variable.block.discrete:
            raise ValueError(f"{self.text()}: the block is discrete; use sm.Gibbs({self.block!r}).")
        return variable


@jit(inner="always")
def start_from_current(trial):
    """Write the block as it is into both candidates."""
    x, y, start = trial.candidates[0], trial.candidates[1], trial.target[0].start
    for j in range(len(x)):
        x[j] = trial.floats[start + j]
        y[j] = x[j]


@jit(inner="always")
def priors(chain, judge, ratio):
    """Offsets without the threshold; False if one is not a number."""
    trial, offsets, now = judge.trial, judge.offsets, chain.now[0]
    offsets[0], offsets[1] = prior_of(trial), -np.inf
    if ratio > -np.inf:
        place(trial, 1)
        offsets[1] = prior_of(trial) + ratio
        place(trial, 0)
    if ratio != ratio or ratio == np.inf:
        fail(now, trial, BAD_PROPOSAL, 1, -1)
        return False
    if not_a_sum(offsets[0]) or not_a_sum(offsets[1]):
        fail(now, trial, BAD_PRIOR, 0 if not_a_sum(offsets[0]) else 1, -1)
        return False
    return True


@jit(inner=True)
def passes(chain, judge, threshold, second):
    """Delayed acceptance (Christen & Fox 2005): two reversible tests, two uniforms.

    The first takes a deterministic stand-in for the log likelihood and reads no data; what passes
    is decided on the rest.
    """
    trial, offsets = judge.trial, judge.offsets
    if offsets[1] == -np.inf:  # outside: no place for a surrogate
        return False
    gain = -call(judge.surrogate, trial.calls.context)
    place(trial, 1)
    gain += call(judge.surrogate, trial.calls.context)
    place(trial, 0)
    if not_a_sum(gain):
        fail(chain.now[0], trial, BAD_PROPOSAL, 1, -1)
        return False
    if not threshold < offsets[1] - offsets[0] + gain:
        return False
    offsets[0], offsets[1] = second, -gain
    return True


@jit(inner="always")
def stay_or_go(chain, judge, ratio):
    """1.0 if the proposal, candidate 1, was accepted, else 0.0.

    ratio: log of everything but prior and likelihood; -inf rejects at once.
    """
    threshold, second = log(1.0 - chain.rng.random()), 0.0
    if judge.surrogate != 0:
        second = log(1.0 - chain.rng.random())
    if not priors(chain, judge, ratio):
        return 0.0
    if judge.surrogate == 0:
        judge.offsets[0] += threshold
    elif not passes(chain, judge, threshold, second):
        return 0.0
    return 1.0 if decide(chain, judge, 0) == 1 else 0.0
