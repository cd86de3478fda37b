"""Every public name shows how it is used, and the examples give what they say."""

import doctest
import inspect
import os
import shutil
import tempfile

import numpy as np
import pytest

import subsample_mcmc as sm

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


@pytest.mark.parametrize("name", PUBLIC)
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
