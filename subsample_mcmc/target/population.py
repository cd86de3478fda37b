"""What is raced: N rewards for each arm, given as a function of one datum and never stored."""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.errors import warn
from subsample_mcmc.numerics.digest import Namespace
from subsample_mcmc.numerics.jit import DISABLED, FLAGS, jit
from subsample_mcmc.numerics.records import as_record, record
from subsample_mcmc.target.data import (
    MISSING,
    absent_objects,
    as_array,
    by_name,
    coarse,
    is_frame,
    not_masked,
    refuse_elsewhere,
    refuse_nan,
)
from subsample_mcmc.target.row_labels import refuse_other_order
from subsample_mcmc.target.user_functions import (
    must_not_capture,
    must_read_datum,
    try_once,
    warn_of_slow_math,
)


class Shape(NamedTuple):
    """What a rule or selector must know about a population before any reward is read.

    sizes: rows per arm.
    shared: do all arms share one set of rows.
    barred: rows beside these that no race draws: a control variate reads them all.
    residual_rewards: of a control variate: ten times a streamed factor's cost.
    """

    sizes: tuple[int, ...]
    shared: bool
    barred: Any = ()
    residual_rewards: bool = False

    @property
    def arms(self) -> int:
        return len(self.sizes)


LARGEST = 2**48  # rows: beyond, 64 bits draw some a hundred-thousandth more often than others
BIG = 1 << 22  # bytes beyond which an array does not stay in the cache


class Population:
    """N log factors for each of D arms: p(arm) is proportional to prior * exp(sum_n log_factor).

    log_factor(data, arm, n) -> float: plain Python, compiled; first called once uncompiled, so that
        a mistake shows an ordinary traceback. -inf is a legal value. n is an unsigned integer (that
        is what lets the loop vectorise): index with it, and write float(n) before negating it or
        subtracting from it. Numbers that change go into data.
    data: tuple, NamedTuple or dict of arrays (memory-mapped ones included), or a data frame. They
        are not copied: what you change in place, the next decision sees. Look-ups beyond an array
        are refused, as data were at the first decision.
    arms: how many.
    size: rows; default the length of the first array.
    log_prior: what does not depend on data, one number per arm; default zeros.
    missing: "refuse" NaN, nulls, masked and infinite values in data; "allow" them, unseen, where
        log_factor tells them apart itself; "infinite": only infinite ones may be.

    Example:
        >>> def log_factor(data, arm, n):
        ...     return -abs(data.y[n] - data.location[arm])
        >>> y = np.random.default_rng(0).normal(1.0, 1.0, 50_000)
        >>> population = sm.Population(log_factor, {"y": y, "location": np.arange(3.0)}, arms=3)
        >>> population
        Population(log_factor, arms=3, size=50000)
        >>> sm.draw(population, size=5, seed=1).arms.tolist()
        [1, 1, 1, 1, 1]
    """

    def __init__(self, log_factor, data, arms, size=None, log_prior=None, missing="refuse"):
        self.data = prepared(data, missing)
        self.arms = whole(arms, "arms", "the number of arms, at least 1")
        if size is None:
            if not len(self.data) or np.ndim(self.data[0]) == 0:
                raise ValueError("size was not given and data has no first array: pass size=N.")
            size = len(self.data[0])
            if np.ndim(self.data[0]) == 2 and len(self.data[0]) == self.arms:
                raise ValueError(
                    f"size was not given and the first array has shape {self.data[0].shape}, one "
                    "row per arm: pass size=N, the number of data."
                )
        self.size = whole(size, "size", "the number of rows (N), at least 1")
        if self.size > LARGEST:
            raise ValueError(f"size={self.size}: at most {LARGEST:,} rows are supported.")
        self.log_prior = prior_of(log_prior, self.arms)
        self.shape = Shape((self.size,) * self.arms, shared=True)
        self.log_factor = log_factor
        # The last datum as well: compiled code does not notice an array that is too short.
        for arm, n in {(0, 0), (self.arms - 1, self.size - 1)}:
            try_once(
                log_factor, "log_factor", {"data": self.data, "arm": arm, "n": n},
                "every array that is read at n must have as many rows as the population (size, by "
                "default the length of the first array).",
            )  # fmt: skip
        if self.size > 1:
            must_read_datum(log_factor, "log_factor", ("data", "arm", "n"), self.data)
        must_not_capture(
            log_factor, "log_factor", ("data", "arm", "n"), self.data, self.size, self.arms
        )
        warn_of_slow_math(log_factor)
        self.looked_up: set = set()  # functions of it whose look-ups were found to be right
        self.reward = jit(log_factor, flags=FLAGS, user=True, inner="always")
        self.context = self.data
        self.large = tuple(
            (field, array.ndim == 2)
            for field, array in enumerate(self.data)
            if np.ndim(array) in (1, 2) and len(array) == self.size and array.nbytes > BIG
        )
        self.engines: dict[Any, Any] = {}
        self.calls: Any = None  # its functions, compiled when they are first called
        self.names = Namespace(log_factor)

    def notice_changes(self) -> None:
        """Refuse a function that reads names of other values: compiled code keeps the old ones."""
        if not DISABLED and self.names.has_changed():
            raise ValueError(
                "log_factor reads names whose values have changed since the population was made: "
                "its compiled code has the old ones. Make the population anew, sm.Population(...), "
                "or give what changes as data."
            )

    def __repr__(self) -> str:
        name = getattr(self.log_factor, "__name__", "log_factor")
        return f"Population({name}, arms={self.arms}, size={self.size})"


class Table:
    """Rewards that stand in arrays: one row of a matrix, or one array, per arm."""

    def __init__(self, rewards):
        refuse_elsewhere(rewards, "rewards")
        if is_frame(rewards):
            raise TypeError(
                f"rewards is a {type(rewards).__name__}: give an array with one row for each arm, "
                "df.to_numpy() if its rows are arms, df.to_numpy().T if its columns are."
            )
        if isinstance(rewards, np.ndarray) and rewards.ndim == 2:
            rewards = as_array(rewards, "rewards")  # refuses what is masked
            self.context: tuple = (read_only(numeric(rewards, "rewards")),)
            sizes, self.reward, shared = (rewards.shape[1],) * rewards.shape[0], cell, True
        else:
            names = [f"rewards[{i}]" for i in range(len(rewards))]
            rows = [
                numeric(np.asarray(as_array(row, name)), name)
                for row, name in zip(rewards, names, strict=True)
            ]
            wrong = [i for i, row in enumerate(rows) if row.ndim != 1]
            if wrong or not rows:
                given = f"rewards[{wrong[0]}].shape={rows[wrong[0]].shape}" if wrong else "no arm"
                raise ValueError(
                    f"{given}: rewards must be an (arms, N) array, a list of 1-D arrays, one per "
                    "arm, or an sm.Population."
                )
            sizes = tuple(len(row) for row in rows)
            starts = np.concatenate(([0], np.cumsum(sizes)))
            flat = np.concatenate(rows).astype(float)
            self.context = (read_only(flat), read_only(starts))
            # Rows of one list entry have nothing to do with those of another.
            self.reward, shared = entry, False
        if len(sizes) == 0 or max(sizes) == 0:
            raise ValueError(
                f"rewards has {len(sizes)} arms of {max(sizes, default=0)} rewards: there must be "
                "at least one arm and one reward."
            )
        self.arms = len(sizes)
        self.shape = Shape(sizes, shared)
        self.large: tuple = ()
        self.engines: dict[Any, Any] = {}
        self.calls: Any = None  # its functions, compiled when they are first called


@jit(flags=FLAGS, inner=True)
def cell(context, arm, n):
    return context[0][np.uint64(arm), n]


@jit(flags=FLAGS, inner=True)
def entry(context, arm, n):
    return context[0][np.uint64(context[1][arm]) + np.uint64(n)]


# ----------------------------------------------------------------------------------- checking
def whole(value, name, meaning) -> int:
    """`value` as a positive int, or an error."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = 0
    if np.ndim(value) or number != value or number < 1:
        raise ValueError(f"{name}={value!r}: give {meaning}.")
    return number


def numeric(array: np.ndarray, name: str) -> np.ndarray:
    """`array` if it holds real numbers, or an error that names it."""
    if array.dtype.kind not in "biuf" or array.dtype.itemsize not in (1, 2, 4, 8):
        advice = ": give real numbers, such as float64."
        if array.dtype.kind in "OUST" and array.size:
            advice += f" It holds {array.flat[0]!r}, say: .astype(float) if all are numbers, else "
            advice += "codes, np.unique(x, return_inverse=True)[1]."
        if told := absent_objects(array):
            advice += f" It has {told}: drop these rows in all arrays before, or fill them in."
        raise TypeError(f"{name} has dtype {array.dtype}{advice}")
    if array.dtype == np.float16 or not array.dtype.isnative:
        raise TypeError(f"{name} has dtype {array.dtype}: use .astype(float).")
    return array


def with_sign(array: np.ndarray) -> np.ndarray:
    """Where nothing is compiled, whole numbers without a sign as such with one.

    Compiled functions look them up so: see `signed` in numerics/compilers.py.
    """
    if not DISABLED or array.dtype.kind != "u" or (array.size and array.max() >= 2**63):
        return array
    return array.astype(np.int64)


def read_only(array: np.ndarray) -> np.ndarray:
    """A view no compiled function can write to."""
    view = array.view(np.ndarray)[...]
    view.flags.writeable = False
    return view


def prepared(data, missing: str = "refuse") -> tuple:
    """Data as a tuple or record of read-only arrays and numbers; missing values are refused."""
    if missing not in MISSING:
        raise ValueError(
            f"missing={missing!r}: give 'refuse', or 'allow' where your function tells missing "
            "values apart itself; or 'infinite', where infinite ones may be."
        )
    data = by_name(data)
    if isinstance(data, np.ndarray) or hasattr(data, "to_numpy"):
        raise TypeError(
            f"data is one {type(data).__name__}: give a dict of arrays, such as {{'y': y}}, a data "
            "frame, or a tuple of arrays, (y,)."
        )
    fields = as_record(data)
    names = getattr(fields, "_fields", [f"data[{i}]" for i in range(len(fields))])
    refuse_other_order(dict(zip(names, fields, strict=True)))
    values: list = []
    for name, value in zip(names, fields, strict=True):
        if isinstance(value, bool | int | float | np.number):
            if isinstance(value, np.timedelta64 | np.complexfloating):
                raise TypeError(f"data {name} is {value!r}: give a number, without a unit, or two.")
            values.append(value)
            continue
        array = numeric(as_array(value, name, missing), f"data {name}")
        if missing != "allow":
            refuse_nan(array, name, value, missing == "infinite")
        if told := coarse(array):
            warn(f"data {name} {told}")
        values.append(read_only(with_sign(array)))
    return type(fields)(*values) if hasattr(fields, "_fields") else tuple(values)


def prior_of(log_prior, arms: int) -> np.ndarray:
    """log_prior as an array of one finite number or -inf per arm."""
    if log_prior is None:
        return np.zeros(arms)
    prior = np.asarray(not_masked(log_prior, "log_prior"), dtype=float)
    if prior.shape != (arms,):
        raise ValueError(
            f"log_prior has shape {prior.shape}: give one number for each of {arms} arms."
        )
    return offsets_of(prior, "log_prior")


def offsets_of(offsets: np.ndarray, name: str) -> np.ndarray:
    """Refuse nan and +inf; -inf excludes its arm."""
    wrong = np.flatnonzero(~(offsets < np.inf))
    if wrong.size:
        raise ValueError(
            f"{name}[{wrong[0]}] is {offsets[wrong[0]]}: give a number, or -inf to exclude the arm."
        )
    if np.all(offsets == -np.inf):
        raise ValueError(f"{name} is -inf for all {offsets.size} arms: none is left to choose.")
    return offsets


def first_length(data) -> int:
    """N of a model without likelihood: the length of its first array."""
    first: Any = data[0] if len(data) else 0
    if np.ndim(first) == 0 or len(first) == 0:
        raise ValueError(
            f"log_likelihood=None, and the first of the data {data._fields} is no array: it must "
            "have one entry for each of the N things that the model is about."
        )
    return len(first)


def tables_of(tables: Any, data: tuple, missing: str) -> dict[str, np.ndarray]:
    """Arrays of any length that stand beside the data, checked as these are."""
    if tables is None:
        return {}
    if not isinstance(tables, dict):
        raise TypeError(
            f"tables={tables!r:.60}: give a dict of arrays, such as {{'price': price}}, which "
            "log_likelihood reads as data.price[i]."
        )
    for name, value in tables.items():
        if name in getattr(data, "_fields", ()):
            raise ValueError(f"tables: {name!r} is among the data, too: give it another name.")
        if np.ndim(value) == 0:
            raise TypeError(f"tables: {name} is {value!r:.60}: numbers are data, data.{name}.")
    kept = prepared(tables, missing) if tables else ()
    found = dict(zip(tables, kept, strict=True))
    for name, array in found.items():
        if array.size == 0:
            raise ValueError(f"tables: {name} has shape {array.shape}: it has no element.")
    return found


def joined(data: Any, tables: dict[str, np.ndarray]) -> Any:
    """Data and tables as one record."""
    return record(*data._fields, *tables)(*data, *tables.values()) if tables else data


def common_length(data) -> int:
    """N, the length that all data arrays share."""
    lengths = {n: len(v) for n, v in zip(data._fields, data, strict=True) if np.ndim(v)}
    if not lengths or min(lengths.values()) == 0:
        raise ValueError(f"data has {lengths or 'no array'}: give arrays with at least one datum.")
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"data arrays have lengths {lengths}: they must share their first axis, one entry per "
            "datum. An array of another length, in which data are looked up, is a table: "
            "sm.Model(..., tables={'price': price}), read as data.price[data.shop[n]]."
        )
    size = next(iter(lengths.values()))
    if size > LARGEST:
        raise ValueError(f"data has {size} rows: at most {LARGEST:,} are supported.")
    return size
