"""Families that are made of some of their rows: what these have alike, all may not."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.target.sources.local import parts_of

SIZE, LAYOUT = 3_000, [1_700, 1_300]
glm = sm.models.glm


@pytest.fixture(scope="module")
def columns():
    """A rare column, and weights, that are 0 in all rows that a model is tried on."""
    rng = np.random.default_rng(3)
    rare, weights = (rng.random(SIZE) < 0.01).astype(float), np.ones(SIZE)
    looked_at = [*range(64), *range(1_700, 1_764), SIZE - 1]
    rare[looked_at] = weights[looked_at] = 0.0
    return {
        "a": rng.normal(size=SIZE), "rare": rare, "y": rng.integers(0, 3, SIZE).astype(float),
        "w": weights,
    }  # fmt: skip


def matrix(columns):
    return np.column_stack([columns["a"], columns["rare"]])


def test_a_rare_column_is_none_that_all_rows_have(columns):
    """It was "0.0 in every row", which ordered families refuse."""
    here = glm.ordered_logistic(matrix(columns), columns["y"], classes=3)
    some = {name: columns[name] for name in ("a", "rare", "y")}
    away = glm.ordered_logistic(parts_of(some, LAYOUT), "y", classes=3)
    one, two = (sm.laplace(model, progress=False) for model in (here, away))
    np.testing.assert_allclose(one.mean, two.mean, atol=1e-6)
    with pytest.raises(ValueError, match=r"x\[:, 1\] is 0.0 in every row"):
        glm.ordered_logistic(matrix(columns)[:60], columns["y"][:60], classes=3)


def test_rows_that_count_may_come_later(columns):
    """Weights were "all 0"."""
    y = np.minimum(columns["y"], 1.0)
    here = glm.logistic(matrix(columns), y, weights=columns["w"])
    away = glm.logistic(parts_of({**columns, "y": y}, LAYOUT), "y", weights="w")
    one, two = (sm.laplace(model, progress=False) for model in (here, away))
    np.testing.assert_allclose(one.mean, two.mean, atol=1e-6)
    with pytest.raises(ValueError, match="weights are all 0"):
        glm.logistic(matrix(columns), y, weights=np.zeros(SIZE))


def test_appended_rows_may_be_alike(columns):
    """One row has no column that varies, and rows of weight 0 are some that others follow."""
    y = np.minimum(columns["y"], 1.0)
    model = glm.logistic(matrix(columns), y, weights=columns["w"])
    more = model.append({"x": np.array([[1.0, 0.0]]), "y": [1.0], "weights": [0.0]})
    assert more.size == SIZE + 1
    levels = glm.ordered_logistic(matrix(columns), columns["y"], classes=3)
    more = levels.append({"x": np.array([[1.0, 0.0], [2.0, 0.0]]), "y": [1.0, 2.0]})
    assert more.size == SIZE + 2
