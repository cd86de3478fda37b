"""How long is the memory of a market: the order of an ARCH model, from bars to its forecast.

    python examples/analyses/volatility.py

Models of six orders are one model with a discrete block q, whose posterior is that of the order.
`examples/arch_model_selection.py` does it with all checks, tables and figures.
"""

import numpy as np
import pandas as pd

import subsample_mcmc as sm

ORDERS = (1, 2, 3, 4)


def bars(size=20_000):
    """Prices by the minute, whose returns have a memory of two."""
    rng = np.random.default_rng(6)
    z, r = rng.standard_t(5, size) * np.sqrt(0.6), np.zeros(size)
    for i in range(size):
        r[i] = z[i] * np.sqrt(0.5 + 0.25 * r[i - 1] ** 2 + 0.2 * r[i - 2] ** 2)
    times = pd.date_range("2024-01-01", periods=size, freq="min")
    return pd.DataFrame({"close": 100.0 * np.exp(1e-4 * np.cumsum(r))}, index=times)


def analysis(frame, draws=2_000):
    returns = sm.models.returns.log_returns(frame.close, overnight="keep")
    model = sm.models.arch.ARCH(sm.models.returns.standardised(returns).values, orders=ORDERS)
    return sm.sample(model, draws=draws, seed=1), model


if __name__ == "__main__":
    trace, model = analysis(bars())
    found = trace.model_probabilities("q", labels=[f"order {k}" for k in ORDERS])
    print(found, model.summary(trace).round(3), model.forecast(trace).round(3), sep="\n\n")
    found.plot()[0].figure.savefig("volatility.png")
