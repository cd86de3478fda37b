"""A control variate of one's own: rounded data, whose log likelihoods are summed by the cell.

    python examples/own_control.py [--quick]

A control variate is h(arm, n), near the log likelihood of datum n, with a sum over n that is known.
A race then reads what is left over, l - h, which varies far less. Here h is the log likelihood of
the datum rounded to a grid: its sum is one over cells, each times how many data fall into it. It
needs no fit, no derivatives and no bound, and it is exact wherever the chain goes: what it leaves
over is as small as the grid is fine.
"""

import argparse
from dataclasses import dataclass

import numpy as np

import subsample_mcmc as sm


# The model: robust location and scale.
def log_density(state, y):
    z = (y - state.mu[0]) / state.sigma[0]
    return -2.5 * sm.log1p(0.25 * z * z) - sm.log(state.sigma[0])


def log_likelihood(state, data, n):
    return log_density(state, data.y[n])


def log_prior(state):
    return -0.5 * state.mu[0] ** 2 - state.sigma[0]


# The control variate: a spec, and what it knows of one model, which all chains share.
@dataclass(frozen=True, eq=False)
class Rounded(sm.extend.Control):
    """h(n) is the log likelihood of y_n rounded to multiples of `width`."""

    width: float

    def prepare(self, model):
        return RoundedData(model.data.y, self.width)


class RoundedData(sm.extend.Prepared):
    """The cells, how many data each has, and the cell of each datum."""

    def __init__(self, y, width):
        cells, cell, counts = np.unique(np.rint(y / width), return_inverse=True, return_counts=True)
        arrays = sm.extend.record("centres", "counts", "cell")
        self.arrays = arrays(cells * width, counts.astype(float), cell.astype(np.int32))

    @property
    def functions(self):
        return sm.extend.functions_of_state(known_sum, residuals)


density = sm.extend.jit(log_density, flags=sm.extend.FLAGS, inner="always")


@sm.extend.jit(flags=sm.extend.FLAGS)
def known_sum(state, arrays):
    """The sum of h over all rows that are raced: all, as there are no `outliers`."""
    total = 0.0
    for c in range(len(arrays.centres)):
        total += arrays.counts[c] * density(state, arrays.centres[c])
    return total


@sm.extend.jit(flags=sm.extend.FLAGS)
def residuals(state, data, arrays, rows, out):
    """l - h of a mini-batch."""
    for i in range(len(rows)):
        rounded = arrays.centres[arrays.cell[rows[i]]]
        out[i] = density(state, data.y[rows[i]]) - density(state, rounded)


# --------------------------------------------------------------------------------- trying it
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows and draws")
    quick = parser.parse_args().quick
    size, draws = (50_000, 500) if quick else (500_000, 5_000)

    y = 0.3 + np.random.default_rng(1).standard_t(4, size)
    model = sm.Model(
        log_likelihood, {"y": y}, state={"mu": 0.3, "sigma": 1.0}, log_prior=log_prior,
        constraints={"sigma": sm.positive},
    )  # fmt: skip
    step = 2.0 / size**0.5
    print(f"N = {size:,}, {draws:,} draws\n")
    print("control variate   share read   wrong of audited      mean of mu")
    controls = {"none": None, "width 0.5": Rounded(0.5), "width 0.05": Rounded(0.05)}
    for name, control in controls.items():
        move = {"scale": step, "control": control, "adapt": False}
        kernel = sm.Metropolis("mu", **move) >> sm.Metropolis("sigma", **move)
        trace = sm.sample(
            model, kernel, draws=draws, warmup=100, chains=2, seed=2, audit=0.05, progress=False
        )
        pulls, everything, wrong, audited = (
            sum(int(trace.stats[block][count].sum()) for block in ("mu", "sigma"))
            for count in ("pulls", "everything", "wrong", "audited")
        )
        share, mean = pulls / everything, float(trace.draws["mu"].mean())
        print(f"{name:18}{share:10.2%}{wrong:9} of {audited:<9,}{mean:12.4f}")


if __name__ == "__main__":
    main()
