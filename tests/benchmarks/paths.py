"""Hidden states: all at once beside one by one, effective draws a CPU second, and a loop by hand.

    python -m tests.benchmarks.paths [--draws 2000] [--runs 3]

The regimes of examples/regimes.py, 5,000 days, and two states of 20,000 times that last for 200
each and overlap. Medians over runs of other seeds, of one chain: effective draws of the number of
changes of state, and of the slowest of what the states have in common; the time of whole calls of
sm.sample, compiled. Then the time of a draw of all states beside forward filtering and backward
sampling written by hand for this model alone, in numba.
"""

import argparse
import time

from tests.benchmarks import machine  # first: it limits the threads of numpy

# isort: split
import arviz as az
import numba
import numpy as np

import subsample_mcmc as sm
from examples import regimes


def log_likelihood(state, data, n):
    d = data.y[n] - state.mu[state.z[data.time[n]]]
    return -0.5 * d * d


def change(state, t):
    if t == 0:
        return 0.0
    p = state.p[0]
    return sm.log(p if state.z[t] != state.z[t - 1] else 1.0 - p)


def two_states(size=20_000):
    """Two normal states, two standard deviations apart, that last for 200 times."""
    rng = np.random.default_rng(0)
    z = np.cumsum(rng.random(size) < 0.005) % 2
    y = 2.0 * z + rng.standard_normal(size)
    return sm.Model(
        log_likelihood, {"y": y, "time": np.arange(size)},
        {"z": (y > 1.0).astype(int), "mu": np.array([0.0, 2.0]), "p": 0.05},
        support={"z": 2}, touches={"z": "time"}, site_prior={"z": change},
        constraints={"mu": sm.ordered, "p": sm.interval(0.0, 1.0)},
    )  # fmt: skip


@numba.njit
def by_hand(rng, y, mu, p, forward, z):
    """Forward filtering, backward sampling of the two states."""
    size = len(y)
    for t in range(size):
        total = 0.0
        for k in range(2):
            d = y[t] - mu[k]
            prior = 0.5 if t == 0 else (1.0 - p) * forward[t - 1, k] + p * forward[t - 1, 1 - k]
            forward[t, k] = prior * np.exp(-0.5 * d * d)
            total += forward[t, k]
        for k in range(2):
            forward[t, k] /= total
    z[size - 1] = rng.random() < forward[size - 1, 1]
    for t in range(size - 2, -1, -1):
        one = forward[t, 1] * (1.0 - p if z[t + 1] == 1 else p)
        zero = forward[t, 0] * (1.0 - p if z[t + 1] == 0 else p)
        z[t] = rng.random() * (one + zero) < one


def measured(model, kernel, common, draws, seed):
    """(effective draws a CPU second of the number of changes, and of the slowest common number)."""
    given = {"chains": 1, "progress": False}
    sm.sample(model, kernel, draws=2, warmup=2, **given)  # compiles
    begun = time.process_time()
    trace = sm.sample(model, kernel, draws=draws, warmup=draws // 2, seed=seed, **given)
    spent = time.process_time() - begun
    changes = (np.diff(trace.draws["z"], axis=2) != 0).sum(axis=2).astype(float)
    numbers = [trace.draws[name][0].reshape(draws, -1) for name in common]
    slowest = min(float(az.ess(x.reshape(1, -1))) for x in np.concatenate(numbers, axis=1).T)
    return float(az.ess(changes)) / spent, slowest / spent


def beside_by_hand(model, draws=200):
    """Microseconds of a draw of all states, by sm.paths and by hand."""
    given = {"chains": 1, "progress": False, "draws": draws, "warmup": 0}
    rest = sm.Metropolis("mu", adapt=False, selector=sm.Exact()) >> sm.Metropolis("p", adapt=False)
    found = []
    for kernel in (sm.paths("z") >> sm.paths("z") >> rest, sm.paths("z") >> rest):
        sm.sample(model, kernel, **given)
        begun = time.process_time()
        sm.sample(model, kernel, **given)
        found.append(time.process_time() - begun)
    y, rng = np.asarray(model.data.y), np.random.default_rng(1)
    forward, z = np.zeros((len(y), 2)), np.zeros(len(y), dtype=np.int64)
    by_hand(rng, y, np.array([0.0, 2.0]), 0.005, forward, z)
    begun = time.process_time()
    for _ in range(draws):
        by_hand(rng, y, np.array([0.0, 2.0]), 0.005, forward, z)
    return 1e6 * (found[0] - found[1]) / draws, 1e6 * (time.process_time() - begun) / draws


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    print(f"{machine.processor()}, {machine.pin()}", flush=True)
    two = two_states()
    along = sm.Metropolis("sd", proposal=sm.pcn(), selector=sm.Exact()) >> regimes.draw_p
    levels = sm.Metropolis("mu", proposal=sm.pcn(), selector=sm.Exact()) >> sm.Metropolis("p")
    cases = {
        "three regimes of 5,000 days": (regimes.simulated(5_000)[0], along, ("sd", "p")),
        "two states of 20,000 times": (two, levels, ("mu", "p")),
    }
    print(f"{'':32}{'kernel':14}{'changes':>10}{'common':>10}   effective draws a CPU second")
    for case, (model, beside, common) in cases.items():
        for name, states in (("one by one", sm.Gibbs("z")), ("all at once", sm.paths("z"))):
            found = [
                measured(model, states >> beside, common, given.draws, seed + 1)
                for seed in range(given.runs)
            ]
            changes, others = np.median(found, axis=0)
            print(f"{case:32}{name:14}{changes:10.3g}{others:10.3g}", flush=True)
    times = np.median([beside_by_hand(two) for _ in range(given.runs)], axis=0)
    print("a draw of 20,000 states: {:,.0f} us by sm.paths, {:,.0f} by hand".format(*times))


if __name__ == "__main__":
    main()
