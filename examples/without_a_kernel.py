"""sm.sample(model): the kernel is chosen by short pilots, and printed as code to keep.

    python examples/without_a_kernel.py [--quick]

Three models that want different kernels: a regression with an unknown scale, a change of level on a
grid of places, and a line against a parabola. For each the candidates with what their pilots found,
the code that was chosen, and what a run by it says.
"""

import argparse

import numpy as np

import subsample_mcmc as sm


def regression(size):
    """Student-t noise: coefficients and a positive scale, which move as one."""

    def log_likelihood(state, data, n):
        eta = 0.0
        for j in range(len(state.beta)):
            eta += data.x[n, j] * state.beta[j]
        z = (data.y[n] - eta) / state.sigma[0]
        return -2.5 * sm.log1p(z * z / 4.0) - sm.log(state.sigma[0])

    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(size), rng.standard_normal((size, 3))])
    y = x @ [0.5, 1.0, -0.5, 0.2] + 1.3 * rng.standard_t(4, size)
    return sm.Model(
        log_likelihood, {"x": x, "y": y}, {"beta": np.zeros(4), "sigma": 1.0},
        lambda state: -0.5 * np.sum(state.beta**2) - state.sigma[0],
        constraints={"sigma": sm.positive},
    )  # fmt: skip


def change_of_level(size):
    """Where, of twenty places, does the level change, and by how much."""

    def log_likelihood(state, data, n):
        level = state.level[0] if 20 * n < data.size * (state.place[0] + 1) else state.level[1]
        return -abs(data.y[n] - level)

    at = np.arange(size)
    y = np.where(20 * at < 7 * size, 0.3, 0.35) + np.random.default_rng(2).laplace(size=size)
    return sm.Model(
        log_likelihood, {"y": y, "size": size}, {"place": 10, "level": np.zeros(2)},
        lambda state: -0.5 * np.sum(state.level**2), support={"place": 19},
    )  # fmt: skip


def line_or_parabola(size):
    """Models of two lengths: the parameters of the other come from pseudo-priors."""

    def log_likelihood(state, data, n):
        value = state.theta[0] + state.theta[1] * data.x[n]
        if state.bent[0] == 1:
            value += state.theta[2] * data.x[n] ** 2
        return -0.5 * (data.y[n] - value) ** 2

    def log_prior(state):  # a standard normal density of each parameter that there is
        total = 0.0
        for j in range(2 + state.bent[0]):
            total -= 0.5 * state.theta[j] ** 2 + 0.5 * np.log(2.0 * np.pi)
        return total

    x = np.linspace(-1.0, 1.0, size)
    y = 1.0 + 0.5 * x + 0.03 * x**2 + np.random.default_rng(3).standard_normal(size)
    return sm.Model(
        log_likelihood, {"x": x, "y": y}, {"bent": 0, "theta": np.zeros(3)},
        log_prior, support={"bent": 2},
        lengths={"theta": ("bent", [2, 3])},
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer data and draws")
    quick = parser.parse_args().quick
    size, draws = (5_000, 200) if quick else (100_000, 2_000)
    for make in (regression, change_of_level, line_or_parabola):
        model = make(size)
        kernel = sm.default_kernel(model, progress=False)
        print(f"--- {make.__doc__}\n{kernel}\n")
        trace = sm.sample(model, kernel, draws=draws, warmup=500, seed=1, progress=False)
        for name in model.names:
            mean = trace.draws[name].mean(axis=(0, 1)).round(3)
            print(f"{name}: mean {mean}, ESS {trace.mixing(name).ess:,.0f}")
        print()


if __name__ == "__main__":
    main()
