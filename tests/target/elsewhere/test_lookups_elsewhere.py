"""Look-ups beyond a block or a table, where rows are elsewhere: all rows are looked at, once."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.target.sources.local import parts_of

SIZE, LAYOUT = 6_000, [1, 0, 2_303, 1_796, 1, 1_899]
BAD = 4_321  # none of the rows that a model is tried on
LEVELS = 5


def by_level(state, data, n):
    z = data.y[n] - state.a[data.g[n]]
    return -0.5 * z * z


def by_table(state, data, n):
    z = data.y[n] - data.t[data.g[n]] - state.a[0]
    return -0.5 * z * z


def by_label(state, data, n):
    z = data.y[n] - data.t[data.g[n] + state.k[0]]
    return -0.5 * z * z


def predictor(state, data, n):
    return state.a[data.g[n]]


def factor(eta, data, n):
    return -0.5 * (data.y[n] - eta) ** 2


def rows(level, row=BAD, size=SIZE):
    g = np.arange(size) % LEVELS
    g[row] = level
    return {"y": np.random.default_rng(0).normal(size=size) + g, "g": g}


def model_of(function, given, layout=LAYOUT):
    data, table = parts_of(given, layout), {"t": np.zeros(LEVELS)}
    if function is by_table:
        return sm.Model(function, data, {"a": 0.0}, tables=table)
    if function is by_label:
        return sm.Model(function, data, {"k": 0}, support={"k": 2}, tables={"t": np.zeros(6)})
    return sm.Model(function, data, {"a": np.zeros(LEVELS)})


def drawn(model, block="a"):
    kernel = sm.Gibbs("k") if block == "k" else sm.Metropolis(block, selector=sm.Exact())
    return sm.sample(model, kernel, draws=5, warmup=5, chains=1, seed=1, progress=False)


def fitted(model):
    return sm.laplace(model, progress=False)


@pytest.mark.parametrize("level", [-1, LEVELS, 10**9])
@pytest.mark.parametrize("use", [fitted, drawn])
@pytest.mark.parametrize("function", [by_level, by_table, sm.Predictors(predictor, factor)])
def test_a_row_in_the_middle_is_named(function, use, level):
    """-1 was the last level's, and what is beyond was read, or ended the process."""
    told = rf"at datum {BAD:d} \(y=[-.0-9e+]+, g={level:.6g}\) asks for index {level}"
    with pytest.raises(IndexError, match=told.replace("+09", r"\+09")):
        use(model_of(function, rows(level)))


def test_an_index_made_of_a_label_is_looked_at_for_all_of_its_values():
    """5 + 0 is in the table, and 5 + 1 is not."""
    with pytest.raises(IndexError, match=rf"at datum {BAD} .*with k=1 asks for index 6"):
        drawn(model_of(by_label, rows(LEVELS)), "k")
    assert drawn(model_of(by_label, rows(LEVELS - 1)), "k").shape == (1, 5)


@pytest.mark.parametrize("row", [0, 255, 256, 2_303, 2_304, SIZE - 1])
def test_rows_at_the_ends_of_parts_and_blocks(row):
    told = rf"at datum {row} " if 0 < row < SIZE - 1 else "out of bounds"  # when it is made
    with pytest.raises(IndexError, match=told):
        fitted(model_of(by_level, rows(LEVELS, row)))


def counted(monkeypatch):
    """Passes for look-ups, by the rows that each of their parts has."""
    from subsample_mcmc.target.elsewhere import rows as module

    seen, look = [], module.rows_beyond

    def noted(model, begin, states):
        seen.append((begin, model.size))
        return look(model, begin, states)

    monkeypatch.setattr(module, "rows_beyond", noted)
    return seen


@pytest.mark.slow
def test_right_rows_are_looked_at_once(monkeypatch):
    seen = counted(monkeypatch)
    model = model_of(by_level, rows(LEVELS - 1))
    fit = fitted(model)
    assert sum(size for _, size in seen) == SIZE
    drawn(model)
    sm.sample(model, sm.Metropolis("a", control=sm.Taylor(fit)), draws=5, warmup=5, chains=1,
              seed=1, progress=False)  # fmt: skip
    assert sum(size for _, size in seen) == SIZE


def test_functions_that_look_up_nothing_need_no_pass(monkeypatch):
    seen = counted(monkeypatch)

    def plain(state, data, n):
        return -0.5 * (data.y[n] - state.a[0]) ** 2

    fitted(sm.Model(plain, parts_of(rows(0), LAYOUT), {"a": 0.0}))
    assert not seen


def test_of_appended_rows_these_are_looked_at(monkeypatch):
    model = model_of(by_level, rows(LEVELS - 1))
    fitted(model)
    seen = counted(monkeypatch)
    longer = model.append(rows(LEVELS - 1, 0, 700))
    fitted(longer)
    assert sum(size for _, size in seen) <= 700 + 256
    worse = model.append(rows(-1, 300, 700))
    with pytest.raises(IndexError, match=rf"at datum {SIZE + 300} .*asks for index -1"):
        fitted(worse)


def test_what_was_looked_at_is_remembered(monkeypatch, tmp_path):
    """Another process makes no pass for it, and one for other rows."""
    path = tmp_path / "kept.npz"
    model = model_of(by_level, rows(LEVELS - 1))
    model.remember(path)
    fitted(model)
    seen = counted(monkeypatch)
    again = model_of(by_level, rows(LEVELS - 1), [SIZE // 2, SIZE // 2])
    again.remember(path)
    drawn(again)
    assert not seen
    other = model_of(by_level, rows(LEVELS))
    with pytest.warns(UserWarning, match="other rows"):
        other.remember(path)
    with pytest.raises(IndexError, match=rf"at datum {BAD} "):
        drawn(other)
