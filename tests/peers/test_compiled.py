"""Our compiled peers of the benchmark have the law that they should: else they are no rivals."""

from functools import cache

import numpy as np
import pytest

from subsample_mcmc.numerics.jit import DISABLED
from tests.benchmarks.peers import firefly, poisson, potts, walks, zigzag
from tests.benchmarks.peers.families import LOGISTIC, MOST, STUDENT, log_factor, of_rows
from tests.benchmarks.peers.targets import target_of

pytestmark = pytest.mark.skipif(DISABLED, reason="needs many steps")
BATCHES = 50
RADIUS = 6.5  # of the ball of Poisson minibatching: all but 1e-9 of these posteriors
LIMIT = 5.0  # in Monte Carlo errors: of ten moments one run in 20,000 fails


def regression(family=LOGISTIC, away=0.7):
    """Forty rows, around a reference off the mode: so that residuals decide."""
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(40), 1.5 * rng.standard_normal(40)])
    eta = x @ [0.5, 1.0]
    y = (rng.random(40) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    return target_of(x, eta + rng.standard_t(4.0, 40) if family == STUDENT else y, family, away)


@cache
def moments(family):
    """Means of both coordinates and of their squares and product, by quadrature."""
    target = regression(family)
    line = np.linspace(-9.0, 9.0, 361)
    z = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    eta, y = target.etas[:, None] + target.design @ z.T, target.y[:, None]
    each = y * eta - np.logaddexp(0.0, eta)
    if target.family == STUDENT:
        each = -2.5 * np.log1p((y - eta) ** 2 / 4.0)
    found = each.sum(axis=0)
    found += -0.5 * np.einsum("ij,jk,ik->i", z, target.pull, z) - z @ target.push
    weight = np.exp(found - found.max())
    return weight @ functions(z) / weight.sum()


def functions(z):
    return np.column_stack([z, z**2, z[:, 0] * z[:, 1]])


def errors(chain, target):
    """Differences from the truth, in Monte Carlo errors by batch means."""
    means = functions(chain).reshape(BATCHES, -1, 5).mean(axis=1)
    off = means.mean(axis=0) - moments(target.family)
    return off / (means.std(axis=0, ddof=1) / np.sqrt(BATCHES))


def run_walk(name, target, wrong):
    form, order = walks.WALKS[name]
    *table, whole = walks.table_of(target, order)
    whole *= 0.4 if wrong else 1.0
    if wrong and name == "random walk":
        target = target._replace(y=1.0 - target.y)
    chi, rng = walks.CHI / (whole * 1.5) ** 2, np.random.default_rng(1)
    return walks.walk(target, (*table, whole), form, order, 1.0, chi, 200_000, rng)[0]


def run_firefly(name, target, wrong):
    slope, hessian = firefly.sums_of(target)
    return firefly.fly(
        target,
        slope,
        hessian * (0.5 if wrong else 1.0),
        1.0,
        0.2,
        200_000,
        np.random.default_rng(1),
    )[0]


def run_zigzag(name, target, wrong):
    *tables, whole, stiff = zigzag.tables_of(target)
    tables = (*tables, whole * (0.4 if wrong else 1.0), stiff)
    return zigzag.zigzag(target, tables, 200_000, 0.5, np.random.default_rng(1))[0]


def run_poisson(name, target, wrong):
    weights, keep, other, whole, least = poisson.tables_of(target, RADIUS)
    tables = weights, keep, other, whole * (0.4 if wrong else 1.0), least
    form, rng = poisson.WALKS[name], np.random.default_rng(1)
    return poisson.poisson_walk(target, tables, form, 0.7, 0.1, RADIUS, 60_000, rng)[0]


PEERS = {**dict.fromkeys(walks.WALKS, run_walk), "firefly": run_firefly, "zig-zag": run_zigzag}
PEERS |= dict.fromkeys(poisson.WALKS, run_poisson)


def test_bounds_of_derivatives():
    """Attained, and never exceeded, by differences of the log likelihoods."""
    line, step = np.linspace(-8.0, 8.0, 16_001), 0.001
    for family, y in ((LOGISTIC, 1.0), (STUDENT, 0.0)):
        found = of_rows(log_factor, family, np.full(line.shape, y), line)
        for order in range(3):
            found = np.diff(found) / step
            assert np.abs(found).max() == pytest.approx(MOST[family, order], rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "family"),
    [(name, LOGISTIC) for name in PEERS]
    + [(name, STUDENT) for name in ("firefly", "zig-zag", min(walks.WALKS), min(poisson.WALKS))],
)
def test_peers_have_the_posterior(name, family):
    target = regression(family)
    assert np.all(np.abs(errors(PEERS[name](name, target, False), target)) < LIMIT)


@pytest.mark.slow
@pytest.mark.parametrize("name", PEERS)
def test_wrong_peers_have_not(name):
    """Rates at two fifths; wrong sums of Firefly's bounds; another posterior."""
    target = regression()
    assert np.abs(errors(PEERS[name](name, target, True), target)).max() > 2.0 * LIMIT


def potts_error(q, wrong=False):
    """Of the energy and its square, of four sites with three colours, in Monte Carlo errors."""
    weights = potts.weights_of(2, strength=3.0, narrow=1.0)
    states = np.stack(np.meshgrid(*[np.arange(3)] * 4, indexing="ij"), -1).reshape(-1, 4)
    energy = potts.energies(weights, states)
    law = np.exp(energy) / np.exp(energy).sum()
    truth = np.array([law @ energy, law @ energy**2])
    inverse = (1.0 - np.eye(4)) / (weights + np.eye(4))
    tables = potts.tables_of(inverse if wrong else weights)
    rng = np.random.default_rng(1)
    chain, _ = potts.sweeps(weights, tables, q, states[0], 3, 40_000, rng)
    found = potts.energies(weights, chain)
    means = np.column_stack([found, found**2]).reshape(BATCHES, -1, 2).mean(axis=1)
    return (means.mean(axis=0) - truth) / (means.std(axis=0, ddof=1) / np.sqrt(BATCHES))


@pytest.mark.slow
@pytest.mark.parametrize("q", [0.0, 0.3, 3.0], ids=["Gibbs", "few pairs", "many"])
def test_poisson_gibbs_has_the_law_of_a_potts_model(q):
    """Tables by the inverse of the weights are told from right ones."""
    assert np.abs(potts_error(q)).max() < LIMIT
    if q > 0.0:
        assert np.abs(potts_error(q, wrong=True)).max() > 2.0 * LIMIT
