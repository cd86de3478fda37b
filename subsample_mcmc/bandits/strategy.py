"""What a strategy is: which arm to pull next, when to stop, and which arm to name.

A strategy is a frozen spec whose compiled half is three functions of its numbers and its state:

    ask(params, state, rng) -> arm       the arm to pull next, `now.count` times in a row; or STOP
    tell(params, state, arm, reward)     a reward came in; now.count: how many more of the same arm
    answer(params, state) -> arm         the arm that is believed best so far

The state is a NamedTuple of arrays whose first four fields are those of `begin`. So a run may stop
anywhere, be looked at, pickled and gone on with, and rewards may come from compiled code, from
Python, or from the world.
"""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import jit

COUNTABLE_PULLS = 2**62  # int64 holds twice as many
STOP, HELP = -1, -2  # what ask returns instead of an arm; HELP: Python must fill something in

NOW = np.dtype(
    [
        ("total", np.int64),  # pulls so far
        ("arm", np.int64),  # that is being pulled
        ("count", np.int64),  # pulls of it still to make
        ("ended", np.int64),  # index into ENDINGS; 0: under way
        ("stage", np.int64),  # of strategies that have them
        ("cursor", np.int64),  # place in a round
        ("left", np.int64),  # arms that are still in
        ("goal", np.int64),  # pulls of each arm in this stage
        ("first", np.int64),  # a pair of arms that helps or is helped
        ("second", np.int64),
        ("value", float),
        ("reward", float),  # the last one
    ],
    align=True,
)

ENDINGS = ("under way", "own rule", "stopping rule", "budget", "alone", "max_pulls", "interrupted")
OWN_RULE, STOPPING_RULE, BUDGET, ALONE, MAX_PULLS, INTERRUPTED = range(1, len(ENDINGS))


class Steps(NamedTuple):
    """The compiled half of a strategy.

    ask(params, state, rng) -> int: the arm to pull next, state.now[0].count times; `stop` ends.
    tell(params, state, arm, reward): note a reward.
    answer(params, state) -> int: the arm that is best, as far as is known.
    """

    ask: Any
    tell: Any
    answer: Any


class Standing(NamedTuple):
    """What every state begins with."""

    now: np.recarray
    pulls: np.ndarray
    means: np.ndarray
    squares: np.ndarray  # sums of squared distances from the mean


def begin(arms: int) -> Standing:
    """Nothing pulled yet.

    arms: how many.
    """
    return Standing(
        np.zeros(1, dtype=NOW).view(np.recarray),
        np.zeros(arms, dtype=np.int64), np.zeros(arms), np.zeros(arms),
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Strategy:
    """How a bandit is played. A frozen spec; `steps` gives the compiled half."""

    guarantee: ClassVar[str] = "none"  # "bounded": wrong with probability delta at most
    # The field with the sub-Gaussian scale of rewards, which a promise rests on: it is compared
    # with rewards, around a fit that is linear in `features`, if there are, or the arms' means.
    scale_is: ClassVar[str] = "scale"

    def __repr__(self) -> str:
        """What is not as by default; arrays by their shapes. For those whose fields have some."""
        shown = []
        for field in fields(self):
            value = getattr(self, field.name)
            if np.ndim(value):
                shown.append(f"{field.name}=<{' x '.join(map(str, np.shape(value)))}>")
            elif value != field.default:
                shown.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def steps(self) -> Steps:
        """The compiled functions."""
        raise TypeError(f"{type(self).__name__} must define steps(): see bandits/strategy.py.")

    def numbers(self, arms: int) -> Any:
        """Run-time numbers for so many arms; raises if it cannot serve them."""
        raise TypeError(f"{type(self).__name__} must define numbers(): see bandits/strategy.py.")

    def fresh(self, arms: int, params: Any) -> Any:
        """The state before the first pull."""
        raise TypeError(f"{type(self).__name__} must define fresh(): see bandits/strategy.py.")

    def help(self, params: Any, state: Any) -> None:
        """Fill in what `ask` returned HELP for."""
        raise TypeError(f"{type(self).__name__} must define help(): see bandits/strategy.py.")

    def most_pulls(self, arms: int) -> int | None:
        """The pulls that it makes; None if data decide."""
        return None

    def whose_rule(self, ending: str) -> "Strategy":
        """The strategy whose promise holds of a run that ended so; it may stand inside."""
        return self

    def guarantee_when(self, ending: str) -> str:
        """What is promised of a run that ended so; ending: one of ENDINGS."""
        return self.guarantee if ending in ("own rule", "stopping rule", "alone") else "none"


def is_strategy_class(given: Any) -> bool:
    """Is it a class of strategies, in the place of one."""
    return isinstance(given, type) and issubclass(given, Strategy)


def must_be_strategy(given: Any, name: str, more: str = "") -> None:
    """Refuse what is no strategy, such as its class. more: what else may be given."""
    if isinstance(given, Strategy):
        return
    if is_strategy_class(given):
        raise TypeError(
            f"{name}={given.__name__} is a class: make one, {given.__name__}(...), with what it "
            "needs to know."
        )
    raise TypeError(f"{name}={given!r:.60}: give a strategy such as sm.LilUCB(){more}.")


def check_delta(delta) -> None:
    """Refuse what is no probability."""
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta={delta!r}: give a chance of error between 0 and 1.")


def check_scale(scale, name: str = "scale") -> None:
    """Refuse what is no scale."""
    if not 0.0 < scale < np.inf:
        raise ValueError(
            f"{name}={scale!r}: give the sub-Gaussian scale of the rewards, finite and above 0: "
            "their standard deviation if they are Gaussian, else half the width of their range."
        )


def settle_budget(spec) -> None:
    """Make the budget of a frozen spec an int; refuse what is no number of pulls."""
    budget = spec.budget
    if not 1 <= budget <= COUNTABLE_PULLS or int(budget) != budget:  # nan is neither
        raise ValueError(f"budget={budget!r}: give the number of pulls, 1 or more (up to 2^62).")
    object.__setattr__(spec, "budget", int(budget))


# ---------------------------------------------------------------------------- compiled pieces
@jit(inner=True)
def note(state, arm, reward):
    """Welford's update of a mean and of the squares around it: no difference of large numbers."""
    state.pulls[arm] += 1
    apart = reward - state.means[arm]
    state.means[arm] += apart / state.pulls[arm]
    state.squares[arm] += apart * (reward - state.means[arm])


@jit(inner=True)
def stop(state, how):
    """End the run.

    state: as in sm.extend.answer_mean.
    how: OWN_RULE, or another index of ENDINGS in bandits/strategy.py.
    """
    state.now[0].ended = how
    return STOP


@jit(inner=True)
def takes_over(ties, rng):
    """Is the newest of so many equal arms to be taken: one after the other, each is as likely."""
    return ties * rng.random() < 1.0


@jit(inner=True)
def before(state, arm, best):
    """The higher mean, of equal ones that of more pulls: answers have no dice to throw."""
    if state.means[arm] == state.means[best]:
        return state.pulls[arm] > state.pulls[best]
    return state.means[arm] > state.means[best]


@jit(inner=True)
def most_pulled(state):
    """The arm that was pulled most; of several the highest mean, then the lowest index."""
    best, pulls = 0, state.pulls
    for arm in range(len(pulls)):
        if pulls[arm] > pulls[best] or (pulls[arm] == pulls[best] and before(state, arm, best)):
            best = arm
    return best


@jit(inner=True)
def highest_mean(state):
    """The arm with the highest mean among those that were pulled.

    Of several the one that was pulled most, then that of the lowest index.
    """
    best = -1
    for arm in range(len(state.pulls)):
        if state.pulls[arm] > 0 and (best < 0 or before(state, arm, best)):
            best = arm
    return max(best, 0)


@jit(inner=True)
def highest_inside(state, order):
    """The same among the first `now.left` of an order, whose places break what ties are left."""
    best = -1
    for i in range(state.now[0].left):
        arm = order[i]
        if state.pulls[arm] > 0 and (best < 0 or before(state, arm, best)):
            best = arm
    return best if best >= 0 else order[0]


@jit(inner=True)
def leading(state, rng):
    """The arm with the highest mean, once all were pulled; one of several at random.

    state: as in sm.extend.answer_mean.
    rng: a numpy Generator.
    """
    best, highest, ties = 0, -np.inf, 0
    for arm in range(len(state.means)):
        if state.means[arm] > highest:
            best, highest, ties = arm, state.means[arm], 1
        elif state.means[arm] == highest:
            ties += 1
            if takes_over(ties, rng):
                best = arm
    return best


@jit(inner=True)
def tell_all(params, state, arm, reward):
    """The `tell` of strategies that keep nothing but means.

    params, state: as in sm.extend.answer_mean.
    arm: that was pulled.
    reward: that it gave.
    """
    note(state, arm, reward)


@jit(inner=True)
def answer_mean(params, state):
    """The `answer` of most strategies.

    params: numbers of the strategy, from numbers().
    state: what it keeps, from fresh().
    """
    return highest_mean(state)


@jit(inner=True)
def answer_pulls(params, state):
    """The `answer` of strategies that stop at the arm they pulled most."""
    return most_pulled(state)


@jit(inner=True)
def shuffle(order, rng):
    """A uniform permutation in place."""
    for i in range(len(order) - 1, 0, -1):
        j = np.int64(rng.random() * (i + 1))
        order[i], order[j] = order[j], order[i]


@jit(inner=True)
def pull_each_once(state, rng, order):
    """Arms in random order while some are not pulled; -1 afterwards.

    state: as in sm.extend.answer_mean.
    rng: a numpy Generator.
    order: room for the numbers of all arms.
    """
    now = state.now[0]
    if now.cursor == 0:
        for i in range(len(order)):
            order[i] = i
        shuffle(order, rng)
    if now.cursor == len(order):
        return -1
    now.cursor += 1
    now.count = 1
    return order[now.cursor - 1]
