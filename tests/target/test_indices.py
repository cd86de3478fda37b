"""Never silently wrong: look-ups beyond a block, a column or a table are errors that name them.

Blocks are views of one flat array, so machine code that reads beyond one reads the next: a
likelihood of three coefficients and four levels once moved a parameter that was in no likelihood.
"""

from collections import OrderedDict

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.checks import check_run
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.target.lookups.bounds import check_model, suspects_of
from subsample_mcmc.target.lookups.reads import turns_on_values

SIZE = 40
TABLE = np.array([0.1, 0.2, 0.3])
compiled_only = pytest.mark.skipif(DISABLED, reason="about compiled code")


def levels(*wrong, size=SIZE):
    """Codes 0 .. 2, but for (datum, code)."""
    codes = np.arange(size) % 3
    for n, code in wrong:
        codes[n] = code
    return codes


def made(function, more=None, state=None, **options):
    """A model of 40 data, with a block that nothing reads behind the others."""
    data = {"y": np.linspace(-1.0, 1.0, SIZE), "level": levels(), **(more or {})}
    blocks = {"b": np.zeros(3), **(state or {}), "other": 0.0}
    return sm.Model(function, data, blocks, **options)


def run(model, kernel=None, draws=3):
    """Some draws; every block is moved."""
    for name, v in model.variables.items():
        if kernel is None or name not in {b for leaf in kernel.leaves() for b in leaf.writes}:
            one = sm.Gibbs(name) if v.support else sm.Metropolis(name)
            kernel = one if kernel is None else kernel >> one
    return sm.sample(model, kernel, draws=draws, warmup=2, chains=1, seed=1, progress=False)


# --------------------------------------------------------------------------- functions of users
def by_level(state, data, n):
    return -0.5 * (data.y[n] - state.b[data.level[n]]) ** 2


def by_lag(state, data, n):
    """Datum 0 has none before it."""
    return -0.5 * (data.y[n] - state.b[0] * data.y[n - 1]) ** 2


def by_lead(state, data, n):
    return -0.5 * (data.y[n] - state.b[0] * data.y[n + data.ahead[n]]) ** 2


def by_cell(state, data, n):
    """A matrix, one row for each datum."""
    return -0.5 * (data.y[n] - data.X[n, data.level[n]]) ** 2


def by_row(state, data, n):
    """The same, by a view of its row."""
    row = data.X[n]
    return -0.5 * (data.y[n] - row[data.level[n]]) ** 2


def by_outside(state, data, n):
    """A table from outside the function."""
    return -0.5 * (data.y[n] - TABLE[data.level[n]]) ** 2


def by_choice(state, data, n):
    """k has more values than there are coefficients."""
    return -0.5 * (data.y[n] - state.b[state.k[0]]) ** 2


def by_site(state, data, n):
    """Each datum has a site of its own."""
    return -0.5 * (data.y[n] - state.b[state.z[n]]) ** 2


def only_in_the_middle(state, data, n):
    """Neither the lowest nor the highest value looks anything up."""
    mean = state.b[data.level[n] + 1] if state.k[0] == 2 else 0.0
    return -0.5 * (data.y[n] - mean) ** 2


def looked_up(b, i):
    return b[i]


def by_take(state, data, n):
    return -0.5 * (data.y[n] - np.take(state.b, data.level[n])) ** 2


def by_own_take(state, data, n):
    return -0.5 * (data.y[n] - state.b.take(data.level[n])) ** 2


def by_flat(state, data, n):
    return -0.5 * (data.y[n] - state.b.flat[data.level[n]]) ** 2


def by_window(state, data, n):
    """The three data before each: of the first, of none, or of the last ones."""
    return -0.5 * (data.y[n] - state.b[0] * np.sum(data.y[n - 3 : n])) ** 2


def by_ends(state, data, n):
    return -0.5 * (data.y[n] - np.sum(state.b[data.low[n] : data.high[n]])) ** 2


def by_constant_ends(state, data, n):
    rest = np.sum(data.X[n, :-1]) - np.sum(data.X[n, -2:]) + np.sum(data.y[max(n - 3, 0) : n])
    return -0.5 * (data.y[n] - state.b[0] * rest) ** 2


def by_helper(state, data, n):
    return -0.5 * (data.y[n] - looked_up(state.b, data.level[n])) ** 2


def of_prepared(state, data, n, made):
    return -0.5 * (data.y[n] - made[0][data.level[n]]) ** 2


def doubled(state, data):
    return (2.0 * state.b,)


def own_row(state, data, n):
    return -0.5 * (data.y[n] - state.b[0]) ** 2


def with_made(state, data, n, made):
    return -0.5 * (data.y[n] - made[0]) ** 2


def too_far(state, data):
    total = 0.0
    for i in range(1 + state.k[0]):
        total += state.b[i]
    return (total,)


def by_value(state):
    """A prior with a table of its own."""
    return -TABLE[state.k[0]] - 0.5 * state.b[0] ** 2


BEYOND_B = r'"b" has 3 values \(0 \.\. 2\)'


def case(function, data, options, *parts):
    """A mistake, and what its message must say."""
    return function, data, options, parts


CALLS = [
    # A level too many: four levels, three coefficients.
    case(
        by_level,
        {"level": levels((17, 3))},
        {},
        'block "b"',
        r"state\.b\[data\.level\[n\]\]",
        "datum 17",
        "index 3",
        BEYOND_B,
    ),
    # pandas' code of missing values.
    case(
        by_level,
        {"level": levels((5, -1))},
        {},
        'block "b"',
        r"state\.b\[data\.level\[n\]\]",
        "datum 5",
        "index -1",
        "pandas",
    ),
    # Far beyond all blocks.
    case(by_level, {"level": levels((5, 10**6))}, {}, 'block "b"', "index 1000000"),
    case(by_level, {"level": levels((5, -(10**6)))}, {}, 'block "b"', "index -1000000"),
    # A column, before its first and beyond its last datum.
    case(by_lag, {}, {}, 'column "y"', r"data\.y\[n - 1\]", "datum 0", "index -1"),
    case(
        by_lead,
        {"ahead": 50 * (levels() == 1)},
        {},
        'column "y"',
        r"data\.y\[n \+ data\.ahead\[n\]\]",
        "datum 1",
        "index 51",
        "40 values",
    ),
    # A table: a row of a matrix, and an array from outside.
    case(
        by_cell,
        {"X": np.zeros((SIZE, 3)), "level": levels((7, 3))},
        {},
        'column "X"',
        "datum 7",
        "index 3 along axis 1",
    ),
    case(
        by_cell,
        {"X": np.zeros((SIZE, 3)), "level": levels((7, -2))},
        {},
        'column "X"',
        "datum 7",
        "index -2 along axis 1",
    ),
    case(
        by_row,
        {"X": np.zeros((SIZE, 3)), "level": levels((7, 3))},
        {},
        'column "X"',
        r"row\[data\.level\[n\]\]",
        "datum 7",
    ),
    case(
        by_row,
        {"X": np.zeros((SIZE, 3)), "level": levels((7, -1))},
        {},
        'column "X"',
        "datum 7",
        "index -1",
    ),
    case(
        by_outside,
        {"level": levels((9, 3))},
        {},
        'array "TABLE"',
        r"TABLE\[data\.level\[n\]\]",
        "datum 9",
    ),
    case(by_outside, {"level": levels((9, -1))}, {}, 'array "TABLE"', "datum 9", "index -1"),
    # A helper of the user's.
    case(
        by_helper,
        {"level": levels((9, 3))},
        {},
        r"log_likelihood \(in looked_up\)",
        'block "b"',
        r"b\[i\]",
        "datum 9",
    ),
    case(by_helper, {"level": levels((9, -1))}, {}, r"\(in looked_up\)", 'block "b"', "index -1"),
    # numpy's own way, which counts negative indices from the end without a word.
    case(by_take, {"level": levels((4, -1))}, {}, "np.take", 'block "b"', "index -1", "datum 4"),
    case(by_own_take, {"level": levels((4, -1))}, {}, r"b\.take", 'block "b"', "index -1"),
    case(by_own_take, {"level": levels((4, 3))}, {}, r"b\.take", 'block "b"', "index 3"),
    # What numba looks up without a test.
    case(by_flat, {"level": levels((4, 3))}, {}, r"b\.flat", 'block "b"', "index 3", "datum 4"),
    case(by_flat, {"level": levels((4, -1))}, {}, r"b\.flat", 'block "b"', "index -1", "datum 4"),
    # Windows that begin, or end, before the first, which are empty or lie at the end.
    case(by_window, {}, {}, 'column "y"', r"data\.y\[n - 3 : n\]", "datum 0", "index -3"),
    case(
        by_ends,
        {"low": np.zeros(SIZE, int), "high": levels((6, -1))},
        {},
        'block "b"',
        "datum 6",
        "index -1",
    ),
    # A discrete state, which starts inside.
    case(
        by_choice,
        {},
        {"state": {"k": 0}, "support": {"k": 4}},
        'block "b"',
        r"state\.b\[state\.k\[0\]\]",
        "index 3",
        "k=3",
    ),
    case(
        by_site,
        {},
        {"state": {"z": np.zeros(SIZE, int)}, "support": {"z": 5}},
        'block "b"',
        "index 4",
        "z=4 at every site",
    ),
    case(
        only_in_the_middle,
        {},
        {"state": {"k": 0}, "support": {"k": 5}},
        'block "b"',
        "index 3",
        "k=2",
    ),
    # prepare: in itself, and what it returned.
    case(
        with_made,
        {},
        {"prepare": too_far, "state": {"k": 0}, "support": {"k": 4}},
        "prepare",
        'block "b"',
        r"state\.b\[i\]",
        "index 3",
        "k=3",
    ),
    case(
        of_prepared,
        {"level": levels((3, 3))},
        {"prepare": doubled},
        "log_likelihood",
        "array 0 of prepare",
        "datum 3",
    ),
    case(
        of_prepared,
        {"level": levels((3, -1))},
        {"prepare": doubled},
        "array 0 of prepare",
        "datum 3",
        "index -1",
    ),
    # The prior.
    case(
        own_row,
        {},
        {"log_prior": by_value, "state": {"k": 0}, "support": {"k": 4}},
        "log_prior",
        'array "TABLE"',
        "index 3",
        "k=3",
    ),
]


@pytest.mark.parametrize(("function", "data", "options", "parts"), CALLS)
@pytest.mark.plain
def test_a_look_up_beyond_an_array_is_an_error(function, data, options, parts):
    """Each was a number of something else, or of nothing; sm.sample says so before it draws."""
    model = made(function, data, **options)
    with pytest.raises(IndexError) as caught:
        run(model)
    for part in parts:
        caught.match(part)


@pytest.mark.parametrize("support", [5, 7, 200])
@pytest.mark.plain
def test_the_last_value_that_the_prior_allows_is_tried(support):
    """k = 4 reads what lies behind b; the values above are impossible, and not asked about."""

    def at_most_four(state):
        return -np.inf if state.k[0] > 4 else 0.0

    four = {"state": {"b": np.zeros(4), "k": 1}, "support": {"k": support}}
    with pytest.raises(IndexError, match=r"index 4, and .b. has 4 values"):
        run(made(by_choice, log_prior=at_most_four, **four))
    enough = {"state": {"b": np.zeros(5), "k": 1}, "support": {"k": support}}
    run(made(by_choice, log_prior=at_most_four, **enough))


@compiled_only
def test_a_kernel_of_ones_own_does_not_hide_values():
    """What sm.Gibbs moves may take any value, whoever else moves it."""

    @sm.kernel(writes="k")
    def still(rng, state, data):
        pass

    model = made(by_choice, state={"k": 0}, support={"k": 4})
    with pytest.raises(IndexError, match="k=3"):
        run(model, still >> sm.Gibbs("k", sm.Exact()))


GOOD = [
    (by_level, {}, {}),
    (by_cell, {"X": np.zeros((SIZE, 3))}, {}),
    (by_row, {"X": np.zeros((SIZE, 3))}, {}),
    (by_outside, {}, {}),
    (by_helper, {}, {}),
    (by_take, {}, {}),
    (by_own_take, {}, {}),
    (by_flat, {}, {}),
    (by_ends, {"low": np.zeros(SIZE, int), "high": levels()}, {}),
    (by_constant_ends, {"X": np.zeros((SIZE, 3))}, {}),
    (by_lead, {"ahead": np.zeros(SIZE, int)}, {}),
    (by_choice, {}, {"state": {"k": 0}, "support": {"k": 3}}),
    (by_site, {}, {"state": {"z": np.zeros(SIZE, int)}, "support": {"z": 3}}),
    (of_prepared, {}, {"prepare": doubled}),
]


@pytest.mark.parametrize(("function", "data", "options"), GOOD)
@pytest.mark.plain
def test_look_ups_inside_are_none(function, data, options):
    model = made(function, data, **options)
    assert suspects_of(model)
    check_model(model, [n for n, v in model.variables.items() if v.support])


# -------------------------------------------------------------------- what the users may write
def by_constants(state, data, n):
    """The last of a block, by a constant; nothing to find out about data."""
    return -0.5 * (data.y[n] - state.b[-1] - state.b[2] * data.X[n, -1]) ** 2


LAST = -1


def by_named_constant(state, data, n):
    return -0.5 * (data.y[n] - state.b[LAST] - state.b[-(1 + 1)] * data.level[n]) ** 2


def with_room(state, data, n):
    """Negative indices of an array of its own are the function's business."""
    room = np.zeros(3)
    for i in range(3):
        room[i - 1] += state.b[i]
    return -0.5 * (data.y[n] - room[data.level[n] - 1]) ** 2


def guarded_by_test(state, data, n):
    before = data.y[n - 1] if n > 0 else 0.0
    return -0.5 * (data.y[n] - state.b[0] * before) ** 2


@pytest.mark.parametrize(
    "function",
    [by_constants, by_named_constant, with_room, guarded_by_test],
    ids=lambda f: f.__name__,
)
@pytest.mark.plain
def test_what_is_meant_is_left_alone(function):
    check_model(made(function, {"X": np.zeros((SIZE, 2))}))


@pytest.mark.plain
def test_the_last_of_a_block_that_a_kernel_writes_may_be_named_by_a_constant():
    @sm.kernel(writes="b")
    def last(rng, state, data):
        state.b[-1] = rng.standard_normal()

    check_run(last >> sm.Metropolis("other"), made(own_row))


def never(state, data, n):
    """The prior excludes k beyond the table."""
    return -0.5 * (data.y[n] - state.b[state.k[0]]) ** 2


def up_to_two(state):
    return 0.0 if state.k[0] < 3 else -np.inf


@pytest.mark.plain
def test_states_that_the_prior_excludes_need_not_exist():
    check_model(made(never, state={"k": 0}, support={"k": 6}, log_prior=up_to_two), ["k"])


def touchy(state, data, n):
    """Raises something else before the look-up that fails."""
    if data.level[n] == 7:
        raise ValueError("seven")
    return -0.5 * (data.y[n] - state.b[data.level[n]]) ** 2


@pytest.mark.plain
def test_other_exceptions_do_not_hide_a_look_up():
    model = made(touchy, {"level": levels((2, 7), (3, 7), (30, 3))})
    with pytest.raises(IndexError, match="datum 30"):
        check_model(model)


def test_the_first_datum_is_named_whichever_thread_found_it():
    size = 500_000
    codes = levels((499_998, 9), (400_000, 8), (200_001, 7), size=size)
    model = sm.Model(by_level, {"y": np.zeros(size), "level": codes}, {"b": np.zeros(3)})
    if DISABLED:
        pytest.skip("plain Python looks at some of many rows")
    with pytest.raises(IndexError, match=r"datum 200001 .*index 7"):
        check_model(model)


@pytest.mark.parametrize("fitted", [sm.laplace], ids=["laplace"])
@pytest.mark.plain
def test_a_fit_is_refused_as_well(fitted):
    with pytest.raises(IndexError, match="datum 17"):
        fitted(made(by_level, {"level": levels((17, 3))}), progress=False)


def test_a_fit_with_a_discrete_block_held_looks_at_that_value_alone():
    model = made(by_choice, state={"k": 0}, support={"k": 4})
    check_model(model, ints=np.array([2]))
    with pytest.raises(IndexError, match="k=3"):
        sm.laplace(model, "b", given={"k": 3}, progress=False)


# ------------------------------------------------------------------------------------- kernels
@sm.kernel(writes="b")
def by_data(rng, state, data):
    for n in range(len(data.y)):
        state.b[0] += 1e-3 * data.y[n] * state.b[data.level[n]]


@sm.kernel(writes="b")
def into_the_next(rng, state, data):
    """Would write into `other`."""
    for i in range(len(state.b) + 1):
        state.b[i] = rng.standard_normal()


@sm.kernel(writes="b")
def by_its_own_numbers(rng, state, data):
    state.b[rng.integers(0, 4)] = 0.0


@sm.kernel(writes="b")
def before_the_first(rng, state, data):
    for i in range(3):
        state.b[i] = 0.5 * state.b[i - 1]


KERNELS = [
    (by_data, {"level": levels((17, 3))}, [r"by_data.*state\.b\[data\.level\[n\]\]", "index 3"]),
    (into_the_next, {}, [r"kernel into_the_next.*state\.b\[i\]", "index 3", BEYOND_B]),
    (by_its_own_numbers, {}, [r"state\.b\[rng\.integers\(0, 4\)\]", "index 3"]),
    (before_the_first, {}, [r"state\.b\[i - 1\]", "index -1"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "data", "parts"), KERNELS, ids=lambda k: getattr(k, "label", "")
)
@pytest.mark.plain
def test_kernels_of_users(kernel, data, parts):
    with pytest.raises(IndexError) as caught:
        run(made(own_row, data), kernel)
    for part in parts:
        caught.match(part)


def is_low(state):
    return state.k[0] < 3


@sm.kernel(writes="b")
def where_low(rng, state, data):
    state.b[state.k[0]] = 0.0


@pytest.mark.plain
def test_a_kernel_is_tried_only_where_it_would_run():
    model = made(own_row, state={"k": 0}, support={"k": 4})
    others = sm.Gibbs("k") >> sm.Metropolis("other")
    check_run(sm.when(is_low, where_low) >> sm.Metropolis("b") >> others, model)
    with pytest.raises(IndexError, match=r"kernel where_low.*k=3.*index 3"):
        check_run(where_low >> others, model)


def half(state):
    return TABLE[state.k[0]] > 0.0


def slope(state, data, n, out):
    out[0] = data.y[n] - state.b[data.level[n]]
    out[1] = 0.0
    out[2] = 0.0


def slope_into_the_next(state, data, n, out):
    for i in range(4):
        out[i] = 0.0 if i > 0 else data.y[n] - state.b[0]


def site_prior(state, data, site, arm):
    return TABLE[arm]


def stand_in(state):
    return -(state.b[state.k[0]] ** 2)


PARTS = [
    (lambda: sm.when(half, sm.Metropolis("b")), "the predicate of when"),
    (
        lambda: sm.Gibbs("k", log_prior=site_prior),
        r"log_prior of kernel k .*TABLE\[arm\]`.*index 3",
    ),
    (lambda: sm.Metropolis("b", surrogate=stand_in), "surrogate of kernel b"),
]


@pytest.mark.parametrize(("kernel", "match"), PARTS)
@pytest.mark.plain
def test_functions_that_a_kernel_was_given(kernel, match):
    with pytest.raises(IndexError, match=match):
        run(made(own_row, state={"k": 0}, support={"k": 4}), kernel())


@pytest.mark.plain
def test_a_gradient_of_the_users():
    model = made(own_row, {"level": levels((17, 3))})
    kernel = sm.Langevin("b", gradient=slope, batch=4)
    with pytest.raises((IndexError, ValueError), match=r"datum 17|gradient"):
        run(model, kernel)


def similar(data, i, j):
    return TABLE[data.kind[i]] + TABLE[data.kind[j]]


def similar_to_several(data, i, rows, out):
    for k in range(len(rows)):
        out[k] = TABLE[data.kind[i]] + TABLE[data.kind[rows[k]]]


@pytest.mark.parametrize("score", [similar, similar_to_several])
def test_scores_of_pairs(score):
    size = 3000
    kinds = levels((1234, 3), size=size)
    model = sm.Model(None, {"kind": kinds}, {"y": np.arange(size)}, support={"y": size})
    kernel = sm.GibbsPartition("y", score, candidates=np.arange(size) // 3)
    with pytest.raises(IndexError, match=r"similarity .*TABLE\[data.kind\[.*mentions \d+ and \d+"):
        sm.sample(model, kernel, draws=2, warmup=0, chains=1, progress=False)


# ---------------------------------------------------------------------------------- predictors
def eta(state, data, n):
    return state.b[data.level[n]]


def eta_own(state, data, n):
    return state.b[0] * data.y[n]


def factor(e, data, n):
    return -0.5 * (data.y[n] - e) ** 2


def factor_by_level(e, data, n):
    return -0.5 * (data.y[n] - e) ** 2 - TABLE[data.level[n]]


def derivatives(e, data, n):
    return data.y[n] - e, -1.0 + 0.0 * TABLE[data.level[n]]


def remainder(e, data, n):
    return 0.0, 0.0 * TABLE[data.level[n]]


def etas(state, data, first, out):
    for i in range(out.shape[1]):
        out[0, i] = state.b[data.level[first + i]]


PREDICTORS = [
    (sm.Predictors(eta, factor), r"log_likelihood \(in eta\).*datum 17"),
    (sm.Predictors(eta_own, factor_by_level), r"\(in factor_by_level\).*datum 17"),
    (sm.Predictors(eta_own, factor, derivatives=derivatives), r"derivatives.*TABLE.*datum 17"),
    (sm.Predictors(eta_own, factor, remainder=remainder), r"remainder.*TABLE.*datum 17"),
]


@pytest.mark.parametrize(("predictors", "match"), PREDICTORS)
@pytest.mark.plain
def test_predictors(predictors, match):
    model = made(predictors, {"level": levels((17, 3))})
    for called in (sm.laplace, run):
        with pytest.raises(IndexError, match=match):
            called(model)


@compiled_only
def test_etas():
    size = 2000
    model = sm.Model(
        sm.Predictors(eta, factor, etas=etas),
        {"y": np.zeros(size), "level": levels((1111, 3), size=size)}, {"b": np.zeros(3)},
    )  # fmt: skip
    assert [role for role, _ in suspects_of(model)] == ["log_likelihood", "etas"]
    with pytest.raises(IndexError, match="datum 1111"):
        check_model(model)


def given_derivatives(state, data, n, gradient, hessian):
    r = data.y[n] - state.b[data.level[n]]
    gradient[data.level[n]] += r
    hessian[data.level[n], data.level[n]] -= 1.0


@pytest.mark.plain
def test_derivatives_that_a_control_variate_was_given():
    from subsample_mcmc.approx.taylor.derivatives_user import look_at_derivatives

    look_at_derivatives(made(by_level), given_derivatives)
    with pytest.raises(IndexError, match=r"derivatives .*datum 17"):
        look_at_derivatives(made(by_level, {"level": levels((17, 3))}), given_derivatives)


# ----------------------------------------------------------------------- populations and bandits
def log_factor(data, arm, n):
    return -abs(data.y[n] - data.centre[data.code[n]] * arm)


def by_arm(data, arm, n):
    return -abs(data.y[n] - data.centre[arm])


@pytest.mark.plain
def test_populations():
    def called(population):
        sm.choose(population, selector=sm.Exact())

    data = {"y": np.zeros(SIZE), "centre": np.arange(3.0), "code": levels((17, 3))}
    with pytest.raises(IndexError, match=r'table "centre": `data.*code.n..` at datum 17'):
        called(sm.Population(log_factor, data, arms=2))
    data["code"] = levels((17, -1))
    with pytest.raises(IndexError, match=r"datum 17.*index -1"):
        called(sm.Population(log_factor, data, arms=2))
    called(sm.Population(log_factor, {**data, "code": levels()}, arms=2))
    called(sm.Population(by_arm, data, arms=3))


def pull(data, arm, rng):
    return data.centre[data.code[arm]] + rng.standard_normal()


@pytest.mark.plain
def test_pulls():
    code = np.array([0, 1, 3, 2, 0])
    data = {"centre": np.arange(3.0), "code": code}
    with pytest.raises(IndexError, match=r"pull .*`data\.centre\[data\.code\[arm\]\]` for arm 2"):
        sm.identify(pull, 5, sm.LilUCB(), data=data, seed=1)
    data["code"] = np.array([0, 1, -1, 2, 0])
    with pytest.raises(IndexError, match="for arm 2 asks for index -1"):
        sm.identify(pull, 5, sm.LilUCB(), data=data, seed=1)


# ----------------------------------------------------------------------------------------- cost
def test_functions_that_read_their_own_row_are_not_called_again(monkeypatch):
    """Nor are those of the package."""
    x = np.column_stack([np.ones(SIZE), np.linspace(-1.0, 1.0, SIZE)])
    for model in (
        made(own_row), made(own_row, log_prior=lambda state: -0.5 * state.b[2] ** 2),
        sm.models.glm.gaussian(x, x[:, 1]),
        made(sm.Predictors(lambda state, data, n: state.b[0], factor)),
    ):  # fmt: skip
        assert suspects_of(model) == []


@compiled_only
def test_a_model_is_passed_over_once(monkeypatch):
    from subsample_mcmc.target.lookups import bounds

    calls = []
    whole = bounds.at_state
    monkeypatch.setattr(bounds, "at_state", lambda *a: (calls.append(a), whole(*a)))
    model = made(by_choice, state={"k": 0}, support={"k": 3})
    kernel = sm.Gibbs("k") >> sm.Metropolis("b") >> sm.Metropolis("other")
    for _ in range(2):
        check_run(kernel, model)
        assert len(calls) == 3
    check_model(model, ints=np.array([1]))
    assert len(calls) == 3


@compiled_only
def test_checked_code_is_kept_on_disk_and_still_refuses(tmp_path, monkeypatch):
    """In another process it is read: here the memo is forgotten instead."""
    from subsample_mcmc.numerics import jit as layer
    from subsample_mcmc.numerics import memo

    monkeypatch.setenv("SUBSAMPLE_MCMC_CACHE", str(tmp_path / "cache"))

    def another(b, i):
        return b[i] + 123.0

    for hits in (0, 1):
        monkeypatch.setattr(memo, "_results", OrderedDict())
        monkeypatch.setattr(memo, "_of_users", OrderedDict())
        monkeypatch.setattr(memo, "_lent", {})
        checked = layer.jit(another, user=True, checked=True)
        b = np.zeros(3)
        b.flags.writeable = False
        assert checked(b, 2) == 123.0
        for i in (3, -1):
            with pytest.raises(IndexError):
                checked(b, i)
        assert sum(checked.stats.cache_hits.values()) == hits
        plain = layer.jit(another, user=True)
        assert plain(b, 2) == 123.0
        assert plain.digest != checked.digest


# --------------------------------------------------------------- states that only a chain reaches
def by_time(state, data, n):
    """A change of level at tau, which indexes a table."""
    return -0.5 * (data.y[n] - TABLE[int(state.tau[0])] - state.b[0]) ** 2


@pytest.mark.plain
def test_an_interval_is_tried_at_both_ends():
    for end, wrong in ((3.0, False), (4.0, True)):
        model = made(by_time, state={"tau": 1.0}, constraints={"tau": sm.interval(0.0, end)})
        if wrong:
            with pytest.raises(IndexError, match=r"TABLE\[int\(state.tau\[0\]\)\]`.*index 3"):
                check_model(model)
        else:
            check_model(model)


@pytest.mark.plain
def test_functions_that_turn_on_values_are_told_apart():
    """Of functions that read arrays and other functions from outside."""
    assert turns_on_values(by_time)
    assert not turns_on_values(by_outside)
    assert not turns_on_values(by_helper)


def by_count(state, data, n):
    return -0.5 * (data.y[n] - TABLE[int(state.b[0])]) ** 2


@sm.kernel(writes=("b", "other"))
def onwards(rng, state, data):
    state.b[0] += 1.0


@sm.kernel(writes=("k", "b", "other"))
def upwards(rng, state, data):
    if state.k[0] < 4:
        state.k[0] += 1


@pytest.mark.parametrize(
    ("function", "kernel", "options"),
    [
        (by_count, onwards, {}),
        (by_choice, upwards, {"state": {"k": 0}, "support": {"k": 5}}),
    ],
)
@pytest.mark.plain
def test_a_state_that_only_a_kernel_reaches(function, kernel, options):
    """At the start all is well; the message says in which chain and when."""
    with pytest.raises(IndexError, match="in a state that was reached") as caught:
        sm.sample(made(function, **options), kernel, draws=5, warmup=0, chains=1, seed=1,
                  progress=False)  # fmt: skip
    assert any("chain 0, iteration" in note for note in caught.value.__notes__)


# -------------------------------------------------------------------------------------- PyMC
def test_models_of_pymc():
    """PyMC looks up all rows itself, and -1 means the last there: the translation says so too."""
    pm = pytest.importorskip("pymc", reason="needs PyMC: `make pymc`")

    def translated(codes, categories=0):
        with pm.Model() as model:
            b = pm.Normal("b", 0.0, 1.0, shape=3)
            index = (
                pm.Categorical("k", np.full(categories, 1.0 / categories)) if categories else codes
            )
            pm.Normal("y", b[index], 1.0, observed=np.linspace(-1.0, 1.0, SIZE))
        return sm.from_pymc(model)

    with pytest.raises(IndexError, match="index 3"):
        translated(levels((17, 3)))
    with pytest.raises(IndexError, match="index 3"):
        check_model(translated(None, categories=4), ["k"])
    model = translated(levels((17, -1)))
    check_model(model)
    state = model.record(np.array([1.0, 2.0, 30.0]))
    there = model.extra(state)
    same = model.log_likelihood(state, model.data, 17, *there)
    assert same < -100.0  # the last coefficient's
