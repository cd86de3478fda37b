"""Which records are one person: 1,200 of them, compared within their postcode.

    python examples/analyses/records.py

A score of two records is positive if they look like one person's, and a column says which may be
compared at all. A draw is a partition of the records. What is kept of it are how many people there
are, and who they are. A clerk knows of 1,500 pairs whether they are one person: the chains do not.
What they predict of these pairs is drawn beside what is known. It agrees but for scores just below
0, where two people who look alike are joined by what each of them looks like.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import subsample_mcmc as sm


def records(people=200, size=1_200, known=1_500):
    """Three numbers as they were noted, with errors, the postcode, who it was; and the clerk's."""
    rng = np.random.default_rng(9)
    who = rng.integers(people, size=size)
    truth = pd.DataFrame(rng.normal(0.0, 3.0, (people, 3)), columns=["age", "income", "rent"])
    frame = truth.iloc[who].reset_index(drop=True) + rng.normal(0.0, 0.3, (size, 3))
    frame = frame.assign(postcode=who % 12, who=who).rename_axis("n")
    pairs = frame.reset_index().merge(frame.reset_index(), on="postcode")
    near = (abs(pairs.age_x - pairs.age_y) < 2.0) & (abs(pairs.rent_x - pairs.rent_y) < 2.0)
    pairs = pairs[near & (pairs.n_x < pairs.n_y)].sample(known, random_state=0)
    return frame, pairs.assign(same=pairs.who_x == pairs.who_y)[["n_x", "n_y", "same"]]


def similarity(data, i, j):
    """Log odds that two records are one person's."""
    years, money = data.age[i] - data.age[j], data.income[i] - data.income[j]
    rent = data.rent[i] - data.rent[j]
    return max(3.0 - 2.0 * (years * years + money * money + rent * rent), -5.0)


def people(state):
    return len(np.unique(state.person))


def analysis(frame, pairs, draws=500):
    model = sm.Model(
        None, frame.drop(columns="who"), {"person": np.arange(len(frame))},
        support={"person": len(frame)},
    )  # fmt: skip
    gibbs = sm.GibbsPartition("person", similarity, candidates="postcode", new=-2.0)
    kept = {"person": True, "people": people}
    kernel = gibbs >> sm.MergeSplit(gibbs, moves=0.1)
    trace = sm.sample(model, kernel, draws=draws, warmup=100, keep=kept, seed=1)
    person = trace.draws["person"].reshape(-1, len(frame))
    same = pd.DataFrame((person[:, pairs.n_x] == person[:, pairs.n_y]).T, pairs.index)
    scores = [similarity(frame, i, j) for i, j in zip(pairs.n_x, pairs.n_y, strict=True)]
    groups = pd.cut(pd.Series(scores, pairs.index), 8)
    said = same.groupby(groups).mean().quantile([0.05, 0.95], axis=1).T
    return trace, said.assign(known=pairs.same.groupby(groups).mean())


if __name__ == "__main__":
    frame, pairs = records()
    trace, said = analysis(frame, pairs)
    print(trace.summary("people").round(2).to_string(), "in truth", frame.who.nunique())
    last = trace.draws["person"][0, -1]
    print("agreement of the last draw:", sm.models.coreference.b_cubed(last, frame.who), said)
    middle = said.index.map(lambda scores: scores.mid)
    plt.fill_between(middle, said[0.05], said[0.95], color="0.7", label="predicted, 90%")
    plt.plot(middle, said.known, "ko", label="known to the clerk")
    plt.gca().set(xlabel="score of a pair", ylabel="share of pairs that are one person")
    plt.legend()
    plt.savefig("records.png")
