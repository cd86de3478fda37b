"""Generalised linear models as sm.Model of sm.Predictors; the package says what they take."""

from dataclasses import replace
from math import log, pi, sqrt
from typing import Any

import numpy as np
import scipy

from subsample_mcmc.calls import helpful
from subsample_mcmc.errors import warn
from subsample_mcmc.models.glm import families as f
from subsample_mcmc.models.glm import simulate as draw
from subsample_mcmc.models.glm.columns import (
    PIECE,
    Regression,
    count,
    initial,
    labelled,
    per_row,
    positive,
    restricted,
    rows_of,
    warn_of_columns,
    zero_one,
)
from subsample_mcmc.models.glm.elsewhere import by_parts
from subsample_mcmc.models.glm.formulas import offset_of
from subsample_mcmc.models.glm.scores import CLASSES, predictors_of
from subsample_mcmc.models.glm.weights import weighed
from subsample_mcmc.target.dyadic import Tree, sum_of_rows, tree_of_rows
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.predictors import Predictors
from subsample_mcmc.target.user_functions import flat

FAR = 10.0  # prior standard deviations: y so far from 0 is in other units than the prior
LOG_SIGMA_SD = 2.0  # of an unknown sigma's prior, Normal(0, 2^2) on log sigma


# ------------------------------------------------------------------------------------ families
@helpful
@by_parts
def gaussian(x, y, sigma=1.0, prior_sd=10.0, log_prior=None, start=None, weights=None) -> Model:
    """Linear regression: y is Normal(x'beta, sigma^2). Blocks: beta (d,).

    sigma: the standard deviation; None: unknown, a second block log_sigma, a priori
        Normal(0, 2^2) unless log_prior says otherwise, which starts at y's standard deviation.
        Its derivatives have no bound, so that no range is known.
    x, y, prior_sd, log_prior, start, weights: as in sm.models.glm.
    """
    rows = rows_of(x, y, weights=weights)
    x, y = rows.x, rows.y
    if sigma is None:
        predictors = Predictors(
            f.linear_scale, f.gaussian_scale, f.gaussian_scale_derivatives,
            etas=f.linears_scale(product(x)),
        )  # fmt: skip
        data = {"x": x, "y": y}
        return scaled(predictors, draw.gaussian_scale, data, log_prior, prior_sd, start, rows)
    predictors = Predictors(
        f.linear, f.gaussian, f.gaussian_derivatives, f.gaussian_remainder,
        etas=f.linears(product(x)), sizes=f.gaussian_sizes,
    )  # fmt: skip
    sigma = positive(sigma, "sigma", "the standard deviation, or None if it is unknown")
    data = {"x": x, "y": y, "sigma": sigma, "constant": -log(sigma) - f.HALF_LOG_2PI}
    return made(predictors, draw.gaussian, data, log_prior, prior_sd, start, rows)


@helpful
@by_parts
def student_t(
    x, y, nu=4.0, sigma=1.0, prior_sd=10.0, log_prior=None, start=None, weights=None
) -> Model:
    """Robust regression: (y - x'beta) / sigma is Student-t with nu degrees of freedom.

    Blocks: beta (d,).

    nu: degrees of freedom.
    sigma: the scale; None: unknown, as for `gaussian`.
    x, y, prior_sd, log_prior, start, weights: as in sm.models.glm.
    """
    rows = rows_of(x, y, weights=weights)
    x, y = rows.x, rows.y
    nu = positive(nu, "nu", "the degrees of freedom")
    constant = -float(scipy.special.betaln(0.5 * nu, 0.5)) - 0.5 * log(nu)
    data = {"x": x, "y": y, "nu": nu}
    if sigma is None:
        predictors = Predictors(
            f.linear_scale, f.student_t_scale, f.student_t_scale_derivatives,
            etas=f.linears_scale(product(x)),
        )  # fmt: skip
        data |= {"constant": constant}
        return scaled(predictors, draw.student_t_scale, data, log_prior, prior_sd, start, rows)
    predictors = Predictors(
        f.linear, f.student_t, f.student_t_derivatives, f.student_t_remainder,
        etas=f.linears(product(x)), sizes=f.student_t_sizes,
    )  # fmt: skip
    sigma = positive(sigma, "sigma", "the scale, or None if it is unknown")
    data |= {"sigma": sigma, "constant": constant - log(sigma)}
    return made(predictors, draw.student_t, data, log_prior, prior_sd, start, rows)


@helpful
@by_parts
def logistic(x, y, prior_sd=10.0, log_prior=None, start=None, weights=None) -> Model:
    """Logistic regression: y is 1 with probability 1 / (1 + exp(-x'beta)), else 0.

    Blocks: beta (d,).

    y: 0 and 1, or booleans; of a formula's categories, the second is 1.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.
    """
    rows = rows_of(x, y, most=2, weights=weights)
    x, y = rows.x, rows.y
    y = restricted(
        y, zero_one,
        "logistic needs 0 and 1 (or booleans); for more classes there is softmax",
    )  # fmt: skip
    predictors = Predictors(
        f.linear, f.logistic, f.logistic_derivatives, f.logistic_remainder,
        etas=f.linears(product(x)), sizes=f.logistic_sizes,
    )  # fmt: skip
    data = {"x": x, "y": y}
    return made(predictors, draw.logistic, data, log_prior, prior_sd, start, rows)


@helpful
@by_parts
def probit(x, y, prior_sd=10.0, log_prior=None, start=None, weights=None) -> Model:
    """Probit regression: y is 1 with the probability that a normal variable is below x'beta.

    Blocks: beta (d,).

    y: as in sm.models.glm.logistic.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.

    Example:
        >>> x = np.column_stack([np.ones(2_000), np.linspace(-2.0, 2.0, 2_000)])
        >>> y = x @ [0.5, 1.0] + np.random.default_rng(0).standard_normal(2_000) > 0.0
        >>> fit = sm.laplace(sm.models.glm.probit(x, y), progress=False)
        >>> fit.state["beta"].round(1)
        array([0.5, 1. ])
    """
    rows = rows_of(x, y, most=2, weights=weights)
    x, y = rows.x, restricted(rows.y, zero_one, "probit needs 0 and 1 (or booleans)")
    predictors = Predictors(
        f.linear, f.probit, f.probit_derivatives, f.probit_remainder, etas=f.linears(product(x))
    )
    return made(predictors, draw.probit, {"x": x, "y": y}, log_prior, prior_sd, start, rows)


@helpful
@by_parts
def cloglog(
    x, y, offset=None, prior_sd=10.0, log_prior=None, start=None, exposure=None, weights=None
) -> Model:
    """Complementary log-log regression: y is 1 with probability 1 - exp(-exp(x'beta + offset)).

    So y says whether events that come at the rate exp(x'beta) were seen in a time, the exposure.
    Blocks: beta (d,).

    y: as in sm.models.glm.logistic.
    offset, exposure: as in sm.models.glm.poisson.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.

    Example:
        >>> rng, time = np.random.default_rng(0), np.linspace(0.1, 2.0, 3_000)
        >>> x = np.column_stack([np.ones(3_000), rng.standard_normal(3_000)])
        >>> y = rng.poisson(time * np.exp(x @ [-1.0, 0.5])) > 0
        >>> model = sm.models.glm.cloglog(x, y, exposure=time)
        >>> sm.laplace(model, progress=False).state["beta"].round(1)
        array([-1. ,  0.5])
    """
    rows = rows_of(x, y, most=2, offset=offset, exposure=exposure, weights=weights)
    needs = "cloglog needs 0 and 1 (or booleans)"
    data, eta, etas = with_offset(rows, restricted(rows.y, zero_one, needs))
    predictors = Predictors(
        eta, f.cloglog, f.cloglog_derivatives, f.cloglog_remainder, growth=1.0, etas=etas
    )
    return made(predictors, draw.cloglog(eta), data, log_prior, prior_sd, start, rows)


@helpful
@by_parts
def binomial(x, y, trials, prior_sd=10.0, log_prior=None, start=None, weights=None) -> Model:
    """Logistic regression of counts: y of so many trials, each with log odds x'beta.

    Blocks: beta (d,). The number of ways, of trials the y that were, is left out.

    y: whole numbers from 0 to trials.
    trials: one per row, or one for all.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.
    """
    rows = rows_of(x, y, trials=trials, weights=weights)
    x, y, trials = rows.x, rows.y, rows.others["trials"]
    if np.ndim(trials) == 0:
        trials = np.full(len(y), trials)
    trials = per_row(trials, "trials", len(y))
    wrong = np.flatnonzero(~((trials >= 1.0) & (trials == np.floor(trials))))
    if wrong.size:
        raise ValueError(f"trials[{wrong[0]}] is {trials[wrong[0]]:g}: give whole numbers from 1.")
    y = restricted(y, count, "binomial needs how many trials of each row were so, from 0")
    wrong = np.flatnonzero(y > trials)
    if wrong.size:
        n = wrong[0]
        raise ValueError(f"y[{n}] is {y[n]:g}, of {trials[n]:g} trials: it must be at most these.")
    predictors = Predictors(
        f.linear, f.binomial, f.binomial_derivatives, f.binomial_remainder,
        etas=f.linears(product(x)), sizes=f.binomial_sizes,
    )  # fmt: skip
    data = {"x": x, "y": y, "trials": trials}
    return made(predictors, draw.binomial, data, log_prior, prior_sd, start, rows)


@helpful
@by_parts
def poisson(
    x, y, offset=None, prior_sd=10.0, log_prior=None, start=None, exposure=None, weights=None
) -> Model:
    """Poisson regression: y has mean exp(x'beta + offset). The term log y! is left out.

    Blocks: beta (d,).

    y: counts.
    offset: one number per row.
    exposure: positive numbers whose logarithms are offsets, such as the time in which events were
        counted.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.
    """
    data, eta, etas, rows = counted(x, y, offset, exposure, weights, "poisson")
    predictors = Predictors(
        eta, f.poisson, f.poisson_derivatives, f.poisson_remainder, growth=1.0, etas=etas,
        sizes=f.poisson_sizes,
    )  # fmt: skip
    return made(predictors, draw.poisson(eta), data, log_prior, prior_sd, start, rows)


@helpful
@by_parts
def softmax(x, y, classes=None, prior_sd=10.0, log_prior=None, start=None, weights=None) -> Model:
    """Multinomial logistic regression: y = k has probability proportional to exp(x'beta[k - 1]).

    Blocks: beta (K - 1, d): class 0 is the reference, with score 0. Third derivatives
    are there for up to 6 classes.

    y: 0 .. K - 1.
    classes: K, at most 32; default, the largest label plus one.
    x, prior_sd, log_prior, start, weights: as in sm.models.glm.
    """
    rows = rows_of(x, y, most=CLASSES, weights=weights)
    x = rows.x
    y, classes = labelled(
        rows, classes, "softmax", CLASSES, "class 0 is the reference of all coefficients"
    )
    data, shape = {"x": x, "y": y}, (classes - 1, x.shape[1])
    predictors = replace(predictors_of(classes), etas=f.many_scores(product(x)))
    return made(predictors, draw.softmax, data, log_prior, prior_sd, start, rows, shape)


# -------------------------------------------------------------------------------- common parts
class CountsModel(Model):
    """A model of counts: log likelihoods without what depends on y and the dispersion alone."""

    def left_out(self, state) -> np.ndarray:
        """The terms that the families' docstrings name."""
        y, r = np.asarray(self.data.y, dtype=float), getattr(self.data, "dispersion", None)
        gamma, weights = scipy.special.gammaln, getattr(self.data, "weights", 1.0)
        if hasattr(self.data, "trials"):
            m = np.asarray(self.data.trials, dtype=float)
            return weights * (gamma(m + 1.0) - gamma(y + 1.0) - gamma(m - y + 1.0))
        gammas = -gamma(y + 1.0)
        if r is not None:
            gammas += gamma(y + r) - gamma(r)
        return weights * gammas

    def constant(self) -> float:
        """The same of all data."""
        if self.elsewhere is not None:
            return float(self.elsewhere.sum_over(left_out_by_block, (), told="constants")[0])
        return sum_of_rows(np.broadcast_to(self.left_out(None), self.size))


def left_out_by_block(model: Model, begin: int) -> Tree:
    """What log likelihoods of some rows lack, by block."""
    return tree_of_rows(np.broadcast_to(model.left_out(None), model.size), begin)


def counted(x, y, offset, exposure, weights, family: str):
    """(data, eta, etas, rows) of a model of counts."""
    rows = rows_of(x, y, offset=offset, exposure=exposure, weights=weights)
    y = restricted(rows.y, count, f"{family} needs counts, whole numbers from 0")
    return *with_offset(rows, y), rows


def with_offset(rows: Regression, y: np.ndarray):
    """(data, eta, etas), with an offset where one, or an exposure, was given."""
    x, offset = rows.x, offset_of(rows.others["offset"], rows.others["exposure"])
    if offset is None:
        return {"x": x, "y": y}, f.linear, f.linears(product(x))
    data = {"x": x, "y": y, "offset": per_row(offset, "offset", len(x))}
    return data, f.linear_offset, f.linears_offset(product(x))


def product(x):
    """How x'beta of many rows is computed fastest: along what lies together in memory."""
    return f.by_rows if abs(x.strides[1]) < abs(x.strides[0]) else f.by_columns


def made(predictors, simulate, data, log_prior, prior_sd, start, rows, shape=None) -> Model:
    """The model of one block."""
    beta = initial(start, shape or data["x"].shape[1:])
    if log_prior is None:
        if "sigma" in data:
            warn_of_units(data["y"], prior_sd)
        log_prior = normal(prior_sd)
        warn_of_columns(rows, prior_sd, spread(data["y"]) if "sigma" in data else 1.0, False)
    counts = predictors.log_factor in (f.binomial, f.poisson, f.negative_binomial)
    kind = CountsModel if counts else Model
    predictors = weighed(predictors, data, rows, len(beta) if beta.ndim > 1 else 1)
    model = kind(
        predictors, data, {"beta": beta}, log_prior, simulate=simulate, **named(beta, rows)
    )
    return as_given(model, rows)


def scaled(predictors, simulate, data, log_prior, prior_sd, start, rows) -> Model:
    """The model of two blocks, sigma unknown."""
    sd = spread(data["y"])
    log_sigma = log(sd) if sd > 0.0 else 0.0
    beta = initial(start, data["x"].shape[1:])
    if log_prior is None:
        warn_of_units(data["y"], prior_sd)
        log_prior = with_scale(normal(prior_sd))
        warn_of_columns(rows, prior_sd, sd, False)
    state = {"beta": beta, "log_sigma": log_sigma}
    predictors = weighed(predictors, data, rows, 2)
    model = Model(predictors, data, state, log_prior, simulate=simulate, **named(beta, rows))
    return as_given(model, rows)


def as_given(model: Model, rows: Regression) -> Model:
    """The model, which knows how data frames of predictions are made what it reads."""
    model.design = rows.design
    if rows.terms is not None:
        model.columns = {"x": rows.terms}
    return model


def named(beta: np.ndarray, rows: Regression) -> dict[str, Any]:
    """Names of the coefficients' axes, as sm.Model takes them."""
    coords: dict = {} if rows.terms is None else {"term": rows.terms}
    if beta.ndim == 1:
        return {"dims": {"beta": ("term",)}, "coords": coords} if coords else {}
    classes = rows.classes or np.arange(len(beta) + 1)
    coords["class"] = classes[1:]  # the first has score 0
    return {"dims": {"beta": ("class", "term")}, "coords": coords}


def spread(y) -> float:
    """The standard deviation of some of y."""
    return float(np.std(y[:PIECE], dtype=float))


def warn_of_units(y, prior_sd) -> None:
    """Say that the prior knows better than data in units of thousands."""
    largest = max(abs(float(np.mean(y[:PIECE], dtype=float))), spread(y))
    if largest > FAR * prior_sd:
        warn(
            f"y lies {largest:.3g} from 0, or is as wide, and coefficients are Normal(0, "
            f"{prior_sd:g}^2) a priori, which pulls them to 0. Give prior_sd={largest * 10.0:.1g}, "
            "say, or y in other units: (y - y.mean()) / y.std()."
        )


def normal(prior_sd):
    """log_prior of independent Normal(0, prior_sd^2) coefficients; flat if prior_sd is infinite."""
    if isinstance(prior_sd, float | np.floating) and prior_sd == np.inf:
        return flat
    prior_sd = positive(prior_sd, "prior_sd", "the coefficients' standard deviation a priori")
    half_precision = 0.5 / (prior_sd * prior_sd)
    each = -log(prior_sd) - f.HALF_LOG_2PI

    def log_prior(state):
        total = each * state.beta.size
        for b in state.beta.flat:
            total -= half_precision * b * b
        return total

    return log_prior


def with_scale(prior):
    """log_prior that adds Normal(0, 2^2) on log_sigma to that of the coefficients."""
    constant = -log(LOG_SIGMA_SD * sqrt(2.0 * pi))

    def log_prior(state):
        z = state.log_sigma[0] / LOG_SIGMA_SD
        return prior(state) + constant - 0.5 * z * z

    return log_prior
