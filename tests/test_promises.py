"""What is refused, silenced or shown as the documentation says: data with holes, bars, listings."""

import importlib
import inspect
import math
import pickle
import pydoc
import re

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln

import subsample_mcmc as sm
from subsample_mcmc.approx.taylor import taylor
from subsample_mcmc.numerics.progress import quietly
from tests.test_mistakes import Y, model, refused, sampled

# ------------------------------------------------------------------------------- missing values
HOLED = np.where(np.isin(np.arange(300), (7, 9, 250)), np.nan, Y)
SERIES = pd.Series(Y)


def both(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] * data.x[n]) ** 2


def of_matrix(state, data, n):
    return -0.5 * (data.x[n, 1] - state.mu[0]) ** 2


def masked(gone):
    return np.ma.masked_array(Y, np.isin(np.arange(300), gone))


@pytest.mark.parametrize(
    ("x", "error", "words"),
    [
        (HOLED, ValueError, "data x has 3 missing values (NaN), the first in row 7: drop these"),
        (HOLED.astype(np.float32), ValueError, "3 missing values (NaN), the first in row 7"),
        (HOLED[::-1], ValueError, "3 missing values (NaN), the first in row 49"),
        (pd.Series(HOLED), ValueError, "the first in row 7: drop these rows before, df.dropna(sub"),
        (HOLED.tolist(), ValueError, "keep = ~np.isnan(x) and x[keep], for every array"),
        (pd.array(HOLED, dtype="Float64"), ValueError, "(Float64) has 3 missing values, the first"),
        (masked([11, 12]), ValueError, "a masked array with 2 missing values, the first in row 11"),
        ([None, *Y[1:]], TypeError, "dtype object.*It has 1 missing value, in row 0: drop"),
        (np.array([None, *Y[1:]]), TypeError, "It has 1 missing value, in row 0"),
        (pd.to_datetime(["2020-02-02"] * 299 + [None]), TypeError,
         "Missing are 1, the first in row 299"),
        (np.array(["2020-02-02"] * 299 + ["NaT"], "M8[s]"), TypeError,
         "has 1 missing value, in row 299"),
        (pd.Series(["a", "b", None] * 100).astype("category"), TypeError,
         "Missing are 100, the first in row 2"),
    ],
)  # fmt: skip
def test_missing_values_are_refused_by_column_and_row(x, error, words):
    head, _, rest = words.partition(".*")
    refused(lambda: model(both, data={"y": Y, "x": x}), head, rest, error=error)
    refused(
        lambda: sm.Population(lambda data, arm, n: arm * data.y[n], {"y": Y, "x": x}, arms=2),
        head, rest, error=error,
    )  # fmt: skip


def test_what_only_looks_like_a_hole_is_taken():
    signs = np.tile([-1, 1, 1], 100)
    for x in (
        masked([]), signs.astype(np.int8), pd.Series(signs.astype(np.int8)), SERIES.to_numpy(),
        np.tile([-1, 0, 2], 100), pd.Series([True, False] * 150), np.broadcast_to(1.0, 300),
        pd.array(Y, dtype="Float64"),
    ):  # fmt: skip
        assert model(both, data={"y": Y, "x": x}).size == 300
    codes = pd.Series(["a", "b", None] * 100).astype("category").cat.codes
    # Where such a code is an index, the look-up is refused: tests/target/test_indices.py.
    assert model(both, data={"y": Y, "x": codes}).data.x.min() == -1


def test_infinite_values_are_refused_unless_they_are_declared():
    far = np.where(np.arange(300) == 5, -np.inf, Y)
    refused(lambda: model(both, data={"y": Y, "x": far}), "data x has 1 infinite value, in row 5",
            "say missing='infinite'")  # fmt: skip
    refused(lambda: model(both, data={"y": Y, "x": np.where(np.arange(300) > 8, np.inf, Y)}),
            "291 infinite values, the first in row 9")  # fmt: skip
    x = np.zeros((300, 2))
    x[70, 1] = np.inf
    refused(lambda: model(of_matrix, data={"x": x}), "in row 70, column 1")
    for missing in ("infinite", "allow"):
        assert model(both, data={"y": Y, "x": far}, missing=missing).size == 300
    holed = np.where(np.arange(300) == 9, np.nan, far)
    refused(lambda: model(both, data={"y": Y, "x": holed}), "1 missing value (NaN), in row 9")
    refused(lambda: model(both, data={"y": Y, "x": holed}, missing="infinite"), "(NaN), in row 9")
    assert model(both, data={"y": Y, "x": holed}, missing="allow").size == 300


def test_a_matrix_names_row_and_column():
    x = np.zeros((300, 3))
    x[200, 1] = np.nan
    refused(lambda: model(of_matrix, data={"x": x}), "in row 200, column 1", ".any(axis=1)")
    rows = np.zeros((3, 300)).T
    rows[299, 2] = np.nan
    refused(lambda: model(of_matrix, data={"x": rows}), "in row 299, column 2")


def test_a_hole_deep_in_a_file_is_found(tmp_path):
    """In pieces, and at the places that pieces meet."""
    file = np.lib.format.open_memmap(tmp_path / "y.npy", mode="w+", dtype=float, shape=(2**18 + 9,))
    for row in (2**18 - 1, 2**18, 2**18 + 8):
        file[:] = 0.0
        file[row] = np.nan
        refused(lambda: model(data={"y": file}), f"1 missing value (NaN), in row {row}")


def handles(state, data, n):
    if math.isnan(data.y[n]):
        return 0.0
    return -0.5 * (data.y[n] - state.mu[0]) ** 2


def test_a_likelihood_that_tells_nan_apart_says_so():
    given = model(handles, data={"y": HOLED}, missing="allow")
    kernel = sm.Metropolis("mu", 0.1, selector=sm.Exact())
    draws = sampled(given, kernel).draws["mu"]
    few = model(data={"y": HOLED[~np.isnan(HOLED)]})
    np.testing.assert_allclose(draws, sampled(few, kernel).draws["mu"], rtol=1e-12)
    again = pickle.loads(pickle.dumps(given))  # as a worker gets it
    assert np.isnan(again.data.y).sum() == 3
    nulls = model(handles, data={"y": pd.array(HOLED, dtype="Float64")}, missing="allow")
    np.testing.assert_array_equal(nulls.data.y, HOLED)
    frame = pd.DataFrame({"y": HOLED, "x": Y})
    assert model(handles, data=frame, missing="allow").size == 300
    refused(lambda: model(missing="drop"), "missing='drop': give 'refuse', or 'allow'")
    refused(lambda: model(data={"y": masked([3])}, missing="allow"), "x.filled(...)")
    population = sm.Population(lambda data, arm, n: float(arm), (HOLED,), arms=2, missing="allow")
    assert population.size == 300


# --------------------------------------------------------------------------------- progress bars
laplace, decide, identify = (
    importlib.import_module(f"subsample_mcmc.{name}")
    for name in ("approx.fit.laplace", "decisions.choose", "bandits.identify")
)  # whose names are also those of functions


@pytest.fixture
def impatient(monkeypatch):
    """Bars that would appear after seconds appear at once."""
    for module in (taylor, laplace):
        monkeypatch.setattr(module, "PATIENT", 0.0)
    for module in (decide, identify):
        monkeypatch.setattr(module, "SLOW", -1.0)


def controlled():
    given = model()
    return given, sm.Metropolis("mu", 0.1, control=sm.Taylor({"mu": [0.5]}, order=2), adapt=False)


def test_one_switch_silences_all_bars(impatient, capsys):
    given, kernel = controlled()
    sampled(given, kernel)
    sm.plan(given, controlled()[1], steps=2, warmup=0, seed=1, progress=False)
    sm.audit(given, sm.Exact(), controlled()[1], steps=2, warmup=0, seed=1)
    sm.laplace(given, progress=False)
    population = sm.Population(lambda data, arm, n: arm * data.y[n], {"y": Y}, arms=2)
    sm.draw(population, progress=False)
    with quietly(False):
        sm.laplace(given, progress=True)
    assert capsys.readouterr().err == ""


def test_bars_that_wait_for_the_compiler_say_so(impatient, capsys):
    given, kernel = controlled()
    sampled(given, kernel, progress=True)
    shown = capsys.readouterr().err
    lines = [line for line in shown.replace("\r", "\n").splitlines() if line.strip()]
    assert any("control variate" in line for line in lines)
    chain = [line for line in lines if line.startswith("chain 0")]
    assert "compiling" in chain[0] and "0/10" in chain[0]
    assert "10/10" in chain[-1] and "compiling" not in chain[-1] and "accepted" in chain[-1]
    sm.laplace(given, progress=True)
    assert "compiling" in capsys.readouterr().err
    sm.plan(given, kernel, steps=2, warmup=0, seed=1)
    assert "as given: compiling" in capsys.readouterr().err


def test_a_mistake_leaves_no_bar_behind(capsys):
    def foreign(state, data, n):
        return gammaln(data.y[n]) * state.mu[0]

    refused(lambda: sampled(model(foreign), sm.Metropolis("mu"), progress=True), "gammaln",
            error=sm.CompileError)  # fmt: skip
    shown = capsys.readouterr().err.replace("\r", "\n").splitlines()
    assert not shown or not shown[-1].strip()


# -------------------------------------------------------------------------------------- describe
def two(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] - state.k[0]) ** 2


TWO = {"state": {"mu": 0.0, "k": 0}, "support": {"k": 3}, "data": {"y": np.tile(Y, 10)}}


@pytest.mark.parametrize(
    ("kernel", "error", "words"),
    [
        (sm.Metropolis("nu"), ValueError, "which is no block of"),
        (sm.Metropolis("k"), ValueError, "the block is discrete"),
        (sm.Gibbs("k", sm.Racing(sm.Betting())), ValueError, "was given no range"),
        (sm.Gibbs("k", sm.Racing(delta=0.6)), ValueError, "needs 0 < delta < 0.5"),
        (sm.Gibbs("k", sm.Racing(sm.TTest())), ValueError, "compares two arms"),
        (sm.Gibbs("k", sm.LinGapE(features=np.eye(5))), ValueError, "one row for each of 3 arms"),
    ],
)
def test_describe_refuses_what_sample_refuses(kernel, error, words):
    given = model(two, **TWO)
    if kernel.writes == ("k",) and "discrete" not in words:
        kernel = sm.Metropolis("mu") >> kernel
    for call in (kernel.describe, lambda m: sampled(m, kernel)):
        refused(lambda call=call: call(given), words, error=error)


def test_describe_shows_control_variates():
    given = model(two, **TWO)
    control = sm.Taylor({"mu": [0.5]}, outliers=0.1)
    kernel = sm.Metropolis("mu", control=control) >> sm.Gibbs("k", sm.Exact())
    told = kernel.describe(given).splitlines()
    assert "control: Taylor(order=2, outliers=0.1); guarantee: asymptotic" in told[1]
    assert "control" not in told[2]
    assert "control: Taylor(order=None, outliers=0.1)" in kernel.describe()
    alone = sm.Metropolis("mu").describe(given).splitlines()
    assert alone[2] == "  nothing moves 'k': sm.sample wants ... >> sm.Gibbs('k')"
    assert "nothing moves" not in kernel.describe(given)
    refused(lambda: kernel.describe("model"), "give an sm.Model", error=TypeError)


# -------------------------------------------------------------------------------------- listings
def test_listings_are_what_is_public():
    rooms = ["bandits", "extend", "kernels", "models", "pymc", "rules", "selectors"]
    assert dir(sm) == sorted([*sm.__all__, "__version__", *rooms])
    for module in (
        sm.bandits,
        sm.models,
        sm.pymc,
        *(getattr(sm.models, n) for n in dir(sm.models)),
    ):
        assert dir(module) == sorted(module.__all__)
        for name in dir(module):
            assert name.startswith("Racing") or getattr(module, name) is not None  # needs PyMC
    rooms = (sm.kernels, sm.selectors, sm.rules, sm.bandits)
    by_room = {name: getattr(room, name) for room in rooms for name in dir(room)}
    assert {"Normal", "Confidence", "Experiment", "mixture", "Racing"} <= {*by_room}
    assert {"LilUCB", "SequentialHalving"} <= {*dir(sm.bandits)}  # as error messages call them
    for name in {*by_room} & {*sm.__all__}:  # the same under both names
        assert by_room[name] is getattr(sm, name)
    for name, value in by_room.items() | {(n, getattr(sm, n)) for n in sm.__all__}:
        if callable(value) and not (isinstance(value, type) and issubclass(value, Exception)):
            assert "<" not in str(inspect.signature(value)), f"{name}: a default is not shown"
    inside = importlib.import_module("subsample_mcmc.kernels.metropolis")
    assert inside.Metropolis is sm.Metropolis and sm.kernels.metropolis is inside


def test_help_of_the_package_begins_with_a_tour():
    text = pydoc.plain(pydoc.render_doc(sm))
    assert text.index("sm.sample(model, kernel)") < text.index("PACKAGE CONTENTS")
    tour = text.partition("PACKAGE CONTENTS")[0]
    public = {n for n in sm.__all__ if n not in {"Choice", "Draws", "Identification"}}
    words = set(re.findall(r"\w+", tour))
    told_of = {n for n in public if n not in words}
    # Errors and results are met where they come up.
    assert told_of <= {
        "CompileError", "RewardError", "SlowMathWarning", "SpreadError", "StoreError",
        "DefaultKernel", "Identifications", "Plan", "b_normal_table",
    }  # fmt: skip
    assert "helpful" not in text


# ------------------------------------------------------------------------- data that are elsewhere
class Chunked:
    """As arrays of zarr and h5py look: numpy reads all of it."""

    shape, dtype, chunks = (3_000_000, 4), np.dtype(float), (1000, 4)

    def __array__(self, dtype=None, copy=None):
        raise AssertionError("it was read whole")


class Graph:
    """As a data frame of dask looks."""

    columns = ("y",)

    def __dask_graph__(self):
        return {"task": None}


class Lazy:
    """As a lazy frame of polars looks."""

    columns = ("y",)

    def collect(self):
        raise AssertionError("it was read whole")


def test_data_that_are_elsewhere_are_refused_with_their_size():
    words = "tests's Chunked, (3000000, 4) of float64, 96 MB: chains read rows at random"
    refused(lambda: model(data={"y": Chunked()}), f"data y is {words}", "y[:]", error=TypeError)
    refused(
        lambda: sm.Population(lambda data, arm, n: arm * data[0][n], (Chunked(),), arms=2), words,
        error=TypeError,
    )  # fmt: skip
    refused(lambda: sm.choose(Chunked()), f"rewards is {words}", error=TypeError)
    refused(lambda: sm.models.glm.logistic(Chunked(), Y), f"data x is {words}", error=TypeError)
    refused(lambda: model(data=Graph()), "data is tests's Graph: ", "data.compute()",
            "np.load(path, mmap_mode='r')", error=TypeError)  # fmt: skip
    refused(lambda: model(data={"y": Graph()}), "data y is tests's Graph: ", error=TypeError)
    refused(lambda: model(data=Lazy()), "data.collect()", error=TypeError)
