"""Columns of one part after the other are made in the same memory, and say what they would anew."""

import threading
from functools import partial

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.taylor.predictor_chunks import Keep
from subsample_mcmc.target.sources import parts
from subsample_mcmc.target.sources.local import LocalSource, parts_of
from subsample_mcmc.target.sources.parts import PassRoom

CUT = [700, 0, 1, 1299, 500]


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((sum(CUT), 3)).astype(np.float32)
    return {"x": x, "y": (rng.random(len(x)) < 0.5).astype(np.float32)}


def apart(columns):
    """The same, each coefficient a column of its own."""
    return {"a": columns["x"][:, 0], "b": columns["x"][:, 1:], "y": columns["y"]}


@pytest.mark.parametrize("made", [dict, apart])
def test_parts_are_read_into_the_same_memory(columns, made):
    source = sm.models.glm.logistic(parts_of(made(columns), CUT), "y").elsewhere.source
    parcel, first, seen = source.parcel(), 0, []
    for part, rows in zip(source.parts, CUT, strict=True):
        found = parcel.read(part, parcel)
        for name, wanted in columns.items():
            np.testing.assert_array_equal(found[name], wanted[first : first + rows])
        seen += [found["x"]] if rows > 1 else []
        first += rows
    assert len(seen) == 3
    assert np.shares_memory(seen[1], seen[2])  # the second is the largest: new room was made for it
    assert not any(np.shares_memory(one, columns["x"]) for one in seen)
    other = []
    thread = threading.Thread(target=lambda: other.append(parcel.read(source.parts[0], parcel)))
    thread.start()
    thread.join()
    assert not np.shares_memory(other[0]["x"], seen[2])


@pytest.mark.parametrize("made", [dict, apart])
def test_rows_that_are_fetched_are_their_own(columns, made):
    source = sm.models.glm.logistic(parts_of(made(columns), CUT), "y").elsewhere.source
    rows = np.arange(0, sum(CUT), 7)
    one = source.receive(source.request(rows))
    list(source.looks(range(source.count)))
    source.receive(source.request(rows[:-1] + 1))
    np.testing.assert_array_equal(one["x"], columns["x"][rows])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("made", [dict, apart])
def test_parts_that_are_kept_are_their_own(columns, made, threads):
    """Of files, what was made of a part stays for the next rows, while others are read."""
    given = parts_of(made(columns), CUT)
    parts = [partial(given.load, part) for part in range(given.count)]
    source = sm.models.glm.logistic(LocalSource(parts, threads=threads), "y").elsewhere.source
    rng = np.random.default_rng(5)
    for _ in range(4):
        rows = np.sort(rng.choice(sum(CUT), 300, replace=False))
        found = source.receive(source.request(rows))
        list(source.looks(range(source.count)))
        for name, wanted in columns.items():
            np.testing.assert_array_equal(found[name], wanted[rows])
    assert len(source._loaded) > 1


def test_room_is_kept_up_to_a_size(monkeypatch):
    room, some = PassRoom(), [np.zeros((30, 2)), np.zeros((10, 2))]
    one, other = room.of("x", some, 0), room.of("x", some[:1], 0)
    assert one.shape == (40, 2) and other.shape == (30, 2) and np.shares_memory(one, other)
    assert not np.shares_memory(one, room.of("y", some, 0))
    assert room.of("z", [np.zeros((5, 1), np.int32), np.zeros((5, 2))], 1).dtype == np.float64
    monkeypatch.setattr(parts, "KEPT_BYTES", 100)
    large = room.of("w", some, 0)
    assert not np.shares_memory(large, room.of("w", some, 0))


def test_weights_that_are_all_alike_are_made_once():
    """And others are their own."""
    keep = Keep(np.array([700]))
    one, other = keep(0, 600), keep(100, 500)
    assert one.min() == other.min() == 1.0 and np.shares_memory(one, other)
    some = keep(512, 768)
    assert some.sum() == 255.0 and some[188] == 0.0 and not np.shares_memory(some, one)
    assert Keep(np.array([700]), others=False)(0, 600).max() == 0.0
