"""Random walks whose exact tests draw few rows: MH-SS, SMH and TunaMH, compiled.

With r_n the difference of row n's residuals between proposal z' and state z under a polynomial of
order k (0: none, 1, 2), Delta the difference of the polynomials' sums and the prior, and
|r_n| <= c_n M(z, z'), all three draw rows by c_n from a Poisson process of rate M sum(c):

    order 0  c_n = B1 |a_n|        M = |s|                                      s = z' - z
    order 1  c_n = B2 |a_n|^2      M = |s| max over z, z' of |z| (1 + w) / 2
    order 2  c_n = B3 |a_n|^3 / 2  M = |s| (|z|^2 E(w) + |z'|^2 E(w')) / 2

B the most that derivatives of the log likelihood by its predictor come to (families.MOST). w is
|cos| of the angle between s and z (or z'): no unit vector a has |a.s| |a.z| beyond
|s| |z| (1 + w) / 2, which is convex along the segment; |a.s| (a.z)^2 is at most |s| |z|^2 E(w), and
the mean of (a.z_t)^2 over the segment at most that of its ends. (Both as in the MH-SS paper.)

MH-SS (Prado, Nemeth & Sherlock 2024, orders 1 and 2): delayed acceptance, first by Delta, then with
counts s_n ~ Poisson(phi_n), phi_n = c_n M + min(0, -r_n), by the product of (phi'_n / phi_n)^s_n.
SMH (Cornish et al. 2019, orders 1 and 2): accept by Delta, and each drawn row rejects with
probability max(-r_n, 0) / (c_n M).
TunaMH (Zhang, Cooper & De Sa 2020, order 0): s_n ~ Poisson(lambda c_n / C + (c_n M - r_n) / 2),
lambda = chi (C M)^2, one test.
Where a rate exceeds N all of them read everything, as their authors' code does.
"""

from math import log, sqrt

import numba
import numpy as np

from subsample_mcmc.approx.row_weights import alias_table
from tests.benchmarks.peers.families import MOST, bend, log_factor, slope, sum_of_rows
from tests.benchmarks.peers.targets import Target

MH_SS, SMH, TUNA, EXACT = range(4)
WALKS = {  # form, order
    "MH-SS-1": (MH_SS, 1), "MH-SS-2": (MH_SS, 2), "SMH-1": (SMH, 1), "SMH-2": (SMH, 2),
    "TunaMH": (TUNA, 0), "random walk": (EXACT, 0),
}  # fmt: skip
KAPPAS = (0.1, 0.3, 0.7, 1.5, 2.4)  # of steps kappa / sqrt(d) in posterior sds: the best is taken
CHI = 0.1  # TunaMH's lambda, on average


def weights_of(target: Target, order: int) -> np.ndarray:
    """c_n."""
    norms = np.sqrt(np.einsum("ij,ij->i", target.design, target.design))
    return MOST[target.family, order] * norms ** (order + 1) / max(order, 1)


def table_of(target: Target, order: int) -> tuple:
    """c_n, an alias table on them, and their sum."""
    weights = weights_of(target, order)
    return weights, *alias_table(weights), weights.sum()


@numba.njit
def residual(target, n, z, order):
    """l_n less its polynomial, at z."""
    step = 0.0
    for j in range(len(z)):
        step += target.design[n, j] * z[j]
    family, y, eta = target.family, target.y[n], target.etas[n]
    found = log_factor(family, y, eta + step)
    if order > 0:
        found -= log_factor(family, y, eta) + slope(family, y, eta) * step
    if order > 1:
        found += 0.5 * bend(family, y, eta) * step * step
    return found


@numba.njit
def known(target, z, order):
    """The log prior, and the sum of the polynomials, but for constants."""
    found = -0.5 * (z @ target.pull @ z) - target.push @ z
    if order > 0:
        found += target.slope @ z
    if order > 1:
        found -= 0.5 * (z @ target.hessian @ z)
    return found


@numba.njit
def everything(target, z):
    """The log posterior, but for a constant."""
    etas = target.etas + target.design @ z
    return known(target, z, 0) + sum_of_rows(target.family, target.y, etas)


@numba.njit
def drawn_row(rng, keep, other):
    n = rng.integers(0, len(keep))
    return n if rng.random() < keep[n] else other[n]


@numba.njit
def cubic(w):
    """E(w): the most of cos(t) cos(phi - t)^2, at tan(t) = 2 tan(phi - t); w = cos(phi) >= 0."""
    t = sqrt(2.0)
    if w > 1e-9:
        ratio = sqrt(max(1.0 - w * w, 0.0)) / w
        t = 0.0 if ratio < 1e-9 else (sqrt(9.0 + 8.0 * ratio * ratio) - 3.0) / (2.0 * ratio)
    c, s = 1.0 / sqrt(1.0 + t * t), t / sqrt(1.0 + t * t)
    return c * (w * c + sqrt(max(1.0 - w * w, 0.0)) * s) ** 2


@numba.njit
def reach(z, new, order):
    """M(z, z')."""
    step = sqrt(np.sum((new - z) ** 2))
    found = 0.0
    for end in (z, new):
        far = sqrt(end @ end)
        w = min(abs(np.sum((new - z) * end)) / max(step * far, 1e-300), 1.0)
        if order == 1:
            found = max(found, 0.5 * far * (1.0 + w))
        elif order == 2:
            found += 0.5 * far * far * cubic(w)
    return step * (found if order > 0 else 1.0)


@numba.njit
def test(rng, target, table, z, new, form, order, chi):
    """(is the proposal accepted, rows read)."""
    weights, keep, other, whole = table
    m = reach(z, new, order)
    extra = chi * (whole * m) ** 2 if form == TUNA else 0.0
    rate, size = extra + whole * m, len(target.y)
    if form == EXACT or rate >= size:
        gap = everything(target, new) - everything(target, z)
        return log(rng.random()) < gap, size
    delta, u = known(target, new, order) - known(target, z, order), log(rng.random())
    if form != TUNA and not u < delta:
        return False, 0
    count, gap = rng.poisson(rate), 0.0
    for read in range(count):
        n = drawn_row(rng, keep, other)
        c, base = weights[n] * m, extra * weights[n] / whole
        r = residual(target, n, new, order) - residual(target, n, z, order)
        if form == SMH:
            if rng.random() * c < -r:
                return False, read + 1
            continue
        here = c - max(0.0, r) if form == MH_SS else 0.5 * (c - r)
        there = here + r
        if rng.random() * (base + c) < base + here:
            gap += log((base + there) / (base + here))
    if form == SMH:
        return True, count
    if form == MH_SS:
        return log(rng.random()) < gap, count
    return u < delta + gap, count


@numba.njit
def walk(target, table, form, order, scale, chi, draws, rng):
    """(states, rows read, proposals accepted), from the mode."""
    d, rows, moved = len(target.mode), 0, 0
    z, chain = np.zeros(d), np.zeros((draws, d))
    for t in range(draws):
        new = z + scale * rng.standard_normal(d)
        accepted, read = test(rng, target, table, z, new, form, order, chi)
        rows += read
        if accepted:
            z, moved = new, moved + 1
        chain[t] = z
    return chain, rows, moved


def walker(target: Target, name: str):
    """run(kappa, draws, seed) of one of WALKS."""
    form, order = WALKS[name]
    table = table_of(target, order)

    def run(kappa: float, draws: int, seed: int):
        scale, d = kappa / sqrt(len(target.mode)), len(target.mode)
        # E M is scale sqrt(d): what makes lambda CHI on average, as far as that can be.
        chi = CHI / (table[-1] * scale * sqrt(d)) ** 2
        return walk(target, table, form, order, scale, chi, draws, np.random.default_rng(seed))

    return run
