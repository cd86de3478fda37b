"""Regimes of a market: hidden states that last, each with a volatility of its own.

    python examples/regimes.py [--days 5000] [--draws 2000] [--quick]

Returns are normal, with the standard deviation of the day's regime: calm, usual or wild; from one
day to the next the regime changes by the probabilities of a row of P. One datum says little of its
regime, and regimes last for weeks: sites that are drawn one by one hold each other, and a border
between two regimes moves by a day at a time. sm.paths draws all days at once, from their joint
conditional; rows of P, given the days, have Dirichlet laws, and a kernel of ten lines draws them.
Truth, and what sites one by one do in the same number of draws, are printed beside it.
"""

import argparse
import time

import numpy as np

import subsample_mcmc as sm

SDS = np.array([0.6, 1.0, 2.5])  # in percent
P = np.array([[0.985, 0.013, 0.002], [0.015, 0.97, 0.015], [0.0, 0.05, 0.95]])


def log_likelihood(state, data, n):
    sd = state.sd[state.z[data.day[n]]]
    return -0.5 * (data.y[n] / sd) ** 2 - sm.log(sd)


def of_day(state, t):
    """The regime of a day given the day before; of the first all are as probable."""
    if t == 0:
        return 0.0
    return sm.log(state.p[state.z[t - 1], state.z[t]])


def log_prior(state):
    """A regime lasts 20 days, give or take: Dirichlet(19 for staying, 1 for going)."""
    value = 0.0
    for k in range(3):
        value += 18.0 * sm.log(state.p[k, k]) - 0.5 * sm.log(state.sd[k]) ** 2
    return value


@sm.kernel(writes="p")
def draw_p(rng, state, data):
    """P given the regimes: each row is Dirichlet, of prior and changes counted together."""
    counts = np.ones((3, 3))
    for k in range(3):
        counts[k, k] = 19.0
    for t in range(1, len(state.z)):
        counts[state.z[t - 1], state.z[t]] += 1.0
    for k in range(3):
        for j in range(3):
            counts[k, j] = rng.standard_gamma(counts[k, j])
        state.p[k] = counts[k] / counts[k].sum()


def simulated(days):
    """A model, and the regimes that its data were drawn with."""
    rng = np.random.default_rng(0)
    z = np.ones(days, dtype=int)
    for t in range(1, days):
        z[t] = rng.choice(3, p=P[z[t - 1]])
    y = SDS[z] * rng.standard_normal(days)
    model = sm.Model(
        log_likelihood, {"y": y, "day": np.arange(days)},
        {
            "z": np.digitize(np.abs(y), [0.7, 2.5]), "sd": np.array([0.5, 1.0, 2.0]),
            "p": np.full((3, 3), 0.05) + 0.85 * np.eye(3),
        },
        log_prior, support={"z": 3}, touches={"z": "day"}, site_prior={"z": of_day},
        constraints={"sd": sm.ordered, "p": sm.simplex},
    )  # fmt: skip
    return model, z


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=5_000)
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--quick", action="store_true", help="fewer days and draws")
    given = parser.parse_args()
    days, draws = (600, 400) if given.quick else (given.days, given.draws)
    model, truth = simulated(days)
    common = sm.Metropolis("sd", proposal=sm.pcn(), selector=sm.Exact()) >> draw_p
    found = {}
    for name, states in (("all at once", sm.paths("z")), ("one by one", sm.Gibbs("z"))):
        kernel, begun = states >> common, time.perf_counter()
        trace = sm.sample(model, kernel, draws=draws, warmup=draws // 2, chains=2, seed=1)
        found[name] = trace, time.perf_counter() - begun
    print(found["all at once"][0].report())
    for name, (trace, seconds) in found.items():
        table = trace.summary(["sd", "p"])
        changes = (np.diff(trace.draws["z"], axis=2) != 0).sum(axis=2)
        right = np.mean(trace.draws["z"].mean(axis=(0, 1)).round() == truth)
        print(
            f"{name}: {right:.0%} of {days:,} days told right; {changes.mean():.0f} changes of "
            f"regime (sd {changes.std():.0f}), truth {np.sum(np.diff(truth) != 0)}; the least ESS "
            f"of sd and P is {table['ess_bulk'].min():.0f}, {seconds:.1f} s"
        )
    print(found["all at once"][0].summary(["sd", "p"])[["mean", "sd", "r_hat"]].round(3))
    print(f"truth: sd {SDS.tolist()}, P {P.tolist()}")


if __name__ == "__main__":
    main()
