"""The blocks of a model: where each stands, what values it may take, how long it is."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from subsample_mcmc.numerics.records import similar
from subsample_mcmc.target.constraints import Constraint, real
from subsample_mcmc.target.layout import Block
from subsample_mcmc.target.population import read_only, whole


def none() -> np.ndarray:
    """Lengths of a block that does not vary."""
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Variable:
    """One block of a model: where it stands, and what values it may take."""

    block: Block
    support: int  # values 0 .. support - 1 of a discrete block; 0 for a continuous one
    constraint: Constraint
    # Which data depend on each site, as (indptr, indices). The sites of a continuous block are the
    # entries of its first axis, those of a discrete one its numbers.
    touches: tuple[np.ndarray, np.ndarray] | None
    place: int = -1  # in the integers: the site that tells how long this block is; -1: none does
    lengths: np.ndarray = field(default_factory=none)  # by its value: components in use

    @property
    def sites(self) -> int:
        """Entries of a continuous block's first axis, numbers of a discrete one."""
        shape = self.block.shape
        return self.block.length if self.support or not shape else shape[0]

    def described(self, axes: Any) -> list[str]:
        """Name, shape, values and whether sites see data of their own, as a table shows them."""
        block = self.block
        sizes = zip(axes.of(block.name, len(block.shape)), block.shape, strict=True)
        named = [f"{n} {axis}" if axis in axes.coords else f"{n}" for axis, n in sizes]
        values = "real" if self.constraint == real else str(self.constraint)
        values = f"0 ... {self.support - 1:,}" if self.support else values
        own = "" if self.touches is None else f"each of {self.sites:,} sites"
        return [block.name, " x ".join(named) or "scalar", values, own]

    def length(self, ints: np.ndarray) -> int:
        """Components in use in a state; the others stand still at the model's initial values."""
        return int(self.lengths[ints[self.place]]) if self.place >= 0 else self.block.length


def variables(state, support, constraints, touches, data, size, tables=()) -> dict[str, Variable]:
    """The blocks in order, with what was declared for each; refuses declarations of no block."""
    for given, name in ((support, "support"), (constraints, "constraints"), (touches, "touches")):
        unknown = sorted(set(given) - set(state))
        if unknown:
            raise ValueError(f"{name} names {unknown[0]!r}, which is no block of {tuple(state)}.")
    made, at = {}, {True: 0, False: 0}
    for name, value in state.items():
        array = np.asarray(value)
        if name in ("chain", "draw"):
            raise ValueError(
                f"block {name!r}: tables and files of draws have a column of that name. Rename it, "
                f"to {name}_, say."
            )
        if array.dtype.kind not in "biuf" or array.size == 0:
            raise TypeError(
                f"state {name}={value!r}: give integers (discrete) or floats (continuous), at "
                "least one."
            )
        if array.dtype.kind == "b":
            raise TypeError(
                f"state {name}={value!r:.60}: a block of truth values would be one of integers, of "
                f"which `~state.{name}[0]` is never 0. Give integers, 0 or 1, with "
                f"support={{{name!r}: 2}}, and write `not` or `== 0`."
            )
        discrete = array.dtype.kind in "iu"
        if discrete and name not in support:
            raise ValueError(
                f"block {name} is discrete but has no support: pass support={{{name!r}: K}} for "
                f"the values 0 .. K-1, or give it as a float if it is continuous."
            )
        if name in (constraints if discrete else support):
            wrong = "constraints" if discrete else "support"
            told = f"{wrong} {'do' if discrete else 'does'} not apply"
            kinds = ("discrete", "continuous") if discrete else ("continuous", "discrete")
            given, other = ("integers", "floats") if discrete else ("floats", "integers")
            raise ValueError(
                f"block {name} is {kinds[0]}: {told}. The type in state decides, and "
                f"{array.flat[0]} is one of {given}: give {other} if it is {kinds[1]}, or else "
                f"drop {wrong}."
            )
        shape = array.shape
        block = Block(name, discrete, shape, at[discrete])
        at[discrete] += block.length
        values = (
            whole(
                support[name],
                f"support[{name!r}]",
                "the number of values, K, at least 1: the block takes 0 .. K-1",
            )
            if discrete
            else 0
        )
        constraint = constraints.get(name, real)
        if not isinstance(constraint, Constraint):
            raise TypeError(
                f"constraints[{name!r}]={constraint!r}: give sm.positive, sm.interval(low, "
                "high), sm.simplex, sm.ordered or sm.cholesky_corr."
            )
        constraint = constraint.of_shape(name, shape)
        csr = None
        if name in touches:
            if not discrete and constraint.together:
                raise ValueError(
                    f"touches[{name!r}]: the values of {constraint.noun} move together, not one by "
                    "one."
                )
            sites = block.length if discrete or not shape else shape[0]
            csr = touched(name, touches[name], sites, data, size, tables)
        made[name] = Variable(block, values, constraint, csr)
    return made


# ----------------------------------------------------------------- which data depend on which site
def touched(name, given, sites: int, data, size: int, tables) -> tuple[np.ndarray, np.ndarray]:
    """A table (indptr, indices) of the data of each site, of columns of the data or given so."""
    columns = (given,) if isinstance(given, str) else given
    if isinstance(columns, list | tuple) and columns and all(isinstance(c, str) for c in columns):
        return by_columns([codes(name, c, sites, data, size, tables) for c in columns], sites)
    try:
        indptr, indices = (np.asarray(part) for part in given)
        if indptr.dtype.kind not in "iu" or (indices.dtype.kind not in "iu" and indices.size):
            raise TypeError
        indptr, indices = (np.ascontiguousarray(part, dtype=np.int64) for part in (indptr, indices))
    except (TypeError, ValueError):
        raise TypeError(
            f"touches[{name!r}]: give the name of a column of the data that says which site each "
            "datum sees, or a tuple of several, or (indptr, indices), two integer arrays."
        ) from None
    if (
        indptr.shape != (sites + 1,) or indptr[0] != 0 or np.any(np.diff(indptr) < 0)
        or indptr[-1] != len(indices) or np.any((indices < 0) | (indices >= size))
    ):  # fmt: skip
        raise ValueError(
            f"touches[{name!r}]: indptr must be {sites + 1} non-decreasing numbers from 0 to "
            f"len(indices)={len(indices)}, and indices lie in 0 .. {size - 1}."
        )
    site = np.repeat(np.arange(sites), np.diff(indptr))
    if np.any((np.diff(indices) <= 0) & (np.diff(site) == 0)):  # not sorted: look closer
        order = np.lexsort((indices, site))
        twice = np.flatnonzero((np.diff(indices[order]) == 0) & (np.diff(site[order]) == 0))
        if twice.size:
            raise ValueError(
                f"touches[{name!r}]: site {site[order][twice[0]]} lists datum "
                f"{indices[order][twice[0]]} twice: it would count twice."
            )
    return read_only(indptr), read_only(indices)


def codes(name, column: str, sites: int, data, size: int, tables) -> np.ndarray:
    """The site that each datum sees, by a column of the data, checked."""
    told = f"touches[{name!r}]: column {column!r}"
    if column in tables:
        raise ValueError(
            f"{told} is an array of tables=, which stand in no row of the data: give it among the "
            "data, if it says the site of each datum."
        )
    if column not in data._fields:
        near = similar(column, data._fields)
        raise ValueError(f"{told} is none of the data {', '.join(data._fields)}.{near}")
    found = np.asarray(getattr(data, column))
    if found.shape != (size,):
        raise ValueError(f"{told} has shape {found.shape}: it must say one site for each datum.")
    if found.dtype.kind not in "iu":
        raise TypeError(
            f"{told} has dtype {found.dtype}, the value {found[0]!r}: give whole numbers from 0, "
            f"the site of block {name!r} that each datum sees. np.unique(column, "
            "return_inverse=True) makes them of names."
        )
    wrong = np.flatnonzero((found < 0) | (found >= sites))
    if wrong.size:
        raise ValueError(
            f"{told} is {found[wrong[0]]} at datum {wrong[0]}: block {name!r} has sites 0 .. "
            f"{sites - 1}. Count from 0, or give the block one entry for each site."
        )
    return found


def by_columns(columns: list[np.ndarray], sites: int) -> tuple[np.ndarray, np.ndarray]:
    """The same table of the sites that each datum sees; sites without data are legal."""
    size = len(columns[0])
    rows = np.tile(np.arange(size), len(columns))
    site = np.concatenate(columns).astype(np.int64)
    order = np.lexsort((rows, site)) if len(columns) > 1 else np.argsort(site, kind="stable")
    rows, site = rows[order], site[order]
    if len(columns) > 1:  # a datum that sees one site by two columns depends on it once
        kept = np.ones(len(rows), dtype=bool)
        kept[1:] = (np.diff(rows) != 0) | (np.diff(site) != 0)
        rows, site = rows[kept], site[kept]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(site, minlength=sites))])
    return read_only(indptr.astype(np.int64)), read_only(rows)


def add_lengths(found: dict[str, Variable], lengths) -> None:
    """Note which blocks vary in length, and with which discrete one."""
    for name, (by, given) in lengths.items():
        if name not in found or by not in found:
            raise ValueError(f"lengths={lengths}: {name!r} and {by!r} must be blocks of the state.")
        v, ruler, counts = found[name], found[by], np.asarray(given)
        if v.block.discrete or len(v.block.shape) != 1 or v.constraint.together:
            raise ValueError(
                f"lengths[{name!r}]: the block must be a vector of floats, no simplex, not ordered."
            )
        if not ruler.block.discrete or ruler.block.length != 1:
            raise ValueError(f"lengths[{name!r}]: {by!r} must be one integer.")
        if (
            counts.shape != (ruler.support,) or counts.dtype.kind not in "iu"
            or counts.min() < 1 or counts.max() > v.block.length
        ):  # fmt: skip
            raise ValueError(
                f"lengths[{name!r}]={given!r}: give {ruler.support} whole numbers, one for each "
                f"value of {by!r}, from 1 to {v.block.length}."
            )
        counts = counts.astype(np.int64)
        found[name] = replace(v, place=ruler.block.start, lengths=counts)


def draw_discrete(model, ints: np.ndarray, rng) -> None:
    """Any value of every discrete site: two states that differ from a third may be alike."""
    for v in model.variables.values():
        if v.place < 0 and v.block.discrete:
            part = slice(v.block.start, v.block.start + v.block.length)
            ints[part] = rng.integers(0, v.support, size=v.block.length)
