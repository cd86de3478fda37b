"""Derivatives of any likelihood that compiles for jets: numerics/jets.py, one call for each line.

A residual takes the derivatives along its own step, so it costs a few evaluations whatever the
number of parameters. Sums take as many lines as a symmetric tensor has numbers: along e_i,
e_i + e_j, and of third order e_i - e_j and e_i + e_j + e_k, with e_i about a posterior standard
deviation, so that little cancels.
"""

from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.control import read_residuals
from subsample_mcmc.approx.taylor.polynomial import locate
from subsample_mcmc.approx.taylor.references import scales_of
from subsample_mcmc.errors import CompileError
from subsample_mcmc.numerics.jit import DISABLED, FLAGS, NUMBA_ERRORS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.target.rewards import MASK, rewards

CUBIC = 12  # parameters up to which third order is served: 364 lines
MOST = 64  # parameters up to which second order is: 2,080 lines
SPAN = 1 << 12  # rows between two looks at the clock


class JetSource(NamedTuple):
    """What residuals are computed with."""

    reference: Any  # a state of Points, with the discrete values of the arm in hand
    steps: np.ndarray  # (arms, d) from there
    slopes: np.ndarray  # (d,) of the Points


@jit(inner=True)
def jet_residuals(trial, arm, rows, out):
    """l - h of a mini-batch."""
    own = trial.control.arrays
    rewards(trial, arm, rows, out)
    locate(own, trial.ints, own.tables[arm])
    read_residuals(trial, arm, rows, out)


def kind_of_jets() -> Any:
    """The module that knows jets; imported where they are wanted."""
    if DISABLED:
        from subsample_mcmc.numerics import plain_jets

        return plain_jets
    from subsample_mcmc.numerics import jets

    return jets


def on_line(model, ints, floats, slopes) -> Any:
    """The blocks as a user's function reads them, the continuous ones as Points."""
    jets = kind_of_jets()
    values, along = model.state(ints, floats), model.state(ints, slopes)
    parts = []
    for block, value, slope in zip(model.blocks, values, along, strict=True):
        parts.append(value if block.discrete else jets.point(value, slope))
    return model.record(*parts)


@memoised
def coefficients_of(likelihood) -> Any:
    """write(state, data, n, out): value and Taylor coefficients of one datum."""
    jets = kind_of_jets()
    likelihood, coefficients = jets.readable(likelihood), jets.coefficients

    @jit(flags=FLAGS)
    def write(state, data, n, out):
        found = coefficients(likelihood(state, data, n))
        for k in range(len(out)):
            out[k] = found[k]

    return write


@memoised
def summing(likelihood, cubic: bool) -> Any:
    """add(state, data, first, weights, lines, slopes, out): sums of coefficients, by line."""
    jets = kind_of_jets()
    likelihood, coefficients = jets.readable(likelihood), jets.coefficients

    @jit(flags=FLAGS)
    def add(state, data, first, weights, lines, slopes, out):
        for k in range(len(lines)):
            for j in range(len(slopes)):
                slopes[j] = lines[k, j]
            value = one = two = three = 0.0
            for i in range(np.uint64(len(weights))):
                if weights[i] != 0.0:
                    found = coefficients(likelihood(state, data, np.int64(first + i) & MASK))
                    value += found[0]
                    one += found[1]
                    two += found[2]
                    if cubic:
                        three += found[3]
            out[k, 0] += value
            out[k, 1] += one
            out[k, 2] += two
            out[k, 3] += three

    return add


class Asked:
    """The key under which a model keeps why it has no jets."""


JETS = Asked()


def obstacle(model) -> str:
    """Why a model's log likelihood has no derivatives by jets; empty if it has."""
    if JETS not in model.prepared:
        model.prepared[JETS] = found_obstacle(model)
    return model.prepared[JETS]


def found_obstacle(model) -> str:
    """See `obstacle`."""
    d = len(model.floats)
    if model.prepare is not None:
        return "the model has prepare"
    if not 0 < d <= MOST:
        return f"it has {d} continuous parameters, more than {MOST}"
    slopes = np.zeros(d)
    state = on_line(model, model.ints.copy(), model.floats.copy(), slopes)
    try:
        write = coefficients_of(model.compiled[0])
        write(pointer_to(state), model.data, np.int64(0), np.zeros(4))
    except (*NUMBA_ERRORS, CompileError, TypeError, AttributeError) as error:
        return f"log_likelihood does not compile for jets: {last_line(error)}"
    return ""


def last_line(error: Exception) -> str:
    """What numba says is wrong, without how it came there."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if line.startswith(("No implementation", "Unknown", "Cannot"))]
    return (named or lines or ["?"])[0][:200]


def lines_of(d: int, cubic: bool) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(which coordinates, with which signs) of each line."""
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((i,), (1,)) for i in range(d)]
    for pair in combinations(range(d), 2):
        found += [(pair, (1, 1)), (pair, (1, -1))][: 2 if cubic else 1]
    if cubic:
        found += [(three, (1, 1, 1)) for three in combinations(range(d), 3)]
    return found


def tensors(sums: np.ndarray, d: int, cubic: bool) -> tuple[float, Any, Any, Any]:
    """(value, gradient, Hessian, third derivatives) from sums along lines_of(d, cubic)."""
    places = {line: k for k, line in enumerate(lines_of(d, cubic))}
    gradient, hessian, third = sums[:d, 1].copy(), np.diag(2.0 * sums[:d, 2]), np.zeros((d, d, d))
    cube = 6.0 * sums[:, 3]
    for i in range(d):
        third[i, i, i] = cube[i]
    for i, j in combinations(range(d), 2):
        plus = places[(i, j), (1, 1)]
        bent = 0.5 * (2.0 * sums[plus, 2] - hessian[i, i] - hessian[j, j])
        if cubic:
            minus = places[(i, j), (1, -1)]
            bent = 0.5 * (sums[plus, 2] - sums[minus, 2])
            both, apart = cube[plus], cube[minus]  # T(e_i + e_j), T(e_i - e_j)
            put(third, (i, i, j), ((both - apart) / 2.0 - cube[j]) / 3.0)
            put(third, (i, j, j), ((both + apart) / 2.0 - cube[i]) / 3.0)
        hessian[i, j] = hessian[j, i] = bent
    for i, j, k in combinations(range(d), 3) if cubic else ():
        pairs = sum(
            third[a, a, b] + third[a, b, b] for a, b in combinations((i, j, k), 2)
        )  # fmt: skip
        alone = cube[i] + cube[j] + cube[k]
        whole = cube[places[(i, j, k), (1, 1, 1)]]
        put(third, (i, j, k), (whole - alone - 3.0 * pairs) / 6.0)
    return float(sums[0, 0]), gradient, hessian, third


def put(third: np.ndarray, at: tuple[int, int, int], value: float) -> None:
    """Write a number in all places that are the same."""
    i, j, k = at
    for a, b, c in {(i, j, k), (i, k, j), (j, i, k), (j, k, i), (k, i, j), (k, j, i)}:
        third[a, b, c] = value


def by_pairs(third: np.ndarray) -> np.ndarray:
    """Its last two indices as pairs b >= c, those of unlike coordinates twice: Terms.s3."""
    b, c = np.tril_indices(len(third))
    return third[:, b, c] * np.where(b == c, 1.0, 2.0)


class Jets:
    """A source of derivatives: log_likelihood itself, compiled for jets."""

    needs = "sm.Predictors(..., remainder=...): a likelihood of linear predictors, with a bound"
    constant = True

    def __init__(self, model, order: int):
        self.model, self.order = model, order

    def known(self) -> bool:
        """No bound is known of a function that is only evaluated."""
        return False

    def kept(self) -> tuple:
        """All it needs is in the model."""
        return ()

    def restore(self, kept: tuple) -> None:
        """Nothing to restore."""

    def bind(self, ints, floats, steps) -> tuple[Any, Any]:
        """The line of one chain."""
        slopes = np.zeros(len(floats))
        return (), JetSource(on_line(self.model, ints, floats, slopes), steps, slopes)

    @property
    def residuals(self) -> Any:
        """Rewards, from which `reading` subtracts."""
        return jet_residuals

    @cached_property
    def reading(self) -> Any:
        """The hot loop: takes h of a mini-batch from rewards."""
        jets, cubic = kind_of_jets(), self.order > 2
        likelihood, coefficients = jets.readable(self.model.compiled[0]), jets.coefficients

        @jit(flags=FLAGS, inner=True)
        def subtract(reference, data, rows, out):
            for i in range(np.uint64(len(rows))):
                found = coefficients(likelihood(reference, data, np.int64(rows[i]) & MASK))
                h = found[0] + found[1] + found[2]
                if cubic:
                    h += found[3]
                out[i] -= h

        @jit(inner="entry")
        def read(context, source, arm, rows, out):
            for j in range(len(source.slopes)):
                source.slopes[j] = source.steps[arm, j]
            subtract(source.reference, context.data, rows, out)
            return 0.0

        return read

    def sums(self, ints, point, keep, bar, table: int = 0) -> Any:
        """(s0, s1, s2, s3) at a reference: one pass over the data."""
        model, d, cubic = self.model, len(point), self.order > 2
        scales = np.diag(scales_of(model, ints, point))
        lines = np.zeros((len(lines_of(d, cubic)), d))
        for k, (where, signs) in enumerate(lines_of(d, cubic)):
            lines[k, list(where)] = signs
        slopes, found = np.zeros(d), np.zeros((len(lines), 4))
        state = pointer_to(on_line(model, np.array(ints), point.copy(), slopes))
        add = summing(model.compiled[0], cubic)
        for first in range(0, model.size, SPAN):
            last = min(first + SPAN, model.size)
            part = np.zeros_like(found)
            add(state, model.data, first, keep(first, last), lines * scales, slopes, part)
            found += part
            bar.update(last - first)
        if not np.all(np.isfinite(found)):
            raise ValueError(
                f"log_likelihood, or a derivative of it, is not finite at the reference "
                f"{model.show(ints, point)}: choose one in the inside of its support."
            )
        value, gradient, hessian, third = tensors(found, d, cubic)
        gradient, hessian = gradient / scales, hessian / np.outer(scales, scales)
        if not cubic:
            return value, gradient, hessian, np.zeros((d, 0))
        third /= scales[:, None, None] * scales[:, None] * scales
        return value, gradient, hessian, by_pairs(third)
