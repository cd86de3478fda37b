"""The twenty likeliest mistakes of a newcomer: each says what was given, needed, and what to do."""

import functools
import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray
from scipy.special import gammaln

import subsample_mcmc as sm
from subsample_mcmc.errors import compile_message, instead_of, unread_field
from subsample_mcmc.numerics import bytecode
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.runs.sample import warn_of_cold_start
from subsample_mcmc.target.model import array_hash

ROOT = Path(__file__).resolve().parent.parent
Y = np.random.default_rng(1).normal(0.5, 1.0, 300)
EXACT = sm.Exact()
compiled_only = pytest.mark.skipif(DISABLED, reason="about the compiler")


def gaussian(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0]) ** 2


def model(log_likelihood=gaussian, **changes):
    given = {"data": {"y": Y}, "state": {"mu": 0.0}} | changes
    return sm.Model(log_likelihood, **given)


def refused(make, *words, error=ValueError):
    """The error's text with its notes, after a look for the words that it must have."""
    with pytest.raises(error) as caught:
        make()
    text = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    for word in words:
        assert word in text, f"{word!r} is not said in: {text}"
    return text


def sampled(given, kernel, **more):
    options = {"draws": 5, "warmup": 5, "chains": 1, "seed": 1, "progress": False} | more
    return sm.sample(given, kernel, **options)


# ------------------------------------------------------------------------------------ the model
def test_01_data_arrays_of_unequal_length():
    data = {"y": Y, "x": Y[:-1]}
    refused(lambda: model(data=data), "'y': 300, 'x': 299", "one entry per datum")

    def product(data, arm, n):
        return arm * data.y[n] * data.x[n]

    refused(
        lambda: sm.Population(product, data, arms=2),
        "out of bounds", "n=299", "as many rows as the population",
        error=IndexError,
    )  # fmt: skip


def test_02_a_likelihood_summed_over_data():
    def whole_columns(state, data, n):
        return -0.5 * (data.y - state.mu[0]) ** 2

    refused(
        lambda: model(whole_columns),
        "shape (300,)", "must return one float for datum n", "data.y[n]", "drop the sum",
        error=TypeError,
    )  # fmt: skip

    def summed(state, data, n):
        return -0.5 * np.sum((data.y - state.mu[0]) ** 2)

    def looped(state, data, i):
        total = 0.0
        for i in range(len(data.y)):  # noqa: PLR1704
            total -= 0.5 * (data.y[i] - state.mu[0]) ** 2
        return total

    for function, n in ((summed, "n"), (looped, "i")):
        refused(
            lambda given=function: model(given),
            f"log_likelihood reads data and never its argument {n}", f"data.y[{n}]", "Drop its sum",
        )  # fmt: skip
    refused(
        lambda: sm.Population(lambda data, arm, n: arm * np.mean(data.y), {"y": Y}, arms=2),
        "log_factor reads data and never its argument n",
    )

    def of_the_data(state, data):
        return -0.5 * np.sum((data.y - state.mu[0]) ** 2)

    refused(
        lambda: model(of_the_data),
        "of_the_data(state, data)", "3 arguments", "log_likelihood(state, data, n) -> float",
        error=TypeError,
    )  # fmt: skip


def scaled(state, data, n):
    n = int(n)  # a name may be used again
    return -data.weight * state.mu[0] if n < 0 else -state.mu[0]


def constant(state, data, n):
    return 0.0


def used_again(state, data, n):
    weights = [state.mu[0] * n for n in range(3)]  # from Python 3.12 on, this n is the argument's
    return weights[1] - data.y[n] ** 2


def of_numbers(state, data, n):
    return -data.weight * state.mu[0] ** 2


def test_02_no_alarm_where_n_is_read_or_no_array_is():
    for function in (
        scaled, constant, used_again, of_numbers, lambda state, *rest: -rest[0].y[rest[1]],
    ):  # fmt: skip
        model(function, data={"y": Y, "weight": 1.0})

    def total(state, data):
        return (np.sum((data.y - state.mu[0]) ** 2),)

    model(lambda state, data, n, shared: -shared[0] / len(data.y), prepare=total)


def test_02_two_steps_in_one_are_told_apart(monkeypatch):
    def read(opname, argval):
        step = SimpleNamespace(opname=opname, argval=argval)
        monkeypatch.setattr(bytecode, "instructions", lambda code: [step])
        return bytecode.reads_argument(gaussian, 2)

    assert read("LOAD_FAST_BORROW_LOAD_FAST_BORROW", ("data", "n"))  # of Python 3.14
    assert read("STORE_FAST_LOAD_FAST", ("k", "n")) and read("LOAD_FAST_CHECK", "n")
    assert not read("STORE_FAST_LOAD_FAST", ("n", "k"))
    assert not read("STORE_FAST_STORE_FAST", ("k", "n"))
    assert not read("STORE_FAST_MAYBE_NULL", "n")


def lifted(density):
    @functools.wraps(density)
    def log_likelihood(state, data, n):
        return density(data.y[n], state.mu[0])

    return log_likelihood


@lifted
def wrapped(y, mu):
    return -0.5 * (y - mu) ** 2


@lifted
def wrapped_whole(y, mu):
    return np.array([y, mu])


def test_02_a_wrapped_function_is_what_is_called():
    made, plainly = (sampled(model(f), WALK).draws["mu"] for f in (wrapped, gaussian))
    assert np.array_equal(made, plainly)
    refused(lambda: model(wrapped_whole), "an array of shape (2,)", error=TypeError)

    @functools.wraps(gaussian)
    def of_two(state, data):
        return 0.0

    refused(
        lambda: model(of_two), "gaussian(state, data) does not take the 3 arguments",
        error=TypeError,
    )  # fmt: skip


def test_03_a_likelihood_that_returns_nothing():
    def forgetful(state, data, n):
        -0.5 * (data.y[n] - state.mu[0]) ** 2

    refused(
        lambda: model(forgetful),
        "log_likelihood(state, data, n=0) returned None", "one float", "without return",
        error=TypeError,
    )  # fmt: skip


NEGATIVE = np.abs(Y) + 1.0
NEGATIVE[200] = -3.0


def delicate(state, data, n):
    """A lognormal density, cut off: nan where y is negative, -inf where it is too large."""
    z = sm.log(data.y[n]) - state.mu[0]
    return -0.5 * z * z if data.y[n] < data.most or data.y[n] != data.y[n] else -np.inf


def nonnegative(state):
    return 0.0 if state.mu[0] >= 0.0 else -np.inf


WALK = sm.Metropolis("mu", 0.01, selector=EXACT)


def test_04_the_log_of_a_negative_number_at_some_datum():
    data = {"y": NEGATIVE, "most": 100.0}
    given = model(delicate, data=data, state={"mu": 1.0}, log_prior=nonnegative)
    said = "datum 200 (y=-3)"
    refused(
        lambda: sampled(given, WALK),
        f"log_likelihood is nan at {said}", "mu = 1", "the state was mu=1",
        "log or root of a negative number", "correct or drop the datum",
        error=sm.RewardError,
    )  # fmt: skip
    refused(
        lambda: sm.laplace(given, progress=False), said, "mu=1", "correct the datum",
        error=sm.RewardError,
    )  # fmt: skip
    population = sm.Population(
        lambda data, arm, n: -((sm.log(data.y[n]) - arm) ** 2), {"y": NEGATIVE}, arms=3
    )
    refused(
        lambda: sm.draw(population, selector=EXACT, seed=1),
        "reward of arm 0 at datum 200 is nan (y=-3)", "missing value", "correct or drop",
        error=sm.RewardError,
    )  # fmt: skip


def test_05_a_block_used_as_a_number():
    state = {"sigma": 1.0}
    advice = "read state.sigma[0], not state.sigma"
    refused(
        lambda: model(lambda state, data, n: -data.y[n] / state.sigma, state=state),
        "array of shape (1,)", advice,
        error=TypeError,
    )  # fmt: skip
    refused(
        lambda: model(lambda state, data, n: -sm.log(state.sigma), state=state), advice,
        error=TypeError,
    )  # fmt: skip
    refused(
        lambda: model(lambda state, data, n: 0.0 if state.sigma > 0 else data.y[n],
                      state={"sigma": [1.0, 2.0]}),
        "state.sigma is an array of shape (2,): read each component, such as state.sigma[0]",
    )  # fmt: skip
    refused(
        lambda: model(log_prior=lambda state: -state.mu), "log_prior(state) returned an array",
        "read state.mu[0]",
        error=TypeError,
    )  # fmt: skip


def test_05_advice_is_about_what_is_an_array_by_its_own_name():
    def columns(params, obs, i):
        return -0.5 * obs.scale * (obs.y - params.mu[0]) ** 2

    data = {"y": Y, "scale": 2.0, "x": np.ones((300, 2))}
    said = refused(lambda: model(columns, data=data), "read obs.y[i], not obs.y", error=TypeError)
    assert "obs.scale is" not in said
    refused(
        lambda: model(lambda state, data, n: data.x * state.mu[0], data=data),
        "read data.x[n, i], not data.x",
        error=TypeError,
    )
    record = SimpleNamespace(y=Y, w=np.ones(2), mu=np.ones(1), weight=3.0)
    for line in (
        "helper(d.y, n, d.y)", "len(d.y)", "f(column=d.y)", "d.y.sum()", "d.y[n]", "d.weight * 2",
    ):  # fmt: skip
        assert unread_field(line, "d", "n", record) == "", line
    for line in ("a = (d.y - 1.0)", "-(d.y)", "helper(d.y[0], d.y + 1)", "math.log(d.y)"):
        assert "read d.y[n], not d.y" in unread_field(line, "d", "n", record), line
    assert "read d.mu[0], not d.mu" in unread_field("x - d.mu", "d", "0", record)
    assert "such as d.w[0]" in unread_field("x - d.w", "d", "0", record)


def test_05_the_compiler_s_words_know_the_state_by_its_place():
    def of_a_model(draw, observed, i):
        return -((observed.y[i] - draw.mu) ** 2)

    def of_a_population(shown, arm, i):
        return shown.y[i] - arm * shown.y

    assert "read draw.mu[0]" in compile_message(ValueError("no"), of_a_model_at(of_a_model))
    assert "read shown.y[i]" in compile_message(ValueError("no"), of_a_model_at(of_a_population))


def of_a_model_at(function):
    """The function, as if the line of its return were where it begins."""
    code = function.__code__
    moved = code.replace(co_firstlineno=code.co_firstlineno + 1)
    return SimpleNamespace(py_func=SimpleNamespace(__code__=moved), __name__=function.__name__)


def test_06_a_block_or_column_read_as_of_a_dict_or_misspelt():
    state = {"mu": 0.0, "sigma": 1.0}
    refused(
        lambda: model(lambda state, data, n: data.y[n] - state["mu"], state=state),
        "['mu']", "with a dot, .mu", "state.mu[0]", "mu, sigma",
        error=TypeError,
    )  # fmt: skip
    refused(
        lambda: model(lambda state, data, n: data["y"][n]), "with a dot, .y", "data.y[n]",
        error=TypeError,
    )  # fmt: skip
    refused(
        lambda: model(log_prior=lambda state: -state.sigm[0], state=state),
        "no 'sigm'", "mu, sigma", "Did you mean 'sigma'?",
        error=AttributeError,
    )  # fmt: skip
    refused(
        lambda: sm.Population(lambda data, arm, n: data.y[n], (Y,), arms=2),
        "data was given as a plain tuple", "read data[0]", '{"y": y}',
        error=AttributeError,
    )  # fmt: skip


# ----------------------------------------------------------------------------- kernels and states
def test_07_a_misspelt_block_in_a_kernel():
    given = model(state={"theta": 0.0}, log_likelihood=lambda state, data, n: -state.theta[0])
    said = "'thet'", "('theta',)", "Did you mean 'theta'?"
    refused(lambda: sampled(given, sm.Metropolis("thet")), "kernel thet moves", *said)
    start = [{"thet": 1.0}]
    refused(lambda: sampled(given, sm.Metropolis("theta"), start=start), said[0], said[2])


def discrete(state, data, n):
    return -0.5 * (data.y[n] - 0.1 * state.k[0]) ** 2


def test_08_a_block_that_no_kernel_updates():
    given = model(state={"mu": 0.0, "s": 1.0, "k": 0}, support={"k": 3})
    refused(
        lambda: sampled(given, sm.Metropolis("mu")),
        "no kernel moves block 's', 'k'",
        "kernel >> sm.Metropolis('s') >> sm.Gibbs('k')",
    )


def test_09_an_integer_block_given_floats():
    given = model(discrete, state={"k": 0}, support={"k": 5})
    refused(
        lambda: sampled(given, sm.Gibbs("k"), start=[{"k": 1.5}]),
        "state k has dtype float64, the value 1.5", "block k is discrete", "whole numbers, 0 .. 4",
        error=TypeError,
    )  # fmt: skip
    refused(
        lambda: model(discrete, state={"k": 3.0}, support={"k": 5}),
        "block k is continuous",
        "3.0 is one of floats",
        "give integers if it is discrete",
    )
    refused(
        lambda: sampled(model(discrete, state={"k": 3.0}), sm.Gibbs("k")),
        "Gibbs('k'): the block is continuous",
        "use sm.Metropolis",
        "integers with a support",
    )


def test_10_support_missing_or_violated_by_the_start():
    def make(k, **more):
        return model(discrete, state={"k": k}, **more)

    refused(lambda: make(3), "block k is discrete", "no support", "support={'k': K}", "0 .. K-1")
    refused(lambda: make(5, support={"k": 5}), "values 5 .. 5", "0 .. 4", "count from 0")
    refused(
        lambda: sampled(make(0, support={"k": 5}), sm.Gibbs("k"), start=[{"k": 7}]),
        "values 7 .. 7",
        "support['k']=5",
        "enlarge the support",
    )
    refused(lambda: make(3, support={"k": [1, 2, 3]}), "support['k']=[1, 2, 3]", "0 .. K-1")
    refused(
        lambda: model(state={"mu": -1.0}, constraints={"mu": sm.positive}),
        "mu=[-1.]",
        "sm.positive",
        "strictly between 0.0 and inf",
    )


def test_11_a_start_of_zero_probability():
    y = np.full(300, 2.0)
    y[123] = 5.0
    data = {"y": y, "most": 4.0}
    refused(
        lambda: model(delicate, data=data, state={"mu": -1.0}, log_prior=nonnegative),
        "log_prior is -inf at the initial state mu=-1",
        "start where the prior is positive",
    )
    given = model(delicate, data=data, state={"mu": 1.0}, log_prior=nonnegative)
    what = "Start where likelihood and prior are positive", "start=[{...}, ...]"
    refused(
        lambda: sampled(given, WALK),
        "the state was mu=1", "log_likelihood is -inf at datum 123 (y=5)", *what,
        error=sm.RewardError,
    )  # fmt: skip
    refused(
        lambda: sampled(given, WALK, start=[{"mu": -1.0}]),
        "the state was mu=-1, where log_prior is -inf", *what,
        error=sm.RewardError,
    )  # fmt: skip


def logarithm(state):
    return math.log(max(state.mu[0], 0.0))  # raises in Python, and is -inf when compiled


@compiled_only
def test_11_a_prior_that_raises_in_python_does_not_hide_the_message():
    given = model(state={"mu": 1.0}, log_prior=logarithm)
    refused(
        lambda: sampled(given, WALK, start={"mu": -5.0}),
        "the state was mu=-5, where log_prior is -inf", "Start where likelihood and prior",
        error=sm.RewardError,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------ data
def frame(size=300):
    """Columns y and x; an index that is not the order of the rows."""
    y = np.random.default_rng(2).normal(size=size)
    return pd.DataFrame({"y": y, "x": np.arange(float(size))}, index=np.arange(size)[::-1])


def line(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] * data.x[n]) ** 2


def test_12_a_data_frame_or_its_columns_are_data():
    df = frame()
    made = model(line, data=df)
    assert made.data._fields == ("y", "x")
    assert np.array_equal(made.data.y, df["y"].to_numpy())  # by position
    for column in (df["y"], df["y"][::-1], df["x"].astype("Int64"), df["x"] > 3.0):
        given = model(line, data={"y": column, "x": df["x"].to_numpy()}).data
        assert np.array_equal(given.y, column.to_numpy(dtype=given.y.dtype))
        assert given.y.flags.c_contiguous
    refused(
        lambda: model(line, data={"y": df["y"][::-1], "x": df["x"]}),
        "data x has other row labels than y", "align them before, x.loc[y.index]", "x.to_numpy()",
    )  # fmt: skip
    alone = pd.Series(Y)
    assert np.shares_memory(model(data={"y": alone}).data.y, alone.to_numpy())
    assert np.shares_memory(model(data=alone.to_frame("y")).data.y, alone.to_numpy())

    def closeness(data, arm, n):
        return -abs(data.y[n] - arm)

    chosen = [
        sm.draw(sm.Population(closeness, given, arms=3), size=20, selector=EXACT, seed=1).arms
        for given in (df, {"y": df["y"], "x": df["x"]}, {"y": df["y"].to_numpy()})
    ]
    assert np.array_equal(chosen[0], chosen[1]) and np.array_equal(chosen[0], chosen[2])


def test_12_data_frames_go_into_ready_models_too():
    df = frame()
    by_frame = sm.models.glm.gaussian(df[["x"]], df["y"])
    by_array = sm.models.glm.gaussian(df[["x"]].to_numpy(), df["y"].to_numpy())
    labels = {"labels of data x"}  # which an array has none of; all else is the same
    assert by_frame.fingerprints().keys() - by_array.fingerprints().keys() == labels
    assert by_array.fingerprints().items() <= by_frame.fingerprints().items()
    few = (df["x"] % 3.0).astype("Int8")
    mixed = sm.models.glm.gaussian(df.assign(few=few)[["x", "few"]], df["y"])
    assert mixed.data.x.shape == (300, 2) and mixed.data.x.dtype == float
    refused(
        lambda: sm.models.glm.gaussian(df.assign(who="a")[["x", "who"]], df["y"]),
        "data who is a column of type", "'a'", "pd.factorize(df['who'])[0]", "df['who'] == 'a'",
        "C(who) in a formula",
        error=TypeError,
    )  # fmt: skip
    arch = sm.models.arch.ARCH(df["y"] - df["y"].mean(), orders=(1, 2))
    assert np.array_equal(arch.returns, (df["y"] - df["y"].mean()).to_numpy())


def test_12_columns_of_other_libraries_and_frames_as_matrices():
    df = frame()
    assert np.array_equal(model(data={"y": xarray.DataArray(Y)}).data.y, Y)

    def product(state, data, n):
        return data.x[n, 1] * state.mu[0] * data.y[n]

    few = df.assign(few=pd.array([1, 2] * 150, dtype="Int64"))
    assert np.array_equal(model(product, data={"y": Y, "x": df}).data.x, df.to_numpy())
    assert model(product, data={"y": Y, "x": few}).data.x.shape == (300, 3)
    holed = df.copy()
    holed.iloc[3, 1] = np.nan
    refused(
        lambda: model(product, data={"y": Y, "x": holed}),
        "data x has 1 missing value (NaN), in row 3, column 'x'", "x.dropna()", "missing='allow'",
    )  # fmt: skip
    given = model(product, data={"y": Y, "x": holed}, missing="allow")
    refused(lambda: sampled(given, WALK), "log_likelihood is nan at datum 3", error=sm.RewardError)
    population = sm.Population(lambda data, arm, n: data[0][n] * data[1][n, 0], (Y, df), arms=2)
    assert population.data[1].shape == (300, 2)
    text = df.assign(who="Ann")
    refused(lambda: model(product, data={"y": Y, "x": text}), "data who", "'Ann'", error=TypeError)
    twice = text[["who", "y", "y"]]
    refused(lambda: model(product, data={"y": Y, "x": twice}), "data x", "columns of one name")


def test_12_columns_that_are_no_numbers_are_named():
    df = frame().assign(
        kind=pd.Categorical(["a", "b"] * 150), day=pd.Timestamp("2020-02-02"), who="Ann",
        few=pd.array([1, None] * 150, dtype="Int64"),
    )  # fmt: skip
    for name, words in {
        "kind": ("of type category", "df['kind'].cat.codes"),
        "day": ("datetime64", "pd.Timedelta"),
        "who": ("'Ann'", "pd.to_numeric(df['who'])", "leave the column out"),
    }.items():
        refused(lambda name=name: model(data=df[["y", name]]), f"data {name}", *words,
                error=TypeError)  # fmt: skip
    refused(
        lambda: model(data=df[["y", "few"]]), "data few (Int64) has 150 missing values",
        "row 1", "df.dropna(subset=['few'])",
    )  # fmt: skip
    refused(
        lambda: model(data=df.rename(columns={"x": "log x"})[["y", "log x"]]), "'log x'",
        "data.name", "df.rename",
    )  # fmt: skip
    refused(lambda: model(data=df[["y", "y"]]), "2 columns 'y'")
    none = df.assign(x=pd.Series([None, None, *Y[2:]], dtype=object, index=df.index))
    refused(
        lambda: model(data=none[["y", "x"]]), "data x", "Missing are 2, the first in row 0",
        "df.dropna(subset=['x'])", "pd.to_numeric",
        error=TypeError,
    )  # fmt: skip
    levels = pd.concat({"group": df[["y"]]}, axis=1)
    refused(lambda: model(data=levels), "('group', 'y')", "df.columns = ['y', 'x', ...]")
    refused(lambda: model(data=df["y"]), "data=Series", '{"y": y}', error=TypeError)
    refused(lambda: sm.Population(gaussian, df["y"], 2), "one Series", "dict", error=TypeError)


def test_12_a_missing_float_is_named_where_it_is_read():
    df = frame()
    df.iloc[7, 0] = np.nan
    population = sm.Population(lambda data, arm, n: arm * data.y[n], df, arms=2, missing="allow")
    refused(
        lambda: sm.draw(population, selector=EXACT, seed=1),
        "at datum 7 is nan (y=nan, x=7)", "missing value", "drop the datum",
        error=sm.RewardError,
    )  # fmt: skip


TABLE = np.random.default_rng(3).normal(size=200_000)  # 1.6 MB


def helper(n):
    return TABLE[n]


def test_13_a_closure_over_a_large_array():
    y = TABLE[:1000]
    big = TABLE

    def captured(state, data, n):
        return -0.5 * (big[n] - state.mu[0]) ** 2

    words = "reads 'big', an array of shape (200000,) (2 MB), from outside", "machine code"
    what = "Pass it as data, data={..., 'big': big}", "read data.big[n]"
    refused(lambda: model(captured, data={"y": big}), *words, *what)
    refused(
        lambda: model(lambda state, data, n: helper(n) - state.mu[0], data={"y": TABLE}),
        "reads 'TABLE'",
        "data.TABLE[n]",
    )
    refused(
        lambda: sm.Population(lambda data, arm, n: big[arm] * data[0][n], (y,), arms=2),
        words[0],
        "Pass it as data, data=(..., big), and read data[1][i].",
    )
    cells = TABLE.reshape(2, -1)
    refused(
        lambda: sm.Population(lambda obs, a, i: cells[a, i] * obs.y[i], {"y": y}, arms=2),
        "data={..., 'cells': cells}", "read obs.cells[a].",
    )  # fmt: skip
    with pytest.warns(UserWarning, match=r"tables=\{'big': big\}, and read data\.big\[i\]"):
        model(captured, data={"y": y})
    with pytest.warns(UserWarning, match=r"read obs\.big\[i\]\."):
        model(
            lambda state, obs, n, shared: obs.y[n] - shared[0], data={"y": y},
            prepare=lambda state, obs: (big[0] * state.mu[0],),
        )  # fmt: skip
    small = TABLE[:1000].copy()
    model(lambda state, data, n: small[n] - state.mu[0], data={"y": y})


def from_a_table(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] - data.big[0, data.cell[n]]) ** 2


def test_13_the_advice_about_a_table_can_be_followed():
    """And of what np.broadcast_to repeats, a terabyte if written out, hashes read one."""
    size = 1_000_000
    data = {"y": np.zeros(size), "cell": np.arange(size) % 7}
    given = model(from_a_table, data=data, tables={"big": TABLE[None]})
    big = np.broadcast_to(TABLE, (size, *TABLE.shape))
    assert sampled(given, sm.Metropolis("mu", selector=EXACT), draws=1, warmup=1).shape == (1, 1)
    hashes = [array_hash(a) for a in (big, big[1:], big[:, 1:], TABLE[None])]
    assert len(set(hashes)) == 4
    changed = np.broadcast_to(TABLE + 1.0, big.shape)
    assert array_hash(changed) != hashes[0] == array_hash(np.broadcast_to(TABLE.copy(), big.shape))


# --------------------------------------------------------------------------- functions and rules
SETTINGS = {"sigma": 2.0}


def from_a_dict(state, data, n):
    return -0.5 * ((data.y[n] - state.mu[0]) / SETTINGS["sigma"]) ** 2


def formatted(x):
    return float(len(f"{x:.3f}"))


def with_helper(state, data, n):
    return -formatted(data.y[n]) * state.mu[0]


def in_scipy(state, data, n):
    from scipy.stats import norm

    return norm.logpdf(data.y[n], state.mu[0])


def trying(state, data, n):
    try:
        return -0.5 * (data.y[n] - state.mu[0]) ** 2
    except ValueError:
        return 0.0


def in_pairs(state, data, n):
    total = 0.0
    for y, mu in zip(data.y[n : n + 1], state.mu, strict=True):
        total -= 0.5 * (y - mu) ** 2
    return total


def with_gammaln(state, data, n):
    return -gammaln(data.y[n] ** 2 + state.mu[0] ** 2 + 1.0)


square = functools.partial(pow, exp=2)


def with_partial(state, data, n):
    return -square(data.y[n] - state.mu[0])


@compiled_only
def test_14_what_to_write_for_functions_of_other_libraries():
    for function, words in (
        (with_gammaln, ("'gammaln', of type numpy.ufunc", "use math.lgamma", "Write the formula")),
        (with_partial, ("functools.partial", "Make it a function, with def")),
    ):
        said = refused(
            lambda given=function: sampled(model(given), WALK), *words, error=sm.CompileError
        )
        assert "sigma =" not in said
    assert "function of numpy" in instead_of("float_power", "numpy.ufunc")


@compiled_only
def test_14_a_python_feature_that_numba_refuses():
    kernel = sm.Metropolis("mu", selector=EXACT)
    source = Path(__file__).read_text(encoding="utf-8").splitlines()
    for function, text, words in (
        (from_a_dict, 'SETTINGS["sigma"]) ** 2', ("'SETTINGS', of type dict", "SETTINGS[...]")),
        (with_helper, 'return float(len(f"{x:.3f}"))', ("f-string", "Leave text out")),
        (trying, "except ValueError:", ("except", "Test before, with if")),
        (in_pairs, "zip(data.y[n : n + 1]", ()),  # numba says no more than that it fails
    ):
        line = next(i for i, found in enumerate(source, 1) if text in found)
        refused(
            lambda given=function: sampled(model(given), kernel),
            f"{function.__name__} cannot be compiled", *words, f"test_mistakes.py, line {line}: ",
            text, "NUMBA_DISABLE_JIT=1",
            error=sm.CompileError,
        )  # fmt: skip
    refused(
        lambda: sm.laplace(model(in_scipy), progress=False),
        "in_scipy cannot be compiled", "from scipy.stats import norm", "NUMBA_DISABLE_JIT=1",
        error=sm.CompileError,
    )  # fmt: skip


PLAIN = """
import numpy as np
import subsample_mcmc as sm
from tests.test_mistakes import in_scipy

trace = sm.sample(sm.Model(in_scipy, {"y": np.zeros(3)}, {"mu": 0.5}), sm.Metropolis("mu"),
                  draws=5, warmup=5, chains=1, seed=1, progress=False)
print(trace.draws["mu"].shape)
"""


@pytest.mark.slow
def test_14_the_plain_python_path_takes_it():
    made = subprocess.run(
        [sys.executable, "-c", PLAIN], capture_output=True, text=True, timeout=240, cwd=ROOT,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"}, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert made.stdout.strip() == "(1, 5)"


@sm.kernel(writes="mu")
def with_text(rng, state, data):
    state.mu[0] = float(f"{rng.normal():.3f}")


@compiled_only
def test_14_a_kernel_of_ones_own_runs_as_plain_python():
    given = model()
    assert "runs in Python: with_text cannot be compiled" in with_text.describe(given)
    assert sampled(given, with_text).shape == (1, 5)


def eta(state, data, n):
    return state.mu[0]


def of_eta(eta, data, n):
    return -0.5 * (data.y[n] - eta) ** 2


def wrong_sign(eta, data, n):
    return eta - data.y[n], -1.0


def wrong_gradient(state, data, n, out):
    out[0] = state.mu[0] - data.y[n]


def test_15_a_gradient_that_disagrees_with_differences():
    given = sm.Model(sm.Predictors(eta, of_eta, wrong_sign), {"y": Y}, {"mu": 0.0})
    refused(
        lambda: sm.laplace(given, progress=False),
        "derivatives", "predictor(s) (0,)", f"is {-Y[0]:.6g} at datum 0",
        f"differences say {Y[0]:.6g}",
    )  # fmt: skip
    refused(
        lambda: sampled(model(), sm.Langevin("mu", gradient=wrong_gradient, batch=10)),
        "datum 0", f"derivative {-Y[0]:.6g} with respect to mu[0]",
        f"say {Y[0]:.6g}", "Correct it, or leave it out",
    )  # fmt: skip


def test_16_delta_or_batch_out_of_range():
    for delta in ("5%", None):
        refused(
            lambda delta=delta: sm.Racing(delta=delta),
            f"delta={delta!r}: give a number between 0 and 1", "0.05",
            error=TypeError,
        )  # fmt: skip
    assert sm.Racing(delta=np.float32(0.25)).delta == 0.25
    for delta in (0, 1.5, -0.1):
        refused(
            lambda delta=delta: sm.Racing(delta=delta),
            f"delta={delta}",
            "strictly between 0 and 1",
            "use Exact()",
        )
    rewards = np.random.default_rng(4).normal(size=(2, 1000))
    refused(
        lambda: sm.choose(rewards, selector=sm.Racing(delta=0.7), seed=1),
        "delta=0.7",
        "0 < delta < 0.5",
        "smaller delta",
    )
    for make in (
        lambda: sm.LilUCB(delta=2),
        lambda: sm.SequentialHalving(budget=10, delta=2),
        lambda: sm.LinGapE(np.eye(3), delta=2),
        lambda: sm.bandits.TrackAndStop(delta=2),
    ):
        refused(make, "delta=2", "between 0 and 1")
    for batch in (0, 1, 2.5):
        refused(lambda batch=batch: sm.Racing(batch=batch), f"batch={batch}", "at least 2")
    refused(lambda: sm.SequentialHalving(budget=0), "budget=0", "a whole number, at least 1")
    refused(
        lambda: sampled(model(), sm.Langevin("mu", batch=1000)),
        "batch=1000",
        "300 data",
        "all of them, or fewer",
    )


# -------------------------------------------------------------------------------- around a run
def test_17_a_path_that_is_not_writable_or_a_run_of_another_model(tmp_path):
    kernel, path = sm.Metropolis("mu", selector=EXACT), tmp_path / "run.nc"
    given = model()
    nowhere = tmp_path / "none" / "run.nc"
    refused(
        lambda: sampled(given, kernel, store=nowhere), str(nowhere), "cannot be created",
        "directory must exist", "another path",
        error=sm.StoreError,
    )  # fmt: skip
    sampled(given, kernel, store=path)
    refused(
        lambda: sampled(given, kernel, store=path), str(path), "exists already",
        "sm.resume, or choose another path, or delete it",
        error=sm.StoreError,
    )  # fmt: skip
    for other, changed in (
        (model(data={"y": Y + 1.0}), "data y"),
        (model(line_of_y), "log_likelihood"),
    ):
        refused(
            lambda other=other: sm.resume(path, other, kernel, draws=9, progress=False),
            f"{path} cannot be resumed",
            changed,
            "new run at another path",
            "sm.load reads it",
        )
    (tmp_path / "notes.nc").write_text("no run")
    refused(
        lambda: sm.resume(tmp_path / "notes.nc", given, kernel),
        "notes.nc is not a run of subsample_mcmc", "sm.sample(store=...)",
        error=sm.StoreError,
    )  # fmt: skip


def line_of_y(state, data, n):
    return -abs(data.y[n] - state.mu[0])


def test_18_extras_that_are_missing(monkeypatch):
    trace = sampled(model(), sm.Metropolis("mu", selector=EXACT), draws=20)
    found = sm.identify(
        lambda data, arm, rng: data.m[arm], 2, sm.SequentialHalving(budget=20), seed=1,
        data={"m": np.array([0.0, 1.0])}, compiled=False, progress=False,
    )  # fmt: skip
    trace.report()  # imports arviz, whose 0.x cannot be without matplotlib
    for name in ("matplotlib", "matplotlib.pyplot"):
        monkeypatch.setitem(sys.modules, name, None)
    for plot in (trace.plot, found.plot):
        refused(
            plot, "matplotlib", "is not installed", "pip install 'subsample-mcmc[plots]'",
            error=ImportError,
        )  # fmt: skip
    monkeypatch.setitem(sys.modules, "pymc", None)
    for make in (lambda: sm.from_pymc(None), lambda: sm.pymc.RacingMetropolis(["mu"])):
        refused(
            make, "needs PyMC, which is not installed", "pip install 'subsample-mcmc[pymc]'",
            error=ImportError,
        )  # fmt: skip


def test_19_no_warm_up_with_a_kernel_that_adapts():
    given, words = model(), "warmup=0: kernel mu, {}.*keeps {} without.*warmup=500.*adapt=False"
    kernel = sm.Metropolis("mu", selector=EXACT)
    with pytest.warns(UserWarning, match=words.format("Metropolis", "scale=0.1")):
        sampled(given, kernel, warmup=0)
    for kernel, what in ((sm.Slice("mu"), "width=1.0"), (sm.Langevin("mu"), "step='auto'")):
        with pytest.warns(UserWarning, match=words.format(type(kernel).__name__, what)):
            warn_of_cold_start(kernel)
    quiet = sm.Metropolis("mu", selector=EXACT, adapt=False)
    assert sampled(given, quiet, warmup=0).shape == (1, 5)  # and warnings are errors here
    for kernel in (
        sm.Metropolis("mu", proposal=sm.pcn(np.zeros(1), np.eye(1))), sm.Gibbs("k"),
        sm.Slice("mu", adapt=False), sm.Langevin("mu", step=1e-3, correct=False),
    ):  # fmt: skip
        warn_of_cold_start(kernel)


def test_20_float32_data_whose_sums_lose_the_gap(rng):
    """Sums are in float64 whatever the columns are; a column too coarse for its spread is named."""
    size = 200_000
    y = rng.normal(size=size).astype(np.float32)

    def closeness(data, arm, n):
        z = data.y[n] - data.location[arm]
        return data.height - z * z

    rewards, chosen = [], []
    for kind in (np.float32, np.float64):
        data = {
            "y": y.astype(kind), "location": np.array([0.0, 0.01, 0.02], dtype=kind),
            "height": kind(64.0),
        }  # fmt: skip
        population = sm.Population(closeness, data, arms=3)
        chosen.append(sm.draw(population, size=50, selector=EXACT, seed=1).arms)
        z = data["y"] - data["location"][:, None]
        rewards.append(data["height"] - z * z)
    totals = rewards[1].sum(axis=1)
    in_float32 = np.add.accumulate(rewards[0], axis=1)[:, -1]
    gap, lost = np.ptp(totals), np.abs(in_float32 - totals).max()
    assert lost > gap  # a sum in float32 would not see it
    assert np.array_equal(*chosen)

    far = (1e6 + rng.normal(size=300)).astype(np.float32)
    words = (
        "data y is float32, .* near 1e\\+06 lie 0.06.* apart, .*standard deviation is .*Subtract"
    )
    with pytest.warns(UserWarning, match=words):
        model(data={"y": far})
    model(data={"y": (far - far.mean(dtype=float)).astype(float)})
    model(data={"y": y})
    codes = 4_000_000 + np.arange(300) % 20
    model(data={"y": codes.astype(np.float32)})  # whole numbers, exact
    with pytest.warns(UserWarning, match="data y is float32"):
        model(data={"y": (codes + 2**25).astype(np.float32)})
