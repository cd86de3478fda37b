"""Control variates at work: a race of residuals, and arms ruled out before any datum is read.

A control variate is h(arm, n) with a sum over n that is known. A decision between totals of l is
one between totals of l - h with the sums of h among the offsets: same totals, same decision, but
residuals vary far less than log likelihoods, so a race needs few of them. And where |sum of l - h|
is known to be small, the offsets alone may decide.
"""

from contextlib import nullcontext
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.decisions.rules.rule import SINGLE
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.numerics.digest import PACKAGE
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import (
    FLOATS,
    NUMBER,
    FunctionAddress,
    RecordAddress,
    array,
    call_both,
    call_residuals,
)
from subsample_mcmc.numerics.rows import CHUNK, row_kind
from subsample_mcmc.target.constraints import REAL
from subsample_mcmc.target.elsewhere.resident import reader_of_resident
from subsample_mcmc.target.rewards import example_context, place, probe, rewards_of
from subsample_mcmc.target.user_functions import blaming

# To see whether a user's control variate adds up: how far off, and how much of the log likelihoods
# may be rounding.
NEARBY, ROUNDING = 0.01, 1e-7
SEEN = 4096  # data that tell how large log likelihoods are
BOLD = 0.01  # delta from which on predictions may take a part of it


@jit(inner=True)
def no_reach(trial, i, j, each, everything):
    """Nothing is known of the residuals."""
    return np.inf


@jit(inner="always")
def no_estimate(trial, i, j, everything):
    """For control variates whose residuals' size is not known."""
    return np.inf


@jit(inner=True)
def no_distance(trial, arm):
    """There is no reference to be far from."""
    return 0.0


@jit(inner=True)
def always_trusted(trial, arm):
    """It is as good everywhere."""
    return True


@jit(inner=True)
def never_far(trial, arm):
    """Of control variates without pilots."""
    return False


@jit(inner="always")
def no_ceilings(trial, out):
    """Nothing is known of arms before they are placed."""
    return False


@jit(inner="always")
def read_residuals(trial, arm, rows, out):
    """What the model's own part of residuals makes of out: trial.control.reader, by its address."""
    own, calls = trial.control, trial.calls
    call_residuals(own.reader, calls.context, own.source, calls.row, arm, rows, out)


class ControlFunctions(NamedTuple):
    """The compiled half of a control variate; trial.control.arrays holds its arrays.

    sum(trial, arm) -> float: of h over all rows that are raced; the arm is in the state.
    residuals(trial, arm, rows, out): l - h; places the arm itself.
    reach(trial, i, j, each, everything) -> float: bound of |residual_i - residual_j|, of one row or
        of the sum over the rows that are raced, or over all of them.
    distance(trial, arm) -> float: squared, from the reference, 1 on average at home.
    trusted(trial, arm) -> bool: is h likely to be a help, so near the reference.
    estimate(trial, i, j, everything) -> float: what a pilot says of the sum's reach.
    spread(trial, i, j) -> float: standard deviation of residual_i - residual_j, by a pilot.
    whole(trial, arm) -> float: sum of h over all rows, and what else is believed of l's.
    every(trial, arm) -> float: sum of h over all rows.
    bounds(trial) -> tuple: bounds of the sum of |residual_1 - residual_0| over the rows that are
        raced, and over all; rounding of one of them; configuration of the discrete blocks.
    bound(trial, arm) -> tuple: the same of |residual| at one arm.
    ceilings(trial, out) -> bool: is it known beforehand what each arm's `every` and the bound of
        its residuals may come to together; if so, written to `out`.
    reader(context, source, arm, rows, out): what knows the model, for residuals; called by its
        address as trial.control.reader.
    adder(context, source, number) -> float: the same for sum, as trial.control.adder.
    far(trial, arm) -> bool: is it farther from the reference than any pilot has been.
    """

    sum: Any
    residuals: Any
    reach: Any = no_reach
    distance: Any = no_distance
    trusted: Any = always_trusted
    estimate: Any = no_estimate
    spread: Any = None
    whole: Any = None
    every: Any = None
    bounds: Any = None
    bound: Any = None
    ceilings: Any = no_ceilings
    reader: Any = None
    adder: Any = None
    far: Any = never_far


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
    arrays: Any  # what bind() of the control variate made
    source: Any = 0  # what `reader` and `adder` read besides; 0: there are none
    reader: Any = 0  # see ControlFunctions
    adder: Any = 0


class OwnArrays(NamedTuple):
    """What the functions of a user's control variate read besides state and data."""

    arrays: Any


@jit(inner=True)
def sum_of_state(trial, arm):
    """The sum of h, by a user's function."""
    return call_both(trial.control.adder, trial.calls.context, trial.control.source, 0)


@jit(inner=True)
def residuals_of_state(trial, arm, rows, out):
    """l - h of a mini-batch, by a user's function."""
    place(trial, arm)
    read_residuals(trial, arm, rows, out)


@memoised
def functions_of_state(total: Any, residuals: Any) -> ControlFunctions:
    """The compiled half of a control variate that is written as functions of state and data.

    total(state, arrays) -> float: the sum of h over all rows.
    residuals(state, data, arrays, rows, out): writes l - h of the data whose numbers are in rows.

    That both are of one h is seen before a run, by a pass over rows in memory at two states.

    Here arrays is the attribute of that name of what prepare() returns, made with `record`.
    """

    @jit(inner="entry", user=True)
    def reader(context, source, arm, rows, out):
        residuals(context.state, context.data, source.arrays, rows, out)
        return 0.0

    @jit(inner="entry", user=True)
    def adder(context, source, unused):
        return 1.0 * total(context.state, source.arrays)

    return ControlFunctions(sum_of_state, residuals_of_state, reader=reader, adder=adder)


class Bound(NamedTuple):
    """What bind() of a control variate makes for one chain."""

    arrays: Any  # read by the package's functions
    source: Any = None  # read by `reader` and `adder`, which know its type


class Prepared:
    """What a control variate knows of one model, by passes over its data, made once.

    All kernels and chains share it. What is compiled stays behind where it is pickled.
    """

    outliers: np.ndarray = np.zeros(0, dtype=np.int64)  # rows that every decision reads
    proved: bool = False  # is `reach` a bound on every row, whatever the parameters
    known: bool = False  # is there a `reach` at all
    thins: bool = False  # are rows drawn by the bounds of their residuals where nothing is said
    absolute: bool = False  # are residuals bounded at each arm, not only their differences
    slight: bool = False  # do residuals vary as log likelihoods do, where draws are
    wanted: str = "a bound of its residuals"  # what a proof would need, for a message
    found: str = ""  # what the model was found to allow, where draws depend on it
    # Of the likelihood: for a residual, beside its own; for an arm, before any datum is read.
    evaluations: tuple[int, int] = (0, 0)
    # Attributes made anew elsewhere.
    compiled: ClassVar[tuple[str, ...]] = ("functions", "source", "row_weights")

    def __getstate__(self):
        return {name: v for name, v in self.__dict__.items() if name not in self.compiled}

    @property
    def functions(self) -> ControlFunctions:
        """Compile."""
        raise TypeError(f"{type(self).__name__} must define functions.")

    @property
    def row_weights(self) -> Any:
        """RowWeights: bounds of each row's residual, for sm.Thinned."""
        raise ValueError(
            "sm.Thinned() needs a bound of each residual of the control variate, and this one "
            f"knows none: that would need {self.wanted}. sm.Exact() is exact without; "
            "sm.Racing() reads few rows at a risk."
        )

    def study(self, control: Any) -> None:
        """Learn what races alone ask for; called before each of them is made."""

    def bind(self, arms: int) -> Bound:
        """Arrays of one chain; those of `functions_of_state` are its attribute `arrays`."""
        if not hasattr(self, "arrays"):
            raise TypeError(f"{type(self).__name__} must have an attribute `arrays`, a record.")
        return Bound((), OwnArrays(self.arrays))


class Control:
    """A control variate: a frozen dataclass; see approx/taylor/taylor.py for one."""

    anchor: ClassVar[bool] = False  # is it made from a point that a gradient may be relative to

    def text(self, model=None) -> str:
        """What describe() and reports call it."""
        return f"{self!r:.80}"

    def check(self, model, block: str) -> None:
        """Refuse a model, or a block of it, that this control variate does not know."""

    def prepare(self, model) -> Prepared:
        """Pass over the data."""
        raise TypeError(f"{type(self).__name__} must define prepare().")

    def always_read(self, model) -> np.ndarray:
        """Rows that every decision reads which the sums alone do not settle."""
        return prepared_for(model, self).outliers

    def by_column(self, model) -> bool:
        """Is more known of moves of one coefficient at a time, by columns(model)."""
        return False

    def columns(self, model, near: np.ndarray | None = None) -> Any:
        """ColumnSums: what is known of such moves; see approx/columns/columns.py.

        near: continuous values near which chains will be, nan where nothing better is known.
        """
        raise ValueError(f"{self!r} knows nothing of single coefficients.")

    def gradient(self) -> Any:
        """Compiled (own, trial, start, out): derivatives of the sum of h by the floats from start.

        At the values that stand in the state.
        """
        raise ValueError(f'{self!r} has no gradient: use gradient="minibatch".')


def prepared_for(model, control: Control, selector: Selector | None = None) -> Prepared:
    """What a control variate knows of a model; on first use it passes over the data.

    The model keeps it for as long as model and control variate live.

    selector: of decisions that are to be made with it.
    """
    if control not in model.prepared:
        if model.noticed is None:
            model.notice_changes()  # later changes are of these data
        ours = type(control).__module__.partition(".")[0] == PACKAGE
        with blaming(model) if ours else nullcontext():
            found = control.prepare(model)
        users = type(found).__module__.partition(".")[0] != PACKAGE
        if users and model.elsewhere is None and found.functions.sum is sum_of_state:
            compare_sums(control, model, found)
        model.prepared[control] = found
    found = model.prepared[control]
    if selector is not None and selector.takes_control and not selector.thins:
        found.study(control)
    return found


def compare_sums(control: Control, model, prepared: Prepared) -> None:
    """Refuse a user's control variate whose sum is not that of what its residuals leave out.

    From one state to another the sum of h and the residuals of all rows change by as much as the
    log likelihoods do: else chains would have another posterior, and nothing would tell. What the
    sum lacks at all states does no harm.
    """
    where = [(model.ints, model.floats)]
    if len(model.floats):
        where.append((model.ints, model.floats + NEARBY * np.maximum(np.abs(model.floats), 1.0)))
    other = model.ints.copy()
    for variable in model.variables.values():
        if variable.block.discrete:
            at, end = variable.block.start, variable.block.start + variable.block.length
            other[at:end] = (other[at:end] + 1) % variable.support
    if not np.array_equal(other, model.ints):
        where.append((other, model.floats))
    found = [sums_of_both(model, prepared, ints, floats) for ints, floats in where]
    for known, whole, size in found[1:]:
        together, alone = known - found[0][0], whole - found[0][1]
        if abs(together - alone) > ROUNDING * (size + found[0][2]):
            raise ValueError(
                f"{control!r:.80} is not what it says: from the model's initial state to one "
                f"nearby, its sum and the residuals of all rows change by {together:.8g} together, "
                f"and log_likelihood by {alone:.8g}. The sum is that of h over all rows but "
                "outliers, and a residual the log likelihood less the same h."
            )


def sums_of_both(model, prepared: Prepared, ints, floats) -> tuple[float, float, float]:
    """Over the rows that are raced: (sum of h and residuals, sum of l, sum of |l|) at a state."""
    functions, points = prepared.functions, floats[None].copy()
    controls = controls_of(model, functions, prepared.bind(1), 1, prepared.outliers)
    trial = probe(model, ints.copy(), floats.copy(), points, controls)
    plain = probe(model, ints.copy(), floats.copy(), points)
    read = sum_and_residuals(functions)
    rows = np.setdiff1d(np.arange(model.size), prepared.outliers).astype(row_kind(model.size))
    left, own, total = np.zeros(CHUNK), np.zeros(CHUNK), np.zeros(3)
    with np.errstate(all="ignore"):
        total[0] = read(trial, 0, rows[:0], left[:0])
        for start in range(0, len(rows), CHUNK):
            some = rows[start : start + CHUNK]
            read(trial, 0, some, left[: len(some)])
            rewards_of(plain, 0, some, own[: len(some)])
            values = own[: len(some)]
            total += left[: len(some)].sum(), values.sum(), np.abs(values).sum()
    return float(total[0]), float(total[1]), float(total[2])


def grain_of_residuals(model, control: Control | None) -> float:
    """How coarse log likelihoods are, where nothing else tells how residuals vary; 0: it does.

    Where residuals are nothing but rounding in most rows, that looks like variance, as they are so
    small: a race would take what few rows say for noise. The least of some states, as far out log
    likelihoods are larger than where chains will be; not a chain's own, which another part of the
    same run would not have.
    """
    prepared = None if control is None else prepared_for(model, control)
    if prepared is None or prepared.functions.spread is not None:
        return 0.0
    if type(prepared).__module__.partition(".")[0] == PACKAGE:
        return 0.0
    near = model.near  # of rows that are elsewhere, some
    points = [near.floats]
    if all(v.support or v.constraint.kind == REAL for v in near.variables.values()):
        rng, size = np.random.default_rng(0), np.maximum(np.abs(near.floats), 1.0)
        beside = near.floats + NEARBY * rng.uniform(-1.0, 1.0, len(size)) * size
        points += [beside, np.zeros(len(size))]
    found = [grain_at(near, near.ints, floats) for floats in points]
    return min((grain for grain in found if grain > 0.0), default=0.0)


def grain_at(model, ints: np.ndarray, floats: np.ndarray) -> float:
    """How large log likelihoods are at a state, times how coarse such numbers are; 0: not known."""
    rows = np.random.default_rng(0).choice(model.size, min(SEEN, model.size), replace=False)
    rows, values = np.sort(rows).astype(row_kind(model.size)), np.zeros(len(rows))
    trial = probe(model, ints.copy(), floats.copy(), floats[None].copy())
    with np.errstate(all="ignore"):
        for first in range(0, len(rows), CHUNK):
            part = slice(first, first + CHUNK)
            rewards_of(trial, 0, rows[part], values[part])
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0
    short = any(np.asarray(column).dtype == np.float32 for column in model.data)
    coarse = short and np.all(values.astype(np.float32) == values)
    return float(np.sqrt(np.mean(values**2))) * (SINGLE if coarse else 1.0)


@memoised
def sum_and_residuals(functions: ControlFunctions) -> Any:
    """read(trial, arm, rows, out) -> the sum of h, callable from Python."""
    of_all, residuals = functions.sum, functions.residuals

    @jit
    def read(trial, arm, rows, out):
        place(trial, arm)
        total = of_all(trial, arm)
        residuals(trial, arm, rows, out)
        return total

    return read


def make_controls(control: Control | None, model, selector: Selector, arms: int) -> Any:
    """The arrays of one chain; nothing without a control variate."""
    if control is None:
        return ()
    prepared, delta = prepared_for(model, control, selector), getattr(selector, "delta", 0.0)
    likely = (2 if delta >= BOLD else 1) if selector.guarantee == "asymptotic" else 0
    certain = int(prepared.known and prepared.proved)
    return controls_of(
        model, prepared.functions, prepared.bind(arms), arms, prepared.outliers, certain,
        int(prepared.known) * likely,
    )  # fmt: skip


def controls_of(
    model, functions: ControlFunctions, bound: Bound, arms: int, outliers, certain=0, likely=0
) -> Controls:
    """The arrays of one chain, and the addresses of what knows the model."""
    outliers = np.asarray(outliers).astype(row_kind(model.size))
    source: Any = 0 if bound.source is None else RecordAddress(bound.source)
    reader: Any = 0
    adder: Any = 0
    if functions.reader is not None or functions.adder is not None:
        context, rows = RecordAddress(example_context(model)), array(row_kind(model.size))
    if functions.reader is not None:
        read = functions.reader if model.elsewhere is None else reader_of_resident(functions.reader)
        reader = FunctionAddress(read, context, source, NUMBER, rows, FLOATS)
    if functions.adder is not None:
        adder = FunctionAddress(functions.adder, context, source, NUMBER)
    return Controls(
        model.size, np.zeros(arms), np.zeros(arms), outliers, np.zeros(CHUNK), certain, likely,
        np.zeros(1, dtype=np.int64), bound.arrays, source, reader, adder,
    )  # fmt: skip


def check_control(control: Control | None, model, block: str, selector, arms: int) -> None:
    """Refuse a control variate that the model or the selector cannot go with."""
    if control is not None:
        control.check(model, block)
        with_range(selector, control, model, arms)
    elif selector.thins:
        raise ValueError(
            f"block {block!r}: {selector!r} decides on what a control variate leaves over: give "
            "the kernel control=sm.Taylor(fit), on sm.Predictors with derivatives and remainder."
        )


def with_range(selector: Selector, control: Control | None, model, arms: int) -> Selector:
    """The selector, with a range that the control variate fills in at every decision."""
    if control is None:
        return selector
    if not selector.takes_control:
        raise ValueError(f"{selector!r} does not take a control variate: use sm.Racing().")
    if selector.thins:
        thinned: Any = selector
        return thinned.with_weights(prepared_for(model, control).row_weights)
    rule = selector.dropping_rule
    if rule is None or not rule.declares_range:
        return selector
    if not rule.range_of_pairs:
        raise ValueError(
            f"{type(rule).__name__} needs a range of each arm's rewards, and {control!r} knows "
            "one of differences: use sm.Betting(), which asks for it, or sm.Normal()."
        )
    if not rule.asks_range:
        return selector  # of residuals, as the user says
    prepared = prepared_for(model, control)
    if not prepared.proved:
        name = type(rule).__name__
        raise ValueError(
            f"{name}() asks the control variate for the range of its residuals, and {control!r} "
            f"knows none: that would need {prepared.wanted}. Or use sm.Normal(), or declare "
            f"{name}(bounds=(low, high)) for differences of residuals yourself."
        )
    asking: Any = selector
    return replace(asking, rule=rule.with_asked_range(arms))
