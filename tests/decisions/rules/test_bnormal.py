"""B_Normal: the printed table, the quadrature, a simulation, and the lines that races read."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri

from subsample_mcmc.decisions.rules import bnormal
from subsample_mcmc.decisions.rules.bnormal import b_normal, boundary_line, looks, solve_b_normal
from tests.helpers.claims import equal
from tools import make_bnormal_table

SIDES = ("table1", "eq5")

# Chen & Ghahramani (2016), Appendix B, Table 1: six first fractions; two deltas to a line here.
SMALL = [digit * power for power in (1e-6, 1e-5, 1e-4, 1e-3, 1e-2) for digit in (1, 3, 5, 7, 9)]
DELTAS = [
    *SMALL,
    *(0.10, 0.13, 0.16, 0.19, 0.22, 0.25, 0.28, 0.31, 0.34, 0.37, 0.40, 0.43, 0.46, 0.49),
]
PRINTED = """
5.27250 5.25978 5.21523 5.19704 5.15638 5.12982  5.06504 5.05294 5.00570 4.98839 4.94490 4.91964
4.96669 4.95260 4.90571 4.88735 4.84311 4.81818  4.89969 4.88715 4.83793 4.82079 4.77535 4.75037
4.85078 4.83613 4.78840 4.76941 4.72447 4.69877  4.82952 4.81667 4.76734 4.74894 4.70377 4.67696
4.60397 4.58943 4.53827 4.51911 4.47119 4.44485  4.49660 4.48108 4.42961 4.40734 4.36137 4.33158
4.42331 4.40694 4.35512 4.33353 4.28573 4.25692  4.36853 4.35265 4.29963 4.27682 4.22961 4.19891
4.34343 4.32914 4.27380 4.25455 4.20386 4.17608  4.09380 4.07655 4.02027 3.99632 3.94601 3.91438
3.97189 3.95539 3.89641 3.87263 3.82038 3.78605  3.88945 3.87195 3.81223 3.78698 3.73467 3.70026
3.82665 3.80955 3.74833 3.72365 3.66977 3.63422  3.79932 3.78066 3.72003 3.69596 3.64066 3.60812
3.51044 3.49128 3.42498 3.39721 3.34023 3.30253  3.36685 3.34814 3.27812 3.25096 3.19048 3.15168
3.26922 3.24913 3.17763 3.14844 3.08769 3.04691  3.19383 3.17396 3.10034 3.07142 3.00871 2.96758
3.16117 3.13913 3.06612 3.03755 2.97349 2.93484  2.80261 2.77885 2.69625 2.66350 2.59450 2.55058
2.61646 2.59217 2.50369 2.46819 2.39672 2.34862  2.48285 2.45761 2.36449 2.33100 2.25369 2.20744
2.37768 2.35127 2.25533 2.22026 2.14145 2.09317  2.33161 2.30704 2.20851 2.17274 2.09292 2.04351
2.21073 2.18499 2.08270 2.04536 1.96346 1.91214  2.10639 2.08030 1.97430 1.93665 1.85177 1.80027
2.01355 1.98592 1.87702 1.83878 1.75267 1.69949  1.92898 1.90035 1.78969 1.74854 1.66259 1.60660
1.84734 1.81893 1.70515 1.66472 1.57552 1.52056  1.76920 1.73957 1.62421 1.58220 1.49310 1.43584
1.69110 1.66145 1.54360 1.50171 1.41066 1.35354  1.61302 1.58274 1.46319 1.42011 1.32819 1.27094
1.52953 1.49919 1.37749 1.33482 1.24221 1.18303  1.44411 1.41048 1.28960 1.24393 1.15002 1.09455
1.33819 1.30896 1.18163 1.14025 1.04396 0.98381  1.20662 1.17447 1.05191 1.00383 0.91939 0.85273
0.97014 0.94399 0.81030 0.76485 0.69587 0.61783
"""


# ------------------------------------------------------------------------------------ the paper
def test_table_1_of_the_paper():
    table = bnormal.b_normal_table()
    printed = np.array(PRINTED.split(), dtype=float).reshape(39, 6)
    assert table.index.to_numpy() == pytest.approx(DELTAS, rel=1e-12)
    assert list(table.columns) == [5e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2]
    off = np.abs(table.to_numpy() - printed)
    exact = table.index <= 0.37
    assert off[exact].max() < 0.003
    assert off[~exact].max() < 0.04
    # and these digits are not Eq. 5's
    assert np.abs(bnormal.b_normal_table("eq5").to_numpy() - printed).max() > 0.4


def test_sides_differ_as_measured():
    deltas = np.array([1e-3, 0.01, 0.05, 0.1, 0.25, 0.49])
    gap = b_normal(deltas, 5e-5, "eq5") - b_normal(deltas, 5e-5, "table1")
    assert gap == pytest.approx([3e-5, 4e-4, 0.003, 0.009, 0.045, 0.44], rel=0.2)


# ------------------------------------------------------------------------------------ the solver
@pytest.mark.parametrize("side", SIDES)
def test_one_look_is_a_quantile(side):
    deltas = np.array([1e-12, 1e-6, 0.05, 0.3, 0.499])
    for fraction in (0.5, 0.7, 0.999):
        assert b_normal(deltas, fraction, side) == pytest.approx(-ndtri(deltas), abs=1e-8)
    assert b_normal(0.05, 1.0, side) == 0.0
    assert solve_b_normal(0.05, 1.0, side) == 0.0


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("fraction", "growth"), [(0.3, 2.0), (0.26, 2.0), (0.5, 1.9), (0.1, 4.0)])
def test_two_looks_are_a_bivariate_normal(fraction, growth, side):
    assert looks(fraction, growth) == 2
    odds = [p / (1 - p) for p in (fraction, growth * fraction)]
    rho = (odds[0] / odds[1]) ** 0.5
    for delta in (1e-3, 0.05, 0.3, 0.45):
        b = solve_b_normal(delta, fraction, side, growth)
        low = -b if side == "table1" else -12.0
        # P(both looks inside), from the conditional law of the second given the first
        x, w = np.polynomial.legendre.leggauss(400)
        z = low + (b - low) * (x + 1) / 2
        width = (1 - rho**2) ** 0.5
        inside = ndtr((b - rho * z) / width) - ndtr((low - rho * z) / width)
        stay = (b - low) / 2 * (w * stats.norm.pdf(z) * inside).sum()
        error = (1 - stay) / 2 if side == "table1" else 1 - stay
        assert error == pytest.approx(delta, rel=1e-10)


@pytest.mark.slow_for("eq5-1.05", "table1-1.05")
@pytest.mark.parametrize("growth", [1.05, 1.25, 2.0, 16.0])
@pytest.mark.parametrize("side", SIDES)
def test_the_quadrature_has_converged(side, growth, monkeypatch):
    cases = [(1e-12, 0.01), (1e-4, 0.07), (0.05, 0.01), (0.49, 0.03)]
    cases = cases[1::2] if growth < 1.1 else cases  # of 54 looks and 71
    solver = solve_b_normal.__wrapped__  # not the memo
    usual = [solver(d, f, side, growth) for d, f in cases]
    nodes = np.polynomial.legendre.leggauss
    monkeypatch.setattr(bnormal, "_gauss_legendre", lambda n: nodes(2 * n + 7))
    finer = [solver(d, f, side, growth) for d, f in cases]
    assert usual == pytest.approx(finer, abs=2e-12)


def test_extreme_arguments():
    # so small a delta must not be lost in 1 - delta; hundreds of looks must not underflow
    assert solve_b_normal(1e-100, 0.01) == pytest.approx(-ndtri(1e-100), rel=0.02)
    assert 0 < solve_b_normal(0.4999999, 0.01) < 0.2
    assert solve_b_normal(0.999999, 0.01, "eq5") < -2
    assert 0 < solve_b_normal(0.499, 0.3, "table1", 1.02) < solve_b_normal(0.4, 0.3, "eq5", 1.02)


def simulated_exits(rng, delta, fraction, side, growth, runs):
    """Walks of a Brownian motion in the odds clock that leave through B, two-sided or not."""
    p = fraction * growth ** np.arange(looks(fraction, growth))
    odds = p / (1 - p)
    b = solve_b_normal(delta, fraction, side, growth)
    at, left = np.zeros(runs), np.zeros(runs, bool)
    for step, clock in zip(np.diff(odds, prepend=0.0), odds, strict=True):
        at += step**0.5 * rng.standard_normal(runs)
        z = at / clock**0.5
        left |= (np.abs(z) if side == "table1" else z) > b
    return int(left.sum()), delta * (2 if side == "table1" else 1)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("delta", "fraction", "growth"),
    [(0.05, 0.01, 2.0), (0.2, 1e-4, 2.0), (0.4, 0.07, 2.0), (0.1, 0.05, 1.25), (0.05, 0.02, 5.0)],
)
def test_simulated_walks_leave_at_the_stated_rate(rng, delta, fraction, growth, side):
    runs = 200_000
    left, rate = simulated_exits(rng, delta, fraction, side, growth, runs)
    equal(left, runs, rate, alarm=1e-6)


def exits_by_simpson(b, fraction, side, growth, cells=600):
    """The chance that a walk leaves through b: densities of those inside, by Simpson's rule."""
    p = fraction * growth ** np.arange(looks(fraction, growth))
    odds = p / (1 - p)
    z = np.linspace(-b if side == "table1" else -12.0, b, cells + 1)
    weights = np.full(cells + 1, 2.0)
    weights[1::2], weights[[0, -1]] = 4.0, 1.0
    weights *= (z[1] - z[0]) / 3
    inside = stats.norm.pdf(z)
    for before, now in itertools.pairwise(odds):
        rho = (before / now) ** 0.5
        width = (1 - rho**2) ** 0.5
        kernel = np.exp(-0.5 * ((z[:, None] - rho * z) / width) ** 2)
        inside = kernel @ (weights * inside) / (width * (2 * np.pi) ** 0.5)
    return 1 - weights @ inside


@pytest.mark.parametrize("side", SIDES)
def test_walks_leave_at_the_stated_rate_by_another_quadrature(side):
    """Of many looks, and of small errors, which take millions of simulated walks to be seen."""
    for delta, fraction, growth in ((0.001, 0.003, 2.0), (0.25, 0.001, 1.5), (0.49, 0.02, 2.0)):
        b, rate = solve_b_normal(delta, fraction, side, growth), delta
        rate *= 2 if side == "table1" else 1
        assert exits_by_simpson(b, fraction, side, growth) == pytest.approx(rate, rel=1e-6)
        # A boundary that is off by a part in 10,000 is noticed.
        assert exits_by_simpson(b * 1.0001, fraction, side, growth) != pytest.approx(rate, rel=1e-6)


# ------------------------------------------------------------------------------------ the table
def worst(rng, side, deltas, fractions):
    table = b_normal(deltas, fractions, side)
    solved = [
        solve_b_normal.__wrapped__(float(d), float(f), side)
        for d, f in zip(deltas, fractions, strict=True)
    ]
    return np.abs(table - solved).max()


def random_deltas(rng, n):
    small = np.exp(rng.uniform(np.log(1e-8), np.log(0.49), n))
    return np.where(rng.random(n) < 0.5, small, rng.uniform(0.05, 0.49, n))


def random_fractions(rng, n):
    return np.exp(rng.uniform(np.log(1e-7), np.log(0.3), n))


def fractions_at_kinks(rng, n):
    """Next to 2^-k, where a look comes or goes, on both sides."""
    side = rng.choice([-1.0, 1.0], n)
    return 2.0 ** -rng.integers(1, 29, n) * (1 + side * 10 ** rng.uniform(-8.5, -2, n))


@pytest.mark.parametrize("fractions", [random_fractions, fractions_at_kinks])
def test_table_equals_solver(rng, fractions):
    n = 400
    assert worst(rng, "table1", random_deltas(rng, n), fractions(rng, n)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("fractions", [random_fractions, fractions_at_kinks])
def test_table_equals_solver_on_both_sides(rng, side, fractions):
    """A dozen points of each number of looks; a last coefficient that is off by 1e-5 is noticed."""
    n = 300
    assert worst(rng, side, random_deltas(rng, n), fractions(rng, n)) < 1e-6
    edge = np.where(rng.random(80) < 0.5, 1e-9, 0.495)
    assert worst(rng, side, edge, fractions(rng, 80)) < 1e-6


@pytest.mark.parametrize("side", SIDES)
def test_outside_the_table_it_is_solved(side):
    for delta, fraction, growth in [(1e-12, 0.01, 2.0), (0.4999, 0.01, 2.0), (0.1, 0.01, 1.5)]:
        assert b_normal(delta, fraction, side, growth) == solve_b_normal(
            delta, fraction, side, growth
        )
    assert b_normal(0.1, 1e-10, side) == solve_b_normal(0.1, 1e-10, side)
    # no step where the table ends
    for edge in bnormal.TABLE_DELTAS:
        inside, outside = b_normal(np.array([edge, edge * (1 - 1e-9)]), 0.01, side)
        assert inside == pytest.approx(outside, abs=1e-6)
    assert b_normal(0.7, 0.01, "eq5") < b_normal(0.45, 0.01, "eq5")


def test_script_writes_the_shipped_table():
    for side, count in (("table1", 1), ("table1", 6), ("eq5", 3)):
        stored = bnormal._table()[side][count - 1]
        assert make_bnormal_table.coefficients(count, side) == pytest.approx(stored, abs=1e-7)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("growth", [2.0, 1.5])
def test_less_error_and_more_looks_need_a_higher_boundary(side, growth):
    deltas = np.geomspace(1e-9, 0.494, 40 if growth == 2 else 10)
    fractions = growth ** -np.arange(0.5, 12.0)  # one look more each, the same last fraction
    b = b_normal(deltas[:, None], fractions, side, growth)
    assert (np.diff(b, axis=0) < 0).all()
    assert (np.diff(b, axis=1) > 0).all()


# ------------------------------------------------------------------------------------ the line
@pytest.mark.plain
def test_looks_counts_the_fractions_below_one():
    assert [looks(f, 2.0) for f in (0.2, 0.25, 0.3, 0.5, 0.6, 1.0, 1.5)] == [3, 2, 2, 1, 1, 0, 0]
    for growth in (1.05, 1.1, 1.25, 1.7, 2.0, 3.0, 10.0):
        for k in range(1, 25):
            exact = growth**-k
            below, above = np.nextafter(exact, 0), np.nextafter(exact, 1)
            assert looks(exact, growth) == looks(below, growth) == looks(above, growth) == k
            assert looks(exact * (1 - 1e-8), growth) == k + 1
            assert looks(exact * (1 + 1e-8), growth) == k


@pytest.mark.plain
@pytest.mark.parametrize("side", SIDES)
def test_read_boundary_is_b_normal(rng, side):
    for delta in (1e-9, 1e-4, 0.05, 0.3, 0.495):
        line = boundary_line(delta, side, 2.0, 25)
        assert line.shape[0] == 26 and line.flags.writeable
        for f in [*random_fractions(rng, 40), 0.25, 0.5, 0.75, 1.0]:
            assert bnormal.read_boundary(line, f, 2.0) == pytest.approx(
                b_normal(delta, f, side), abs=1e-12
            )


@pytest.mark.slow_for("1.1-25-eq5", "1.1-25-table1", "1.25-30-eq5", "2.0-35-eq5")
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("growth", "most"), [(1.25, 30), (1.1, 25), (5.0, 7), (2.0, 35)])
def test_lines_of_other_growths_equal_the_solver(rng, side, growth, most):
    for delta in (1e-12, 0.02, 0.49):
        line = boundary_line(delta, side, growth, most)
        for f in [*growth ** -rng.uniform(0, most, 12), growth**-3.0, growth**-3.0 * (1 - 1e-8)]:
            solved = solve_b_normal(delta, float(f), side, growth)
            assert bnormal.read_boundary(line, f, growth) == pytest.approx(solved, abs=1e-6)


def test_a_line_is_the_callers_own():
    for growth in (2.0, 3.0):
        line = boundary_line(0.05, "table1", growth, 5)
        line[:] = 0.0
        assert boundary_line(0.05, "table1", growth, 5)[1:, 0].min() > 1.0


@pytest.mark.plain
def test_a_line_too_short_drops_nothing():
    line = boundary_line(0.05, "table1", 2.0, 3)
    assert bnormal.read_boundary(line, 0.01, 2.0) == np.inf
    assert bnormal.read_boundary(boundary_line(0.05, "table1", 2.0, 0), 1.0, 2.0) == 0.0


# ------------------------------------------------------------------------------------ arguments
def test_arrays_broadcast():
    b = b_normal([[0.01], [0.1]], [0.001, 0.01, 1.0])
    assert b.shape == (2, 3)
    assert b[1, 1] == b_normal(0.1, 0.01)
    assert isinstance(b_normal(0.1, 0.01), float)
    assert b_normal(np.array([]), 0.01).shape == (0,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.6, 0.01), r'delta=0.6 .*side="table1" needs 0 < delta < 0.5; use side="eq5"'),
        ((0.0, 0.01), r"delta=0.0 .*use 0 < delta < 0.5"),
        ((float("nan"), 0.01), r"delta=nan .*use 0 < delta < 0.5"),
        ((1.0, 0.01, "eq5"), r"delta=1.0 .*use 0 < delta < 0.5"),
        ((0.05, 0.0), r"first_fraction=0.0 .*\(0, 1\]"),
        ((0.05, float("nan")), r"first_fraction=nan .*\(0, 1\]"),
        ((0.05, 0.01, "both"), r"side='both' .*use side=\"table1\" or side=\"eq5\""),
        ((0.05, 0.01, "table1", 1.0), r"growth=1.0 .*use 1.01 or more"),
    ],
)
def test_bad_arguments_say_what_to_use(arguments, message):
    with pytest.raises(ValueError, match=message):
        b_normal(*arguments)
    with pytest.raises(ValueError, match=message):
        solve_b_normal(*arguments)


def test_bad_lines_say_what_to_use():
    with pytest.raises(ValueError, match=r"max_looks=-1 .*give the most looks"):
        boundary_line(0.05, "table1", 2.0, -1)
    with pytest.raises(ValueError, match=r"delta=0.5 .*side=\"eq5\""):
        boundary_line(0.5)


def test_quantiles_are_those_of_scipy(rng):
    p = np.concatenate([10.0 ** rng.uniform(-300.0, 0.0, 2000), rng.random(2000), [0.0, 1.0, 0.5]])
    np.testing.assert_allclose(bnormal.quantile(p), ndtri(p), rtol=4e-15, atol=1e-15)
    assert bnormal.quantile(0.5) == 0.0 and np.shape(bnormal.quantile(p.reshape(1, -1))) == (
        1,
        4003,
    )
