"""Derivatives along lines: each function, and whole programs, against 100 digits of mpmath."""

import math
import os
import subprocess
import sys
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.taylor.derivatives_jets import (
    functions_of,
    jets_of,
    obstacle,
    on_lines,
    preparing,
)
from subsample_mcmc.numerics.jets import series
from subsample_mcmc.numerics.jit import DISABLED, FLAGS, jit
from subsample_mcmc.numerics.pointers import pointer_to

mp = mpmath.mp
mp.dps = 100
CLOSE = 2e-13  # of each coefficient, relative to what cancels in it


# ------------------------------------------------------------------------------------ functions
def log_ndtr(x):
    if x > 0:
        return mpmath.log1p(-mpmath.erfc(x / mpmath.sqrt(2)) / 2)
    return mpmath.log(mpmath.erfc(-x / mpmath.sqrt(2)) / 2)


TRUE = {
    "exp": mpmath.exp, "log": mpmath.log, "log1p": lambda x: mpmath.log(1 + x),
    "log2": lambda x: mpmath.log(x) / mpmath.log(2), "log10": mpmath.log10,
    "expm1": lambda x: mpmath.exp(x) - 1, "sqrt": mpmath.sqrt, "sin": mpmath.sin,
    "cos": mpmath.cos, "tan": mpmath.tan, "sinh": mpmath.sinh, "cosh": mpmath.cosh,
    "tanh": mpmath.tanh, "atan": mpmath.atan, "asin": mpmath.asin, "acos": mpmath.acos,
    "erf": mpmath.erf, "erfc": mpmath.erfc, "lgamma": mpmath.loggamma,
    "softplus": lambda x: mpmath.log(1 + mpmath.exp(x)),
    "log_sigmoid": lambda x: -mpmath.log(1 + mpmath.exp(-x)), "digamma": mpmath.digamma,
    "log_gamma": mpmath.loggamma, "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "normal_cdf": lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2, "log_normal_cdf": log_ndtr,
}  # fmt: skip
POSITIVE = ("log", "log2", "log10", "sqrt", "lgamma", "log_gamma", "digamma")


def log_ndtr_taylor(x, n):
    """By the differential equation of its derivative h: h' = -h (x + h)."""
    density = mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)
    h = [density / (mpmath.erfc(-x / mpmath.sqrt(2)) / 2)]
    for k in range(n - 1):
        square = sum(h[i] * h[k - i] for i in range(k + 1))
        h.append(-(x * h[k] + (h[k - 1] if k else 0) + square) / (k + 1))
    return [log_ndtr(x), *(h[k] / (k + 1) for k in range(n))]


def true_taylor(name, x, n) -> list:
    """n + 1 coefficients; of those that take long to differentiate numerically, by formulas."""
    x = mp.mpf(float(x))
    if name == "digamma":
        return [mpmath.psi(k, x) / mpmath.factorial(k) for k in range(n + 1)]
    if name in ("lgamma", "log_gamma"):
        later = [mpmath.psi(k - 1, x) / mpmath.factorial(k) for k in range(1, n + 1)]
        return [mpmath.loggamma(x), *later]
    if name == "log_normal_cdf":
        return log_ndtr_taylor(x, n)
    return mpmath.taylor(TRUE[name], x, n, chop=False)


KNOWN = {**series.FUNCTIONS, **{name: known for name, (_, known) in series.OURS.items()}}


def compiled(known):
    """Value and coefficients of a function, callable from Python."""

    @jit
    def call(x, out):
        found = known(x)
        for k in range(5):
            out[k] = found[k]

    def coefficients(x) -> np.ndarray:
        out = np.zeros(5)
        with np.errstate(all="ignore"):
            call(np.float64(x), out)
        return out

    return coefficients


def points_for(name, rng) -> np.ndarray:
    """Random points of a function's domain, at all scales, and some that branches are made for."""
    near = [1e-8, 0.5, 1.0, 1.4616321, 2.0, 2.999, 3.0, 3.001, 5.0, 17.99, 18.0, 18.01, 40.0]
    if name in POSITIVE:
        return np.concatenate([np.exp(rng.uniform(-20.0, 20.0, 60)), near])
    if name in ("asin", "acos"):
        return np.concatenate([rng.uniform(-1.0, 1.0, 60), [0.0, 1e-8, 0.99999, -0.99999]])
    if name == "log1p":
        return np.concatenate([np.exp(rng.uniform(-20.0, 20.0, 60)) - 0.999999, near, [0.0]])
    wide = 20.0 if name in ("erf", "erfc", "tan", "normal_cdf") else 60.0
    both = np.concatenate([rng.uniform(-wide, wide, 60), near, -np.array(near), [0.0]])
    return both[np.abs(both) < wide]


@pytest.mark.slow_for("erf", "erfc", "normal_cdf")
@pytest.mark.plain
@pytest.mark.parametrize("name", sorted(TRUE))
def test_every_function_has_its_derivatives(name, rng):
    """To the fourth, everywhere."""
    coefficients = compiled(KNOWN[name])
    for x in points_for(name, rng):
        want = np.array([float(c) for c in true_taylor(name, x, 5)])
        found = coefficients(x)
        # Of an argument that is rounded on the way no more can be known.
        slack = 2e-15 * abs(x) * np.abs(want[1:]) * np.arange(1, 6)
        if name in (
            "softplus",
            "log_sigmoid",
            "sigmoid",
        ):  # 1 - 2 p: next to 0, beside numbers of size 1
            slack += 1e-16  # 1 - 2 p: next to 0, beside numbers of size 1
        if name == "log_normal_cdf":  # towards 0 from where it is a parabola
            slack += 4e-15 * np.abs(want).max()
        allowed, tiny = CLOSE * np.abs(want[:5]) + slack, 1e-85 * np.abs(want).max() + 1e-290
        assert np.all(np.abs(found - want[:5]) <= allowed + tiny), (x, found - want[:5], allowed)


def test_no_function_is_left_out():
    assert set(TRUE) == set(KNOWN)


EDGES = {  # (argument, value, are the derivatives numbers)
    "exp": [(-np.inf, 0.0, True), (-1000.0, 0.0, True), (np.inf, np.inf, False)],
    "log": [(0.0, -np.inf, False), (5e-324, math.log(5e-324), False), (-1.0, np.nan, False)],
    "log1p": [(-1.0, -np.inf, False), (5e-324, 5e-324, True), (-2.0, np.nan, False)],
    "sqrt": [(0.0, 0.0, False), (-1.0, np.nan, False)],
    "softplus": [(-np.inf, 0.0, True), (np.inf, np.inf, True), (5e-324, math.log(2.0), True)],
    "log_sigmoid": [(np.inf, 0.0, True), (-np.inf, -np.inf, True), (-800.0, -800.0, True)],
    "erf": [(np.inf, 1.0, True), (-np.inf, -1.0, True)],
    "erfc": [(np.inf, 0.0, True), (-np.inf, 2.0, True)],
    "normal_cdf": [(np.inf, 1.0, True), (-np.inf, 0.0, True)],
    "log_normal_cdf": [(np.inf, 0.0, True), (-1e5, None, True), (-np.inf, -np.inf, False)],
    "lgamma": [(0.0, np.inf, False), (1e-300, None, False), (-0.5, math.lgamma(-0.5), False)],
    "digamma": [(0.0, np.nan, False), (np.inf, np.inf, True), (-3.0, np.nan, False)],
    "atan": [(np.inf, math.pi / 2.0, True), (-np.inf, -math.pi / 2.0, True)],
    "tanh": [(np.inf, 1.0, True), (-1000.0, -1.0, True)],
    "asin": [(1.0, math.pi / 2.0, False), (1.5, np.nan, False)],
    "acos": [(1.0, 0.0, False), (-1.5, np.nan, False)],
}


@pytest.mark.plain
@pytest.mark.parametrize("name", sorted(EDGES))
def test_at_the_edges_of_functions(name):
    """What has no derivative says so, by a number that is none; nan stays nan."""
    coefficients = compiled(KNOWN[name])
    for x, value, smooth in EDGES[name]:
        found = coefficients(x)
        if value is not None:
            np.testing.assert_allclose(found[0], value, rtol=1e-15)
        assert bool(np.all(np.isfinite(found[1:]))) == smooth, (x, found)
    assert np.isnan(coefficients(np.nan)[:2]).all()


@pytest.mark.plain
def test_powers(rng):
    coefficients = {p: compiled(power_of(p)) for p in (0.0, 0.5, 1.0, 2.5, 3.0, 7.0, -1.0, -1.5)}
    for p, call in coefficients.items():
        for x in [
            *np.exp(rng.uniform(-30.0, 30.0, 20)),
            -1.7 if p == int(p) else 1.7,
            1e-200,
            1e70,
        ]:
            want = [mpmath.binomial(p, k) * mpmath.mpf(float(x)) ** (p - k) for k in range(5)]
            with np.errstate(over="ignore"):
                want = np.array([float(w) if abs(w) < 1e308 else np.inf * mpmath.sign(w)
                                 for w in want], dtype=float)  # fmt: skip
            np.testing.assert_allclose(call(x), want, rtol=1e-13, atol=1e-310)
    assert coefficients[3.0](0.0).tolist() == [0.0, 0.0, 0.0, 1.0, 0.0]
    assert coefficients[0.0](0.0).tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert np.isinf(coefficients[0.5](0.0)[1]) and np.isnan(coefficients[0.5](-1.0)[1])


def power_of(p):
    power = series.power

    @jit(inner="always")
    def call(x):
        return power(x, p)

    return call


# -------------------------------------------------------------------------- called from Python
@pytest.mark.plain
def test_two_logarithms_at_the_edges():
    inf, nan = np.inf, np.nan
    for a, b, want in (
        (0.0, 0.0, math.log(2.0)), (inf, 3.0, inf), (-inf, 3.0, 3.0), (-inf, -inf, -inf),
        (inf, inf, inf), (inf, -inf, inf), (1e300, -1e300, 1e300), (nan, 1.0, nan), (1.0, nan, nan),
        (-800.0, -801.0, -800.0 + math.log1p(math.exp(-1.0))),
    ):  # fmt: skip
        for one, two in ((a, b), (b, a)):
            np.testing.assert_allclose(sm.logsumexp(one, two), want, rtol=1e-15)


@pytest.mark.plain
def test_calls_from_python_are_of_numbers():
    assert isinstance(sm.softplus(3), np.float64) and isinstance(sm.digamma(np.float32(2)), float)
    for call in (sm.softplus, sm.log_normal_cdf, lambda x: sm.logsumexp(0.0, x)):
        with pytest.raises(TypeError, match="takes one number, inside a function of one datum"):
            call(np.zeros(3))
    assert isinstance(sm.log(np.float32(2)), np.float32)


# ------------------------------------------------------------------------------------- programs
PROGRAMS = {
    "loop": """
        e = 0.0
        for j in range(len(state.b)):
            e += data.x[n, j] * state.b[j]
        z = (data.y[n] - e) / state.s[0]
        return -0.5 * z * z - sm.log(state.s[0]) + 0 * n
    """,
    "branches": """
        e = state.b[0] + state.b[1] * data.x[n, 0]
        if e > 0.3:
            value = sm.log1p(e * e)
        elif n % 2 == 0:
            value = -e
        else:
            value = 2.0
        return value if data.y[n] > -5.0 else 0.0
    """,
    "functions": """
        e = state.b[0] * data.x[n, 1] + 0.1
        a = math.sqrt(2.0 + math.sin(e)) + math.atan(e) * np.tanh(state.b[1]) - np.exp(-e)
        c = math.lgamma(1.5 + e * e) + math.erf(e) + np.log1p(e * e) + np.square(e) - np.cosh(e)
        return a + c + sm.digamma(2.0 + e * e) + sm.log_normal_cdf(e) + sm.normal_cdf(state.s[0])
    """,
    "powers": """
        u = state.s[0] + 0.25 * state.b[1]
        other = 2.0 ** state.b[0] + u ** state.b[1] + u ** -1.5
        return u ** 3 - u ** data.y[n] + other + u ** 4 / u ** 2
    """,
    "extremes": """
        e = state.b[0] - state.b[1] * data.x[n, 0]
        a = max(e, 0.0) - min(0.5 * e, state.b[2]) + abs(e * state.b[2])
        a = a + max(state.b[0], state.b[1])
        return a + np.maximum(e * e, 1) - np.fabs(e) + min(1.0, 2.0) + np.abs(state.b[2])
    """,
    "mixture": """
        a = -0.5 * (data.y[n] - state.b[0]) ** 2
        c = -0.5 * ((data.y[n] - state.b[1]) / state.s[0]) ** 2 - sm.log(state.s[0])
        p = state.b[2]
        return sm.logsumexp(sm.log_sigmoid(p) + a, sm.log_sigmoid(-p) + c) - sm.softplus(p * 0.5)
    """,
    "matrix": """
        total = 0.0
        for i in range(state.w.shape[0]):
            row = state.w[i]
            score = state.w[i, 0] * data.x[n, 0] + row[1] * data.x[n, 1]
            total += sm.exp(0.3 * score) / (1.0 + state.w[1, 1] ** 2)
        return total + state.w[-1, 0] * state.w.size + state.b[1:][0]
    """,
    "helpers": """
        e = linear(state.b, data.x, n) * SCALE
        first, second = both(e, state.s[0])
        return first / second + np.dot(data.x[n], state.b) + sm.log(1.0 / second)
    """,
    "asked of helpers": """
        e = state.b[0] + state.b[1] * data.x[n, 0]
        if less(e, 0.3) or at_most(2.0, e):
            return sm.log1p(e * e)
        return e * e * state.s[0]
    """,
    "constant": """
        return data.y[n] * 2.0
    """,
    "affine": """
        return -state.b[0] + (+state.b[1]) / 3 - 2 * state.b[2] + 1
    """,
    "table": """
        value = state.b[data.i[n]] + TABLE[data.i[n]]
        return -value * value if value == value and not math.isnan(value) else 0.0
    """,
    "sums": """
        e = np.sum(data.x[n] * state.b)
        f = (data.x[n] / 2.0 - state.b * state.b).sum()
        return -0.5 * (data.y[n] - e) ** 2 + np.exp(-state.b).sum() * f + (2 - data.x[n, :]).sum()
    """,
    "products": """
        e = data.x[n, :] @ state.b
        f = np.dot(state.b[1:], data.x[n, :2] + state.s[0]) + state.b.dot(data.x[n])
        empty = data.x[n, 3:] @ state.b[3:] + np.sum(state.b[3:]) + state.b[:0].prod()
        cut = (state.b * 2.0)[1:] @ data.x[n, 1:] - (data.x[n] - state.b)[::-2] @ state.b[::2]
        return -0.5 * (data.y[n] - e * f) ** 2 + empty + cut
    """,
    "rows and columns": """
        scores = np.tanh(state.w @ data.x[n, :2]) + data.x[n, 1:] @ state.w
        top = np.max(scores)
        own = top + np.log(np.exp(scores - top).sum())
        return scores[data.i[n] % 2] - own + scores[-1] * state.w[:, 1].sum() + scores.min()
    """,
    "broadcast": """
        v = state.s * data.x[n] + state.b - state.s ** 2
        u = np.square(state.s + data.x[n]) / (1.0 + np.abs(state.b))
        return np.mean(v) * u.mean() + len(v) * v.shape[0] + v.size + (state.s * state.s)[0]
    """,
    "one parameter": """
        z = (data.x[n] - state.b[0]) / state.s[0]
        late = np.exp(-data.x[n] * state.b[2]) * np.maximum(z, state.b[1]) + np.logaddexp(0.0, z)
        return -0.5 * np.sum(z ** 2) - 3 * sm.log(state.s[0]) + np.prod(late) - np.fmin(z, 1).sum()
    """,
    "choices": """
        e = float(np.sum(data.x[n] * state.b)) + float(n)
        a = np.where(data.y[n] > 1.0, e * e, 2.0) - np.where(e > 0.0, state.b[1], 3 * e)
        return np.clip(e, -1.5, 1.5) * a + np.clip(state.b[0], state.b[1], 9) * float(state.s[0])
    """,
    "taken": """
        some = state.b[data.j[n]]
        return -some.sum() * data.y[n] + np.dot(some, data.x[n, :2]) + (some * some)[-1]
    """,
    "iteration": """
        total = 0.0
        for value, x in zip(state.b, data.x[n]):
            total += value * x
        for k, value in enumerate(data.x[n] * state.b):
            total += k * value * value
        for row in state.w:
            total += np.sin(row @ data.x[n, :2])
        return total + sum(state.b * state.b)
    """,
    "filled": """
        scores = np.zeros(3)
        for j in range(3):
            scores[j] = data.x[n, j] * state.b[j]
            scores[j] += 0.5 * scores[j - 1] ** 2
        before, part, same = scores[1:] * 2.0, scores[1:], scores
        same[1] = np.exp(state.s[0])
        part[1] = 3
        shares = np.ones(2)
        shares[-1] = e = 0.1 * state.b[1]
        return before.sum() * scores[1] + scores @ state.b + part.sum() + np.log(shares[0] - e)
    """,
    "lists": """
        parts = [state.b[0] * data.x[n, 0], state.b[1], state.b[2] * state.s[0]]
        more = [parts[k] * data.x[n, 1] for k in range(3)]
        parts.append(state.b[0] * state.b[1])
        return sum(parts) * more[1] + parts[3] * more[2] + len(more)
    """,
    "functions of what is filled": """
        v = np.zeros(2)
        v[0], v[1] = state.b[0], state.b[1] * state.s[0]
        grown, turned = np.exp(v), -v
        v[0] = v[1] = 5.0
        return grown.sum() * data.y[n] + turned.prod() + v.sum()
    """,
    "written later": """
        x = data.x[n] * 1.0
        v = x * state.b
        rows = np.ones(2) * data.y[n]
        score = state.w @ rows
        x[0] = rows[1] = 100.0
        return v.sum() * score[0]
    """,
}  # fmt: skip
LONG = (  # to compile, by ten times the others
    "one parameter", "rows and columns", "broadcast", "products", "iteration", "filled", "taken",
    "choices", "written later", "functions of what is filled", "extremes", "functions", "helpers",
    "sums",
)  # fmt: skip
TABLE = np.array([0.3, -1.2, 2.0])


def linear(beta, x, n):
    total = 0.0
    for j in range(beta.shape[0]):
        total += x[n, j] * beta[j]
    return total


def both(e, s):
    return e * e + 1.0, s + sm.exp(e)


def less(a, b):
    """As the package may write it, too: each is compiled as what it is."""
    return a < b


def at_most(a, b):
    return a <= b


def digits(items):
    """A block of numbers of mpmath."""
    return np.array(items, dtype=object)


EXACTLY = {
    **TRUE, "fabs": abs, "square": lambda x: x * x, "maximum": max, "abs": abs,
    "zeros": lambda n: np.array([mpmath.mpf(0)] * n, dtype=object),
    "ones": lambda n: np.array([mpmath.mpf(1)] * n, dtype=object),
    "isnan": mpmath.isnan, "fmin": min, "where": lambda c, a, b: a if c else b,
    "clip": lambda a, low, high: min(max(a, low), high),
    "logsumexp": lambda a, b: mpmath.log(mpmath.exp(a) + mpmath.exp(b)),
    "logaddexp": lambda a, b: mpmath.log(mpmath.exp(a) + mpmath.exp(b)),
}  # fmt: skip


class Exactly:
    """mpmath under the names that programs use."""

    def __getattr__(self, name):
        if name not in EXACTLY:  # of numpy: np.dot, np.sum, ...
            return getattr(np, name)

        def call(*given):
            if not any(isinstance(one, np.ndarray) for one in given):
                return EXACTLY[name](*given)
            return np.frompyfunc(EXACTLY[name], len(given), 1)(*given)

        return call


def program(name, **names):
    """One of them as a function that sees some names."""
    text = "def log_likelihood(state, data, n):" + PROGRAMS[name]
    scope = {"math": math, "np": np, "sm": sm, "linear": linear, "both": both, "TABLE": TABLE,
             "less": less, "at_most": at_most,
             "SCALE": 0.7, "__name__": "programs", **names}  # fmt: skip
    exec(compile(text, f"<{name}>", "exec"), scope)
    return scope["log_likelihood"]


def both_exactly(e, s):
    return e * e + 1, s + mpmath.exp(e)


DATA = {
    "x": np.array([[0.4, -1.1, 0.7], [1.3, 0.2, -0.6], [-0.8, 0.9, 1.9]]),
    "y": np.array([0.3, 1.6, 2.2]), "i": np.array([0, 2, 1]),
    "j": np.array([[0, 2], [1, 1], [-1, 0]]),
}  # fmt: skip
START = {"b": np.array([0.5, 0.45, -0.3]), "s": 1.2, "w": np.array([[0.2, -0.4], [0.6, 0.9]])}


def lines_through(model, slopes, n) -> np.ndarray:
    """(LANES, 5) coefficients of datum n along lines."""
    jets = jets_of()
    likelihood = preparing(*functions_of(model), True)[0]
    coefficients, lane = jets.coefficients_in_lanes, jets.lane
    lanes = jets.LANES

    @jit(flags=FLAGS)
    def write(state, data, n, out):
        c = coefficients(likelihood(state, data, n, 0))
        for k in range(lanes):
            out[k, 0] = c[0]
            out[k, 1] = lane(c[1], k)
            out[k, 2] = lane(c[2], k)
            out[k, 3] = lane(c[3], k)
            out[k, 4] = lane(c[4], k)

    out = np.zeros((lanes, 5))
    state = on_lines(model, model.ints.copy(), model.floats.copy(), slopes)
    with np.errstate(all="ignore"):
        write(pointer_to(state), model.data, np.int64(n), out)
    return out


def line_through(model, slopes, n) -> np.ndarray:
    """(5,) coefficients of datum n along one line."""
    jets = jets_of()
    likelihood, coefficients = preparing(*functions_of(model), False)[0], jets.coefficients

    @jit(flags=FLAGS)
    def write(state, data, n, out):
        c = coefficients(likelihood(state, data, n, 0))
        for k in range(5):
            out[k] = c[k]

    out = np.zeros(5)
    state = on_lines(model, model.ints.copy(), model.floats.copy(), slopes)
    with np.errstate(all="ignore"):
        write(pointer_to(state), model.data, np.int64(n), out)
    return out


def along(function, slopes, n) -> np.ndarray:
    """The same by mpmath."""
    exact = {"x": [[mpmath.mpf(float(v)) for v in row] for row in DATA["x"]],
             "y": [mpmath.mpf(float(v)) for v in DATA["y"]]}  # fmt: skip
    data = SimpleNamespace(x=digits(exact["x"]), y=exact["y"], i=DATA["i"], j=DATA["j"])
    point = np.concatenate([START["b"], [START["s"]], START["w"].ravel()])

    def value(t):
        at = [
            mpmath.mpf(float(p)) + t * mpmath.mpf(float(s))
            for p, s in zip(point, slopes, strict=True)
        ]
        state = SimpleNamespace(b=digits(at[:3]), s=digits(at[3:4]),
                                w=digits([at[4:6], at[6:8]]))  # fmt: skip
        return mpmath.mpf(1) * function(state, data, n)

    return np.array([float(c) for c in mpmath.taylor(value, 0, 4, chop=False)])


@pytest.mark.plain
@pytest.mark.filterwarnings("ignore:log_likelihood calls")
@pytest.mark.slow_for(*LONG)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_programs_have_their_derivatives(name, rng):
    model = sm.Model(program(name), DATA, START)
    assert obstacle(model) == ""
    names = {module: Exactly() for module in ("math", "np", "sm")}
    exact = program(name, both=both_exactly, float=mpmath.mpf, SCALE=mpmath.mpf(0.7),
                    TABLE=[mpmath.mpf(float(v)) for v in TABLE], **names)  # fmt: skip
    slopes = rng.standard_normal((8, 8))
    for n in range(3):
        several = lines_through(model, slopes, n)
        for k in (0, 5):
            want = along(exact, slopes[:, k], n)
            size = np.abs(want).max() + np.abs(want)
            assert np.all(np.abs(several[k] - want) <= 1e-13 * size), (n, several[k], want)
        one = line_through(model, np.ascontiguousarray(slopes[:, 5]), n)
        np.testing.assert_allclose(one, several[5], rtol=1e-13, atol=1e-14)


# ----------------------------------------------------------------------------- ties, and kinks
TIES = """
    e = data.x[n, 0] * state.b[0] + data.x[n, 1] * state.b[1]
    z = e if data.y[n] > 1.0 else -e
    if data.i[n] == 0:
        return min(z, 0.0) - sm.log1p(sm.exp(-abs(z)))
    if data.i[n] == 1:
        return -(max(0.0, -z) + sm.log1p(sm.exp(-np.fabs(z))))
    return sm.log_sigmoid(z)
"""


@pytest.mark.plain
def test_what_is_smooth_at_a_tie_has_its_derivatives():
    """The stable ways to write a logistic log likelihood, where the log odds are exactly 0."""
    PROGRAMS["ties"] = TIES
    model = sm.Model(program("ties"), DATA, {**START, "b": np.zeros(3)})
    slopes = np.random.default_rng(3).standard_normal((8, 8))
    for n in range(3):
        e = DATA["x"][n, :2] @ slopes[:2]
        z = e if DATA["y"][n] > 1.0 else -e
        want = np.stack([-np.log(2.0) + 0 * z, z / 2, -(z**2) / 8, 0 * z, z**4 / 192], axis=1)
        np.testing.assert_allclose(lines_through(model, slopes, n), want, rtol=1e-14, atol=1e-14)


KINK = """
    return -abs(state.b[0] - 0.5) + max(state.b[1], state.b[2] + 0.75)
"""


@pytest.mark.plain
def test_at_a_kink_derivatives_are_those_to_one_side():
    PROGRAMS["kink"] = KINK
    model = sm.Model(program("kink"), DATA, START)
    slopes = np.random.default_rng(3).standard_normal((8, 8))
    found = lines_through(model, slopes, 0)
    want = -np.abs(slopes[0]) + np.maximum(slopes[1], slopes[2])
    np.testing.assert_allclose(found[:, 1], want, rtol=1e-14)


# ----------------------------------------------------------------------------- what is not served
REFUSED = {
    "running": "return (data.x[n] * state.b).cumsum()[0] + float(np.sum(data.x[n]))",
    "in place": "v = data.x[n] * state.b\n    v += 1.0\n    return v.sum()",
    "item": "v = data.x[n] * state.b\n    v[0] = 1.0\n    return v.sum()",
    "two axes": "return np.sum(state.w * data.y[n])",
    "truth": "return 1.0 if np.any(state.b * data.x[n] > 0.0) else 0.0",
    "floor": "return data.y[n] * math.floor(state.b[0])",
    "index": "return TABLE[int(state.b[0])]",
    "write": "kept = np.zeros((3, 1))\n    kept[0, 0] = state.b[0]\n    return kept[0, 0]",
    "remainder": "return state.b[0] % 0.3",
    "cut": "return data.y[n] * round(state.b[1])",
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_not_known_is_said_in_a_sentence(name):
    PROGRAMS[f"refused {name}"] = f"\n    {REFUSED[name]}\n"
    model = sm.Model(program(f"refused {name}"), DATA, START)
    why = obstacle(model)
    assert why.startswith("log_likelihood ") and 30 < len(why) < 260 and "\n" not in why, why


def printed_by(cache, program: str, *arguments: str) -> str:
    """What a program says, in a process of its own, with machine code kept in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True,
        env=os.environ | {"SUBSAMPLE_MCMC_CACHE": str(cache)},
    )  # fmt: skip
    return done.stdout.strip()


UPGRADED = """
import sys
if sys.argv[1] != "now":  # as if the files of jets had been edited
    from pathlib import Path
    read = Path.read_bytes
    def other(path):
        return read(path) + (b"# another" if path.name == "kinds.py" else b"")
    Path.read_bytes = other
import numpy as np
import subsample_mcmc as sm

def log_likelihood(state, data, n):
    return -sm.exp(state.b[0] + state.b[1] * data.x[n] + state.b[2])

model = sm.Model(log_likelihood, {"x": np.linspace(0.0, 1.0, 50)}, {"b": np.zeros(3)})
from subsample_mcmc.approx.taylor.derivatives_jets import obstacle
from subsample_mcmc.numerics.jets import kinds
print(kinds.CONTENT, repr(obstacle(model)))
"""


@pytest.mark.slow
@pytest.mark.skipif(DISABLED, reason="nothing is kept")
def test_machine_code_of_other_jets_is_not_read(tmp_path):
    """A function of points takes no jets, but returns one: its key must know of them, too."""
    told = []
    for when in ("before", "now", "now"):
        told.append(printed_by(tmp_path, UPGRADED, when).split(" ", 1))
    assert told[0][0] != told[1][0]
    assert [why for _, why in told] == ["''"] * 3


EDITED = """
import sys
from numba.core import event

class Compiled(event.Listener):
    names = []
    def on_start(self, one):
        self.names.append(one.data["dispatcher"].py_func.__name__)
    def on_end(self, one):
        pass

import numpy as np
import subsample_mcmc as sm
from subsample_mcmc.approx.taylor.derivatives_jets import obstacle

def log_likelihood(state, data, n):
    e = np.dot(data.x[n], state.b)
    total = CONSTANT * sm.softplus(e) - e ** 2 + max(e, 0.0) / (1.0 + e * e)
    return total - sm.logsumexp(e, 0.0) if e > -9.0 else abs(e) ** 1.5

event.register("numba:compile", Compiled())
data = {"x": np.ones((50, 2))}
model = sm.Model(log_likelihood, data, {"b": np.zeros(2)})
assert obstacle(model) == ""
print(len(Compiled.names))
"""


@pytest.mark.slow
@pytest.mark.skipif(DISABLED, reason="nothing is kept")
def test_what_jets_may_do_is_compiled_once_per_machine(tmp_path):
    """An edited function compiles itself, and what was made of it: no operation of jets again."""
    compiled = []
    for constant in ("2.0", "3.0", "3.0"):
        compiled.append(int(printed_by(tmp_path, EDITED.replace("CONSTANT", constant))))
    assert compiled[0] > 30 and compiled[1] < 6 and compiled[2] == 0
