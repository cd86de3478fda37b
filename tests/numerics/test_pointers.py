"""Records by reference: what compiled code reads of a pointer is what stands in the record."""

import gc
import pickle
import subprocess
import sys
import threading
from collections import namedtuple
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics import pointers
from subsample_mcmc.numerics.jit import DISABLED, jit
from subsample_mcmc.numerics.pointers import (
    FLOATS,
    NUMBER,
    FunctionAddress,
    Pointer,
    RecordAddress,
    array,
    call_number,
    call_rows,
    pointer_to,
)
from subsample_mcmc.numerics.records import record
from tests.helpers.models import walker

pytestmark = pytest.mark.skipif(DISABLED, reason="plain Python reads records themselves")

DTYPES = ("f8", "f4", "i8", "i4", "i2", "u8", "u4", "u1", "?", "c16", "c8")
PAIR = np.dtype([("count", np.int64), ("share", np.float32), ("at", np.int32)], align=True)


def ours(*fields):
    """A class of records that counts as one of the package."""
    return namedtuple("Made_" + "_".join(fields), fields, module=f"{sm.__name__}.made_in_a_test")


def an_array(rng, tmp_path):
    """An array of any kind that data may have."""
    shape = tuple(int(n) for n in rng.integers(0, 4, size=rng.integers(0, 4)))
    if rng.random() < 0.15:
        array = np.zeros(shape or 1, dtype=PAIR)
        for name in PAIR.names:
            array[name] = rng.integers(100, size=array.shape)
        return array if rng.random() < 0.5 else array.view(np.recarray)
    dtype = np.dtype(str(rng.choice(DTYPES)))
    wide = tuple(2 * n for n in shape)
    array = np.asarray(rng.integers(0, 100, size=wide)).astype(dtype)
    if dtype.kind == "c":
        array = array * dtype.type(1 + 2j)
    how = rng.integers(5)
    if how == 0:
        array = array[tuple(slice(None, None, 2) for _ in shape)]  # strided
    elif how == 1:
        array = np.asfortranarray(array)
    elif how == 2:
        array = array[tuple(slice(None, None, -1) for _ in shape)]
    elif how == 3 and array.size:
        path = tmp_path / f"{rng.integers(2**62)}.npy"
        np.save(path, array)
        array = np.load(path, mmap_mode="r")
    array = np.asanyarray(array)  # an array of no dimension became a number above
    if rng.random() < 0.3:
        array = array.view()
        array.flags.writeable = False
    return array


def a_number(rng):
    """A number, of Python or numpy."""
    kinds = (
        int(rng.integers(-(2**63), 2**63 - 1)), float(rng.standard_normal()), True, False,
        np.float32(rng.random()), np.int8(-3), np.uint64(2**64 - 1), np.bool_(True),
        np.complex128(1 - 2j), complex(3, 4), np.inf, -0.0,
    )  # fmt: skip
    return kinds[rng.integers(len(kinds))]


def a_record(rng, depth, tmp_path, made=None):
    """A record, the package's or a user's, with arrays, numbers, Generators and records in it."""
    values = []
    for _ in range(rng.integers(1, 6)):
        choice = rng.random()
        if choice < 0.3 and depth:
            values.append(a_record(rng, depth - 1, tmp_path))
        elif choice < 0.35:
            values.append(np.random.default_rng(int(rng.integers(100))))
        elif choice < 0.4:
            values.append(())
        else:
            values.append(an_array(rng, tmp_path) if choice < 0.75 else a_number(rng))
    fields = tuple(f"x{i}" for i in range(len(values)))
    made = made or (ours, record, None)[rng.integers(3)]
    return tuple(values) if made is None else made(*fields)(*values)


def parts_of(value, path=""):
    """(path, value) of all arrays, numbers and Generators in a record."""
    if not isinstance(value, tuple):
        yield path, value
        return
    names = getattr(value, "_fields", None)
    for i, part in enumerate(value):
        yield from parts_of(part, f"{path}.{names[i]}" if names else f"{path}[{i}]")


def reader(path, value):
    """(compiled function of a record that tells what stands at a path, what it must tell)."""
    if isinstance(value, np.random.Generator):
        body = f"return (given{path}.random(), given{path}.standard_normal())"
        twin = np.random.default_rng()
        twin.bit_generator.state = value.bit_generator.state
        expected = (twin.random(), twin.standard_normal())
    elif isinstance(value, np.ndarray):
        body = f"return given{path}.copy(), given{path}.shape, given{path}.strides"
        expected = value, value.shape, value.strides
    else:
        body, expected = f"return given{path}", value
    space = {}
    exec(f"def read(given):\n    {body}", space)
    return numba.njit(space["read"]), expected


def same(told, expected):
    """Are two values equal, in type too."""
    if isinstance(expected, tuple):
        return all(same(a, b) for a, b in zip(told, expected, strict=True))
    if isinstance(expected, np.ndarray):
        return told.dtype == expected.dtype and np.array_equal(told, expected)
    return np.array(told).tobytes() == np.array(expected).astype(np.array(told).dtype).tobytes()


@pytest.mark.parametrize("seed", range(12))
def test_compiled_code_reads_what_stands_in_a_record(seed, tmp_path):
    rng = np.random.default_rng(seed)
    given = a_record(rng, 3, tmp_path, made=ours)
    pointer = pointer_to(given)
    assert isinstance(pointer, Pointer)
    parts = list(parts_of(given))
    for path, value in [parts[i] for i in rng.permutation(len(parts))[:8]]:
        read, expected = reader(path, value)
        assert same(read(pointer), expected), (path, value)


def test_the_reader_of_these_tests_sees_a_word_that_is_wrong(tmp_path):
    given = ours("n", "x")(3, np.arange(4.0))
    read, expected = reader(".n", 3)
    pointer = pointer_to(given)
    assert same(read(pointer), expected)
    pointer._words.flags.writeable = True
    pointer._words[0] = 4
    assert not same(read(pointer), expected)


def test_arrays_are_written_to_where_they_are():
    given = ours("x", "y")(np.zeros(3), np.zeros((2, 2), dtype=np.int32))

    @jit
    def write(record):
        record.x[1] = 5.0
        record.y[1, 0] = 7

    write(pointer_to(given))
    assert given.x.tolist() == [0.0, 5.0, 0.0]
    assert given.y.tolist() == [[0, 0], [7, 0]]


def test_a_record_that_may_only_be_read_cannot_be_written_to():
    x = np.zeros(3)
    x.flags.writeable = False

    @jit
    def write(record):
        record.x[1] = 5.0

    with pytest.raises(numba.TypingError):
        write(pointer_to(ours("x")(x)))
    assert not x.any()


def test_records_of_other_types_are_compiled_anew():
    """An address says nothing of what stands there: the type does, and it is part of the call."""

    @jit
    def first(record):
        return record.x[1]

    for dtype in ("f8", "f4", "i8", "i4", "u1"):
        assert first(pointer_to(ours("x")(np.array([1, 2, 3], dtype=dtype)))) == 2
    assert first(pointer_to(ours("x")(np.arange(6)[::2]))) == 2
    assert first(pointer_to(ours("x", "more")(np.array([1.0, 9.0]), 3.0))) == 9.0
    with pytest.raises(numba.TypingError):
        first(pointer_to(ours("y")(np.arange(3))))
    with pytest.raises(TypeError, match="cannot hold"):
        pointer_to(ours("x")({"a": 1}))


def test_python_reads_a_pointer_as_the_record():
    inner = ours("x")(np.arange(3.0))
    given = ours("words", "inner", "pair")(2, inner, (inner, 5))
    pointer = pointer_to(given)
    assert pointer.words == 2  # a name of its own
    assert pointer.pair[1] == 5
    assert pointer.inner.x is inner.x
    for part in (pointer.inner, pointer.pair[0]):  # a part's own address, of the same words
        assert isinstance(part, Pointer)
        read, expected = reader(".x", inner.x)
        assert same(read(part), expected)
    with pytest.raises(AttributeError):
        _ = pointer.other
    with pytest.raises(TypeError, match="another process"):
        pickle.dumps(pointer)
    with pytest.raises(ValueError, match="read-only"):
        pointer._words[0] = 1


def test_what_users_made_stays_what_it_is():
    own = record("x")(np.arange(3))
    assert pointer_to(own) is own
    assert pointer_to((own, 3)) == (own, 3)
    assert pointer_to(7) == 7
    mixed = pointer_to((own, ours("y")(1)))
    assert mixed[0] is own
    assert isinstance(mixed[1], Pointer)


def test_a_pointer_within_a_record_is_followed():
    inner = pointer_to(ours("x", "n")(np.arange(3.0), 4))
    outer = pointer_to(ours("before", "inner", "after")(1, inner, 2))

    @jit
    def read(given):
        return given.before, given.inner.x[2], given.inner.n, given.after

    assert read(outer) == (1, 2.0, 4, 2)


def test_plain_python_gets_the_record(monkeypatch):
    monkeypatch.setattr(pointers, "ABLE", False)
    given = ours("x")(1)
    assert pointer_to(given) is given


def test_a_numba_that_is_not_known_runs_nothing_compiled_and_is_named():
    script = """
import sys, warnings
sys.modules["subsample_mcmc.numerics.pointer_types"] = None  # as if an import in it failed
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    import subsample_mcmc as sm
model = sm.Model(
    lambda state, data, n: -abs(data.y[n] - state.k[0]), {"y": [1.0, 1.0]}, {"k": 0},
    support={"k": 3},
)
sm.sample(model, sm.Gibbs("k"), draws=2, warmup=0, chains=1, seed=1, progress=False)
print(int(sm.choose([[0.0, 1.0], [2.0, 3.0]], selector=sm.Exact()).arm), told[0].message)
"""
    command = [sys.executable, "-c", script]
    told = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert told.startswith(
        f"1 this version of subsample_mcmc does not know numba {numba.__version__}"
    )


def test_a_pointer_keeps_its_arrays():
    def make():
        return pointer_to(ours("x", "inner")(np.arange(1000.0), ours("y")(np.ones(1000))))

    @jit
    def add_up(given):
        return given.x.sum() + given.inner.y.sum()

    kept = [make() for _ in range(50)]
    parts = [pointer.inner for pointer in kept]
    told = [add_up(pointer) for pointer in kept]
    del kept
    gc.collect()
    rubbish = [np.full(1000, np.nan) for _ in range(200)]

    @jit
    def add_part(given):
        return given.y.sum()

    assert set(told) == {499500.0 + 1000.0}
    assert {add_part(part) for part in parts} == {1000.0}
    assert len(rubbish) == 200


def test_threads_share_a_pointer():
    given = pointer_to(ours("x", "out")(np.arange(10_000.0), np.zeros(4)))

    @jit
    def work(given, k):
        for _ in range(200):
            given.out[k] = given.x.sum()

    threads = [threading.Thread(target=work, args=(given, k)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert given.out.tolist() == [49_995_000.0] * 4


BY_VALUE = """
import numba, numpy as np, subsample_mcmc as sm
from subsample_mcmc.numerics import memo, pointers

def by_value(kind):
    if isinstance(kind, numba.types.BaseTuple):
        made = getattr(kind, "instance_class", tuple)
        if made.__module__.startswith(sm.__name__) and made.__module__ != pointers.RECORDS:
            yield made.__qualname__
        for part in kind:
            yield from by_value(part)

x = np.column_stack([np.ones(900), np.linspace(-1.0, 1.0, 900)])
model = sm.models.glm.logistic(x, (np.sin(99.0 * x[:, 1]) > x[:, 1]).astype(float))
control = sm.Taylor(sm.laplace(model, progress=False))
kernel = sm.Metropolis("beta", control=control) >> sm.Slice("beta")
kernel >>= sm.Langevin("beta", batch=32)
sm.sample(model, kernel, draws=2, warmup=2, chains=1, progress=False, audit=0.5)
sm.draw(sm.Population(lambda data, arm, n: data.y[n] * arm, {"y": x[:, 1]}, arms=3), seed=1)
sm.identify(lambda arm, rng: rng.normal() + arm, 3, sm.LilUCB(scale=1.0), seed=1)
for key, made in list(memo._results.items()):
    for signature in getattr(made, "nopython_signatures", ()) if key[0] == "jit" else ():
        # A chunk of draws is handed over once; the others, of a few numbers, are made by
        # compiled code.
        found = {name for kind in signature.args for name in by_value(kind)}
        found -= {"Chunk", "Outcome", "Push", "Rates", "StagePlan"}
        if found:
            print(made.__name__, found)
"""


@pytest.mark.slow
def test_no_record_of_the_package_is_passed_by_value():
    """A hundred numbers in each call: nine tenths of the time that compiling took."""
    command = [sys.executable, "-W", "ignore", "-c", BY_VALUE]
    assert not subprocess.run(command, capture_output=True, check=True, text=True).stdout


# ------------------------------------------------------------------------------ calls by address
class Holder(NamedTuple):
    """What a compiled caller gets: functions, and what they are about."""

    about: Any
    row: Any
    function: Any


Holder.__module__ = f"{sm.__name__}.made_in_a_test"


def add_rows(given, arm, rows, out):
    for i in range(len(rows)):
        out[i] = given.x[rows[i]] + arm
    return 0.0


def caller_of(x, row=np.int32):
    """A Holder of a function of rows of x, where a compiled caller reads it."""
    about = RecordAddress(ours("x")(x))
    function = FunctionAddress(jit(add_rows, inner="entry"), about, NUMBER, array(row), FLOATS)
    return pointer_to(Holder(about, row(0), function))


@jit
def read_rows(holder, arm, rows, out):
    call_rows(holder.function, holder.about, holder.row, arm, rows, out)


def test_one_caller_serves_functions_of_records_of_all_types():
    out = np.zeros(3)
    for dtype in ("f8", "f4", "i8", "u1"):
        holder = caller_of(np.arange(10, 20).astype(dtype))
        read_rows(holder, 5, np.array([0, 9, 3], dtype=np.int32), out)
        assert out.tolist() == [15.0, 24.0, 18.0]
    assert len(read_rows.overloads) == 1


@pytest.mark.parametrize(
    ("rows", "out"),
    [
        (np.arange(3), np.zeros(3)),  # int64, where the function reads int32
        (np.arange(3, dtype=np.uint32), np.zeros(3)),
        (np.arange(6, dtype=np.int32)[::2], np.zeros(3)),
        (np.zeros((1, 3), dtype=np.int32), np.zeros(3)),
        (np.arange(3, dtype=np.int32), np.zeros(3, dtype=np.float32)),
        (np.arange(3, dtype=np.int32), np.zeros(6)[::2]),
        (np.arange(3, dtype=np.int32), 3.0),
    ],
)
def test_what_would_be_read_as_something_else_is_refused(rows, out):
    with pytest.raises(numba.TypingError, match="where an array of"):
        read_rows(caller_of(np.arange(10.0)), 0, rows, out)


def test_what_a_function_raises_arrives_as_that():
    def refuse(given, number):
        if number > 2:
            raise KeyError("three")
        return given.x[0] * number

    about = RecordAddress(ours("x")(np.array([2.0])))
    holder = pointer_to(
        Holder(about, 0, FunctionAddress(jit(refuse, inner="entry"), about, NUMBER))
    )

    @jit
    def ask(holder, number):
        return call_number(holder.function, holder.about, number) + 1.0

    assert ask(holder, 2) == 5.0
    with pytest.raises(KeyError, match="three"):
        ask(holder, 3)
    assert ask(holder, 1) == 3.0


def test_a_function_that_returns_no_float_is_refused():
    about = RecordAddress(ours("n")(3))
    function = FunctionAddress(jit(lambda given: given.n, inner="entry"), about)
    with pytest.raises(TypeError, match="returns int64, not a float"):
        pointer_to(Holder(about, 0, function))


def test_a_function_behind_an_address_is_not_for_python():
    with pytest.raises(TypeError, match="only compiled functions can call it"):
        jit(lambda given: 1.0, inner="entry")(3)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [3])
def test_a_chain_outlives_the_model_that_it_is_of(rounds):
    """What it needs is its own: models, kernels and traces may go in any order."""
    wanted = None
    for _ in range(rounds):
        y = np.random.default_rng(0).standard_normal(2_000)
        model = sm.Model(
            lambda state, data, n: -0.5 * (data.y[n] - state.x[0]) ** 2, {"y": y}, {"x": 0.0}
        )
        one = walker(model, sm.Metropolis("x") >> sm.Slice("x"))
        del model, y
        gc.collect()
        _ = [np.full(2_000, np.nan) for _ in range(20)]
        drawn = one.advance(50).floats
        wanted = drawn if wanted is None else wanted
        assert np.array_equal(drawn, wanted)
