"""A survey that asked too many of some: what all people think, by states, ages and the census.

    python examples/analyses/survey.py

Answers are modelled by state, age and school; predictions of the census' cells, added up by how
many people are in each, are post-stratified: the old are asked more often than there are of them.
"""

import numpy as np
import pandas as pd

import subsample_mcmc as sm

STATES, AGES = [f"state {i:02d}" for i in range(1, 31)], ["18-29", "30-44", "45-64", "65+"]


def asked(size=40_000):
    """(a row for each answer, a row for each cell of the census with its people)."""
    rng = np.random.default_rng(3)
    census = pd.MultiIndex.from_product(
        [STATES, AGES, [0.0, 1.0]], names=["state", "age", "school"]
    )
    census = census.to_frame(index=False)
    census["people"] = rng.integers(10_000, 200_000, len(census))
    young = census.age.map(dict(zip(AGES, [4.0, 3.0, 2.0, 1.0], strict=True)))
    cell = rng.choice(len(census), size, p=(census.people / young).pipe(lambda p: p / p.sum()))
    frame = census.drop(columns="people").iloc[cell].reset_index(drop=True)
    by_state = frame.state.map(dict(zip(STATES, rng.normal(0.0, 0.5, len(STATES)), strict=True)))
    eta = by_state + 0.3 * frame.school - 0.4 * (frame.age == "65+")
    frame["yes"] = (rng.random(size) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    return frame, census


def analysis(frame, census, draws=1_000):
    model = sm.models.glm.logistic("yes ~ C(state) + C(age) + school", frame, prior_sd=1.5)
    trace = sm.sample(model, draws=draws, seed=1)
    share = {"yes, of all people": lambda y: np.average(y, weights=census.people)}
    share |= {
        age: lambda y, age=age: np.average(y, weights=census.people.where(census.age == age, 0))
        for age in AGES
    }
    return trace, sm.predict(model, trace, data=census, statistics=share, seed=2)


if __name__ == "__main__":
    trace, said = analysis(*asked())
    print(trace.summary().tail(4).round(3).to_string())
    print(said.summary().round(4).to_string())
    said.plot()[0].figure.savefig("survey.png")
