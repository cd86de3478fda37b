"""What runs of strategies have found: one run, or many with their error rates."""

from dataclasses import dataclass, field

import numpy as np

from subsample_mcmc.bandits.play import Player
from subsample_mcmc.bandits.strategy import ENDINGS


@dataclass(frozen=True, repr=False)
class Identification:
    """One run: the arm that was named, and what it took.

    Example:
        >>> def pull(arm, rng):
        ...     return float(arm) + rng.standard_normal()
        >>> found = sm.identify(pull, 4, sm.SequentialHalving(budget=200), seed=1)
        >>> found.arm, int(found.pulls.sum()) <= 200
        (3, True)
    """

    arm: int
    pulls: np.ndarray  # of each arm
    means: np.ndarray  # of what they gave; nan where none
    stopped_by: str  # own rule, stopping rule, budget, alone, max_pulls, interrupted, under way
    guarantee: str  # of this run, by how it ended: bounded, asymptotic or none
    seconds: float
    regret: float | None  # mean of the best arm less that of the named one, if truth was given
    times: np.ndarray = field(repr=False)  # pulls in all, when the run was looked at
    history: np.ndarray = field(repr=False)  # (times, arms) pulls of each by then
    leaders: np.ndarray = field(repr=False)  # the highest mean at these times

    @property
    def total(self) -> int:
        """Pulls in all."""
        return int(self.pulls.sum())

    @property
    def guaranteed(self) -> bool:
        """Is it wrong with probability delta at most: never if max_pulls ended the run."""
        return self.guarantee == "bounded"

    def to_frame(self):
        """One row per arm, as a pandas DataFrame."""
        import pandas as pd  # a fifth of a second at import, seldom needed

        return pd.DataFrame({"pulls": self.pulls, "mean": self.means}).rename_axis("arm")

    def plot(self, axes=None, most: int = 7):
        """Two axes: the most pulled arms' pulls over time, and every arm's pulls and mean."""
        from subsample_mcmc.bandits.figures import plot_run

        return plot_run(self, axes, most)

    def __repr__(self) -> str:
        return (
            f"Identification(arm {self.arm} of {len(self.pulls)}, {self.total:,} pulls, stopped by "
            f"{self.stopped_by}; guarantee {self.guarantee!r})"
        )


@dataclass(frozen=True, repr=False)
class Identifications:
    """Many runs: one entry per run in every array, but for the mean pulls of each arm.

    Example:
        >>> def pull(arm, rng):
        ...     return float(arm) + rng.standard_normal()
        >>> halving, truth = sm.SequentialHalving(budget=60), np.arange(4.0)
        >>> many = sm.identify(pull, 4, halving, truth=truth, runs=200, seed=1)
        >>> rate, low, high = many.error_rate()
        >>> bool(low <= rate <= high < 0.2)
        True
    """

    arms: np.ndarray
    totals: np.ndarray
    stopped_by: np.ndarray
    regrets: np.ndarray | None  # means of the best arms less those of the named, if truth was given
    pulls: np.ndarray  # of each arm, the mean over runs
    guarantee: str  # the weakest of any run
    seconds: float
    times: np.ndarray = field(repr=False)
    early: np.ndarray | None = field(repr=False)  # (times,) share of runs whose leader is not best

    def __len__(self) -> int:
        return len(self.arms)

    @property
    def errors(self) -> np.ndarray:
        """Which runs named an arm that is not best."""
        if self.regrets is None:
            raise ValueError(
                "truth was not given, so nobody knows which arm is best: pass truth=means, or a "
                "function of data."
            )
        return self.regrets > 0.0

    def error_rate(self, level: float = 0.95) -> tuple[float, float, float]:
        """(share of wrong runs, and its Clopper-Pearson interval)."""
        from scipy.stats import beta

        wrong, runs, tail = int(self.errors.sum()), len(self), 0.5 * (1.0 - level)
        low = beta.ppf(tail, wrong, runs - wrong + 1) if wrong else 0.0
        high = beta.ppf(1.0 - tail, wrong + 1, runs - wrong) if wrong < runs else 1.0
        return wrong / runs, float(low), float(high)

    def mean_total(self) -> tuple[float, float]:
        """(mean number of pulls, its standard error)."""
        spread = self.totals.std(ddof=1) / len(self) ** 0.5 if len(self) > 1 else float("nan")
        return float(self.totals.mean()), float(spread)

    def to_frame(self):
        """One row per run, as a pandas DataFrame."""
        import pandas as pd

        columns = {"arm": self.arms, "pulls": self.totals, "stopped_by": self.stopped_by}
        if self.regrets is not None:
            columns["regret"] = self.regrets
        return pd.DataFrame(columns).rename_axis("run")

    def plot(self, axes=None):
        """The mean pulls of each arm, and errors over time if truth was given."""
        from subsample_mcmc.bandits.figures import plot_runs

        return plot_runs(self, axes)

    def __repr__(self) -> str:
        told = f"{len(self)} runs, {self.mean_total()[0]:,.0f} pulls on average"
        if self.regrets is not None:
            rate, low, high = self.error_rate()
            told += f", wrong in {rate:.2%} ({low:.2%} .. {high:.2%})"
        return f"Identifications({told}; guarantee {self.guarantee!r})"


def identification(player: Player, seconds: float, truth: np.ndarray | None = None):
    """What a run has found."""
    state, at, arm = player.state, int(player.log.at[0]), player.answer()
    pulls, ending = state.pulls.copy(), ENDINGS[state.now[0].ended]
    return Identification(
        arm, pulls, np.where(pulls > 0, state.means, np.nan), ending,
        player.strategy.guarantee_when(ending), seconds,
        None if truth is None else float(truth.max() - truth[arm]),
        player.log.times[:at].copy(), player.log.pulls[:at].copy(), player.log.leaders[:at].copy(),
    )  # fmt: skip
