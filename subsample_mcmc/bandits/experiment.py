"""Rewards from the world: ask which arm to pull, tell what it gave, save and go on."""

import hashlib
import io
import json
import os
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from subsample_mcmc import __version__
from subsample_mcmc.bandits.identification import Identification, identification
from subsample_mcmc.bandits.identify import MOST_PULLS
from subsample_mcmc.bandits.play import Player
from subsample_mcmc.bandits.strategy import Strategy, must_be_strategy
from subsample_mcmc.errors import RewardError, StoreError
from subsample_mcmc.numerics.digest import content
from subsample_mcmc.numerics.random import root_of
from subsample_mcmc.runs.fingerprint import spelled
from subsample_mcmc.runs.store.store import replace
from subsample_mcmc.target.population import whole


class Experiment:
    """A strategy that is asked for arms and told rewards, for as long as it takes.

        experiment = sm.Experiment(sm.BayesGap(40, covariance, noise), arms=160, seed=1)
        while (arm := experiment.ask()) is not None:
            experiment.tell(-train_and_test(models[arm]))
            experiment.save("run.npz")
        print(experiment.result())

    Until it is told, it asks for the same arm again: so a run that died in between loses nothing.
    `sm.Experiment.load("run.npz", selector)` goes on where `save` was called, as if nothing had
    happened; the strategy is given again, and must be the same.
    Where a promise rests on the scale of rewards and the strategy stops before that can be checked,
    it asks for up to some 20 pulls more, which change no other number: `checks` of its result.

    selector: the strategy, as in sm.identify.
    arms: how many.
    seed: None, an int, a SeedSequence, or a Generator, which is advanced.
    max_pulls: as in sm.identify.

    Example:
        >>> rewards = {0: 0.1, 1: 0.7, 2: 0.4}  # what a long computation would return
        >>> experiment = sm.Experiment(sm.SequentialHalving(budget=12), arms=3, seed=1)
        >>> while (arm := experiment.ask()) is not None:
        ...     experiment.tell(rewards[arm])
        >>> experiment.result().arm
        1
    """

    def __init__(self, selector: Any, arms: int, seed: Any = None, max_pulls: int | None = None):
        must_be_strategy(selector, "selector")
        arms = whole(arms, "arms", "the number of arms, at least 1")
        if max_pulls is None:
            max_pulls = MOST_PULLS
        max_pulls = whole(max_pulls, "max_pulls", "a number of pulls")
        entropy, key = root_of(seed)
        sequence = np.random.SeedSequence(entropy, spawn_key=key)
        self.digest = digest(selector)  # now: arrays that were given may change
        self.player = Player(selector, arms, sequence, max_pulls)
        self.before, self.began = 0.0, time.monotonic()  # seconds before it was loaded

    def __repr__(self) -> str:
        return f"Experiment({self.player.strategy!r}, {self.player.total:,} pulls)"

    @property
    def total(self) -> int:
        """Pulls told so far."""
        return self.player.total

    @property
    def seconds(self) -> float:
        """Since it was begun, less what lay between saving and loading."""
        return self.before + time.monotonic() - self.began

    def ask(self) -> int | None:
        """The arm to pull next; None once it has stopped, and its scale can be checked."""
        arm = self.player.ask()
        return self.player.ask_more() if arm is None else arm

    def tell(self, reward: float) -> None:
        """The reward of the arm that was asked for.

        reward: a number.
        """
        now = self.player.state.now[0]
        arm = self.player.ask_more() if now.ended else self.player.ask() if now.count > 0 else None
        if arm is None:
            raise ValueError("tell() without ask(): it decides which arm the reward is of.")
        if np.ndim(reward) or np.asarray(reward).dtype.kind not in "biuf":
            raise TypeError(f"reward={reward!r:.60}: give a number.")
        if not np.isfinite(reward):
            raise RewardError(f"the reward of arm {arm} is {reward}: give a number.")
        if now.ended:
            self.player.tell_more(arm, float(reward))
        else:
            self.player.tell(reward)

    def result(self) -> Identification:
        """What is known now, finished or not."""
        return identification(self.player, self.seconds)

    # --------------------------------------------------------------------------------- on disk
    def save(self, path: str | os.PathLike) -> None:
        """Keep everything in one file, which is whole at any time.

        path: of the file.
        """
        player, path = self.player, Path(path)
        note = {
            "version": __version__, "digest": self.digest, "arms": player.arms,
            "most": player.most, "choices": player.choices.bit_generator.state,
            "seconds": self.seconds,
        }  # fmt: skip
        arrays: dict[str, Any] = {f"array{i}": a for i, a in enumerate(leaves(player))}
        arrays["note"] = np.frombuffer(json.dumps(note).encode(), np.uint8)
        made = io.BytesIO()
        np.savez(made, **arrays)
        beside = path.with_name(f"{path.name}.{os.getpid()}.part")
        try:
            beside.write_bytes(made.getbuffer())
            replace(beside, path)
        finally:
            beside.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: str | os.PathLike, selector: Any) -> "Experiment":
        """Go on with a saved experiment.

        path: that `save` was given.
        selector: the strategy, the same as before.
        """
        must_be_strategy(selector, "selector")
        try:
            with Path(path).open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                note = json.loads(file["note"].tobytes())
                saved = [file[f"array{i}"] for i in range(len(file.files) - 1)]
        except (OSError, ValueError, LookupError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise StoreError(
                f"{path} cannot be read ({error}): give a file that Experiment.save wrote."
            ) from error
        if note["version"] != __version__:
            raise StoreError(
                f"{path} was saved by version {note['version']}, this is {__version__}: go on with "
                "that one."
            )
        if note["digest"] != digest(selector):
            raise StoreError(
                f"{path} was saved with another strategy, or other numbers, than "
                f"{selector!r:.80}: give the same."
            )
        made = cls(selector, note["arms"], 0, note["most"])
        for array, kept in zip(leaves(made.player), saved, strict=True):
            array[...] = kept
        made.player.choices.bit_generator.state = note["choices"]
        made.before = note["seconds"]
        return made


def leaves(player: Player) -> list[np.ndarray]:
    """The arrays of a player's state, log and rewards beside; those in two places twice."""

    def within(value) -> list[np.ndarray]:
        if isinstance(value, np.ndarray):
            return [value]
        return [array for part in value for array in within(part)]

    return within((player.state, player.log, player.more))


def digest(selector: Strategy) -> str:
    """Of a strategy's class, numbers and compiled functions, by content."""
    return hashlib.sha256((spelled(selector) + code(selector)).encode()).hexdigest()


def code(strategy: Strategy) -> str:
    """What its steps say; those of a strategy inside it, too."""
    inner = [value for value in vars(strategy).values() if isinstance(value, Strategy)]
    return "".join([*map(content, strategy.steps()), *map(code, inner)])
