"""Data that a posterior predicts: one data set for each draw, or numbers that tell it.

Data sets are made one after the other, in threads, each from a random stream of its own: they do
not depend on how many threads there are. With statistics, only one data set a thread is in memory.
"""

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from subsample_mcmc.calls import helpful
from subsample_mcmc.errors import CompileError, RewardError, compile_message, warn
from subsample_mcmc.numerics.compared import in_numbers, in_python, refuse_apart, value_of
from subsample_mcmc.numerics.jit import DISABLED, FLAGS, NUMBA_ERRORS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.numerics.progress import Bar, quietly
from subsample_mcmc.numerics.random import Chances, root_of
from subsample_mcmc.numerics.records import record, similar
from subsample_mcmc.runs.store.netcdf import tempered, tilted, unadjusted
from subsample_mcmc.runs.trace import Trace
from subsample_mcmc.runs.views.log_likelihoods import check, kept_draws
from subsample_mcmc.runs.views.predictions import Predictions
from subsample_mcmc.target.data import (
    as_fields,
    by_name,
    datum_of,
    in_order,
    is_frame,
    names_of_columns,
    not_masked,
)
from subsample_mcmc.target.elsewhere.resident import MARK, refuse_rows_elsewhere
from subsample_mcmc.target.exact_sums import MASK
from subsample_mcmc.target.lookups.checked import blamed, told
from subsample_mcmc.target.lookups.guards import guarded_data, guarded_function, guarded_state
from subsample_mcmc.target.model import Model, must_be_model
from subsample_mcmc.target.population import common_length, prepared, read_only, whole
from subsample_mcmc.target.row_labels import (
    refuse_other_order,
    refuse_other_rows,
    row_labels_of,
    with_categories,
)
from subsample_mcmc.target.user_functions import called_with, number

LIMIT = 2_000_000_000  # bytes of predicted data that are kept at most
PARTS = 20  # of the work of one thread
COMPARED = 6  # data in a row at which simulate is called in Python, too
STREAM = 2**32 - 2  # of a seed's streams, where predictions are: no chain of the same seed has it
ROLE = "simulate"
ARGUMENTS = ("rng", "state", "data", "n")


@helpful
def predict(
    model: Model, trace: Trace, simulate: Callable | None = None, data: Any = None,
    draws: int | None = None, statistics: Any = None, observed: Any = None, name: str = "y",
    seed=None, cores: int | None = None, progress: bool | None = None,
) -> Predictions:  # fmt: skip
    """Data that the posterior predicts: of each draw of a trace, one data set.

    model: that the trace is of.
    trace: draws of its blocks.
    simulate(rng, state, data, n) -> float: ONE datum drawn from the model, plain Python, compiled;
        rng is a numpy Generator. Default: the model's own, which those of sm.models.glm and
        sm.models.arch have.
    data: of others than were observed, as sm.Model takes them: what simulate reads, one length for
        all; numbers are as in the model. Categories and columns are taken by their names.
    draws: of each chain, evenly spaced; default all.
    statistics: {"largest": np.max, "zeros": lambda y: (y == 0).mean()}: only what these say of
        each data set is kept, numbers or small arrays, and memory stays small whatever N.
    observed: what was observed, to compare with; default the column `name` of the data, if there,
        and if no time of it is censored.
    name: of what is predicted, in tables and figures.
    seed: as in sm.sample.
    cores: threads; they change nothing.
    progress: as in sm.laplace.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(2_000, 2)), rng.poisson(3.0, 2_000)
        >>> model = sm.models.glm.poisson(np.column_stack([np.ones(2_000), x]), y)
        >>> trace = sm.sample(model, draws=100, seed=1, progress=False)
        >>> said = sm.predict(model, trace, statistics={"zeros": lambda y: (y == 0).mean()}, seed=2)
        >>> bool(0.01 < said.summary().loc["zeros", "P(>= observed)"] < 0.99)
        True
    """
    must_be_model(model, "sm.predict(model, trace)")
    if not isinstance(trace, Trace):
        raise TypeError(f"trace={trace!r:.60}: give the Trace that sm.sample(model) returned.")
    check(trace, model, "model")
    simulate = model.simulate if simulate is None else simulate
    if simulate is None:
        raise TypeError(
            "the model does not say how a datum is drawn: give simulate(rng, state, data, n) -> "
            "float, which draws datum n, as sm.predict(model, trace, simulate)."
        )
    if led := tilted(trace.meta) + tempered(trace.meta):
        warn(f"{', '.join(led)}: these draws are not from the posterior, nor are predictions.")
    elif led := unadjusted(trace.meta):
        told = ", ".join(led)
        warn(f"{told}: unadjusted draws have a bias, which depends on the step: so do these.")
    if data is None:
        refuse_rows_elsewhere(model, "sm.predict without data=")
    given, size = (model.data, model.size) if data is None else new_data(model, data)
    column = np.asarray(getattr(given, name, 0))
    if observed is None and column.shape == (size,):
        ends = getattr(given, getattr(simulate, "ends", ""), column)
        if np.array_equal(ends, column):  # else some are bounds of what was, not it itself
            observed = column
    if observed is not None:
        refuse_other_rows(
            "observed", observed, model.row_labels if data is None else labels_of_new(data, size)
        )
        observed = read_only(np.asarray(not_masked(observed, "observed")))
        if observed.shape != (size,):
            raise ValueError(f"observed has shape {observed.shape}: {size} data are predicted.")
    kept = kept_draws(trace, draws)
    asked = statistics_of(statistics)
    cores = whole(os.cpu_count() or 1 if cores is None else cores, "cores", "how many, at least 1")
    maker = Maker(model, simulate, given, size, root_of(seed))
    with quietly(progress):
        values = maker.all_of(trace, kept, asked, cores)
    return Predictions(trace, kept, values, name, observed, asked, data is not None)


def labels_of_new(data: Any, size: int) -> Any:
    """What the rows of other data are called, if pandas or xarray know."""
    columns = {"data": data} if is_frame(data) else by_name(data)
    return row_labels_of(as_fields(columns), size)


def new_data(model: Model, data: Any) -> tuple[Any, int]:
    """Other data for a model's functions, and their number: what has a name is put by its name."""
    known = tuple(name for name in model.data._fields if not name.startswith(MARK))
    if not is_frame(data):  # which may have columns that are not asked for, of any name
        data = by_name(data)
    if is_frame(data) and model.design is not None:
        fields = model.design(data)
    elif is_frame(data):  # which may have other columns, too
        fields = {name: data[name] for name in data.columns if name in known}
    elif isinstance(data, Mapping) or hasattr(data, "_asdict"):
        fields = dict(as_fields(data))
    else:
        raise TypeError(
            f"data={data!r:.60}: give a dict of arrays, or a data frame, as to sm.Model."
        )
    if unknown := [name for name in fields if name not in known]:
        raise ValueError(
            f"data {unknown[0]!r} is none of the model's, {', '.join(known)}."
            f"{similar(str(unknown[0]), known)}"
        )
    refuse_other_order(with_categories(fields, model.categories))
    for name, value in fields.items():
        if names_of_columns(value) is not None:
            if name in model.columns:
                fields[name] = in_order(name, value, model.columns[name])
            continue
        kind = getattr(getattr(value, "dtype", None) or np.asarray(value).dtype, "kind", "O")
        if name in model.categories:  # codes stay codes, unless numbers are categories themselves
            categories = model.categories[name]
            if kind not in "iu" or categories.dtype.kind in "iuf":
                fields[name] = as_before(name, value, categories)
            else:
                refuse_unclear(name, np.asarray(value), categories)
    if not fields:
        raise ValueError(
            f"data: none of the columns {', '.join(map(str, list(data)[:6]))} is among the model's "
            f"data, {', '.join(known)}. Give data={{'x': frame}} where x is a matrix."
        )
    made: Any = prepared(fields, model.missing)  # missing values as the model has them
    by_row = {n: v for n, v in made._asdict().items() if n not in model.tables and np.ndim(v)}
    if not by_row:
        needed = (n for n in known if n not in model.tables and np.ndim(getattr(model.data, n)))
        raise ValueError(
            f"data has {', '.join(made._fields)}, and nothing that is given by row: give at least "
            f"one of {', '.join(needed)}, which says how many rows are predicted."
        )
    size = common_length(record(*by_row)(*by_row.values()))
    filled, columns = {}, made._asdict()  # tuples themselves have a method `count`
    for name, before in zip(model.data._fields, model.data, strict=True):
        if name in columns:
            filled[name] = columns[name]
            if np.ndim(filled[name]) != np.ndim(before):
                raise ValueError(
                    f"data {name} has {np.ndim(filled[name])} axes, and {np.ndim(before)} in the "
                    "model."
                )
            if np.shape(filled[name])[1:] != np.shape(before)[1:]:
                raise ValueError(
                    f"data {name} has shape {np.shape(filled[name])[1:]} a row, and "
                    f"{np.shape(before)[1:]} in the model: give the same columns, in their order; "
                    "a data frame in the place of a matrix tells them by name."
                )
        elif np.ndim(before) == 0 or name in model.tables:
            filled[name] = before
        else:  # a column that simulate may not read, as what it predicts
            filled[name] = absent_column(before)
    return type(model.data)(**filled), size


def as_before(name: str, value: Any, categories: np.ndarray) -> np.ndarray:
    """Codes of categories in the order in which the model knows them."""
    labels, known = comparable(value, categories)
    codes = {label: code for code, label in enumerate(known)}
    found = np.array([codes.get(label, -1) for label in labels], dtype=np.int64)
    if (found < 0).any():
        n = int(np.argmax(found < 0))
        raise ValueError(
            f"data {name} is {np.asarray(value, dtype=object)[n]!r} in row {n}, which the model "
            f"does not know: it has {', '.join(map(str, categories[:6]))}"
            f"{', ...' if len(categories) > 6 else ''}."
        )
    return found


def comparable(value: Any, categories: np.ndarray) -> tuple[list, list]:
    """Labels and categories as what is equal where they are: dates in one unit."""
    kind = categories.dtype.kind
    if kind in "mM":  # of which numpy makes whole numbers if they are in nanoseconds
        with suppress(TypeError, ValueError, OverflowError):
            given = np.asarray(value)
            given = given.astype(f"{kind}8[ns]") if given.dtype.kind == "O" else given
            unit = np.result_type(given, categories)
            if unit.kind == kind:
                numbers = (dates.astype(unit).astype(np.int64) for dates in (given, categories))
                labels, known = (each.tolist() for each in numbers)
                return labels, known
    return np.asarray(value, dtype=object).tolist(), categories.tolist()


def absent_column(before: np.ndarray) -> np.ndarray:
    """A column without rows, of the same kind: whoever reads it is told."""
    shape = (0, *before.shape[1:]) if before.ndim > 1 else 0
    return read_only(np.zeros(shape, dtype=before.dtype))


def refuse_unclear(name: str, values: np.ndarray, known: np.ndarray) -> None:
    """Refuse whole numbers that may be codes, or the text of categories such as "1"."""
    both = np.isin(np.unique(values).astype(str), known.astype(str))
    if both.any():
        first = np.unique(values)[both][0]
        raise ValueError(
            f"data {name} has the number {first}: is it a code, the category "
            f"{str(known[first]) if 0 <= first < len(known) else 'of none'!r}, or the category "
            f"{str(first)!r}? Give text, or pandas.Categorical."
        )


def statistics_of(given: Any) -> dict[str, Callable]:
    """Functions of a data set, by name."""
    if given is None:
        return {}
    if callable(given):
        given = {getattr(given, "__name__", "statistic"): given}
    if not isinstance(given, Mapping) or not given or not all(map(callable, given.values())):
        raise TypeError(
            f"statistics={given!r:.60}: give functions of a data set by name, such as "
            '{"mean": np.mean}.'
        )
    return dict(given)


@memoised
def maker_of(simulate: Any) -> Any:
    """fill(...): data of one draw, from a number on, every look-up checked."""

    @jit(user=True, checked=True)
    def fill(chances, state, data, at, first, out):
        for i in range(len(out)):
            n = first + i
            at[0] = n
            out[i] = simulate(chances.rng, state, data, np.int64(n) & MASK)

    return fill


class Maker:
    """Makes data sets of draws."""

    def __init__(self, model: Model, simulate: Any, data: Any, size: int, root: Any):
        self.model, self.data, self.size, self.root = model, data, size, root
        self.simulate = getattr(simulate, "py_func", simulate)
        self.local = threading.local()
        state = model.state(model.ints, model.floats)
        rng = np.random.default_rng(0)
        values = dict(zip(ARGUMENTS, (rng, state, data, 0), strict=True))
        shown = guarded_state(state), guarded_data(data, size)
        if error := blamed(ROLE, guarded_function(simulate), (rng, *shown, 0), self.where(0, "")):
            raise self.lacking(error)
        number(called_with(simulate, ROLE, values), f"{ROLE}(rng, state, data, n=0)")
        checked = simulate
        if not DISABLED:
            checked = jit(simulate, flags=FLAGS, user=True, inner="always", checked=True)
        self.fill = maker_of(checked)

    def lacking(self, error: Exception) -> Exception:
        """The same, or, where it is of a column that new data lack, what they lack."""
        columns = zip(self.data._fields, self.data, self.model.data, strict=True)
        for name, given, known in columns:
            if np.shape(given)[:1] == (0,) and len(known) and f'"{name}"' in str(error):
                return ValueError(
                    f"data has no column {name!r}, which {ROLE} reads: give data={{{name!r}: ...}} "
                    "as well, one entry for each row to predict."
                )
        return error

    def where(self, n: int, draw: str) -> str:
        """A datum in words."""
        whole_columns = type(self.data)(
            *(c if np.shape(c)[:1] == (self.size,) else 0 for c in self.data)
        )
        return f" at datum {n}{datum_of(whole_columns, n, self.size)}{draw}"

    def one(self, drawn, chain: int, draw: int) -> np.ndarray:
        """The data set of one draw, in its user's order; the array is used again by the next."""
        own = self.local
        if not hasattr(own, "out"):
            own.ints, own.floats = self.model.ints.copy(), self.model.floats.copy()
            own.state = self.model.state(own.ints, own.floats)
            own.out, own.at = np.empty(self.size), np.zeros(1, dtype=np.int64)
        for part, values in zip((own.ints, own.floats), drawn, strict=True):
            part[:] = values[chain, draw, : len(part)]  # functions of the state may follow
        entropy, key = self.root
        stream = np.random.SeedSequence(entropy, spawn_key=(*key, STREAM, chain, draw))
        rng = np.random.default_rng(stream)
        try:
            self.fill(pointer_to(Chances(rng)), own.state, self.data, own.at, 0, own.out)
        except NUMBA_ERRORS as error:
            raise CompileError(compile_message(error, self.simulate)) from error
        except IndexError:
            n, place = int(own.at[0]), f", draw {draw} of chain {chain}"
            shown = guarded_state(own.state), guarded_data(self.data, self.size)
            called, where = guarded_function(self.simulate), self.where(n, place)
            raise told(ROLE, blamed(ROLE, called, (rng, *shown, n), where), where) from None
        bad = np.isnan(own.out)
        if bad.any():
            n = int(np.argmax(bad))
            raise RewardError(
                f"{ROLE} is nan{self.where(n, f', draw {draw} of chain {chain}')}: it must be a "
                "number."
            )
        return own.out[::-1] if self.model.backwards else own.out

    def check_same(self, drawn, places: list[tuple[int, int]]) -> None:
        """Refuse a function that draws something else where it is compiled, from one seed.

        At some data, in the states of these draws: a compiled Generator gives the same numbers.
        """
        if DISABLED:
            return
        ints, floats = self.model.ints.copy(), self.model.floats.copy()
        state, at = self.model.state(ints, floats), np.zeros(1, dtype=np.int64)
        for chain, draw in places:
            for part, values in zip((ints, floats), drawn, strict=True):
                part[:] = values[chain, draw, : len(part)]
            for n in sorted({0, self.size // 2, self.size - 1}):
                out = np.zeros(min(COMPARED, self.size - n))
                seed = (chain, draw, n)
                rng = np.random.default_rng(seed)
                try:
                    self.fill(pointer_to(Chances(rng)), state, self.data, at, n, out)
                except NUMBA_ERRORS as error:
                    raise CompileError(compile_message(error, self.simulate)) from error
                except Exception:
                    continue  # which is told of with its draw
                self.compare(state, n, seed, out, f", draw {draw} of chain {chain}")

    def compare(self, state, first: int, seed: tuple, compiled: np.ndarray, place: str) -> None:
        """Refuse the data from a number on, of one seed, if Python draws others."""
        for i, value in enumerate(compiled):

            def read(kind, i=i):
                rng = np.random.default_rng(seed)
                given = [in_numbers(part, kind) for part in (state, self.data)]
                for k in range(first, first + i):  # what is drawn before
                    value_of(self.simulate, (rng, *given, k), (rng, state, self.data, k))
                return value_of(self.simulate, (rng, *given, first + i))

            where = self.where(first + i, place)
            named = partial(tuple, (ROLE, where))
            one, other = (in_python(read, float(value), named) for _ in range(2))
            if one == one and one != other:
                raise ValueError(
                    f"{ROLE} gives {one:.6g} and then {other:.6g} from one seed{where}: draw with "
                    "its argument rng, as rng.normal(), not with np.random."
                )
            refuse_apart(read, float(value), named)

    def all_of(self, trace: Trace, kept: np.ndarray, asked: dict, cores: int) -> dict[str, Any]:
        """Arrays (chains, draws, ...) by name: of statistics, or "" of all data."""
        chains, drawn = trace.shape[0], trace.flat
        if not asked:
            self.refuse_too_many(chains, len(kept))
        found: dict[str, np.ndarray] = {}
        self.check_same(drawn, [(0, int(kept[0])), (chains - 1, int(kept[-1]))])
        if not asked:
            found[""] = np.empty((chains, len(kept), self.size))
        lock, stopped = threading.Lock(), threading.Event()

        def work(c: int, i: int) -> None:
            made = self.one(drawn, c, int(kept[i]))
            if not asked:
                found[""][c, i] = made
            shown = made.view()
            shown.flags.writeable = False  # the next statistic sees it, too
            for name, statistic in asked.items():
                value = np.array(statistic(shown))
                with lock:
                    if name not in found:
                        check_statistic(name, value, self.size)
                        found[name] = np.full((chains, len(kept), *value.shape), np.nan)
                if value.shape != found[name].shape[2:]:
                    raise ValueError(
                        f"statistic {name!r} has shape {value.shape} of one data set and "
                        f"{found[name].shape[2:]} of another: it must be the same of all."
                    )
                found[name][c, i] = value

        jobs = [(c, i) for c in range(chains) for i in range(len(kept))]
        with Bar(total=len(jobs), desc="predictions", unit="draw", delay=1.0) as bar:

            def work_through(part: list[tuple[int, int]]) -> None:
                for job in part:
                    if stopped.is_set():
                        return
                    work(*job)
                    with lock:
                        bar.update()

            work_through(jobs[:1])  # compiles, or says why not, once
            step = max(1, len(jobs) // (PARTS * cores))
            parts = [jobs[i : i + step] for i in range(1, len(jobs), step)]
            with ThreadPoolExecutor(cores) as pool:
                try:
                    for done in as_completed([pool.submit(work_through, part) for part in parts]):
                        done.result()
                except BaseException:  # an error, or Ctrl-C
                    stopped.set()
                    pool.shutdown(cancel_futures=True)
                    raise
        return found

    def refuse_too_many(self, chains: int, draws: int) -> None:
        """Refuse what would fill the memory."""
        needed = 8 * chains * draws * self.size
        if needed <= LIMIT:
            return
        fits = LIMIT // (8 * chains * self.size)
        advice = f"draws={fits}, or " if fits else ""
        raise ValueError(
            f"{chains} x {draws:,} draws x {self.size:,} data are {needed / 1e9:.3g} GB; at most "
            f"{LIMIT / 1e9:.3g} GB are kept. Give {advice}statistics={{...}}, functions of one "
            "data set, of which only what they return is kept."
        )


def check_statistic(name: str, value: np.ndarray, size: int) -> None:
    """Refuse what is no number, and what is the data set itself, which is used again."""
    if value.dtype.kind not in "biuf":
        raise TypeError(f"statistic {name!r} returned {value!r:.60}: it must return numbers.")
    if value.shape == (size,) and size > 1:
        raise ValueError(
            f"statistic {name!r} returned one number for each of {size} data: leave statistics out "
            "to keep whole data sets."
        )
