"""Is the scale that a strategy's bounds rest on as wide as rewards are: else its promise is void.

Of n rewards of sub-Gaussian scale s the squares add up to more than n s^2 t, t > 1, with
probability exp(-n (t - 1 - log t) / 2) at most: E exp(l x^2) <= (1 - 2 l s^2)^(-1/2), and Markov.
Those around the means of arms, or around a linear fit, add up to less; so do those around the best
linear fit by a vector within a norm, if the true one is. A run with far too small a
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
# scale 1.5 to 6 times too small, .3% of runs are wrong and not found out (of 300 each); with 10
# arms it is up to 3%, where delta is 5%.
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
    # What a vector within `norm` of linear features adds to the squares at least.
    off_norm: float = 0.0
    # Of the arm that refutes the scale most by itself: its rewards, their squares.
    arm_many: float = 0.0
    arm_squares: float = 0.0
    arms: float = 0.0  # among which it was chosen

    @property
    def free(self) -> float:
        """Rewards beyond those that were needed for estimates."""
        return self.many - self.lost

    def plus(self, other: "Spread") -> "Spread":
        """Of the runs of both."""
        own = nats(self.arm_many, self.arm_squares) >= nats(other.arm_many, other.arm_squares)
        widest = self if own else other
        return Spread(
            self.many + other.many, self.lost + other.lost, self.squares + other.squares,
            self.off_norm + other.off_norm, widest.arm_many, widest.arm_squares,
            self.arms + other.arms,
        )  # fmt: skip


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
    again, off = seen.pulls > 1, 0.0
    if features is None:
        count, lost, squares = seen.pulls[again].sum(), again.sum(), seen.squares[again].sum()
    else:
        pulled = seen.pulls > 0
        times = np.sqrt(seen.pulls[pulled])
        rows, means = np.asarray(features, dtype=float)[pulled], seen.means[pulled]
        design, wanted_means = rows * times[:, None], times * means
        theta, _, lost, _ = np.linalg.lstsq(design, wanted_means, rcond=None)
        around = ((wanted_means - design @ theta) ** 2).sum()
        squares, count = seen.squares.sum() + around, seen.pulls.sum()
        if (norm := getattr(ended, "norm", None)) is not None:
            theta = within(design, wanted_means, float(norm))
            off = max(((wanted_means - design @ theta) ** 2).sum() - around, 0.0)
    own = max(
        ((float(n), float(s) / scale**2) for n, s in zip(seen.pulls, seen.squares, strict=True)),
        key=lambda one: nats(*one),
    )
    return Spread(
        float(count), float(lost), float(squares) / scale**2, float(off) / scale**2, *own,
        float(again.sum()),
    )  # fmt: skip


def within(design: np.ndarray, wanted_values: np.ndarray, norm: float) -> np.ndarray:
    """Least squares by a vector that is at most so long."""
    left, values, right = np.linalg.svd(design, full_matrices=False)
    kept = values > 1e-12 * values.max(initial=0.0)
    left, values, right = left[:, kept], values[kept], right[kept]
    along = values * (left.T @ wanted_values)

    def shrunk(ridge: float) -> np.ndarray:
        return along / (values**2 + ridge)

    low, high = 0.0, 0.0
    if np.linalg.norm(shrunk(0.0)) > norm:
        high = float(np.linalg.norm(along)) / norm  # where it is shorter than norm for certain
    for _ in range(100 * (high > 0.0)):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.linalg.norm(shrunk(middle)) > norm else (low, middle)
    return right.T @ shrunk(high)


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
def nats(many, squares):
    """So many rewards of scale 1 have such squares with probability e^-this at most."""
    if not squares > many > 0.0:
        return 0.0
    times = squares / many
    return 0.5 * many * (times - 1.0 - log(times))


@jit(inner="public")
def beyond(many, squares, sure):
    """Do so many rewards of scale 1 have such squares with probability e^-sure at most."""
    return nats(many, squares) > sure


def is_wider(spread: Spread) -> bool:
    """Are rewards wider than the scale that a strategy's bounds are for: all, or those of an arm.

    One arm whose rewards are wide is hidden among many pulls of others whose rewards are not.
    """
    return bool(beyond(spread.many, spread.squares, SURE)) or is_wide_arm(spread)


def is_wide_arm(spread: Spread, times: float = 1.0) -> bool:
    """Are those of an arm, by itself, wider than so many times the scale."""
    sure = SURE + log(max(spread.arms, 1.0))
    return bool(beyond(spread.arm_many, spread.arm_squares / max(times, 1.0) ** 2, sure))


def is_longer(spread: Spread) -> bool:
    """Is the vector of linear arms longer than the norm that bounds it."""
    return bool(beyond(spread.many, spread.squares + spread.off_norm, SURE))


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
        if is_wide_arm(spread, times):  # than all are: else the widest of many is one by chance
            around = "the mean of one arm"
            times = (spread.arm_squares / (spread.arm_many - 1.0)) ** 0.5
        warn(
            f"{name}: around {around} rewards have a standard deviation of {times:.3g} times "
            f"{scale}, which its bounds rest on: it has no guarantee. Give a {scale} "
            f"{ceil(100.0 * times) / 100.0:g} times as large, or more: the standard deviation of "
            "Gaussian rewards, half the width of the range of others."
            + " Or else their means are not linear in features."
            * linear
        )
        return "none"
    if is_longer(spread):
        warn(
            f"{name}: no vector within norm has such means: its bounds rest on norm, and it has no "
            "guarantee. Give a bound of the length of the vector whose products with features are "
            "means: means of size 1 at features of length .1 need 10, or more.",
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
