"""The declared range of rewards, and the watch that the data keep to it."""

import numpy as np

from subsample_mcmc.decisions.rules.rule import OUT_OF_SPREAD
from subsample_mcmc.numerics.jit import jit

SLACK = 1.0 + 1e-9  # a declared width may miss the true one by rounding, not by more


def declared_spread(rule: str, spread, arms: int) -> np.ndarray:
    """The widths per arm as an array, or an error that says what a range is for."""
    if spread is None:
        raise ValueError(
            f"{rule}() was given no range: its guarantee needs one. Pass {rule}(spread=...), the "
            "width of an interval that holds every reward of every arm (one number, or one per "
            "arm), or use Normal(), which needs none and promises less."
        )
    given = np.asarray(spread, dtype=float)
    if given.shape not in ((), (arms,)):
        raise ValueError(
            f"{rule}(spread=...) has shape {given.shape}: give one width, or one for each of "
            f"{arms} arms."
        )
    widths = np.broadcast_to(given, (arms,)).copy()
    if not np.all(np.isfinite(widths)) or np.any(widths < 0.0):
        raise ValueError(f"{rule}(spread={spread!r}): widths must be finite and not negative.")
    return widths


@jit(inner=True)
def report(race, arm, row):
    """Stop the race: a datum breaks the declared range."""
    race.now[0].code, race.now[0].bad_arm, race.now[0].bad_row = OUT_OF_SPREAD, arm, row


@jit(inner=True)
def outside(race, spread, seen, interval, arm, rows, lo, hi):
    """Widen the `interval` seen by an arm's columns lo:hi; report the datum that outgrows it."""
    low, high = seen[interval, 0], seen[interval, 1]
    for c in range(lo, hi):
        value = race.values[arm, c]
        low = value if value < low else low
        high = value if value > high else high
        if high - low > spread[interval] * SLACK:
            report(race, arm, rows[c - lo])
            break
    seen[interval, 0], seen[interval, 1] = low, high
