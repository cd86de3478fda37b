"""Functions whose helpers look up: their calls are known, or all rows are looked at."""

import linecache
import types
from collections import namedtuple

import numba
import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.target.lookups.guards import Beyond, guarded_data, guarded_state
from subsample_mcmc.target.lookups.reads import cannot_fail

SIZE = 40
DATA = {"y": np.linspace(-1.0, 1.0, SIZE), "X": np.ones((SIZE, 3))}


def model_of(log_likelihood):
    return sm.Model(log_likelihood, DATA, {"b": np.zeros(3)})


def term(state, data, n, j):
    return data.X[n, j] * state.b[j]


def linear(state, data, n):
    value = 0.0
    for j in range(len(state.b)):
        value += term(state, data, n, j)
    return value


helpers = types.ModuleType("helpers")
helpers.term = term


def one_helper(state, data, n):
    return -((data.y[n] - linear(state, data, n)) ** 2)


def two_calls(state, data, n):
    return term(state, data, n, 0) + term(state, data, n, 2)


def of_a_module(state, data, n):
    return helpers.term(state, data, n, 1)


def of_a_closure(helper, last):
    def log_likelihood(state, data, n):
        return helper(state, data, n, last)

    return log_likelihood


in_a_closure, too_far_in_a_closure = of_a_closure(term, 2), of_a_closure(term, 3)


def too_far(state, data, n):
    return term(state, data, n, 0) + term(state, data, n, 3)


def too_many(state, data, n):
    value = 0.0
    for j in range(4):
        value += term(state, data, n, j)
    return value


def another_row(state, data, n):
    return linear(state, data, n + 1)


def another_row_that_is_named(state, data, n):
    following = n + 1
    return linear(state, data, following)


def from_behind(state, data, n):
    return term(state, data, n, -4)


def too_far_in_a_module(state, data, n):
    return helpers.term(state, data, n, 3)


def under_another_name(state, data, n):
    other = term
    return other(state, data, n, 3)


def by_name(state, data, n):
    return term(state, data, n=n, j=3)


def one_of_two_helpers(state, data, n):
    return (term if n == 3 else linear)(state, data, n, 3)


def arguments_in_another_order(state, data, n):
    return term(state, data, 2, n)


def itself(state, data, n):
    return data.y[n] + (itself(state, data, n + 1) if n < SIZE else 0.0)


SAFE = (one_helper, two_calls, of_a_module, in_a_closure)
UNSAFE = (
    too_far, too_many, another_row, another_row_that_is_named, from_behind, too_far_in_a_module,
    too_far_in_a_closure, under_another_name, by_name, one_of_two_helpers,
    arguments_in_another_order, itself,
)  # fmt: skip


def is_safe(function, size=SIZE):
    model = model_of(one_helper)
    state = model.state(model.ints, model.floats)
    return cannot_fail(function, ("state", "data", "n"), state, model.data, {"n": size})


@pytest.mark.plain
@pytest.mark.parametrize("function", SAFE)
def test_helpers_that_are_called_with_the_caller_s_own_names(function):
    model = model_of(one_helper)
    assert is_safe(function)
    assert not is_safe(function, SIZE + 1)
    state = guarded_state(model.state(model.ints, model.floats))
    for n in range(SIZE):
        function(state, guarded_data(model.data, SIZE), n)


@pytest.mark.plain
@pytest.mark.parametrize("function", UNSAFE)
def test_other_calls_are_looked_at_row_by_row(function):
    assert not is_safe(function)


@pytest.mark.plain
def test_calls_that_are_said_to_be_safe_never_fail(rng):
    """Helpers, loops and arguments at random, in plain Python, where each look-up is checked."""
    model = model_of(one_helper)
    state, data = model.state(model.ints, model.floats), guarded_data(model.data, SIZE)
    shown = guarded_state(state)

    def one_of(values):
        return values[rng.integers(len(values))]

    safe = failed = 0
    for k in range(600):
        looked = [one_of(["data.X[n, j]", "state.b[j]", "data.y[n]", "data.X[j, n]", "data.y[j]"])
                  for _ in range(2)]  # fmt: skip
        given = ", ".join(one_of(names) for names in (
            ("state", "state", "state", "data"), ("data", "data", "data", "state"),
            ("n", "n", "n", "i", "0", "n + 1"), ("i", "i", "0", "2", "3", "n", "-1", "m"),
        ))  # fmt: skip
        source = (
            f"def helper(state, data, n, j):\n    return {' + '.join(looked)}\n"
            f"def f{k}(state, data, n):\n    v, m = 0.0, n - 1\n"
            f"    for i in range({one_of(['2', '3', '4', 'len(state.b)', 'data.y.size'])}):\n"
            f"        v += helper({given})\n    return v\n"
        )
        space: dict = {}
        linecache.cache[f"<h{k}>"] = len(source), None, source.splitlines(keepends=True), f"<h{k}>"
        exec(compile(source, f"<h{k}>", "exec"), space)
        function, fails = space[f"f{k}"], False
        try:
            for n in (0, SIZE - 1):
                function(shown, data, n)
        except (IndexError, Beyond):
            fails = True
        except AttributeError:  # the state in the data's place
            continue
        said = cannot_fail(function, ("state", "data", "n"), state, model.data, {"n": SIZE})
        assert not (said and fails), source
        safe, failed = safe + said, failed + fails
    assert safe > 50 and failed > 100


@numba.njit
def of_its_own(state, data, n, j):
    return data.X[n, j] * state.b[j]


IN_A_TUPLE, BY_A_FIELD = (0, (of_its_own,)), namedtuple("Helpers", "term")(of_its_own)
ALL_PLAIN = (term,)


TABLE = np.arange(3.0)


@numba.vectorize
def of_a_ufunc(j):
    return TABLE[j]


@numba.cfunc("float64(int64)")
def of_an_address(j):
    return TABLE[j]


@numba.vectorize
def twice(x):
    return 2.0 * x


def by_a_ufunc(state, data, n):
    return state.b[0] + of_a_ufunc(n)


def by_an_address(state, data, n):
    return state.b[0] + of_an_address(n)


def from_a_tuple(state, data, n):
    return IN_A_TUPLE[1][0](state, data, n, 3)


def from_a_field(state, data, n):
    return BY_A_FIELD.term(state, data, n, 3)


def from_a_tuple_of_plain_functions(state, data, n):
    (helper,) = ALL_PLAIN
    return helper(state, data, n, 3)


def as_a_default(state, data, n, helper=of_its_own):
    return helper(state, data, n, 3)


def as_a_default_by_name(state, data, n, *, helper=term):
    return helper(state, data, n, 3)


def of_a_helper_s_default(state, data, n):
    return as_a_default(state, data, n)


@pytest.mark.parametrize("function", [
    from_a_tuple, from_a_field, from_a_tuple_of_plain_functions, as_a_default,
    as_a_default_by_name, of_a_helper_s_default, by_a_ufunc, by_an_address,
])  # fmt: skip
def test_helpers_that_nobody_can_follow_are_refused(function):
    """Compiled as they are, they read beyond arrays without a word: b[3] of three numbers."""
    with pytest.raises(sm.CompileError, match=r"look-ups could not be checked. (Call|Make) it"):
        jit(function, user=True)


def test_functions_of_the_package_may_be_defaults_and_ufuncs_without_look_ups_are_called():
    def log_likelihood(state, data, n, log=sm.log, of_numpy=np.abs):
        return -log(1.0 + of_numpy(data.y[n] - twice(state.b[0])))

    draws = sm.sample(
        model_of(log_likelihood), sm.Metropolis("b"), draws=5, warmup=5, chains=1, progress=False
    ).draws
    assert np.isfinite(draws["b"]).all()
