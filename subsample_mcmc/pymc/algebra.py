"""Linear algebra of small matrices, written out: priors of vectors, and rows that are vectors."""

from subsample_mcmc.pymc.expressions import Node
from subsample_mcmc.pymc.graph import UNROLLED, Tensor
from subsample_mcmc.pymc.shapes import Translator

FACTORED = 12  # rows of a matrix up to which its Cholesky factor is written out


class Algebra(Translator):
    """All operations that from_pymc knows."""

    def do_Blockwise(self, node) -> Tensor:
        """An operation on the last axes, for every element of the others."""
        rule = next(
            (getattr(self, f"core_{kind.__name__}", None) for kind in type(node.op.core_op).__mro__
             if hasattr(self, f"core_{kind.__name__}")), None,
        )  # fmt: skip
        if rule is None:
            raise self.unknown(node.op.core_op)
        return rule(node.op.core_op, *(self.tensor(i) for i in node.inputs))

    def do_Cholesky(self, node) -> Tensor:
        return self.core_Cholesky(node.op, self.tensor(node.inputs[0]))

    def do_SolveTriangular(self, node) -> Tensor:
        return self.core_SolveTriangular(node.op, *(self.tensor(i) for i in node.inputs))

    def core_Cholesky(self, op, a: Tensor) -> Tensor:
        """The factor of a positive definite matrix, column by column; nan where it is not."""
        make, size, known = self.make, a.shape[-1], {}
        if size > FACTORED:
            raise self.refusal(
                f"a matrix of {size} rows that depends on parameters is factored: at most "
                f"{FACTORED} rows are. Give the factor itself (chol=), or few basis functions "
                "(pm.gp.HSGP)"
            )

        def element(batch, i, j) -> Node:
            if j > i:
                return make.const(0.0)
            if (key := (batch, i, j)) not in known:
                found = a.at((*batch, i, j))
                for k in range(j):
                    product = make("mul", element(batch, i, k), element(batch, j, k))
                    found = make("sub", found, product)
                found = make("sqrt", found) if i == j else make("div", found, element(batch, j, j))
                known[key] = found
            return known[key]

        def at(index):
            batch, i, j = tuple(index[:-2]), index[-2], index[-1]
            if not op.lower:
                i, j = j, i
            if not isinstance(i, Node) and not isinstance(j, Node):
                return element(batch, i, j)
            return self.pick(i, [
                self.pick(j, [element(batch, r, c) for c in range(size)]) for r in range(size)
            ])  # fmt: skip

        return Tensor(a.shape, at)

    def core_SolveTriangular(self, op, a: Tensor, b: Tensor) -> Tensor:
        """Values x with a x = b, by substitution."""
        make, size, known = self.make, a.shape[-1], {}
        many = op.b_ndim == 2
        if size > UNROLLED:
            raise self.refusal(
                f"a system of {size} equations is solved for a vector: at most {UNROLLED} are. "
                'Write the vector as a matrix times independent ones, pm.Normal("z", shape=...)'
            )
        batch_b = b.shape[: len(b.shape) - 1 - many]
        depth = max(len(a.shape) - 2, len(batch_b))
        a_batch = (1,) * (depth - len(a.shape) + 2) + a.shape[:-2]
        b_batch = (1,) * (depth - len(batch_b)) + batch_b
        batch_shape = tuple(max(p, q) for p, q in zip(a_batch, b_batch, strict=True))

        def own(tensor_batch, full, given) -> tuple:
            skip = depth - len(given)
            return tuple(
                0 if s == 1 else i for s, i in zip(tensor_batch[skip:], full[skip:], strict=True)
            )

        def matrix(batch, i, j) -> Node:
            return a.at((*own(a_batch, batch, a.shape[:-2]), i, j))

        def element(batch, i, column) -> Node:
            if (key := (batch, i, column)) not in known:
                here = (*own(b_batch, batch, batch_b), i, *column)
                found = b.at(here)
                for k in range(i) if op.lower else range(i + 1, size):
                    product = make("mul", matrix(batch, i, k), element(batch, k, column))
                    found = make("sub", found, product)
                unit = getattr(op, "unit_diagonal", False)
                known[key] = found if unit else make("div", found, matrix(batch, i, i))
            return known[key]

        def at(index):
            batch, i, column = index[:depth], index[depth], tuple(index[depth + 1 :])
            for k in range(size) if op.lower else reversed(range(size)):  # no deep recursion
                element(batch, k, column)
            return self.pick(i, [element(batch, r, column) for r in range(size)])

        return Tensor((*batch_shape, size, *b.shape[len(b.shape) - many :]), at)

    def do_ExtractDiag(self, node) -> Tensor:
        """The diagonal, at the end of the other axes."""
        tensor, op = self.tensor(node.inputs[0]), node.op
        depth = len(tensor.shape)
        first, second = op.axis1 % depth, op.axis2 % depth
        rows, columns = max(-op.offset, 0), max(op.offset, 0)
        length = min(tensor.shape[first] - rows, tensor.shape[second] - columns)
        left = [d for d in range(depth) if d not in (first, second)]

        def at(index):
            full = dict(zip(left, index[:-1], strict=True))
            full[first] = self.along(range(rows, rows + length), index[-1])
            full[second] = self.along(range(columns, columns + length), index[-1])
            return tensor.at(tuple(full[d] for d in range(depth)))

        return Tensor((*(tensor.shape[d] for d in left), max(length, 0)), at)

    def do_AllocDiag(self, node) -> Tensor:
        """A matrix with a given diagonal."""
        tensor, make = self.tensor(node.inputs[0]), self.make
        if node.op.offset or len(tensor.shape) != 1:
            raise self.refusal("a diagonal other than the main one is set")

        def at(index):
            i, j = (self.node(k) for k in index)
            return make("select", make("eq", i, j), tensor.at((index[0],)), make.const(0.0))

        return Tensor((*tensor.shape, *tensor.shape), at)
