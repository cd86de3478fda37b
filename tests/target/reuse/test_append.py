"""Rows that are appended: sums and fits are those of all rows, and only the new ones are read."""

import itertools

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.elsewhere.row_scores import typical_of
from subsample_mcmc.approx.reuse import grown
from subsample_mcmc.approx.taylor import pilot, remainder
from subsample_mcmc.approx.taylor.taylor import best_source
from subsample_mcmc.approx.taylor.tensors import by_pairs
from subsample_mcmc.target.reuse import nodes
from subsample_mcmc.target.sources.local import parts_of
from tests.helpers.two_columns import columns_of, factor, flat, plain, predictor, same

OLD, NEW = 30_100, 1_507  # neither are whole blocks
CUT, MORE = [10_001, 0, 1, 14_998, 5_100], [1_000, 0, 507]
# Rows of huge covariates, by family: one in the block that is cut; or none before what is new.
RARE = {"rare": [70, 20_000, 30_090, 30_500], "late": [30_500], "plain, late": [30_500]}
FAMILIES = ("logistic", *RARE, "differences", "plain")
REGRESSIONS = ("logistic", "rare", "late")
OPTIONS = {"warmup": 0, "chains": 2, "seed": 1, "progress": False}


@pytest.fixture(autouse=True)
def few_exact_sums(monkeypatch):
    """On trial some hundred are as good as thousands."""
    monkeypatch.setattr(remainder, "EVALUATIONS", 3_000_000)


@pytest.fixture(scope="module")
def columns():
    return columns_of(OLD + 2 * NEW)


def some(columns, first, last, family="logistic"):
    found = {name: column[first:last].copy() for name, column in columns.items()}
    for row in RARE.get(family, ()):
        if first <= row < last:
            found["a"][row - first], found["b"][row - first] = 60.0, 30.0
    return found


def made(data, family):
    """A model of rows in memory, or elsewhere."""
    if family in REGRESSIONS:
        if isinstance(data, dict):
            return sm.models.glm.logistic(*as_given(data).values())
        return sm.models.glm.logistic(data, "y")
    many = family.startswith("plain")
    function = plain if many else sm.Predictors(predictor, factor)
    return sm.Model(function, data, {"beta": np.zeros(2 + many)}, flat)


def as_given(data):
    return {"x": np.column_stack([data["a"], data["b"]]), "y": data["y"]}


def both(columns, family, where, cut=CUT, more=MORE):
    """(a model, rows to append, a model of all of them)."""
    old, new = some(columns, 0, OLD, family), some(columns, OLD, OLD + NEW, family)
    every = some(columns, 0, OLD + NEW, family)
    if where == "elsewhere":
        return made(parts_of(old, cut), family), parts_of(new, more), made(every, family)
    new = as_given(new) if family in REGRESSIONS else new
    return made(old, family), new, made(every, family)


def learnt(model):
    fit = sm.laplace(model, progress=False)
    return fit, sm.Taylor(fit)


def made_anew(model, control, before, found):
    """What a control variate holds of a model of all rows: the same reference, metric, outliers."""
    source = best_source(model, *before.how)
    source.restore(before.kept)
    none, strides, points = np.zeros(0, dtype=np.int64), before.strides, before.references
    whole, raced = before.inverses
    sums = control.add_up(model, source, points, strides, none, before.sums, inverse=whole)
    sums = sums._replace(whole=sums.raced, learnt=remainder.nothing(1, len(model.floats)))
    if len(found.outliers):
        sums = control.add_up(model, source, points, strides, found.outliers, sums, inverse=raced)
    control.look(pilot.Probes(model, source, strides, [control.fit]), sums, found.outliers)
    return sums


# In memory, predictors are looked for in plain functions, and sums by these are not added to.
PLACES = [(f, w) for f in FAMILIES for w in ("memory", "elsewhere")]
CASES = [(f, w) for f, w in PLACES if not (f.startswith("plain") and w == "memory")]


@pytest.mark.parametrize(("family", "where"), CASES)
def test_sums_are_those_of_all_rows_made_anew(columns, family, where):
    model, rows, every = both(columns, family, where)
    _, control = learnt(model)
    before = prepared_for(model, control)
    bigger = model.append(rows)
    assert bigger.size == OLD + NEW and model.size == OLD
    control = control.append(bigger)
    found = prepared_for(bigger, control)
    wanted = RARE.get(family, [])
    assert set(wanted) <= set(found.outliers.tolist()) and len(found.outliers) < len(wanted) + 4
    assert before.outliers.tolist() == [row for row in wanted if row < OLD]
    assert set(before.outliers) == {row for row in found.outliers if row < OLD}
    if where == "memory":
        same(made_anew(every, control, before, found), found.sums)
    else:
        layout = [*CUT, *MORE]
        data = some(columns, 0, OLD + NEW, family)
        same(made_anew(made(parts_of(data, layout), family), control, before, found), found.sums)


@pytest.mark.parametrize("family", ["logistic", "rare", "differences"])
def test_all_of_it_is_the_same_in_memory_and_elsewhere(columns, family):
    found, traces = [], []
    for where in ("memory", "elsewhere"):
        model, rows, _ = both(columns, family, where)
        fit, control = learnt(model)
        racing = {"selector": sm.Racing()}  # usual ones differ
        kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), control=control, **racing)
        first = sm.sample(model, kernel, draws=50, start=[fit.state] * 2, **OPTIONS)
        bigger = model.append(rows)
        control = control.append(bigger)
        proposal = sm.pcn(control.fit)
        kernel = sm.Metropolis("beta", proposal=proposal, control=control, **racing)
        traces.append(sm.sample(bigger, kernel, draws=200, start=first, **OPTIONS))
        prepared = prepared_for(bigger, control)
        found.append((prepared.sums, prepared.outliers, control.fit.mean, control.fit.factor))
    same(*found)
    np.testing.assert_array_equal(traces[0].draws["beta"], traces[1].draws["beta"])


@pytest.mark.parametrize(("family", "where"), CASES)
def test_the_fit_is_that_of_all_rows(columns, family, where):
    model, rows, every = both(columns, family, where)
    _, control = learnt(model)
    fit, wanted = control.append(model.append(rows)).fit, sm.laplace(every, progress=False)
    sd = np.sqrt(np.diag(wanted.covariance))
    moved = (sm.laplace(model, progress=False).mean - wanted.mean) / sd
    assert np.abs(moved).max() > 0.05
    assert np.abs((fit.mean - wanted.mean) / sd).max() < 1e-3
    np.testing.assert_allclose(
        fit.covariance / np.outer(sd, sd), wanted.covariance / np.outer(sd, sd), atol=2e-3
    )
    assert abs(fit.log_evidence - wanted.log_evidence) < 5e-3
    assert abs(fit.log_density - wanted.log_density) < 5e-3 and fit.passes == 0


def whole_parts(source):
    """Numbers of the parts of a source that are read whole from here on."""
    seen, passed = [], source.passed

    def counting(jobs, parcel):
        for part, found in passed(jobs, parcel):
            seen.append(part)
            yield part, found

    source.passed = counting
    return seen


@pytest.mark.parametrize("family", ["logistic", "rare", "late", "plain", "plain, late"])
def test_parts_of_before_are_not_read(columns, family, monkeypatch):
    """Where rows are too many for exact sums on trial, as from some four million on."""
    monkeypatch.setattr(pilot, "MOST_DATA", 0)
    monkeypatch.setattr(remainder, "EVALUATIONS", 0)
    model, rows, _ = both(columns, family, "elsewhere")
    fit, control = learnt(model)
    prepared_for(model, control)
    bigger = model.append(rows)
    seen = whole_parts(bigger.elsewhere.source)
    control = control.append(bigger)
    assert set(seen) == {len(CUT), len(CUT) + 2}  # that which is empty is not read either
    bigger.fingerprints()  # whole content, known
    kernel = sm.Metropolis("beta", proposal=sm.pcn(control.fit), control=control)
    sm.sample(bigger, kernel, draws=20, start=[fit.state] * 2, **OPTIONS)
    assert min(seen) >= len(CUT)


def test_rows_are_appended_again_and_again(columns):
    """Sums of two small steps are those of a large one; and so are those of a row."""
    old, middle = some(columns, 0, OLD), some(columns, OLD, OLD + 1)
    last = some(columns, OLD + 1, OLD + NEW)
    model = made(parts_of(old, CUT), "logistic")
    _, control = learnt(model)
    once = model.append(parts_of(some(columns, OLD, OLD + NEW), [NEW]))
    wanted = prepared_for(once, control.append(once))
    first = model.append(middle)  # in memory
    step = control.append(first)
    second = first.append(parts_of(last, [506, 1_000]))
    found = prepared_for(second, step.append(second))
    same(found.sums.whole[1:4], wanted.sums.whole[1:4])
    for name, some_nodes in found.nodes.items():  # those of new whole blocks are among them
        same(tuple(some_nodes), tuple(wanted.nodes[name]))
        assert sum(1 << level for level, *_ in some_nodes) == (OLD + NEW) // 256
    assert "appended rows" in second.elsewhere.source.part_name(6)
    assert (
        second.fingerprints()
        == made(parts_of(some(columns, 0, OLD + NEW), [OLD + NEW]), "logistic").fingerprints()
    )


def test_another_process_goes_on_with_what_was_remembered(columns, tmp_path, monkeypatch):
    """Fit, sums and nodes are read back; rows are appended; the run goes on, bit for bit."""
    monkeypatch.setattr(pilot, "MOST_DATA", 0)
    monkeypatch.setattr(remainder, "EVALUATIONS", 0)

    def begun():
        model, rows, _ = both(columns, "rare", "elsewhere")
        model.remember(tmp_path / "run.npz")
        _, control = learnt(model)
        seen = whole_parts(model.elsewhere.source)
        prepared_for(model, control)
        bigger = model.append(rows)
        control = control.append(bigger)
        return bigger, sm.Metropolis("beta", proposal=sm.pcn(control.fit), control=control), seen

    options = OPTIONS | {"store": tmp_path / "run.nc"}
    model, kernel, _ = begun()
    start = {"start": [{"beta": kernel.control.fit.state["beta"]}] * 2}
    whole = sm.sample(model, kernel, draws=60, **OPTIONS, **start)
    sm.sample(model, kernel, draws=20, **options, **start)
    model, kernel, seen = begun()
    trace = sm.resume(tmp_path / "run.nc", model, kernel, draws=60, progress=False)
    np.testing.assert_array_equal(trace.draws["beta"], whole.draws["beta"])
    assert not seen


@pytest.mark.parametrize("where", ["memory", "elsewhere"])
def test_a_mode_that_moved_far_is_fitted_anew(columns, where):
    model, rows, _ = both(columns, "logistic", where)
    other = some(columns, OLD, OLD + NEW)
    other["y"] = 1.0 - other["y"]
    rows = parts_of(other, MORE) if where == "elsewhere" else as_given(other)
    _, control = learnt(model)
    bigger = model.append(rows)
    with pytest.warns(UserWarning, match=r"the mode is [\d.]+ posterior .* order 3 reaches 1\.41"):
        control = control.append(bigger)
    wanted = sm.laplace(bigger, progress=False)
    far = (control.fit.mean - wanted.mean) / np.sqrt(np.diag(wanted.covariance))
    assert np.abs(far).max() < 1e-3 and control.fit.passes > 0
    np.testing.assert_array_equal(control.fit.point, control.fit.state["beta"])


@pytest.mark.plain
def test_polynomials_nearby():
    """Value, slope and curvature of a cubic, by its tensor."""
    rng = np.random.default_rng(0)
    point, step, s1 = rng.standard_normal((3, 4))
    s2 = rng.standard_normal((4, 4))
    s2 = s2 + s2.T
    third = sum(np.transpose(t, axes) for t in [rng.standard_normal((4, 4, 4))]
                for axes in itertools.permutations(range(3)))  # fmt: skip
    cubic = grown.Polynomials(point, 2.0, s1, s2, by_pairs(third))
    found = cubic.sums(None, point + step, None, None)
    along = third @ step
    wanted = 2.0 + s1 @ step + step @ s2 @ step / 2.0 + step @ along @ step / 6.0
    np.testing.assert_allclose(found[0], wanted, rtol=1e-12)
    np.testing.assert_allclose(found[1], s1 + s2 @ step + along @ step / 2.0, rtol=1e-12)
    np.testing.assert_allclose(found[2], s2 + along, rtol=1e-12)
    flat_one = grown.Polynomials(point, 2.0, s1, s2, np.zeros((4, 0)))
    np.testing.assert_allclose(flat_one.sums(None, point + step, None, None)[2], s2)


@pytest.mark.plain
def test_what_scores_are_typical():
    """Of the rows that are raced: one beside them, of which nothing is known, leaves no trace."""
    scores = np.random.default_rng(0).uniform(size=1_000).astype(np.float32)
    wanted = np.sqrt(np.mean(np.delete(scores.astype(float), [3, 70]) ** 2))
    scores[[3, 70]] = np.inf, 1e20
    np.testing.assert_allclose(typical_of(scores, np.array([3, 70])), wanted, rtol=1e-6)


def test_how_far_the_mode_moved(columns, monkeypatch):
    """In posterior standard deviations of all rows, from where polynomials are around."""
    model, rows, every = both(columns, "logistic", "memory")
    fit, control = learnt(model)
    seen = []
    original = grown.fit_by_sums

    def watching(*args):
        seen.append(original(*args))
        return seen[-1]

    monkeypatch.setattr(grown, "fit_by_sums", watching)
    control.append(model.append(rows))
    wanted = sm.laplace(every, progress=False)
    step = wanted.mean - fit.mean
    far = np.sqrt(step @ np.linalg.solve(wanted.covariance, step))
    np.testing.assert_allclose(seen[0][1], far, rtol=1e-3)


def test_sums_that_cannot_be_added_to_are_made_anew_aloud(columns, monkeypatch):
    model, rows, every = both(columns, "logistic", "memory")
    fit, _ = learnt(model)
    bigger, wanted = model.append(rows), sm.laplace(every, progress=False)
    with pytest.warns(UserWarning, match="a share of the rows is looked for among all"):
        control = sm.Taylor(fit, outliers=0.01).append(bigger)
    np.testing.assert_allclose(control.fit.mean, wanted.mean, rtol=1e-6)
    monkeypatch.setattr(nodes, "MOST_BYTES", 0)
    with pytest.warns(UserWarning, match="too many to keep"):
        sm.Taylor(fit).append(bigger)


@pytest.mark.parametrize("when", ["before", "after"])
def test_rows_that_change_in_place_are_not_those_of_the_sums(columns, when):
    """Sums of a control variate are of the rows as they were: others are added up anew, aloud."""
    old, new = some(columns, 0, 3_000), some(columns, 3_000, 3_500)
    model = made(old, "differences")
    _, control = learnt(model)
    prepared_for(model, control)
    if when == "before":
        old["a"][:600] *= -1.0
    bigger = model.append(new)
    if when == "after":
        old["a"][:600] *= -1.0
        model.fingerprints()  # notices it, as every run does
    with pytest.warns(
        UserWarning, match={"before": "the mode is", "after": "first rows were changed"}[when]
    ):
        control = control.append(bigger)
    wanted = sm.laplace(bigger, progress=False)
    np.testing.assert_allclose(control.fit.mean, wanted.mean, rtol=1e-4)


@pytest.mark.slow
def test_appended_draws_are_of_the_posterior_of_all_rows(columns):
    """Means and covariance of a chain with old sums and new ones, against a fit of all rows."""
    model, rows, every = both(columns, "logistic", "memory")
    _, control = learnt(model)
    bigger = model.append(rows)
    control = control.append(bigger)
    kernel = sm.Metropolis("beta", proposal=sm.pcn(control.fit), control=control)
    trace = sm.sample(
        bigger, kernel, draws=4_000, warmup=500, chains=2, seed=4, progress=False,
        start=[control.fit.state] * 2,
    )  # fmt: skip
    fit, draws = sm.laplace(every, progress=False), trace.draws["beta"].reshape(-1, 2)
    sd = np.sqrt(np.diag(fit.covariance))
    ess = trace.summary()["ess_bulk"].to_numpy()
    # Five standard errors: one in a million.
    assert (np.abs(draws.mean(axis=0) - fit.mean) / sd < 5.0 / np.sqrt(ess) + 0.01).all()
    assert np.abs(draws.std(axis=0) / sd - 1.0).max() < 5.0 / np.sqrt(2.0 * ess.min())


@pytest.mark.plain
def test_a_regression_looks_at_what_is_appended(columns):
    data = some(columns, 0, 200)
    model = sm.models.glm.logistic(*as_given(data).values())
    with pytest.raises(ValueError, match="logistic needs 0 and 1"):
        model.append({"x": np.zeros((1, 2)), "y": np.array([2.0])})
    with pytest.raises(TypeError, match=r"rows=x: .*given by row: x, y"):
        model.append({"x": np.zeros((1, 2))})
    rng = np.random.default_rng(0)
    x, time = rng.standard_normal((60, 2)), rng.uniform(1.0, 2.0, 60)
    y = rng.poisson(time)
    poisson = sm.models.glm.poisson
    old = poisson(x[:50], y[:50], exposure=time[:50])
    bigger = old.append({"x": x[50:], "y": y[50:], "exposure": time[50:]})
    assert bigger.fingerprints() == poisson(x, y, exposure=time).fingerprints()
    assert bigger.constant() == poisson(x, y, exposure=time).constant()
    with pytest.raises(ValueError, match="classes were counted in y"):
        sm.models.glm.softmax(x, y % 3).append({"x": x, "y": y % 3})
    copy = old.__reduce__()[2]["more"]
    with pytest.raises(ValueError, match="a copy from another process"):
        copy({"x": x[50:], "y": y[50:], "exposure": time[50:]})
    with pytest.raises(TypeError, match="rows have the columns"):
        sm.models.glm.logistic(parts_of(data, [200]), "y").append({"a": data["a"]})


def test_a_control_variate_of_another_model_is_refused(columns):
    model, rows, _ = both(columns, "logistic", "memory")
    fit, control = learnt(model)
    other = sm.models.glm.logistic(*as_given(some(columns, 0, OLD)).values())
    with pytest.raises(ValueError, match=r"is not what model\.append"):
        control.append(other.append(rows))
    with pytest.raises(ValueError, match=r"is not what model\.append"):
        control.append(model)
    with pytest.raises(TypeError, match=r"goes on from sm\.Taylor\(fit\)"):
        sm.Taylor(fit.state).append(model.append(rows))
