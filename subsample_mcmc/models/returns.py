"""From bars to returns, in steps that one sees: read, take logarithms, standardise.

    bars = sm.models.returns.read_bars("bars.csv.gz")
    returns = sm.models.returns.log_returns(bars, overnight="drop")
    print(returns)                                         # how many were dropped, gaps
    values, mean, sd = sm.models.returns.standardised(returns)
    model = sm.models.arch.ARCH(values)

Nothing is mended here: what is missing, repeated or out of order is refused, with its times.
"""

import datetime
import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from subsample_mcmc.target.data import as_array
from subsample_mcmc.target.population import numeric, read_only
from subsample_mcmc.target.row_labels import refuse_other_order

__all__ = ["Returns", "Standardised", "log_returns", "read_bars", "standardised"]

# Dates in text: day and month before the year; the year first, or without marks; a month by name;
# years and their months alone. Of years of two digits nobody knows where they stand.
DAY_AND_MONTH = (
    r"(?<!\d)(?<!\d[-/.])(?<!\d{4} )(?P<one>\d{1,2})(?P<mark>[-/. ])(?P<other>\d{1,2})(?P=mark)"
    r"\d{4}(?!\d)"
)
DATED = (
    r"(?<!\d)\d{4}[-/. ]\d{1,2}[-/. ]\d{1,2}|(?<!\d)\d{8}(?:\d{4}|\d{6})?(?!\d)"
    r"|(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
)
ALONE = r"^\s*\d{4}(?:-\d{2})?\s*$"
SHORT_YEAR = r"(?<!\d)\d{1,2}[-/.]\d{1,2}[-/.]\d{2}(?!\d)"
TREATMENTS = ("drop", "rescale", "keep")
SHOWN = 5  # times in a message
BULK = 0.3  # of returns that are all the same: prices that mostly do not move


# ----------------------------------------------------------------------------------------- bars
def read_bars(path: str | os.PathLike) -> pd.DataFrame:
    """Bars of a CSV file (gz and the like too) with the columns time and close, in order of time.

    The file has a header; its columns are `datetime`, or `date` and `time`, and `close`, in any
    order and any case. Others are ignored. Stamps are of the bars' ends or their starts, all alike;
    whether 10/12/2015 is in October or in December, a row such as 13/12/2015 must tell.
    Refused, with line numbers or times: what is no time or no number, missing or non-positive
    prices, stamps that repeat or go back. Gaps within a day are no error: log_returns reports them.

    path: of the file.
    """
    header = pd.read_csv(path, nrows=0).columns
    lower = [str(column).strip().lower() for column in header]
    for name in ("datetime", "date", "time", "close"):
        if lower.count(name) > 1:
            raise ValueError(
                f"{os.fspath(path)} has {lower.count(name)} columns {name!r}: keep one."
            )
    names = dict(zip(lower, header, strict=True))
    stamp = ["datetime"] if "datetime" in names else ["date", "time"]
    missing = [name for name in (*stamp, "close") if name not in names]
    if missing:
        raise ValueError(
            f"{os.fspath(path)} has the columns {list(header)}: give `datetime`, or `date` and "
            "`time`, and `close`, named in the first line."
        )
    wanted = [names[name] for name in (*stamp, "close")]
    table = pd.read_csv(path, usecols=wanted, dtype=str, skip_blank_lines=False)
    table = table.dropna(how="all")  # the index still tells the line
    text = table[wanted[0]]
    if len(stamp) > 1:
        text = text + " " + table[wanted[1]]
    times = times_of(text, lambda k: f"{os.fspath(path)} line {k + 2}")
    wrong = times.index[times.isna()]
    if len(wrong):
        raise ValueError(
            f"{os.fspath(path)} line {wrong[0] + 2}: {text[wrong[0]]!r} is no time (and "
            f"{len(wrong) - 1} more such lines): write 2016-01-04 09:20, in one format throughout."
        )
    close = pd.to_numeric(table[wanted[-1]], errors="coerce").astype(float)
    prices_of(close.to_numpy(), pd.DatetimeIndex(times))
    return pd.DataFrame({"time": times, "close": close}).reset_index(drop=True)


def times_of(text: pd.Series, place: Callable[[int], str]) -> pd.Series:
    """Stamps of text, not a time where there is no date; refuses what can be read in two ways.

    place: what a row is called, by its label.
    """
    parts = day_and_month(text)
    dated = parts.notna().all(axis=1) | contains(text, f"{DATED}|{ALONE}")
    short = contains(text, SHORT_YEAR) & ~dated
    if short.any():
        raise ValueError(
            f"{place(text.index[short][0])}: {text[short].iloc[0]!r} has a year of two digits, and "
            "could be read in several ways: write 2016-01-04 09:20."
        )
    day_first = False
    if len(parts) and parts.notna().all(axis=None):
        if parts.max(axis=None) <= 12 and (parts.one != parts.other).any():
            raise ValueError(
                f"{place(text.index[0])}: of dates such as {text.iloc[0]!r} no row tells whether "
                "the day or the month comes first: write 2016-01-04 09:20."
            )
        day_first = bool(parts.one.max() > 12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a format that cannot be inferred, or several zones
        try:
            found = pd.to_datetime(text, errors="coerce", dayfirst=day_first)
        except ValueError:
            found = None
    if found is None or found.dtype == object:
        raise ValueError(
            f"{place(text.index[0])}: times are not all of one offset from UTC, such as "
            f"{text.iloc[0]!r} and {text.iloc[-1]!r}: write times of one clock; or read them "
            "yourself, convert them to the time zone whose days count, and give "
            "sm.models.returns.log_returns a Series of prices with these stamps as its index."
        )
    return found.where(dated)  # a clock's time alone would be today's


def day_and_month(text: pd.Series) -> pd.DataFrame:
    """The two numbers before a year of four digits, nan where there are none."""
    return text.str.extract(DAY_AND_MONTH)[["one", "other"]].astype(float)


def contains(text: pd.Series, pattern: str) -> pd.Series:
    """Of each text whether some of it is like that; False of none."""
    return text.str.contains(pattern).fillna(False).astype(bool)


def prices_of(prices: np.ndarray, times: pd.DatetimeIndex | None) -> None:
    """Refuse prices or times that no returns can be made of."""
    good = np.isfinite(prices) & (prices > 0.0)
    if not good.all():
        raise ValueError(
            f"{at(~good, times)}: missing, not a number or not positive: {(~good).sum()} of "
            f"{len(prices)} prices. Drop such bars: the return across them is a longer one then."
        )
    if times is None:
        return
    if times.isna().any():
        raise ValueError(
            f"row {np.flatnonzero(times.isna())[0]} has no time: every price needs one."
        )
    step = steps_of(times)
    wrong = np.concatenate([[False], step <= np.timedelta64(0, "ns")])
    if wrong.any():
        raise ValueError(
            f"{at(wrong, times)}: repeats the time before it, or precedes it ({wrong.sum()} bars). "
            "Drop what is double and sort by time."
        )


def steps_of(times: pd.DatetimeIndex) -> np.ndarray:
    """From each time to the next, whether the clock was set back or forward in between or not."""
    return np.diff((times if times.tz is None else times.tz_convert(None)).to_numpy())


def at(wrong: np.ndarray, times: pd.DatetimeIndex | None) -> str:
    """The first wrong entries, by their times."""
    rows = np.flatnonzero(wrong)
    shown = [f"row {i}" if times is None else str(times[i]) for i in rows[:SHOWN]]
    return ", ".join(shown) + (", ..." if len(rows) > SHOWN else "")


# -------------------------------------------------------------------------------------- returns
@dataclass(frozen=True, eq=False)
class Returns:
    """Log returns in order of time: an array for numpy; print it to see how it was made.

    values: the returns.
    times: of the later of each two prices; None if not known.
    overnight: returns between two days, among the bars' returns.
    treatment: what was done with them: "drop", "rescale" or "keep".
    scale: what overnight returns were multiplied by.
    gaps: missing bars within days, a table with the columns after and before.
    """

    values: np.ndarray
    times: pd.DatetimeIndex | None
    overnight: int
    treatment: str
    scale: float
    gaps: pd.DataFrame

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)

    def __str__(self) -> str:
        text = f"{len(self)} log returns"
        if self.times is None:
            return f"{text} of prices without times: nights and gaps are not known"
        done = {
            "drop": "dropped",
            "keep": "kept as they are",
            "rescale": f"kept, multiplied by {self.scale:.4g} to the spread of the others",
        }
        text += f", {self.times[0]} to {self.times[-1]}; {self.overnight} overnight returns "
        text += done[self.treatment]
        if len(self.gaps):
            first = self.gaps.iloc[0]
            text += f"; {len(self.gaps)} gaps within days, the first {first.after} - {first.before}"
        return text


def log_returns(bars, times=None, overnight: str = "drop") -> Returns:
    """Logarithms of ratios of consecutive prices.

    bars: the table of read_bars, or prices.
    times: of prices, if these are known; default, of a Series the index, if it has stamps, periods,
        dates, or text that says them in one way. Days are those of the stamps' own time zone.
    overnight: what becomes of returns between two calendar days: "drop"; "rescale" multiplies
        them by one number, so that their mean square is that of the others; "keep".
    """
    if overnight not in TREATMENTS:
        raise ValueError(f"overnight={overnight!r}: give one of {', '.join(TREATMENTS)}.")
    if isinstance(bars, pd.DataFrame):
        missing = [name for name in ("time", "close") if name not in bars.columns]
        if missing:
            raise ValueError(
                f"bars has no column {missing[0]!r}, but {list(bars.columns)}: give the columns "
                "time and close, as sm.models.returns.read_bars does, or prices and times."
            )
        bars, times = bars["close"], bars["time"]
    elif times is None and says_times(getattr(bars, "index", None)):
        times = bars.index
    if times is None:
        refuse_other_times(bars)
    else:
        refuse_other_order({"prices": bars, "times": times})
    prices = numeric(np.asarray(as_array(bars, "prices")), "prices").astype(float)
    if prices.ndim != 1 or len(prices) < 2:
        raise ValueError(f"prices have shape {prices.shape}: give a series of two or more.")
    stamps = None if times is None else stamps_of(times)
    if stamps is None and overnight == "rescale":
        raise ValueError(
            'overnight="rescale" needs times, one for each price: without them no return is known '
            "to be overnight."
        )
    if stamps is not None and len(stamps) != len(prices):
        raise ValueError(f"{len(stamps)} times for {len(prices)} prices: give one for each.")
    prices_of(prices, stamps)
    values, none = np.diff(np.log(prices)), pd.DataFrame({"after": [], "before": []})
    if stamps is None:
        return Returns(read_only(values), None, 0, overnight, 1.0, none)
    own = stamps.tz_localize(None)  # a zone's own days may have no midnight
    days = own.normalize()
    night = np.asarray(days[1:] != days[:-1])
    count, scale, kept = int(night.sum()), 1.0, np.ones(len(values), dtype=bool)
    if night.all() and overnight != "keep":
        raise ValueError(
            f"each of {len(prices)} bars is of another day, so that all returns are overnight: "
            'for daily prices pass overnight="keep".'
        )
    if overnight == "drop":
        kept = ~night
    elif overnight == "rescale" and count:
        by_night, by_day = (float(np.mean(np.square(values[part]))) for part in (night, ~night))
        scale = float(np.sqrt(by_day / by_night)) if by_night > 0.0 else 1.0
        values[night] *= scale
    gaps = gaps_of(stamps, night)
    return Returns(read_only(values[kept]), own[1:][kept], count, overnight, scale, gaps)


def stamps_of(times) -> pd.DatetimeIndex:
    """Times of prices; refuses numbers, of which nobody knows the unit."""
    values = pd.Index(times)
    if values.dtype.kind in "iuf":
        raise TypeError(
            "times are numbers: give stamps, pd.to_datetime(times, unit='s') if they are seconds "
            "since 1970."
        )
    if isinstance(values, pd.PeriodIndex):
        return values.to_timestamp()
    if not is_text(values):
        return pd.DatetimeIndex(values)
    text = pd.Series(values.astype(object))
    found = times_of(text, lambda k: f"times, row {k}")
    wrong = found.index[found.isna() & text.notna()]
    if len(wrong):
        raise ValueError(
            f"times, row {wrong[0]}: {text[wrong[0]]!r} is no time (and {len(wrong) - 1} more such "
            "rows): write 2016-01-04 09:20, in one format throughout."
        )
    return pd.DatetimeIndex(found)


def is_text(values: pd.Index) -> bool:
    """Are all of them text, but for missing ones."""
    return bool(len(values)) and all(isinstance(v, str) for v in values if not pd.isna(v))


def says_times(index: Any) -> bool:
    """Is a table's index one of times: stamps, periods, dates, or text with dates in it."""
    if isinstance(index, pd.DatetimeIndex | pd.PeriodIndex):
        return True
    if not isinstance(index, pd.Index) or isinstance(index, pd.MultiIndex) or not len(index):
        return False
    if not is_text(index):
        return all(isinstance(one, datetime.date) for one in index)
    text = pd.Series(index.astype(object))
    dated = contains(text, f"{DATED}|{SHORT_YEAR}") | day_and_month(text).notna().all(axis=1)
    try:
        return bool(dated.all()) and bool(times_of(text, str).notna().all())
    except ValueError:  # of times, which can be read in several ways
        return True


def gaps_of(times: pd.DatetimeIndex, night: np.ndarray) -> pd.DataFrame:
    """Where a day misses bars: steps of more than 1.5 times the median one."""
    step, own = steps_of(times), times.tz_localize(None)
    day = step[~night]
    usual = np.median(day.astype(np.int64)) if len(day) else 0
    wide = np.flatnonzero(~night & (step.astype(np.int64) > 1.5 * usual))
    return pd.DataFrame({"after": own[wide], "before": own[wide + 1]})


class Standardised(NamedTuple):
    """Returns of mean 0 and standard deviation 1.

    values: the returns.
    mean, sd: what they had.
    """

    values: np.ndarray
    mean: float
    sd: float


def standardised(returns) -> Standardised:
    """(values, mean, sd): returns less their mean, over their population standard deviation.

    returns: numbers in order of time.
    """
    values = checked_returns(returns)
    mean, sd = float(values.mean()), float(values.std())
    return Standardised(read_only((values - mean) / sd), mean, sd)


# ------------------------------------------------------------------------------------- checking
def refuse_other_times(series: Any) -> None:
    """Refuse a table's column whose index is one of times, in another order.

    Row numbers say nothing: those of a table that was sorted by its dates are in disorder.
    """
    index = getattr(series, "index", None)
    if not isinstance(index, pd.Index) or isinstance(index, pd.MultiIndex) or index.hasnans:
        return
    if index.dtype.kind == "O" or pd.api.types.is_string_dtype(index.dtype):  # dates as text
        text = pd.Index(index.astype(str))
        if all("-" in one for one in text):  # of several offsets from UTC, too
            parsed = pd.to_datetime(text, errors="coerce", format="ISO8601", utc=True)
            index = index if parsed.hasnans else parsed
        if index.dtype.kind != "M" and says_times(index):
            with suppress(ValueError):  # nobody knows in which order these are
                index = stamps_of(index)
    if index.is_monotonic_increasing:
        return
    if not isinstance(index, pd.DatetimeIndex | pd.PeriodIndex | pd.TimedeltaIndex):
        return
    values = np.asarray(index if not isinstance(index, pd.PeriodIndex) else index.asi8)
    k = 1 + int(np.flatnonzero(values[1:] < values[:-1])[0])
    raise ValueError(
        f"row {k}, {index[k]}, comes after {index[k - 1]}: returns are in order of time, and each "
        "is explained by those before it. Give them so, returns.sort_index(), or an array, "
        "returns.to_numpy(), if the index says nothing."
    )


def checked_returns(returns: Any) -> np.ndarray:
    """Returns as an array of their own, or an error that says what is wrong with them."""
    if isinstance(returns, Standardised):
        returns = returns.values
    refuse_other_times(returns)
    values = np.asarray(as_array(returns, "returns"))
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(f"returns have shape {values.shape}: give one series of numbers.")
    values = numeric(values, "returns").astype(float)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise ValueError(
            f"returns[{wrong[0]}] is {values[wrong[0]]} ({len(wrong)} such values): every return "
            "must be a finite number. sm.models.returns.log_returns makes them of prices."
        )
    if values.min() == values.max():
        raise ValueError(f"all {len(values)} returns are {values[0]:g}: there is nothing to model.")
    if values.min() > 0.0:
        raise ValueError(
            f"all {len(values)} returns are positive, {values.min():g} to {values.max():g}: these "
            "look like prices. sm.models.returns.log_returns(prices) makes returns of them."
        )
    found, counts = np.unique(values, return_counts=True)
    if counts.max() > BULK * len(values):
        raise ValueError(
            f"{100.0 * counts.max() / len(values):.0f}% of the returns are exactly "
            f"{found[counts.argmax()]:g}: prices that mostly do not move, as in tick data, have no "
            "density. Use longer bars, or prices at which something was traded."
        )
    return values


def __dir__() -> list[str]:
    return sorted(__all__)
