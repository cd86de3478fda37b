"""What is asked of the scores of all rows, and what is kept of those of many rows elsewhere."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.elsewhere import row_scores
from subsample_mcmc.approx.elsewhere.row_scores import RowScores, largest, scores_of, typical_of
from subsample_mcmc.approx.taylor import influence
from subsample_mcmc.target.sources.local import parts_of

SIZE = 5_000


@pytest.fixture
def small(monkeypatch):
    """Few rows are many."""
    for name, value in (("DENSE", 1_000), ("PIECE", 64), ("MOST_KEPT", 50), ("SORTED", 700)):
        monkeypatch.setattr(row_scores, name, value)
    monkeypatch.setattr(influence, "DENSE", 1_000)
    monkeypatch.setattr(influence, "MOST_KEPT", 50)


def kinds(rng):
    """Scores of all rows."""
    quiet = (rng.uniform(size=SIZE) * 1e-7).astype(np.float32)
    few, tied, odd = quiet.copy(), np.round(rng.uniform(size=SIZE), 1), quiet.copy()
    few[rng.choice(SIZE, 20, replace=False)] = rng.uniform(1.0, 2.0, size=20)
    odd[[7, 4_000]], odd[[8, 9, 4_999]] = np.inf, 1e30
    every = quiet, few, tied, odd, np.zeros(SIZE), np.sort(quiet), np.sort(quiet)[::-1]
    return [scores.astype(np.float32) for scores in every]


def kept(scores: np.ndarray, rng) -> RowScores:
    """The same, written in runs of some rows, in any order."""
    found = RowScores(len(scores))
    ends = np.unique(np.r_[0, rng.integers(0, len(scores), 90), len(scores)])
    for k in rng.permutation(len(ends) - 1):
        found[ends[k] : ends[k + 1]] = scores[ends[k] : ends[k + 1]]
    return found


@pytest.mark.plain
def test_what_is_kept_says_what_all_scores_say(small, rng):
    for scores in kinds(rng):
        few = kept(scores, rng)
        one, other = scores_of(scores), few.scores()
        np.testing.assert_array_equal(other.sample, one.sample)
        assert other.unknown == one.unknown
        shared = len(other.above)
        np.testing.assert_array_equal(other.above, one.above[:shared])
        squares = [float(np.sum(found.above**2)) + found.rest for found in (one, other)]
        np.testing.assert_allclose(squares[1], squares[0], rtol=1e-12)
        order = np.lexsort((np.arange(SIZE), -scores.astype(float)))
        for count in (1, 10, 50):
            wanted = np.sort(order[:count])  # of equal ones the first
            np.testing.assert_array_equal(few.largest(count), wanted)
            np.testing.assert_array_equal(largest(scores, count), wanted)
            np.testing.assert_array_equal(few.at(wanted), scores[wanted])
        outliers = influence.loud(scores)
        np.testing.assert_array_equal(influence.loud(few), outliers)
        np.testing.assert_allclose(typical_of(few, outliers), typical_of(scores, outliers))


@pytest.mark.plain
def test_what_is_kept_has_a_bound(small, rng):
    """Of four times the rows, no more."""
    held = []
    for size in (20_000, 80_000):
        found, most = RowScores(size), 0
        for first in range(0, size, 40):  # parts in order, which end within a piece
            found[first : first + 40] = rng.uniform(size=40).astype(np.float32)
            most = max(most, found.held + sum(len(piece) for piece, _ in found.waiting.values()))
        held.append((most, len(found.sample)))
    assert max(most for most, _ in held) <= 2 * row_scores.MOST_KEPT + 2 * row_scores.PIECE
    assert max(sample for _, sample in held) <= row_scores.SORTED
    with pytest.raises(RuntimeError, match="have not come"):
        RowScores(100).scores()


@pytest.mark.parametrize("family", ["logistic", "student_t"])
def test_rows_always_read_are_those_of_memory(small, rng, family):
    """Of more rows than have scores: with a level that few rows have."""
    x = np.column_stack([np.ones(SIZE), rng.standard_normal(SIZE), np.zeros(SIZE)])
    x[rng.choice(SIZE, 12, replace=False), 2] = 1.0
    y = x @ [0.3, -0.5, 0.8]
    if family == "logistic":
        y = (rng.random(SIZE) < 1.0 / (1.0 + np.exp(-y))).astype(float)
    else:
        y = y + rng.standard_t(4, size=SIZE)
    make = getattr(sm.models.glm, family)
    near = make(x, y)
    far = make(parts_of({"x": x, "y": y}, [1_000, 0, 1, 2_999, 1_000]), "y")
    found = []
    for model in (near, far):
        control = sm.Taylor(sm.laplace(model, progress=False))
        found.append(prepared_for(model, control))
    one, other = (np.asarray(each.outliers) for each in found)
    assert len(one)
    np.testing.assert_array_equal(one, other)


@pytest.mark.plain
def test_rows_read_always_before_may_be_quiet(small):
    """Of rows that were appended, those that every decision reads already score nothing."""
    scores = np.full(SIZE, 0.02, dtype=np.float32)
    outliers = np.array([3, 2_000, SIZE - 1])
    scores[outliers] = 0.0
    few = RowScores(SIZE)
    few[0:SIZE] = scores
    assert influence.loud(few).size == 0
    np.testing.assert_array_equal(few.at(outliers), 0.0)
    assert typical_of(few, outliers) == pytest.approx(0.02)
    assert typical_of(scores, outliers) == pytest.approx(0.02)


def test_no_row_is_loud_where_none_can_be_scored(small, monkeypatch, rng):
    """Along no line the likelihood is finite at enough rows: each row stays at 0, as in memory."""
    x = rng.standard_normal(SIZE)
    columns = {"x": x, "y": x + rng.standard_normal(SIZE)}

    def log_likelihood(state, data, n):
        return -0.5 * (data.y[n] - state.b[0] * data.x[n] - state.b[1]) ** 2

    monkeypatch.setattr(influence, "tries_of", lambda *_: [])
    for data in (columns, parts_of(columns, [1_000, 0, 1, 2_999, 1_000])):
        model = sm.Model(log_likelihood, data, {"b": np.zeros(2)}, lambda s: 0.0)
        control = sm.Taylor(sm.laplace(model, progress=False))
        with pytest.warns(UserWarning, match="along 2 of them"):
            assert len(prepared_for(model, control).outliers) == 0
