"""What an error rate does to a posterior: docs/figures/error_rate.svg.

    python docs/figures/error_rate.py

A random-walk Metropolis chain on a grid of a standard normal density. A decision is turned round
with probability epsilon, whatever the state. Where the chain settles is the left eigenvector of its
transition matrix: nothing is sampled.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from subsample_mcmc.style import COLOURS, DASHES

GRID = np.linspace(-16.0, 16.0, 641)
STEP = 2.4  # standard deviation of the walk: it accepts some 44% of its proposals


def settles(epsilon):
    """Stationary distribution of the chain of which a share epsilon of decisions is wrong."""
    far = GRID[None, :] - GRID[:, None]
    proposal = np.exp(-0.5 * (far / STEP) ** 2)
    proposal /= proposal.sum(axis=1).max()  # symmetric; what is missing stays where it is
    accept = np.minimum(1.0, np.exp(0.5 * (GRID[:, None] ** 2 - GRID[None, :] ** 2)))
    wrong = (1.0 - epsilon) * accept + epsilon * (1.0 - accept)
    move = proposal * wrong
    np.fill_diagonal(move, 0.0)
    np.fill_diagonal(move, 1.0 - move.sum(axis=1))
    values, vectors = np.linalg.eig(move.T)
    law = np.abs(vectors[:, np.argmax(values.real)].real)
    return law / law.sum()


def main():
    """Draw it."""
    plt.rcParams["svg.hashsalt"] = "subsample_mcmc"
    figure, axes = plt.subplots(figsize=(6.2, 3.4), layout="constrained")
    exact = settles(0.0)
    for epsilon, colour, dash in zip((0.0, 0.01, 0.05, 0.2), COLOURS, DASHES, strict=False):
        law = settles(epsilon)
        apart, sd = 0.5 * np.abs(law - exact).sum(), np.sqrt(law @ GRID**2 - (law @ GRID) ** 2)
        label = f"{epsilon:.0%} wrong: sd {sd:.2f}, total variation {apart:.3f}"
        axes.plot(GRID, law / (GRID[1] - GRID[0]), color=colour, linestyle=dash, label=label)
    axes.set(
        xlim=(-6, 6),
        xlabel="parameter, in posterior standard deviations",
        ylabel="density",
        ylim=(0, 0.6),
    )
    axes.legend(fontsize=8, loc="upper right")
    path = Path(__file__).with_suffix(".svg")
    figure.savefig(path, metadata={"Date": None})
    path.write_text("\n".join(s.rstrip() for s in path.read_text().splitlines()) + "\n")


if __name__ == "__main__":
    main()
