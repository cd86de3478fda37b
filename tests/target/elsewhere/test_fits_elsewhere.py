"""Fits, control variates and reports of models whose rows are elsewhere are those of memory."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.target.sources.local import parts_of
from tests.helpers.two_columns import leaves

SIZE, LAYOUT = 6_000, [1, 0, 2_303, 1_796, 1, 1_899]
LARGE, CUT = 60_000, [20_001, 0, 1, 29_998, 10_000]  # fits begin on some of these


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((LARGE, 2))
    y = rng.random(LARGE) < 1.0 / (1.0 + np.exp(-x @ [0.5, -1.0]))
    count = rng.poisson(np.exp(0.5 + x @ [0.1, -0.2]))
    return {"a": x[:, 0].copy(), "b": x[:, 1].copy(), "y": y, "count": count}


def some(columns, size, *names):
    return {name: columns[name][:size] for name in names}


def plain(state, data, n):
    eta = state.beta[0] * data.a[n] + state.beta[1] * data.b[n] + state.beta[2]
    return (eta if data.y[n] else 0.0) - sm.softplus(eta)


def flat(state):
    return -0.005 * (state.beta[0] ** 2 + state.beta[1] ** 2 + state.beta[2] ** 2)


def predictor(state, data, n):
    return state.beta[0] * data.a[n] + state.beta[1] * data.b[n] + state.beta[2]


def factor(eta, data, n):
    return (eta if data.y[n] else 0.0) - sm.softplus(eta)


def made(columns, size, layout, family):
    """(in memory, elsewhere)."""
    if family in ("plain", "predictors"):  # the latter without derivatives: by differences
        function = plain if family == "plain" else sm.Predictors(predictor, factor)
        given = some(columns, size, "a", "b", "y")
        pair = given, parts_of(given, layout)
        return [sm.Model(function, one, {"beta": np.zeros(3)}, flat) for one in pair]
    name = "count" if family == "poisson" else "y"
    given = some(columns, size, "a", "b", name)
    x = np.column_stack([given["a"], given["b"]])
    function = getattr(sm.models.glm, family)
    return [function(x, given[name]), function(parts_of(given, layout), name)]


FAMILIES = ("logistic", "poisson", "plain", "predictors")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [SIZE, LARGE])
def test_a_fit_is_that_of_memory(columns, family, size):
    near, far = made(columns, size, LAYOUT if size == SIZE else CUT, family)
    one, other = (sm.laplace(model, progress=False) for model in (near, far))
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.factor, other.factor)
    assert one.log_evidence == other.log_evidence and one.passes == other.passes


@pytest.mark.parametrize("family", ["logistic", "poisson", "predictors"])
def test_all_that_a_control_variate_holds_is_that_of_memory(columns, family):
    """Moments, bounds, what was seen on trial and learnt of exact sums: to the last bit.

    Not of functions of users' own: in memory, of so many rows, their predictors are looked for.
    """
    found = []
    for model in made(columns, LARGE, CUT, family):
        prepared = prepared_for(model, sm.Taylor(sm.laplace(model, progress=False)))
        steps = prepared.kept if family == "predictors" else ()  # of differences, where they are
        found.append((prepared.sums, prepared.outliers, steps))
    one, other = (list(leaves(each)) for each in found)
    assert len(one) == len(other) > 20
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_with_a_control_variate_are_those_of_memory(columns, family):
    near, far = made(columns, SIZE, LAYOUT, family)
    found = []
    for model in (near, far):
        fit = sm.laplace(model, progress=False)
        control = sm.Taylor(fit, order=3)
        kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), selector=sm.Racing(), control=control)
        options = {"draws": 300, "warmup": 0, "chains": 2, "seed": 1, "audit": 0.0}
        trace = sm.sample(model, kernel, start=[fit.state] * 2, progress=False, **options)
        found.append((trace, control))
    (one, first), (other, second) = found
    np.testing.assert_array_equal(one.draws["beta"], other.draws["beta"])
    sums = [prepared_for(m, c) for m, c in ((near, first), (far, second))]
    np.testing.assert_array_equal(sums[0].outliers, sums[1].outliers)
    for name, value in sums[0].sums.whole._asdict().items():
        np.testing.assert_array_equal(value, getattr(sums[1].sums.whole, name), name)
    for name, values in one.stats["beta"].items():
        np.testing.assert_array_equal(values, other.stats["beta"][name], name)
    assert "Rows are elsewhere" in str(other.report()) and one.fetched is None


def test_rows_that_every_decision_reads(columns):
    """A level of 9 rows carries a coefficient: they are found, and fetched once."""
    x = np.column_stack([columns["a"][:SIZE], np.arange(SIZE) % 700 == 3]).astype(float)
    y = columns["y"][:SIZE]
    parts = parts_of({"x": x, "y": y}, LAYOUT)
    near, far = sm.models.glm.logistic(x, y), sm.models.glm.logistic(parts, "y")
    found = []
    for model in (near, far):
        fit = sm.laplace(model, progress=False)
        kernel = sm.Metropolis(
            "beta", proposal=sm.pcn(fit), selector=sm.Racing(sm.Betting()), control=sm.Taylor(fit)
        )
        assert 9 <= len(prepared_for(model, kernel.control).outliers) < 0.05 * SIZE
        options = {"draws": 200, "warmup": 0, "chains": 1, "seed": 1, "progress": False}
        found.append(sm.sample(model, kernel, start=[fit.state], **options))
    np.testing.assert_array_equal(found[0].draws["beta"], found[1].draws["beta"])
    for name, values in found[0].stats["beta"].items():
        np.testing.assert_array_equal(values, found[1].stats["beta"][name], name)


@pytest.mark.slow
def test_without_a_kernel(columns):
    _, far = made(columns, SIZE, LAYOUT, "logistic")
    trace = sm.sample(far, draws=200, warmup=100, chains=2, seed=1, progress=False)
    assert trace.fetched is not None
    fit = sm.laplace(far, progress=False)
    sd = np.sqrt(np.diag(fit.covariance))
    assert np.all(np.abs(trace.draws["beta"].mean(axis=(0, 1)) - fit.mean) < 0.5 * sd)


def test_described(columns):
    _, far = made(columns, SIZE, LAYOUT, "logistic")
    fit = sm.laplace(far, progress=False)
    told = sm.Metropolis("beta", control=sm.Taylor(fit)).describe(far)
    assert "Taylor(order=3)" in told and "Betting" in told


def test_classes_are_not_counted(columns):
    parts = parts_of(some(columns, SIZE, "a", "count"), LAYOUT)
    with pytest.raises(TypeError, match="Give classes=K"):
        sm.models.glm.softmax(parts, "count")
    few = np.minimum(columns["count"][:SIZE], 2)
    given = {"a": columns["a"][:SIZE], "y": few}
    far = sm.models.glm.softmax(parts_of(given, LAYOUT), "y", classes=3)
    near = sm.models.glm.softmax(given["a"][:, None], few, classes=3)
    np.testing.assert_array_equal(
        sm.laplace(far, progress=False).mean, sm.laplace(near, progress=False).mean
    )
    wrong = sm.models.glm.softmax(parts_of({**given, "y": few * 2}, LAYOUT), "y", classes=5)
    assert wrong.variables["beta"].block.shape == (4, 1)


def test_a_column_may_be_the_same_in_a_part(columns):
    """Data sorted by group: a dummy is 1 in all rows of some parts."""
    group = (np.arange(SIZE) < 2_400).astype(float)
    y = np.minimum(columns["count"][:SIZE], 2)
    given = {"a": columns["a"][:SIZE], "group": group, "y": y}
    far = sm.models.glm.ordered_logistic(parts_of(given, [2_000, 2_000, 2_000]), "y", classes=3)
    near = sm.models.glm.ordered_logistic(
        np.column_stack([given["a"], group]), y, classes=3
    )  # fmt: skip
    one, other = (sm.laplace(model, progress=False) for model in (near, far))
    sd = np.sqrt(np.diag(one.covariance))  # the searches begin at cutpoints of all, and of some
    assert np.all(np.abs(one.mean - other.mean) < 1e-4 * sd)


def test_refused_with_what_to_do(columns):
    _, far = made(columns, SIZE, LAYOUT, "logistic")
    fit = sm.laplace(far, progress=False)
    run = {"draws": 2, "warmup": 0, "chains": 1, "progress": False}
    for control, selector, told in (
        (sm.Taylor(fit), sm.Thinned(), "Betting"),
        (sm.Taylor(fit, outliers=0.01), None, "outliers"),
        (sm.Bins(fit=fit), None, "Taylor"),
    ):
        kernel = sm.Metropolis("beta", selector=selector, control=control, adapt=False)
        with pytest.raises(ValueError, match=f"elsewhere.*{told}|{told}.*elsewhere"):
            sm.sample(far, kernel, **run)
    slope = sm.Langevin("beta", selector=sm.Exact(), adapt=False)
    with pytest.raises(ValueError, match=r"reads a mini-batch .* elsewhere"):
        sm.sample(far, slope, **run)
    with pytest.raises(ValueError, match="no column of"):
        sm.models.glm.logistic(parts_of(some(columns, SIZE, "a", "y"), LAYOUT), "z")
    y = columns["count"][:SIZE].astype(float)
    y[4_000] = -1.0
    wrong = sm.models.glm.poisson(parts_of({"a": columns["a"][:SIZE], "y": y}, LAYOUT), "y")
    with pytest.raises(ValueError, match=r"y.* is -1: poisson needs counts") as told:
        sm.laplace(wrong, progress=False)
    assert "part 3" in str(told.value.__notes__)
