"""The design of an experiment: in what shares to pull arms that are linear in features."""

from math import sqrt

import numpy as np

# ------------------------------------------------------------------------ features of linear arms
# Arms that are nearer, in units of the spread of all, are equal by rounding: distances in the
# metric of a design come out of differences, with an error of 1e-16 over the square of this.
TWINS = 1e-6
ROUNDING = 1e-13  # of the largest: columns below it are what is left of others
SPANNED = 1e-10  # of the largest singular value: directions below it are rounding


def check_noise(noise) -> None:
    """Refuse what is no scale."""
    if not 0.0 < noise < np.inf:
        raise ValueError(
            f"noise={noise!r}: give the sub-Gaussian scale of one reward, finite and above 0: its "
            "standard deviation if rewards are Gaussian, else half the width of their range."
        )


def checked_features(features, arms: int) -> np.ndarray:
    """Features on their span, of full rank; arms that are equal or nearly so are refused."""
    features = np.array(features, dtype=float)  # a copy: what was given may change
    if features.ndim != 2 or len(features) != arms or not np.all(np.isfinite(features)):
        raise ValueError(
            f"features has shape {features.shape}: give numbers, one row for each of {arms} arms."
        )
    _, first = np.unique(features, axis=0, return_index=True)
    if len(first) < arms:
        twin = np.setdiff1d(np.arange(arms), first)[0]
        same = np.flatnonzero((features == features[twin]).all(axis=1))
        raise ValueError(
            f"arms {same.tolist()} have equal features, so equal means: no pull tells them apart. "
            "Merge them."
        )
    left, values, basis = np.linalg.svd(features, full_matrices=False)
    keep = values > SPANNED * values[0]
    if arms > 1:  # in units of their spread, which is what designs and bounds see of features
        from scipy.spatial import cKDTree  # .1 s at import, seldom needed

        scaled = left[:, keep] * sqrt(arms)
        apart, near = (np.asarray(found) for found in cKDTree(scaled).query(scaled, k=2))
        arm = int(apart[:, 1].argmin())
        if apart[arm, 1] < TWINS:
            raise ValueError(
                f"arms {sorted(near[arm].tolist())} have features that differ by rounding alone: "
                "hardly any number of pulls tells them apart. Merge them."
            )
    size = np.abs(features).max(axis=0)
    there = size > ROUNDING * size.max()
    own = np.linalg.svd(features[:, there] / size[there], compute_uv=False)
    if (own > SPANNED * own[0]).sum() > keep.sum():
        raise ValueError(
            f"features have columns of sizes {size.min():.3g} to {size.max():.3g}, beside which a "
            "direction that tells arms apart is as small as rounding: centre and scale the "
            "columns, (x - x.mean(axis=0)) / x.std(axis=0) beside a column of ones."
        )
    return features if keep.sum() == features.shape[1] else features @ basis[keep].T


# ------------------------------------------------------------------------------- shares of a design
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
    from scipy.optimize import linprog  # .2 s at import, seldom needed

    arms = len(features)
    found = linprog(
        np.ones(2 * arms), A_eq=np.hstack([features.T, -features.T]), b_eq=direction, method="highs"
    )
    if found.x is None:
        raise ValueError(f"a difference of two features is not in the span of all: {found.message}")
    weights = np.abs(found.x[:arms] - found.x[arms:])
    return weights / weights.sum()
