"""sm.sample(model) of few data, or where few tell: tails that no Gaussian has are drawn from."""

import arviz
import numpy as np
import pytest
from scipy.stats import beta, chi2, gamma

import subsample_mcmc as sm
from subsample_mcmc.runs import default_kernel as defaults
from subsample_mcmc.runs.defaults import tails
from subsample_mcmc.runs.defaults.hierarchies import of_sites

ALARM = 1e-4  # of each test
Y = np.array([1.0, 2.0, 3.5])


def few_data():
    """p(mu, sigma) = 1 / sigma: (n - 1) s^2 / sigma^2 has a chi-squared law of n - 1 degrees."""

    def log_likelihood(state, data, n):
        z = (data.y[n] - state.mu[0]) / state.sigma[0]
        return -0.5 * z * z - sm.log(state.sigma[0])

    return sm.Model(
        log_likelihood, {"y": Y}, {"mu": 0.0, "sigma": 1.0},
        lambda state: -sm.log(state.sigma[0]), constraints={"sigma": sm.positive},
    )  # fmt: skip


def test_few_data_are_not_sampled_along_a_fit():
    kernel = sm.default_kernel(few_data(), progress=False)
    assert "(fit" not in kernel.code  # along its lines are slices, which reach all tails
    assert any("no moves along the fit: of 3 data and 2 parameters" in x for x in kernel.found)


def far_draws(kernel=None) -> list[tuple[float, float, float]]:
    """(share that lies beyond a quantile of sigma, that of its draws, effective draws of these)."""
    trace = sm.sample(few_data(), kernel, draws=20_000, seed=1, progress=False)
    square, found = float(((Y - Y.mean()) ** 2).sum()), []
    for share in (0.5, 0.05, 0.01):
        far = np.sqrt(square / chi2.ppf(share, len(Y) - 1))
        beyond = trace.draws["sigma"].reshape(4, -1) > far
        effective = ess(beyond.astype(float)) if beyond.any() else 0.0
        found.append((share, float(beyond.mean()), effective))
    return found


@pytest.mark.slow
def test_heavy_tails_of_few_data_have_their_share():
    """Up to sigma's 99% quantile, 10 times y's scale; along the fit chains hardly get there."""
    for share, seen, effective in far_draws():
        low = beta.ppf(ALARM / 6.0, seen * effective, (1.0 - seen) * effective + 1.0)
        high = beta.ppf(1.0 - ALARM / 6.0, seen * effective + 1.0, (1.0 - seen) * effective)
        assert low <= share <= high
        assert effective > 300.0
    model = few_data()
    along = sm.Metropolis(("mu", "sigma"), proposal=sm.pcn(sm.laplace(model, progress=False)))
    assert far_draws(along)[1][2] < 200.0


def ess(values: np.ndarray) -> float:
    return float(np.asarray(arviz.ess(values)).item())


def test_many_configurations_have_no_control_variate():
    """Each of them would have sums of its own: 2^9 of these are made for nothing."""

    def log_likelihood(state, data, n):
        e = state.b[0]
        for j in range(9):
            e += data.x[n, j] * state.on[j]
        return -0.5 * (data.y[n] - e) ** 2

    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 9))
    model = sm.Model(
        log_likelihood, {"x": x, "y": x[:, 0] + rng.standard_normal(400)},
        {"b": 0.0, "on": np.zeros(9, dtype=int)}, lambda s: -0.5 * s.b[0] ** 2, support={"on": 2},
    )  # fmt: skip
    found, notes, *_ = defaults.candidates_of(model, None)
    assert found
    assert not any("control" in candidate.code for candidate in found)
    assert any("512" in note for note in notes)


def test_what_few_data_of_sites_see_follows_no_polynomial():
    """sigma of three groups of two: on 6 data a surrogate hardly enters its tails, on 60 it may."""

    def log_likelihood(state, data, n):
        z = (data.y[n] - state.a[data.group[n]]) / state.sigma[0]
        return -0.5 * z * z - sm.log(state.sigma[0])

    def written(rows: int) -> list[str]:
        model = sm.Model(
            log_likelihood, {"y": np.arange(float(rows)), "group": np.arange(rows) % 3},
            {"a": np.zeros(3), "mu": 0.0, "tau": 1.0, "sigma": 1.0}, lambda s: -s.tau[0],
            constraints={"tau": sm.positive, "sigma": sm.positive}, touches={"a": "group"},
            site_prior={"a": lambda s, i: -0.5 * ((s.a[i] - s.mu[0]) / s.tau[0]) ** 2},
        )  # fmt: skip
        return [code for _, _, code in of_sites(model, [], ["a"], ("fit = fit",), ("a",))]

    few, more = written(6), written(60)
    assert not any('SurrogateTransition("sigma"' in code for code in few)
    assert any('SurrogateTransition(("mu", "tau")' in code for code in few)
    assert all('"sigma"' in code for code in few)
    assert any('SurrogateTransition("sigma"' in code for code in more)


# ---------------------------------------------------------------- many data, and few of some kind
COUNTED = 20_000


def rates(events: int, rare: int = 40) -> sm.Model:
    """Two groups, of which one is rare: exp(b) of each has a gamma law a posteriori."""
    group = (np.arange(COUNTED) < rare).astype(int)
    y = np.zeros(COUNTED)
    y[: min(events, rare)] += events / min(events, rare) if events else 0.0
    y[rare::20] = 1.0

    def log_likelihood(state, data, n):
        b = state.b[data.group[n]]
        return data.y[n] * b - sm.exp(b)

    return sm.Model(
        log_likelihood, {"y": y, "group": group}, {"b": np.zeros(2)},
        lambda state: np.sum(0.5 * state.b),
    )  # fmt: skip


@pytest.mark.parametrize("events", [1, 4, 30])
def test_by_how_much_a_posterior_is_above_its_fit(events):
    """Of a gamma law's logarithm with shape k that is known: at c standard deviations out."""
    model = rates(events)
    fit = sm.laplace(model, progress=False)
    shape = events + 0.5
    out = tails.OUT / np.sqrt(shape) * np.array([-1.0, 1.0])
    known = np.max(shape * out - shape * np.expm1(out)) + 0.5 * tails.OUT**2
    assert tails.nats_above(fit) == pytest.approx(known, abs=1e-3)
    assert bool(tails.heavier(model, fit)) == (events < 5) == (known > tails.ABOVE)


def test_what_would_take_too_long_is_not_read(monkeypatch):
    monkeypatch.setattr(tails, "MOST", 100.0)
    model = rates(1)
    assert tails.heavier(model, sm.laplace(model, progress=False)) == ""


def rare_and_its_law(kernel=None):
    """(share of draws of the rare group's b below some of its quantiles, of 10, and their ESS)."""
    model = rates(1)
    trace = sm.sample(model, kernel, draws=3_000, seed=4, progress=False)
    shares = np.array([0.005, 0.05, 0.25, 0.5, 0.9])
    b = trace.draws["b"][..., 1]
    below = [b < np.log(gamma.ppf(share, 1.5) / 40.0) for share in shares]
    return shares, [(np.mean(x), ess(x.astype(float)) if x.any() else 0.0) for x in below], trace


@pytest.mark.slow
def test_many_data_of_which_few_tell_have_their_posterior():
    """Along the fit chains hardly get to the half percent that lies farthest out."""
    shares, found, trace = rare_and_its_law()
    assert trace.meta["chosen"].count("sm.Exact()") == 1 and "pcn(" not in trace.meta["chosen"]
    for share, (seen, effective) in zip(shares, found, strict=True):
        assert effective > 800.0
        alarm = ALARM / len(shares)
        low = beta.ppf(alarm / 2.0, seen * effective, (1.0 - seen) * effective + 1.0)
        high = beta.ppf(1.0 - alarm / 2.0, seen * effective + 1.0, (1.0 - seen) * effective)
        assert low <= share <= high
    fit = sm.laplace(rates(1), progress=False)
    _, along, _ = rare_and_its_law(sm.Metropolis("b", proposal=sm.pcn(fit), selector=sm.Exact()))
    assert along[0][1] < 0.2 * found[0][1]
