"""Constraints: coordinates and their inverse, the Jacobian by differences, edges, refusals."""

import math

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.target.constraints import ROOTS, inside, real, to_block, to_free
from tests.helpers.claims import equal

SETS = {
    "real": real,
    "log": sm.positive,
    "softplus": sm.positive("softplus"),
    "squareroot": sm.positive("squareroot"),
    "cuberoot": sm.positive("cuberoot"),
    "interval": sm.interval(-2.0, 5.0),
    "unit": sm.interval(0.0, 1.0),
    "simplex": sm.simplex,
    "ordered": sm.ordered,
    "cholesky": sm.cholesky_corr.of_shape("L", (3, 3)),
}
pytestmark = pytest.mark.plain


@jit
def free_of(kind, low, high, x, u):
    to_free(kind, low, high, x, u)


@jit
def block_of(kind, low, high, u, x):
    return to_block(kind, low, high, u, x)


def block(name, u):
    """(x, log |dx/du|) at free coordinates u."""
    given_set, u = SETS[name], np.atleast_1d(np.asarray(u, dtype=float))
    x = np.full(9 if name == "cholesky" else len(u) + (name == "simplex"), np.nan)
    with np.errstate(all="ignore"):
        jacobian = block_of(given_set.kind, given_set.low, given_set.high, u, x)
    return x, jacobian


def free(name, x):
    given_set, x = SETS[name], np.asarray(x, dtype=float)
    u = np.full(given_set.free_length(len(x)), np.nan)
    free_of(given_set.kind, given_set.low, given_set.high, x, u)
    return u


def points(name, rng, count=60):
    """Three free coordinates, several times, from where the map is far from its edges.

    Half of the numbers are anywhere there, a quarter are whole; the others are ends of the range
    and numbers beside them, zeros of both signs and what is next to nothing. Some are all equal.
    """
    root = (0.05, 12.0)
    ends = {"squareroot": root, "cuberoot": root, "simplex": (-3.0, 3.0), "ordered": (-3.0, 3.0)}
    ends["cholesky"] = (-6.0, 6.0)  # so far out that correlations are 1 to five digits
    least, most = ends.get(name, (-12.0, 12.0))
    beside = [np.nextafter(least, most), np.nextafter(most, least)]
    special = [least, most, *beside, 0.0, -0.0, 5e-324, -5e-324, 1e-300, 1e-8, -1e-8, 1.0, -1.0]
    special = [v for v in special if least <= v <= most]
    shape = (count, 3)
    whole = rng.integers(math.ceil(least), math.floor(most), shape, endpoint=True).astype(float)
    kind = rng.integers(4, size=shape)
    found = np.choose(
        kind, [rng.uniform(least, most, shape)] * 2 + [whole, rng.choice(special, shape)]
    )
    found[::8] = found[::8, :1]
    return found


@pytest.mark.parametrize("name", SETS)
def test_there_and_back(name, rng):
    for u in points(name, rng):
        x, jacobian = block(name, u)
        SETS[name].check("x", x)  # inside its set
        assert np.isfinite(jacobian)
        # x keeps 16 digits, so near an edge of the set u keeps those of the distance to it.
        np.testing.assert_allclose(free(name, x), u, rtol=1e-9, atol=1e-9)
        again, _ = block(name, free(name, x))
        np.testing.assert_allclose(again, x, rtol=1e-9)


@pytest.mark.parametrize("name", SETS)
def test_the_jacobian_is_the_derivative(name, rng):
    for u in points(name, rng):
        compare_jacobian(name, u)


def compare_jacobian(name, u):
    _, jacobian = block(name, u)
    free_length = len(u)
    matrix = np.zeros((free_length, free_length))
    for j in range(free_length):
        step = 1e-4 * np.eye(free_length)[j]
        # Five points: the error is of order step^4.
        near = block(name, u + step)[0] - block(name, u - step)[0]
        far = block(name, u + 2.0 * step)[0] - block(name, u - 2.0 * step)[0]
        which = [SETS[name].value_of(k) for k in range(free_length)]
        matrix[:, j] = ((8.0 * near - far) / 12e-4)[which]
    sign, determinant = np.linalg.slogdet(matrix)
    # Differences of x near 1 lose what x is rounded to: 1e-16 over the smallest derivative.
    lost = 1e-11 / np.exp(np.log(np.abs(np.diag(matrix)) + 1e-300).min())
    assert sign == 1.0
    assert abs(determinant - jacobian) < 1e-7 + 100.0 * lost, u


@pytest.mark.parametrize("name", ["log", "softplus", "unit", "simplex"])
@pytest.mark.parametrize("v", [-20.0, -40.0, -300.0, -700.0])
def test_far_out_all_digits_are_kept(name, v):
    """A posterior with much mass near zero must not lose its way back, or stick there."""
    x, jacobian = block(name, [v])
    assert 0.0 < x[0] < 1e-8
    assert jacobian == pytest.approx(v, abs=1e-7)
    assert free(name, x) == pytest.approx(v, rel=1e-13)


@pytest.mark.parametrize("v", [30.0, 300.0, 700.0, 720.0, 735.0])
def test_so_they_are_at_the_other_end(v):
    """Where the last part of a simplex, or what is left of an interval that ends at 0, is tiny."""
    x, jacobian = block("simplex", [v])
    assert 0.0 < x[1] < 1e-8 and jacobian == pytest.approx(-v, rel=1e-6)
    assert free("simplex", x) == pytest.approx(v, rel=1e-6)
    below, x, u = sm.interval(-1.0, 0.0), np.zeros(1), np.zeros(1)
    with np.errstate(all="ignore"):
        jacobian = block_of(below.kind, below.low, below.high, np.array([v]), x)
        free_of(below.kind, below.low, below.high, x, u)
    assert -1e-8 < x[0] < 0.0 and jacobian == pytest.approx(-v, rel=1e-6)
    assert u[0] == pytest.approx(v, rel=1e-6)


@jit
def inside_of(kind, low, high, x):
    return inside(kind, low, high, x)


@pytest.mark.parametrize("name", SETS)
def test_what_has_free_coordinates_is_inside(name, rng):
    """And what has none is not: also where parts of a simplex round to 1, and to 0."""
    own, sizes, agreed = SETS[name], 10.0 ** rng.uniform(-3.0, 3.5, 600), [0, 0]
    for size in sizes:
        u = size * rng.standard_normal(3)
        x, jacobian = block(name, np.abs(u) if own.kind in ROOTS else u)
        with np.errstate(all="ignore"):
            found = inside_of(own.kind, own.low, own.high, x)
        assert found == (jacobian > -np.inf), x
        agreed[int(found)] += 1
    assert agreed[1] > 50 and (agreed[0] > 10 or name == "real" or own.kind in ROOTS)


def of_nothing(state, data, n):
    return 0.0 * data.y[n] * state.w[0]


def small_shares(state):
    return -0.95 * (math.log(state.w[0]) + math.log(state.w[1]))  # Dirichlet(.05, .05)


def draw_shares(rng, current, out):
    g = math.log(rng.standard_gamma(1.05)) + math.log(1.0 - rng.random()) / 0.05
    h = math.log(rng.standard_gamma(1.05)) + math.log(1.0 - rng.random()) / 0.05
    top = max(g, h)
    both = math.exp(g - top) + math.exp(h - top)
    out[0], out[1] = math.exp(g - top) / both, math.exp(h - top) / both


def density_of_shares(to, given):
    if min(to[0], to[1]) <= 0.0:
        return -1e9
    return -0.95 * (math.log(to[0]) + math.log(to[1]))


@pytest.mark.slow
def test_a_proposal_of_ones_own_reaches_the_edge_of_a_simplex():
    """Draws from the target itself, so all are accepted: a sixth have a part that rounds to 1."""
    model = sm.Model(
        of_nothing, {"y": np.zeros(2)}, {"w": np.array([0.5, 0.5])}, small_shares,
        constraints={"w": sm.simplex},
    )  # fmt: skip
    kernel = sm.Metropolis("w", proposal=(draw_shares, density_of_shares), selector=sm.Exact())
    trace = sm.sample(model, kernel, 3_000, warmup=0, chains=1, seed=3, progress=False)
    least = np.asarray(trace.draws["w"])[0].min(axis=-1)
    for edge in (1e-16, 1e-4):
        truth = 2.0 * stats.beta.cdf(edge, 0.05, 0.05)
        equal(int((least < edge).sum()), 3_000, truth, alarm=1e-6)


@pytest.mark.parametrize(
    ("name", "v"),
    [
        ("log", 800.0), ("log", -800.0), ("softplus", -800.0), ("cuberoot", -0.1),
        ("squareroot", -0.1), ("squareroot", 1e-170), ("cuberoot", 0.0), ("cuberoot", 1e-120),
        ("interval", 100.0), ("interval", -100.0),
        ("unit", 50.0), ("unit", -800.0), ("simplex", 800.0), ("simplex", -800.0),
    ],
)  # fmt: skip
def test_what_rounds_to_the_edge_is_outside(name, v):
    assert block(name, [v])[1] == -np.inf


@pytest.mark.parametrize("name", SETS)
def test_one_coordinate_outside_is_outside(name):
    edge = {"real": np.nan, "ordered": -50.0, "squareroot": -1.0, "cuberoot": -1.0}.get(
        name, -800.0
    )
    _, jacobian = block(name, [1.0, edge, 1.0])
    assert jacobian == (0.0 if name == "real" else -np.inf)


@pytest.mark.parametrize(
    "name", ["log", "softplus", "squareroot", "cuberoot", "interval", "unit", "simplex", "ordered"]
)
def test_a_nan_is_outside(name):
    assert not block(name, [np.nan])[1] > -np.inf


@pytest.mark.parametrize("place", range(3))
def test_a_nan_is_no_correlation(place):
    assert not block("cholesky", np.where(np.arange(3) == place, np.nan, 0.3))[1] > -np.inf


def test_the_sets_are_told_apart():
    assert sm.positive("log").kind == sm.positive.kind
    assert sm.positive("softplus")("cuberoot").kind == sm.positive("cuberoot").kind
    assert len({c.kind for c in SETS.values()}) == 9
    assert sm.simplex.free_length(4) == 3
    assert sm.interval(0.0, 1.0).free_length(4) == 4


def three_normals(state):
    return -0.5 * (state.w[0] ** 2 + state.w[1] ** 2 + state.w[2] ** 2)


ORDERED_KERNELS = {
    "Metropolis": lambda fit: sm.Metropolis("w", selector=sm.Exact()),
    "pcn": lambda fit: sm.Metropolis("w", proposal=sm.pcn(fit), selector=sm.Exact()),
    "Langevin": lambda fit: sm.Langevin("w", batch=2, selector=sm.Exact()),
    "Slice": lambda fit: sm.Slice("w", selector=sm.Exact()),
    "own": lambda fit: sm.Metropolis("w", proposal=drawn_in_order, selector=sm.Exact()),
}


def drawn_in_order(rng, current, out):
    """A walk of the values themselves, which may leave their order."""
    for j in range(3):
        out[j] = current[j] + 0.5 * rng.standard_normal()


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDERED_KERNELS)
def test_order_statistics(name):
    """Three normal variables in order: means and squares within 5 errors, an alarm in 10^5."""
    model = sm.Model(
        of_nothing, {"y": np.zeros(2)}, {"w": np.array([-1.0, 0.1, 2.0])}, three_normals,
        constraints={"w": sm.ordered},
    )  # fmt: skip
    kernel = ORDERED_KERNELS[name](sm.laplace(model, progress=False))
    trace = sm.sample(model, kernel, 20_000, warmup=1_000, chains=2, seed=3, progress=False)
    draws = np.asarray(trace.draws["w"])
    assert np.all(np.diff(draws, axis=2) > 0.0)
    mean, square = 1.5 / math.sqrt(math.pi), 1.0 + math.sqrt(3.0) / (2.0 * math.pi)
    for k, (first, second) in enumerate(
        [(-mean, square), (0.0, 3.0 - 2.0 * square), (mean, square)]
    ):
        for values, truth in ((draws[..., k], first), (draws[..., k] ** 2, second)):
            batches = values.reshape(80, 500).mean(axis=1)
            error = batches.std(ddof=1) / math.sqrt(80)
            assert abs(batches.mean() - truth) < 5.0 * error < 0.25, (k, batches.mean(), truth)


# ------------------------------------------------------------------------------ simplexes by rows
ROWS = sm.simplex.of_shape("w", (2, 3))


def test_rows_are_simplexes_side_by_side(rng):
    u = 3.0 * rng.standard_normal(4)
    x, own = np.full(6, np.nan), np.full(4, np.nan)
    jacobian = block_of(ROWS.kind, ROWS.low, ROWS.high, u, x)
    parts = [block("simplex", part) for part in (u[:2], u[2:])]
    assert np.array_equal(x, np.concatenate([values for values, _ in parts]))
    assert jacobian == pytest.approx(parts[0][1] + parts[1][1], rel=1e-14)
    free_of(ROWS.kind, ROWS.low, ROWS.high, x, own)
    np.testing.assert_allclose(own, u, rtol=1e-12)
    assert ROWS.free_length(6) == 4 and [ROWS.value_of(j) for j in range(4)] == [0, 1, 3, 4]
    ROWS.check("w", x)
    with np.errstate(all="ignore"):
        assert inside_of(ROWS.kind, ROWS.low, ROWS.high, x)
        for wrong in (0.5 * x, np.roll(x, 1), np.where(np.arange(6) == 4, -x, x), x * np.nan):
            assert not inside_of(ROWS.kind, ROWS.low, ROWS.high, wrong)
        assert not block_of(ROWS.kind, ROWS.low, ROWS.high, np.array([0.0, 1.0, 800.0, 0.0]), x) > (
            -np.inf
        )


def labelled(state, data, n):
    return sm.log(state.w[data.row[n], data.kind[n]])


def two_dirichlets(state):
    total = 0.0
    for i in range(2):
        for k in range(3):
            total += 0.5 * math.log(state.w[i, k])  # Dirichlet(1.5, 1.5, 1.5)
    return total


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Metropolis", "independence", "Langevin", "Slice"])
def test_rows_have_their_dirichlet_laws(name):
    """Means and variances of all six within 5 errors: an alarm in 10^5."""
    counts = np.array([[8, 3, 1], [2, 2, 10]])
    cells = np.repeat(np.arange(6), counts.ravel())
    model = sm.Model(
        labelled, {"row": cells // 3, "kind": cells % 3}, {"w": np.full((2, 3), 1.0 / 3.0)},
        two_dirichlets, constraints={"w": sm.simplex},
    )  # fmt: skip
    fit = sm.laplace(model, progress=False)
    assert fit.coordinates.labels == ["w[0,0]", "w[0,1]", "w[1,0]", "w[1,1]"]
    kernel = {
        "Metropolis": sm.Metropolis("w", selector=sm.Exact()),
        "independence": sm.Metropolis("w", proposal=sm.independence(fit), selector=sm.Exact()),
        "Langevin": sm.Langevin("w", batch=26, selector=sm.Exact()),
        "Slice": sm.Slice("w", selector=sm.Exact()),
    }[name]
    trace = sm.sample(model, kernel, 20_000, warmup=1_000, chains=2, seed=3, progress=False)
    draws = np.asarray(trace.draws["w"])
    np.testing.assert_allclose(draws.sum(axis=-1), 1.0, rtol=1e-12)
    alpha = counts + 1.5
    mean = alpha / alpha.sum(axis=1, keepdims=True)
    square = mean**2 + mean * (1.0 - mean) / (alpha.sum(axis=1, keepdims=True) + 1.0)
    for values, truth in ((draws, mean), (draws**2, square)):
        batches = values.reshape(80, 500, 2, 3).mean(axis=1)
        error = batches.std(axis=0, ddof=1) / math.sqrt(80)
        assert np.all(np.abs(batches.mean(axis=0) - truth) < 5.0 * error) and error.max() < 0.02


def test_matrices_that_are_no_simplexes_are_refused():
    data, sets = {"y": np.zeros(2)}, {"w": sm.simplex}
    with pytest.raises(ValueError, match="needs at least two positive numbers that add up to 1"):
        sm.Model(of_nothing, data, {"w": np.array([[0.5, 0.5], [0.5, 0.4]])}, constraints=sets)
    for shape in ((2, 1), (2, 2, 2)):
        with pytest.raises(ValueError, match="of each row of a matrix of two columns or more"):
            sm.Model(of_nothing, data, {"w": np.full(shape, 0.5)}, constraints=sets)


def test_a_block_that_cannot_be_ordered_is_refused():
    data, wanted = {"y": np.zeros(2), "g": np.array([0, 1])}, {"w": sm.ordered}
    for state in ({"w": np.array([[0.0, 1.0]])}, {"w": 0.0}):
        with pytest.raises(ValueError, match=r"sm.ordered is of a vector, and the block has shape"):
            sm.Model(of_nothing, data, state, constraints=wanted)
    with pytest.raises(ValueError, match="the values of an ordered vector move together"):
        sm.Model(of_nothing, data, {"w": np.arange(2.0)}, constraints=wanted, touches={"w": "g"})
    with pytest.raises(ValueError, match="no simplex, not ordered"):
        sm.Model(
            of_nothing, data, {"w": np.arange(2.0), "k": 0}, constraints=wanted, support={"k": 2},
            lengths={"w": ("k", (1, 2))},
        )  # fmt: skip


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sm.interval(1.0, 1.0), r"interval\(1.0, 1.0\)"),
        (lambda: sm.interval(2, 1), r"interval\(2, 1\)"),
        (lambda: sm.interval(0.0, np.inf), r"interval\(0.0, inf\)"),
        (lambda: sm.interval(np.nan, 1.0), r"interval\(nan, 1.0\)"),
        (lambda: sm.interval(-1e308, 1e308), r"at most 1e308 apart"),
        (lambda: sm.positive("sqrt"), r"positive\('sqrt'\)"),
        (lambda: sm.simplex("log"), r"simplex\('log'\)"),
        (lambda: sm.interval(0, 1)("log"), r"interval\(0.0, 1.0\)\('log'\)"),
    ],
)
def test_wrong_sets_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_an_interval_that_is_too_wide_for_its_numbers_is_told_of():
    with pytest.warns(UserWarning, match="tell numbers near its middle apart by 2 only"):
        wide = sm.interval(-1e16, 1e16)
    u, x = np.array([3e-16]), np.empty(1)
    block_of(wide.kind, wide.low, wide.high, u, x)
    assert x[0] % 2.0 == 0.0  # of u = 3e-16 it would be 1.5
    sm.interval(-1e9, 1e9), sm.interval(0.0, 1e18)  # near whose low end all are told apart


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("log", [1.0, 0.0]), ("softplus", [-1.0]), ("cuberoot", [0.0]), ("interval", [5.0]),
        ("interval", [-2.0]), ("unit", [0.5, 1.5]), ("simplex", [1.0]), ("simplex", [0.5, 0.6]),
        ("simplex", [1.0, 0.0]), ("simplex", [1.5, -0.5]), ("ordered", [1.0, 1.0]),
        ("ordered", [0.0, 2.0, 1.0]),
    ],
)  # fmt: skip
def test_wrong_starts_are_refused(name, values):
    with pytest.raises(ValueError, match=r"state w=\["):
        SETS[name].check("w", np.array(values))
