"""lil'UCB and the LIL stopping rule (Jamieson, Malloy, Nowak & Bubeck 2014).

Both rest on a finite law of the iterated logarithm (their Lemma 1): for centred sums of
sub-Gaussian(s) rewards, with probability 1 - c(e) nu^(1 + e), at all times T at once,

    mean_T - mean <= (1 + sqrt(e)) sqrt(2 s^2 (1 + e) log(log((1 + e) T + 2) / nu) / T),

c(e) = (2 + e) / e * (1 / log(1 + e))^(1 + e). The "+ 2" is their footnote 1 and keeps the iterated
logarithm defined at T = 1.
"""

from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.bandits.heap import Heap, make_heap, put, runner_up
from subsample_mcmc.bandits.strategy import (
    OWN_RULE,
    STOPPING_RULE,
    Steps,
    Strategy,
    answer_pulls,
    begin,
    check_delta,
    check_scale,
    must_be_strategy,
    note,
    stop,
)
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised

EPSILON = 0.01  # e of the bounds that hold


def constant(e: float) -> float:
    """c(e) of the lemma."""
    return (2.0 + e) / e * (1.0 / log(1.0 + e)) ** (1.0 + e)


@jit(inner=True)
def iterated(pulls, inflate, level):
    """sqrt(log(log((1 + e) T + 2) / nu) / T), given log nu."""
    return sqrt((log(log(inflate * pulls + 2.0)) - level) / pulls)


# ------------------------------------------------------------------------------------- lil'UCB
class Constants(NamedTuple):
    """e, the width (1 + beta)(1 + sqrt(e)) sqrt(2 (1 + e)), log of the internal delta, lambda."""

    e: float
    width: float
    level: float
    patience: float


def proved_patience(beta: float, e: float, level: float) -> float:
    """The lambda that the proof of the theorem asks for; level: log of the internal delta."""
    square = ((2.0 + beta) / beta) ** 2
    above = 1.0 - log(2.0 * (log(square) - level)) / level
    below = 1.0 - (1.0 + e) * exp(level) - sqrt(-sqrt(1.0 + e) * exp(0.25 * level) * level)
    return square * above / below


def lil_constants(variant: str, delta: float, arms: int) -> Constants:
    """The paper's constants; internal delta: the level of the bound that makes delta's error.

    "theory" inverts 4 sqrt(c(e) nu) + 4 c(e) nu = delta of its Theorem 2. "experiment" is what
    its figures call lil'UCB, as remembered from an early version of it: no theorem covers it.
    lambda = 9 = ((2 + beta) / beta)^2 is what its authors recommend and "experiment" has. The proof
    of the theorem asks for more at beta = 1, which "theory" has: 20.8 at delta = .1, 15.2 at .01.
    """
    e, beta, patience = 0.01, 1.0, 9.0
    if variant == "theory":
        level = 2.0 * (log(delta) - log(1.0 + sqrt(1.0 + delta))) - log(4.0 * constant(e))
        patience = proved_patience(beta, e, level)
    elif variant == "experiment":
        level = (log(delta) + log(e / (5.0 * (2.0 + e)))) / (1.0 + e)
    else:
        e, beta, patience, level = 0.0, 0.5, 1.0 + 10.0 / arms, log(delta) - log(5.0)
    return Constants(e, (1.0 + beta) * (1.0 + sqrt(e)) * sqrt(2.0 * (1.0 + e)), level, patience)


class LilNumbers(NamedTuple):
    """The constants times the scale; batch: pulls of an arm before the next is chosen.

    The theorem holds because an arm that is not best is not on top once it has lambda times the
    pulls of all others together: by single pulls it gets at most 1 beyond that, which is the 1 of
    the test. A block takes it further and proves nothing: there the test waits until the arm is
    on top again.
    """

    width: float
    inflate: float
    level: float
    patience: float
    batch: int


class LilState(NamedTuple):
    """Arms by their upper confidence bounds."""

    now: np.recarray
    pulls: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    heap: Heap


def lil_state(arms: int) -> LilState:
    """Nothing pulled; arms that were not pulled come first."""
    return LilState(*begin(arms), make_heap(arms))


@jit(inner=True)
def lil_ask(params, state, rng):
    now, arms = state.now[0], len(state.pulls)
    if now.total == 0:
        order, places = state.heap.order, state.heap.places
        for i in range(arms - 1, 0, -1):  # equal keys: any order is a heap
            j = np.int64(rng.random() * (i + 1))
            order[i], order[j] = order[j], order[i]
        for i in range(arms):
            places[order[i]] = i
    top = state.heap.order[0]
    # Only the arm just pulled can have come to dominate the others. Blocks: see LilNumbers.
    own = state.pulls[now.arm if params.batch == 1 else top]
    if state.heap.keys[top] < np.inf and own >= 1.0 + params.patience * (now.total - own):
        return stop(state, OWN_RULE)
    now.count = params.batch if state.pulls[top] else 1
    return top


@jit(inner=True)
def lil_tell(params, state, arm, reward):
    note(state, arm, reward)
    if state.now[0].count == 0:
        pulls = state.pulls[arm]
        radius = params.width * iterated(pulls, params.inflate, params.level)
        put(state.heap, arm, state.means[arm] + radius)


LIL = Steps(lil_ask, lil_tell, answer_pulls)


# -------------------------------------------------------------------------------- LIL stopping
class StoppingNumbers(NamedTuple):
    """Those of the strategy, and of the bound."""

    inner: Any
    width: float
    inflate: float
    level: float


class StoppingState(NamedTuple):
    """That of the strategy, and arms by their upper confidence bounds.

    verdict: the arm that the rule has named, whatever is pulled after that; -1 before.
    """

    now: np.recarray
    pulls: np.ndarray
    means: np.ndarray
    squares: np.ndarray
    inner: Any
    heap: Heap
    verdict: np.ndarray


@dataclass(frozen=True)
class LILStopping(Strategy):
    """Any strategy, stopped once an arm's lower confidence bound is above all others' upper ones.

    The rule errs with probability delta at most, whatever the strategy pulls, for sub-Gaussian
    rewards of this scale. A strategy that stops by itself spends its own delta beside it: give
    each a half. A run that the strategy ended has the strategy's guarantee, none if that was for
    its budget. The rule is looked at after every pull, within blocks, too, and ends them.

    strategy: what chooses the arms.
    delta: of the rule.
    scale: as in sm.bandits.LUCB.
    variant: "lemma" has the level that the lemma supports, (delta / (2 K c(e)))^(1 / (1 + e));
        "paper" has delta / (2 K) there, as the authors' experiments: no theorem covers it.
    """

    strategy: Strategy
    delta: float = 0.05
    scale: float = 0.5
    variant: str = "lemma"

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """Of the level, where it is the rule that ends the run: see guarantee_when."""
        return "bounded" if self.variant == "lemma" else "none"

    def whose_rule(self, ending: str) -> Strategy:
        """The strategy's own where it ended the run."""
        if ending in ("stopping rule", "alone"):
            return self
        return self.strategy.whose_rule(ending)

    def guarantee_when(self, ending: str) -> str:
        """The strategy's own where it ended the run."""
        if ending in ("stopping rule", "alone"):
            return self.guarantee
        return self.strategy.guarantee_when(ending)

    def __post_init__(self):
        must_be_strategy(self.strategy, "strategy")
        check_delta(self.delta)
        check_scale(self.scale)
        if isinstance(self.strategy, LILStopping):
            raise ValueError("LILStopping around LILStopping: one rule is enough, give its delta.")
        if self.variant not in ("lemma", "paper"):
            raise ValueError(f'variant={self.variant!r}: it must be "lemma" or "paper".')

    def steps(self) -> Steps:
        """The strategy's, with the rule around them."""
        return stopping(self.strategy.steps())

    def numbers(self, arms: int) -> StoppingNumbers:
        """The bound's width and level."""
        e, inner = EPSILON, self.strategy.numbers(arms)
        level = log(self.delta) - log(2.0 * arms)
        if self.variant == "lemma":
            level = (level - log(constant(e))) / (1.0 + e)
        width = (1.0 + sqrt(e)) * self.scale * sqrt(2.0 * (1.0 + e))
        return StoppingNumbers(inner, width, 1.0 + e, level)

    def fresh(self, arms: int, params: Any) -> StoppingState:
        """The strategy's own state, and a heap."""
        inner = self.strategy.fresh(arms, params.inner)
        now, pulls, means, squares = inner[:4]
        verdict = np.full(1, -1, dtype=np.int64)
        return StoppingState(now, pulls, means, squares, inner, make_heap(arms), verdict)

    def help(self, params, state) -> None:
        """The strategy's."""
        self.strategy.help(params.inner, state.inner)

    def most_pulls(self, arms: int) -> int | None:
        """The strategy's, at most."""
        return self.strategy.most_pulls(arms)


@jit(inner=True)
def apart(state):
    """Is an arm's lower bound above all other upper ones: then its upper bound is the highest."""
    keys, top = state.heap.keys, state.heap.order[0]
    if keys[top] == np.inf or len(keys) == 1:
        return False
    return 2.0 * state.means[top] - keys[top] >= runner_up(state.heap)


@memoised
def stopping(inner: Steps) -> Steps:
    """Steps that look at the bounds first."""

    @jit(inner=True)
    def ask(params, state, rng):
        if state.verdict[0] >= 0:
            return stop(state, STOPPING_RULE)
        return inner.ask(params.inner, state.inner, rng)

    @jit(inner=True)
    def tell(params, state, arm, reward):
        inner.tell(params.inner, state.inner, arm, reward)
        radius = params.width * iterated(state.pulls[arm], params.inflate, params.level)
        put(state.heap, arm, state.means[arm] + radius)
        if state.verdict[0] < 0 and apart(state):
            state.verdict[0] = state.heap.order[0]
        if state.verdict[0] >= 0:  # no need of the rest of a block, nor of what is told of it
            state.now[0].count = 0

    @jit(inner=True)
    def answer(params, state):
        if state.verdict[0] >= 0:
            return state.verdict[0]
        return inner.answer(params.inner, state.inner)

    return Steps(ask, tell, answer)
