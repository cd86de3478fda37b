"""Gibbs: draw each site of a discrete block from its conditional, by racing or exactly."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.racing import Default
from subsample_mcmc.decisions.rules.rule import ALL_IMPOSSIBLE, EXACT, NOT_FINITE
from subsample_mcmc.decisions.selector import Selector, not_a_sum
from subsample_mcmc.kernels.base import (
    BAD_PRIOR,
    DECIDED_BY_PRIOR,
    DECIDES_EXACTLY,
    READS_NONE,
    OneBlock,
)
from subsample_mcmc.kernels.decision import (
    Decision,
    Judge,
    count_decision,
    count_end,
    decide,
    fail,
    in_one_loop,
)
from subsample_mcmc.kernels.pseudoprior import PseudoPrior, choice_step
from subsample_mcmc.kernels.sites.asked import check_data
from subsample_mcmc.kernels.sites.by_site import NO_SITES, SitePrior, part_of, terms_of
from subsample_mcmc.kernels.sites.by_site import prior_at as prior_of_sites
from subsample_mcmc.kernels.sites.independent import only_before
from subsample_mcmc.kernels.sites.ordered import check_cumulative, check_values
from subsample_mcmc.kernels.sites.own_prior import check_others, check_own_prior
from subsample_mcmc.kernels.sites.touches import MANY, check_touches
from subsample_mcmc.kernels.sites.watching import Watched, remember, sees_others, watched
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import NUMBER, FunctionAddress, call_numbers
from subsample_mcmc.numerics.random import gumbel
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.layout import Block
from subsample_mcmc.target.lookups.reads import unread
from subsample_mcmc.target.moved import Moved
from subsample_mcmc.target.rewards import place, rewards
from subsample_mcmc.target.user_functions import plain


class GibbsTools(NamedTuple):
    """What a Gibbs step works with."""

    judge: Judge
    indptr: np.ndarray  # which part of the indices a site touches
    touched: int  # does it touch but a part of the data
    scan: int
    weights: np.ndarray  # cumulative, for the weighted scan
    temperatures: np.ndarray  # by iteration; the last one holds
    tilt: np.ndarray  # (arms,) added to the log prior
    noisy: int  # 1: Gumbels are added, too; 0: the selector makes the draw
    row: np.ndarray  # one row, and its rewards for two arms
    ends: np.ndarray
    inactive: Any  # what a pseudo-prior needs, or ()
    watched: Watched
    prior: Any  # a prior of one site's value, called by its address
    terms: SitePrior  # what the model has instead, of each site
    first: int  # number of the first site


@dataclass(frozen=True, eq=False)
class Gibbs(OneBlock):
    """Draw every site of a discrete block from its conditional distribution.

    block: its name.
    selector: how a draw is decided; default Thinned() with a control variate whose residuals are
        bounded, else Racing(). Sites that see too few data for a race are summed exactly in one
        loop, whatever the selector; a block that no datum depends on, such as indicators in a
        prior, is drawn from the prior alone. describe(model) says so.
    scan: "fixed" order, "random" (as many updates, sites drawn uniformly), or an array of one
        weight per site.
    log_prior(state, data, site, arm) -> float: the model's prior of one site's value given the
        rest, up to a constant, for speed: without it log_prior is evaluated at every arm.
    temperature: a number, or an array by iteration of the chain (its last value holds): draws
        from the conditional to the power 1/temperature, for annealing.
    cumulative: for an ordered support, such as a change point: the promise that the values a and
        a + 1 give all data but datum number a the same log likelihood: all K values then cost 2 K
        evaluations instead of K N. Checked when the chain is built.
    control: a control variate such as sm.Taylor(fit).
    pseudo: for models whose parameters are a block that varies in length with this one
        (Model(lengths=...)): sm.PseudoPrior(fits). The draw then moves both.

    Example:
        >>> def log_likelihood(state, data, n):
        ...     return -abs(data.y[n] - 0.5 * state.k[0])
        >>> y = np.random.default_rng(0).laplace(1.5, 1.0, 5_000)
        >>> model = sm.Model(log_likelihood, {"y": y}, state={"k": 0}, support={"k": 6})
        >>> trace = sm.sample(model, sm.Gibbs("k"), draws=100, warmup=0, chains=1, seed=1)
        >>> float(trace.draws["k"].mean())  # all at 0.5 * 3
        3.0
    """

    in_parts: ClassVar[bool] = True

    block: str
    selector: Selector = Default()
    scan: Any = "fixed"
    log_prior: Any = None
    temperature: Any = 1.0
    cumulative: bool = False
    control: Any = None
    pseudo: PseudoPrior | None = None

    def __post_init__(self):
        self.take_selector()
        self.take_control()
        heat = np.asarray(self.temperature, dtype=float)
        if heat.ndim > 1 or heat.size == 0 or not np.all((heat > 0.0) & (heat < np.inf)):
            told = f"temperature={self.temperature!r}"
            raise ValueError(f"{told}: give a positive number, or an array of them by iteration.")
        if self.log_prior is not None:
            plain(self.log_prior, "log_prior", "log_prior(state, data, site, arm) -> float")
        if isinstance(self.scan, str) and self.scan not in ("fixed", "random"):
            raise ValueError(f'scan={self.scan!r}: it must be "fixed", "random" or weights.')
        if self.pseudo is not None and not isinstance(self.pseudo, PseudoPrior):
            raise TypeError(f"pseudo={self.pseudo!r:.60}: give sm.PseudoPrior(fits).")
        other = self.log_prior is not None or self.cumulative or np.any(heat != 1.0)
        if self.pseudo is not None and other:
            raise ValueError("pseudo goes with neither log_prior, cumulative nor temperature.")

    @property
    def writes(self) -> tuple[str, ...]:
        """The block, and the parameters of its models."""
        if self.pseudo is None:
            return (self.block,)
        return (self.block, self.pseudo.block_of(self.pseudo.fit[0].model, self.block))

    @property
    def label(self) -> str:
        """The block alone."""
        return self.block

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """What the selector promises, per draw of a site; nothing of tempered draws."""
        if np.atleast_1d(self.temperature)[-1] != 1.0:
            return "none"
        return "exact" if self.cumulative else self.selector.guarantee

    def facts(self, model=None) -> dict[str, Any]:
        """Adds arms, rows per decision, which path was chosen, and whether draws are tempered."""
        told, heat = self.facts_of_draws(model), np.atleast_1d(self.temperature)
        if np.any(heat != 1.0):
            ends = f"temperature {heat[0]:.3g}" + f" to {heat[-1]:.3g}" * (len(heat) > 1)
            told["note"] = f"{told['note']}; {ends}" if told["note"] else ends
        if heat[-1] != 1.0:
            told |= {"guarantee": self.guarantee, "temperature": float(heat[-1])}
            told["promise"] = (
                f"draws from conditionals to the power 1/{heat[-1]:.3g}, not from the posterior: "
                "its temperature does not end at 1."
            )
        return told

    def facts_of_draws(self, model) -> dict[str, Any]:
        """The same of the decisions alone."""
        told = super().facts(model)
        if model is None:
            return told
        variable = model.variables[self.block]
        told["arms"], told["rows"] = variable.support, self.rows(model)
        if self.by_prior(model):
            return told | DECIDED_BY_PRIOR
        if self.pseudo is not None:
            told["note"] = "with the parameters of each model, drawn from pseudo-priors"
            told["parts"].append(type(self.pseudo).__name__)
        if self.cumulative:
            told |= DECIDES_EXACTLY
            told["note"] = "cumulative sums over an ordered support"
        elif self.local(model):
            told |= DECIDES_EXACTLY | {"guarantee": "exact"}
            told["note"] = f"at most {told['rows']} data per site: summed exactly in one loop"
        return told

    def suspects(self, model, state):
        """Its own prior."""
        if self.log_prior is not None:
            yield self.log_prior, (state, model.data, np.int64(0), np.int64(0))

    def by_prior(self, model) -> bool:
        """Is it drawn from the prior alone: no datum depends on it, nor on what goes with it."""
        start = model.variables[self.block].block.start
        if self.pseudo is not None or self.cumulative or self.selector.thins:
            return False
        if any(v.place == start for v in model.variables.values()):
            return False
        return unread(model, (self.block,))

    def reads(self, model) -> str:
        """What a stored run must have in common with it, beside the kernel as it is written."""
        return READS_NONE if self.by_prior(model) else ""

    def touches(self, model) -> tuple[np.ndarray, np.ndarray] | None:
        """Which data each site's draw is about, (indptr, indices); None: all."""
        variable = model.variables[self.block]
        if self.cumulative:  # differences are read, each of one datum, by its number
            return None
        if self.by_prior(model):
            none = np.zeros(variable.block.length + 1, dtype=np.int64)
            return none, none[:0]
        return variable.touches

    def rows(self, model) -> int:
        """The most data that a site's draw is about."""
        touches = self.touches(model)
        return model.size if touches is None else int(np.diff(touches[0]).max())

    def reads_before(self, model) -> int | None:
        """How many sites before its own a site's prior reads, where its terms are the prior's.

        None: a draw asks the prior of the whole state.
        """
        if self.log_prior is not None or self.touches(model) is None or self.pseudo is not None:
            return None
        return only_before(self.block, model)

    def local(self, model) -> bool:
        """Is every site's draw summed directly: it sees too few data, or nothing races."""
        if self.by_prior(model):
            return True
        if self.control is not None or self.pseudo is not None:
            return False
        return self.selector.reads_everything(self.rows(model))

    def asks(self, model) -> Decision:
        """The decision that each draw of a site is."""
        variable = model.variables[self.block]
        touched = self.touches(model) is not None
        control = None if self.by_prior(model) else self.control
        draws = bool(np.all(np.asarray(self.temperature) == 1.0))
        return Decision(self.selector, control, variable.support, touched, draws=draws)

    def usual_selector(self, model) -> Selector:
        """What decides where no selector was given."""
        return self.asks(model).usual_selector(model, self.block)

    def not_in_parts(self, model) -> str:
        """Why sites cannot move in parts; empty: they can."""
        if model.variables[self.block].touches is None or self.cumulative or self.pseudo:
            return "its draws are about all data: give sm.Model(touches=...), and no cumulative"
        if not isinstance(self.scan, str) or self.scan != "fixed":
            return 'parts go through their sites in order: give scan="fixed"'
        return ""

    def check(self, model) -> None:
        """Refuse continuous blocks, bad weights, and priors that would cost sites squared."""
        variable = model.variables[self.block]
        sites = variable.block.length
        if not variable.block.discrete:
            raise ValueError(
                f"Gibbs({self.block!r}): the block is continuous; use sm.Metropolis or "
                "sm.Langevin, or give it as integers with a support."
            )
        if sites > MANY and self.log_prior is None and variable.touches is None:
            raise ValueError(
                f"block {self.block!r} has {sites} sites, and each draw would read all "
                f"{model.size} data and the prior of the whole state: declare which data a site "
                "touches (Model(touches=...)), or a local Gibbs(log_prior=...)."
            )
        if not isinstance(self.scan, str):
            weights = np.asarray(self.scan, dtype=float)
            if weights.shape != (sites,) or not np.all((weights > 0.0) & (weights < np.inf)):
                raise ValueError(
                    f"scan has shape {weights.shape}: give one positive weight for each of "
                    f"{sites} sites."
                )
        if self.pseudo is not None and variable.touches is not None:
            raise ValueError(
                f"Gibbs({self.block!r}, pseudo=...): its sums are over all data; leave out the "
                "model's touches of this block."
            )
        if self.control is not None and (self.cumulative or variable.touches is not None):
            raise ValueError(
                f"Gibbs({self.block!r}, control=...): its sums are over all data; leave out "
                "cumulative and the model's touches of this block, or the control variate."
            )
        self.asks(model).check(model, self.block)
        if self.pseudo is not None:
            self.pseudo.check(model, self.block)
        elif any(v.place == variable.block.start for v in model.variables.values()):
            raise ValueError(
                f"Gibbs({self.block!r}): other blocks vary in length with {self.block!r}, and the "
                "parameters of another model must come from somewhere: give "
                "pseudo=sm.PseudoPrior([sm.laplace(model, given={...: k}) for k in ...])."
            )
        if self.cumulative:
            check_cumulative(self.block, model)
        if variable.touches is not None:
            check_touches(self.block, model)
            check_data(self.block, model)
        if self.log_prior is not None:
            check_own_prior(self, model, self.prior_address)

    check_among = check_others  # that would leave out its log_prior

    def prior_address(self, context) -> FunctionAddress:
        """Where log_prior is, called with a context, a site and an arm."""
        function = of_site(jit(self.log_prior, flags=FLAGS, user=True, inner=True))
        return FunctionAddress(function, context, NUMBER, NUMBER)

    def build(self, model) -> Any:
        """The compiled sweep."""
        if self.pseudo is not None:
            return choice_step
        if self.cumulative:
            check_values(self.block, model)
        return CUMULATIVE if self.cumulative else SITES

    def bind(self, model, run) -> GibbsTools:
        """Tools of one chain."""
        variable = model.variables[self.block]
        indptr, indices = self.touches(model) or (np.zeros(1, dtype=np.int64), None)
        place, first, candidates, beside = variable.block, 0, None, None
        if run.part is not None:
            first, sites, start, _ = part_of(model, run, self.block)
            place, indptr = Block(self.block, True, (sites,), start), indptr[first:][: sites + 1]
        inactive: Any = ()
        if self.pseudo is not None:
            theta = model.variables[self.pseudo.block_of(model, self.block)]
            candidates = Moved((theta,)).candidates(model, variable.support)
            beside = theta.block
            inactive = self.pseudo.numbers(model, self.block)
        decision = self.asks(model)
        if self.cumulative or self.local(model):
            decision = replace(decision, selector=Exact())  # which is not asked
            made = None if self.cumulative else in_one_loop(decision.touched), None
        else:
            made = decision.deciders(model)
        judge = decision.bind(
            model, run, place, self.rows(model), made, candidates, indices, beside
        )
        kind, weights = FIXED, np.zeros(1)
        if not isinstance(self.scan, str):
            kind, weights = WEIGHTED, np.cumsum(np.asarray(self.scan, dtype=float))
            weights /= weights[-1]
        elif self.scan == "random":
            kind = RANDOM
        heat = np.atleast_1d(np.asarray(self.temperature, dtype=float)).copy()
        tilt = run.tilt(self.block, variable.support)
        prior: Any = 0
        context, terms = judge.trial.calls.context, NO_SITES
        if self.log_prior is not None:
            prior = self.prior_address(context)
        elif (behind := self.reads_before(model)) is not None:
            terms = terms_of(model, self.block, context, behind)
        return GibbsTools(
            judge, indptr, int(decision.touched), kind, weights, heat, tilt,
            int(not decision.selector.thins),
            np.zeros(1, dtype=row_kind(model.size)), np.zeros((2, 1)), inactive,
            watched(model, run, self.block, judge.trial), prior, terms, first,
        )  # fmt: skip


# -------------------------------------------------------------------------- draws of single sites
FIXED, RANDOM, WEIGHTED = range(3)


@memoised
def of_site(prior) -> Any:
    """A prior of one site's value, to be called by its address."""

    @jit(inner="entry", user=True)
    def value(context, site, arm):
        return 1.0 * prior(context.state, context.data, site, arm)

    return value


@jit(inner=True)
def prior_at(tools, site, arm):
    """The log prior of a site's value, of its own or of the whole state with it."""
    trial, own = tools.judge.trial, tools.first + site
    if tools.prior != 0:
        return call_numbers(tools.prior, trial.calls.context, own, arm)
    place(trial, arm)
    return prior_of_sites(trial, tools.terms, own, own + 1)


@jit(inner="always")
def fill_offsets(chain, tools, site):
    """Log prior of every arm, plus a Gumbel; are all of them numbers."""
    trial, offsets, now = tools.judge.trial, tools.judge.offsets, chain.now[0]
    # p^(1/T): rewards and prior over T against a Gumbel, or both against T Gumbels.
    heat = tools.temperatures[min(now.iteration, len(tools.temperatures) - 1)]
    for arm in range(len(offsets)):
        value = prior_at(tools, site, arm)
        if not_a_sum(value):
            fail(now, trial, BAD_PRIOR, arm, -1)
            return False
        offsets[arm] = value + tools.tilt[arm]
        if tools.noisy == 1:
            offsets[arm] += heat * gumbel(chain.rng)
    return True


@jit(inner="always")
def at_site(chain, tools, site):
    """One draw of one site."""
    trial = tools.judge.trial
    target = trial.target[0]
    target.site = site
    current = trial.ints[target.start + site]
    if tools.touched == 1:
        target.first = tools.indptr[site]
        target.rows = tools.indptr[site + 1] - target.first
    if fill_offsets(chain, tools, site):
        decide(chain, tools.judge, current)
    else:
        place(trial, current)


@jit(inner="always")
def cumulative_site(chain, tools, site):
    """The same for an ordered support: arm a + 1 differs from arm a in datum a alone."""
    judge = tools.judge
    trial, tally = judge.trial, judge.tally[0]
    target = trial.target[0]
    target.site = site
    current = trial.ints[target.start + site]
    if not fill_offsets(chain, tools, site):
        place(trial, current)
        return
    row, before, after = tools.row, tools.ends[0], tools.ends[1]
    # -inf terms are counted, not added: later arms may lose them again. `bad` is relative to
    # arm 0, which has `first_bad` of them.
    best, highest, relative, bad, least, first_bad = 0, judge.offsets[0], 0.0, 0, 0, 0
    for arm in range(1, len(judge.offsets)):
        row[0] = arm - 1
        rewards(trial, arm - 1, row, before)
        rewards(trial, arm, row, after)
        if not_a_sum(before[0]) or not_a_sum(after[0]):
            at = arm - 1 if not_a_sum(before[0]) else arm
            fail(chain.now[0], trial, NOT_FINITE, at, arm - 1)
            place(trial, current)
            return
        if before[0] == -np.inf:
            first_bad += 1
            bad -= 1
        else:
            relative -= before[0]
        if after[0] == -np.inf:
            bad += 1
        else:
            relative += after[0]
        score = judge.offsets[arm] + relative
        if score > -np.inf and (bad < least or (bad == least and score > highest)):
            best, highest, least = arm, score, bad
    if highest == -np.inf or first_bad + least > 0:
        fail(chain.now[0], trial, ALL_IMPOSSIBLE, -1, -1)
        place(trial, current)
        return
    count_decision(tally, 2 * (len(judge.offsets) - 1))  # all that an exact draw takes
    count_end(tally, EXACT)
    tally.pulls += 2 * (len(judge.offsets) - 1)
    tally.accepted += 1 if best != current else 0
    place(trial, best)


def sweep(at_site):
    """step(chain, tools): every site once, or as many sites drawn at random."""

    @jit(inner="always")
    def step(chain, tools):
        trial = tools.judge.trial
        tools.judge.tally[0].steps += 1
        remember(tools.watched)
        sites = trial.target[0].length
        for k in range(sites):
            site = k
            if tools.scan == RANDOM:
                site = min(int(chain.rng.random() * sites), sites - 1)
            elif tools.scan == WEIGHTED:
                u, low, high = chain.rng.random(), 0, sites - 1
                while low < high:
                    middle = (low + high) // 2
                    if tools.weights[middle] > u:
                        high = middle
                    else:
                        low = middle + 1
                site = low
            at_site(chain, tools, site)
            if chain.now[0].code != 0:
                return
        sees_others(chain, tools.watched)

    return step


SITES, CUMULATIVE = sweep(at_site), sweep(cumulative_site)
