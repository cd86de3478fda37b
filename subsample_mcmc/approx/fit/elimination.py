"""Precisions of crossed sites, factored: those of the largest factor are eliminated first.

Q = [[A, B], [B', C]] of the largest factor and the rest. A is one small block a site, and B has a
block for each pair of sites that a datum sees, so S = C - B' A^-1 B is made pair by pair. Of a few
thousand numbers S is dense; of more it is factored as a sparse matrix (scipy's SuperLU, as no
library of sparse Cholesky factors installs without a compiler), and entries of its inverse are
found where S has any (Takahashi, Fagan & Chin 1973).
"""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy

from subsample_mcmc.numerics.jit import jit

DENSE = 3_000  # numbers of the rest up to which S is dense, ...
LARGE = 8_000  # ... or up to these where more than a part of its pairs are tied: .5 GB
TIED = 0.01
FILLED = 2_000_000  # entries of a sparse S: its factor has many more
ROWS = 64  # of S, at a time
COLUMNS = 64  # of the inverse, at a time
EXACT = 1e-6  # the part by which tr(S S^-1) may differ from the size of S


class SiteRows(NamedTuple):
    """A matrix by rows; where they are a site's, all of them with the same columns."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray


@jit
def times_blocks(blocks, rows, out):
    """Write the product of one block a site and a matrix by rows."""
    k = blocks.shape[1]
    for i in range(len(blocks)):
        for p in range(rows.indptr[i * k + 1] - rows.indptr[i * k]):
            for a in range(k):
                total = 0.0
                for b in range(k):
                    total += blocks[i, a, b] * rows.data[rows.indptr[i * k + b] + p]
                out[rows.indptr[i * k + a] + p] = total


@jit
def subtract_products(one, other, out):
    """Take one' other from a dense matrix, below its diagonal."""
    for r in range(len(one.indptr) - 1):
        for p in range(one.indptr[r], one.indptr[r + 1]):
            for q in range(one.indptr[r], p + 1):
                out[one.indices[p], one.indices[q]] -= one.data[p] * other.data[q]


@jit(inner="always")
def add_pair(rows, k, i, p, q, z, out):
    """Add w_p z w_q' to a site's block, of two columns that its rows see."""
    for a in range(k):
        for b in range(k):
            left = rows.data[rows.indptr[i * k + a] + p]
            out[i, a, b] += left * z * rows.data[rows.indptr[i * k + b] + q]


@jit
def add_spread(rows, k, inverse, out):
    """Add W_i Z W_i' to each site's block, Z being the part of a dense inverse that it sees."""
    for i in range(len(out)):
        first = rows.indptr[i * k]
        count = rows.indptr[i * k + 1] - first
        for p in range(count):
            for q in range(count):
                z = inverse[rows.indices[first + p], rows.indices[first + q]]
                add_pair(rows, k, i, p, q, z, out)


@jit
def add_sparse_spread(rows, k, inverse, out):
    """The same of entries of a sparse inverse; the number of those that it has not."""
    missing = 0
    for i in range(len(out)):
        first = rows.indptr[i * k]
        count = rows.indptr[i * k + 1] - first
        for p in range(count):
            for q in range(count):
                row, column = rows.indices[first + p], rows.indices[first + q]
                low, high = inverse.indptr[column], inverse.indptr[column + 1]
                end = high
                while low < high:
                    middle = (low + high) // 2
                    if inverse.indices[middle] < row:
                        low = middle + 1
                    else:
                        high = middle
                if low == end or inverse.indices[low] != row:
                    missing += 1
                    continue
                add_pair(rows, k, i, p, q, inverse.data[low], out)
    return missing


@jit
def inverse_entries(lower, pivots, place, total, out):
    """Entries of (L D L')^-1 where L has any, column by column from the last.

    lower: L by columns, without its diagonal. place, total: room. out: its entries; the diagonal
    comes in the place of pivots.
    """
    for j in range(len(pivots) - 1, -1, -1):
        first, last = lower.indptr[j], lower.indptr[j + 1]
        for p in range(first, last):
            place[lower.indices[p]] = p - first
            total[p - first] = 0.0
        for p in range(first, last):
            k, own = lower.indices[p], lower.data[p]
            total[p - first] += pivots[k] * own
            for q in range(lower.indptr[k], lower.indptr[k + 1]):
                at = place[lower.indices[q]]
                if at >= 0:
                    total[at] += out[q] * own
                    total[p - first] += out[q] * lower.data[first + at]
        value = 1.0 / pivots[j]
        for p in range(first, last):
            out[p] = -total[p - first]
            value -= lower.data[p] * out[p]
            place[lower.indices[p]] = -1
        pivots[j] = value


@dataclass(eq=False)
class Eliminated:
    """A precision matrix of crossed sites: solutions, log determinant, parts of its inverse.

    Its fields are what it is made from, by which stored runs know it again; factors are made anew.
    """

    own: np.ndarray  # (sites, k, k) of the largest factor
    beside: SiteRows  # B
    rest: SiteRows  # C

    def __getstate__(self) -> dict[str, Any]:
        """What it is made from."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @property
    def size(self) -> int:
        """Numbers of the largest factor."""
        return self.own.shape[0] * self.own.shape[1]

    @property
    def others(self) -> int:
        """Numbers of the rest."""
        return len(self.rest.indptr) - 1

    # ------------------------------------------------------------------------------ factors
    @cached_property
    def inverses(self) -> np.ndarray:
        """Of the largest factor's blocks; LinAlgError: one is not positive definite."""
        if self.own.shape[1] == 1:
            if not self.own.min(initial=1.0) > 0.0:
                raise np.linalg.LinAlgError("a site's precision is not positive")
            return 1.0 / self.own
        np.linalg.cholesky(self.own)
        return np.linalg.inv(self.own)

    @cached_property
    def weights(self) -> SiteRows:
        """A^-1 B."""
        found = np.empty_like(self.beside.data)
        times_blocks(self.inverses, self.beside, found)
        return self.beside._replace(data=found)

    def sparse(self, rows: SiteRows) -> Any:
        """A matrix of scipy's."""
        from scipy.sparse import csr_array  # .1 s at import

        shape = len(rows.indptr) - 1, self.others
        return csr_array((rows.data, rows.indices, rows.indptr), shape=shape)

    @cached_property
    def factor(self) -> Any:
        """Of S: lower triangular, or SparseFactor."""
        if self.others > DENSE and (left := self.left_sparse()) is not None:
            return SparseFactor(left)
        whole = self.sparse(self.rest).toarray()
        subtract_products(self.beside, self.weights, whole)
        return np.linalg.cholesky(whole)  # which reads what is below the diagonal

    def left_sparse(self) -> Any:
        """S as a sparse matrix; None: as a dense one it takes less.

        Some rows at a time, as the whole may be too large to be looked at.
        """
        from scipy.sparse import vstack

        small = self.others <= LARGE
        most = TIED * self.others**2 if small else FILLED
        beside, weights = self.sparse(self.beside).T.tocsr(), self.sparse(self.weights)
        rest, parts, pairs = self.sparse(self.rest), [], 0
        for first in range(0, self.others, ROWS):
            some = slice(first, first + ROWS)
            parts.append(rest[some] - beside[some] @ weights)
            pairs += parts[-1].nnz
            if pairs > most and small:
                return None
            if pairs > most:
                raise ValueError(
                    f"{self.others:,} numbers beside the largest factor are tied to each other by "
                    f"more than {FILLED:,} pairs: of more than {LARGE:,} so many do not fit in "
                    "memory. Hold one of the factors, by naming the blocks to fit."
                )
        return vstack(parts).tocsc()

    @cached_property
    def log_det(self) -> float:
        """LinAlgError: the matrix is not positive definite."""
        logs = np.linalg.slogdet(self.own)[1].sum()
        if isinstance(self.factor, SparseFactor):
            return float(logs + np.log(self.factor.pivots).sum())
        return float(logs + 2.0 * np.log(np.diag(self.factor)).sum())

    # -------------------------------------------------------------------------------- what it says
    def by_site(self, values: np.ndarray) -> np.ndarray:
        """A^-1 times some columns of values of the largest factor."""
        n, k, _ = self.own.shape
        found = self.inverses @ values.reshape(n, k, -1)
        return found.reshape(values.shape)

    def solve(self, values: np.ndarray) -> np.ndarray:
        """Q^-1 values, of one column or of several."""
        own = self.by_site(values[: self.size])
        left = values[self.size :] - self.sparse(self.beside).T @ own
        rest = self.solve_rest(left)
        return np.concatenate([own - self.sparse(self.weights) @ rest, rest])

    def solve_rest(self, values: np.ndarray) -> np.ndarray:
        """S^-1 values."""
        if isinstance(self.factor, SparseFactor):
            return self.factor.lu.solve(values)
        return scipy.linalg.cho_solve((self.factor, True), values)

    def times(self, values: np.ndarray) -> np.ndarray:
        """Q values."""
        n, k, _ = self.own.shape
        own, rest = values[: self.size], values[self.size :]
        first = (self.own @ own.reshape(n, k, 1)).ravel() + self.sparse(self.beside) @ rest
        second = self.sparse(self.beside).T @ own + self.sparse(self.rest) @ rest
        return np.concatenate([first, second])

    def spread(self, noise: np.ndarray) -> np.ndarray:
        """Normal numbers with covariance Q^-1, made of independent ones."""
        n, k, _ = self.own.shape
        root = np.linalg.cholesky(self.inverses)
        own = (root @ noise[: self.size].reshape(n, k, 1)).ravel()
        if isinstance(self.factor, SparseFactor):
            rest = self.factor.spread(noise[self.size :])
        else:
            rest = scipy.linalg.solve_triangular(
                self.factor, noise[self.size :], lower=True, trans="T"
            )
        return np.concatenate([own - self.sparse(self.weights) @ rest, rest])

    def blocks(self, shapes: list[tuple[int, int]]) -> list[np.ndarray]:
        """Blocks on the diagonal of Q^-1: (sites, k, k) of each factor, in their order.

        shapes: (sites, k) of the factors, the largest first.
        """
        found, first = [self.inverses.copy()], 0
        k = shapes[0][1]
        if isinstance(self.factor, SparseFactor):
            inverse = self.factor.inverse
            if add_sparse_spread(self.weights, k, inverse, found[0]):
                raise np.linalg.LinAlgError(SparseFactor.incomplete)
            whole = self.factor.by_columns(inverse)
        else:
            whole = scipy.linalg.cho_solve((self.factor, True), np.eye(self.others))
            add_spread(self.weights, k, whole, found[0])
        for n, k in shapes[1:]:
            at = first + np.arange(n * k).reshape(n, k)
            i, j = np.broadcast_arrays(at[:, :, None], at[:, None, :])
            found.append(np.asarray(whole[i.ravel(), j.ravel()]).reshape(n, k, k))
            first += n * k
        return found

    def columns(self, at: np.ndarray) -> np.ndarray:
        """Q^-1 of some numbers, rows and columns."""
        found = np.empty((len(at), len(at)))
        for first in range(0, len(at), COLUMNS):
            some = at[first : first + COLUMNS]
            unit = np.zeros((self.size + self.others, len(some)))
            unit[some, np.arange(len(some))] = 1.0
            found[:, first : first + len(some)] = self.solve(unit)[at]
        return 0.5 * (found + found.T)


class SparseFactor:
    """P S P' = L D L' of a sparse matrix."""

    incomplete = "entries of the inverse of a sparse precision are missing"

    def __init__(self, matrix: Any):
        from scipy.sparse.linalg import splu

        self.matrix = matrix
        try:
            self.lu = splu(
                matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )  # fmt: skip
        except RuntimeError as error:  # it is singular
            raise np.linalg.LinAlgError(str(error)) from None
        self.pivots = self.lu.U.diagonal()
        if not (self.pivots.min() > 0.0 and np.array_equal(self.lu.perm_r, self.lu.perm_c)):
            raise np.linalg.LinAlgError("a matrix is not positive definite")

    def spread(self, noise: np.ndarray) -> np.ndarray:
        """Normal numbers with covariance S^-1, made of independent ones."""
        from scipy.sparse.linalg import spsolve_triangular

        upper = self.lu.L.T.tocsr()
        found = spsolve_triangular(upper, noise / np.sqrt(self.pivots), lower=False)
        return found[self.lu.perm_c]

    @cached_property
    def inverse(self) -> SiteRows:
        """Entries of S^-1 where the factor has any, by columns."""
        from scipy.sparse import coo_array, tril

        lower = tril(self.lu.L, -1).tocsc()
        lower.sort_indices()
        n = len(self.pivots)
        diagonal, entries = self.pivots.copy(), np.empty(lower.nnz)
        inverse_entries(
            SiteRows(lower.indptr, lower.indices, lower.data), diagonal,
            np.full(n, -1), np.empty(n), entries,
        )  # fmt: skip
        columns = np.repeat(np.arange(n), np.diff(lower.indptr))
        back = np.argsort(self.lu.perm_c)
        i, j, d = back[lower.indices], back[columns], back[np.arange(n)]
        whole = coo_array(
            (np.concatenate([entries, entries, diagonal]),
             (np.concatenate([i, j, d]), np.concatenate([j, i, d]))), shape=(n, n),
        ).tocsc()  # fmt: skip
        whole.sort_indices()
        if not abs((whole * self.matrix).sum() - n) < EXACT * n:
            raise np.linalg.LinAlgError(self.incomplete)
        return SiteRows(whole.indptr, whole.indices, whole.data)

    def by_columns(self, entries: SiteRows) -> Any:
        """A matrix of scipy's."""
        from scipy.sparse import csc_array

        n = len(self.pivots)
        return csc_array((entries.data, entries.indices, entries.indptr), shape=(n, n))
