"""GLMs with blocks beside beta: laws, modes, draws, decisions and bounds, and what is refused."""

import math
import pickle

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor.found import bounds_found
from subsample_mcmc.runs.backends import pickled
from tests.helpers.claims import at_most, equal
from tests.helpers.family_laws import BETA, FAMILIES, glm, made
from tests.helpers.marks import slow_but
from tests.helpers.tall import EXACT, Bench

every = pytest.mark.parametrize("name", FAMILIES)
SMALL = {name: made(name, 120) for name in FAMILIES}


def names(model):
    return tuple(model.variables)


def random_state(name, rng, spread):
    """Values of all blocks about the true ones."""
    state = {"beta": BETA + spread * rng.standard_normal(3)}
    for block, value in FAMILIES[name].blocks.items():
        state[block] = value + 0.5 * spread * rng.standard_normal()
        if block == "cutpoints":  # in order
            gaps = np.exp(0.5 * spread * rng.standard_normal(len(value) - 1))
            first = value[0] + spread * rng.standard_normal()
            state[block] = first + np.concatenate([[0.0], np.cumsum(gaps)])
    return state


def record_of(model, state):
    ints, floats = model.ints.copy(), model.floats.copy()
    model.set_state(ints, floats, state)
    return model.state(ints, floats)


# ------------------------------------------------------------------------------------ densities
@pytest.mark.plain
@every
def test_log_likelihoods_are_log_densities_of_scipy(name, rng):
    """All terms, those of y alone, too: evidences of families are compared by them."""
    model, x, y, more = SMALL[name]
    for spread in (0.0, 0.5, 1.0):
        state = random_state(name, rng, spread)
        record = record_of(model, state)
        own = [float(model.log_likelihood(record, model.data, n)) for n in range(model.size)]
        truth = FAMILIES[name].log_law(y, x @ state["beta"], state, more)
        good = truth > -30.0 if name.startswith("ordered") or more else truth > -np.inf
        assert good.mean() > 0.5 and np.all(np.isfinite(own))
        np.testing.assert_allclose(np.array(own)[good], truth[good], rtol=1e-9, atol=1e-10)


def at(model, **blocks):
    """The log likelihood of datum 0 where beta[0] is the predictor."""
    state = {name: np.zeros(v.block.shape) for name, v in model.variables.items()} | blocks
    return float(model.log_likelihood(record_of(model, state), model.data, 0))


ONE, TWO = np.ones((2, 1)), np.array([[1.0], [2.0]])
FAR = (-800.0, -300.0, -38.0, -9.0, -1.0, 0.0, 2.0, 9.0, 38.0, 300.0, 800.0)


def normal_between(high, low):
    """log(F(high) - F(low)) of the normal law, on the side where both are small."""
    high, low = (high, low) if low > 0 else (-low, -high)
    return mpmath.log((mpmath.erfc(low / mpmath.sqrt(2)) - mpmath.erfc(high / mpmath.sqrt(2))) / 2)


@pytest.mark.plain
@pytest.mark.parametrize("eta", FAR)
def test_levels_far_out(eta):
    """Where the distribution functions are next to 0, or 1, or no numbers; and narrow levels."""
    for gap in (1e-7, 0.3, 40.0):
        cuts = np.array([-0.2, -0.2 + gap])
        high, low = (mpmath.mpf(float(c)) - mpmath.mpf(eta) for c in (cuts[1], cuts[0]))
        with mpmath.workprec(4000):
            by_logistic = mpmath.log(1 / (1 + mpmath.exp(-high)) - 1 / (1 + mpmath.exp(-low)))
            by_normal = normal_between(high, low)
            first = mpmath.log(mpmath.erfc(-low / mpmath.sqrt(2)) / 2)
        for make, truth in ((glm.ordered_logistic, by_logistic), (glm.ordered_probit, by_normal)):
            model = make(TWO, np.array([1, 0]), classes=3)
            own = at(model, beta=[eta], cutpoints=cuts)
            # Both ends less eta have 16 digits, and so has log F, of which the gap is a difference.
            lost = 2e-16 * (1.0 + abs(eta) / gap + abs(float(truth)) / gap / max(abs(eta), 1.0))
            assert abs(own - truth) <= 1e-13 * abs(truth) + lost, (gap, own, truth)
        model = glm.ordered_probit(TWO, np.array([0, 1]), classes=3)
        assert at(model, beta=[eta], cutpoints=cuts) == pytest.approx(float(first), rel=1e-13)


@pytest.mark.plain
@pytest.mark.parametrize("z", [-700.0, -40.0, -5.0, -1e-3, 0.0, 1.0, 3.0, 5.5])
@pytest.mark.parametrize("shape", [0.01, 1.0, 30.0])
def test_times_far_out(z, shape):
    """Hazards next to 0, and large ones, of all kinds of censoring: Weibull, and log-normal."""
    eta, y, upper = -z / shape, 1.0, 1.0 + 1e-6
    with mpmath.workprec(3000):
        hazard, more = (mpmath.exp(shape * (mpmath.log(t) + z / shape)) for t in (y, upper))
        rest = {
            y: mpmath.log(shape) + z - hazard, np.inf: -hazard,
            upper: mpmath.log(mpmath.exp(-hazard) - mpmath.exp(-more)),
        }  # fmt: skip
        before = mpmath.log(-mpmath.expm1(-more))
    for end, truth in rest.items():
        model = glm.weibull(ONE, np.ones(2), upper=np.array([end, 1.0]))
        own = at(model, beta=[eta], log_shape=math.log(shape))
        assert own == pytest.approx(float(truth), rel=1e-9, abs=1e-12), (end, own)
    model = glm.weibull(ONE, np.array([0.0, 1.0]), upper=np.array([upper, 1.0]))
    own = at(model, beta=[eta], log_shape=math.log(shape))
    assert own == pytest.approx(float(before), rel=1e-9)
    sigma = 1.0 / shape
    with mpmath.workprec(3000):
        u, low = mpmath.mpf(-eta) / sigma, (mpmath.log(upper) - eta) / sigma
        rest = {
            y: stats.norm.logpdf(-eta / sigma) - math.log(sigma),
            np.inf: mpmath.log(mpmath.erfc(u / mpmath.sqrt(2)) / 2),
            upper: normal_between(low, u),
        }
    for end, truth in rest.items():
        model = glm.log_normal(ONE, np.ones(2), upper=np.array([end, 1.0]))
        own = at(model, beta=[eta], log_sigma=math.log(sigma))
        wide = 1e-8 if end == upper else 1e-12  # a millionth of a time between
        assert own == pytest.approx(float(truth), rel=wide, abs=1e-12), (end, own)


@pytest.mark.plain
@pytest.mark.parametrize("eta", [-700.0, -40.0, -1.0, 0.0, 3.0, 6.0])
@pytest.mark.parametrize("other", [-700.0, -3.0, 0.0, 40.0])
@pytest.mark.parametrize("y", [0, 1, 9])
def test_counts_far_out(eta, other, y):
    """Means next to 0 and large ones, zeros that are all others', or none."""
    with mpmath.workprec(3000):
        mean, share = mpmath.exp(eta), 1 / (1 + mpmath.exp(-mpmath.mpf(other)))
        r = mpmath.exp(mpmath.mpf(1.5))
        poisson = mpmath.exp(y * mpmath.mpf(eta) - mean) / mpmath.factorial(y)
        dispersed = mpmath.gamma(y + r) / mpmath.gamma(r) / mpmath.factorial(y)
        dispersed *= (mean / (mean + r)) ** y * (r / (mean + r)) ** r
        truth = {
            "zero_inflated_poisson": share * (y == 0) + (1 - share) * poisson,
            "zero_inflated_negative_binomial": share * (y == 0) + (1 - share) * dispersed,
            "hurdle_poisson": share if y == 0 else (1 - share) * poisson / -mpmath.expm1(-mean),
            "hurdle_negative_binomial": share if y == 0 else
            (1 - share) * dispersed / -mpmath.expm1(-r * mpmath.log1p(mean / r)),
        }  # fmt: skip
        truth = {name: float(mpmath.log(value)) for name, value in truth.items()}
    for name, value in truth.items():
        model = getattr(glm, name)(ONE, np.array([y, 2]))
        blocks = {"log_dispersion": 1.5} if "binomial" in name else {}
        if name == "hurdle_poisson":
            e = (np.float64(eta), np.float64(other))
            own = float(model.predictors.log_factor(e, model.data, 0))
        else:
            own = at(model, beta=[eta], logit_zeros=other, **blocks)
        assert own == pytest.approx(value, rel=1e-12, abs=1e-12 * (1.0 + abs(y * eta))), name


@pytest.mark.plain
@pytest.mark.parametrize("eta", [-30.0, -2.0, 0.0, 1.0, 30.0])
@pytest.mark.parametrize("log_number", [-4.0, 0.0, 6.0])
@pytest.mark.parametrize("y", [1e-12, 0.4, 1.0 - 1e-12])
def test_shares_and_sizes_far_out(eta, log_number, y):
    """Means of shares next to an end, precisions and shapes small and large."""
    with mpmath.workprec(1000):
        number, exact_y = mpmath.exp(mpmath.mpf(log_number)), mpmath.mpf(y)
        a, b = (number / (1 + mpmath.exp(s * mpmath.mpf(eta))) for s in (-1, 1))
        of_beta = mpmath.loggamma(number) - mpmath.loggamma(a) - mpmath.loggamma(b)
        of_beta += (a - 1) * mpmath.log(exact_y) + (b - 1) * mpmath.log(1 - exact_y)
        rate = number * mpmath.exp(-eta)
        of_gamma = number * mpmath.log(rate) + (number - 1) * mpmath.log(exact_y)
        of_gamma -= rate * exact_y + mpmath.loggamma(number)
    own = at(glm.beta_regression(ONE, np.array([y, 0.5])), beta=[eta], log_precision=log_number)
    assert own == pytest.approx(float(of_beta), rel=1e-10, abs=1e-9)
    own = at(glm.gamma_regression(ONE, np.array([y, 0.5])), beta=[eta], log_shape=log_number)
    assert own == pytest.approx(float(of_gamma), rel=1e-11, abs=1e-9)
    model = glm.gamma_regression(ONE, np.array([y, 0.5]), shape=float(number))
    assert at(model, beta=[eta]) == pytest.approx(float(of_gamma), rel=1e-11, abs=1e-9)


# ---------------------------------------------------------------------------------------- modes
def log_prior(state):
    """Of beta and cutpoints Normal(0, 10^2), of all else Normal(0, 2^2)."""
    total = stats.norm.logpdf(state["beta"], 0.0, 10.0).sum()
    for block, value in state.items():
        if block == "cutpoints":
            total += stats.norm.logpdf(value, 0.0, 10.0).sum() + special.gammaln(len(value) + 1)
        elif block != "beta":
            total += stats.norm.logpdf(value, 0.0, 2.0)
    return total


def unpacked(name, u):
    """(a state, log |dx/du|) of free coordinates, written anew."""
    state, at, jacobian = {"beta": u[:3]}, 3, 0.0
    for block, value in FAMILIES[name].blocks.items():
        if block == "cutpoints":
            state[block] = np.cumsum(np.concatenate([u[at : at + 1], np.exp(u[at + 1 : at + 3])]))
            jacobian = u[at + 1 : at + 3].sum()
        else:
            state[block] = float(u[at])
        at += np.size(value)
    return state, jacobian


@every
def test_the_fit_is_at_the_optimum_that_scipy_finds(name):
    """Of the log posterior by scipy's densities: the same place, the same height."""
    model, x, y, more = made(name, 2_000, seed=1)
    fit = sm.laplace(model, progress=False)

    def minus(u):
        state, jacobian = unpacked(name, u)
        law = FAMILIES[name].log_law(y, x @ state["beta"], state, more).sum()
        return -(law + log_prior(state) + jacobian)

    start = fit.mean + 0.05
    found = optimize.minimize(minus, start, method="BFGS", options={"gtol": 1e-4})
    sd = np.sqrt(np.diag(fit.covariance))
    assert np.all(np.abs(found.x - fit.mean) < 0.01 * sd), (found.x - fit.mean) / sd
    assert minus(fit.mean) == pytest.approx(found.fun, abs=1e-4)
    assert fit.log_density == pytest.approx(-minus(fit.mean), abs=1e-5)
    # The truth is within five standard deviations of it: a false alarm in 10^5.
    truth = np.concatenate([np.ravel(v) for v in FAMILIES[name].blocks.values()])
    values = np.concatenate([np.ravel(fit.state[block]) for block in FAMILIES[name].blocks])
    assert np.all(np.abs(fit.state["beta"] - BETA) < 5.0 * sd[:3])
    assert np.all(np.abs(values - truth) < 5.0 * 0.2)


# -------------------------------------------------------------------------------------- draws
def stay(rng, state, data):
    """Leaves all as it is."""


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(["weibull", "hurdle_poisson"], FAMILIES))
def test_predictions_have_the_law(name):
    """Of one datum 20,000 draws, counted at quantiles: an alarm in 10^6 a count."""
    family, state = FAMILIES[name], {"beta": BETA, **FAMILIES[name].blocks}
    x = np.array([[1.0, 0.3, -0.5], [1.0, -1.5, 1.0]] if family.intercept else
                 [[0.2, 0.3, -0.5], [-1.0, -1.5, 1.0]])  # fmt: skip
    _, _, y, more = made(name, 50)
    more = {key: value[:2] for key, value in more.items()}
    y = np.array([1, 2]) if np.asarray(y).dtype.kind in "iu" else np.asarray(y)[:2]
    if name.startswith("ordered"):
        model = getattr(glm, name)(np.tile(x, (2, 1)), np.arange(4))
    else:
        model = family.make(
            np.tile(x, (2, 1)), np.tile(y, 2), {k: np.tile(v, 2) for k, v in more.items()}
        )
    ints, floats = model.ints.copy(), model.floats.copy()
    model.set_state(ints, floats, state)
    started = type(model)(*model.given[:2], state, *model.given[3:])
    kernel = sm.kernel(writes=names(model))(stay)
    trace = sm.sample(started, kernel, 10_000, 0, chains=2, seed=1, progress=False)
    said = sm.predict(started, trace, seed=2, progress=False).values[""].reshape(-1, 4)
    for n in (0, 1):
        eta = float(x[n] @ BETA)
        values = np.concatenate([said[:, n], said[:, n + 2]])
        whole = np.all(values == np.floor(values))
        assert whole == (name.startswith(("ordered", "zero", "hurdle", "negative")))
        looked = range(3) if name.startswith("ordered") else range(6)
        for v in looked if whole else np.quantile(values, [0.01, 0.2, 0.5, 0.9, 0.999]):
            below = float(family.below(v, eta, state))
            equal(int((values <= v).sum()), len(values), below, alarm=1e-6)


# --------------------------------------------------------------------------- decisions, bounds
def kernel_of(model, control, selector):
    fit = control.fit
    return sm.Metropolis(names(model), proposal=sm.pcn(fit), control=control, selector=selector)


@pytest.mark.slow
@every
def test_raced_decisions_are_the_exact_ones(name):
    """Of 2,000 data, each made again with all of them: at most delta are others."""
    model, *_ = made(name, 2_000, seed=2)
    fit = sm.laplace(model, progress=False)
    kernel = kernel_of(model, sm.Taylor(fit), sm.Racing(delta=0.02))
    trace = sm.sample(model, kernel, 500, 0, chains=2, seed=4, audit=1.0, progress=False)
    told = trace.stats["+".join(names(model))]
    audited, wrong = int(told["audited"].sum()), int(told["wrong"].sum())
    assert audited == 1_000 and told["pulls"].sum() < 0.2 * 2_000 * audited
    at_most(wrong, audited, 0.02, alarm=1e-6)


@pytest.mark.slow
@every
def test_thinned_chains_have_the_posterior_of_exact_ones(name, monkeypatch):
    """Of 12,000 data, where bounds are found: means within 5 errors, deviations within a tenth."""
    monkeypatch.setattr(bounds_found, "SHARE", np.inf)
    model, *_ = made(name, 12_000, seed=3)
    fit = sm.laplace(model, progress=False)
    control = sm.Taylor(fit)
    assert prepared_for(model, control).proved
    proposal = sm.independence(fit)
    kernels = (
        sm.Metropolis(names(model), proposal=proposal, control=control, selector=sm.Thinned()),
        sm.Metropolis(names(model), proposal=proposal, selector=sm.Exact()),
    )
    assert "guarantee: exact" in kernels[0].describe(model)
    found = []
    for kernel, draws in zip(kernels, (5_000, 400), strict=True):
        trace = sm.sample(model, kernel, draws, 100, chains=2, seed=5, progress=False)
        table = trace.summary()
        found.append((table["mean"], table["sd"], table["sd"] / np.sqrt(table["ess_bulk"])))
    (mean, sd, error), (mean0, sd0, error0) = found
    assert np.all(np.abs(mean - mean0) < 5.0 * np.hypot(error, error0))
    assert np.all(np.abs(sd / sd0 - 1.0) < 0.15)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "hurdle_poisson"])
def test_no_row_exceeds_its_bound(name, rng, monkeypatch):
    """At random points of the ball, and at its rim (of a Poisson hurdle: test_glm.py)."""
    monkeypatch.setattr(bounds_found, "SHARE", np.inf)
    model, *_ = made(name, 10_000, seed=4)
    fit = sm.laplace(model, progress=False)
    control = sm.Taylor(fit, order=3, outliers=0.0)
    prepared = prepared_for(model, control)
    assert prepared.proved
    point = prepared.sums.points[0]
    inverse = np.linalg.inv(prepared.sums.metric[0])
    known = prepared.source.bounds.of(model.ints, point)
    reach, rows = known.reach * (1.0 - 1e-9), known.rows
    ways = rng.standard_normal((24, len(point)))
    sizes = np.concatenate([np.full(12, reach), reach * rng.random(12)])
    steps = ways / np.linalg.norm(ways, axis=1)[:, None] * sizes[:, None]
    bench = Bench(model, control, np.concatenate([point[None], point + steps @ inverse.T]))
    for arm in range(1, bench.arms):  # of the reference itself all sums are 0
        assert bench.error(arm) < EXACT
    at_home, share = bench.residuals(0), 0.0
    rounding = 1e-12 * (1.0 + np.abs(bench.values(0)).max())
    for k, size in enumerate(sizes):
        left = np.abs(bench.residuals(1 + k) - at_home)
        most = rows * size**4 / 24.0
        assert np.all(left <= most + rounding), k
        share = max(share, float(np.max(left / (most + rounding))))
    assert share > 1e-3  # bounds a thousand times less would not hold


# ---------------------------------------------------------------------- formulas, names, travel
@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    made_of = pd.DataFrame({"age": rng.normal(size=400), "site": rng.choice(["a", "b"], 400)})
    levels = np.digitize(made_of.age + rng.logistic(size=400), [-1.0, 1.0])
    made_of["rating"] = pd.Categorical.from_codes(levels, ["poor", "fair", "good"], ordered=True)
    made_of["time"] = np.exp(0.3 * made_of.age) * rng.weibull(1.5, 400) + 0.01
    made_of["died"] = rng.random(400) < 0.7
    made_of["later"] = np.where(made_of.died, made_of.time, made_of.time + 1.0)
    made_of["years"] = rng.uniform(0.5, 2.0, 400)
    made_of["claims"] = rng.poisson(made_of.years)
    return made_of


@pytest.mark.slow
def test_ratings_by_a_formula(frame):
    pytest.importorskip("formulaic")
    model = glm.ordered_logistic("rating ~ age + C(site)", frame)
    assert model.axes.coords["term"].tolist() == ["age", "C(site)[T.b]"]
    assert model.axes.coords["cut"].tolist() == ["poor|fair", "fair|good"]
    assert model.axes.label("cutpoints", (1,)) == "cutpoints[fair|good]"
    x = np.column_stack([frame.age, frame.site == "b"])
    assert np.array_equal(model.data.x, x)
    again = pickle.loads(pickled(model))
    assert np.array_equal(again.design(frame)["x"], x)
    trace = sm.sample(model, draws=50, chains=1, seed=1, progress=False)
    said = sm.predict(model, trace, data=frame.iloc[:7], seed=1, progress=False)
    assert np.array_equal(said.observed, frame.rating.cat.codes[:7])
    assert set(np.unique(said.values[""])) <= {0.0, 1.0, 2.0}


@pytest.mark.slow
def test_times_by_a_formula(frame):
    pytest.importorskip("formulaic")
    model = glm.weibull("time ~ age", frame, event="died")
    assert np.array_equal(model.data.upper, np.where(frame.died, frame.time, np.inf))
    assert model.axes.coords["term"].tolist() == ["Intercept", "age"]
    trace = sm.sample(model, draws=50, chains=1, seed=1, progress=False)
    said = sm.predict(model, trace, data=frame[["age"]].iloc[:5], seed=1, progress=False)
    assert np.all(said.values[""] > 0.0)
    model = glm.log_normal("time ~ age", frame, upper="later")
    assert np.array_equal(model.data.upper, frame.later)
    model = glm.zero_inflated_poisson("claims ~ age", frame, exposure="years")
    assert np.array_equal(model.data.offset, np.log(frame.years))
    model = glm.hurdle_poisson("claims ~ age", frame, exposure="years", offset="age")
    assert np.array_equal(model.data.offset, np.log(frame.years) + frame.age)


@every
def test_models_travel_to_other_processes(name):
    model = SMALL[name][0]
    again = pickle.loads(pickled(model))
    assert again.fingerprints() == model.fingerprints()
    state = {block: model.given[2][block] for block in model.names}
    values = [float(m.log_likelihood(record_of(m, state), m.data, 5)) for m in (model, again)]
    assert values[0] == values[1]


X = np.random.default_rng(1).standard_normal((6, 2))
Y = np.array([1.0, 2.0, 3.0, 0.5, 1.5, 2.5])
REFUSED = [
    (lambda: glm.ordered_logistic(np.c_[X, np.ones(6)], np.arange(6) % 3), "x[:, 2] is 1.0 in eve"),
    (
        lambda: glm.ordered_probit(X, np.array([0, 2, 0, 2, 0, 2])),
        "y has no label 1, and labels up",
    ),
    (lambda: glm.ordered_probit(X, Y), "y[3] is 0.5: ordered_probit needs labels"),
    (lambda: glm.ordered_logistic(X, np.arange(6), classes=3), "y[3] is 3: labels must be 0 .. 2"),
    (lambda: glm.gamma_regression(X, Y - 1.0), "y[0] is 0: gamma_regression needs positive"),
    (lambda: glm.gamma_regression(X, Y, shape=-1.0), "shape=-1.0: give that of the gamma law"),
    (lambda: glm.beta_regression(X, Y / 3.0), "y[2] is 1: beta_regression needs shares above 0"),
    (lambda: glm.weibull(X, -Y), "y[0] is -1: weibull needs positive times"),
    (lambda: glm.weibull(X, Y, event=Y), "event[1] is 2: give 1 (or True)"),
    (lambda: glm.weibull(X, Y, event=np.ones(5)), "event has shape (5,): give one value per row"),
    (lambda: glm.weibull(X, Y, event=np.ones(6), upper=Y), "was given event and upper"),
    (lambda: glm.log_normal(X, Y, upper=Y - 0.1), "upper[0] is 0.9, and y[0] is 1: upper is"),
    (lambda: glm.log_normal(X, Y, upper=np.full(6, np.nan)), "upper[0] is nan"),
    (lambda: glm.log_normal(X, 0.0 * Y, upper=np.full(6, np.inf)), "y[0] is 0: log_normal needs"),
    (lambda: glm.hurdle_poisson(X, Y), "y[3] is 0.5: hurdle_poisson needs counts"),
    (lambda: glm.zero_inflated_poisson(X, -Y), "y[0] is -1: zero_inflated_poisson needs counts"),
    (lambda: glm.zero_inflated_poisson(X, np.arange(6), start=[0.0]), "start has shape (1,)"),
]


@pytest.mark.plain
@pytest.mark.parametrize(("make", "words"), REFUSED, ids=[words[:30] for _, words in REFUSED])
def test_bad_input_is_refused(make, words):
    with pytest.raises((ValueError, TypeError)) as caught:
        make()
    assert words in str(caught.value)


def test_another_prior_takes_the_place_of_all(rng):
    def flat_but_one(state):
        return -abs(state.log_shape[0])

    assert glm.weibull(X, Y, log_prior=flat_but_one).log_prior is flat_but_one
    model = glm.ordered_logistic(X, np.arange(6) % 3, prior_sd=np.inf)
    assert model.log_prior(record_of(model, {})) == 0.0


def test_censored_times_are_not_compared_with_whole_ones():
    """Predictions are times to the end; a column that ends with the study is no such thing."""
    rng = np.random.default_rng(3)
    x, times = np.ones((400, 1)), rng.weibull(1.5, 400)
    for last, known in ((np.inf, True), (1.0, False)):
        model = sm.models.glm.weibull(x, np.minimum(times, last), event=times <= last)
        trace = sm.sample(model, draws=30, warmup=100, chains=2, seed=1, progress=False)
        said = sm.predict(model, trace, statistics=np.mean, seed=2, progress=False)
        assert (said.observed is not None) == known
        said = sm.predict(model, trace, statistics=np.mean, observed=times, seed=2, progress=False)
        assert said.summary()["observed"].iloc[0] == pytest.approx(times.mean())


@pytest.mark.parametrize("name", ["negative_binomial", "hurdle_negative_binomial"])
def test_a_prior_that_leaves_counts_without_an_end_is_told_of(name):
    """Flat in log_dispersion, of Poisson counts: chains went to 480, and beta to -8, or to nan."""
    make, y = getattr(glm, name), np.arange(len(X)) % 4.0

    def of_beta(state):
        return -0.5 * state.beta[0] ** 2

    def of_both(state):
        return of_beta(state) - 0.125 * state.log_dispersion[0] ** 2

    with pytest.warns(UserWarning, match="says nothing of log_dispersion"):
        make(X, y, log_prior=of_beta)
    make(X, y, log_prior=of_both)
    make(X, y, log_prior=of_beta, dispersion=2.0)
    make(X, y)
