"""A regression on more rows than memory needs to hold: columns mapped from files.

    python examples/analyses/out_of_memory.py [rows]

Fit and sums read the files once each, in order; after that a decision reads the few rows that it
needs. Of a hundred million rows nothing else changes.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import subsample_mcmc as sm

TERMS = ["intercept", "distance", "weekend", "rain"]


def written(folder, size=2_000_000, piece=500_000):
    """Columns in two files, x.npy and late.npy, written piece by piece."""
    rng = np.random.default_rng(8)
    create = np.lib.format.open_memmap
    x = create(folder / "x.npy", "w+", np.float32, (size, len(TERMS)))
    late = create(folder / "late.npy", "w+", np.int8, (size,))
    for i in range(0, size, piece):
        part = rng.standard_normal((min(piece, size - i), len(TERMS)))
        part[:, 0] = 1.0
        x[i : i + piece] = part
        eta = x[i : i + piece] @ np.array([-1.5, 0.3, -0.2, 0.5])
        late[i : i + piece] = rng.random(len(part)) < 1.0 / (1.0 + np.exp(-eta))
    return folder


def log_odds(state, data, n):
    eta = 0.0
    for j in range(len(state.beta)):
        eta += data.x[n, j] * state.beta[j]
    return eta


def log_likelihood(state, data, n):
    eta = log_odds(state, data, n)
    return data.late[n] * eta - sm.softplus(eta)


def simulate(rng, state, data, n):
    return rng.random() < 1.0 / (1.0 + sm.exp(-log_odds(state, data, n)))


def analysis(folder, draws=1_000):
    files = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("x", "late")}
    model = sm.Model(
        log_likelihood, files, {"beta": np.zeros(len(TERMS))},
        lambda state: -0.5 * np.sum(state.beta**2),
        dims={"beta": ["term"]}, coords={"term": TERMS},
    )  # fmt: skip
    trace = sm.sample(model, draws=draws, seed=1)
    share = {"late": np.mean}
    said = sm.predict(model, trace, simulate, name="late", draws=5, seed=2, statistics=share)
    return trace, said


if __name__ == "__main__":
    rows = int(sys.argv[1]) if sys.argv[1:] else 2_000_000
    with tempfile.TemporaryDirectory() as folder:
        trace, said = analysis(written(Path(folder), rows))
        print(trace.summary().round(4).to_string())
        print(said.summary().round(5).to_string())
        said.plot()[0].figure.savefig("out_of_memory.png")
