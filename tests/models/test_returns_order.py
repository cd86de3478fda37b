"""Returns whose index says that they are in another order, and other tables that are no such."""

import numpy as np
import pandas as pd
import pytest

import subsample_mcmc as sm

arch, returns, coreference = sm.models.arch, sm.models.returns, sm.models.coreference
VALUES = np.random.default_rng(0).standard_normal(40)


def series(index):
    return pd.Series(VALUES, index=index)


@pytest.mark.parametrize("index", [
    pd.bdate_range("2005-01-03", periods=40), pd.period_range("2005-01", periods=40, freq="M"),
    pd.timedelta_range("0s", periods=40, freq="5min"),
])  # fmt: skip
def test_newest_first_is_refused(index):
    """Backwards and shuffled they were taken by position: the order of a model is one of time."""
    given = series(index)
    assert np.array_equal(returns.checked_returns(given), VALUES)
    for other in (given[::-1], given.sample(frac=1.0, random_state=0)):
        for made in (arch.ARCH, returns.standardised):
            with pytest.raises(ValueError, match=r"comes after .*sort_index\(\)"):
                made(other)
        assert np.array_equal(returns.checked_returns(other.to_numpy()), other.to_numpy())
        assert np.array_equal(returns.checked_returns(other.sort_index()), VALUES)


def test_indices_that_say_nothing_of_time_are_let_be():
    sort = np.arange(40)[::-1]  # of a table that was sorted by its dates
    for index in ([f"{k % 7}" for k in range(40)], sort, np.arange(40) % 5, sort / 40.0):
        assert np.array_equal(returns.checked_returns(series(index)), VALUES)
    dates = pd.bdate_range("2005-01-03", periods=40)
    unknown = series(dates.where(np.arange(40) != 3))[::-1]
    assert len(returns.checked_returns(unknown)) == 40
    zoned = [t.isoformat() for t in pd.date_range("2005-03-10", periods=40, tz="Europe/Berlin")]
    assert len(returns.checked_returns(series(zoned))) == 40  # across a change of the clock
    with pytest.raises(ValueError, match="comes after"):
        returns.checked_returns(series(zoned)[::-1])
    firms = [str(9_000 - 37 * k) for k in range(40)]  # no years
    assert len(returns.checked_returns(series(firms))) == 40
    several = pd.MultiIndex.from_arrays([dates[::-1], np.arange(40)])
    assert len(returns.checked_returns(series(several))) == 40
    for text in (dates.strftime("%Y-%m-%d"), pd.Index(list(dates.date), dtype=object)):
        assert len(returns.checked_returns(series(text))) == 40
        with pytest.raises(ValueError, match="comes after"):
            returns.checked_returns(series(text)[::-1])
    standard = returns.standardised(VALUES)
    assert np.array_equal(returns.checked_returns(standard), standard.values)


def test_years_of_mentions_are_years():
    """Dates were all unknown, without a word."""
    frame = coreference.simulate(60, seed=1)
    known = frame["year"].notna().to_numpy()
    plain = coreference.Mentions(frame)
    dated = frame.assign(year=pd.to_datetime(frame["year"].astype("string"), format="%Y"))
    capital = frame.rename(columns={"year": "Year", "title": "Title"})
    days = pd.Series(list(dated["year"].dt.date), dtype=object).where(known, None)
    blanks = frame["year"].astype("string").fillna(" ")
    for other in (dated, capital, frame.assign(year=days), frame.assign(year=blanks)):
        made = coreference.Mentions(other)
        assert np.array_equal(made.frame["year"].notna().to_numpy(), known)
        assert all(
            np.array_equal(a, b) for a, b in zip(made.data, plain.data, strict=True)
            if isinstance(a, np.ndarray)
        )  # fmt: skip
    with pytest.raises(ValueError, match=r"the year of mention 0.*is '1991-06-01'"):
        coreference.Mentions(frame.assign(year="1991-06-01"))
    periods = frame.assign(year=pd.PeriodIndex(["1990", None] * 30, freq="Y"))
    assert coreference.Mentions(periods).frame["year"].isna().sum() == 30
    coreference.Mentions(
        pd.concat([frame.assign(note=1), pd.DataFrame({"note": [2] * 60})], axis=1)
    )
    with pytest.raises(ValueError, match="two columns 'year'"):
        coreference.Mentions(pd.concat([frame, frame[["year"]]], axis=1))
    several = frame.assign(authors=[["A. One", "B. Two"]] * len(frame))
    with pytest.raises(TypeError, match=r"'authors' holds .* a list: give one text"):
        coreference.Mentions(several)


def test_labels_in_another_order_are_refused():
    truth = pd.Series([0, 0, 1, 1, 2])
    labels = pd.Series([5, 5, 6, 6, 7])
    assert coreference.b_cubed(labels, truth).f1 == 1.0
    with pytest.raises(ValueError, match="the same rows in another order"):
        coreference.b_cubed(labels.sort_index(ascending=False), truth)
    with pytest.raises(ValueError, match="the same rows in another order"):
        coreference.pairwise(labels, truth[::-1])


def test_numbers_that_are_none_for_each_datum_are_named():
    x, y = np.ones((5, 1)), np.arange(5)
    with pytest.raises(ValueError, match=r"exposure=2.0: give one number for each datum"):
        sm.models.glm.poisson(x, y, exposure=2.0)
    with pytest.raises(ValueError, match="arms="):
        sm.identify(
            lambda arm, rng: 0.0, np.array([0.1, 0.2]), sm.Racing(sm.Normal(paired=False)), seed=1
        )


def test_arms_with_rows_of_their_own_have_a_default():
    rng = np.random.default_rng(0)
    rows = [rng.normal(mean, 1.0, 3_000) for mean in (0.0, 0.5, 0.1)]
    assert sm.choose(rows, seed=1).arm == 1
    assert sm.choose([list(one) for one in rows], seed=1).arm == 1
    with pytest.raises(ValueError, match=r"sm.Racing\(sm.Normal\(paired=False\)\)"):
        sm.choose(rows, selector=sm.Racing(), seed=1)
