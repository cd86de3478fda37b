"""What runs of strategies have found: one run, or many with their error rates."""

from dataclasses import dataclass, field

import numpy as np

from subsample_mcmc.bandits.play import Player
from subsample_mcmc.bandits.prior_seen import off_prior, warn_of_prior
from subsample_mcmc.bandits.scale import kept_promise, spread_of, stated, together
from subsample_mcmc.style import (
    COLOURS,
    MARKERS,
    SMALL,
    axes_of,
    line_style,
    point_style,
)


@dataclass(frozen=True, repr=False)
class Identification:
    """One run: the arm that was named, and what it took.

    arm: the one that was named.
    pulls: of each arm.
    means: of what each arm gave; nan where it was not pulled.
    stopped_by: own rule, stopping rule, budget, alone, max_pulls, interrupted, or under way.
    guarantee: of this run, by how it ended: "bounded", "asymptotic" or "none".
    seconds: that the run took.
    regret: mean of the best arm less that of the named one; None without truth.
    times: pulls in all, each time the run was looked at.
    history: pulls of each arm by then, (times, arms).
    leaders: the arm with the highest mean at these times.
    checks: pulls beside the run, after its end: do rewards refute the strategy's scale.

    Example:
        >>> def pull(arm, rng):
        ...     return float(arm) + rng.standard_normal()
        >>> found = sm.identify(pull, 4, sm.SequentialHalving(budget=200), seed=1)
        >>> found.arm, int(found.pulls.sum()) <= 200
        (3, True)
    """

    arm: int
    pulls: np.ndarray
    means: np.ndarray
    stopped_by: str
    guarantee: str
    seconds: float
    regret: float | None
    times: np.ndarray = field(repr=False)
    history: np.ndarray = field(repr=False)
    leaders: np.ndarray = field(repr=False)
    checks: int = 0

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
        """Two axes: the most pulled arms' pulls over time, and every arm's pulls and mean.

        axes: two axes of matplotlib; None: of a new figure.
        most: arms that are shown at most.
        """
        from subsample_mcmc.bandits.identification import plot_run

        return plot_run(self, axes, most)

    def __repr__(self) -> str:
        return (
            f"Identification(arm {self.arm} of {len(self.pulls)}, {self.total:,} pulls"
            + f" and {self.checks} to check its scale" * (self.checks > 0)
            + f", stopped by {self.stopped_by}; guarantee {self.guarantee!r})"
        )


@dataclass(frozen=True, repr=False)
class Identifications:
    """Many runs: one entry per run in every array, but for the mean pulls of each arm.

    arms: that were named.
    totals: pulls of all arms.
    stopped_by: as in sm.Identification.
    regrets: means of the best arms less those of the named ones; None without truth.
    pulls: of each arm, the mean over runs.
    guarantee: the weakest of any run.
    seconds: that all runs took.
    times: pulls in all at which `early` is known.
    early: share of runs whose leader was not best, at these times; None without truth.
    checks: pulls beside all runs, after their ends: do rewards refute the scale.

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
    regrets: np.ndarray | None
    pulls: np.ndarray
    guarantee: str
    seconds: float
    times: np.ndarray = field(repr=False)
    early: np.ndarray | None = field(repr=False)
    checks: int = 0

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
        """(share of wrong runs, and its Clopper-Pearson interval).

        level: of the interval.
        """
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
        """The mean pulls of each arm, and errors over time if truth was given.

        axes: as many axes of matplotlib as there are panels; None: of a new figure.
        """
        from subsample_mcmc.bandits.identification import plot_runs

        return plot_runs(self, axes)

    def __repr__(self) -> str:
        told = f"{len(self)} runs, {self.mean_total()[0]:,.0f} pulls on average"
        if self.regrets is not None:
            rate, low, high = self.error_rate()
            told += f", wrong in {rate:.2%} ({low:.2%} .. {high:.2%})"
        return f"Identifications({told}; guarantee {self.guarantee!r})"


# ------------------------------------------------------------------------------ what is promised
EQUAL = 1e-12  # of the largest mean: means that differ by less are equal, but for rounding


def best_but(means: np.ndarray, arm) -> np.ndarray:
    """By how much arms fall short of the best; 0 where that is rounding."""
    short = means.max() - means[arm]
    return np.where(short > EQUAL * np.abs(means).max(), short, 0.0)


def identification(player: Player, seconds: float, truth: np.ndarray | None = None):
    """What a run has found."""
    state, at, arm = player.state, int(player.log.at[0]), player.answer()
    pulls, ending, strategy = state.pulls.copy(), player.ending, player.strategy
    checked = together(player.seen, player.more)
    warn_of_prior(repr(strategy), off_prior(strategy, player.seen))
    promise = kept_promise(
        strategy.guarantee_when(ending), stated(strategy, ending), repr(strategy),
        spread_of(strategy, ending, checked),
    )  # fmt: skip
    return Identification(
        arm, pulls, np.where(pulls > 0, state.means, np.nan), ending, promise, seconds,
        None if truth is None else float(best_but(truth, arm)),
        player.log.times[:at].copy(), player.log.pulls[:at].copy(), player.log.leaders[:at].copy(),
        int(player.more.pulls.sum()),
    )  # fmt: skip


# ---------------------------------------------------------------------------------------- figures
def plot_run(run, axes=None, most: int = 7):
    """Pulls of the arms that were pulled most, over time; and every arm's pulls and mean reward."""
    left, right = axes_of("identification.plot", axes, 2)
    shown = np.argsort(-run.pulls, kind="stable")[:most]
    for i, arm in enumerate(shown):
        style = line_style(i, len(run.times))
        style |= {"linewidth": 2.5, "zorder": 3} if arm == run.arm else {}
        label = f"arm {arm}" + (", named" if arm == run.arm else "")
        left.plot(run.times, run.history[:, arm], label=label, **style)
    left.set(xscale="log", yscale="symlog", xlabel="pulls in all", ylabel="pulls of an arm")
    left.set_ylim(bottom=0.0)
    left.legend(fontsize=SMALL)
    pulled = run.pulls > 0
    right.plot(run.pulls[pulled], run.means[pulled], label="an arm", **point_style(0))
    right.plot(
        run.pulls[run.arm], run.means[run.arm], "*", color=COLOURS[1], markersize=13,
        label=f"arm {run.arm}, named",
    )  # fmt: skip
    for arm in shown[run.pulls[shown] > 0]:
        right.annotate(
            str(arm), (run.pulls[arm], run.means[arm]), xytext=(6, 3),
            textcoords="offset points", fontsize=SMALL,
        )  # fmt: skip
    right.set(xscale="log", xlabel="pulls of an arm", ylabel="its mean reward")
    right.margins(0.12)
    right.legend(fontsize=SMALL)
    return np.array([left, right])


def plot_runs(runs, axes=None):
    """Mean pulls of each arm, and errors over time if truth was given."""
    count = 1 if runs.early is None else 2
    found = axes_of("identifications.plot", axes, count)
    arms = np.arange(len(runs.pulls))
    pulled = runs.pulls > 0.0
    # Dots, not bars: a log scale has no 0 that a bar could start from.
    found[0].plot(arms[pulled], runs.pulls[pulled], MARKERS[0], color=COLOURS[0], markersize=5)
    found[0].set(xlabel="arm", ylabel=f"mean pulls of {len(runs):,} runs", yscale="log")
    found[0].xaxis.get_major_locator().set_params(integer=True)
    if count == 2:
        shown = runs.times <= runs.totals.max()
        found[1].plot(
            runs.times[shown], runs.early[shown], color=COLOURS[0], label="leader, so far"
        )
        rate, low, high = runs.error_rate()
        found[1].axhline(rate, color=COLOURS[1], linestyle="--", linewidth=1.2, label="named arm")
        found[1].axhspan(
            low, high, facecolor=COLOURS[1], alpha=0.2, linewidth=0, label="its 95% interval"
        )
        found[1].set(xscale="log", xlabel="pulls", ylabel="share of runs where it is not best")
        found[1].legend(fontsize=SMALL)
    return found
