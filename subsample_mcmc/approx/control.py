"""Control variates at work: a race of residuals, and arms ruled out before any datum is read.

A control variate is h(arm, n) with a sum over n that is known. A decision between totals of l is
one between totals of l - h with the sums of h among the offsets: same totals, same decision, but
residuals vary far less than log likelihoods, so a race needs few of them. And where |sum of l - h|
is known to be small, the offsets alone may decide.
"""

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.racing import Racing
from subsample_mcmc.decisions.rules.betting import Betting
from subsample_mcmc.decisions.rules.normal import Normal
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.rows import CHUNK

BOLD = 0.01  # delta from which on predictions may take a part of it


@jit(inner="always")
def unknown(trial, i, j, everything):
    """For control variates whose residuals' size is not known."""
    return np.inf


class ControlFunctions(NamedTuple):
    """The compiled half of a control variate; trial.control.own holds its arrays."""

    sum: Any  # (trial, arm) -> sum of h over all rows that are raced; the arm is in the state
    residuals: Any  # (trial, arm, rows, out): l - h; places the arm itself
    # (trial, i, j, each, everything) -> bound of |residual_i - residual_j|, of one row or of the
    # sum over the rows that are raced, or over all of them.
    reach: Any
    distance: Any  # (trial, arm) -> squared distance from the reference, 1 on average at home
    trusted: Any  # (trial, arm) -> bool: is h likely to be a help, so near the reference
    estimate: Any = unknown  # (trial, i, j, everything) -> what a pilot says of the sum's reach
    spread: Any = None  # (trial, i, j) -> standard deviation of residual_i - residual_j, by a pilot
    whole: Any = None  # (trial, arm) -> sum of h over all rows, and what else is believed of l's


class Controls(NamedTuple):
    """What a decision with a control variate needs besides."""

    size: int  # data in all
    sums: np.ndarray  # (arms,) of h, which are known before the race
    left: np.ndarray  # (arms,) offsets; -inf for arms that are ruled out
    outliers: np.ndarray  # rows that every decision reads
    values: np.ndarray  # (CHUNK,) their log likelihoods
    certain: int  # 1: arms may be ruled out by reach, which is proved
    likely: int  # 1, 2: and by the estimate, as the rule is asymptotic anyway; 2: at some risk
    off: np.ndarray  # (1,) 1: this decision goes without, an arm lies too far from the reference
    own: Any


class Control:
    """A control variate; see approx/taylor/taylor.py for one."""

    anchor: ClassVar[bool] = False  # is it made from a point that a gradient may be relative to
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

    def text(self, model=None) -> str:
        """What describe() and reports call it."""
        return f"{self!r:.80}"

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
    known, delta = control.known(model), getattr(selector, "delta", 0.0)
    likely = (2 if delta >= BOLD else 1) if selector.guarantee == "asymptotic" else 0
    return Controls(
        model.size, np.zeros(arms), np.zeros(arms), control.always_read(model), np.zeros(CHUNK),
        int(known and control.proved(model)), int(known) * likely,
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


def is_floored(selector: Selector, functions: ControlFunctions) -> bool:
    """Does the rule take from the control variate how widely residuals vary at least."""
    rule = getattr(selector, "rule", None)
    paired = isinstance(rule, Normal) and rule.paired
    return paired and functions.spread is not None


def asks_control(selector: Selector, control: Control | None) -> bool:
    """Does the rule take its range from the control variate, decision by decision."""
    rule = getattr(selector, "rule", None)
    return (
        control is not None
        and isinstance(rule, Betting)
        and rule.spread is None
        and rule.bounds is None
    )
