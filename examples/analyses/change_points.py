"""When did a rate change: 20,000 hours of counts, with a time for an answer.

    python examples/analyses/change_points.py

Every hour may be the one. `cumulative=True`, which `sm.sample(model)` finds by itself, draws among
all of them exactly, at the price of two passes over the data.
"""

import numpy as np
import pandas as pd

import subsample_mcmc as sm


def counts(size=20_000):
    """Counts by the hour, at 3 an hour and then at 3.3."""
    rng = np.random.default_rng(5)
    hours = pd.date_range("2024-01-01", periods=size, freq="h")
    rate = np.where(hours < hours[size * 2 // 3], 3.0, 3.3)
    return pd.DataFrame({"hour": hours, "calls": rng.poisson(rate)})


def rate_of(state, n):
    return state.rate[0] if n < state.change[0] else state.rate[1]


def log_likelihood(state, data, n):
    return data.calls[n] * sm.log(rate_of(state, n)) - rate_of(state, n)


def simulate(rng, state, data, n):
    return float(rng.poisson(rate_of(state, n)))


def analysis(frame, draws=1_000):
    model = sm.Model(
        log_likelihood, {"calls": frame.calls},
        {"change": len(frame) // 2, "rate": frame.calls.mean() * np.array([0.9, 1.1])},
        lambda state: -0.2 * (state.rate[0] + state.rate[1]),
        support={"change": len(frame)}, constraints={"rate": sm.positive},
        dims={"rate": ["when"]}, coords={"when": ["before", "after"]},
    )  # fmt: skip
    trace = sm.sample(model, draws=draws, seed=1)
    said = sm.predict(
        model, trace, simulate, name="calls", draws=100, seed=2,
        statistics={"sd": np.std, "most": np.max, "none": lambda y: np.sum(y == 0)},
    )  # fmt: skip
    return trace, said


if __name__ == "__main__":
    frame = counts()
    trace, said = analysis(frame)
    print(trace.summary().round(3).to_string())
    when = frame.hour.iloc[trace.draws["change"].ravel()]
    print("it changed between", when.quantile(0.05), "and", when.quantile(0.95), "(90%)")
    said.plot()[0].figure.savefig("change_points.png")
