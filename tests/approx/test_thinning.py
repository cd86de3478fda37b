"""sm.Thinned: its decisions are those of Metropolis-Hastings, and rows come by their weights."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.row_weights import (
    alias_table,
    draw_points,
    draw_row,
    rates_of,
    row_weights,
)
from subsample_mcmc.approx.taylor.checks import SAMPLED
from subsample_mcmc.approx.thinning import ROUNDING, beyond
from subsample_mcmc.decisions.rules.rule import BEYOND_BOUND, NOT_FINITE
from subsample_mcmc.numerics.jit import DISABLED, jit
from tests.helpers.claims import above, equal, interval
from tests.helpers.weights import halved, without_rare

ALWAYS, NEVER = 0.0, 1e300
FORMS = {
    "factorised": sm.Thinned(most=1e9, lost=NEVER),
    "auxiliary": sm.Thinned(most=1e9, lost=ALWAYS),
    "everything": sm.Thinned(most=ALWAYS),
}
# Two points, sums of whose coordinates are exact. Residuals from the first to the second: all but
# .001 of one sign, at order 2; 0.8 for, 1.5 against the move, with 40,000 moves each way and more.
ONE_SIGN = 0, np.array([0.5, -0.25]), np.array([-0.25, 0.75])
BOTH_SIGNS = 4, np.array([0.875, 0.703125]), np.array([1.828125, 0.328125])
STEPS = 200_000
compiled_only = pytest.mark.skipif(DISABLED, reason="needs many steps")


# ---------------------------------------------------------------------------------- rows by weight
def probabilities(keep, other):
    """Of each row, by an alias table."""
    found = np.array(keep)
    np.add.at(found, other, 1.0 - np.asarray(keep))
    return found / len(keep)


@pytest.mark.plain
@pytest.mark.parametrize("kind", ["alike", "zeros", "few", "wide", "one", "single"])
def test_an_alias_table_holds_the_weights(rng, kind):
    weights = {
        "alike": np.full(97, 0.3), "zeros": np.where(rng.random(1000) < 0.5, 0.0, rng.random(1000)),
        "few": np.r_[np.zeros(500), 1e-3, 2.0], "wide": 10.0 ** rng.uniform(-30.0, 5.0, 3000),
        "one": np.r_[np.full(999, 1e-9), 1.0], "single": np.ones(1),
    }[kind]  # fmt: skip
    keep, other = alias_table(weights)
    assert np.all((keep >= 0.0) & (keep <= 1.0))
    found = probabilities(keep, other)
    np.testing.assert_allclose(found, weights / weights.sum(), rtol=1e-9, atol=1e-14)
    assert not found[weights == 0.0].any()


@jit
def draw_rows(stream, keep, other, counts, draws):
    for _ in range(draws):
        counts[draw_row(stream, keep, other)] += 1


def test_rows_are_drawn_by_their_weights(rng):
    weights = rng.exponential(size=50) ** 2
    counts, stream = np.zeros(50, dtype=np.int64), np.array([7], dtype=np.uint64)
    draw_rows(stream, *alias_table(weights), counts, 500_000)
    expected = 500_000 * weights / weights.sum()
    assert stats.chisquare(counts, expected).pvalue > 1e-6
    squares = weights**2 / np.sum(weights**2)
    assert stats.chisquare(counts, 500_000 * squares).pvalue < 1e-6  # and the test has power


@pytest.mark.plain
def test_weights_are_bounds_and_name_what_is_none():
    bounds = np.random.default_rng(0).random(100)
    sums, rare = np.array([bounds.sum(), 0.0]), np.array([3, 50, 99])
    made = row_weights([bounds, np.zeros(100)], rare[:0], sums, sums, np.zeros(2))
    assert np.all(made.bounds[0] >= bounds) and np.all(made.bounds[0] <= bounds * (1 + 1.3e-7))
    assert made.totals[0, 0] == pytest.approx(1.0, rel=1e-6) and made.totals[0, 0] >= 1.0
    assert not made.totals[1].any() and not made.units[1].any() and made.totals[0, 1] == 0.0
    without = bounds.sum() - bounds[rare].sum()
    made = row_weights([bounds], rare, np.array([without]), sums[:1], np.zeros(1))
    np.testing.assert_allclose(made.totals[0], [1.0, bounds[rare].sum() / sums[0]], rtol=1e-6)
    usual = probabilities(made.keep[0], made.other[0])
    assert not usual[rare].any()
    np.testing.assert_allclose(np.delete(usual, rare), np.delete(bounds, rare) / without, rtol=1e-6)
    some = probabilities(made.rare_keep[0], made.rare_other[0])
    np.testing.assert_allclose(some, bounds[rare] / bounds[rare].sum(), rtol=1e-6)
    for wrong in (np.nan, np.inf):
        bounds[17] = wrong
        with pytest.raises(ValueError, match="bound of datum 17's residual is"):
            row_weights([bounds], rare, np.ones(1), np.ones(1), np.zeros(1))


@jit
def count_points(stream, weights, raced, whole, rows, limits, counts, bounds, numbers):
    """Points of many processes, batch by batch as decisions draw them."""
    rates = rates_of(weights, raced, whole, 0)
    for i in range(len(numbers)):
        time, more = 0.0, True
        while more:
            time, count = draw_points(
                stream, weights, rates, time, rates.usual + rates.rare, rows, limits
            )
            more = count == len(rows)
            numbers[i] += count
            for k in range(count):
                counts[rows[k]] += 1
                bounds[rows[k]] = limits[k]


@compiled_only
@pytest.mark.parametrize("few", [0, 4])
def test_points_are_rows_by_the_bounds_that_they_are_told(rng, few):
    """A Poisson number of each row, with the bound of its residual as mean."""
    bounds = rng.exponential(size=30)
    outliers, raced, whole = np.arange(few) * 7, 2.5, 3.25
    usual = bounds.sum() - bounds[outliers].sum()
    made = row_weights([bounds], outliers, np.array([usual]), bounds.sum()[None], np.zeros(1))
    wanted = raced * bounds / usual
    wanted[outliers] = whole * bounds[outliers] / bounds.sum()
    counts, told, numbers = np.zeros(30, dtype=np.int64), np.zeros(30), np.zeros(300_000)
    rows, stream = np.zeros(3, dtype=made.other.dtype), np.array([3], dtype=np.uint64)
    count_points(stream, made, raced, whole, rows, np.zeros(3), counts, told, numbers)
    np.testing.assert_allclose(told, wanted, rtol=1e-6)
    assert stats.chisquare(counts, counts.sum() * wanted / wanted.sum()).pvalue > 1e-6
    if few:
        off = wanted.copy()
        off[outliers] *= 0.95  # would show
        assert stats.chisquare(counts, counts.sum() * off / off.sum()).pvalue < 1e-6
    seen = np.bincount(numbers.astype(int), minlength=16)[:16]
    assert stats.chisquare(seen, seen.sum() * poisson_law(wanted.sum(), 16)).pvalue > 1e-6


def poisson_law(mean, most):
    law = stats.poisson.pmf(np.arange(most), mean)
    return law / law.sum()


@jit
def code_of(r, c, rounding):
    return beyond(r, c, rounding)


@pytest.mark.plain
def test_a_residual_may_exceed_its_bound_by_rounding_only():
    for sign in (1.0, -1.0):
        assert code_of(sign * 2.0, 2.0, 0.0) == 0
        assert code_of(sign * (2.0 + 0.9 * ROUNDING * 1e-9), 2.0, 1e-9) == 0
        assert code_of(sign * (2.0 + 1.1 * ROUNDING * 1e-9), 2.0, 1e-9) == BEYOND_BOUND
        assert code_of(sign * np.inf, 2.0, 1e-9) == NOT_FINITE
    assert code_of(np.nan, 2.0, 1e-9) == NOT_FINITE


# -------------------------------------------------------------------------------- single decisions
def flip_of(pair):
    """The other one of two points."""
    first, second = pair[1] + pair[2]

    def flip(rng, current, out):
        out[0] = first - current[0]
        out[1] = second - current[1]

    return flip


def few(seed=0, size=60):
    """A logistic regression whose residuals are large between two points."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(size), 2.5 * rng.standard_normal(size)])
    y = (rng.random(size) < 1.0 / (1.0 + np.exp(-x @ [0.2, 0.3]))).astype(float)
    return x, y


def made(order, size=60, outliers=0.0, pair=ONE_SIGN):
    x, y = few(pair[0], size)
    model = sm.models.glm.logistic(x, y)
    fit = sm.laplace(model, progress=False)
    return x, y, model, fit, sm.Taylor(fit, order=order, outliers=outliers)


@cache
def flipped(order, outliers, seed):
    """A model and its flips for many tests: a user's proposal is looked at once for each model."""
    pair = next(pair for pair in (ONE_SIGN, BOTH_SIGNS) if pair[0] == seed)
    return (*made(order, outliers=outliers, pair=pair), flip_of(pair))


def value(x, y, model, beta):
    """The log posterior."""
    eta = x @ beta
    prior = 0.0
    if model.log_prior is not None:
        prior = float(model.log_prior(model.state(model.ints, np.array(beta, dtype=float))))
    return y * eta - np.logaddexp(0.0, eta), prior


def residuals(x, y, model, fit, order, pair=ONE_SIGN):
    """(r_n, Delta) from the first point to the second, by formulas of their own."""
    at = x @ np.ravel(fit.state["beta"])
    p = 1.0 / (1.0 + np.exp(-at))
    first, second, third = y - p, -p * (1.0 - p), -p * (1.0 - p) * (1.0 - 2.0 * p)

    def polynomial(beta):
        d = x @ beta - at
        return first * d + second * d**2 / 2.0 + (third * d**3 / 6.0 if order > 2 else 0.0)

    (here, prior), (there, other) = (value(x, y, model, b) for b in pair[1:])
    known = polynomial(pair[2]) - polynomial(pair[1])
    return there - here - known, known.sum() + other - prior


def flips(order, selector, kernel=None, seed=1, weights=None, outliers=0.0, pair=ONE_SIGN):
    """((accepted, tried) from the first, the same from the second), reads, of a chain on two."""
    if weights is None:
        x, y, model, fit, control, flip = flipped(order, outliers, pair[0])
    else:
        flip, (x, y, model, fit, control) = flip_of(pair), made(order, outliers=outliers, pair=pair)
        prepared = prepared_for(model, control)
        prepared.__dict__["row_weights"] = weights(prepared.row_weights)
    step = sm.Metropolis("beta", proposal=flip, selector=selector, control=control)
    step = kernel(step, model, fit) if kernel else step
    trace = sm.sample(
        model, step, draws=STEPS, warmup=0, chains=1, seed=seed, progress=False,
        start=[{"beta": pair[1]}],
    )  # fmt: skip
    told = trace.stats["beta"]
    accepted = np.asarray(told["accepted"][0]).astype(bool)
    after = np.asarray(trace.draws["beta"])[0, :, 0] == pair[2][0]
    before = np.where(accepted, ~after, after)  # was it the second
    tries = [(int(accepted[before == b].sum()), int((before == b).sum())) for b in (False, True)]
    return tries, told, (x, y, model, fit, control)


def ratio_holds(tries, log_ratio, alarm=1e-6):
    """Do rates of both directions balance: pi(here) alpha = pi(there) alpha'."""
    ends = [interval(k, n, alarm / 4) for k, n in tries]
    low, high = np.log(ends[0][0] / ends[1][1]), np.log(ends[0][1] / ends[1][0])
    assert low <= log_ratio <= high, (tries, low, log_ratio, high)


def log_ratio_of(x, y, model, pair=ONE_SIGN):
    (here, prior), (there, other) = (value(x, y, model, b) for b in pair[1:])
    return there.sum() + other - here.sum() - prior


# Shares of the rows that are outliers: none; few, which are read; more, which are drawn.
NONE, READ, DRAWN = 0.0, 0.05, 0.2


def auxiliary_rates(r, limits, delta, draws=400_000):
    """Of a step from either point, by counts of every row: (k, n), a simulation of its own."""
    rng = np.random.default_rng(0)
    for sign in (1.0, -1.0):
        here, there = limits - np.maximum(sign * r, 0.0), limits - np.maximum(-sign * r, 0.0)
        log_ratio, step = np.full(draws, sign * delta), np.log(there / here)
        for rate, one in zip(here, step, strict=True):
            log_ratio += one * rng.poisson(rate, draws)
        yield int(np.sum(np.log(rng.random(draws)) < log_ratio)), draws


@compiled_only
@pytest.mark.parametrize("pair", [ONE_SIGN, BOTH_SIGNS], ids=["one sign", "both signs"])
@pytest.mark.parametrize("outliers", [NONE, READ, DRAWN])
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("form", FORMS)
def test_two_points_are_in_detailed_balance(form, order, outliers, pair):
    tries, told, (x, y, model, fit, control) = flips(
        order, FORMS[form], outliers=outliers, pair=pair
    )
    ratio_holds(tries, log_ratio_of(x, y, model, pair))
    r, delta = residuals(x, y, model, fit, order, pair)
    assert np.abs(r).sum() > 0.2, "there is nothing to decide about"
    rare = prepared_for(model, control).outliers
    few = outliers == READ and pair is ONE_SIGN  # the others' bounds are small, so they are drawn
    read = np.isin(np.arange(len(r)), rare if few else [])
    signs, known = np.array([1.0, -1.0]), delta + r[read].sum()
    met = np.minimum(1.0, np.exp(signs * known))
    pulls = np.asarray(told["pulls"])
    if form == "everything":
        assert np.mean(told["exact"]) == 1.0
        assert log_ratio_of(x, y, model, pair) == pytest.approx(delta + r.sum(), abs=1e-9)
        rates_are(tries, np.minimum(1.0, np.exp(signs * (delta + r.sum()))))
        return
    assert (pulls.min() == 2 * len(rare)) == few or outliers == NONE
    if form == "factorised":
        against, along = (np.maximum(s * r[~read], 0.0).sum() for s in (-1.0, 1.0))
        rates_are(tries, met * np.exp([-against, -along]))
        with pytest.raises(AssertionError):  # the other sign would show
            rates_are(tries, met * np.exp([-along, -against]))
    elif outliers == NONE:
        weights = prepared_for(model, control).row_weights
        limits = told["bound"][0][0] * weights.bounds[0] / weights.bounds[0].sum(dtype=float)
        for found, wanted in zip(tries, auxiliary_rates(r, limits, delta), strict=True):
            one, two = interval(*found, 1e-7), interval(*wanted, 1e-7)
            assert one[0] < two[1] and two[0] < one[1], (found, wanted)


@compiled_only
@pytest.mark.parametrize("times", [0.5, 0.9, 1.1, 2.0])
@pytest.mark.parametrize("switch", ["most", "lost"])
def test_balance_holds_on_either_side_of_a_switch(switch, times):
    """Near it, a switch by one state and not by both would use one form there and another back."""
    _, told, (_, _, model, _, control) = flips(2, FORMS["factorised"], pair=BOTH_SIGNS)
    bound, share = float(told["bound"][0][0]), prepared_for(model, control).row_weights.shares[0]
    if switch == "most":
        selector = sm.Thinned(most=times * bound / model.size, lost=NEVER)
    else:
        selector = sm.Thinned(most=1e9, lost=times * bound * share)
    tries, told, (x, y, model, *_) = flips(2, selector, pair=BOTH_SIGNS)
    ratio_holds(tries, log_ratio_of(x, y, model, BOTH_SIGNS))
    if switch == "most":
        assert np.mean(told["exact"]) == (1.0 if times < 1.0 else 0.0)


@compiled_only
@pytest.mark.parametrize("there", ["everything", "auxiliary"])
def test_another_form_on_the_way_back_would_show(there):
    """The mutant that the test before is for: factorised one way, another form the other."""
    one, two = (flips(2, FORMS[form], pair=BOTH_SIGNS, seed=2)[0] for form in ("factorised", there))
    _, _, (x, y, model, *_) = flips(2, FORMS["everything"], pair=BOTH_SIGNS)
    with pytest.raises(AssertionError):
        ratio_holds([one[0], two[1]], log_ratio_of(x, y, model, BOTH_SIGNS))
    with pytest.raises(AssertionError):
        ratio_holds([two[0], one[1]], log_ratio_of(x, y, model, BOTH_SIGNS))


def rates_are(tries, rates):
    """Are these the chances of a step from either point."""
    for (k, n), p in zip(tries, rates, strict=True):
        equal(k, n, p)


def squared(weights):
    """Rows are drawn in proportion to squares of bounds."""
    keep, other = alias_table(weights.bounds[0].astype(float) ** 2)
    return weights._replace(keep=keep[None], other=other[None])


def of_another_fit(weights):
    """Rows are drawn by the bounds of others."""
    return weights._replace(keep=weights.keep[:, ::-1].copy(), other=weights.other[:, ::-1].copy())


@compiled_only
@pytest.mark.parametrize("form", ["factorised", "auxiliary"])
@pytest.mark.parametrize("mutant", [halved, squared, of_another_fit, without_rare])
def test_mutants_are_out_of_balance(mutant, form):
    outliers = DRAWN if mutant is without_rare else NONE
    tries, _, (x, y, model, *_) = flips(2, FORMS[form], weights=mutant, outliers=outliers)
    with pytest.raises(AssertionError):
        ratio_holds(tries, log_ratio_of(x, y, model))


def delayed(step, model, fit):
    """Screened by a surrogate that is off."""
    return sm.delayed(step, lambda state: -0.3 * state.beta[0])


@pytest.mark.parametrize("form", FORMS)
def test_delayed_acceptance_is_in_balance(form):
    tries, _, (x, y, model, *_) = flips(2, FORMS[form], delayed)
    assert any(0 < k < n for k, n in tries)
    ratio_holds(tries, log_ratio_of(x, y, model))


def bound_of(control, model, order):
    """L, of the two points, by formulas of its own: with the worst directions by search."""
    sums = prepared_for(model, control).sums
    limit, metric, at = sums.whole.limits[0, 0], sums.metric[0], sums.points[0]
    ends = [metric @ (b - at) for b in ONE_SIGN[1:]]
    step = ends[1] - ends[0]
    turn = np.linspace(0.0, np.pi, 200_001)
    rows = np.stack([np.cos(turn), np.sin(turn)])
    mean = np.mean([np.max(np.abs(step @ rows) * np.abs(z @ rows) ** order) for z in ends])
    sizes = np.linalg.norm(ends, axis=1)
    both = np.sum(sizes ** (order + 1)) / (24.0 if order > 2 else 6.0)
    return limit * min(mean / (6.0 if order > 2 else 2.0), both)


@pytest.mark.parametrize("order", [2, 3])
def test_rows_that_are_read_are_as_the_bound_says(order):
    """L of them by the auxiliary test; fewer by the factorised one: none where Delta rejects."""
    read = {}
    for form in ("auxiliary", "factorised"):
        _, told, (_, _, model, _, control) = flips(order, FORMS[form])
        wanted = bound_of(control, model, order)
        np.testing.assert_allclose(told["bound"], wanted, rtol=1e-6)
        read[form] = np.sum(told["pulls"]) / 2.0
        if form == "auxiliary":  # a Poisson number in each decision
            assert abs(read[form] - wanted * STEPS) < 5.0 * np.sqrt(wanted * STEPS)
    assert 0.0 < read["factorised"] < read["auxiliary"]


# --------------------------------------------------------------------------------------- chains
def moments(model, kernel, draws, seed):
    trace = sm.sample(model, kernel, draws=draws, warmup=500, chains=4, seed=seed, progress=False)
    beta = np.asarray(trace.draws["beta"])
    means = beta.reshape(4 * 20, -1, beta.shape[-1]).mean(axis=1)  # batches: errors by their spread
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(len(means)), trace


@compiled_only
@pytest.mark.parametrize("order", [2, 3])
def test_a_chain_that_starts_far_from_the_reference_arrives(order):
    """43 posterior sds away the known part is off by many nats: alone it rejects for good."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(200_000), rng.standard_normal((200_000, 4))])
    y = (rng.random(200_000) < 1.0 / (1.0 + np.exp(-x @ np.linspace(0.3, -0.3, 5)))).astype(float)
    model = sm.models.glm.logistic(x, y)
    fit = sm.laplace(model, progress=False)
    kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), control=sm.Taylor(fit, order=order))
    trace = sm.sample(model, kernel, draws=2_000, warmup=1_000, chains=2, seed=1, progress=False)
    off = np.asarray(trace.draws["beta"]).mean(axis=(0, 1)) - np.ravel(fit.state["beta"])
    assert np.all(np.abs(off) < np.sqrt(np.diag(fit.covariance))), off
    assert np.mean(trace.stats["beta"]["accepted"]) > 0.9


@pytest.mark.plain
def test_an_audit_passes_by_what_was_read_in_full():
    """A proposal whose likelihood overflows is rejected by its sum, with an audit as without."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(300), rng.standard_normal(300)])
    model = sm.models.glm.poisson(x, rng.poisson(1.0, 300).astype(float))
    control = sm.Taylor(sm.laplace(model, progress=False))

    def far(rng, current, out):
        step = 1000.0 if rng.random() < 0.2 else 0.05
        for i in range(2):
            out[i] = current[i] + step * rng.normal()

    kernel = sm.Metropolis("beta", proposal=far, control=control)
    draws = 60 if DISABLED else 200
    runs = [
        sm.sample(model, kernel, draws, 20, chains=1, seed=1, audit=audit, progress=False)
        for audit in (0.0, 1.0)
    ]
    assert np.array_equal(runs[0].draws["beta"], runs[1].draws["beta"])
    told = runs[1].stats["beta"]
    assert 0 < np.sum(told["audited"]) < draws and np.sum(told["exact"]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", ["factorised", "auxiliary", "default", "langevin"])
def test_chains_have_the_moments_of_exact_ones(kind, seed):
    rng = np.random.default_rng(10)
    x = np.column_stack([np.ones(400), rng.standard_normal((400, 4))])
    y = (rng.random(400) < 1.0 / (1.0 + np.exp(-x @ [0.2, 0.8, -0.5, 0.3, 0.0]))).astype(float)
    model = sm.models.glm.logistic(x, y)
    fit = sm.laplace(model, progress=False)
    control = sm.Taylor(fit, order=2)
    selector = FORMS.get(kind, sm.Thinned())
    if kind == "langevin":
        kernel = sm.Langevin("beta", control=control, precondition=fit, selector=selector)
    else:
        kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), selector=selector, control=control)
    exact = sm.Metropolis("beta", proposal=sm.pcn(fit), selector=sm.Exact())
    found, error, trace = moments(model, kernel, 20_000, seed)
    wanted, other, _ = moments(model, exact, 20_000, 100 + seed)
    assert np.all(np.abs(found - wanted) < 4.0 * np.hypot(error, other))
    told = trace.stats["beta"]
    assert np.mean(told["raced"]) > 0.2  # rows were read, and it is no chain of exact sums
    if kind in FORMS:
        assert not np.asarray(told["exact"]).any()


@pytest.mark.plain
def test_the_same_seed_gives_the_same_draws_and_cores_do_not_matter():
    _, _, model, _, control = made(2)
    kernel = sm.Metropolis("beta", selector=sm.Thinned(most=1e9), control=control)
    runs = [
        sm.sample(model, kernel, 40, 10, chains=2, seed=3, cores=cores, progress=False)
        for cores in (1, 2)
    ]
    assert np.array_equal(runs[0].draws["beta"], runs[1].draws["beta"])


# ----------------------------------------------------------------------------------- what it says
@pytest.mark.plain
def test_where_it_does_not_serve():
    _, y, model, _, control = made(2)
    thinned = sm.Thinned()
    with pytest.raises(ValueError, match="give the kernel control="):
        sm.sample(model, sm.Metropolis("beta", selector=thinned), 2, progress=False)
    with pytest.raises(ValueError, match="this kernel asks another question"):
        sm.sample(model, sm.Slice("beta", selector=thinned, control=control), 2, progress=False)
    with pytest.raises(ValueError, match="decides on residuals of a control variate"):
        sm.choose(np.zeros((2, 9)), selector=thinned)
    for wrong in ({"most": -1.0}, {"lost": np.nan}):
        with pytest.raises(ValueError, match="give a number, 0 or more"):
            sm.Thinned(**wrong)
    plain = sm.Model(lambda s, d, n: -0.5 * (d.y[n] - s.mu[0]) ** 2, {"y": y}, {"mu": 0.0})
    unknown = sm.Taylor(sm.laplace(plain, progress=False))
    with pytest.raises(ValueError, match="needs a bound of each residual"):
        sm.sample(plain, sm.Metropolis("mu", selector=thinned, control=unknown), 2, progress=False)


def test_a_bound_that_is_too_small_is_named():
    """Declared 1,000 times too small: of all data, or of those that no sample looks at."""
    x, y = few(size=400)
    unseen = np.ones(400)

    def eta(state, data, n):
        return data.x[n, 0] * state.beta[0] + data.x[n, 1] * state.beta[1]

    def log_factor(e, data, n):
        return data.y[n] * e - sm.log1p(sm.exp(e))

    def derivatives(e, data, n):
        p = 1.0 / (1.0 + sm.exp(-e))
        return data.y[n] - p, -p * (1.0 - p)

    def remainder(e, data, n):
        return (1e-4, 1e-4) if data.unseen[n] == 1.0 else (0.1, 0.125)

    def kernel_of(data):
        parts = sm.Predictors(eta, log_factor, derivatives, remainder)
        model = sm.Model(parts, data, {"beta": np.zeros(2)})
        fit = sm.laplace(model, progress=False)
        control = sm.Taylor(fit, order=2)
        return model, sm.Metropolis("beta", proposal=sm.pcn(fit), control=control)

    with pytest.raises(ValueError, match=r"remainder says .* order 3 .* at most .* at datum 0"):
        kernel_of({"x": x, "y": y, "unseen": unseen})
    unseen[np.linspace(0, 399, SAMPLED).astype(int)] = 0.0
    model, kernel = kernel_of({"x": x, "y": y, "unseen": unseen})
    with pytest.raises(sm.SpreadError, match=r"residual of .* at datum \d+ .*exceeds the bound"):
        sm.sample(model, kernel, draws=5_000, warmup=0, chains=1, seed=1, progress=False)


@pytest.mark.plain
def test_it_is_described_as_exact():
    _, _, model, _, control = made(2)
    kernel = sm.Metropolis("beta", selector=sm.Thinned(lost=0.5), control=control)
    text = kernel.describe(model)
    assert "guarantee: exact" in text and "Thinned(lost=0.5)" in text and "exp(-sum |r|)" in text
    trace = sm.sample(model, kernel, 30, 10, chains=1, seed=1, audit=0.5, progress=False)
    assert "exp(-sum |r|)" in str(trace.report())
    assert replace(sm.Thinned(), most=0.1) == sm.Thinned(most=0.1)


@pytest.mark.plain
def test_an_audit_tells_what_thinning_costs():
    """The sum of negative parts, by formulas of its own, from both points; and nothing is wrong."""
    x, y, model, fit, control = made(2)
    step = sm.Metropolis(
        "beta", proposal=flip_of(ONE_SIGN), selector=FORMS["factorised"], control=control
    )
    draws, start = 100 if DISABLED else 400, [{"beta": ONE_SIGN[1]}]
    runs = [
        sm.sample(model, step, draws, 0, chains=1, seed=1, audit=audit, start=start,
                  progress=False)
        for audit in (0.0, 1.0)
    ]  # fmt: skip
    assert np.array_equal(runs[0].draws["beta"], runs[1].draws["beta"])
    told = runs[1].stats["beta"]
    r, _ = residuals(x, y, model, fit, 2)
    wanted = [np.maximum(-r, 0.0).sum(), np.maximum(r, 0.0).sum()]
    after = np.asarray(runs[1].draws["beta"])[0, :, 0] == ONE_SIGN[2][0]
    before = np.r_[False, after[:-1]]
    assert before.any() and not before.all()
    np.testing.assert_allclose(np.ravel(told["regret"]), np.array(wanted)[before * 1], rtol=1e-9)
    assert np.all(np.asarray(told["audited"]) == 1) and not np.asarray(told["wrong"]).any()
    spread = np.asarray(told["variance"])
    np.testing.assert_allclose(spread, len(r) * r.var(), rtol=1e-6)
    row = runs[1].report().rows[0]
    assert row["regret_audited"] == pytest.approx(np.mean(told["regret"]))
    assert "nats lost per audited one" in str(runs[1].report())


def test_evidence_in_few_rows_is_read():
    """Ten rows of 200,000 carry one coefficient: what is read are they."""
    rng = np.random.default_rng(3)
    size, rare = 200_000, 10
    x = np.column_stack([np.ones(size), np.zeros(size)])
    x[rng.choice(size, rare, replace=False), 1] = 1.0
    y = (rng.random(size) < 0.4).astype(float)
    y[x[:, 1] == 1.0] = [1.0] * 6 + [0.0] * 4
    model = sm.models.glm.logistic(x, y)
    fit = sm.laplace(model, progress=False)
    kernel = sm.Metropolis(
        "beta", proposal=sm.pcn(fit), selector=sm.Thinned(), control=sm.Taylor(fit)
    )
    trace = sm.sample(model, kernel, draws=60_000, warmup=500, chains=1, seed=1, progress=False)
    rows = np.asarray(trace.stats["beta"]["pulls"]).mean() / 2
    assert rows < 0.001 * size
    # The posterior of the two coefficients, up to a tiny width of the first: by quadrature.
    share = np.log(y[x[:, 1] == 0.0].mean() / (1.0 - y[x[:, 1] == 0.0].mean()))
    grid = np.linspace(-6.0, 8.0, 4001)
    prior = [
        float(model.log_prior(model.state(model.ints, np.array([share, b])))) for b in grid
    ] if model.log_prior is not None else np.zeros(len(grid))  # fmt: skip
    log_density = 6.0 * (share + grid) - 10.0 * np.logaddexp(0.0, share + grid) + prior
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    draws = np.asarray(trace.draws["beta"])[0, :, 1]
    mean = float(density @ grid)
    batches = draws.reshape(60, -1).mean(axis=1)
    assert abs(draws.mean() - mean) < 4.5 * batches.std(ddof=1) / np.sqrt(60)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Normal", "Betting", "Thinned"])
def test_evidence_in_few_rows_that_no_batch_meets(name):
    """Without outliers an audit catches the race; with proofs, and by weight, nothing is wrong."""
    rng = np.random.default_rng(4)
    size = 100_000
    x = np.column_stack([np.ones(size), np.zeros(size)])
    x[rng.choice(size, 10, replace=False), 1] = 1.0
    y = (rng.random(size) < 0.4).astype(float)
    y[x[:, 1] == 1.0] = [1.0] * 6 + [0.0] * 4
    model = sm.models.glm.logistic(x, y)
    fit = sm.laplace(model, progress=False)
    selector = {
        "Normal": sm.Racing(delta=0.001), "Betting": sm.Racing(sm.Betting(), delta=0.01),
        "Thinned": sm.Thinned(),
    }[name]  # fmt: skip
    kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), selector=selector,
                           control=sm.Taylor(fit, outliers=0.0))  # fmt: skip
    trace = sm.sample(model, kernel, draws=20_000, warmup=500, chains=1, seed=3,
                      audit=0.5 if name == "Normal" else 0.1, progress=False)  # fmt: skip
    told = trace.stats["beta"]
    wrong, audited = int(told.total("wrong")), int(told.total("audited"))
    assert audited > 1_500
    if name == "Normal":
        above(wrong, audited, 0.001)
        assert any("were wrong" in text for text in trace.report().warnings)
    else:
        assert wrong == 0


@pytest.mark.plain
def test_the_report_tells_the_bounds():
    _, _, model, _, control = made(2)
    kernel = sm.Metropolis("beta", selector=sm.Thinned(), control=control)
    trace = sm.sample(model, kernel >> sm.Slice("beta"), 61, 10, chains=2, seed=1, progress=False)
    each = np.ravel(trace.stats["beta"]["bound"])  # one decision a draw
    rows = trace.report().rows
    assert np.all(each > 0.0) and "bound" not in trace.stats["beta_2"]
    assert rows[0]["bound"] == np.median(each) and np.isnan(rows[1]["bound"])
    assert np.mean(each <= rows[0]["bound_high"]) >= 0.95 > np.mean(each < rows[0]["bound_high"])
    assert "L, sum of residuals' bounds: median" in str(trace.report())
    assert "bound" in trace.to_arviz().sample_stats["beta_bound"].name
