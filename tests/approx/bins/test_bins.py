"""Bins: sums of a control variate in the data are exact, and what it leaves over is small.

Exactness must not depend on the likelihood: smooth, with a kink, with a jump, impossible in
places. One likelihood serves all models: what differs travels in data, so that little is compiled.
"""

import pickle

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.bins import bins
from subsample_mcmc.approx.bins.bins import Bins
from subsample_mcmc.approx.bins.cut import cut, terms
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.runs.fingerprint import spelled
from tests.helpers.claims import above, at_most
from tests.helpers.models import tally, walker
from tests.helpers.tall import EXACT, Bench, exact, idle, spread

GAUSS, STUDENT, KINK, JUMP, POSITIVE = range(5)
SIZE = 900


# -------------------------------------------------- y given x and w, a label g, and an effect of k
def likelihood(state, data, n):
    theta = state.theta
    r = data.y[n] - theta[0] - theta[1] * data.x[n] + 0.5 * theta[0] * data.w[n]
    r += 0.2 * data.g[n] * theta[1] - 0.02 * state.k[0]
    if data.kind == GAUSS:
        return -0.5 * r * r + 0.1 * data.x[n] * data.w[n]
    if data.kind == STUDENT:
        return -0.5 * (data.nu + 1.0) * sm.log1p(r * r / data.nu)
    if data.kind == KINK:
        return -abs(r)
    if data.kind == JUMP:
        return -1.0 if r > 0.3 else 0.0
    return sm.log(r) - r if r > 0.0 else -np.inf


def prior(state):
    return -0.5 * (state.theta[0] * state.theta[0] + state.theta[1] * state.theta[1])


def made(kind, q=1, size=SIZE, groups=1, nu=5.0, seed=0, float_type=float) -> sm.Model:
    """q of y, x, w vary; the others are constant, one group."""
    rng = np.random.default_rng(seed)
    y = rng.standard_t(nu, size=size) if nu < 100.0 else rng.standard_normal(size)
    data = {
        "y": y if q > 0 else np.resize([-1.0, 0.5, 2.0], size),
        "x": rng.standard_normal(size) if q > 1 else np.zeros(size),
        "w": rng.exponential(size=size) if q > 2 else np.zeros(size),
    }
    data = {name: value.astype(float_type) for name, value in data.items()}
    data |= {"g": rng.integers(groups, size=size), "kind": kind, "nu": float(nu)}
    if kind == POSITIVE:
        data["y"] = np.abs(data["y"])
    return sm.Model(
        likelihood, data, {"theta": [0.05, 0.02], "k": 0}, prior, support={"k": 5}
    )  # fmt: skip


def points(size=SIZE, spread=1.0):
    """Values of theta about a posterior standard deviation apart."""
    rng = np.random.default_rng(5)
    return np.array([0.05, 0.02]) + spread / np.sqrt(size) * rng.standard_normal((3, 2))


def without(bench, i=0, j=1):
    """N v of the log likelihoods themselves."""
    apart = bench.values(i) - bench.values(j)
    return float(len(apart) * apart.var())


def told(model, kernel, draws, label="theta"):
    """The tally of decisions that are all audited."""
    one = walker(model, kernel, audit=1.0)
    got = one.advance(draws)
    assert one.error is None, one.error
    return tally(one, got.words, label)


def walk(model, selector, control=None):
    """A random walk of about the posterior's width; k stays where it is."""
    scale = 2.0 / np.sqrt(model.size)
    return idle >> sm.Metropolis("theta", scale, selector=selector, control=control, adapt=False)


# ------------------------------------------------------------------------------------- the mean
@pytest.mark.parametrize("q", [0, 1, 2, 3])
@pytest.mark.parametrize("kind", [GAUSS, STUDENT, KINK, JUMP])
def test_the_mean_is_the_sum_of_what_is_subtracted(kind, q):
    for groups in (1, 4):
        model = made(kind, q, groups=groups)
        for outliers in (0.0, 0.2):
            bench = Bench(model, Bins(bins=40, outliers=outliers), points())
            assert len(bench.raced) == SIZE - (int(outliers * SIZE) if q else 0)
            exact(bench)


def test_discrete_arms_have_sums_of_their_own():
    for q in (1, 2):
        exact(Bench(made(STUDENT, q), Bins(), block="k"))


def test_single_precision():
    """The bins' means are rounded as the data are, and residuals are none the larger."""
    found = []
    for kind in (float, np.float32):
        bench = Bench(made(STUDENT, 2, float_type=kind), Bins(), points())
        exact(bench)
        found.append(spread(bench))
    assert found[1] < 1.05 * found[0] + 1e-9


def test_where_the_likelihood_is_impossible():
    """At the mean of a bin, or at some of its points: there h is less of a help, and as exact."""
    for q in (1, 2):
        model = made(POSITIVE, q)
        at = np.array([[0.5, 0.0], [0.2, 0.1], [0.1, 0.3]])
        bench = Bench(model, Bins(outliers=0.0), at)
        for arm in range(3):
            value, left, h = bench.values(arm), bench.residuals(arm), by_hand(bench, arm)
            possible = np.isfinite(value)
            assert 0.1 < possible.mean() < 1.0
            assert np.all(left[~possible] == -np.inf)
            assert np.allclose((value - h)[possible], left[possible], rtol=0.0, atol=1e-9)
            assert bench.means[arm] == pytest.approx(h.sum(), abs=EXACT * np.abs(h).sum())


def by_hand(bench, arm):
    """h of the raced rows, from the coefficients: it is defined where l is not."""
    own = bench.trial.control.arrays
    data, b = bench.model.data, own.bins[bench.raced]
    names = bench.prepared.cut.columns
    d = np.array([getattr(data, name)[bench.raced] - own.reference[b, k]
                  for k, name in enumerate(names)])  # fmt: skip
    monomials = [np.ones(len(b)), *d, *(d[k] * d[j] for k, j in terms(len(d)))]
    return (own.coefficients[arm][b] * np.array(monomials).T).sum(axis=1)


def test_a_state_that_comes_back_has_its_sum_again():
    """What is kept of an arm is about the state that it was; of two arms, one takes the other's."""
    model, at = made(STUDENT), points()[:2].copy()
    bench = Bench(model, Bins(), at)
    first = bench.means.copy()
    bench.trial.candidates[[0, 1]] = bench.trial.candidates[[1, 0]]
    swapped = np.array([bench.mean_of(bench.trial, arm) for arm in (0, 1)])
    again = bench.mean_of(bench.trial, 0)
    assert again == swapped[0]
    assert np.array_equal(swapped, first[::-1])
    assert np.array_equal(bench.residuals(0), Bench(model, Bins(), at).residuals(0))
    # After an acceptance: the current state is what the proposal was.
    bench.trial.candidates[1] = points()[2]
    third = bench.mean_of(bench.trial, 1)
    bench.trial.candidates[0] = points()[2]
    assert bench.mean_of(bench.trial, 0) == third
    assert np.array_equal(bench.residuals(0), bench.residuals(1))
    assert not np.isclose(third, first).any()
    bench.ints[0] = 3
    assert bench.mean_of(bench.trial, 0) != third


# ---------------------------------------------------------------------------------- against naive
def polynomial(model, control, theta):
    """h of every row by its definition: central differences of the likelihood in each bin."""
    made_of = cut(model, control.columns, control.bins, control.outliers)
    q = len(made_of.columns)
    state = model.state(model.ints, np.array(theta))
    h = np.zeros(model.size)
    for n in range(model.size):
        b = made_of.bins[n]
        row = {name: (value[n : n + 1] + 0.0 if name in made_of.columns else value[n : n + 1])
               if np.ndim(value) else value
               for name, value in zip(model.data._fields, model.data, strict=True)}  # fmt: skip
        d = np.array([row[name][0] for name in made_of.columns]) - made_of.reference[b]
        steps = 1.0 / made_of.inverse[b]

        def at(z, row=row, b=b, steps=steps):
            for k, name in enumerate(made_of.columns):
                row[name][0] = made_of.reference[b, k] + z[k] * steps[k]
            return model.log_likelihood(state, type(model.data)(**row), 0)

        unit, middle = np.eye(q), at(np.zeros(q))
        z = d / steps
        h[n] = middle
        for k in range(q):
            up, down = at(unit[k]), at(-unit[k])
            h[n] += 0.5 * (up - down) * z[k] + 0.5 * (up - 2.0 * middle + down) * z[k] ** 2
            for j in range(k):
                both = at(unit[k] + unit[j]) + at(-unit[k] - unit[j])
                mixed = 0.5 * (both - up - down - at(unit[j]) - at(-unit[j])) + middle
                h[n] += mixed * z[k] * z[j]
    return h


@pytest.mark.plain
@pytest.mark.parametrize("q", [1, 2])
def test_h_is_what_it_is_said_to_be(q):
    model, control = made(STUDENT, q, size=60, groups=2), Bins(bins=6)
    bench = Bench(model, control, points(60)[:2])
    for arm in range(2):
        h = polynomial(model, control, bench.points[arm])[bench.raced]
        seen = bench.values(arm) - bench.residuals(arm)
        assert np.allclose(seen, h, rtol=0.0, atol=1e-11)
        assert bench.means[arm] == pytest.approx(h.sum(), abs=1e-10)


# ------------------------------------------------------------------------------------- residuals
@pytest.mark.parametrize("q", [1, 2, 3])
def test_residuals_vanish_where_the_likelihood_is_quadratic(q):
    """In the data, mixed terms included."""
    for groups in (1, 3):
        model = made(GAUSS, q, groups=groups, nu=1e9)
        bench = Bench(model, Bins(bins=30, outliers=0.1), points(spread=10.0))
        for arm in range(3):
            size = np.abs(bench.values(arm)).max()
            assert np.abs(bench.residuals(arm)).max() < 1e-9 * size


def test_residuals_vanish_where_data_have_few_values():
    model = made(STUDENT, 0, groups=5)
    bench = Bench(model, Bins(), points())
    assert np.abs(bench.residuals(1)).max() < 1e-13


def test_residuals_fall_with_the_number_of_bins():
    """Third order: three times as many bins, a variance 3^6 times smaller; a kink's falls, too."""
    model = made(STUDENT, size=20_000)
    found = [spread(Bench(model, Bins(bins=b, outliers=0.3), points(20_000))) for b in (8, 24, 72)]
    assert found[0] > 200.0 * found[1] > 200.0**2 * found[2]
    kink = made(KINK, size=20_000)
    found = [spread(Bench(kink, Bins(bins=b, outliers=0.1), points(20_000))) for b in (8, 72, 216)]
    assert found[0] > 4.0 * found[1] > 16.0 * found[2]
    assert found[2] < 1e-3 * without(Bench(kink, Bins(), points(20_000)))
    two = made(STUDENT, 2, size=20_000)
    found = [spread(Bench(two, Bins(bins=b), points(20_000))) for b in (16, 64, 256)]
    assert found[0] > 4.0 * found[1] > 16.0 * found[2]


# ----------------------------------------------------------------------------------- heavy tails
def test_heavy_tails_need_the_outliers():
    """A few rows of Cauchy data share a bin with all that lie beyond the 99% quantile."""
    size = 5000
    model = made(STUDENT, size=size, nu=1.0)
    found = [spread(Bench(model, Bins(outliers=o), points(size))) for o in (0.0, 0.01, 0.2)]
    none = without(Bench(model, Bins(outliers=0.0), points(size)))
    assert found[0] > 10.0 * none
    assert found[1] < 1e-5 * none
    assert found[2] < 1e-10 * none


@pytest.mark.slow
def test_heavy_tails_make_no_race_err(monkeypatch):
    """Without outliers they did, beyond delta and beyond a race without any control variate.

    A few rows of each bin, at its ends, say how widely residuals vary.
    """
    model = made(STUDENT, size=20_000, nu=1.5, seed=2)
    counts = {}
    for share in (None, 0.0, 0.01, 0.2):
        control = None if share is None else Bins(outliers=share)
        counts[share] = told(model, walk(model, sm.Racing(), control), 3000)
    at_most(counts[None]["wrong"], counts[None]["audited"], 0.05)
    real = bins.bin_functions
    with monkeypatch.context() as patch:
        patch.setattr(bins, "bin_functions", lambda fields: real(fields)._replace(spread=None))
        less = told(model, walk(model, sm.Racing(), Bins(outliers=0.0)), 3000)
    above(less["wrong"], less["audited"], 0.05)
    for share, most in ((0.0, 1.0), (0.01, 0.1), (0.2, 0.22)):
        assert counts[share]["pulls"] < most * counts[share]["everything"]
        at_most(counts[share]["wrong"], counts[share]["audited"], 0.001)


# ------------------------------------------------------------------------------------- decisions
def same_draws(model, kernel_of, draws):
    """Chains with and without Bins make the same draws; those without."""
    drawn = []
    for control in (None, Bins(bins=10, outliers=0.1)):
        one = walker(model, kernel_of(control))
        drawn.append(one.advance(draws))
        assert one.error is None, one.error
    assert np.array_equal(drawn[0].ints, drawn[1].ints)
    assert np.array_equal(drawn[0].floats, drawn[1].floats)
    assert len(np.unique(drawn[0].floats[:, 0])) > 0.2 * draws
    return drawn[0]


SURE = sm.Racing(delta=1e-12, batch=20, retreat=False)


@pytest.mark.plain
def test_decisions_are_those_without():
    """A race of residuals that is as good as sure decides as one of log likelihoods."""
    model = made(STUDENT, size=160, groups=2)
    same_draws(model, lambda control: walk(model, SURE, control), 20 if DISABLED else 2000)


@pytest.mark.slow
def test_discrete_draws_are_those_without():
    model = made(STUDENT, 2, size=400, groups=2)
    drawn = same_draws(
        model, lambda c: sm.Gibbs("k", SURE, control=c) >> walk(model, SURE, c), 500
    )  # fmt: skip
    assert len(np.unique(drawn.ints)) == 5


def located(state, data, n):
    return -3.0 * sm.log1p((data.y[n] - state.mu[0]) ** 2 / 5.0)


@pytest.mark.slow
def test_slices_are_those_without():
    y = np.random.default_rng(2).standard_t(5.0, size=400)
    model = sm.Model(located, {"y": y}, {"mu": 0.0})
    same_draws(model, lambda c: sm.Slice("mu", 0.2, selector=SURE, control=c), 500)


@pytest.mark.slow
def test_exact_decisions_are_those_without():
    model = made(STUDENT, 2, size=400, groups=2)
    same_draws(model, lambda c: walk(model, sm.Exact(), c), 2000)


def test_audited_errors_are_rare():
    """Smooth, and with a kink, where residuals are spikes in the bins that it passes."""
    for kind, most in ((STUDENT, 0.15), (KINK, 0.8)):
        model = made(kind, size=10_000)
        kernel = walk(model, sm.Racing(delta=0.05), Bins(outliers=0.01))
        counts = told(model, kernel, 3000)
        at_most(counts["wrong"], counts["audited"], 0.05)
        assert counts["audited"] == 3000
        assert counts["predicted"] == 0
        assert 0.2 < counts["accepted"] / counts["decisions"] < 0.9
        assert counts["pulls"] < most * counts["everything"]


@pytest.mark.slow
def test_audited_errors_of_discrete_draws_are_rare():
    """Five arms, with Gumbels."""
    model = made(STUDENT, 2, size=10_000, groups=2)
    kernel = walk(model, sm.Exact()) >> sm.Gibbs("k", sm.Racing(), control=Bins(outliers=0.05))
    counts = told(model, kernel, 2000, "k")
    at_most(counts["wrong"], counts["audited"], 0.05)
    assert counts["accepted"] > 100
    assert counts["pulls"] < 0.3 * counts["everything"]


# ------------------------------------------------------------------------------------ preparation
def test_bins_are_quantiles_within_groups():
    model = made(STUDENT, 2, size=20_000, groups=3)
    found = cut(model, None, 100, 0.2)
    assert found.columns == ("y", "x")
    assert found.bins.dtype == np.int16
    counts = np.bincount(found.bins)
    assert 90 <= len(counts) <= 110
    assert counts.min() > 0.8 * counts.max()
    for b in range(len(counts)):
        assert len(np.unique(model.data.g[found.bins == b])) == 1
    assert np.array_equal(model.data.g, found.pseudo.g[found.bins])
    assert len(found.outliers) == 4000
    assert found.outliers.dtype == np.int64
    assert np.all(np.diff(found.outliers) > 0)
    kept = np.setdiff1d(np.arange(20_000), found.outliers)
    assert np.allclose(found.moments[:, 0], np.bincount(found.bins[kept], minlength=len(counts)))
    assert np.abs(found.moments[:, 1:3]).max() < 1e-9  # the reference is the inliers' mean
    assert len(found.pseudo.y) == 7 * len(counts)
    assert found.pseudo.kind == STUDENT


def test_many_bins_and_few_data():
    for size, count in ((20, 1), (20, 50), (1, 3), (17, 1000)):
        model = made(STUDENT, size=size)
        exact(Bench(model, Bins(bins=count), points(size)))
    big = cut(made(STUDENT, size=40_000), None, 40_000, 0.0)
    assert big.bins.dtype == np.int32
    assert big.moments[:, 0].max() == 1.0


def test_a_row_far_away_does_not_make_outliers_of_its_neighbours():
    model = made(STUDENT, nu=1e9)
    y = np.where(np.arange(SIZE) == 7, 1e9, model.data.y)
    far = sm.Model(likelihood, model.data._replace(y=y), {"theta": [0.0, 0.0], "k": 0},
                   support={"k": 5})  # fmt: skip
    found = cut(far, None, 20, 0.02)
    assert 7 in found.outliers
    assert len(found.outliers) == 18
    assert np.bincount(found.bins[found.outliers])[-1] < 13  # of 45; the other end has the rest


def test_ties():
    """Columns that stand still in a bin have no step, and need none."""
    model = made(STUDENT, size=500)
    y = np.where(np.arange(500) < 400, 0.0, model.data.y)
    tied = sm.Model(likelihood, model.data._replace(y=y), {"theta": [0.0, 0.0], "k": 0},
                    support={"k": 5})  # fmt: skip
    bench = Bench(tied, Bins(bins=20, outliers=0.05), points(500))
    exact(bench)
    assert np.mean(np.abs(bench.residuals(0, np.arange(400))) < 1e-12) > 0.9  # but for two bins


def test_columns_that_are_not_asked_for_are_constant():
    model = made(STUDENT, 2)
    bench = Bench(model, Bins("y"), points())
    assert bench.prepared.cut.columns == ("y",)
    exact(bench)


def test_pickling():
    model, control = made(STUDENT, 2), Bins(outliers=0.1)
    bench = Bench(model, control, points())
    copied = pickle.loads(pickle.dumps(bench.prepared))
    assert "functions" in vars(bench.prepared) and "functions" not in vars(copied)
    assert copied.cut.bins.dtype == np.int16
    copy = pickle.loads(pickle.dumps(control))
    model.prepared[copy] = copied
    again = Bench(model, copy, points())
    assert np.array_equal(again.means, bench.means)
    assert np.array_equal(again.residuals(1), bench.residuals(1))
    assert spelled(copy) == spelled(control) == spelled(Bins(outliers=0.1))
    assert spelled(control) != spelled(Bins(outliers=0.1, bins=99))
    other = made(STUDENT, 2, seed=1)  # other data: the bins are made anew
    exact(Bench(other, copy, points()))


def test_repr():
    assert repr(Bins()) == "Bins(columns=None, bins=100, outliers=0.2)"
    assert Bins("y").columns == ("y",)


# -------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"outliers": 0.6}, ValueError, "outliers=0.6: give a share"),
        ({"outliers": -0.1}, ValueError, "outliers=-0.1"),
        ({"outliers": np.nan}, ValueError, "outliers=nan"),
        ({"bins": 0}, ValueError, "bins=0: give the number of bins"),
        ({"bins": 2.5}, ValueError, "bins=2.5"),
        ({"columns": 3}, TypeError, "columns=3: give names"),
        ({"columns": []}, TypeError, r"columns=\[\]: give names"),
        ({"columns": ("y", "y")}, ValueError, "each name once"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        Bins(**arguments)


def first_field(state, data, n):
    return -0.5 * (data[0][n] - state.theta[0]) ** 2


def of_matrix(state, data, n):
    return -0.5 * (data.x[n, 0] - state.theta[0]) ** 2


NUMBERS = np.random.default_rng(3).standard_normal(200)


@pytest.mark.parametrize(
    ("given", "data", "columns", "error", "words"),
    [
        (of_matrix, {"x": NUMBERS.reshape(100, 2)}, None, ValueError,
         r"data x has shape \(100, 2\).*one array per column, or use sm.Taylor"),
        (first_field, {"y": np.arange(200)}, None, ValueError, "neither a group nor a column"),
        (first_field, {"y": np.arange(200)}, "y", TypeError, r"dtype int64.*astype\(float\)"),
        (first_field, {"y": NUMBERS}, "z", ValueError, r"'z' is not among the arrays \['y'\]"),
        (first_field, {"y": np.where(np.arange(200) == 7, np.nan, NUMBERS)}, None, ValueError,
         "data y is nan in row 7"),
        (first_field, {n: NUMBERS for n in "abcd"}, None, ValueError,
         r"4 columns \('a', 'b', 'c', 'd'\).*Bins serves 3.*sm.Taylor"),
    ],
)  # fmt: skip
def test_data_that_cannot_be_cut_are_refused(given, data, columns, error, words):
    model = sm.Model(given, data, {"theta": 0.0}, missing="allow")
    with pytest.raises(error, match=words):
        Bins(columns).check(model, "theta")


def by_index(state, data, n):
    return -0.5 * (data.y[n] - state.theta[0]) ** 2 - 1e-3 * n


def by_neighbour(state, data, n):
    """An autoregression: at the initial state its coefficient is zero."""
    before = data.y[n - 1] if n > 0 else 0.0
    return -0.5 * (data.y[n] - state.theta[0] * before) ** 2


def by_count(state, data, n):
    return -0.5 * (data.y[n] - state.theta[0]) ** 2 / len(data.y)


def by_next(state, data, n):
    return -0.5 * (data.y[n] - data.y[min(n + 1, 199)]) ** 2 + state.theta[0]


def by_latent(state, data, n):
    return -0.5 * (data.y[n] - state.theta[0] - state.z[n]) ** 2


def by_prepared(state, data, n, shared):
    return -0.5 * (data.y[n] - shared[0]) ** 2


@pytest.mark.parametrize("given", [by_index, by_neighbour, by_count, by_next, by_latent])
def test_likelihoods_that_look_beyond_their_datum_are_refused(given):
    state = {"theta": 0.0}
    state |= {"z": np.zeros(200, dtype=int)} if given is by_latent else {}
    model = sm.Model(given, {"y": NUMBERS}, state, support={"z": 2} if "z" in state else None)
    with pytest.raises(ValueError, match=r"log_likelihood is .*depends on n.*sm.Taylor"):
        Bins().check(model, "theta")


def test_what_prepare_makes_of_all_data_is_refused():
    """It would be made of the points of the bins."""
    reads = {True: lambda state, data: (state.theta[0] + data.y[0],),
             False: lambda state, data: (state.theta[0] + 1.0,)}  # fmt: skip
    for wrong, prepare in reads.items():
        model = sm.Model(by_prepared, {"y": NUMBERS}, {"theta": 0.0}, prepare=prepare)
        if wrong:
            with pytest.raises(ValueError, match="depends on n"):
                Bins().check(model, "theta")
        else:
            exact(Bench(model, Bins(outliers=0.1), np.array([[0.1], [0.2]])))


def test_constrained_states_are_tried_inside_their_sets():
    def shares(state, data, n):
        share = state.p[0] * sm.exp(-data.y[n] * data.y[n]) + state.p[1]
        assert state.s[0] > 0.0 and 0.0 < state.u[0] < 1.0
        assert min(state.p) > 0.0 and sum(state.p) == pytest.approx(1.0, abs=1e-12)
        return sm.log(share) * state.s[0] + state.u[0]

    model = sm.Model(
        shares, {"y": NUMBERS}, {"p": [0.3, 0.7], "s": 1e-3, "u": 0.999},
        constraints={"p": sm.simplex, "s": sm.positive, "u": sm.interval(0.0, 1.0)},
    )  # fmt: skip
    Bins().check(model, "p")


def test_rules_that_want_a_bound_say_what_is_missing():
    model = made(STUDENT)
    race = sm.Racing(sm.Betting())
    with pytest.raises(ValueError, match="a bound of the likelihood's third derivatives"):
        walker(model, walk(model, race, Bins()))
    assert not prepared_for(model, Bins()).proved
    assert not prepared_for(model, Bins()).known


def test_there_is_no_gradient():
    model = made(STUDENT)
    kernel = sm.Langevin("theta", 0.01, gradient="control", control=Bins())
    with pytest.raises(ValueError, match=r"Bins\(.*has no gradient: use gradient=\"minibatch\""):
        walker(model, kernel >> sm.Gibbs("k"))
