"""Generalised linear models with all that subsampling can use: sm.models.glm.logistic(x, y).

Most functions make an `sm.Model` of `sm.Predictors`: log factors that vectorise, derivatives in
closed form, and bounds of their third and fourth derivative, the least that hold everywhere (for
models of rates: next to each point), which make raced decisions provable. Where a likelihood has
parameters beside coefficients (cutpoints, a shape, a share of zeros), no such bounds hold
everywhere, but for hurdle_poisson, and hurdle_negative_binomial of a given dispersion; these models
are plain log likelihoods, of which sm.Taylor finds predictors, derivatives and, of 10,000 data or
more, bounds around the fit by intervals.

classes             logistic, probit, cloglog, softmax; ordered_logistic, ordered_probit
counts              binomial, poisson, negative_binomial; zero_inflated_poisson,
                    zero_inflated_negative_binomial, hurdle_poisson, hurdle_negative_binomial
numbers             gaussian, student_t; positive ones gamma_regression, shares beta_regression
times, censored     weibull, log_normal

x: the design matrix (N, d), float32 or float64 in any memory layout, memory-mapped too: it is
    read once to be checked and never copied. No intercept is added: give a column of ones, as in
    np.column_stack([np.ones(N), x]). Columns of like scale make every kernel's work easier. Names
    of a data frame's columns become those of the coefficients: beta[age] in tables of draws.
    Or a formula, "claims ~ age + C(region)", with a data frame in the place of y: as formulaic
    reads it (pip install 'subsample-mcmc[formulas]'), with an intercept; rows with missing values
    are refused. Offsets and exposures are then arrays, or names of columns.
    Rows that are elsewhere: x is sm.parquet(...), or a frame of dask, and y the name of a column;
    x are all columns that no argument names. Or x and y, and what else is given by row, are arrays
    of dask. Draws are those of rows in memory.
y: one value per row. Floats are not copied; whole numbers and booleans are kept as float64.
prior_sd: coefficients are independent Normal(0, prior_sd^2) a priori, the intercept too; np.inf: a
    flat prior. Columns that it allows no effect, as years, are told of: center them, or scale them.
log_prior(state) -> float: takes the place of that prior; the coefficients are state.beta[j].
start: the initial beta; default zeros.
weights: one number per row, 0 or more, by which its log likelihood is multiplied, such as weights
    of a survey; in a formula's frame, the name of a column. Standard deviations are those of as
    many data as the weights add up to: scale them to what the data are worth. Predictions, of
    single data, do not need them.

Log factors of binomial, poisson and negative_binomial are log densities without what no coefficient
has a part in (log y! of counts, and what depends on y and a given dispersion): differences between
states, posteriors and derivatives need none of it. A fit's log evidence does, and to_arviz: they
add it. Those of softmax and all others are log densities.
Numbers such as sigma are fields of the data, so models that differ in them share machine code;
another prior_sd compiles the prior anew, which is short.
Whether a logistic model's classes can be separated by a plane, in which case the likelihood has
no maximum, is not checked: a proper prior keeps the posterior proper.

Start with model.py, which makes the models; families.py and scores.py are their log factors, one
datum each, and columns.py checks what is given. Those with other blocks, made by blocks.py, stand
in ordered.py, positive.py, survival.py, zeros.py and hurdles.py. Kernels and chains do not enter.
"""

from subsample_mcmc.models.glm.hurdles import hurdle_negative_binomial, hurdle_poisson
from subsample_mcmc.models.glm.model import (
    binomial,
    cloglog,
    gaussian,
    logistic,
    poisson,
    probit,
    softmax,
    student_t,
)
from subsample_mcmc.models.glm.ordered import ordered_logistic, ordered_probit
from subsample_mcmc.models.glm.positive import beta_regression, gamma_regression
from subsample_mcmc.models.glm.survival import log_normal, weibull
from subsample_mcmc.models.glm.zeros import (
    negative_binomial,
    zero_inflated_negative_binomial,
    zero_inflated_poisson,
)

__all__ = [
    "beta_regression",
    "binomial",
    "cloglog",
    "gamma_regression",
    "gaussian",
    "hurdle_negative_binomial",
    "hurdle_poisson",
    "log_normal",
    "logistic",
    "negative_binomial",
    "ordered_logistic",
    "ordered_probit",
    "poisson",
    "probit",
    "softmax",
    "student_t",
    "weibull",
    "zero_inflated_negative_binomial",
    "zero_inflated_poisson",
]


def __dir__() -> list[str]:
    return sorted(__all__)
