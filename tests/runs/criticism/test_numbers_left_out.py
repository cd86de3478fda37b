"""Numbers of cross validation by formulas: errors of samples, means of likelihoods, worst data."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.runs.criticism.sampling import SampleOfData, difference_of, residuals


def test_rows_that_are_surely_sampled_add_nothing_to_an_error():
    """They do not move what others are compared with (Rosen 1997, of chances below 1)."""
    apart, chances = np.array([1.0, -2.0, 3.0]), np.array([0.5, 0.2, 0.8])
    weighted = apart / chances
    middle = (1.0 - chances) @ weighted / (1.0 - chances).sum()
    wanted_values = np.sqrt(1.5) * (weighted - middle)
    assert residuals(apart, chances) == pytest.approx(wanted_values)
    assert residuals(np.r_[apart, 1e6], np.r_[chances, 1.0])[:3] == pytest.approx(wanted_values)


def test_a_difference_of_all_rows_does_not_vary_its_spread():
    """Two models, one better by much in every row."""
    rng = np.random.default_rng(1)
    size, count = 4_000, 1_000
    one = rng.normal(size=size)
    two = one - 0.7 + rng.normal(size=size)
    near = [v + 0.05 * rng.normal(size=size) for v in (one, two)]
    chances = np.full(size, count / size)
    rows = np.sort(rng.choice(size, count, replace=False))
    samples = tuple(SampleOfData(s, chances, (1,)) for s in near)
    found = difference_of((one[rows], two[rows]), (rows, rows), samples)
    assert found.se == pytest.approx(np.sqrt(size * np.var(one - two, ddof=1)), rel=0.03)


def test_effective_draws_are_of_components(rng):
    """A block of 30 numbers counts for 30."""
    import arviz

    from subsample_mcmc.runs.criticism.loo import efficiency

    fast = rng.normal(size=(2, 500, 30))
    slow = np.cumsum(rng.normal(size=(2, 500)), axis=1)
    trace = SimpleNamespace(shape=(2, 500), drawn={"a": slow, "b": fast})
    each = [float(arviz.ess(slow, method="mean"))]
    each += [float(arviz.ess(fast[..., j], method="mean")) for j in range(30)]
    assert efficiency(trace, np.arange(500)) == pytest.approx(np.mean(each) / 1000.0)


def test_means_of_likelihoods_have_all_terms(rng):
    """Of ARCH, what depends on nu alone stands elsewhere, and may differ from draw to draw."""
    from scipy.special import logsumexp as total

    from subsample_mcmc.runs.criticism.loo import Leaver, States

    returns = rng.standard_t(5.0, 200)
    model = sm.models.arch.ARCH(returns - returns.mean(), (1,))
    theta = np.array([[4.0, 0.5, 0.2], [9.0, 0.8, 0.1]])
    states = States(np.zeros((2, 1), dtype=model.ints.dtype), theta)
    rows = np.array([0, 5, 17])
    found = Leaver(model, states, 1.0, 1).means(states, rows)
    r = model.returns[::-1]
    for value, n in zip(found, rows, strict=True):
        scales = np.sqrt(theta[:, 1] + theta[:, 2] * r[n + 1] ** 2)
        logs = stats.t.logpdf(r[n], theta[:, 0], 0.0, scales)
        assert value == pytest.approx(total(logs) - np.log(2.0), rel=1e-9)


def test_a_datum_that_is_impossible_in_all_states_has_no_likelihood():
    """-inf, not nan."""
    from subsample_mcmc.runs.criticism.loo import Leaver, States

    model = sm.Model(lambda state, data, n: -np.inf if data.y[n] > state.a[0] else -1.0,
                     {"y": np.array([0.0, 5.0])}, {"a": 1.0})  # fmt: skip
    states = States(np.zeros((3, 0), dtype=np.int64), np.ones((3, 1)))
    assert Leaver(model, states, 1.0, 1).means(states, np.arange(2)).tolist() == [-1.0, -np.inf]


def test_worst_data_of_arch_are_those_that_users_count():
    """Of a model whose data run backwards, columns are those of the named rows."""
    from subsample_mcmc.runs.criticism.elpd import LeaveOneOut

    returns = np.random.default_rng(0).standard_t(5.0, 200)
    model = sm.models.arch.ARCH(returns - returns.mean(), (1,))
    found = np.zeros((model.size, 3))
    found[[3, 40], 2] = 9.0, 8.0
    made = LeaveOneOut(
        model, SimpleNamespace(axes=model.axes), 1000, found, np.arange(model.size), None
    )
    table = made.worst(2)
    squares = model.returns[1:] ** 2  # the first return is only conditioned on
    assert table["r2"].tolist() == pytest.approx(squares[[3, 40]].tolist())
