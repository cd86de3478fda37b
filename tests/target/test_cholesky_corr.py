"""sm.cholesky_corr: Cholesky factors of correlation matrices, their law, and what is constant."""

import math

import numpy as np
import pytest
from scipy import special, stats

import subsample_mcmc as sm
from subsample_mcmc.target.constraints import inside, to_block, to_free

block_at, free_at, is_inside = (getattr(f, "py_func", f) for f in (to_block, to_free, inside))
QUIET = {"progress": False}


def factor(size: int):
    """The constraint of a block of so many rows."""
    return sm.cholesky_corr.of_shape("L", (size, size))


def at(u, size: int):
    """(L, log |dL/du|)."""
    to, x = factor(size), np.full(size * size, np.nan)
    with np.errstate(all="ignore"):
        jacobian = block_at(to.kind, to.low, to.high, np.asarray(u, dtype=float), x)
    return x.reshape(size, size), jacobian


@pytest.mark.plain
@pytest.mark.parametrize("size", [2, 3, 5])
def test_coordinates_lead_to_a_factor_and_back(size, rng):
    to, count = factor(size), size * (size - 1) // 2
    assert to.free_length(size * size) == count
    below = [i * size + j for i in range(size) for j in range(i)]
    assert [to.value_of(j) for j in range(count)] == below
    constant = [0, *(i * size + j for i in range(size) for j in range(i + 1, size))]
    assert sorted(constant) == to.constant(size * size)
    for scale in (0.3, 1.0, 4.0, 40.0):
        u, back = scale * rng.standard_normal(count), np.full(count, np.nan)
        found, jacobian = at(u, size)
        np.testing.assert_allclose(np.diag(found @ found.T), 1.0, rtol=1e-12)
        assert np.array_equal(found, np.tril(found)) and np.isfinite(jacobian)
        to.check("L", found.ravel())
        assert is_inside(to.kind, to.low, to.high, found.ravel())
        free_at(to.kind, to.low, to.high, found.ravel(), back)
        np.testing.assert_allclose(back, u, rtol=1e-9)
    correlation = np.corrcoef(rng.standard_normal((size, 40)))
    given = np.linalg.cholesky(correlation)
    free_at(to.kind, to.low, to.high, given.ravel(), back)
    np.testing.assert_allclose(at(back, size)[0], given, atol=1e-14)


@pytest.mark.plain
@pytest.mark.parametrize("v", [30.0, -300.0, 700.0])
def test_next_to_a_correlation_of_one_all_digits_are_kept(v):
    (found, jacobian), back, to = at([v], 2), np.zeros(1), factor(2)
    assert found[1, 0] == math.copysign(1.0, v) and 0.0 < found[1, 1] < 1e-12
    assert jacobian == pytest.approx(2.0 * (math.log(2.0) - abs(v)), rel=1e-14)
    free_at(to.kind, to.low, to.high, found.ravel(), back)
    assert back[0] == pytest.approx(v, rel=1e-14)
    assert at([800.0], 2)[1] == -np.inf  # where 1 / cosh rounds to 0


@pytest.mark.plain
@pytest.mark.parametrize("eta", [1.0, 3.0])
@pytest.mark.parametrize("size", [2, 3])
def test_the_jacobian_makes_a_density_of_correlations(size, eta):
    """By sums over a grid of free coordinates: the mass of LKJ(eta), and its correlations' squares.

    Each correlation is 2 B - 1, B of Beta(a, a), a = eta - 1 + d / 2. The mass is that of partial
    correlations, which are independent: 2 B - 1 of a = eta + (d - 1 - k) / 2 in column k.
    """
    step, count = 0.5 / math.sqrt(eta), size * (size - 1) // 2
    grid = np.arange(-6.9 / math.sqrt(eta), 7.0 / math.sqrt(eta), step)
    powers = np.array([size - i - 3 + 2.0 * eta for i in range(1, size)])
    sums = np.zeros(1 + count)
    for u in np.stack(np.meshgrid(*[grid] * count), axis=-1).reshape(-1, count):
        found, jacobian = at(u, size)
        each = step**count * math.exp(jacobian + powers @ np.log(np.diag(found)[1:]))
        matrix = found @ found.T
        sums += each * np.array([1.0, *(matrix[np.tril_indices(size, -1)] ** 2)])
    np.testing.assert_allclose(sums[1:] / sums[0], 1.0 / (2.0 * eta + size - 1.0), rtol=1e-4)
    mass = 1.0
    for column in range(size - 1):
        a = eta + 0.5 * (size - 2 - column)
        mass *= (2.0 ** (2.0 * a - 1.0) * special.beta(a, a)) ** (size - 1 - column)
    assert sums[0] == pytest.approx(mass, rel=1e-4)


# ------------------------------------------------------------------------------------ by a chain
def of_nothing(state, data, n):
    return 0.0 * data.y[n] * state.L[1, 0]


def lkj(state):
    """LKJ(2), over the numbers below the diagonal."""
    size, total = state.L.shape[0], 0.0
    for i in range(1, size):
        total += (size - i - 3 + 2.0 * 2.0) * math.log(state.L[i, i])
    return total


def walked(rng, current, out):
    """A walk of the numbers themselves, off the set more often than not."""
    size = int(math.sqrt(len(out)))
    for i in range(size):
        left = 1.0
        for j in range(size):
            out[i * size + j] = 0.0
        for j in range(i):
            out[i * size + j] = current[i * size + j] + 0.4 * rng.standard_normal()
            left -= out[i * size + j] ** 2
        out[i * size + i] = math.sqrt(left) if left > 0.0 else -1.0


def alone(size: int):
    """A model without data to speak of."""
    return sm.Model(
        of_nothing, {"y": np.zeros(2)}, {"L": np.eye(size)}, lkj,
        constraints={"L": sm.cholesky_corr},
    )  # fmt: skip


KERNELS = {
    "walk": lambda fit: sm.Metropolis("L", selector=sm.Exact()),
    "pcn": lambda fit: sm.Metropolis("L", proposal=sm.pcn(fit), selector=sm.Exact()),
    "learned": lambda fit: sm.Metropolis("L", proposal=sm.pcn(), selector=sm.Exact()),
    "independence": lambda fit: sm.Metropolis("L", proposal=sm.independence(fit)),
    "Langevin": lambda fit: sm.Langevin("L", batch=2, selector=sm.Exact()),
    "Slice": lambda fit: sm.Slice("L", selector=sm.Exact()),
    "own": lambda fit: sm.Metropolis("L", proposal=walked, selector=sm.Exact()),
}


def p_values(draws: np.ndarray, size: int) -> list[float]:
    """Of each correlation against its Beta law: Kolmogorov and Smirnov's, of thinned draws."""
    shape = 2.0 - 1.0 + size / 2.0
    law = stats.beta(shape, shape, loc=-1.0, scale=2.0)
    matrices = draws @ np.swapaxes(draws, -1, -2)
    return [
        stats.kstest(matrices[..., i, j].ravel(), law.cdf).pvalue
        for i in range(size)
        for j in range(i)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_correlations_have_the_law_of_lewandowski(name, size):
    """3,000 draws of every 25th step: a false alarm in 10^5 of each; power is asked below."""
    model = alone(size)
    kernel = KERNELS[name](sm.laplace(model, **QUIET))
    trace = sm.sample(model, kernel, 1_500, 500, 2, seed=7, thin=25, **QUIET)
    draws = np.asarray(trace.draws["L"])
    assert trace.mixing("L").ess > 1_500.0  # nearly independent, as the test takes them to be
    assert min(p_values(draws, size)) > 1e-5


@pytest.mark.parametrize("power", [1.0, 0.0, -1.0])
def test_another_measure_would_be_seen(power, rng):
    """Draws of LKJ(2) pass; those of another power of the diagonal, of a wrong Jacobian, fail."""
    z = 2.0 * rng.beta(2.5, 2.5, (3_000, 3)) - 1.0  # 3 x 3: partial correlations, by rows
    z[:, 2] = 2.0 * rng.beta(2.0, 2.0, 3_000) - 1.0
    u = np.arctanh(z)
    draws = np.array([at(each, 3)[0] for each in u])
    if power:  # by weights of the wrong density
        weights = draws[:, 2, 2] ** power
        weights /= weights.sum()
        draws = draws[rng.choice(3_000, 3_000, p=weights)]
    assert (min(p_values(draws, 3)) > 1e-5) == (power == 0.0)


# ---------------------------------------------------------------------------------- refusals
WRONG = {
    "above the diagonal": np.array([[1.0, 0.1], [0.6, 0.8]]),
    "a row too long": np.array([[1.0, 0.0], [0.6, 0.9]]),
    "a negative diagonal": np.array([[1.0, 0.0], [0.6, -0.8]]),
    "an edge": np.array([[1.0, 0.0], [1.0, 0.0]]),
    "a first row of another sign": np.array([[-1.0, 0.0], [0.6, 0.8]]),
}


@pytest.mark.plain
@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_factor_is_outside(name):
    to, right = factor(2), np.array([[1.0, 0.0], [0.6, 0.8]])
    assert is_inside(to.kind, to.low, to.high, right.ravel())
    assert not is_inside(to.kind, to.low, to.high, WRONG[name].ravel())
    with pytest.raises(ValueError, match=r"needs a lower triangular .*np.eye\(2\)"):
        sm.Model(
            of_nothing, {"y": np.zeros(2)}, {"L": WRONG[name]}, constraints={"L": sm.cholesky_corr}
        )


@pytest.mark.plain
def test_blocks_that_cannot_be_factors_are_refused():
    data, wanted = {"y": np.zeros(2), "g": np.array([0, 1])}, {"L": sm.cholesky_corr}
    for given in (np.ones(3), np.eye(3)[:2], np.eye(1), np.ones((2, 2, 2))):
        with pytest.raises(ValueError, match="is of a square matrix of two rows or more"):
            sm.Model(of_nothing, data, {"L": given}, constraints=wanted)
    with pytest.raises(ValueError, match="the values of a Cholesky factor move together"):
        sm.Model(of_nothing, data, {"L": np.eye(2)}, constraints=wanted, touches={"L": "g"})


@sm.kernel(writes="L")
def leaves(rng, state, data):
    """Writes above the diagonal."""
    state.L[0, 1] = 0.1


def test_a_kernel_of_ones_own_that_leaves_the_set_ends_the_chain():
    with pytest.raises(ValueError, match="L"):
        sm.sample(alone(2), leaves, 10, 0, 1, seed=1, **QUIET)


@pytest.mark.plain
@pytest.mark.parametrize("size", [2, 4])
def test_values_near_a_factor_are_pulled_into_one(size, rng):
    to, x = factor(size), rng.standard_normal(size * size)
    to.pulled(x)
    to.check("L", x)
