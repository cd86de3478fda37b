"""subsample-mcmc compile: after it a new model compiles its own functions, and nothing else."""

import os
import shutil
import subprocess
import sys

import pytest

from subsample_mcmc.cli import engine
from subsample_mcmc.cli.main import main
from subsample_mcmc.numerics.jit import DISABLED

ENGINE = "SUBSAMPLE_MCMC_TESTS_ENGINE"
compiled_only = pytest.mark.skipif(DISABLED, reason="nothing is compiled")

NEW_MODEL = """
import sys
import numpy as np
from numba.core.event import install_recorder
import subsample_mcmc as sm

def likelihood(state, data, n):
    return -2.0 * abs(data.y[n] - state.mu[0]) / state.sigma[0] - sm.log(state.sigma[0])

y = np.random.default_rng(0).standard_normal(4_000)
model = sm.Model(
    likelihood, {"y": y}, {"mu": 0.0, "sigma": 1.0}, lambda state: -2.0 * state.sigma[0],
    constraints={"sigma": sm.positive},
)
sure = sm.Racing(sm.Betting(spread=50.0))
kernel = sm.repeat(sm.Metropolis("mu"), 3) >> sm.Slice("sigma", selector=sure)
kernel >>= sm.mixture((sm.Langevin("mu"), 0.5), (sm.Metropolis("mu", selector=sm.Exact()), 0.5))

def pull(arm, rng):
    return 2.0 * arm

def similarity(data, i, j):
    return 2.0 - abs(data.y[i] - data.y[j])

records = sm.Model(None, {"y": y[:100]}, {"y": np.arange(100)}, support={"y": 100})
for work in (
    lambda: sm.sample(model, kernel, draws=5, warmup=5, chains=1, seed=1, progress=False),
    lambda: sm.identify(pull, 3, sm.LilUCB(scale=1.0), max_pulls=500, seed=1, progress=False),
    lambda: sm.sample(records, sm.GibbsPartition("y", similarity), draws=5, chains=1, seed=1,
                      warmup=5, progress=False),
):
    with install_recorder("numba:compile") as recorder:
        work()
    print(sorted({event.data["dispatcher"].__name__ for _, event in recorder.buffer}))
"""


def process(command, cache):
    """What a process prints, with a cache of its own."""
    given = os.environ | {"SUBSAMPLE_MCMC_CACHE": str(cache)}
    return subprocess.run(command, env=given, capture_output=True, text=True, check=False)


@compiled_only
@pytest.mark.slow
def test_a_new_model_compiles_its_own_functions_only(tmp_path):
    """ENGINE: a folder that `subsample-mcmc compile` has filled, and nothing else; CI has one."""
    cache = tmp_path / "cache"
    if made := os.environ.get(ENGINE):
        shutil.copytree(made, cache)
    else:
        done = process([sys.executable, "-m", "subsample_mcmc", "compile"], cache)
        assert done.returncode == 0, done.stderr
        count = len(engine.UNITS)
        assert done.stdout.startswith(f"{count} of {count} parts in ")
    told = process([sys.executable, "-W", "ignore", "-c", NEW_MODEL], cache)
    assert told.returncode == 0, told.stderr
    sampled, pulled, scored = told.stdout.splitlines()
    own = ["<lambda>", "add", "likelihood", "read", "value"]
    assert sampled == str(own), told.stderr
    assert pulled == str(["pull", "read"])
    # `loop` and `pair` call it with every look-up checked, before it is used.
    assert scored == str(["each", "fill", "loop", "pair", "similarity"])


@pytest.mark.slow
def test_a_unit_that_fails_is_named(monkeypatch, capfd, tmp_path):
    monkeypatch.setenv("SUBSAMPLE_MCMC_CACHE", str(tmp_path))
    monkeypatch.setattr(engine, "UNITS", {"none such": None, "nor this": None})
    monkeypatch.setattr(engine, "DISABLED", False)
    assert main(["compile"]) == 1
    out, error = capfd.readouterr()
    assert out.startswith("0 of 2 parts in ")
    for name in ("none such", "nor this"):
        assert f"subsample-mcmc: {name}: KeyError: '{name}'" in error
    assert "compiling the engine, once per machine" in error


@pytest.mark.slow
def test_a_process_that_dies_is_told_of_and_replaced(monkeypatch, capfd, tmp_path):
    monkeypatch.setenv("SUBSAMPLE_MCMC_CACHE", str(tmp_path))
    monkeypatch.setattr(engine, "UNITS", {"one": None, "another": None})
    monkeypatch.setattr(engine, "DISABLED", False)
    monkeypatch.setattr(engine, "FROM_INPUT", "no such unit")
    assert main(["compile", "--jobs", "1"]) == 1
    error = capfd.readouterr().err
    assert error.count("invalid choice: 'no such unit'") == 2


def test_where_no_process_can_be_begun(monkeypatch, capfd, tmp_path):
    def full(*given, **more):
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setenv("SUBSAMPLE_MCMC_CACHE", str(tmp_path))
    monkeypatch.setattr(engine, "UNITS", {"one": None, "another": None})
    monkeypatch.setattr(engine, "DISABLED", False)
    monkeypatch.setattr(engine.subprocess, "Popen", full)
    assert main(["compile", "--jobs", "2"]) == 1
    error = capfd.readouterr().err
    for name in ("one", "another"):
        assert f"subsample-mcmc: {name}: BlockingIOError: [Errno 11] Resource" in error


@pytest.mark.parametrize("jobs", ["0", "-2"])
def test_no_process_makes_nothing(monkeypatch, capfd, tmp_path, jobs):
    monkeypatch.setenv("SUBSAMPLE_MCMC_CACHE", str(tmp_path))
    monkeypatch.setattr(engine, "DISABLED", False)
    assert main(["compile", "--jobs", jobs]) == 1
    assert f"--jobs={jobs}: give how many, at least 1" in capfd.readouterr().err


@pytest.mark.parametrize("where", ["off", "/dev/null/none"])
def test_nowhere_to_keep_it(monkeypatch, capfd, where):
    monkeypatch.setenv("SUBSAMPLE_MCMC_CACHE", where)
    assert main(["compile"]) == 1
    assert "let SUBSAMPLE_MCMC_CACHE be a folder" in capfd.readouterr().err


@compiled_only
@pytest.mark.slow
def test_units_run(tmp_path):
    """The shortest one, in a process as the command starts it."""
    done = process([sys.executable, "-m", "subsample_mcmc", "compile", "--unit", "draws"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("*.bin"))) > 20
