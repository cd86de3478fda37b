"""Rewards from outside: ask which setting to try, tell how it went, survive a crash.

    python examples/ask_and_tell.py [--out results]

Which of six learning rates makes a perceptron learn best? A pull trains
once, from another random start: noisy, and in earnest it would take an hour. sm.Experiment asks
for the next setting by a top-two rule and is told the reward; it is saved after each. Half-way the
program "dies", and another one goes on from the file: the same settings, the same answer.
"""

import argparse
from pathlib import Path

import numpy as np

import subsample_mcmc as sm

RATES = np.geomspace(1e-3, 100.0, 6)
STRATEGY = sm.bandits.TopTwo(delta=0.1, scale=0.3)
MOST = 1000


def trained(rate: float, seed: int) -> float:
    """Share of right answers of a perceptron after a few steps, from a random start."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((40, 5))
    y = x @ np.array([1.0, -2.0, 0.5, 0.0, 1.5]) > 0.3 * rng.standard_normal(40)
    weights = 2.0 * rng.standard_normal(5)
    for _ in range(15):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ weights, -50.0, 50.0)))
        weights -= rate * x.T @ (p - y) / len(y) + 0.2 * rate * rate * weights
    fresh = rng.standard_normal((400, 5))
    return float(np.mean((fresh @ weights > 0.0) == (fresh @ [1.0, -2.0, 0.5, 0.0, 1.5] > 0.0)))


def go_on(experiment: sm.Experiment, path: Path, pulls: int) -> None:
    """Ask and tell, so many times or until it has stopped."""
    for _ in range(pulls):
        arm = experiment.ask()
        if arm is None:
            return
        experiment.tell(trained(RATES[arm], seed=experiment.total))
        experiment.save(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder of the file")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "learning_rates.npz"

    go_on(sm.Experiment(STRATEGY, len(RATES), seed=1, max_pulls=MOST), path, 40)
    print(f"died after {sm.Experiment.load(path, STRATEGY).total} trainings; going on from {path}")

    experiment = sm.Experiment.load(path, STRATEGY)
    go_on(experiment, path, MOST)
    found = experiment.result()
    frame = found.to_frame().assign(rate=RATES)
    print(frame.to_string(float_format=lambda value: f"{value:.4g}"))
    print(f"\nbest rate: {RATES[found.arm]:.3g}\n{found}")

    whole = sm.Experiment(STRATEGY, len(RATES), seed=1, max_pulls=MOST)
    go_on(whole, path, MOST)
    same = np.array_equal(whole.result().pulls, found.pulls)
    print(f"the same without dying: {same}")


if __name__ == "__main__":
    main()
