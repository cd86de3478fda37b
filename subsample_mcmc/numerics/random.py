"""Where the random streams of a run come from, and variables in a form that compiles fast."""

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import jit


class Chances(NamedTuple):
    """Where random numbers come from, for compiled code that Python calls often: by its address.

    Handed over as it is, a Generator is taken apart at every call by functions of Python's, and an
    interrupt meanwhile (Ctrl-C) ends the process, or is lost.
    """

    rng: np.random.Generator


@jit(inner=True)
def gumbel(rng):
    """A standard Gumbel variable. The floor is met once in 2^53 draws."""
    exponential = -log(1.0 - rng.random())
    return -log(max(exponential, 1e-17))


@jit(inner=True)
def fill_normal(rng, out):
    """Standard normals, by Marsaglia's polar method: numba's own cost a second to compile."""
    i = 0
    while i < len(out):
        a, b = 2.0 * rng.random() - 1.0, 2.0 * rng.random() - 1.0
        s = a * a + b * b
        if 0.0 < s < 1.0:
            factor = sqrt(-2.0 * log(s) / s)
            out[i] = a * factor
            if i + 1 < len(out):
                out[i + 1] = b * factor
            i += 2


def of_seed(make: Any, seed: Any) -> Any:
    """What numpy makes of a seed; refuses what is none."""
    try:
        return make(seed)
    except (TypeError, ValueError):
        raise TypeError(
            f"seed={seed!r:.60}: give a whole number, 0 or more, such as 1, several of them, a "
            "SeedSequence, a Generator, or None for one that nobody knows."
        ) from None


def generator_of(seed: Any) -> np.random.Generator:
    """numpy's own of a seed: a Generator is taken as it is."""
    return of_seed(np.random.default_rng, seed)


def root_of(seed) -> tuple[int, tuple[int, ...]]:
    """(entropy, spawn key) of a seed: None, an int, a SeedSequence, or a Generator: advanced."""
    if isinstance(seed, np.random.Generator):
        words = seed.integers(2**32, size=4)
        return sum(int(w) << 32 * i for i, w in enumerate(words)), ()
    known = isinstance(seed, np.random.SeedSequence)
    root = seed if known else of_seed(np.random.SeedSequence, seed)
    entropy = root.entropy
    if not isinstance(entropy, int | np.integer):  # a list of words, as SeedSequence takes it
        entropy = int.from_bytes(root.generate_state(4, np.uint32).tobytes(), "little")
        return entropy, ()
    return int(entropy), tuple(int(k) for k in root.spawn_key)
