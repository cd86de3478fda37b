"""The sums by which proposals of a user's own are judged, and the bound that all of them share."""

from functools import partial
from math import exp, log, sqrt

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.proposals import own_density
from subsample_mcmc.kernels.proposals.own_density import (
    ALARM,
    LOOKS,
    WIDTHS,
    Points,
    ProposedPairs,
    SymmetricSums,
    Unbalanced,
    said,
)
from subsample_mcmc.target.moved import moved

EVERYWHERE = -np.inf, np.inf


def pairs_of(u, v):
    """Pairs that are all kept."""
    none = np.zeros(len(u))
    return ProposedPairs(u, v, u, v, none, none, none, np.full(len(u), -1.0))


def columns(u, v):
    """{(kind, coordinate): numbers}, one a pair; -1: the sum of all coordinates."""
    d, found = u.shape[1], {}
    for j in range(d):
        found[0, j] = v[:, j] - u[:, j]
        found[1, j] = np.sign(v[:, j] - u[:, j])
        found[2, j] = v[:, j] ** 2 - u[:, j] ** 2
    for j in range(d - 1):
        found[3, j] = v[:, j] * v[:, j + 1] - u[:, j] * u[:, j + 1]
        found[4, j] = u[:, j] * v[:, j + 1] - u[:, j + 1] * v[:, j]
    for kind in {kind for kind, _ in found}:
        found[kind, -1] = sum(x for (k, _), x in found.items() if k == kind)
    return found


@pytest.mark.plain
@pytest.mark.parametrize("size", [1, 3])
def test_sums_of_all_that_were_added(size, rng):
    """Each of five kinds in turn is the worst, which is told with its coordinate."""
    step, seen = np.array([2.0, 0.5, 3.0])[:size], set()
    for _ in range(300):
        u, v = rng.standard_normal((2, 40, size)) + 0.3 * rng.standard_normal((2, 1, size))
        sums = SymmetricSums(step)
        for some in (slice(0, 25), slice(25, 40)):
            sums.add(pairs_of(u[some] * step, v[some] * step), np.zeros(40)[some], EVERYWHERE)
        z = {at: x.sum() / sqrt((x * x).sum()) for at, x in columns(u, v).items()}
        at = max(z, key=lambda at: abs(z[at]))
        worst = sums.worst()
        assert worst.kept == 40
        assert (worst.kind, worst.coordinate) == (at if size > 1 else (at[0], -1))
        np.testing.assert_allclose(worst.z, z[at], rtol=1e-9)
        seen.add((worst.kind, worst.coordinate))
    assert len(seen) == (18 if size > 1 else 3)
    assert sums.count >= np.count_nonzero(sums.squares)  # the bound is shared among so many


@pytest.mark.parametrize("off", [-1e-6, 1e-6])
def test_the_bound_is_shared_by_all_sums_and_looks(off, monkeypatch):
    """By Hoeffding's inequality: of all of them together a right one passes with ALARM at most."""
    model = sm.Model(
        lambda state, data, n: 0.0 * data.y[n], {"y": np.zeros(4)}, {"b": np.ones(2)},
        constraints={"b": sm.positive},
    )  # fmt: skip

    def draw(rng, current, out):
        for j in range(2):
            out[j] = current[j] * exp(0.4 * rng.standard_normal())

    kernel = sm.Metropolis("b", proposal=(draw, lambda to, given: 0.0), selector=sm.Exact())
    blocks = moved(model, kernel.writes)
    around = Points(model, blocks, partial(kernel.ends, blocks), kernel.proposal)
    # Of two coordinates and their sum three kinds, of their products two kinds, twice; one look is
    # left of seven, and one more where time is up; of both widths.
    monkeypatch.setattr(own_density, "LOOKS", LOOKS[:1])
    monkeypatch.setattr(own_density, "BATCH", 5)
    monkeypatch.setattr(around, "seconds", 60.0)
    most = sqrt(2.0 * log(2.0 * (3 * 3 + 2 * 2) * 2 * len(WIDTHS) / ALARM))
    worst = Unbalanced(9, most * (1.0 + off), 0, 0, 0)
    monkeypatch.setattr(SymmetricSums, "worst", lambda self, points=0: worst)
    assert around.unbalanced(said) == (worst if off > 0.0 else None)
