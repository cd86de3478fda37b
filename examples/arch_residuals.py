"""What control variates leave over of an ARCH decision, in plain NumPy, for arch_figures.

A decision compares two states; d[n] is the difference of datum n's log likelihoods, and a race has
to tell the sum of d from 0 by reading some of them. N times their variance, N v in nats^2, is what
it has to average out. A control variate of order k subtracts from each log likelihood its Taylor
polynomial at the fit, whose sum over the data is known.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import loggamma

KINDS = ("none", "order 1", "order 2", "order 3")
COST = 2_000_000  # data of the decisions that are looked at
CIRCLE, NODES = 0.1, 8  # Taylor coefficients by Cauchy's formula


def squares_of(model) -> np.ndarray:
    """r^2 of every datum and of the returns before it: (N, 1 + largest order), newest first."""
    most = model.orders[-1]
    windows = np.lib.stride_tricks.sliding_window_view(np.square(model.returns), most + 1)
    return windows[::-1, ::-1]  # the model's data, too, start with the latest


def scales(squares, theta, order: int) -> np.ndarray:
    """sigma_t^2 of every datum."""
    return theta[1] + squares[:, 1 : order + 1] @ theta[2 : order + 2]


def log_likelihood(r2, h, nu):
    """Of a Student-t return with squared scale h; h and nu may be complex."""
    level = loggamma((nu + 1) / 2) - loggamma(nu / 2) - 0.5 * np.log(np.pi * nu * h)
    return level - 0.5 * (nu + 1) * np.log1p(r2 / (nu * h))


def left_over(squares, theta, reference, order: int) -> np.ndarray:
    """(4, N) log likelihoods, and those less their polynomials of order 1, 2 and 3."""
    r2, h0 = squares[:, 0], scales(squares, reference, order)
    dh, dnu = scales(squares, theta, order) - h0, theta[0] - reference[0]
    full = log_likelihood(r2, h0 + dh, theta[0]).real
    turns = CIRCLE * np.exp(2j * np.pi * np.arange(NODES) / NODES)
    around = [log_likelihood(r2, h0 + t * dh, reference[0] + t * dnu) for t in turns]
    terms = np.fft.fft(around, axis=0).real[:4] / NODES / CIRCLE ** np.arange(4)[:, None]
    return np.stack([full, *(full - np.cumsum(terms, axis=0)[1:])])


class Left(NamedTuple):
    """What is left over: rows of one decision between orders, and N v of many decisions."""

    kinds: list[str]  # of control variate
    one: np.ndarray  # (4, N) d[n], the first four kinds
    spreads: dict[str, np.ndarray]  # of "order q" and "theta": (decisions, kinds)


def differences(model, fits, trace, control, seed: int = 0) -> Left:
    """d[n] of some decisions like those of a chain.

    Orders are compared with parameters from two pseudo-priors, parameters of one order as two draws
    of the trace: a proposal from the fit is much like that.
    """
    read = control.always_read(model)
    kept = np.setdiff1d(np.arange(model.size), read)
    rng, squares = np.random.default_rng(seed), squares_of(model)
    q = trace.draws["q"].ravel()
    theta = trace.draws["theta"].reshape(len(q), -1)
    points = [np.asarray(fit.state["theta"]) for fit in fits]

    def at(k, draw):
        return left_over(squares, draw, points[k], model.orders[k])

    found = {"order q": [], "theta": []}
    for _ in range(int(np.clip(COST // model.size, 4, 25))):
        i = rng.integers(len(q))
        other = int(rng.choice(np.flatnonzero(np.arange(len(fits)) != q[i])))
        here = at(q[i], theta[i])
        found["order q"].append(at(other, fits[other].draw(rng)["theta"]) - here)
        same = rng.choice(np.flatnonzero(q == q[i]))
        found["theta"].append(at(q[i], theta[same]) - here)
    spreads = {
        name: np.array(
            [[*(model.size * d.var(axis=1)), len(kept) * d[3, kept].var()] for d in each]
        )
        for name, each in found.items()
    }
    always = f"order 3, {len(read) / model.size:.0%} read"
    return Left([*KINDS, always], found["order q"][0], spreads)


def table(left: Left) -> str:
    """Medians of N v."""
    lines = [" " * 14 + "".join(f"{kind:>18}" for kind in left.kinds)]
    for name, values in left.spreads.items():
        lines.append(f"{name:14}" + "".join(f"{v:18.2g}" for v in np.median(values, axis=0)))
    return "\n".join(lines)
