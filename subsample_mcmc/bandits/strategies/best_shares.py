"""The design of an experiment: in what shares to pull arms that are linear in features."""

import numpy as np
from scipy.optimize import linprog

STEPS, NEAR = 100_000, 1e-10  # at most, and how near to the optimum


def best_shares(features: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Shares p that make the largest y' A(p)^-1 y as small as can be, A(p) = sum p x x'.

    For fixed weights of the directions, p <- p |x' A^-1 y| and a constant climbs to the best p
    (Titterington's algorithm for designs); the weights follow the directions that are worst. At the
    optimum all that have weight are equally long, and all pulled arms equally useful.
    """
    shares = np.full(len(features), 1.0 / len(features))
    weights = np.full(len(directions), 1.0 / len(directions))
    for _ in range(STEPS):
        solved = np.linalg.solve((features.T * shares) @ features, directions.T)
        lengths = (directions.T * solved).sum(axis=0)
        level, useful = weights @ lengths, (features @ solved) ** 2 @ weights
        if lengths.max() <= (1.0 + NEAR) * level and shares @ abs(useful - level) <= NEAR * level:
            break
        shares = shares * np.sqrt(useful)
        weights = weights * np.sqrt(lengths / lengths.max())
        shares, weights = shares / shares.sum(), weights / weights.sum()
    shares[shares < 1e-9] = 0.0
    return shares / shares.sum()


def sparsest(features: np.ndarray, direction: np.ndarray) -> np.ndarray:
    """Shares |w| / sum |w| of the sparsest w with sum w_k x_k = direction."""
    arms = len(features)
    found = linprog(
        np.ones(2 * arms), A_eq=np.hstack([features.T, -features.T]), b_eq=direction, method="highs"
    )
    if found.x is None:
        raise ValueError(f"a difference of two features is not in the span of all: {found.message}")
    weights = np.abs(found.x[:arms] - found.x[arms:])
    return weights / weights.sum()
