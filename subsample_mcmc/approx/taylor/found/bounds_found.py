"""Bounds of all rows' remainders around the references of a model, or why there are none.

They hold within a distance, of a few standard deviations more than states usually are from the
reference. Where they add up to so much that decisions would read everything anyway, there are none.

Beyond it, where heavy tails of a proposal lead, so many times these bounds hold up to another
distance: of some, the one by which decisions need not read everything farthest. So what is kept of
a row is one number, and rows are drawn by it near and far alike; the number of times is that of the
row whose bounds differ most, but for rows that differ far more than others, whose bounds nearby are
raised instead. Beyond that distance nothing is known, and decisions read what they need.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.row_weights import rounded_up
from subsample_mcmc.approx.taylor.derivatives_jets import on_lines, told
from subsample_mcmc.approx.taylor.found.row_bounds import MOST as MOST_PREDICTORS
from subsample_mcmc.approx.taylor.found.row_bounds import RowBounds
from subsample_mcmc.approx.taylor.found.undecided import undecided_line
from subsample_mcmc.approx.taylor.polynomial import metric_of
from subsample_mcmc.approx.taylor.references import used_of
from subsample_mcmc.errors import CompileError
from subsample_mcmc.numerics.jit import NUMBA_ERRORS
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.target.data import datum_of
from subsample_mcmc.target.dyadic import BLOCK, each_part
from subsample_mcmc.target.lookups.reads import handles_exceptions

FARTHER = (4.0, 2.0, 1.0)  # standard deviations beyond the usual distance, sqrt(d), one by one
BATCH = 512  # rows at a time
MOST = 1 << 26  # rows, times references
SHARE = 0.05  # nats a row at the usual distance: at more, decisions would read everything
# Farther out: distances in units of the first, one of which is taken; rows that are looked at
# beforehand; rows differ so many times at least before some are raised, and all these by no more
# than this part of what all come to.
FAR = (64.0, 32.0, 16.0, 8.0, 4.0, 2.0)
SAMPLE, UNLIKE, RAISED = 64, 1e3, 0.05


class FarBounds(NamedTuple):
    """Of one reference, farther out."""

    reach: float  # the distance up to which they hold; 0: there are none
    times: float  # the bounds nearby
    value: float  # the largest log likelihood of a row, in size


NOT_FAR = FarBounds(0.0, 0.0, 0.0)


class OwnBounds(NamedTuple):
    """Of one reference."""

    rows: np.ndarray  # (N,) of the derivative of the order above, along directions of length 1
    reach: float  # the distance up to which they hold
    several: bool  # has a row several predictors
    value: float  # the largest log likelihood of a row, in size
    far: FarBounds = NOT_FAR


class Bounds(NamedTuple):
    """Of a model."""

    why: str  # why there are none; else empty
    each: dict  # by reference

    def of(self, ints, point) -> OwnBounds:
        """Those around one reference."""
        return self.each[key_of(ints, point)]


class NoBoundError(Exception):
    """A row that has none; the message says which."""


def key_of(ints, point) -> tuple[bytes, bytes]:
    """A reference, as a key."""
    return np.asarray(ints, dtype=np.int64).tobytes(), np.asarray(point, dtype=float).tobytes()


def bounds_of(source, references, configured: Any, bar) -> Bounds:
    """Bounds around all references of a source whose sums are made."""
    model, each = source.model, {}
    if len(references) * model.size > MOST:
        return Bounds(f"bounds of {len(references)} configurations would not fit in memory", {})
    if handles_exceptions(model.log_likelihood):  # by one a comparison says that it is undecided
        return Bounds("log_likelihood catches exceptions", {})
    try:
        for table, point in enumerate(references):
            ints = configured(table)
            if used_of(model, ints) < len(point):
                return Bounds("not all parameters are there in each configuration", {})
            each[key_of(ints, point)] = around(source, ints, point, table, bar)
    except NoBoundError as error:
        return Bounds(str(error), {})
    except (CompileError, *NUMBA_ERRORS) as error:
        return Bounds(f"log_likelihood does not compile for intervals: {told(error)}", {})
    except (AttributeError, TypeError, IndexError) as error:
        return Bounds(f"of log_likelihood there are none: {str(error)[:200]}", {})
    return Bounds("", each)


def around(source, ints, point, table: int, bar) -> OwnBounds:
    """Around one reference: within the largest distance at which all rows have some of use."""
    d, loose = len(point), ""
    inverse, reach, bad = metric_of(-source.full[table][2])[1], 0.0, -1
    for far in FARTHER:
        reach = d**0.5 + far
        rows, most, value, bad = all_rows(source, ints, point, inverse, reach)
        if most > MOST_PREDICTORS:
            raise NoBoundError(
                f"a row sees the parameters through {most} predictors: there are bounds for at "
                f"most {MOST_PREDICTORS}"
            )
        if bad < 0:
            usual = nats(source, rows, d**0.5)
            if usual > SHARE * source.model.size:  # nearer by they may be far smaller
                loose = (
                    f"they add up to {usual:.3g} nats where states usually are: decisions would "
                    "read everything"
                )
                continue
            bar.update(source.model.size)
            near = OwnBounds(rounded_up(rows), reach, most > 1, value)
            if far == FARTHER[0]:  # else they are of no use even a little farther out
                near = far_out(source, ints, point, inverse, near)
            bar.update(source.model.size)
            return near
    raise NoBoundError(loose or why_not(source, ints, point, inverse, reach, bad))


def nats(source, rows: np.ndarray, distance: float) -> float:
    """What bounds of remainders add up to at a distance."""
    times = 24.0 if source.order > 2 else 6.0
    return float(rows.sum(dtype=float)) * distance ** (source.order + 1) / times


def far_out(source, ints, point, inverse, near: OwnBounds) -> OwnBounds:
    """With bounds farther out, where some are of use: those that some rows promise most of."""
    own = RowBounds(source.model, on_words, ints, point, inverse, source.order, 1)
    some, found = np.unique(np.linspace(0, source.model.size - 1, SAMPLE).astype(int)), []
    for reach in (times * near.reach for times in FAR):
        with np.errstate(all="ignore"):
            few = np.array([own.bounds(int(n), np.ones(1), reach, True)[0, 0] for n in some])
        found.append((useful(source, near, reach, alike(near.rows[some], few)[1]), reach))
    for promised, reach in sorted(found, reverse=True):
        if promised > near.reach:
            rows, _, value, bad = all_rows(source, ints, point, inverse, reach, True)
            raised, times = alike(near.rows, rows)
            if bad < 0 and useful(source, near, reach, times) > near.reach:
                return near._replace(rows=raised, far=FarBounds(reach, times, value))
    return near


def useful(source, near: OwnBounds, reach: float, times: float) -> float:
    """The distance up to which decisions do not read everything, by so many times the bounds."""
    begins = nats(source, near.rows, near.reach) * times
    if not 0.0 < begins < np.inf:
        return reach if begins == 0.0 else 0.0
    most = near.reach * (SHARE * source.model.size / begins) ** (1.0 / (source.order + 1))
    return min(reach, most)


def alike(near: np.ndarray, far: np.ndarray) -> tuple[np.ndarray, float]:
    """(bounds nearby of which so many times are those farther out, how many times)."""
    near = near.astype(float)
    with np.errstate(all="ignore"):
        most = max(UNLIKE, far.sum() / (RAISED * near.sum()))
        raised = rounded_up(np.where(far > most * near, far / most, near))
        times = np.divide(far, raised, out=np.zeros(len(far)), where=far > 0.0).max()
    return raised, float(times) * (1.0 + 1e-9)


def why_not(source, ints, point, inverse, reach: float, row: int) -> str:
    """Why a row has no bound up to a distance."""
    model = source.model
    own = RowBounds(model, on_words, ints, point, inverse, source.order, 1)
    with np.errstate(all="ignore"):
        own.bounds(row, np.ones(1), reach)
    at, far = f"at datum {row}{datum_of(model.data, row, model.size)}", f"{reach:.1f}"
    if not own.raised:
        return (
            f"{at} a derivative is not bounded up to {far} from the reference (a square is known "
            "as one where it is written z ** 2, or z * z of one name)"
        )
    if not own.raised.startswith(("ArithmeticError", "UndecidedError")):
        return f"{at} log_likelihood raises {own.raised}, up to {far} from the reference"
    line = undecided_line(model, ints, point, own.words, row)
    which = f"the comparison in {line}" if line else "a comparison"
    return f"{at} {which} is not the same everywhere up to {far} from the reference"


def on_words(model, ints, floats, words):
    """The state of a row's intervals."""
    return pointer_to(on_lines(model, ints, floats, words))


def all_rows(
    source, ints, point, inverse, reach: float, fewer: bool = False
) -> tuple[np.ndarray, int, float, int]:
    """(bounds, the most predictors of a row, the largest value, a row without bound or -1)."""
    model, rows = source.model, np.zeros(source.model.size)

    def part(first, last):
        own = RowBounds(model, on_words, ints, point, inverse, source.order, BATCH)
        most, value = 0, 0.0
        for _, begin, end in source.blocks.chunks(first, last, BATCH // BLOCK):
            with np.errstate(all="ignore"):
                found = own.bounds(begin, np.ones(end - begin), reach, fewer)
            rows[begin:end] = found[0]
            most, value = max(most, int(found[2].max())), max(value, float(found[1].max()))
            wrong = np.flatnonzero(~(found[0] < np.inf))
            if len(wrong):
                return most, value, begin + int(wrong[0])
        return most, value, -1

    parts = list(each_part(part, 0, source.blocks.count))
    bad = [row for _, _, row in parts if row >= 0]
    largest = max(value for _, value, _ in parts)
    return rows, max(most for most, _, _ in parts), largest, min(bad, default=-1)
