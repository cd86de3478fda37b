"""Functions that say something else where they are compiled are refused, with both values."""

import math

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.decisions import compared
from subsample_mcmc.numerics.compared import Shaken, Widened, apart, is_rounding
from subsample_mcmc.numerics.jit import DISABLED

pytestmark = pytest.mark.skipif(DISABLED, reason="nothing is compiled")

SIZE = 100_000
RNG = np.random.default_rng(0)
A, B = RNG.integers(0, 200, (2, SIZE)).astype(np.uint8)
Y = RNG.standard_normal(SIZE)
SIGMA = 0.1


def long_integers(state, data, n):
    return -0.5 * ((data.y[n] - state.b[0] * n**4 / 1e20) / SIGMA) ** 2


def fractions_of_integers(state, data, n):
    return -0.5 * ((data.y[n] - 2 ** (-state.k[0])) / SIGMA) ** 2


def fractions_of_a_column(state, data, n):
    return -0.5 * (data.y[n] - state.b[0] * 2 ** (-data.lag[n])) ** 2


def inner(k):
    return 3 ** (-k)


def in_a_helper(state, data, n):
    return -0.5 * (data.y[n] - inner(state.k[0])) ** 2


DATA = {"y": Y, "a": A, "b": B, "lag": np.r_[0, np.arange(SIZE - 2) % 7, 0]}
DATA["even"] = np.arange(SIZE) % 2 == 0
WRONG = [long_integers, fractions_of_integers, fractions_of_a_column, in_a_helper]


@pytest.fixture(autouse=True)
def on_a_busy_machine_too(monkeypatch):
    """All data that are chosen are looked at, however long Python takes."""
    monkeypatch.setattr(compared, "SECONDS", 60.0)


def run(log_likelihood, data=DATA, log_prior=None, **more):
    model = sm.Model(log_likelihood, data, {"b": 0.0, "k": 0}, log_prior, support={"k": 4}, **more)
    kernel = sm.Metropolis("b", adapt=False) >> sm.Gibbs("k", sm.Exact())
    return sm.sample(model, kernel, draws=2, warmup=0, chains=1, seed=1, progress=False)


@pytest.mark.parametrize("log_likelihood", WRONG)
def test_other_integers_are_refused(log_likelihood):
    """Also where the initial state, and the first and the last datum, hide it."""
    with pytest.raises(ValueError, match=r"in Python, and .* where it is compiled, in the state"):
        run(log_likelihood)


@pytest.mark.parametrize("log_likelihood", WRONG)
def test_other_integers_are_refused_by_fits(log_likelihood):
    """The mode of another function is no mode, and nothing else tells."""
    model = sm.Model(log_likelihood, DATA, {"b": 0.0, "k": 0}, support={"k": 4})
    with pytest.raises(ValueError, match=r"in Python, and .* where it is compiled, in the state"):
        sm.laplace(model, progress=False)


def of_floats(state, data, n):
    level = 2.0 ** (-state.k[0]) + state.b[0] * float(n) ** 4 / 1e20
    return -0.5 * (data.y[n] - level - (float(data.a[n]) - data.b[n])) ** 2


def singular(state, data, n):
    """Python raises, or has no number, where compiled code goes on."""
    return -0.5 * data.y[n] ** 2 - sm.log(sm.exp(800.0 * state.b[0]) + 1.0) + 0.0 / (n + 1)


def divided(state, data, n):
    return -abs(data.y[n] - state.b[0]) - 1.0 / data.lag[n] if state.k[0] > 4 else -abs(data.y[n])


def truth_values(state, data, n):
    either = 1.0 if ~data.even[n] else 2.0
    return -0.5 * (data.y[n] - state.b[0] - either * data.even[n] - (data.even[n] & True)) ** 2


@pytest.mark.parametrize("log_likelihood", [of_floats, singular, divided, truth_values])
def test_the_same_written_as_floats_is_taken(log_likelihood):
    run(log_likelihood)


def expanded(state, data, n):
    return -0.5 * (data.y[n] ** 2 - 2.0 * data.y[n] * state.b[0] + state.b[0] ** 2)


def microseconds(state, data, n):
    return -0.5 * ((data.t[n] * 1e-6 - (1.7e9 + state.b[0])) / 0.001) ** 2


def cancelling(state, data, n):
    return -0.5 * (data.y[n] * 1000.0 - 1000.0 * data.y[n] * data.y[n] - state.b[0]) ** 2


ROUNDED = {
    "expanded": (expanded, {"y": 1e6 + Y[:1000]}),
    "single": (expanded, {"y": (1e3 + Y[:1000]).astype(np.float32)}),
    "microseconds": (microseconds, {"t": (1.7e15 + 1e3 * Y[:1000]).astype(int)}),
    "cancelling": (cancelling, {"y": Y[:1000].astype(np.float32)}),
}  # fmt: skip


@pytest.mark.parametrize("case", ROUNDED)
def test_rounding_is_no_difference(case):
    """Where large terms cancel, as compiled code adds them in another order."""
    log_likelihood, data = ROUNDED[case]
    run(log_likelihood, data)


def sums_of_truths(state, data, n):
    agree = (data.B[n, 0] == data.B[n, 1]) + (data.B[n, 1] == data.B[n, 2])
    count = data.even[n] + data.B[n, 0] + data.B[n, 1]
    return -0.5 * (data.y[n] - state.b[0] - agree - count) ** 2


def sums_of_bytes(state, data, n):
    return -0.001 * (data.y[n] - state.b[0] - (data.C[n] * 2).sum()) ** 2


def test_counts_of_truth_values_and_of_bytes_are_what_compiled_code_makes_of_them():
    """numpy's own + of two truth values is "or", and its bytes wrap: compiled ones do neither."""
    more = {"B": RNG.integers(0, 2, (SIZE, 3)) > 0, "C": np.stack([A, B], axis=1)}
    for log_likelihood in (sums_of_truths, sums_of_bytes):
        run(log_likelihood, DATA | more)


def test_where_the_prior_is_nothing_no_data_are_asked():
    """A series that converges inside the prior's bounds only: it would not end beyond."""

    def series(state, data, n):
        term, total = 1.0, 0.0
        while term > 1e-12:
            total += term
            term *= state.b[0]
        return -0.5 * (data.y[n] - 0.1 * total) ** 2

    def inside(state):
        return 0.0 if 0.0 <= state.b[0] < 0.99 else -math.inf

    run(series, {"y": Y[:100]}, inside)


def test_what_a_sum_over_many_sites_hides_is_refused():
    """The prior of k is wrong by half a nat, among thousands."""

    def of_sites(state):
        total = 3.0 * 2 ** (-state.k[0])
        for j in range(2_000):
            total += -0.5 * (state.a[j] - 2.0) ** 2
        return total

    def simple(state, data, n):
        return -0.5 * (data.y[n] - state.a[0]) ** 2

    model = sm.Model(simple, {"y": Y[:100]}, {"a": np.zeros(2_000), "k": 0}, of_sites,
                     support={"k": 4})  # fmt: skip
    kernel = sm.Metropolis("a", scale=0.01, adapt=False) >> sm.Gibbs("k", sm.Exact())
    with pytest.raises(ValueError, match="change of log_prior by other discrete values is"):
        sm.sample(model, kernel, 2, 0, chains=1, seed=1, progress=False)


def test_a_slow_function_is_asked_at_few_data(monkeypatch):
    called = []

    def slow(state, data, n):
        return -0.5 * (data.y[n] - state.b[0]) ** 2

    def counted(function, *variants):
        called.append(function)
        return function(*variants[0])

    monkeypatch.setattr(compared, "value_of", counted)
    monkeypatch.setattr(compared, "SECONDS", 0.0)
    run(slow, {"y": Y[:100]})
    assert len(called) == compared.FEWEST


def test_what_prepare_makes_and_priors_are_compared():
    def prepare(state, data):
        return (2.0 * state.b,)

    def prepared(state, data, n, made):
        return -0.5 * (data.y[n] - made[0][0] * n**5 / 1e25) ** 2

    def of_k(state):
        return 30.0 * 2 ** (-state.k[0]) - 0.5 * state.b[0] ** 2

    def simple(state, data, n):
        return -0.5 * (data.y[n] - state.b[0]) ** 2

    with pytest.raises(ValueError, match="log_likelihood of datum"):
        run(prepared, prepare=prepare)
    with pytest.raises(ValueError, match=r"log_prior .*is .* in Python, and .* it is compiled"):
        run(simple, log_prior=of_k)


def test_a_population_is_compared():
    def halved(data, arm, n):
        return -abs(2 ** (-data.y[n]) - data.at[arm])

    given = {"y": A % 4, "at": np.array([0.0, 0.5, 1.0])}
    with pytest.raises(ValueError, match=r"log_factor of datum \d+ \(y=\d+\), arm \d, is"):
        sm.draw(sm.Population(halved, given, arms=3), size=2)


# ---------------------------------------------------------- columns of whole numbers
def a_difference(state, data, n):
    z = (data.a[n] - data.b[n] - state.b[0]) / 60.0
    return -2.5 * sm.log1p(0.25 * z * z)


def a_sign(state, data, n):
    return -0.5 * (-data.a[n] + state.b[0]) ** 2 / 1e4


def of_a_loop(state, data, n):
    total = 0
    for j in range(2):
        total += data.both[n, j] * (1 - 2 * j)
    return -0.5 * (total - state.b[0]) ** 2 / 1e4


def of_rows(state, data, n):
    row = data.both[n]
    return -0.5 * (row[0] - row[1] - state.b[0]) ** 2 / 1e4


def of_a_loop_over_rows(state, data, n):
    total = 0
    for a, b in zip(data.both[n], data.turned[n]):  # noqa: B905
        total += (a - b) * (a + 1)
    for a in data.both[n]:
        total -= a - data.b[n]
    return -0.5 * (total - state.b[0]) ** 2 / 1e8


def of_what_rows_give(state, data, n):
    row, other = data.both[n], data.one[n]
    gap = row.take(0) - np.take(row, 1) + row.min() - row.max() + np.min(other) - np.max(row)
    gap += other.sum() - row.sum() + np.sum(other) - row.prod()
    return -0.5 * (gap - state.b[0]) ** 2 / 1e4


def in_a_lambda(state, data, n):
    gap = lambda j: data.both[n, j] - data.both[n, 1 - j]  # noqa: E731
    return -0.5 * (gap(0) - state.b[0]) ** 2 / 1e4


def in_a_list(state, data, n):
    gaps = [data.both[n, j] - data.both[n, 1 - j] for j in range(2)]
    return -0.5 * (gaps[0] - gaps[1] - state.b[0]) ** 2 / 1e4


def below_in_a_list(state, data, n):
    low = n - n - 1
    values = [state.b[low + i] for i in range(1)]
    return -values[0] * data.a[n]


def test_look_ups_in_lambdas_and_lists_are_checked():
    """An index of -1 that a list gives reads the last one, unless it is refused."""
    model = sm.Model(below_in_a_list, DATA, {"b": np.zeros(3), "k": 0}, support={"k": 4})
    with pytest.raises(IndexError, match=r"state\.b"):
        sm.sample(model, sm.Metropolis("b") >> sm.Gibbs("k"), draws=2, progress=False)


@pytest.mark.parametrize(("log_likelihood", "kind"), [
    *((f, "uint8") for f in (a_difference, a_sign, of_a_loop, of_rows, in_a_lambda, in_a_list)),
    *((f, kind) for f in (of_what_rows_give, of_a_loop_over_rows) for kind in ("uint8", "uint64")),
    *((a_difference, kind) for kind in ("uint16", "uint32", "uint64")),
])  # fmt: skip
def test_columns_without_a_sign_are_numbers_with_one(log_likelihood, kind):
    """Where they are subtracted: 3 - 5 was 2**64 - 2, and the draws those of another posterior."""
    found = []
    for dtype in (kind, "int64"):
        a, b = A[:4_000].astype(dtype), B[:4_000].astype(dtype)
        data = {"a": a, "b": b, "both": np.column_stack([a, b])}
        data |= {"turned": data["both"][:, ::-1].copy(), "one": a[:, None]}
        model = sm.Model(log_likelihood, data, {"b": 0.0}, lambda state: -1e-6 * state.b[0] ** 2)
        fit = sm.laplace(model, progress=False)
        moves = sm.Metropolis("b", control=sm.Taylor(fit)) >> sm.Metropolis(
            "b", selector=sm.Exact()
        )
        trace = sm.sample(model, moves, draws=50, chains=1, seed=1, progress=False)
        found.append(np.r_[fit.mean, trace.draws["b"].ravel()])
    assert np.all(found[0] == found[1])


def test_factors_of_columns_without_a_sign():
    def factor(data, arm, n):
        return -abs(data.y[n] - data.at[arm]) * 0.01

    given = {"y": A, "at": np.array([90, 100, 110], dtype=np.uint8)}
    signed = {name: column.astype(int) for name, column in given.items()}
    one, other = (
        sm.draw(sm.Population(factor, data, arms=3), size=50, seed=1).arms
        for data in (given, signed)
    )
    assert set(one) == {1}
    assert np.all(one == other)


def a_half(state, data, n):
    return -abs(2 ** (data.k[n] - 3) - state.b[0])


def a_cube(state, data, n):
    return -0.1 * abs(data.k[n] ** 3 * 1e-10 - state.b[0])


def a_square(state, data, n):
    return -0.1 * abs(data.k[n] * data.k[n] * 1e-10 - state.b[0])


def a_square_of_two(state, data, n):
    return -0.1 * abs(data.pair[n, 1] * data.pair[n, 1] * 1e-10 - state.b[0])


@pytest.mark.parametrize(("log_likelihood", "rare"), [
    (a_half, 2), (a_cube, 3_000_000), (a_square, 4_000_000_000), (a_square_of_two, -4_000_000_000),
])  # fmt: skip
def test_few_extreme_values_are_refused(log_likelihood, rare):
    """15 of 20,000 data, which are seldom among some at random."""
    k = 3 + RNG.integers(0, 4, 20_000)
    model = sm.Model(log_likelihood, {"k": k, "pair": np.column_stack([k, k])}, {"b": 0.0})
    moves = sm.Metropolis("b", adapt=False)
    given = {"draws": 2, "warmup": 0, "chains": 1, "seed": 1, "progress": False}
    sm.sample(model, moves, **given)
    k[7_000:7_015] = rare
    model = sm.Model(log_likelihood, {"k": k, "pair": np.column_stack([k, k])}, {"b": 0.0})
    with pytest.raises(ValueError, match=r"log_likelihood of datum 70\d\d .* it is compiled"):
        sm.sample(model, moves, **given)


def test_what_is_compared():
    for plain, compiled in ((1.0, 1.0 + 5e-5), (np.nan, 2.0), (-np.inf, 0.0), (0.0, 9e-7)):
        assert not apart(plain, compiled)
    for plain, compiled in ((3.0, 3.001), (0.0, 1e-4)):
        assert apart(plain, compiled)


def test_how_much_is_rounding():
    """100 times what the last digits of the arguments change."""

    def read(kind):
        return 1.001 if kind is Shaken else 1.0

    assert is_rounding(read, 1.0, 1.09)
    assert not is_rounding(read, 1.0, 1.11)
    assert not is_rounding(lambda kind: 1.0, 1.0, 1.01)
    assert is_rounding(lambda kind: 2.0 if kind is Widened else 1.0, 1.0, 2.0)


def test_shaken_floats_are_the_next_ones():
    y = np.array([1.0, 1e6])
    for column in (y, y.astype(np.float32)):
        shaken = column.view(Shaken)
        found = {abs(shaken[1] - 1e6) for _ in range(20)}
        assert found <= {
            float(np.spacing(column[1])),
            float(column[1] - np.nextafter(column[1], column.dtype.type(0))),
        }
        assert np.all(shaken[:] != column)
    assert len({y.view(Shaken)[1] for _ in range(20)}) == 2
    assert np.array([3]).view(Shaken)[0] == 3
    assert np.array([10**16]).view(Shaken)[0] - 1e16 in (-2.0, 2.0)


# ---------------------------------------------------------- what is kept, and what is predicted
def halved(state):
    return 2 ** -state.k[0]  # a whole number, 0, where it is compiled


def halved_as_array(state):
    return np.array([1.0, 2 ** -state.k[0]])


def drawn_halved(rng, state, data, n):
    return 2 ** -state.k[0]


def drawn_at_random(rng, state, data, n):
    return 2.0 ** -state.k[0] + rng.normal() + rng.poisson(3.0)


def place_of(state, data, n):
    return -0.5 * (data.y[n] - 0.1 * state.k[0]) ** 2


@pytest.mark.skipif(DISABLED, reason="nothing is compiled")
@pytest.mark.parametrize("function", [halved, halved_as_array])
def test_what_is_kept_is_compared(function):
    model = sm.Model(place_of, {"y": np.zeros(50)}, {"k": 0}, support={"k": 5})
    told = r"keep\['p'\].* is 0.*5 in Python, and 0 where it is compiled at .*k="
    with pytest.raises(ValueError, match=told):
        sm.sample(model, sm.Gibbs("k"), draws=2, keep={"p": function}, progress=False)


@pytest.mark.skipif(DISABLED, reason="nothing is compiled")
def test_what_is_predicted_is_compared():
    model = sm.Model(place_of, {"y": np.full(50, 0.3)}, {"k": 0}, support={"k": 5})
    trace = sm.sample(model, sm.Gibbs("k"), draws=5, seed=1, progress=False)
    told = (
        r"simulate is 0\.\d+ in Python, and 0 where it is compiled at datum 0 .*draw . of chain ."
    )
    with pytest.raises(ValueError, match=told):
        sm.predict(model, trace, drawn_halved, progress=False)
    sm.predict(model, trace, drawn_at_random, progress=False)  # the same numbers from one seed


def drawn_by_numpy(rng, state, data, n):
    return np.random.normal()  # noqa: NPY002


@pytest.mark.skipif(DISABLED, reason="nothing is compiled")
def test_what_no_seed_repeats_is_told_of():
    model = sm.Model(place_of, {"y": np.full(50, 0.3)}, {"k": 0}, support={"k": 5})
    trace = sm.sample(model, sm.Gibbs("k"), draws=5, seed=1, progress=False)
    with pytest.raises(ValueError, match=r"from one seed at datum 0 .*draw with its argument rng"):
        sm.predict(model, trace, drawn_by_numpy, progress=False)


# --------------------------------------------------------------------- whole numbers divided by 0
def of_every(state, data, n):
    on = 1.0 if n % state.k[0] == 0 else 0.0
    return -0.5 * (data.y[n] - state.b[0] - on) ** 2


def of_a_column(state, data, n):
    return -0.5 * (data.y[n] - state.b[0] - 7 // data.rare[n]) ** 2


def by_divmod(state, data, n):
    return -0.5 * (data.y[n] - state.b[0] - divmod(n, state.k[0])[1]) ** 2


def remainder(a, b):
    a %= b
    return a


def by_a_helper(state, data, n):
    return -0.5 * (data.y[n] - state.b[0] - remainder(7, state.k[0] - 2)) ** 2


def logarithm(state, data, n):
    return -0.5 * data.y[n] ** 2 + sm.log(7.0 * (7 // data.rare[n]))


RARE = {
    "rare": (1 + np.arange(SIZE) % 3) * (np.arange(SIZE) != 4_321)
}  # 0 once: seldom among data taken at random
DIVIDED = [of_every, of_a_column, by_divmod, by_a_helper, logarithm]


@pytest.mark.parametrize("log_likelihood", DIVIDED)
def test_whole_numbers_divided_by_0_are_refused(log_likelihood):
    """Compiled code says that they are 0, where Python raises: also at one datum or value alone."""
    told = r"of datum \d+ .*ZeroDivisionError in Python: line \d+ of \w+, `.*`, divides a whole"
    with pytest.raises(ValueError, match=told):
        run(log_likelihood, DATA | RARE)


def floats_by_0(state, data, n):
    weight = sm.exp(-(2.0 // data.zeros[n])) + sm.exp(-1.0 / data.zeros[n])  # infinity is meant
    return -0.5 * (data.y[n] - state.b[0]) ** 2 + weight + sm.exp(-data.lag[n] / state.k[0])


def asked_first(state, data, n):
    k, c = state.k[0], data.rare[n]
    rest = n % k if k else 0
    return -0.5 * (data.y[n] - state.b[0]) ** 2 - 0.1 * rest - (7 // c if c else 0)


@pytest.mark.parametrize("log_likelihood", [floats_by_0, asked_first])
def test_what_is_divided_by_0_otherwise_is_taken(log_likelihood):
    data = {name: column[:50] for name, column in (DATA | RARE).items()}
    run(log_likelihood, data | {"zeros": np.zeros(50), "lag": 1 + np.arange(50) % 3})


def test_priors_kept_functions_populations_and_predictions_too():
    def of_k(state):
        return -float(7 // (state.k[0] - 1)) - 0.5 * state.b[0] ** 2

    def simple(state, data, n):
        return -0.5 * (data.y[n] - state.b[0]) ** 2

    def kept(state):
        return 3.0 % 2.0 + 3 % state.k[0]

    def drawn(rng, state, data, n):
        return rng.normal() + n // state.k[0]

    def factor(data, arm, n):
        return -abs(data.y[n] - n // arm) * 1e-3

    told, few = "ZeroDivisionError in Python", {"y": Y[:50]}
    with pytest.raises(ValueError, match=rf"log_prior is .*{told}"):
        run(simple, few, of_k)
    with pytest.raises(ValueError, match=rf"log_factor of datum 0 .*{told}"):
        sm.draw(sm.Population(factor, few, arms=3), size=2)
    model = sm.Model(place_of, few, {"k": 0}, support={"k": 5})
    with pytest.raises(ValueError, match=rf"keep\['p'\] is 1 where .*{told}"):
        sm.sample(model, sm.Gibbs("k"), draws=2, keep={"p": kept}, progress=False)
    low = sm.Model(place_of, {"y": np.full(50, -9.0)}, {"k": 0}, support={"k": 5})  # k is 0
    trace = sm.sample(low, sm.Gibbs("k"), draws=5, seed=1, progress=False)
    with pytest.raises(ValueError, match=rf"simulate is .*{told}"):
        sm.predict(low, trace, drawn, progress=False)
