"""What is known of sites: polynomials are those of their rows, and bounds are bounds."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.by_site.local_bounds import COMMON, OWN
from subsample_mcmc.approx.by_site.monomials import pairs_of, shape_of, size_of
from tests.helpers.by_sums import Known, model_of, reference_of, rows_at

FAMILIES = ["poisson", "logistic", "student"]


@pytest.fixture(scope="module", params=FAMILIES)
def known(request):
    model = model_of(request.param)
    return Known(model, sm.SiteTaylor(reference_of(model, request.param)))


def value_of(known, site, w):
    """A site's polynomial, term by term."""
    pairs = pairs_of(known.k, known.c)
    terms = [np.prod([w[i] for i in t]) for t in pairs]
    return float(known.sums.coefficients[site] @ terms)


def remainders(known, site, w):
    """Of each row of a site: what its third-order polynomial leaves over, by differences.

    Along a line from the fit the polynomial of a row is that of its values at small steps; here the
    rows' own functions are known.
    """
    rows = known.sums.indices[known.rows(site)]
    h = 1e-2
    steps = np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]) * h
    values = np.array([rows_at(known.model, known.floats(site, t * w))[rows] for t in steps])
    system = np.vander(steps, 7, increasing=True)
    found = np.linalg.solve(system, values)  # to sixth order: the first four are the polynomial's
    there = rows_at(known.model, known.floats(site, w))[rows]
    return there - found[:4].sum(axis=0)


def test_a_site_has_a_coefficient_for_each_pair(rng):
    for k, c in ((1, 0), (1, 1), (2, 1), (3, 2), (1, 3)):
        assert len(pairs_of(k, c)) == size_of(k, c) == shape_of(k, c).widths.sum()
        assert len(set(map(tuple, map(sorted, pairs_of(k, c))))) == size_of(k, c)


def test_what_a_polynomial_leaves_over_falls_with_the_fourth_power(known, rng):
    """At half the distance a sixteenth: of a wrong third coefficient an eighth would be left."""
    left = np.zeros(3)
    for site in range(3):
        rows = known.sums.indices[known.rows(site)]
        base = rows_at(known.model, known.sums.point)[rows].sum()
        for _ in range(4):
            w = rng.standard_normal(known.k + known.c)
            for i, t in enumerate((0.5, 0.25, 0.125)):
                there = rows_at(known.model, known.floats(site, t * w))[rows].sum()
                left[i] = max(left[i], abs(there - base - value_of(known, site, t * w)))
    assert left[1] < left[0] / 11.0 and left[2] < left[1] / 11.0 + 1e-11, left


@pytest.mark.slow_for("student")
def test_residuals_are_below_their_bounds(known, rng):
    """Of sites and of what all rows see, all over the ball; the nearest comes to a part of it."""
    sums, nearest = known.sums, {OWN: 0.0, COMMON: 0.0}
    width = known.k + known.c
    for trial in range(60):
        site = trial % 3
        here = rng.standard_normal(width)
        here *= sums.reach * rng.random() ** (1.0 / width) / np.linalg.norm(here)
        for which, part in ((OWN, slice(0, known.k)), (COMMON, slice(known.k, width))):
            if part.start == part.stop:
                continue
            there = here.copy()
            there[part] = rng.standard_normal(part.stop - part.start)
            if trial % 2:  # outwards, where bounds are nearest
                there[part] = here[part] * (1.0 + 0.2 * rng.random())
            if (far := np.linalg.norm(there)) > sums.reach:
                there[part] *= 0.0 if np.linalg.norm(here) > sums.reach else sums.reach / far
            most = max(np.linalg.norm(here), np.linalg.norm(there))
            r = np.abs(remainders(known, site, there) - remainders(known, site, here))
            c = sums.weights[which, known.rows(site)] * most**3 * np.linalg.norm(there - here) / 6.0
            assert np.all(r <= c * (1.0 + 1e-6) + 1e-8), (site, which, float((r - c).max()))
            nearest[which] = max(nearest[which], float((r / (c + 1e-8)).max()))
    # Bounds are not so wide that one which is much too small would not be found. Intervals of a
    # row whose scale moves, too, are wide.
    least = 5e-4 if known.c == 3 else 0.02
    assert nearest[OWN] > least
    assert known.c == 0 or nearest[COMMON] > least


def test_bounds_are_reached_up_to_what_they_take_for_the_whole_ball():
    """Of Poisson rows, outwards along the predictor: a quarter of the bound would be exceeded.

    So would be one by a fourth derivative over 24, not 6, or one without the part that moves.
    """
    model = model_of("poisson")
    known = Known(model, sm.SiteTaylor(reference_of(model, "poisson")))
    x, nearest = np.asarray(model.data.x), np.zeros(2)
    for site in range(3):
        for i in known.rows(site)[:12]:
            n = known.sums.indices[i]
            v = np.array([known.units[site, 0, 0], x[n] * known.wide[0, 0]])
            there = v / np.linalg.norm(v) * known.sums.reach
            for which in (OWN, COMMON):
                here = there.copy()
                here[which] *= 0.8  # what moves
                r = [remainders(known, site, w)[i - known.sums.indptr[site]] for w in (here, there)]
                c = known.sums.weights[which, i] * known.sums.reach**3
                c *= np.linalg.norm(there - here) / 6.0
                nearest[which] = max(nearest[which], abs(r[1] - r[0]) / c)
    assert np.all(nearest > 0.25) and np.all(nearest <= 1.0 + 1e-6), nearest


@pytest.mark.plain
def test_bounds_are_the_known_ones():
    """Of Poisson rows: exp(eta + |v| reach) |v|^4, times the part of v that moves, over |v|."""
    model = model_of("poisson")
    known = Known(model, sm.SiteTaylor(reference_of(model, "poisson")))
    x, group = np.asarray(model.data.x), np.asarray(model.data.group)
    for i, n in enumerate(known.sums.indices):
        g = group[n]
        v = np.array([known.units[g, 0, 0], x[n] * known.wide[0, 0]])
        size = np.linalg.norm(v)
        most = np.exp(0.3 + 0.3 * x[n] + size * known.sums.reach) * size**4
        np.testing.assert_allclose(known.sums.weights[OWN, i], most * v[0] / size, rtol=1e-4)
        np.testing.assert_allclose(
            known.sums.weights[COMMON, i], most * abs(v[1]) / size, rtol=1e-4
        )
    np.testing.assert_allclose(
        known.sums.totals[:, :3],
        [[w[known.rows(g)].sum() for g in range(3)] for w in known.sums.weights], rtol=1e-12,
    )  # fmt: skip
