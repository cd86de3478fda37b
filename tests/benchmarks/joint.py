"""Blocks that move as one: a Weibull regression with censored times, in three ways.

    python -m tests.benchmarks.joint                 half a million rows, three rounds
    python -m tests.benchmarks.joint --size 50000 --rounds 1

The coefficients and the scale of log times are two blocks that move in turn; the same two blocks,
moving as one; or all of them in one block. Every way has the same fit and control variate. Figures
are effective draws a second of sampling (CPU time of the chain), of the parameter that mixes worst,
medians over the rounds; what is done once, fit, sums and compiling, is told beside them.
"""

import argparse
import statistics
import time

import numpy as np

import subsample_mcmc as sm

TRUE, SHAPE = np.array([1.0, 0.5, -0.3]), 1.5


def of_blocks(state, data, n):
    miss = data.y[n] - state.beta[0] - state.beta[1] * data.x1[n] - state.beta[2] * data.x2[n]
    z = miss / state.sigma[0]
    return data.seen[n] * (z - sm.log(state.sigma[0])) - sm.exp(z)


def of_one_block(state, data, n):
    theta = state.theta
    z = (data.y[n] - theta[0] - theta[1] * data.x1[n] - theta[2] * data.x2[n]) * sm.exp(-theta[3])
    return data.seen[n] * (z - theta[3]) - sm.exp(z)


def prior_of_blocks(state):
    value = -0.5 * sm.log(state.sigma[0]) ** 2 - sm.log(state.sigma[0])
    for j in range(3):
        value -= 0.005 * state.beta[j] ** 2
    return value


def prior_of_one(state):
    value = -0.5 * state.theta[3] ** 2
    for j in range(3):
        value -= 0.005 * state.theta[j] ** 2
    return value


def times(size: int, seed: int) -> dict[str, np.ndarray]:
    """Logs of Weibull times, a third of them cut off by the end of the study."""
    rng = np.random.default_rng(seed)
    x1, x2 = rng.standard_normal(size), (rng.random(size) < 0.5).astype(float)
    y = TRUE[0] + TRUE[1] * x1 + TRUE[2] * x2 + np.log(rng.exponential(size=size)) / SHAPE
    end = np.quantile(y, 2.0 / 3.0)
    return {"y": np.minimum(y, end), "x1": x1, "x2": x2, "seen": (y < end).astype(float)}


def ways(size: int, seed: int) -> dict[str, tuple]:
    """(model, kernel) of each way, by name."""
    data = times(size, seed)
    blocks = sm.Model(
        of_blocks, data, {"beta": np.zeros(3), "sigma": 1.0}, prior_of_blocks,
        constraints={"sigma": sm.positive},
    )  # fmt: skip
    one = sm.Model(of_one_block, data, {"theta": np.zeros(4)}, prior_of_one)
    fits = {model: sm.laplace(model, progress=False) for model in (blocks, one)}
    controls = {model: sm.Taylor(fit) for model, fit in fits.items()}
    made = {}
    for kind, proposal in (
        ("random walk", lambda fit: None),
        ("sm.pcn(fit, beta=0.9)", lambda fit: sm.pcn(fit, beta=0.9)),
    ):

        def move(names, model, proposal=proposal):
            return sm.Metropolis(names, proposal=proposal(fits[model]), control=controls[model])

        made[f"{kind}, two blocks in turn"] = (
            blocks, move("beta", blocks) >> move("sigma", blocks), fits[blocks]
        )  # fmt: skip
        made[f"{kind}, two blocks as one"] = blocks, move(("beta", "sigma"), blocks), fits[blocks]
        made[f"{kind}, one block"] = one, move("theta", one), fits[one]
    return made


def rate(model, kernel, fit, draws: int, seed: int) -> tuple[float, float, float]:
    """(effective draws a second of the worst parameter, microseconds a draw, share of data)."""
    trace = sm.sample(
        model, kernel, draws, 1_000, 1, seed=seed, progress=False, start=fit.state
    )  # fmt: skip
    seconds = float(np.sum(trace.seconds))
    worst = min(trace.mixing(name).ess for name in trace.draws)
    told = list(trace.stats.values())
    read = sum(s["pulls"].sum() for s in told) / sum(s["everything"].sum() for s in told)
    return worst / seconds, seconds / draws * 1e6, float(read)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=500_000, help="rows")
    parser.add_argument("--draws", type=int, default=20_000, help="of each way in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    began = time.perf_counter()
    made = ways(given.size, given.seed)
    for model, kernel, fit in made.values():  # compiled, and sums made
        sm.sample(model, kernel, 10, 10, 1, seed=1, progress=False, start=fit.state)
    print(f"{given.size:,} rows; fits, sums and compiling: {time.perf_counter() - began:.0f} s\n")
    found: dict[str, list] = {name: [] for name in made}
    for k in range(given.rounds):
        for name, way in made.items():
            found[name].append(rate(*way, given.draws, given.seed + k))
    print(f"{'':46}{'ESS/s':>10}{'us a draw':>12}{'data read':>12}")
    for name, rounds in found.items():
        ess, cost, read = (statistics.median(column) for column in zip(*rounds, strict=True))
        print(f"{name:46}{ess:10,.0f}{cost:12.2f}{read:12.3%}")


if __name__ == "__main__":
    main()
