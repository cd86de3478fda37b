"""Slices along the lines of a covariance: the law is kept, whatever they say; what they are for."""

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.runs.fingerprint import spelled
from tests.helpers.claims import equal
from tests.helpers.laws import ALARM, not_uniform, uniform
from tests.kernels.test_lengths import SPACES, guesses, keeps_the_law, space
from tests.kernels.test_slice import COUNT, exact, mutant, thrown

# A covariance of three free coordinates: long lines, and unlike the posterior's.
TIMES = 4  # steps, in which mistakes add up
LINES = 0.5 * np.eye(3) + np.outer([1.0, 2.0, -1.0], [1.0, 2.0, -1.0])


def both(before, after):
    """Values before and after a kernel, by name."""
    return {
        f"{when} {j}": values[:, j]
        for when, values in (("before", before), ("after", after))
        for j in range(values.shape[1])
    }


@pytest.mark.parametrize(("width", "most"), [(0.5, 1), (3.0, 4), (2.0, 50)])
def test_the_law_is_kept(width, most):
    """Probabilities of four faces, with limits that bind, along lines that suit nothing."""
    before, after, told = thrown(4, sm.repeat(exact(width, most=most, along=LINES), TIMES))
    uniform(both(before, after))
    assert told["accepted"] + told["capped"] == 3 * told["steps"] == 3 * TIMES * COUNT
    assert DISABLED or np.corrcoef(before[:, 0], after[:, 0])[0, 1] < 0.95  # it moves


MUTANTS = {
    "brackets around the coordinate": (".shape[1] == 0 else 0.0", ".shape[1] >= 0 else 0.0"),
    "lines as long as where they lead": ("at * line[i]", "at * line[i] * (1.0 + 0.3 * at)"),
}  # fmt: skip


@pytest.mark.skipif(DISABLED, reason="thousands of slices")
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name):
    kernel = mutant(*MUTANTS[name], 2.0, 50, along=LINES)
    before, after, _ = thrown(4, sm.repeat(kernel, TIMES))
    not_uniform(both(before, after))


@pytest.mark.slow_for("real")
@pytest.mark.parametrize("name", SPACES)
def test_blocks_of_varying_length_have_a_fit_for_each(rng, name):
    model = space(name)
    kernel = sm.Slice("theta", 1.0, sm.Exact(), adapt=False, along=guesses(model, name))
    told, _ = keeps_the_law(model, kernel, rng, 20_000, times=2)
    assert told["capped"] == 0


def correlated():
    """A line through columns that differ by a fiftieth of what they have in common."""

    def log_likelihood(state, data, n):
        z = data.y[n] - state.theta[0] * data.x[n, 0] - state.theta[1] * data.x[n, 1]
        return -0.5 * z * z

    rng = np.random.default_rng(0)
    common = rng.standard_normal(50)
    x = np.column_stack([common, common + 0.02 * rng.standard_normal(50)])
    y = x.sum(axis=1) + rng.standard_normal(50)
    return sm.Model(log_likelihood, {"x": x, "y": y}, {"theta": np.zeros(2)})


@pytest.mark.skipif(DISABLED, reason="thousands of draws")
def test_coordinates_that_depend_on_each_other_mix():
    """The posterior is Gaussian, so the lines are of independent quantities: draws are, nearly."""
    model = correlated()
    fit = sm.laplace(model, progress=False)
    kernels = {
        name: sm.Slice("theta", selector=sm.Exact(), along=along)
        for name, along in (("axes", None), ("lines", fit), ("numbers", fit.covariance))
    }
    effective = {}
    for name, kernel in kernels.items():
        trace = sm.sample(model, kernel, draws=2_000, warmup=500, chains=2, seed=1, progress=False)
        effective[name] = float(trace.summary()["ess_bulk"].min())
        if name != "axes":
            draws = trace.draws["theta"].reshape(-1, 2)
            z = np.linalg.solve(np.linalg.cholesky(fit.covariance), (draws - fit.mean).T)
            inside = int((np.abs(z) < stats.norm.isf(0.25)).sum())
            equal(inside, z.size, 0.5, ALARM)  # as if draws were independent: they nearly are
    assert effective["lines"] == effective["numbers"] > 2_500.0
    assert effective["axes"] < 200.0


def test_few_data_of_many_coefficients_are_sampled_along_a_fit():
    """60 data and 10 coefficients: walks and a Gaussian that is learnt had R-hat above 1.2."""
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(60), rng.standard_normal((60, 9))])
    x[:, 9] = 0.97 * x[:, 8] + 0.25 * x[:, 9]
    y = rng.standard_normal(60)
    model = sm.models.glm.gaussian(x, y, prior_sd=10.0)
    kernel = sm.default_kernel(model, progress=False)
    assert kernel.code.startswith('fit = sm.laplace(model)\nkernel = sm.Slice("beta", along=fit')
    trace = sm.sample(model, seed=1, progress=False)
    assert str(trace.report()).split("Converged")[1].split()[0] == "yes:"
    precision = x.T @ x + np.eye(10) / 100.0
    mean, sd = np.linalg.solve(precision, x.T @ y), np.sqrt(np.diag(np.linalg.inv(precision)))
    told = trace.summary()
    z = (told["mean"].to_numpy() - mean) / (sd / np.sqrt(told["ess_bulk"].to_numpy()))
    assert told["ess_bulk"].min() > 1_000.0
    assert np.abs(z).max() < stats.norm.isf(ALARM / 20)


# -------------------------------------------------------------------------------------- refusals
def test_what_fits_nothing_is_refused():
    model = correlated()
    given = {"draws": 5, "chains": 1, "progress": False}
    for along, words in (
        (np.eye(3), "along has shape \\(3, 3\\): block 'theta' has 2 free"),
        (-np.eye(2), "not positive definite"),
        ([[1.0, 2.0], [2.0, 1.0]], "not positive definite"),
    ):
        with pytest.raises(ValueError, match=words):
            sm.sample(model, sm.Slice("theta", along=along), **given)
    for along in (
        "fit",
        [],
        np.zeros((2, 3)),
        np.zeros((2, 2, 2)),
        [sm.laplace(model, progress=False), 3],
    ):
        with pytest.raises(TypeError, match=r"give a fit, sm\.laplace\(model\), or a covariance"):
            sm.Slice("theta", along=along)
    data = {"y": np.arange(4.0), "group": np.arange(4) % 2}
    sites = sm.Model(
        lambda state, data, n: -((data.y[n] - state.a[data.group[n]]) ** 2), data,
        {"a": np.zeros(2)}, touches={"a": "group"},
    )  # fmt: skip
    with pytest.raises(ValueError, match="its sites move one by one, each by widths of its own"):
        sm.sample(sites, sm.Slice("a", along=np.eye(2)), **given)


def test_lines_are_said_and_stored(tmp_path):
    model = correlated()
    fit = sm.laplace(model, progress=False)
    kernel = sm.Slice("theta", selector=sm.Exact(), along=fit)
    assert "theta, along the lines of a covariance" in kernel.describe(model)
    # Runs that were stored before there were lines have none in their text.
    assert "along" not in spelled(sm.Slice("theta")) and "along" in spelled(kernel)
    given = {"chains": 1, "seed": 3, "progress": False, "store": tmp_path / "run"}
    whole = sm.sample(model, kernel, draws=60, warmup=40, **(given | {"store": None}))
    sm.sample(model, kernel, draws=20, warmup=40, **given)
    again = sm.resume(tmp_path / "run", model, kernel, draws=60, progress=False)
    assert np.array_equal(again.draws["theta"], whole.draws["theta"])
    other = sm.Slice("theta", selector=sm.Exact(), along=2.0 * fit.covariance)
    with pytest.raises(ValueError, match="changed since it was started: kernel theta"):
        sm.resume(tmp_path / "run", model, other, draws=80, progress=False)
