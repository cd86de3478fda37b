"""sm.from_pymc: the log likelihood of one row of a PyMC model, as an ordinary sm.Model."""

from typing import Any

import numpy as np

from subsample_mcmc.errors import warn
from subsample_mcmc.pymc.algebra import Algebra
from subsample_mcmc.pymc.blocks import Part, parts_of
from subsample_mcmc.pymc.checking import check
from subsample_mcmc.pymc.columns import ROW, Columns
from subsample_mcmc.pymc.expressions import Expressions, Node
from subsample_mcmc.pymc.graph import RefusedError, Tensor, range_of
from subsample_mcmc.pymc.rows import (
    TermRows,
    ancestors_of,
    batches_in,
    named_data,
    refuse_long_blocks,
    refuse_potentials_of_batches,
    rows_of,
    shared_blocks,
    shared_of,
    summed,
    whole,
    without_data,
)
from subsample_mcmc.pymc.sites import PriorParts, named, postorder, sites_of
from subsample_mcmc.pymc.source import functions, of_site, written
from subsample_mcmc.target.axes import ROWS
from subsample_mcmc.target.model import Model


class Translated(Model):
    """A model made of source text: what it is pickled as, since generated code has no module."""

    def __init__(
        self, source, tables, parts, data, state, support, constraints, touches, coords, dims,
        beside=(), asked=None, together=None, behind=None,
    ):  # fmt: skip
        made = functions(source, tables)
        self.beside, self.asked, self.together = beside, asked, dict(together or {})
        self.behind = dict(behind or {})
        self.source, self.arrays, self.parts = source, tables, parts
        self.options = (data, state, support, constraints, touches, coords, dims, beside,
                        asked, self.together, self.behind)  # fmt: skip
        super().__init__(
            made["log_likelihood"], data, state, made["log_prior"], support, constraints,
            touches, made.get("prepare"), missing=missing_in(source, data),
            site_prior={name: made[of_site(name)] for name in state if of_site(name) in made},
            coords=coords, dims=dims,
        )  # fmt: skip

    def __reduce__(self):
        return Translated, (self.source, self.arrays, self.parts, *self.options)


def missing_in(source: str, data: dict[str, np.ndarray]) -> str:
    """May there be NaN: where the model asks, or where all of them come of arithmetic on data.

    Of log(x) where x <= 0, say, which stands in a branch that these rows do not take.
    """
    gone = [n for n, v in data.items() if v.dtype.kind == "f" and np.isnan(v).any()]
    of_arithmetic = bool(gone) and all(name.startswith(ROW) for name in gone)
    return "allow" if of_arithmetic or "isnan(" in source else "infinite"


def from_pymc(pm_model, rows=None, touches=None) -> Model:
    """See subsample_mcmc.pymc.from_pymc."""
    import pytensor
    from pymc.model.transform.conditioning import remove_value_transforms

    if not hasattr(pm_model, "observed_RVs"):
        raise TypeError(f"from_pymc({type(pm_model).__name__}): give a pm.Model.")
    if not pm_model.free_RVs:
        raise ValueError("from_pymc: the model has no free variable.")
    if pytensor.config.floatX != "float64":
        raise ValueError(
            f"from_pymc: pytensor.config.floatX is {pytensor.config.floatX!r}, whose values cannot "
            'be compared closely: set it to "float64", and make the model again.'
        )
    parts = parts_of(pm_model)
    kept = dict(pm_model.rvs_to_initial_values)  # which remove_value_transforms refuses; parts know
    pm_model.rvs_to_initial_values.update(dict.fromkeys(kept))
    try:
        held = [pm_model[part.name] for part in parts if not part.free]
        natural = remove_value_transforms(pm_model, held)  # which may order variables otherwise
    finally:
        pm_model.rvs_to_initial_values.update(kept)
    refuse_potentials_of_batches(natural)
    order = [v.name for v in (*pm_model.basic_RVs, *pm_model.potentials)]
    shared: frozenset = frozenset()  # blocks of as many components as rows, which several rows see
    while True:
        found = rows_of(natural, parts, lambda v: order.index(v.name), shared)
        likelihood, priors, columns, graphs, seen = translated(natural, parts, found, shared)
        if not seen:
            at_row = {g.row for g in graphs}
            seen = shared_blocks(parts, found, likelihood, at_row)
        if not seen:
            break
        shared |= seen
    names = [t.name for t in found.terms]
    if "state" not in likelihood.free:
        raise ValueError(f"from_pymc: the likelihood of {', '.join(names)} has no parameters.")
    used = read_in(likelihood)
    columns.data = {name: a for name, a in columns.data.items() if name in used}
    if not columns.data:
        raise ValueError(
            f"from_pymc: {', '.join(names)} reads no data row by row: "
            "rows that are all equal, or one row, need no subsampling."
        )
    refuse_other_rows(rows, columns)
    size, local = found.size, [p.block for p in parts if p.name in names]
    sites = sites_of(parts, local, likelihood, columns, graphs[0], priors, touches)
    refuse_long_blocks(parts, found, likelihood, at_row, sites.touches)
    block_of, make = {p.name: p.block for p in parts}, graphs[0].make
    density = make.const(0.0)
    for name, prior in priors.items():
        if block_of.get(name) not in sites.priors:
            density = make("add", density, prior.total)
    read = [read_in(e, "table") for e in (likelihood, density, *sites.priors.values())]
    tables = {name: a for name, a in columns.tables.items() if name in set().union(*read)}
    model = Translated(
        written(likelihood, density, sites.priors), tables, tuple(parts), columns.data,
        {p.block: p.state for p in parts},
        {p.block: p.support for p in parts if p.discrete},
        {p.block: p.constraint for p in parts if p.constraint.text != "real"},
        {name: (np.arange(size + 1), np.arange(size)) for name in local} | sites.touches,
        *names_of(pm_model, parts), without_data(natural, found),
        None if touches is None else named(touches, parts), sites.together, sites.behind,
    )  # fmt: skip
    check(model, natural, found)
    if batches_in([*natural.basic_RVs, *natural.potentials, *natural.rvs_to_values.values()]):
        warn(
            f"from_pymc: in place of pm.Minibatch the model has all {size} rows, of which every "
            "decision reads as many as it needs."
        )
    return model


def translated(natural, parts: list[Part], rows: TermRows, shared) -> tuple:
    """(log likelihood of a row, log priors, columns, graphs, blocks that turn out to be shared)."""
    from pytensor.graph.replace import graph_replace
    from pytensor.graph.rewriting.utils import rewrite_graph

    values, replaced = placeholders(natural, parts)

    def simplified(variables):
        variables = whole(variables)
        fixed = {**replaced, **shared_of(variables)}
        fixed = {k: v for k, v in fixed.items() if k in ancestors_of(variables)}
        changed = graph_replace(variables, fixed, strict=False) if fixed else variables
        return rewrite_graph(changed, include=("canonicalize", "stabilize"), clone=False)

    make, columns = Expressions(), Columns(named_data(natural), rows.size)
    graphs: dict[int, Algebra] = {}
    for length, first in rows.first.items():
        leaves: dict[Any, Tensor] = {}
        graphs[length] = graph = Algebra(make, length, first, rows.size, leaves, columns.constant)
        for part in parts:
            leaves[values[part.name]] = leaf(graph, part)
    sums = dict.fromkeys(rows.first, make.const(0.0))
    logps = natural.logp(vars=rows.terms, sum=False, jacobian=False)
    logps = [summed(p) if t.name in rows.summed else p
             for t, p in zip(rows.terms, logps, strict=True)]  # fmt: skip
    labels = {part.name: part.block for part in parts if not part.discrete}
    for term, logp in zip(rows.terms, simplified(logps), strict=True):
        length = rows.lengths[term.name]
        graph = graphs[length]
        graph.of = term.name
        try:
            tensor = graph.tensor(logp)
            if tensor.shape[:1] != (length,):
                raise graph.refusal(
                    f"its log likelihood has shape {tensor.shape}, not one entry for each of "
                    f"{length} rows, which depend on one another. (If on few earlier ones only, "
                    "make these lags data: mu=a + rho * y[:-1], observed=y[1:])"
                )
            entry = graph.folded(
                "add", tensor.shape[1:], lambda i, t=tensor, g=graph: t.at((g.row, *i))
            )
        except RefusedError:
            if term.name in labels:  # its prior is no sum over rows, and so it is no site per row
                return make.const(0.0), {}, columns, [], {labels[term.name]}
            raise
        sums[length] = make("add", sums[length], entry)
    (likelihood, *others), ends = list(sums.values())[::-1], list(rows.first.values())[::-1]
    for entry, end in zip(others, ends[:-1], strict=True):
        before = make("lt", make("signed", make.row), make.const(end))
        likelihood = make("select", before, entry, likelihood)
    priors: dict[str, PriorParts] = {}
    graph = next(iter(graphs.values()))
    if rows.prior:
        logps = natural.logp(vars=rows.prior, sum=False)  # with Jacobians of free coordinates
        for variable, logp in zip(rows.prior, simplified(logps), strict=True):
            graph.of = f"the prior of {variable.name}"
            try:
                tensor = graph.tensor(logp)
                entry = graph.folded("add", tensor.shape, tensor.at)
            except RefusedError as error:
                if variable not in natural.potentials or "reads other rows" not in str(error):
                    raise
                raise RefusedError(
                    f"from_pymc, {variable.name}: this potential is one number made of data row "
                    "by row. If it is a sum over rows, give pm.Potential the vector, without "
                    ".sum(), or that sum alone; else write the model as sm.Model(...)."
                ) from error
            priors[variable.name] = PriorParts(tensor, entry)
    return likelihood, priors, columns, list(graphs.values()), set()


def names_of(pm_model, parts: list[Part]) -> tuple[dict, dict]:
    """(labels by axis, axes by block) of a PyMC model, where they can name places of blocks."""
    blocks, dims, coords = {part.block for part in parts}, {}, {}
    for part in parts:
        axes = tuple(pm_model.named_vars_to_dims.get(part.name) or ())
        fits = not part.free and len(axes) == np.ndim(part.state) and len(set(axes)) == len(axes)
        if not axes or not fits or any("/" in a or a in blocks or a == ROWS for a in axes):
            continue
        dims[part.block] = axes
        for axis, length in zip(axes, np.shape(part.state), strict=True):
            values = pm_model.coords.get(axis)
            if values is not None and len(set(values)) == len(values) == length:
                coords[axis] = list(values)
    return coords, dims


def placeholders(natural, parts) -> tuple[dict, dict]:
    """(by name: a variable of known shape, and what it takes the place of)."""
    import pytensor.tensor as pt

    values, replaced = {}, {}
    for part in parts:
        value = natural.rvs_to_values[natural[part.name]]
        values[part.name] = pt.tensor(part.name, dtype=value.dtype, shape=np.shape(part.start))
        replaced[value] = values[part.name]
    return values, replaced


def same(one: Translated, other: Translated) -> bool:
    """Are two translations of one model: what they say, and their data."""
    parts = zip(
        (*one.data, *one.arrays.values()), (*other.data, *other.arrays.values()), strict=False
    )
    return (
        one.source == other.source and one.parts == other.parts
        and one.data._fields == other.data._fields and list(one.arrays) == list(other.arrays)
        and all(np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f") for a, b in parts)
    )  # fmt: skip


def leaf(graph, part: Part) -> Tensor:
    """A parameter: elements of its block."""
    shape = np.shape(part.start)
    low, high = (0, part.support - 1) if part.discrete else range_of(part.constraint)

    def at(index):
        places = tuple(graph.node(i) for i in index) or (graph.make.const(0),)
        found = graph.make.read(
            "state", part.block, places, "i" if part.discrete else "f", low, high
        )
        return graph.make("add", graph.make.const(part.shift), found) if part.shift else found

    return Tensor(shape, at)


def refuse_other_rows(rows, columns: Columns) -> None:
    """Are the data that the user calls row-aligned those that are read at the row."""
    if rows is None:
        return
    for name in rows:
        if name not in columns.named:
            raise ValueError(f"rows={list(rows)}: {name!r} is not among {list(columns.named)}.")
        if name in columns.elsewhere:
            raise ValueError(f"rows={list(rows)}: {name!r} is read elsewhere than at the row.")
    for name in columns.named:
        if name in columns.at_row and name not in rows:
            raise ValueError(f"rows={list(rows)}: {name!r} is read once per row, too.")


def read_in(root: Node, what: str = "data") -> set[str]:
    """Names of the data, or tables, that an expression reads."""
    return {node.value for node in postorder(root) if node.op == what}
