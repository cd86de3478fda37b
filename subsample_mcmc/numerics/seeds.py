"""Where all random streams of a run come from."""

import numpy as np


def root_of(seed) -> tuple[int, tuple[int, ...]]:
    """(entropy, spawn key) of a seed: None, an int, a SeedSequence, or a Generator: advanced."""
    if isinstance(seed, np.random.Generator):
        words = seed.integers(2**32, size=4)
        return sum(int(w) << 32 * i for i, w in enumerate(words)), ()
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    entropy = root.entropy
    if not isinstance(entropy, int | np.integer):  # a list of words, as SeedSequence takes it
        entropy = int.from_bytes(root.generate_state(4, np.uint32).tobytes(), "little")
        return entropy, ()
    return int(entropy), tuple(int(k) for k in root.spawn_key)
