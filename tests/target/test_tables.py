"""Tables of any length beside the data: read, checked, hashed, kept, resumed, sent."""

import pickle

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.backends import pickled

N, SHOPS = 3_000, 5
RNG = np.random.default_rng(0)
SHOP, SOLD = RNG.integers(0, SHOPS, N), RNG.poisson(3.0, N)
SHOP[[0, -1]] = 0  # these data are tried as the model is made
PRICE = np.array([0.5, 1.0, 1.5, 2.0, 3.0])
WEATHER = RNG.standard_normal((7, 2))


def sales(state, data, n):
    eta = state.level[0] + state.slope[0] * data.price[data.shop[n]]
    return data.sold[n] * eta - sm.exp(eta)


def by_column(state, data, n):
    eta = state.level[0] + state.slope[0] * data.price[n]
    return data.sold[n] * eta - sm.exp(eta)


def with_weather(state, data, n):
    return sales(state, data, n) - 0.0 * data.weather[data.shop[n] + 2, 1]


def prior(state):
    return -0.5 * (state.level[0] ** 2 + state.slope[0] ** 2)


def model(function=sales, tables=None, **more):
    data = {"sold": SOLD, "shop": SHOP} | more
    tables = {"price": PRICE} if tables is None else tables
    return sm.Model(function, data, {"level": 0.0, "slope": 0.1}, prior, tables=tables)


def columns():
    return sm.Model(
        by_column, {"sold": SOLD, "price": PRICE[SHOP]}, {"level": 0.0, "slope": 0.1}, prior
    )


def drawn(made, selector=None, **more):
    kernel = sm.Metropolis(("level", "slope"), 0.02, selector=selector or sm.Exact())
    return sm.sample(made, kernel, 60, 40, chains=1, seed=1, progress=False, **more)


def by_site(state, data, n):
    return -0.5 * (data.y[n] - state.a[data.g[n]]) ** 2


def test_a_table_says_no_site_of_a_datum():
    """Also where it has as many rows as the data."""
    y, g = RNG.standard_normal(6), np.array([0, 1, 0, 1, 0, 1])
    told = r"touches\['a'\]: column 'g' is an array of tables=.*give it among the data"
    for touches in ({"a": "g"}, {"a": ("g", "h")}):
        with pytest.raises(ValueError, match=told):
            sm.Model(by_site, {"y": y, "h": g}, {"a": np.zeros(2)}, touches=touches,
                     tables={"g": g})  # fmt: skip
    assert sm.Model(by_site, {"y": y, "g": g}, {"a": np.zeros(2)}, touches={"a": "g"}).size == 6


def test_draws_are_those_of_a_column_looked_up_before():
    made, same = model(), columns()
    assert made.size == same.size == N and made.tables == ("price",) and same.tables == ()
    for selector in (sm.Exact(), sm.Racing(batch=64)):
        first, second = drawn(made, selector), drawn(same, selector)
        assert np.array_equal(first.draws["slope"], second.draws["slope"])
    fits = [sm.laplace(m, progress=False) for m in (made, same)]
    np.testing.assert_allclose(fits[0].mean, fits[1].mean, rtol=1e-9)
    kernel = sm.Metropolis(("level", "slope"), proposal=sm.pcn(fits[0]), control=sm.Taylor(fits[0]))
    trace = sm.sample(made, kernel, 50, 0, chains=1, seed=1, progress=False)
    assert trace.stats["level+slope"]["pulls"].sum() < 50 * N


def test_tables_longer_than_the_data_and_of_two_axes():
    made = model(with_weather, {"price": np.tile(PRICE, 2_000), "weather": WEATHER})
    assert np.array_equal(drawn(made).draws["slope"], drawn(columns()).draws["slope"])


@pytest.mark.parametrize(("function", "tables", "words"), [
    (sales, {"price": PRICE[:4]}, 'table "price"'),
    (by_column, {"price": np.ones(N - 1)}, "out of bounds"),
    (with_weather, {"price": PRICE, "weather": WEATHER[:6]}, 'table "weather"'),
])  # fmt: skip
def test_look_ups_beyond_a_table_are_refused(function, tables, words):
    with pytest.raises(IndexError, match=words):
        drawn(model(function, tables))
    with pytest.raises(IndexError, match=words):
        sm.laplace(model(function, tables), progress=False)


def test_they_are_part_of_what_must_be_equal(tmp_path):
    made = model()
    assert "data price" in made.fingerprints()
    other = model(tables={"price": PRICE * 1.1})
    assert made.fingerprints() != other.fingerprints()
    again = pickle.loads(pickled(made))
    assert again.fingerprints() == made.fingerprints() and again.tables == ("price",)
    whole, kernel = drawn(made), sm.Metropolis(("level", "slope"), 0.02, selector=sm.Exact())
    sm.sample(made, kernel, 30, 40, chains=1, seed=1, progress=False, store=tmp_path / "a")
    resumed = sm.resume(tmp_path / "a", model(), kernel, draws=60, progress=False)
    assert np.array_equal(resumed.draws["slope"], whole.draws["slope"])
    with pytest.raises(ValueError, match="data price"):
        sm.resume(tmp_path / "a", other, kernel, draws=90, progress=False)


def test_a_table_that_was_changed_is_noticed():
    prices = PRICE.copy()
    made = model(tables={"price": prices})
    fit = sm.laplace(made, progress=False)
    prices *= 2.0
    again = sm.laplace(made, progress=False)
    assert again.state["slope"] == pytest.approx(0.5 * fit.state["slope"], abs=0.02)


@pytest.mark.parametrize(("tables", "error", "words"), [
    ([PRICE], TypeError, "tables=.*give a dict of arrays"),
    ({"shop": PRICE}, ValueError, "'shop' is among the data, too"),
    ({"price": 3.0}, TypeError, "price is 3.0: numbers are data"),
    ({"price": np.array([1.0, np.nan, 2.0])}, ValueError, "price has 1 missing value"),
    ({"price": np.zeros((0, 2))}, ValueError, r"price has shape \(0, 2\)"),
])  # fmt: skip
def test_bad_tables_are_refused(tables, error, words):
    with pytest.raises(error, match=words):
        model(tables=tables)


def test_what_does_not_serve_them_says_so():
    with pytest.raises(ValueError, match=r"they must share their first axis.*tables="):
        sm.Model(sales, {"sold": SOLD, "shop": SHOP, "price": PRICE}, {"level": 0.0, "slope": 0.0})
    kernel = sm.Metropolis("slope", control=sm.Bins()) >> sm.Metropolis("level")
    with pytest.raises(ValueError, match="Bins does not serve models with tables, price"):
        sm.sample(model(), kernel, 5, 5, chains=1, progress=False)


def buyers(rng, state, data, n):
    eta = state.level[0] + state.slope[0] * data.price[data.shop[n]]
    return float(rng.poisson(np.exp(eta)))


def test_predictions_of_the_same_data_read_them():
    trace = drawn(model())
    said = sm.predict(model(), trace, buyers, observed=SOLD, seed=1, progress=False)
    again = sm.predict(
        columns(), drawn(columns()),
        lambda rng, s, d, n: float(rng.poisson(np.exp(s.level[0] + s.slope[0] * d.price[n]))),
        observed=SOLD, seed=1, progress=False,
    )  # fmt: skip
    assert np.array_equal(said.values[""], again.values[""])


def test_without_some_rows_tables_stay():
    made, rows = model(), np.arange(10, 400)
    left = made.without(rows)
    assert left.size == N - 390 and left.tables == ("price",)
    assert np.array_equal(left.data.price, PRICE)
    kept = np.delete(np.arange(N), rows)
    same = sm.Model(
        by_column, {"sold": SOLD[kept], "price": PRICE[SHOP][kept]}, {"level": 0.0, "slope": 0.1},
        prior,
    )  # fmt: skip
    assert np.array_equal(drawn(left).draws["slope"], drawn(same).draws["slope"])
