"""Spike and slab: coefficients that are exactly 0, or not, with an indicator for each.

The state is (gamma, beta) with beta[j] = 0 where gamma[j] = 0, and the log likelihood reads beta
alone: so one expansion around the fit of all coefficients serves all 2^d choices of them. For each
j, one after the other,

    off -> on: beta[j] from N(m_j, s_j^2), accepted by pi(on) / (pi(off) N(beta[j]; m_j, s_j^2));
    on -> off: the same, the other way round;
    on -> on:  a fresh beta[j] from N(m_j, s_j^2), an independence proposal; or, in one move of
               eight, from its neighbourhood: where the posterior's tails are heavier than the
               Gaussian's, a coefficient out there would see all fresh values refused.

m_j and s_j are those of beta[j] given the others in the Gaussian around the fit. They do not depend
on beta[j], so each of the three leaves the posterior fixed whatever they are; how near they are to
its conditional is what acceptance depends on.

Of many columns the bounds of sums over all coefficients say little: where sm.Taylor is of second
order and rows are few enough, a decision reads one column instead, and the predictors of all rows
are kept (columns/). The moves are the same. Sums are then expanded where small coefficients of the
fit are 0: there the chain is, and far from the fit, which has the noise of all of them.

A coefficient that the fit puts many standard deviations off 0 is asked in one sweep of a hundred
whether it is 0: such decisions are far from the fit, where many rows are read, and nearly hopeless.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from math import log
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.approx.columns.sparse import sparse_mean
from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.racing import Default
from subsample_mcmc.decisions.selector import Selector, not_a_sum
from subsample_mcmc.decisions.thinned import Thinned
from subsample_mcmc.kernels.base import BAD_PRIOR, BOUND
from subsample_mcmc.kernels.columns.flip import make_flips
from subsample_mcmc.kernels.columns.kept import keep_predictors
from subsample_mcmc.kernels.columns.proposal import is_asked, proposed
from subsample_mcmc.kernels.columns.sweep import ColumnTools, sweep_of_columns
from subsample_mcmc.kernels.continuous import ContinuousBlock, start_from_current
from subsample_mcmc.kernels.decision import Judge, decide, fail
from subsample_mcmc.kernels.sites.touches import called
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.target.constraints import REAL
from subsample_mcmc.target.lookups.reads import unread
from subsample_mcmc.target.moved import Moved
from subsample_mcmc.target.rewards import place, prior_of
from subsample_mcmc.target.user_functions import plain

HOPELESS, SELDOM = 40.0, 0.01  # nats by which 0 is behind in the fit; share of sweeps that ask then
LOOKED_AT = 64  # coefficients whose prior is asked ...
FAR, SECONDS = 1e9, 0.3  # ... at 0, near it, and here; for indicators of other kernels, so long
MODERATE = 10.0  # nats by which a slab is lower between 1 and 2 than at 0, at most
# Stored with runs: those of before had no walks, and never one column a decision.
READS_COLUMNS, READS_ALL = "a column each, and walks", "those of all coefficients, and walks"


class SpikeTools(NamedTuple):
    """What a sweep over the coefficients works with."""

    judge: Judge
    indicators: int  # where they start in the integers
    mean: np.ndarray
    precision: np.ndarray  # (d, d)
    chance: np.ndarray  # (d,) that a sweep asks whether a coefficient changes its indicator
    noise: np.ndarray  # (2,)


@dataclass(frozen=True, eq=False)
class SpikeAndSlab(ContinuousBlock):
    """Draw indicators and coefficients together: each is 0, or has a prior with a density.

    block: the coefficients, real numbers, 0 where their indicator is.
    indicators: a discrete block of as many sites with support 2, which log_likelihood does not
        read. log_prior(state) is that of both: where gamma[j] is 1, the log of its probability plus
        the log density of beta[j] (with its constant); where it is 0, the log of the other
        probability, and nothing of beta[j].
    fit: sm.laplace(model, "beta", given={"gamma": ones}): coefficients are proposed from its
        Gaussian, each given the others: the nearer to the posterior, the more are accepted.
    control: a control variate, sm.Taylor(fit), whose sums serve all choices of coefficients: nearly
        all decisions then read a few rows, or none. Of second order (the usual one of more than 40
        coefficients), on sm.Predictors of one predictor with derivatives and remainder, in memory,
        and at most ten rows for each square of the number of coefficients, a decision is about one
        column: columns are kept a second time, with the predictors of all rows, and what is
        accepted costs one pass over a column. sm.Thinned decides there, the default.
    selector: as in sm.Metropolis.

    It moves both blocks; no other kernel may move the coefficients, as it would take them off 0.
    Other kernels read such a prior otherwise, as a flat density of beta[j] where gamma[j] is 0:
    sm.sample(model) without a kernel refuses it, and names this one.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.standard_normal((5_000, 4))
        >>> y = x @ [1.0, 0.05, 0.0, 0.0] + rng.standard_normal(5_000)
        >>> def log_prior(state):
        ...     total = 0.0
        ...     for j in range(4):
        ...         if state.gamma[j] == 1:  # in, with probability .2: normal
        ...             total += -1.609 - 0.919 - 0.5 * state.beta[j] ** 2
        ...         else:
        ...             total += -0.223
        ...     return total
        >>> given = sm.models.glm.gaussian(x, y)
        >>> model = sm.Model(
        ...     given.predictors, given.data, {"gamma": np.ones(4, int), "beta": np.zeros(4)},
        ...     log_prior, support={"gamma": 2},
        ... )
        >>> fit = sm.laplace(model, "beta")
        >>> kernel = sm.SpikeAndSlab("beta", "gamma", fit, control=sm.Taylor(fit))
        >>> trace = sm.sample(model, kernel, draws=1_000, warmup=100, chains=1, seed=1)
        >>> trace.draws["gamma"].mean(axis=(0, 1)).round(1).tolist()
        [1.0, 0.4, 0.0, 0.0]
    """

    block: str
    indicators: str
    fit: Any
    selector: Selector = Default()
    control: Any = None
    several: ClassVar[bool] = False

    def __post_init__(self):
        self.take_selector()
        self.take_control()
        if not hasattr(self.fit, "gaussian"):
            raise TypeError(
                f"{self.text()}: fit={self.fit!r:.40}: give sm.laplace(model, {self.block!r}, "
                f"given={{{self.indicators!r}: np.ones(d, int)}})."
            )

    @property
    def writes(self) -> tuple[str, ...]:
        return self.block, self.indicators

    def text(self) -> str:
        return f"SpikeAndSlab({self.block!r}, {self.indicators!r})"

    def facts(self, model=None) -> dict[str, Any]:
        """Adds what is moved."""
        told = super(ContinuousBlock, self).facts(model)
        if model is not None and self.by_column(model):
            told["note"] = "a decision reads one column: the predictors of all rows are kept"
            told["by_column"] = True
        return told | {
            "arms": 2, "proposes": True, "walks": False, "zeros": self.block,
            "moves": f"{self.block} and {self.indicators}, one coefficient after the other",
        }  # fmt: skip

    def by_column(self, model) -> bool:
        """Does a decision read one column, of rows whose predictors are kept."""
        thins = self.selector.thins or self.selector.by_default
        return thins and self.control is not None and self.control.by_column(model)

    def usual_selector(self, model) -> Selector:
        """What decides where no selector was given."""
        return Thinned() if self.by_column(model) else super().usual_selector(model)

    def reads(self, model) -> str:
        """What a stored run must have in common with it, beside the kernel as it is written."""
        return READS_COLUMNS if self.by_column(model) else READS_ALL

    def prepared(self, model) -> Any:
        """See Leaf: columns, or the sums over all coefficients."""
        if not self.by_column(model):
            return super().prepared(model)
        self.columns_of(model)
        return None

    def columns_of(self, model) -> Any:
        """Columns, and sums around the fit with small coefficients at 0: there chains will be."""
        real = (
            name for name in getattr(self.fit, "blocks", ())
            if name != self.block and model.variables[name].constraint.kind == REAL
        )  # fmt: skip
        names = (self.block, *real)
        mean, covariance = self.fit.gaussian(names)
        known = model.prepared.setdefault(sparse_mean, {})
        count = model.variables[self.block].block.length
        if (key := (count, mean.tobytes(), sha256(covariance.tobytes()).digest())) not in known:
            known[key] = sparse_mean(mean, covariance, count)
        near, at = np.full(len(model.floats), np.nan), 0
        for name in names:
            block = model.variables[name].block
            near[block.start : block.start + block.length] = known[key][at : at + block.length]
            at += block.length
        return self.control.columns(model, near)

    def check(self, model) -> None:
        """Refuse models whose likelihood reads the indicators, and states that contradict them."""
        found = model.variables
        beta, gamma, told = found[self.block], found[self.indicators], self.text()
        if beta.block.discrete or beta.constraint.kind != REAL or beta.place >= 0:
            raise ValueError(f"{told}: block {self.block!r} must be real numbers, all in use.")
        if not gamma.block.discrete or gamma.support != 2:
            raise ValueError(
                f"{told}: block {self.indicators!r} must be integers with "
                f"support={{{self.indicators!r}: 2}}: 0 for a coefficient that is 0."
            )
        if gamma.block.length != beta.block.length:
            raise ValueError(
                f"{told}: {gamma.block.length} indicators for {beta.block.length} coefficients."
            )
        if not unread(model, (self.indicators,)):
            raise ValueError(
                f"{told}: log_likelihood reads {self.indicators!r}, or hands the state on to a "
                f"function that may. Let it read {self.block!r} alone, which is 0 where its "
                "indicator is: then one control variate serves all choices of coefficients."
            )
        if self.by_column(model):
            self.control.check(model, self.block)
        else:
            self.decision.check(model, self.block)
        self.fit.gaussian((self.block,))
        check_prior(self, model)

    def check_among(self, leaves, model) -> None:
        """Refuse others that would take coefficients off 0."""
        for leaf in leaves:
            if leaf is not self and set(leaf.writes) & set(self.writes):
                why = "would take coefficients off 0 whose indicators say so"
                if isinstance(leaf, SpikeAndSlab) and leaf.writes == self.writes:
                    why = "is a second one: each learns by itself, and one serves"
                raise ValueError(
                    f"{self.text()} moves {self.block!r} and {self.indicators!r}, and so does "
                    f"{leaf.text()}, which {why}: leave it out."
                )

    def build(self, model) -> Any:
        """The compiled sweep."""
        return sweep_of_columns if self.by_column(model) else sweep_of_spikes

    def bind(self, model, run) -> SpikeTools | ColumnTools:
        """Tools of one chain."""
        beta, gamma = model.variables[self.block], model.variables[self.indicators]
        given = np.array(self.fit.gaussian((self.block,))[0], dtype=float)
        covariance = np.atleast_2d(self.fit.gaussian((self.block,))[1])
        precision = np.linalg.inv(covariance)
        # Where the others make up for it: columns that are much alike take each other's place.
        behind = 0.5 * given**2 / np.diag(covariance)
        chance = np.where(behind > HOPELESS, SELDOM, 1.0)
        ends = Moved((beta,)).candidates(model)
        if not self.by_column(model):
            judge = self.decision.bind(
                model, run, beta.block, model.size, self.decision.deciders(model), ends
            )
            return SpikeTools(judge, gamma.block.start, given, precision, chance, np.zeros(2))
        counted = replace(self.decision, selector=Exact(), control=None)
        judge = counted.bind(model, run, beta.block, model.size, (None, None), ends)
        bound = run.more_words(len(BOUND)).view(float)
        flips = make_flips(keep_predictors(model, self.columns_of(model)), self.selector, bound)
        return ColumnTools(
            judge.trial, flips, judge.tally, beta.block.start, gamma.block.start, given, precision,
            chance, np.zeros(len(given)), np.zeros(2), np.zeros(1), int(run.audited),
        )  # fmt: skip


@jit(inner="always")
def conditional(tools, x, j):
    """(mean, standard deviation) of coefficient j given the others, in the fit's Gaussian."""
    mean, own = tools.mean, tools.precision[j]
    pull = 0.0
    for k in range(len(mean)):
        if k != j:
            pull += own[k] * (x[k] - mean[k])
    return mean[j] - pull / own[j], 1.0 / own[j] ** 0.5


@jit(inner="always")
def spike_move(chain, tools, j, on):
    """Propose coefficient j on (1) or off (0), and decide; False after an error."""
    judge, trial, now = tools.judge, tools.judge.trial, chain.now[0]
    offsets, at = judge.offsets, tools.indicators + j
    before = trial.ints[at]
    start_from_current(trial)
    x, y = trial.candidates[0], trial.candidates[1]
    mean, sd = conditional(tools, x, j)
    y[j], ratio = proposed(chain, tools.noise, before, on, x[j], mean, sd)
    threshold = log(1.0 - chain.rng.random())
    offsets[0] = prior_of(trial)
    place(trial, 1)
    trial.ints[at] = on
    offsets[1] = prior_of(trial) + ratio
    trial.ints[at] = before
    place(trial, 0)
    if not_a_sum(offsets[0]) or not_a_sum(offsets[1]):
        fail(now, trial, BAD_PRIOR, 0 if not_a_sum(offsets[0]) else 1, -1)
        return False
    offsets[0] += threshold
    if decide(chain, judge, 0) == 1:
        trial.ints[at] = on
    return now.code == 0


@jit(inner="always")
def sweep_of_spikes(chain, tools):
    """step(chain, tools): each coefficient is offered the other state, then a fresh value."""
    trial = tools.judge.trial
    tools.judge.tally[0].steps += 1
    for j in range(len(tools.mean)):  # a start may contradict its indicators: they count
        if trial.ints[tools.indicators + j] == 0:
            trial.floats[trial.target[0].start + j] = 0.0
    for j in range(len(tools.mean)):
        asks = is_asked(chain, tools.chance[j], trial.ints[tools.indicators + j])
        if asks and not spike_move(chain, tools, j, 1 - trial.ints[tools.indicators + j]):
            return
        if trial.ints[tools.indicators + j] == 1 and not spike_move(chain, tools, j, 1):
            return


def check_prior(kernel: SpikeAndSlab, model) -> None:
    """Refuse a prior that depends on a coefficient whose indicator is 0."""
    if model.log_prior is None:
        raise ValueError(
            f"{kernel.text()}: the model has no log_prior, which says how probable an indicator of "
            "1 is, and where its coefficient lies then."
        )
    for j, (found, near, _), seen in priors(model, kernel.block, kernel.indicators):
        if found != near:
            raise ValueError(
                f"{kernel.text()}: with {kernel.indicators}[{j}] = 0 log_prior goes from "
                f"{found:.6g} to {near:.6g} where {kernel.block}[{j}] changes, which is 0 "
                "then: add its density only where the indicator is 1."
            )
        if len(set(seen)) == 1 and np.isfinite(seen[0]):
            raise ValueError(
                f"{kernel.text()}: with {kernel.indicators}[{j}] = 1 log_prior does not change "
                f"with {kernel.block}[{j}], be it 0 or {FAR:g}: how probable the indicator is "
                "would depend on a constant that nobody chose. Give it a density, such as "
                "Normal(0, sd^2) with -log(sd) - log(2 pi) / 2."
            )


def priors(
    model, block: str, indicators: str, shift: int = 0
) -> Iterator[tuple[int, list[float], list[float]]]:
    """(j, log_prior where indicator j is 0, where it is 1), at 0, near it and FAR of block[j]."""
    log_prior = plain(model.log_prior, "log_prior", "log_prior(state)")
    beta, gamma = model.variables[block].block, model.variables[indicators].block
    rng = np.random.default_rng(0)
    for j in rng.permutation(gamma.length)[:LOOKED_AT]:
        ints, floats = model.ints.copy(), model.floats.copy()
        of = ints[gamma.start : gamma.start + gamma.length]
        values = floats[beta.start : beta.start + beta.length]
        of[:], values[:] = 1, rng.standard_normal(beta.length)
        state, told = model.state(ints, floats), []
        for of[j] in (0, 1):
            told.append([])
            for values[j + shift] in (0.0, 1.0 + rng.random(), FAR):
                try:
                    told[-1].append(called(log_prior, state))
                except OverflowError:  # compiled, exp(FAR) is infinite
                    told[-1].append(-np.inf)
        yield int(j), told[0], told[1]


def left_out(model, block: str, indicators: str) -> int | None:
    """The value of an indicator, 0 or 1, at which log_prior says nothing of its coefficient.

    It does at the other, for some of them: as SpikeAndSlab reads it. None: there is no such value.
    Indicators may be one fewer than coefficients, of which one is an intercept.
    """
    if model.log_prior is None:
        return None
    fewer = model.variables[block].block.length - model.variables[indicators].block.length
    begun = time.thread_time()
    for shift in range(fewer + 1):
        inverse = []
        for _, off, on in priors(model, block, indicators, shift):
            if says_nothing(off) and on[0] > on[2]:
                return 0
            # A constant where it is 1 may be a uniform law's, whose bounds were left out.
            inverse.append(says_nothing(on) and 0.0 < off[0] - off[1] < MODERATE)
            if time.thread_time() - begun > SECONDS:
                break
        if inverse and all(inverse):
            return 1
    return None


def says_nothing(values: list[float]) -> bool:
    """Is a log prior the same, whatever the coefficient."""
    return bool(np.isfinite(values).all()) and len(set(values)) == 1
