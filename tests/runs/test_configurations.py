"""sm.sample(model) where a discrete block says where the continuous ones lie: starts and warnings.

Evidences of normal models have a closed form, so what the values of the block should have is known.
Chains that all begin around one fit keep its value of the block, whatever the posterior says.
"""

from math import lgamma

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.defaults import configurations

POWERS = np.array([0.5, 1.0, 1.5, 2.0, 3.0])
SD = 100.0  # of the prior of coefficients


def powers(size, noise, start=0, lengths=None, seed=1):
    """A power of x beside a constant: the model, and the log evidence of each power."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(1.0, 10.0, size)
    y = 1.0 + 0.5 * x**2 + noise * rng.standard_normal(size)

    def log_likelihood(state, data, n):
        z = data.y[n] - state.b[0] - state.b[1] * data.x[n] ** POWERS[state.k[0]]
        return -0.5 * (z / noise) ** 2

    model = sm.Model(
        log_likelihood, {"x": x, "y": y}, {"k": start, "b": np.zeros(2)},
        lambda state: -0.5 * (state.b[0] ** 2 + state.b[1] ** 2) / SD**2, support={"k": 5},
        lengths=lengths,
    )  # fmt: skip
    evidence = [of_normal(y / noise, np.column_stack([np.ones(size), x**p]) / noise)
                for p in POWERS]  # fmt: skip
    return model, np.array(evidence)


def of_normal(y, x):
    """The log of the integral over coefficients, with what the prior's constant leaves out."""
    precision = x.T @ x + np.eye(x.shape[1]) / SD**2
    mean = np.linalg.solve(precision, x.T @ y)
    half = 0.5 * np.linalg.slogdet(precision)[1]
    return 0.5 * mean @ precision @ mean - 0.5 * y @ y - half + 0.5 * len(mean) * np.log(2 * np.pi)


@pytest.mark.slow_for("0")
@pytest.mark.parametrize("start", [0, 3])
def test_chains_begin_where_the_evidence_is_near_the_highest(start):
    """Of P(k) = .002, .997, .001 at 2, 3, 4 all chains had k=0, and "yes", where it began there."""
    model, evidence = powers(400, 10.0, start)
    with pytest.warns(UserWarning, match=r"k=3 has the highest evidence.*k=2 \(6\.17 nats less\)"):
        trace = sm.sample(model, draws=300, warmup=300, seed=1, progress=False)
    k = np.asarray(trace.draws["k"])[:, -1]
    assert k.tolist() == [3, 2, 4, 3]  # in turn, and none leaves
    assert trace.report().verdict.converged.startswith("no: chains stand at different values of k")
    found = sm.default_kernel(model, progress=False).configurations
    assert [int(np.ravel(fit.state["k"])[0]) for fit in found.fits] == np.argsort(
        -evidence
    ).tolist()
    told = np.array([fit.log_evidence for fit in found.fits])
    np.testing.assert_allclose(np.diff(told), np.diff(np.sort(evidence)[::-1]), rtol=1e-5)


def test_the_remedy_that_is_named_serves():
    model, _ = powers(400, 10.0)
    with pytest.warns(UserWarning, match="Chains start around these") as told:
        sm.sample(model, draws=10, warmup=10, seed=1, progress=False)
    assert 'sm.Model(lengths={"b": ("k", [2, 2, 2, 2, 2])})' in str(told[0].message)
    model, evidence = powers(400, 10.0, lengths={"b": ("k", [2, 2, 2, 2, 2])})
    trace = sm.sample(model, draws=4_000, seed=1, progress=False)
    want = np.exp(evidence - np.logaddexp.reduce(evidence))
    seen = np.bincount(np.ravel(trace.draws["k"]), minlength=5) / 16_000
    error = np.sqrt(want * (1.0 - want) / 16_000)
    assert np.all(np.abs(seen - want) < 10.0 * error + 1e-4), (seen, want)


@pytest.mark.slow
def test_all_the_mass_at_another_value_than_the_first():
    """The fit is of that value, and its code says so; nothing is lost, so nothing is warned of."""
    model, evidence = powers(5_000, 10.0)
    assert np.sort(evidence)[-2] < evidence[3] - 20.0
    kernel = sm.default_kernel(model, progress=False)
    assert kernel.configurations.code_of(kernel.fit) == 'sm.laplace(model, given={"k": 3})'
    trace = sm.sample(model, draws=200, warmup=200, seed=1, progress=False)
    assert np.all(np.asarray(trace.draws["k"]) == 3)
    assert trace.report().verdict.converged.startswith("yes, given k, which never moved")


def which(state, data, n):
    mean = state.b[0] + state.b[1] * (data.x[n] if state.q[0] == 0 else data.u[n])
    return -0.5 * (data.y[n] - mean) ** 2


def wide_or_narrow(state):
    sd = 2.0 if state.q[0] == 0 else 20.0
    return -0.125 * state.b[0] ** 2 - 0.5 * (state.b[1] / sd) ** 2 - np.log(sd)


def two_columns(unit):
    rng = np.random.default_rng(3)
    x = rng.standard_normal(300)
    u = 0.8 * x + 0.6 * rng.standard_normal(300)
    data = {"x": x, "u": u / unit, "y": 0.3 + 0.15 * (x + u) + rng.standard_normal(300)}
    start = {"q": 0, "b": np.zeros(2)}
    return sm.Model(which, data, start, wide_or_narrow, support={"q": 2})


def test_values_whose_fits_lie_together_are_as_before():
    model = two_columns(1.0)
    kernel = sm.default_kernel(model, progress=False)
    assert len(kernel.configurations.near) == 2 and not kernel.configurations.elsewhere
    assert kernel.fit is kernel.configurations.own  # no warning, which would be an error here
    assert not [line for line in kernel.found if "lie elsewhere" in line]


def test_the_same_column_in_another_unit_lies_elsewhere():
    model = two_columns(30.0)
    kernel = sm.default_kernel(model, progress=False)
    assert kernel.configurations.elsewhere
    assert [line for line in kernel.found if "at other values of q lie elsewhere" in line]
    starts = [kernel.start(np.random.default_rng(1), turn)["q"] for turn in range(4)]
    assert sorted({int(np.ravel(q)[0]) for q in starts}) == [0, 1]


@pytest.mark.slow
def test_of_a_number_with_many_values_some_are_looked_at():
    """Locations on a grid: the fit is of the nearest that is looked at, not of where k begins."""
    y = np.random.default_rng(0).standard_normal(2_000) + 7.0

    def log_likelihood(state, data, n):
        z = (data.y[n] - 0.05 * state.k[0]) / state.s[0]
        return -0.5 * z * z - sm.log(state.s[0])

    model = sm.Model(
        log_likelihood, {"y": y}, {"k": 0, "s": 1.0}, lambda state: -state.s[0],
        support={"k": 200}, constraints={"s": sm.positive},
    )  # fmt: skip
    kernel = sm.default_kernel(model, progress=False)
    assert len(kernel.configurations.fits) == configurations.MOST
    best = int(np.ravel(kernel.fit.state["k"])[0])
    code = kernel.configurations.code_of(kernel.fit)  # which kernel is chosen is a matter of times
    assert abs(0.05 * best - 7.0) < 0.5 and f'given={{"k": {best}}}' in code
    trace = sm.sample(model, draws=300, seed=1, progress=False)
    assert abs(0.05 * np.mean(trace.draws["k"]) - y.mean()) < 0.02


def test_which_values_have_a_fit():
    """All of few; none of many sites, whose fits would be of labels by chance."""
    base = {"y": np.zeros(50)}

    def of(state, support):
        return configurations.configured(
            sm.Model(lambda s, data, n: -(s.b[0] ** 2), base, state | {"b": 0.0}, support=support)
        )[1]

    assert len(of({"k": 0, "m": np.zeros(2, int)}, {"k": 3, "m": 2})) == 12
    assert of({"k": 0, "m": np.zeros(3, int)}, {"k": 3, "m": 2}) == []
    assert of({"z": np.zeros(50, int)}, {"z": 2}) == []
    spread = [int(values["k"]) for values in of({"k": 0}, {"k": 1_000})]
    assert spread[0] == 0 and spread[-1] == 999 and len(spread) == configurations.MOST


@pytest.mark.slow
def test_a_block_that_varies_in_length_may_stand_anywhere_in_the_state():
    """The user named no Metropolis that could be told to name it last."""
    rng = np.random.default_rng(0)
    data = {"y": rng.normal(0.2, 1.0, 200), "x": np.linspace(-1.0, 1.0, 200)}

    def log_likelihood(state, data, n):
        mean = state.theta[0]
        if state.q[0] == 1:
            mean += state.theta[1] * data.x[n]
        return -0.5 * ((data.y[n] - mean) / state.s[0]) ** 2 - sm.log(state.s[0])

    def log_prior(state):
        value = -0.5 * state.theta[0] ** 2 - state.s[0]
        return value - 0.5 * state.theta[1] ** 2 - 0.919 if state.q[0] == 1 else value

    places = {"q": 0, "theta": np.zeros(2), "s": 1.0}, {"q": 0, "s": 1.0, "theta": np.zeros(2)}
    first, last = (
        sm.default_kernel(
            sm.Model(
                log_likelihood, data, state, log_prior, support={"q": 2},
                lengths={"theta": ("q", [1, 2])}, constraints={"s": sm.positive},
            ),
            progress=False,
        ).code
        for state in places
    )  # fmt: skip
    assert '("s", "theta")' in first and '("s", "theta")' in last


@pytest.mark.slow
def test_values_that_are_reached_by_way_of_others_are_not_elsewhere():
    """Degrees of freedom and a scale: first and last lie apart, and neighbours do not."""
    y = np.random.default_rng(0).standard_t(5, 400)
    nus = np.array([2.0, 2.5, 3.0, 4.0, 6.0, 9.0, 14.0, 22.0, 35.0])

    def log_likelihood(state, data, n):
        nu, z = nus[state.k[0]], data.y[n] / state.s[0]
        constant = lgamma(0.5 * nu + 0.5) - lgamma(0.5 * nu) - 0.5 * sm.log(nu)
        return constant - 0.5 * (nu + 1.0) * sm.log1p(z * z / nu) - sm.log(state.s[0])

    model = sm.Model(
        log_likelihood, {"y": y}, {"k": 0, "s": 1.0}, lambda state: -state.s[0],
        support={"k": 9}, constraints={"s": sm.positive},
    )  # fmt: skip
    found = sm.default_kernel(model, progress=False).configurations
    near = sorted(found.near, key=lambda fit: int(np.ravel(fit.state["k"])[0]))
    assert len(near) > 4 and configurations.are_apart(near[0], near[-1])
    assert not found.elsewhere  # nobody is warned, and chains have one law
    trace = sm.sample(model, draws=2_000, seed=1, progress=False)
    assert trace.mixing("k").rhat < 1.02


def test_a_value_that_is_not_allowed_has_no_fit():
    """Where log_prior forbids it, the log likelihood need not be a number."""
    x = np.random.default_rng(0).standard_normal((200, 2))

    def log_likelihood(state, data, n):
        if state.k[0] == 2:
            return np.nan
        return -0.5 * (data.x[n, state.k[0]] - state.b[0]) ** 2

    model = sm.Model(
        log_likelihood, {"x": x}, {"k": 0, "b": 0.0},
        lambda state: -0.5 * state.b[0] ** 2 if state.k[0] < 2 else -np.inf, support={"k": 3},
    )  # fmt: skip
    kernel = sm.default_kernel(model, progress=False)
    assert len(kernel.configurations.fits) == 2
    trace = sm.sample(model, draws=200, seed=1, progress=False)
    assert np.max(trace.draws["k"]) < 2


def test_parameters_that_are_correlated_lie_apart_by_all_of_them():
    """Covariates around 100, which nobody centred: each mode is .1 sd off, and both nearly 10."""
    rng = np.random.default_rng(0)
    x = 100.0 + rng.standard_normal(300)
    u = x + 1.0 + 0.3 * rng.standard_normal(300)
    data = {"x": x, "u": u, "y": 2.0 + 1.5 * x + rng.standard_normal(300)}
    model = sm.Model(which, data, {"q": 0, "b": np.zeros(2)}, wide_or_narrow, support={"q": 2})
    one, other = (sm.laplace(model, given={"q": q}) for q in range(2))
    shift = np.abs(one.mean - other.mean) / np.sqrt(np.diag(one.covariance))
    assert shift.max() < 1.5 and configurations.are_apart(one, other)


@pytest.mark.parametrize("start", [0, 1])
def test_an_indicator_and_its_slope_are_not_apart(start):
    """The slope is as its prior without it: wider, and chains come and go, but not along the fit.

    Proposals from the narrow fit stood still where the slope is wide; from the wide one they go.
    """
    rng = np.random.default_rng(1)
    data = {"x": rng.standard_normal(100), "y": rng.standard_normal(100)}
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.k[0] * state.b[0] * data.x[n]) ** 2, data,
        {"k": start, "b": 0.0}, lambda state: -0.5 * state.b[0] ** 2, support={"k": 2},
    )  # fmt: skip
    kernel = sm.default_kernel(model, progress=False)
    found = kernel.configurations
    assert len(found.near) == 2 and not found.elsewhere
    widths = [fit.covariance[0, 0] ** 0.5 for fit in found.fits]
    assert max(widths) > 5.0 * min(widths)
    factor, other = found.wider(kernel.fit)
    assert factor == pytest.approx(max(widths) / widths[found.fits.index(kernel.fit)])
    assert other is found.fits[int(np.argmax(widths))]
    narrow = "no moves along the fit: at k=0 the posterior is" in str(kernel)
    assert narrow == (start == 1) == (factor > 5.0)


def test_chains_begin_in_other_modes_as_well_as_at_other_values():
    kernel = sm.default_kernel(two_columns(30.0), progress=False)
    found, fit = kernel.configurations, kernel.fit
    modes = [fit.mean, -fit.mean]
    pairs = found.around(fit, modes)
    assert [centre is None for _, centre in pairs] == [False, False, True]
    assert pairs[0][0] is pairs[1][0] is fit and pairs[2][0].state["q"] != fit.state["q"]
    assert [fit for fit, _ in found.around(fit, [])] == found.near


def test_where_time_ends_some_values_are_looked_at(monkeypatch):
    monkeypatch.setattr(configurations, "SECONDS", 0.0)
    model, _ = powers(400, 10.0)
    found = configurations.at_configurations(model, sm.laplace(model))
    assert len(found.fits) == 1 + configurations.LEAST and found.left == 1
    kernel = sm.default_kernel(model, progress=False)
    assert "no time for fits at 1 more values of k" in kernel.found
