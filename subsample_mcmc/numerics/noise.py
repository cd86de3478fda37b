"""Gumbel and normal variables from a generator, in a form that compiles fast."""

from math import log, sqrt

from subsample_mcmc.numerics.jit import jit


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
