"""Steps of a user's own kernel, as compiled, beside the same in Python."""

import random
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize, stats

import subsample_mcmc as sm
from subsample_mcmc.kernels import checks
from subsample_mcmc.numerics import bytecode

Y = np.random.default_rng(0).standard_normal(3_000)
C = (np.arange(3_000) % 200).astype(np.uint8)


def model():
    return sm.Model(
        lambda s, data, n: -0.5 * (data.y[n] - s.mu[0]) ** 2, {"y": Y, "c": C},
        {"mu": 0.0, "k": 3}, support={"k": 9},
    )  # fmt: skip


def run(function, **options):
    kernel = sm.kernel(writes=("mu", "k"))(function)
    return sm.sample(model(), kernel, draws=3, warmup=0, chains=1, seed=1, progress=False,
                     **options)  # fmt: skip


def a_power(rng, state, data):
    state.mu[0] = rng.standard_normal() * 2 ** (-state.k[0])


def a_large_power(rng, state, data):
    state.mu[0] = float((state.k[0] + 10) ** 25) * 1e-30 + rng.standard_normal()


def a_division_by_zero(rng, state, data):
    state.mu[0] = rng.standard_normal() + (7 // data.c[0])


@pytest.mark.parametrize("function", [a_power, a_large_power, a_division_by_zero])
def test_steps_that_are_others_where_they_are_compiled_are_refused(function):
    with pytest.raises(ValueError, match=f"what kernel {function.__name__} writes is .* compiled"):
        run(function)


def test_a_step_that_waited_for_a_core_is_compared_all_the_same(monkeypatch):
    """Of two steps one stood still for a while: the kernel was taken, unseen."""
    now, waits = [0.0], iter([1.0, 0.0])

    def step():
        now[0] += next(waits)

    monkeypatch.setattr(checks, "time", SimpleNamespace(monotonic=lambda: now[0]))
    assert checks.shortest(step) == 0.0
    waits = iter([1.0, 2.0, 3.0])
    assert checks.shortest(step) == 1.0


def moved(rng, state, data):
    new, gain = state.mu[0] + 0.05 * rng.standard_normal(), 0.0
    for i in range(len(data.y)):
        gain += 0.5 * (data.y[i] - state.mu[0]) ** 2 - 0.5 * (data.y[i] - new) ** 2
    if np.log(rng.random()) < gain:
        state.mu[0] = new
    state.k[0] = rng.integers(0, 9)


def chaotic(rng, state, data):
    """Rounding alone decides where it ends: log2(1e16) doublings are 53 of these steps."""
    x = 0.3 + 0.1 * rng.random() + 1e-3 * data.y[0]
    for _ in range(300):
        x = 3.99 * x * (1.0 - x)
    state.mu[0] = x


def of_global_numbers(rng, state, data):
    state.mu[0] = np.random.standard_normal()  # noqa: NPY002


def a_difference(rng, state, data):
    state.mu[0] = data.c[0] - data.c[1] + 0.1 * rng.random()


@pytest.mark.parametrize("function", [moved, chaotic, a_difference])
def test_other_steps_are_taken(function):
    """The same ones, those that rounding explains, and of numbers that have no sign."""
    assert np.all(np.abs(run(function).draws["mu"]) < 9.0)


def a_step_of_it(state):
    state.mu[0] = np.random.standard_normal()  # noqa: NPY002


def of_a_helper(rng, state, data):
    a_step_of_it(state)


@pytest.mark.parametrize("function", [of_global_numbers, of_a_helper])
def test_steps_that_have_no_seed_are_told(function):
    """They cannot be compared with Python's, and a run of them cannot be repeated."""
    with pytest.warns(UserWarning, match="draws by np.random.standard_normal, which the seed"):
        assert np.all(np.isfinite(run(function).draws["mu"]))


def test_so_are_proposals_that_have_none():
    def walk(rng, current, out):
        out[0] = current[0] + 0.1 * random.gauss(0.0, 1.0)

    kernel = sm.Metropolis("mu", proposal=walk) >> sm.Gibbs("k")
    given = {"draws": 2, "warmup": 0, "chains": 1, "seed": 1, "progress": False}
    with pytest.warns(UserWarning, match="walk draws by random.gauss, which the seed does"):
        sm.sample(model(), kernel, **given)


def test_the_chains_own_numbers_are_not_told_of():
    assert bytecode.global_generator(moved) == ""
    assert bytecode.global_generator(lambda rng: np.random.default_rng(rng.integers(9))) == ""
    assert bytecode.global_generator(lambda rng: shared.normal()) == "shared"
    given = lambda rng: optimize.minimize(abs, 1.0 + rng.random())  # noqa: E731, scipy may draw
    assert bytecode.global_generator(given) == ""
    seeded = lambda rng: stats.norm.rvs(random_state=rng)  # noqa: E731
    assert bytecode.global_generator(seeded) == ""

    def seeded_within(rng):
        import random as own

        from numpy.random import default_rng

        rvs = "rvs"
        return default_rng(rng.integers(9)), own.Random(int(rng.integers(9))), rvs

    assert bytecode.global_generator(seeded_within) == ""


def test_generators_without_a_seed_are_told_of():
    def within(rng):
        import random as own

        return own.gauss(0.0, 1.0)

    for function, name in (
        (lambda rng: np.random.default_rng().normal(), "default_rng()"),
        (lambda rng: np.random.default_rng(None).normal(), "default_rng()"),
        (lambda rng: stats.norm.rvs(), "stats.norm.rvs() without random_state"),
        (lambda rng: helper(), "default_rng()"),
        (within, "random"),
    ):
        assert bytecode.global_generator(function) == name


def helper():
    return np.random.default_rng().normal()


shared = np.random.default_rng(1)


def test_python_makes_steps_of_few_rows():
    """A kernel that reads all rows would keep a user waiting; what Python calls cannot compile."""
    rows = []

    def seen(rng, state, data):
        rows.append(len(data.y))

    leaf = SimpleNamespace(function=seen, blocks=("mu",), label="seen", obstacle=lambda model: "")
    checks.compare_steps(leaf, model())
    assert set(rows) == {checks.FEW}


def test_python_makes_no_long_steps(monkeypatch):
    """Of a step that takes compiled code 5 ms Python would make a second or more."""
    calls = []

    def long(rng, state, data):
        x = 0.5
        for _ in range(20_000_000):
            x = 3.9 * x * (1.0 - x)
        state.mu[0] = x + 0.0 * rng.random()

    monkeypatch.setattr(checks, "in_numbers", lambda *given: calls.append(given))
    run(long)
    assert not calls
