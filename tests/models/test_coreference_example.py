"""The coreference example, run as a user would: by its arguments."""

import importlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import subsample_mcmc as sm

EXAMPLES = Path(__file__).parents[2] / "examples"
KEYS = ["f1", "evaluations", "seconds", "error_rate", "regret"]
FIGURES = ("f1.png", "decisions.png", "sizes.png")


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module("author_coreference")


def test_arguments_that_cannot_be_are_refused(example, capsys):
    for wrong in (["--scale", "0"], ["--sweeps", "0"], ["--warm", "--warm-sweeps", "0"]):
        with pytest.raises(SystemExit):
            example.main(wrong)
    assert "1 or more" in capsys.readouterr().err


@pytest.mark.slow
def test_quick_run_tells_and_draws_everything(example, tmp_path, capsys):
    out, summary = tmp_path / "out", tmp_path / "summary.json"
    example.main(["--quick", "--out", str(out), "--summary", str(summary)])
    printed = capsys.readouterr().out
    found = json.loads(summary.read_text())
    assert list(found) == ["exact", "paper", "ours"]
    for run in found.values():
        assert set(KEYS) <= set(run) and all(len(run[key]) == 2 for key in KEYS), run
    exact, paper, ours = (np.array([run[key] for key in KEYS]) for run in found.values())
    # Measured: 2.0 and 64 times fewer evaluations; F1 .910, and .910 of ours.
    assert np.all(exact[1] > 1.3 * paper[1]) and np.all(exact[1] > 40.0 * ours[1]), printed
    assert np.all(exact[0] > 0.88) and np.all(np.abs(ours[0] - exact[0]) < 0.02), printed
    assert np.all(exact[3] == 0.0) and np.all(paper[3] < 0.05) and np.all(ours[3] < 0.02), printed
    assert np.all(exact[2] > 0.0)
    for name in FIGURES:
        assert (out / name).stat().st_size > 10_000, name
    text = (out / "report.txt").read_text()
    assert all(line in printed for line in text.splitlines()), text
    table = pd.read_csv(out / "clusters.csv")
    assert list(table.columns[:3]) == ["block", "cluster", "size"] and "score" in table
    counts = table.groupby(["block", "cluster"])["size"].agg(["size", "first"])
    assert (counts["size"] == counts["first"]).all() and table["size"].min() > 1


@pytest.mark.slow
def test_mentions_without_labels_are_clustered_by_weights_of_an_earlier_run(
    example, tmp_path, capsys
):
    mentions = sm.models.coreference.simulate(400, seed=3)
    mentions.drop(columns="label").to_csv(tmp_path / "mentions.csv", index=False)
    score = sm.models.coreference.fit(sm.models.coreference.Mentions(mentions), bias=0.5)
    example.keep_weights(score, tmp_path / "weights.json")
    out, summary = tmp_path / "out", tmp_path / "summary.json"
    example.main([
        "--data", str(tmp_path / "mentions.csv"), "--weights", str(tmp_path / "weights.json"),
        "--sweeps", "6", "--seeds", "1", "--warm-sweeps", "2", "--scale", "2",
        "--out", str(out), "--summary", str(summary),
    ])  # fmt: skip
    printed = capsys.readouterr().out
    assert "no labels: there is no F1 to report" in printed and "bias +0.50" in printed, printed
    assert "Warm: 2 sweeps" in printed and "clustered are 800" in printed, printed
    found = json.loads(summary.read_text())
    assert all(run["f1"] is None for run in found.values())
    assert not (out / "f1.png").exists() and (out / "decisions.png").exists()
    kept = json.loads((out / "weights.json").read_text())
    np.testing.assert_allclose(kept["weights"], score.weights, rtol=0, atol=0)
