"""Sums of sm.Taylor as plain tuples of arrays, in which the file of a model remembers them."""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.polynomial import LIMITS, Sums, Terms
from subsample_mcmc.approx.taylor.remainder import Learnt
from subsample_mcmc.numerics.digest import content
from subsample_mcmc.target.dyadic import Node
from subsample_mcmc.target.reuse.nodes import as_tuple, from_tuple
from subsample_mcmc.target.reuse.remembered import found_before, keep_found, key_of

KIND = "sums of sm.Taylor"
VERSION = 2  # of how rows that matter are found: what other versions kept is made anew
WAYS = ("predictors", "jets", "interpolation", "given")  # whose sources keep arrays alone


class KnownSums(NamedTuple):
    """What takes passes over the data."""

    sums: Sums
    outliers: np.ndarray  # rows that are always read
    known: bool  # is there a bound, or an estimate, of residuals
    kept: tuple  # of the source of derivatives
    # What sums over these rows and more go on from, where there is one reference.
    nodes: dict[str, list[Node]] | None = None  # of whole blocks
    inverses: tuple = ()  # of the metric, as bounds over all and over raced rows were made with it
    typical: float | None = None  # root mean square of what scores rows that are raced


def key_of_sums(control: Any, how: tuple) -> str | None:
    """What sums depend on beside the model. how: derivatives, order, way, references."""
    derivatives, order, way, references = how
    if way not in WAYS:
        return None
    fits = control.fit if isinstance(control.fit, list | tuple) else [control.fit]
    about = [told_of_fit(fit) for fit in fits]
    said = content(derivatives) if derivatives is not None else ""
    given = control.outliers, bool(control.predict), LIMITS, VERSION
    return key_of(said, order, way, references, about, *given)


def told_of_fit(fit: Any) -> tuple:
    """What pilots read of a fit; of a point there is nothing but the point."""
    if not hasattr(fit, "factor"):
        return ()
    state = tuple(np.asarray(value) for value in fit.state.values())
    return fit.blocks, fit.mean, fit.factor, state


def known_before(model: Any, control: Any, how: tuple) -> KnownSums | None:
    """What the file of a model remembers."""
    found = found_before(model, KIND, key_of_sums(control, how))
    if found is None:
        return None
    sums, outliers, known, kept, nodes, inverses, typical = found
    points, used, metric, raced, whole, learnt = sums
    made = Sums(points, used, metric, Terms(*raced), Terms(*whole), Learnt(*learnt))
    return KnownSums(made, outliers, known, kept, from_tuple(nodes), inverses, typical)


def keep_sums(model: Any, control: Any, how: tuple, found: KnownSums) -> None:
    """Let the file of a model remember them."""
    value = tuple(found._replace(nodes=as_tuple(found.nodes)))
    keep_found(model, KIND, key_of_sums(control, how), value)
