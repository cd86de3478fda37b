"""What is said of predicted data beside those observed: of one kind, and only where both are."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.views.predictions import share_not_less


def log_likelihood(state, data, n):
    return data.y[n] * sm.log(state.rate[0]) - state.rate[0]


def simulate(rng, state, data, n):
    return rng.poisson(state.rate[0])


def counts(kind):
    y = np.random.default_rng(0).poisson(100.0, 200)
    return sm.Model(
        log_likelihood, {"y": y.astype(kind)}, {"rate": [100.0]},
        constraints={"rate": sm.positive}, simulate=simulate,
    )  # fmt: skip


def made_of(model, **more):
    kernel = sm.Slice("rate", selector=sm.Exact())
    trace = sm.sample(model, kernel, 100, 50, chains=2, seed=1, progress=False)
    return trace, sm.predict(model, trace, progress=False, **more)


SQUARES = {
    "square": lambda y: np.mean(y**2),
    "steps": lambda y: np.mean(np.abs(np.diff(y))),
    "lowest": lambda y: np.max(-y),
}


@pytest.mark.parametrize("kind", [np.uint8, np.int16])
def test_statistics_of_short_integers_are_those_of_numbers(kind):
    """100 ** 2 is 16 in eight bits, and 3 - 4 is 255: P(>= observed) was 1 and 0."""
    model = counts(kind)
    y = np.asarray(model.data.y, dtype=float)
    table = made_of(model, statistics=SQUARES, seed=2)[1].summary()
    for name, statistic in SQUARES.items():
        assert table.loc[name, "observed"] == statistic(y)
        assert 0.001 < table.loc[name, "P(>= observed)"] < 0.999
    whole = made_of(model, seed=2)[1]
    assert whole.to_arviz()["observed_data"]["y"].dtype == kind  # as they were given


def test_what_is_no_number_is_not_less_than_anything():
    model = counts(float)
    observed = np.asarray(model.data.y).copy()
    observed[3] = np.nan
    plt = pytest.importorskip("matplotlib.pyplot")
    said = made_of(model, statistics={"mean": np.mean}, observed=observed, seed=2)[1]
    assert np.isnan(said.summary().loc["mean", "P(>= observed)"])
    (panel,) = said.plot()
    (text,) = panel.get_legend().get_texts()
    assert text.get_text() == "observed: nan"
    plt.close("all")
    assert np.isnan(share_not_less(np.array([1.0, np.nan]), 0.5))
    assert share_not_less(np.array([1.0, 2.0, 3.0, 4.0]), 3.0) == 0.5


def test_predictions_share_no_stream_with_chains_of_the_same_seed():
    """A chain's streams are the children of its own: draw i of chain c was child i of these."""

    def first(rng, state, data, n):
        return rng.random()

    trace, said = made_of(counts(float), simulate=first, seed=1)
    drawn = said.values[""][:, :, 0].ravel()
    root = int(trace.meta["seed"])
    for chain in range(2):
        own = np.random.SeedSequence(root, spawn_key=(chain,))
        theirs = [np.random.default_rng(s).random() for s in (own, *own.spawn(100))]
        assert not np.isin(theirs, drawn).any()
    at = np.random.SeedSequence(root, spawn_key=(2**32 - 2, 0, 0))
    assert np.random.default_rng(at).random() == drawn[0]


def test_new_data_do_not_have_the_labels_of_those_observed():
    x = np.arange(6.0)
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.a[0] * data.x[n]) ** 2,
        {"y": x, "x": x}, {"a": 1.0}, coords={"obs": list("abcdef")},
        simulate=lambda rng, state, data, n: state.a[0] * data.x[n] + rng.standard_normal(),
    )  # fmt: skip
    drawn = sm.sample(model, sm.Slice("a"), draws=20, warmup=20, chains=1, seed=1, progress=False)
    old = sm.predict(model, drawn, seed=2, progress=False).dataset
    new = sm.predict(model, drawn, data={"x": x + 1.0}, seed=2, progress=False).dataset
    assert old.coords["obs"].values.tolist() == list("abcdef")
    assert new.coords["obs"].values.tolist() == list(range(6))
