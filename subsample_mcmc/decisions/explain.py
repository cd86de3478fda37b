"""Why a decision could not be made: the exception, with the arm and the datum to blame."""

import numpy as np

from subsample_mcmc.decisions.rules.rule import ALL_IMPOSSIBLE, NOT_FINITE, OUT_OF_SPREAD
from subsample_mcmc.errors import RewardError, SpreadError
from subsample_mcmc.target.data import datum_of
from subsample_mcmc.target.population import Population
from subsample_mcmc.target.rewards import sources_of


def explanation(population, selector, record) -> Exception:
    """The exception for a decision that could not be made."""
    arm, row = record.bad_arm, record.bad_row
    if record.ended == ALL_IMPOSSIBLE:
        return RewardError(
            f"all {population.arms} arms are impossible: each has a reward of -inf or an excluded "
            "offset. Check the support of the arms, or floor the log factor."
        )
    if row < 0:
        row = first_bad(population, arm, record.ended)
    value = float(rewards_at(population, arm, row, row + 1)[0]) if row >= 0 else 0.0
    where = f"reward of arm {arm} at datum {row} is {value}"
    own = isinstance(population, Population)  # of a table the reward says all
    datum = datum_of(population.data, row, population.size) if own and row >= 0 else ""
    if record.ended == NOT_FINITE:
        return RewardError(
            f"the {where}{datum}: rewards must be finite, or -inf for an impossible arm. A nan is "
            "often the log or root of a negative number, or a missing value: correct or drop the "
            "datum, or return -inf where the arm is impossible."
        )
    if record.ended == OUT_OF_SPREAD:
        return SpreadError(
            f"the {where}, outside the declared range {selector.rule!r} (itself, by its difference "
            "to another arm, or farther from one read before than the range is wide), so the "
            "guarantee would be void. Declare a wider range, or use sm.Normal(), which needs none."
        )
    return RuntimeError(f"unknown end of a decision: {record}")


def rewards_at(population, arm, lo, hi) -> np.ndarray:
    """Rewards lo:hi of an arm, through the compiled function."""
    kind = np.int32 if max(population.shape.sizes) < 2**31 else np.int64
    rows, out = np.arange(lo, hi, dtype=kind), np.zeros(hi - lo)
    sources_of(population.reward, population.large).rewards(population.context, arm, rows, out)
    return out


def first_bad(population, arm, code) -> int:
    """The first row of an arm whose reward cannot be added; found by a scan, for the message."""
    size = population.shape.sizes[arm]
    for lo in range(0, size, 1 << 16):
        out = rewards_at(population, arm, lo, min(lo + (1 << 16), size))
        wrong = np.flatnonzero(~(out < np.inf) if code == NOT_FINITE else out == -np.inf)
        if wrong.size:
            return lo + int(wrong[0])
    return -1
