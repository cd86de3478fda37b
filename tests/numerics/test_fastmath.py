"""log, log1p and exp: right to about an ulp, everywhere, in both modes, and vectorised."""

import importlib.util
import math
import pickle
import platform
import re
import warnings

import llvmlite.binding as llvm
import mpmath
import numba
import numpy as np
import pytest

import subsample_mcmc.numerics.jit
from subsample_mcmc.numerics import fastmath
from subsample_mcmc.numerics.jit import DISABLED, FLAGS, jit

NAMES = ("log", "log1p", "exp")
# Stated in the module's docstring (there measured on many more points), in ulp of the result.
BOUNDS = {
    np.float64: {"log": 1.35, "log1p": 1.9, "exp": 1.25},
    np.float32: {"log": 1.0, "log1p": 1.6, "exp": 1.1},
}
INF, NAN = math.inf, math.nan
needs_jit = pytest.mark.skipif(DISABLED, reason="asks about machine code: NUMBA_DISABLE_JIT is set")


@pytest.fixture(scope="module")
def plain():
    """A second copy of the module, as it is under NUMBA_DISABLE_JIT=1."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subsample_mcmc.numerics.jit, "DISABLED", True)
        spec = importlib.util.spec_from_file_location("plain_fastmath", fastmath.__file__)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module


def over(function):
    """The loop every user of these functions has, with the flags that user functions get."""

    @jit(flags=FLAGS)
    def fill(x, out):
        for n in range(np.uint64(len(x))):
            out[n] = function(x[n])

    return fill


def values(function, x):
    out = np.empty_like(x)
    over(function)(x, out)
    return out


def summed(function):
    def total(y, low, high):
        s = y[0] - y[0]
        for n in range(np.uint64(low), np.uint64(high)):
            s += function(y[n])
        return s

    return total


def truth(name, x):
    """mpmath's value: 200 bits, because log1p of 1e-20 passes through 1 + 1e-20."""
    with mpmath.workprec(200):
        return getattr(mpmath, name)(mpmath.mpf(float(x)))


def ulps(name, x, got):
    """The largest |got - truth| in units of the last place of the truth."""
    worst = 0.0
    for argument, value in zip(x, got, strict=True):
        exact = truth(name, argument)
        with np.errstate(over="ignore", under="ignore"):
            unit = np.spacing(abs(got.dtype.type(exact)))
        worst = max(worst, float(abs(mpmath.mpf(float(value)) - exact) / mpmath.mpf(float(unit))))
    return worst


def sweeps(name, real, rng, size):
    """Arguments over all exponents, subnormal ones, and around every branch point."""
    info = np.finfo(real)
    word = np.uint64 if real is np.float64 else np.uint32
    last = int(np.array(info.max).view(word))
    everything = rng.integers(1, last, size, dtype=word).view(real)
    subnormal = rng.integers(1, int(np.array(info.tiny).view(word)), size, dtype=word).view(real)
    small = rng.choice([-1.0, 1.0], size) * 10.0 ** rng.uniform(-30, -0.01, size)
    around = 1 + rng.normal(size=size) * 10.0 ** rng.uniform(-8, -1, size)
    if name == "exp":
        low, high = (-745.0, 709.7) if real is np.float64 else (-103.0, 88.7)
        ties = (rng.integers(int(low / 0.7), int(high / 0.7), size) + 0.5) * math.log(2)
        faint = rng.uniform(low, low + 36 if real is np.float64 else low + 15, size)
        found = [rng.uniform(low, high, size), rng.uniform(-1, 1, size), small, ties, faint]
        return [s.astype(real) for s in found]
    powers = 2.0 ** rng.integers(-3, 4, size)
    found = [everything, subnormal, around, rng.uniform(0.5, 2.2, size)]
    found += [math.sqrt(2) * powers * around, powers * around, np.exp2(52.5 + 2 * around)]
    found = [s.astype(real) for s in found]
    if name == "log1p":
        found = [*found, *(s - real(1) for s in found[2:]), small.astype(real), -subnormal]
        found.append(-everything[everything < 1])
    return [s[s > (-1 if name == "log1p" else 0)] for s in found]


@pytest.mark.parametrize("real", [np.float64, np.float32])
@pytest.mark.parametrize("name", NAMES)
def test_error_is_within_the_stated_ulp(name, real):
    rng = np.random.default_rng(20)
    for x in sweeps(name, real, rng, 100 if DISABLED else 1500):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got = values(getattr(fastmath, name), x)
        assert got.dtype == real
        assert ulps(name, x, got) <= BOUNDS[real][name], (name, real, x[:3])


SPECIAL = {
    "log": [(0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (NAN, NAN), (-1, NAN), (1, 0)],
    "log1p": [(0.0, 0), (-0.0, 0), (INF, INF), (-INF, NAN), (NAN, NAN), (-1, -INF), (-1.5, NAN)],
    "exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (NAN, NAN), (-1e30, 0)],
}


@pytest.mark.parametrize("real", [np.float64, np.float32])
@pytest.mark.parametrize("name", NAMES)
def test_special_values_inside_a_loop_and_in_both_modes(name, real, plain):
    info, cases = np.finfo(real), list(SPECIAL[name])
    least = float(info.smallest_subnormal)
    cases += {
        "log": [(-least, NAN), (-float(info.max), NAN)],
        "log1p": [(least, least), (-least, -least), (-float(info.max), NAN)],
        "exp": [(float(info.max), INF), (-float(info.max), 0.0), (least, 1.0)],
    }[name]
    x = np.array([c[0] for c in cases] * 8, real)  # 8: fill whole vectors, not the remainder only
    want = np.array([c[1] for c in cases] * 8, real)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(values(getattr(fastmath, name), x), want)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for module in (fastmath, plain):
            got = [getattr(module, name)(v) for v in x[: len(cases)]]
            np.testing.assert_array_equal(got, want[: len(cases)])


def test_exp_leaves_the_range_gradually(plain):
    for module in (fastmath, plain):
        assert module.exp(709.782712893384) == pytest.approx(1.797693134862273e308, rel=1e-15)
        assert module.exp(709.7827128933841) == INF
        assert module.exp(-708.5) == pytest.approx(math.exp(-708.5), abs=5e-324)
        assert module.exp(-745.1) == 5e-324
        assert module.exp(-745.2) == 0.0
        assert module.exp(np.float32(88.72284)) == INF
        assert module.exp(np.float32(-103.9)) == np.finfo(np.float32).smallest_subnormal
        assert module.exp(np.float32(-104.0)) == 0.0


@needs_jit
@pytest.mark.parametrize("real", [np.float64, np.float32])
@pytest.mark.parametrize("name", NAMES)
def test_plain_python_agrees_to_one_ulp(name, real, plain):
    rng = np.random.default_rng(21)
    for x in sweeps(name, real, rng, 200):
        jitted = values(getattr(fastmath, name), x)
        direct = np.array([getattr(fastmath, name)(v) for v in x])
        python = np.array([getattr(plain, name)(v) for v in x])
        assert jitted.dtype == direct.dtype == python.dtype == real
        unit = np.spacing(np.abs(python))
        assert np.all(np.abs(jitted - python) <= unit)
        assert np.all(np.abs(direct - python) <= unit)


@pytest.mark.parametrize("name", NAMES)
def test_a_call_from_python_keeps_float32_and_takes_any_real_number(name, plain):
    for module in (fastmath, plain):
        function = getattr(module, name)
        assert type(function(np.float32(2))) is np.float32
        for two in (2, 2.0, np.int32(2), np.float64(2), np.float16(2), np.array(2.0)):
            assert type(function(two)) is np.float64
            assert function(two) == pytest.approx(getattr(math, name)(2.0), rel=1e-15)
        assert function(True) == function(1.0)
        for bad in (None, 1j, [1.0], np.ones(3), np.ones((2, 2), np.float32)):
            with pytest.raises(TypeError):
                function(bad)
        with pytest.raises(TypeError, match=rf"{name} was given an array .*\(3,\).* np.{name}\."):
            function(np.ones(3))


@needs_jit
@pytest.mark.parametrize("name", NAMES)
def test_numba_resolves_them_as_module_attributes(name):
    scope = {"fastmath": fastmath}
    exec(f"def f(x): return fastmath.{name}(x)", scope)
    compiled = numba.njit(scope["f"])
    compiled(np.float32(2)), compiled(2.0), compiled(2)
    returned = {args[0]: o.signature.return_type for args, o in compiled.overloads.items()}
    wide = numba.float64
    assert returned == {numba.float32: numba.float32, wide: wide, numba.int64: wide}
    assert pickle.loads(pickle.dumps(getattr(fastmath, name)))(2.0) == compiled(2.0)


@needs_jit
@pytest.mark.parametrize("name", NAMES)
def test_a_sum_over_data_is_vectorised(name):
    if platform.machine().lower() not in ("x86_64", "amd64"):
        pytest.skip(f"reads x86 assembly, this is {platform.machine()}")
    if not llvm.get_host_cpu_features().get("avx2"):
        pytest.skip("this CPU has no AVX2, so numba has no wide registers to use")
    for real, packed in ((np.float64, "pd"), (np.float32, "ps")):
        compiled = numba.njit(fastmath=set(FLAGS), error_model="numpy")(
            summed(getattr(fastmath, name))
        )
        compiled(np.ones(64, real), 0, 64)
        (assembly,) = compiled.inspect_asm().values()
        # One instruction of the polynomial on a wide register proves the body is vectorised.
        assert re.search(rf"vfn?m(add|sub)\w+{packed}\s.*%[yz]mm", assembly)
        assert name == "exp" or re.search(rf"vdiv{packed}\s.*%[yz]mm", assembly)
        called = re.findall(r"(?:call\w*|movabsq)\s+\$?(\w+)", assembly)
        assert not [c for c in called if re.fullmatch(r"_*(log|log1p|exp)f?", c)]


@needs_jit
def test_compensation_survives_a_caller_that_may_reassociate():
    """Under reassoc x - ((1 + x) - 1) is 0 (so log1p(1e-20) would be 0 and 1e-12 wrong by 9e-5)."""

    @jit(flags=FLAGS)
    def lost(x):
        return x - ((1.0 + x) - 1.0)

    assert lost(1e-20) == 0.0  # the flags do what this test fears
    x = 10.0 ** np.random.default_rng(22).uniform(-300, -1, 1024)
    np.testing.assert_allclose(values(fastmath.log1p, x), np.log1p(x), rtol=4.5e-16)
    total = jit(flags=FLAGS)(summed(fastmath.log1p))
    for scale in (1e-20, 1e-12, 1e-5):
        assert total(np.full(64, scale), 0, 64) == pytest.approx(64 * math.log1p(scale), rel=1e-14)
