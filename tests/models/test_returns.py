"""Bars to returns: what is read, dropped, rescaled and refused, with its times."""

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from subsample_mcmc.models.arch import ARCH
from subsample_mcmc.models.returns import (
    checked_returns,
    log_returns,
    read_bars,
    standardised,
)

NIFTY = Path(__file__).resolve().parents[3] / "shared" / "data" / "nifty50_intraday"
LINES = [
    "datetime,open,close",
    "2016-01-04 09:20,1,100.0",
    "2016-01-04 09:25,1,101.0",
    "2016-01-04 09:30,1,100.5",
    "2016-01-05 09:20,1,104.0",
    "2016-01-05 09:25,1,103.0",
    "2016-01-05 09:35,1,103.5",
]
CLOSE = np.array([100.0, 101.0, 100.5, 104.0, 103.0, 103.5])
ALL = np.diff(np.log(CLOSE))


def written(path, lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def bars(tmp_path):
    return read_bars(written(tmp_path / "bars.csv", LINES))


# --------------------------------------------------------------------------------------- bars
def test_bars_are_read(bars):
    assert list(bars.columns) == ["time", "close"]
    np.testing.assert_array_equal(bars["close"], CLOSE)
    assert bars["time"].iloc[-1] == pd.Timestamp("2016-01-05 09:35")


def test_compressed_bars_of_two_columns_of_time(tmp_path, bars):
    lines = ["Close , DATE,time", *(f"{x.split(',')[2]},{x[:10]},{x[11:16]}" for x in LINES[1:])]
    path = tmp_path / "bars.csv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n\n")  # an empty line at the end is no bar
    pd.testing.assert_frame_equal(read_bars(path), bars)


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (0, "date,open,close", r"columns \['date', 'open', 'close'\]: give `datetime`"),
        (0, "datetime,open,last", "`close`, named in the first line"),
        (2, "2016-01-04 09:25,1,n/a", "2016-01-04 09:25:00: missing, not a number"),
        (2, "2016-01-04 09:25,1,12x", "2016-01-04 09:25:00: missing, not a number"),
        (2, "2016-01-04 09:25,1,", "2016-01-04 09:25:00: missing, not a number"),
        (3, "2016-01-04 09:30,1,-1.0", "2016-01-04 09:30:00: .* not positive: 1 of 6 prices"),
        (3, "2016-01-04 09:30,1,0.0", "not positive"),
        (3, "2016-01-04 09:30,1,inf", "not a number"),
        (3, "2016-01-04 09:25,1,100.0", r"2016-01-04 09:25:00: repeats .*\(1 bars\)"),
        (3, "2016-01-04 09:10,1,100.0", "2016-01-04 09:10:00: .* or precedes it"),
        (3, "yesterday,1,100.0", "line 4: 'yesterday' is no time"),
        (1, "yesterday,1,100.0", "'yesterday' is no time"),
        (3, ",1,100.0", "line 4: nan is no time"),
    ],
)
def test_refused_bars(tmp_path, line, text, message):
    lines = LINES.copy()
    lines[line] = text
    with pytest.raises(ValueError, match=message):
        read_bars(written(tmp_path / "bars.csv", lines))


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("%y%m%d %H:%M", "'160104 09:20' is no time"),  # pandas takes it for 2004-01-16
        ("%H:%M", "'09:20' is no time"),  # of today
        ("%d/%m/%y %H:%M", "'04/01/16 09:20' has a year of two digits"),
        ("%H:%M %d/%m/%y", "'09:20 04/01/16' has a year of two digits"),
        ("%d/%m/%Y %H:%M", "'04/01/2016 09:20' no row tells whether the day"),
        ("%d %m %Y %H:%M", "'04 01 2016 09:20' no row tells whether the day"),
        ("%H:%M %d.%m.%Y", "'09:20 04.01.2016' no row tells whether the day"),
        ("%a %d/%m/%Y %H:%M", "'Mon 04/01/2016 09:20' no row tells whether the day"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(tmp_path, bars, form, message):
    """In a file, in times, and in an index."""
    times = bars["time"].dt.strftime(form)
    lines = [LINES[0], *(f"{time},1,{x}" for time, x in zip(times, CLOSE, strict=True))]
    with pytest.raises(ValueError, match=rf"bars\.csv line 2: .*{message}"):
        read_bars(written(tmp_path / "bars.csv", lines))
    with pytest.raises(ValueError, match=f"times, row 0: .*{message}"):
        log_returns(CLOSE, times)
    if "is no time" not in message:
        with pytest.raises(ValueError, match=f"times, row 0: .*{message}"):
            log_returns(pd.Series(CLOSE, index=times))


@pytest.mark.parametrize("form", [
    "%Y-%m-%d %H:%M", "%Y/%m/%d %H:%M", "%Y %m %d %H:%M", "%Y%m%d %H%M", "%Y%m%d %H%M%S",
    "%Y-%m-%dT%H:%M:%S", "%d-%b-%Y %H:%M", "%d %B %Y %H:%M", "%d-%b-%y %H:%M", "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M", "%H:%M %d/%m/%Y", "%d %m %Y %H:%M",
])  # fmt: skip
def test_what_can_be_read_in_one_way_is_read(tmp_path, bars, form):
    """In a file, in times, and in an index; of the 14th of a month, where a row must tell."""
    stamps = bars["time"] + pd.Timedelta(days=10)
    times = stamps.dt.strftime(form)
    lines = [LINES[0], *(f'"{time}",1,{x}' for time, x in zip(times, CLOSE, strict=True))]
    assert read_bars(written(tmp_path / "bars.csv", lines))["time"].tolist() == stamps.tolist()
    known = log_returns(bars)
    for found in (log_returns(CLOSE, times), log_returns(pd.Series(CLOSE, index=times))):
        assert found.times.tolist() == [stamps[k] for k in (1, 2, 4, 5)]
        np.testing.assert_array_equal(found.values, known.values)


def test_many_wrong_prices_are_abridged(tmp_path):
    lines = [line.rsplit(",", 1)[0] + ",0" for line in LINES[1:]]
    with pytest.raises(ValueError, match=r"09:25:00, \.\.\.: .* 6 of 6 prices"):
        read_bars(written(tmp_path / "bars.csv", [LINES[0], *lines]))


# ------------------------------------------------------------------------------------ returns
def test_overnight_returns_are_dropped(bars):
    found = log_returns(bars)
    np.testing.assert_array_equal(found.values, ALL[[0, 1, 3, 4]])
    np.testing.assert_array_equal(np.asarray(found), found.values)
    assert len(found) == 4 and found.overnight == 1 and len(found.times) == 4
    assert "1 overnight returns dropped" in str(found) and "1 gaps within days" in str(found)
    gap = found.gaps.iloc[0]
    assert (gap["after"].minute, gap["before"].minute) == (25, 35)


def test_overnight_returns_are_rescaled(bars):
    found = log_returns(bars, overnight="rescale")
    day = np.mean(ALL[[0, 1, 3, 4]] ** 2)
    assert found.values[2] ** 2 == pytest.approx(day) and found.values[2] > 0.0
    np.testing.assert_array_equal(found.values[[0, 1, 3, 4]], ALL[[0, 1, 3, 4]])
    assert found.scale == pytest.approx(np.sqrt(day) / ALL[2])
    assert "multiplied by" in str(found)


def test_overnight_returns_are_kept(bars):
    found = log_returns(bars, overnight="keep")
    np.testing.assert_array_equal(found.values, ALL)
    assert "kept as they are" in str(found)


def test_prices_without_times():
    found = log_returns(CLOSE)
    np.testing.assert_array_equal(found.values, ALL)
    assert "without times" in str(found)


def test_prices_with_times(bars):
    found = log_returns(CLOSE, times=bars["time"])
    np.testing.assert_array_equal(found.values, log_returns(bars).values)


def test_daily_prices():
    times = pd.date_range("2016-01-01", periods=len(CLOSE))
    with pytest.raises(ValueError, match=r'each of 6 bars is of another day.*overnight="keep"'):
        log_returns(CLOSE, times)
    np.testing.assert_array_equal(log_returns(CLOSE, times, overnight="keep").values, ALL)


@pytest.mark.parametrize(
    ("prices", "options", "message"),
    [
        (CLOSE, {"overnight": "ignore"}, "overnight='ignore': give one of drop, rescale, keep"),
        (CLOSE[:1], {}, "give a series of two or more"),
        (-CLOSE, {}, r"row 0, row 1, .*not positive"),
        (CLOSE, {"times": pd.date_range("2016", periods=3)}, "3 times for 6 prices"),
        (CLOSE, {"times": [*pd.date_range("2016", periods=5), pd.NaT]}, "row 5 has no time"),
    ],
)
def test_refused_prices(prices, options, message):
    with pytest.raises(ValueError, match=message):
        log_returns(prices, **options)


def test_stamps_of_a_series_are_its_times(bars):
    """Of any time zone; days are its own."""
    series = pd.Series(CLOSE, index=pd.DatetimeIndex(bars["time"]))
    for given in (series, series.tz_localize("America/New_York")):
        np.testing.assert_array_equal(log_returns(given).values, log_returns(bars).values)


def kinds_of_index(stamps):
    """What says the same times."""
    days = stamps.normalize() + pd.to_timedelta(np.arange(len(stamps)), "D")
    return {
        "stamps": days, "text": days.strftime("%Y-%m-%d"), "dates": pd.Index(list(days.date)),
        "periods": days.to_period("D"), "slashes": days.strftime("%Y/%m/%d"),
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["stamps", "text", "dates", "periods", "slashes"])
def test_newest_first_is_refused(bars, kind):
    """Of text, dates and periods it was taken by position: minus the returns, from the last on."""
    series = pd.Series(CLOSE, index=kinds_of_index(pd.DatetimeIndex(bars["time"]))[kind])
    found = log_returns(series, overnight="keep")
    np.testing.assert_array_equal(found.values, ALL)
    assert found.times[-1] == pd.Timestamp("2016-01-10") and found.overnight == 5
    with pytest.raises(ValueError, match=r"2016-01-09 .*or precedes it"):
        log_returns(series[::-1], overnight="keep")
    with pytest.raises(ValueError, match=r"2016-01-09 .*or precedes it"):
        log_returns(CLOSE[::-1], series.index[::-1], overnight="keep")
    with pytest.raises(ValueError, match="comes after"):
        standardised(series[::-1].pct_change().dropna())


def test_an_index_that_says_no_times_is_let_be():
    for index in (list("abcdef"), [6, 5, 4, 3, 2, 1], [str(9_000 - k) for k in range(6)],
                  ["10/12", "9/12", "8/12", "7/12", "6/12", "5/12"]):  # fmt: skip
        found = log_returns(pd.Series(CLOSE, index=index))
        assert found.times is None
        np.testing.assert_array_equal(found.values, ALL)


def test_times_of_other_rows_are_refused(bars):
    shuffled = bars.sample(frac=1.0, random_state=1)
    with pytest.raises(ValueError, match=r"times has other row labels than prices.*another order"):
        log_returns(shuffled["close"], times=bars["time"])
    found = log_returns(shuffled["close"].sort_index(), times=bars["time"])
    np.testing.assert_array_equal(found.values, log_returns(bars).values)


def test_what_says_no_time_is_refused(bars):
    stamps = pd.DatetimeIndex(bars["time"])
    with pytest.raises(TypeError, match=r"times are numbers: give stamps, pd\.to_datetime"):
        log_returns(CLOSE, stamps.astype(np.int64) // 10**9)
    with pytest.raises(ValueError, match='overnight="rescale" needs times'):
        log_returns(CLOSE, overnight="rescale")
    with pytest.raises(ValueError, match="bars has no column 'time', but"):
        log_returns(pd.DataFrame({"close": CLOSE}))
    with pytest.raises(ValueError, match="data prices is a masked array with 1 missing value"):
        log_returns(np.ma.masked_array(CLOSE, mask=np.arange(len(CLOSE)) == 2))


def test_columns_of_one_name_are_refused(tmp_path):
    (tmp_path / "bars.csv").write_text("datetime,close,Close\n2016-01-04 09:20,1.0,2.0\n")
    with pytest.raises(ValueError, match="has 2 columns 'close': keep one"):
        read_bars(tmp_path / "bars.csv")


def test_standardised(rng):
    x = 3.0 + 2.0 * rng.standard_normal(500)
    values, mean, sd = standardised(x)
    assert (mean, sd) == (x.mean(), x.std())
    assert values.mean() == pytest.approx(0.0, abs=1e-14) and values.std() == pytest.approx(1.0)
    np.testing.assert_allclose(values * sd + mean, x)
    np.testing.assert_array_equal(checked_returns(pd.Series(x)), x)


@pytest.mark.parametrize(
    ("returns", "message"),
    [
        (CLOSE, "look like prices"),
        ([0.0, 1.0, np.nan], r"returns\[2\] is nan"),
        ([1.0, 1.0, 1.0], "nothing to model"),
        ([0.0] * 5 + [1.0] * 5 + [-1.0], "45% of the returns are exactly 0"),
        ([[1.0, 2.0]], "give one series"),
        ([], "give one series"),
    ],
)
def test_standardised_refuses(returns, message):
    with pytest.raises(ValueError, match=message):
        standardised(returns)


# ----------------------------------------------------------------------------------- real data
@pytest.mark.skipif(not NIFTY.exists(), reason=f"the NIFTY bars are not at {NIFTY}")
def test_nifty_bars_of_2016():
    bars = read_bars(NIFTY / "nifty50_5min_2013-01_2016-09.csv.gz")
    assert len(bars) == 69_113 and len(log_returns(bars)) == 68_191
    returns = log_returns(bars[bars["time"] >= "2016"])
    assert len(returns) == 13_672 and len(returns.gaps) == 0
    values, _, _ = standardised(returns)
    assert np.mean(values**4) == pytest.approx(12.2, abs=0.05)
    x = values**2 - 1.0
    for lag, wanted in [(1, 0.307), (5, 0.291), (30, 0.048)]:
        assert np.mean(x[lag:] * x[:-lag]) / np.mean(x * x) == pytest.approx(wanted, abs=2e-3)
    assert ARCH(values).size == 13_642


@pytest.mark.parametrize("first", ["2026-10-31", "2026-03-07"], ids=["set back", "set forward"])
def test_a_clock_that_is_set_anew_makes_no_gap_and_no_repetition(first):
    """An hour that came twice was "double", and to be dropped; one that is skipped was a gap."""
    hours = pd.date_range(first, periods=72, freq="h", tz="UTC")
    prices = 100.0 + np.sin(np.arange(72.0))
    known = log_returns(pd.Series(prices, index=hours), overnight="keep")
    local = pd.Series(prices, index=hours.tz_convert("US/Eastern"))
    found = log_returns(local, overnight="keep")
    assert np.array_equal(found.values, known.values) and len(found.gaps) == 0
    assert str(found.times[0]) == str(local.index[1].tz_localize(None))
    missing = log_returns(local.drop(local.index[40]), overnight="keep")
    assert len(missing.gaps) == 1
    double = pd.concat([local.iloc[:30], local.iloc[29:]])
    with pytest.raises(ValueError, match="repeats the time before it, or precedes it"):
        log_returns(double, overnight="keep")


def test_a_day_without_midnight_is_one():
    hours = pd.date_range("2018-11-03", periods=96, freq="h", tz="UTC")
    local = pd.Series(100.0 + np.sin(np.arange(96.0)), index=hours.tz_convert("America/Sao_Paulo"))
    found = log_returns(local, overnight="keep")
    assert len(found) == 95 and found.overnight == 4 and len(found.gaps) == 0


@pytest.mark.parametrize(("stamps", "words"), [
    (["04/01/2016 09:20", "05/01/2016 09:20"], "whether the day or the month comes first"),
    (["4.1.2016 09:20", "5.1.2016 09:20"], "whether the day or the month comes first"),
    (["10/12/15 09:20", "13/12/15 09:20"], r"line 2: '10/12/15 09:20' has a year of two digits"),
    (["2015-12-10 09:20", "11.12.15 09:20"], r"line 3: '11.12.15 09:20' has a year of two digits"),
    (["2016-03-27 01:00:00+01:00", "2016-03-27 03:00:00+02:00"], "convert them to the time zone"),
])  # fmt: skip
def test_stamps_that_may_be_read_in_two_ways_are_refused(tmp_path, stamps, words):
    path = tmp_path / "bars.csv"
    path.write_text("datetime,close\n" + "".join(f"{s},{100 + i}\n" for i, s in enumerate(stamps)))
    with pytest.raises(ValueError, match=words):
        read_bars(path)


@pytest.mark.parametrize("stamps", [
    ["01/01/2016 09:20", "01/01/2016 09:21"],  # the same in either order
    ["14/01/2016 09:20", "15/01/2016 09:20"],
    ["01/14/2016 09:20", "01/15/2016 09:20"],
    ["04/01/2016 09:20", "05/01/2016 09:20", "13/01/2016 09:20"],
    ["01/04/2016 09:20", "01/05/2016 09:20", "01/13/2016 09:20"],
])  # fmt: skip
def test_stamps_that_one_row_makes_clear_are_read(tmp_path, stamps):
    path = tmp_path / "bars.csv"
    path.write_text("datetime,close\n" + "".join(f"{s},{100 + i}\n" for i, s in enumerate(stamps)))
    assert set(read_bars(path).time.dt.month) == {1}
