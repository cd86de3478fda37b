"""Every example runs as its docstring says, and writes what it promises."""

import csv
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import subsample_mcmc as sm
from tests.helpers.claims import at_most

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
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYTHONWARNINGS": "ignore::FutureWarning",  # arviz 0.x announces its own, once a day
        },
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


# Posterior means and standard deviations of InstEval, all effects integrated out in closed form,
# by a random walk over what is left (2,000 steps): known to .1 standard deviations.
INSTEVAL = {
    "sd_s": (0.3254, 0.0067), "sd_d": (0.5150, 0.0128), "sd_dept": (0.0955, 0.0275),
    "sd_y": (1.1771, 0.0031), "intercept": (3.2845, 0.0332), "service": (-0.0916, 0.0140),
}  # fmt: skip
RATINGS = ROOT.parent / "shared" / "data" / "crossed_effects" / "insteval.csv.gz"


@pytest.mark.slow
@pytest.mark.skipif(not RATINGS.is_file(), reason=f"needs {RATINGS}")
def test_crossed_effects_of_real_ratings(tmp_path):
    file = tmp_path / "summary.json"
    finished(start("crossed.py", "--data", str(RATINGS), "--summary", str(file), "--draws", "2000"))
    found = json.loads(file.read_text())
    assert list(found) == list(INSTEVAL)
    for name, (mean, sd) in INSTEVAL.items():
        assert abs(found[name][0] - mean) < 0.45 * sd, name
        assert 0.7 * sd < found[name][1] < 1.4 * sd, name


@pytest.mark.slow
def test_own_rule_keeps_its_promise_and_reads_less_than_everything():
    printed = finished(start("own_rule.py", "--quick"))
    table = re.findall(r"^(\w+) +(bounded|asymptotic) +([\d.]+) +([\d.]+)%$", printed, re.M)
    assert [row[0] for row in table] == [
        "HoeffdingSerfling", "BernsteinSerfling", "Betting", "Normal",
    ], printed  # fmt: skip
    assert all(float(error) <= 0.05 and float(share) < 30.0 for *_, error, share in table), printed


@pytest.mark.slow
def test_own_strategy_needs_a_third_of_the_pulls_of_the_next_best():
    printed = finished(start("own_strategy.py", "--quick"))
    found = re.findall(r"^(\S+) +bounded +([\d,]+) \+- .* (\S+) \(", printed, flags=re.MULTILINE)
    pulls = {name: int(mean.replace(",", "")) for name, mean, _ in found}
    assert list(pulls) == ["KLLUCB", "LUCB", "LUCB++"]
    assert 3 * pulls["KLLUCB"] < min(pulls["LUCB"], pulls["LUCB++"])
    assert float(found[0][2]) == 0.0  # at delta .05: no error in 40 runs


@pytest.mark.slow
def test_own_selector_decides_as_exact_does_and_reads_less():
    printed = finished(start("own_selector.py", "--quick"))
    table = re.findall(r"^(\w+) +(exact|asymptotic) +([\d.]+)% +(\d+)$", printed, re.M)
    assert [row[0] for row in table] == ["Exact", "Abandoning", "Racing"], printed
    exact, abandoning = ([float(v) for v in row[2:]] for row in table[:2])
    assert exact == [100.0, 0.0] and abandoning[0] < 90.0 and abandoning[1] == 0.0, printed


@pytest.mark.slow
def test_own_control_reads_less_the_finer_it_is_and_agrees():
    printed = finished(start("own_control.py", "--quick"))
    rows = re.findall(r"^\S.*? +([\d.]+)% +(\d+) of ([\d,]+) +([\d.]+)$", printed, re.M)
    assert len(rows) == 3, printed
    shares, means = [float(row[0]) for row in rows], [float(row[3]) for row in rows]
    assert shares[2] < 0.3 * shares[1] < 0.3 * shares[0], printed
    for _, wrong, audited, _ in rows:
        at_most(int(wrong), int(audited.replace(",", "")), 0.05)
    assert max(means) - min(means) < 0.01, printed  # two sd of the posterior


@pytest.mark.slow
def test_ask_and_tell_goes_on_where_it_died(tmp_path):
    printed = finished(start("ask_and_tell.py", "--out", str(tmp_path)))
    assert "died after 40 trainings" in printed
    assert "best rate: 1\n" in printed
    assert "stopped by own rule" in printed
    assert "the same without dying: True" in printed


@pytest.mark.slow
def test_mixture_finds_the_posterior_that_it_has_without_labels():
    printed = finished(start("mixture.py"))
    rows = re.findall(
        r"^\w+\[\d\] +([-\d.]+) +([-\d.]+) ± ([\d.]+) +(\d+) +([-\d.]+) ± ([\d.]+) +(\d+)$",
        printed, re.M,
    )  # fmt: skip
    assert len(rows) == 9, printed
    for row in rows:
        truth, mean, sd, ess, other, other_sd, other_ess = map(float, row)
        error = math.hypot(sd / ess**0.5, other_sd / other_ess**0.5)
        assert ess > 50 and abs(mean - other) < 5.0 * error, printed
        assert abs(mean - truth) < 4.0 * sd and 0.7 < sd / other_sd < 1.4, printed
    assert "rewards read by a sweep, per label: 3\n" in printed


@pytest.mark.slow
def test_change_point_finds_the_enumerated_posterior():
    printed = finished(start("change_point.py"))
    found = re.findall(r"(cumulative sum|race) +([\d,]+) +([\d.]+)% .* ([\d.]+)$", printed, re.M)
    assert [row[0] for row in found] == ["cumulative sum", "race"], printed
    # 2,000 draws are at .07 of a distribution that is spread over some 60 positions.
    assert all(float(distance) < 0.15 for *_, distance in found), printed
    assert found[0][1] == "40,000" and float(found[1][2]) < 80.0, printed


@pytest.mark.slow
def test_ising_hub_is_decided_from_few_edges_where_it_is_strong():
    printed = finished(start("ising_hub.py"))
    rows = re.findall(r"^ +([\d.]+) +([\d.]+)% +(\d+) of (\d+) +([\d.]+)% +[\d.]+%$", printed, re.M)
    strength, read, wrong, audited, changes = np.array(rows, dtype=float).T
    assert list(strength) == [0.01, 0.03, 0.1, 0.3, 1.0] and set(audited) == {400.0}, printed
    assert np.all(wrong <= 0.04 * audited), printed  # delta is .01
    assert read[0] > 90.0 and read[-1] < 5.0 and changes[0] > 50.0 and changes[-1] == 0.0, printed
    assert "leaf: Gibbs moves leaf; Exact(); guarantee: exact (at most 3 data per site" in printed


WAYS = ["exact", "race", "race + Taylor", "proved + Taylor", "exact + Taylor"]
AUTOCORRELATION = (1.0 + 0.75**0.5) / (1.0 - 0.75**0.5)  # time of a pcn of beta .5 at home: 13.9


def tall_logistic(*options):
    """(printed, ways: accepted, data read and no data as shares; coefficients) of the example."""
    printed = finished(start("tall_logistic.py", *options))
    rows = re.findall(
        r"^(exact|race|(?:race|proved|exact) \+ Taylor) +([\d,]+) +([\d.]+)% +([\d.]+)% +([\d.]+)%"
        r" +([\d,.]+) +([\d,]+)$", printed, re.M,
    )  # fmt: skip
    assert [row[0] for row in rows] == WAYS, printed
    ways = {name: [float(v.replace(",", "")) for v in values] for name, *values in rows}
    number = r"(-?[\d.]+)"
    found = re.findall(
        rf"^(\w.*?) +{number}, {number} +{number}, {number} +{number}, {number}$", printed, re.M
    )
    return printed, ways, {name: np.array(values, dtype=float) for name, *values in found}


def means_agree(ways, found, printed, curvature):
    """Means within 5 Monte Carlo errors: exact and raced ones, and the fit's with its own error.

    curvature: how far the mean may lie from the mode, in posterior standard deviations.
    """
    few, many = (ways[way][0] / AUTOCORRELATION for way in ("exact", "race + Taylor"))
    for mode, sd, exact, _, raced, raced_sd in found.values():
        assert abs(exact - raced) < 5.0 * sd * (1.0 / few + 1.0 / many) ** 0.5 + 1e-4, printed
        assert abs(raced - mode) < (5.0 / many**0.5 + curvature) * sd + 1e-4, printed
        assert 0.9 < raced_sd / sd < 1.1, printed


@pytest.mark.slow
def test_tall_logistic_needs_next_to_no_data(tmp_path):
    printed, ways, found = tall_logistic("--out", str(tmp_path / "figure.png"))
    assert printed.startswith("200,000 rows, 5 coefficients; 28.4% are 1\n"), printed
    assert list(found) == ["one", "x1", "x2", "x3", "x4"], printed
    means_agree(ways, found, printed, 0.05)
    for truth, (mode, sd, *_) in zip((-1.0, 0.5, 0.25, -0.25, 0.1), found.values(), strict=True):
        assert abs(truth - mode) < 5.0 * sd, printed
    draws, accepted, read, without, time, ess = np.array([ways[way] for way in WAYS]).T
    # One proposal in 32 is a defensive one, half of them random walks, which are mostly rejected.
    assert np.all(accepted > 96.0) and draws[0] == draws[1] and draws[2] == 40_000, printed
    # Exact sums are remembered: two in the first draw, then one, of the two that a draw may read.
    assert 50.0 < read[0] < 51.0 and read[1] > 40.0 and list(without[:2]) == [0.0, 0.0], printed
    assert np.all(read[2:] < 1.0) and np.all(without[2:] > 90.0), printed
    assert read[2] < 1e-3 * read[0] and np.all(time > 0.0) and np.all(ess > 0.0), printed
    assert f"wrote {tmp_path / 'figure.png'}" in printed
    assert (tmp_path / "figure.png").stat().st_size > 10_000


FLIGHTS = ROOT.parent / "shared" / "data" / "hflights_2011"


@pytest.mark.slow
@pytest.mark.skipif(not FLIGHTS.exists(), reason="needs the flights of 2011 beside the project")
def test_tall_logistic_of_flights(tmp_path):
    """Rare carriers have coefficients that are far from Gaussian: up to .1 sd from the mode."""
    pytest.importorskip("pandas")
    options = ("--data", str(FLIGHTS), "--out", str(tmp_path / "figure.png"))
    printed, ways, found = tall_logistic(*options)
    assert printed.startswith("223,874 rows, 23 coefficients; 19.8% are 1\n"), printed
    assert len(found) == 23 and "carrier YV" in found, printed
    means_agree(ways, found, printed, 0.1)
    _, accepted, read, without, time, ess = np.array([ways[way] for way in WAYS]).T
    assert np.all(accepted > 80.0) and read[2] < 5.0 and without[2] > 50.0, printed
    assert read[2] < 0.1 * read[0] and np.all(time > 0.0) and np.all(ess > 0.0), printed
    assert (tmp_path / "figure.png").stat().st_size > 10_000


ARCH_FIGURES = {
    "returns", "wang_landau", "adjusted_posterior", "autocorrelation", "control_variates",
}  # fmt: skip


@pytest.mark.slow
def test_arch_chooses_an_order_from_few_data(tmp_path):
    out, summary = tmp_path / "arch", tmp_path / "summary.json"
    printed = finished(
        start(
            "arch_model_selection.py",
            "--quick",
            "--both",
            "--output",
            str(out),
            "--summary",
            str(summary),
        )
    )
    assert printed.startswith("13,702 simulated returns"), printed
    for name in ARCH_FIGURES:
        assert (out / f"{name}.png").stat().st_size > 10_000, name
    found = json.loads(summary.read_text())
    assert list(found) == ["orders", "raced", "exact"] and found["orders"][-1] == 30
    raced, exact = found["raced"], found["exact"]
    assert list(raced) == list(exact) == [
        "log_posterior", "log_posterior_se", "share_read", "errors", "ess_per_second",
        "ess_per_million_evaluations", "seconds",
    ]  # fmt: skip
    gap, error = (
        np.array([run[key] for run in (raced, exact)])
        for key in ("log_posterior", "log_posterior_se")
    )
    assert np.all(np.abs(gap[0] - gap[1]) < 5.0 * np.hypot(*error)), printed
    # With 3,000 data .31 against .73, measured; 2,000 draws tell an ESS too badly to compare.
    assert raced["share_read"] < 0.6 * exact["share_read"], printed
    for run in (raced, exact):
        assert run["ess_per_million_evaluations"] > 1.0 and run["ess_per_second"] > 0.0, printed
    assert list(raced["errors"]) == ["q", "theta", "theta_2"]
    assert all(rate <= upper <= 1.0 and rate < 0.05 for rate, upper in raced["errors"].values())
    text = (out / "report.txt").read_text()
    assert all(line in printed for line in text.splitlines()), text
    for nats in ("2", "0.5"):
        assert f"Wang-Landau from zero, raced: within {nats} nats" in text, text
    loaded = sm.load(out / "raced.nc")
    assert loaded.shape == (2, 1_000) and hasattr(loaded.to_arviz(), "posterior")


@pytest.mark.slow
def test_arch_reads_bars(tmp_path):
    """Days of a fifth of the simulated year, as prices."""
    returns = 1e-3 * sm.models.arch.example_returns(3_000)
    days, each = divmod(np.arange(3_001), 75)
    lines = ["Date,Time,Close"]
    for day, bar, price in zip(days, each, 100.0 * np.exp(np.cumsum([0.0, *returns])), strict=True):
        date = np.datetime64("2016-01-04") + day
        lines.append(f"{date},{9 + bar // 12:02d}:{5 * (bar % 12):02d},{price:.6f}")
    path, out = tmp_path / "bars.csv", tmp_path / "arch"
    path.write_text("\n".join(lines) + "\n")
    options = ("--data", str(path), "--year", "2016", "--quick", "--output", str(out))
    printed = finished(start("arch_model_selection.py", *options))
    assert "40 overnight returns dropped" in printed and "basis points" in printed, printed
    assert (out / "raced.nc").exists() and not (out / "exact.nc").exists()

    process = start("arch_model_selection.py", *options[:2], "--year", "2015")
    assert "has no bars of 2015" in process.communicate(timeout=600)[0]
    assert process.returncode == 1


@pytest.mark.slow
def test_own_kernel_agrees_with_metropolis_and_mixes_better():
    printed = finished(start("own_kernel.py"))
    rows = re.findall(r"^(?:own kernel|Metropolis) +(.*)$", printed, re.M)
    own, walk = ([float(v.replace(",", "")) for v in row.split()] for row in rows)
    for k in (0, 3):  # mean, sd and ESS of mu, then of sigma
        error = math.hypot(own[k + 1] / own[k + 2] ** 0.5, walk[k + 1] / walk[k + 2] ** 0.5)
        assert abs(own[k] - walk[k]) < 5.0 * error + 0.001, printed  # printed to .001
        assert abs(own[k + 1] - walk[k + 1]) < 0.1 * walk[k + 1], printed
    assert own[2] > 2.0 * walk[2] and own[6] == walk[6] == 4_000.0, printed
    moved, expected = map(float, re.findall(r"([\d.]+) sd; .*: ([\d.]+)", printed)[0])
    assert abs(moved - expected) < 0.05, printed


@pytest.mark.slow
def test_arviz_reads_what_was_sampled():
    printed = finished(start("arviz_in_five_lines.py"))
    rows = re.findall(
        r"truth ([\d.]+), mean ([\d.]+), rhat ([\d.]+), ESS (\d+), as (.*)$", printed, re.M
    )
    assert len(rows) == 2, printed
    for truth, mean, rhat, ess, same in rows:
        assert abs(float(mean) - float(truth)) < 0.2 and same == "in the file: True", printed
        assert float(rhat) < 1.02 and float(ess) > 500.0, printed


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


def test_rows_in_files(tmp_path):
    """Coefficients within six standard deviations of those that the rows were drawn with."""
    pytest.importorskip("pyarrow", reason="needs pyarrow: `make clusters`")
    printed = finished(start("billion_rows.py", "--quick", "--folder", str(tmp_path)))
    found = re.findall(r"^beta\[x\d\] +(\S+) +(\S+)", printed, re.MULTILINE)
    mean, sd = np.array(found, dtype=float).T
    assert np.all(np.abs(mean - [-1.0, 0.5, -0.5, 0.25, 0.1]) < 6.0 * sd) and np.all(sd < 0.01)
    (without,) = re.findall(r"decisions without a row: ([\d.]+)%", printed)
    assert (
        float(without) > 99.0
        and "Parquet" not in printed
        and len(list(tmp_path.glob("*.parquet"))) == 1
    )
    assert "10,000 rows appended" in printed and (tmp_path / "learnt.npz").exists()
