"""Second-order residuals from derivatives that the user writes, datum by datum."""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.taylor.polynomial import residuals_by_reading, value_at
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.target.dyadic import BLOCK, RowBlocks, Tree, blocks_of, in_threads
from subsample_mcmc.target.exact_sums import MASK
from subsample_mcmc.target.lookups.bounds import look_at_part
from subsample_mcmc.target.user_functions import plain

MOST_BLOCKS = 256  # of rows that are read at a time
CHECKED = 4  # data at which derivatives are compared with differences


class GivenSource(NamedTuple):
    """What a user's derivatives are computed with."""

    reference: Any  # a state: the reference point, with the discrete values of the arm in hand
    steps: np.ndarray  # (arms, d) from there
    gradient: np.ndarray
    hessian: np.ndarray


class Given:
    """A source of derivatives: derivatives(state, data, n, gradient, hessian) of the user."""

    needs = "sm.Predictors(..., remainder=...): a likelihood of linear predictors, with a bound"
    constant = False

    def __init__(self, model, derivatives, constant: bool):
        self.model, self.order, self.constant = model, 2, constant
        plain(derivatives, "derivatives", "derivatives(state, data, n, gradient, hessian)")
        if model.prepare is not None:
            raise ValueError("Taylor(derivatives=...) does not go with prepare: leave it out.")
        check_derivatives(model, derivatives)
        look_at_derivatives(model, derivatives)
        self.derivatives = jit(derivatives, flags=FLAGS, user=True, inner=True)

    def known(self) -> bool:
        """No bound is known."""
        return False

    def kept(self) -> tuple:
        """All it needs is in the model."""
        return ()

    def restore(self, kept: tuple) -> None:
        """Nothing to restore."""

    def bind(self, ints, floats, steps) -> tuple[Any, Any]:
        """A gradient, a Hessian, and the state that the reference is."""
        d = len(floats)
        reference = self.model.state(ints, floats)
        return (), GivenSource(reference, steps, np.zeros(d), np.zeros((d, d)))

    @property
    def residuals(self) -> Any:
        """Rewards, from which `reading` subtracts."""
        return residuals_by_reading

    @cached_property
    def reading(self) -> Any:
        """The hot loop: takes h of a mini-batch from rewards."""
        derivatives, constant, likelihood = self.derivatives, self.constant, self.model.compiled[0]

        @jit(flags=FLAGS, inner=True)
        def subtract(reference, data, g, h, steps, rows, out):
            for i in range(len(rows)):
                n = np.int64(rows[i]) & MASK
                clear(g, h)
                derivatives(reference, data, n, g, h)
                out[i] -= value_at(g, h, steps)
                if constant:
                    out[i] -= likelihood(reference, data, n)

        @jit(inner="entry")
        def read(context, source, arm, rows, out):
            g, h, steps = source.gradient, source.hessian, source.steps[arm]
            subtract(source.reference, context.data, g, h, steps, rows, out)
            return 0.0

        return read

    @cached_property
    def reader(self) -> Any:
        """read(...): adds a chunk to the sums of its blocks, each sum's numbers in a row."""
        derivatives, likelihood = self.derivatives, self.model.compiled[0]

        @jit(inner=True)
        def add(state, data, first, weights, g, h, s0, s1, s2):
            for i in range(len(weights)):
                if weights[i] == 0.0:
                    continue
                n = (first + i) & MASK
                clear(g, h)
                derivatives(state, data, n, g, h)
                s0[0] += likelihood(state, data, n)
                for j in range(len(g)):
                    s1[j] += g[j]
                    for k in range(len(g)):
                        s2[j, k] += h[j, k]

        @jit
        def read(state, data, first, weights, g, h, s0, s1, s2, sums):
            d = len(g)
            for block in range(len(sums)):
                s0[0] = 0.0
                clear(s1, s2)
                begin = block * BLOCK
                some = weights[begin : begin + BLOCK]
                add(state, data, first + begin, some, g, h, s0, s1, s2)
                sums[block, 0] = s0[0]
                for j in range(d):
                    sums[block, 1 + j] = s1[j]
                    for k in range(d):
                        sums[block, 1 + d + j * d + k] = s2[j, k]

        return read

    def sums(self, ints, point, keep, bar, table: int = 0) -> Any:
        """(s0, s1, s2, s3) at a reference: one pass over the data."""
        blocks = RowBlocks([(0, self.model.size)])
        _ = self.reader  # compiled before there are threads

        def part(first, last):
            return self.some_sums(ints, point, keep, bar, first, last)

        total = in_threads(part, 0, blocks.count).root(blocks.count)
        d = len(point)
        return float(total[0]), total[1 : 1 + d], total[1 + d :].reshape(d, d), np.zeros((d, 0))

    def some_sums(self, ints, point, keep, bar, first: int, last: int, origin: int = 0) -> Tree:
        """The same sums of some blocks, one after the other, as a part of the tree of all.

        origin: which block of all rows the model's first row begins, where these are its own.
        """
        model, d, read, tree = self.model, len(point), self.reader, Tree()
        state = model.state(np.array(ints), point.copy())
        (g, s1), (h, s2), s0 = np.zeros((2, d)), np.zeros((2, d, d)), np.zeros(1)
        for block, begin, end in RowBlocks([(0, model.size)]).chunks(first, last, MOST_BLOCKS):
            sums = np.zeros((blocks_of(end - begin), 1 + d + d * d))
            read(state, model.data, begin, keep(begin, end), g, h, s0, s1, s2, sums)
            tree.add_blocks(origin + block, sums)
            bar.update(end - begin)
        return tree


@jit(inner=True)
def clear(g, h):
    """Zeros, so that derivatives may leave them out."""
    for j in range(len(g)):
        g[j] = 0.0
        for k in range(len(g)):
            h[j, k] = 0.0


def check_derivatives(model, derivatives) -> None:
    """Refuse derivatives that differ from central differences: which coordinate, both values."""
    floats, d = model.floats.copy(), len(model.floats)
    state = model.state(model.ints, floats)
    called = getattr(derivatives, "py_func", derivatives)

    def gradient(n):
        g, h = np.zeros(d), np.zeros((d, d))
        if called(state, model.data, n, g, h) is not None:
            raise TypeError("derivatives must write into gradient and hessian, and return nothing.")
        return g, h

    for n in np.unique(np.linspace(0, model.size - 1, CHECKED).astype(int)):
        g, h = gradient(n)
        if not np.allclose(h, h.T, rtol=1e-6, atol=1e-12):
            raise ValueError(f"derivatives wrote a Hessian that is not symmetric at datum {n}.")
        second = np.zeros((d, d))
        for j in range(d):
            ends, kept, step = [], floats[j], 1e-5 * max(1.0, abs(floats[j]))
            for sign in (step, -step):
                floats[j] = kept + sign
                value = float(model.log_likelihood(state, model.data, n))
                ends.append((value, gradient(n)[0]))
            floats[j] = kept
            seen = (ends[0][0] - ends[1][0]) / (2.0 * step)
            compare(f"gradient[{j}]", n, g[j], seen, np.abs(g).max())
            second[j] = (ends[0][1] - ends[1][1]) / (2.0 * step)
        for j, k in np.ndindex(d, d):  # once all gradients are right
            compare(f"hessian[{j}, {k}]", n, h[j, k], second[j, k], np.abs(h).max())


def look_at_derivatives(model, derivatives) -> None:
    """Refuse derivatives that look up what is not there, at some datum."""
    d = len(model.floats)
    state = model.state(model.ints, model.floats.copy())
    arguments = (state, model.data, np.int64(0), np.zeros(d), np.zeros((d, d)))
    look_at_part("derivatives", derivatives, arguments, None, model, "")


def compare(what, n, own, seen, size) -> None:
    """Raise if two numbers disagree beyond what differences can tell."""
    allowed = 1e-3 * max(abs(own), abs(seen)) + 1e-5 * (1.0 + size)
    if np.isfinite(seen) and not abs(own - seen) <= allowed:
        raise ValueError(
            f"derivatives says that {what} is {own:.6g} at datum {n} of the initial state; central "
            f"differences say {seen:.6g}. Correct it, or leave it out: interpolation needs none."
        )
