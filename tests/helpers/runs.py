"""One tiny model and its kernel, shared by the tests that run chains: compiled once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.kernels.compose import CycleTools

N = 300
STEP = 0.3  # a global that the likelihood reads


def offset(k):
    return STEP * k


def log_likelihood(state, data, n):
    if n == data.bad and state.theta[0] > data.limit:
        return np.nan
    z = data.y[n] - state.theta[0] - state.theta[1] * data.x[n] - offset(state.k[0])
    return -0.5 * z * z


def log_prior(state):
    if state.theta[1] > 50.0:
        return np.nan
    return -0.5 * (state.theta[0] * state.theta[0] + state.theta[1] * state.theta[1])


def data(limit=np.inf, bad=17):
    """Beyond the limit, the likelihood of one datum is nan."""
    rng = np.random.default_rng(20)
    x = rng.normal(size=N)
    return {"y": 0.5 + 0.2 * x + rng.normal(size=N), "x": x, "limit": limit, "bad": bad}


def model(**changes):
    given = {
        "log_likelihood": log_likelihood, "data": data(),
        "state": {"k": 1, "theta": np.array([0.2, 0.1])}, "log_prior": log_prior,
        "support": {"k": 3},
    }  # fmt: skip
    return sm.Model(**(given | changes))


RACING = sm.Racing(batch=16, retreat=False)  # reads on where it would not pay, on so few data


def kernel(first=RACING, second=None, scale=0.1):
    """A raced discrete block, and an adapted one whose decisions are exact."""
    return sm.Gibbs("k", first) >> sm.Metropolis("theta", scale, selector=second or sm.Exact())


class Reading(sm.Taylor):
    """A control variate that fails as soon as it passes over the data."""

    def prepare(self, model):
        raise AssertionError("the data are read")


def reading_kernel():
    """A kernel that passes over the data before anything compiles."""
    return sm.Metropolis("theta", control=Reading({"theta": model().floats})) >> sm.Gibbs("k")


def run(draws=60, warmup=40, chains=2, seed=1, **more):
    """A run of the model, quiet unless told."""
    spec = {"model": model(), "kernel": kernel(), "progress": False} | more
    return sm.sample(draws=draws, warmup=warmup, chains=chains, seed=seed, **spec)


def resumed(path, draws=None, **more):
    """Go on with a run of the model."""
    spec = {"model": model(), "kernel": kernel(), "progress": False} | more
    return sm.resume(path, draws=draws, **spec)


def same(a, b, head=None, chains=None):
    """Are all draws and statistics of two traces equal, bit for bit.

    head: of the first draws; chains: which of those of b are compared with those of a.
    """
    for one, other in zip(a._arrays, b._arrays, strict=True):
        other = other if chains is None else other[chains]
        if head is not None:
            one, other = one[:, :head], other[:, :head]
        if one.shape != other.shape or one.tobytes() != other.tobytes():
            return False
    return a.layout == b.layout


def same_states(a, b):
    """Are the checkpoints of two traces equal, bit for bit."""
    for one, other in zip(a._checkpoints, b._checkpoints, strict=True):
        if one.keys() != other.keys():
            return False
        if any(one[k].tobytes() != other[k].tobytes() for k in one):
            return False
    return True


def environment():
    """For a process that shall find the package and the tests."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def writable(folder):
    """Can a file be made there."""
    return os.access(folder, os.W_OK)


def plain(meta):
    """A header as it is after JSON."""
    return json.loads(json.dumps(meta))


def run_script(folder, text):
    """A script run by itself, which imports the package and the tests; warnings are errors."""
    (folder / "script.py").write_text(text)
    return subprocess.run(
        [sys.executable, "-W", "error", "script.py"], cwd=folder, env=environment(),
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def tools_of(walker):
    """What the kernel of a chain works with; of a cycle, a list of what its parts do."""

    def opened(about):
        parts = about.record
        return [opened(one) for one in parts.tools] if isinstance(parts, CycleTools) else parts

    return opened(walker.main.tools)


def in_plain_python(module, call):
    """What a function of a module of tests returns without the JIT, in a process of its own."""
    code = f"import json, {module} as t; print(json.dumps(t.{call}()))"
    made = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False,
        cwd=Path(__file__).resolve().parents[2], env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)
