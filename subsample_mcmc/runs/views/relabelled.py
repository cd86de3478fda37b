"""Draws with the components of each in order: names of components that say the same in all draws.

A model that does not change when its components trade names has a posterior in which they do. What
does not depend on names is the same before and after; what does, such as the mean of mu[0], says
something only after.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from subsample_mcmc.errors import warn
from subsample_mcmc.runs.views.log_likelihoods import check
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.pointwise import Pointwise

ASKED, ROWS = 20, 1000  # draws at which the model is asked, and data
SAME = 1e-8


class Parts:
    """All draws of a trace, to be changed."""

    def __init__(self, trace: Any):
        self.ints, self.floats = (part.copy() for part in trace.flat)
        self.draws = trace.layout.draws(self.ints, self.floats)  # views
        for values in self.draws.values():
            values.flags.writeable = True
        self.thinned = {name: values.copy() for name, values in trace.thinned.items()}

    def of(self, trace: Any, name: str) -> tuple[np.ndarray, int]:
        """The draws of a block, and of how many one is there."""
        if name in self.thinned:
            return self.thinned[name], trace.every(name)
        return self.draws[name], 1


def relabelled(trace: Any, labels: Any, by: Any, blocks: Any, model: Any) -> Parts:
    """See Trace.relabel."""
    name, column = (by, ()) if isinstance(by, str) else (by[0], tuple(by[1:]))
    key = key_of(trace, name, column)
    count, order = key.shape[2], np.argsort(key, axis=2, kind="stable")
    labels = [labels] if isinstance(labels, str) else list(labels or ())
    named = components_of(trace, name, count, blocks, labels)
    if factors := [block for block in named if trace.constant(block)]:
        raise ValueError(
            f"block {factors[0]!r} is a Cholesky factor: its rows in another order are none. "
            "Relabel the others, blocks=, and correlations L L^T of the draws."
        )
    places = np.empty_like(order)  # where each component goes
    np.put_along_axis(places, order, np.broadcast_to(np.arange(count), order.shape), axis=2)
    parts = Parts(trace)
    for block, axes in named.items():
        values, every = parts.of(trace, block)
        kept = order[:, ::every]
        for axis in axes:
            shape = [*kept.shape[:2], *[1] * (values.ndim - 2)]
            shape[2 + axis] = count
            values[...] = np.take_along_axis(values, kept.reshape(shape), axis=2 + axis)
    for block in labels:
        trace.must_have(block)
        values, every = parts.of(trace, block)
        whole = values.dtype.kind in "iu" and block not in named
        if not whole or (values.size and not (values.min() >= 0 and values.max() < count)):
            raise ValueError(
                f"labels={block!r}: its values must be whole numbers below {count}, the components "
                f"of {name}."
            )
        flat = values.reshape(*values.shape[:2], -1)
        flat[...] = np.take_along_axis(places[:, ::every], flat, axis=2)
        values[...] = flat.reshape(values.shape)
    kept = (trace.meta.get("keep") or {}).get("functions", ())
    if still := [name for name in kept if name not in named and name not in labels]:
        warn(
            f"functions of the state that were kept stay as they are: {', '.join(still)}. What "
            "depends on the names of components is that of the old ones: compute it of the "
            "relabelled draws."
        )
    if model is not None:
        check_symmetry(trace, parts, model)
    return parts


def key_of(trace: Any, name: str, column: tuple) -> np.ndarray:
    """What components are sorted by: (chains, draws, components)."""
    trace.must_have(name)
    if name in trace.thinned:
        raise ValueError(
            f"by={name!r}: only every {trace.every(name)}th of its draws was kept, and components "
            "of the others cannot be sorted. Keep it whole, keep={...: True}."
        )
    if trace.in_use(name) is not None:
        raise ValueError(f"by={name!r}: this block varies in length, and so may its components.")
    values = trace.draws[name]
    if values.ndim != 3 + len(column) or values.shape[2] < 2:
        shape = values.shape[2:]
        raise ValueError(
            f"by={(name, *column)!r}: block {name!r} has shape {shape}. Components are the entries "
            f"of its first axis, two or more, and each needs one number: by=({name!r}, 0) takes "
            "column 0 of rows."
        )
    return values[(..., *column)]


def components_of(
    trace: Any, by: str, count: int, blocks: Any, labels: list[str]
) -> dict[str, tuple[int, ...]]:
    """Axes of each block that are the components'; of labels, which change themselves, none."""
    known = {**trace.draws, **trace.thinned}
    known = {n: v for n, v in known.items() if v.ndim > 2 and n not in labels}
    names = {name: trace.axes.of(name, values.ndim - 2) for name, values in known.items()}
    long = {  # which might be
        name: tuple(i for i, length in enumerate(values.shape[2:]) if length == count)
        for name, values in known.items()
    }
    if blocks is not None:
        return asked_for(trace, by, count, blocks, long)
    if by not in trace.axes.dims:
        if others := [n for n in long if long[n] and n != by and n not in trace.axes.dims]:
            raise ValueError(
                f"which other blocks are of the same {count} components: {', '.join(others)}? Say "
                f"so, blocks={tuple(others)!r}, or () for none; or give the model's axes names, "
                f'sm.Model(dims={{"{by}": ["component"], ...}}).'
            )
        return {by: (0,)}
    own = names[by][0]
    found = {n: tuple(i for i, axis in enumerate(names[n]) if axis == own) for n in known}
    for name, axes in found.items():
        if axes and (more := [names[name][i] for i in long[name] if i not in axes]):
            raise ValueError(
                f"block {name!r} has {count} entries along {own!r} and along {', '.join(more)}: "
                f"are these the components, too? Say blocks={{{name!r}: {long[name]}, ...}}, or "
                f"{{{name!r}: {axes}, ...}}."
            )
    return {name: axes for name, axes in found.items() if axes}


def asked_for(trace: Any, by: str, count: int, blocks: Any, long: dict) -> dict:
    """The axes that a user says: the first one of each block, or those of a dict."""
    named = {blocks: (0,)} if isinstance(blocks, str) else blocks
    if not isinstance(named, Mapping):
        named = dict.fromkeys(named, (0,))
    found = {by: (0,)}
    for name, axes in named.items():
        trace.must_have(name)
        found[name] = (axes,) if isinstance(axes, int) else tuple(axes)
        shape = (trace.thinned[name] if name in trace.thinned else trace.draws[name]).shape[2:]
        if not found[name] or not set(found[name]) <= set(long.get(name, ())):
            raise ValueError(
                f"blocks names {name!r}, whose shape is {shape}: its axes "
                f"{found[name]} must be of the {count} components of {by}. Others are named by a "
                f"dict, blocks={{{name!r}: 1}}."
            )
    return found


def check_symmetry(trace: Any, parts: Parts, model: Model) -> None:
    """Refuse a model that is not the same when components trade names, at draws where they did."""
    check(trace, model, "model")
    sums = []
    chains, draws = trace.shape
    pairs = zip(trace.flat, (parts.ints, parts.floats), strict=True)
    changed = np.flatnonzero(np.any([(a != b).any(axis=2) for a, b in pairs], axis=0))
    if not len(changed):  # draws that are the same tell nothing of names
        return
    chosen = changed[np.linspace(0, len(changed) - 1, min(ASKED, len(changed))).astype(int)]
    rows = np.unique(np.linspace(0, model.size - 1, min(ROWS, model.size)).astype(np.int64))
    for ints, floats in (trace.flat, (parts.ints, parts.floats)):
        ints, floats = (part.reshape(chains * draws, -1)[chosen] for part in (ints, floats))
        total = np.zeros(len(chosen))
        if model.log_likelihood is not None:
            out = np.empty((len(chosen), len(rows)))
            Pointwise(model).into(out, ints, floats, rows)
            total += out.sum(axis=1)
        own = model.ints.copy(), model.floats.copy()
        state = model.state(*own)
        for i in range(len(chosen)):
            own[0][:], own[1][:] = ints[i, : len(own[0])], floats[i, : len(own[1])]
            total[i] += 0.0 if model.log_prior is None else model.log_prior(state)
        sums.append(total)
    apart = np.abs(sums[1] - sums[0]) > SAME * (1.0 + np.abs(sums[0]))
    if apart.any():
        i = int(np.argmax(apart))
        raise ValueError(
            f"model={model!r}: the log density goes from {sums[0][i]:.6g} to {sums[1][i]:.6g} as "
            "components trade names, so that these draws would not be of the posterior. A prior "
            "tells components apart, or blocks= or labels= leave something of them out."
        )


def in_words(labels: Any, by: Any, blocks: Sequence[str] | None) -> str:
    """What was done, for a header."""
    return f"labels {labels!r} by {by!r} of blocks {blocks!r}"
