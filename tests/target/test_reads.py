"""What is said of a function that it cannot look up anything beyond an array, by its bytecode."""

import linecache
import operator

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.target.lookups.guards import Beyond, guarded_data, guarded_state
from subsample_mcmc.target.lookups.reads import (
    blocks_read,
    cannot_fail,
    columns_of_sites,
    unread,
)

SIZE = 40


def model_of(log_likelihood):
    data = {
        "y": np.linspace(-1.0, 1.0, SIZE), "level": np.arange(SIZE) % 3,
        "X": np.ones((SIZE, 2)), "W": np.ones((SIZE, 2, 3)),
    }  # fmt: skip
    return sm.Model(log_likelihood, data, {"b": np.zeros(3), "other": 0.0})


def own_row(state, data, n):
    return -((data.y[n] - state.b[0] - state.b[2]) ** 2)


def by_level(state, data, n):
    return -0.5 * (data.y[n] - state.b[data.level[n]]) ** 2


def by_lag(state, data, n):
    return -0.5 * (data.y[n] - state.b[0] * data.y[n - 1]) ** 2


def either(state, data, n):
    """Of two arrays, or at one of two indices: the bytecode before the look-up is as if safe."""
    return -(((state.b if data.y[n] > 0.0 else data.y)[n]) ** 2)


def one_of_two(state, data, n):
    return -(state.b[3 if data.y[n] < 2.0 else 0] ** 2)


def another_row(state, data, n):
    n = n + 1
    return -(data.y[n] ** 2)


def row_of_another(state, data, n):
    return -sum([data.y[n] for n in range(2)])


def taken(state, data, n):
    return -np.take(state.b, data.level[n])


WIDTH, COLUMNS = 2, 4


def own_rows(state, data, n):
    z = data.y[n] - data.X[n, 1] if state.b[-3] > 0.0 else state.b[2]
    return -sm.log1p(z * z)


def beyond_the_row(state, data, n):
    return -(data.X[n, 2] ** 2)


def before_the_row(state, data, n):
    return -(data.X[n, -3] ** 2)


def of_a_row(state, data, n):
    return -((data.X[n][1] - data.X[0, n % 1]) ** 2)


def row_by_row(state, data, n):
    return -((data.X[n][1] - data.X[0][-2] - data.X[n, 1]) ** 2)


def counted(state, data, n):
    value = 0.0
    for j in range(2):
        value += data.X[n, j] * state.b[j]
    return -(value**2)


def counted_too_far(state, data, n):
    value = 0.0
    for j in range(3):
        value += data.X[n, j] * state.b[j]
    return -(value**2)


def counted_by_a_name(state, data, n):
    value = 0.0
    for j in range(WIDTH):
        value += data.X[n, j]
    return -(value**2)


def counted_too_far_by_a_name(state, data, n):
    value = 0.0
    for j in range(COLUMNS):
        value += state.b[j]
    return -(value**2)


def counted_by_length(state, data, n):
    value = data.y[n]
    for i in range(len(state.b)):
        for j in range(data.X.shape[1]):
            for k in range(1, state.b.size):
                value += state.b[i] * data.X[n, j] * state.b[k] * data.X[i, j]
    return -(value**2)


def counted_by_another_length(state, data, n):
    value = 0.0
    for j in range(len(state.b)):
        value += data.X[n, j]
    return -(value**2)


def counted_by_rows(state, data, n):
    value = 0.0
    for j in range(data.X.shape[0]):
        value += data.X[n, j]
    return -(value**2)


def counted_by_size(state, data, n):
    value = 0.0
    for j in range(data.X.size):
        value += data.y[j]
    return -(value**2)


def counted_from_below(state, data, n):
    value = 0.0
    for j in range(-7, 2):
        value += state.b[j]
    return -(value**2)


def counted_backwards(state, data, n):
    value = 0.0
    for j in range(2, -9, -1):
        value += state.b[j]
    return -(value**2)


def counted_and_changed(state, data, n):
    value = 0.0
    for j in range(2):
        j += 5
        value += state.b[j]
    return -(value**2)


def counted_and_changed_when_it_fails(state, data, n):
    value = 0.0
    for j in range(2):
        try:
            value += sm.log(-1.0)
            raise ValueError
        except Exception:
            j = 50
        value += state.b[j]
    return -(value**2)


def counted_twice(state, data, n):
    value = 0.0
    for j in range(2):
        for j in range(9):
            value += 1.0
        value += state.b[j]
    return -(value**2)


def after_counting(state, data, n):
    for _ in range(3):
        j = 7
    return -(state.b[j] ** 2)


def counted_no_more(state, data, n):
    value = 0.0
    for j in range(0):
        value += 1.0
    if n > 0:
        for j in range(3):
            value += 1.0
    return value - state.b[j]


def counted_to_one_of_two(state, data, n):
    value = 0.0
    for j in range(9 if data.y[n] < 1e9 else 2):
        value += state.b[j]
    return -(value**2)


def counted_over_values(state, data, n):
    value = 0.0
    for j in (0, 1, 8):
        value += state.b[j]
    return -(value**2)


def counted_by_another_range(range):
    def log_likelihood(state, data, n):
        value = 0.0
        for j in range(2):
            value += state.b[j]
        return -(value**2)

    return log_likelihood


def one_added(state, data, n):
    value = 0.0
    for j in range(2):
        value += data.X[n, j + 1]
    return -(value**2)


def while_counting(state, data, n):
    j, value = 0, 0.0
    while j < 9:
        value += state.b[j]
        j += 1
    return -(value**2)


def in_brackets(state, data, n):
    return -sum([data.X[n, j] for j in range(5)])


def a_row_that_is_named(state, data, n):
    row = data.X[n]
    return -(row[5] ** 2)


SAFE = (own_row, own_rows, row_by_row, counted, counted_by_a_name, counted_by_length)
UNSAFE = (
    either, one_of_two, another_row, row_of_another, taken, by_level, by_lag, of_a_row,
    beyond_the_row, before_the_row, counted_too_far, counted_too_far_by_a_name,
    counted_by_another_length, counted_by_rows, counted_by_size, counted_from_below,
    counted_backwards, counted_and_changed, counted_and_changed_when_it_fails, counted_twice,
    after_counting, counted_no_more, counted_to_one_of_two, counted_over_values, one_added,
    counted_by_another_range(lambda n: [n + 5]), while_counting, in_brackets, a_row_that_is_named,
)  # fmt: skip


def is_safe(function, size=SIZE):
    model = model_of(own_row)
    state = model.state(model.ints, model.floats)
    return cannot_fail(function, ("state", "data", "n"), state, model.data, {"n": size})


@pytest.mark.plain
@pytest.mark.parametrize("function", SAFE)
def test_what_is_safe_by_its_bytecode(function):
    """It looks up nothing beyond an array, and is said to."""
    model = model_of(own_row)
    assert is_safe(function)
    assert not is_safe(function, SIZE + 1)
    state, data = guarded_state(model.state(model.ints, model.floats)), model.data
    for n in range(SIZE):
        function(state, guarded_data(data, SIZE), n)


@pytest.mark.plain
@pytest.mark.parametrize("function", UNSAFE)
def test_whatever_is_not_plainly_safe_is_called_with_checks(function):
    assert not is_safe(function)


def counting(name, text):
    """A function of one statement, written here."""
    source = f"def {name}(state, data, n):\n    v = 0.0\n    {text}\n    return v\n"
    space = {"sm": sm}
    linecache.cache[f"<{name}>"] = len(source), None, source.splitlines(keepends=True), f"<{name}>"
    exec(compile(source, f"<{name}>", "exec"), space)
    return space[name]


@pytest.mark.plain
def test_what_is_said_to_be_safe_never_fails(rng):
    """Loops and indices at random, in plain Python, where each look-up is checked."""
    model = model_of(own_row)
    state, data = model.state(model.ints, model.floats), guarded_data(model.data, SIZE)
    shown = guarded_state(state)
    tops = ["1", "2", "3", "4", "len(state.b)", "data.X.shape[1]", "data.y.size"]
    tops += ["data.W.shape[-1]", "data.X.shape[5]"]
    names = ["n", "i", "j", "0", "1", "-1", "2", "-3"]
    arrays = ["state.b", "data.y", "data.X", "data.W"]

    def one_of(values):
        return values[rng.integers(len(values))]

    safe = failed = 0
    for k in range(800):
        parts = [one_of(names) for _ in range(rng.integers(1, 4))]
        index = "][".join(parts) if rng.random() < 0.3 else ", ".join(parts)
        low = one_of(["", "1, ", "0, "])
        text = (
            f"for i in range({low}{one_of(tops)}):\n        for j in range({one_of(tops)}):\n"
            f"            v += sm.log({one_of(arrays)}[{index}] * 0.0 + 1.0)"
        )
        if rng.random() < 0.2:
            text += f"\n        v += state.b[{one_of(['j', 'i'])}]"
        function, fails = counting(f"f{k}", text), False
        try:
            for n in (0, SIZE - 1):
                function(shown, data, n)
        except (IndexError, Beyond):
            fails = True
        except TypeError:  # a row where a number is wanted, or an index too many
            continue
        said = cannot_fail(function, ("state", "data", "n"), state, model.data, {"n": SIZE})
        assert not (said and fails), text
        safe, failed = safe + said, failed + fails
    assert safe > 50 and failed > 100


getitem = operator.getitem


def by_an_operator(state, data, n):
    return -(getitem(data.y, n + 5) ** 2)


def by_a_module_of_operators(state, data, n):
    return -(operator.getitem(data.y, n + 5) ** 2)


def by_a_method(state, data, n):
    return -(data.y.__getitem__(n + 5) ** 2)


def taken_along(state, data, n):
    return -np.take_along_axis(state.b, data.level[n : n + 1] + 5, 0)[0]


def helper(values, i):
    return getitem(values, i)


def by_a_helper_of_operators(state, data, n):
    return -(helper(data.y, n + 5) ** 2)


@pytest.mark.plain
@pytest.mark.parametrize(
    "function",
    [by_an_operator, by_a_module_of_operators, by_a_method, taken_along, by_a_helper_of_operators],
)
def test_look_ups_without_brackets_are_called_with_checks(function):
    assert not is_safe(function)


def test_an_operator_beyond_an_array_is_refused():
    """Compiled it read what lay behind."""
    with pytest.raises(IndexError):
        sm.sample(model_of(by_an_operator), sm.Metropolis("b"), 2, 0, progress=False)


# ---------------------------------------------------- blocks of which each datum sees a site
def named_index(state, data, n):
    g = data.group[n]
    return -((data.y[n] - state.a[g] - state.mu[0]) ** 2)


def two_columns(s, d, i):
    return s.a[d.group[i]] - s.a[d.rival[i]]


def in_a_loop(state, data, n):
    total = 0.0
    for j in range(2):
        total += state.table[data.group[n], j] * data.y[n]
    return total


def row_first(state, data, n):
    return state.table[data.group[n]][1]


def in_branches(state, data, n):
    if data.y[n] > 0.0:
        return -(state.a[data.group[n]] ** 2)
    return -(state.a[data.rival[n]] ** 2)


def one_more(state, data, n):
    return state.a[data.group[n]] + state.a[0]


def changed_index(state, data, n):
    g = data.group[n]
    if g > 3:
        g = 2
    return state.a[g]


def either_index(state, data, n):
    return state.a[data.group[n] if data.y[n] > 0.0 else 3]


def either_named(state, data, n):
    g = 3 if data.y[n] > 0.0 else data.group[n]
    return state.a[g]


def either_named_first(state, data, n):
    g = data.group[n] if data.y[n] > 0.0 else 3
    return state.a[g]


def another_row(state, data, n):
    return state.a[data.group[n - 1]]


def other_name(state, data, n):
    a = state.a
    return a[data.group[n]] + a[0]


def summed(state, data, n):
    return state.a[data.group[n]] - state.a.mean()


def by_number(state, data, n):
    return state.a[int(data.y[n])]


def second_index(state, data, n):
    return state.table[1, data.group[n]]


def part_of(state, data, n):
    return state.a[data.group[n] :][0]


def first_of(state):
    return state.a[0]


def handed_on(state, data, n):
    return state.a[data.group[n]] + first_of(state)


def written_to(state, data, n):
    n = n - 1
    return state.a[data.group[n]]


def enclosed(state, data, n):
    def value(j):
        return state.a[j]

    return value(0) + state.a[data.group[n]]


@pytest.mark.plain
@pytest.mark.parametrize(("function", "columns"), [
    (named_index, ("group",)), (two_columns, ("group", "rival")), (in_a_loop, ("group",)),
    (row_first, ("group",)), (in_branches, ("group", "rival")), (one_more, ()),
    (changed_index, ()), (either_index, ()), (either_named, ()), (either_named_first, ()),
    (another_row, ()), (other_name, ()), (summed, ()), (by_number, ()), (second_index, ()),
    (part_of, ()), (handed_on, ()), (written_to, ()), (enclosed, ()), (own_row, ()),
])  # fmt: skip
def test_columns_by_which_a_block_is_looked_up(function, columns):
    data = {"y": np.linspace(0.0, 2.0, SIZE), "group": np.arange(SIZE) % 12}
    data |= {"rival": (np.arange(SIZE) + 1) % 12}
    state = {"a": np.zeros(12), "mu": 0.0, "table": np.zeros((12, 12)), "b": np.zeros(3)}
    model = sm.Model(function, data, state)
    name = "table" if "table" in function.__code__.co_names else "a"
    assert columns_of_sites(model, name) == columns
    assert columns_of_sites(model, "mu") == ()


def beside_prepared(state, data, n, prepared):
    return -prepared[0] * (data.y[n] - state.a[data.group[n]]) ** 2


def of_mu(state, data):
    return (1.0 + state.mu[0] ** 2,)


def of_all(state, data):
    return (1.0 + state.a.sum() ** 2,)


def handed_on_prepared(state, data):
    return (1.0 + first_of(state) ** 2,)


@pytest.mark.plain
@pytest.mark.parametrize(("prepare", "columns"), [
    (of_mu, ("group",)), (of_all, ()), (handed_on_prepared, ()),
])  # fmt: skip
def test_what_is_prepared_may_see_all_sites(prepare, columns):
    data = {"y": np.zeros(SIZE), "group": np.arange(SIZE) % 12}
    model = sm.Model(beside_prepared, data, {"a": np.zeros(12), "mu": 0.0}, prepare=prepare)
    assert columns_of_sites(model, "a") == columns


def several_at_once(state, data, n):
    return state.a[data.pair[n]].sum()


@pytest.mark.plain
def test_a_column_of_several_sites_is_none():
    data = {"y": np.zeros(SIZE), "pair": np.zeros((SIZE, 2), int)}
    assert columns_of_sites(sm.Model(several_at_once, data, {"a": np.zeros(12)}), "a") == ()


def by_method(state, data, n):
    return -5.0 * state._asdict()["mu"][0] + data.y[n]


@pytest.mark.plain
def test_a_method_of_the_state_may_read_any_block():
    model = sm.Model(own_row, {"y": np.zeros(SIZE)}, {"b": np.zeros(3), "mu": 0.0})
    assert unread(model, ("mu",)) and not unread(model, ("b",))
    model.log_likelihood = by_method
    assert not unread(model, ("mu",))


def line_of(state, data, n):
    return state.b[0] + state.b[1] * data.x[n]


def scaled_by(n, state):
    return line_of(state, None, n) * state.tau[0] if n > 3 else 0.0


def line_at(state, data, n):
    return -((data.x[n] - line_of(state, data, n)) ** 2)


def by_the_second(state, data, n):
    return line_of(state, data, n) + scaled_by(n, state)


def calls_itself(state, n):
    return state.tau[0] if n < 1 else calls_itself(state, n)


def again_and_again(state, data, n):
    return calls_itself(state, n) + data.x[n]


def as_a_list(state):
    return len(list(state))


def looks_at_all(state, data, n):
    return as_a_list(state) + line_of(state, data, n)


def one_of_two(state, data, n):
    return (line_of if n > 2 else line_at)(state, data, n)


def by_name(state, data, n):
    return line_of(n=n, state=state, data=data)


def as_an_argument(state, data, n):
    return max(line_of, state)


def another_name(state, data, n):
    same = state
    return line_of(same, data, n)


def something_else(state, data, n):
    state = data.states[n]
    return line_of(state, data, n)


def at_another(state, data, n):
    return line_of(state, data, n + 1)


def in_a_closure():
    def inner(state):
        return state.b[0]

    def outer(state, data, n):
        return inner(state) + data.x[n]

    return outer


@pytest.mark.plain
@pytest.mark.parametrize(("function", "blocks"), [
    (line_at, {"b"}), (by_the_second, {"b", "tau"}), (again_and_again, {"tau"}),
    (in_a_closure(), {"b"}), (looks_at_all, None), (one_of_two, None), (by_name, None),
    (as_an_argument, None), (another_name, None), (something_else, None), (at_another, None),
])  # fmt: skip
def test_functions_to_which_the_state_is_handed_are_looked_at(function, blocks):
    model = sm.Model(own_row, {"y": np.zeros(SIZE)}, {"b": np.zeros(3), "mu": 0.0, "tau": 1.0})
    assert blocks_read(function, model) == blocks
    assert blocks_read(function, model, helpers=False) is None
    model.log_likelihood = function
    assert unread(model, ("mu",)) == (blocks is not None)


def test_scales_of_a_likelihood_with_a_helper_are_decided_by_the_prior():
    data = {"x": np.zeros(SIZE)}
    model = sm.Model(
        line_at, data, {"b": np.zeros(2), "tau": 1.0}, lambda s: -s.tau[0] * np.sum(s.b**2),
        constraints={"tau": sm.positive},
    )  # fmt: skip
    trace = sm.sample(model, sm.cycle(sm.Metropolis("b"), sm.Metropolis("tau")), draws=50, chains=1,
                      seed=1, progress=False)  # fmt: skip
    assert trace.stats["tau"]["pulls"].sum() == 0 < trace.stats["b"]["pulls"].sum()
