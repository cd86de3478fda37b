"""Bounds by intervals beyond the first distance: so many times those nearby."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor import ceilings, polynomial
from subsample_mcmc.approx.taylor.found import bounds_found, derivatives_found, row_bounds
from subsample_mcmc.numerics.jit import jit
from tests.approx.taylor.test_bounds_found import MODELS, SIZE, bounded, made
from tests.approx.taylor.test_pairs import ratios
from tests.helpers.marks import slow_but
from tests.helpers.models import tally, walker
from tests.helpers.tall import Bench

TIMES = 4.0  # the distance, in units of the first
# Of these an interval is no number so far out: of what is above 0 nearby alone, or z * same.
WITHOUT = {"gamma shape", "mixture", "twice"}
WITH = sorted(set(MODELS) - WITHOUT)
# By how much of its bound some row's residual changes, at least: where not by a hundredth.
TIGHT = {"dispersed": 1e-12, "student t of all": 1e-12}


@pytest.fixture(autouse=True)
def all_are_looked_for(monkeypatch):
    """Also in few data, and where bounds are of no use."""
    monkeypatch.setattr(derivatives_found, "MANY", 0)
    monkeypatch.setattr(bounds_found, "SHARE", np.inf)
    monkeypatch.setattr(bounds_found, "FAR", (TIMES,))


def closer(monkeypatch):
    """Distances at which bounds of few data are no wider than those nearby usually are."""
    monkeypatch.setattr(bounds_found, "FARTHER", (1.0,))
    monkeypatch.setattr(bounds_found, "FAR", (2.0,))


def far_points(model, prepared, rng, count=6):
    """The reference, and points up to the far distance: at random, and where some rows' own
    predictors are farthest; near each of them another."""
    point, inverse = prepared.sums.points[0], np.linalg.inv(prepared.sums.metric[0])
    d, far = len(point), prepared.sums.whole.limits[0, 9] * (1.0 - 1e-9)
    ways = rng.standard_normal((2 * count, d))
    x = np.pad(model.data.x, ((0, 0), (0, d - model.data.x.shape[1])))
    lengths = np.linalg.norm(x @ inverse, axis=1)
    ways[:count] = x[np.argsort(lengths)[-count:]] @ inverse
    ways *= np.resize([1.0, -1.0], 2 * count)[:, None] / np.linalg.norm(ways, axis=1)[:, None]
    sizes = np.resize([far, far * rng.uniform(0.3, 1.0)], 2 * count)
    steps = ways * sizes[:, None]
    steps = np.concatenate([np.zeros((1, d)), steps, steps[::3] * 0.999])
    return point + steps @ inverse.T


@pytest.mark.slow_for("logistic", "weibull")
@pytest.mark.filterwarnings("ignore:student_t calls")
@pytest.mark.parametrize("name", slow_but(["logistic", "poisson", "weibull"], WITH))
def test_no_row_and_no_sum_exceeds_its_bound(name, rng, monkeypatch, capsys):
    """Of pairs of states far out, and of one there and one nearby."""
    closer(monkeypatch)
    model = made(name)
    prepared, control = bounded(model)
    limits = prepared.sums.whole.limits[0]
    assert limits[9] == 2.0 * limits[7] and limits[10] >= 1.0
    points = far_points(model, prepared, rng)
    found = ratios(model, control, points)
    with capsys.disabled():
        print(f"\n{name}: {SIZE * len(found)} pairs, the tightest at {found.max():.2g} of it")
    assert SIZE * len(found) > 1e5 and TIGHT.get(name, 0.01) < found.max() <= 1.0
    bench = Bench(model, control, points)
    left, share = np.array([bench.residuals(arm) for arm in range(len(points))]), 0.0
    for i in range(len(points)):
        for j in range(i):
            apart, each = left[i] - left[j], bench.reach_of(bench.trial, i, j, True)
            share = max(share, abs(apart.sum()) / bench.reach_of(bench.trial, i, j, False))
            assert np.abs(apart).max() <= each < polynomial.BEYOND
    assert 0.0 < share <= 1.0


def test_bounds_that_stay_those_of_a_small_ball_are_caught(rng, monkeypatch):
    """A mutant: intervals are no wider than nearby."""
    whole = row_bounds.RowBounds.bounds

    def narrow(self, first, weights, radius, fewer):
        return whole(self, first, weights, min(radius, 6.0), fewer)

    monkeypatch.setattr(row_bounds.RowBounds, "bounds", narrow)
    model = made("poisson")
    prepared, control = bounded(model)
    assert prepared.sums.whole.limits[0, 9] > 0.0
    assert ratios(model, control, far_points(model, prepared, rng)).max() > 1.0


@pytest.mark.plain
def test_bounds_of_rows_that_differ_far_more_than_others_are_raised(rng):
    """Few times as many bounds, and no bound nearby moves that need not."""
    near = bounds_found.rounded_up(rng.lognormal(0.0, 2.0, 5000))
    far = near * rng.uniform(1.0, 900.0, 5000)
    same, times = bounds_found.alike(near, far)
    assert np.array_equal(same, near) and times == pytest.approx(np.max(far / near), rel=1e-6)
    near[:40], far[:40] = near[:40] * 1e-20, far[:40] * 1e-3
    near[40:43], far[40:42], far[42] = 0.0, 0.1, 0.0
    raised, times = bounds_found.alike(near, far)
    assert np.all(times * raised.astype(float) >= far) and np.all(raised >= near)
    assert times < 1e5 and raised[42] == 0.0
    assert raised.sum(dtype=float) <= near.sum(dtype=float) * (1.0 + bounds_found.RAISED)
    moved = np.flatnonzero(raised != near)
    assert 0 < len(moved) <= 42 and moved.max() < 42
    far[100] = np.inf
    assert not bounds_found.alike(near, far)[1] < np.inf
    assert bounds_found.alike(np.zeros(4, np.float32), np.zeros(4))[1] == 0.0


def steep(size=3000):
    """Of which the one are certain at the reference, and the other not."""
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(size), 6.0 * rng.standard_normal((size, 2))])
    beta = np.array([0.2, 1.0, -1.0])
    y = (rng.random(size) < 1.0 / (1.0 + np.exp(-x @ beta))) * 1.0
    model = sm.Model(MODELS["logistic"][0], {"x": x, "y": y}, {"beta": beta})
    return model, *bounded(model)


@pytest.mark.slow
def test_where_some_are_raised_none_exceeds_its_own(rng, monkeypatch):
    given = steep()[1]
    monkeypatch.setattr(bounds_found, "FAR", ())
    alone = steep()[1]
    ours, theirs = (p.source.bounds.of(p.model.ints, p.sums.points[0]) for p in (given, alone))
    raised = ours.rows > theirs.rows
    assert 10 < raised.sum() < len(raised) / 2 and np.all(ours.rows >= theirs.rows)
    assert ours.rows.sum() <= theirs.rows.sum() * (1.0 + bounds_found.RAISED)
    monkeypatch.setattr(bounds_found, "FAR", (TIMES,))
    model, prepared, control = steep()
    assert 1e-3 < ratios(model, control, far_points(model, prepared, rng)).max() <= 1.0


# ------------------------------------------------------------------ up to where, and what is told
@pytest.mark.parametrize("share", [np.inf, 0.05])
def test_the_distance_of_most_use_is_taken(share, monkeypatch):
    """At which fewest states lie where decisions read everything."""
    monkeypatch.setattr(bounds_found, "SHARE", share)
    several, reached = (64.0, 16.0, 4.0, 2.0), {}
    for far in ((64.0,), (16.0,), (4.0,), (2.0,), several, ()):
        monkeypatch.setattr(bounds_found, "FAR", far)
        prepared, _ = bounded(made("poisson", size=6000))
        limits, told = prepared.sums.whole.limits[0], prepared.source.told_bound()
        begins = limits[0] * limits[7] ** 4 / 24.0 * limits[10]
        with np.errstate(divide="ignore"):
            up_to = min(limits[9], limits[7] * (share * prepared.model.size / begins) ** 0.25)
        reached[far] = up_to if limits[9] > 0.0 else 0.0
        if limits[9] > 0.0:
            assert up_to > limits[7] and prepared.found.endswith(" all squares known, far out, too")
            assert told.endswith(
                f"times as large ones up to {limits[9]:.0f}) in posterior standard deviations"
            )
        else:
            assert prepared.found.endswith(" all squares known") and "times" not in told
    best = max(reached, key=lambda far: reached[far] if len(far) == 1 else -1.0)
    assert reached[several] == pytest.approx(reached[best]) and reached[()] == 0.0
    assert best == {np.inf: (64.0,), 0.05: (4.0,)}[share]


@pytest.mark.slow
def test_a_branch_that_far_out_leaves_those_nearby(monkeypatch):
    """Beyond it decisions read everything."""

    def kinked(state, data, n):
        e = data.x[n] @ state.beta
        r = data.y[n] - e
        return -4.0 * abs(r) if e > data.level else -0.5 * r * r - 0.01 * sm.softplus(e)

    plain = made("squared")
    given = plain.data._asdict() | {"level": 1e9}
    without, _ = bounded(sm.Model(kinked, given, {"beta": plain.floats}))
    limits, inverse = without.sums.whole.limits[0], np.linalg.inv(without.sums.metric[0])
    lengths = np.linalg.norm(plain.data.x @ inverse, axis=1)
    reached = plain.data.x @ without.sums.points[0] + 2.0 * limits[7] * lengths
    given["level"] = float(reached.max())  # farther than the first distance, nearer than the other
    model = sm.Model(kinked, given, {"beta": plain.floats})
    prepared, control = bounded(model)
    assert limits[9] == TIMES * limits[7] and prepared.sums.whole.limits[0, 9] == 0.0
    point, step = prepared.sums.points[0], inverse @ np.eye(3)[0] * 1.01 * limits[7]
    assert Bench(model, control, np.array([point, point + step])).reach(0, 1, False) >= 1e300


@pytest.mark.plain
def test_plain_python_has_the_same():
    """By classes in the place of types."""
    for name, wanted in TOLD.items():
        prepared, _ = bounded(made(name, size=60))
        np.testing.assert_allclose(prepared.sums.whole.limits[0, 9:11], wanted, rtol=1e-4)


TOLD = {"logistic": (22.9282, 1.0), "poisson": (22.9282, 280.1935)}


@jit
def remainder_of(parts, table, size):
    return polynomial.remainder(parts, table, size, 0)


def test_ceilings_know_of_them():
    prepared, _ = bounded(made("poisson"))
    parts, (near, far) = prepared.sums.whole, prepared.sums.whole.limits[0, [7, 9]]
    sizes = np.array([0.5, 1.0 - 1e-9, 1.0 + 1e-9, 2.0, TIMES - 1e-9, TIMES + 1e-9]) * near
    said = ceilings.remainders(parts, 0, sizes)
    each = [remainder_of(parts, 0, size) for size in sizes]
    assert far == TIMES * near and said[-1] == np.inf and each[-1] == polynomial.BEYOND
    np.testing.assert_allclose(said[:-1], each[:-1], rtol=1e-8)
    assert each[2] > 1.1 * each[1]


# -------------------------------------------------------------------------------------- decisions
def off_the_mode(name, size, away):
    """(a model, the fit's mean and deviations, a control variate that far from it)."""
    model = made(name, size=size, seed=9)
    fit = sm.laplace(model, progress=False)
    factor = np.linalg.cholesky(fit.covariance)
    point = fit.mean + factor @ (np.ones(len(fit.mean)) * away / len(fit.mean) ** 0.5)
    return model, fit, sm.Taylor({"beta": point}, outliers=0.0)


def test_decisions_far_out_read_few_rows_and_each_keeps_within_its_bound():
    """The reference is so far from the mode that no state has another there."""
    model, fit, control = off_the_mode("logistic", 6000, 11.0)
    prepared = prepared_for(model, control)
    assert prepared.sums.whole.limits[0, 7] < 8.0
    step = 1.0 * float(np.sqrt(np.diag(fit.covariance).min()))

    def walked(narrowed):
        prepared.sums.whole.limits[:, 10] *= narrowed
        one = walker(model, sm.Metropolis("beta", step, control=control, adapt=False), seed=5)
        one.floats[:] = fit.mean
        told = tally(one, one.advance(600).words, "beta")
        return one.error, told

    error, told = walked(1.0)
    assert error is None and told["exact"] == 0 < told["raced"]
    assert 100 < told["pulls"] < 0.01 * told["everything"]
    assert "exceeds the bound that was found by intervals" in str(walked(0.03)[0])  # a mutant


@pytest.mark.slow
def test_chains_far_out_have_the_posterior_of_exact_ones():
    """Means and squares of all coefficients, z of batch means; 1e-6 that one is above 5.5."""
    model, fit, control = off_the_mode("logistic", 6000, 11.0)
    found = []
    for selector, given in ((sm.Exact(), None), (sm.Thinned(), control)):
        step = 2.0 * float(np.sqrt(np.diag(fit.covariance).min()))
        kernel = sm.Metropolis("beta", step, control=given, selector=selector, adapt=False)
        trace = sm.sample(model, kernel, draws=40_000, warmup=500, chains=2, start=[fit.state] * 2,
                          seed=1 if given is None else 2, progress=False)  # fmt: skip
        z = (trace.draws["beta"] - fit.mean) / np.sqrt(np.diag(fit.covariance))
        batches = np.concatenate([z, z**2], axis=-1).reshape(2 * 40, -1, 6).mean(axis=1)
        found.append((batches.mean(axis=0), batches.var(axis=0, ddof=1) / len(batches)))
    apart = np.abs(found[0][0] - found[1][0]) / np.sqrt(found[0][1] + found[1][1])
    assert apart.max() < 5.5
