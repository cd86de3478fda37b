"""The zig-zag process with control variates (Bierkens, Fearnhead & Roberts 2019), compiled.

U = -log posterior. Coordinate i flips at rate sum_n [v_i (d_i U_n(z) - d_i U_n(0))]^+ plus that of
the prior and the sums at the mode; summands are at most B |a_ni| |a_n| |z|, B the
most of |l_n''|. Points of a process of rate B sum_n |a_n|_1 |a_n| (|z| + sqrt(d) t) pick row n by
|a_n|_1 |a_n| from an alias table (rows by importance: the best setting known), coordinate i by
|a_ni|, and flip it with the ratio of both rates.
"""

from math import log, sqrt

import numba
import numpy as np

from subsample_mcmc.approx.row_weights import alias_table
from tests.benchmarks.peers.families import MOST, slope
from tests.benchmarks.peers.targets import Target
from tests.benchmarks.peers.walks import drawn_row


@numba.njit
def waiting(rng, start, growth):
    """Time to the first point of rate start + growth t."""
    e = -log(1.0 - rng.random())
    if growth <= 0.0:
        return e / max(start, 1e-300)
    return (sqrt(start * start + 2.0 * growth * e) - start) / growth


@numba.njit
def zigzag(target, tables, times, gap, rng):
    """(states every `gap`, rows read, flips), from the mode."""
    keep, other, ones, norms, whole, stiff = tables
    d, rows, flips = len(target.mode), 0, 0
    family, most = target.family, MOST[target.family, 1]
    z, v, chain = np.zeros(d), np.ones(d), np.zeros((times, d))
    constant = target.push - target.slope  # d U at the mode, but for rounding 0
    for i in range(d):
        v[i] = 1.0 if rng.random() < 0.5 else -1.0
    now, root, steady = 0.0, sqrt(d), np.sum(np.abs(constant))
    made = 0
    while made < times:
        size = sqrt(z @ z)
        base = whole + stiff  # of rows, and of the prior
        wait = waiting(rng, base * size + steady, base * root)
        while made < times and (made + 1) * gap <= now + wait:
            chain[made] = z + v * ((made + 1) * gap - now)
            made += 1
        bound = base * (size + root * wait) + steady
        z, now = z + v * wait, now + wait
        pick = rng.random() * bound
        reach = size + root * wait
        if pick < whole * reach:
            n = drawn_row(rng, keep, other)
            u, i = rng.random() * ones[n], 0
            while i < d - 1 and u > abs(target.design[n, i]):
                u -= abs(target.design[n, i])
                i += 1
            a = target.design[n, i]
            step = 0.0
            for j in range(d):
                step += target.design[n, j] * z[j]
            eta = target.etas[n]
            change = slope(family, target.y[n], eta) - slope(family, target.y[n], eta + step)
            rows += 1
            if rng.random() * most * norms[n] * reach < v[i] * np.sign(a) * change:
                v[i], flips = -v[i], flips + 1
        else:  # the prior's, and what is left of sums at the mode: coordinate by coordinate
            rate = target.pull @ z + constant
            u = rng.random() * (stiff * reach + steady)
            for i in range(d):
                u -= max(v[i] * rate[i], 0.0)
                if u < 0.0:
                    v[i], flips = -v[i], flips + 1
                    break
    return chain, rows, flips


def tables_of(target: Target) -> tuple:
    """An alias table on rows, their lengths, and what rates add up to."""
    ones = np.abs(target.design).sum(axis=1)
    norms = np.sqrt(np.einsum("ij,ij->i", target.design, target.design))
    weights = MOST[target.family, 1] * ones * norms
    # |sum_i of rates of the prior| <= |pull z|_1 <= sqrt(d) |pull| |z|
    stiff = float(np.sqrt(len(target.mode)) * np.linalg.norm(target.pull, 2))
    return *alias_table(weights), ones, norms, float(weights.sum()), stiff


def zigzagger(target: Target):
    """run(times, gap, seed)."""
    tables = tables_of(target)

    def run(times: int, gap: float, seed: int):
        return zigzag(target, tables, times, gap, np.random.default_rng(seed))

    return run
