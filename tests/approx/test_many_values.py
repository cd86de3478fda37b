"""Draws of one of many values, most of which are not looked at: by ceilings of their weights."""

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor import ceilings as made
from subsample_mcmc.decisions import thinned
from subsample_mcmc.numerics.jit import DISABLED
from tests.helpers.logistic_parts import derivatives, log_factor, remainder, stay

DRAWS, ALARM = 100_000, 1e-6
VALUES, ROWS = 24, 60
STEP = 0.35  # what each value adds to the predictor
compiled_only = pytest.mark.skipif(DISABLED, reason="needs many draws")


def eta(state, data, n):
    return state.beta[0] + STEP * (state.k[0] - 11.0) + state.beta[1] * data.x[n]


def with_side(state, data, n):
    side = 0.3 * (state.side[0] - 1.0)
    return state.beta[0] + side + STEP * (state.k[0] - 11.0) + state.beta[1] * data.x[n]


def lean(state):
    return 0.02 * state.k[0]


def regression(values=VALUES, side=0, rows=ROWS):
    """side: the values of a second discrete block; 0: there is none."""
    rng = np.random.default_rng(0)
    x = 1.5 * rng.exponential(size=rows)
    y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-0.3 - 0.4 * x))).astype(float)
    start, support = {"k": 11, "beta": np.array([0.3, 0.4])}, {"k": values}
    if side:
        start, support = {"side": 1, **start}, {"side": side, **support}
    parts = sm.Predictors(with_side if side else eta, log_factor, derivatives, remainder)
    return sm.Model(parts, {"x": x, "y": y}, start, lean, support=support)


def log_weights(model, at, values=VALUES):
    """Of each value, by formulas of their own."""
    x, y = np.asarray(model.data.x), np.asarray(model.data.y)
    e = at[0] + STEP * (np.arange(values)[:, None] - 11.0) + at[1] * x
    return (y * e - np.logaddexp(0.0, e)).sum(axis=1) + 0.02 * np.arange(values)


def control_of(order, references=None, outliers=0.0):
    one = {"beta": np.array([0.3, 0.4])}
    return sm.Taylor(references or one, order=order, outliers=outliers)


def spread_out(count=VALUES):
    """A reference for each value."""
    rng = np.random.default_rng(1)
    return [{"beta": np.array([0.3, 0.4]) + 0.05 * rng.standard_normal(2)} for _ in range(count)]


# ------------------------------------------------------------------------------------- ceilings
def weights_at(sums, k, x, outliers):
    """(the polynomial, the bound of its residuals), term by term."""
    d, known, total = x - sums.points[k], sums.whole, 0.0
    total += known.s0[k] + known.s1[k] @ d + 0.5 * d @ known.s2[k] @ d
    size = np.linalg.norm(sums.metric[k] @ d)
    power = size**3 / 6.0
    if len(known.s3):
        pairs = [d[i] * d[j] for i in range(len(d)) for j in range(i + 1)]
        total += d @ (known.s3[k] @ pairs) / 6.0
        power *= size / 4.0
    bounds = [p.limits[k, 0] * power for p in (sums.raced, sums.whole)[: 2 if outliers else 1]]
    return total, sum(bounds)


CASES = {
    "quadratic": (2, None, 0.0), "cubic": (3, None, 0.0), "references": (3, spread_out(), 0.0),
    "outliers": (2, None, 0.1),
}  # fmt: skip


def above(prepared, kept, points):
    """By how much ceilings exceed what they bound: (points, values)."""
    found = []
    for x in points:
        size = np.linalg.norm(kept.metric @ (x - kept.center))
        at = int(np.searchsorted(kept.radii, size))
        few = len(prepared.outliers)
        known = [sum(weights_at(prepared.sums, k, x, few)) for k in range(kept.highest.shape[1])]
        found.append(kept.highest[at] - known)
    return np.array(found)


@compiled_only
@pytest.mark.parametrize("case", CASES)
def test_no_value_weighs_more_than_its_ceiling(case, monkeypatch):
    order, references, outliers = CASES[case]
    model = regression()
    prepared = prepared_for(model, control_of(order, references, outliers))
    kept, rng = prepared.ceilings, np.random.default_rng(2)
    assert kept.highest.shape == (made.RADII, VALUES)
    directions = rng.standard_normal((600, 2))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    sizes = rng.uniform(0.0, kept.radii[-1], 600)
    points = kept.center + (directions * sizes[:, None]) @ np.linalg.inv(kept.metric).T
    over = above(prepared, kept, points)
    assert over.min() >= 0.0
    near = sizes < 3.0
    assert np.median(over[near]) < 12.0, "so loose that they rule nothing out"
    attained = over.min()
    for name, wrong in MUTANTS.items():  # each of them is below what it should bound
        if (name == "third" and order == 2) or (name == "left" and order == 3):
            continue
        with monkeypatch.context() as patch:
            wrong(patch)
            less = made.ceilings_of(prepared.sums, len(prepared.outliers))
        assert above(prepared, less, points).min() < min(0.0, attained), name


def without_third(patch):
    patch.setattr(made, "full_third", lambda third: np.zeros(3 * (len(third),)))


def without_remainders(patch):
    patch.setattr(made, "remainders", lambda parts, k, sizes: np.zeros(len(sizes)))


MUTANTS = {"third": without_third, "left": without_remainders}


@pytest.mark.plain
def test_few_values_have_none_and_draws_go_on():
    few, many = regression(values=12, rows=8), regression(rows=8)
    assert not len(prepared_for(few, control_of(2)).ceilings.highest)
    assert "ceilings" not in prepared_for(few, control_of(2)).found
    control = control_of(2)
    assert "ceilings" in prepared_for(many, control).found  # stored runs are of one way
    moves = sm.Metropolis("beta", scale=0.3, adapt=False, control=control)
    kernel = sm.Gibbs("k", control=control) >> moves
    trace = sm.sample(many, kernel, draws=30, warmup=0, chains=1, seed=1, progress=False)
    assert len(np.unique(trace.draws["k"])) > 3


# ----------------------------------------------------------------------------------------- draws
def drawn(model, at, control, more=None):
    """A run whose draws of k depend on beta, which stays, and on what `more` draws after them."""
    kernel = sm.Gibbs("k", control=control)
    assert "Thinned()" in kernel.describe(model)
    kernel = kernel >> sm.Metropolis("beta", proposal=stay, selector=sm.Exact())
    return sm.sample(
        model, kernel if more is None else kernel >> more, draws=DRAWS, warmup=0, chains=1, seed=1,
        progress=False, start=[{"k": 11, "beta": at} | ({} if more is None else {"side": 1})],
    )  # fmt: skip


def counted(model, at, control):
    """(how often each value was drawn, independently, the statistics)."""
    trace = drawn(model, at, control)
    return np.bincount(np.ravel(trace.draws["k"]), minlength=VALUES), trace.stats["k"]


def fits(found, values):
    """Do counts follow the law of log weights; cells of less than 20 are put together."""
    p = np.exp(values - values.max())
    p /= p.sum()
    order = np.argsort(p)
    few = np.cumsum(p[order]) * found.sum() < 20.0
    small, large = order[few], order[~few]
    seen, wanted = found[large], found.sum() * p[large]
    if len(small):
        seen = np.append(seen, found[small].sum())
        wanted = np.append(wanted, found.sum() * p[small].sum())
    assert stats.chisquare(seen, wanted).pvalue > ALARM


# How far values are behind which are not looked at: the usual, and so little that most draws are of
# those that are far behind.
@compiled_only
@pytest.mark.parametrize("behind", [8.0, -7.0])
@pytest.mark.parametrize("case", ["quadratic", "cubic", "references", "outliers", "away"])
def test_draws_follow_the_conditional(case, behind, monkeypatch):
    monkeypatch.setattr(thinned, "BEHIND", behind)
    order, references, outliers = CASES.get(case, CASES["quadratic"])
    model, at = regression(), np.array([0.5, 0.2])
    if case == "away":  # many values are summed before they may be proposed
        at = np.array([1.1, -0.4])
    found, told = counted(model, at, control_of(order, references, outliers))
    fits(found, log_weights(model, at))
    assert behind == 8.0 or np.mean(told["raced"]) > 0.0


@compiled_only
def test_draws_by_ceilings_that_are_too_low_do_not_follow_it(monkeypatch):
    monkeypatch.setattr(thinned, "BEHIND", -2.0)
    model, at, control = regression(), np.array([0.5, 0.2]), control_of(3)
    prepared = prepared_for(model, control)
    kept = prepared.ceilings
    prepared.__dict__["ceilings"] = kept._replace(highest=kept.highest - 12.0)
    found, _ = counted(model, at, control)
    with pytest.raises(AssertionError):
        fits(found, log_weights(model, at))


@compiled_only
def test_the_values_of_other_blocks_count(monkeypatch):
    monkeypatch.setattr(thinned, "BEHIND", -4.0)
    model, at = regression(side=3), np.array([0.5, 0.2])
    trace = drawn(model, at, control_of(3), more=sm.Gibbs("side", sm.Exact()))
    k, side = np.ravel(trace.draws["k"])[1:], np.ravel(trace.draws["side"])[:-1]
    for value in range(3):
        found = np.bincount(k[side == value], minlength=VALUES)
        assert found.sum() > DRAWS // 20
        fits(found, log_weights(model, at + np.array([0.3 * (value - 1.0), 0.0])))
