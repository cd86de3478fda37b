"""Skills of players from matches between two of them (Bradley & Terry), many players.

    python examples/bradley_terry.py [--players 2000] [--matches 160000] [--quick]

The chance that the first wins is 1 / (1 + exp(skill of the second - skill of the first)); skills
are normal around 0 with a standard deviation tau of their own. Each match sees two players: two
columns say which. A player's skill moves by his own matches. Truth is printed beside the result,
and the best ten with the chance that each is the best of all.
"""

import argparse
import time

import arviz
import numpy as np

import subsample_mcmc as sm

TAU = 0.8  # what skills are drawn with


def log_likelihood(state, data, n):
    return sm.log_sigmoid(state.skill[data.winner[n]] - state.skill[data.loser[n]])


def log_prior(state):
    return -0.5 * state.tau[0] ** 2  # half-normal


def of_player(state, i):
    z = state.skill[i] / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def simulated(players, matches):
    """A model, and the skills that its matches were played with."""
    rng = np.random.default_rng(0)
    skill = TAU * rng.standard_normal(players)
    first = rng.integers(players, size=matches)
    second = (first + rng.integers(1, players, size=matches)) % players
    won = rng.random(matches) < 1.0 / (1.0 + np.exp(skill[second] - skill[first]))
    data = {"winner": np.where(won, first, second), "loser": np.where(won, second, first)}
    model = sm.Model(
        log_likelihood, data, {"skill": np.zeros(players), "tau": 1.0}, log_prior,
        constraints={"tau": sm.positive}, touches={"skill": ("winner", "loser")},
        site_prior={"skill": of_player},
    )  # fmt: skip
    return model, skill


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--players", type=int, default=2_000)
    parser.add_argument("--matches", type=int, default=160_000)
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--quick", action="store_true", help="fewer matches and draws")
    given = parser.parse_args()
    players, matches, draws = given.players, given.matches, given.draws
    if given.quick:
        players, matches, draws = 100, 5_000, 500
    model, truth = simulated(players, matches)
    kernel = sm.Metropolis("skill") >> sm.Metropolis("tau", proposal=sm.pcn())
    print(kernel.describe(model))
    start = time.perf_counter()
    trace = sm.sample(model, kernel, draws=draws, warmup=500, chains=2, seed=1, progress=False)
    took = time.perf_counter() - start
    tau, skill = np.asarray(trace.draws["tau"]), np.asarray(trace.draws["skill"])
    print(f"\n{matches:,} matches of {players:,} players: {took:.1f} s")
    print(f"tau {tau.mean():.3f} +- {tau.std():.3f} (drawn with {TAU}), ESS {arviz.ess(tau):,.0f}")
    print(f"the slowest skill has {trace.mixing('skill').ess:,.0f} effective draws")
    skill = skill.reshape(-1, players)
    off = (skill.mean(axis=0) - truth) / skill.std(axis=0)
    print(f"the truth lies {off.std():.2f} posterior sds off (expected: 1)\n")
    best = np.bincount(skill.argmax(axis=1), minlength=players) / len(skill)
    print("player  truth   mean     sd  chance to be the best")
    for i in np.argsort(-skill.mean(axis=0))[:10]:
        print(
            f"{i:6d} {truth[i]:6.2f} {skill[:, i].mean():6.2f} {skill[:, i].std():6.2f}  "
            f"{best[i]:.1%}"
        )


if __name__ == "__main__":
    main()
