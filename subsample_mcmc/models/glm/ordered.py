"""Ordered responses, such as ratings: between which two cutpoints x'beta + noise lies.

P(y <= k) = F(cutpoints[k] - x'beta), F the logistic or the normal distribution function. Both ends
of what is between are far from where F is 1: differences are taken in logarithms, and on the side
where F is small.
"""

from itertools import pairwise
from math import expm1, lgamma

import numpy as np
import scipy

from subsample_mcmc.calls import helpful
from subsample_mcmc.models.glm.blocks import Extra, refuse_constant, with_blocks
from subsample_mcmc.models.glm.columns import labelled, rows_of
from subsample_mcmc.models.glm.elsewhere import by_parts
from subsample_mcmc.models.glm.families import HALF_LOG_2PI, linear
from subsample_mcmc.models.glm.scores import CLASSES
from subsample_mcmc.numerics.fastmath import log
from subsample_mcmc.numerics.special import log_normal_cdf, log_sigmoid
from subsample_mcmc.target.constraints import ordered
from subsample_mcmc.target.model import Model


# ------------------------------------------------------------------------------- one datum each
def logistic_level(state, data, n):
    """F(u) - F(l) = F(u) F(-l) (1 - exp(l - u)): no difference of numbers near 1."""
    eta, k, cuts = linear(state, data, n), int(data.y[n]), state.cutpoints
    if k == 0:
        return log_sigmoid(cuts[0] - eta)
    if k == len(cuts):
        return log_sigmoid(eta - cuts[k - 1])
    inside = log(-expm1(cuts[k - 1] - cuts[k]))
    return log_sigmoid(cuts[k] - eta) + log_sigmoid(eta - cuts[k - 1]) + inside


def normal_level(state, data, n):
    """Between two cutpoints, or beyond one."""
    eta, k, cuts = linear(state, data, n), int(data.y[n]), state.cutpoints
    if k == 0:
        return log_normal_cdf(cuts[0] - eta)
    if k == len(cuts):
        return log_normal_cdf(eta - cuts[k - 1])
    return log_between(cuts[k] - eta, cuts[k - 1] - eta)


def log_between(upper, lower):
    """log(F(u) - F(l)), F the normal distribution function.

    F(u) (1 - F(l)) - F(l) (1 - F(u)), as a product: of two ends that are far on one side, too.
    """
    below, above = log_normal_cdf(upper), log_normal_cdf(-lower)
    odds = log_normal_cdf(lower) - above + log_normal_cdf(-upper) - below
    return below + above + log(-expm1(odds))


def draw_logistic_level(rng, state, data, n):
    u = rng.random()
    return level(linear(state, data, n) + (np.log(u) - np.log1p(-u) if u > 0.0 else -np.inf), state)


def draw_normal_level(rng, state, data, n):
    return level(linear(state, data, n) + rng.standard_normal(), state)


def level(value, state):
    """Above how many cutpoints a value lies."""
    if value != value:
        return value
    k = 0
    while k < len(state.cutpoints) and value > state.cutpoints[k]:
        k += 1
    return float(k)


# ------------------------------------------------------------------------------------- models
@helpful
@by_parts
def ordered_logistic(
    x, y, classes=None, prior_sd=10.0, log_prior=None, start=None, weights=None
) -> Model:
    """Ordered logistic regression (proportional odds): y <= k has log odds cutpoints[k] - x'beta.

    Blocks: beta (d,), cutpoints (K - 1,), in order (sm.ordered), a priori Normal(0, prior_sd^2)
    each, in order.
    x has no intercept: that of a formula is left out.

    y: levels 0 .. K - 1, such as ratings; of a formula's categories, these, in the order that was
        said: an ordered column of pandas, or C(rating, levels=["low", "high"]).
    classes: K, at most 32; default, the largest label plus one.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.

    Cutpoints have no bounds everywhere: decisions by sm.Taylor are proved near the fit where
    intervals bound its residuals (10,000 data or more), else asymptotic; sm.Exact() is exact.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.standard_normal((20_000, 2))
        >>> y = np.digitize(x @ [1.0, -0.5] + rng.logistic(size=20_000), [-1.0, 0.5, 2.0])
        >>> model = sm.models.glm.ordered_logistic(x, y)
        >>> fit = sm.laplace(model, progress=False)
        >>> fit.state["cutpoints"].round(1), fit.state["beta"].round(1)
        (array([-1. ,  0.5,  2. ]), array([ 1. , -0.5]))
    """
    parts = logistic_level, draw_logistic_level, scipy.special.logit
    return levels(*parts, "ordered_logistic", x, y, classes, prior_sd, log_prior, start, weights)


@helpful
@by_parts
def ordered_probit(
    x, y, classes=None, prior_sd=10.0, log_prior=None, start=None, weights=None
) -> Model:
    """Ordered probit regression: y = k where x'beta + Normal(0, 1) lies between two cutpoints.

    All else as of `ordered_logistic`.

    y, classes: as in sm.models.glm.ordered_logistic.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.standard_normal((20_000, 2))
        >>> y = np.digitize(x @ [1.0, -0.5] + rng.standard_normal(20_000), [-1.0, 0.5, 2.0])
        >>> fit = sm.laplace(sm.models.glm.ordered_probit(x, y), progress=False)
        >>> fit.state["cutpoints"].round(1), fit.state["beta"].round(1)
        (array([-1. ,  0.5,  2. ]), array([ 1. , -0.5]))
    """
    parts = normal_level, draw_normal_level, scipy.special.ndtri
    return levels(*parts, "ordered_probit", x, y, classes, prior_sd, log_prior, start, weights)


def levels(
    likelihood, simulate, quantile, family, x, y, classes, prior_sd, log_prior, start, weights
):
    """The model of either."""
    rows = rows_of(x, y, most=CLASSES, intercept=False, weights=weights)
    if rows.classes is not None and not rows.ordered:
        raise ValueError(
            f"the formula {x!r}: the order of the response's classes, {', '.join(rows.classes)}, "
            f"is that of the alphabet, or was not said to be theirs: {family} needs theirs. Write "
            "C(rating, levels=['low', 'medium', 'high']), or make the column "
            "pandas.Categorical(rating, ['low', 'medium', 'high'], ordered=True)."
        )
    refuse_constant(rows.x, family)
    y, classes = labelled(rows, classes, family, CLASSES, "no data say where its cutpoints are")
    shares = np.bincount(np.asarray(y, dtype=int), minlength=classes) + 0.5
    names = rows.classes or [str(k) for k in range(classes)]
    cutpoints = Extra(
        "cutpoints", quantile(np.cumsum(shares)[:-1] / shares.sum()), ordered_normal, ordered,
        ("cut", [f"{a}|{b}" for a, b in pairwise(names)]),
    )  # fmt: skip
    data = {"x": rows.x, "y": y}
    return with_blocks(likelihood, simulate, data, rows, [cutpoints], log_prior, prior_sd, start)


def ordered_normal(rest, prior_sd):
    """log_prior of cutpoints: independent Normal(0, prior_sd^2), in order; flat if infinite."""
    if prior_sd == np.inf:
        return rest
    half_precision, each = 0.5 / (prior_sd * prior_sd), -np.log(prior_sd) - HALF_LOG_2PI

    def log_prior(state):
        size = len(state.cutpoints)
        total = rest(state) + each * size + lgamma(size + 1.0)  # in one order of size!
        for k in range(size):
            total -= half_precision * state.cutpoints[k] * state.cutpoints[k]
        return total

    return log_prior
