"""Probabilities of discrete values from several chains, each of which had a tilted prior.

Chain c, with the frozen tilt t_c of sm.WangLandau, draws value k with probability
p_k exp(t_ck) / Z_c, where Z_c = sum_k p_k exp(t_ck). Draws of all chains together have the
likelihood  sum_ck N_ck (log p_k + t_ck - log Z_c),  N_ck the visits: concave in log p, and largest
at the multistate estimator  p_k = sum_c N_ck / sum_c n_c exp(t_ck) / Z_c  (Shirts & Chodera 2008,
J. Chem. Phys. 129; for one chain, visits over exp(tilt)). Standard errors are those of a jackknife
that leaves out a batch of draws at a time, batches being much longer than the autocorrelation time.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

BATCHES = (20, 100)  # in all chains together: fewer tell too little of their spread
LONG = 20.0  # autocorrelation times in a batch, if that leaves enough batches
ALARM = 0.01  # chance of saying that chains disagree where they do not
SPREAD_CHAINS = 4  # fewer chains tell too little of the spread between them


class Estimate(NamedTuple):
    """Log probabilities of all values, from all draws and with parts of them left out."""

    log_p: np.ndarray  # (values,); -inf: never visited
    batches: np.ndarray  # (batches, values): one batch of one chain left out
    chains: np.ndarray  # (chains, values): one chain left out
    ess: np.ndarray  # (values,) of being there or not; nan where that never changes
    slowest: float  # autocorrelation time, in draws
    expected: np.ndarray  # (values,) log of the visits expected, per unit of probability

    def error(self, of: Callable) -> tuple[np.ndarray, np.ndarray]:
        """Standard errors of of(log_p), and where chains differ by more than batches explain."""
        from scipy.stats import f

        (count, values), many = self.batches.shape, len(self.chains)
        with np.errstate(invalid="ignore"):  # -inf less -inf: not visited
            se = jackknife(of(self.batches))
            if many < SPREAD_CHAINS or count < 2 * many:
                return se, np.zeros(values, dtype=bool)
            between = jackknife(of(self.chains))
            limit = np.sqrt(f.isf(ALARM / values, many - 1, count - many)) * se
        disagree = np.isfinite(between) & (between > limit)
        return np.where(disagree, between, se), disagree


def jackknife(estimates: np.ndarray) -> np.ndarray:
    """Standard errors from estimates (parts, ...) that each leave one part out; inf: unknown."""
    count = len(estimates)
    if count < 2:
        return np.full(estimates.shape[1:], np.inf)
    with np.errstate(invalid="ignore"):
        away = ((estimates - estimates.mean(axis=0)) ** 2).sum(axis=0)
        return np.nan_to_num(np.sqrt((count - 1) / count * away), nan=np.inf)


def log_sum(values: np.ndarray) -> np.ndarray:
    """log sum exp over the last axis."""
    top = values.max(axis=-1, keepdims=True)
    return (top + np.log(np.exp(values - top).sum(axis=-1, keepdims=True)))[..., 0]


def multistate(visits: np.ndarray, tilts: np.ndarray, first=None) -> np.ndarray:
    """Log probabilities from visits (chains, values) under tilts; -inf where there are none.

    A tilt of -inf says that a chain has nothing to tell about a value. Newton's method, from
    `first` or from one chain after the other, with steps halved until the likelihood grows.
    """
    seen, drew = visits.sum(axis=0) > 0, visits.sum(axis=1) > 0
    found = np.full(visits.shape[1], -np.inf)
    visits, tilts = visits[drew][:, seen].astype(float), tilts[drew][:, seen]
    each, total = visits.sum(axis=1), visits.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        # By chain, log visits less tilt, centred where there are visits.
        own = np.where(visits > 0, np.log(visits) - tilts, np.nan)
        own -= np.nanmean(own, axis=1, keepdims=True)
    p = np.nanmean(own, axis=0) if first is None else first[seen]

    def likelihood(p):
        return total @ p - each @ log_sum(p + tilts)

    best = likelihood(p)
    for _ in range(200):
        chance = np.exp(p + tilts - log_sum(p + tilts)[:, None])
        expected = each @ chance
        slope = total - expected
        if np.abs(slope).max() < 1e-10 * each.sum():
            break
        curve = np.diag(expected) - (chance.T * each) @ chance
        # A constant changes nothing: fixed by the added constant, as slope adds up to zero.
        step = np.linalg.lstsq(curve + expected.mean() / len(p), slope, rcond=1e-12)[0]
        step *= min(1.0, 10.0 / max(np.abs(step).max(), 1e-300))
        for _ in range(60):
            now = likelihood(p + step)
            if now >= best:
                break
            step *= 0.5
        else:
            break  # to rounding
        p, best = p + step, now
    found[seen] = p - log_sum(p)
    return found


def estimate(values: np.ndarray, tilts: np.ndarray) -> Estimate:
    """Log probabilities from values (chains, draws) drawn under tilts (chains, values).

    A tilt of nan is unknown. A chain that never visited its value is not asked about it: its visits
    then tell of the shares of the other values among themselves.
    """
    chains, draws = values.shape
    each = tilts.shape[1]
    tilts = np.where(np.isnan(tilts), -np.inf, tilts)
    ess, slowest = effective(values, each)
    least, most = (max(-(-count // chains), 2) for count in BATCHES)
    number = int(min(np.clip(draws / (LONG * slowest), least, most), draws))
    counts = np.array(
        [
            [np.bincount(part, minlength=each) for part in np.array_split(chain, number)]
            for chain in values
        ]
    )
    visits = counts.sum(axis=1)
    log_p = multistate(visits, tilts)
    batches, without = [], []
    for c in range(chains):
        for i in range(number):
            left = visits.copy()
            left[c] -= counts[c, i]
            batches.append(multistate(left, tilts, log_p) if left.any() else log_p)
        if chains > 1:
            rest = np.arange(chains) != c
            without.append(multistate(visits[rest], tilts[rest], log_p))
    seen = visits.sum(axis=0) > 0
    log_z = log_sum((log_p + tilts)[:, seen])
    with np.errstate(invalid="ignore"):  # nan: no chain's tilt is known
        expected = log_sum((np.log(draws) + tilts - log_z[:, None]).T)
    return Estimate(log_p, np.array(batches), np.array(without), ess, slowest, expected)


def effective(values: np.ndarray, each: int) -> tuple[np.ndarray, float]:
    """Effective sample size of being at each value or not, nan where that never changes.

    Chain by chain, and added: under other tilts, other shares are no sign of slow mixing. And the
    longest autocorrelation time, in draws.
    """
    import arviz

    found, slowest, draws = np.full(each, np.nan), 1.0, values.shape[1]
    if draws < 4:
        return found, slowest
    # The value itself, too: on a ladder of values it may be slower than being at any of them.
    for k in (-1, *np.unique(values)):
        each_chain = values if k < 0 else values == k
        varies = [chain.astype(float) for chain in each_chain if (chain != chain[0]).any()]
        if varies:
            ess = sum(float(arviz.ess(chain[None], method="mean")) for chain in varies)
            slowest = max(slowest, draws * len(varies) / ess)
            if k >= 0:
                found[k] = ess
    return found, slowest
