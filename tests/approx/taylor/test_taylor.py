"""Taylor control variates: their sums, the order of what they leave over, and its bounds.

A race of residuals is right if the mean is the sum of h over exactly the raced rows, in every
state; proved if `reach` bounds the residuals of every one of them. Both are looked at directly.
"""

import pickle

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor import derivatives_predictors as linear
from subsample_mcmc.approx.taylor import derivatives_user as given
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.runs.fingerprint import spelled
from tests.helpers import tall
from tests.helpers.tall import Bench, exact, regression, softmax

SIZE = 600
NEAR = np.array([0.01, 0.03, 0.1, 0.3])[:, None]  # 0.2 to 7 posterior standard deviations


def around(reference, rng):
    """Points at several distances from a reference."""
    centre = np.ravel(reference["beta"])
    return centre + NEAR * rng.standard_normal((len(NEAR), len(centre)))


def sources(family):
    """(model, reference, keyword arguments of Taylor) of every source of derivatives."""
    for source in ("given", "differences"):
        for order in (2, 3):
            yield *regression(family, SIZE, 3, source), {"order": order}
    model, reference = regression(family, SIZE, 3, "jets")
    yield model, reference, {"order": 2}
    yield model, reference, {"order": 3}
    model, reference = regression(family, SIZE, 3, "stencil")
    yield model, reference, {}
    yield model, reference, {"derivatives": tall.by_hand}


# ------------------------------------------------------------------------------------- the mean
@pytest.mark.slow
@pytest.mark.parametrize("family", tall.FAMILIES)
def test_the_mean_is_the_sum_of_what_is_subtracted(family, rng):
    for model, reference, more in sources(family):
        for outliers in (0.0, 0.05):
            control = sm.Taylor(reference, outliers=outliers, **more)
            bench = Bench(model, control, around(reference, rng))
            assert len(bench.raced) == SIZE - int(outliers * SIZE)
            exact(bench)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "source", "order"), [
    (2, "given", 2), (2, "given", 3), (2, "differences", 2), (3, "given", 2), (3, "given", 3),
])  # fmt: skip
def test_several_predictors(count, source, order, rng):
    """Of softmax regressions: all mixed derivatives occur; residuals are those of their order."""
    model, reference = softmax(SIZE, count, source, configurations=3)
    control = sm.Taylor(reference, order=order, outliers=0.02)
    points = around(reference, rng)
    for k in range(3):
        exact(Bench(model, control, points, ints=[k]))
    slope = order_of(model, control, reference, rng)
    assert slope == pytest.approx(order + 1, abs=0.2)


@pytest.mark.slow_for("by hand")
@pytest.mark.parametrize("source", ["given", "differences", "by hand", "stencil", "jets"])
def test_every_configuration_has_sums_of_its_own(source, rng):
    """As Metropolis sees them, one at a time, and as Gibbs does, arm by arm."""
    kind = "stencil" if source == "by hand" else source
    model, reference = regression("logistic", SIZE, 3, kind, configurations=3)
    hand = tall.by_hand if source == "by hand" else None
    for fit in (reference, [{"beta": reference["beta"] + 0.05 * k} for k in range(3)]):
        control = sm.Taylor(fit, derivatives=hand, outliers=0.02)
        for k in range(3):
            exact(Bench(model, control, around(reference, rng), ints=[k]))
        exact(Bench(model, control, block="k", at=reference["beta"] + 0.1))


def several_sites(state, data, n):
    shift = 0.2 * state.z[0] * data.x[n] - 0.1 * state.z[1] + 0.3 * state.w[0]
    return data.x[n] * state.mu[0] + shift


def of_normal(e, data, n):
    return -sm.log1p((data.y[n] - e) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 3])
def test_configurations_of_several_blocks_and_sites(order, rng):
    """Which sums are whose: the last block's last site changes fastest.

    Derivatives are differences, which must come out the same in the sums and in the residuals.
    """
    data = {"x": rng.standard_normal(200), "y": rng.standard_normal(200)}
    model = sm.Model(
        sm.Predictors(several_sites, of_normal), data, {"z": [1, 0], "mu": 0.1, "w": 1},
        support={"z": 3, "w": 2},
    )  # fmt: skip
    fits = [{"mu": 0.01 * i} for i in range(18)]
    control = sm.Taylor(fits, order=order)
    for table, ints in enumerate(np.ndindex(3, 3, 2)):
        bench = Bench(model, control, np.array([[0.3], [0.02]]), ints=ints)
        assert bench.trial.control.arrays.tables.tolist() == [table, table]
        exact(bench)


@pytest.mark.parametrize("source", ["given", "by hand"])
def test_configurations_share_machine_code(source, monkeypatch):
    """A pass over the data for each of up to 4096 configurations, and one function for all."""
    counts = []
    for configurations in (2, 6):
        compiled = []
        for module in (linear, given):
            monkeypatch.setattr(module, "jit", counting(compiled))
        kind = "stencil" if source == "by hand" else source
        model, reference = regression("logistic", 50, 2, kind, configurations=configurations)
        hand = tall.by_hand if source == "by hand" else None
        sm.Taylor(reference, order=2, derivatives=hand).always_read(model)
        counts.append(len(compiled))
    assert counts[0] == counts[1] > 0


def counting(calls):
    """The decorator, keeping a list of its calls."""

    def counted(*arguments, **options):
        calls.append(options)
        return jit(*arguments, **options)

    return counted


def with_prepare(state, data, n, made):
    r = (data.y[n] - state.mu[0]) / made[0]
    return -0.5 * r * r - made[1]


def made_of(state, data):
    return sm.exp(state.mu[1]), state.mu[1]


def test_models_that_prepare(rng):
    data = {"y": 2.0 * rng.standard_normal(SIZE)}
    model = sm.Model(with_prepare, data, {"mu": [0.0, 0.7]}, prepare=made_of)
    control = sm.Taylor({"mu": [0.0, 0.7]}, outliers=0.01)
    bench = Bench(model, control, np.array([0.0, 0.7]) + 0.05 * rng.standard_normal((4, 2)))
    exact(bench)
    assert np.abs(bench.residuals(0)).mean() < 0.05 * np.abs(bench.values(0)).mean()


# --------------------------------------------------------------------- mutants of mean and outliers
def test_wrong_means_are_noticed(rng):
    model, reference = regression("logistic", SIZE, 2, "given")
    for field in ("s1", "s2"):
        control = sm.Taylor(reference, outliers=0.02)
        getattr(prepared_for(model, control).sums.raced, field)[0] *= 1.0 + 1e-6
        with pytest.raises(AssertionError, match="the mean is off"):
            exact(Bench(model, control, around(reference, rng)))


def test_a_missing_outlier_is_noticed(rng):
    model, reference = regression("logistic", SIZE, 2, "given")
    control = sm.Taylor(reference, outliers=0.02)
    prepared_for(model, control).outliers = control.always_read(model)[:-1]
    with pytest.raises(AssertionError, match="the mean is off"):
        exact(Bench(model, control, around(reference, rng)))


def test_outliers_are_the_rows_with_the_largest_residuals():
    """Ten rows of great leverage, one of which lies in each part that is read at once."""
    model, reference = regression("poisson", 3000, 2, "given", seed=5)
    far = np.arange(7, 3000, 311)
    x = model.data.x.copy()
    x[far, 1] = -5.0
    model = sm.Model(model.predictors, {**model.data._asdict(), "x": x},
                     {"k": 0, "beta": reference["beta"]}, support={"k": 1})  # fmt: skip
    control = sm.Taylor(reference, outliers=len(far) / 3000)
    assert control.always_read(model).tolist() == far.tolist()
    assert control.always_read(model).dtype == np.int64
    without = Bench(model, sm.Taylor(reference), reference["beta"] + np.array([[0.1, 0.1]]))
    beside = Bench(model, control, reference["beta"] + np.array([[0.1, 0.1]]))
    assert np.abs(beside.residuals(0) - beside.values(0)).max() > 0.0
    assert spread(beside) < 0.1 * spread(without)


def spread(bench):
    """Range of the residuals, which may have a constant in common with those of other arms."""
    start = Bench(bench.model, bench.control, np.array([bench.prepared.references[0]]))
    change = bench.residuals(0) - start.residuals(0)
    return change.max() - change.min()


# ------------------------------------------------------------------------------- the order of it
def order_of(model, control, reference, rng, far=0.2, halvings=3):
    """The power of the distance with which residuals fall."""
    centre = np.ravel(reference["beta"])
    direction = rng.standard_normal(len(centre))
    direction *= far / np.linalg.norm(direction)
    steps = 0.5 ** np.arange(halvings + 1)
    bench = Bench(model, control, np.concatenate([[centre], centre + np.outer(steps, direction)]))
    home = bench.residuals(0)
    size = [np.linalg.norm(bench.residuals(i) - home) for i in range(1, bench.arms)]
    return float(np.polyfit(np.log(steps), np.log(size), 1)[0])


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_the_order_of_residuals(family, rng):
    for model, reference, more in sources(family):
        if model.predictors is None and not more:
            continue
        order = more.get("order", 2)
        slope = order_of(model, sm.Taylor(reference, **more), reference, rng)
        assert slope == pytest.approx(order + 1, abs=0.2), more


def test_the_order_of_interpolation():
    """Sixteen times the data: a standard deviation is a quarter, and residuals are 1 / 64."""
    size, z = [], np.array([1.0, -0.7, 0.4])
    for times in (1, 16):
        model, reference = regression("logistic", SIZE, 3, "stencil")
        data = {k: np.tile(v, (times, 1)) if np.ndim(v) == 2 else np.tile(v, times)
                for k, v in model.data._asdict().items() if np.ndim(v)}  # fmt: skip
        model = sm.Model(model.log_likelihood, data | {"kind": model.data.kind},
                         {"k": 0, "beta": reference["beta"]}, support={"k": 1})  # fmt: skip
        deviation = 2.5 / np.sqrt(times * SIZE)
        bench = Bench(model, sm.Taylor(reference), reference["beta"] + deviation * z[None])
        size.append(np.linalg.norm(bench.residuals(0)[:SIZE]))
    assert size[0] / size[1] == pytest.approx(64.0, rel=0.2)


# ---------------------------------------------------------------------------------- the bounds
_pairs = {}


def all_reaches(bench):
    """reach of every pair of points, (rows, sums): two matrices."""
    reach = bench.reach_of
    if reach not in _pairs:

        @jit
        def fill(trial, each, out):
            for i in range(len(out)):
                for j in range(len(out)):
                    out[i, j] = reach(trial, i, j, each)

        _pairs[reach] = fill
    rows, sums = np.zeros((2, bench.arms, bench.arms))
    _pairs[reach](bench.trial, True, rows)
    _pairs[reach](bench.trial, False, sums)
    return rows, sums


def tightness(model, control, points, **more):
    """The largest ratio of what residuals differ by to what `reach` says: (of a row, of sums)."""
    bench = Bench(model, control, points, **more)
    found = np.array([bench.residuals(arm) for arm in range(bench.arms)])
    rows, sums = all_reaches(bench)
    off = ~np.eye(len(points), dtype=bool)
    apart = np.array([np.abs(found - one).max(axis=1) for one in found])
    total = np.array([np.abs((found - one).sum(axis=1)) for one in found])
    assert np.all(rows[off] > 0.0) and np.array_equal(rows, rows.T)
    return float((apart / rows)[off].max()), float((total / sums)[off].max())


def hard_pairs(model, reference, rng):
    """10^4 pairs and more: near and far, side by side, and against the rows of most leverage."""
    centre = np.ravel(reference["beta"])
    x = model.data.x
    deviation = 2.0 / np.sqrt(model.size)
    scales = deviation * np.geomspace(0.003, 20.0, 40)[:, None]
    points = [centre[None], centre + scales * rng.standard_normal((40, len(centre)))]
    # Along the row of most leverage, where a row's bound is nearly reached; there and back.
    worst = x[np.argmax((x * x).sum(axis=1))]
    worst = worst / np.linalg.norm(worst)
    typical = x.mean(axis=0) / np.linalg.norm(x.mean(axis=0))
    for direction in (worst, -worst, typical):
        points.append(centre + scales[::2] * direction)
    points.append(points[1][::2] * (1.0 + 1e-7))
    points.append(points[1][::2] + 1e-3 * deviation)
    made = np.concatenate(points)
    assert len(made) ** 2 >= 10_000
    return made


@pytest.mark.parametrize("family", tall.FAMILIES)
@pytest.mark.parametrize("order", [2, 3])
def test_reach_bounds_every_row_and_the_sum(family, order, rng):
    attained = np.zeros(2)
    for heavy in (False, True):
        model, reference = regression(family, 500, 2, "given", heavy=heavy, scale=0.3)
        points = hard_pairs(model, reference, rng)
        for outliers in (0.0, 0.05):
            control = sm.Taylor(reference, order=order, outliers=outliers)
            assert prepared_for(model, control).proved
            found = tightness(model, control, points)
            assert max(found) <= 1.0, (heavy, outliers, found)
            attained = np.maximum(attained, found)
    # A bound that is ten times too small would be noticed; of the Gaussian only rounding is left.
    assert family == "gaussian" or min(attained) > 0.1, attained


def test_reach_between_configurations(rng):
    """Arms of a discrete block have references of their own."""
    model, reference = regression("logistic", 500, 2, "given", configurations=4)
    fits = [{"beta": reference["beta"] + 0.03 * k} for k in range(4)]
    for order in (2, 3):
        control, worst = sm.Taylor(fits, order=order), 0.0
        for at in hard_pairs(model, reference, rng)[::5]:
            bench = Bench(model, control, block="k", at=at)
            found = np.array([bench.residuals(k) for k in range(4)])
            rows, sums = all_reaches(bench)
            for i, j in ((0, 1), (1, 2), (0, 3)):
                apart = found[i] - found[j]
                worst = max(worst, np.abs(apart).max() / rows[i, j], abs(apart.sum()) / sums[i, j])
        assert 0.1 < worst <= 1.0


@pytest.mark.parametrize("order", [2, 3])
def test_reach_of_several_predictors(order, rng):
    model, reference = softmax(SIZE, 2, "given")
    points = np.concatenate([around(reference, rng) for _ in range(10)])
    worst = tightness(model, sm.Taylor(reference, order=order), points)
    assert max(worst) <= 1.0


def test_growth_is_needed():
    """A Poisson bound that stays as it is at the reference is too small far away."""
    model, reference = regression("poisson", 500, 2, "given", scale=0.3)
    points = reference["beta"] + np.array([[1.0, 0.0], [4.0, 0.5], [9.0, 0.0]])
    control = sm.Taylor(reference)
    assert max(tightness(model, control, points)) <= 1.0
    prepared_for(model, control).sums.raced.limits[:, 2] = 0.0
    assert max(tightness(model, control, points)) > 1.0


@pytest.mark.parametrize("family", tall.FAMILIES)
@pytest.mark.parametrize("order", [2, 3])
def test_what_is_not_bounded_is_not_proved(family, order):
    """Differences are not the derivatives: a remainder's bound is no bound of their residuals."""
    model, reference = regression(family, 1000, 2, "given", scale=0.3)
    bare = sm.Predictors(tall.eta, tall.factor, None, tall.remainder, model.predictors.growth)
    model = sm.Model(bare, model.data, {"k": 0, "beta": reference["beta"]}, support={"k": 1})
    control = sm.Taylor(reference, order=order)
    assert not prepared_for(model, control).proved


def test_differences_do_not_depend_on_where_discrete_blocks_start():
    """The sums of one model are those of another that starts elsewhere, to the last bit."""
    first, reference = regression("logistic", 200, 2, "differences", configurations=3)
    data = first.data
    other = sm.Model(
        first.predictors, data, {"k": 2, "beta": reference["beta"]}, tall.prior, support={"k": 3}
    )
    control = sm.Taylor(reference, order=3)
    one, two = prepared_for(first, control), prepared_for(other, control)
    assert one is not two and one is prepared_for(first, control)
    assert np.array_equal(one.source.widths, two.source.widths)
    assert np.array_equal(one.sums.raced.s1, two.sums.raced.s1)


def test_estimates_are_no_proofs(rng):
    """Of what a pilot saw, with a margin: used by asymptotic rules alone, and not far off."""
    for source, more in (
        ("differences", {}), ("differences", {"order": 3}), ("stencil", {}),
        ("stencil", {"derivatives": tall.by_hand}), ("jets", {}), ("jets", {"order": 2}),
    ):  # fmt: skip
        model, reference = regression("logistic", SIZE, 3, source)
        control = sm.Taylor(reference, **more)
        assert not prepared_for(model, control).proved and prepared_for(model, control).known
        points = reference["beta"] + 0.1 * rng.standard_normal((20, 3))
        each, total = tightness(model, control, points)
        assert 0.02 < each < 1.5 and 0.02 < total < 1.5
    silent = sm.Taylor(reference, predict=False)
    assert not prepared_for(model, silent).known


def flat_factor(e, data, n):
    return data.y[n] * e


def flat_derivatives(e, data, n):
    return data.y[n], 0.0


def no_remainder(e, data, n):
    return 0.0, 0.0


def times(state, data, n):
    return data.y[n] * state.s[0]


def flat_model(factor=flat_factor, derivatives=flat_derivatives, remainder=no_remainder):
    seen = sm.Predictors(times, factor, derivatives, remainder)
    return sm.Model(seen, {"y": np.linspace(-1.0, 2.0, 30)}, {"s": 1.0})


def test_a_likelihood_without_curvature():
    bench = Bench(flat_model(), sm.Taylor({"s": 1.0}), np.array([[1.1], [1.5]]))
    exact(bench)
    assert 0.0 <= bench.reach(0, 1, False) < 1e-6
    assert 0.0 <= bench.reach(0, 1, True) < 1e-6


def test_trust_ends_somewhere():
    for family in ("logistic", "poisson"):
        model, reference = regression(family, 2000, 2, "given")
        away = np.array([0.0, 0.02, 30.0])[:, None]
        bench = Bench(model, sm.Taylor(reference), reference["beta"] + away)
        assert [bool(bench.trusted_of(bench.trial, i)) for i in range(3)] == [True, True, False]


# ------------------------------------------------------------------ one object, several models
def same_data(predictors, start=None):
    model, reference = regression("logistic", SIZE, 2, "given")
    start = reference["beta"] + 0.01 if start is None else start
    made = sm.Model(predictors, model.data, {"k": 0, "beta": start}, tall.prior, support={"k": 1})
    return made, reference


def test_sums_of_one_model_are_not_those_of_another(rng):
    """Models that differ in derivatives, bounds, data or start, one after the other."""
    bounded = tall.predictors(tall.LOGISTIC)
    bare = sm.Predictors(tall.eta, tall.factor)
    first, reference = same_data(bare)
    control, points = sm.Taylor(reference, order=3), around(reference, rng)
    others = [
        same_data(bounded)[0], first, same_data(bare, reference["beta"] + 9.0)[0],
        regression("logistic", SIZE, 2, "differences", seed=8)[0],
    ]  # fmt: skip
    exact(Bench(first, control, points))
    for other in others:
        exact(Bench(other, control, points))
        fresh = sm.Taylor(reference, order=3)
        assert prepared_for(other, control).proved == prepared_for(other, fresh).proved
        limits = prepared_for(other, control).sums.raced.limits
        anew = prepared_for(other, fresh).sums.raced.limits
        np.testing.assert_allclose(limits, anew, rtol=1e-6)


@pytest.mark.parametrize("source", ["given", "stencil", "jets"])
def test_a_pickled_one_is_the_same(source, rng):
    model, reference = regression("logistic", SIZE, 3, source, configurations=2)
    control = sm.Taylor(reference, outliers=0.02)
    points = around(reference, rng)
    before = Bench(model, control, points, ints=[1])
    parts = model, control, prepared_for(model, control)
    again, copy, known = pickle.loads(pickle.dumps(parts))
    again.prepared[copy] = known  # as in a worker: no other pass over the data
    for one, by in ((again, copy), (model, pickle.loads(pickle.dumps(control)))):
        after = Bench(one, by, points, ints=[1])
        assert after.prepared is known or one is model
        assert np.array_equal(after.means, before.means)
        assert np.array_equal(after.raced, before.raced)
        for arm in range(len(points)):
            assert np.array_equal(after.residuals(arm), before.residuals(arm))
        assert after.reach(0, 1, True) == before.reach(0, 1, True)


def test_what_draws_depend_on_is_in_the_fingerprint():
    """A run is resumed only with the same reference, to the last digit, and the same bounds."""
    centre = np.array([0.1, 0.2, 0.3])
    one = spelled(sm.Taylor({"beta": centre}))
    assert one == spelled(sm.Taylor({"beta": centre.copy()}))
    assert one != spelled(sm.Taylor({"beta": centre + 1e-12}))
    long, other = np.zeros(2000), np.zeros(2000)
    other[1000] = 1.0
    assert spelled(sm.Taylor({"beta": long})) != spelled(sm.Taylor({"beta": other}))
    assert one != spelled(sm.Taylor({"beta": centre}, outliers=0.01))
    assert one != spelled(sm.Taylor({"beta": centre}, order=3))
    prints = [
        same_data(seen)[0].fingerprints()
        for seen in (
            sm.Predictors(tall.eta, tall.factor),
            sm.Predictors(tall.eta, tall.factor, tall.derivatives),
            sm.Predictors(tall.eta, tall.factor, tall.derivatives, tall.remainder),
            sm.Predictors(tall.eta, tall.factor, tall.derivatives, tall.remainder, 1.0),
        )
    ]
    assert all(a != b for i, a in enumerate(prints) for b in prints[:i])


# ------------------------------------------------------------------------------------- refusals
class Fit:
    """What a Laplace fit looks like."""

    def __init__(self, model, point):
        self.model, self.point = model, np.asarray(point)


def checked(control, model, kernel=None):
    (kernel or sm.Metropolis("beta", control=control)).check(model)


@pytest.mark.plain
def test_fits_of_another_model_are_refused():
    model, reference = regression("logistic", 50, 2)
    sm.Taylor(Fit(model, reference["beta"])).check(model, "beta")
    sm.Taylor(Fit(regression("logistic", 50, 2)[0], reference["beta"])).check(model, "beta")
    with pytest.raises(ValueError, match=r"other data \(different: data x, data y\)"):
        sm.Taylor(Fit(regression("logistic", 50, 2, seed=1)[0], [0, 0])).check(model, "beta")
    with pytest.raises(ValueError, match=r"different: .*log_likelihood"):
        sm.Taylor(Fit(flat_model(), [0.0])).check(model, "beta")
    for fit, error, words in (
        ({"gamma": [0.0, 0.0]}, ValueError, "block 'gamma' is not in the state"),
        ({"beta": [0.0, 0.0, 0.0]}, ValueError, r"state beta has shape \(3,\)"),
        ({"beta": [0.0, np.nan]}, ValueError, "every value must be finite"),
        ([reference, reference], ValueError, "given 2 references: give one, or one for each of"),
        (0.0, TypeError, "0.0 is no fit: give sm.laplace"),
    ):
        with pytest.raises(error, match=words):
            sm.Taylor(fit).check(model, "beta")


@pytest.mark.plain
@pytest.mark.parametrize("more", [{"order": 1}, {"order": 4}, {"outliers": -0.1},
                                   {"outliers": 0.6}, {"outliers": np.nan}])  # fmt: skip
def test_wrong_numbers_are_refused(more):
    with pytest.raises(ValueError, match=next(iter(more))):
        sm.Taylor({"beta": 0.0}, **more)


@pytest.mark.plain
def test_orders_that_a_source_has_not():
    model, reference = regression("logistic", 50, 2, "stencil")
    for more, words in (
        ({}, r"order=3 needs third derivatives: .* floor|order=3 .* derivatives: TypeError"),
        ({"derivatives": tall.by_hand}, "order=3 does not go with derivatives"),
    ):
        with pytest.raises(ValueError, match=words):
            sm.Taylor(reference, order=3, **more).check(model, "beta")
    with pytest.raises(ValueError, match=r"3 predictors at order 2 need Predictors\(derivatives"):
        prepared_for(softmax(50, 3, "differences")[0], sm.Taylor({"beta": np.zeros((3, 2))}))
    with pytest.raises(ValueError, match=r"2 predictors at order 3 need Predictors\(derivatives"):
        prepared_for(
            softmax(50, 2, "differences")[0], sm.Taylor({"beta": np.zeros((2, 2))}, order=3)
        )


def site_model(sites, support=2):
    state = {"mu": 0.0, "z": np.zeros(sites, dtype=int)}
    return sm.Model(of_sites, {"y": np.zeros(10)}, state, support={"z": support})


def of_sites(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] - state.z[0]) ** 2


@pytest.mark.plain
@pytest.mark.parametrize(("sites", "number"), [(13, "8192"), (20_000, "")])
def test_too_many_configurations(sites, number):
    kernel = sm.Metropolis("mu", control=sm.Taylor({"mu": 0.0}))
    with pytest.raises(ValueError, match=rf"discrete blocks \['z'\] have .*{number}.*at most 4096"):
        kernel.check(site_model(sites))


@pytest.mark.plain
def test_models_without_a_continuous_block():
    model = sm.Model(lambda state, data, n: data.y[n] * state.k[0], {"y": np.zeros(5)}, {"k": 0},
                     support={"k": 2})  # fmt: skip
    with pytest.raises(ValueError, match="no continuous block"):
        sm.Gibbs("k", control=sm.Taylor({})).check(model)


def logged(state, data, n):
    return data.y[n] * sm.log(state.s[0])


def squared(state, data, n):
    return data.y[n] * state.s[0] * state.s[0]


def bowl(e, data, n):
    return -0.5 * e * e


@pytest.mark.plain
@pytest.mark.parametrize(("eta", "start"), [(squared, 1.0), (logged, 1.0), (logged, 0.1)])
def test_predictors_that_are_not_linear(eta, start):
    """Also where a step leads out of what eta is defined for."""
    model = sm.Model(sm.Predictors(eta, bowl), {"y": np.arange(1.0, 11.0)}, {"s": start})
    with pytest.raises(ValueError, match="eta is not linear in the continuous blocks: at datum"):
        prepared_for(model, sm.Taylor({"s": start}))


def right(e, data, n):
    return -e, -1.0


def wrong_first(e, data, n):
    return -0.5 * e, -1.0


def wrong_second(e, data, n):
    return -e, -1.1


def wrong_third(e, data, n):
    return -e, -1.0, 0.5


def too_few(e, data, n):
    return (-e,)


def no_tuple(e, data, n):
    return -e


def no_number(e, data, n):
    return np.nan, -1.0


def whole_number(e, data, n):
    return -e, -1


@pytest.mark.plain
def test_wrong_derivatives_of_predictors():
    def model(derivatives):
        return flat_model(bowl, derivatives, None)

    for derivatives, order, error, words in (
        (wrong_first, 2, ValueError, r"\(0,\) is 0\.5 at datum 0, eta=\(.*-1.*\); .* say 1"),
        (wrong_second, 2, ValueError, r"\(0, 0\) is -1\.1 at datum 0, eta=.*; differences say -1"),
        (wrong_third, 3, ValueError, r"\(0, 0, 0\) is 0\.5 at datum 0, .* say 0"),
        (too_few, 2, ValueError, "returned 1 numbers: order 2 of 1 predictors needs 2"),
        (right, 3, ValueError, "returned 2 numbers: order 3 of 1 predictors needs 3"),
        (no_tuple, 2, TypeError, "must be a tuple"),
    ):
        with pytest.raises(error, match=words):
            prepared_for(model(derivatives), sm.Taylor({"s": 1.0}, order=order))


@pytest.mark.plain
def test_derivatives_that_are_no_numbers():
    with pytest.raises(ValueError, match="derivative"):
        prepared_for(flat_model(bowl, no_number, None), sm.Taylor({"s": 1.0}))


def test_derivatives_that_are_whole_numbers():
    """A tuple of a float and an int is one of floats to whoever writes Python."""
    bench = Bench(flat_model(bowl, whole_number, None), sm.Taylor({"s": 1.0}), np.array([[1.1]]))
    exact(bench)


def negative(e, data, n):
    return -1.0, 0.0


def test_bounds_that_cannot_be():
    with pytest.raises(ValueError, match="remainder"):
        prepared_for(flat_model(bowl, right, negative), sm.Taylor({"s": 1.0}))


def nonsense(state, data, n, gradient, hessian):
    tall.by_hand(state, data, n, gradient, hessian)
    gradient[1] *= 1.1


def askew(state, data, n, gradient, hessian):
    tall.by_hand(state, data, n, gradient, hessian)
    hessian[0, 1] += 0.1


def bent(state, data, n, gradient, hessian):
    tall.by_hand(state, data, n, gradient, hessian)
    hessian[1, 1] *= 1.1


def returned(state, data, n, gradient, hessian):
    return gradient


def undefined(state, data, n, gradient, hessian):
    tall.by_hand(state, data, n, gradient, hessian)
    gradient[0] = np.nan


@pytest.mark.plain
def test_wrong_derivatives_of_a_datum():
    model, reference = regression("logistic", 50, 2, "stencil")
    for derivatives, error, words in (
        (nonsense, ValueError, r"gradient\[1\] is .* at datum .*; central differences say"),
        (bent, ValueError, r"hessian\[1, 1\] is .* at datum .*; central differences say"),
        (askew, ValueError, "not symmetric at datum 0"),
        (returned, TypeError, "return nothing"),
        (undefined, ValueError, r"gradient\[0\] is nan"),
    ):
        with pytest.raises(error, match=words):
            prepared_for(model, sm.Taylor(reference, derivatives=derivatives))


@pytest.mark.plain
def test_wrong_predictors():
    with pytest.raises(ValueError, match="growth=-1"):
        sm.Predictors(tall.eta, tall.factor, growth=-1.0)
    with pytest.raises(TypeError, match="log_factor"):
        sm.Predictors(tall.eta, 3)
    with pytest.raises(ValueError, match=r"prepare does not go with sm\.Predictors"):
        sm.Model(sm.Predictors(tall.eta, tall.factor), {"y": np.zeros(2)}, {"k": 0},
                 support={"k": 1}, prepare=made_of)  # fmt: skip


def test_derivatives_do_not_go_with_prepare():
    model = sm.Model(with_prepare, {"y": np.zeros(9)}, {"mu": [0.0, 0.0]}, prepare=made_of)
    with pytest.raises(ValueError, match="does not go with prepare"):
        prepared_for(model, sm.Taylor({"mu": [0.0, 0.0]}, derivatives=tall.by_hand))


def test_rules_that_need_what_is_not_known():
    betting = sm.Racing(sm.Betting(), retreat=False)
    model, reference = regression("logistic", 50, 2, "differences")
    control = sm.Taylor(reference)
    needs = r"knows none: that would need Predictors\(derivatives=..., remai.*sm\.Normal\(\)"
    with pytest.raises(ValueError, match=needs):
        checked(control, model, sm.Metropolis("beta", selector=betting, control=control))
    model, reference = regression("logistic", 50, 2, "stencil")
    for more in ({}, {"derivatives": tall.by_hand}):
        control = sm.Taylor(reference, **more)
        with pytest.raises(ValueError, match=r"would need sm\.Predictors\(..., remainder=...\)"):
            checked(control, model, sm.Metropolis("beta", selector=betting, control=control))
    model, reference = regression("logistic", 50, 2)
    control = sm.Taylor(reference)
    checked(control, model, sm.Metropolis("beta", selector=betting, control=control))
    for rule in (sm.BernsteinSerfling(), sm.BernsteinSerfling(spread=1.0)):
        with pytest.raises(ValueError, match=r"BernsteinSerfling needs a range .* sm\.Betting"):
            checked(control, model, sm.Metropolis(
                "beta", selector=sm.Racing(rule), control=control))  # fmt: skip
    with pytest.raises(ValueError, match="does not take a control variate"):
        checked(control, model, sm.Metropolis("beta", selector=sm.LilUCB(), control=control))


@pytest.mark.plain
def test_what_is_no_control_variate():
    for kernel in (sm.Metropolis, sm.Slice, sm.Gibbs):
        with pytest.raises(TypeError, match=r"control=3: give a control variate"):
            kernel("beta", control=3)


def test_gibbs_over_part_of_the_data():
    model, reference = regression("logistic", 50, 2, configurations=2)
    with pytest.raises(ValueError, match="its sums are over all data"):
        sm.Gibbs("k", cumulative=True, control=sm.Taylor(reference)).check(model)
    touching = sm.Model(
        tall.likelihood, model.data, {"k": 0, "beta": reference["beta"]}, support={"k": 2},
        touches={"k": ([0, 50], np.arange(50))},
    )  # fmt: skip
    with pytest.raises(ValueError, match="its sums are over all data"):
        sm.Gibbs("k", control=sm.Taylor(reference)).check(touching)


def test_names_that_show_what_it_is():
    assert repr(sm.Taylor({"beta": 0.0}, order=3)) == "Taylor(order=3)"
    assert "outliers=0.05" in repr(sm.Taylor({"beta": 0.0}, outliers=0.05))


@pytest.mark.plain
def test_the_default_order():
    for source, more, order in (
        ("given", {}, 3), ("stencil", {}, 2), ("stencil", {"derivatives": tall.by_hand}, 2),
        ("jets", {}, 3), ("jets", {"derivatives": tall.by_hand}, 2),
    ):  # fmt: skip
        model, reference = regression("logistic", 50, 3, source)
        assert sm.Taylor(reference, **more).order_of(model) == order
    few = regression("logistic", 50, 2, "jets")[0]
    assert sm.Taylor({"beta": np.zeros(2)}).order_of(few) == 2
    assert sm.Taylor({"beta": np.zeros(2)}, order=3).order_of(few) == 3
    for d, order in ((12, 3), (40, 3), (41, 2)):  # by predictors that are found
        made = regression("logistic", 50, d, "jets")[0]
        assert sm.Taylor({"beta": np.zeros(d)}).order_of(made) == order
    for d, order in ((40, 3), (41, 2)):
        x = np.random.default_rng(0).standard_normal((90, d))
        made = sm.models.glm.logistic(x, (x[:, 0] > 0.0).astype(float))
        assert sm.Taylor({"beta": np.zeros(d)}).order_of(made) == order
    assert sm.Taylor({"s": 1.0}).order_of(flat_model(bowl, right, None)) == 2
