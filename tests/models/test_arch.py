"""ARCH: the exact posterior density, derivatives, chunks, simulation, forecasts, refusals."""

import math
import pickle
from itertools import combinations_with_replacement as multisets
from itertools import product
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.models import arch
from subsample_mcmc.models.arch import ARCH, volatility
from subsample_mcmc.numerics.jit import FLAGS, jit

ORDERS = (1, 4, 7)
RETURNS = arch.simulate(160, (0.3, 0.2, 0.1), 5.0, seed=1)
MODEL = ARCH(RETURNS, ORDERS)


def some_theta(rng, length):
    return np.concatenate([rng.uniform(2.0, 9.0, 1), rng.gamma(1.0, 0.2, length - 1) + 1e-3])


def state_of(model, k, theta):
    return model.state(np.array([k]), np.asarray(theta, dtype=float))


def scales(returns, order, most, theta):
    """sigma_t for t = most .. n - 1, written as the definition says."""
    found = []
    for t in range(most, len(returns)):
        h = theta[1] + sum(theta[1 + i] * returns[t - i] ** 2 for i in range(1, order + 1))
        found.append(math.sqrt(h))
    return np.array(found)


# --------------------------------------------------------------------------------- likelihood
@pytest.mark.plain
@pytest.mark.parametrize("k", range(len(ORDERS)))
@pytest.mark.parametrize("priors", [((1.0, 1.0), (1.0, 1.0)), ((2.5, 0.7), (1.5, 3.0))])
def test_prior_and_likelihood_are_the_exact_log_posterior(rng, k, priors):
    nu_prior, alpha_prior = priors
    model = ARCH(RETURNS, ORDERS, prior=(0.2, 0.3, 0.5), nu_prior=nu_prior, alpha_prior=alpha_prior)
    order, most = ORDERS[k], ORDERS[-1]
    theta = some_theta(rng, most + 2)
    state = state_of(model, k, theta)
    found = model.log_prior(state)
    found += math.fsum(model.log_likelihood(state, model.data, n) for n in range(model.size))
    sigma = scales(RETURNS, order, most, theta)
    wanted = stats.t.logpdf(RETURNS[most:], theta[0], scale=sigma).sum()
    wanted += stats.gamma.logpdf(theta[0], nu_prior[0], scale=1.0 / nu_prior[1])
    each = stats.gamma.logpdf(theta[1 : order + 2], alpha_prior[0], scale=1.0 / alpha_prior[1])
    assert found == pytest.approx(wanted + each.sum() + math.log((0.2, 0.3, 0.5)[k]), abs=1e-10)


@pytest.mark.plain
def test_every_order_sums_over_the_same_returns():
    assert MODEL.size == len(RETURNS) - ORDERS[-1]
    np.testing.assert_array_equal(MODEL.data.r2, np.square(RETURNS[ORDERS[-1] :][::-1]))
    for k, order in enumerate(ORDERS):
        for n in (0, 1, MODEL.size - ORDERS[-1], MODEL.size - 1):
            t = len(RETURNS) - 1 - n
            for i in range(1, order + 1):  # h is a_i r_{t-i}^2 alone
                theta = np.full(ORDERS[-1] + 2, 1e-300)
                theta[1 + i] = 1.0
                h, _ = volatility.eta(state_of(MODEL, k, theta), MODEL.data, n)
                assert h == pytest.approx(RETURNS[t - i] ** 2, rel=1e-14)


@pytest.mark.parametrize("k", range(len(ORDERS)))
def test_components_not_in_use_are_never_read(rng, k):
    theta = some_theta(rng, ORDERS[-1] + 2)
    other = theta.copy()
    other[ORDERS[k] + 2 :] = np.nan
    one, two = (state_of(MODEL, k, x) for x in (theta, other))
    assert MODEL.log_prior(one) == MODEL.log_prior(two)
    for n in (0, MODEL.size - 1):
        assert MODEL.log_likelihood(one, MODEL.data, n) == MODEL.log_likelihood(two, MODEL.data, n)


@pytest.mark.plain
def test_long_series():
    model = ARCH(np.resize(RETURNS, 40_000), (1, 2))  # beyond 16 bits
    theta = np.array([4.0, 0.5, 0.1, 0.2])
    for n in (32_766, 39_000, model.size - 1):
        h, _ = volatility.eta(state_of(model, 1, theta), model.data, n)
        t = len(model.returns) - 1 - n
        wanted = 0.5 + 0.1 * model.returns[t - 1] ** 2 + 0.2 * model.returns[t - 2] ** 2
        assert h == pytest.approx(wanted, rel=1e-14)


def test_lengths_and_start():
    v = MODEL.variables["theta"]
    assert [v.length(np.array([k])) for k in range(len(ORDERS))] == [q + 2 for q in ORDERS]
    start = MODEL.state(MODEL.ints, MODEL.floats)
    assert start.q[0] == 0 and np.all(start.theta > 0.0)
    assert start.theta[1] == pytest.approx(RETURNS.var() / 2)
    assert repr(MODEL) == "ARCH(N=153, orders=(1, 4, 7))"


@pytest.mark.plain
def test_logarithm_of_positive_numbers():
    x = np.exp(np.linspace(-700.0, 700.0, 2001))
    found = np.array([volatility.log_positive(v) for v in x])
    np.testing.assert_allclose(found, np.log(x), rtol=4e-16, atol=4e-16)
    assert all(math.isnan(volatility.log_positive(v)) for v in (-1.0, math.nan))


POINTS = [
    (h, nu, r2) for h, nu, r2 in product((0.05, 1.0, 30.0), (1.5, 4.0, 25.0), (0.0, 0.3, 90.0))
]


@pytest.mark.plain
@pytest.mark.parametrize(("h", "nu", "r2"), POINTS)
def test_derivatives(h, nu, r2):
    def truth(x, y):
        return y / 2 * mpmath.log(x) - (y + 1) / 2 * mpmath.log(y * x + r2)

    data = SimpleNamespace(r2=np.array([r2]))
    assert volatility.log_factor((h, nu), data, 0) == pytest.approx(float(truth(h, nu)), rel=1e-13)
    parts = [p for k in (1, 2, 3) for p in multisets(range(2), k)]
    found = volatility.derivatives((h, nu), data, 0)
    assert len(found) == len(parts)
    with mpmath.workdps(60):
        for value, part in zip(found, parts, strict=True):
            wanted = mpmath.diff(
                truth, (mpmath.mpf(h), mpmath.mpf(nu)), (part.count(0), part.count(1))
            )
            assert value == pytest.approx(float(wanted), rel=1e-11, abs=1e-13), part


@pytest.mark.plain
@pytest.mark.parametrize("most", [1, 3, 13, 31])
def test_etas_are_eta(rng, most):
    returns = rng.standard_t(5, size=11 * most + 20)
    model = ARCH(returns, tuple(range(1, most + 1)))
    theta = some_theta(rng, most + 2)
    for k in range(most):
        state = state_of(model, k, theta)
        wanted = np.array([volatility.eta(state, model.data, n) for n in range(model.size)]).T
        edge = model.size - most
        spans = [
            (0, model.size),
            (0, 1),
            (edge, 1),
            (edge - 1, 2),
            (edge, most),
            (model.size - 1, 1),
        ]
        for first, rows in spans:
            out = np.full((2, rows), np.nan)
            volatility.etas(state, model.data, first, out)
            np.testing.assert_allclose(out, wanted[:, first : first + rows], rtol=1e-13)


def test_compiled_log_factors_are_the_plain_ones(rng):
    eta, factor, derivatives = (
        jit(f, flags=FLAGS, user=True)
        for f in (volatility.eta, volatility.log_factor, volatility.derivatives)
    )
    for k in range(len(ORDERS)):
        state = state_of(MODEL, k, some_theta(rng, ORDERS[-1] + 2))
        for n in (0, 70, MODEL.size - 1):
            e = eta(state, MODEL.data, n)
            assert e == pytest.approx(volatility.eta(state, MODEL.data, n), rel=1e-14)
            assert factor(e, MODEL.data, n) == pytest.approx(
                MODEL.log_likelihood(state, MODEL.data, n), rel=1e-13
            )
            assert derivatives(e, MODEL.data, n) == pytest.approx(
                volatility.derivatives(e, MODEL.data, n), rel=1e-12
            )


# -------------------------------------------------------------------------------------- prior
def test_prior_has_mass_one():
    # Gauss-Laguerre is exact for Gamma densities of whole shapes.
    orders, nu_prior, alpha_prior = (1, 2), (3.0, 0.5), (2.0, 4.0)
    model = ARCH(RETURNS, orders, prior=(0.3, 0.7), nu_prior=nu_prior, alpha_prior=alpha_prior)
    nodes, weights = np.polynomial.laguerre.laggauss(4)
    mass = []
    for k, order in enumerate(orders):
        rates = np.array([nu_prior[1]] + [alpha_prior[1]] * (order + 1))
        total = 0.0
        for at in product(range(len(nodes)), repeat=order + 2):
            theta = np.ones(orders[-1] + 2)
            theta[: order + 2] = nodes[list(at)] / rates
            prior = model.log_prior(state_of(model, k, theta))
            prior -= model.size * volatility.constant(theta[0])
            total += math.exp(prior + nodes[list(at)].sum()) * (weights[list(at)] / rates).prod()
        mass.append(total)
    assert mass == pytest.approx([0.3, 0.7], rel=1e-9)


def own_prior(state):
    return -state.theta[0] - state.theta[1]


def test_a_prior_of_ones_own(rng):
    model = ARCH(RETURNS, ORDERS, log_prior=own_prior)
    theta = some_theta(rng, ORDERS[-1] + 2)
    found = model.log_prior(state_of(model, 1, theta))
    constants = stats.t.logpdf(0.0, theta[0]) * model.size  # less what log factors hold
    constants += 0.5 * (theta[0] + 1.0) * math.log(theta[0]) * model.size
    assert found == pytest.approx(-theta[0] - theta[1] + constants, rel=1e-12)
    with pytest.raises(ValueError, match="one of them"):
        ARCH(RETURNS, ORDERS, log_prior=own_prior, prior=(0.2, 0.3, 0.5))


# ------------------------------------------------------------------------- objects and chains
def test_pickled():
    model = ARCH(
        RETURNS, ORDERS, coordinates="softplus", prior=(0.2, 0.3, 0.5), nu_prior=(2.0, 1.0)
    )
    again = pickle.loads(pickle.dumps(model))
    assert type(again) is ARCH and again.fingerprints() == model.fingerprints()
    assert again.orders == ORDERS and not again.returns.flags.writeable
    np.testing.assert_array_equal(again.returns, RETURNS)


def test_returns_are_copied():
    mine = RETURNS.copy()
    model = ARCH(mine, ORDERS)
    before = model.fingerprints()
    mine[:] = 0.0
    assert model.fingerprints() == before


@sm.kernel(writes=("q",))
def next_order(rng, state, data):
    state.q[0] = (state.q[0] + 1) % 3


def test_a_chain_runs_over_all_orders():
    kernel = sm.Metropolis("theta", 0.05, selector=sm.Exact(), adapt=False) >> next_order
    trace = sm.sample(MODEL, kernel, draws=30, warmup=0, chains=1, seed=1, progress=False)
    assert set(trace.draws["q"].ravel()) == {0, 1, 2}
    table = MODEL.summary(trace)
    assert list(table["draws"]) == [10, 10, 10] and np.isfinite(table.to_numpy(float)).all()


# ------------------------------------------------------------------- what draws say: forecasts
def fake_trace(rng, chains=2, draws=50):
    q = rng.integers(0, 2, (chains, draws))  # the last order is never visited
    theta = np.stack([some_theta(rng, ORDERS[-1] + 2) for _ in range(q.size)])
    return SimpleNamespace(draws={"q": q, "theta": theta.reshape(chains, draws, -1)})


def direct(trace):
    """sigma^2 of the next return, nu and q of every draw, one by one."""
    found = []
    for q, theta in zip(trace.draws["q"].ravel(), trace.draws["theta"].reshape(-1, 9), strict=True):
        h = theta[1]
        for i in range(1, ORDERS[q] + 1):
            h += theta[1 + i] * RETURNS[-i] ** 2
        found.append((h, theta[0], q))
    return np.array(found).T


@pytest.mark.parametrize("weighted", [False, True])
def test_forecast_is_the_mixture_of_all_draws(rng, weighted):
    trace = fake_trace(rng)
    h, nu, q = direct(trace)
    w = rng.random(trace.draws["q"].shape) if weighted else None
    table = MODEL.forecast(trace, level=0.8, weights=w)
    assert list(table.index) == [*ORDERS, "averaged"]
    w = np.ones(len(q)) if w is None else w.ravel()
    w = w / w.sum()
    for order, mine in [(1, q == 0), (4, q == 1), ("averaged", q >= 0)]:
        row = table.loc[order]
        own = w[mine] / w[mine].sum()
        assert row["probability"] == pytest.approx(w[mine].sum())
        assert row["sigma2"] == pytest.approx(own @ h[mine])
        below = own @ (h[mine] < row["sigma2_low"] * (1 - 1e-12))
        upto = own @ (h[mine] <= row["sigma2_low"])
        assert below <= 0.1 <= upto + 1e-12
        assert own @ stats.t.cdf(row["return_high"], nu[mine], scale=np.sqrt(h[mine])) == (
            pytest.approx(0.9, abs=1e-9)
        )
        assert row["return_low"] == -row["return_high"]
    assert table.loc[7, "probability"] == 0.0 and np.isnan(table.loc[7, "sigma2"])


def test_tilts_are_undone_where_nobody_gives_weights(rng):
    """sm.WangLandau makes draws of another law than the posterior's."""
    trace, w = fake_trace(rng), rng.random((2, 50))
    trace.meta = {"kernels": [{"block": "q"}]}
    trace.model_probabilities = lambda name: SimpleNamespace(weights=w)
    for made in (MODEL.forecast, MODEL.summary):
        assert made(trace).equals(made(trace, weights=w))
        assert not made(trace).equals(made(trace, weights=np.ones_like(w)))


def test_forecast_of_a_single_draw():
    trace = SimpleNamespace(
        draws={"q": np.array([[1]]), "theta": np.array([[[5.0, 0.3] + [0.1] * 7]])}
    )
    h, nu, _ = (float(x[0]) for x in direct(trace))
    row = MODEL.forecast(trace).loc["averaged"]
    wanted = stats.t.ppf(0.95, nu, scale=math.sqrt(h))
    assert row["return_high"] == pytest.approx(wanted, rel=1e-9)
    assert row["sigma2_low"] == row["sigma2_high"] == row["sigma2"] == pytest.approx(h)


def test_summary_is_of_the_components_in_use(rng):
    trace = fake_trace(rng)
    w = rng.random(trace.draws["q"].shape)
    table = MODEL.summary(trace, weights=w)
    mine = trace.draws["q"] == 1
    own = w[mine] / w[mine].sum()
    theta = trace.draws["theta"][mine]
    for name, values in [
        ("nu", theta[:, 0]),
        ("a_0", theta[:, 1]),
        ("sum_a", theta[:, 2:6].sum(1)),
    ]:
        assert table.loc[4, name] == pytest.approx(own @ values)
        assert table.loc[4, f"{name}_sd"] == pytest.approx(
            math.sqrt(own @ (values - own @ values) ** 2)
        )
    assert table.loc[7, "draws"] == 0 and np.isnan(table.loc[7, "nu"])
    named = MODEL.unpack(theta, 1)
    assert named.order == 4 and named.alpha.shape == (len(theta), 5)
    np.testing.assert_array_equal(named.nu, theta[:, 0])


def test_refused_traces(rng):
    trace = fake_trace(rng)
    with pytest.raises(ValueError, match=r"level=1.0: .* between 0 and 1"):
        MODEL.forecast(trace, level=1.0)
    with pytest.raises(ValueError, match=r"theta of shape \(9,\): this model has \(4,\)"):
        ARCH(RETURNS, (1, 2)).summary(trace)
    with pytest.raises(ValueError, match=r"weights have shape \(3,\)"):
        MODEL.summary(trace, weights=np.ones(3))


# --------------------------------------------------------------------------------- simulation
def test_simulated_innovations_are_student_t():
    alpha, nu = (0.2, 0.15, 0.05, 0.1), 6.0
    r = arch.simulate(20_000, alpha, nu, seed=3)
    z = r[3:] / scales(r, 3, 3, np.array([nu, *alpha]))
    assert stats.kstest(z, stats.t(nu).cdf).pvalue > 1e-6  # false alarms: 1e-6
    same = int(np.sum(z[1:] * z[:-1] > 0.0))  # signs are independent
    assert stats.binomtest(same, len(z) - 1).pvalue > 1e-6


def test_simulated_variance():
    # 200 series apart: the mean of r^2 of each is independent, so that their spread is known.
    alpha, nu = (0.3, 0.1, 0.1), 12.0
    each = [np.mean(arch.simulate(500, alpha, nu, seed=s, burn=200) ** 2) for s in range(200)]
    wanted = 0.3 * 1.2 / (1.0 - 0.2 * 1.2)
    error = np.std(each, ddof=1) / math.sqrt(len(each))
    assert abs(np.mean(each) - wanted) < stats.t.isf(5e-7, len(each) - 1) * error  # 1e-6


def test_simulation_repeats_by_seed():
    one, two = (arch.simulate(50, (1.0, 0.2), 5.0, seed=4) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert arch.simulate(1, (1.0,), 5.0, seed=1, burn=0).shape == (1,)


def test_the_example_is_a_year_of_bars():
    r = arch.example_returns()
    assert len(r) == 13_702 and ARCH(r).size == 13_672
    assert 0.5 < r.var() < 2.0 and stats.kurtosis(r) > 3.0
    np.testing.assert_array_equal(arch.example_returns(100)[:5], arch.example_returns(200)[:5])


@pytest.mark.parametrize(
    ("alpha", "nu", "message"),
    [
        ((1.0, 0.6), 4.0, r"sum\(alpha\[1:\]\)=0.6.*explodes"),
        ((1.0, 0.1), 2.0, "needs nu > 2"),
        ((0.0, 0.1), 4.0, "a_0 > 0"),
        ((1.0, -0.1), 4.0, "the others >= 0"),
        ((1.0, math.nan), 4.0, "the others >= 0"),
    ],
)
def test_refused_simulations(alpha, nu, message):
    with pytest.raises(ValueError, match=message):
        arch.simulate(10, alpha, nu)


def test_refused_lengths_of_simulations():
    with pytest.raises(ValueError, match="size=0"):
        arch.simulate(0, (1.0, 0.1), 4.0)
    with pytest.raises(ValueError, match="burn=-1"):
        arch.simulate(5, (1.0, 0.1), 4.0, burn=-1)


# ---------------------------------------------------------------------------------- bad input
def changed(index, value):
    returns = RETURNS.copy()
    returns[index] = value
    return returns


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        (changed(17, math.nan), r"returns\[17\] is nan \(1 such values\)"),
        (changed(3, math.inf), r"returns\[3\] is inf"),
        (np.full(200, 0.5), "all 200 returns are 0.5: there is nothing to model"),
        (np.zeros(200), "nothing to model"),
        (RETURNS[:69], "69 returns for orders up to 7: give at least 70"),
        (changed(slice(0, 60), 0.0), r"38% of the returns are exactly 0: .* tick data"),
        (100.0 + RETURNS, "look like prices.*log_returns"),
        (RETURNS.reshape(2, -1), r"shape \(2, 80\)"),
    ],
)
def test_refused_returns(returns, message):
    with pytest.raises(ValueError, match=message):
        ARCH(returns, ORDERS)


def test_returns_that_are_no_numbers():
    with pytest.raises(TypeError, match="returns has dtype"):
        ARCH(["a"] * 200, ORDERS)


@pytest.mark.parametrize("orders", [(), (0, 3), (3, 3), (5, 3), (1.5, 3), "5", 5, (-1, 2)])
def test_refused_orders(orders):
    with pytest.raises(ValueError, match="positive whole numbers, each larger"):
        ARCH(RETURNS, orders)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": (0.5, 0.5)}, "3 positive probabilities"),
        ({"prior": (0.5, 0.5, 0.5)}, "of sum 1"),
        ({"prior": (0.5, 0.5, 0.0)}, "3 positive probabilities"),
        ({"nu_prior": (1.0, 0.0)}, r"nu_prior=\(1.0, 0.0\): give \(shape, rate\)"),
        ({"alpha_prior": 1.0}, r"alpha_prior=1.0: give \(shape, rate\)"),
        ({"coordinates": "square"}, "cuberoot"),
    ],
)
def test_refused_options(options, message):
    with pytest.raises(ValueError, match=message):
        ARCH(RETURNS, ORDERS, **options)


def test_a_mean_is_warned_of():
    with pytest.warns(UserWarning, match=r"mean is .* standard errors from 0.*remove it"):
        ARCH(RETURNS + 2.0 * RETURNS.std(), ORDERS)


def test_units_that_the_prior_does_not_know_are_told():
    """Of the same returns times 100 it finds other lags and degrees of freedom."""
    returns = arch.simulate(3_000, (0.5, 0.3), 8.0, seed=1)
    returns = returns - returns.mean()
    with pytest.warns(UserWarning, match=r"variance is .*Gamma\(1, 1\).*standardised"):
        far = ARCH(100.0 * returns, (1, 2))
    with pytest.warns(UserWarning, match=r"Gamma\(2, 0.1\)"):
        ARCH(100.0 * returns, (1, 2), alpha_prior=(2.0, 0.1))
    near, wide = ARCH(returns, (1, 2)), ARCH(100.0 * returns, (1, 2), alpha_prior=(1.0, 1e-4))
    ARCH(0.001 * returns, (1, 2))
    ARCH(100.0 * returns, (1, 2), log_prior=lambda state: -state.theta[0])
    nu = [sm.laplace(m, "theta", given={"q": 0}).state["theta"][0] for m in (near, far, wide)]
    assert nu[1] < 2.0 and 6.0 < nu[0] < 9.0 and nu[2] == pytest.approx(nu[0], rel=0.1)


# ---------------------------------------------------------------------------- in order of time
@pytest.mark.filterwarnings("ignore:.*have a Pareto k above")
def test_what_is_told_of_returns_is_in_order_of_time():
    """Log likelihoods and predictions; other models of the same returns have them so."""
    returns = arch.simulate(400, (0.3, 0.2, 0.1), 5.0, seed=2)
    model = sm.models.arch.ARCH(returns, orders=(1, 2))
    fits = [sm.laplace(model, "theta", given={"q": k}) for k in range(2)]

    @sm.kernel(writes="q")
    def stay(rng, state, data):
        """Leaves the order as it is."""

    kernel = sm.Metropolis("theta", proposal=sm.independence(fits)) >> stay
    trace = sm.sample(model, kernel, 600, warmup=0, chains=2, start=[fits[1].state] * 2, seed=1,
                      progress=False)  # fmt: skip
    found = trace.to_arviz(log_likelihood=model)["log_likelihood"]["log_likelihood"].values
    nu, alpha = model.unpack(trace.draws["theta"], 1)[1:]
    r = np.asarray(model.returns)
    variance = alpha[..., 0:1] + alpha[..., 1:2] * r[1:-1] ** 2 + alpha[..., 2:3] * r[:-2] ** 2
    wanted = stats.t.logpdf(r[2:], nu[..., None], scale=np.sqrt(variance))
    assert np.allclose(found, wanted, atol=1e-9)
    loo = sm.loo(model, trace, progress=False)
    plain = wanted.reshape(-1, len(r) - 2).mean(axis=0)
    assert np.corrcoef(loo.elpd_i, plain)[0, 1] > 0.99
    worst = loo.worst(1)
    assert worst["r2"].iloc[0] == pytest.approx(r[2 + worst.index[0]] ** 2)
    part = sm.loo(model, trace, size=50, seed=1, progress=False)
    assert np.allclose(part.elpd_i, loo.elpd_i[part.rows])
    # Predictions have the laws of their own scales: a false alarm in 10^6.
    said = sm.predict(model, trace, draws=100, seed=3, progress=False)
    laws = stats.t(nu[:, said.kept, None], scale=np.sqrt(variance[:, said.kept]))
    within = laws.cdf(said.dataset["y"].values)
    assert stats.kstest(within.ravel(), "uniform").pvalue > 1e-6
    below = np.ravel(laws.cdf(said.dataset["y"].values[..., ::-1]))
    assert stats.kstest(below, "uniform").pvalue < 1e-6  # in another order they have not
    later = sm.predict(model, trace, data=ARCH(returns[:150], (1, 2)).data, draws=9, seed=3)
    assert later.dataset["y"].shape == (2, 9, 148)
