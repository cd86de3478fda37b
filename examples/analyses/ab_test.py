"""An A/B test in 2,000 cells: what a change does in each of them, and overall.

    python examples/analyses/ab_test.py

A cell, one country on one device, has too few visitors to be judged by itself: lifts are normal
around an overall one, with a scale that is found. A datum is half of a cell, with or without the
change.
"""

import numpy as np
import pandas as pd

import subsample_mcmc as sm


def visits(cells=2_000):
    """Visitors and buyers of each half of each cell."""
    rng = np.random.default_rng(1)
    names = [f"cell {i:04d}" for i in range(cells)]
    frame = pd.DataFrame({"cell": np.repeat(names, 2), "changed": np.tile([0.0, 1.0], cells)})
    usual, lift = rng.normal(-3.0, 0.5, cells), rng.normal(0.1, 0.15, cells)
    eta = np.repeat(usual, 2) + frame.changed * np.repeat(lift, 2)
    frame["visitors"] = rng.integers(100, 3_000, 2 * cells)
    frame["buyers"] = rng.binomial(frame.visitors, 1.0 / (1.0 + np.exp(-eta)))
    return frame.astype({"cell": "category"})


OVERALL = {"usual_mean": 0.0, "lift_mean": 0.0, "usual_sd": 1.0, "lift_sd": 1.0}


def log_odds(state, data, n):
    return state.usual[data.cell[n]] + data.changed[n] * state.lift[data.cell[n]]


def log_likelihood(state, data, n):
    eta = log_odds(state, data, n)
    return data.buyers[n] * eta - data.visitors[n] * sm.softplus(eta)


def simulate(rng, state, data, n):
    return float(rng.binomial(data.visitors[n], 1.0 / (1.0 + sm.exp(-log_odds(state, data, n)))))


def of_usual(state, i):
    z = (state.usual[i] - state.usual_mean[0]) / state.usual_sd[0]
    return -0.5 * z * z - sm.log(state.usual_sd[0])


def of_lift(state, i):
    z = (state.lift[i] - state.lift_mean[0]) / state.lift_sd[0]
    return -0.5 * z * z - sm.log(state.lift_sd[0])


def log_prior(state):
    means = state.usual_mean[0] ** 2 / 9.0 + state.lift_mean[0] ** 2
    return -0.5 * means - state.usual_sd[0] - state.lift_sd[0]


def analysis(frame, draws=2_000):
    each = np.zeros(frame.cell.nunique())
    model = sm.Model(
        log_likelihood, frame, {"usual": each, "lift": each, **OVERALL}, log_prior,
        constraints={"usual_sd": sm.positive, "lift_sd": sm.positive},
        touches={"usual": "cell", "lift": "cell"},
        site_prior={"usual": of_usual, "lift": of_lift},
    )  # fmt: skip
    trace = sm.sample(model, draws=draws, seed=1)
    said = sm.predict(
        model, trace, simulate, draws=100, name="buyers", seed=2,
        statistics={"all": np.sum, "most": np.max, "halves without": lambda y: np.sum(y == 0)},
    )  # fmt: skip
    return trace, said


if __name__ == "__main__":
    trace, said = analysis(visits())
    print(trace.summary(["lift_mean", "lift_sd"]).round(4).to_string())
    print(trace.posterior["lift"].mean(("chain", "draw")).to_series().nlargest(5))
    print(said.summary().round(3).to_string())
    said.plot()[0].figure.savefig("ab_test.png")
