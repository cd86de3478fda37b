"""Sums of sm.Taylor as plain tuples of arrays, in which the file of a model remembers them."""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.polynomial import Sums, Terms
from subsample_mcmc.approx.taylor.remainder import Learnt
from subsample_mcmc.numerics.digest import content
from subsample_mcmc.target.reuse.remembered import found_before, keep_found, key_of

KIND = "sums of sm.Taylor"
WAYS = ("predictors", "jets", "interpolation", "given")  # whose sources keep arrays alone


class KnownSums(NamedTuple):
    """What takes passes over the data."""

    sums: Sums
    outliers: np.ndarray  # rows that are always read
    known: bool  # is there a bound, or an estimate, of residuals
    kept: tuple  # of the source of derivatives


def key_of_sums(control: Any, how: tuple) -> str | None:
    """What sums depend on beside the model. how: derivatives, order, way, references."""
    derivatives, order, way, references = how
    if way not in WAYS:
        return None
    fits = control.fit if isinstance(control.fit, list | tuple) else [control.fit]
    about = [told_of_fit(fit) for fit in fits]
    said = content(derivatives) if derivatives is not None else ""
    return key_of(said, order, way, references, about, control.outliers, bool(control.predict))


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
    sums, outliers, known, kept = found
    points, used, metric, raced, whole, learnt = sums
    made = Sums(points, used, metric, Terms(*raced), Terms(*whole), Learnt(*learnt))
    return KnownSums(made, outliers, known, kept)


def keep_sums(model: Any, control: Any, how: tuple, found: KnownSums) -> None:
    """Let the file of a model remember them."""
    keep_found(model, KIND, key_of_sums(control, how), tuple(found))
