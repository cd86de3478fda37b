"""Bins of predictors: moments of X give sums at any parameters, whichever rows eta looks at.

One likelihood serves most tests: what differs travels in data, so that little is compiled.
"""

import pickle

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.bins import predictor_cut as predictorcut
from subsample_mcmc.approx.bins.bins import Bins
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor.derivatives_stencil import stencil
from subsample_mcmc.approx.taylor.references import scales_of
from subsample_mcmc.models.arch import ARCH, example_returns
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.runs.fingerprint import spelled
from tests.helpers.claims import at_most, below
from tests.helpers.models import tally, walker
from tests.helpers.tall import Bench, exact, regression, softmax, spread

SIZE = 700
ORDERS = (1, 4, 7)


# --------------------------------- y given its own past and x: location, and scale where it moves
def etas(state, data, n):
    before = data.y[n - 1] if n > 0 else 0.0
    b = state.beta
    shift = data.offset[n] + data.x[n, 0] * b[0] + before * b[1] * (1.0 + state.k[0])
    return shift, b[2] + data.x[n, 1] * b[3]


def factor(e, data, n):
    r = (data.y[n] - e[0]) * sm.exp(-e[1])
    return -e[1] - 0.5 * r * r - 0.1 * data.g[n] * r


def prior(state):
    return -0.5 * float(state.beta[0] * state.beta[0])


AT = np.array([0.4, 0.3, -0.2, 0.1])


def autoregression(size=SIZE, moving=True, offset=False, groups=1, kind=float, seed=0):
    """A model of two predictors, the second one constant unless moving; two configurations."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((size, 2)) * (1.0, 1.0 if moving else 0.0)
    y = rng.standard_t(5.0, size) * np.exp(-0.2 + 0.1 * x[:, 1]) + 0.4 * x[:, 0]
    given = sm.Predictors(etas, factor)
    data = {
        "y": y.astype(kind), "x": x, "offset": rng.exponential(size=size) * offset,
        "g": rng.integers(groups, size=size),
    }  # fmt: skip
    return sm.Model(given, data, {"k": 0, "beta": AT}, prior, support={"k": 2})


FIT = [{"beta": AT}, {"beta": AT * 0.9}]


def points(size=SIZE, scale=1.0):
    """Values of beta about a posterior standard deviation apart."""
    return AT + scale / np.sqrt(size) * np.random.default_rng(5).standard_normal((3, 4))


def arch(size=600):
    """ARCH models of three orders, and a dict of values for each."""
    model = ARCH(example_returns(size), ORDERS, coordinates="squareroot")
    return model, [{"theta": near(model, q)} for q in ORDERS]


def near(model, order, scale=0.0, seed=0):
    """Values of theta about those the returns were drawn with; components not in use are nan."""
    theta = np.full(len(model.floats), 0.5 if scale == 0.0 else np.nan)
    theta[:2], theta[2 : order + 2] = (4.0, 0.3), 0.4 / order
    noise = np.random.default_rng(seed).uniform(-1.0, 1.0, order + 2)
    theta[: order + 2] *= 1.0 + scale * noise
    return theta


# ------------------------------------------------------------- predictors that are constant
def polynomial(state, data, n):
    mean = 0.0
    for j in range(state.q[0], -1, -1):
        mean = mean * data.t[n] + state.theta[j]
    return mean


def student(e, data, n):
    return -2.5 * sm.log1p((data.y[n] - e) ** 2 / 4.0)


def flat_or_straight(level):
    """(a model whose first configuration is a constant, a point of each)."""
    rng = np.random.default_rng(0)
    y = level + 2.0 * rng.standard_t(3.0, 2_000)
    model = sm.Model(
        sm.Predictors(polynomial, student), {"y": y, "t": rng.uniform(-1.0, 1.0, 2_000)},
        {"q": 0, "theta": np.array([level, 0.0])}, support={"q": 2},
        lengths={"theta": ("q", [1, 2])},
    )  # fmt: skip
    return model, [{"theta": np.array([level, 0.0])}, {"theta": np.array([level, 0.02])}]


@pytest.mark.plain
def test_rows_far_out_are_read_beside_a_predictor_that_is_constant_but_for_rounding():
    """Its standard deviation is 1e-16 or so, and drowned what lies far out in other columns."""
    levels = 1.3 + 0.01 * np.arange(40)
    rounded = [level for level in levels if np.std(np.full(2_000, level)) > 0.0]
    assert len(rounded) > 10
    for level in (*rounded[:2], 1.25):
        model, near = flat_or_straight(float(level))
        outliers = prepared_for(model, Bins(fit=near)).outliers
        far = np.argsort(np.abs(np.asarray(model.data.y) - level))[-20:]
        assert np.isin(far, outliers).all()


# ------------------------------------------------------------------------------------- the mean
@pytest.mark.slow_for("False-False-1")
@pytest.mark.slow_for("False-False-0")
@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("offset", [False, True])
def test_the_mean_is_the_sum_of_what_is_subtracted(moving, offset, k):
    """Whatever the parameters: also far from the fit."""
    model = autoregression(moving=moving, offset=offset, groups=2)
    for scale, outliers in ((1.0, 0.2), (30.0, 0.2), (1.0, 0.0)):
        control = Bins(fit=FIT, bins=40, outliers=outliers)
        bench = Bench(model, control, points(scale=scale), ints=[k])
        assert len(bench.raced) == SIZE - int(outliers * SIZE)
        assert prepared_for(model, control).cut.cut.points.shape[1] == 2 + moving
        exact(bench)


def test_configurations_have_cuts_of_their_own():
    model = autoregression()
    bench = Bench(model, Bins(fit=FIT), block="k")
    exact(bench)
    assert (bench.prepared.cut.cut.bins[0] != bench.prepared.cut.cut.bins[1]).any()
    exact(Bench(model, Bins(fit=FIT[0]), block="k"))  # one fit for all


@pytest.mark.parametrize("name", ["gaussian", "logistic", "poisson"])
@pytest.mark.parametrize("source", ["given", "differences"])
def test_regressions(name, source):
    """One predictor; classes are groups, and what log_factor does not read is no matter."""
    model, fit = regression(name, SIZE, d=3, source=source, configurations=2)
    bench = Bench(model, Bins(fit=fit, outliers=0.1), fit["beta"] * np.array([[1.0], [1.1]]))
    exact(bench)
    made = bench.prepared.cut
    assert made.cut.points.shape[1] == (2 if name == "gaussian" else 1)
    assert made.cut.counts.tolist() == [[2], [3]]  # the offset moves with k = 1
    exact(Bench(model, Bins(fit=fit), block="k"))


def test_several_predictors_move_together():
    """Softmax regression: second moments of two predictors, and of pairs of them."""
    model, fit = softmax(SIZE, 2, configurations=2)
    bench = Bench(model, Bins(fit=fit), block="k")
    exact(bench)
    assert spread(bench) < 0.1 * SIZE * np.var(bench.values(0) - bench.values(1))


@pytest.mark.slow_for("1")
@pytest.mark.slow_for("0")
@pytest.mark.parametrize("k", range(3))
def test_arch(k):
    """Orders of 3 to 9 parameters, one set of rows; parameters that are not there are not read."""
    model, fit = arch()
    at = np.array([near(model, ORDERS[k], 0.1, seed) for seed in range(3)])
    bench = Bench(model, Bins("r2", 30, fit=fit), at, ints=[k])
    exact(bench)
    cut = bench.prepared.cut.cut
    assert cut.places.tolist() == [0, -1]  # h varies over rows, nu does not
    assert cut.counts.tolist() == [[q] for q in ORDERS]
    assert 25 <= len(np.unique(cut.bins[k])) <= 30
    assert bench.control.always_read(model).shape == (int(0.2 * model.size),)


@pytest.mark.slow
def test_single_precision():
    """The bins' means are rounded as the data are."""
    found = []
    for kind in (float, np.float32):
        bench = Bench(autoregression(kind=kind), Bins(fit=FIT), points())
        exact(bench)
        found.append(spread(bench))
    assert found[1] < 1.05 * found[0] + 1e-9


def test_many_bins_and_few_data():
    for size, bins in ((20, 1), (20, 50), (2, 3), (37, 1000)):
        exact(Bench(autoregression(size), Bins(fit=FIT, bins=bins), points(size)))


def test_moments_of_many_pieces(monkeypatch):
    """Rows of a bin are added up piece by piece where they are many."""
    means = []
    for room in (1 << 22, 1):
        monkeypatch.setattr("subsample_mcmc.approx.bins.predictor_cut.ROOM", room)
        bench = Bench(autoregression(3000), Bins(fit=FIT, bins=4), points(3000))
        exact(bench)
        means.append(bench.means)
    assert np.allclose(*means, rtol=1e-13, atol=0.0)


def test_a_state_that_comes_back_has_its_sum_again():
    """What is kept of an arm is about the state that it was; of two arms, one takes the other's."""
    model, at = autoregression(), points()[:2].copy()
    bench = Bench(model, Bins(fit=FIT), at)
    first, left = bench.means.copy(), bench.residuals(1)
    bench.trial.candidates[[0, 1]] = bench.trial.candidates[[1, 0]]
    assert bench.mean_of(bench.trial, 0) == first[1]
    assert np.array_equal(bench.residuals(0), left)
    assert bench.mean_of(bench.trial, 1) == pytest.approx(first[0], rel=1e-14)
    bench.ints[0] = 1
    assert bench.mean_of(bench.trial, 0) != first[1]


# ---------------------------------------------------------------------------------- against naive
def by_definition(model, made, k, theta):
    """h of every row: differences of log_factor around the means of its bin's inliers."""
    state = model.state(np.array([k]), np.array(theta))
    e = np.array([model.predictors.eta(state, model.data, n) for n in range(model.size)])
    z = np.column_stack([model.data.y, e])
    b, kept = made.cut.bins[k], np.setdiff1d(np.arange(model.size), made.outliers)
    h, at = np.zeros(model.size), stencil(3)
    for n in range(model.size):
        rows = kept[b[kept] == b[n]]
        middle = z[rows].mean(axis=0) if len(rows) else np.append(
            made.cut.reference[k, b[n]], z[n, 1:])  # fmt: skip
        step = made.cut.steps[k, b[n]]

        def value(x, n=n):
            row = {"y": np.array([x[0]]), "g": model.data.g[n : n + 1]}
            return factor(x[1:], type("Data", (), row), 0)

        values = np.array([value(middle + p * step) for p in at])
        d = (z[n] - middle) / np.where(step > 0.0, step, np.inf)
        h[n] = values[0]
        for i in range(3):
            up, down = values[1 + 2 * i], values[2 + 2 * i]
            h[n] += 0.5 * (up - down) * d[i] + 0.5 * (up + down - 2.0 * values[0]) * d[i] ** 2
        for p, (i, j) in enumerate([(0, 1), (0, 2), (1, 2)]):
            both = values[7 + 2 * p] + values[8 + 2 * p]
            ends = values[[1 + 2 * i, 2 + 2 * i, 1 + 2 * j, 2 + 2 * j]].sum()
            h[n] += (0.5 * (both - ends) + values[0]) * d[i] * d[j]
    return h


@pytest.mark.plain
@pytest.mark.parametrize("k", [0, 1])
def test_h_is_what_it_is_said_to_be(k):
    model = autoregression(80, groups=2, offset=True)
    bench = Bench(model, Bins(fit=FIT, bins=8), points(80)[:2], ints=[k])
    for arm in range(2):
        h = by_definition(model, bench.prepared.cut, k, bench.points[arm])[bench.raced]
        seen = bench.values(arm) - bench.residuals(arm)
        assert np.allclose(seen, h, rtol=0.0, atol=1e-10)
        assert bench.means[arm] == pytest.approx(h.sum(), abs=1e-9)


# ------------------------------------------------------------------------------------- residuals
def test_residuals_vanish_where_the_likelihood_is_quadratic():
    """In y and the predictor together, the mixed term included."""
    model, fit = regression("gaussian", SIZE, d=3)
    bench = Bench(model, Bins(fit=fit, bins=10, outliers=0.1), np.array([[0.1, 2.0, -1.0]]))
    assert np.abs(bench.residuals(0)).max() < 1e-9 * np.abs(bench.values(0)).max()


@pytest.mark.slow
def test_residuals_fall_with_the_number_of_bins():
    """Third order: a variance 2^6 times smaller, where bins are half as wide in each direction."""
    model, size = autoregression(20_000), 20_000
    found = [
        spread(Bench(model, Bins(fit=FIT, bins=b, outliers=0.3), points(size)))
        for b in (4**3, 8**3, 16**3)
    ]
    assert found[0] > 20.0 * found[1] > 20.0**2 * found[2]


# ----------------------------------------------------------------------------------- outliers
def test_one_set_of_outliers_serves_all_configurations():
    model = autoregression(5000)
    bench = Bench(model, Bins(fit=FIT, outliers=0.1), block="k")
    made = bench.prepared.cut
    assert made.outliers.shape == (500,)
    assert np.all(np.diff(made.outliers) > 0)
    kept = np.setdiff1d(np.arange(5000), made.outliers)
    for k in range(2):
        counts = np.bincount(made.cut.bins[k][kept], minlength=made.cut.moments.shape[1])
        assert np.array_equal(made.cut.moments[k, :, 0], counts)
    far, x = np.zeros((2, 5000)), model.data.x
    before = np.append(0.0, model.data.y[:-1])
    for k in range(2):
        state, bins = model.state(np.array([k]), FIT[k]["beta"]), made.cut.bins[k]
        e = [etas(state, model.data, n) for n in range(5000)]
        # How far two standard deviations of each coefficient move the predictors.
        sd = np.diag(scales_of(model, np.array([k]), FIT[k]["beta"]))
        of_shift = np.hypot(x[:, 0] * sd[0], before * (1.0 + k) * sd[1])
        of_scale = np.hypot(sd[2], x[:, 1] * sd[3])
        swings = np.column_stack([np.zeros(5000), of_shift, of_scale])
        for z, swing in zip(np.column_stack([model.data.y, e]).T, swings.T, strict=True):
            low, high = np.quantile(z, (0.16, 0.84))
            middle = np.array([np.median(z[bins == b]) for b in range(bins.max() + 1)])
            far[k] += ((z - middle[bins]) ** 2 + (2.0 * swing) ** 2) / (0.5 * (high - low)) ** 2
    assert set(np.argsort(far.max(axis=0))[-500:]) == set(made.outliers)
    assert set(np.argsort(far[0])[-500:]) != set(made.outliers)


def test_bins_are_marginal_quantiles():
    model = autoregression(20_000, moving=False)
    made = predictorcut.predictor_cut(model, None, 100, 0.0, FIT)
    state = model.state(np.array([0]), AT)
    h = np.array([etas(state, model.data, n)[0] for n in range(20_000)])
    for column, step in ((model.data.y, 10), (h, 1)):
        tenth = made.cut.bins[0].astype(int) // step % 10
        assert np.array_equal(np.bincount(tenth), np.full(10, 2000))
        low = [column[tenth == t].min() for t in range(1, 10)]
        assert np.all(np.array(low) >= [column[tenth == t].max() for t in range(9)])


def test_heavy_tails_need_the_outliers():
    """N v of ARCH models: with a fifth of the rows read, thousands of times less."""
    model, fit = arch(13_000)
    at = np.array([near(model, 7, 0.02, seed) for seed in range(2)])
    found = [
        spread(Bench(model, Bins("r2", fit=fit, outliers=o), at, ints=[2])) for o in (0.0, 0.2)
    ]
    assert found[0] > 1000.0 * found[1]


# ------------------------------------------------------------------------------------- decisions
@pytest.fixture(scope="module")
def orders():
    """(model, fits): three orders that the prior makes about as probable."""
    returns = example_returns(4000)
    p = np.full(3, 1.0 / 3.0)
    for _ in range(2):
        model = ARCH(returns, (2, 5, 8), coordinates="squareroot", prior=p)
        raw = [sm.laplace(model, "theta", given={"q": k}, progress=False) for k in range(3)]
        fits = [fit.matched() for fit in raw]
        rest = np.array([fit.log_evidence for fit in fits]) - np.log(p)
        p = np.exp(rest.min() - rest)
        p /= p.sum()
    return model, fits


def chosen(orders, control, draws, selector, audit=0.0):
    """(draws, tally of the choice of the order) of a chain that begins at a fit."""
    model, fits = orders
    move = sm.Metropolis("theta", proposal=sm.independence(fits), selector=sm.Exact())
    choice = sm.Gibbs("q", selector, control=control, pseudo=sm.PseudoPrior(fits))
    one = walker(model, move >> choice, audit=audit)
    one.ints[0], one.floats[:] = 1, fits[1].point
    got = one.advance(draws)
    assert one.error is None, one.error
    return got, tally(one, got.words, "q")


@pytest.mark.slow
def test_exact_decisions_are_those_without(orders):
    """The same Gumbels, the same orders, the same parameters."""
    draws = 10 if DISABLED else 1000
    without, _ = chosen(orders, None, draws, sm.Exact())
    with_bins, _ = chosen(orders, Bins("r2", fit=orders[1]), draws, sm.Exact())
    assert np.array_equal(without.ints, with_bins.ints)
    assert np.array_equal(without.floats, with_bins.floats)
    assert DISABLED or np.bincount(without.ints[:, 0], minlength=3).min() > 100


@pytest.mark.slow
def test_audited_errors_are_rare_with_outliers(orders):
    """And without them, where a few rows of each bin say how widely residuals vary."""
    rare, none = (Bins("r2", fit=orders[1], outliers=share) for share in (0.2, 0.0))
    got, counts = chosen(orders, rare, 3000, sm.Racing(), audit=1.0)
    below(counts["wrong"], counts["audited"], 0.05)
    assert counts["audited"] == 3000
    assert counts["pulls"] < counts["everything"]
    assert np.bincount(got.ints[:, 0], minlength=3).min() > 300
    _, counts = chosen(orders, none, 3000, sm.Racing(), audit=1.0)
    below(counts["wrong"], counts["audited"], 0.05)


@pytest.mark.slow
def test_metropolis():
    """Two arms of one configuration, audited."""
    model = autoregression(10_000, moving=False)
    walk = sm.Metropolis("beta", 0.01, control=Bins(fit=FIT), adapt=False)
    one = walker(model, walk >> sm.Gibbs("k", sm.Exact()), audit=1.0)
    got = one.advance(500)
    assert one.error is None, one.error
    counts = tally(one, got.words, "beta")
    at_most(counts["wrong"], counts["audited"], 0.05)
    assert counts["pulls"] < 0.6 * counts["everything"]


# ------------------------------------------------------------------------------------- pickling
def test_pickling():
    model, control = autoregression(), Bins(fit=FIT)
    bench = Bench(model, control, points())
    copy, copied = pickle.loads(pickle.dumps((control, bench.prepared)))
    assert "functions" not in vars(copied)
    model.prepared[copy] = copied
    again = Bench(model, copy, points())
    assert np.array_equal(again.means, bench.means)
    assert np.array_equal(again.residuals(1), bench.residuals(1))
    assert spelled(copy) == spelled(control) == spelled(Bins(fit=FIT))
    assert spelled(control) != spelled(Bins(fit=FIT[0]))
    exact(Bench(autoregression(seed=1), copy, points()))  # other data: made anew


# -------------------------------------------------------------------------------------- refusals
def plain_likelihood(state, data, n):
    return -0.5 * (data.y[n] - state.theta[0]) ** 2


def test_models_without_predictors_are_refused():
    model = sm.Model(plain_likelihood, {"y": np.arange(9.0)}, {"theta": 0.0})
    with pytest.raises(ValueError, match=r"Bins.fit=.*sm.Predictors.*leave fit out"):
        Bins(fit={"theta": 0.0}).check(model, "theta")


@pytest.mark.parametrize(
    ("fit", "columns", "error", "words"),
    [
        (FIT, "z", ValueError, "'z' is not among the arrays"),
        (FIT, "g", TypeError, r"data g has dtype int64.*astype\(float\)"),
        (FIT, "x", ValueError, r"data x has shape \(700, 2\)"),
        (FIT[:1], None, ValueError, "Bins was given 1 fits, and the discrete blocks have 2 config"),
        (FIT * 2, None, ValueError, "Bins was given 4 fits"),
        (3.0, None, TypeError, r"Bins\(fit=3.0\): give sm.laplace\(model\), or a dict"),
        ({"gamma": 1.0}, None, ValueError, "block 'gamma' is not in the state"),
    ],
)
def test_wrong_fits_and_columns_are_refused(fit, columns, error, words):
    with pytest.raises(error, match=words):
        Bins(columns, fit=fit).check(autoregression(), "beta")


def location(state, data, n):
    return state.mu[0] * data.x[n]


def location_of_all(state, data, n):
    return state.mu[0] * data.x[n] + np.sum(state.z)


def by_index(e, data, n):
    return -0.5 * (data.y[n] - e) ** 2 - 1e-3 * n


def by_neighbour(e, data, n):
    return -0.5 * (data.y[n] - e) ** 2 + (data.y[n - 1] if n > 0 else 0.0)


def by_next(e, data, n):
    return -0.5 * (data.y[n] - e) ** 2 + 0.1 * data.y[min(n + 1, 199)]


def by_matrix(e, data, n):
    return -0.5 * (data.w[n, 0] - e) ** 2


def by_many(e, data, n):
    return -0.5 * (data.y[n] - e) ** 2 + data.x[n] * data.v[n]


def by_count(e, data, n):
    return e * data.c[n]


def by_itself(e, data, n):
    return -sm.log1p((data.y[n] - e) ** 2)


@pytest.mark.slow
def test_models_without_discrete_blocks():
    rng = np.random.default_rng(1)
    data = {"y": rng.standard_normal(SIZE), "x": rng.standard_normal(SIZE)}
    model = sm.Model(sm.Predictors(location, by_itself), data, {"mu": 0.1})
    control = Bins(fit={"mu": 0.1})
    control.check(model, "mu")
    exact(Bench(model, control, np.array([[0.1], [0.15]])))
    huge = sm.Model(sm.Predictors(location_of_all, by_itself), data,
                    {"mu": 0.1, "z": np.zeros(9, int)}, support={"z": 2})  # fmt: skip
    with pytest.raises(ValueError, match="512 configurations"):
        control.check(huge, "mu")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (by_index, "log_factor at datum .*depends on n"),
        (by_neighbour, "log_factor at datum .*depends on n.*eta"),
        (by_next, "depends on n.*eta"),
        (by_matrix, r"data w has shape \(200, 2\)"),
        (by_count, "data c has dtype int64 and more than 16 different values"),
        (by_many, r"3 columns \('y', 'x', 'v'\) and 1 predictors.*Bins serves 3 in all"),
    ],
)
def test_factors_that_cannot_be_cut_are_refused(given, words):
    rng = np.random.default_rng(1)
    data = {n: rng.standard_normal(200) for n in "yxv"}
    data |= {"w": rng.standard_normal((200, 2)), "c": np.arange(200)}
    model = sm.Model(sm.Predictors(location, given), data, {"mu": 0.1})
    with pytest.raises(ValueError, match=words):
        prepared_for(model, Bins(fit={"mu": 0.1}))


def test_predictors_must_be_linear_and_finite():
    data = {"y": np.arange(20.0), "x": np.where(np.arange(20) == 13, np.inf, 1.0)}
    square = sm.Predictors(location, lambda e, data, n: -e * e)
    model = sm.Model(square, data, {"mu": 0.1}, missing="infinite")
    with pytest.raises(ValueError, match="predictor 0 of datum 13 is"):
        prepared_for(model, Bins(fit={"mu": 0.1}))
    bent = sm.Predictors(lambda state, data, n: state.mu[0] ** 2, lambda e, data, n: -e * e)
    with pytest.raises(ValueError, match="eta is not linear"):
        Bins(fit={"mu": 0.1}).check(sm.Model(bent, data, {"mu": 0.1}, missing="infinite"), "mu")


def test_models_that_need_a_fit_are_told_so():
    with pytest.raises(ValueError, match=r"data orders has shape.*or Bins\(fit=...\)"):
        Bins("r2").check(arch()[0], "theta")
