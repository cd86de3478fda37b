"""Decisions beside the exact ones under the same Gumbels: errors, and what they cost in nats."""

from typing import NamedTuple

import numpy as np

import subsample_mcmc as sm


def cell(data, arm, n):
    return data.rewards[arm, n]


def table(rewards, log_prior=None):
    """A population whose rewards stand in an (arms, N) array."""
    arms, size = rewards.shape
    return sm.Population(
        cell, {"rewards": rewards}, arms, size=size, log_prior=log_prior, missing="allow"
    )


def offsets(population, draws, seed):
    """The offsets of `draw(population, draws, seed=seed)`, row by row."""
    generator = np.random.default_rng(seed)
    generator.integers(2**64, size=1, dtype=np.uint64)
    return population.log_prior - np.log(generator.standard_exponential((draws, population.arms)))


class Comparison(NamedTuple):
    """Wrong decisions among `draws`, the nats each lost, and the share of rewards read."""

    wrong: int
    draws: int
    regret: np.ndarray
    share_read: float


def against_exact(rewards, selector, draws, seed=1) -> Comparison:
    """Draw with a selector and compare each arm with the argmax under the same Gumbels."""
    population = table(rewards)
    made = sm.draw(population, draws, selector=selector, seed=seed, progress=False)
    scores = rewards.sum(axis=1) + offsets(population, draws, seed)
    lost = scores.max(axis=1) - scores[np.arange(draws), made.arms]
    # Totals added up in another order may differ by rounding: that is no error.
    wrong = lost > 1e-9 * np.abs(scores).max(axis=1)
    return Comparison(int(wrong.sum()), draws, lost[wrong], made.share_read)


def standardised(values, sigma, probabilities):
    """Rewards (arms, N) with standard deviation sigma and totals log(probabilities)."""
    values = values - values.mean(axis=1, keepdims=True)
    scale = values.std(axis=1, keepdims=True)
    values = values * (sigma / np.where(scale > 0.0, scale, 1.0))
    return values + np.log(np.asarray(probabilities))[:, None] / values.shape[1]


def student(size, spacing, arms=10, seed=1):
    """The benchmark's model: Student-t locations, arm i at spacing * (i - 3)."""
    y = np.random.default_rng(seed).standard_t(4, size=size)
    centres = spacing * (np.arange(arms) - 3.0)
    return sm.Population(student_log_density, {"y": y, "mu": centres}, arms)


def student_log_density(data, arm, n):
    r = data.y[n] - data.mu[arm]
    return -2.5 * sm.log1p(r * r / 4.0)
