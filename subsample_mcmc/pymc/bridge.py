"""sm.from_pymc: the log likelihood of one row of a PyMC model, as an ordinary sm.Model."""

from typing import Any

import numpy as np

from subsample_mcmc.pymc.blocks import Part, parts_of
from subsample_mcmc.pymc.checking import check
from subsample_mcmc.pymc.columns import Columns
from subsample_mcmc.pymc.expressions import Node
from subsample_mcmc.pymc.graph import RefusedError, Tensor, range_of
from subsample_mcmc.pymc.shapes import Translator
from subsample_mcmc.pymc.source import functions, written
from subsample_mcmc.target.axes import ROWS
from subsample_mcmc.target.model import Model


class Translated(Model):
    """A model made of source text: what it is pickled as, since generated code has no module."""

    def __init__(
        self, source, tables, parts, data, state, support, constraints, touches, coords, dims
    ):
        made = functions(source, tables)
        self.source, self.tables, self.parts = source, tables, parts
        self.options = (data, state, support, constraints, touches, coords, dims)
        super().__init__(
            made["log_likelihood"], data, state, made["log_prior"], support, constraints,
            touches, made.get("prepare"), missing="allow" if "isnan(" in source else "infinite",
            coords=coords, dims=dims,
        )  # fmt: skip

    def __reduce__(self):
        return Translated, (self.source, self.tables, self.parts, *self.options)


def from_pymc(pm_model, rows=None) -> Model:
    """See subsample_mcmc.pymc.from_pymc."""
    import pytensor
    from pymc.model.transform.conditioning import remove_value_transforms
    from pytensor.graph.replace import graph_replace
    from pytensor.graph.rewriting.utils import rewrite_graph

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
        natural = remove_value_transforms(pm_model)  # which may order variables otherwise
    finally:
        pm_model.rvs_to_initial_values.update(kept)
    order = [v.name for v in (*pm_model.basic_RVs, *pm_model.potentials)]
    terms, prior, size = terms_of(natural, parts, lambda v: order.index(v.name))
    columns = Columns(size, named_data(natural))
    values, replaced = placeholders(natural, parts)

    def simplified(variables):
        fixed = {**replaced, **shared_of(variables)}
        fixed = {k: v for k, v in fixed.items() if k in ancestors_of(variables)}
        changed = graph_replace(variables, fixed, strict=False) if fixed else variables
        return rewrite_graph(changed, include=("canonicalize", "stabilize"), clone=False)

    leaves: dict[Any, Tensor] = {}
    graph = Translator(size, leaves, columns.constant)
    for part in parts:
        leaves[values[part.name]] = leaf(graph, part)
    likelihood, density = graph.make.const(0.0), graph.make.const(0.0)
    names = [t.name for t in terms]
    logps = natural.logp(vars=terms, sum=False, jacobian=False)
    for name, logp in zip(names, simplified(logps), strict=True):
        graph.of = name
        tensor = graph.tensor(logp)
        if tensor.shape[:1] != (size,):
            raise graph.refusal(
                f"its log likelihood has shape {tensor.shape}, not one entry for each of {size} "
                "rows"
            )
        whole = graph.folded(
            "add", tensor.shape[1:], lambda i, t=tensor: t.at((graph.make.row, *i))
        )
        likelihood = graph.make("add", likelihood, whole)
    if prior:
        logps = natural.logp(vars=prior, sum=False, jacobian=False)
        for variable, logp in zip(prior, simplified(logps), strict=True):
            graph.of = f"the prior of {variable.name}"
            tensor = graph.tensor(logp)
            density = graph.make("add", density, graph.folded("add", tensor.shape, tensor.at))
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
    local = check_latents(parts, terms, likelihood, graph, size)
    source = written(likelihood, density)
    model = Translated(
        source, columns.tables, tuple(parts), columns.data,
        {p.block: p.state for p in parts},
        {p.block: p.support for p in parts if p.discrete},
        {p.block: p.constraint for p in parts if p.constraint.text != "real"},
        {name: (np.arange(size + 1), np.arange(size)) for name in local},
        *names_of(pm_model, parts),
    )  # fmt: skip
    check(model, natural, terms, prior)
    return model


def names_of(pm_model, parts: list[Part]) -> tuple[dict, dict]:
    """(labels by axis, axes by block) of a PyMC model, where they can name places of blocks."""
    blocks, dims, coords = {part.block for part in parts}, {}, {}
    for part in parts:
        axes = tuple(pm_model.named_vars_to_dims.get(part.name) or ())
        fits = len(axes) == np.ndim(part.state) and len(set(axes)) == len(axes)
        if not axes or not fits or any("/" in a or a in blocks or a == ROWS for a in axes):
            continue
        dims[part.block] = axes
        for axis, length in zip(axes, np.shape(part.state), strict=True):
            values = pm_model.coords.get(axis)
            if values is not None and len(set(values)) == len(values) == length:
                coords[axis] = list(values)
    return coords, dims


def terms_of(natural, parts, order) -> tuple[list, list, int]:
    """(variables with an entry per row, all other ones, number of rows)."""
    observed = sorted(natural.observed_RVs, key=order)
    potentials = sorted(natural.potentials, key=order)
    vectors = [p for p in potentials if p.type.ndim]
    if not observed and not vectors:
        raise ValueError("from_pymc: the model has no observed variable, and so no data to read.")
    lengths = {}
    for variable in observed:
        shape = np.shape(data_of(natural, variable))
        if not shape:
            raise RefusedError(
                f"from_pymc, {variable.name}: it is one observed number. The rows of a model are "
                "the entries of an observed vector."
            )
        lengths[variable.name] = shape[0]
    for potential in vectors:
        try:
            lengths[potential.name] = int(potential.shape[0].eval())
        except Exception as error:  # whatever pytensor says of an input that is missing
            raise RefusedError(
                f"from_pymc, {potential.name}: the length of this potential depends on "
                "parameters. Write the model as sm.Model(...)."
            ) from error
    if len(set(lengths.values())) > 1:
        raise RefusedError(
            f"from_pymc: observed variables have lengths {lengths}: one model has one set of "
            "rows. Stack them into one vector with an index of which is which, or write sm.Model."
        )
    size = next(iter(lengths.values()))
    latent = {p.name for p in parts if p.discrete and np.shape(p.start) == (size,)}
    free = sorted(natural.free_RVs, key=order)
    local = [rv for rv in free if rv.name in latent]
    others = [rv for rv in free if rv.name not in latent]
    scalars = [p for p in potentials if not p.type.ndim]
    return [*observed, *vectors, *local], [*others, *scalars], size


def data_of(natural, rv) -> np.ndarray:
    """The observed values of a variable."""
    value = natural.rvs_to_values[rv]
    return np.asarray(value.get_value() if hasattr(value, "get_value") else value.eval())


def named_data(natural) -> dict[str, np.ndarray]:
    """Arrays by the names that the user gave them."""
    found = {v.name: np.asarray(v.get_value() if hasattr(v, "get_value") else v.data)
             for v in natural.data_vars}  # fmt: skip
    for rv in natural.observed_RVs:
        found.setdefault(rv.name, data_of(natural, rv))
    return found


def placeholders(natural, parts) -> tuple[dict, dict]:
    """(by name: a variable of known shape, and what it takes the place of)."""
    import pytensor.tensor as pt

    values, replaced = {}, {}
    for part in parts:
        value = natural.rvs_to_values[natural[part.name]]
        values[part.name] = pt.tensor(part.name, dtype=value.dtype, shape=np.shape(part.start))
        replaced[value] = values[part.name]
    return values, replaced


def ancestors_of(variables) -> set:
    from pytensor.graph.traversal import ancestors

    return set(ancestors(variables))


def shared_in(variables) -> list:
    """Shared variables (pm.Data, lengths of dimensions) that these are made of."""
    found = ancestors_of(variables)
    return [v for v in found if hasattr(v, "get_value") and hasattr(v.type, "ndim")]


def shared_of(variables) -> dict:
    """The same, with constants of today's values."""
    import pytensor.tensor as pt

    return {v: pt.constant(v.get_value(), name=v.name) for v in shared_in(variables)}


def same(one: Translated, other: Translated) -> bool:
    """Are two translations of one model: what they say, and their data."""
    parts = zip(
        (*one.data, *one.tables.values()), (*other.data, *other.tables.values()), strict=False
    )
    return (
        one.source == other.source and one.parts == other.parts
        and one.data._fields == other.data._fields and list(one.tables) == list(other.tables)
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


def nodes_of(root: Node) -> set[Node]:
    """An expression and all that it is made of."""
    stack, seen = [root], set()
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack += node.args
    return seen


def read_in(root: Node) -> set[str]:
    """Names of the data that an expression reads."""
    return {node.value for node in nodes_of(root) if node.op == "data"}


def check_latents(parts, terms, likelihood: Node, graph, size) -> list[str]:
    """Blocks with a site per row, which must be read at that row only."""
    latent = {p.block for p in parts if p.name in {t.name for t in terms}}
    for part in parts:
        if not part.discrete and np.shape(part.start)[:1] == (size,) and size > 1:
            latent.add(part.block)
    here, elsewhere = set(), set()
    for node in nodes_of(likelihood):
        if node.op == "state" and node.value in latent:
            (here if node.args[0] is graph.make.row else elsewhere).add(node.value)
    for part in parts:
        if part.block not in latent:
            continue
        if not part.discrete and part.block in here - elsewhere:
            raise RefusedError(
                f"from_pymc: {part.name} has a component for each of {size} rows: a kernel would "
                "move all of them at once. Integrate it out, or write sm.Model directly."
            )
        if part.discrete and part.block in elsewhere:
            raise RefusedError(
                f"from_pymc: {part.name} has a value for each of {size} rows, and other rows see "
                "it. Marginalise it (pm.Mixture, pymc_extras.marginalize), or write sm.Model "
                "directly, with touches."
            )
    return [p.block for p in parts if p.discrete and p.block in latent]
