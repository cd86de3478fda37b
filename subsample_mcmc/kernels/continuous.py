"""What kernels of continuous blocks share: the blocks that move as one, and the decision to go.

A kernel proposes a point. The blocks as they are and the proposal are candidates 0 and 1 of one
decision; they are arms with the log prior as offset, and what the kernel's own ratio adds.
"""

from dataclasses import replace
from math import log
from typing import Any, ClassVar

import numpy as np

from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.selector import Selector, not_a_sum
from subsample_mcmc.errors import warn
from subsample_mcmc.kernels.base import BAD_PRIOR, BAD_PROPOSAL, OneBlock
from subsample_mcmc.kernels.decision import Decision, Judge, decide, fail, in_one_loop
from subsample_mcmc.kernels.sites.touches import could_touch
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.pointers import FunctionAddress, call
from subsample_mcmc.target.lookups.reads import blocks_read
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.moved import Moved, moved
from subsample_mcmc.target.rewards import of_state, place, prior_of
from subsample_mcmc.target.user_functions import flat, with_sites

NO_ROWS = np.zeros(0, dtype=np.int64)  # of decisions that no datum has a say in
MANY = 64  # priors of sites that do not depend on what moves, from which on they are not asked
FAR = 1_000  # numbers between blocks that move as one, which cost more than a decision may


class ContinuousBlock(OneBlock):
    """A leaf that moves a continuous block, or several as one: to a proposed point, or nowhere."""

    several: ClassVar[bool] = True
    far: ClassVar[int] = FAR  # numbers between blocks that move as one, at which it warns
    sized: ClassVar[str] = ""  # the argument that is one number, or one for each free coordinate

    @property
    def label(self) -> str:
        return "+".join(self.writes)

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """What the selector promises, per decision."""
        return self.selector.guarantee

    @property
    def decision(self) -> Decision:
        """Stay or go: the decision of kernels that propose."""
        return Decision(self.selector, self.control, proposes=True)  # type: ignore[attr-defined]

    def by_site(self, model) -> bool:
        """Does the block move site by site."""
        return False

    def not_in_parts(self, model) -> str:
        """Why sites cannot move in parts; empty: they can."""
        if self.by_site(model):
            return ""
        return (
            "its block does not move site by site: give sm.Model(touches=...), and nothing to the "
            "kernel that is about all data"
        )

    def usual_selector(self, model) -> Selector:
        """What decides where no selector was given."""
        return self.decision.usual_selector(model, self.writes[0])

    def facts(self, model: Model | None = None) -> dict[str, Any]:
        """Adds which blocks move as one, and which could move site by site, by touches=."""
        told = super().facts(model)
        if model is not None:
            told["note"] = "; ".join(filter(None, (could_touch(model, n) for n in self.writes)))
        if len(self.writes) == 1:
            return told
        told["moves"] = f"{', '.join(self.writes)} as one"
        if model is not None:
            blocks = moved(model, self.writes)
            told["moves"] += f", in {blocks.free} free coordinates ({blocks.text()})"
        return told

    def judge(self, model, run) -> Judge:
        """What one chain decides with; a kernel registers what it keeps (run.keep) before."""
        blocks = moved(model, self.writes)
        ends = blocks.candidates(model)
        made = (None, None) if self.selector is None else self.decision.deciders(model)
        judge = self.decision.bind(model, run, blocks.block, model.size, made, ends)
        judge = with_own_prior(model, judge, self.writes)
        if (surrogate := getattr(self, "surrogate", None)) is None:
            return judge
        function = of_state(jit(surrogate, flags=FLAGS, user=True, inner=True))
        return judge._replace(surrogate=FunctionAddress(function, judge.trial.calls.context))

    def judge_by_prior(self, model, run, beside: np.ndarray = NO_ROWS) -> Judge:
        """The same where no datum has a say in it; beside: rows that the kernel looks at itself."""
        blocks = moved(model, self.writes)
        decision = replace(self.decision, selector=Exact(), control=None, touched=True)
        ends, made = blocks.candidates(model), (in_one_loop(True), None)
        judge = decision.bind(model, run, blocks.block, 0, made, ends, beside)
        return with_own_prior(model, judge, self.writes)

    def check(self, model) -> None:
        """Refuse discrete blocks, numbers of the wrong length, and control variates of others."""
        blocks = self.continuous(model)
        if self.sized:
            numbers = getattr(self, self.sized)
            if np.ndim(numbers) and np.shape(numbers) != (blocks.free,):
                raise ValueError(f"{self.sized} has shape {np.shape(numbers)}: {blocks.sizes()}.")
        self.check_decision(model)

    def check_decision(self, model) -> None:
        """Refuse a selector, or a control variate, that the decision cannot go with."""
        for name in self.writes:
            self.decision.check(model, name)

    def take_numbers(self) -> None:
        """Refuse the name of a block where numbers belong: sm.Metropolis("b", "sigma")."""
        if isinstance(given := getattr(self, self.sized), str):
            raise TypeError(
                f"{self.sized}={given!r}: give a positive number, or one a coordinate. Blocks that "
                f"move as one are a tuple: sm.{type(self).__name__}(({self.block!r}, {given!r}))."
            )

    def continuous(self, model: Model) -> Moved:
        """Its blocks; refuses discrete ones, and lengths that vary before the last."""
        found = moved(model, self.writes)
        for v in found.variables:
            if v.block.discrete:
                raise ValueError(
                    f"{self.text()}: the block is discrete; use sm.Gibbs({v.block.name!r})."
                    if len(self.writes) == 1 else
                    f"{self.text()}: block {v.block.name!r} is discrete, and only continuous ones "
                    f"move as one; use sm.Gibbs({v.block.name!r}) beside it."
                )  # fmt: skip
        varying = [v.block.name for v in found.variables[:-1] if v.place >= 0]
        if varying:
            others = [name for name in self.writes if name != varying[0]]
            last = "" if found.varies else f"name it last, {(*others, varying[0])}, or "
            raise ValueError(
                f"{self.text()}: block {varying[0]!r} varies in length, and only the last of "
                f"several may: {last}move it by a kernel of its own."
            )
        if found.between > self.far:
            warn(
                f"{self.text()}: {found.between:,} numbers of other blocks stand between these in "
                "the state, and every step copies them: give sm.Model(state={...}) with these "
                "blocks side by side."
            )
        return found


def read_by_sites(model, name: str) -> set[str]:
    """The blocks that the prior of a block's sites reads; all, where its code does not tell."""
    of_site = model.site_prior[name]
    read = blocks_read(getattr(of_site, "py_func", of_site), model)
    return set(model.names) if read is None else read


def prior_of_blocks(model, names: tuple[str, ...], leave: str = "") -> tuple[Any, int]:
    """(the log prior without priors of sites that do not read these blocks, how many it has left).

    leave: a block whose sites' priors are left out though they do.
    """
    found, sites = model.given[3], 0
    for name, of_site in model.site_prior.items():
        if name != leave and read_by_sites(model, name) & set(names):
            found = with_sites(found, of_site, model.variables[name].sites)
            sites += model.variables[name].sites
    return found or flat, sites


def with_own_prior(model, judge: Judge, names: tuple[str, ...], leave: str = "") -> Judge:
    """The same, asking the prior of what depends on these blocks alone; leave: as above."""
    prior, sites = prior_of_blocks(model, names, leave)
    every = sum(model.variables[name].sites for name in model.site_prior)
    if not leave and every - sites < MANY:  # what is left out costs less than to compile this
        return judge
    trial = judge.trial
    own = FunctionAddress(
        of_state(jit(prior, flags=FLAGS, user=True, inner="always")), trial.calls.context
    )
    return judge._replace(trial=trial._replace(calls=trial.calls._replace(prior=own)))


@jit(inner="always")
def start_from_current(trial):
    """Write the blocks as they are into both candidates."""
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
    if gain == -np.inf:  # right where the likelihood says so, too: else it would cut that off
        offsets[0] += threshold
        if decide(chain, judge, 0) == 1:
            fail(chain.now[0], trial, BAD_PROPOSAL, 1, -1)
        return False
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
