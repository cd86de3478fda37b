"""The kernel that sm.sample(model) chooses, beside all that could have been written by hand.

    python -m tests.benchmarks.defaults [--seconds 3] [--only TEXT]

Ten models. Of each: what sm.default_kernel chose, its effective draws a second of the slowest
quantity in a chain of some seconds, over those of the best of all candidates and of kernels by
hand, and over those of plain adaptive random walks (and Gibbs), and what choosing took. Fits, sums
and compiling are not counted, but in the time of choosing, where all of it is.
"""

import argparse
import time
import warnings

import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.runs import default_kernel as defaults
from subsample_mcmc.runs.defaults import pilots
from subsample_mcmc.runs.plan import state_of
from tests.benchmarks import joint, machine
from tests.benchmarks.report import table

MOST = 40_000  # draws of a chain


def design(size, d, seed=0):
    """Correlated columns and an intercept."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((size, d - 1)) + 0.5 * rng.standard_normal((size, 1))
    return np.column_stack([np.ones(size), x]), rng


def logistic(size, d):
    x, rng = design(size, d)
    y = rng.random(size) < 1.0 / (1.0 + np.exp(-x @ np.linspace(0.4, -0.4, d)))
    return sm.models.glm.logistic(x, y.astype(float))


def poisson(size=200_000, d=5):
    x, rng = design(size, d)
    return sm.models.glm.poisson(x, rng.poisson(np.exp(0.3 * x @ np.linspace(0.4, -0.4, d))))


def robust(size=200_000, d=8):
    x, rng = design(size, d)
    return sm.models.glm.student_t(x, x @ np.ones(d) + rng.standard_t(4, size), sigma=None)


def separated(size=50_000):
    """A level that has five rows, none of them a success."""
    x, rng = design(size, 4)
    x[:, 3] = np.arange(size) < 5
    y = (rng.random(size) < 0.3) & (x[:, 3] == 0)
    return sm.models.glm.logistic(x, y.astype(float))


def weibull(size=200_000):
    return sm.Model(
        joint.of_blocks, joint.times(size, 1), {"beta": np.zeros(3), "sigma": 1.0},
        joint.prior_of_blocks, constraints={"sigma": sm.positive},
    )  # fmt: skip


def grid_likelihood(state, data, n):
    z = (data.y[n] - 0.01 * state.k[0]) / state.sigma[0]
    return -2.5 * sm.log1p(z * z / 4.0) - sm.log(state.sigma[0])


def grid(size=50_000):
    """README's first model."""
    y = 0.4 + 1.5 * np.random.default_rng(0).standard_t(df=4, size=size)
    return sm.Model(
        grid_likelihood, {"y": y}, {"k": 40, "sigma": 1.0}, lambda state: -state.sigma[0],
        support={"k": 100}, constraints={"sigma": sm.positive},
    )  # fmt: skip


def mixture_likelihood(state, data, n):
    one, two = data.y[n] - state.mu[0], data.y[n] - state.mu[1]
    return sm.logsumexp(
        sm.log_sigmoid(state.share[0]) - 0.5 * one * one,
        sm.log_sigmoid(-state.share[0]) - 0.5 * two * two,
    )


def mixture(size=20_000):
    rng = np.random.default_rng(0)
    y = rng.standard_normal(size) + np.where(rng.random(size) < 0.3, 2.5, 0.0)
    return sm.Model(
        mixture_likelihood, {"y": y}, {"mu": [0.0, 2.0], "share": 0.5},
        lambda state: -0.01 * np.sum(state.mu**2) - 0.05 * state.share[0] ** 2,
    )  # fmt: skip


def few(size=150):
    """Fewer rows than a race would take."""
    return logistic(size, 3)


def wide(size=5_000, d=80):
    """More coefficients than a plain function's fit would get."""
    x, rng = design(size, d)
    y = x @ np.linspace(-1.0, 1.0, d) + rng.standard_normal(size)

    def log_likelihood(state, data, n):
        total = data.y[n]
        for j in range(len(state.beta)):
            total -= data.x[n, j] * state.beta[j]
        return -0.5 * total * total

    return sm.Model(log_likelihood, {"x": x, "y": y}, {"beta": np.zeros(d)})


MODELS = {
    "logistic, 2e5 x 10": lambda: logistic(200_000, 10), "logistic, 1e6 x 20":
    lambda: logistic(1_000_000, 20), "Poisson, 2e5 x 5": poisson,
    "Student-t with scale, 2e5 x 8": robust, "rare level, 5e4 x 4": separated,
    "Weibull, censored, 2e5": weibull, "grid and scale, 5e4": grid, "mixture, 2e4": mixture,
    "logistic, 150 x 3": few, "80 coefficients, 5,000": wide,
}  # fmt: skip


def by_hand(model, fit):
    """Kernels that are not among the candidates."""
    blocks = tuple(name for name, v in model.variables.items() if not v.block.discrete)
    gibbs = [sm.Gibbs(name, control=sm.Taylor(fit) if fit else None)
             for name, v in model.variables.items() if v.block.discrete]  # fmt: skip
    moves = [sm.Slice(blocks, selector=sm.Exact())]
    if fit is not None:
        moves += [
            sm.Langevin(blocks, gradient="control", control=sm.Taylor(fit)),
            sm.Metropolis(blocks, proposal=sm.pcn(fit, beta=0.5), control=sm.Taylor(fit)),
            sm.Metropolis(blocks, control=sm.Taylor(fit, order=2)),
        ]
    for move in moves:
        yield sm.cycle(*gibbs, move) if gibbs else move


def rate_of(model, kernel, start, seconds) -> float:
    """Effective draws a second, of a chain of some seconds; 0 of one that this model refuses."""
    try:
        cost = pilots.step_cost(model, kernel, start)
        draws = int(np.clip(0.5 * seconds / cost, 100, MOST))
        share, spent = pilots.effective(model, kernel, start, draws)
        return share / spent
    except (ValueError, TypeError, sm.RewardError):
        return 0.0


def line(name, model, seconds) -> dict:
    begun = time.perf_counter()
    kernel = sm.default_kernel(model, progress=False)
    spent = time.perf_counter() - begun
    start = state_of(kernel.fit)
    found = {c.name: c.kernel for c in defaults.candidates_of(model, None)[0]}
    rates = {n: rate_of(model, k, start, seconds) for n, k in found.items()}
    walks = max(rate for n, rate in rates.items() if n.startswith("walk") or n == "Gibbs")
    hand = max(rate_of(model, k, start, seconds) for k in by_hand(model, kernel.fit))
    own = rate_of(model, kernel, start, seconds)
    return {
        "model": name, "chosen": kernel.code.splitlines()[-1].removeprefix("kernel = ")[:60],
        "ESS/s": own, "over the best": own / max(hand, *rates.values()),
        "over walks": own / walks if walks else np.inf,  # none of them mixed
        "choosing, s": spent,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of each chain")
    parser.add_argument("--only", default="", help="models whose names have this in them")
    given = parser.parse_args()
    print(machine.processor())
    warnings.simplefilter("ignore")
    rows = []
    for name, make in MODELS.items():
        if given.only in name:
            rows.append(line(name, make(), given.seconds))
            print(rows[-1], flush=True)  # a model may take a minute
    print(table("What sm.sample(model) chooses", rows))


if __name__ == "__main__":
    main()
