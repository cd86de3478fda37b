"""How a coefficient that may be 0 is proposed, whatever decides about it."""

from math import log, pi

from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.random import fill_normal

LEVEL = 0.5 * log(2.0 * pi)
WALKS, FARTHEST = 1 / 8, 16.0  # of fresh values; a step, in standard deviations


@jit(inner="always")
def walks(chain):
    """Is a fresh value to be one near the present: in half of all moves of warm-up."""
    return chain.rng.random() < (0.5 if chain.now[0].warm == 1 else WALKS)


@jit(inner="always")
def walk(noise):
    """A step as wide as a Cauchy variable's, but for its ends: it reaches near and far."""
    if abs(noise[0]) < FARTHEST * abs(noise[1]):
        return noise[0] / noise[1]
    return FARTHEST if noise[0] > 0.0 else -FARTHEST


@jit(inner="always")
def log_density(value, mean, sd):
    z = (value - mean) / sd
    return -0.5 * z * z - log(sd) - LEVEL


@jit(inner="always")
def proposed(chain, noise, before, on, old, mean, sd):
    """(a value, log ratio of the densities of proposals) of a coefficient that is to be on or off.

    before: is it on. mean, sd: given the others, by the fit. noise: room for two numbers.
    """
    new, ratio = 0.0, 0.0
    if before == 1 and on == 1 and walks(chain):
        fill_normal(chain.rng, noise)
        new = old + sd * walk(noise)
    else:
        if before == 1:
            ratio += log_density(old, mean, sd)
        if on == 1:
            fill_normal(chain.rng, noise)
            new = mean + sd * noise[0]
            ratio -= log_density(new, mean, sd)
    return new, ratio


@jit(inner="always")
def is_asked(chain, chance, indicator):
    """Is a coefficient offered the other state in this sweep."""
    asked = chance == 1.0 or chain.rng.random() < chance
    # In warm-up, a start without it is no reason to wait.
    return asked or (chain.now[0].warm == 1 and indicator == 0)
