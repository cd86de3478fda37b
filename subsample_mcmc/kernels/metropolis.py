"""Metropolis-Hastings as a decision between two arms, with one uniform as the threshold.

Accept y when log u < sum_n (l_n(y) - l_n(x)) + log prior(y)/prior(x) + log q(x|y)/q(y|x): the
current state is arm 0 with offset log u + log prior(x), the proposal is arm 1 with the rest.
"""

from dataclasses import dataclass, replace
from functools import partial
from math import log
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.calls import helpful
from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.racing import Default
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.decisions.thinned import Thinned
from subsample_mcmc.kernels.adapt import Tuning, make_tuning, step_size
from subsample_mcmc.kernels.base import (
    ANY_CHAIN,
    BAD_PROPOSAL,
    DECIDED_BY_PRIOR,
    READS_NONE,
)
from subsample_mcmc.kernels.continuous import (
    ContinuousBlock,
    start_from_current,
    stay_or_go,
    with_own_prior,
)
from subsample_mcmc.kernels.decision import Judge, fail
from subsample_mcmc.kernels.proposals.choose import proposal_of
from subsample_mcmc.kernels.proposals.gaussian import Gaussian
from subsample_mcmc.kernels.proposals.learned import LEARNS, learned_numbers
from subsample_mcmc.kernels.proposals.own import Ends
from subsample_mcmc.kernels.proposals.own_density import check_density
from subsample_mcmc.kernels.sites.by_site import (
    FEW,
    check_sites,
    facts_of_sites,
    most_rows,
    moves_by_site,
    one_site,
)
from subsample_mcmc.kernels.sites.by_sums import by_sums, check_sums, judge_by_sums, told_of_sums
from subsample_mcmc.kernels.sites.moves import bind_sites, sweep_of_sites
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import RecordAddress
from subsample_mcmc.target.lookups.reads import unread
from subsample_mcmc.target.moved import (
    BlockCoordinates,
    all_inside,
    all_to_block,
    all_to_free,
    in_use,
    moved,
)
from subsample_mcmc.target.population import read_only
from subsample_mcmc.target.user_functions import plain


class MetropolisTools(NamedTuple):
    """What a Metropolis step works with."""

    judge: Judge
    coordinates: BlockCoordinates
    tuning: Tuning
    numbers: Any  # of the proposal


@dataclass(frozen=True, eq=False)
class Metropolis(ContinuousBlock):
    """Propose a new value of a continuous block, and accept it by a race of two arms.

    A block with touches, sm.Model(touches={"a": "group"}), moves site by site: each decides by the
    data that it touches, learns a step of its own, and in warm-up the Gaussian of its values, which
    it then proposes from; with proposal=sm.pcn(fit) it has that of a fit from the start. A block
    that no datum depends on, such as the mean of a prior, is decided by the prior alone.
    describe(model) says which.

    block: a name; or a tuple of names, ("b", "sigma"), of blocks that move as one, each with its
        own constraint: parameters that depend on each other mix better so. Their free coordinates
        stand one after the other, in this order, wherever numbers are given for each. Blocks that
        stand between them in the state do not move, but are copied: keep long ones elsewhere.
        Of blocks that vary in length there may be one, the last.
    scale: of the random walk in free coordinates, one number or one per coordinate. Warm-up
        adapts it (and, given one number, learns a scale per coordinate); adapt=False keeps it,
        and the beta of sm.pcn.
    proposal: sm.pcn(fit), sm.independence(fit); sm.pcn(), around a mean and covariance that warm-up
        learns, as sites do; or your own: draw(rng, current, out) writes a
        proposal for the block and, unless it is symmetric, log_density(to, given) -> float.
        It works on the block itself, not on free coordinates; of several blocks, by their names,
        as on a state: out.b[0] = current.b[0] + rng.standard_normal().
    selector: how the decision is made; default Thinned() with a control variate whose residuals
        are bounded; Exact() for sites that touch few data, and where a control variate explains too
        little; else Racing(). describe(model) says which.
    control: a control variate such as sm.Taylor(fit): the race is about what it leaves over;
        sm.SiteTaylor(fit) for sites of many data, and for what all data see beside their site.
    adapt: let warm-up learn the scale, and the beta of sm.pcn.
    surrogate: see sm.delayed.

    Example:
        >>> x = np.column_stack([np.ones(2_000), np.linspace(-1.0, 1.0, 2_000)])
        >>> y = x @ [1.0, 2.0] + np.random.default_rng(0).standard_normal(2_000)
        >>> model = sm.models.glm.gaussian(x, y)
        >>> kernel = sm.Metropolis("beta", scale=0.05)  # scales adapt in warm-up
        >>> trace = sm.sample(model, kernel, draws=2_000, warmup=1_000, chains=1, seed=1)
        >>> trace.draws["beta"].mean(axis=(0, 1)).round(1).tolist()
        [1.0, 2.0]

    Coefficients and an unknown scale as one, from one fit:
        >>> model = sm.models.glm.gaussian(x, y, sigma=None)
        >>> fit = sm.laplace(model)
        >>> both = sm.Metropolis(
        ...     ("beta", "log_sigma"), proposal=sm.pcn(fit, beta=0.9), control=sm.Taylor(fit)
        ... )
        >>> trace = sm.sample(model, both, draws=500, warmup=0, chains=1, seed=1)
        >>> bool(trace.stats["beta+log_sigma"]["accepted"].mean() > 0.9)
        True
    """

    in_parts: ClassVar[bool] = True
    sized: ClassVar[str] = "scale"

    block: str | tuple[str, ...]
    scale: Any = 0.1
    proposal: Any = None
    selector: Selector = Default()
    control: Any = None
    adapt: bool = True
    surrogate: Any = None

    def __post_init__(self):
        self.take_numbers()
        self.take_selector()
        self.take_control()
        scale = np.asarray(self.scale, dtype=float)
        if scale.ndim > 1 or not np.all((scale > 0.0) & (scale < np.inf)):
            raise ValueError(f"scale={self.scale!r}: give a positive number, or one a coordinate.")
        object.__setattr__(self, "proposal", proposal_of(self.proposal))

    @property
    def learns(self) -> str:
        """The scale, unless it is kept or the proposal has none."""
        return "scale" if self.adapt and self.proposal.walks else ""

    def by_site(self, model) -> bool:
        """Does the block move site by site."""
        return moves_by_site(self, model)

    def by_prior(self, model) -> bool:
        """Is it decided by the prior alone: no datum depends on what moves."""
        screened = self.surrogate is not None or self.selector.thins  # sees that by itself
        return not screened and unread(model, self.writes)

    def usual_selector(self, model) -> Selector:
        """What decides where no selector was given."""
        if by_sums(self):
            return Thinned()
        if self.by_prior(model):
            return Exact()
        if self.by_site(model) and most_rows(model, self.writes[0]) <= FEW:
            return Exact()
        return super().usual_selector(model)

    def facts(self, model=None) -> dict[str, Any]:
        """Adds the two arms, and whose data decide."""
        told = super().facts(model) | {
            "arms": 2, "proposes": True,
            "walks": self.proposal.walks and not (self.proposal.learned and self.adapt),
        }  # fmt: skip
        if model is None:
            return told
        if self.by_site(model):
            # Where it learns, it proposes by the sites' own Gaussians: no acceptance is too high.
            return told | facts_of_sites(self, model) | {"walks": not self.adapt}
        if by_sums(self):
            return told | {
                "note": "; ".join(filter(None, (told["note"], told_of_sums(self, model))))
            }
        if self.by_prior(model):
            told |= DECIDED_BY_PRIOR
        return told

    def reads(self, model) -> str:
        """What a stored run must have in common with it, beside the kernel as it is written."""
        learns = LEARNS if self.adapt and (self.by_site(model) or self.proposal.learned) else ""
        return learns + (READS_NONE if self.by_prior(model) else "")

    def suspects(self, model, state):
        """Its surrogate, and the functions of a proposal of the user's own."""
        if self.surrogate is not None:
            yield self.surrogate, (state,)
        if not self.proposal.free:
            given = self.ends(moved(model, self.writes), *np.zeros((2, len(model.floats))))
            yield self.proposal.draw, (np.random.default_rng(0), *given)
            if self.proposal.log_density is not None:
                yield self.proposal.log_density, (given.out, given.current)

    def ends(self, blocks, floats: np.ndarray, out: np.ndarray) -> Ends:
        """What a proposal of the user's own reads and writes; out: a candidate."""
        current, out = read_only(blocks.of(floats)), out[: blocks.block.length]
        if len(self.writes) == 1:
            return Ends(current, out)
        return Ends(blocks.views(current, writeable=False), blocks.views(out))

    def check(self, model) -> None:
        """Refuse also a proposal of the user's own where the block varies in length."""
        if self.by_site(model):
            self.continuous(model)
            check_sites(self, model)
            self.check_fit_of_sites(model)
            return
        super().check(model)
        blocks = moved(model, self.writes)
        if blocks.varies and not self.proposal.free:
            raise ValueError(
                f"Metropolis({self.block!r}): the block varies in length, and a proposal of your "
                "own does not see how long it is; use sm.pcn, sm.independence or a random walk."
            )
        self.proposal.numbers(blocks)
        if not self.proposal.free:
            if len(self.writes) > 1:
                self.try_by_name(model, blocks)
            check_density(model, blocks, partial(self.ends, blocks), self.proposal, self.text())

    def check_decision(self, model) -> None:
        """Refuse also what polynomials of sites do not serve."""
        if by_sums(self):
            check_sums(self, model)
        else:
            super().check_decision(model)

    def check_fit_of_sites(self, model) -> None:
        """Refuse a proposal for sites that is no random walk and not from a fit of them."""
        if self.proposal.walks:
            return
        name = self.writes[0]
        if not isinstance(self.proposal, Gaussian):
            raise ValueError(
                f"{self.text()}: the block has touches, and its sites move from what they learn: "
                "leave out proposal, or the model's touches; or give sm.pcn(sm.laplace(model))."
            )
        try:
            self.proposal.sites(name, model.variables[name].sites, one_site(model, name).free)
        except ValueError as error:
            raise ValueError(f"{self.text()}: {error}") from None

    def try_by_name(self, model, blocks) -> None:
        """Call a proposal of the user's own once, on copies: it must know blocks by their names."""
        floats, draw = model.floats.copy(), self.proposal.draw
        given = self.ends(blocks, floats, blocks.of(floats).copy())
        try:
            with np.errstate(all="ignore"):
                plain(draw, "proposal[0]", "draw(rng, current, out)")(
                    np.random.default_rng(0), given.current, given.out
                )
        except (AttributeError, TypeError) as error:
            name = self.writes[0]
            raise TypeError(
                f"{self.text()}: draw(rng, current, out) raised {type(error).__name__}: {error} "
                f"Of several blocks, current and out have the values by name: out.{name}[0] = "
                f"current.{name}[0] + 0.1 * rng.standard_normal()."
            ) from error
        except Exception:  # which its arguments have nothing to do with: it shows when it runs
            return

    def build(self, model) -> Any:
        """The compiled step."""
        if self.by_site(model):
            return sweep_of_sites
        propose, learn = self.proposal.build()
        return metropolis_step(propose, learn, not self.proposal.free)

    def judge(self, model, run) -> Judge:
        """What one chain decides with."""
        if by_sums(self):
            blocks = moved(model, self.writes)
            judge = judge_by_sums(
                self, model, run, blocks.block, model.size, blocks.candidates(model)
            )
            return with_own_prior(model, judge, self.writes)
        return (self.judge_by_prior if self.by_prior(model) else super().judge)(model, run)

    def bind(self, model, run) -> Any:
        """Tools of one chain."""
        if self.by_site(model):
            return bind_sites(self, model, run)
        blocks = moved(model, self.writes)
        free = blocks.free
        one = np.ndim(self.scale) == 0
        pace = self.proposal.pace(free)
        tuning = make_tuning(
            run, pace.step or (float(self.scale) if one else 1.0), 1.0 if one else self.scale, free,
            pace.target if self.adapt else 0.0, scaled=one and self.proposal.walks,
            most=log(pace.largest),
        )  # fmt: skip
        numbers: Any = self.proposal.numbers(blocks)
        if self.proposal.learned:
            numbers = learned_numbers(run, numbers, 1, free, self.adapt)
        judge = self.judge(model, run)
        if not self.proposal.free:
            ends = RecordAddress(self.ends(blocks, run.floats, judge.trial.candidates[1]))
            own = self.proposal.address(ANY_CHAIN.rng, ends)
            numbers = numbers._replace(own=own, ends=ends)
        return MetropolisTools(judge, blocks.coordinates(), tuning, numbers)


def metropolis_step(propose, learn, own_coordinates: bool):
    """step(chain, tools) for one proposal."""

    @jit(inner="always")
    def step(chain, tools):
        judge, to, tuning, now = tools.judge, tools.coordinates, tools.tuning, chain.now[0]
        trial, tally = judge.trial, judge.tally[0]
        x, y = trial.candidates[0], trial.candidates[1]
        u, v, which = in_use(to, trial.ints)
        tally.steps += 1
        start_from_current(trial)
        here = there = 0.0  # log |dx/du|, where proposals are made in free coordinates
        if own_coordinates:
            ratio = propose(chain.rng, tuning, tools.numbers, now, which, u, v)
            if not all_inside(to, y):
                for j in range(len(y)):
                    if not np.isfinite(y[j]):  # a mistake: off the support is a finite number
                        fail(now, trial, BAD_PROPOSAL, 1, -1)
                        return
                there = -np.inf
        else:
            all_to_free(to, x, u)
            here = all_to_block(to, u, y)
            ratio = propose(chain.rng, tuning, tools.numbers, now, which, u, v)
            there = all_to_block(to, v, y)
        accepted = stay_or_go(chain, judge, ratio + there - here)
        tally.scale = step_size(tuning, now)
        learn(tuning, tools.numbers, now, which, u, accepted)

    return step


@helpful
def delayed(kernel, surrogate):
    """Delayed acceptance: screen proposals by a surrogate that reads no data.

    Most bad proposals end there; those that pass are decided by the kernel's selector: exact with
    an Exact selector; with a raced one the promise is that of the race.

    kernel: sm.Metropolis or sm.Langevin.
    surrogate(state) -> float: a deterministic approximation of the whole log likelihood.

    Example:
        >>> x = np.column_stack([np.ones(2_000), np.linspace(-1.0, 1.0, 2_000)])
        >>> y = x @ [1.0, 2.0] + np.random.default_rng(0).standard_normal(2_000)
        >>> model = sm.models.glm.gaussian(x, y)
        >>> at = sm.laplace(model).state["beta"]
        >>> def surrogate(state):
        ...     d0, d1 = state.beta[0] - at[0], state.beta[1] - at[1]
        ...     return -0.5 * (2_000.0 * d0**2 + 667.0 * d1**2)
        >>> kernel = sm.delayed(sm.Metropolis("beta"), surrogate)
        >>> trace = sm.sample(model, kernel, draws=1_000, warmup=1_000, chains=1, seed=1)
        >>> trace.draws["beta"].mean(axis=(0, 1)).round(1).tolist()
        [1.0, 2.0]
    """
    if not hasattr(kernel, "surrogate"):
        raise TypeError(
            f"delayed({kernel!r}, ...): give a kernel that accepts or rejects, sm.Metropolis or "
            "sm.Langevin."
        )
    plain(surrogate, "surrogate", "surrogate(state) -> float")
    return replace(kernel, surrogate=surrogate)
