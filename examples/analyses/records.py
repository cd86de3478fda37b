"""Which records are one person: 1,200 of them, compared within their postcode.

    python examples/analyses/records.py

A score of two records is positive if they look like one person's, and a column says which may be
compared at all. A draw is a partition of the records. What is kept of it are how many people there
are, and which records are one with the first of their postcode.
"""

import numpy as np
import pandas as pd

import subsample_mcmc as sm


def records(people=200, size=1_200):
    """Age and income as they were noted, with errors, the postcode, and who it was."""
    rng = np.random.default_rng(9)
    who = rng.integers(people, size=size)
    truth = pd.DataFrame({"age": rng.uniform(20, 80, people), "income": rng.normal(0, 3, people)})
    frame = truth.iloc[who].reset_index(drop=True) + rng.normal(0.0, 0.3, (size, 2))
    return frame.assign(postcode=who % 12, who=who)


def similarity(data, i, j):
    """Log odds that two records are one person's."""
    years, money = data.age[i] - data.age[j], data.income[i] - data.income[j]
    return max(3.0 - 2.0 * (years * years + money * money), -5.0)


def people(state):
    return len(np.unique(state.person))


def analysis(frame, draws=500):
    model = sm.Model(
        None, frame[["age", "income", "postcode"]], {"person": np.arange(len(frame))},
        support={"person": len(frame)},
    )  # fmt: skip
    gibbs = sm.GibbsPartition("person", similarity, candidates="postcode", new=-2.0)
    kernel = gibbs >> sm.MergeSplit(gibbs, moves=0.1)
    return sm.sample(
        model, kernel, draws=draws, warmup=100, keep={"person": True, "people": people}, seed=1
    )


if __name__ == "__main__":
    frame = records()
    trace = analysis(frame)
    print(trace.summary("people").round(2).to_string(), "in truth", frame.who.nunique())
    last = trace.draws["person"][0, -1]
    print("agreement of the last draw:", sm.models.coreference.b_cubed(last, frame.who))
    trace.posterior["people"].plot.hist()[2][0].figure.savefig("records.png")
