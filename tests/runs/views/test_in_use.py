"""Blocks that vary in length: tables, containers and files are of the components in use."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.views.short_summary import short_summary
from subsample_mcmc.style import significant


def of_used(state, data, n):
    mean = state.t[0] + (state.t[1] * data.x[n] if state.q[0] == 1 else 0.0)
    return -0.5 * (data.y[n] - mean) ** 2


@sm.kernel(writes=("q", "t"))
def fresh(rng, state, data):
    """Draws that are far from what stands in a component that is not in use."""
    state.q[0] = 1 if rng.random() < 0.5 else 0
    state.t[0], state.t[1] = rng.standard_normal(), 0.5
    if state.q[0] == 1:
        state.t[1] = 5.0 + rng.standard_normal()


@sm.kernel(writes=("q", "t"))
def untidy(rng, state, data):
    """Leaves something else in what is not in use, every other time."""
    state.q[0] = 1 if rng.random() < 0.5 else 0
    state.t[0] = rng.standard_normal()
    if state.q[0] == 1 or rng.random() < 0.5:
        state.t[1] = rng.standard_normal()


def padded(kernel=fresh, **more):
    model = sm.Model(
        of_used, {"y": np.zeros(5), "x": np.ones(5)}, {"q": 0, "t": [0.5, 0.5]},
        support={"q": 2}, lengths={"t": ("q", [1, 2])},
    )  # fmt: skip
    return sm.sample(
        model, kernel, draws=31, warmup=0, chains=2, seed=1, progress=False, **more
    )  # fmt: skip


def test_both_summaries_are_of_components_in_use():
    trace = padded()
    values = trace.draws["t"][..., 1][trace.draws["q"] == 1]
    assert 5 < values.size < 55
    shown = short_summary(trace, {"t": trace.mixing("t")}).rows[1]
    assert shown[:3] == ["t[1]", significant(values.mean()), significant(values.std(ddof=1))]
    row = trace.summary("t").loc["t[1]"]
    assert row["mean"] == pytest.approx(values.mean(), rel=1e-12)
    assert row["sd"] == pytest.approx(values.std(ddof=1), rel=1e-12)


@pytest.mark.parametrize("thin", [1, 2, 3, 6])
def test_kept_draws_of_a_thinned_container_are_all_that_are_in_both(thin):
    found = padded(keep={"q": True, "t": 6}).to_arviz(thin=thin)["posterior_every_6"]
    assert found["draw"].values.tolist() == [0, 6, 12, 18, 24, 30]


@pytest.mark.parametrize("keep", [None, {"q": True, "t": 3}], ids=["all", "some"])
def test_files_have_what_was_drawn_in_components_not_in_use(keep, tmp_path):
    drawn, path = padded(untidy, keep=keep), tmp_path / "run.nc"
    for found in (padded(untidy, keep=keep, store=path), sm.load(path)):
        for name, values in {**drawn.draws, **drawn.thinned}.items():
            mine = found.draws[name] if name in drawn.draws else found.thinned[name]
            np.testing.assert_array_equal(mine, values)
