"""Fits and sums that a file remembers: the same to the last bit, without a pass, or not used."""

import itertools
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.target.reuse import remembered
from subsample_mcmc.target.sources.local import parts_of
from tests.helpers.two_columns import columns_of, factor, flat, plain, predictor, same

SIZE, CUT = 60_000, [20_001, 0, 1, 29_998, 10_000]
FAMILIES = ("logistic", "plain", "differences")
OPTIONS = {"warmup": 0, "chains": 2, "seed": 1, "progress": False}


@pytest.fixture(scope="module")
def columns():
    return columns_of(SIZE)


def narrow(state):
    return -50.0 * (state.beta[0] ** 2 + state.beta[1] ** 2)


def made(data, family, prior=flat):
    """A model of data in memory, or elsewhere."""
    if family == "logistic" and isinstance(data, dict):
        return sm.models.glm.logistic(np.column_stack([data["a"], data["b"]]), data["y"])
    if family == "logistic":
        return sm.models.glm.logistic(data, "y")
    function = plain if family == "plain" else sm.Predictors(predictor, factor)
    return sm.Model(function, data, {"beta": np.zeros(2 + (family == "plain"))}, prior)


def counted(model):
    """What a model's source is asked for from now on: how many parts are read whole."""
    source, seen = model.elsewhere.source, []
    passed = source.passed

    def counting(jobs, parcel):
        for part, found in passed(jobs, parcel):
            seen.append(part)
            yield part, found

    source.passed = counting
    return seen


def learnt(model, order=None):
    """(fit, control variate, what it holds)."""
    fit = sm.laplace(model, progress=False)
    control = sm.Taylor(fit, order)
    return fit, control, prepared_for(model, control)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("where", ["memory", "elsewhere"])
def test_a_fit_and_sums_are_read_back_to_the_last_bit(columns, family, where, tmp_path):
    def model():
        return made(columns if where == "memory" else parts_of(columns, CUT), family)

    fit, _, prepared = learnt(model())
    for _ in range(2):  # written, and read
        again = model()
        again.remember(tmp_path / "run.npz")
        seen = counted(again) if where == "elsewhere" else []
        found, control, other = learnt(again)
        for name in ("mean", "covariance", "factor", "point", "log_evidence", "starts", "passes"):
            np.testing.assert_array_equal(getattr(fit, name), getattr(found, name), name)
        same(prepared.sums, other.sums)
        same((prepared.outliers, prepared.known), (other.outliers, other.known))
    assert not seen
    kernel = sm.Metropolis("beta", proposal=sm.pcn(found), control=control)
    kernels = kernel, sm.Metropolis("beta", proposal=sm.pcn(fit), control=sm.Taylor(fit))
    one, two = (
        sm.sample(m, k, draws=100, start=[fit.state] * 2, **OPTIONS)
        for m, k in zip((again, fit.model), kernels, strict=True)
    )
    np.testing.assert_array_equal(one.draws["beta"], two.draws["beta"])


def test_a_run_is_resumed_without_a_pass_but_that_over_unknown_rows(columns, tmp_path):
    def begun(path, cut):
        model = made(parts_of(columns, cut), "logistic")
        model.remember(tmp_path / "run.npz")
        seen = counted(model)
        fit = sm.laplace(model, progress=False)
        kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), control=sm.Taylor(fit))
        return model, kernel, seen, {"store": tmp_path / path, "start": [fit.state] * 2}

    model, kernel, _, options = begun("whole.nc", CUT)
    whole = sm.sample(model, kernel, draws=120, **OPTIONS, **options)
    model, kernel, _, options = begun("run.nc", CUT)
    sm.sample(model, kernel, draws=50, **OPTIONS, **options)
    for cut in (CUT, [30_000, 30_000]):  # another layout: the same rows
        model, kernel, seen, _ = begun("", cut)
        trace = sm.resume(tmp_path / "run.nc", model, kernel, draws=120, progress=False)
        assert not seen  # what remember() read came before
    np.testing.assert_array_equal(whole.draws["beta"], trace.draws["beta"])


def test_rows_that_changed_are_named_and_not_used(columns, tmp_path):
    model = made(parts_of(columns, CUT), "logistic")
    model.remember(tmp_path / "run.npz")
    fit, control, _ = learnt(model)
    kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), control=control)
    options = {"store": tmp_path / "run.nc", "start": [fit.state] * 2}
    sm.sample(model, kernel, draws=20, **OPTIONS, **options)
    others = dict(columns, a=np.where(np.arange(SIZE) == 45_000, 9.0, columns["a"]))
    wanted, _, sums = learnt(made(parts_of(others, CUT), "logistic"))
    model = made(parts_of(others, CUT), "logistic")
    with pytest.warns(UserWarning, match=r"other rows \(different: data, rows elsewhere, part 3\)"):
        model.remember(tmp_path / "run.npz")
    fit, control, found = learnt(model)
    np.testing.assert_array_equal(fit.mean, wanted.mean)
    same(sums.sums, found.sums)
    kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), control=control)
    with pytest.raises(ValueError, match=r"cannot be resumed: .*data, rows elsewhere"):
        sm.resume(tmp_path / "run.nc", model, kernel, draws=40, progress=False)


def test_another_prior_or_start_is_another_model(columns, tmp_path):
    path = tmp_path / "run.npz"
    model = made(columns, "differences")
    model.remember(path)
    learnt(model)
    other = made(columns, "differences", narrow)
    with pytest.warns(UserWarning, match=r"different: log_prior\)"):
        other.remember(path)
    fit, wanted = learnt(other)[0], learnt(made(columns, "differences", narrow))[0]
    np.testing.assert_array_equal(fit.mean, wanted.mean)
    with pytest.warns(UserWarning, match=r"different: log_prior\)"):  # it was written over
        made(columns, "differences").remember(path)


def test_what_was_asked_otherwise_is_made_anew(columns, tmp_path):
    path = tmp_path / "run.npz"
    for order in (2, 3, 2, 3):
        model = made(columns, "logistic")
        model.remember(path)
        _, _, prepared = learnt(model, order)
        assert bool(prepared.sums.whole.cubes.size) == (order == 3)
    head = model.remembered.head()
    assert [entry["kind"] for entry in head["entries"]] == ["fit", *["sums of sm.Taylor"] * 2]
    near = sm.laplace(model, progress=False)
    for more in ({"given": {"beta": [3.0, 3.0]}}, {"tolerance": 0.5}, {"starts": 2, "seed": 3}):
        wanted = sm.laplace(made(columns, "logistic"), progress=False, **more)
        for _ in range(2):
            found = sm.laplace(model, progress=False, **more)
            np.testing.assert_array_equal(found.mean, wanted.mean)
            assert found.starts == wanted.starts
        assert (found.mean != near.mean).any() or "seed" in more
    moved = dict(fit=near.state, outliers=0.01)
    one = prepared_for(model, sm.Taylor(**moved))
    assert len(one.outliers) == 600 and len(prepared_for(model, sm.Taylor(near.state)).outliers) < 9


def test_data_that_change_in_place_are_seen(columns, tmp_path):
    own = {name: column.copy() for name, column in columns.items()}
    model = made(own, "differences")
    model.remember(tmp_path / "run.npz")
    first = learnt(model)[0]
    own["a"] *= 2.0
    second = sm.laplace(model, progress=False)
    np.testing.assert_allclose(second.mean[0], 0.5 * first.mean[0], rtol=1e-3)


def test_a_damaged_array_is_told_of(columns, tmp_path):
    """One flipped bit of an array: zipfile's own error, without the file's name."""
    model, path = made(columns, "differences"), tmp_path / "run.npz"
    model.remember(path)
    sm.laplace(model, progress=False)
    told, whole = [], path.read_bytes()
    for at in range(len(whole) // 4, len(whole) // 2, max(1, len(whole) // 40)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            sm.laplace(model, progress=False)
        except ValueError as error:
            told.append(str(error))
    assert told and all(str(path) in text and "is damaged" in text for text in told)


@pytest.mark.plain
def test_other_files_are_refused(columns, tmp_path):
    model = made({n: c[:100] for n, c in columns.items()}, "plain")
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    with pytest.raises(ValueError, match=r"is no file of model\.remember, or is damaged"):
        model.remember(other)
    assert other.read_text() == "mine"
    np.savez(tmp_path / "own.npz", x=np.zeros(3))
    with pytest.raises(ValueError, match=r"is no file of model\.remember"):
        model.remember(tmp_path / "own.npz")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        model.remember(tmp_path / "none" / "run.npz")


@pytest.mark.plain
def test_values_are_packed_as_they_are():
    value = ("text", (1.5, None, True, -0.0), np.arange(3), (np.float32([1e-45]), (), 7))
    arrays = {}
    found = remembered.unpacked(json.loads(json.dumps(remembered.packed(value, arrays))), arrays)
    assert found[:2] == value[:2] and found[3][2] == 7 and np.signbit(found[1][3])
    assert found[3][0].dtype == np.float32 and found[3][0] == np.float32(1e-45)
    with pytest.raises(TypeError, match="only numbers, texts and arrays"):
        remembered.packed((lambda: 0,), {})
    with pytest.raises(TypeError, match="only numbers are remembered"):
        remembered.packed(np.array([None]), {})
    keys = {remembered.key_of(*v) for v in ((1, 2), ((1, 2),), (1.0, 2), ("1", 2))}
    assert len(keys) == 4


def test_a_full_disk_loses_no_fit(columns, tmp_path, monkeypatch):
    def full(*args, **named):
        raise OSError(28, "No space left on device")

    model = made(columns, "differences")
    model.remember(tmp_path / "run.npz")
    monkeypatch.setattr(remembered.np, "savez", full)
    with pytest.warns(UserWarning, match="cannot be written: .*No space left"):
        fit = sm.laplace(model, progress=False)
    assert np.isfinite(fit.log_evidence) and not list(tmp_path.iterdir())


def test_what_many_models_found_is_not_kept_for_ever(columns, tmp_path, monkeypatch):
    monkeypatch.setattr(remembered, "MOST", 2)
    model = made(columns, "differences")
    model.remember(tmp_path / "run.npz")
    fits = [sm.laplace(model, given={"beta": [x, 0.0]}, progress=False) for x in (0.0, 1.0, 2.0)]
    assert len(model.remembered.head()["entries"]) == 2
    again = sm.laplace(model, given={"beta": [2.0, 0.0]}, progress=False)
    np.testing.assert_array_equal(again.mean, fits[2].mean)


@pytest.mark.parametrize("what", ["find", "keep"])
def test_a_file_that_another_process_writes_meanwhile_is_not_mixed_up(
    columns, tmp_path, monkeypatch, what
):
    """Whenever its head was read it is another: the same findings, in another order."""
    model = made(columns, "differences")
    asked = [{"given": {"beta": [x, 0.0]}, "tolerance": t} for x, t in ((0.0, 1e-5), (3.0, 0.5))]
    fits = [sm.laplace(model, progress=False, **one) for one in asked]
    assert (fits[0].mean != fits[1].mean).all()
    for name, order in (("run.npz", (0, 1)), ("other.npz", (1, 0))):
        model.remember(tmp_path / name)
        for i in order:
            sm.laplace(model, progress=False, **asked[i])
    path = tmp_path / "now.npz"
    shutil.copy(tmp_path / "run.npz", path)
    model.remember(path)
    written = itertools.cycle(["other.npz", "run.npz"])

    def loads(text):
        shutil.copy(tmp_path / next(written), tmp_path / "next.npz")
        (tmp_path / "next.npz").replace(path)
        return json.loads(text)

    with monkeypatch.context() as patched:
        patched.setattr(remembered, "json", SimpleNamespace(loads=loads, dumps=json.dumps))
        if what == "find":
            found = [sm.laplace(model, progress=False, **one) for one in asked[:1]]
        else:
            sm.laplace(model, progress=False, given={"beta": [1.0, 0.0]})
    if what == "keep":
        found = [sm.laplace(model, progress=False, **one) for one in asked]
    for one, wanted in zip(found, fits, strict=False):
        np.testing.assert_array_equal(one.mean, wanted.mean)


# -------------------------------------------------------------------------------- files of Parquet
@pytest.fixture
def folder(columns, tmp_path):
    """Three files, written an hour ago."""
    pytest.importorskip("pyarrow", reason="needs pyarrow: `make clusters`")
    for part in range(3):
        write(tmp_path, part, columns, 3_600.0)
    return tmp_path


def write(folder, part, columns, age):
    """A third of the rows in a file that is so many seconds old."""
    import os

    import pyarrow
    import pyarrow.parquet

    some = slice(20_000 * part, 20_000 * (part + 1))
    path = folder / f"{part}.parquet"
    table = pyarrow.table({name: column[some] for name, column in columns.items()})
    pyarrow.parquet.write_table(table, path, row_group_size=7_000, compression="none")
    when = path.stat().st_mtime - age
    os.utime(path, (when, when))


def opened(folder, family="logistic", columns=None, **named):
    """(model, parts that are read whole from here on) of the files."""
    rows = sm.parquet(folder / "*.parquet", columns)
    model = (
        sm.models.glm.logistic(rows, "y", **named) if family == "logistic" else made(rows, family)
    )
    return model, counted(model)


@pytest.mark.parametrize("family", ["logistic", "plain"])
def test_files_that_nobody_wrote_are_not_read_again(folder, family):
    fits, prepared = [], []
    for again in (False, True):
        model, seen = opened(folder, family)
        model.remember(folder / "run.npz")
        fit, control, found = learnt(model)
        fits.append(fit)
        prepared.append(found)
        kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), control=control)
        options = {"start": [fit.state] * 2, "store": folder / f"run-{again}.nc"}
        sm.sample(model, kernel, draws=20, **OPTIONS, **options)  # races ask what sums leave over
        assert (not seen) if again else len(seen) >= 9
    np.testing.assert_array_equal(fits[0].mean, fits[1].mean)
    same(prepared[0].sums, prepared[1].sums)
    sm.resume(folder / "run-True.nc", model, kernel, draws=40, progress=False)
    assert not seen


@pytest.mark.parametrize("age", [1_800.0, 0.0])
def test_a_file_that_was_written_since_is_read_and_named(folder, columns, age):
    model, _ = opened(folder)
    model.remember(folder / "run.npz")
    learnt(model)
    others = dict(columns, b=np.where(np.arange(SIZE) == 30_000, 0.25, columns["b"]))
    write(folder, 1, others, age)
    model, seen = opened(folder)
    with pytest.warns(UserWarning, match=r"rows elsewhere, part 1: .*1\.parquet, row groups? "):
        model.remember(folder / "run.npz")
    assert len(seen) == 3
    fit = sm.laplace(model, progress=False)
    wanted = sm.laplace(made(others, "logistic"), progress=False)
    np.testing.assert_array_equal(fit.mean, wanted.mean)


def test_a_file_just_written_is_read_though_its_time_is_the_same(folder, columns):
    """Two changes within a tick of the clock do not differ in time."""
    write(folder, 2, columns, 0.0)
    model, _ = opened(folder)
    model.remember(folder / "run.npz")
    learnt(model)
    model, seen = opened(folder)
    model.remember(folder / "run.npz")
    assert len(seen) == 3  # and found to be the same
    learnt(model)
    assert len(seen) == 3


def test_other_columns_of_the_same_files_are_other_rows(folder):
    model, _ = opened(folder, "plain")
    model.remember(folder / "run.npz")
    learnt(model)
    turned = {"a": "b", "b": "a", "y": "y"}
    model, seen = opened(folder, "plain", turned)
    with pytest.warns(UserWarning, match="data, rows elsewhere"):
        model.remember(folder / "run.npz")
    assert len(seen) == 3


def test_another_prior_of_a_regression_reads_its_files(folder):
    """What makes columns of those of files is known by a text of all that it was given."""
    model, _ = opened(folder)
    model.remember(folder / "run.npz")
    learnt(model)
    model, _ = opened(folder, prior_sd=2.0)
    with pytest.warns(UserWarning, match="different: log_prior"):
        model.remember(folder / "run.npz")
