"""Kernels that are composed at random draw the posterior: compared with a grid.

    python -m tests.benchmarks.compositions [--cases 50] [--seed 0] [--draws 6000]

A case is a model of a discrete block and two numbers, of some hundred to four thousand rows, whose
family, priors and constraints are chosen at random; and for it two kernels, whose moves, selectors,
rules, control variates and compositions are. Probabilities of the discrete block, and means and
variances of the numbers, are compared with those of a grid. Their z scores are standard normal or
smaller if all is right: 1.5% of a standard deviation is allowed for delta and the grid.

Ends with status 1 if one is beyond WORST, or if a run fails. Runs that did not converge, as where
proposals are poor, are told of and not judged.
"""

import argparse
import sys
import warnings
from typing import Any, NamedTuple

import arviz as az
import numpy as np
from scipy import optimize

import subsample_mcmc as sm
from tests.benchmarks.report import table

PLACES = np.array([-0.4, -0.15, 0.0, 0.1, 0.35, 0.6])  # coefficients that k chooses from
WORST = 5.0  # of some ten thousand standard normal numbers one is beyond 4
ALLOWED = 0.015  # standard deviations
FEWEST = 200  # effective draws of what is judged
GRID, WIDE = 101, 9.0  # points along each number, standard deviations to either side


# --------------------------------------------------------------------------------------- models
def gaussian(state, data, n):
    z = (data.y[n] - state.mu[0] - PLACES[state.k[0]] * data.x[n]) / state.s[0]
    return -0.5 * z * z - sm.log(state.s[0])


def student(state, data, n):
    z = (data.y[n] - state.mu[0] - PLACES[state.k[0]] * data.x[n]) / state.s[0]
    return -2.5 * sm.log1p(z * z / 4.0) - sm.log(state.s[0])


def laplace(state, data, n):
    z = (data.y[n] - state.mu[0] - PLACES[state.k[0]] * data.x[n]) / state.s[0]
    return -abs(z) - sm.log(state.s[0])


def poisson(state, data, n):
    eta = state.mu[0] + PLACES[state.k[0]] * data.x[n] + state.s[0] * data.u[n]
    return data.y[n] * eta - sm.exp(eta)


def logistic(state, data, n):
    eta = state.mu[0] + PLACES[state.k[0]] * data.x[n] + state.s[0] * data.u[n]
    return data.y[n] * eta - sm.softplus(eta)


SCALED = {"gaussian": gaussian, "student": student, "laplace": laplace}  # s is a scale
FAMILIES = {**SCALED, "poisson": poisson, "logistic": logistic}  # s is a coefficient
CURVES = {
    "gaussian": lambda z: -0.5 * z * z,
    "student": lambda z: -2.5 * np.log1p(z * z / 4.0),
    "laplace": lambda z: -np.abs(z),
}


class Case(NamedTuple):
    """A model, and what a grid needs to know of it."""

    family: str
    model: Any
    levels: np.ndarray  # log prior of k
    spread: float  # prior standard deviation of mu
    bounds: tuple[float, float]  # of s

    def log_density(self, k: int, mu, s) -> np.ndarray:
        """At each pair of numbers, of arrays of one shape."""
        y, x, u = (np.asarray(v)[:, None] for v in self.model.data)
        mu, s = (np.atleast_1d(v)[None] for v in (mu, s))
        if self.family in SCALED:
            rows = CURVES[self.family]((y - mu - PLACES[k] * x) / s) - np.log(s)
            prior = -s
        else:
            eta = mu + PLACES[k] * x + s * u
            rows = y * eta - (np.exp(eta) if self.family == "poisson" else np.logaddexp(0.0, eta))
            prior = -0.5 * s**2
        return (rows.sum(axis=0) + self.levels[k] - 0.5 * (mu / self.spread) ** 2 + prior)[0]


def case_of(rng) -> Case:
    """A model at random; a part of them has columns so short that k is not known."""
    family, size = str(rng.choice(list(FAMILIES))), int(rng.integers(200, 4_000))
    levels, spread = 0.5 * rng.standard_normal(rng.integers(2, 7)), rng.choice([0.5, 2.0, 10.0])
    x = rng.standard_normal(size) if rng.random() < 0.7 else rng.standard_t(3, size)
    u, mu, k = rng.standard_normal(size), 0.3 * rng.standard_normal(), rng.integers(len(levels))
    if rng.random() < 0.7:
        x *= rng.uniform(2.0, 10.0) / np.sqrt(size)
    eta = np.clip(mu + PLACES[k] * x + 0.3 * u, -4.0, 4.0)
    y = {
        "gaussian": lambda: mu + PLACES[k] * x + rng.standard_normal(size),
        "student": lambda: mu + PLACES[k] * x + rng.standard_t(4, size),
        "laplace": lambda: mu + PLACES[k] * x + rng.laplace(size=size),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "logistic": lambda: (rng.random(size) < 1.0 / (1.0 + np.exp(-eta))).astype(float),
    }[family]()
    within = rng.random() < 0.5
    if family in SCALED:
        constraints, bounds = {"s": sm.positive}, (1e-6, np.inf)
        if within:
            constraints, bounds = {"s": sm.interval(0.05, 6.0)}, (0.05, 6.0)

        def log_prior(state):
            return levels[state.k[0]] - 0.5 * (state.mu[0] / spread) ** 2 - state.s[0]
    else:
        constraints, bounds = {}, (-np.inf, np.inf)

        def log_prior(state):
            both = (state.mu[0] / spread) ** 2 + state.s[0] ** 2
            return levels[state.k[0]] - 0.5 * both

    start = {"k": int(rng.integers(len(levels))), "mu": 0.0, "s": 1.0 if family in SCALED else 0.1}
    model = sm.Model(
        FAMILIES[family], {"y": y, "x": x, "u": u}, start, log_prior,
        support={"k": len(levels)}, constraints=constraints,
    )  # fmt: skip
    return Case(family, model, levels, float(spread), bounds)


def expected(case: Case) -> dict[str, tuple[float, float]]:
    """(mean, standard deviation) of each quantity, by a grid around the modes of all k."""
    modes, sds = [], []
    for k in range(len(case.levels)):

        def down(v, k=k):
            inside = case.bounds[0] < v[1] < case.bounds[1] and abs(v[0]) < 50.0
            return -float(case.log_density(k, v[0], v[1])[0]) if inside else 1e10

        at = [0.1, 0.9 if case.family in SCALED else 0.0]
        mode = optimize.minimize(down, at, method="Nelder-Mead", options={"xatol": 1e-6}).x
        step = 1e-3 * np.eye(2)
        hessian = [
            [down(mode + a + b) - down(mode + a - b) - down(mode - a + b) + down(mode - a - b)
             for a in step] for b in step
        ]  # fmt: skip
        modes.append(mode)
        sds.append(np.sqrt(np.diag(np.linalg.inv(np.array(hessian) / 4e-6))))
    low = np.min([m - WIDE * s for m, s in zip(modes, sds, strict=True)], axis=0)
    high = np.max([m + WIDE * s for m, s in zip(modes, sds, strict=True)], axis=0)
    low[1], high[1] = max(low[1], case.bounds[0]), min(high[1], case.bounds[1])
    mu, s = (np.linspace(a, b, GRID) for a, b in zip(low, high, strict=True))
    logs = np.array([
        [case.log_density(k, mu, np.full(GRID, value)) for value in s]
        for k in range(len(case.levels))
    ])  # fmt: skip
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    found = {
        f"P(k={k})": (p, np.sqrt(p * (1.0 - p))) for k, p in enumerate(weights.sum((1, 2)).tolist())
    }
    for name, values, mass in (("mu", mu, weights.sum((0, 1))), ("s", s, weights.sum((0, 2)))):
        mean, square, fourth = (float(mass @ (values - mass @ values) ** p) for p in (1, 2, 4))
        found[name] = (float(mass @ values) + mean, np.sqrt(square))
        found[f"{name}, squared"] = (square, np.sqrt(fourth - square**2))
    return found


# -------------------------------------------------------------------------------------- kernels
def selector_of(rng, control) -> sm.Exact | sm.Racing:
    delta = float(rng.choice([1e-3, 1e-2]))
    return [
        sm.Exact(), sm.Exact(), sm.Racing(delta=delta), sm.Racing(delta=delta, batch=32),
        sm.Racing(delta=delta, growth=1.5), sm.Racing(sm.Normal(paired=False), delta=delta),
        sm.Racing(sm.Betting(spread=60.0), delta=delta),
        sm.Racing(delta=delta) if control else sm.Racing(sm.BernsteinSerfling(60.0), delta=delta),
    ][rng.integers(8)]  # fmt: skip


def kernel_of(rng, fit) -> tuple[sm.extend.Kernel, str]:
    """(moves of all blocks in any order, what they are)."""
    control = sm.Taylor(fit) if rng.random() < 0.6 else None
    blocks = [("mu", "s")] if rng.random() < 0.4 else ["mu", "s"]

    def how(gradient: bool = False) -> dict[str, Any]:
        given: dict[str, Any] = {"selector": selector_of(rng, control)}
        if control is not None and rng.random() < 0.7:
            given["control"] = control
        if gradient and "control" in given:
            given["gradient"] = "control"
        return given

    def move(block) -> tuple[sm.extend.Kernel, str]:
        moves: list = [
            lambda: sm.Metropolis(block, scale=0.3, **how()),
            lambda: sm.Metropolis(block, proposal=sm.pcn(), **how()),
            lambda: sm.Slice(block, **how()),
            lambda: sm.Slice(block, width=0.5, adapt=False, **how()),
            lambda: sm.Langevin(block, batch=100, **how(gradient=True)),
        ]
        if isinstance(block, tuple):  # a fit is of both
            moves += [
                lambda: sm.Metropolis(block, proposal=sm.pcn(fit), **how()),
                lambda: sm.Metropolis(block, proposal=sm.independence(fit), **how()),
                lambda: sm.Slice(block, along=fit, **how()),
                lambda: (
                    sm.SurrogateTransition(block, fit, moves=4) >> sm.Metropolis(block, **how())
                ),
            ]
        made, chance = moves[rng.integers(len(moves))](), rng.random()
        told = repr(made)
        if chance < 0.15:
            return sm.repeat(made, 2), f"twice {told}"
        if chance < 0.25:
            other = sm.Metropolis(block, selector=sm.Exact())
            return sm.mixture((made, 0.5), (other, 0.5)), f"{told} or {other!r}"
        if chance < 0.35:
            other = sm.Metropolis(block, **how())
            here, there = (lambda state: state.k[0] < 1), (lambda state: state.k[0] >= 1)
            return sm.when(here, made) >> sm.when(there, other), f"{told} where k=0, {other!r} else"
        return made, told

    gibbs = sm.Gibbs("k", **how())
    parts = [(gibbs, repr(gibbs)), *(move(block) for block in blocks)]
    parts = [parts[i] for i in rng.permutation(len(parts))]
    kernel = parts[0][0]
    for part, _ in parts[1:]:
        kernel = kernel >> part
    return kernel, "; ".join(told for _, told in parts)


# ------------------------------------------------------------------------------------- comparing
def scores(trace, wanted: dict[str, tuple[float, float]]) -> dict[str, float]:
    """z of each quantity of which there are enough effective draws; of others nan."""
    chains, draws = trace.shape
    values = {name: np.asarray(trace.draws[name]).reshape(chains, draws) for name in trace.draws}
    found = {}
    for name, (mean, sd) in wanted.items():
        if name.startswith("P(k="):
            drawn = (values["k"] == int(name[4:-1])).astype(float)
            if not 0.01 < mean < 0.99:
                continue
        else:
            block = name.partition(",")[0]
            drawn = values[block]
            drawn = (drawn - wanted[block][0]) ** 2 if name.endswith("squared") else drawn
        effective = float(az.ess(drawn)) if np.ptp(drawn) > 0.0 else 0.0
        known = effective >= FEWEST
        error = np.hypot(sd / np.sqrt(max(effective, 1.0)), ALLOWED * sd)
        found[name] = (float(drawn.mean()) - mean) / error if known else np.nan
    return found


def run(seed: int, which: int, draws: int, spoiled=lambda kernel: kernel) -> dict[str, Any]:
    """A row of the table: a case and one of its kernels, of this seed."""
    rng = np.random.default_rng([seed, 0])
    case = case_of(rng)
    fit = sm.laplace(case.model, progress=False)
    kernel, told = kernel_of(np.random.default_rng([seed, 1, which]), fit)
    trace = sm.sample(case.model, spoiled(kernel), draws, 1_500, seed=[seed, which], progress=False)
    found = scores(trace, expected(case))
    known = {name: z for name, z in found.items() if z == z}
    worst = max(known, key=lambda name: abs(known[name]), default="")
    return {
        "seed": f"{seed}.{which}", "model": f"{case.family}, {case.model.size} rows",
        "kernel": told, "judged": f"{len(known)} of {len(found)}",
        "worst": f"{worst} {known[worst]:.1f}" if worst else "", "z": list(known.values()),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=6_000)
    given = parser.parse_args()
    scored, failed, shown = [], 0, []
    for seed in range(given.seed, given.seed + given.cases):
        for which in (0, 1):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    row = run(seed, which, given.draws)
                except Exception as error:  # the next case may fail otherwise
                    failed += 1
                    print(f"{seed}.{which}: {type(error).__name__}: {error}", flush=True)
                    continue
            scored += row.pop("z")
            shown.append(row)
            print(f"{row['seed']}: {row['judged']} judged, worst {row['worst']}", flush=True)
    print(table("Kernels composed at random", shown))
    beyond = {bound: float(np.mean(np.abs(scored) > bound)) for bound in (2.0, 3.0)}
    print(
        f"{len(scored)} scores: {beyond[2.0]:.2%} beyond 2 (of standard normal ones 4.6%), "
        f"{beyond[3.0]:.2%} beyond 3 (.27%), the largest {np.max(np.abs(scored)):.1f}; "
        f"{failed} runs failed"
    )
    sys.exit(int(failed > 0 or bool(np.any(np.abs(scored) > WORST))))


if __name__ == "__main__":
    main()
