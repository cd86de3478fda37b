"""Surrogate transitions: many moves by a surrogate, then one decision by all data.

A step makes the surrogate S from what stands still (reference.py), and from x some moves that are
reversible with respect to S: Metropolis-Hastings with proposals of its Gaussian, and walks. They
lead to y, and x to y is as probable as y to x where both are weighed by S. So y is accepted by

    log u < l(y) - S(y) - (l(x) - S(x)),   l log likelihood + log prior + log |dx/du|,

which leaves the posterior fixed whatever S is (Liu 2001, section 9.4.3), as S is the same from x
and from y: nothing that moves is read when it is made. Nearly all are accepted where many data
see what moves, and then a step is a draw given all else.
"""

from dataclasses import dataclass
from math import log
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.kernels.base import BAD_PRIOR, DECIDED_BY_PRIOR, READS_NONE
from subsample_mcmc.kernels.continuous import ContinuousBlock, start_from_current
from subsample_mcmc.kernels.decision import Judge, decide, fail
from subsample_mcmc.kernels.proposals.gaussian import OPTIMAL
from subsample_mcmc.kernels.surrogate.reference import (
    MADE,
    NO_PRIOR,
    Reference,
    backwards,
    log_density,
    make_reference,
    no_derivatives,
    prior_at,
    refer,
    reference_numbers,
    surrogate,
    to_units,
)
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.random import fill_normal
from subsample_mcmc.target.lookups.reads import unread
from subsample_mcmc.target.moved import all_to_free, changed, moved
from subsample_mcmc.target.rewards import place

MOST = 30  # free coordinates: a pass is made of d (d + 1) / 2 lines
# Shares of moves that walk, and of steps. Where the posterior's tails are heavier than the
# surrogate's, a chain out there would see all its transitions refused: so some steps are walks that
# all data decide, and no surrogate.
WALKS, ALONE = 1 / 8, 1 / 32


class SurrogateTools(NamedTuple):
    """What a surrogate transition works with."""

    judge: Judge
    reference: Reference
    moves: int
    here: np.ndarray  # (free,) z of the current values
    now: np.ndarray  # of the moves
    next: np.ndarray  # of a proposal
    noise: np.ndarray


@dataclass(frozen=True, eq=False)
class SurrogateTransition(ContinuousBlock):
    """Draw blocks that all data see, given all others, by a surrogate of their log likelihood.

    For what the groups of a hierarchy have in common: slopes, an intercept, a dispersion. Where
    the effects of groups change, so does the log likelihood of the slopes. Each step passes over
    the data to expand it around a point that depends on the other blocks, not on these; then makes
    moves by the polynomial, at a microsecond each; and one exact decision about where they lead,
    which is yes nearly always. Exact for any model whose log_likelihood has derivatives.

    Also for means and scales of many sites, which no datum sees: they read priors of all sites some
    ten times, and a step is a draw given the sites.

    block: a name, or a tuple of names of blocks that move as one, of 30 free coordinates at most.
        What data see and what they do not are best moved by two kernels.
    fit: sm.laplace(model): where the log likelihood is expanded first. Where the other blocks lead
        far from there, it is expanded again.
    moves: by the surrogate, in a step: more where priors are far from Gaussian.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> group, x = rng.integers(100, size=5_000), rng.standard_normal(5_000)
        >>> eta = rng.standard_normal(100)[group] + 0.3 * x
        >>> data = {"y": rng.poisson(np.exp(eta)).astype(float), "x": x, "group": group}
        >>> def log_likelihood(state, data, n):
        ...     eta = state.a[data.group[n]] + state.slope[0] * data.x[n]
        ...     return data.y[n] * eta - sm.exp(eta)
        >>> model = sm.Model(
        ...     log_likelihood, data, {"a": np.zeros(100), "slope": 0.0},
        ...     lambda state: -0.5 * state.slope[0] ** 2, touches={"a": "group"},
        ...     site_prior={"a": lambda state, g: -0.5 * state.a[g] ** 2},
        ... )
        >>> fit = sm.laplace(model)
        >>> kernel = sm.Metropolis("a", proposal=sm.pcn(fit))
        >>> kernel = kernel >> sm.SurrogateTransition("slope", fit)
        >>> trace = sm.sample(model, kernel, draws=500, warmup=100, chains=1, seed=1)
        >>> bool(trace.stats["slope"]["accepted"].mean() > 0.9)
        True
    """

    block: str | tuple[str, ...]
    fit: Any
    moves: int = 8
    selector: ClassVar[Selector] = Exact()  # type: ignore[misc]
    control: ClassVar[None] = None
    elsewhere: ClassVar[str] = "passes over all rows at every step"

    def __post_init__(self):
        self.take_block()
        if not hasattr(self.fit, "gaussian"):
            raise TypeError(
                f"{self.text()}: fit={self.fit!r:.40}: give sm.laplace(model), a point and units "
                "that do not depend on what moves."
            )
        if not isinstance(self.moves, int | np.integer) or self.moves < 1:
            raise ValueError(f"moves={self.moves!r}: give a whole number, at least 1.")

    def seen(self, model) -> bool:
        """Does any datum see what moves; else the prior decides."""
        return not unread(model, self.writes)

    def reads(self, model) -> str:
        """What a stored run must have in common with it, beside the kernel as it is written."""
        return "" if self.seen(model) else READS_NONE

    def facts(self, model=None) -> dict[str, Any]:
        """Adds what the surrogate is made from."""
        told = super().facts(model) | {
            "arms": 2, "proposes": True, "walks": False, "takes_control": False,
        }  # fmt: skip
        if model is None:
            return told
        if not self.seen(model):
            return told | DECIDED_BY_PRIOR
        others = [name for name in model.names if name not in self.writes]
        given = f" given {', '.join(others)}" if others else ""
        note = f"surrogate: the polynomial of the log likelihood{given}, made at every step"
        return told | {"note": "; ".join(filter(None, (told["note"], note)))}

    def check(self, model) -> None:
        """Refuse blocks that cannot be moved so."""
        blocks, told = self.continuous(model), self.text()
        if blocks.varies:
            raise ValueError(f"{told}: block {blocks.names[-1]!r} varies in length.")
        if blocks.free > MOST:
            raise ValueError(
                f"{told}: {blocks.sizes()}, and a pass takes d (d + 1) / 2 derivatives: at most "
                f"{MOST}. Sites that see data of their own move one by one, sm.Metropolis."
            )
        try:
            mean, _ = self.fit.gaussian(self.writes)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{told}: the fit does not have it. {error}") from None
        if np.shape(mean) != (blocks.free,):
            raise ValueError(f"{told}: the fit is of {len(mean)}: {blocks.sizes()}.")
        if self.seen(model) and (why := no_derivatives(model, blocks)):
            raise ValueError(f"{told}: {why}. sm.Metropolis needs none.")
        self.decision.check(model, self.writes[0])

    def build(self, model) -> Any:
        """The compiled step."""
        return surrogate_step

    def reference(self, model, run, trial) -> Reference:
        """What the surrogate is made with, in one chain."""
        blocks = moved(model, self.writes)
        return make_reference(model, blocks, self.fit, run, trial, self.seen(model))

    def bind(self, model, run) -> SurrogateTools:
        """Tools of one chain; refuses a reference that depends on what moves."""
        judge_of = self.judge if self.seen(model) else self.judge_by_prior
        judge, free = judge_of(model, run), moved(model, self.writes).free
        own = self.reference(model, run, judge.trial)
        if run.data is None:
            self.check_reference(model, run, own)
        return SurrogateTools(judge, own, int(self.moves), *np.zeros((4, free)))

    def check_reference(self, model, run, own: Reference) -> None:
        """Refuse a reference that is another one where the blocks that move have other values."""
        blocks, rng = moved(model, self.writes), np.random.default_rng(0)
        before, known = run.floats.copy(), None
        for _ in range(2):
            own.trial.candidates[:] = blocks.of(run.floats)
            found = reference_numbers(own)
            if known is not None and not np.array_equal(known, found, equal_nan=True):
                raise ValueError(
                    f"{self.text()}: the reference of its surrogate changes with "
                    f"{' and '.join(self.writes)}, which it moves: the way back would have another "
                    "surrogate, and draws would be of another posterior. Make it from the other "
                    "blocks alone."
                )
            known = found
            for v in blocks.variables:
                part = run.floats[v.block.start : v.block.start + v.block.length]
                part[:] = changed(v, part.copy(), rng)
        run.floats[:] = before
        own.found[:] = 0.0


@jit(inner="always")
def add_noise(own, noise, z):
    """z += the Gaussian's standard deviations times noise: noise is lost."""
    backwards(own, noise)
    for i in range(len(z)):
        z[i] += noise[i]


@jit(inner="always")
def propose(chain, tools, walk):
    """Write a proposal of a move into tools.next; log q(back) - log q(there)."""
    own, here, there = tools.reference, tools.now, tools.next
    fill_normal(chain.rng, tools.noise)
    for i in range(len(here)):
        if walk:
            tools.noise[i] *= OPTIMAL / len(here) ** 0.5
        there[i] = here[i] if walk else own.mean[i]
    add_noise(own, tools.noise, there)
    return 0.0 if walk else log_density(own, here) - log_density(own, there)


@jit(inner="always")
def surrogate_step(chain, tools):
    """step(chain, tools): a surrogate, moves by it, one decision by all data."""
    judge, own, now = tools.judge, tools.reference, chain.now[0]
    trial, tally, to = judge.trial, judge.tally[0], tools.reference.coordinates
    tally.steps += 1
    start_from_current(trial)
    all_to_free(to, trial.candidates[0], to.u)
    to_units(own, to.u, tools.here)
    own.found[MADE] = 0.0
    refer(own)
    tally.gradients += own.rows * len(own.lines.sums) * np.int64(own.found[MADE])
    own.found[NO_PRIOR] = 0.0
    for i in range(len(tools.here)):
        tools.now[i] = tools.here[i]
    level = surrogate(own, tools.here)
    reached, went = level, False
    alone = chain.rng.random() < ALONE  # a walk that all data decide, by no surrogate
    for _ in range(1 if alone else tools.moves):
        walk = alone or chain.rng.random() < WALKS
        ratio = propose(chain, tools, walk)
        top = surrogate(own, tools.next)
        threshold = log(1.0 - chain.rng.random())
        if top > -np.inf and (alone or threshold < top - reached + ratio):
            reached, went = top, True
            for i in range(len(tools.now)):
                tools.now[i] = tools.next[i]
    gain = 0.0
    if went:
        gain = -prior_at(own, tools.here)
        gain += prior_at(own, tools.now)  # candidate 1 is where the moves led
    if own.found[NO_PRIOR] == 1.0:
        fail(now, trial, BAD_PRIOR, 1, -1)
        return
    if not went:
        return
    if not alone:
        exact = gain - (reached - level)
        # In warm-up it comes home from where the surrogate is poor.
        gain = max(exact, gain) if now.warm == 1 else exact
    judge.offsets[0], judge.offsets[1] = log(1.0 - chain.rng.random()), gain
    place(trial, 0)
    decide(chain, judge, 0)
