"""Chains that wait for exact sums of rows that are elsewhere share passes, and draw as alone."""

import threading
import time

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs import chain, parallel
from subsample_mcmc.target.elsewhere import shared_sums
from subsample_mcmc.target.elsewhere.shared_sums import SharedSums, sums_of_states
from subsample_mcmc.target.sources.local import parts_of

SIZE, CUT = 3_000, [0, 1, 999, 0, 1300, 1, 699, 0]


def log_likelihood(state, data, n):
    z = data.y[n] - state.mu[0] - 0.5 * state.k[0]
    return -sm.log1p(z * z)


def model_of(data):
    return sm.Model(log_likelihood, data, {"mu": 0.0, "k": 1}, support={"k": 4})


@pytest.fixture(scope="module")
def models():
    data = {"y": np.random.default_rng(3).standard_normal(SIZE)}
    return model_of(data), model_of(parts_of(data, CUT))


def steps(selector=None):
    by = selector or sm.Exact()
    return sm.Gibbs("k", selector=by) >> sm.Metropolis("mu", 0.05, selector=by, adapt=False)


def options(chains, cores, draws=12, **more):
    run = {"draws": draws, "warmup": 3, "chains": chains, "cores": cores, "seed": 5}
    return run | {"progress": False} | more


def same(one, other):
    for name in one.draws:
        np.testing.assert_array_equal(one.draws[name], other.draws[name])


def test_chains_in_turns_share_every_pass(models, monkeypatch):
    """In one thread all chains stand aside before a pass: four take as many as one."""
    for name in ("FETCH_SECONDS", "TURN_SECONDS"):  # none stops for the clock of a busy machine
        monkeypatch.setattr(parallel, name, 60.0)
    near, far = models
    alone = sm.sample(far, steps(), **options(1, 1))
    four = sm.sample(far, steps(), **options(4, 1))
    assert alone.fetched[1] == four.fetched[1] >= 15  # of 3 + 12 steps
    same(sm.sample(near, steps(), **options(4, 1)), four)


def test_chains_in_threads_share_passes(models, monkeypatch):
    """Those that ask while a pass is under way are answered by the next."""
    near, far = models
    make, passes = shared_sums.sums_of_states, []

    def slowly(elsewhere, states, numbers):
        passes.append(len(states))
        time.sleep(0.06)
        return make(elsewhere, states, numbers)

    alone = sm.sample(far, steps(), **options(1, 1))
    monkeypatch.setattr(shared_sums, "sums_of_states", slowly)
    found = sm.sample(far, steps(), **options(4, 4))
    same(sm.sample(near, steps(), **options(4, 4)), found)
    assert found.fetched[1] == len(passes)
    assert alone.fetched[1] <= len(passes) <= 0.75 * 4 * alone.fetched[1]
    assert found.fetched[2] > 0.06 * len(passes)


def test_a_long_chain_waits_more_often_than_one_draw_may(models, monkeypatch):
    """That many sums at most are of one draw: what it waited for before does not count."""
    monkeypatch.setattr(chain, "SUMS", 3)
    same(*(sm.sample(model, steps(), **options(2, 1)) for model in models))


def test_audits_share_passes(models):
    near, far = models
    raced = steps(sm.Racing(retreat=False, batch=64))
    run = options(3, 1, draws=100, audit=0.5)
    alone = sm.sample(far, raced, **run | {"chains": 1})
    three = sm.sample(far, raced, **run)
    same(sm.sample(near, raced, **run), three)
    assert three.fetched[1] < 2 * alone.fetched[1]


def test_sums_are_those_of_each_state_alone(models):
    """Bit for bit, whichever states they are made with; each distinct one is made once."""
    _, far = models
    rng = np.random.default_rng(1)
    states = np.stack([rng.standard_normal(40), rng.integers(1, 5, 40).astype(float)], axis=1)
    states[7], states[9, 0], states[11, 0] = states[3], 0.0, -0.0
    states[9, 1] = states[11, 1] = 2.0
    asked = []

    class Told:
        def sums_of(self, groups):
            asked.append(sum(len(floats) for _, floats in groups))
            return far.elsewhere.sums_of(groups)

    together = sums_of_states(Told(), states, 1)
    alone = [far.elsewhere.sums_at(s[1:].astype(np.int64), s[None, :1])[0] for s in states]
    assert together.tobytes() == np.array(alone).tobytes()
    assert asked == [39]  # 0 and -0 are two
    some = rng.permutation(40)[:11]
    assert sums_of_states(far.elsewhere, states[some], 1).tobytes() == together[some].tobytes()


class Asking:
    """What SharedSums needs of a pool."""

    def __init__(self, value):
        self.asked, self.floats, self.resident = np.array([[value, 1.0]]), np.zeros(1), self
        self.sums, self.waited, self.blocked, self.known = 0, 0.0, False, []

    def knows(self, state, value):
        self.known.append((state[0], value))


@pytest.mark.parametrize("again", [False, True])
def test_a_chain_without_companions_goes_at_once(again):
    """One that asks while a pass is under way waits for the next, which is one for all.

    again: the first one asks again soon, and is among them.
    """
    begun, go, held = threading.Event(), threading.Event(), []

    class Slow:
        def sums_of(self, groups):
            held.append(sorted(float(x) for _, floats in groups for x in floats[:, 0]))
            begun.set()
            assert go.wait(20)
            return np.concatenate([10.0 * floats[:, 0] for _, floats in groups])

    shared, pools = SharedSums(Slow()), [Asking(float(i)) for i in range(4)]
    shared.ask(pools[0])

    def first():
        shared.answer(pools[0])
        if again:
            time.sleep(0.03)
            shared.ask(pools[0])
            shared.answer(pools[0])

    threads = [threading.Thread(target=first)]
    threads += [threading.Thread(target=shared.answer, args=(pool,)) for pool in pools[1:]]
    threads[0].start()
    assert begun.wait(20) and held == [[0.0]]
    for pool, thread in zip(pools[1:], threads[1:], strict=True):
        shared.ask(pool)
        thread.start()
    time.sleep(0.4 + 0.8 * again)  # an eighth of it is what the next pass waits for the first chain
    go.set()
    for thread in threads:
        thread.join(20)
    assert held == [[0.0], [0.0] * again + [1.0, 2.0, 3.0]]
    for i, pool in enumerate(pools):
        assert pool.known == [(float(i), 10.0 * i)] * (2 if again and i == 0 else 1)
    assert sum(pool.sums for pool in pools) == 2 and not shared.waiting


def test_a_pass_that_fails_is_asked_for_again():
    """Who waited for it is told by its own."""

    class Failing:
        def sums_of(self, groups):
            raise ValueError("rows changed")

    shared, pools = SharedSums(Failing()), [Asking(1.0), Asking(2.0)]
    for pool in pools:
        shared.ask(pool)
    for pool in pools:
        with pytest.raises(ValueError, match="rows changed"):
            shared.answer(pool)


def test_a_chain_that_stands_aside_does_not_write(models, monkeypatch, tmp_path):
    """To a store a chain writes when its turn ends, or it; and the run goes on from there."""
    near, far = models
    hand_on, written = parallel.Team.hand_on, []

    def noted(team, member, walker):
        written.append(member.number)
        hand_on(team, member, walker)

    monkeypatch.setattr(parallel.Team, "hand_on", noted)
    monkeypatch.setattr(parallel, "TURN_SECONDS", 1e9)
    path = tmp_path / "run.nc"
    sm.sample(far, steps(), store=path, **options(3, 1, draws=5))
    assert sorted(written) == [0, 1, 2]
    found = sm.resume(path, far, steps(), draws=12, progress=False)
    same(sm.sample(near, steps(), **options(3, 1)), found)


@pytest.mark.parametrize("stored", [False, True])
def test_an_end_finds_all_chains_at_whole_draws(models, monkeypatch, tmp_path, stored):
    """What stands aside when a run is interrupted is as it was after its last draw, and told."""
    more = {"store": tmp_path / "run.nc"} if stored else {}
    monkeypatch.setattr(parallel, "TURN_SECONDS", 1e9)
    near, far = models
    make, passes = shared_sums.sums_of_states, []

    def interrupting(elsewhere, states, numbers):
        passes.append(len(states))
        if len(passes) == 12:
            for team in teams:
                team.stop.set()
        return make(elsewhere, states, numbers)

    teams, init = [], parallel.Team.__init__

    def known(team, *given):
        teams.append(team)
        init(team, *given)

    monkeypatch.setattr(parallel.Team, "__init__", known)
    monkeypatch.setattr(shared_sums, "sums_of_states", interrupting)
    found = sm.sample(far, steps(), **options(3, 1, draws=30, warmup=0), **more)
    wanted = sm.sample(near, steps(), **options(3, 1, draws=30, warmup=0))
    count = found.shape[1]
    assert 0 < count < 30 and found.fetched[1] == len(passes)
    for name, values in found.draws.items():
        np.testing.assert_array_equal(values, wanted.draws[name][:, :count])
