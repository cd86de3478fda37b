"""Writes bnormal_table.npz, the Chebyshev coefficients of B_Normal for growth 2.

For each side, each number of looks K = 1..30 and each node of a grid in s = sqrt(1 - pi_K) and x
(the boundary of K independent looks), B is solved by quadrature; the array `side`[K - 1, i, j]
holds the coefficient of T_i(s) T_j(x) in x - B, s and x rescaled to (-1, 1). Deterministic, half
a minute on one core. Run it again, and the tests, after any change of the solver:

    python tools/make_bnormal_table.py
"""

from pathlib import Path

import numpy as np

from subsample_mcmc.decisions.rules import bnormal

# More nodes than terms kept: the terms left out then do not fold back into those kept.
NODES = (14, 36)


def coefficients(count, side):
    """Coefficients, of shape TABLE_SHAPE, of x - B(s, x) for `count` looks."""
    low, high = (bnormal.independent_boundary(d, count, side) for d in bnormal.TABLE_DELTAS[::-1])
    s_nodes, s_terms = bnormal.chebyshev_nodes(NODES[0])
    x_nodes, x_terms = bnormal.chebyshev_nodes(NODES[1])
    last = 1.0 - ((s_nodes + 1.0) / 2.0) ** 2 / 2.0
    x = low + (high - low) * (x_nodes + 1.0) / 2.0
    gap = np.array([[xj - bnormal.solve_at(xj, pi, 2.0, count, side) for xj in x] for pi in last])
    terms = s_terms @ gap @ x_terms.T
    return terms[: bnormal.TABLE_SHAPE[0], : bnormal.TABLE_SHAPE[1]].astype(np.float32)


def main():
    """Solve every entry and write the file next to the rule that reads it."""
    table = {}
    for side in bnormal.TAILS:
        rows = []
        for count in range(1, bnormal.TABLE_LOOKS + 1):
            rows.append(coefficients(count, side))
            print(f"{side}: {count} of {bnormal.TABLE_LOOKS} looks", flush=True)
        table[side] = np.array(rows)
    path = Path(bnormal.__file__).with_name(bnormal.TABLE_FILE)
    np.savez(path, **table)
    print(f"{path}: {path.stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    main()
