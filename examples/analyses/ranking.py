"""Ranking of 300 players by their matches: who is best, and how sure is that.

    python examples/analyses/ranking.py

The chance that one wins is 1 / (1 + exp(skill of the other - skill)); skills are normal around 0,
with a scale that is found (Bradley & Terry). The names are those of the columns' categories.
"""

import numpy as np
import pandas as pd

import subsample_mcmc as sm


def matches(players=300, size=30_000):
    """Winner and loser of each match, by name."""
    rng = np.random.default_rng(4)
    names = np.array([f"player {i:03d}" for i in range(players)])
    skill = rng.normal(0.0, 0.8, players)
    first = rng.integers(players, size=size)
    second = (first + rng.integers(1, players, size=size)) % players
    won = rng.random(size) < 1.0 / (1.0 + np.exp(skill[second] - skill[first]))
    pairs = {"winner": np.where(won, first, second), "loser": np.where(won, second, first)}
    return pd.DataFrame({k: pd.Categorical(names[v], names) for k, v in pairs.items()})


def log_likelihood(state, data, n):
    return sm.log_sigmoid(state.skill[data.winner[n]] - state.skill[data.loser[n]])


def simulate(rng, state, data, n):
    """1 if the winner wins again."""
    return 1.0 if np.log(rng.random()) < log_likelihood(state, data, n) else 0.0


def of_player(state, i):
    z = state.skill[i] / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def analysis(frame, draws=1_000):
    model = sm.Model(
        log_likelihood, frame, {"skill": np.zeros(frame.winner.nunique()), "tau": 1.0},
        lambda state: -0.5 * state.tau[0] ** 2, constraints={"tau": sm.positive},
        touches={"skill": ("winner", "loser")}, site_prior={"skill": of_player},
        dims={"skill": ["player"]},
    )  # fmt: skip
    trace = sm.sample(model, draws=draws, seed=1)
    again = {"share of matches that end so again": np.mean}
    return trace, sm.predict(model, trace, simulate, statistics=again, draws=100, seed=2)


if __name__ == "__main__":
    trace, said = analysis(matches())
    skill = trace.posterior["skill"]
    best = skill.idxmax("player").to_series().value_counts(normalize=True)
    print(skill.mean(("chain", "draw")).to_series().nlargest(5).round(2))
    print("the best of all, and how probably:", best.head(3).round(3).to_dict())
    said.plot()[0].figure.savefig("ranking.png")
