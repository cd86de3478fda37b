"""Functions that count components which a shorter model does not have are refused."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.padding import check_padding
from subsample_mcmc.runs.store import netcdf


def prior_of_used(state):
    total = -0.5 * state.t[0] ** 2
    return total - 0.5 * (state.t[1] - 4.0) ** 2 if state.q[0] == 1 else total


def prior_of_all(state):
    return -0.5 * state.t[0] ** 2 - 0.5 * (state.t[1] - 4.0) ** 2


def about_even(state):
    total = -0.5 * state.t[0] ** 2
    return total + 3.0 - 0.5 * state.t[1] ** 2 if state.q[0] == 1 else total


def of_used(state, data, n):
    mean = state.t[0] + (state.t[1] * data.x[n] if state.q[0] == 1 else 0.0)
    return -0.5 * (data.y[n] - mean) ** 2


def of_all(state, data, n):
    return -0.5 * (data.y[n] - state.t[0] - state.t[1] * data.x[n]) ** 2


def sometimes_of_all(state, data, n):  # in data of which there are few
    mean = state.t[0] + (state.t[1] * data.x[n] if state.q[0] == 1 or data.x[n] > 2.0 else 0.0)
    return -0.5 * (data.y[n] - mean) ** 2


def model_of(likelihood, prior, constraint=None):
    rng = np.random.default_rng(1)
    return sm.Model(
        likelihood, {"y": rng.normal(size=500), "x": rng.normal(size=500)},
        {"q": 0, "t": [0.5, 0.5]}, prior, support={"q": 2}, lengths={"t": ("q", [1, 2])},
        constraints={} if constraint is None else {"t": constraint},
    )  # fmt: skip


@pytest.mark.plain
@pytest.mark.parametrize("constraint", [None, sm.positive, sm.interval(0.0, 1.0)])
def test_functions_of_what_is_in_use_pass(constraint):
    check_padding(model_of(of_used, prior_of_used, constraint))
    check_padding(sm.models.arch.ARCH(np.random.default_rng(0).normal(size=300)))


@pytest.mark.plain
@pytest.mark.parametrize(("likelihood", "prior", "words"), [
    (of_used, prior_of_all, r"log_prior goes from .* where t\[1\] and those behind it change"),
    (of_all, prior_of_used, "log_likelihood of datum 0 goes from"),
    (sometimes_of_all, prior_of_used, r"log_likelihood of datum \d+ goes from"),
])  # fmt: skip
def test_others_are_refused(likelihood, prior, words):
    with pytest.raises(ValueError, match=words):
        check_padding(model_of(likelihood, prior))


def test_before_anything_is_drawn():
    model = model_of(of_used, prior_of_all)
    fits = [sm.laplace(model, given={"q": k}, progress=False) for k in range(2)]
    kernel = sm.Gibbs("q", pseudo=sm.PseudoPrior(fits)) >> sm.Metropolis("t")
    with pytest.raises(ValueError, match="models would be weighed by what they do not have"):
        sm.sample(model, kernel, draws=10, warmup=10, chains=1, seed=1, progress=False)


# ------------------------------------------------------------------------ what draws do not have
def test_components_that_a_draw_does_not_have_are_no_draws(tmp_path):
    """Their place holds the initial value, whose mean says nothing."""
    model = model_of(of_used, about_even)
    fits = [sm.laplace(model, given={"q": k}, progress=False) for k in range(2)]
    kernel = sm.Gibbs("q", pseudo=sm.PseudoPrior(fits)) >> sm.Metropolis("t")
    with pytest.raises(ValueError, match="q says how long t is: keep it, too"):
        sm.sample(model, kernel, draws=2, warmup=0, chains=1, keep=("t",), progress=False)
    path = tmp_path / "run.nc"
    trace = sm.sample(model, kernel, draws=200, warmup=200, chains=2, seed=1, store=path,
                      progress=False)  # fmt: skip
    some = trace.draws["q"] == 1
    assert 0 < some.sum() < some.size
    assert np.all(trace.draws["t"][~some, 1] == 0.5)  # as the chain has it
    for one in (trace, sm.load(path)):
        shown = one["t"].values[..., 1]
        assert np.array_equal(np.isnan(shown), ~some)
        assert np.isnan(one.to_frame()["t[1]"]).sum() == (~some).sum()
        assert np.isnan(one.to_arviz()["posterior"]["t"].values[..., 1]).sum() == (~some).sum()
        table = one.summary()
        assert table.loc["t[1]", "mean"] == pytest.approx(trace.draws["t"][some, 1].mean())
        assert table.loc["t[1]", "sd"] == pytest.approx(trace.draws["t"][some, 1].std(ddof=1))
        assert table.loc["t[1]"].drop(["mean", "sd"]).isna().all()  # ArviZ had half an interval
        mixing = one.mixing("t")
        assert (mixing.looked, mixing.sites, mixing.slowest) == (1, 2, "t[0]")
        assert any("1 of 2 sites, which all draws have" in note for note in one.report().notes)
        assert "t[1]" in one.to_html()


def without_learning(model):
    fits = [sm.laplace(model, "t", given={"q": k}) for k in range(2)]
    draw = sm.Gibbs("q", sm.Exact(), pseudo=sm.PseudoPrior(fits))
    return draw >> sm.Metropolis("t", adapt=False)


@pytest.mark.parametrize("way", ["stored", "saved"])
def test_files_have_nan_there_and_give_back_what_was_drawn(tmp_path, way):
    """An ArviZ user who opens the file sees no initial values among the draws."""
    xarray = pytest.importorskip("xarray")
    model = model_of(of_used, about_even)
    kernel = without_learning(model)
    path = tmp_path / "run.nc"
    options = {"warmup": 0, "chains": 2, "seed": 1, "progress": False}
    trace = sm.sample(model, kernel, 60, **options, **({"store": path} if way == "stored" else {}))
    if way == "saved":
        trace.save(path)
    with xarray.open_dataset(path, group="posterior", engine="h5netcdf") as file:
        found = file["t"].values
    assert np.array_equal(found, trace.drawn["t"], equal_nan=True)
    assert np.isnan(found).any() and not np.isnan(found[..., 0]).any()
    again = sm.load(path)
    assert np.array_equal(again.draws["t"], trace.draws["t"])  # with what stood there
    longer = sm.resume(path, model, kernel, draws=90, progress=False)
    whole = sm.sample(model, kernel, 90, **options)
    assert np.array_equal(longer.draws["t"], whole.draws["t"])


def test_so_have_files_of_which_not_every_draw_is_kept(tmp_path, monkeypatch):
    """They stand in a group of their own, where initial values were left among the draws."""
    xarray = pytest.importorskip("xarray")
    model = model_of(of_used, about_even)
    kernel = without_learning(model)
    path, keep = tmp_path / "run.nc", {"q": True, "t": 3}
    options = {"warmup": 0, "chains": 2, "seed": 1, "progress": False}
    monkeypatch.setattr(netcdf, "MANY", 400)  # bytes read at a time: parts that 3 does not divide
    trace = sm.sample(model, kernel, 61, keep=keep, store=path, **options)
    whole = sm.sample(model, kernel, 61, **options)
    gone = whole.draws["q"][:, ::3] == 0
    assert 0 < gone.sum() < gone.size
    with xarray.open_dataset(path, group="posterior_every_3", engine="h5netcdf") as file:
        found = file["t"].values
    assert np.array_equal(np.isnan(found[..., 1]), gone)
    assert np.array_equal(found, trace["t"].values, equal_nan=True)
    assert np.array_equal(trace.thinned["t"], whole.draws["t"][:, ::3])  # what stood there
    longer = sm.resume(path, model, kernel, draws=92, progress=False)
    further = sm.sample(model, kernel, 92, **options)
    assert np.array_equal(longer.thinned["t"], further.draws["t"][:, ::3])
