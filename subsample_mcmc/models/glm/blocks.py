"""Models of plain log likelihoods with blocks beside beta: cutpoints, a shape, a share of zeros.

What such a likelihood is of the parameters has no bound that holds everywhere: as cutpoints meet,
say, its derivatives are infinite. So it is a plain function, of which sm.Taylor finds predictors,
derivatives and, around the fit, bounds by intervals (10,000 data or more): then decisions are
proved there, and read what they need farther off. kernel.describe(model) says which.
"""

from collections.abc import Callable
from math import log, pi, sqrt
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.errors import warn
from subsample_mcmc.models.glm.columns import (
    Regression,
    all_are_here,
    initial,
    warn_of_columns,
)
from subsample_mcmc.models.glm.model import LOG_SIGMA_SD, as_given, named, normal
from subsample_mcmc.models.glm.weights import weighed
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.predictors import Predictors

ENDLESS = 30.0  # log_dispersion: counts are Poisson numbers there, if they are below 10^12


class Extra(NamedTuple):
    """A block beside beta."""

    name: str
    start: Any
    prior: Callable  # prior(rest, prior_sd) -> a log prior of beta and of this block
    constraint: Any = None
    labels: Any = None  # (axis, labels) of its components


def with_blocks(
    likelihood: Callable | Predictors, simulate: Callable, data: dict, rows: Regression,
    extras: list[Extra], log_prior, prior_sd, start,
) -> Model:  # fmt: skip
    """The model of beta and other blocks."""
    beta = initial(start, data["x"].shape[1:])
    likelihood, own = weighed(likelihood, data, rows, 2), log_prior is not None
    if log_prior is None:
        log_prior = normal(prior_sd)
        warn_of_columns(rows, prior_sd, 1.0, any(extra.constraint for extra in extras))
        for extra in extras:
            log_prior = extra.prior(log_prior, prior_sd)
    names: dict[str, Any] = {"dims": {}, "coords": {}} | named(beta, rows)
    for extra in extras:
        if extra.labels is not None:
            axis, labels = extra.labels
            names["dims"][extra.name], names["coords"][axis] = (axis,), labels
    model = Model(
        likelihood, data, {"beta": beta} | {extra.name: extra.start for extra in extras}, log_prior,
        constraints={extra.name: extra.constraint for extra in extras if extra.constraint},
        simulate=simulate, missing="infinite" if "upper" in data else "refuse", **names,
    )  # fmt: skip
    if own and any(extra.name == "log_dispersion" for extra in extras):
        warn_of_endless(model)
    return as_given(model, rows)


def warn_of_endless(model: Model) -> None:
    """Say that a prior of one's own leaves log_dispersion without an end: to Poisson counts."""
    known = []
    for value in (0.0, ENDLESS):
        ints, floats = model.ints.copy(), model.floats.copy()
        model.set_state(ints, floats, {"log_dispersion": value})
        known.append(float(model.log_prior(model.state(ints, floats))))
    if known[1] >= known[0]:
        warn(
            "log_prior takes the place of all priors, and says nothing of log_dispersion, or that "
            "it grows: as it does, the likelihood tends to that of Poisson counts, and not to 0. "
            "Add a term for it, such as -0.125 * state.log_dispersion[0] ** 2, which is the "
            "default one."
        )


def normal_number(read: Callable) -> Callable:
    """The prior of a block of one number, Normal(0, 2^2); read(state): the number."""
    constant = -log(LOG_SIGMA_SD * sqrt(2.0 * pi))

    def add(rest, prior_sd):
        def log_prior(state):
            z = read(state) / LOG_SIGMA_SD
            return rest(state) + constant - 0.5 * z * z

        return log_prior

    return add


def refuse_constant(x: np.ndarray, family: str) -> None:
    """Refuse a column that is an intercept where cutpoints are."""
    for j in range(x.shape[1] if all_are_here() else 0):
        column = x[:, j]
        if len(column) > 1 and column[0] == column[-1] and np.all(column == column[0]):
            raise ValueError(
                f"x[:, {j}] is {column[0]} in every row: {family} has cutpoints in the place of an "
                "intercept, and both together are not determined. Leave it out."
            )
