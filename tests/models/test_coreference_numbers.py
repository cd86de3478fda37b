"""Gaps in years, control variates of tuned biases, and copies of mentions."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from subsample_mcmc.models import coreference as co
from subsample_mcmc.models.coreference import pair_score


def test_a_gap_does_not_grow_beyond_twenty_years():
    frame = pd.DataFrame({"block": ["j smith"] * 3, "authors": ["J. Smith"] * 3,
                          "title": ["one two"] * 3, "year": [1950, 1965, 2010]})  # fmt: skip
    mentions, found = co.Mentions(frame), np.empty(len(co.FEATURES))
    at, data = co.FEATURES.index("decades apart"), co.PairScore(np.zeros(17)).data(mentions)
    for (i, j), wanted in {(0, 1): 1.5, (1, 2): 2.0, (0, 2): 2.0}.items():
        co.features(SimpleNamespace(**data), i, j, found)
        assert found[at] == pytest.approx(wanted)


def test_control_variates_of_tuned_biases_are_moved_by_what_they_differ(monkeypatch):
    """From the bias that they were fitted at, the middle one; and with them all their levels."""
    mentions = co.Mentions(co.simulate(60, seed=3))
    score, seen = co.PairScore(np.zeros(17)), []
    monkeypatch.setattr(co.PairScore, "control", lambda self, learn: self.bias)
    monkeypatch.setattr(pair_score, "moved", lambda control, bias: seen.append((control, bias)))
    labels = np.zeros((4, 1, mentions.size), dtype=int)
    monkeypatch.setattr(
        pair_score, "sample", lambda *given, **more: SimpleNamespace(draws={"y": labels})
    )
    score.tuned(mentions, biases=(0.5, 1.5, 4.0))
    assert seen == [(2.0, -1.5), (2.0, -0.5), (2.0, 2.0)]
    monkeypatch.undo()
    monkeypatch.setattr(pair_score, "replace", lambda control, **changes: changes)
    control = SimpleNamespace(constant=0.25, edges=(-1.0, 2.0))
    found = pair_score.moved(control, 0.5)
    assert found["constant"] == 0.75 and found["edges"].tolist() == [-0.5, 2.5]


def test_copies_of_mentions_have_words_of_their_own_block():
    """And coauthors, of whoever has the same name."""
    rows = [("j smith", "J. Smith", "alpha beta", "A. Jones"),
            ("j smith", "J. Smith", "gamma delta", "B. Brown"),
            ("w wang", "W. Wang", "red green", "C. Clark"),
            ("w wang", "W. Wang", "blue grey", "D. Dunn")]  # fmt: skip
    frame = pd.DataFrame({"block": [r[0] for r in rows], "title": [r[2] for r in rows],
                          "authors": [f"{r[1]}, {r[3]}" for r in rows]})  # fmt: skip
    big = co.scale(frame, 60, seed=1)
    for block in ("j smith", "w wang"):
        mine, all_of = frame[frame.block == block], big[big.block == block]
        words = set(" ".join(mine.title).split()) | {"the"}
        names = set(", ".join(mine.authors).split(", "))
        assert set(" ".join(all_of.title).split()) <= words
        assert set(", ".join(all_of.authors).split(", ")) <= names
    assert {"beta", "delta"} <= set(" ".join(big.title[:60]).split())  # others' words are added
