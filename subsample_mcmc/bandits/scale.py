"""Is the scale that a strategy's bounds rest on as wide as rewards are: else its promise is void.

Of n rewards of sub-Gaussian scale s the squares add up to more than n s^2 t, t > 1, with
probability exp(-n (t - 1 - log t) / 2) at most: E exp(l x^2) <= (1 - 2 l s^2)^(-1/2), and Markov.
Those around the means of arms, or around a linear fit, add up to less. A run with far too small a
scale may end after one pull of each arm, which says nothing of their spread: then some arms are
pulled again, beside the run, whose pulls and answer stay as they are.
"""

from math import ceil, log
from typing import NamedTuple

import numpy as np

from subsample_mcmc.bandits.strategy import Strategy
from subsample_mcmc.errors import warn
from subsample_mcmc.numerics.jit import jit

SURE = 20.0  # nats: rewards of the given scale are so wide with probability e^-20 at most
SURE_OF_EACH = 30.0  # the same of one decision, of which a chain makes millions
# Rewards beyond as many as there are means or coefficients. Of LUCB and TopTwo with 3 arms and a
# scale 1.5 to 6 times too small, .3% of runs are wrong and not found out (of 300 each); with 10 of
# them it is up to 3%, where delta is 5%.
ENOUGH = 20


class RewardsSeen(NamedTuple):
    """What is known of the rewards of each arm: how many, their means, squares around them."""

    pulls: np.ndarray
    means: np.ndarray
    squares: np.ndarray


def no_rewards(arms: int) -> RewardsSeen:
    """Nothing known."""
    return RewardsSeen(np.zeros(arms, dtype=np.int64), np.zeros(arms), np.zeros(arms))


def together(one: RewardsSeen, other: RewardsSeen) -> RewardsSeen:
    """What both say."""
    pulls = one.pulls + other.pulls
    share = other.pulls / np.maximum(pulls, 1)
    apart = other.means - one.means
    squares = one.squares + other.squares + apart**2 * one.pulls * share
    return RewardsSeen(pulls, one.means + apart * share, squares)


class Spread(NamedTuple):
    """How far rewards were from means of arms or from a linear fit, of one run or of several."""

    many: float = 0.0  # rewards
    lost: float = 0.0  # means or coefficients that were estimated
    squares: float = 0.0  # in units of scale^2

    @property
    def free(self) -> float:
        """Rewards beyond those that were needed for estimates."""
        return self.many - self.lost

    def plus(self, other: "Spread") -> "Spread":
        """Of the runs of both."""
        return Spread(*(a + b for a, b in zip(self, other, strict=True)))


def stated(strategy: Strategy, ending: str) -> Strategy | None:
    """The strategy whose promise ended a run, if that rests on a scale of its own."""
    ended = strategy.whose_rule(ending)
    scale = getattr(ended, ended.scale_is, None)
    if ending == "alone" or scale is None or strategy.guarantee_when(ending) == "none":
        return None
    return ended


def spread_of(strategy: Strategy, ending: str, seen: RewardsSeen) -> Spread:
    """Of one run, in units of the scale that its promise rests on; nothing where it has none."""
    ended = stated(strategy, ending)
    if ended is None:
        return Spread()
    scale = float(getattr(ended, ended.scale_is))
    features = getattr(ended, "features", None)
    if features is None:
        again = seen.pulls > 1
        count, lost, squares = seen.pulls[again].sum(), again.sum(), seen.squares[again].sum()
    else:
        pulled = seen.pulls > 0
        times = np.sqrt(seen.pulls[pulled])
        rows, means = np.asarray(features, dtype=float)[pulled], seen.means[pulled]
        theta, _, lost, _ = np.linalg.lstsq(rows * times[:, None], times * means, rcond=None)
        squares = seen.squares.sum() + ((times * (means - rows @ theta)) ** 2).sum()
        count = seen.pulls.sum()
    return Spread(float(count), float(lost), float(squares) / scale**2)


def wanted(strategy: Strategy, ending: str, run: RewardsSeen, more: RewardsSeen) -> int:
    """The arm to pull again, as the scale cannot be checked yet; -1: it can, or none is promised.

    Arms that were pulled take turns, those with the highest means of the run first: where the scale
    is too small they are those that were far off.
    """
    if stated(strategy, ending) is None:
        return -1
    if spread_of(strategy, ending, together(run, more)).free >= ENOUGH:
        return -1
    order = np.argsort(-np.where(run.pulls > 0, run.means, -np.inf), kind="stable")
    order = order[: max(1, int((run.pulls > 0).sum()))]
    return int(order[int(more.pulls.sum()) % len(order)])


def note_more(more: RewardsSeen, arm: int, reward: float) -> None:
    """A reward beside the run."""
    more.pulls[arm] += 1
    apart = reward - more.means[arm]
    more.means[arm] += apart / more.pulls[arm]
    more.squares[arm] += apart * (reward - more.means[arm])


@jit(inner="public")
def beyond(many, squares, sure):
    """Do so many rewards of scale 1 have such squares with probability e^-sure at most."""
    if not squares > many > 0.0:
        return False
    times = squares / many
    return 0.5 * many * (times - 1.0 - log(times)) > sure


def is_wider(spread: Spread) -> bool:
    """Are rewards wider than the scale that a strategy's bounds are for."""
    return bool(beyond(spread.many, spread.squares, SURE))


def kept_promise(promise: str, ended: Strategy | None, name: str, spread: Spread) -> str:
    """A promise, or "none" where rewards refute it, or too few were seen: which is said.

    ended: the strategy that gave it, None where it rests on no scale; name: what to call it.
    """
    if promise == "none" or ended is None:
        return promise
    linear, scale = hasattr(ended, "features"), ended.scale_is
    if is_wider(spread):
        around = "a fit that is linear in features" if linear else "the means of their arms"
        times = (spread.squares / spread.free) ** 0.5 if spread.free > 0.0 else np.inf
        warn(
            f"{name}: around {around} rewards have a standard deviation of {times:.3g} times "
            f"{scale}, which its bounds rest on: it has no guarantee. Give a {scale} "
            f"{ceil(100.0 * times) / 100.0:g} times as large, or more: the standard deviation of "
            "Gaussian rewards, half the width of the range of others."
            + " Or else their means are not linear in features."
            * linear
        )
        return "none"
    if spread.free < ENOUGH:
        warn(
            f"{name}: max_pulls left too few pulls to see whether rewards are wider than {scale}, "
            f"which its bounds rest on: it has no guarantee. Give max_pulls={ENOUGH} more, for "
            "pulls beside the run."
        )
        return "none"
    return promise
