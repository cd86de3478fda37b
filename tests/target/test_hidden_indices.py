"""Look-ups beyond an array that hide: in other names, modules, helpers, rows, rare states.

Each of these was drawn from without a word, or was refused though nothing was wrong.
"""

import types

import numba
import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.checks import check_run
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.target.lookups.bounds import check_model, states, suspects_of
from tests.target.test_indices import SIZE, TABLE, levels, made, run

compiled_only = pytest.mark.skipif(DISABLED, reason="about compiled code")


# --------------------------------------------------------------------------- names and modules
def in_other_names(s, d, i):
    """`n` is a name of its own here, no argument."""
    n = d.before[i]
    return -0.5 * (d.y[n] - s.b[0]) ** 2


def of_an_arm(d, a, i):
    arm = d.level[i]
    return -0.5 * (d.y[i] - d.centre[arm]) ** 2 - 0.0 * a


@pytest.mark.plain
def test_a_local_name_is_no_argument():
    before = np.maximum(np.arange(SIZE) - 1, 0)
    assert len(suspects_of(made(in_other_names, {"before": before}))) == 1
    before[7] = 5_000
    with pytest.raises(IndexError, match=r"`d\.y\[n\]` at datum 7"):
        check_model(made(in_other_names, {"before": before}))
    data = {"y": np.zeros(SIZE), "level": levels((7, 3)), "centre": np.zeros(3)}
    with pytest.raises(IndexError, match=r"d\.centre\[arm\]"):
        sm.draw(sm.Population(of_an_arm, data, arms=2), 5, seed=1)


helpers = types.ModuleType("helpers")
helpers.inner = types.ModuleType("helpers.inner")


@numba.njit
def looked_up(values, k):
    return values[k]


helpers.look = helpers.inner.look = looked_up


def by_module(state, data, n):
    return -0.5 * (data.y[n] - helpers.look(state.b, data.level[n])) ** 2


def by_inner_module(state, data, n):
    return -0.5 * (data.y[n] - helpers.inner.look(state.b, data.level[n])) ** 2


@pytest.mark.parametrize("function", [by_module, by_inner_module])
@pytest.mark.parametrize("code", [3, -1])
def test_helpers_in_modules_are_called_with_checks(function, code):
    with pytest.raises(IndexError, match=rf"in looked_up.*block \"b\"|beyond b.*index {code}"):
        run(made(function, {"level": levels((9, code))}))


def test_helpers_in_modules_draw_as_those_beside():
    def beside(state, data, n):
        return -0.5 * (data.y[n] - looked_up(state.b, data.level[n])) ** 2

    one, other = (run(made(f), draws=20).draws["b"] for f in (by_module, beside))
    assert np.array_equal(one, other) and helpers.look is looked_up


# ------------------------------------------------------------------------------ states that differ
def by_difference(state, data, n):
    return -0.5 * (data.y[n] - state.b[state.z[0] - state.z[1]]) ** 2


def by_two_blocks(state, data, n):
    return -0.5 * (data.y[n] - state.b[state.z[0] + 2 * (1 - state.w[0])]) ** 2


def by_sum_of_many(state, data, n):
    """Beyond where not all of eight sites are alike, and two of them are not 0."""
    k = 0
    for i in range(7):
        k += state.z[i] * (1 - state.z[7])
    return -0.5 * (data.y[n] - state.b[min(k, 3)]) ** 2


@pytest.mark.plain
def test_sites_are_tried_with_values_of_their_own():
    two = made(by_difference, state={"z": [0, 0]}, support={"z": 3})
    with pytest.raises(IndexError, match=r" with z=\[0, [12]\] asks for index -[12]"):
        run(two)
    blocks = made(by_two_blocks, state={"z": 0, "w": 1}, support={"z": 3, "w": 2})
    with pytest.raises(IndexError, match=r"index [34]"):
        run(blocks)
    many = made(by_sum_of_many, state={"z": np.zeros(8, int)}, support={"z": 2})
    with pytest.raises(IndexError, match="index 3"):
        run(many)


def test_few_states_are_tried_of_a_label_for_every_datum():
    """Each is as long as the data."""
    z = np.zeros(2_000_000, dtype=int)
    model = sm.Model(lambda state, data, n: -(state.b[state.z[n]] ** 2), {"y": np.zeros(len(z))},
                     {"z": z, "b": np.zeros(3)}, support={"z": 3})  # fmt: skip
    assert len(list(states(model, ["z"]))) <= 6


def by_cuts(state, data, n):
    """Categories by their limits: one beyond the last where all limits are low."""
    k = 0
    while k < 3 and data.y[n] > state.b[k]:
        k += 1
    return -((data.y[n] - TABLE[k]) ** 2)


def by_a_threshold(state, data, n):
    return -((data.y[n] - TABLE[3 if state.t[0] > 0.99 else 0]) ** 2)


@compiled_only
def test_an_index_that_turns_on_a_float_is_tried_where_the_chain_is():
    model = made(by_cuts, state={"b": np.full(3, 5.0)})
    check_model(model)
    with pytest.raises(IndexError, match=r"TABLE\[k\].*index 3"):
        run(model, sm.Metropolis("b", scale=9.0, selector=sm.Exact()), draws=4_000)


@pytest.mark.plain
def test_an_interval_is_tried_at_its_ends_where_an_index_turns_on_it():
    options = {"state": {"t": 0.5}, "constraints": {"t": sm.interval(0.0, 1.0)}}
    with pytest.raises(IndexError, match="index 3"):
        check_model(made(by_a_threshold, **options))

    def rounded(state, data, n):  # the next number below 1, plus 2, is 3: nobody meets it
        return -((data.y[n] - TABLE[int(state.t[0] + 2.0)]) ** 2)

    check_model(made(rounded, **options))


# --------------------------------------------------------------------------- rows of indices
def by_rows_of_codes(state, data, n):
    return -0.5 * (data.y[n] - state.b[data.codes[n]].sum()) ** 2


@pytest.mark.parametrize("wrong", [-1, 3])
@pytest.mark.plain
def test_rows_of_indices(wrong):
    codes = np.tile([0, 1], (SIZE, 1))
    run(made(by_rows_of_codes, {"codes": codes}))
    codes[8, 1] = wrong
    with pytest.raises(IndexError, match=rf"block|beyond b.*datum 8.*index {wrong}"):
        run(made(by_rows_of_codes, {"codes": codes}))


def picked(values, k):
    return values[k]


def halves(state, data):
    return (np.arange(3.0) * 0.5,)


def of_a_prepared_table(state, data, n, made):
    return -0.5 * (data.y[n] - picked(made[0], data.level[n]) * state.b[0]) ** 2


def added(values, k, x):
    values[k] += x


@sm.kernel(writes="b")
def by_a_writing_helper(rng, state, data):
    for n in range(3):
        added(state.b, data.level[n], 0.01 * rng.standard_normal())


@pytest.mark.slow
@compiled_only
def test_helpers_refuse_negative_indices_of_arrays_that_may_be_written():
    good, bad = {"level": levels()}, {"level": levels((2, -1))}
    run(made(of_a_prepared_table, good, prepare=halves))
    with pytest.raises(IndexError, match=r"index -1|beyond an array"):
        run(made(of_a_prepared_table, bad, prepare=halves))
    run(made(in_row, good), by_a_writing_helper)
    with pytest.raises(IndexError, match=r"index -1|beyond an array"):
        run(made(in_row, bad), by_a_writing_helper)


def in_row(state, data, n):
    return -0.5 * (data.y[n] - state.b[0]) ** 2


# --------------------------------------------------------------------------- no false alarms
class Kept:
    """Something that a kernel in plain Python keeps."""

    calls = 0


@sm.kernel(writes="b")
def in_python(rng, state, data):
    """Sorts with a library that does not compile, and may look at the last of a copy."""
    Kept.calls += 1
    ordered = np.array(sorted(state.b.tolist(), key=lambda v: Kept.calls * v))
    for i in range(3):
        state.b[i] += 1e-3 * (ordered[i] - ordered[i - 1])


@compiled_only
def test_a_kernel_in_plain_python_is_run_only_to_draw():
    """Trial steps would change what it keeps, and a copy may be indexed as its owner likes."""
    Kept.calls = 0
    kernel = in_python >> sm.Metropolis("other", adapt=False)
    sm.sample(made(in_row), kernel, draws=5, warmup=0, chains=1, seed=1, progress=False)
    assert Kept.calls == 5


def with_own_copies(state, data, n):
    w = data.X[n] * 2.0
    return -((w[n % 2 - 1] - state.b[0]) ** 2)


@pytest.mark.plain
def test_copies_may_be_indexed_from_the_end():
    check_run(sm.Metropolis("b"), made(with_own_copies, {"X": np.zeros((SIZE, 2))}))


@compiled_only
def test_states_that_a_chain_reached_are_looked_at_in_its_end():
    """A value that a kernel of one's own takes once in 300 draws: no turn of the chain ends there.

    1 - (299 / 300)^2000 = .999 of such runs meet it; the seed is one that does.
    """

    @sm.kernel(writes="k")
    def rare(rng, state, data):
        state.k[0] = 9 if rng.random() < 1.0 / 300.0 else rng.integers(3)

    def by_k(state, data, n):
        return -0.5 * (data.y[n] - state.b[state.k[0]]) ** 2

    model = sm.Model(by_k, {"y": np.zeros(50)}, {"b": np.zeros(3), "k": 0, "c": np.zeros(9)},
                     support={"k": 10})  # fmt: skip
    kernel = rare >> sm.Metropolis("b", adapt=False) >> sm.Metropolis("c", adapt=False)
    with pytest.raises(IndexError, match=r"in a state that was reached, .*k=9"):
        sm.sample(model, kernel, draws=2000, warmup=1, chains=1, seed=1, progress=False)
