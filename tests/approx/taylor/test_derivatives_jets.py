"""Control variates of plain functions: derivatives of log_likelihood itself, and what has none."""

import math
import os
import re

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor import derivatives_jets
from subsample_mcmc.approx.taylor.derivatives_jets import Jets
from subsample_mcmc.approx.taylor.derivatives_predictors import Linear
from subsample_mcmc.approx.taylor.found import derivatives_found
from subsample_mcmc.approx.taylor.found.derivatives_found import Found
from subsample_mcmc.approx.taylor.taylor import FOUND, Keep, Taylor
from subsample_mcmc.approx.taylor.tensors import by_pairs, lines_of, tensors
from subsample_mcmc.numerics.progress import Bar
from tests.approx.taylor.test_taylor import order_of
from tests.helpers.claims import at_most
from tests.helpers.laws import ALARM
from tests.helpers.models import tally, walker
from tests.helpers.plain_families import (
    FAMILIES,
    SIZE,
    linear,
    logistic_by_hand,
    made,
    poisson,
)
from tests.helpers.tall import Bench, exact, regression

EVERY = Keep(np.zeros(0, dtype=np.int64))


@pytest.fixture(autouse=True)
def predictors_are_looked_for(monkeypatch):
    """Also in few data."""
    monkeypatch.setattr(derivatives_found, "MANY", 0)


def sums_of(model, source, at):
    return source.sums(model.ints, np.array(at, dtype=float), EVERY, Bar(delay=1e9))


# ------------------------------------------------------------------------- the tensors themselves
@pytest.mark.plain
@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_tensors_are_those_of_their_values_along_lines(d, rng):
    gradient, hessian = rng.standard_normal(d), rng.standard_normal((d, d))
    third = rng.standard_normal((d, d, d))
    hessian = hessian + hessian.T
    third = sum(np.transpose(third, p) for p in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0),
                                                 (2, 0, 1), (2, 1, 0)))  # fmt: skip
    for cubic in (False, True):
        rows = []
        for where, signs in lines_of(d, cubic):
            s = np.zeros(d)
            s[list(where)] = signs
            cube = np.einsum("ijk,i,j,k", third, s, s, s)
            rows.append((1.5, gradient @ s, s @ hessian @ s / 2.0, cube / 6.0))
        value, one, two, three = tensors(np.array(rows), d, cubic)
        assert value == 1.5
        np.testing.assert_allclose(one, gradient)
        np.testing.assert_allclose(two, hessian, atol=1e-12)
        if cubic:
            assert len(rows) == d * (d + 1) * (d + 2) // 6
            np.testing.assert_allclose(three, third, atol=1e-12)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:student_t calls")
@pytest.mark.parametrize("family", FAMILIES)
def test_sums_are_those_of_derivatives_by_hand(family, rng):
    """To 1e-12 of what is added up; at the mode gradients cancel, and are compared with parts."""
    model, likelihood = made(family, rng)
    at = model.floats + 0.2 * rng.standard_normal(len(model.floats))
    start = {name: at[v.block.start : v.block.start + v.block.length].reshape(v.block.shape)
             for name, v in model.variables.items()}  # fmt: skip
    plain = sm.Model(likelihood, model.data._asdict(), start, model.log_prior)
    two = sums_of(model, Linear(model, 3, True, at), at)
    for source in (Jets(plain, 3), Found(plain, 3)):
        one = sums_of(plain, source, at)
        for order in (1, 2, 3):
            size = np.abs(two[order]).max()
            np.testing.assert_allclose(one[order], two[order], rtol=1e-12, atol=1e-12 * size)
    points = at + np.array([[0.02], [0.1]]) * rng.standard_normal((2, len(at)))
    benches = [Bench(m, sm.Taylor(start, order=3, outliers=0.0), points) for m in (plain, model)]
    assert prepared_for(plain, benches[0].control).way == (FOUND, "")
    change = [b.residuals(1) - b.residuals(0) for b in benches]
    size = np.abs(benches[1].values(1)).max()
    np.testing.assert_allclose(*change, rtol=0.0, atol=1e-12 * size)


# ------------------------------------------------------------------------------------ residuals
@pytest.mark.slow
@pytest.mark.slow_for("2-2.9-3.05")
@pytest.mark.parametrize(("order", "low", "high"), [(2, 2.9, 3.05), (3, 3.8, 4.05)])
def test_residuals_have_the_power_of_their_order(order, low, high, rng):
    for family in ("student t scale", "poisson"):
        model, likelihood = made(family, rng)
        state = {name: np.full(v.block.shape, 0.1) for name, v in model.variables.items()}
        plain = sm.Model(likelihood, model.data._asdict(), state)
        reference = {"beta": np.zeros(4) + 0.1, **state}
        control = sm.Taylor(reference, order=order, outliers=0.0)
        flat = {"beta": np.concatenate([np.ravel(reference[name]) for name in plain.names])}
        slope = order_of(plain, control, flat, rng, far=0.05)
        assert low <= slope <= high, (family, slope)


@pytest.mark.parametrize("order", [2, 3])
def test_sums_and_residuals_make_up_the_total(order, rng):
    """The known sum and all residuals are the direct total, to 1e-12 of what is added up."""
    model, likelihood = made("student t scale", rng)
    state = {name: np.full(v.block.shape, 0.2) for name, v in model.variables.items()}
    plain = sm.Model(likelihood, model.data._asdict(), state)
    points = 0.2 + 0.1 * rng.standard_normal((5, 5))
    bench = Bench(plain, sm.Taylor(state, order=order, outliers=0.0), points)
    for arm in range(5):
        values = bench.values(arm)
        off = bench.means[arm] + bench.residuals(arm).sum() - values.sum()
        assert abs(off) <= 1e-12 * np.abs(values).sum()


@pytest.mark.slow
def test_rows_that_are_always_read_are_not_in_the_sums(rng):
    model, reference = regression("poisson", 3000, 3, "jets", heavy=True, seed=5)
    for order in (2, 3):
        control = sm.Taylor(reference, order=order, outliers=0.05)
        bench = Bench(model, control, reference["beta"] + 0.05 * rng.standard_normal((3, 3)))
        assert len(bench.raced) == 2850
        exact(bench)


@pytest.mark.slow
def test_wrong_third_derivatives_are_noticed(rng, monkeypatch):
    """A mutant: sums that are off by a part in 10^5."""
    monkeypatch.setattr(derivatives_jets, "by_pairs", lambda third: by_pairs(third) * 1.00001)
    monkeypatch.setattr(Taylor, "way_of", lambda self, model: ("jets", ""))
    model, reference = regression("poisson", SIZE, 3, "jets")
    bench = Bench(model, sm.Taylor(reference, order=3), reference["beta"] + np.full((1, 3), 0.1))
    with pytest.raises(AssertionError, match="the mean is off"):
        exact(bench)


def test_sums_do_not_depend_on_cores(monkeypatch):
    model, reference = regression("logistic", 40_000, 3, "jets")
    found = []
    for cores in (1, 3):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        found.append(sums_of(model, Jets(model, 3), reference["beta"]))
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


# ------------------------------------------------------------------- what is prepared once a state
def scale_made(state, data):
    return sm.exp(-state.log_sigma[0]), state.log_sigma[0]


def student_made(state, data, n, made):
    z = (data.y[n] - linear(state, data, n)) * made[0]
    return -made[1] - 0.5 * (data.nu + 1.0) * sm.log(1.0 + z**2 / data.nu)


def shares_made(state, data):
    """Whole arrays: log shares of five groups, and copies of what it may write to."""
    score = state.a - np.log(np.sum(np.exp(state.a)))
    weights = np.ones(5)
    kept = score * weights
    weights[0] = 7.0
    return kept, data.z


def grouped(state, data, n, made):
    return made[0][data.g[n]] + made[1][n] * state.a[0]


def grouped_plainly(state, data, n):
    total = 0.0
    for k in range(5):
        total += sm.exp(state.a[k])
    return state.a[data.g[n]] - sm.log(total) + data.z[n] * state.a[0]


def filled_made(state, data):
    """Arrays that are filled item by item."""
    score, top = np.zeros_like(state.a), 0.0
    for k in range(5):
        top += sm.exp(state.a[k])
    for k in range(5):
        score[k] = state.a[k] - sm.log(top)
    return score, data.z


MAKERS = {"arrays": shares_made, "filled arrays": filled_made}


def prepared_pair(kind, rng, size):
    """A model with prepare, and one that computes the same for each datum."""
    if kind == "numbers":
        x = np.column_stack([np.ones(size), rng.standard_normal((size, 2))])
        data = {"x": x, "y": x @ [0.3, -0.5, 0.8] + rng.standard_t(4, size), "nu": 4.0}
        state = {"beta": np.array([0.2, -0.4, 0.8]), "log_sigma": 0.1}
        return (sm.Model(student_made, data, state, prepare=scale_made),
                sm.Model(by_scale, data, state), state)  # fmt: skip
    data = {"g": rng.integers(0, 5, size), "z": rng.standard_normal(size)}
    state = {"a": np.array([0.2, -0.4, 0.8, 0.0, 0.1])}
    one = sm.Model(grouped, data, state, prepare=MAKERS[kind])
    return one, sm.Model(grouped_plainly, data, state), state


def by_scale(state, data, n):
    return student_made(state, data, n, scale_made(state, data))


@pytest.mark.slow
@pytest.mark.plain
@pytest.mark.parametrize("kind", ["numbers", *MAKERS])
def test_what_prepare_makes_has_its_derivatives(kind, rng):
    models = prepared_pair(kind, rng, 20 if derivatives_jets.DISABLED else SIZE)
    *models, state = models
    at = models[0].floats + 0.1
    sums = [sums_of(model, Jets(model, 3), at) for model in models]
    for one, two in zip(*sums, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12 * np.abs(two).max())
    assert np.abs(sums[0][3]).max() > 0.1  # it bends, and by what is prepared
    points = at + np.array([[0.02], [0.1]]) * rng.standard_normal((2, len(at)))
    control = sm.Taylor(state, order=3, outliers=0.0, predict=False)
    benches = [Bench(model, control, points) for model in models]
    way, why = prepared_for(models[0], control).way
    assert way == "jets" and "prepare" in why
    # Where predictors are found, of the twin, residuals of all arms hold the same constant.
    left = [bench.residuals(1) - bench.residuals(0) for bench in benches]
    size = np.abs(benches[1].values(1)).max()
    np.testing.assert_allclose(*left, rtol=0.0, atol=1e-12 * size)
    change = np.abs(benches[0].values(1) - benches[0].values(0)).max()
    assert np.abs(left[0]).max() < 0.05 * change


# ------------------------------------------------------------------------- which way, and why not
def robust(state, data, n):
    return -abs(data.y[n] - linear(state, data, n))


def hinge(state, data, n):
    e = linear(state, data, n)
    return -max(0.0, 1.0 - e * data.y[n])


def by_array(state, data, n):
    return -0.5 * (data.y[n] - np.cumsum(data.x[n] * state.beta)[-1]) ** 2


def rounded(state, data, n):
    return -0.5 * (data.y[n] - math.floor(100.0 * linear(state, data, n)) / 100.0) ** 2


def regressed(likelihood, rng, d=3, size=SIZE, zero=False):
    x = rng.standard_normal((size, d))
    y = x @ np.linspace(0.5, -0.5, d) + rng.standard_normal(size)
    y[7] = 0.0 if zero else y[7]
    model = sm.Model(likelihood, {"x": x, "y": y}, {"beta": np.linspace(0.5, -0.5, d)})
    return model, {"beta": np.zeros(d) if zero else np.linspace(0.5, -0.5, d)}


@pytest.mark.parametrize(("likelihood", "zero", "words"), [
    (robust, False, r"second derivative .* coordinate 0, 0 over 600 data, is -.*: it has kinks"),
    (robust, True, r"is not smooth at the reference at datum 7 \(y=0\)"),
    (hinge, False, "it has kinks there"),
    (by_array, False, "does not compile for derivatives: "),
    (rounded, False, "does not compile for derivatives: .*floor"),
])  # fmt: skip
def test_what_has_no_derivatives_is_interpolated(likelihood, zero, words, rng):
    """Never an error: its sums are exact, as ever, and it is told why."""
    model, reference = regressed(likelihood, rng, zero=zero)
    control = sm.Taylor(reference, outliers=0.0)
    bench = Bench(model, control, reference["beta"] + 0.1 * rng.standard_normal((3, 3)))
    exact(bench)
    assert prepared_for(model, control).way[0] == "interpolation"
    kernel = sm.Metropolis("beta", selector=sm.Racing(), control=control)
    told = kernel.describe(model)
    assert "Taylor(order=2, outliers=0.0) by interpolation (" in told
    assert re.search(words, told), told
    with pytest.raises(ValueError, match="order=3 needs third derivatives"):
        prepared_for(model, sm.Taylor(reference, order=3))


def rare_level(state, data, n):
    e = state.beta[0] + state.beta[1] * data.x[n] + state.beta[2] * data.rare[n]
    return sm.log_sigmoid(e) if data.y[n] == 1.0 else sm.log_sigmoid(-e)


@pytest.mark.slow
def test_what_bends_fast_has_no_kinks(rng, monkeypatch):
    """A rare level whose data are all 1, where half a standard deviation is wide for them."""
    size = 2_000
    rare = (np.arange(size) < 2).astype(float)
    x, y = rng.standard_normal(size), (rng.random(size) < 0.3) | (rare == 1.0)
    data = {"x": x, "rare": rare, "y": y.astype(float)}
    model = sm.Model(rare_level, data, {"beta": [-1.0, 0.5, 4.6]})
    Jets(model, 2).check_sums(model.ints, model.floats)
    assert sm.derivatives(model).way != "interpolation"
    monkeypatch.setattr(derivatives_jets, "SMOOTH", 0.0)  # nothing else is smooth about it
    with pytest.raises(derivatives_jets.NotSmoothError, match=r"coordinate 2, .* has kinks there"):
        Jets(model, 2).check_sums(model.ints, model.floats)


def by_group(state, data, n):
    """Smooth but in the last of 200 configurations, at one datum."""
    r = data.y[n] - linear(state, data, n) - 0.25 * state.k[0]
    return -abs(r) if state.k[0] == 199 and n == 5 else -0.5 * r * r


@pytest.mark.slow
def test_each_configuration_is_looked_at_and_some_are_compared(rng, monkeypatch):
    """A kink is met wherever it is; curvatures, which take longer, are compared in a few."""
    y, compared, check = rng.standard_normal(40), [], Jets.check_sums
    y[5] = 0.25 * 199  # numbers without rounding: there the residual is 0
    monkeypatch.setattr(Jets, "check_sums", lambda self, ints, point: (
        compared.append(int(ints[0])), check(self, ints, point)))  # fmt: skip
    data, state = {"x": rng.standard_normal((40, 3)), "y": y}, {"k": 0, "beta": np.zeros(3)}
    for values, way in ((199, FOUND), (200, "interpolation")):
        model = sm.Model(by_group, data, state, support={"k": values})
        control = sm.Taylor({"beta": np.zeros(3)}, outliers=0.0, predict=False)
        assert prepared_for(model, control).way[0] == way
    assert 1 < len(compared) <= derivatives_jets.CONFIGURATIONS


@pytest.mark.slow
def test_a_flat_direction_is_no_kink(rng):
    """Next to no curvature: not compared at a step that leads out of this world."""

    def nearly_flat(state, data, n):
        e = linear(state, data, n)
        return -0.5 * (data.y[n] - e) ** 2 + 1e-9 * math.cos(3.0 * state.free[0])

    reference = {"beta": np.linspace(0.5, -0.5, 3)}
    one = sm.Model(nearly_flat, {"x": rng.standard_normal((SIZE, 3)), "y": np.zeros(SIZE)},
                   {**reference, "free": 0.1})  # fmt: skip
    control = sm.Taylor({**reference, "free": 0.1}, outliers=0.0)
    assert prepared_for(one, control).way == (FOUND, "")


@pytest.mark.slow
def test_the_way_is_told():
    for d, told in (
        (2, "control: Taylor(order=2);"),
        (3, "control: Taylor(order=3) by predictors found in log_likelihood;"),
        (40, "control: Taylor(order=3) by predictors found in log_likelihood;"),
        (41, "control: Taylor(order=2) by predictors found in log_likelihood;"),
    ):  # fmt: skip
        model, reference = regression("logistic", 50 if d < 9 else 2000, d, "jets")
        kernel = sm.Metropolis("beta", selector=sm.Racing(), control=sm.Taylor(reference))
        assert told in kernel.describe(model)
    many = np.zeros(65)
    model = sm.Model(poisson, {"x": np.zeros((9, 65)), "y": np.ones(9)}, {"beta": many})
    assert "(65 parameters are more than the 64 of jets)" in sm.Taylor({"beta": many}).text(model)
    with pytest.raises(ValueError, match="65 continuous parameters: interpolation serves 64"):
        prepared_for(model, sm.Taylor({"beta": many}))


@pytest.mark.slow
def test_a_run_stored_without_jets_is_refused_to_them(tmp_path, monkeypatch):
    """And one by jets goes on; the reason is given by name."""
    model, reference = plain_model("logistic", 200)

    def kernel():
        return walk(sm.Racing(), sm.Taylor(reference))

    def drawn(name):
        path = tmp_path / name
        sm.sample(model, kernel(), draws=5, warmup=0, chains=1, seed=1, progress=False, store=path)
        return path

    by_jets = drawn("jets.nc")
    assert len(sm.resume(by_jets, model, kernel(), draws=9, progress=False).draws["beta"][0]) == 9
    with monkeypatch.context() as patched:
        patched.setattr(sm.Taylor, "way_of", lambda self, model: ("interpolation", ""))
        before = drawn("before.nc")
        with pytest.raises(ValueError, match=r"started: derivatives for kernel beta \(gone\)"):
            sm.resume(by_jets, model, kernel(), draws=12, progress=False)
    with pytest.raises(ValueError, match=r"started: derivatives for kernel beta \(new\)"):
        sm.resume(before, model, kernel(), draws=9, progress=False)


def test_mistakes_are_told_as_they_are_without(rng):
    """An impossible reference names itself, whichever way derivatives come."""

    def logged(state, data, n):
        return sm.log(state.beta[0]) * data.y[n] - state.beta[1] ** 2 - state.beta[2] ** 2

    model = sm.Model(logged, {"y": np.ones(20)}, {"beta": np.ones(3)})
    with pytest.raises(
        ValueError, match=r"not finite near the reference beta=\[-1, 1, 1\]: choose"
    ):
        prepared_for(model, sm.Taylor({"beta": [-1.0, 1.0, 1.0]}))


# ---------------------------------------------------------------------------- for people who look
@pytest.mark.slow_for("logistic by hand-4")
@pytest.mark.slow_for("softmax-4", "student t scale-4")
@pytest.mark.parametrize(("family", "power"), [
    ("student t scale", 4), ("poisson", 4), ("softmax", 4), ("logistic by hand", 4),
])  # fmt: skip
def test_derivatives_are_shown(family, power, rng):
    """Which way, and how fast what is left over falls, of both ways to write a model."""
    model, likelihood = made(family, rng)
    state = {name: np.full(v.block.shape, 0.1) for name, v in model.variables.items()}
    plain = sm.Model(likelihood, model.data._asdict(), state)
    for one, way in ((plain, FOUND), (model, "predictors")):
        found = sm.derivatives(one, state)
        assert (found.way, found.why, found.order, found.rows) == (way, "", 3, SIZE)
        assert found.left < 0.01 and abs(found.power - power) < 0.3 and found.nanoseconds > 0.0
        assert f"derivatives of order 3 by {'predictors found' if way == FOUND else 'sm.'}" in str(
            found
        )
    second = sm.derivatives(plain, state, order=2)
    assert abs(second.power - 3.0) < 0.3 and second.left > found.left


def test_interpolation_is_shown_with_its_reason(rng):
    model, reference = regressed(robust, rng)
    told = str(sm.derivatives(model, reference))
    assert "by interpolation between 13 points" in told and "why not better: the second" in told
    few = sm.derivatives(regression("logistic", 50, 2, "jets")[0])
    assert few.way == "interpolation" and few.why == "" and "why not" not in str(few)
    with pytest.raises(ValueError, match="order=3 needs third derivatives"):
        sm.derivatives(model, reference, order=3)
    with pytest.raises(TypeError, match=r"give an sm\.Model"):
        sm.derivatives(robust)


# ------------------------------------------------------------------------------ draws, and errors
def walk(selector, control=None, step=0.03):
    return sm.Metropolis("beta", step, selector=selector, control=control, adapt=False)


def plain_model(family, size, **more):
    model, reference = regression(family, size, 3, "jets", **more)
    state = {"beta": reference["beta"]}
    one = sm.Model(PLAIN[family], {"x": model.data.x, "y": model.data.y}, state)
    return one, state


PLAIN = {"logistic": logistic_by_hand, "poisson": poisson}


@pytest.mark.parametrize("family", sorted(PLAIN))
def test_exact_decisions_are_the_same_with_and_without(family):
    """At every distance, with arms ruled out or not: bit for bit."""
    model, reference = plain_model(family, 2000, heavy=True, scale=0.3, seed=4)
    for start in (reference["beta"], reference["beta"] + 0.5):
        draws = []
        for control in (None, sm.Taylor(reference, predict=False), sm.Taylor(reference)):
            one = walker(model, walk(sm.Exact(), control), seed=3)
            one.floats[:] = start
            draws.append(one.advance(400).floats)
            assert one.error is None
        assert np.array_equal(draws[0], draws[1]) and np.array_equal(draws[0], draws[2])


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.1, 1e-3])
@pytest.mark.parametrize("predict", [True, False])
def test_errors_are_as_rare_as_said(delta, predict):
    """Races of residuals, and predictions: wrong in at most a share delta of 1,500 decisions."""
    model, reference = plain_model("logistic", 20_000, heavy=True, seed=3)
    race = sm.Racing(sm.Normal(), delta=delta, batch=64, retreat=False)
    control = sm.Taylor(reference, predict=predict, outliers="auto" if predict else 0.02)
    one = walker(model, walk(race, control), 1, audit=1.0)
    words = one.advance(1500).words
    told = tally(one, words, "beta")
    assert one.error is None and told["audited"] == 1500
    at_most(told["wrong"], told["audited"], delta)
    assert told["pulls"] < 0.5 * told["everything"]
    assert (told["predicted"] > 0.3 * told["decisions"]) == predict


@pytest.mark.slow
def test_chains_have_the_posterior_of_exact_ones():
    """Means and variances of three coefficients, z of batch means; 1e-6 that one is above 5.3."""
    model, _ = plain_model("logistic", 5000, seed=9)
    fit = sm.laplace(model)
    found = []
    for selector, control, seed in ((sm.Exact(), None, 1), (sm.Racing(), sm.Taylor(fit), 2)):
        kernel = sm.Metropolis("beta", proposal=sm.pcn(fit, beta=0.8), selector=selector,
                               control=control)  # fmt: skip
        trace = sm.sample(model, kernel, draws=20_000, warmup=500, chains=2, seed=seed,
                          progress=False)  # fmt: skip
        z = (trace.draws["beta"] - fit.mean) / np.sqrt(np.diag(fit.covariance))
        batches = np.concatenate([z, z**2], axis=-1).reshape(2 * 50, -1, 6).mean(axis=1)
        found.append((batches.mean(axis=0), batches.var(axis=0, ddof=1) / len(batches)))
    apart = np.abs(found[0][0] - found[1][0]) / np.sqrt(found[0][1] + found[1][1])
    assert apart.max() < 5.3 and ALARM <= 1e-6
    assert np.abs(found[1][0][3:] - 1.0).max() < 0.3  # and it is the posterior that they have
