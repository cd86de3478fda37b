"""Control variates at work: a race of residuals, and arms ruled out before any datum is read.

A control variate is h(arm, n) with a sum over n that is known. A decision between totals of l is
one between totals of l - h with the sums of h among the offsets: same totals, same decision, but
residuals vary far less than log likelihoods, so a race needs few of them. And where |sum of l - h|
is known to be small, the offsets alone may decide.
"""

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.draws import CHUNK
from subsample_mcmc.jit import jit
from subsample_mcmc.rules.betting import Betting
from subsample_mcmc.selectors.exact import Exact
from subsample_mcmc.selectors.racing import Racing
from subsample_mcmc.selectors.selector import Selector, Sources, not_a_sum


@jit(inner="always")
def unknown(trial, i, j):
    """For control variates whose residuals' size is not known."""
    return np.inf


class ControlFunctions(NamedTuple):
    """The compiled half of a control variate; trial.control.own holds its arrays."""

    mean: Any  # (trial, arm) -> sum of h over all rows that are raced; the arm is in the state
    residuals: Any  # (trial, arm, rows, out): l - h; places the arm itself
    reach: Any  # (trial, i, j, each) -> bound of |residual_i - residual_j|, of one row or the sum
    distance: Any  # (trial, arm) -> squared distance from the reference, 1 on average at home
    trusted: Any  # (trial, arm) -> bool: is h likely to be a help, so near the reference
    estimate: Any = unknown  # (trial, i, j) -> what a pilot says of reach(trial, i, j, False)


class Controls(NamedTuple):
    """What a decision with a control variate needs besides."""

    size: int  # data in all
    means: np.ndarray  # (arms,) sums of what was known before the race
    left: np.ndarray  # (arms,) offsets; -inf for arms that are ruled out
    outliers: np.ndarray  # rows that every decision reads
    values: np.ndarray  # (CHUNK,) their log likelihoods
    certain: int  # 1: arms may be ruled out by reach, which is proved
    likely: int  # 1: and by the estimate, as the rule is asymptotic anyway
    off: np.ndarray  # (1,) 1: this decision goes without, an arm lies too far from the reference
    own: Any


class Control:
    """A control variate; see control/taylor.py for one."""

    made: ClassVar[dict[str, Any]]  # each object has its own: what passes over the data gave
    compiled: ClassVar[tuple[str, ...]] = ("functions",)  # of it, what is made anew elsewhere

    def __getstate__(self):  # compiled code stays behind
        kept = {k: v for k, v in self.made.items() if k not in self.compiled}
        return {**self.__dict__, "made": kept}

    def __setstate__(self, state):
        self.__dict__.update(state)

    def made_for(self, model) -> dict[str, Any]:
        """What was made for a model; nothing, if that was another one."""
        if self.made.get("model") is not model:
            same = "model" in self.made and self.made["model"].fingerprints()
            if not same or same != model.fingerprints():
                self.made.clear()
            for name in self.compiled:
                self.made.pop(name, None)
            self.made["model"] = model
        return self.made

    def check(self, model, block: str) -> None:
        """Refuse a model, or a block of it, that this control variate does not know."""

    def functions(self, model) -> ControlFunctions:
        """Compile."""
        raise TypeError(f"{type(self).__name__} must define functions().")

    def bind(self, model, arms: int) -> Any:
        """Arrays of one chain."""
        raise TypeError(f"{type(self).__name__} must define bind().")

    def always_read(self, model) -> np.ndarray:
        """Rows that are always read."""
        return np.zeros(0, dtype=np.int64)

    def proved(self, model) -> bool:
        """Is `reach` a bound on every row, whatever the parameters."""
        return False

    def known(self, model) -> bool:
        """Is there a `reach` at all."""
        return False

    def gradient(self) -> Any:
        """Compiled (own, trial, start, out): derivatives of the sum of h by the floats from start.

        At the values that stand in the state.
        """
        raise ValueError(f'{self!r} has no gradient: use gradient="minibatch".')

    def wanted(self) -> str:
        """What a proved bound would need, for a message."""
        return "a bound of its residuals"


def make_controls(control: Control | None, model, selector: Selector, arms: int) -> Any:
    """The arrays of one chain; nothing without a control variate."""
    if control is None:
        return ()
    known = control.known(model)
    return Controls(
        model.size, np.zeros(arms), np.zeros(arms), control.always_read(model), np.zeros(CHUNK),
        int(known and control.proved(model)), int(known and selector.guarantee == "asymptotic"),
        np.zeros(1, dtype=np.int64), control.bind(model, arms),
    )  # fmt: skip


def check_control(control: Control | None, model, block: str, selector, arms: int) -> None:
    """Refuse a control variate that the model or the selector cannot go with."""
    if control is not None:
        control.check(model, block)
        with_range(selector, control, model, arms)


def with_range(selector: Selector, control: Control | None, model, arms: int) -> Selector:
    """The selector, with a range that the control variate fills in at every decision."""
    if control is None:
        return selector
    if not isinstance(selector, Racing | Exact):
        raise ValueError(f"{selector!r} does not take a control variate: use sm.Racing().")
    rule = getattr(selector, "rule", None)
    if rule is None or not rule.declares_range:
        return selector
    if not isinstance(rule, Betting):
        raise ValueError(
            f"{type(rule).__name__} needs a range of each arm's rewards, and {control!r} knows "
            "one of differences: use sm.Betting(), which asks for it, or sm.Normal()."
        )
    if rule.spread is not None or rule.bounds is not None:
        return selector  # of residuals, as the user says
    if not control.proved(model):
        raise ValueError(
            f"Betting() asks the control variate for the range of its residuals, and {control!r} "
            f"knows none: that would need {control.wanted()}. Or use sm.Normal(), or declare "
            "Betting(bounds=(low, high)) for differences of residuals yourself."
        )
    low = np.zeros((arms, arms))
    made: Any = replace(rule, bounds=(low, low))
    return replace(selector, rule=made)


def asks_control(selector: Selector, control: Control | None) -> bool:
    """Does the rule take its range from the control variate, decision by decision."""
    rule = getattr(selector, "rule", None)
    return (
        control is not None
        and isinstance(rule, Betting)
        and rule.spread is None
        and rule.bounds is None
    )


_sources: dict[Any, Sources] = {}


def residual_sources(sources: Sources, functions: ControlFunctions) -> Sources:
    """The batch functions of residuals."""
    key = (sources, functions)
    if key in _sources:
        return _sources[key]
    plain, total_of, residuals = sources.rewards, sources.total, functions.residuals

    @jit(inner=True)
    def rewards(trial, arm, rows, out):
        if trial.control.off[0] == 1:
            plain(trial, arm, rows, out)
        else:
            residuals(trial, arm, rows, out)

    @jit(inner=True)
    def total(trial, arm, size):
        """Exact sum of the residuals over the rows that are raced: all, less what is known."""
        own = trial.control
        return total_of(trial, arm, own.size) - own.means[arm]

    _sources[key] = Sources(rewards, total, sources.touch)
    return _sources[key]


def consultation(
    sources: Sources, functions: ControlFunctions, place, betting: bool, ranged: bool
) -> Any:
    """consult(judge, current): moves what is known into the offsets, and rules arms out."""
    mean, _, reach, distance, trusted, estimate = functions
    rewards = sources.rewards

    @jit(inner=True)
    def read_outliers(trial, arm):
        own, value, first = trial.control, 0.0, 0
        while first < len(own.outliers):
            count = min(CHUNK, len(own.outliers) - first)
            rewards(trial, arm, own.outliers[first : first + count], own.values[:count])
            for i in range(count):
                value += own.values[i]
            first += count
        return value

    @jit(inner="always")
    def rule_out(judge):
        """Drop arms that the rest of the data will not bring back.

        Return how many are left, the best, and whether an unproved risk was taken.
        """
        trial, offsets, own = judge.trial, judge.offsets, judge.trial.control
        leader, left, risk = -1, 0, 0
        for arm in range(len(offsets)):
            if offsets[arm] > -np.inf and (leader < 0 or offsets[arm] > offsets[leader]):
                leader = arm
        for arm in range(len(offsets)):
            if offsets[arm] == -np.inf:
                continue
            if own.off[0] == 0 and arm != leader:
                ahead = offsets[leader] - offsets[arm]
                if own.certain == 1 and ahead > reach(trial, leader, arm, False):
                    own.left[arm] = -np.inf
                    continue
                if own.likely == 1 and ahead > estimate(trial, leader, arm):
                    own.left[arm], risk = -np.inf, 1
                    continue
            left += 1
        return left, leader, risk

    @jit(inner=True)
    def declare(judge):
        """Tell the rule how far the residuals of two arms can lie apart, at these values."""
        low, own = judge.params.rule.low, judge.trial.control
        for i in range(len(own.left)):
            for j in range(len(own.left)):
                both = own.left[i] > -np.inf and own.left[j] > -np.inf and i != j
                far = np.inf if own.off[0] == 1 else reach(judge.trial, i, j, True)
                low[i, j] = -far if both else 0.0

    @jit(inner="always")
    def consult(judge, current):
        """Return (an arm whose outliers are no number, or -1; the only arm left, or -1; risk)."""
        trial, offsets, own, tally = judge.trial, judge.offsets, judge.trial.control, judge.tally[0]
        possible = 0
        own.off[0] = 0
        for arm in range(len(offsets)):
            own.means[arm], own.left[arm] = 0.0, offsets[arm]
            possible += 1 if offsets[arm] > -np.inf else 0
        if possible < 2:
            return -1, -1, 0
        for arm in range(len(offsets)):
            if offsets[arm] == -np.inf:
                continue
            place(trial, arm)
            own.means[arm] = mean(trial, arm)
            if not abs(own.means[arm]) < np.inf:
                if ranged and not betting:  # the user's range is one of residuals
                    return arm, -1, 0
                own.off[0] = 1
            if not (ranged or trusted(trial, arm)):
                own.off[0] = 1
        if 0 <= current < len(offsets) and offsets[current] > -np.inf:
            tally.distance += distance(trial, current)
        for arm in range(len(offsets)):
            if offsets[arm] == -np.inf:
                continue
            if own.off[0] == 1:
                own.means[arm] = 0.0
            if len(own.outliers) > 0:
                value = read_outliers(trial, arm)
                tally.pulls += len(own.outliers)
                if not_a_sum(value):
                    return arm, -1, 0
                own.means[arm] += value
            offsets[arm] += own.means[arm]
            own.left[arm] = offsets[arm]
        left, leader, risk = rule_out(judge)
        if left == 1:
            tally.predicted += 1
            return -1, leader, risk
        if betting:
            declare(judge)
        return -1, -1, risk

    return consult
