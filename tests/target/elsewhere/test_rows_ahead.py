"""How many rows are fetched beforehand, and how often a chain stops for some."""

from itertools import pairwise

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.rows import WEYL, counter_at, slots_between
from subsample_mcmc.target.elsewhere import pool
from subsample_mcmc.target.sources.local import parts_of

SIZE, CUT = 100_000, [20_001, 0, 1, 69_998, 10_000]


@pytest.fixture(scope="module")
def columns():
    return {"y": np.random.default_rng(3).standard_normal(SIZE)}


def around(state, data, n):
    return -abs(data.y[n] - state.mu[0])


def choice(state, data, n):
    return -abs(data.y[n] - 0.1 * state.k[0])


def step(retreat=False, **given):
    return sm.Metropolis("mu", selector=sm.Racing(retreat=retreat), adapt=False, **given)


def both(columns, kernel, monkeypatch, **run):
    """(trace in memory, elsewhere, of each fetch: rows that were missed, slot, slots from it)."""
    fetches, own = {}, pool.Pool.take_rows

    def noted(self, counter, lost, steps, left):
        found = own(self, counter, lost, steps, left)
        at = slots_between(self.origin, counter[0])
        fetches.setdefault(self, []).append((lost, at, self.end - at))
        return found

    monkeypatch.setattr(pool.Pool, "take_rows", noted)
    run = {"warmup": 0, "chains": 1, "seed": 1, "progress": False} | run
    near, far = (
        sm.sample(sm.Model(around, data, {"mu": 0.0}), kernel, **run)
        for data in (columns, parts_of(columns, CUT))
    )
    np.testing.assert_array_equal(far.draws["mu"], near.draws["mu"])
    return near, far, list(fetches.values())[-1]  # others only compile


def test_slots_of_a_stream():
    first = np.uint64(2**64 - 5)
    counter = first
    with np.errstate(over="ignore"):
        for _ in range(7):
            counter += WEYL
    assert slots_between(first, counter) == 7
    assert counter_at(first, 7) == counter


@pytest.mark.parametrize(("draws", "scale"), [(3, 0.5), (40, 0.5), (400, 0.5), (10, 0.02)])
def test_what_is_fetched_follows_what_is_used(columns, draws, scale, monkeypatch):
    """At most three times as many rows as are used, and two first blocks."""
    _, far, _ = both(columns, step(scale=scale), monkeypatch, draws=draws)
    used = far.stats["mu"]["pulls"].sum() / 2  # of two arms
    assert 0.9 * min(used, SIZE) < far.fetched[0] <= 3 * used + 2 * pool.FIRST


@pytest.mark.slow
def test_a_draw_begins_where_its_rows_are(columns, monkeypatch):
    """Few fetches are for rows that a draw lacked: it, and those of its turn, are made again."""
    _, _, fetches = both(columns, step(True, scale=0.5), monkeypatch, draws=2_000)
    stops = [lost for lost, *_ in fetches if lost]
    assert len(fetches) > 6 and len(stops) <= 3


def test_a_draw_of_many_rows(columns, monkeypatch):
    """A draw that reads more rows than a block has is not begun anew for each batch of it."""
    monkeypatch.setattr(pool, "FIRST", 16)
    monkeypatch.setattr(pool, "CHUNK", 8)
    near, _, fetches = both(columns, step(scale=1e-4), monkeypatch, draws=6)
    assert near.stats["mu"]["pulls"].max() >= 256
    for start in {at for _, at, _ in fetches}:  # of one draw: twice as many each time
        spans = [span for _, at, span in fetches if at == start]
        assert all(later >= 2 * one for one, later in pairwise(spans))
    assert max(span for *_, span in fetches) >= 128


def test_sums_of_all_arms_are_one_pass(columns):
    """And the next decision knows that of the state it is in."""
    near, far = (
        sm.Model(choice, data, {"k": 1}, support={"k": 6})
        for data in (columns, parts_of(columns, CUT))
    )
    run = {"draws": 3, "warmup": 0, "chains": 1, "seed": 1, "progress": False}
    for selector in (sm.Exact(), sm.Racing(batch=60_000)):
        kernel = sm.Gibbs("k", selector=selector)
        one, other = (sm.sample(model, kernel, **run) for model in (near, far))
        np.testing.assert_array_equal(one.draws["k"], other.draws["k"])
        assert other.fetched[1] == 1
