"""A gradient anchored at a reference point (SGLD-CV; Baker, Fearnhead, Fox & Nemeth 2019).

g(u) = g_S(u) - g_S(u*) + g_N(u*): the mini-batch estimates only the difference to a point whose
gradient over all N data is computed once. Near u* its variance falls with (u - u*)^2, where that
of g_S(u) alone is of order N^2/m: so a step of mini-batch gradients mixes like one of full ones.
"""

from typing import Any

import numpy as np

from subsample_mcmc.errors import RewardError
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.target.constraints import to_free


def reference_of(given, variable) -> np.ndarray:
    """The reference point as an array of the block's length, checked.

    given: values of the block, a fit or a dict that has them, or a control variate made from one.
    """
    block = variable.block
    given = getattr(given, "fit", given)  # of a control variate
    given = getattr(given, "state", given)  # of a fit
    if isinstance(given, dict):
        given = given.get(block.name)
    try:
        point = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(
            f"control={given!r:.60}: give a control variate, sm.Taylor(fit), or a point of block "
            f"{block.name!r}, such as sm.laplace(model)."
        ) from None
    if point.shape not in (block.shape, block.shape or (1,)) or not np.all(np.isfinite(point)):
        raise ValueError(
            f"control has shape {point.shape}: give a point of block {block.name!r}, of shape "
            f"{block.shape}, such as a posterior mode."
        )
    variable.constraint.check(block.name, point.ravel())
    return point.ravel().copy()


def anchored(slope) -> Any:
    """slope() with the control variate: writes g_S(u) - g_S(u*) + g_N(u*)."""

    @jit(inner=True)
    def difference(tools, to, u, g):
        code = slope(tools, to, tools.anchor, tools.spare)
        if code == 0:
            code = slope(tools, to, u, g)
        for j in range(len(u)):
            g[j] += tools.known[j] - tools.spare[j]
        return code

    return difference


def anchor(slope, tools, full, to, point: np.ndarray, floats: np.ndarray) -> None:
    """Write u* and g_N(u*) into the tools of a chain: one pass over all data."""
    free_at = getattr(to_free, "py_func", to_free)
    free_at(to.kind, to.low, to.high, point, tools.anchor)

    @jit
    def once(full, to, u, g):
        return slope(full, to, u, g)

    kept = floats.copy()  # slope() tries points in the state itself
    with np.errstate(all="ignore"):
        code = once(full, to, tools.anchor, tools.known)
    floats[:] = kept
    if code != 0:
        raise RewardError(
            f"the gradient at the reference point {point} is not a number (datum "
            f"{int(full.bad[0])}): give a point where likelihood and prior are smooth, such as a "
            "posterior mode."
        )
