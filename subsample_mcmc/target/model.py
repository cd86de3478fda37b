"""What a user writes: the log likelihood of one datum, data, and a state of named blocks."""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from subsample_mcmc.numerics.digest import content
from subsample_mcmc.numerics.jit import DISABLED, FLAGS, jit
from subsample_mcmc.numerics.records import record, similar
from subsample_mcmc.style import safe, tabled
from subsample_mcmc.target.axes import ROWS, axes_of
from subsample_mcmc.target.blocks import add_lengths, variables
from subsample_mcmc.target.data import as_fields, by_name, coded, columns_of
from subsample_mcmc.target.exact_sums import by_chunks, has_etas
from subsample_mcmc.target.population import (
    BIG,
    common_length,
    first_length,
    joined,
    prepared,
    read_only,
    tables_of,
)
from subsample_mcmc.target.predictors import Predictors
from subsample_mcmc.target.row_labels import (
    refuse_other_names,
    refuse_other_order,
    refuse_other_rows,
    row_labels_of,
    with_categories,
)
from subsample_mcmc.target.sources.checksums import array_hash, checksum
from subsample_mcmc.target.sources.found import source_of
from subsample_mcmc.target.user_functions import (
    flat,
    plain,
    try_functions,
    with_sites,
)

LABELS, ELSEWHERE = "labels of data ", "data, rows elsewhere"  # in names of fingerprints
SENT = (
    "the rows of this model are elsewhere, and its chains run in this process: leave parallel= out "
    "(passes over rows use all workers that have them)."
)


class Model:
    """A target density: prior(state) * prod_n exp(log_likelihood(state, data, n)).

    log_likelihood(state, data, n) -> float: ONE datum, plain Python, compiled; n is its index.
        With prepare: log_likelihood(state, data, n, prepared). Or sm.Predictors(eta, log_factor),
        where it sees the state through linear predictors: the best case of sm.Taylor. None: for
        kernels that bring their target (sm.GibbsPartition); data may then have any lengths, N is
        that of the first.
    data: NamedTuple or dict of arrays that share axis 0 (memory-mapped ones too), and of numbers;
        or a data frame (pandas, polars), a Table (pyarrow), a Dataset (xarray), a structured array.
        Or rows that are elsewhere, and are read in parts: sm.parquet("rows/*.parquet"), collections
        of dask, Datasets of ray, arrays of zarr and h5py. log_likelihood then reads its row alone.
        Read by field, data.y[n]. Rows are taken by position: columns of pandas or xarray, and what
        is given by row later (folds, what was observed), may not have them in another order.
        Not copied. Give a matrix as one array per
        column: data.x1[n] compiles to vector instructions, data.x[n, 1] does not (6 times slower).
    state: dict of named blocks with initial values, read as state.mu[0]: integers are discrete,
        floats continuous; a number becomes an array of length 1. A look-up beyond a block or a
        column, or at a computed negative index, is refused before anything is drawn or fitted.
    log_prior(state) -> float: of all blocks; default 0. A log density of the values as they stand
        in the state, of sigma and not of log(sigma): Jacobians of constraints are added to it.
    support: {"k": 10}: block k takes the values 0 .. 9. Every discrete block needs one.
    constraints: {"sigma": sm.positive, "w": sm.simplex, "p": sm.interval(0, 1), "c": sm.ordered}.
        sm.simplex of a block of two axes is of each row, sm.cholesky_corr of a (d, d) one.
    touches: {"a": "group"}: each datum sees one site of block a, the one that its column group
        says; {"skill": ("winner", "loser")}: two of them; {"z": (indptr, indices)}: those that
        depend on site z[i] are indices[indptr[i]:indptr[i + 1]]. Default: all data depend on all
        sites. sm.Gibbs and sm.Metropolis then move site by site, each by its own data. Sites of a
        continuous block are the entries of its first axis: a[i], or the row a[i, :].
    site_prior: {"a": f}, f(state, site) -> float: the prior is log_prior plus the sum of f over
        all sites of a. A move of site i reads f(state, i) alone, not the whole prior: nothing but
        f(state, i) may depend on a[i], where the block has touches; and the f of sites after it, of
        which each may read up to 8 sites before its own, as in a walk: see sm.windows.
    prepare(state, data) -> tuple: what all data share (log(sigma), a softmax), computed once per
        arm and mini-batch instead of once per datum.
    lengths: {"theta": ("k", (2, 5, 9))}: for models of unequal size that share one padded block:
        where the discrete block k, a number, has value i, only the first lengths[i] components of
        theta exist. The others keep their initial values: no function may depend on them.
    missing: "refuse" NaN, nulls, masked and infinite values in data, by column and row, in one pass
        over its floats; "infinite": only infinite ones may be, such as bounds that are none;
        "allow" them and NaN, and make no pass, where log_likelihood tells NaN apart itself
        (math.isnan): nulls of pandas are then NaN.
    dims: {"beta": ["term"]}: names of a block's axes, in every table, figure and file of draws.
    coords: {"term": ["age", "sex"]}: labels along an axis, so that they say beta[age], not beta[0];
        of "obs": of the data. Blocks with touches have those of categorical columns of pandas.
    simulate: f(rng, state, data, n) -> float: a datum drawn from the model, for sm.predict.
    tables: {"price": array}: arrays of any length, read as data.price[data.shop[n]]. What stands in
        no row: it is checked, hashed and kept with the data, and look-ups beyond it are refused.

    Example:
        >>> def log_likelihood(state, data, n):
        ...     z = (data.y[n] - 0.5 * state.k[0]) / state.sigma[0]
        ...     return -abs(z) - sm.log(state.sigma[0])
        >>> model = sm.Model(
        ...     log_likelihood, data={"y": np.random.default_rng(0).laplace(1.5, 2.0, 5_000)},
        ...     state={"k": 0, "sigma": 1.0}, support={"k": 6}, constraints={"sigma": sm.positive},
        ... )
        >>> model
        Model(log_likelihood, N=5000, blocks: k, sigma)
    """

    def __init__(
        self, log_likelihood, data, state, log_prior=None, support=None, constraints=None,
        touches=None, prepare=None, lengths=None, missing="refuse", site_prior=None,
        coords=None, dims=None, simulate=None, tables=None,
    ):  # fmt: skip
        source = source_of(data)  # of rows that are elsewhere
        data = by_name(data) if source is None else first_rows(source)
        if not isinstance(data, dict) and not hasattr(data, "_fields"):
            raise TypeError(
                f"data={type(data).__name__}: give a dict or NamedTuple of arrays, such as "
                '{"y": y}, or a data frame, so that log_likelihood can read data.y[n].'
            )
        named = as_fields(data)
        data, self.categories = coded(data, touches)
        refuse_other_order(with_categories(named, self.categories))  # codes have no labels
        self.columns = columns_of(data)  # of matrices that were data frames
        by_row = prepared(data, missing)
        count = first_length if log_likelihood is None else common_length
        self.size = count(by_row)
        # What pandas or xarray call the rows; None where nobody does.
        self.row_labels = row_labels_of(named, self.size)
        kept = tables_of(tables, by_row, missing)
        self.data, self.tables = joined(by_row, kept), tuple(kept)
        self.predictors = log_likelihood if isinstance(log_likelihood, Predictors) else None
        given = log_likelihood
        if self.predictors is not None:
            if prepare is not None:
                raise ValueError("prepare does not go with sm.Predictors: eta sees the state.")
            log_likelihood = self.predictors.log_likelihood()
        self.log_likelihood, self.log_prior, self.prepare = log_likelihood, log_prior, prepare
        self.simulate, self.missing = simulate, missing
        self.design: Any = None  # of models by formulas: what other data frames are to them
        if not isinstance(state, dict) or not state:
            raise TypeError('state must be a dict of named blocks, such as {"mu": 0.0, "k": 3}.')
        first = {name: np.array(value) for name, value in state.items()}
        self.names = tuple(state)
        self.record = record(*self.names)
        self.variables = variables(
            state, support or {}, constraints or {}, touches or {}, by_row, self.size, self.tables
        )
        self.site_prior = dict(site_prior or {})
        for name, of_site in self.site_prior.items():
            if name not in self.variables:
                near = similar(name, self.names)
                raise ValueError(
                    f"site_prior names {name!r}, which is no block of {self.names}.{near}"
                )
            plain(of_site, f"site_prior[{name!r}]", "f(state, site) -> float")
            self.log_prior = with_sites(self.log_prior, of_site, self.variables[name].sites)
        add_lengths(self.variables, lengths or {})
        self.blocks = tuple(v.block for v in self.variables.values())
        self.axes = axes_of(coords, dims, self.blocks, self.size, touches or {}, self.categories)
        refuse_other_names("coords obs", (coords or {}).get(ROWS), self.row_labels)
        self.given = (
            given, by_row, first, log_prior, support, constraints, touches, prepare, lengths,
            missing, site_prior, self.axes.coords, self.axes.dims, simulate, kept,
        )  # fmt: skip
        self.ints = np.zeros(sum(b.length for b in self.blocks if b.discrete), dtype=np.int64)
        self.floats = np.zeros(sum(b.length for b in self.blocks if not b.discrete))
        self.set_state(self.ints, self.floats, state)
        for array in (self.ints, self.floats):
            array.flags.writeable = False
        # What control variates know of it, by control variate: approx/control.py fills it.
        self.prepared: WeakKeyDictionary = WeakKeyDictionary()
        self.noticed: Any = None  # what tells a change of data, as they were when first prepared
        self.hashed: Any = None  # (the same, hashes of the parts)
        self.looked_up: set = set()  # functions and states whose look-ups were found to be right
        self.elsewhere: Any = None  # target/elsewhere, where the rows are
        self.numbers: Any = (
            None  # of its rows among all, of a model of some rows that are elsewhere
        )
        self.more: Any = None  # of ready models: what makes columns of further rows
        self.grown: Any = None  # of which model, and which row is the first that it lacks
        self.remembered: Any = None  # target/reuse, the file of what passes over them found
        try_functions(self)
        if source is not None:
            move_elsewhere(self, source)

    def __repr__(self) -> str:
        name = getattr(self.log_likelihood, "__name__", "no log_likelihood")
        blocks = ", ".join(f"{b.name}{list(b.shape) if b.shape else ''}" for b in self.blocks)
        return f"Model({name}, N={self.size}, blocks: {blocks})"

    def _repr_html_(self) -> str:
        rows = [v.described(self.axes) for v in self.variables.values()]
        near = self.near.data._asdict()  # of rows elsewhere, some
        columns = ", ".join(f"{name} {np.shape(values)}" for name, values in near.items())
        if self.elsewhere is not None:
            columns = f"{self.elsewhere.source}; of some rows: {columns}"
        head = ["block", "shape", "values", "data of its own"]
        if not any(row[-1] for row in rows):
            head, rows = head[:-1], [row[:-1] for row in rows]
        told = f"<p>{safe(self)}</p>", *tabled(head, rows), f"<p>data: {safe(columns)}</p>"
        return "\n".join(told)

    @property
    def near(self) -> "Model":
        """A model whose rows are in memory: itself, or one of some rows, for checks."""
        return self if self.elsewhere is None else self.elsewhere.near

    def __reduce__(self):  # made anew where it is unpickled: no machine code, read-only arrays
        if self.elsewhere is not None:
            raise TypeError(SENT)
        known = {n: getattr(self, n) for n in ("categories", "columns", "design")}
        known["more"] = self.more and refuse_more
        if self.row_labels is not None:
            known["row_labels"] = self.row_labels
        return type(self), self.given, known

    def state(self, ints: np.ndarray, floats: np.ndarray) -> Any:
        """The blocks of two flat arrays as users read them: a record of read-only views."""
        views = []
        for block in self.blocks:
            flat = ints if block.discrete else floats
            part = flat[block.start : block.start + block.length]
            views.append(read_only(part.reshape(block.shape or (1,))))
        return self.record(*views)

    @property
    def priors(self) -> list[tuple[Any, tuple[str, ...], dict[str, int]]]:
        """(function, what its arguments are, what those that count go up to) of the log prior."""
        rest = self.given[3]
        found: list[tuple[Any, tuple[str, ...], dict[str, int]]] = []
        if rest is not None:
            found.append((rest, ("state",), {}))
        for name, of_site in self.site_prior.items():
            found.append((of_site, ("state", "site"), {"site": self.variables[name].sites}))
        return found

    def extra(self, state) -> tuple:
        """What prepare makes of a state, as the last argument of log_likelihood; or nothing."""
        return () if self.prepare is None else (self.prepare(state, self.data),)

    backwards = False  # do the data stand the other way round than their user knows them
    beside: tuple[str, ...] = ()  # what log_likelihood has of a datum beside its likelihood
    together: Mapping[str, str] = {}  # by block: why its sites move as one, as from_pymc found it
    behind: Mapping[str, int] = {}  # by block: sites before its own that a site's prior reads, too

    def left_out(self, state) -> Any:
        """What log_likelihood lacks of each datum's log density: a number, or one a datum.

        Models of this package leave out what no draw depends on, one a datum, which is then the
        same in all states; or what they add up beforehand, a number.
        """
        return 0.0

    def constant(self) -> float:
        """What log_likelihood and log_prior lack of all data's log density; evidences need it."""
        return 0.0

    def without(self, rows) -> "Model":
        """A model of the same functions, without some data.

        rows: their numbers, or booleans. Each datum that remains must say what it said, which is
            looked at in four states: functions that use its number n, or its neighbours, are
            refused. Rows side by side are not copied.
        """
        from subsample_mcmc.target.reuse.subset import without

        return without(self, rows)

    def append(self, rows) -> "Model":
        """A model of the same functions, of these data and further ones behind them.

        Its sums need not be made anew: control.append(bigger), of sm.Taylor, reads the new rows.

        rows: as `data` of the model, with columns of the same names and kinds, in memory or
            elsewhere; of models.glm, {"x": x, "y": y} and what else was given by row, or what was
            given as x. Each datum must say what it said, which is looked at in four states.
        """
        from subsample_mcmc.target.reuse.append import append

        self.notice_changes()
        return append(self, rows)

    def remember(self, path) -> None:
        """Keep what passes over all rows find in a file, so that another process makes none.

        Fits by sm.laplace, and sums of sm.Taylor but for predictors that were looked for, are
        written there as soon as they are made, and read back, the same to the last bit, where the
        same is asked of this model and these rows. If these are others, a warning names what
        differs, and the file is written anew.

        path: of the file, such as "run.passes.npz" beside "run.nc".
        """
        from subsample_mcmc.target.reuse.remembered import Remembered

        self.remembered = Remembered(self, path)

    def set_state(self, ints: np.ndarray, floats: np.ndarray, values: dict) -> None:
        """Write blocks given by name into two flat arrays, checking them."""
        unknown = sorted(set(values) - set(self.names))
        if unknown:
            raise ValueError(
                f"block {unknown[0]!r} is not in the state, which has "
                f"{', '.join(self.names)}.{similar(unknown[0], self.names)}"
            )
        for name, value in values.items():
            variable = self.variables[name]
            refuse_other_rows(f"state {name}", value, self.row_labels, others=False)
            block, given = variable.block, np.asarray(value)
            if given.shape not in (block.shape, block.shape or (1,)):
                raise ValueError(
                    f"state {name} has shape {given.shape}: the model's block has shape "
                    f"{block.shape}."
                )
            if block.discrete and given.dtype.kind not in "biu":
                raise TypeError(
                    f"state {name} has dtype {given.dtype}, the value {given.flat[0]}: block "
                    f"{name} is discrete, because sm.Model was given integers for it. Give whole "
                    f"numbers, 0 .. {variable.support - 1}; or floats to sm.Model, if it is "
                    "continuous."
                )
            if not block.discrete:
                given = given.astype(float)
                if not np.all(np.isfinite(given)):
                    raise ValueError(f"state {name}={given}: every value must be finite.")
                variable.constraint.check(name, given.ravel())
            elif not np.all((given >= 0) & (given < variable.support)):
                raise ValueError(
                    f"state {name} has values {given.min()} .. {given.max()}: its support is "
                    f"0 .. {variable.support - 1}, because support[{name!r}]={variable.support}. "
                    "Start inside, or count from 0, or enlarge the support."
                )
            flat = ints if block.discrete else floats
            flat[block.start : block.start + block.length] = given.ravel()
        for v in self.variables.values() if floats is not self.floats else ():
            if v.place >= 0:  # what is not in use stands still, whatever was given
                still = slice(v.block.start + v.length(ints), v.block.start + v.block.length)
                floats[still] = self.floats[still]

    def show(self, ints=None, floats=None, most: int = 6, names=None) -> str:
        """The state, or some blocks of it, in words, long blocks abridged."""
        given = self.state(
            self.ints if ints is None else ints, self.floats if floats is None else floats
        )
        parts = []
        for block, values in zip(self.blocks, given, strict=True):
            if names is not None and block.name not in names:
                continue
            flat = [f"{v:.6g}" for v in values.ravel()[:most]]
            more = ", ..." if values.size > most else ""
            shown = flat[0] if block.shape == () else f"[{', '.join(flat)}{more}]"
            parts.append(f"{block.name}={shown}")
        return ", ".join(parts)

    @cached_property
    def compiled(self) -> tuple[Any, Any, Any]:
        """(log_likelihood, prepare or None, log_prior), compiled; shared by all kernels."""
        user = {"flags": FLAGS, "user": True, "inner": "always"}
        made = None if self.prepare is None else jit(self.prepare, **user)
        self.said = self.hashes_of_functions()
        return jit(self.log_likelihood, **user), made, jit(self.log_prior or flat, **user)

    @cached_property
    def chunks(self) -> Any:
        """The exact sum, by predictors of many data at once where the model can; else None."""
        return by_chunks(self) if has_etas(self) and self.elsewhere is None else None

    @cached_property
    def large(self) -> tuple:
        """Data arrays too big for the cache, for selectors that read them ahead."""
        return tuple(
            (field, array.ndim == 2)
            for field, array in enumerate(self.data if self.elsewhere is None else ())
            if np.ndim(array) in (1, 2) and len(array) == self.size and array.nbytes > BIG
        )

    def notice_changes(self) -> None:
        """Forget what was learnt of data that were changed in place; refuse changed functions.

        What control variates know of the data is of the data as they were, and so is which look-ups
        were found to be right. A compiled function keeps the values that its names had.
        """
        seen = self.checksums()
        if self.noticed is not None and self.noticed != seen:
            self.prepared.clear()
            self.looked_up.clear()
        self.noticed = seen
        if DISABLED or "compiled" not in vars(self):
            return
        for name, said in self.hashes_of_functions().items():
            if self.said[name] != said:
                raise ValueError(
                    f"{name} reads names whose values have changed since the model was first used: "
                    "its compiled code has the old ones. Make the model anew, sm.Model(...), or "
                    "give what changes as data, or as a block of the state."
                )

    def checksums(self) -> tuple:
        """What tells a change of data."""
        return tuple(checksum(np.asarray(value)) for value in self.near.data)

    def changed(self) -> list[str]:
        """Names of data that were changed in place since the model was last looked at."""
        both = zip(self.near.data._fields, self.noticed, self.checksums(), strict=True)
        return [name for name, before, now in both if before != now]

    def fingerprints(self, again: bool = True) -> dict[str, str]:
        """A hash of each part by name: what must be equal for a run to be resumed.

        Made anew where data were changed in place, which costs a tenth of it to see. again: look
        whether they were; else they are as notice_changes found them.
        """
        if again or self.noticed is None:
            self.notice_changes()
        if self.hashed is None or self.hashed[0] != self.noticed:
            self.hashed = self.noticed, self.hashes()
        return dict(self.hashed[1])

    def hashes_of_functions(self) -> dict[str, str]:
        """A hash of what each of the user's functions says, and of all that it reads by name."""
        found = {}
        for name in ("log_likelihood", "log_prior", "prepare"):
            if getattr(self, name) is not None:
                found[name] = content(getattr(self, name))
        if self.predictors is not None:
            parts = (self.predictors.derivatives, self.predictors.remainder)
            text = " ".join(content(part) if part else "none" for part in parts)
            found["predictors"] = f"{text} {self.predictors.growth!r}"
            if self.predictors.etas is not None:
                found["predictors"] += f" {content(self.predictors.etas)}"
            if self.predictors.sizes is not None:
                found["predictors"] += f" sizes {content(self.predictors.sizes)}"
        return found

    def hashes(self) -> dict[str, str]:
        """These, and hashes of the data as they are now."""
        found = self.hashes_of_functions()
        data = self.data._asdict() if self.elsewhere is None else self.elsewhere.others
        for name, value in data.items():
            found[f"data {name}"] = array_hash(np.asarray(value))
        if self.elsewhere is not None:
            found[ELSEWHERE] = self.elsewhere.source.content()
        for name, labels in {**self.categories, **self.columns}.items():  # what codes stand for
            text = "|".join(map(repr, np.asarray(labels).tolist()))
            found[f"{LABELS}{name}"] = hashlib.sha256(text.encode()).hexdigest()
        for name, v in self.variables.items():
            text = f"{v.block} {v.support} {v.constraint}"
            text += f" {v.place} {v.lengths.tolist()}" if v.place >= 0 else ""
            for part in v.touches or ():
                text += array_hash(part)
            found[f"block {name}"] = hashlib.sha256(text.encode()).hexdigest()
        return found


def refuse_more(rows) -> None:
    """In the place of what makes columns of further rows, where a model was unpickled."""
    raise ValueError("this model is a copy from another process: append rows to the original.")


def first_rows(source) -> dict[str, np.ndarray]:
    """Some rows of data that are elsewhere, on which a model is tried."""
    from subsample_mcmc.target.elsewhere.rows import some_rows

    return some_rows(source)


def move_elsewhere(model: Model, source) -> None:
    """Make a model of some rows one of all, which are elsewhere."""
    from subsample_mcmc.target.elsewhere.rows import RowsElsewhere

    RowsElsewhere(model, source).take(model)


def must_be_model(given: Any, call: str) -> None:
    """Refuse what is no model. call: how the function is called, such as sm.laplace(model)."""
    if isinstance(given, Model):
        return
    if isinstance(given, type):
        advice = f": this is the class; make one, sm.{given.__name__}(log_likelihood, data, state)"
    elif hasattr(given, "leaves"):
        advice = f" in the place of this kernel: {call}"
    elif hasattr(given, "observed_RVs"):
        advice = ": sm.from_pymc makes it of a PyMC model"
    elif callable(given):
        advice = f", sm.Model({getattr(given, '__name__', 'log_likelihood')}, data, state)"
    elif hasattr(given, "arms"):
        advice = "; a population is drawn from with sm.draw(population)"
    else:
        advice = ", sm.Model(log_likelihood, data, state)"
    raise TypeError(f"model={given!r:.60}: give an sm.Model{advice}.")
