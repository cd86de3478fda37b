"""The ARCH model: prior, predictors, refusals; and series simulated from it."""

from math import isfinite, log
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from subsample_mcmc.calls import helpful
from subsample_mcmc.errors import warn
from subsample_mcmc.models.arch import forecasts, volatility
from subsample_mcmc.models.returns import checked_returns
from subsample_mcmc.numerics.random import generator_of
from subsample_mcmc.target.constraints import positive
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.population import read_only, whole
from subsample_mcmc.target.predictors import Predictors
from subsample_mcmc.target.user_functions import plain

ORDERS = (5, 10, 15, 20, 25, 30)
ENOUGH = 10  # returns per lag, at least
FAR = 5.0  # standard errors that the mean may lie from 0
WIDE = 10.0  # prior means of a_0: returns of so large a variance are in other units than the prior


class Parameters(NamedTuple):
    """theta by name.

    order: the number of lags.
    nu: degrees of freedom.
    alpha: (a_0, a_1, ..., a_q), as `simulate` takes it.
    """

    order: int
    nu: Any
    alpha: Any


@helpful
class ARCH(Model):
    """ARCH models of several orders in one: a model of q and of theta.

    Blocks: q, the index into `orders`, and theta = (nu, a_0, a_1, ..., a_max). Of theta, the
    first orders[q] + 2 components are in use; the others keep their initial values.
    returns: finite numbers in order of time. The likelihood is that of the same returns for every
        order: all but the first max(orders), which are only conditioned on.
    orders: the numbers of lags among which q chooses.
    log_prior(state) -> float: takes the place of the priors below. Give it with all its constants:
        those of theta have other dimensions for other orders.
    coordinates: in which kernels move theta, see sm.positive: square roots make posteriors nearly
        normal even where an a_i is near 0 (effective draws of an importance sampler at order 30:
        .22 a draw; cube roots .11, softplus next to none).
    prior: probabilities of the orders; default: all the same.
    nu_prior, alpha_prior: (shape, rate) of the Gamma priors of nu and of every a_i.

    Start chains at a fit, start=[fit.state] * 4: the initial state is only a possible one.
    sm.predict(model, trace) draws every return given those before it, as they were, in order of
    time; of later returns with data=ARCH(later, orders).data, of which the first max(orders) are
    only conditioned on.

    What sm.Taylor leaves over has no bound. One of sm.Predictors holds wherever parameters are, and
    the logarithm of a variance has none near 0; and orders differ in how many parameters there are,
    which bounds by intervals do not serve. Of one order, as a plain function, intervals give one,
    of use with few lags and many data: at the usual distance .2 nats over 345,000 simulated data
    with 5 lags, 3 with 10, but 9,400 with 20; over 13,000 data 25 with 5, and none with 10.
    """

    backwards = True  # the latest return is datum 0; what is told of data is in order of time

    def __init__(
        self, returns, orders=ORDERS, log_prior=None, coordinates="squareroot", prior=None,
        nu_prior=(1.0, 1.0), alpha_prior=(1.0, 1.0),
    ):  # fmt: skip
        self.orders = orders_of(orders)
        self.returns = read_only(enough(checked_returns(returns), self.orders[-1]))
        most, count = self.orders[-1], len(self.orders)
        size = len(self.returns) - most
        if log_prior is None:
            weights = probabilities(prior, count)
            nu_prior, alpha_prior = gamma(nu_prior, "nu_prior"), gamma(alpha_prior, "alpha_prior")
            warn_of_units(self.returns, alpha_prior)
            density = volatility.gamma_prior(size, self.orders, weights, nu_prior, alpha_prior)
        elif prior is not None:
            raise ValueError("log_prior takes the place of prior: give one of them.")
        else:
            theirs = plain(log_prior, "log_prior", "log_prior(state) -> float")
            density = volatility.with_constants(size, theirs)
        squares = np.ascontiguousarray(np.square(self.returns)[::-1])
        data = {
            "r2": squares[:size],
            "earlier": squares[most:],
            # The same table for every datum: it takes no memory.
            "orders": np.broadcast_to(np.array(self.orders, dtype=np.int16), (size, count)),
            "most": most,
        }
        fading = 1.0 / np.arange(1, most + 1)
        start = [4.0, 0.5 * float(self.returns.var()), *(0.5 * fading / fading.sum())]
        super().__init__(
            Predictors(
                volatility.eta, volatility.log_factor, volatility.derivatives, etas=volatility.etas
            ),
            data, {"q": 0, "theta": start}, density, support={"q": count},
            constraints={"theta": positive(coordinates)},
            lengths={"theta": ("q", [order + 2 for order in self.orders])},
            dims={"theta": "coefficient"},
            coords={"coefficient": ["nu", *(f"a{i}" for i in range(most + 1))]},
            simulate=volatility.simulate,
        )  # fmt: skip
        self.arguments = (
            self.returns, self.orders, log_prior, coordinates, prior, nu_prior, alpha_prior,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"ARCH(N={self.size}, orders={self.orders})"

    def __reduce__(self):
        return type(self), self.arguments

    def left_out(self, state) -> float:
        """What depends on nu alone: it stands in the log prior, once for all data.

        state: as in log_likelihood.
        """
        return float(volatility.constant(float(state.theta[0])))

    def unpack(self, theta, k: int) -> Parameters:
        """The parameters in use for order k of `orders`.

        theta: values of that block; there may be axes before the last.
        k: an index into orders.
        """
        order, theta = self.orders[k], np.asarray(theta)
        return Parameters(order, theta[..., 0], theta[..., 1 : order + 2])

    def summary(self, trace, weights=None) -> pd.DataFrame:
        """Posterior means and sds of nu, a_0 and the sum of the other a_i, a row per order.

        trace: draws of the model.
        weights: (chains, draws), if draws are not all worth the same; default: what undoes the
            tilt of sm.WangLandau, if there is one.
        """
        return forecasts.summary(self, trace, weights)

    def forecast(self, trace, level: float = 0.9, weights=None) -> pd.DataFrame:
        """The next return, a row per order and one averaged over orders by their probabilities.

        sigma2 is the posterior mean of its squared scale, with a central interval; return_low and
        return_high are that of the return itself, a mixture of Student-t laws.

        trace: draws of the model.
        level: the probability of intervals.
        weights: as for `summary`.
        """
        return forecasts.forecast(self, trace, level, weights)


# ------------------------------------------------------------------------------------- checking
def orders_of(orders) -> tuple[int, ...]:
    """Orders as a tuple of ints, or an error."""
    given = np.asarray(orders)
    good = given.ndim == 1 and given.size > 0 and given.dtype.kind in "iu"
    if not good or given[0] < 1 or np.any(np.diff(given) <= 0) or given[-1] > 32_000:
        raise ValueError(
            f"orders={orders!r}: give positive whole numbers, each larger than the one before."
        )
    return tuple(int(q) for q in given)


def enough(returns: np.ndarray, most: int) -> np.ndarray:
    """The returns, if there are 10 per lag; warns of a mean that is not 0."""
    if len(returns) < ENOUGH * most:
        raise ValueError(
            f"{len(returns)} returns for orders up to {most}: give at least {ENOUGH * most}, or "
            "lower orders."
        )
    mean, error = float(returns.mean()), float(returns.std()) / len(returns) ** 0.5
    if abs(mean) > FAR * error:
        warn(
            f"the returns' mean is {mean:.3g}, {abs(mean) / error:.1f} standard errors from 0, and "
            "the model has none: remove it, as sm.models.returns.standardised does.",
        )
    return returns


def warn_of_units(returns: np.ndarray, alpha_prior: tuple[float, float]) -> None:
    """Say that the prior of a_0, and so of orders, is about returns in other units."""
    shape, rate = alpha_prior
    if (variance := float(returns.var())) > WIDE * shape / rate:
        warn(
            f"the returns' variance is {variance:.3g}, and a_0, a part of it, is Gamma({shape:g}, "
            f"{rate:g}) a priori, of mean {shape / rate:.3g}: orders and nu would make up for it. "
            "Give returns of variance 1, as sm.models.returns.standardised makes them, or "
            "alpha_prior=(shape, rate) of that size, or log_prior.",
        )


def probabilities(prior, count: int) -> list[float]:
    """Logarithms of the orders' prior probabilities."""
    given = np.full(count, 1.0 / count) if prior is None else np.asarray(prior, dtype=float)
    if given.shape != (count,) or not np.all(given > 0.0) or abs(given.sum() - 1.0) > 1e-8:
        raise ValueError(
            f"prior={prior!r}: give {count} positive probabilities, one per order, of sum 1."
        )
    return [log(p) for p in given]


def gamma(given, name: str) -> tuple[float, float]:
    """(shape, rate) of a Gamma prior, or an error."""
    try:
        shape, rate = (float(number) for number in given)
    except (TypeError, ValueError):
        shape = rate = 0.0
    if not (shape > 0.0 and rate > 0.0 and isfinite(shape * rate)):
        raise ValueError(f"{name}={given!r}: give (shape, rate), two positive numbers.")
    return shape, rate


# ------------------------------------------------------------------------------- simulated series
# One year of five-minute bars as they might be: about a third of today's squared scale is an
# echo of the last 15 bars, ever fainter, and innovations have heavy tails.
YEAR, SEED, NU = 13_702, 2021, 4.0  # of 2016 to 2025, a seed under which orders compete
ECHO = 0.4 * np.exp(-np.arange(15) / 8.0) / np.exp(-np.arange(15) / 8.0).sum()
ALPHA = (0.1, *map(float, ECHO))


def simulate(size: int, alpha: Any, nu: float, seed: Any = None, burn: int = 1000) -> np.ndarray:
    """Returns r_t = sigma_t z_t, sigma_t^2 = alpha[0] + sum_i alpha[i] r_{t-i}^2.

    z_t is standard Student-t with nu degrees of freedom, of variance nu / (nu - 2): the series is
    stationary with a finite variance if sum(alpha[1:]) nu / (nu - 2) < 1, else it is refused.
    size: how many returns.
    alpha: (a_0, a_1, ..., a_q), a_0 above 0, the others 0 or more.
    nu: degrees of freedom, above 2.
    burn: values that are thrown away, after a start at the stationary variance.
    seed: None, int, SeedSequence or Generator.
    """
    a, nu, size = np.asarray(alpha, dtype=float), float(nu), whole(size, "size", "how many")
    if a.ndim != 1 or len(a) < 1 or not (a[0] > 0.0 and np.all((a >= 0.0) & (a < np.inf))):
        raise ValueError(f"alpha={alpha!r}: give (a_0, a_1, ..., a_q), a_0 > 0, the others >= 0.")
    echo = a[1:].sum()
    if not (2.0 < nu < np.inf and echo * nu / (nu - 2.0) < 1.0):
        raise ValueError(
            f"nu={nu:g} and sum(alpha[1:])={echo:g}: with scale sigma_t, Student-t innovations "
            "have the variance nu / (nu - 2), so a stationary series needs nu > 2 and "
            "sum(alpha[1:]) nu / (nu - 2) < 1; otherwise it explodes."
        )
    if burn != int(burn) or burn < 0:
        raise ValueError(f"burn={burn!r}: give a whole number, 0 or more.")
    rng, order, spread = generator_of(seed), len(a) - 1, nu / (nu - 2.0)
    z = rng.standard_t(nu, size + int(burn))
    r = np.empty(order + len(z))
    squares = np.full(len(r), spread * a[0] / (1.0 - echo * spread))
    weights = np.ascontiguousarray(a[:0:-1])  # of the earliest lag first
    for t in range(order, len(r)):
        r[t] = np.sqrt(a[0] + weights @ squares[t - order : t]) * z[t - order]
        squares[t] = r[t] * r[t]
    return r[order + int(burn) :]


def example_returns(size: int = YEAR, seed: Any = SEED) -> np.ndarray:
    """A year of five-minute returns: nu = 4, a_0 = .1, 15 lags that fade like exp(-i / 8).

    The a_i add up to .4, so the variance is 1.

    size: how many returns.
    seed: as in sm.models.arch.simulate; the default gives the series of the examples.
    """
    return simulate(size, ALPHA, NU, seed)
