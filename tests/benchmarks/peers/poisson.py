"""Poisson minibatching of a continuous state (Zhang & De Sa 2019; Yuan & Wang 2024), compiled.

With 0 <= phi_n(z) <= M_n the log likelihoods less their least, L = sum(M) and a constant lambda,
counts s_n ~ Poisson(lambda M_n / L + phi_n(z)) make

    g(z) = log prior(z) + sum_n s_n log(lambda M_n / L + phi_n(z))

all that a step needs: Poisson(lambda + L) rows are drawn by M_n and thinned, and then z moves by
Metropolis-Hastings on g. Proposals are a normal step (PoissonMH), one along the gradient of g
(Poisson-MALA), or Barker's, whose signs follow it (Poisson-Barker).

Such bounds exist in a ball only: |z| <= R = sqrt(d) + 4 posterior sds, which has all but 1e-7 of
the posterior; M_n = 2 B |a_n| R, B the most of the derivative by the predictor.
"""

from math import exp, log, log1p, sqrt

import numba
import numpy as np

from subsample_mcmc.approx.row_weights import alias_table
from tests.benchmarks.peers.families import MOST, log_factor, of_rows, slope
from tests.benchmarks.peers.targets import Target
from tests.benchmarks.peers.walks import drawn_row, known

PLAIN, MALA, BARKER = range(3)
WALKS = {"PoissonMH": PLAIN, "Poisson-MALA": MALA, "Poisson-Barker": BARKER}
KAPPAS = (0.1, 0.3, 1.0)  # of steps kappa / sqrt(d) in posterior sds; the best is taken,
SHARES = (0.0, 0.3)  # and of lambda / L


@numba.njit
def predictor(target, n, z):
    """Of a row."""
    found = target.etas[n]
    for j in range(len(z)):
        found += target.design[n, j] * z[j]
    return found


@numba.njit
def drawn_rows(rng, target, tables, z, share):
    """(the rows with a count, one for each of it; rows read)."""
    weights, keep, other, whole, least = tables
    count, kept = rng.poisson((1.0 + share) * whole), 0
    rows = np.empty(count, dtype=np.int64)
    for _ in range(count):
        n = drawn_row(rng, keep, other)
        phi = log_factor(target.family, target.y[n], predictor(target, n, z)) - least[n]
        if rng.random() * (1.0 + share) * weights[n] < share * weights[n] + phi:
            rows[kept] = n
            kept += 1
    return rows[:kept], count


@numba.njit
def minibatch(target, tables, rows, z, share, radius, gradient):
    """g, its gradient written unless that has no room; -inf outside the ball."""
    weights, least, family = tables[0], tables[4], target.family
    if z @ z > radius * radius:
        return -np.inf
    total = known(target, z, 0)
    if len(gradient) > 0:
        gradient[:] = -(target.pull @ z) - target.push
    for n in rows:
        eta = predictor(target, n, z)
        inside = share * weights[n] + log_factor(family, target.y[n], eta) - least[n]
        total += log(inside)
        if len(gradient) > 0:
            by = slope(family, target.y[n], eta) / inside
            for j in range(len(z)):
                gradient[j] += by * target.design[n, j]
    return total


@numba.njit
def softplus(x):
    return max(x, 0.0) + log1p(exp(-abs(x)))


@numba.njit
def proposed(rng, form, z, gradient, scale, new):
    """Write a proposal; `ratio` has the log ratio of its densities."""
    for j in range(len(z)):
        step = scale * rng.standard_normal()
        if form == MALA:
            step += 0.5 * scale * scale * gradient[j]
        elif form == BARKER and rng.random() * (1.0 + exp(-step * gradient[j])) > 1.0:
            step = -step
        new[j] = z[j] + step


@numba.njit
def ratio(form, z, gradient, scale, new, there):
    """log q(new -> z) - log q(z -> new); there: the gradient at new."""
    found = 0.0
    for j in range(len(z)):
        step, half = new[j] - z[j], 0.5 * scale * scale
        if form == MALA:
            found += ((step - half * gradient[j]) ** 2 - (step + half * there[j]) ** 2) / (4 * half)
        elif form == BARKER:
            found += softplus(-step * gradient[j]) - softplus(step * there[j])
    return found


@numba.njit
def poisson_walk(target, tables, form, scale, share, radius, draws, rng):
    """(states, rows read, proposals accepted), from the mode."""
    d, rows, moved = len(target.mode), 0, 0
    size = 0 if form == PLAIN else d
    here, there, z, new = np.zeros(size), np.zeros(size), np.zeros(d), np.zeros(d)
    chain = np.zeros((draws, d))
    for t in range(draws):
        some, read = drawn_rows(rng, target, tables, z, share)
        rows += read
        value = minibatch(target, tables, some, z, share, radius, here)
        proposed(rng, form, z, here, scale, new)
        gap = minibatch(target, tables, some, new, share, radius, there) - value
        if gap > -np.inf:
            gap += ratio(form, z, here, scale, new, there)
        if log(rng.random()) < gap:
            z, new, moved = new, z, moved + 1
        chain[t] = z
    return chain, rows, moved


def tables_of(target: Target, radius: float) -> tuple:
    """M_n, an alias table on them, their sum, and the least log likelihoods."""
    norms = np.sqrt(np.einsum("ij,ij->i", target.design, target.design))
    reach = MOST[target.family, 0] * radius * norms
    least = of_rows(log_factor, target.family, target.y, target.etas) - reach
    return 2.0 * reach, *alias_table(reach), 2.0 * reach.sum(), least


def walker(target: Target, name: str):
    """run(kappa, share, draws, seed) of one of WALKS."""
    root = sqrt(len(target.mode))
    radius = root + 4.0
    tables = tables_of(target, radius)

    def run(kappa: float, share: float, draws: int, seed: int):
        rng = np.random.default_rng(seed)
        return poisson_walk(
            target, tables, WALKS[name], kappa / root, share, radius, draws, rng
        )  # fmt: skip

    return run
