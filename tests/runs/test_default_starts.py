"""Where chains begin that were told nothing, and what their report says where none leaves."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.runs import default_kernel, parallel
from subsample_mcmc.runs.defaults import pilots, starts


def parity(state, data, n):
    sign = 1.0 if state.z[0] == state.z[1] else -1.0
    return -0.5 * (data.y[n] - sign * state.slope[0] * data.x[n]) ** 2


def of_parity(size=2_000):
    """Two bits of which data know only whether they are alike: (0, 0) and (1, 1) are two modes."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(size)
    data = {"x": x, "y": x + rng.standard_normal(size)}
    state = {"z": np.zeros(2, int), "slope": 1.0}
    return sm.Model(parity, data, state, constraints={"slope": sm.positive}, support={"z": 2})


def test_a_value_that_no_chain_leaves_is_told_by_the_others():
    """Gibbs moves one bit at a time, which the data forbid: chains see one mode of two each."""
    trace = sm.sample(of_parity(), draws=300, warmup=300, seed=1, progress=False)
    z = trace.draws["z"].reshape(4, -1, 2)
    assert np.all(z[:, :, 0] == z[:, :, 1])  # in a mode each ...
    assert set(z[:, -1, 0].tolist()) == {0, 1}  # ... not all in one
    assert trace.report().verdict.converged.startswith("no: chains stand at different values of z")


def test_of_chains_that_all_begin_at_one_value_a_yes_is_given_that_value():
    kernel = sm.Gibbs("z") >> sm.Metropolis("slope", selector=sm.Exact())
    trace = sm.sample(of_parity(), kernel, draws=300, warmup=300, seed=1, progress=False)
    told = trace.report().verdict.converged
    assert told.startswith(("yes, given z, which never moved: ", "nearly, given z, which never "))


def test_all_allowed_values_are_as_likely():
    """Of 12 configurations a prior forbids 5, the data one; chi-squared of the 6, one in 10^6."""

    def log_likelihood(state, data, n):
        return -np.inf if state.k[0] == 2 and state.j[0] == 3 else data.y[n] * state.k[0]

    def log_prior(state):
        return 0.0 if state.k[0] + state.j[0] > 2 or state.j[0] == 0 else -np.inf

    model = sm.Model(log_likelihood, {"y": np.zeros(50)}, {"k": 0, "j": np.zeros(1, int)},
                     log_prior, support={"k": 3, "j": 4})  # fmt: skip
    allowed = {
        (k, j) for k in range(3) for j in range(4)
        if (k + j > 2 or j == 0) and (k, j) != (2, 3)
    }  # fmt: skip
    kernel = sm.default_kernel(model, progress=False)
    rng, seen = np.random.default_rng(3), []
    for _ in range(1_200):
        state = kernel.start(rng)
        seen.append((int(np.ravel(state["k"])[0]), int(state["j"][0])) if state else None)
    counts = [seen.count(pair) for pair in sorted(allowed)]
    assert sum(counts) + seen.count(None) == 1_200  # none that is forbidden
    none = len(seen) * (1.0 - len(allowed) / 12) ** starts.TRIES
    assert seen.count(None) <= stats.poisson.isf(1e-6, none)
    assert stats.chisquare(counts).pvalue > 1e-6


def test_where_nothing_else_is_allowed_chains_begin_as_in_the_model():
    bits = sm.Model(lambda s, data, n: data.y[n] * s.z[0], {"y": np.zeros(9)},
                    {"z": np.ones(64, int)}, lambda s: 0.0 if s.z.sum() == 64 else -np.inf,
                    support={"z": 2})  # fmt: skip
    assert starts.anywhere(bits, {}, ["z"], np.random.default_rng(0)) == {}


def test_long_blocks_and_rows_elsewhere_begin_as_in_the_model(monkeypatch):
    model = of_parity()
    assert starts.blocks_to_draw(model) == ["z"]
    monkeypatch.setattr(starts, "MOST", 1)
    assert starts.blocks_to_draw(model) == []
    monkeypatch.setattr(starts, "MOST", 2)
    monkeypatch.setattr(model, "elsewhere", object())
    assert starts.blocks_to_draw(model) == []


@pytest.mark.slow
def test_continuous_blocks_are_around_the_fit_whatever_the_others_are():
    kernel, rng = sm.default_kernel(of_parity(), progress=False), np.random.default_rng(2)
    slopes = np.array([float(np.ravel(kernel.start(rng)["slope"])[0]) for _ in range(400)])
    sd = np.sqrt(kernel.fit.covariance[0, 0])
    z = np.log(slopes / float(np.ravel(kernel.fit.state["slope"])[0])) / sd
    # Of 400 draws the deviation is 2 to 6 standard errors: an alarm in 10^8.
    assert abs(z.std() - 2.0) < 6.0 * 2.0 / np.sqrt(800)


@pytest.mark.parametrize(("sites", "told"), [
    (8, ""), (9, "one of 512,"), (60, "one of 1.15e+18,"), (2_000, "one of 1e+602,"),
])  # fmt: skip
def test_no_fit_is_followed_of_more_configurations_than_have_sums(sites, told):
    """Of 2,000 labels of two values their number is beyond floats: it was an OverflowError."""

    def log_likelihood(state, data, n):
        return -0.5 * (data.y[n] - state.mu[0] * state.z[n % 8]) ** 2

    state = {"z": np.zeros(sites, int), "mu": 0.0}
    model = sm.Model(log_likelihood, {"y": np.zeros(9_000)}, state, support={"z": 2})
    found = default_kernel.lies_apart(model, SimpleNamespace(mean=np.zeros(1)))
    assert told in found and bool(told) == bool(found)


@pytest.mark.parametrize(("step", "stalls"), [
    (1e-5, {2}), (1e-5, {8, 512}), (1e-3, {2, 8}), (0.4, {}), (1e-6, {}),
])  # fmt: skip
def test_a_machine_that_stood_still_makes_no_step_dear(monkeypatch, step, stalls):
    """Two steps of 10 us beside 60 ms of something else were 30 ms each, and never tried."""
    left = set(stalls)

    def run(model, kernel, start, draws, warmup):
        late = 0.06 if draws in left else 0.0
        left.discard(draws)  # once each
        return SimpleNamespace(
            seconds=np.array([draws * step + late]), processor=np.array([processor])
        )

    monkeypatch.setattr(pilots, "run", run)
    model = SimpleNamespace(elsewhere=None, data=())
    processor = 0.0  # not known
    assert pilots.step_cost(model, None, None) == pytest.approx(step, rel=1e-9)
    processor = 0.05
    found = pilots.step_cost(model, None, None)
    assert found == pytest.approx(min(step, 0.05 / 2), rel=1e-9)
    model.elsewhere = "there"  # what is waited for counts
    assert pilots.step_cost(model, None, None) == pytest.approx(step, rel=1e-9)


@pytest.mark.slow
def test_neither_looks_at_indices_nor_waiting_for_a_core_make_steps_dear(monkeypatch):
    """Each call of compiled code 60 ms late: no candidate was tried, and one taken by chance."""
    rng = np.random.default_rng(0)
    model = sm.models.glm.softmax(rng.standard_normal((300, 2)), rng.integers(0, 3, 300))
    late = itertools.count()
    times = SimpleNamespace(monotonic=lambda: 0.06 * next(late))
    monkeypatch.setattr(parallel, "time", times)
    monkeypatch.setattr(default_kernel, "at_once", lambda *given: (None, []))
    kernel = sm.default_kernel(model, progress=False)
    assert not [line for line in kernel.found if "too slow" in line], kernel.found
    assert sum("effective draws a second" in line for line in kernel.found) >= 2


def test_chains_begin_where_the_prior_is_positive(rng):
    """Two numbers in order by -inf: of 200 starts around the fit 50 were out of it."""

    def log_likelihood(state, data, n):
        return -0.5 * (data.y[n] - state.b[0] * data.x[n] - state.b[1]) ** 2

    def log_prior(state):
        return -np.inf if state.b[1] <= state.b[0] else -0.5 * (state.b[0] ** 2 + state.b[1] ** 2)

    x = rng.standard_normal(60)
    data = {"x": x, "y": 0.6 * x + 0.9 + rng.standard_normal(60)}
    model = sm.Model(log_likelihood, data, {"b": np.array([0.0, 0.5])}, log_prior)
    fit = sm.laplace(model, progress=False)
    starts = np.array([fit.start(rng)["b"] for _ in range(200)])
    assert np.all(starts[:, 1] > starts[:, 0]) and np.ptp(starts) > 0.5


def test_sites_begin_where_the_prior_is_positive(rng):
    def of_site(state, g):
        z = (state.a[g] - state.mu[0]) / state.tau[0]
        return -0.5 * z * z - np.log(state.tau[0])

    group = np.repeat(np.arange(6), 4)
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.a[data.g[n]]) ** 2,
        {"y": rng.standard_normal(24), "g": group}, {"a": np.zeros(6), "mu": 0.1, "tau": 1.0},
        lambda state: -state.tau[0] if state.mu[0] > 0.0 else -np.inf,
        constraints={"tau": sm.positive}, touches={"a": "g"}, site_prior={"a": of_site},
    )  # fmt: skip
    fit = sm.laplace(model, progress=False)
    assert np.all(np.array([fit.start(rng)["mu"] for _ in range(100)]) > 0.0)
