"""Which variables of a PyMC model have an entry per row, and which rows are whose."""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.pymc.blocks import Part
from subsample_mcmc.pymc.expressions import Node
from subsample_mcmc.pymc.graph import RefusedError
from subsample_mcmc.target.constraints import ORDERED, SIMPLEX

# A rewriting of pytensor, by which 1 - (X @ b + k) with a whole number k is compiled without k.
DROPS_TERMS = "BlasOpt"


class TermRows(NamedTuple):
    """The terms of the likelihood; those of one length share rows, others have rows behind them."""

    terms: list  # variables with an entry per row: of what rows(name) says
    prior: list  # all others
    first: dict[int, int]  # by length: number of the first row
    lengths: dict[str, int]  # by name of the term
    summed: frozenset  # names of potentials that are a sum over rows

    @property
    def size(self) -> int:
        """The number of all rows."""
        return sum(self.first)

    def added(self, parts: list) -> np.ndarray:
        """Sums by row of one array for each term."""
        total = np.zeros(self.size)
        for term, part in zip(self.terms, parts, strict=True):
            length = self.lengths[term.name]
            here = slice(self.first[length], self.first[length] + length)
            total[here] += np.asarray(part, dtype=float).reshape(length, -1).sum(axis=1)
        return total


def rows_of(natural, parts: list[Part], order, shared: frozenset) -> TermRows:
    """Sort the variables of a model; blocks whose names are in `shared` have no site per row."""
    observed = sorted(natural.observed_RVs, key=order)
    potentials = sorted(natural.potentials, key=order)
    lengths: dict[str, int] = {}
    for variable in observed:
        shape = np.shape(data_of(natural, variable))
        if not shape:
            raise RefusedError(
                f"from_pymc, {variable.name}: it is one observed number. The rows of a model are "
                "the entries of an observed vector."
            )
        lengths[variable.name] = shape[0]
    vectors = [p for p in potentials if p.type.ndim]
    for potential in vectors:
        found = length_of(potential)
        if found is None:
            raise RefusedError(
                f"from_pymc, {potential.name}: the length of this potential depends on "
                "parameters. Write the model as sm.Model(...)."
            )
        lengths[potential.name] = found
    sums = [p for p in potentials if not p.type.ndim and is_sum_over(p, set(lengths.values()))]
    for potential in sums:
        lengths[potential.name] = length_of(summed(potential))  # type: ignore[assignment]
    if not lengths:
        raise ValueError("from_pymc: the model has no observed variable, and so no data to read.")
    first: dict[int, int] = {}
    for length in lengths.values():
        if length not in first:
            first[length] = sum(first)
    latent = set()
    if len(first) == 1:  # a label or effect of each row
        latent = {
            p.name for p in parts
            if np.shape(p.start) == (next(iter(first)),) and p.block not in shared and not p.free
            and p.constraint.kind not in (SIMPLEX, ORDERED)
        }  # fmt: skip
    free = sorted(natural.free_RVs, key=order)
    lengths |= dict.fromkeys(latent, next(iter(first)))
    terms = [*observed, *vectors, *sums, *(rv for rv in free if rv.name in latent)]
    scalars = [p for p in potentials if p not in vectors and p not in sums]
    prior = [*(rv for rv in free if rv.name not in latent), *scalars]
    return TermRows(terms, prior, first, lengths, frozenset(p.name for p in sums))


def length_of(variable) -> int | None:
    """The number of rows of a variable, if it is known."""
    try:
        return int(whole([variable])[0].shape[0].eval())
    except Exception:  # whatever pytensor says of an input that is missing
        return None


def summed(variable) -> Any:
    """What a scalar is the sum of; None if it is no sum."""
    node = variable.owner
    while node is not None and type(node.op).__name__ in ("Identity", "Elemwise"):
        if len(node.inputs) != 1:
            return None
        if type(getattr(node.op, "scalar_op", node.op)).__name__ != "Identity":
            return None
        node = node.inputs[0].owner
    return node.inputs[0] if node is not None and type(node.op).__name__ == "Sum" else None


def is_sum_over(potential, known: set[int]) -> bool:
    """Is a scalar potential a sum over rows, of data that have as many as it has terms."""
    inner = summed(potential)
    length = None if inner is None or not inner.type.ndim else length_of(inner)
    if length is None or length < 2 or (known and length not in known):
        return False
    return reads_data(inner, length)


def reads_data(variable, length: int) -> bool:
    """Is a variable made of data that have so many rows."""
    arrays = [np.shape(v.data) for v in ancestors_of([variable]) if hasattr(v, "data")]
    arrays += [np.shape(v.get_value()) for v in shared_in([variable])]
    return any(shape[:1] == (length,) for shape in arrays)


def without_data(natural, rows: TermRows) -> tuple[str, ...]:
    """Names of terms with an entry per row that say nothing of data, as the prior of an effect."""
    observed = {v.name for v in natural.observed_RVs}
    potentials = {v.name: v for v in natural.potentials}
    return tuple(
        t.name for t in rows.terms
        if t.name not in observed
        and not (t.name in potentials and reads_data(potentials[t.name], rows.lengths[t.name]))
    )  # fmt: skip


def data_of(natural, rv) -> np.ndarray:
    """The observed values of a variable."""
    value = whole([natural.rvs_to_values[rv]])[0]
    return np.asarray(value.get_value() if hasattr(value, "get_value") else value.eval())


def named_data(natural) -> dict[str, np.ndarray]:
    """Arrays by the names that the user gave them."""
    found = {v.name: np.asarray(v.get_value() if hasattr(v, "get_value") else v.data)
             for v in natural.data_vars}  # fmt: skip
    for rv in natural.observed_RVs:
        found.setdefault(rv.name, data_of(natural, rv))
    return found


def ancestors_of(variables) -> set:
    from pytensor.graph.traversal import ancestors

    return set(ancestors(variables))


def batches_in(variables) -> dict:
    """By minibatch that these are made of: the data that it is drawn from."""
    return {
        v: v.owner.inputs[v.owner.outputs.index(v)]
        for v in ancestors_of(variables)
        if v.owner is not None and type(v.owner.op).__name__ == "MinibatchOp"
    }


def refuse_potentials_of_batches(natural) -> None:
    """PyMC scales no potential: a factor N / batch that a user wrote would count all rows so."""
    for potential in natural.potentials:
        if batches_in([potential]):
            raise RefusedError(
                f"from_pymc, {potential.name}: this potential is made of pm.Minibatch, and PyMC "
                "scales no potential: whether a number in it stands for rows that are not in the "
                "batch is not known. Make it of all data, without such a factor; or write it as an "
                "observed variable with total_size=."
            )


def whole(variables: list) -> list:
    """The same with all data in place of minibatches."""
    from pytensor.graph.traversal import toposort

    made = batches_in(variables)
    if not made:
        return variables
    for node in toposort(variables):
        given = [made.get(v, v) for v in node.inputs]
        if given == node.inputs or any(v in made for v in node.outputs):
            continue
        kind, was = type(node.op).__name__, node.inputs[0].type
        same = kind == "Alloc" and was.shape == node.outputs[0].type.shape
        if same or kind == "SpecifyShape":  # they say the shape that a batch has
            made[node.outputs[0]] = given[0]
            continue
        again = node.clone_with_new_inputs(given, strict=False)
        made |= dict(zip(node.outputs, again.outputs, strict=True))
    return [made.get(v, v) for v in variables]


def shared_in(variables) -> list:
    """Shared variables (pm.Data, lengths of dimensions) that these are made of."""
    found = ancestors_of(variables)
    return [v for v in found if hasattr(v, "get_value") and hasattr(v.type, "ndim")]


def shared_of(variables) -> dict:
    """The same, with constants of today's values."""
    import pytensor.tensor as pt

    return {v: pt.constant(v.get_value(), name=v.name) for v in shared_in(variables)}


def read_by_rows(parts: list[Part], rows: TermRows, likelihood: Node, at_row: set[Node]) -> tuple:
    """(blocks of as many components as rows that are read at the row's own, at other places)."""
    latent = latent_in(parts, rows)
    long = {p.block for p in parts if np.shape(p.start)[:1] and np.shape(p.start)[0] in rows.first
            and np.shape(p.start)[0] > 1}  # fmt: skip
    here, elsewhere = set(), set()
    stack, seen = [likelihood], set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        stack += node.args
        if node.op == "state" and node.value in latent | long:
            (here if node.args[0] in at_row else elsewhere).add(node.value)
    return here, elsewhere


def latent_in(parts: list[Part], rows: TermRows) -> set[str]:
    """Blocks that are taken to have a site per row."""
    return {p.block for p in parts if p.name in {t.name for t in rows.terms}}


def shared_blocks(
    parts: list[Part], rows: TermRows, likelihood: Node, at_row: set[Node]
) -> set[str]:
    """Blocks that were taken to have a site per row, and which other rows see; others: refused."""
    _, elsewhere = read_by_rows(parts, rows, likelihood, at_row)
    shared = latent_in(parts, rows) & elsewhere
    for part in parts:
        if part.discrete and part.block in shared:
            raise RefusedError(
                f"from_pymc: {part.name} has a value for each of {np.shape(part.start)[0]} rows, "
                "and other rows see it. Marginalise it (pm.Mixture, pymc_extras.marginalize), or "
                "write sm.Model directly, with touches."
            )
    return shared


def refuse_long_blocks(
    parts: list[Part], rows: TermRows, likelihood: Node, at_row: set[Node], by_site
) -> None:
    """Refuse blocks with a component per row that a kernel would move at once."""
    here, elsewhere = read_by_rows(parts, rows, likelihood, at_row)
    for part in parts:
        if part.block in (here - elsewhere) - latent_in(parts, rows) and part.block not in by_site:
            raise RefusedError(
                f"from_pymc: {part.name} has a component for each of {np.shape(part.start)[0]} "
                "rows: a kernel would move all of them at once. Integrate it out, give it an "
                "independent prior, or write sm.Model directly, with touches."
            )
