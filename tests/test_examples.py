"""Every example runs as its docstring says, and writes what it promises."""

import csv
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COLUMNS = [
    "D", "distribution", "sigma", "selector", "variance", "delta", "draws", "errors", "error",
    "low", "high", "share_read", "us_per_draw", "regret_mean", "regret_max", "stopped_by",
]  # fmt: skip
FIGURES = {
    "figure1", "figure1_with_betting", "figure4", "figure5", "figure6", "figure6_with_betting",
    "figure7", "figure7_with_betting", "skewed",
}  # fmt: skip


def start(name, *options):
    """The example as a user starts it, from the folder above."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return subprocess.Popen(
        [sys.executable, str(Path("examples") / name), *options],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        # A test run started in the background ignores SIGINT, and its children would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip


def finished(process):
    """What it printed; it must have ended well."""
    try:
        printed = process.communicate(timeout=600)[0]
    finally:
        process.kill()
    assert process.returncode == 0, printed
    assert "Traceback" not in printed and "Warning" not in printed, printed
    return printed


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_hand_written_gibbs_visits_the_posterior():
    printed = finished(start("hand_written_gibbs.py", "--quick"))
    distances = [float(d) for d in re.findall(r"total variation.*?: ([\d.]+)", printed)]
    shares = [float(s) for s in re.findall(r"rewards read: ([\d.]+)%", printed)]
    # 3,000 sweeps are at about .04 of the posterior, the race's no further than Exact's: their
    # decisions differ in one of a hundred at most.
    assert len(distances) == 2 and max(distances) < 0.1, printed
    assert shares[0] == 100.0 and shares[1] < 60.0, printed


@pytest.mark.slow
def test_own_rule_keeps_its_promise_and_reads_less_than_everything():
    printed = finished(start("own_rule.py", "--quick"))
    table = re.findall(r"^(\w+) +(bounded|asymptotic) +([\d.]+) +([\d.]+)%$", printed, re.M)
    assert [row[0] for row in table] == [
        "HoeffdingSerfling", "BernsteinSerfling", "Betting", "Normal",
    ], printed  # fmt: skip
    assert all(float(error) <= 0.05 and float(share) < 30.0 for *_, error, share in table), printed


@pytest.mark.slow
def test_synthetic_stops_at_ctrl_c_goes_on_and_writes_everything(tmp_path):
    out = tmp_path / "synthetic"
    table = out / "results.csv"

    process = start("synthetic.py", "--quick", "--out", str(out))
    while process.poll() is None and (not table.exists() or table.read_text().count("\n") < 20):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert "Interrupted: start it again" in finished(process)
    before = rows_of(table)
    assert len(before) >= 19

    printed = finished(start("synthetic.py", "--quick", "--out", str(out)))
    assert f"{len(before)} cells are there already" in printed
    rows = rows_of(table)
    assert all(row in rows for row in before), "a finished cell was measured again"
    check_results(rows)
    for name in FIGURES:
        assert (out / f"{name}.png").stat().st_size > 10_000, name
    claims = (out / "claims.txt").read_text()
    assert claims.count("\n    holds: ") + claims.count("\n    does not hold: ") == 17
    assert "holds: 0 of 72 cells above" in claims  # Racing-EBS, which is proved

    other = start("synthetic.py", "--quick", "--seed", "1", "--out", str(out))
    assert "give another --out, or --fresh" in other.communicate(timeout=600)[0]
    assert other.returncode == 1 and rows_of(table) == rows


def check_results(rows):
    assert list(rows[0]) == COLUMNS
    # 9 populations of 4 selectors per D, 2 more at D = 10; 6 skewed ones of 3 rules; 2 deltas.
    assert len(rows) == 2 * (3 * 9 * 4 + 9 * 2 + 6 * 3)
    assert len({tuple(row[name] for name in COLUMNS[:6]) for row in rows}) == len(rows)
    for row in rows:
        errors, draws = int(row["errors"]), int(row["draws"])
        low, high = float(row["low"]), float(row["high"])
        assert 0 <= low <= errors / draws <= high <= 1
        assert math.isclose(float(row["error"]), errors / draws)
        assert 0 < float(row["share_read"]) <= 1
        assert (errors == 0) == math.isnan(float(row["regret_max"]))
        assert errors == 0 or 0 < float(row["regret_mean"]) <= float(row["regret_max"])
        width = float(row["delta"]) / 3
        assert row["stopped_by"] in ("interval", "draws", "time")
        assert (row["stopped_by"] == "interval") == (high - low < width)
        assert draws == 200 or row["stopped_by"] != "draws"


def test_printed_table1_is_whole():
    table = rows_of(ROOT / "examples" / "table1_printed.csv")
    assert len(table) == 39 and all(len(row) == 7 for row in table)
    assert table[0]["5e-05"] == "5.27250" and table[-1]["1e-02"] == "0.61783"
