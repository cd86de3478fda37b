"""A Gibbs loop of one's own around sm.draw: which of five curves, and with what height.

    python examples/hand_written_gibbs.py [--quick]

y_n = b f_k(x_n) + noise: k chooses one of five dose-response curves, b is their height. k is drawn
by a race that reads some of the 20,000 data; b, given k, by the user's own code. The two meet in
a data array: the loop writes b into it, and the next decision sees it.

b lives on a grid, so the posterior of (k, b) can be enumerated and the visited frequencies held
against it. It is a power posterior (likelihood^(1/100), Miller & Dunson 2019): with the plain
likelihood five curves that are hard to tell apart are told apart only by reading all data, and a
race alone saves nothing: that is what control variates are for. Exact decides under the same
Gumbels, so the two loops differ only where the race erred.
"""

import argparse

import numpy as np

import subsample_mcmc as sm

CURVES = {
    "linear": lambda x: x / 2.0,
    "square root": lambda x: np.sqrt(x / 2.0),
    "hyperbolic": lambda x: 1.5 * x / (1.0 + x),
    "exponential": lambda x: 1.16 * (1.0 - np.exp(-x)),
    "sigmoid": lambda x: 1.07 / (1.0 + np.exp(2.5 - 2.5 * x)),
}
HEIGHTS = np.linspace(0.6, 1.4, 9)
SIZE, POWER = 20_000, 1.0 / 100.0


def log_factor(data, k, n):
    miss = data.y[n] - data.b[0] * data.f[k, n]
    return -0.5 * POWER * miss * miss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer sweeps")
    sweeps = 3_000 if parser.parse_args().quick else 50_000

    rng = np.random.default_rng(3)
    x = rng.uniform(0.0, 2.0, SIZE)
    f = np.array([curve(x) for curve in CURVES.values()])
    y = 0.95 * (0.5 * f[1] + 0.5 * f[2]) + rng.standard_normal(SIZE)
    posterior = enumerated(y, f)

    print(f"{SIZE:,} data, {sweeps:,} sweeps\n")
    print("                 posterior" + "".join(f"{name:>14}" for name in CURVES))
    print(f"{'enumerated':26}" + "".join(f"{p:14.4f}" for p in posterior.sum(axis=1)))
    for name, selector in (("Exact", sm.Exact()), ("Racing", sm.Racing(delta=0.01))):
        visits, read = gibbs(y, f, selector, sweeps, np.random.default_rng(4))
        print(f"{name:26}" + "".join(f"{p:14.4f}" for p in visits.sum(axis=1)))
        distance = 0.5 * np.abs(visits - posterior).sum()
        print(f"    total variation over all (k, b): {distance:.4f}; rewards read: {read:.1%}")


def gibbs(y, f, selector, sweeps, rng):
    """Visited frequencies of (k, b), and the share of rewards read."""
    b = np.array([1.0])
    population = sm.Population(log_factor, {"y": y, "f": f, "b": b}, arms=len(f), size=len(y))
    squares, products = (f * f).sum(axis=1), f @ y  # all that b needs to know, given k
    visits, share = np.zeros((len(f), len(HEIGHTS))), 0.0
    for _ in range(sweeps):
        # One generator serves both steps; the race advances it.
        made = sm.draw(population, selector=selector, seed=rng)
        k = made.arms[0]
        share += made.share_read
        score = POWER * (HEIGHTS * products[k] - 0.5 * HEIGHTS**2 * squares[k])
        j = np.argmax(score + rng.gumbel(size=len(HEIGHTS)))
        b[0] = HEIGHTS[j]
        visits[k, j] += 1
    return visits / sweeps, share / sweeps


def enumerated(y, f):
    """The posterior of (k, b) from all data."""
    miss = np.array([[np.sum((y - b * curve) ** 2) for b in HEIGHTS] for curve in f])
    weights = np.exp(-0.5 * POWER * (miss - miss.min()))
    return weights / weights.sum()


if __name__ == "__main__":
    main()
