"""What a datum's log likelihoods say of it when it is left out, compiled.

Leaving a datum out weights draws by 1 / likelihood. The largest weights are replaced by the
quantiles of a generalized Pareto distribution that is fitted to them (Vehtari, Simpson, Gelman, Yao
and Gabry 2024); its shape k says how far the result can be relied upon.
"""

from typing import NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import jit

FEWEST = 25  # draws: a tail of five, a fifth of them, is the least that is fitted
EPS = float(np.finfo(float).eps)
LEAST = float(np.log(np.finfo(float).tiny))
PRIOR_B, PRIOR_K = 3.0, 10.0  # of the fit: Zhang and Stephens (2009), and k shrunk towards 0.5


class Tail(NamedTuple):
    """Which weights are the largest ones."""

    length: int  # how many
    strict: bool  # without those that are equal to the next smaller one


class Scratch(NamedTuple):
    """Arrays that the fit of one datum works in."""

    top: np.ndarray  # the largest log weights, and the next one
    at: np.ndarray  # the draws they are of
    tail: np.ndarray  # above the cutoff
    b: np.ndarray  # candidates of the fit
    k: np.ndarray
    weight: np.ndarray


def tail_of(draws: int, efficiency: float, newest: bool) -> Tail:
    """What ArviZ takes for the tail: before version 1, or (newest) from it on.

    efficiency: effective draws of a draw. Markov chains stay where they are, so weights are often
    equal: ArviZ before 1 leaves those out that are equal to the largest one below the tail.
    """
    by_root = 3.0 * (draws / efficiency) ** 0.5
    if newest:
        long = draws * efficiency > 225
        return Tail(int(min(by_root if long else draws // 5, draws - 1)), False)
    return Tail(int(np.ceil(min(draws / 5.0, by_root))), True)


def scratch_of(tail: Tail) -> Scratch:
    """Room for tails of a length."""
    points = 30 + int(tail.length**0.5)
    return Scratch(
        np.empty(tail.length + 1), np.empty(tail.length + 1, dtype=np.int64),
        np.empty(tail.length), np.empty(points), np.empty(points), np.empty(points),
    )  # fmt: skip


@jit(inner=True)
def sink(top, at, i, size):
    """Put entry i of a heap, whose smallest entry is the first, where it belongs."""
    value, place = top[i], at[i]
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and top[child + 1] < top[child]:
            child += 1
        if top[child] >= value:
            break
        top[i], at[i] = top[child], at[child]
        i = child
    top[i], at[i] = value, place


@jit(inner=True)
def largest(values, low, top, at):
    """The largest of low - values, in falling order, and where they stand."""
    size = len(top)
    for i in range(size):
        top[i], at[i] = low - values[i], i
    for i in range(size // 2 - 1, -1, -1):
        sink(top, at, i, size)
    for i in range(size, len(values)):
        if low - values[i] > top[0]:
            top[0], at[0] = low - values[i], i
            sink(top, at, 0, size)
    for last in range(size - 1, 0, -1):  # the smallest goes to the end
        top[0], top[last] = top[last], top[0]
        at[0], at[last] = at[last], at[0]
        sink(top, at, 0, last)


@jit(inner=True)
def fitted(tail, count, b, k, weight):
    """Shape and scale of a generalized Pareto distribution: Zhang and Stephens (2009).

    tail: numbers above 0, rising.
    """
    points = 30 + int(np.sqrt(count))
    quartile, most = tail[int(count / 4 + 0.5) - 1], -np.inf
    for j in range(points):
        b[j] = (1.0 - np.sqrt(points / (j + 0.5))) / (PRIOR_B * quartile) + 1.0 / tail[count - 1]
        total = 0.0
        for i in range(count):
            total += np.log1p(-b[j] * tail[i])
        k[j] = total / count
        weight[j] = count * (np.log(-(b[j] / k[j])) - k[j] - 1.0)
        most = max(most, weight[j])
    total = 0.0
    for j in range(points):
        weight[j] = np.exp(weight[j] - most)
        total += weight[j]
    kept = mean = 0.0
    for j in range(points):
        if weight[j] / total >= 10.0 * EPS:
            kept += weight[j]
            mean += weight[j] * b[j]
    mean /= kept
    shape = 0.0
    for i in range(count):
        shape += np.log1p(-mean * tail[i])
    shape /= count
    return (count * shape + PRIOR_K * 0.5) / (count + PRIOR_K), -shape / mean


@jit
def leave_out(values, tail, scratch, out):
    """Of each datum, whose log likelihoods are a row of values: three numbers, into a row of out.

    They are its log predictive density when it is left out, the same when it is not, and k, which
    is infinite where there is nothing to fit.
    """
    draws = values.shape[1]
    top, at, above = scratch.top, scratch.at, scratch.tail
    for n in range(len(values)):
        row = values[n]
        low, high = np.inf, -np.inf
        for s in range(draws):
            low, high = min(low, row[s]), max(high, row[s])
        largest(row, low, top, at)
        cut, count = top[tail.length], tail.length
        if tail.strict:
            cut = max(cut, LEAST)
            while count > 0 and top[count - 1] <= cut:
                count -= 1
        k, scale, edge = np.inf, np.nan, np.exp(cut)
        # Ties may leave a tail that is no Pareto distribution, nor anything like it.
        if count > 4 and top[0] - top[count - 1] > 0.0:
            for i in range(count):
                above[i] = np.exp(top[count - 1 - i]) - edge
            quartile = above[int(count / 4 + 0.5) - 1]
            if quartile > 0.0 and (tail.strict or quartile > above[0]):
                k, scale = fitted(above, count, scratch.b, scratch.k, scratch.weight)
        smooth = np.isfinite(k) and scale > 0.0
        if not smooth:
            k = np.inf
        weights, below, whole = 0.0, 0, 0.0
        for s in range(draws):
            whole += np.exp(row[s] - high)
            if low - row[s] < cut:
                weights += np.exp(low - row[s])
                below += 1
        weights += (draws - below - count) * edge
        left = 1.0 * (draws - count)  # weight times likelihood is the same of all others
        for i in range(count):  # from the smallest
            log_weight = top[count - 1 - i]
            if smooth:
                tail_share = np.log1p(-(i + 0.5) / count)
                reached = -tail_share if abs(k) < EPS else np.expm1(-k * tail_share) / k
                log_weight = min(np.log(reached * scale + edge), 0.0)
            weights += np.exp(log_weight)
            left += np.exp(log_weight + (row[at[count - 1 - i]] - low))
        out[n, 0] = low + np.log(left) - np.log(weights)
        out[n, 1] = high + np.log(whole) - np.log(draws)
        out[n, 2] = k
