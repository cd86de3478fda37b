"""A process that does one thing: import the package, and make the first draw of a model.

    python -m tests.benchmarks.cold_program SCENARIO CONSTANT

Prints wall and CPU seconds of the import, of the rest, and of the rest once more, as JSON.
CONSTANT, a number, is written into the likelihood: another one is another model.
"""

import json
import sys
import time
import types


def clocks():
    return time.perf_counter(), time.process_time()


begun = clocks()
import numpy as np  # noqa: E402

import subsample_mcmc as sm  # noqa: E402

imported = clocks()
SCENARIOS = {}
SIZE = 100_000


def scenario(function):
    """Make a function of `edited` one of the scenarios."""
    SCENARIOS[function.__name__] = function
    return function


def edited(function, constant):
    """The function with another constant in the place of 4.0, as if its source had been edited."""
    constants = tuple(constant if c == 4.0 else c for c in function.__code__.co_consts)
    code = function.__code__.replace(co_consts=constants)
    return types.FunctionType(code, globals(), function.__name__)


def grid(state, data, n):
    z = (data.y[n] - 0.01 * state.k[0]) / state.sigma[0]
    return -2.5 * sm.log1p(z * z / 4.0) - sm.log(state.sigma[0])


def grid_model(constant, log_likelihood=grid):
    y = 0.4 + np.random.default_rng(0).standard_t(4, SIZE)
    return sm.Model(
        edited(log_likelihood, constant), {"y": y}, {"k": 40, "sigma": 1.0},
        log_prior=lambda state: -state.sigma[0], support={"k": 100},
        constraints={"sigma": sm.positive},
    )  # fmt: skip


def run(model, kernel):
    sm.sample(model, kernel, draws=10, warmup=10, chains=1, seed=1, progress=False)


@scenario
def readme(constant):
    """README's first chain: a plain function, Gibbs and Metropolis, a Taylor control variate."""
    model = grid_model(constant)
    control = sm.Taylor(sm.laplace(model, progress=False))
    run(model, sm.Gibbs("k", control=control) >> sm.Metropolis("sigma", control=control))


def factor(data, arm, n):
    z = data.y[n] - data.location[arm]
    return -2.5 * sm.log1p(z * z / 4.0)


@scenario
def draw(constant):
    """sm.draw of ten arms."""
    y = np.random.default_rng(0).standard_t(4, SIZE)
    data = {"y": y, "location": 0.5 * np.arange(-3.0, 7.0)}
    sm.draw(sm.Population(edited(factor, constant), data, arms=10), seed=1)


def logistic(eta, data, n):
    return data.y[n] * eta - sm.log1p(sm.exp(eta)) + 4.0 - 4.0


def predictor(state, data, n):
    value = 0.0
    for j in range(4):
        value += data.x[n, j] * state.beta[j]
    return value


def tall():
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(SIZE), rng.standard_normal((SIZE, 3))])
    y = (rng.random(SIZE) < 1.0 / (1.0 + np.exp(-x @ [-0.5, 0.6, -0.3, 0.2]))).astype(float)
    return {"x": x, "y": y}


@scenario
def predictors(constant):
    """A regression of sm.Predictors, pCN with Taylor."""
    likelihood = sm.Predictors(predictor, edited(logistic, constant))
    model = sm.Model(likelihood, tall(), {"beta": np.zeros(4)})
    fit = sm.laplace(model, progress=False)
    run(model, sm.Metropolis("beta", proposal=sm.pcn(fit), control=sm.Taylor(fit)))


def plain_logistic(state, data, n):
    eta = data.x[n, 0] * state.beta[0] + data.x[n, 1] * state.beta[1]
    eta += data.x[n, 2] * state.beta[2] + data.x[n, 3] * state.beta[3]
    return data.y[n] * eta - sm.log1p(sm.exp(eta)) + 4.0 - 4.0


@scenario
def plain(constant):
    """The same regression as a plain function, interpolated."""
    model = sm.Model(edited(plain_logistic, constant), tall(), {"beta": np.zeros(4)})
    fit = sm.laplace(model, progress=False)
    run(model, sm.Metropolis("beta", proposal=sm.pcn(fit), control=sm.Taylor(fit)))


def kinds(state, data, n):
    z = (data.y[n] - 0.01 * state.k[0] - state.mu[0]) / state.sigma[0]
    return -2.5 * sm.log1p(z * z / 4.0) - sm.log(state.sigma[0])


def three_model(constant):
    y = 0.4 + np.random.default_rng(0).standard_t(4, SIZE)
    return sm.Model(
        edited(kinds, constant), {"y": y}, {"k": 5, "mu": 0.0, "sigma": 1.0}, support={"k": 12},
        log_prior=lambda state: -state.sigma[0] - state.mu[0] ** 2,
        constraints={"sigma": sm.positive},
    )  # fmt: skip


@scenario
def three(constant):
    """Gibbs, Metropolis and Slice, raced."""
    run(three_model(constant), sm.Gibbs("k") >> sm.Metropolis("mu") >> sm.Slice("sigma"))


@scenario
def selector(constant):
    """The same model, decided by another selector."""
    proved = sm.Racing(sm.Betting(spread=50.0))
    run(three_model(constant), sm.Gibbs("k", proved) >> sm.Metropolis("mu") >> sm.Slice("sigma"))


@scenario
def kernel(constant):
    """One more kernel."""
    moves = sm.Gibbs("k") >> sm.Metropolis("mu") >> sm.Slice("sigma")
    run(three_model(constant), moves >> sm.Langevin("mu"))


@scenario
def composition(constant):
    """The same kernels, one of them twice, in another composition."""
    two = sm.mixture((sm.Gibbs("k"), 0.5), (sm.Metropolis("mu"), 0.5))
    run(three_model(constant), sm.repeat(two, 2) >> sm.Slice("sigma") >> sm.Metropolis("mu"))


def main():
    name, constant = sys.argv[1], float(sys.argv[2])
    start = clocks()
    SCENARIOS[name](constant)
    end = clocks()
    SCENARIOS[name](constant)
    again = clocks()
    spans = {"import": (begun, imported), "first": (start, end), "again": (end, again)}
    print(json.dumps({
        f"{what} {clock}": to[i] - at[i]
        for what, (at, to) in spans.items() for i, clock in enumerate(("wall", "cpu"))
    }))  # fmt: skip


if __name__ == "__main__":
    main()
