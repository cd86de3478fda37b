"""How long is the memory of a market: the order of an ARCH model, from bars to its forecast.

    python examples/analyses/volatility.py

Models of four orders are one model with a discrete block q, whose posterior is that of the order.
The last 300 returns are not shown to it: each is predicted from the posterior and from the returns
before it, a minute ahead. `examples/arch_model_selection.py` has all checks, tables and figures.
"""

import matplotlib.pyplot as plt
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


def analysis(frame, draws=2_000, last=300):
    returns = sm.models.returns.log_returns(frame.close, overnight="keep")
    returns = sm.models.returns.standardised(returns).values
    model = sm.models.arch.ARCH(returns[:-last], orders=ORDERS)
    trace = sm.sample(model, draws=draws, seed=1)
    later = sm.models.arch.ARCH(returns[-last:], orders=ORDERS)
    hidden = pd.Series(later.returns, frame.index[-last:])[max(ORDERS) :]  # the first are given
    said = sm.predict(model, trace, data=later.data, draws=500, observed=hidden, seed=2)
    return trace, model, said, hidden


if __name__ == "__main__":
    trace, model, said, hidden = analysis(bars())
    found = trace.model_probabilities("q", labels=[f"order {k}" for k in ORDERS])
    print(found, model.summary(trace).round(3), model.forecast(trace).round(3), sep="\n\n")
    print(said.summary().round(3))
    low, high = said.dataset["y"].quantile([0.05, 0.95], ("chain", "draw")).values
    figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
    axes.fill_between(hidden.index, low, high, color="0.8", label="predicted a minute ahead, 90%")
    inside = ((low < hidden) & (hidden < high)).mean()
    axes.plot(hidden, "k.", markersize=3, label=f"returns: {inside:.0%} of them inside")
    axes.legend(loc="lower left")
    figure.savefig("volatility.png")
