"""Functions that say something else where they are compiled are refused, with both values."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.compared import FLOAT32, first_apart
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


def unsigned(state, data, n):
    higher = 1.0 if data.a[n] - data.b[n] > 0 else 0.0
    return -0.5 * (data.y[n] - state.b[0] * higher) ** 2


def inner(k):
    return 3 ** (-k)


def in_a_helper(state, data, n):
    return -0.5 * (data.y[n] - inner(state.k[0])) ** 2


DATA = {"y": Y, "a": A, "b": B, "lag": np.r_[0, np.arange(SIZE - 2) % 7, 0]}
DATA["even"] = np.arange(SIZE) % 2 == 0
WRONG = [long_integers, fractions_of_integers, fractions_of_a_column, unsigned, in_a_helper]


def run(log_likelihood, data=DATA, log_prior=None, **more):
    model = sm.Model(log_likelihood, data, {"b": 0.0, "k": 0}, log_prior, support={"k": 4}, **more)
    kernel = sm.Metropolis("b", adapt=False) >> sm.Gibbs("k", sm.Exact())
    return sm.sample(model, kernel, draws=2, warmup=0, chains=1, seed=1, progress=False)


@pytest.mark.parametrize("log_likelihood", WRONG)
def test_other_integers_are_refused(log_likelihood):
    """Also where the initial state, and the first and the last datum, hide it."""
    with pytest.raises(ValueError, match=r"in Python, and .* where it is compiled, in the state"):
        run(log_likelihood)


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


def test_few_digits_are_no_difference():
    def cancelling(state, data, n):
        return -0.5 * (data.y[n] * 1000.0 - 1000.0 * data.y[n] * data.y[n] - state.b[0]) ** 2

    run(cancelling, {"y": Y[:1000].astype(np.float32)})


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
    with pytest.raises(ValueError, match=r"log_prior is .* in Python, and .* where it is compiled"):
        run(simple, log_prior=of_k)


def test_a_population_is_compared():
    def unsigned_factor(data, arm, n):
        return -abs(data.y[n] - data.at[arm]) * 0.01

    given = {"y": A, "at": np.array([90, 100, 110], dtype=np.uint8)}
    with pytest.raises(ValueError, match=r"log_factor of datum \d+ \(y=\d+\), arm \d, is"):
        sm.draw(sm.Population(unsigned_factor, given, arms=3), size=2)
    signed = {name: column.astype(int) for name, column in given.items()}
    assert set(sm.draw(sm.Population(unsigned_factor, signed, arms=3), size=50).arms) == {1}


def test_what_is_compared():
    plain = np.array([1.0, np.nan, -np.inf, 3.0, 0.0])
    assert first_apart(plain, np.array([1.0 + 5e-5, 2.0, 0.0, 3.0, 9e-7])) == -1
    assert first_apart(plain, np.array([1.0, 2.0, 0.0, 3.001, 0.0])) == 3
    assert first_apart(plain, np.array([1.0, 2.0, 0.0, 3.0, 1e-4])) == 4
    assert first_apart(plain, np.array([1.0, 2.0, 0.0, 3.0, 1e-4]), FLOAT32) == -1
