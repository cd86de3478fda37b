"""Rows in Parquet: columns and their types, row groups, missing values, files that change."""

import numpy as np
import pytest

from subsample_mcmc.target.sources import parquet as module
from subsample_mcmc.target.sources.local import parts_of
from subsample_mcmc.target.sources.parquet import parquet

pa = pytest.importorskip("pyarrow", reason="needs pyarrow: `make clusters`")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow: `make clusters`")
SIZE = 5_000
WANTED = {"y": "y", "x": ["x0", "x1"], "v": "v", "k": "k", "b": "b", "c": "c"}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(SIZE, 3)).astype(np.float32)
    labels = rng.choice(["low", "mid", "high"], SIZE)
    return pa.table({
        "y": rng.normal(size=SIZE), "x0": rng.normal(size=SIZE).astype(np.float32),
        "x1": rng.normal(size=SIZE).astype(np.float32), "k": rng.integers(0, 9, SIZE, np.int16),
        "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 3),
        "b": rng.random(SIZE) < 0.5, "c": pa.array(labels).dictionary_encode(),
        "text": labels, "not a name": np.zeros(SIZE),
    })  # fmt: skip


@pytest.fixture(scope="module")
def arrays(table):
    vectors = np.asarray(table["v"].combine_chunks().flatten()).reshape(SIZE, 3)
    codes = {"high": 0, "low": 1, "mid": 2}
    return {
        "y": np.asarray(table["y"]), "v": vectors, "k": np.asarray(table["k"]),
        "x": np.column_stack([table["x0"], table["x1"]]).astype(np.float32),
        "b": table["b"].to_numpy(),
        "c": np.array([codes[label] for label in table["c"].to_pylist()]),
    }  # fmt: skip


FILES = {"one": [SIZE], "three": [1, 3_000, 1_999], "with empty ones": [0, 2_500, 0, 2_500, 0]}


def written(folder, table, lengths, group=700):
    first = 0
    for i, length in enumerate(lengths):
        path = folder / f"part-{i:02d}.parquet"
        pq.write_table(table.slice(first, length), path, row_group_size=group)
        first += length
    return folder


@pytest.fixture(params=FILES)
def folder(request, table, tmp_path):
    return written(tmp_path, table, FILES[request.param])


def means(columns, first, part, shared):
    return {name: array.sum(axis=0) for name, array in columns.items()}, len(columns["y"]), first


@pytest.mark.parametrize("together", [1, 1_500, 1 << 18])
def test_the_same_rows_however_they_are_cut(folder, arrays, monkeypatch, together):
    monkeypatch.setattr(module, "PART", together)
    source = parquet(folder / "*.parquet", WANTED)
    assert source.size == SIZE and source.lengths().sum() == SIZE
    assert source.count >= {1: 8, 1_500: 4, 1 << 18: 1}[together]
    found = list(source.map(means, None))
    assert [r[2] for _, r in found] == source.starts().tolist()
    for name, array in arrays.items():
        assert source.columns[name].dtype == array.dtype
        assert source.columns[name].shape == array.shape[1:]
        np.testing.assert_allclose(sum(r[0][name] for _, r in found), array.sum(axis=0), rtol=1e-4)
    rows = np.unique(np.random.default_rng(3).integers(0, SIZE, 100))
    received = source.receive(source.request(rows))
    assert list(received) == list(WANTED)
    for name, array in received.items():
        assert array.dtype == arrays[name].dtype
        np.testing.assert_array_equal(array, arrays[name][rows])
    plain = {n: v for n, v in WANTED.items() if n != "c"}  # what categories are is content, too
    local = parts_of({n: arrays[n] for n in plain}, [SIZE])
    assert parquet(folder, plain).content() == local.content()
    source.close()


def test_words(folder, tmp_path):
    source = parquet(folder, ["y", "k"])
    files = len(list(folder.glob("*.parquet")))
    count = f"{files} files" if files > 1 else "1 file"
    assert repr(source) == f"Parquet, {count}, 5,000 rows, 2 columns"
    assert parquet(folder, WANTED).columns["c"].categories == ("high", "low", "mid")
    assert "part-" in source.part_name(0) and "row group" in source.part_name(0)


def test_lists_of_files_keep_their_order(table, tmp_path):
    folder = written(tmp_path, table, FILES["three"])
    names = sorted(folder.glob("*.parquet"))
    turned = parquet(names[::-1], "y")
    assert turned.lengths().tolist() == [1_999, 3_000, 1]
    one = turned.receive(turned.request([0]))["y"][0]
    assert one == table["y"][3_001].as_py()
    assert turned.content() != parquet(names, "y").content()


@pytest.mark.parametrize(("columns", "error", "words"), [
    (None, ValueError, "a column 'not a name'"),
    (["y", "text"], TypeError, "data text is a column of type string: give codes"),
    (["yy"], ValueError, "names 'yy', which is no column .* Did you mean 'y'"),
    ({"x": ["y", "v"]}, ValueError, "a matrix is made of columns of numbers"),
    ([], ValueError, "names no column"),
])  # fmt: skip
def test_columns_that_cannot_be_read(table, tmp_path, columns, error, words):
    with pytest.raises(error, match=words):
        parquet(written(tmp_path, table, [SIZE]), columns)


def test_paths_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file is there, or matches: .*\*\.parquet"):
        parquet(tmp_path / "*.parquet")
    with pytest.raises(TypeError, match="give a path, a pattern, or a list"):
        parquet(7)
    with pytest.raises(ValueError, match="names no file"):
        parquet([])


def test_nulls_and_nan_are_named(tmp_path):
    y = np.zeros(1_000)
    y[700] = np.nan
    nulls = pa.array([None if i == 801 else i for i in range(1_000)], pa.int32())
    floats = pa.array([None if i == 900 else 0.0 for i in range(1_000)], pa.float32())
    folder = written(tmp_path, pa.table({"y": y, "k": nulls, "f": floats}), [500, 500], 100)
    for name, row, words in (("y", 700, r"\(NaN\)"), ("f", 900, r"\(NaN\)"), ("k", 801, "")):
        expected = rf"data {name} has 1 missing value.*{words}.* row {row} \(part 1: .*part-01"
        with pytest.raises(ValueError, match=expected):
            list(parquet(folder, {name: name}).map(lengths_of, None))
    source = parquet(folder, ["y", "f"])
    source.missing = "allow"
    assert np.isnan(source.receive(source.request([899, 900]))["f"]).tolist() == [False, True]
    source = parquet(folder, ["k"])
    with pytest.raises(ValueError, match="row 801"):
        source.receive(source.request([999]))


def lengths_of(columns, first, part, shared):
    return len(next(iter(columns.values())))


def test_files_that_change_are_named(table, tmp_path):
    folder = written(tmp_path, table, FILES["three"])
    source = parquet(folder, ["y"])
    before = source.content()
    list(source.map(lengths_of, None))
    y = table["y"].to_numpy().copy()
    y[3_500] += 1.0
    at = table.schema.names.index("y")
    written(folder, table.set_column(at, "y", pa.array(y)), FILES["three"])
    with pytest.raises(ValueError, match=r"part 2: .*part-02.parquet.*, whose first is row 3001"):
        list(source.map(lengths_of, None))
    written(folder, pa.table({"y": y}), FILES["three"])  # whose columns lie elsewhere
    with pytest.raises(ValueError, match=r"changed between passes: .*part-0\d.parquet"):
        list(source.map(lengths_of, None))
    assert parquet(folder, ["y"]).content() != before


def test_groups_are_decoded_once_for_rows_and_kept_within_bounds(table, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PART", 1)
    source = parquet(written(tmp_path, table, [SIZE]), ["y"])
    decoded = []
    real = module.made_of
    monkeypatch.setattr(module, "made_of", lambda *given: (decoded.append(1), real(*given))[1])
    for _ in range(3):
        source.receive(source.request([0, 1, 701]))
    assert len(decoded) == 2
    source = parquet(tmp_path, ["y"])
    assert source.count == 8
    source.kept = 3 * 700 * 8
    for _ in range(4):
        source.receive(source.request(np.arange(SIZE)))
    assert len(decoded) == 2 + 8 + 3 * 5  # three of eight are found again, round after round
    assert sum(a.nbytes for part in source._loaded.values() for a in part.values()) <= source.kept


def test_labels_with_an_order_of_their_own_are_told_of(tmp_path):
    """pandas has low 0, mid 1, high 2; sorted they are 1, 2, 0."""
    labels = pa.DictionaryArray.from_arrays(
        pa.array([0, 2, 1, 0], pa.int8()), ["low", "mid", "high"], ordered=True
    )
    pq.write_table(pa.table({"c": labels}), tmp_path / "own.parquet")
    with pytest.warns(UserWarning, match="low < mid < high, .*: high 0, low 1, mid 2. Where the"):
        source = parquet(tmp_path / "own.parquet")
    assert source.receive(source.request(np.arange(4)))["c"].tolist() == [1, 0, 2, 1]
    labels = pa.DictionaryArray.from_arrays(labels.indices, ["a", "b", "c"], ordered=True)
    pq.write_table(pa.table({"c": labels}), tmp_path / "sorted.parquet")
    assert parquet(tmp_path / "sorted.parquet").columns["c"].categories == ("a", "b", "c")


# ------------------------------------------------------------------------- files of other types
def one_each(folder, *columns):
    for i, given in enumerate(columns):
        pq.write_table(pa.table(given), folder / f"{i}.parquet")
    return folder / "*.parquet"


def values(source, name="y"):
    received = source.receive(source.request(np.arange(source.size)))
    source.close()
    return received[name]


@pytest.mark.parametrize(("first", "second", "kind"), [
    (np.float32, np.float64, np.float64), (np.float64, np.float32, np.float64),
    (np.int8, np.int64, np.int64), (np.int32, np.float64, np.float64),
    (np.float32, np.float32, np.float32),
])  # fmt: skip
def test_numbers_are_of_the_type_that_holds_those_of_all_files(tmp_path, first, second, kind):
    """Seconds since 1970 in float32, as of the first file, were 6 of 600 different ones."""
    large = 100 if second is np.float32 or second is np.int8 else 1_700_000_000
    one, two = np.arange(5).astype(first), (large + np.arange(6)).astype(second)
    found = values(parquet(one_each(tmp_path, {"y": one}, {"y": two})))
    assert found.dtype == kind
    assert found.tolist() == [*one.tolist(), *two.tolist()]


@pytest.mark.parametrize("other", [
    np.array([5, 7]), np.array(["7", "8"]), np.array(["2020-01-01", "2021-01-01"], "M8[ms]"),
    np.array([0.5, 1.0]),
], ids=["numbers", "text", "dates", "fractions"])  # fmt: skip
def test_what_is_no_number_in_one_file_alone_is_refused(tmp_path, other):
    """Counts of a later file were true, beside booleans of the first."""
    path = one_each(tmp_path, {"y": np.array([True, False])}, {"y": other})
    with pytest.raises(TypeError, match=r"data y is a column of type bool in .*0\.parquet, and "):
        parquet(path)
    assert parquet(one_each(tmp_path, {"y": [1.0], "z": [True]}, {"y": [2.0], "z": [3]}),
                   columns=["y"]).size == 2  # fmt: skip


def test_a_column_that_some_files_lack_is_refused(tmp_path):
    path = one_each(tmp_path, {"y": [1.0]}, {"y": [2.0], "x": [3.0]})
    with pytest.raises(ValueError, match=r"1\.parquet has a column 'x', and the first file has no"):
        parquet(path)
    with pytest.raises(ValueError, match=r"0\.parquet has no column 'x'"):
        parquet(path, columns=["y", "x"])
    assert values(parquet(path, columns=["y"])).tolist() == [1.0, 2.0]


def test_a_file_of_nulls_alone_says_nothing_of_a_type(tmp_path):
    path = one_each(tmp_path, {"y": [1.0]}, {"y": pa.nulls(1)})
    assert np.array_equal(values(parquet(path)), [1.0, np.nan], equal_nan=True)


def in_folders(folder, name, *tables):
    for value, table in tables:
        (folder / f"{name}={value}").mkdir()
        pq.write_table(pa.table(table), folder / f"{name}={value}" / "a.parquet")
    return folder


def test_names_of_folders_are_a_column_of_numbers(tmp_path):
    tables = [(year, {"y": [1.0 * year]}) for year in (2020, 2021)]
    folder = in_folders(tmp_path, "year", *tables)
    assert values(parquet(folder), "year").tolist() == [2020, 2021]
    assert values(parquet(folder, columns=["y"])).tolist() == [2020.0, 2021.0]
    assert list(parquet(folder / "year=2020").columns) == ["y"]  # not of that folder itself
    assert list(parquet(folder / "year=2020" / "a.parquet").columns) == ["y"]
    assert list(parquet(folder / "*" / "*.parquet").columns) == ["y"]


def test_names_of_folders_that_are_text_are_none(tmp_path):
    folder = in_folders(tmp_path, "country", ("de", {"y": [1.0]}), ("fr", {"y": [2.0]}))
    assert list(parquet(folder).columns) == ["y"]


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.float64])
def test_a_column_of_the_files_stays_theirs(tmp_path, kind):
    """Under a folder of its name it was the folder's number."""
    folder = in_folders(tmp_path, "y", (7, {"y": np.arange(3).astype(kind)}))
    for path in (folder, folder / "y=7", folder / "y=7" / "a.parquet"):
        assert values(parquet(path)).tolist() == [0, 1, 2]


def test_rows_are_appended_to_those_under_a_folder(tmp_path):
    import subsample_mcmc as sm

    folder = in_folders(tmp_path, "fold", (3, {"y": [1.0, 2.0]}))
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.m[0]) ** 2, parquet(folder / "fold=3"),
        {"m": 0.0},
    )  # fmt: skip
    assert model.append({"y": np.array([3.0])}).size == 3


def test_lists_of_other_numbers_are_refused(tmp_path):
    """7 was true there, too."""
    lists = [pa.FixedSizeListArray.from_arrays(pa.array(x), 2) for x in ([True, False], [7, 0])]
    path = one_each(tmp_path, {"v": lists[0]}, {"v": lists[1]})
    with pytest.raises(TypeError, match=r"data v is a column of type fixed_size_list.* bool"):
        parquet(path)


def test_a_dataset_of_a_given_schema_keeps_it(tmp_path):
    import pyarrow.dataset as files

    one_each(tmp_path, {"y": np.arange(3.0)}, {"y": np.arange(3, 6)})
    schema = pa.schema([("y", pa.float32())])
    found = module.ParquetSource(files.dataset(tmp_path, format="parquet", schema=schema))
    made = values(found)
    assert made.dtype == np.float32 and made.tolist() == list(range(6))


@pytest.mark.parametrize("size", [3_000, 30_000])
def test_files_that_change_after_a_fit_are_named(tmp_path, size):
    """A fit of few rows reads them as such, and a control variate is made of all: of others."""
    import subsample_mcmc as sm

    rng = np.random.default_rng(0)
    a, path = rng.normal(size=size), tmp_path / "rows.parquet"
    y = 1.0 + 2.0 * a + rng.normal(size=size)

    def write(shift):
        pq.write_table(pa.table({"one": np.ones(size), "a": a, "y": y + shift}), path)

    write(0.0)
    model = sm.models.glm.gaussian(parquet(path), "y")
    fit = sm.laplace(model, progress=False)
    write(5.0)
    kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), control=sm.Taylor(fit))
    with pytest.raises(ValueError, match="rows changed between passes"):
        sm.sample(model, kernel, draws=10, warmup=0, chains=1, seed=1, progress=False)
