"""The work that is timed: one Gibbs draw over ten Student-t locations, and how it is judged."""

import math
from math import asinh

import numpy as np

import subsample_mcmc as sm

ARMS, FREEDOM = 10, 4.0
BEST = 3  # the arm that stands where the data are
SPACING = {"easy": 0.5, "medium": 0.05, "hard": 0.005, "posterior": None}  # None: 1 / sqrt(N)
TIE = 1e-6  # nats: totals closer than this are one to float64 sums


def student_t(data, arm, n):
    z = data.y[n] - data.location[arm]
    return -2.5 * sm.log1p(z * z / 4.0)


def student_t_math(data, arm, n):
    z = data.y[n] - data.location[arm]
    return -2.5 * math.log1p(z * z / 4.0)


def spacing(case: str, size: int) -> float:
    """Distance h between neighbouring arms."""
    return SPACING[case] or 1.0 / math.sqrt(size)


def locations(h: float) -> np.ndarray:
    """mu_i = h (i - 3)."""
    return h * (np.arange(ARMS) - BEST)


def fresh_data(case: str, size: int, seed: int) -> np.ndarray:
    """Data of one case: never shared with another."""
    entropy = (seed, list(SPACING).index(case), size)
    return np.random.default_rng(np.random.SeedSequence(entropy)).standard_t(FREEDOM, size)


def exact_totals(y: np.ndarray, location: np.ndarray) -> np.ndarray:
    """The log likelihood of every arm by numpy and fsum: what every rival is judged by."""
    parts: list[list[float]] = [[] for _ in location]
    for lo in range(0, len(y), 1 << 16):
        for arm, place in enumerate(location):
            z = y[lo : lo + (1 << 16)] - place
            parts[arm].append(float(np.log1p(z * z / FREEDOM).sum()))
    return np.array([-0.5 * (FREEDOM + 1.0) * math.fsum(part) for part in parts])


def difference_bounds(location: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(low, high) of l_i - l_j over ALL real data: no look at them is needed.

    log((nu + (u+s)^2) / (nu + (u-s)^2)), s half the distance, is largest at u^2 = nu + s^2, where
    it is log((u+s)/(u-s)) = 2 asinh(s / sqrt(nu)).
    """
    half = np.abs(location[:, None] - location[None, :]) / 2.0
    scaled = half / math.sqrt(FREEDOM)
    high = (FREEDOM + 1.0) * np.vectorize(asinh)(scaled)
    return -high, high


def one_spread(y: np.ndarray, location: np.ndarray) -> float:
    """Width of an interval that holds every log factor of every arm, from the data's extremes."""
    far = max(abs(float(end) - float(place)) for end in (y.min(), y.max()) for place in location)
    return 0.5 * (FREEDOM + 1.0) * math.log1p(far * far / FREEDOM)


class Recorder(np.random.Generator):
    """A Generator that keeps the exponentials it gave, so that draws can be judged.

    Whoever draws, in whatever order it uses the stream: these are the Gumbels it decided under.
    """

    def __init__(self, *entropy: int):
        super().__init__(np.random.PCG64(np.random.SeedSequence(entropy)))
        self.given: list[np.ndarray] = []

    def standard_exponential(self, size=None, dtype=np.float64, method="zig", out=None):
        made = super().standard_exponential(size, dtype, method, out)
        self.given.append(made)
        return made

    def gumbels(self) -> np.ndarray:
        """Every Gumbel variable drawn so far, one line per draw."""
        return -np.log(np.concatenate(self.given))


def regrets(arms: np.ndarray, gumbels: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Nats lost by each draw against the best arm under its own Gumbels; 0 for the right arm."""
    scores = gumbels[: len(arms)] + totals
    lost = scores.max(axis=1) - scores[np.arange(len(arms)), arms]
    return np.where(lost > TIE, lost, 0.0)
