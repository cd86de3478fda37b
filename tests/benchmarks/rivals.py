"""Who draws: our selectors and the ways a user would write the exact draw without us.

A rival is made for one data set and draws `size` arms from p(arm | y) under Gumbels made from the
exponentials of a generator; it returns the arms and the share of log factors that it read.
Nobody is told which arm is right, and nobody keeps totals from one draw to the next.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np

import subsample_mcmc as sm
from tests.benchmarks.work import (
    ARMS,
    FREEDOM,
    difference_bounds,
    one_spread,
    student_t,
    student_t_math,
)

HALF = 0.5 * (FREEDOM + 1.0)
CHUNK = 4096


class Rival(NamedTuple):
    """A row of the table."""

    name: str
    make: Callable[[np.ndarray, np.ndarray], Any]  # (y, location) -> run(size, rng), or why not
    reads_all: bool
    largest: int = 10**7  # rows above which it is not run


# -------------------------------------------------------------------------------------- ours
def ours(log_factor, selector_for) -> Callable:
    def make(y, location):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sm.SlowMathWarning)  # that row is slow on purpose
            population = sm.Population(log_factor, {"y": y, "location": location}, arms=ARMS)
        selector = selector_for(y, location)

        def run(size, rng):
            made = sm.draw(population, size, selector, seed=rng, progress=False)
            return made.arms, made.share_read

        return run

    return make


def exact(y, location):
    return sm.Exact()


def racing(y, location):
    return sm.Racing()


def betting_bounds(y, location):
    return sm.Racing(sm.Betting(bounds=difference_bounds(location)))


def betting_spread(y, location):
    return sm.Racing(sm.Betting(spread=one_spread(y, location)))


# ------------------------------------------------------------------------------------ theirs
def one_by_one(decide) -> Callable:
    """run(size, rng) from decide(gumbels) -> arm."""

    def run(size, rng):
        gumbels = -np.log(rng.standard_exponential((size, ARMS)))
        return np.array([int(decide(line)) for line in gumbels]), 1.0

    return run


@numba.njit
def naive_draw(y, location, gumbels):
    best, highest = -1, -np.inf
    for arm in range(len(location)):
        total = gumbels[arm]
        for n in range(len(y)):
            z = y[n] - location[arm]
            total += -2.5 * math.log1p(z * z / 4.0)
        if total > highest:
            best, highest = arm, total
    return best


@numba.njit(fastmath=True, error_model="numpy")
def flagged_draw(y, location, gumbels):
    best, highest = -1, -np.inf
    for arm in range(len(location)):
        total = 0.0
        for value in y:
            z = value - location[arm]
            total += math.log(1.0 + z * z / 4.0)
        if gumbels[arm] - 2.5 * total > highest:
            best, highest = arm, gumbels[arm] - 2.5 * total
    return best


def naive(y, location):
    return one_by_one(lambda gumbels: naive_draw(y, location, gumbels))


def flagged(y, location):
    return one_by_one(lambda gumbels: flagged_draw(y, location, gumbels))


def numpy_chunks(y, location):
    """In place, a chunk that stays in the first cache, all arms on it: what an expert writes."""
    room = np.empty(CHUNK)

    def decide(gumbels):
        totals = np.zeros(ARMS)
        for lo in range(0, len(y), CHUNK):
            part = y[lo : lo + CHUNK]
            z = room[: len(part)]
            for arm, place in enumerate(location):
                np.subtract(part, place, out=z)
                np.multiply(z, z, out=z)
                np.multiply(z, 1.0 / FREEDOM, out=z)
                np.log1p(z, out=z)
                totals[arm] += z.sum()
        return np.argmax(gumbels - HALF * totals)

    return one_by_one(decide)


def scipy_stats(y, location):
    try:
        from scipy import stats
    except ImportError:
        return "not installed"

    def decide(gumbels):
        totals = [stats.t.logpdf(y, FREEDOM, loc=place).sum() for place in location]
        return np.argmax(gumbels + np.array(totals))

    return one_by_one(decide)


def jax_jit(kind, arms_at_once):
    def make(y, location):
        try:
            import jax
            import jax.numpy as jnp
        except ImportError:
            return "not installed"
        dtype = jnp.dtype(kind)

        @jax.jit
        def decide(y, location, gumbels):
            def total(place):
                z = y - place
                return -HALF * jnp.sum(jnp.log1p(z * z / FREEDOM))

            each = jax.vmap(total) if arms_at_once else lambda at: jax.lax.map(total, at)
            totals = each(location)
            assert totals.dtype == dtype, f"{totals.dtype} is not {dtype}: is jax_enable_x64 set?"
            return jnp.argmax(gumbels + totals)

        there, places = jnp.asarray(y, dtype), jnp.asarray(location, dtype)
        return one_by_one(lambda gumbels: decide(there, places, gumbels.astype(kind)))

    return make


EXACT, NAIVE = "ours: Exact, sm.log1p", "numba, naive"
NORMAL = "ours: Racing(Normal)"
BETTING = "ours: Racing(Betting), bounds"
RIVALS = (
    Rival(EXACT, ours(student_t, exact), True, 10**8),
    Rival("ours: Exact, math.log1p", ours(student_t_math, exact), True),
    Rival(NORMAL, ours(student_t, racing), False, 10**8),
    Rival(BETTING, ours(student_t, betting_bounds), False, 10**8),
    Rival("ours: Racing(Betting), spread", ours(student_t, betting_spread), False, 10**8),
    Rival(NAIVE, naive, True),
    Rival("numba, fastmath log(1+x)", flagged, True),
    Rival("numpy, chunks in place", numpy_chunks, True),
    Rival("scipy.stats.t.logpdf", scipy_stats, True, 10**5),
    Rival("jax f64, all arms at once", jax_jit("float64", True), True),
    Rival("jax f64, arm by arm", jax_jit("float64", False), True),
    Rival("jax f32, all arms at once", jax_jit("float32", True), True),
    Rival("jax f32, arm by arm", jax_jit("float32", False), True),
)
