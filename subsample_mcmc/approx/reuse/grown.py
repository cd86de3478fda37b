"""sm.Taylor of a model to which rows were appended: only these are read.

The reference stays, and so does the metric, by which remainders are bounded. So what is known of
whole blocks of 256 rows stays, too, and what all rows give is known from it and the rows behind.
The posterior has moved: by the polynomials and the prior, without a row, its mode is found.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.elsewhere.row_scores import PIECE, typical_of
from subsample_mcmc.approx.fit.coordinates import Coordinates
from subsample_mcmc.approx.fit.fit import Fit
from subsample_mcmc.approx.fit.kinks import ROUGH, searched, warn_of_kinks
from subsample_mcmc.approx.fit.laplace import FAILURES, Expanded, finished, laplace
from subsample_mcmc.approx.fit.newton import begin, climb
from subsample_mcmc.approx.reuse.known_sums import KnownSums
from subsample_mcmc.approx.taylor.influence import loud, room_for_scores
from subsample_mcmc.approx.taylor.pilot import Probes, is_about
from subsample_mcmc.approx.taylor.polynomial import Sums
from subsample_mcmc.approx.taylor.predictor_chunks import Keep
from subsample_mcmc.approx.taylor.references import configuration
from subsample_mcmc.approx.taylor.remainder import nothing
from subsample_mcmc.approx.taylor.taylor import PATIENT, Expansion, Taylor, best_source
from subsample_mcmc.errors import warn
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.target.model import must_be_model
from subsample_mcmc.target.reuse.append import new_rows
from subsample_mcmc.target.reuse.nodes import WholeNodes

# A mode off the reference may make so much of what polynomials leave over at typical draws.
GROWTH = 4.0
TOLERANCE = 1e-4  # standard deviations
NO_ROWS = np.zeros(0, dtype=np.int64)


def grown(control: Taylor, model: Any) -> Taylor:
    """See Taylor.append."""
    older = smaller_of(control, model)
    older.notice_changes()  # sums of data as they were are forgotten
    if name := changed_since(older, model):
        return anew(
            control, model,
            f"data {name} of the first rows were changed after the others were appended",
        )  # fmt: skip
    before: Any = prepared_for(older, control)
    if why := obstacle(control, before):
        return anew(control, model, f"sums of {control!r} cannot be added to, for {why}")
    how, strides = before.how, before.strides
    source = best_source(model, *how)
    source.restore(before.kept)
    source.nodes = WholeNodes(model.size, before.nodes)
    whole, raced = before.inverses
    sums = control.add_up(
        model, source, before.references, strides, NO_ROWS, before.sums, inverse=whole
    )
    sums = sums._replace(whole=sums.raced, learnt=nothing(1, len(model.floats)))
    try:
        fit, far = fit_by_sums(control.fit, model, source, before, sums)
    except FAILURES:
        return anew(control, model, "by the sums around the old mode no other is found")
    order, d = how[1], len(fit.mean)
    most = (d * (GROWTH ** (2.0 / (order + 1)) - 1.0)) ** 0.5
    if far > most:
        return anew(
            control, model, f"with the appended rows the mode is {far:.3g} posterior standard "
            f"deviations from the reference, and order {order} reaches {most:.3g}",
        )  # fmt: skip
    outliers, typical = rows_always_read(control, model, before, sums, fit)
    if len(outliers):
        if not len(before.outliers):
            go_on_from_all(source.nodes)
        sums = control.add_up(
            model, source, before.references, strides, outliers, sums, inverse=raced
        )
    found = replace(control, fit=fit, order=order)
    known = found.look(Probes(model, source, strides, [fit]), sums, outliers)
    nodes, source.nodes = source.nodes.kept(), None
    learnt = KnownSums(sums, outliers, known, source.kept(), nodes, (whole, raced), typical)
    if model.noticed is None:
        model.notice_changes()
    model.prepared[found] = Expansion(model, how, source, strides, learnt, before.way[1])
    return found


def smaller_of(control: Taylor, model: Any) -> Any:
    """The model that the control variate is of."""
    must_be_model(model, "control.append(model)")
    if not isinstance(control.fit, Fit):
        raise TypeError(
            f"append goes on from sm.Taylor(fit) of fit = sm.laplace(model), and this one is of "
            f"{type(control.fit).__name__}: make one of a fit, or make it anew for all rows."
        )
    older = None if model.grown is None else model.grown.smaller()
    if older is not control.fit.model:
        raise ValueError(
            f"{model!r} is not what model.append(rows) returned of the model of this fit, "
            f"{control.fit.model!r}: append the rows to that model, and then here."
        )
    return older


def changed_since(older: Any, model: Any) -> str:
    """A column of data that were changed in place since rows were appended; empty if none is.

    Rows elsewhere are compared wherever they are read.
    """
    for name, value in (older.data._asdict() if older.elsewhere is None else {}).items():
        if not np.ndim(value) or name in older.tables:
            continue
        same = getattr(model.data, name)[: older.size]
        if not np.array_equal(same, value, equal_nan=np.asarray(value).dtype.kind == "f"):
            return name
    return ""


def obstacle(control: Taylor, before: Expansion) -> str:
    """Why sums cannot be added to; empty if they can."""
    if len(before.sums.points) > 1:
        return "the discrete blocks have several configurations"
    if before.nodes is None:
        return f"those by {before.way[0]} are made of all rows together, or are too many to keep"
    if not isinstance(control.outliers, str) and control.outliers:
        return "a share of the rows is looked for among all of them"
    ints = configuration(before.strides, 0)
    if not is_about(before.model, control.fit, ints, before.strides):
        return "the fit is not of all continuous blocks"
    return ""


def anew(control: Taylor, model: Any, why: str) -> Taylor:
    """The same around a mode that is found by passes over all rows."""
    warn(f"{why}: the fit is made anew, and sums around it, by passes over all rows.")
    fit = control.fit
    return replace(control, fit=laplace(model, fit.blocks, given=fit.state))


class Polynomials:
    """Derivatives of a sum of polynomials, in the place of a source that reads rows."""

    def __init__(self, point: np.ndarray, s0: float, s1, s2, s3):
        self.point, self.s0, self.s1, self.s2 = point, s0, s1, s2
        d = len(point)
        self.third = np.zeros((d, d, d))
        if s3.size:  # of unlike coordinates both products, as one
            b, c = np.tril_indices(d)
            self.third[:, b, c] = np.where(b == c, s3, 0.5 * s3)
            self.third[:, c, b] = self.third[:, b, c]

    def sums(self, ints, point, keep, bar) -> tuple:
        """(s0, s1, s2) at a point nearby."""
        step = point - self.point
        turn = self.third @ step
        value = self.s0 + self.s1 @ step + step @ self.s2 @ step / 2.0 + step @ turn @ step / 6.0
        return value, self.s1 + self.s2 @ step + turn @ step / 2.0, self.s2 + turn, None


class BySums(Expanded):
    """A log density by polynomials, and the prior."""

    def __init__(self, coordinates: Coordinates, source: Polynomials, bar: Any):
        self.coordinates, self.source, self.bar = coordinates, source, bar
        self.passes, self.weight = 0, 1.0


def fit_by_sums(fit: Fit, model: Any, source: Any, before: Expansion, sums: Sums) -> tuple:
    """(the Gaussian at the mode that the sums have, how far that is from the reference).

    The distance is in posterior standard deviations. Where polynomials are around stays its point.
    """
    point, known = before.references[0], sums.whole
    ints = configuration(before.strides, 0)
    if source.constant:
        value = float(known.s0[0])
    else:  # the sum at the reference is none of a control variate's: it has been made
        value = float(source.sums(ints, point, Keep(NO_ROWS), Bar(disable=True))[0])
    third = known.s3[0] if known.s3.size else known.s3
    co = Coordinates(model, fit.blocks, fit.state)
    with np.errstate(all="ignore"), Bar(desc="append", progress=False, delay=PATIENT) as bar:
        about = Polynomials(point, value, known.s1[0], known.s2[0], third)

        def once(kinks: np.ndarray, tried: list) -> tuple:
            tried.append(likelihood := BySums(co, about, bar))
            likelihood.kinks = kinks
            near = ROUGH if kinks.any() else TOLERANCE
            return (climb(likelihood, begin(likelihood, co.free(co.floats)), near),)

        ((now, move, gain),), near = searched(once, co)
    warn_of_kinks(near, co.labels)
    made = finished(co, (now.value + gain,), 0, now, move, gain)
    away = made.mean - co.free(point)
    return replace(made, point=point.copy()), float(np.sqrt(away @ now.curvature @ away))


def rows_always_read(
    control: Taylor, model: Any, before: Expansion, sums: Sums, fit: Fit
) -> tuple[np.ndarray, float | None]:
    """(those of before, and new rows that are as loud, root mean square of the others' scores)."""
    typical, first = before.typical, model.grown.rows
    if typical is None:
        return before.outliers, None
    tail = new_rows(model)
    source = best_source(tail, *before.how)
    source.restore(before.kept)
    own = np.zeros(tail.size, dtype=np.float32)
    ints, point = configuration(before.strides, 0), sums.points[0]
    if source.known():
        bar = Bar(total=tail.size, desc="rows that matter", unit="row", delay=PATIENT)
        with bar:
            source.remainders(ints, point, Keep(NO_ROWS), bar, before.inverses[0], own)
    else:
        control.score(Probes(tail, source, before.strides, [fit]), sums, own)
    scores = room_for_scores(model, 1)
    for start in range(0, model.size, PIECE):
        some = slice(start, min(start + PIECE, model.size))
        each = np.full(some.stop - start, typical, dtype=np.float32)
        low, high = np.searchsorted(before.outliers, (start, some.stop))
        each[before.outliers[low:high] - start] = 0.0
        if some.stop > first:
            each[max(first - start, 0) :] = own[max(start - first, 0) : some.stop - first]
        scores[some] = each
    found = loud(scores)
    outliers = np.union1d(before.outliers, found[found >= first])
    return outliers, typical_of(scores, outliers)


def go_on_from_all(nodes: WholeNodes) -> None:
    """Rows that are always read are all new: before them, those that are raced are all."""
    for name, some in list(nodes.before.items()):
        if name in ("axes", "lines"):  # of the few, there is nothing yet
            few = [(level, index, np.zeros_like(value)) for level, index, value in some]
            nodes.before[f"{name}, few"] = few
        else:
            nodes.before[f"{name}, raced"] = some
