"""Before an election: support in each state from 3,000 polls, with what pollsters add.

    python examples/analyses/election.py

A poll's log odds are those of its state, plus its pollster's own error; both have scales that are
found. States with few polls lean on the others.
"""

import numpy as np
import pandas as pd

import subsample_mcmc as sm


def polls(size=3_000, states=50, pollsters=40):
    """A row for each poll: where, by whom, of how many, and how many are in favour."""
    rng = np.random.default_rng(7)
    where = rng.choice(states, size, p=rng.dirichlet(np.full(states, 2.0)))
    frame = pd.DataFrame({
        "state": pd.Categorical([f"state {i:02d}" for i in where]),
        "pollster": pd.Categorical([f"house {i:02d}" for i in rng.integers(pollsters, size=size)]),
        "asked": rng.integers(300, 2_000, size),
    })  # fmt: skip
    at = rng.normal(0.05, 0.25, states)[frame.state.cat.codes]
    by = rng.normal(0.0, 0.08, pollsters)[frame.pollster.cat.codes]
    return frame.assign(favour=rng.binomial(frame.asked, 1.0 / (1.0 + np.exp(-at - by))))


def log_odds(state, data, n):
    return state.support[data.state[n]] + state.house[data.pollster[n]]


def log_likelihood(state, data, n):
    eta = log_odds(state, data, n)
    return data.favour[n] * eta - data.asked[n] * sm.softplus(eta)


def simulate(rng, state, data, n):
    return float(rng.binomial(data.asked[n], 1.0 / (1.0 + sm.exp(-log_odds(state, data, n)))))


def of_state(state, i):
    z = (state.support[i] - state.mean[0]) / state.between[0]
    return -0.5 * z * z - sm.log(state.between[0])


def of_house(state, i):
    z = state.house[i] / state.bias[0]
    return -0.5 * z * z - sm.log(state.bias[0])


def analysis(frame, draws=1_000):
    model = sm.Model(
        log_likelihood, frame,
        {"support": np.zeros(frame.state.nunique()), "house": np.zeros(frame.pollster.nunique()),
         "mean": 0.0, "between": 0.3, "bias": 0.1},
        lambda state: -0.5 * state.mean[0] ** 2 - state.between[0] - 5.0 * state.bias[0],
        constraints={"between": sm.positive, "bias": sm.positive},
        touches={"support": "state", "house": "pollster"},
        site_prior={"support": of_state, "house": of_house},
    )  # fmt: skip
    trace = sm.sample(model, draws=draws, seed=1)
    said = sm.predict(
        model, trace, simulate, name="favour", draws=100, seed=2,
        statistics={"in favour": np.sum, "largest poll": np.max, "sd": np.std},
    )  # fmt: skip
    return trace, said


if __name__ == "__main__":
    trace, said = analysis(polls())
    print(trace.summary(["mean", "between", "bias"]).round(4).to_string())
    won = (trace.posterior["support"] > 0.0).mean(("chain", "draw")).to_series()
    print("states won in at least 99 of 100 draws:", int((won > 0.99).sum()), "of", len(won))
    said.plot()[0].figure.savefig("election.png")
