"""How high a race must set its boundary: B_Normal, solved, tabulated, and ready for compiled code.

A race looks at the fractions pi_1 = first_fraction, pi_{k+1} = growth pi_k of its rows, while
pi_k < 1; the look at every row is exact and not counted. Under the normal approximation the
statistics of two arms with equal means are standard normals Z_1, ..., Z_K, a Gaussian Markov
chain (Chen & Ghahramani 2016, Eq. 8 and 9) that is a Brownian motion in the odds clock:

    Z_k = W(o_k) / sqrt(o_k),   o = pi / (1 - pi),   corr(Z_j, Z_k) = sqrt(o_j / o_k),  j < k.

B_Normal(delta, pi_1) is the B at which a wrong arm is dropped with probability delta:

    side="eq5"     P(some Z_k > B) = delta           (Eq. 5, 0 < delta < 1)
    side="table1"  P(some |Z_k| > B) / 2 = delta     (Appendix B, 0 < delta < 1/2)

Table 1 of the paper is not its Eq. 5: it counts a walk that leaves (-B, B) on the right side
first as decided, and rightly. The two agree to 1e-3 below delta = .01 and differ by .4 at .49.
The printed table is right to .003 for delta <= .37, .034 at .49.

B jumps where a look is added (pi_1 = growth^-K), but for a fixed number of looks it is smooth in
s = sqrt(1 - pi_K), and nearly linear in the boundary x of K independent looks at the same delta.
So x - B is kept, for each K, as a Chebyshev expansion in s and x; at one delta that is a short
polynomial in s per K, a boundary line, which a race reads in a few flops (`read_boundary`).
(Chen & Ghahramani, ICML 2016, arXiv:1506.09039.)
"""

from functools import lru_cache
from importlib import resources
from math import ceil, inf, log, pi, sqrt
from statistics import NormalDist

import numpy as np
import scipy
from numpy.polynomial import chebyshev

from subsample_mcmc.numerics.jit import jit

TABLE_FILE = "bnormal_table.npz"
TABLE_LOOKS = 30  # first_fraction >= 2^-30
TABLE_DELTAS = (1e-9, 0.495)
TABLE_SHAPE = (9, 24)  # terms in s and in x: error below 2e-7, measured
SOLVED_TERMS, SOLVED_HEIGHTS = 12, 24  # of a line solved on the spot: errors below 1e-7
# Nearer to 1 than this a fraction is 1: growth^k pi_1 may miss it by rounding, and the exact look
# must not be counted. Fractions of whole rows stay further away.
WHOLE = 1e-10
TAILS = {"table1": 2, "eq5": 1}
STANDARD = NormalDist()


def b_normal(delta, first_fraction, side: str = "table1", growth: float = 2.0):
    """Boundary B that wrongly drops an arm with probability delta; 0.0 if no look is counted.

    From the shipped table (error below 1e-6) for growth 2, delta in [1e-9, .495] and
    first_fraction >= 2^-30, else solved by quadrature. Arrays broadcast, and return an array.

    delta: probability of a wrong drop.
    first_fraction: share of the rows that the first look reads.
    side: "table1", by which the paper's table was made, or "eq5", what its Eq. 5 says.
    growth: factor from the rows of one look to those of the next, above 1.

    Example:
        >>> round(sm.b_normal(0.01, 1e-3), 3)  # the first look reads a thousandth of the rows
        3.036
    """
    growth = float(growth)
    pairs = np.broadcast(np.asarray(delta, float), np.asarray(first_fraction, float))
    values = np.array([_b_normal(float(d), float(f), side, growth) for d, f in pairs])
    return values.reshape(pairs.shape) if pairs.shape else float(values[0])


def _b_normal(delta, first_fraction, side, growth):
    check(delta, side, growth, first_fraction)
    count = looks(first_fraction, growth)
    if count == 0:
        return 0.0
    if not _tabulated(delta, growth, count):
        return solve_b_normal(delta, first_fraction, side, growth)
    return read_boundary(_tabulated_line(delta, side), first_fraction, growth)


def b_normal_table(side: str = "table1", growth: float = 2.0):
    """DataFrame laid out like Table 1 of the paper: B for 39 deltas (rows) x 6 first fractions.

    side, growth: as in sm.b_normal.

    Example:
        >>> sm.b_normal_table().loc[0.01].round(2).tolist()
        [3.16, 3.14, 3.06, 3.04, 2.97, 2.93]
    """
    import pandas as pd

    small = [float(f"{digit}e{power}") for power in range(-6, -1) for digit in (1, 3, 5, 7, 9)]
    deltas = [*small, 0.1, *(round(0.13 + 0.03 * i, 2) for i in range(13))]
    fractions = [5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2]
    values = b_normal(np.array(deltas)[:, None], np.array(fractions), side, growth)
    return pd.DataFrame(
        values,
        index=pd.Index(deltas, name="delta"),
        columns=pd.Index(fractions, name="first_fraction"),
    )


def boundary_line(delta: float, side: str = "table1", growth=2.0, max_looks=TABLE_LOOKS):
    """Coefficients (max_looks + 1, J) from which `read_boundary` gives B for any first fraction.

    Row K serves races of K counted looks: Chebyshev coefficients in s. Collapsed from the
    shipped table where it applies; otherwise solved, once per process (.1 s for growth 1.25).
    """
    delta, growth, max_looks = float(delta), float(growth), int(max_looks)
    check(delta, side, growth)
    if max_looks < 0:
        raise ValueError(
            f"max_looks={max_looks} is negative; give the most looks a race may count, "
            "looks(smallest first_fraction, growth)."
        )
    if _tabulated(delta, growth, max_looks):
        return _tabulated_line(delta, side)[: max_looks + 1].copy()
    return solved_line(delta, side, growth, max_looks).copy()


@jit
def looks(first_fraction, growth):
    """Number of counted looks: how many of first_fraction growth^k, k = 0, 1, ... are below 1."""
    if first_fraction >= 1.0 - WHOLE:
        return 0
    return ceil(log((1.0 - WHOLE) / first_fraction) / log(growth))


@jit
def read_boundary(line, first_fraction, growth):
    """B for a race that starts at first_fraction, from the line of its delta, side and growth.

    No counted look gives 0; more looks than the line has rows give inf: nothing may be dropped.
    """
    count = looks(first_fraction, growth)
    if count == 0:
        return 0.0
    if count >= line.shape[0]:
        return inf
    rest = max(1.0 - first_fraction * growth ** (count - 1.0), 0.0)
    t = 2.0 * sqrt(rest * growth / (growth - 1.0)) - 1.0
    # Clenshaw's recurrence
    after, value = 0.0, 0.0
    for j in range(line.shape[1] - 1, 0, -1):
        after, value = value, 2.0 * t * value - after + line[count, j]
    return t * value - after + line[count, 0]


def check(delta, side, growth, first_fraction=0.5):
    """Raise ValueError, with a remedy, unless B_Normal is defined for these arguments."""
    if side not in TAILS:
        raise ValueError(f'side={side!r} is unknown; use side="table1" or side="eq5".')
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta={delta} is no error probability; use 0 < delta < 0.5, say 0.05.")
    if side == "table1" and delta >= 0.5:
        raise ValueError(
            f'delta={delta} would be reached with no boundary at all: side="table1" needs '
            '0 < delta < 0.5; use side="eq5" or a smaller delta.'
        )
    if not 1.01 <= growth < inf:
        raise ValueError(f"growth={growth} would look at nearly all rows; use 1.01 or more.")
    if not 0.0 < first_fraction <= 1.0:
        raise ValueError(
            f"first_fraction={first_fraction} is no share of the rows: give that which is read at "
            "the first look, (first mini-batch) / (rows), a number in (0, 1]."
        )


def _tabulated(delta, growth, count):
    return growth == 2.0 and TABLE_DELTAS[0] <= delta <= TABLE_DELTAS[1] and count <= TABLE_LOOKS


@lru_cache(maxsize=1)
def _table():
    with resources.files(__package__).joinpath(TABLE_FILE).open("rb") as file:
        stored = np.load(file)
        return {side: stored[side].astype(float) for side in TAILS}


@lru_cache(maxsize=1024)
def _tabulated_line(delta, side):
    """The line of growth 2: the table's expansion in s and x summed over x at this delta."""
    counts = np.arange(1, TABLE_LOOKS + 1)
    x = independent_boundary(delta, counts, side)
    low, high = (independent_boundary(d, counts, side) for d in TABLE_DELTAS[::-1])
    terms = chebyshev.chebvander(2.0 * (x - low) / (high - low) - 1.0, TABLE_SHAPE[1] - 1)
    line = np.zeros((TABLE_LOOKS + 1, TABLE_SHAPE[0]))
    line[1:] = -np.einsum("ksx,kx->ks", _table()[side], terms)
    line[1:, 0] += x
    return line


def independent_boundary(delta, count, side):
    """B of independent looks: Phi(B)^count = 1 - delta, or (2 Phi(B) - 1)^count = 1 - 2 delta."""
    return _independent(np.log1p(-TAILS[side] * delta), count, side)


def _independent(log_stay, count, side):
    return -quantile(-np.expm1(log_stay / count) / TAILS[side])


def quantile(p):
    """Of the standard normal law, by Python itself: scipy.special takes .2 s to import."""
    ends = {True: inf, False: -inf}
    found = [STANDARD.inv_cdf(q) if 0.0 < q < 1.0 else ends[q > 0.5] for q in np.ravel(p).tolist()]
    return np.reshape(found, np.shape(p))[()]


@lru_cache(maxsize=4096)
def solve_b_normal(delta, first_fraction, side="table1", growth=2.0):
    """B solved by quadrature and root finding to 1e-12: the reference of the table; .2 to 3 ms."""
    check(delta, side, growth, first_fraction)
    count = looks(float(first_fraction), float(growth))
    if count == 0:
        return 0.0
    x = float(independent_boundary(delta, count, side))
    return solve_at(x, first_fraction * growth ** (count - 1.0), growth, count, side)


def solve_at(x, last, growth, count, side):
    """B that `count` looks ending at fraction `last` need where independent looks need x.

    Looks are positively dependent, so B lies between its values for one look and for
    independent looks (Slepian 1962; Sidak 1967), and the search is bracketed.
    """
    if count == 1:
        return x
    # P(stay) of a single look at the same delta
    tails = TAILS[side]
    low = float(_independent(count * np.log1p(-tails * scipy.special.ndtr(-x)), 1, side))

    def excess(boundary):
        return independent_looks(boundary, last, growth, count, side)[-1] - x

    # Rounding may put the root a hair outside its bracket (K = 2 and pi_K near 1).
    slack = 1e-9 * (abs(low) if side == "table1" else 1.0)
    from scipy.optimize import brentq  # 0.3 s at import, seldom needed

    return float(brentq(excess, low - slack, x + slack, xtol=1e-13, rtol=1e-14))


@lru_cache(maxsize=64)
def solved_line(delta, side, growth, max_looks):
    """The line for any growth, solved at Chebyshev nodes in s, for all numbers of looks at once."""
    line = np.zeros((max_looks + 1, SOLVED_TERMS))
    if max_looks == 0:
        return line
    counts = np.arange(1, max_looks + 1)
    wanted = independent_boundary(delta, counts, side)
    low, high = wanted[0], max(wanted[-1], wanted[0] + 1e-3)
    nodes, to_terms = chebyshev_nodes(SOLVED_TERMS)
    heights, heights_to_terms = chebyshev_nodes(SOLVED_HEIGHTS)
    solved = np.empty((SOLVED_TERMS, max_looks))
    for i, s in enumerate((nodes + 1.0) / 2.0):
        last = 1.0 - s * s * (1.0 - 1.0 / growth)
        reached = np.array([
            independent_looks(low + (high - low) * h, last, growth, max_looks, side)
            for h in (heights + 1.0) / 2.0
        ])  # fmt: skip
        terms = heights_to_terms @ reached
        slopes = chebyshev.chebder(terms)
        t = 2.0 * (wanted - low) / (high - low) - 1.0
        for _ in range(10):  # Newton: `reached` is nearly linear in the height
            miss = chebyshev.chebval(t, terms, tensor=False) - wanted
            t = np.clip(t - miss / chebyshev.chebval(t, slopes, tensor=False), -1.0, 1.0)
        solved[i] = low + (high - low) * (t + 1.0) / 2.0
    line[1:] = (to_terms @ solved).T
    return line


def independent_looks(boundary, last, growth, count, side):
    """For k = 1..count looks ending at fraction `last`: the x with the same P(exit) if independent.

    Goes backwards from the last look: out(y), in(y) = P(the looks to come leave, never leave the
    band | Z = y), integrated against the normal kernel of one step on Gauss-Legendre nodes. Both
    are sums of positive terms, so tiny deltas and tiny 1 - delta keep their relative precision.
    """
    # From below -9 no walk comes back in time to matter: P(Z < -9) = 1e-19.
    bottom = -boundary if side == "table1" else min(-9.0, boundary - 6.0)
    narrowest = sqrt((growth - 1.0) / growth)  # standard deviation of a step, at small fractions
    nodes, weights = _gauss_legendre(24 + ceil(1.5 * (boundary - bottom) / narrowest))
    z = bottom + (boundary - bottom) * (nodes + 1.0) / 2.0
    weights = weights * ((boundary - bottom) / 2.0 / sqrt(2.0 * pi))
    density = np.exp(-z * z / 2.0) * weights
    first_out = TAILS[side] * scipy.special.ndtr(-boundary)
    out, stay, scale = np.zeros_like(z), np.ones_like(z), 0.0
    p_out, log_stay = np.full(count, first_out), np.full(count, log(density.sum()))
    for k in range(1, count):
        now, earlier = last * growth ** (1.0 - k), last * growth ** (-1.0 * k)
        # rho^2 = o_earlier / o_now, and 1 - rho^2 without cancellation
        rho = sqrt((1.0 - now) / (growth * (1.0 - earlier)))
        width = sqrt((growth - 1.0) / (growth * (1.0 - earlier)))
        mean = rho * z
        kernel = np.exp(-0.5 * ((z - mean[:, None]) / width) ** 2) * (weights / width)
        leave = scipy.special.ndtr((mean - boundary) / width)
        if side == "table1":
            leave = leave + scipy.special.ndtr((-boundary - mean) / width)
        out, stay = leave + kernel @ out, kernel @ stay
        scale += log(stay.max())  # hundreds of looks in a narrow band would underflow
        stay /= stay.max()
        p_out[k] += density @ out
        log_stay[k] = log(density @ stay) + scale
    log_stay = np.where(p_out < 0.5, np.log1p(-np.minimum(p_out, 0.5)), log_stay)
    return _independent(log_stay, np.arange(1, count + 1), side)


@lru_cache(maxsize=256)
def _gauss_legendre(n):
    return np.polynomial.legendre.leggauss(n)


def chebyshev_nodes(n):
    """Chebyshev nodes on (-1, 1) and the matrix from values there to the n coefficients."""
    angles = pi * (np.arange(n) + 0.5) / n
    to_terms = 2.0 / n * np.cos(np.outer(np.arange(n), angles))
    to_terms[0] /= 2.0
    return np.cos(angles), to_terms
