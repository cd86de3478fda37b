"""One run of a strategy: the loop over pulls, compiled or not, and what it leaves behind."""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.bandits.pull import BLOCK, Pull, pull_some
from subsample_mcmc.bandits.scale import RewardsSeen, no_rewards, note_more, wanted
from subsample_mcmc.bandits.strategy import (
    ALONE,
    ENDINGS,
    HELP,
    MAX_PULLS,
    STOP,
    Steps,
    Strategy,
    highest_mean,
)
from subsample_mcmc.errors import RewardError
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import call_numbers, pointer_to
from subsample_mcmc.numerics.random import Chances

RATIO = 1.1  # between the times at which a run is looked at
FINE, DONE, ASKS_HELP, BAD_REWARD, BAD_LENGTH, PAUSED = range(6)


class Log(NamedTuple):
    """A run over time."""

    times: np.ndarray  # pulls made when it was looked at
    at: np.ndarray  # (1,) how many times that was
    leaders: np.ndarray  # the arm with the highest mean
    pulls: np.ndarray  # (times, arms) pulls of each; no rows: not kept


def make_log(arms: int, most: int, whole: bool) -> Log:
    """Times up to `most` pulls, in steps of a tenth; whole: with the pulls of each arm."""
    steps = int(np.log(max(most, 2)) / np.log(RATIO)) + 2
    times = np.unique(np.minimum(RATIO ** np.arange(steps), most).astype(np.int64))
    rows = len(times) if whole else 0
    kept = np.zeros((rows, arms), dtype=np.int64)
    return Log(times, np.zeros(1, np.int64), np.zeros(len(times), np.int64), kept)


@jit(inner=True)
def look(state, log):
    """Write down how things stand."""
    at = log.at[0]
    log.leaders[at] = highest_mean(state)
    if len(log.pulls):
        for arm in range(len(state.pulls)):
            log.pulls[at, arm] = state.pulls[arm]
    log.at[0] += 1


def counting(tell: Any) -> Any:
    """A strategy's tell, with the counts and the log around it."""

    @jit(inner=True)
    def count_and_tell(params, state, log, arm, reward):
        now = state.now[0]
        now.total += 1
        now.count -= 1
        tell(params, state, arm, reward)
        if log.at[0] < len(log.times) and now.total == log.times[log.at[0]]:
            look(state, log)

    return count_and_tell


# ---------------------------------------------------------------------------------------- the loop
@memoised
def loop_over(steps: Steps) -> Any:
    """The compiled loop up to `until` pulls, or some more: why it came back."""
    ask, count_and_tell = steps.ask, counting(steps.tell)

    @jit(inner=True)
    def pulled(params, state, source, log, most):
        now = state.now[0]
        arm, count = now.arm, max(1, min(now.count, most - now.total, len(source.room)))
        if call_numbers(source.pull, source.context, arm, count) != count:
            return BAD_LENGTH
        for i in range(count):
            reward = source.room[i]
            now.reward = reward
            if not -np.inf < reward < np.inf:
                return BAD_REWARD
            count_and_tell(params, state, log, arm, reward)
            if now.count <= 0:  # a stopping rule may end a block
                break
        return FINE

    @jit
    def loop(params, state, source, choices, log, until, most):
        now = state.now[0]
        while now.total < until or (now.count <= 0 and now.total >= most):
            if now.count <= 0:
                arm = ask(params, state, choices.rng)
                if arm < 0:
                    return DONE if arm == STOP else ASKS_HELP
                now.arm = arm
                if now.total >= most:  # it would have liked to go on
                    return PAUSED
            how = pulled(params, state, source, log, most)
            if how != FINE:
                return how
        return PAUSED

    return loop


@memoised
def asked(steps: Steps) -> tuple[Any, Any, Any]:
    """(ask, tell, answer) for Python to call, one pull at a time."""
    ask, answer, count_and_tell = steps.ask, steps.answer, counting(steps.tell)

    @jit
    def ask_one(params, state, choices):
        return ask(params, state, choices.rng)

    @jit
    def tell_one(params, state, log, reward):
        count_and_tell(params, state, log, state.now[0].arm, reward)

    @jit
    def answer_now(params, state):
        return answer(params, state)

    return ask_one, tell_one, answer_now


class Player:
    """A strategy at play: ask for an arm, tell its reward; or let it run on a source of rewards."""

    def __init__(
        self,
        strategy: Strategy,
        arms: int,
        seed,
        most: int,
        whole: bool = True,
        numbers: Any = None,
    ):
        self.strategy, self.arms, self.most = strategy, arms, most
        self.params = strategy.numbers(arms) if numbers is None else numbers
        self.state = strategy.fresh(arms, self.params)
        self.steps = strategy.steps()
        first, second = seed.spawn(2)
        self.rewards, self.choices = (np.random.default_rng(s) for s in (first, second))
        self.log, self.source = make_log(arms, most, whole), None
        self.room = np.zeros(1)  # where the source puts rewards
        self.more = no_rewards(arms)  # of pulls after the end, that show how wide rewards are
        # The same for compiled code.
        self.pointers = pointer_to((self.params, self.state, self.log))
        self.chances = pointer_to(Chances(self.choices))
        if arms == 1:  # no strategy need think of it
            self.state.now[0].ended = ALONE

    @property
    def total(self) -> int:
        """Pulls made."""
        return int(self.state.now[0].total)

    def ask(self) -> int | None:
        """The arm to pull next; None when it has stopped."""
        now = self.state.now[0]
        if now.count > 0 and self.total < self.most and not now.ended:
            return int(now.arm)
        if now.count <= 0:  # at `most` pulls, too: it may have enough
            while not now.ended:
                arm = asked(self.steps)[0](*self.pointers[:2], self.chances)
                if arm == HELP:
                    self.strategy.help(self.params, self.state)
                elif arm >= 0:
                    now.arm = arm
                    break
        if not now.ended and self.total >= self.most:
            now.ended = MAX_PULLS
        return None if now.ended else int(now.arm)

    def tell(self, reward: float) -> None:
        """The reward of the arm that was asked for."""
        asked(self.steps)[1](*self.pointers, float(reward))

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        return ENDINGS[self.state.now[0].ended]

    @property
    def seen(self) -> RewardsSeen:
        """The rewards of the run."""
        return RewardsSeen(self.state.pulls, self.state.means, self.state.squares)

    def ask_more(self) -> int | None:
        """The arm to pull beside a run that has stopped, so that its scale can be checked."""
        if self.total + self.more.pulls.sum() >= self.most:
            return None
        arm = wanted(self.strategy, self.ending, self.seen, self.more)
        return None if arm < 0 else arm

    def tell_more(self, arm: int, reward: float) -> None:
        """The reward of that arm: the run stays as it is."""
        note_more(self.more, arm, reward)

    def answer(self) -> int:
        """The arm that is believed best."""
        if self.arms == 1:
            return 0
        return int(asked(self.steps)[2](*self.pointers[:2]))

    # ------------------------------------------------------------------------- a whole run
    def run(self, pull: Pull, data: Any, until: int) -> bool:
        """Go on up to `until` pulls, or to the end of a block; is it over."""
        now = self.state.now[0]
        if not now.ended:
            (self.run_plain if pull.obstacle else self.run_compiled)(pull, data, until)
        return bool(now.ended)

    def run_compiled(self, pull: Pull, data: Any, until: int) -> None:
        """`until` = 0 compiles, and pulls nothing."""
        now, loop = self.state.now[0], loop_over(self.steps)
        how, (params, state, log) = ASKS_HELP, self.pointers
        if self.source is None:
            source = pull.rewards_for(data, self.rewards)
            self.source, self.room = pointer_to(source), source.room
        while how == ASKS_HELP:
            try:
                how = loop(
                    params, state, self.source, self.chances, log, min(until, self.most), self.most,
                )  # fmt: skip
            except IndexError:  # of a user's pull, whose look-ups are checked
                pull.blame(data, int(now.arm), np.random.default_rng(0), int(now.count))
            if how == ASKS_HELP:
                self.strategy.help(self.params, self.state)
        if how == BAD_REWARD:
            self.refuse(pull, now.arm, now.reward)
        if how == BAD_LENGTH:
            pull(data, int(now.arm), np.random.default_rng(0), int(now.count))
            raise TypeError(f"{pull.name} must return one reward for each of `count` pulls.")
        if how == PAUSED and self.total >= self.most:
            now.ended = MAX_PULLS

    def run_plain(self, pull: Pull, data: Any, until: int) -> None:
        """The same, in Python."""
        now = self.state.now[0]
        while (self.total < until or self.total >= self.most) and (arm := self.ask()) is not None:
            count = min(int(now.count), self.most - self.total, BLOCK) if pull.batched else 1
            for value in pull(data, arm, self.rewards, count):
                if not np.isfinite(value):
                    self.refuse(pull, arm, value)
                self.tell(value)
                if now.count <= 0:  # a stopping rule may end a block
                    break

    def check(self, pull: Pull, data: Any) -> None:
        """Pull what is wanted after the end."""
        while (arm := self.ask_more()) is not None:
            if pull.obstacle:
                (value,) = pull(data, arm, self.rewards, 1)
            else:
                try:
                    pull_some(self.source, arm, 1)
                except IndexError:
                    pull.blame(data, arm, np.random.default_rng(0), 1)
                value = self.room[0]
            if not np.isfinite(value):
                self.refuse(pull, arm, value)
            self.tell_more(arm, float(value))

    def refuse(self, pull, arm, value) -> None:
        """Rewards that are no numbers."""
        raise RewardError(
            f"{pull.name} returned {value} for arm {arm}, pull {self.total + 1}: rewards must be "
            "finite numbers."
        )
