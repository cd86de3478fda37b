"""Student-t ARCH models of unknown order: sm.models.arch.ARCH(returns, orders=(5, 10, 15)).

r_t = sigma_t z_t, sigma_t^2 = a_0 + sum_{i <= q} a_i r_{t-i}^2, z_t standard Student-t with nu
degrees of freedom: sigma_t is its scale, its variance is sigma_t^2 nu / (nu - 2). Which q, and
with which parameters, is what a chain over (q, theta) finds.

The mean of the returns is taken to be 0 and nothing is rescaled: sm.models.returns has the steps
from a file of bars to standardised returns, to be taken where one sees them. `simulate` draws
series of given parameters, `example_returns` a year of five-minute returns to try things on.

Start with model.py; volatility.py is the likelihood and the prior, forecasts.py reads draws. How
prices become returns does not enter.

Engle, R. F. (1982). Autoregressive conditional heteroscedasticity with estimates of the variance
of United Kingdom inflation. Econometrica 50(4), 987-1007. doi:10.2307/1912773
"""

from subsample_mcmc.models.arch.model import ARCH, Parameters, example_returns, simulate

__all__ = ["ARCH", "Parameters", "example_returns", "simulate"]


def __dir__() -> list[str]:
    return sorted(__all__)
