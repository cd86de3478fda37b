"""Rows in parts: lengths, passes, rows by number and digests, whatever the parts are."""

from typing import ClassVar

import numpy as np
import pytest

from subsample_mcmc.target.sources.local import LocalSource, parts_of
from subsample_mcmc.target.sources.parts import PROBES, Parcel, SourceColumn, look, take

SIZE = 1_000
CUTS = {
    "one": [1000], "even": [250] * 4, "uneven": [0, 1, 617, 0, 0, 300, 1, 81, 0],
    "single rows first": [1, 1, 1, 997], "empty at the ends": [0, 400, 600, 0],
}  # fmt: skip


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(1)
    return {
        "y": rng.normal(size=SIZE).astype(np.float32), "x": rng.normal(size=(SIZE, 3)),
        "k": rng.integers(0, 5, SIZE).astype(np.int8), "b": rng.random(SIZE) < 0.5,
    }  # fmt: skip


def sums(columns, first, part, shared):
    rows = np.arange(first, first + len(columns["y"]))
    return part, shared, float((rows * columns["y"]).sum()), columns["x"].sum(axis=0)


def failing(columns, first, part, shared):
    if part == shared:
        raise KeyError("a mistake")


@pytest.fixture(params=CUTS)
def source(request, arrays):
    made = parts_of(arrays, CUTS[request.param])
    made.cut = CUTS[request.param]
    yield made
    made.close()


def test_lengths_and_words(source):
    assert source.lengths().tolist() == source.cut and source.size == len(source) == SIZE
    assert source.starts().tolist() == [sum(source.cut[:i]) for i in range(len(source.cut))]
    assert repr(source).endswith("1,000 rows, 4 columns")


def test_a_pass_sees_every_row_once(source, arrays):
    found = list(source.map(sums, "given"))
    assert [part for part, _ in found] == list(range(source.count))
    assert all(r[0] == p and r[1] == "given" for p, r in found)
    whole = float((np.arange(SIZE) * arrays["y"]).sum())
    assert sum(r[2] for _, r in found) == pytest.approx(whole)
    np.testing.assert_allclose(sum(r[3] for _, r in found), arrays["x"].sum(axis=0))
    assert [part for part, _ in source.map(sums, 0, parts=[0])] == [0]


@pytest.mark.parametrize("rows", [[], [0], [999], [0, 1, 2, 617, 618, 619, 918, 919, 998, 999]])
def test_rows_by_number(source, arrays, rows):
    found = source.receive(source.request(rows))
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array[rows])
    every = source.request(np.arange(SIZE))
    some = source.request(np.arange(3, SIZE, 7))
    np.testing.assert_array_equal(source.receive(some)["x"], arrays["x"][3::7])
    source.cancel(every)


def test_mistakes_of_requests_are_named(source):
    for wrong in ([3, 2], [1, 1], [[1]]):
        with pytest.raises(ValueError, match="sorted, and distinct"):
            source.request(wrong)
    for wrong in ([-1], [SIZE]):
        with pytest.raises(IndexError, match="rows 0 to 999"):
            source.request(wrong)


def test_exceptions_arrive_as_they_are(source):
    last = source.count - 1
    with pytest.raises(KeyError, match="a mistake") as caught:
        list(source.map(failing, last))
    assert f"part {last}, whose first is row {source.starts()[last]}" in caught.value.__notes__[0]


def test_content_does_not_depend_on_the_parts(source, arrays):
    assert source.content() == parts_of(arrays, [SIZE]).content()
    assert len(source.digests()) == source.count


CHANGES = {
    "one value": lambda a: a["y"].__setitem__(700, a["y"][700] + 1e-6),
    "a sign": lambda a: a["x"].__setitem__((3, 1), -a["x"][3, 1]),
    "all signs": lambda a: np.negative(a["x"], out=a["x"]),
    "a code": lambda a: a["k"].__setitem__(999, a["k"][999] + 1),
    "swapped rows": lambda a: [v.__setitem__([5, 900], v[[900, 5]]) for v in a.values()],
    "swapped values": lambda a: a["y"].__setitem__([5, 900], a["y"][[900, 5]]),
    "a row that moved": lambda a: [np.copyto(v[2:8], np.roll(v[2:8], 1, 0)) for v in a.values()],
    "a swap in a row": lambda a: a["x"].__setitem__((7, [0, 1]), a["x"][7, [1, 0]]),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_content_differs_after_a_change(arrays, change):
    other = {name: array.copy() for name, array in arrays.items()}
    CHANGES[change](other)
    one, two = (parts_of(a, [500, 500]).content() for a in (arrays, other))
    assert one != two


def test_digests_tell_the_signs_of_two_columns(arrays):
    """The highest bits of two words: a plain sum of words by keys would not see it."""
    other = {n: -a if n == "x" else a for n, a in arrays.items()}
    assert parts_of(arrays, [SIZE]).digests() != parts_of(other, [SIZE]).digests()
    pair = {"a": np.ones(4), "b": np.ones(4)}
    turned = {n: a * np.array([-1.0, 1, 1, 1]) for n, a in pair.items()}
    assert parts_of(pair, [4]).content() != parts_of(turned, [4]).content()


@pytest.mark.parametrize(("bad", "words"), [
    (np.nan, "missing value"), (np.inf, "infinite value"), (-np.inf, "infinite value"),
])  # fmt: skip
def test_what_is_missing_is_named(arrays, bad, words):
    own = arrays | {"x": arrays["x"].copy()}
    own["x"][619, 2] = bad
    source = parts_of(own, CUTS["uneven"])
    with pytest.raises(ValueError, match=rf"data x has 1 {words}.* row 619 \(part 5\), column 2"):
        list(source.map(sums, 0))
    source.missing = "infinite"
    if bad == bad:
        assert len(list(source.map(sums, 0))) == 9
    source.missing = "allow"
    assert len(list(source.map(sums, 0))) == 9
    source.missing = "refuse"  # what was allowed is not known to be right
    with pytest.raises(ValueError, match=rf"data x has 1 {words}"):
        list(source.map(sums, 0))


def test_what_stands_below_a_mask_is_no_value(arrays):
    """As arrays in memory are refused: of these parts the values below the masks were data."""
    gone = np.zeros((SIZE, 3), dtype=bool)
    gone[619, 2] = True
    for name, mask, place in (
        ("x", gone, ", column 2"),
        ("k", gone[:, 2], ""),
        ("b", gone[:, 2], ""),
    ):
        given = arrays | {name: np.ma.array(arrays[name], mask=mask)}
        words = rf"data {name} has 1 missing value.* row 619 \(part 5\){place}:"
        source = parts_of(given, CUTS["uneven"])
        with pytest.raises(ValueError, match=words):
            list(source.map(sums, 0))
        if name != "x":
            with pytest.raises(ValueError, match="1 missing value"):
                source.receive(source.request([619]))
    none = {name: np.ma.array(array, mask=False) for name, array in arrays.items()}
    expected = parts_of(arrays, [SIZE]).content()
    assert parts_of(none, CUTS["uneven"]).content() == expected
    source = parts_of(arrays | {"x": np.ma.array(arrays["x"], mask=gone)}, CUTS["uneven"])
    source.missing = "allow"
    assert len(list(source.map(sums, 0))) == 9
    x = source.receive(source.request([618, 619]))["x"]
    assert type(x) is np.ndarray and np.isnan(x).tolist() == [[False] * 3, [False, False, True]]


def test_what_is_missing_is_said_before_a_task_stumbles_over_it(arrays):
    own = arrays | {"y": np.where(np.arange(SIZE) == 3, np.nan, arrays["y"])}
    with pytest.raises(ValueError, match="data y has 1 missing value"):
        list(parts_of(own, [SIZE]).map(failing, 0))


def test_rows_that_are_made_anew_are_noticed_when_some_are_fetched(arrays):
    rng = np.random.default_rng(9)

    def made():
        return {"y": rng.normal(size=100)}

    source = LocalSource([made, made], lengths=[100, 100], kept=0)
    source.content()
    with pytest.raises(ValueError, match=r"rows changed between passes: part 1, .* row 100"):
        source.receive(source.request([107]))
    source.close()
    # Before any pass: what some rows were at first is remembered.
    other = LocalSource([made, made], lengths=[100, 100], kept=0)
    assert other.receive(other.request([7]))["y"].shape == (1,)
    with pytest.raises(ValueError, match=r"rows changed between passes: part 0, .* row 0"):
        other.content()
    with pytest.raises(ValueError, match=r"rows changed between passes: part 0, .* row 0"):
        other.receive(other.request([8]))
    other.close()


def test_rows_are_fetched_while_a_pass_is_made(arrays):
    source = parts_of(arrays, [100] * 10)
    passing = source.map(sums, 0)
    next(passing)
    tickets = [source.request([i, SIZE - 1]) for i in range(20)]
    found = [source.receive(ticket)["y"][0] for ticket in reversed(tickets)][::-1]
    np.testing.assert_array_equal(found, arrays["y"][:20])
    assert len(list(passing)) == 9
    source.close()


def test_the_bar_moves_by_rows(source):
    class Counting:
        moves: ClassVar[list] = []

        def update(self, count):
            self.moves.append(count)

    bar = Counting()
    bar.moves.clear()
    list(source.map(sums, 0, bar=bar))
    assert bar.moves == source.cut


def test_rows_that_changed_are_named(arrays):
    own = {name: array.copy() for name, array in arrays.items()}
    source = parts_of(own, CUTS["uneven"])
    before = source.content()
    list(source.map(sums, 0))
    value, own["y"][920] = own["y"][920], 7.0
    with pytest.raises(ValueError, match=r"rows changed between passes: part 7, .* row 919"):
        list(source.map(sums, 0))
    own["y"][920] = value
    assert source.content() == before == parts_of(own, [SIZE]).content()


def test_lengths_are_found_or_refused(arrays):
    def loader(start, stop):
        return lambda: {name: array[start:stop] for name, array in arrays.items()}

    parts = [loader(0, 10), loader(10, 10), loader(10, 1000)]
    source = LocalSource(parts)
    assert repr(source) == "Arrays, 3 parts, rows not counted yet, 4 columns"
    assert source.size == SIZE and source.lengths().tolist() == [10, 0, 990]
    assert source.content() == parts_of(arrays, [SIZE]).content()
    np.testing.assert_array_equal(source.receive(source.request([9, 10]))["k"], arrays["k"][9:11])
    source.close()
    with pytest.raises(ValueError, match="part 1, whose first is row 10, holds 0 rows, and 5 were"):
        list(LocalSource(parts, lengths=[10, 5, 985]).map(sums, 0))
    with pytest.raises(ValueError, match="lengths of 3 parts"):
        LocalSource(parts, lengths=[1000])


class Doubled:
    """Columns that are made of others, row by row; it counts of how many rows it was asked."""

    asked: ClassVar[list] = []

    def raw(self, data, parcel):
        return data

    def made(self, raw, parcel):
        self.asked.append(len(raw["y"]))
        return {"twice": 2.0 * raw["y"]}


def read_doubled(data, parcel):
    return parcel.origin.made(parcel.origin.raw(data, parcel), parcel)


def test_columns_are_made_of_the_rows_that_are_asked_for(arrays):
    """Not of whole parts, which other machines would make anew for each block of rows."""
    parcel = Parcel({"twice": SourceColumn(np.dtype(np.float32))}, read_doubled, Doubled())
    some = np.array([3, 500, 999])
    whole, _ = look(arrays, parcel, 0, 0, False)
    (taken,) = take(arrays, parcel, [0], [some])
    np.testing.assert_array_equal(taken.columns["twice"], 2.0 * arrays["y"][some])
    assert (taken.rows, taken.probe) == (whole.rows, whole.probe)
    assert Doubled.asked == [SIZE, PROBES + len(some)]
