"""One element of a tensor of a pytensor graph, as an expression.

A tensor is a shape and a function that gives the expression of any element, at indices that are
numbers or expressions. So element n of a vector of log likelihoods is what one row contributes,
whatever the graph looks like; rows are separable where it reads data at n only.
"""

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.pymc.expressions import INF, TINY, Expressions, Node

UNROLLED = 24  # terms up to which a sum is written out
REDUCE = {"Sum": "add", "Prod": "mul", "Max": "max", "Min": "min", "All": "and", "Any": "or"}
OPS = {
    "Sub": "sub", "TrueDiv": "div", "IntDiv": "floordiv", "Mod": "mod", "Pow": "pow", "Neg": "neg",
    "Abs": "abs", "Sign": "sign", "Exp": "exp", "Expm1": "expm1", "Log": "log", "Log1p": "log1p",
    "Log1mexp": "log1mexp", "Softplus": "softplus", "Sigmoid": "sigmoid", "Sqrt": "sqrt",
    "GammaLn": "gammaln", "Psi": "psi", "Erf": "erf", "Erfc": "erfc", "Erfcx": "erfcx",
    "Sin": "sin", "Cos": "cos", "Tan": "tan", "ArcTan": "atan", "Tanh": "tanh", "Sinh": "sinh",
    "Cosh": "cosh", "LT": "lt", "GT": "gt", "LE": "le", "GE": "ge", "EQ": "eq", "NEQ": "ne",
    "IsNan": "isnan", "IsInf": "isinf", "Floor": "floor", "Ceil": "ceil",
}  # fmt: skip
FACTOR = "give the factor itself, chol="
HINTS = {
    "Det": "of pm.LKJCorr? Take pm.LKJCholeskyCov", "SLogDet": FACTOR, "MatrixInverse": FACTOR,
    "Scan": "a recursion over rows is no sum over them",
}  # fmt: skip
SAME = ("Identity", "SpecifyShape", "TensorFromScalar", "ScalarFromTensor", "DeepCopyOp",
        "ViewOp")  # fmt: skip


class RefusedError(ValueError):
    """A graph that is no sum over rows of what can be translated."""


class Tensor(NamedTuple):
    """A shape, and the expression of each element."""

    shape: tuple[int, ...]
    at: Callable[[tuple], Node]


class Graph:
    """Translates the variables of one graph; `leaves` gives those of parameters."""

    def __init__(self, make: Expressions, rows: int, first: int, size: int, leaves, constant):
        self.make, self.rows, self.first = make, rows, first
        self.row = make.row  # which of its rows a row of the model is: those from `first` on are
        if rows < size:
            own = make("add", make.const(-first), make("signed", make.row))
            own = make("max", own, make.const(0))  # others read some row, and nothing comes of it
            self.row = make("min", own, make.const(rows - 1))
        self.leaves: dict[Any, Tensor] = leaves
        self.constant: Callable = constant
        self.done: dict[Any, Tensor] = {}
        self.of: Any = None  # the variable of the model that is being translated

    def tensor(self, variable) -> Tensor:
        """The tensor of a variable, with elements made once."""
        if variable in self.leaves:
            return self.leaves[variable]
        if variable not in self.done:
            made, known = self.translated(variable), {}

            def at(index):
                key = tuple(i if isinstance(i, Node) else int(i) for i in index)
                if key not in known:
                    known[key] = made.at(key)
                return known[key]

            self.done[variable] = Tensor(tuple(int(s) for s in made.shape), at)
        return self.done[variable]

    def translated(self, variable) -> Tensor:
        if hasattr(variable, "data"):  # a constant
            return self.constant(self, variable)
        node = variable.owner
        if node is None:
            raise self.refusal(f"it reads {variable.name or variable}, which has no value")
        for kind in type(node.op).__mro__:
            if (rule := getattr(self, f"do_{kind.__name__}", None)) is not None:
                if kind.__name__ == "Split":
                    return rule(node, node.outputs.index(variable))
                return rule(node)
        name = type(node.op).__name__
        if name in SAME:
            return self.tensor(node.inputs[0])
        if name in REDUCE:
            return self.reduced(node, REDUCE[name])
        raise self.unknown(node.op)

    def refusal(self, reason: str) -> RefusedError:
        return RefusedError(
            f"from_pymc, {self.of}: {reason}. Only likelihoods that are a sum over rows, and the "
            "usual functions of numbers, are translated: write this one as sm.Model(...)."
        )

    def unknown(self, op) -> RefusedError:
        """Of an operation."""
        hint = HINTS.get(type(op).__name__)
        return self.refusal(f"the operation {op} has no translation{f' ({hint})' if hint else ''}")

    def number(self, variable) -> int:
        """A whole number that is known: a length, a bound of a slice."""
        found = self.tensor(variable).at(())
        if not found.constant:
            raise self.refusal(f"a shape or slice depends on parameters ({variable})")
        return int(found.value)

    def node(self, index) -> Node:
        return index if isinstance(index, Node) else self.make.const(index)

    def folded(self, op: str, shape, element: Callable) -> Node:
        """The sum, ... of element(index) over all indices of a shape."""
        if op in ("add", "mul"):
            given, element = element, lambda index: self.counted(given(index))
        if math.prod(shape) <= UNROLLED:
            parts = [element(index) for index in np.ndindex(*shape)]
            if not parts:
                empty = {"add": 0.0, "mul": 1.0, "and": True, "or": False, "max": -INF, "min": INF}
                return self.make.const(empty[op])
            return reduce(lambda found, part: self.make(op, found, part), parts)
        variables = [self.make.loop(length) if length > 1 else 0 for length in shape]
        body = element(tuple(variables))
        for variable, length in reversed(list(zip(variables, shape, strict=True))):
            if isinstance(variable, Node):
                body = self.make.reduce(op, variable, length, body)
        return body

    # ----------------------------------------------------------------------------- elementwise
    def do_Elemwise(self, node) -> Tensor:
        return self.elementwise(node.op.scalar_op, [self.tensor(i) for i in node.inputs])

    def elementwise(self, op, inputs: list[Tensor]) -> Tensor:
        depth = max(len(t.shape) for t in inputs)
        shape = np.broadcast_shapes(*(t.shape for t in inputs))

        def at(index):
            return self.scalar(
                op, [t.at(fitting(t, index[depth - len(t.shape) :])) for t in inputs]
            )

        return Tensor(shape, at)

    def scalar(self, op, args: list[Node]) -> Node:
        """One operation on numbers."""
        name, make = type(op).__name__, self.make
        # A row's index is unsigned: right for reading, not for arithmetic.
        args = [make("signed", a) if a is make.row else a for a in args]
        if name in ("Add", "Mul", "Maximum", "Minimum", "AND", "OR"):
            kind = {"Add": "add", "Mul": "mul", "Maximum": "max", "Minimum": "min", "AND": "and",
                    "OR": "or"}[name]  # fmt: skip
            if all(a.kind == "b" for a in args):  # as pytensor adds and multiplies truth values
                kind = {"add": "or", "mul": "and", "max": "or", "min": "and"}.get(kind, kind)
            elif name in ("AND", "OR"):
                raise self.refusal("bits of whole numbers have no translation")
            found = args[0]
            for arg in args[1:]:
                found = make(kind, found, arg)
            return found
        if name == "Switch":
            test = args[0] if args[0].kind == "b" else make("bool", args[0])
            return make("select", test, args[1], args[2])
        if name == "Cast":
            return make({"f": "float", "b": "bool"}.get(op.o_type.dtype[0], "int"), args[0])
        if name in ("Second", "Identity"):
            return args[-1]
        if name == "Clip":
            return make("min", make("max", args[0], args[1]), args[2])
        if name == "Sqr":
            return make("mul", args[0], args[0])
        if name == "Reciprocal":
            return make("div", make.const(1.0), args[0])
        if name == "Invert" and args[0].kind == "b":
            return make("not", args[0])
        if name == "XOR" and all(a.kind == "b" for a in args):
            return make("ne", *args)
        if name in ("Exp2", "Log2", "Log10"):
            base = make.const(math.log(10.0 if name == "Log10" else 2.0))
            if name == "Exp2":
                return make("exp", make("mul", base, args[0]))
            return make("div", make("log", args[0]), base)
        if name == "Composite":
            known = dict(zip(op.fgraph.inputs, args, strict=True))
            for one in op.fgraph.toposort():
                values = [known[i] if i in known else make.const(i.data) for i in one.inputs]
                known[one.outputs[0]] = self.scalar(one.op, values)
            return known[op.fgraph.outputs[0]]
        if name in ("GammaInc", "GammaIncC") and args[0].constant and args[0].value in range(1, 9):
            found = self.poisson_tail(int(args[0].value), args[1])
            return found if name == "GammaIncC" else make("sub", make.const(1.0), found)
        if name not in OPS:
            raise self.refusal(f"the function {op} of numbers has no translation")
        return make(OPS[name], *args)

    def poisson_tail(self, terms: int, rate: Node) -> Node:
        """The regularised upper incomplete gamma function of a small whole number."""
        make, found = self.make, self.make.const(1.0)
        for k in range(terms - 1, 0, -1):
            found = make(
                "add", make.const(1.0), make("mul", make("div", rate, make.const(k)), found)
            )
        return make("mul", make("exp", make("neg", rate)), found)

    def do_CheckParameterValue(self, node) -> Tensor:
        """-inf where a parameter is out of its range; a check of all rows becomes the row's."""
        value, make = self.tensor(node.inputs[0]), self.make

        def at(index):
            found = make.const(True)
            for condition in node.inputs[1:]:
                found = make("and", found, self.holds(condition, value.shape, index))
            return make("select", found, value.at(index), make.const(-INF))

        return Tensor(value.shape, at)

    def holds(self, variable, shape, index) -> Node:
        """A condition, as far as it is about the element at index of a tensor of this shape."""
        node: Any = getattr(variable, "owner", None)
        name = type(node.op).__name__ if node else ""
        if name in SAME:
            return self.holds(node.inputs[0], shape, index)
        if name == "All" and node.inputs[0].owner is not None:
            inner = node.inputs[0]
            if type(inner.owner.op).__name__ == "MakeVector":
                found = self.make.const(True)
                for part in inner.owner.inputs:
                    found = self.make("and", found, self.holds(part, shape, index))
                return found
            tensor = self.tensor(inner)
            if len(tensor.shape) == len(shape) and all(
                a in (1, b) for a, b in zip(tensor.shape, shape, strict=True)
            ):
                return self.truth(tensor.at(fitting(tensor, index)))
            at_row = self.row in index
            fixed = [at_row and length == self.rows for length in tensor.shape]
            rest = tuple(1 if f else s for f, s in zip(fixed, tensor.shape, strict=True))
            return self.folded("and", rest, lambda free: self.truth(tensor.at(tuple(
                self.row if f else i for f, i in zip(fixed, free, strict=True)
            ))))  # fmt: skip
        return self.truth(self.tensor(variable).at(()))

    def counted(self, node: Node) -> Node:
        return self.make("int", node) if node.kind == "b" else node  # truth values

    def truth(self, node: Node) -> Node:
        return node if node.kind == "b" else self.make("bool", node)

    def do_CheckAndRaise(self, node) -> Tensor:
        return self.tensor(node.inputs[0])

    # ------------------------------------------------------------------------------ reductions
    def reduced(self, node, op: str) -> Tensor:
        tensor, axes = self.tensor(node.inputs[0]), node.op.axis
        depth = len(tensor.shape)
        axes = range(depth) if axes is None else axes
        axes = [a % depth for a in ((axes,) if isinstance(axes, int) else axes)]
        left = [d for d in range(depth) if d not in axes]

        def at(index):
            def element(inner):
                full = dict(zip(left, index, strict=True)) | dict(zip(axes, inner, strict=True))
                found = tensor.at(tuple(full[d] for d in range(depth)))
                return self.truth(found) if op in ("and", "or") else found

            return self.folded(op, tuple(tensor.shape[a] for a in axes), element)

        return Tensor(tuple(tensor.shape[d] for d in left), at)

    def do_Dot(self, node) -> Tensor:
        a, b = (self.tensor(i) for i in node.inputs)

        def at(index):
            head, tail = index[: len(a.shape) - 1], index[len(a.shape) - 1 :]

            def element(inner):
                k = inner[0]
                right = (*tail[:-1], k, tail[-1]) if len(b.shape) > 1 else (k,)
                return self.make("mul", a.at((*head, k)), b.at(right))

            return self.folded("add", a.shape[-1:], element)

        return Tensor((*a.shape[:-1], *b.shape[:-2], *b.shape[-1:][: len(b.shape) - 1]), at)

    def do_Softmax(self, node) -> Tensor:
        return self.soft(node, False)

    def do_LogSoftmax(self, node) -> Tensor:
        return self.soft(node, True)

    def soft(self, node, logarithm: bool) -> Tensor:
        """Softmax along an axis, or along all."""
        tensor, axis, make = self.tensor(node.inputs[0]), node.op.axis, self.make
        axis = range(len(tensor.shape)) if axis is None else axis
        along = [a % len(tensor.shape) for a in ((axis,) if isinstance(axis, int) else axis)]

        def at(index):
            def element(inner):
                full = list(index)
                for a, i in zip(along, inner, strict=True):
                    full[a] = i
                return tensor.at(tuple(full))

            shape = tuple(tensor.shape[a] for a in along)
            top = self.folded("max", shape, element)
            total = self.folded(
                "add", shape, lambda inner: make("exp", make("sub", element(inner), top))
            )
            value = make("sub", tensor.at(index), top)
            if logarithm:
                return make("sub", value, make("log", total))
            return make("div", make("exp", value), total)

        return Tensor(tensor.shape, at)


def fitting(tensor: Tensor, index) -> tuple:
    """An index of a broadcast result, as an index of one of its parts."""
    return tuple(0 if length == 1 else i for length, i in zip(tensor.shape, index, strict=True))


def range_of(constraint) -> tuple[float, float]:
    """Bounds of a block's values, open at 0."""
    return (TINY if constraint.low == 0.0 else constraint.low), constraint.high
