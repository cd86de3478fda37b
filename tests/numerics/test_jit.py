"""The compile layer: what is cached, what is not, and that no wrong machine code is ever run."""

import collections
import cProfile
import ctypes
import enum
import fractions
import functools
import json
import os
import pickle
import re
import subprocess
import sys
import threading
import types
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import pytest
import scipy.stats

import subsample_mcmc as sm
from subsample_mcmc.decisions.choose import engine_of
from subsample_mcmc.numerics import bytecode, digest, memo, passes, records
from subsample_mcmc.numerics import cache as disk
from subsample_mcmc.numerics import jit as layer
from subsample_mcmc.numerics.digest import Digest, content, own_of, within
from subsample_mcmc.numerics.jit import CONTRACT, DISABLED, FLAGS, jit
from subsample_mcmc.numerics.records import as_record, record
from subsample_mcmc.target.rewards import POPULATION

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _needs_the_compiler(request):
    if DISABLED and not request.node.get_closest_marker("plain"):
        pytest.skip("NUMBA_DISABLE_JIT is set: nothing is compiled, nothing cached")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, for this process and those it starts."""
    monkeypatch.setenv("SUBSAMPLE_MCMC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def entries(cache):
    """Name and inode of every entry: a rewritten file has another inode."""
    return {path.name: path.stat().st_ino for path in cache.glob("*.bin")}


def start(*arguments, cwd, text=None, **environment):
    """Start Python with this repository first on its path."""
    stdin = subprocess.PIPE if text is not None else subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)], cwd=cwd, text=True, stdin=stdin,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip
    if text is not None:
        process.stdin.write(text)
        process.stdin.close()
        process.stdin = None
    return process


def ended(process):
    """What a process printed, as JSON."""
    out, err = process.communicate()
    assert process.returncode == 0, err
    return json.loads(out)


def run(*arguments, cwd, **more):
    return ended(start(*arguments, cwd=cwd, **more))


def anew(function, monkeypatch, **options):
    """Compile as the next process would: the memo forgotten, the files kept."""
    monkeypatch.setattr(memo, "_results", OrderedDict())
    monkeypatch.setattr(memo, "_of_users", OrderedDict())
    monkeypatch.setattr(memo, "_lent", {})
    return jit(function, user=True, **options)


def hits(dispatcher):
    return sum(dispatcher.stats.cache_hits.values())


def function_from(source, name="f", **scope):
    """The function `name` of a piece of source, as if a user's module defined it."""
    exec(source, scope)
    return scope[name]


# ------------------------------------------------------------------- hit and miss, by process
MODEL = """
import json
import sys

import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.decisions.choose import engine_of
from subsample_mcmc.decisions.choose import rewards_at

SCALE = 4.0
TABLE = np.array([1.0, 2.0])


def square(z):
    return z * z


def factory(power):
    def log_factor(data, arm, n):
        z = data.y[n] - data.centre[arm]
        return -TABLE[1] * power * sm.log1p(square(z) / SCALE)

    return log_factor


def report(name):
    y = np.random.default_rng(0).standard_normal(3000)
    data = {"y": y, "centre": np.linspace(-1.0, 1.0, 3)}
    population, selector = sm.Population(factory(0.5), data, arms=3), getattr(sm, name)()
    arms = sm.draw(population, 20, selector, seed=1).arms.tolist()
    stats = engine_of(population, selector).calls._record.rewards.function.stats
    out = rewards_at(population, 0, 0, 3)
    plain = [float(population.log_factor(population.data, 0, n)) for n in range(3)]
    hits, misses = (sum(c.values()) for c in (stats.cache_hits, stats.cache_misses))
    print(json.dumps([arms, hits, misses, bool(np.allclose(out, plain, rtol=1e-12)), plain]))


if __name__ == "__main__":
    report(sys.argv[1])
"""

CHAINS = {
    "script first": ("Racing", ["script", "script", "import", "import elsewhere", "stdin"]),
    "import first": ("Exact", ["import", "import", "script elsewhere"]),
    "stdin first": ("Exact", ["stdin", "stdin", "import"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("chain", CHAINS)
def test_next_process_hits_however_the_model_gets_there(chain, cache, tmp_path):
    selector, ways = CHAINS[chain]
    # No process can import what another one's model was called.
    for folder, name in (("here", "mymodel"), ("elsewhere", "other"), ("nowhere", "none")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.py").write_text(MODEL)
    known, results = None, set()
    for way in ways:
        folder, name = ("elsewhere", "other") if "elsewhere" in way else ("here", "mymodel")
        if way.startswith("script"):
            made = run(f"{name}.py", selector, cwd=tmp_path / folder)
        elif way.startswith("import"):
            text = f"import {name}; {name}.report({selector!r})"
            made = run("-c", text, cwd=tmp_path / folder)
        else:
            made = run("-", selector, cwd=tmp_path / "nowhere", text=MODEL)
        arms, hit, missed, right, _ = made
        assert right, way
        results.add(tuple(arms))
        if known is None:
            assert (hit, missed) == (0, 1)
        else:
            assert (hit, missed) == (1, 0), f"{way} after {ways[0]} compiled again"
            assert entries(cache) == known, f"{way} after {ways[0]} wrote to the cache"
        known = entries(cache)
    assert len(results) == 1
    assert not list(cache.glob("*.tmp"))


EDITS = {
    "the function": ("data.y[n] - data", "data.y[n] + data"),
    "a helper it calls": ("return z * z", "return z * z * z * z"),
    "a global number": ("SCALE = 4.0", "SCALE = 5.0"),
    "a closure's number": ("factory(0.5)", "factory(0.25)"),
    "a global array": ("[1.0, 2.0]", "[1.0, 3.0]"),
}


@pytest.mark.slow
def test_every_edit_misses_and_its_undoing_hits(cache, tmp_path):
    script = tmp_path / "mymodel.py"
    script.write_text(MODEL)
    first = run(script, "Exact", cwd=tmp_path)
    assert first[1:4] == [0, 1, True]
    for what, (old, new) in EDITS.items():
        assert MODEL.count(old) == 1
        script.write_text(MODEL.replace(old, new))
        _, hit, missed, right, rewards = run(script, "Exact", cwd=tmp_path)
        assert (hit, missed) == (0, 1), f"stale machine code after editing {what}"
        assert right and rewards != first[4], what
    known = entries(cache)
    script.write_text("# A comment, and all lines one further down.\n" + MODEL)
    again = run(script, "Exact", cwd=tmp_path)
    assert again == [first[0], 1, 0, True, first[4]]
    assert entries(cache) == known


@pytest.mark.slow
def test_four_cold_writers_at_once(cache, tmp_path):
    (tmp_path / "mymodel.py").write_text(MODEL)
    writers = [start("mymodel.py", "Exact", cwd=tmp_path) for _ in range(4)]
    made = [ended(process) for process in writers]
    assert all(m[3] for m in made)
    assert all(m[0] == made[0][0] for m in made)
    assert not list(cache.glob("*.tmp"))
    known = entries(cache)
    assert run("mymodel.py", "Exact", cwd=tmp_path) == [made[0][0], 1, 0, True, made[0][4]]
    assert entries(cache) == known


ALONE = """
import json, sys
import numpy as np
from subsample_mcmc.numerics.jit import jit

def solved(a, b):
    return np.linalg.solve(a, b).sum() + (a @ b).sum()

def grown(n):
    x = [1.0]
    for i in range(n):
        x.append(2.0 * i)
    return np.sort(np.array(x))[::-1].sum()

def told(x):
    print("value", x)
    return x

def random(rng):
    return rng.normal() + rng.integers(0, 5) + rng.gamma(2.0)

def refused(x):
    if x > 0.0:
        raise ValueError("it is positive", 7)
    return x

def counted(n):
    seen = {}
    for i in range(n):
        seen[i] = 2.0 * i
    return seen[3]

made = [jit(f, user=True) for f in (solved, grown, told, random, refused, counted)]
rng = np.random.default_rng(1)
given = [(np.diag([2.0, 3.0]), np.ones(2)), (5,), (3.5,), (rng,), (-1.0,), (5,)]
found = [f(*one) for f, one in zip(made, given)]
try:
    made[4](1.0)
except ValueError as error:
    found += error.args
hits = [sum(f.stats.cache_hits.values()) for f in made]
print(json.dumps([found, hits]))
"""


@pytest.mark.slow
def test_what_is_read_needs_nothing_of_numbas_compiler(cache, tmp_path):
    """Memory, linear algebra, random numbers, text and exceptions, where nothing was compiled."""
    (tmp_path / "alone.py").write_text(ALONE)
    told = []
    for _ in range(2):
        made = subprocess.run(
            [sys.executable, "alone.py"], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr
        assert made.stdout.startswith("value 3.5")
        told.append(json.loads(made.stdout.splitlines()[-1]))
    assert told[0][0] == told[1][0]
    assert (told[0][1], told[1][1]) == ([0] * 6, [1] * 6)


LINKING = """
import json, sys
from subsample_mcmc.numerics.jit import jit

def factory(f):
    def step(x):
        return f(x)
    return step

one, thousand = (jit(f, user=True) for f in (lambda x: x + 1.0, lambda x: x + 1000.0))
if sys.argv[1] == "A":
    print(json.dumps(jit(factory(one), user=True)(1.0)))
else:
    first = jit(factory(thousand), user=True)
    first(1.0)
    second = jit(factory(one), user=True)
    both = jit(lambda x: 1e6 * first(x) + second(x), user=True)
    print(json.dumps([both(1.0), sum(second.stats.cache_hits.values())]))
"""


@pytest.mark.slow
def test_two_closures_of_one_factory_one_cached_and_one_new(cache, tmp_path):
    """numba names symbols by qualname and a counter: with stock names the linker merges them."""
    assert run("-", "A", cwd=tmp_path, text=LINKING) == 2.0
    assert run("-", "B", cwd=tmp_path, text=LINKING) == [1001e6 + 2.0, 1]


# --------------------------------------------------------------------------- what is digested
def plus(x):
    return x + 41.0


SOURCE = """
def f(x):
    return {}
"""


@pytest.mark.parametrize(
    ("expression", "one", "other"),
    [
        ("k * x", {"k": 2}, {"k": 2.0}),
        ("k * x", {"k": 0.0}, {"k": -0.0}),
        ("k * x", {"k": np.float32(2)}, {"k": np.float64(2)}),
        ("k * x", {"k": True}, {"k": 1}),
        ("k[0] * x", {"k": (1.0, 2.0)}, {"k": (2.0, 1.0)}),
        ("k[0] * x", {"k": np.ones(2)}, {"k": np.ones(2, dtype=np.int64)}),
        ("k[0] * x", {"k": np.ones(4)}, {"k": np.ones((2, 2))}),
        ("k[0].a * x", {"k": np.ones(1, [("a", "f8"), ("b", "f8")])},
                       {"k": np.ones(1, [("b", "f8"), ("a", "f8")])}),
        ("k(x)", {"k": np.exp}, {"k": np.log}),
        ("k(x)", {"k": np.float32}, {"k": np.float64}),
        ("k(x)", {"k": sm.log}, {"k": sm.exp}),
        ("k.log1p(x)", {"k": sm}, {"k": np}),
        ("k(x, x).a", {"k": collections.namedtuple("P", "a b")},
                      {"k": collections.namedtuple("P", "b a")}),
        ("k(x).b", {"k": collections.namedtuple("P", "a b", defaults=[1.0])},
                   {"k": collections.namedtuple("P", "a b", defaults=[2.0])}),
        ("k(x)", {"k": lambda x: x + 1.0}, {"k": lambda x: x + 2.0}),
        ("k(x)", {"k": lambda x, y=1.0: x + y}, {"k": lambda x, y=2.0: x + y}),
        ("k(x)", {"k": numba.njit(plus)}, {"k": numba.njit(fastmath=True)(plus)}),
    ],
)  # fmt: skip
def test_what_differs_has_another_digest(expression, one, other):
    source = SOURCE.format(expression)
    made = [jit(function_from(source, **scope), user=True) for scope in (one, other, one)]
    assert not any(hasattr(m, "uncached") for m in made)
    assert made[0].digest == made[2].digest != made[1].digest
    assert made[0] is made[2]


def test_what_a_helper_or_an_object_holds_is_part_of_the_content():
    """For stores: a function of a module may read its numbers, an object may hold a step's."""
    helpers = types.ModuleType("helpers_of_this_test")
    exec("SCALE = 1.0\ndef step(x):\n    return SCALE * x\n", helpers.__dict__)
    held = types.SimpleNamespace(scale=1.0, again=None)
    held.again = held  # which leads to itself

    def by_module(x):
        return helpers.step(x)

    def by_object(x):
        return held.scale * x

    before = content(by_module), content(by_object)
    assert before == (content(by_module), content(by_object))
    helpers.SCALE = held.scale = 2.0
    assert content(by_module) != before[0] and content(by_object) != before[1]


class Held:
    """What an object of a user's says beside its numbers."""

    SCALE = 1.0

    def step(self, x):
        return 1.0 * x


class HeldOther:
    SCALE = 2.0

    def step(self, x):
        return 1.0 * x


class HeldAgain:
    SCALE = 1.0

    def step(self, x):
        return 2.0 * x


for other_class in (HeldOther, HeldAgain):
    other_class.__name__ = other_class.__qualname__ = "Held"
One, Two = (enum.Enum("Kinds", {"FIRST": k}, module=__name__) for k in (1.0, 2.0))
TOLD_APART = {
    "enum": ("held.FIRST.value * x", One, Two),
    "member": ("held.value * x", One.FIRST, Two.FIRST),
    "partial": ("held(x)", functools.partial(max, 1.0), functools.partial(max, 2.0)),
    "method": ("held(x)", Held().step, HeldAgain().step),
    "object": ("held.SCALE * x", Held(), HeldOther()),
    "class": ("held.SCALE * x", Held, HeldOther),
    "law": ("held.logpdf(x)", scipy.stats.norm(0.0, 1.0), scipy.stats.norm(0.0, 2.0)),
    "set": ("x in held", {1.0, 2.0}, {1.0, 3.0}),
    "range": ("held[0] * x", range(1, 5), range(2, 5)),
    "fraction": ("held * x", fractions.Fraction(1, 2), fractions.Fraction(1, 3)),
    "ctypes": ("held(x)", ctypes.pythonapi.PyFloat_GetMax, ctypes.pythonapi.PyFloat_GetInfo),
}


@pytest.mark.parametrize("kind", TOLD_APART)
def test_what_only_python_reads_is_part_of_the_content(kind):
    """For stores: a kernel in plain Python may read it, and was resumed with another one."""
    text, one, other = TOLD_APART[kind]

    def made(held):
        return content(function_from(f"def f(x): return {text}", held=held))

    assert made(one) == made(one) != made(other)


def test_of_classes_only_what_users_say_is_content():
    """What they inherit from this package reaches much of it, and its version says it."""

    class Mine(sm.Racing):
        STEP = 2.0

        def asked(self):
            return self.STEP

    assert own_of(Mine) == {"STEP": 2.0, "asked": Mine.asked}
    assert within(Mine, lambda: "looked into") == "looked into"
    assert not own_of(sm.Racing) and not within(sm.Racing, lambda: "looked into")


def test_what_functions_of_this_package_say_is_found_out_once(monkeypatch):
    """Of a kernel that is a user's class, and reaches many: a run's first half second."""
    made = []

    class Counted(Digest):
        def __init__(self, function, *given):
            made.append(function)
            super().__init__(function, *given)

    monkeypatch.setattr(digest, "Digest", Counted)
    functions = [
        function_from(f"def f(x): return belongs(x, {k}) + owner(x)",
                      belongs=digest.belongs, owner=function_from("def f(x): return x"))
        for k in range(3)
    ]  # fmt: skip
    each = [content(f) for f in functions]
    assert len(set(each)) == 3 and made.count(digest.belongs) == 3
    made.clear()
    with digest.each_once():
        assert [content(f) for f in functions] == each
        assert made.count(digest.belongs) == 1 and len(made) == 7  # a user's own each time
    assert [content(f) for f in functions] == each and made.count(digest.belongs) == 4


def test_the_content_is_the_same_in_every_process():
    """A set among the constants of a helper was written in the order that the process had."""
    program = (
        "import types\n"
        "from subsample_mcmc.numerics.digest import content\n"
        "helpers = types.ModuleType('helpers')\n"
        "exec('def g(x): return x in {\\'alpha\\', \\'beta\\', \\'gamma\\'}', helpers.__dict__)\n"
        "def f(x): return helpers.g(x)\n"
        "print(content(f))\n"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(told) == 1


def test_keyword_defaults_and_options_are_digested():
    def digest(source, **options):
        return jit(function_from(source), user=True, **options).digest

    text = "def f(x, *, k={}): return k * x"
    assert digest(text.format(1.0)) != digest(text.format(2.0))
    options = [{}, {"flags": FLAGS}, {"flags": CONTRACT}, {"disjoint": True}, {"inner": True}]
    assert len({digest("def f(x): return x", **o) for o in options}) == len(options)


def test_numpy_and_math_functions_taken_by_name_are_cached(cache):
    # np.ones and np.full are plain Python functions, of which numba has versions of its own.
    source = (
        "def f(x):\n    return ones(2).sum() + total(full(2, x)) + exp(x) + log(x) + norm(ones(1))"
    )
    made = jit(
        function_from(
            source, ones=np.ones, full=np.full, total=np.sum, exp=np.exp, log=np.log,
            norm=np.linalg.norm,
        ),
        user=True,
    )  # fmt: skip
    assert not hasattr(made, "uncached")
    assert made.digest != jit(function_from("def f(x): return ones(2)", ones=np.ones)).digest


def test_ellipsis_and_long_functions_are_cached():
    lines = "\n    ".join(f"x = x + g{i}" for i in range(300))
    source = f"def f(data, x):\n    {lines}\n    return sm.log1p(x) + data[..., 0]"
    function = function_from(source, sm=sm, **{f"g{i}": 0.0 for i in range(300)})
    made = jit(function, user=True)
    assert not hasattr(made, "uncached")  # behind 300 names, sm is loaded with a long argument
    assert made(np.ones(1), 1.0) == sm.log1p(1.0) + 1.0


def test_types_that_share_a_name_do_not_share_machine_code(cache, monkeypatch):
    """numba calls both P(float64 x 2): the fields are not in the name."""

    def f(p):
        return p.a

    one, other = collections.namedtuple("P", "a b"), collections.namedtuple("P", "b a")
    for kind in (one, other):
        # As a user's module defines it before, and after, he swaps the fields.
        kind.__module__, kind.__qualname__ = __name__, "P"
        monkeypatch.setattr(sys.modules[__name__], "P", kind, raising=False)
        assert anew(f, monkeypatch)(kind(a=1.0, b=2.0)) == 1.0
    assert len(entries(cache)) == 2


def test_global_rebound_after_handing_over(cache, monkeypatch):
    """The digest is made at once, machine code later: both must mean the same number."""
    scope = {"K": 2.0}
    exec("def f(x): return K * x", scope)
    made = jit(scope["f"], user=True)
    scope["K"] = 5.0
    assert made(1.0) == 2.0
    assert anew(scope["f"], monkeypatch)(1.0) == 5.0
    scope["K"] = 2.0
    again = anew(scope["f"], monkeypatch)
    assert again(1.0) == 2.0
    assert hits(again) == 1


def test_global_array_changed_in_place_after_handing_over():
    array = np.ones(2)
    made = jit(function_from("def f(i): return array[i]", array=array), user=True)
    array[:] = 7.0
    assert made(0) == 1.0
    assert jit(function_from("def f(i): return array[i]", array=array), user=True)(0) == 7.0


def test_stores_remember_what_a_function_says_not_how_it_is_compiled(monkeypatch):
    """Else no run could go on after an edit of the compiler's layer, or with another numba."""

    def with_logarithm(state, data, n):
        return sm.log1p(data.y[n])

    before = content(with_logarithm)
    monkeypatch.setattr(sm.log1p, "digest", "of another compiler")
    assert content(with_logarithm) == before


@pytest.mark.parametrize("kind", ["number", "array", "function", "tuple", "list", "dict"])
def test_stores_remember_what_is_in_modules_and_collections(kind):
    """A run must not go on with another constant, wherever the function finds it."""

    def made(k):
        foreign = types.ModuleType("foreign")
        foreign.k, foreign.array = k, np.array([k])
        foreign.helper = function_from(f"def helper(x): return {k} * x", "helper")
        values = (np.array([k]), 1.0)
        given = {"foreign": foreign, "values": values, "items": [1.0, [k]], "table": {"a": k}}
        text = {
            "number": "foreign.k", "array": "foreign.array[0]", "function": "foreign.helper(1.0)",
            "tuple": "values[0][0]", "list": "items[1][0]", "dict": "table['a']",
        }[kind]  # fmt: skip
        return content(function_from(f"def f(x): return {text} * x", **given))

    assert made(2.0) == made(2.0) != made(3.0)


def test_foreign_module_is_refused_by_the_cache_and_never_stale(cache):
    foreign = types.ModuleType("foreign")
    foreign.k, f = 2.0, function_from("def f(x): return foreign.k * x", foreign=foreign)
    made = jit(f, user=True)
    assert made(1.0) == 2.0
    assert made.uncached == ["foreign.k (attribute of a foreign module)"]
    outer = jit(lambda x: made(x) + 1.0, user=True)  # what calls it is not cached either
    assert outer(1.0) == 3.0
    foreign.k = 3.0
    assert jit(f, user=True)(1.0) == 3.0
    assert made.digest != jit(f, user=True).digest
    assert not entries(cache)


def test_module_that_goes_by_another_name_is_refused_by_the_cache():
    made = jit(function_from("def f(x):\n    m = sm\n    return m.log1p(x)", sm=sm), user=True)
    assert made(1.0) == sm.log1p(1.0)
    assert made.uncached == ["sm (attribute of a foreign module)"]


def test_nothing_of_the_package_is_refused_by_the_cache():
    for made in compiled_by_the_package():
        assert not hasattr(made, "uncached"), (made, made.uncached)


@pytest.mark.parametrize(
    ("chosen", "kept"),
    [(True, FLAGS), (False, frozenset()), ({"nnan", "contract"}, frozenset({"nnan", "contract"}))],
    ids=["everything", "nothing", "some"],
)
def test_users_own_njit_is_rebuilt_with_his_flags(chosen, kept, cache, tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "stock"))
    his = numba.njit(cache=True, fastmath=chosen)(lambda x: x / 3.0)
    made = jit(his, flags=CONTRACT)
    assert made is not his
    assert frozenset(made.targetoptions["fastmath"] or ()) == kept
    caller = jit(lambda x: his(x) + 1.0, flags=CONTRACT, user=True)
    inside = caller.py_func.__closure__[0].cell_contents
    assert inside is not his
    assert frozenset(inside.targetoptions["fastmath"] or ()) == kept
    assert caller(3.0) == 2.0
    assert not his.overloads
    assert not list((tmp_path / "stock").rglob("*.nb*"))
    assert jit(made) is made


# ------------------------------------------------------------------ recursion, and names to come
def test_function_that_calls_itself(cache, monkeypatch):
    source = "def f(n):\n    return 1 if n < 2 else n * f(n - 1)"
    made = jit(function_from(source), user=True)
    assert made(10) == 3628800
    again = anew(function_from(source), monkeypatch)
    assert again(10) == 3628800
    assert hits(again) == 1

    def closure(n):
        return 1 if n < 2 else n * closure(n - 1)

    @numba.njit
    def his(n):
        return 1 if n < 2 else n * his(n - 1)

    assert jit(closure, user=True)(5) == jit(his)(5) == 120


def test_functions_that_call_each_other_are_refused():
    scope = {}
    exec(
        "def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n > 0 and even(n - 1)", scope
    )
    with pytest.raises(sm.CompileError, match=r"odd and even call each other.*Make one function"):
        jit(scope["even"], user=True)


def test_helper_defined_after_the_function():
    with pytest.raises(NameError, match=r"^f uses 'helper', which is not defined yet.*define it"):
        jit(function_from("def f(x): return helper(x)"))

    def f(x):
        return helper(x)

    with pytest.raises(NameError, match=r"^f uses 'helper', which is not defined yet"):
        jit(f)

    def helper(x):
        return x

    assert jit(f, user=True)(1.0) == 1.0


def test_typo_where_first_and_last_datum_do_not_look():
    def log_factor(data, arm, n):
        return data[0][n] if n != 1 else dta[0][n]  # noqa: F821

    with pytest.raises(NameError, match="log_factor uses 'dta'"):
        sm.Population(log_factor, (np.zeros(3),), arms=2)


def test_inner_functions_refuse_python_instead_of_crashing():
    made = jit(lambda x: x + 1.0, inner=True)
    assert jit(lambda x: 2.0 * made(x))(1.0) == 4.0
    with pytest.raises(TypeError, match="only compiled functions"):
        made(1.0)


# ------------------------------------------------------------------------- a cache that fails
def one_entry(cache):
    (path,) = cache.glob("plus-*.bin")
    return path


def with_checksum(payload):
    return disk.hashlib.sha256(payload).digest() + payload


DAMAGE = {
    "empty": lambda raw: b"",
    "too short": lambda raw: raw[:20],
    "no payload": lambda raw: raw[:32],
    "truncated": lambda raw: raw[: len(raw) // 2],
    "one byte short": lambda raw: raw[:-1],
    "one bit": lambda raw: raw[:100] + bytes([raw[100] ^ 1]) + raw[101:],
    "no pickle": lambda raw: with_checksum(b"nonsense"),
    "another pickle": lambda raw: with_checksum(pickle.dumps({"a": 1})),
    "a class that is gone": lambda raw: with_checksum(b"\x80\x04\x8c\x04gone\x8c\x01P\x93."),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_entry_is_a_miss_and_rewritten(damage, cache, monkeypatch):
    assert anew(plus, monkeypatch)(1.0) == 42.0
    path = one_entry(cache)
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    again = anew(plus, monkeypatch)
    assert again(1.0) == 42.0
    assert hits(again) == 0
    third = anew(plus, monkeypatch)
    assert third(1.0) == 42.0
    assert hits(third) == 1
    assert list(cache.glob("*.bin")) == [path]
    assert not list(cache.glob("*.tmp"))


def test_entry_of_another_version_is_not_read(cache, monkeypatch):
    assert anew(plus, monkeypatch)(1.0) == 42.0
    names = [str(version) for version in layer.VERSIONS]
    for needed in (numba.__version__, np.__version__, str(sys.version_info[:3])):
        assert needed in names
    for i in range(len(layer.VERSIONS)):
        changed = (*layer.VERSIONS[:i], "another", *layer.VERSIONS[i + 1 :])
        with monkeypatch.context() as other:
            other.setattr(layer, "VERSIONS", changed)
            made = anew(plus, other)
            assert made(1.0) == 42.0
            assert hits(made) == 0
    assert len(entries(cache)) == 1 + len(layer.VERSIONS)
    again = anew(plus, monkeypatch)
    assert again(1.0) == 42.0
    assert hits(again) == 1


def no_home():
    raise RuntimeError("Could not determine home directory.")


@pytest.mark.parametrize("place", ["off", "under a file", "no home"])
def test_without_a_cache_everything_works(place, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    chosen = {"off": "off", "under a file": str(tmp_path / "file" / "cache"), "no home": ""}[place]
    monkeypatch.setenv("SUBSAMPLE_MCMC_CACHE", chosen)
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    if place == "no home":
        monkeypatch.setattr(Path, "home", no_home)
    assert disk.cache_directory() is None
    made = anew(plus, monkeypatch)
    assert made(1.0) == 42.0
    assert not made.stats.cache_hits
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def test_where_the_cache_lives(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBSAMPLE_MCMC_CACHE", "")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert disk.cache_directory() == tmp_path / "subsample_mcmc"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SUBSAMPLE_MCMC_CACHE", "~/mine")
    assert disk.cache_directory() == tmp_path / "mine"
    assert (tmp_path / "mine").is_dir()


def test_full_disk_leaves_nothing_behind(cache, monkeypatch):
    def full(self, target):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Path, "replace", full)
        assert anew(plus, disk)(1.0) == 42.0
        assert not list(cache.glob("*.*"))
    assert anew(plus, monkeypatch)(1.0) == 42.0
    assert one_entry(cache)


def test_directory_that_may_only_be_read_is_read(cache, monkeypatch):
    """As one in an image that others made: what is there is used, nothing is written."""

    def plus(x):
        return x + 41.0

    def minus(x):
        return x - 41.0

    assert anew(plus, monkeypatch)(1.0) == 42.0
    known = entries(cache)
    allowed = os.access  # whoever runs this may write anywhere, if he is root
    monkeypatch.setattr(
        disk.os, "access", lambda path, mode: not mode & os.W_OK and allowed(path, mode)
    )
    again, other = anew(plus, monkeypatch), anew(minus, monkeypatch)
    assert again(1.0) == 42.0 and hits(again) == 1
    assert other(1.0) == -40.0 and hits(other) == 0
    assert entries(cache) == known and not list(cache.glob("*.tmp"))


def test_directory_that_vanishes_is_made_again(cache, monkeypatch):
    assert anew(plus, monkeypatch)(1.0) == 42.0
    for path in cache.iterdir():
        path.unlink()
    cache.rmdir()
    assert anew(plus, monkeypatch)(1.0) == 42.0
    assert one_entry(cache)


@pytest.mark.plain
def test_old_entries_are_forgotten(tmp_path):
    for name, days in (("old.bin", 91), ("read.bin", 89), ("dead.tmp", 2), ("live.tmp", 0.5)):
        path = tmp_path / name
        path.touch()
        then = path.stat().st_mtime - days * disk.DAY
        os.utime(path, (then, then))
    disk.forget_old(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"read.bin", "live.tmp", "swept"}
    disk.write(tmp_path / "new.bin", b"payload")
    assert disk.read(tmp_path / "new.bin") == b"payload"
    os.utime(tmp_path / "new.bin", (0, 0))
    assert disk.read(tmp_path / "new.bin") == b"payload"
    assert (tmp_path / "new.bin").stat().st_mtime > 0, "what is read is not forgotten"
    assert disk.read(tmp_path / "absent.bin") is None


# -------------------------------------------------------------------------- numba from inside
def test_numba_still_has_the_flag_noalias():
    from numba.core.compiler import Flags

    assert hasattr(Flags(), "noalias"), "mini-batches of rewards run 4 times slower"
    assert layer.compilers.Disjoint is not None


def test_numba_still_has_the_option_nrt():
    for option in ("_nrt", "no_cpython_wrapper", "no_cfunc_wrapper", "forceinline"):
        assert option in layer.KNOWN, (
            f"numba dropped the option {option}: package functions count references (_nrt, 200 ns "
            "a call), compile a third longer (wrappers), or are not inlined (forceinline)"
        )


def test_numba_still_has_the_cache_protocol():
    why = "nothing is kept on disk: every process compiles for seconds"
    assert layer.CACHE_BASE is not None, why
    abstract = {"cache_path", "load_overload", "save_overload", "enable", "disable", "flush"}
    assert set(layer.CACHE_BASE.__abstractmethods__) <= abstract, why
    assert hasattr(numba.njit(plus), "_cache"), why
    for name in ("_rebuild", "_reduce"):
        assert hasattr(layer.compilers.compiler.CompileResult, name), why


def test_numba_still_lets_checks_into_its_pipeline():
    def last(x, i):
        return x[i - 1]

    checked = jit(last, user=True, checked=True)
    x = np.arange(3.0)
    x.flags.writeable = False
    with pytest.raises(IndexError, match=passes.BEYOND):  # not the last of x
        checked(x, 0)


def of_one_name(x):
    z = x - 0.5
    z *= z
    return z * z


def once_it_is_another(x):
    z = x - 0.5
    before = z
    z = x + 3.0
    return before * z


def swapped(x):
    a, b = x, x + 1.0
    a, b = b, a
    c = a
    a = b
    return c * a


def in_a_loop(x):
    z = before = x
    for _ in range(5):
        z = z * before
        before = before + 0.25
    return z * before


def in_branches(x):
    z = x
    if x > 0.0:
        w = z
    else:
        w = -2.0 * z
    return w * z


PRODUCTS = (of_one_name, once_it_is_another, swapped, in_a_loop, in_branches)


@pytest.mark.parametrize("function", PRODUCTS)
def test_products_are_what_they_are_where_squares_are_told(function):
    """Numbers are the same: a product of two that are not one is no square."""
    squares = jit(function, user=True, squares=True)
    for x in (-1.75, 0.0, 0.3, 2.5):
        assert squares(x) == pytest.approx(function(x), rel=1e-14), x
    for k in (3, -7):
        assert squares(k) == function(k)


def test_numba_still_lets_squares_into_its_pipeline(cache, monkeypatch):
    assert layer.COMPILERS, "bounds of z * z are wider than those of z ** 2"
    known, seen = passes.Square.squared, []
    monkeypatch.setattr(passes.Square, "squared", lambda *given: seen.append(1) or known(*given))
    for function, squares in ((lambda z: z * z + 2.25, True), (lambda z: z * (z + 2.25), False)):
        seen.clear()
        assert jit(function, user=True, squares=True)(1.5) == function(1.5)
        assert bool(seen) == squares


def test_numba_still_has_get_call_template():
    made = numba.njit(plus)
    assert hasattr(made, "get_call_template"), "every constant argument is compiled for itself"
    assert hasattr(made, "_insert") and hasattr(made, "_compile_for_args"), (
        "calling an inner function from Python ends the process instead of raising"
    )


def test_constant_arguments_are_not_compiled_for_themselves(cache):
    inner = jit(lambda x, k: x + k, inner=True)
    outer = jit(lambda x: inner(x, 1) + inner(x, 2) + inner(x, 3))
    assert outer(1.0) == 9.0
    assert len(inner.overloads) == 1


def test_package_functions_do_not_count_references_and_users_may_allocate(cache):
    """numba inherits unset options from the caller: the user's function must not inherit ours."""

    def allocates(x):
        return np.full(3, x).sum()

    reward = jit(allocates, flags=FLAGS, user=True)
    outer = jit(lambda x: reward(x) + 1.0)
    assert outer(2.0) == 7.0
    assert reward.targetoptions["_nrt"] is True
    for made in compiled_by_the_package():
        his = made.py_func.__name__ == "flat"
        assert made.targetoptions["_nrt"] is his, made


def test_functions_as_arguments_leave_no_entries_that_nobody_can_read(cache):
    def twice(function, x):
        return function(function(x))

    assert jit(lambda x: twice(plus, x), user=True)(1.0) == 83.0
    assert not list(cache.glob("twice-*"))


def test_disjoint_really_promises_noalias(cache):
    def f(x, out):
        for i in range(len(x)):
            out[i] = x[0] + x[i]

    arrays = np.arange(4.0), np.zeros(4)
    for options, promised in (({"disjoint": True}, True), ({}, False)):
        made = jit(f, **options)
        made(*arrays)
        text = made.inspect_llvm(made.signatures[0])
        header = next(
            line for line in text.splitlines() if line.startswith("define") and "f_" in line
        )
        assert bool(re.search(r"noalias [^,]*%arg\.", header)) == promised, header


MOVED = {
    "no disk cache": {"CACHE_BASE": None},
    "no pipelines": {"COMPILERS": {}},
    "no private options": {"KNOWN": ()},
    "none at all": {"CACHE_BASE": None, "COMPILERS": {}, "KNOWN": ()},
}


@pytest.mark.parametrize("moved", MOVED)
def test_without_private_names_results_are_the_same(moved, cache, monkeypatch):
    for name, value in MOVED[moved].items():
        monkeypatch.setattr(layer, name, value)
    monkeypatch.setattr(memo, "_results", OrderedDict())
    monkeypatch.setattr(memo, "_of_users", OrderedDict())
    monkeypatch.setattr(memo, "_lent", {})

    @jit(flags=FLAGS, inner=True)
    def each(context, arm, n):
        return context[0][n] * arm

    @jit(flags=FLAGS, disjoint=True)
    def fill(context, arm, rows, out):
        for i in range(len(rows)):
            out[i] = each(context, arm, rows[i])

    out = np.zeros(3)
    fill((np.arange(5.0),), 2, np.array([4, 0, 1]), out)
    assert out.tolist() == [8.0, 0.0, 2.0]
    if "KNOWN" in MOVED[moved]:
        assert "_nrt" not in each.targetoptions
    assert bool(entries(cache)) == ("CACHE_BASE" not in MOVED[moved])


@pytest.mark.slow
def test_package_without_private_names_chooses_the_same_arms(cache, tmp_path):
    (tmp_path / "mymodel.py").write_text(MODEL)
    usual = run("mymodel.py", "Exact", cwd=tmp_path)
    known = entries(cache)
    text = "import numba.core.caching; del numba.core.caching._Cache\n"
    text += "import mymodel; mymodel.report('Exact')"
    moved = run("-c", text, cwd=tmp_path, NUMBA_CACHE_DIR=str(tmp_path))
    assert moved[0] == usual[0]
    assert moved[3] is True
    assert entries(cache) == known


# ----------------------------------------------------------------------- numbers are run-time
SELECTORS = (
    sm.Exact(), sm.Racing(), sm.Racing(sm.Normal(paired=False)), sm.Racing(sm.Betting(spread=9.0)),
    sm.Racing(sm.BernsteinSerfling(spread=9.0)), sm.LilUCB(),
)  # fmt: skip


def flat(data, arm, n):
    return data.y[n] * data.slope[arm]


def flat_population(size, seed=0, scale=1.0, **more):
    y = np.random.default_rng(seed).standard_normal(size) * scale
    return sm.Population(flat, {"y": y, "slope": np.linspace(-1.0, 1.0, 4)}, arms=4, **more)


def compiled_by_the_package():
    """Every compiled function of the package, those made by its factories included."""
    sources = POPULATION
    for selector in SELECTORS:
        selector.build(sources)
    names = [name for name in sys.modules if name.startswith("subsample_mcmc")]
    found = [v for name in names for v in vars(sys.modules[name]).values() if hasattr(v, "digest")]
    found = [v for v in found if isinstance(v, layer.Dispatcher)]
    queue, seen = found + [s.build(sources) for s in SELECTORS] + list(sources), {}
    queue.append(engine_of(flat_population(100), sm.Exact()).loop)
    while queue:
        made = queue.pop()
        if id(made) not in seen:
            seen[id(made)] = made
            cells = [cell.cell_contents for cell in made.py_func.__closure__ or ()]
            reached = [*cells, *made.py_func.__globals__.values()]
            queue += [value for value in reached if isinstance(value, layer.Dispatcher)]
    assert len(seen) > 40
    return list(seen.values())


def test_closures_capture_functions_only():
    """A captured number or array would be compiled in: another value, another compilation."""
    for made in compiled_by_the_package():
        for name, cell in zip(
            made.py_func.__code__.co_freevars, made.py_func.__closure__ or (), strict=True
        ):
            value = cell.cell_contents
            known = isinstance(value, layer.Dispatcher | types.FunctionType)
            assert known or isinstance(value.digest, str), (  # a call by address
                f"{made.__name__} captures {name}={value!r}: hand numbers over in params"
            )


def test_numbers_never_recompile():
    from numba.core.event import install_recorder

    first = flat_population(3000)
    loops = {}
    for selector in (sm.Exact(), sm.Racing()):
        sm.draw(first, 2, selector, seed=0)
        loops[type(selector)] = engine_of(first, selector).loop
    variations = [
        (flat_population(3000, seed=1), sm.Racing(), 1),
        (flat_population(20_000), sm.Racing(), 2),
        (flat_population(3000, log_prior=[0.0, 1.0, -np.inf, 2.0]), sm.Racing(), 3),
        (flat_population(50), sm.Racing(), 4),
        (first, sm.Racing(delta=0.01), 5),
        (first, sm.Racing(batch=10, growth=1.5), 6),
        (first, sm.Racing(growth=4.0, retreat=False), 7),
        (first, sm.Racing(sm.Normal(guard=False)), 8),
        (flat_population(20_000, scale=0.01), sm.Exact(), 9),
    ]
    with install_recorder("numba:compile") as recorder:
        for population, selector, seed in variations:
            sm.draw(population, 3, selector, seed=seed)
            assert engine_of(population, selector).loop is loops[type(selector)]
    assert not recorder.buffer, [str(event) for _, event in recorder.buffer]
    for loop in loops.values():
        assert len(loop.overloads) == 1


def test_equal_functions_share_one_compiled_object():
    assert jit(lambda x: x + 3.5, user=True) is jit(lambda x: x + 3.5, user=True)
    assert flat_population(100).reward is flat_population(200).reward


# --------------------------------------------------------------------------- the user's errors
def message_of(log_factor, data=(np.zeros(3),)):
    with pytest.raises(sm.CompileError) as caught:
        sm.draw(sm.Population(log_factor, data, arms=2), 1, sm.Exact())
    return str(caught.value)


@pytest.mark.slow
def test_message_shows_the_users_line():
    from scipy.special import gammaln

    def with_scipy(data, arm, n):
        z = data[0][n]
        return gammaln(z + 2.0)  # the scipy line

    text = message_of(with_scipy)
    assert text.startswith("with_scipy cannot be compiled: ")
    assert "return gammaln(z + 2.0)  # the scipy line" in text
    assert "test_jit.py, line" in text
    assert "scipy and Python objects do not compile" in text

    table = {"a": 1.0}

    def with_object(data, arm, n):
        return data[0][n] * table["a"]  # the dict line

    assert "with_object cannot be compiled" in message_of(with_object)
    assert "# the dict line" in message_of(with_object)

    def helper(z):
        return str(z).title().foo()

    def with_helper(data, arm, n):
        return helper(data[0][n]) if n == 1 else 0.0

    text = message_of(with_helper)
    assert "with_helper cannot be compiled" in text
    assert "Unknown attribute 'foo'" in text
    assert "return helper(data" in text or "title().foo()" in text


# ------------------------------------------------------------------------------------ records
@pytest.mark.plain
def test_one_record_per_field_tuple():
    kind = record("y", "mu1", "x12")
    assert kind is record("y", "mu1", "x12")
    assert kind is not record("mu1", "y", "x12")
    assert record("a", "b1") is not record("ab1")
    assert kind._fields == ("y", "mu1", "x12")
    assert as_record({"y": 1, "mu1": 2, "x12": 3}) == kind(1, 2, 3)
    assert type(as_record(collections.namedtuple("Mine", "y mu1 x12")(1, 2, 3))) is kind
    assert as_record([1, 2]) == (1, 2)
    assert record("count", "index")(1, 2).count == 1


@pytest.mark.plain
@pytest.mark.parametrize("field", ["class", "_x", "2x", "a b", "", "x-y", "None"])
def test_field_names_that_cannot_be(field):
    with pytest.raises(ValueError, match=r"cannot be a field: give an identifier"):
        record("y", field)
    with pytest.raises(ValueError, match="cannot be a field"):
        as_record({field: np.zeros(3)})


@pytest.mark.plain
@pytest.mark.parametrize(
    "name", ["", "r", "R1", "R3ab", "R2abc", "Rx", "R0", "R1_", "R5class", "Q1a"]
)
def test_names_that_are_no_record(name):
    with pytest.raises(AttributeError):
        getattr(records, name)


@pytest.mark.plain
@pytest.mark.parametrize("fields", [(), ("y",), ("x1", "y"), ("x12", "y3z", "é1"), ("a" * 12, "b")])
def test_records_are_found_by_name(fields, monkeypatch):
    made = record(*fields)(*range(len(fields)))
    assert pickle.loads(pickle.dumps(made)) == made
    monkeypatch.delitem(vars(records), type(made).__name__)  # put back: there is to be one class
    assert getattr(records, type(made).__name__)._fields == fields


@pytest.mark.plain
def test_threads_that_make_a_record_at_once_share_one_class(monkeypatch):
    """Types, and what is on disk, know a record by its class."""
    meet, slow = threading.Barrier(4), records.namedtuple

    def at_once(*args, **more):
        meet.wait(10.0)  # all of them are making it
        return slow(*args, **more)

    monkeypatch.setattr(records, "namedtuple", at_once)
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: record("made", "by", "four"), range(4)))
    assert len(found) == 1 and found == {record("made", "by", "four")}
    assert found.pop()(1, 2, 3).by == 2


@pytest.mark.slow
@pytest.mark.plain
def test_records_pickle_into_a_fresh_process(tmp_path):
    (tmp_path / "made").write_bytes(pickle.dumps(record("x12", "y3z", "w")(1, 2.5, None)))
    text = "import json, pickle; made = pickle.load(open('made', 'rb'));"
    assert run("-c", f"{text} print(json.dumps(made._asdict()))", cwd=tmp_path) == {
        "x12": 1, "y3z": 2.5, "w": None,
    }  # fmt: skip


# ----------------------------------------------------------------------------------- bytecode
@pytest.mark.plain
def test_bytecode_globals():
    def everything(data, arm, n):
        z = sm.log1p(data[n]) + np.linalg.norm(data) + len(data)
        values = [SELECTORS for _ in range(arm)]
        inner = lambda q: types.pi * q  # noqa: E731
        for i, j in zip(values, values, strict=True):
            z += i * j * inner(z)
        return z if z else record

    found = bytecode.loaded_globals(everything.__code__)
    nested = [c for c in everything.__code__.co_consts if isinstance(c, types.CodeType)]
    found = found.union(*(bytecode.loaded_globals(c) for c in nested))
    assert found == {"sm", "np", "len", "range", "SELECTORS", "types", "zip", "record"}


@pytest.mark.plain
def test_bytecode_attribute_chains():
    closed = np

    def everything(data, arm, n):
        a = sm.log1p(data[n]) + sm.fastmath.exp(n) + sm.log(sm.exp(arm)) * closed.pi
        module = sm
        b, c = [sm.log2(i) for i in range(arm)], lambda q: sm.deep.er(q) + closed.linalg.norm(q)
        return (data.sm.no, sm.last) if a else (b, c, module)

    wanted = {("log1p",), ("fastmath", "exp"), ("log",), ("exp",), ("log2",), ("deep", "er")}
    assert bytecode.attribute_chains(everything.__code__, "sm") == {*wanted, ("last",), ()}
    chains = bytecode.attribute_chains(everything.__code__, "closed")
    assert {("pi",), ("linalg", "norm")} <= chains


@pytest.mark.parametrize(
    "body",
    [
        "return sm.log1p(x)",
        "for v in [sm.log1p(x) for _ in range(1)]:\n        x = v\n    return x",
        "a, b = x, x\n    return sm.log1p(a) + 0.0 * b",
        "return sm.numerics.fastmath.log1p(x)",
        "f = sm.log1p\n    return f(x)",
        "return (lambda q: sm.log1p(q))(x)",
    ],
)
@pytest.mark.parametrize("closed", [False, True])
def test_attributes_of_the_package_are_followed(body, closed):
    source = f"def f(x):\n    {body}"
    if closed:
        inside = source.replace("\n", "\n    ")
        f = function_from(f"def outer(sm):\n    {inside}\n    return f", "outer")(sm)
    else:
        f = function_from(source, sm=sm)
    made = jit(f, user=True)
    assert not hasattr(made, "uncached"), made.uncached
    assert made(0.5) == pytest.approx(np.log1p(0.5), rel=1e-12)
    # The digest knows which function of ours is meant, by its content.
    fake = types.ModuleType("subsample_mcmc")
    fake.numerics = fake.fastmath = fake
    fake.log1p = sm.exp
    values = [Digest(f, "", compiled_or_none).hash.hexdigest()]
    scope = {"sm": fake}
    if closed:
        f = function_from(f"def outer(sm):\n    {inside}\n    return f", "outer")(fake)
    else:
        f = types.FunctionType(f.__code__, scope)
    values.append(Digest(f, "", compiled_or_none).hash.hexdigest())
    assert values[0] != values[1]


def compiled_or_none(value):
    return value if isinstance(value, layer.Dispatcher) else None


def test_a_function_may_have_attributes_of_any_name():
    """One called digest, as the package's own have, and so has what wraps one of these."""

    def doubled(x):
        return 2.0 * x

    doubled.digest = "of mine"

    @functools.wraps(sm.log)
    def wrapped(x):
        return x + 1.0

    assert jit(lambda x: doubled(x) + wrapped(x), user=True)(3.0) == 10.0


def test_a_function_that_ran_under_a_profiler_is_the_same():
    """There numba clears a flag of the code that it calls."""
    helper = numba.njit(function_from("def f(x): return 2.0 * x"))
    scope = {"helper": helper}
    exec("def f(x): return helper(x)", scope)
    before, flags = content(scope["f"]), helper.py_func.__code__.co_flags
    with cProfile.Profile():
        helper(1.0)
    if sys.version_info < (3, 12):
        assert helper.py_func.__code__.co_flags != flags
    assert content(scope["f"]) == before
