"""What blocks are called outside a chain: names of their axes, and labels along them.

A chain knows positions alone. Names go with its model into traces, their files, tables and
figures, which say `beta[age]` where they would say `beta[0]`.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from subsample_mcmc.numerics.records import similar

ROWS = "obs"  # the axis of the data: of pointwise log likelihoods
KEPT = "iufUM"  # kinds of labels that files keep as they are; others are kept as text
RESERVED = "chain", "draw"  # axes of every block's draws


@dataclass(frozen=True)
class Axes:
    """Names of blocks' axes, a name for each, and labels along them; both only where given."""

    dims: dict[str, tuple[str, ...]] = field(default_factory=dict)
    coords: dict[str, np.ndarray] = field(default_factory=dict)

    def of(self, block: str, count: int) -> tuple[str, ...]:
        """Names of a block's axes: those given, or else ArviZ's own, `beta_dim_0`."""
        plain = block.replace("/", "|")  # netCDF reserves the slash
        return self.dims.get(block) or tuple(f"{plain}_dim_{i}" for i in range(count))

    def label(self, block: str, site: Iterable[Any]) -> str:
        """A component of a block, as a reader knows it: `beta[age]`, `w[1,2]`, `mu`."""
        site = tuple(int(i) for i in site)
        named = zip(self.of(block, len(site)), site, strict=True)
        parts = [
            shown(self.coords[axis][i]) if axis in self.coords else str(i) for axis, i in named
        ]
        return f"{block}[{','.join(parts)}]" if parts else block

    def at(self, block: Any, j: int) -> str:
        """That of component j of a block, counted along its last axis first."""
        return self.label(block.name, np.unravel_index(j, block.shape) if block.shape else ())

    def used(self, blocks: Iterable[str]) -> dict[str, np.ndarray]:
        """Labels along the axes of some blocks, for xarray."""
        axes = {axis for block in blocks for axis in self.dims.get(block, ())}
        return {axis: in_nanoseconds(v) for axis, v in self.coords.items() if axis in axes}

    def to_json(self) -> dict[str, Any]:
        """Plain lists, for a header."""
        coords = {
            axis: [values.dtype.str, (values.astype(str) if times(values) else values).tolist()]
            for axis, values in self.coords.items()
        }
        return {"dims": {block: list(axes) for block, axes in self.dims.items()}, "coords": coords}

    @classmethod
    def from_json(cls, text: dict[str, Any]) -> "Axes":
        """The inverse of to_json."""
        return cls(
            {block: tuple(axes) for block, axes in text.get("dims", {}).items()},
            {axis: np.array(v, dtype=kind) for axis, (kind, v) in text.get("coords", {}).items()},
        )


def alone(label: str, taken: Container[str]) -> str:
    """A label that none of others has: w[p,q,r] is of two places where labels have commas."""
    while label in taken:
        label += "_"
    return label


def times(values: np.ndarray) -> bool:
    """Are labels points of time."""
    return values.dtype.kind == "M"


def in_nanoseconds(values: np.ndarray) -> np.ndarray:
    """Times as xarray wants them, if they are in the years that 64 bits of nanoseconds hold."""
    if values.dtype.kind != "M":
        return values
    years = values.astype("M8[Y]").astype(int) + 1970
    return values.astype("M8[ns]") if years.min() > 1677 and years.max() < 2262 else values


def shown(value: Any) -> str:
    """One label as text; of a time, no more than tells it."""
    if isinstance(value, np.datetime64) and np.datetime_data(value)[0] not in "YMWD":
        return str(np.datetime_as_string(value, unit="auto"))
    return str(value)


def axes_of(
    coords: Any, dims: Any, blocks: Iterable[Any], size: int, touches: Mapping, categories: Mapping
) -> Axes:
    """What a user gave for a model's blocks and N data, checked; categories: of data, by column."""
    shapes = {block.name: block.shape for block in blocks}
    for given, name in ((coords, "coords"), (dims, "dims")):
        if given is not None and not isinstance(given, Mapping):
            shown = '{"term": ["age", "sex"]}' if name == "coords" else '{"beta": ["term"]}'
            raise TypeError(f"{name}={given!r:.60}: give a dict, such as {name}={shown}.")
    named = {block: axes_of_block(block, axes, shapes) for block, axes in (dims or {}).items()}
    found: dict[str, Any] = {}
    for block, given in touches.items():
        columns = (given,) if isinstance(given, str) else tuple(given)
        known = [categories[c] for c in columns if isinstance(c, str) and c in categories]
        if not known or len(known) < len(columns) or shapes[block][:1] != known[0].shape:
            continue  # places that no category names
        if all(np.array_equal(known[0], other) for other in known):
            axes = Axes().of(block, len(shapes[block]))
            if len(columns) == 1 and is_free(columns[0], len(known[0]), named, shapes):
                axes = columns[0], *axes[1:]
            named.setdefault(block, axes)
            axis = named[block][0]
            other = axis in found and not np.array_equal(found[axis], known[0])
            if other and axis not in (coords or {}):
                raise ValueError(
                    f"dims: axis {axis!r} of block {block!r} has other categories than that of the "
                    "block before: give the axes different names, or the labels, coords={...}."
                )
            found.setdefault(axis, known[0])
    coords = found | dict(coords or {})
    lengths: dict[str, tuple[int, str]] = {ROWS: (size, "the data")}
    for block, axes in named.items():
        for axis, length in zip(axes, shapes[block], strict=True):
            already, by = lengths.setdefault(axis, (length, f"block {block!r}"))
            if already != length:
                raise ValueError(
                    f"dims: axis {axis!r} has {already} places in {by} and {length} in block "
                    f"{block!r}: give axes of different lengths different names."
                )
    labels = {}
    for axis, values in coords.items():
        if axis not in lengths:
            raise ValueError(
                f"coords names {axis!r}, which is no axis of any block: say of which, "
                f'dims={{"beta": [{axis!r}]}}, or {ROWS!r} for the data.{similar(axis, lengths)}'
            )
        labels[axis] = labels_along(axis, values, *lengths[axis])
    return Axes(named, labels)


def is_free(axis: str, length: int, named: Mapping, shapes: Mapping) -> bool:
    """May a column's name be that of an axis, which nobody asked for."""
    if axis in (*RESERVED, *shapes, ROWS) or "/" in axis:
        return False
    taken = [pair for b, axes in named.items() for pair in zip(axes, shapes[b], strict=True)]
    return all(name != axis or count == length for name, count in taken)


def axes_of_block(block: Any, axes: Any, shapes: Mapping) -> tuple[str, ...]:
    """Names of a block's axes, checked."""
    if block not in shapes:
        raise ValueError(
            f"dims names {block!r}, which is no block of {tuple(shapes)}.{similar(block, shapes)}"
        )
    given, shape = (axes,) if isinstance(axes, str) else tuple(axes), shapes[block]
    if len(given) != len(shape):
        raise ValueError(
            f"dims[{block!r}]={axes!r} names {len(given)} axes: block {block!r} has "
            f"{len(shape)}, its shape is {shape}. Give a name for each."
        )
    for axis in given:
        if not isinstance(axis, str) or not axis or "/" in axis:
            raise ValueError(
                f"dims[{block!r}]: {axis!r} cannot name an axis: give a text without a slash."
            )
        if axis in RESERVED or axis in shapes:
            taken = "every block's draws have" if axis in RESERVED else "a block has"
            raise ValueError(f"dims[{block!r}]: {taken} the name {axis!r} already. Give another.")
    if len(set(given)) < len(given):
        raise ValueError(
            f"dims[{block!r}]={axes!r}: each axis needs a name of its own: (i, j) and (j, i) "
            "would be one place."
        )
    return given


def labels_along(axis: str, values: Any, length: int, where: str) -> np.ndarray:
    """Labels of all places along an axis, checked."""
    found = np.asarray(values)
    if isinstance(values, str) or found.shape != (length,):
        raise ValueError(
            f"coords[{axis!r}] has shape {found.shape}: give {length} labels, one for each place "
            f"along this axis of {where}."
        )
    missing = found.dtype.kind in "fM" and bool(np.isnan(found).any())
    if found.dtype.kind not in KEPT or missing:
        if missing or any(value is None or value != value for value in found.tolist()):
            raise ValueError(f"coords[{axis!r}] has missing labels: give one for each place.")
    if found.dtype.kind not in KEPT:
        found = np.array([str(value) for value in found.tolist()])
    first: dict[Any, int] = {}
    for i, one in enumerate(found.tolist()):
        if first.setdefault(one, i) != i:
            raise ValueError(
                f"coords[{axis!r}] has the label {one!r} twice, at {first[one]} and {i}: "
                "nobody could tell these places apart."
            )
    found = found.copy()
    found.flags.writeable = False
    return found
