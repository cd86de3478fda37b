"""Programs of others, each in a process of its own: PyMHSS, of the authors of MH-SS, and NumPyro.

They need tensorflow and jax. PyMHSS's loops are Python: rows are counted as well as seconds. Its
posterior has no prior, which moves means by less than 10^-3 sd here. Settings are those of its
paper: kappa 1.5 for MH-SS and SMH, 2.4 for its random walk; for TunaMH a step that makes lambda
small.
"""

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from tests.benchmarks.peers.targets import Target

NAMES = ("MH-SS-1", "MH-SS-2", "SMH-1", "SMH-2", "TunaMH", "random walk")
KEPT = 20_000  # draws at most

PROGRAM = """
import contextlib, io, json, sys, time
import numpy as np
from PyMHSS import algorithms as made

found = np.load(sys.argv[1])
name, seconds = sys.argv[2], float(sys.argv[3])
x, y, mode, covariance = (found[k] for k in ("x", "y", "mode", "covariance"))
np.random.seed(1)

def call(draws):
    common = dict(V=covariance, x0=mode, nburn=0, npost=draws, model="logistic",
                  implementation="vectorised")
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        if name == "random walk":
            return made.RWM(y, x, kappa=2.4, **common)
        if name == "TunaMH":
            return made.MH_SS(y, x, control_variates=False, chi=1e-9, taylor_order=0,
                              phi_function="tuna", kappa=0.1, **common)
        order = int(name[-1])
        if name.startswith("SMH"):
            return made.SMH(y, x, kappa=1.5, bound="ChrisS", taylor_order=order, **common)
        return made.MH_SS(y, x, kappa=1.5, taylor_order=order, **common)

pilot = call(200)
draws = 2 * int(np.clip(seconds / pilot["cpu_time"] * 100, 100, KEPT / 2))  # it wants pairs
made_ = call(draws)
rows = made_.get("BoverN")
share = 1.0 if rows is None else float(np.mean(rows))
np.save(sys.argv[1] + ".npy", made_["parameters"])
print(json.dumps({"seconds": made_["cpu_time"], "rows": share * len(y),
                  "accepted": float(made_["acc_rate"])}))
"""


HMCECS = """
import json, sys
import numpy as np
from tests.benchmarks import tall_peers

found = np.load(sys.argv[1])
seconds = float(sys.argv[3])
x, y, mode, covariance = (found[k] for k in ("x", "y", "mode", "covariance"))

def call(draws):
    chain, ends = tall_peers.hamiltonian_chain(
        x, y, draws, draws, 1, mode, covariance, "HMC", tall_peers.BATCH)
    return chain, ends[-1] - ends[-2]

_, spent = call(50)
chain, spent = call(int(np.clip(seconds / spent * 50, 50, 20_000)))
rows = tall_peers.BATCH * float(chain[:, -1].mean() + 1)  # and those of blocks that are new
np.save(sys.argv[1] + ".npy", chain[:, :-1])
print(json.dumps({"seconds": spent, "rows": rows, "accepted": float("nan")}))
"""


def pymhss(python: str, name: str, x, target: Target, seconds: float):
    """(chain, seconds, rows a decision, accepted), or the reason why there is none."""
    return program(PROGRAM.replace("KEPT", str(KEPT)), python, name, x, target, seconds)


def hmcecs(python: str, name: str, x, target: Target, seconds: float):
    """The same of NumPyro's HMCECS, as `python -m tests.benchmarks.tall --peers` sets it up."""
    return program(HMCECS, python, name, x, target, seconds)


def program(text: str, python: str, name: str, x, target: Target, seconds: float):
    """What a program of its own finds; it reads data, name and seconds."""
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "data.npz")
        covariance = target.factor @ target.factor.T
        np.savez(place, x=x, y=target.y, mode=target.mode, covariance=covariance)
        known = [place, name, str(seconds)]
        command = [python or sys.executable, "-W", "ignore", "-c", text, *known]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        except subprocess.TimeoutExpired:
            return "not done in ten minutes"
        if done.returncode < 0:
            how = signal.Signals(-done.returncode).name
            return f"ended by {how}" + (" (out of memory?)" if how == "SIGKILL" else "")
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
            missing = last.rpartition("No module named ")[2].strip("'")
            return f"{missing} is not installed" if "ModuleNotFoundError" in last else last[:60]
        told = json.loads(done.stdout.strip().splitlines()[-1])
        return np.load(place + ".npy"), told["seconds"], told["rows"], told["accepted"]
