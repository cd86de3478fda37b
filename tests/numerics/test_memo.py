"""What is kept of what was compiled, and what is freed with the last model that uses it."""

import gc
import threading
import types
import weakref
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics import memo
from subsample_mcmc.numerics.jit import DISABLED, jit
from subsample_mcmc.numerics.memo import is_of_users, memoised

compiled_only = pytest.mark.skipif(DISABLED, reason="nothing is compiled")


class State(NamedTuple):
    mu: np.ndarray


class Data(NamedTuple):
    y: np.ndarray


STATE, DATA = State(np.zeros(1)), Data(np.zeros(9))


def log_likelihood(state, data, n):
    z = data.y[n] - state.mu[0] - 4.0
    return -0.5 * z * z


def edited(constant):
    """The same function with another constant."""
    code = log_likelihood.__code__
    constants = tuple(constant if c == 4.0 else c for c in code.co_consts)
    return types.FunctionType(code.replace(co_consts=constants), globals(), "log_likelihood")


def sampled(constant):
    """A model with one chain behind it."""
    y = np.random.default_rng(0).standard_normal(300)
    model = sm.Model(edited(constant), {"y": y}, {"mu": 0.0}, lambda state: -abs(state.mu[0]))
    trace = sm.sample(model, sm.Metropolis("mu"), 5, 5, chains=1, seed=1, progress=False)
    return model, trace


@compiled_only
def test_users_functions_are_told_from_the_packages():
    @jit(inner=True)
    def helper(x):
        return x + 1.0

    assert helper.of_user and is_of_users((1, (helper,))) and is_of_users(log_likelihood)
    assert not is_of_users((memo.keep, sm.log, 3.0, "text", np.float64))
    assert not sm.log.of_user


@compiled_only
def test_copies_of_users_functions_are_theirs():
    """Those that read other globals, for bounds and for filled arrays: else none is ever freed."""
    from subsample_mcmc.numerics.jets.filled import copied
    from subsample_mcmc.numerics.jets.operators import filling, squaring

    def calling(state, data, n):
        return log_likelihood(state, data, n)

    made = jit(calling, user=True, inner="always")
    assert squaring(made).of_user and filling(made, False).of_user and filling(made, True).of_user
    assert jit(copied(made, {}), user=True).of_user
    assert not jit(copied(sm.log, {}), inner=True).of_user


@pytest.mark.slow
@compiled_only
def test_models_are_freed(monkeypatch):
    """Model, machine code and chains, once nobody holds them and others have come."""
    monkeypatch.setattr(memo, "MOST_OF_USERS", 30)
    sampled(1.0)
    seen, first = [], None
    for k in range(16):
        model, trace = sampled(10.0 + k)
        seen.append([weakref.ref(model), weakref.ref(model.compiled[0])])
        if k == 0:
            first = trace.draws["mu"].tobytes()
        del model, trace
    for _ in range(6):  # each frees what keeps the next: a function, and what it was made from
        gc.collect()
    assert all(ref() is None for refs in seen[:3] for ref in refs)
    assert seen[-1][1]() is not None  # asked for last: it would be used again
    assert len(memo._of_users) == 30
    again = sampled(10.0)[1]  # built again, and the same
    assert again.draws["mu"].tobytes() == first


def mapped(address):
    """Is memory there that may be executed."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        place, rights, *_ = line.split()
        first, last = (int(end, 16) for end in place.split("-"))
        if first <= address < last:
            return "x" in rights
    return False


def code_of(constant):
    """A weak reference to a compiled function, and where its machine code is."""
    made = jit(edited(constant), user=True)
    made.compile((numba.typeof(STATE), numba.typeof(DATA), numba.int64))
    (result,) = made.overloads.values()
    return weakref.ref(made), result.library.get_pointer_to_function(result.fndesc.llvm_func_name)


@compiled_only
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="tells what is mapped")
@pytest.mark.parametrize("source", ["compiled", "read from disk"])
def test_machine_code_goes_with_the_function(monkeypatch, tmp_path, source):
    monkeypatch.setenv("SUBSAMPLE_MCMC_CACHE", str(tmp_path))
    if source == "read from disk":
        code_of(40.0)
        memo._of_users.clear()
        gc.collect()
    made, address = code_of(40.0)
    assert made().stats.cache_hits[made().signatures[0]] == (source == "read from disk")
    assert mapped(address)
    memo._of_users.clear()
    gc.collect()
    assert made() is None and not mapped(address)


@pytest.mark.slow
@compiled_only
def test_a_model_in_use_keeps_what_it_needs(monkeypatch):
    monkeypatch.setattr(memo, "MOST_OF_USERS", 12)
    model, trace = sampled(20.0)
    for k in range(4):
        sampled(30.0 + k)
    gc.collect()
    again = sm.sample(model, sm.Metropolis("mu"), 5, 5, chains=1, seed=1, progress=False)
    assert again.draws["mu"].tobytes() == trace.draws["mu"].tobytes()


@pytest.mark.plain
@pytest.mark.parametrize(
    ("most", "shelf", "home"),
    [("MOST_OF_USERS", "_of_users", __name__), ("MOST_RESULTS", "_results", "subsample_mcmc.x")],
)
def test_what_was_asked_for_longest_ago_is_forgotten(monkeypatch, most, shelf, home):
    monkeypatch.setattr(memo, most, 3)
    monkeypatch.setattr(memo, shelf, OrderedDict())
    made = []

    def build(x):
        made.append(x)
        return [x]

    build.__module__ = home
    built = memoised(build)
    first, second = built(1), built(2)
    assert built(1) is first and built(2) is second and made == [1, 2]
    built(1)
    built(3)
    built(4)
    assert built(3) == [3] and built(1) is first and made == [1, 2, 3, 4]
    assert built(2) is not second


@pytest.mark.plain
def test_what_somebody_holds_is_not_built_again(monkeypatch):
    monkeypatch.setattr(memo, "MOST_OF_USERS", 3)
    made = []

    @memoised
    def built(x):
        made.append(x)
        return lambda: x, None, (lambda: -x,)

    first, before = built(-1), len(memo._lent)
    for x in range(5):
        built(x)
    gc.collect()
    assert built(-1)[0] is first[0] and built(-1)[2][0] is first[2][0] and made.count(-1) == 1
    assert len(memo._lent) <= before + 3  # what nobody held is gone, and its key with it
    del first
    for x in range(10, 15):
        built(x)
    gc.collect()
    assert built(-1)[0]() == -1 and made.count(-1) == 2


@pytest.mark.slow
@compiled_only
def test_chains_of_a_large_composition_share_what_is_compiled(monkeypatch):
    """More functions of the user's than are remembered: once, they were fetched for each chain."""
    from numba.core.dispatcher import Dispatcher

    def late(k):
        return lambda state: state.mu[0] > k + 0.123

    monkeypatch.setattr(memo, "MOST_OF_USERS", 12)
    model, _ = sampled(50.0)
    count, usual = [0], Dispatcher.add_overload

    def counted(self, result):
        count[0] += 1
        return usual(self, result)

    monkeypatch.setattr(Dispatcher, "add_overload", counted)
    found = []
    for chains in (1, 4):
        count[0] = 0
        moves = [sm.when(late(k), sm.Metropolis("mu", adapt=False)) for k in range(20)]
        kernel = sm.cycle(sm.Metropolis("mu"), *moves)
        sm.sample(model, kernel, 2, 2, chains=chains, seed=1, progress=False)
        found.append(count[0])
    assert found[0] >= 20
    assert found[1] <= found[0]


@pytest.fixture
def empty_memo(monkeypatch):
    for shelf in ("_results", "_of_users"):
        monkeypatch.setattr(memo, shelf, OrderedDict())
    monkeypatch.setattr(memo, "_lent", {})
    return memo


def test_what_was_built_is_not_built_again(empty_memo):
    built = []

    @empty_memo.memoised
    def build(*parts):
        built.append(parts)
        return object()

    assert build(1, "a") is build(1, "a") and build(1, "b") is not build(1, "a")
    assert built == [(1, "a"), (1, "b")]


def test_threads_that_build_at_once_share_one_result(empty_memo):
    meet = threading.Barrier(4)

    @empty_memo.memoised
    def build(key):
        meet.wait()  # all are inside before one is done
        return object()

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: build("key"), range(4)))
    assert all(result is results[0] for result in results)
