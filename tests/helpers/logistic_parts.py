"""A logistic likelihood as the parts of sm.Predictors, and a proposal that stays where it is."""

import subsample_mcmc as sm


def log_factor(e, data, n):
    return data.y[n] * e - sm.log1p(sm.exp(e))


def derivatives(e, data, n):
    p = 1.0 / (1.0 + sm.exp(-e))
    w = p * (1.0 - p)
    return data.y[n] - p, -w, -w * (1.0 - 2.0 * p)


def remainder(e, data, n):
    return 0.1, 0.125  # of logistic third and fourth derivatives, whatever e is


def stay(rng, current, out):
    """No move of two numbers: so that draws of a discrete block are independent."""
    out[0] = current[0]
    out[1] = current[1]
