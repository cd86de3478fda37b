"""Which arm is best: strategies at play on any source of rewards, once or thousands of times."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from subsample_mcmc.bandits.identification import (
    Identifications,
    best_but,
    identification,
)
from subsample_mcmc.bandits.play import Player, make_log
from subsample_mcmc.bandits.prior_seen import off_prior, warn_of_prior
from subsample_mcmc.bandits.pull import Pull
from subsample_mcmc.bandits.scale import Spread, kept_promise, spread_of, stated, together
from subsample_mcmc.bandits.strategy import (
    ENDINGS,
    INTERRUPTED,
    Strategy,
    is_strategy_class,
    must_be_strategy,
)
from subsample_mcmc.calls import helpful
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.numerics.random import root_of
from subsample_mcmc.numerics.records import as_record
from subsample_mcmc.target.data import not_masked
from subsample_mcmc.target.population import prepared, whole

MOST_PULLS = 100_000_000  # of a run, unless told: equal means would never be told apart
PATIENT = 0.1  # seconds of compiled work between two looks at the keyboard
SLOW = 2.0  # seconds after which a progress bar appears
FIRST = 1024  # pulls before the first look
PROMISES = ("none", "asymptotic", "bounded")  # weakest first


@helpful
def identify(
    pull, arms, selector, seed=None, max_pulls=None, runs=1, *,
    data=None, truth=None, cores=None, compiled=None, progress=None,
):  # fmt: skip
    """The arm with the highest mean reward, found by a strategy: an Identification.

    pull(arm, rng) -> float: one reward, in plain Python; it is compiled if it can be, and called
        from Python if not. With data: pull(data, arm, rng). With one more argument, count: it
        returns an array of so many rewards, 4,096 at most at a time. One that is compiled is tried
        beforehand, beside itself in Python; others are called as often as is counted.
    arms: how many.
    selector: a strategy, such as sm.LilUCB(), sm.SequentialHalving(budget=...) or one of
        sm.bandits; or a function of data that gives one.
    seed: None, an int, a SeedSequence, or a Generator, which is advanced.
    max_pulls: of a run; default 1e8. A run that it ends has no guarantee.
        A promise rests on the scale of rewards, which is compared with them: where a run repeated
        too few pulls, up to some 20 are made after it, which change nothing of it (`checks`).
    runs: more than one gives Identifications: independent runs on all cores (the same for any
        number of them), with error rates if truth is given.
    data: what pull reads, a dict of arrays and numbers; or a function of rng that makes them anew
        for each run.
    truth: the true means, or a function of data that gives them.
    cores: runs that go on at a time, if pull compiles; default all cores.
    compiled: True insists on compiled code, False does without; default: if it can be.
    progress: a bar; None shows it when the work takes seconds.
    Ctrl-C ends with what there is: a run as it stands, or those that were finished.

    Example:
        >>> def pull(data, arm, rng):
        ...     return data.means[arm] + 0.5 * rng.standard_normal()
        >>> means = np.array([0.5, 0.3, 0.2])
        >>> lil = sm.LilUCB(delta=0.1, scale=0.5)
        >>> found = sm.identify(pull, 3, lil, data={"means": means}, seed=1)
        >>> found.arm, found.stopped_by, found.guarantee
        (0, 'own rule', 'none')
    """
    arms = whole(arms, "arms", "the number of arms, at least 1")
    runs = whole(runs, "runs", "how often to play, at least 1")
    most = MOST_PULLS if max_pulls is None else whole(max_pulls, "max_pulls", "a number of pulls")
    if cores is not None:
        cores = whole(cores, "cores", "how many runs go on at a time, at least 1")
    if not callable(selector) or is_strategy_class(selector):
        must_be_strategy(selector, "selector", ", or a function of data that gives one")
    entropy, key = root_of(seed)
    seeds = np.random.SeedSequence(entropy, spawn_key=key).spawn(runs)
    game = Game(pull, arms, selector, data, truth, most, compiled, runs == 1)
    if runs == 1:
        return game.once(seeds[0], progress)
    return game.many(seeds, cores or os.cpu_count() or 1, progress)


def bar_of(started: float, progress, **named):
    """A progress bar, once the work has taken seconds."""
    if progress is False or time.monotonic() - started < SLOW * (not progress):
        return None
    return Bar(**named)


class Game:
    """What all runs of one call share."""

    def __init__(self, pull, arms, selector, data, truth, most, compiled, single):
        self.arms, self.selector, self.truth, self.most = arms, selector, truth, most
        self.data, self.single = data, single
        first = self.made(np.random.default_rng(0))
        self.pull = Pull(pull, first, compiled)
        self.pull.settle(first, arms)
        self.strategy = self.chosen(first)
        self.means(first)
        self.numbers = None if callable(selector) else self.strategy.numbers(arms)
        self.halted = threading.Event()

    def made(self, rng) -> Any:
        """Data of a run."""
        if self.data is None:
            return None
        given = self.data(rng) if callable(self.data) else self.data
        return as_record(prepared(given, "allow"))  # rewards that are not finite are refused

    def chosen(self, data) -> Strategy:
        """The strategy of a run."""
        made = self.selector(data) if callable(self.selector) else self.selector
        must_be_strategy(made, "selector(data)")
        if made.guarantee not in PROMISES:
            raise ValueError(
                f"{type(made).__name__}.guarantee={made.guarantee!r}: it must be one of "
                f"{', '.join(PROMISES)}."
            )
        return made

    def means(self, data) -> np.ndarray | None:
        """The true means in a run, if they are known."""
        if self.truth is None:
            return None
        found = self.truth(data) if callable(self.truth) else self.truth
        means = np.asarray(not_masked(found, "truth"), dtype=float)
        if means.shape != (self.arms,) or not np.isfinite(means).all():
            raise ValueError(
                f"truth={found!r:.80}: give the mean of each of the {self.arms} arms, finite, or a "
                "function of data that does."
            )
        return means

    def player(self, seed, data) -> Player:
        """A strategy before its first pull."""
        return Player(self.chosen(data), self.arms, seed, self.most, self.single, self.numbers)

    def play(self, player: Player, data, progress=False) -> None:
        """One run, to its end or until it is halted."""
        step, started, bar, over = FIRST, time.monotonic(), None, False
        try:
            while not over and not self.halted.is_set():
                then = time.monotonic()
                over = player.run(self.pull, data, player.total + step)
                step = step * 2 if time.monotonic() - then < PATIENT / 2 else max(step // 2, 1)
                if bar is None:  # one without a total is false
                    bar = bar_of(
                        started, progress, total=player.strategy.most_pulls(self.arms),
                        desc="pulls", unit="pull", unit_scale=True,
                    )  # fmt: skip
                if bar is not None:
                    bar.update(player.total - bar.n)
        finally:
            if bar is not None:
                bar.close()

    def once(self, seed, progress):
        """A run by itself."""
        began, (world, choices) = time.monotonic(), seed.spawn(2)
        data = self.made(np.random.default_rng(world))
        player = self.player(choices, data)
        try:
            self.play(player, data, progress)
            player.check(self.pull, data)
        except KeyboardInterrupt:
            player.state.now[0].ended = INTERRUPTED
        return identification(player, time.monotonic() - began, self.means(data))

    def many(self, seeds, cores: int, progress) -> Identifications:
        """All runs, side by side where the rewards are compiled."""
        began, tally = time.monotonic(), Tally(self, len(seeds))
        if self.pull.obstacle:
            cores = 1  # one interpreter: threads would only wait for each other
        else:  # compile once, before threads do it side by side
            data = self.made(np.random.default_rng(0))
            first = self.player(np.random.SeedSequence(0), data)
            first.run(self.pull, data, 0)
            first.answer()

        def play(i):
            world, choices = seeds[i].spawn(2)
            data = self.made(np.random.default_rng(world))
            player = self.player(choices, data)
            self.play(player, data)
            if player.state.now[0].ended:
                player.check(self.pull, data)
                tally.take(i, player, self.means(data))

        bar = None
        with ThreadPoolExecutor(cores) as pool:
            try:
                for _ in pool.map(play, range(len(seeds))):
                    if bar is None:
                        bar = bar_of(began, progress, total=len(seeds), desc="runs", unit="run")
                    if bar is not None:
                        bar.update(1)
            except KeyboardInterrupt:
                self.halted.set()
                if not tally.done.any():
                    raise
            finally:
                self.halted.set()  # after an error, nobody wants what still waits
                if bar is not None:
                    bar.close()
        return tally.result(time.monotonic() - began)


class Tally:
    """What many runs have found: counts, so that their order does not matter."""

    def __init__(self, game: Game, count: int):
        self.lock, self.times = threading.Lock(), make_log(game.arms, game.most, False).times
        self.done = np.zeros(count, dtype=bool)
        self.found = np.zeros((count, 3), dtype=np.int64)
        self.promises = np.zeros(count, dtype=np.int64)
        self.regrets = None if game.truth is None else np.zeros(count)
        self.pulls = np.zeros(game.arms, dtype=np.int64)
        self.wrong = np.zeros(len(self.times), dtype=np.int64)
        self.name = "the strategies" if callable(game.selector) else repr(game.strategy)
        self.spread, self.checks = Spread(), 0
        self.ended: Strategy | None = None
        self.off = np.zeros(count)  # standard deviations that means lie off a prior

    def take(self, i: int, player: Player, means) -> None:
        """A run is over."""
        ended, arm = player.state.now[0].ended, player.answer()
        self.found[i] = arm, player.total, ended
        strategy, ending = player.strategy, player.ending
        self.promises[i] = PROMISES.index(strategy.guarantee_when(ending))
        spread = spread_of(strategy, ending, together(player.seen, player.more))
        self.off[i] = off_prior(strategy, player.seen)
        with self.lock:
            self.spread = self.spread.plus(spread)
            self.ended = stated(strategy, ending) or self.ended
            self.checks += int(player.more.pulls.sum())
            self.pulls += player.state.pulls
            if self.regrets is not None and means is not None:
                self.regrets[i] = best_but(means, arm)
                at = int(player.log.at[0])
                self.wrong[:at] += best_but(means, player.log.leaders[:at]) > 0.0
                self.wrong[at:] += self.regrets[i] > 0.0
            self.done[i] = True

    def result(self, seconds: float) -> Identifications:
        """Of all runs that are over."""
        found, count = self.found[self.done], int(self.done.sum())
        if wrong := int((self.off > 0.0).sum()):
            warn_of_prior(self.name, float(self.off.max()), f" of {wrong} of {count} runs")
        promise = PROMISES[self.promises[self.done].min()]
        promise = kept_promise(promise, self.ended, self.name, self.spread)
        return Identifications(
            found[:, 0].copy(), found[:, 1].copy(), np.array(ENDINGS)[found[:, 2]],
            None if self.regrets is None else self.regrets[self.done], self.pulls / count,
            promise, seconds, self.times,
            None if self.regrets is None else self.wrong / count, self.checks,
        )  # fmt: skip
