"""Softmax: a score for each class but the first, whose score is 0.

The derivatives of a log-sum-exp along u are cumulants of a random variable with the values
0, u_1, .., u_(K-1): for a unit vector u its range R is at most sqrt 2, and 1 for two classes.
 * |kappa_3| <= R^3 / (6 sqrt 3): of all laws with the same mean in an interval, the largest third
   central moment has one on two points, p (1-p) (1-2p) R^3;
 * |kappa_4| <= R^4 / 8: kappa_4 = mu_4 - 3 mu_2^2 lies between -2 mu_2^2, mu_2 <= R^2 / 4, and
   R^2 mu_2 - 3 mu_2^2 <= R^4 / 12.
Both are reached on two classes that share all the probability.
"""

from itertools import combinations_with_replacement as multisets
from math import sqrt
from typing import Any

import numpy as np

from subsample_mcmc.models.glm import families
from subsample_mcmc.numerics.fastmath import exp, log1p
from subsample_mcmc.target.predictors import Predictors

CLASSES = 32  # at most: what each class needs is compiled in
CUBIC = 6  # classes up to which third derivatives are given: 55 numbers
TOGETHER = 16  # entries of a tuple written out at once: Python has other bytecode for long ones
THIRD = 2.0 * sqrt(2.0) * families.SIGMOID_THIRD
FOURTH = 4.0 * families.SIGMOID_FOURTH


def predictors_of(classes: int) -> Predictors:
    """The family for that many classes."""
    if classes == 2:
        return Predictors(
            one_score, families.logistic, families.logistic_derivatives,
            families.logistic_remainder,
        )  # fmt: skip
    scores = two_scores
    for _ in range(classes - 3):
        scores = one_more(scores)
    return Predictors(scores, softmax, derivatives_of(classes), softmax_remainder)


# ------------------------------------------------------------------------------------- scores
def score(state, data, n, k):
    """Return x'beta[k]."""
    total = 0.0
    for j in range(np.uint64(state.beta.shape[1])):
        total += data.x[n, j] * state.beta[k, j]
    return total


def one_score(state, data, n):
    """The score of class 1 of two."""
    return score(state, data, n, 0)


def two_scores(state, data, n):
    """The scores of classes 1 and 2 of three."""
    return score(state, data, n, 0), score(state, data, n, 1)


def one_more(scores):
    """The scores of one class more: a tuple's length must be known when it is compiled."""

    def more(state, data, n):
        given = scores(state, data, n)
        return (*given, score(state, data, n, len(given)))

    return more


# ------------------------------------------------------------------------------------- family
def softmax(eta, data, n):
    """Log probability of class y, scores (0, *eta)."""
    top, rest, own = 0.0, 0.0, 0.0  # rest: sum of exp(score - top) over all but the top one
    for k in range(len(eta)):
        e = eta[k]
        t = exp(-abs(e - top))
        rest = (rest + 1.0) * t if e > top else rest + t
        top = max(top, e)
        own = e if data.y[n] == k + 1.0 else own
    return (own - top) - log1p(rest)


def softmax_remainder(eta, data, n):
    return THIRD, FOURTH


def derivatives_of(classes: int) -> Any:
    """The derivatives of `softmax`, written out, p and q = 1 - p apart.

    Those of 3 classes read:

    top = max(0.0, eta[0], eta[1])
    w0, w1, w2 = exp(-top), exp(eta[0] - top), exp(eta[1] - top)
    each = 1.0 / (w0 + w1 + w2)
    p1, p2 = w1 * each, w2 * each
    q1, q2 = (w0 + w2) * each, (w0 + w1) * each
    y = data.y[n]
    return (q1 if y == 1.0 else -p1, q2 if y == 2.0 else -p2,
            -p1 * q1, p1 * p2, -p2 * q2,
            -p1 * q1 * (q1 - p1), p1 * p2 * (q1 - p1), p1 * p2 * (q2 - p2), ...)
    """
    others = range(1, classes)
    entries = [f"q{k} if y == {k}.0 else -p{k}" for k in others]
    entries += [second(*of) for of in multisets(others, 2)]
    entries += [third(*of) for of in multisets(others, 3) if classes <= CUBIC]
    parts = [entries[i : i + TOGETHER] for i in range(0, len(entries), TOGETHER)]
    sums = {k: " + ".join(f"w{j}" for j in range(classes) if j != k) for k in range(classes)}
    lines = [
        f"def softmax{classes}_derivatives(eta, data, n):",
        f"top = max(0.0, {', '.join(f'eta[{k - 1}]' for k in others)})",
        "w0 = exp(-top)",
        *(f"w{k} = exp(eta[{k - 1}] - top)" for k in others),
        f"each = 1.0 / (w0 + {sums[0]})",
        *(f"p{k} = w{k} * each" for k in others),
        *(f"q{k} = ({sums[k]}) * each" for k in others),
        "y = data.y[n]",
        f"return {' + '.join('(' + ', '.join(part) + ',)' for part in parts)}",
    ]
    scope: dict[str, Any] = {"exp": exp, "__name__": __name__}
    exec("\n    ".join(lines), scope)
    return scope[f"softmax{classes}_derivatives"]


def second(k: int, l: int) -> str:
    """The derivative of -log sum exp by scores k <= l."""
    return f"-p{k} * q{k}" if k == l else f"p{k} * p{l}"


def third(k: int, l: int, m: int) -> str:
    """The derivative of -log sum exp by scores k <= l <= m."""
    if k == m:
        return f"-p{k} * q{k} * (q{k} - p{k})"
    if l in (k, m):
        return f"p{k} * p{m} * (q{l} - p{l})"
    return f"-2.0 * p{k} * p{l} * p{m}"
