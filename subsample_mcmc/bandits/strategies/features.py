"""Features of linear arms and the scale of their noise: checked, and of full rank."""

from math import sqrt

import numpy as np
from scipy.spatial import cKDTree

# Arms that are nearer, in units of the spread of all, are equal by rounding: distances in the
# metric of a design come out of differences, with an error of 1e-16 over the square of this.
TWINS = 1e-6


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
    keep = values > 1e-10 * values[0]
    if arms > 1:  # in units of their spread, which is what designs and bounds see of features
        scaled = left[:, keep] * sqrt(arms)
        apart, near = (np.asarray(found) for found in cKDTree(scaled).query(scaled, k=2))
        arm = int(apart[:, 1].argmin())
        if apart[arm, 1] < TWINS:
            raise ValueError(
                f"arms {sorted(near[arm].tolist())} have features that differ by rounding alone: "
                "hardly any number of pulls tells them apart. Merge them."
            )
    return features if keep.sum() == features.shape[1] else features @ basis[keep].T
