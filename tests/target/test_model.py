"""Models: what they take, keep and show, and everything that they refuse."""

from typing import NamedTuple

import numpy as np
import pytest

import subsample_mcmc as sm
from tests.helpers.models import walker

pytestmark = pytest.mark.plain


def likelihood(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0]) ** 2


def prior(state):
    return -0.5 * state.mu[0] ** 2


class Data(NamedTuple):
    y: np.ndarray


GIVEN = {
    "log_likelihood": likelihood,
    "data": {"y": np.arange(5.0)},
    "state": {"mu": 0.5, "k": 2, "w": [0.2, 0.8], "z": [[0, 1, 2], [2, 1, 0]]},
    "log_prior": prior,
    "support": {"k": 4, "z": 3},
    "constraints": {"w": sm.simplex},
}


def make(**changes):
    return sm.Model(**(GIVEN | changes))


# ------------------------------------------------------------------------------- what it keeps
def test_blocks_and_their_places():
    model = make()
    assert model.names == ("mu", "k", "w", "z")
    assert model.size == 5
    assert np.array_equal(model.ints, [2, 0, 1, 2, 2, 1, 0])
    assert np.array_equal(model.floats, [0.5, 0.2, 0.8])
    state = model.state(model.ints, model.floats)
    assert state.mu.shape == (1,)
    assert state.k[0] == 2
    assert state.z.shape == (2, 3)
    assert repr(model) == "Model(likelihood, N=5, blocks: mu, k, w[2], z[2, 3])"
    assert model.show() == "mu=0.5, k=2, w=[0.2, 0.8], z=[0, 1, 2, 2, 1, 0]"


def test_data_are_seen_and_not_copied():
    y = np.arange(5.0)
    model = make(data=Data(y))
    assert np.shares_memory(model.data.y, y)
    y[0] = 7.0
    assert model.data.y[0] == 7.0
    with pytest.raises(ValueError, match="read-only"):
        model.data.y[0] = 1.0


def test_the_state_cannot_be_written():
    model = make()
    ints, floats = model.ints.copy(), model.floats.copy()
    state = model.state(ints, floats)
    for array in (*state, model.ints, model.floats):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    floats[0] = 3.0
    assert state.mu[0] == 3.0  # views


def test_set_state_writes_what_is_given():
    model = make()
    ints, floats = model.ints.copy(), model.floats.copy()
    model.set_state(ints, floats, {"mu": [1.5], "z": np.ones((2, 3), dtype=np.uint8)})
    assert np.array_equal(floats, [1.5, 0.2, 0.8])
    assert np.array_equal(ints, [2, 1, 1, 1, 1, 1, 1])


def test_fingerprints_tell_parts_apart():
    first = make().fingerprints()
    assert set(first) == {
        "log_likelihood", "log_prior", "data y",
        *(f"block {name}" for name in ("mu", "k", "w", "z")),
    }  # fmt: skip
    assert make().fingerprints() == first
    changes = {
        "data y": {"data": {"y": np.arange(5.0) + 1e-9}},
        "block k": {"support": {"k": 5, "z": 3}},
        "block w": {"constraints": {}},
        "block z": {"touches": {"z": (np.zeros(7, dtype=int), np.zeros(0, dtype=int))}},
        "log_prior": {"log_prior": lambda state: 0.0},
    }
    for part, change in changes.items():
        other = make(**change).fingerprints()
        assert {name for name in first if other[name] != first[name]} == {part}


def shared(state, data):
    return state.mu[0] - 1.0, 2.0


def with_shared(state, data, n, prepared):
    return -0.5 * (data.y[n] - prepared[0] - 1.0) ** 2 * prepared[1] / 2.0


def test_prepare_is_what_the_likelihood_would_compute():
    kernel = sm.Metropolis("mu", 0.5, selector=sm.Exact(), adapt=False)
    given = ALONE | {"state": {"mu": 0.5}}
    plain = walker(make(**given), kernel).advance(50)
    quick = walker(make(**given, log_likelihood=with_shared, prepare=shared), kernel).advance(50)
    np.testing.assert_allclose(quick.floats, plain.floats, rtol=1e-12)


# ----------------------------------------------------------------------------------- refusals
ALONE = {"support": {}, "constraints": {}}
CSR = (np.arange(7), np.array([0, 1, 2, 3, 4, 0]))


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"data": np.zeros(3)}, TypeError, "data=ndarray"),
        ({"data": (np.zeros(3),)}, TypeError, "data=tuple"),
        ({"data": {"y": np.array(["a"])}}, TypeError, "data y has dtype"),
        ({"data": {"y": np.zeros(5), "x": np.zeros(4)}}, ValueError, "'y': 5, 'x': 4"),
        ({"data": {"y": np.zeros(0)}}, ValueError, r"data has \{'y': 0\}"),
        ({"data": {"y": 3.0}}, ValueError, "data has no array"),
        ({"state": {}}, TypeError, "state must be a dict"),
        ({"state": [0.5]}, TypeError, "state must be a dict"),
        (ALONE | {"state": {"mu": "a"}}, TypeError, "state mu='a'"),
        (ALONE | {"state": {"mu": []}}, TypeError, r"state mu=\[\]"),
        (ALONE | {"state": {"mu": 1j}}, TypeError, "state mu=1j"),
        (ALONE | {"state": {"_mu": 0.0}}, ValueError, "'_mu'"),
        (ALONE | {"state": {"mu": np.nan}}, ValueError, "mu=nan"),
        ({"support": {"z": 3}}, ValueError, "block k is discrete but has no support"),
        ({"support": {"k": 4, "z": 3, "q": 2}}, ValueError, "support names 'q'"),
        ({"support": {"k": 4, "z": 3, "mu": 2}}, ValueError, "mu is continuous: support"),
        ({"support": {"k": 2, "z": 3}}, ValueError, r"state k has values 2 .. 2"),
        ({"support": {"k": 4, "z": 2}}, ValueError, r"state z has values 0 .. 2"),
        ({"support": {"k": 4.5, "z": 3}}, ValueError, r"support\['k'\]=4.5"),
        ({"support": {"k": 0, "z": 3}}, ValueError, r"support\['k'\]=0"),
        ({"constraints": {"q": sm.positive}}, ValueError, "constraints names 'q'"),
        ({"constraints": {"k": sm.positive}}, ValueError, "k is discrete: constraints"),
        ({"constraints": {"mu": "positive"}}, TypeError, r"constraints\['mu'\]='positive'"),
        ({"constraints": {"w": sm.interval(0.3, 1)}}, ValueError, r"interval\(0.3, 1"),
        ({"touches": {"q": CSR}}, ValueError, "touches names 'q'"),
        ({"support": {"mu": 3}}, ValueError, "mu is continuous: support does not apply"),
        ({"touches": {"z": 3}}, TypeError, r"touches\['z'\]: give the name of a column"),
        ({"touches": {"z": (CSR[0], CSR[1] + 0.5)}}, TypeError, "two integer arrays"),
        ({"touches": {"z": (CSR[0][:6], CSR[1])}}, ValueError, "indptr must be 7"),
        ({"touches": {"z": (CSR[0] + 1, CSR[1])}}, ValueError, "indptr must be 7"),
        ({"touches": {"z": (CSR[0][::-1], CSR[1])}}, ValueError, "indptr must be 7"),
        ({"touches": {"z": (CSR[0], CSR[1][:5])}}, ValueError, r"len\(indices\)=5"),
        ({"touches": {"z": (CSR[0], CSR[1] + 1)}}, ValueError, r"0 .. 4"),
        ({"touches": {"z": (CSR[0], CSR[1] - 1)}}, ValueError, r"0 .. 4"),
        (
            {"touches": {"z": ([0, 3, 3, 3, 3, 3, 6], [4, 1, 4, 0, 1, 2])}},
            ValueError,
            "site 0 lists datum 4 twice",
        ),
        ({"log_likelihood": 3}, TypeError, "log_likelihood=3"),
        ({"log_likelihood": lambda state, data, n: None}, TypeError, "returned None"),
        ({"log_likelihood": lambda state, data, n: data.y}, TypeError, r"shape \(5,\)"),
        ({"log_likelihood": lambda state, data, n: np.nan}, sm.RewardError, "nan at datum 0"),
        (
            {"log_likelihood": lambda state, data, n: np.inf if n == 4 else 0.0},
            sm.RewardError,
            "inf at datum 4 of the initial state mu=0.5",
        ),
        ({"log_prior": 3}, TypeError, "log_prior=3"),
        ({"log_prior": lambda state: "a"}, TypeError, "returned 'a'"),
        ({"log_prior": lambda state: -np.inf}, ValueError, "log_prior is -inf"),
        ({"prepare": 3}, TypeError, "prepare=3"),
        ({"prepare": lambda state, data: 1.0}, TypeError, "prepare.*returned 1.0"),
    ],
)
def test_wrong_models_are_refused(changes, error, words):
    with pytest.raises(error, match=words):
        make(**changes)


def test_touches_need_no_order():
    indptr, indices = [0, 2, 2, 2, 2, 2, 4], [3, 1, 1, 3]  # 3, 1 of site 0; 1, 3 of site 5
    touches = make(touches={"z": (indptr, indices)}).variables["z"].touches
    assert np.array_equal(touches[1], indices)
    assert not touches[1].flags.writeable


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"q": 1}, ValueError, "block 'q' is not in the state"),
        ({"w": [0.5, 0.3, 0.2]}, ValueError, r"state w has shape \(3,\)"),
        ({"k": 1.0}, TypeError, "state k has dtype float64"),
        ({"k": 4}, ValueError, r"state k has values 4 .. 4: its support is 0 .. 3"),
        ({"k": -1}, ValueError, "state k has values -1"),
        ({"mu": np.inf}, ValueError, "state mu=inf"),
        ({"w": [0.5, 0.4]}, ValueError, "state w=.*simplex"),
    ],
)
def test_wrong_states_are_refused(values, error, words):
    model = make()
    with pytest.raises(error, match=words):
        model.set_state(model.ints.copy(), model.floats.copy(), values)


# ------------------------------------------------------------------------ rows by their labels
def frames():
    """x and y of the same rows."""
    pandas, rng = pytest.importorskip("pandas"), np.random.default_rng(0)
    x = pandas.DataFrame({"one": 1.0, "z": rng.standard_normal(50)})
    return x, pandas.Series((rng.random(50) < 0.5).astype(float))


def test_columns_of_categories_in_a_matrix_are_refused():
    """As by themselves: those of numbers, such as codes of places, were taken for these numbers."""
    pandas = pytest.importorskip("pandas")
    x, y = frames()
    place = pandas.Categorical(np.arange(50) % 7 + 100)
    for frame in (x.assign(place=place), pandas.DataFrame({"place": place})):
        with pytest.raises(TypeError, match="data place is a column of type category"):
            sm.models.glm.logistic(frame, y)
        with pytest.raises(TypeError, match="data place is a column of type category"):
            sm.Model(lambda s, d, n: d.y[n] * d.x[n, 0] * s.b[0], {"x": frame, "y": y}, {"b": 0.0})
    made = sm.models.glm.logistic(x.assign(place=np.asarray(place)), y, prior_sd=1e3)
    assert made.data.x[1, 2] == 101.0


@pytest.mark.parametrize("make", [
    sm.models.glm.logistic, sm.models.glm.gaussian, sm.models.glm.student_t,
    lambda x, y: sm.models.glm.poisson(x, x.one, offset=y),
    lambda x, y: sm.models.glm.softmax(x, y, classes=2),
    lambda x, y: sm.Model(lambda s, d, n: d.y[n] * d.z[n] * s.b[0], {"z": x.z, "y": y}, {"b": 0.0}),
])  # fmt: skip
def test_rows_in_another_order_are_refused(make):
    """By position, each y would go with another x, without a word."""
    x, y = frames()
    make(x, y)
    with pytest.raises(ValueError, match="the same rows in another order: align them before"):
        make(x, y.sample(frac=1.0, random_state=1))
    make(x, y.sample(frac=1.0, random_state=1).to_numpy())


def test_rows_of_other_labels_are_told():
    x, y = frames()
    y.index = y.index + 1_000
    with pytest.warns(UserWarning, match="in row 0 1000, where x has 0.*by position"):
        sm.models.glm.logistic(x, y)


# ------------------------------------------------------------- data that change while chains run
class Kept:
    """What a kernel in Python may write to."""


def test_data_that_a_kernel_changes_end_the_run():
    """Exact sums are remembered by the state: of data that change they would be stale."""
    y, box = np.random.default_rng(0).standard_normal(100), Kept()
    box.y = y
    model = sm.Model(
        lambda s, d, n: -0.5 * (d.y[n] - s.mu[0]) ** 2, {"y": y}, {"mu": 0.0, "z": 0.0}
    )  # fmt: skip

    @sm.kernel(writes="z")
    def impute(rng, state, data):
        box.y[:50] = state.mu[0] + rng.standard_normal(50)
        state.z[0] = 0.0

    kernel = impute >> sm.Metropolis("mu", selector=sm.Exact())
    with pytest.raises(RuntimeError, match="data y changed in place while chains ran") as caught:
        sm.sample(model, kernel, draws=20, warmup=5, chains=1, seed=1, progress=False)
    assert caught.value.trace.draws["mu"].shape == (1, 20)
