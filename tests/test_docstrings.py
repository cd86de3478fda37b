"""Every public name shows how it is used, and the examples give what they say."""

import doctest
import inspect
import os
import re
import shutil
import tempfile

import numpy as np
import pytest

import subsample_mcmc as sm
from tests.helpers.each import each

PUBLIC = [name for name in sm.__all__ if name != "__version__"]
# What is written as in a session of a user who typed these two imports.
TYPED = {"np": np, "sm": sm, "__name__": "docs"}
RUNNER = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)


def explained(name):
    """What carries the docstring: for the set sm.positive, which is an object, its class."""
    value = getattr(sm, name)
    value = getattr(value, "py_func", value)
    return value if inspect.isclass(value) or inspect.isfunction(value) else type(value)


def examples(name):
    """The examples in the docstring of a name and of its public methods."""
    value = explained(name)
    parts = {name: value}
    if inspect.isclass(value):
        parts |= {f"{name}.{k}": v for k, v in vars(value).items() if k[0] != "_" and callable(v)}
    parser = doctest.DocTestParser()
    for label, part in parts.items():
        test = parser.get_doctest(inspect.getdoc(part) or "", dict(TYPED), label, None, None)
        if test.examples:
            yield test


@each(PUBLIC)
def test_there_is_an_example(name):
    assert ">>>" in (inspect.getdoc(explained(name)) or ""), f"sm.{name} has no example"


@pytest.fixture
def somewhere(monkeypatch):
    """A folder to write into, removed with what the example left there."""
    folder = tempfile.mkdtemp()
    monkeypatch.setattr(tempfile, "tempdir", folder)
    yield
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("name", PUBLIC)
@pytest.mark.usefixtures("somewhere")
def test_examples_give_what_they_say(name):
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        pytest.skip("without the JIT these take minutes")
    if name == "from_pymc":
        pytest.importorskip("pymc", reason="needs PyMC: `make pymc`")
    if name == "parquet":
        pytest.importorskip("pyarrow", reason="needs pyarrow: `make clusters`")
    for test in examples(name):
        told = []
        failed, _ = RUNNER.run(test, out=told.append)
        assert failed == 0, "".join(told)


def test_a_wrong_example_fails():
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3", {}, "wrong", None, None)
    assert RUNNER.run(test, out=lambda text: None).failed == 1


# ------------------------------------------------------------------------------------- arguments
# At the docstring's margin: `name: text`, `a, b: text`, of functions `f(state) -> float: text`.
ARGUMENT = re.compile(r"([a-z]\w*(?:, \w+)*)(?:\([^()]*\))?(?: -> [^:]+)?: (?=\S)")
ELSEWHERE = re.compile(r"as in (sm(?:\.\w+)+)")
ROOMS = {"sm": sm} | {f"sm.{name}": getattr(sm, name) for name in dir(sm) if name not in PUBLIC}
ROOMS |= {f"sm.models.{name}": getattr(sm.models, name) for name in dir(sm.models)}
NEEDS_PYMC = ("sm.pymc.RacingGibbs", "sm.pymc.RacingMetropolis")


def at(dotted):
    """What stands at sm.Gibbs, sm.models.glm.logistic, ..., without what compiled it."""
    value = sm
    for part in dotted.split(".")[1:]:
        value = getattr(value, part)
    return getattr(value, "py_func", value)


def called():
    """Every public name that is a class or a function, once."""
    names = [f"{room}.{name}" for room, module in ROOMS.items() for name in dir(module)]
    kinds = {n: "class" for n in NEEDS_PYMC} | {n: at(n) for n in names if n not in NEEDS_PYMC}
    seen = {}
    for name, value in kinds.items():
        if value == "class" or inspect.isclass(value) or inspect.isfunction(value):
            seen.setdefault(name if value == "class" else value, name)
    return sorted(seen.values())


def signature(value):
    """The names in a signature; none of exceptions that have none."""
    try:
        return [name for name in inspect.signature(value).parameters if name not in {"self", "cls"}]
    except ValueError:
        return []


def told(text):
    """What a docstring says of each argument."""
    found, names = {}, []
    for line in text.splitlines():
        if names and line.startswith("    "):
            found |= {name: f"{found[name]} {line.strip()}" for name in names}
        elif argument := ARGUMENT.match(line):
            names = argument[1].split(", ")
            assert not {*names} & {*found}, f"{line!r}: told of before"
            found |= dict.fromkeys(names, line[argument.end() :])
        else:
            assert not names or not line or found[names[0]][-1] in ".:)", f"indent {line!r}"
            names = []
    return found


def check_arguments(arguments, text, attributes=()):
    """All of a signature are told of, and nothing else in that shape but attributes."""
    found = told(text)
    assert not (left := [name for name in arguments if name not in found]), f"not told of: {left}"
    other = [name for name in found if name not in arguments]
    assert {*other} <= {*attributes}, f"{other}: no arguments"
    for name in arguments:
        for there in ELSEWHERE.findall(found[name]):
            what = told(inspect.getdoc(at(there)) or "")
            assert name in what, f"{name} is not told of in {there}"
            assert not what[name].startswith("as in"), f"{there} does not say what {name} is"


def check_called(name):
    value = at(name)
    check_arguments(signature(value), inspect.getdoc(value) or "", dir(value))


@each([name for name in called() if name not in NEEDS_PYMC])
def test_every_argument_is_told_of(name):
    check_called(name)


@pytest.mark.parametrize("name", NEEDS_PYMC)
def test_every_argument_of_a_step_of_pymc_is_told_of(name):
    pytest.importorskip("pymc", reason="needs PyMC: `make pymc`")
    check_called(name)


# What the package asks of parts, in sm.extend, and of its own classes: users do not call these.
PARTS = (
    sm.extend.Control, sm.extend.Decision, sm.extend.Leaf, sm.extend.Prepared, sm.extend.Rule,
    sm.extend.Selector, sm.bandits.Strategy,
)  # fmt: skip
OWN = {
    "sm.Bilinear.check", "sm.DefaultKernel.made_of", "sm.Model.extra", "sm.Model.fingerprints",
    "sm.Model.left_out", "sm.Model.set_state", "sm.Model.show", "sm.Model.state",
    "sm.Predictors.check_etas", "sm.Predictors.count", "sm.PseudoPrior.block_of",
    "sm.PseudoPrior.check", "sm.PseudoPrior.numbers", "sm.extend.Kernel.at_work",
    "sm.extend.Kernel.check_composed", "sm.extend.Kernel.settled", "sm.extend.Kernel.suspects",
}  # fmt: skip


def methods():
    """Public methods with arguments that users call, by their class; each where it is defined."""
    found, seen = {}, set()
    for name in called():
        value = None if name in NEEDS_PYMC else at(name)
        for key, what in vars(value).items() if inspect.isclass(value) else ():
            method = getattr(what, "__func__", what)
            plain = inspect.isfunction(method) and key[0] != "_" and signature(method)
            used = not issubclass(value, PARTS) or isinstance(what, classmethod)
            if plain and used and method not in seen and f"{name}.{key}" not in OWN:
                seen.add(method)
                found[f"{name}.{key}"] = method
    return found


@each([*methods().items()], called="{0[0]}".format)
def test_every_argument_of_a_method_is_told_of(named):
    _, method = named
    check_arguments(signature(method), inspect.getdoc(method) or "")


def test_methods_are_looked_at():
    assert {"sm.Trace.plot", "sm.Fit.matched", "sm.Bilinear.fit", "sm.extend.Kernel.describe"} <= {
        *methods()
    }
    assert {name.rpartition(".")[2] in dir(at(name.rpartition(".")[0])) for name in OWN} == {True}


def test_arguments_that_are_not_told_of_are_found():
    text = (
        "One.\n\na, b: numbers,\n    both.\nf(x) -> float: of x.\nc: as in sm.Gibbs.\n\nRest: no.\n"
    )
    arguments = ["a", "b", "f", "scan"]
    text = text.replace("c: as", "scan: as")
    assert told(text)["b"] == "numbers, both."
    check_arguments(arguments, text)
    for mutant in (
        text.replace("a, b: numbers", "a: numbers"),  # left out
        text.replace("a, b: numbers", "a, b numbers"),  # another shape
        text.replace("a, b: numbers", "a, b, old: numbers"),  # is no argument any more
        text.replace("    both.", "both."),  # not indented
        text.replace("f(x)", "a: twice.\nf(x)"),
        text.replace("sm.Gibbs", "sm.Metropolis"),  # which has none
    ):
        assert mutant != text
        with pytest.raises(AssertionError):
            check_arguments(arguments, mutant)
    doc = inspect.getdoc(sm.Gibbs)
    check_arguments(signature(sm.Gibbs), doc)
    for name in signature(sm.Gibbs):  # in a docstring as they are
        with pytest.raises(AssertionError, match=f"not told of: \\['{name}'"):
            check_arguments(signature(sm.Gibbs), re.sub(rf"^{name}\b", "It", doc, flags=re.M))
