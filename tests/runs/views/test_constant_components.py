"""Components that a constraint makes constant: views do not count them, nor call them stuck."""

import math

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.plan import rate_of

QUIET = {"progress": False}
BELOW = ["L[1,0]", "L[1,1]", "L[2,0]", "L[2,1]", "L[2,2]"]


def three_returns(state, data, n):
    """Standard normal numbers with correlations L L^T."""
    b = (data.y1[n] - state.L[1, 0] * data.y0[n]) / state.L[1, 1]
    c = (data.y2[n] - state.L[2, 0] * data.y0[n] - state.L[2, 1] * b) / state.L[2, 2]
    return -0.5 * (b * b + c * c) - sm.log(state.L[1, 1] * state.L[2, 2])


def flat(state):
    """LKJ(1)."""
    return math.log(state.L[1, 1])


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(5)
    true = np.linalg.cholesky([[1.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 1.0]])
    y = rng.standard_normal((400, 3)) @ true.T
    data = {"y0": y[:, 0], "y1": y[:, 1], "y2": y[:, 2]}
    return sm.Model(
        three_returns, data, {"L": np.eye(3)}, flat, constraints={"L": sm.cholesky_corr}
    )


@pytest.fixture(scope="module")
def stored(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run.nc"
    kernel = sm.Slice("L", selector=sm.Exact())
    return sm.sample(model, kernel, 300, 200, 2, seed=1, store=path, **QUIET), path


def test_summaries_leave_them_out(stored):
    trace, path = stored
    for found in (trace, sm.load(path)):
        assert list(found.summary().index) == BELOW
        assert not found.summary().isna().any(axis=None)
        assert [row[0] for row in found.report().summary.rows] == BELOW
    assert trace.to_arviz().posterior["L"].shape == (2, 300, 3, 3)
    assert trace.to_frame().shape[1] == 2 + 9  # draws are whole


def test_diagnostics_leave_them_out(stored):
    trace, _ = stored
    mixing = trace.mixing("L")
    assert (mixing.sites, mixing.looked, mixing.stuck, mixing.held) == (5, 5, 0, 0)
    assert [c.label for c in mixing.components] == BELOW
    assert all(c.ess > 50.0 and c.rhat < 1.1 for c in mixing.components)
    report = trace.report()
    assert report.verdict.converged.startswith(("yes: ", "nearly: "))
    for word in ("never moved", "not known of", "nan", "leaves out"):
        assert word not in str(report)
    assert "L[0,1]" not in trace.to_html()


@sm.kernel(writes="L")
def second_row_alone(rng, state, data):
    """Moves a correlation, and leaves the third row where it is."""
    state.L[1, 0] = 1.2 * rng.random() - 0.6
    state.L[1, 1] = math.sqrt(1.0 - state.L[1, 0] ** 2)


def test_what_stands_still_by_accident_is_still_told_of(model):
    trace = sm.sample(model, second_row_alone, 200, 0, 2, seed=1, **QUIET)
    mixing = trace.mixing("L")
    assert (mixing.stuck, mixing.held, mixing.held_one) == (3, 3, "L[2,0]")
    report = trace.report()
    assert any("L[2,0] never moved in any chain, nor did 2 more" in w for w in report.warnings)
    assert report.verdict.converged.startswith("not known: L[2,0] never moved")
    assert [row[0] for row in report.summary.rows] == BELOW


def test_a_wide_factor_is_looked_at_below_its_diagonal():
    size = 30

    def nothing(state, data, n):
        return 0.0 * data.y[n] * state.L[1, 0]

    wide = sm.Model(
        nothing, {"y": np.zeros(2)}, {"L": np.eye(size)}, constraints={"L": sm.cholesky_corr}
    )
    kernel = sm.Metropolis("L", selector=sm.Exact())
    mixing = sm.sample(wide, kernel, 120, 50, 1, seed=1, **QUIET).mixing("L")
    assert (mixing.sites, mixing.looked, mixing.stuck) == (size * (size + 1) // 2 - 1, 200, 0)
    rows, columns = np.divmod([c.site for c in mixing.components], size)
    assert np.all(columns <= rows) and np.all(rows > 0)


def test_fits_and_priors_and_folds_leave_them_out(model):
    fit = sm.laplace(model, **QUIET)
    assert list(fit.to_frame().index) == BELOW
    assert fit.coordinates.labels == ["L[1,0]", "L[2,0]", "L[2,1]"]
    assert "L[0,0]" not in repr(fit)
    rng = np.random.default_rng(1)
    drawn = np.array([fit.draw(rng)["L"] for _ in range(50)])
    np.testing.assert_allclose((drawn**2).sum(axis=2), 1.0, rtol=1e-12)
    before = sm.prior(model, draws=300, seed=1, **QUIET)
    assert before.mixing("L").sites == 5
    kernel = sm.Slice("L", selector=sm.Exact())
    found = sm.kfold(model, kernel, folds=2, draws=200, chains=2, seed=1, **QUIET)
    assert np.all(found.rhat < 1.1)


def test_plans_count_what_moves(model, stored):
    assert rate_of(stored[0], model) > 0.0


def test_rows_of_a_factor_have_no_other_order(model):
    def mixture(state, data, n):
        return -0.5 * (data.y[n] - state.mu[0]) ** 2 + 0.0 * state.L[1, 0]

    both = sm.Model(
        mixture, {"y": np.zeros(3)}, {"mu": np.arange(3.0), "L": np.eye(3)},
        constraints={"L": sm.cholesky_corr},
    )  # fmt: skip
    kernel = sm.Slice("mu") >> sm.Slice("L")
    trace = sm.sample(both, kernel, 20, 5, 1, seed=1, **QUIET)
    with pytest.raises(ValueError, match="'L' is a Cholesky factor: its rows in another order"):
        trace.relabel(by="mu", blocks=("L",))
    assert np.all(np.diff(trace.relabel(by="mu", blocks=()).draws["mu"]) >= 0.0)
