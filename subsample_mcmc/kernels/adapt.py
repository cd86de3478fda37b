"""What kernels learn in warm-up: a step size that meets a target acceptance, and scales.

Adaptation runs only while chain.now says so; afterwards the step is the average of the second
half of what was tried. All of it lives in arrays that are part of a checkpoint.
"""

from contextlib import suppress
from math import exp, log
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.target.moved import Moved

SETTLED = 0.8  # share of warm-up after which scales stay as they are
WINDOW = 100  # steps before the first new set of scales; each window is twice the one before
LOG_STEP, AVERAGE, STEPS, WEIGHT, SEEN, END = range(6)


class Tuning(NamedTuple):
    """A kernel's step size and scales per free coordinate."""

    target: float  # acceptance; 0: never adapt
    scaled: int  # 1: learn one scale per coordinate, too
    most: float  # of the log step
    step: np.ndarray  # (6,) log step, its average, steps, weight, values seen, end of window
    scales: np.ndarray  # (d,) in use
    mean: np.ndarray  # (d,) of the window under way
    square: np.ndarray


def make_tuning(
    run, step: float, scales, length: int, target: float, scaled: bool, most: float = np.inf,
    sites: int = 0,
) -> Tuning:  # fmt: skip
    """Start values, registered with the chain's checkpoint; sites: a row of them for each."""
    rows = (sites,) if sites else ()
    first = np.zeros((*rows, 6))
    first[..., LOG_STEP] = first[..., AVERAGE] = log(step)
    first[..., END] = WINDOW
    size = (*rows, length)
    return Tuning(
        target, int(scaled and length > 1), most, run.keep("step", first),
        run.keep("scales", np.broadcast_to(np.asarray(scales, float), size).copy()),
        run.keep("mean", np.zeros(size)), run.keep("square", np.zeros(size)),
    )  # fmt: skip


@jit(inner="always")
def of_one(tuning, site):
    """The step and scales of one site: views."""
    return Tuning(
        tuning.target, tuning.scaled, tuning.most, tuning.step[site], tuning.scales[site],
        tuning.mean[site], tuning.square[site],
    )  # fmt: skip


@jit(inner=True)
def step_size(tuning, now):
    """The step in use: the one being tried in warm-up, then the average."""
    return exp(tuning.step[LOG_STEP] if now.warm == 1 else tuning.step[AVERAGE])


@jit(inner=True)
def learn(tuning, now, u, accepted):
    """Move the log step towards the target (Robbins-Monro), and the scales window by window."""
    if now.warm == 0 or tuning.target == 0.0:
        return
    step = tuning.step
    step[STEPS] += 1.0
    step[LOG_STEP] += (accepted - tuning.target) * 2.0 / (step[STEPS] + 10.0) ** 0.6
    step[LOG_STEP] = min(step[LOG_STEP], tuning.most)
    # An average that forgets the beginning: weight k of the k-th.
    step[WEIGHT] += step[STEPS]
    step[AVERAGE] += (step[LOG_STEP] - step[AVERAGE]) * step[STEPS] / step[WEIGHT]
    if tuning.scaled == 0:
        return
    step[SEEN] += 1.0
    for j in range(len(u)):
        change = u[j] - tuning.mean[j]
        tuning.mean[j] += change / step[SEEN]
        tuning.square[j] += change * (u[j] - tuning.mean[j])
    # The step needs time to fit new scales: none at the end of warm-up.
    late = now.warmup > 0 and now.iteration > SETTLED * now.warmup
    if step[SEEN] < step[END] or late:
        return
    shrink = 0.0  # keep the geometric mean of step times scales: the step stays sensible
    for j in range(len(u)):
        variance = tuning.square[j] / step[SEEN]
        new = variance**0.5 if variance > 1e-300 else tuning.scales[j]
        shrink += log(new / tuning.scales[j]) / len(u)
        tuning.scales[j] = new
        tuning.mean[j] = tuning.square[j] = 0.0
    step[LOG_STEP] -= shrink
    step[AVERAGE], step[WEIGHT], step[STEPS], step[SEEN] = step[LOG_STEP], 0.0, 0.0, 0.0
    step[END] *= 2.0


# ------------------------------------------------------------------------------ preconditioners
def preconditioner(given, fallback, blocks: tuple[str, ...]) -> Any:
    """None, an array, or a tuple of matrices, one for each length of the last block.

    fallback: a fit, or a list of them, if nothing is given; other things count as nothing.
    """
    source = fallback if given is None else given
    if hasattr(source, "gaussian"):
        return source.gaussian(blocks)[1]
    fits = isinstance(source, list | tuple) and all(hasattr(fit, "gaussian") for fit in source)
    if fits and source[0].model.variables[blocks[-1]].place >= 0:
        return tuple(fit.gaussian(blocks)[1] for fit in source)
    if isinstance(given, tuple) and all(np.ndim(one) == 2 for one in given):
        return given
    return None if given is None else np.array(given, dtype=float)


def scales_of(given, blocks: Moved) -> tuple[int, np.ndarray, np.ndarray]:
    """(1 if matrices were given, scales, lower factors) of a preconditioner, checked."""
    free, wanted = blocks.free, blocks.lengths
    ones, unused = np.ones(free), np.zeros((1, 1, 1))
    if given is None:
        return 0, ones, unused
    if isinstance(given, tuple) or given.ndim == 2:
        matrices = given if isinstance(given, tuple) else (given,)
        factors = np.zeros((len(wanted), free, free))
        fitting = [m.shape == (n, n) for m, n in zip(matrices, wanted, strict=False)]
        if len(matrices) == len(wanted) and all(fitting):
            with suppress(np.linalg.LinAlgError):
                for factor, m, n in zip(factors, matrices, wanted, strict=True):
                    factor[:n, :n] = np.linalg.cholesky(m if np.allclose(m, m.T) else -np.eye(n))
                if np.all(np.isfinite(factors)):
                    return 1, ones, factors
    elif given.shape == (free,) and np.all((given > 0.0) & (given < np.inf)):
        return 0, given, unused
    shape = [m.shape for m in given] if isinstance(given, tuple) else given.shape
    each = f"; one for each of the lengths {wanted}" if blocks.varies else ""
    raise ValueError(
        f"precondition has shape {shape}: give {free} positive scales, or a symmetric, "
        f"positive definite matrix of shape {(free, free)}: {blocks.sizes()}{each}."
    )
