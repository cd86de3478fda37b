"""Scalar expressions: what a graph of tensors becomes, one element at a time.

A node is an operation on nodes, and one node stands for one expression, so that nothing is
computed twice. What is known is computed at once: operations on constants, comparisons that the
range of an expression decides, and logarithms of a sigmoid, which would lose digits.
"""

import math
from typing import Any

import numpy as np

from subsample_mcmc.pymc.scalars import SCOPE

INF = math.inf
TINY = 5e-324  # below every positive number


NO_CALLS = {"int64", "least", "most"}  # of two numbers, or no function of one
CALLS = frozenset(name for name, value in SCOPE.items() if callable(value)) - NO_CALLS
TEXT = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "div": "({} / {})",
    "floordiv": "({} // {})", "mod": "({} % {})", "pow": "({} ** {})", "neg": "(-{})",
    "abs": "abs({})", "max": "most({}, {})", "min": "least({}, {})", "lt": "({} < {})",
    "gt": "({} > {})", "le": "({} <= {})", "ge": "({} >= {})", "eq": "({} == {})",
    "ne": "({} != {})", "and": "({} & {})", "or": "({} | {})", "not": "(not {})",
    "select": "({1} if {0} else {2})", "float": "float({})", "int": "int({})", "bool": "({} != 0)",
    "signed": "int64({})",
}  # fmt: skip
TEXT |= {name: name + "({})" for name in CALLS}
COMPARE = {"lt", "gt", "le", "ge", "eq", "ne", "and", "or", "not", "isnan", "isinf", "bool"}
WHOLE = {"add", "sub", "mul", "floordiv", "mod", "pow", "neg", "abs", "max", "min", "select"}


class Node:
    """One expression."""

    __slots__ = ("args", "free", "high", "kind", "low", "op", "value")

    def __init__(self, op, args, value, kind, free, low, high):
        self.op, self.args, self.value, self.kind = op, args, value, kind
        self.free = free  # symbols it depends on: "n", loop variables, "state"
        self.low, self.high = low, high  # bounds of its value, if it is a number

    @property
    def constant(self) -> bool:
        return self.op == "const"


def calculated(op: str, values: list) -> Any:
    """An operation on numbers, or None where it has no plain value."""
    text = TEXT[op].format(*(f"v[{i}]" for i in range(len(values))))
    try:
        with np.errstate(all="ignore"):
            found = eval(text, {**SCOPE, "v": values})  # text is from the table above
    except (ArithmeticError, ValueError):
        return None
    return None if isinstance(found, complex) else found


class Expressions:
    """Makes nodes, each once."""

    def __init__(self):
        self.known: dict[Any, Node] = {}
        self.loops = 0
        self.row = self.leaf("n", None, "i", frozenset("n"), 0, INF)

    def intern(self, op, args, value, kind, free, low=-INF, high=INF) -> Node:
        key = (op, tuple(map(id, args)), value, kind)
        if key not in self.known:
            self.known[key] = Node(op, tuple(args), value, kind, free, low, high)
        return self.known[key]

    def leaf(self, op, value, kind, free, low=-INF, high=INF) -> Node:
        return self.intern(op, (), value, kind, free, low, high)

    def const(self, value) -> Node:
        if isinstance(value, bool | np.bool_):
            return self.leaf("const", bool(value), "b", frozenset(), int(value), int(value))
        if isinstance(value, int | np.integer):
            return self.leaf("const", int(value), "i", frozenset(), int(value), int(value))
        value = float(value)
        if value == 0.0:  # as a key 0.0 and -0.0 would be one
            value = 0.0
        low, high = (-INF, INF) if value != value else (value, value)
        key = value if value == value else "nan"
        found = self.intern("const", (), key, "f", frozenset(), low, high)
        found.value = value
        return found

    def loop(self, length: int) -> Node:
        """A new loop variable, below a length."""
        self.loops += 1
        name = f"k{self.loops}"
        return self.leaf("loop", name, "i", frozenset([name]), 0, length - 1)

    def read(self, op, name, index, kind, low=-INF, high=INF) -> Node:
        """An element of a block ("state"), of row data ("data") or of a table."""
        free = frozenset().union(*(i.free for i in index), ["state"] if op == "state" else [])
        return self.intern(op, index, name, kind, free, low, high)

    def reduce(self, op, variable, length, body) -> Node:
        """The sum, product, ... of body over a loop variable."""
        free = body.free - {variable.value}
        kind = "f" if body.kind == "f" else ("i" if op in ("add", "mul") else body.kind)
        low, high = bounds(op, [body, body]) if op in ("max", "min", "and", "or") else (-INF, INF)
        if op == "add" and body.low >= 0:
            low = length * body.low
        return self.intern("reduce", (body,), (op, variable.value, length), kind, free, low, high)

    def __call__(self, op: str, *args: Node) -> Node:
        """An operation, simplified."""
        if all(a.constant for a in args):
            found = calculated(op, [a.value for a in args])
            if found is not None:
                return self.const(found)
        if (simple := self.simplified(op, args)) is not None:
            return simple
        kinds = {a.kind for a in (args[1:] if op == "select" else args)}
        kind = "b" if op in COMPARE else "f"
        if op in ("int", "floor", "ceil", "signed") or (op in WHOLE and "f" not in kinds):
            kind = "b" if op in ("select", "max", "min") and kinds == {"b"} else "i"
        free = frozenset().union(*(a.free for a in args))
        return self.intern(op, args, None, kind, free, *bounds(op, args))

    def simplified(self, op, args) -> Node | None:
        a = args[0]
        if op in ("lt", "gt", "le", "ge", "eq", "ne") and (known := decided(op, *args)) is not None:
            return self.const(known)
        if op in ("and", "or"):
            for one, other in ((a, args[1]), (args[1], a)):
                if one.constant:
                    return other if bool(one.value) == (op == "and") else one
        if op in ("add", "mul") and args[1].constant and not a.constant:
            return self(op, args[1], a)
        if op in ("add", "mul") and a.constant and a.value == (0 if op == "add" else 1):
            return args[1]
        if op in ("max", "min") and a.kind == args[1].kind == "i":
            small, large = args if op == "min" else args[::-1]
            if small.high <= large.low:
                return a
            if small.low >= large.high:
                return args[1]
        if op == "neg" and a.op == "neg":
            return a.args[0]
        if op == "mul" and a.constant and a.value == -1:
            return self("neg", args[1])
        if op == "pow" and args[1].constant and args[1].value in (0.5, 1, 2):
            return {0.5: lambda: self("sqrt", a), 1: lambda: a, 2: lambda: self("mul", a, a)}[
                args[1].value
            ]()
        if op == "log" and a.op == "sigmoid":
            return self("neg", self("softplus", self("neg", a.args[0])))
        if op == "log" and a.op == "exp":
            return a.args[0]
        if op == "log1p" and a.op == "neg" and a.args[0].op == "sigmoid":
            return self("neg", self("softplus", a.args[0].args[0]))
        if op == "log1p" and a.op == "exp":
            return self("softplus", a.args[0])
        if op in ("float", "int", "bool") and a.kind == op[0]:
            return a
        if op == "select":
            return self.chosen(*args)
        return None

    def chosen(self, test, yes, no) -> Node | None:
        """A choice that is known, or one between two values of one function."""
        if test.constant:
            return yes if test.value else no
        if yes is no:
            return yes
        if yes.op == no.op and yes.kind == no.kind and len(yes.args) == len(no.args) == 1:
            if yes.op in CALLS or yes.op in ("neg", "abs"):
                return self(yes.op, self("select", test, yes.args[0], no.args[0]))
        return None


# ------------------------------------------------------------------------------------- ranges
def decided(op, a, b) -> bool | None:
    """The comparison of two nodes, where their ranges tell; nan cannot be ruled out for floats."""
    if any(x.constant and x.value != x.value for x in (a, b)):
        return op == "ne"
    if op in ("gt", "ge"):
        op, a, b = {"gt": "lt", "ge": "le"}[op], b, a
    if op == "lt":
        return True if a.high < b.low else (False if a.low >= b.high else None)
    if op == "le":
        return True if a.high <= b.low else (False if a.low > b.high else None)
    apart = a.high < b.low or b.high < a.low
    return (op == "ne") if apart else None


def bounds(op, args) -> tuple[float, float]:
    """The range of an operation, from those of its arguments; wide where nothing is known."""
    low, high = [a.low for a in args], [a.high for a in args]
    if op in COMPARE or op == "sigmoid":
        return 0, 1
    if op == "exp":
        return 0.0, INF
    if op == "softplus":
        return 0.0, INF
    if op in ("float", "signed"):
        return low[0], high[0]
    if op == "int":  # towards 0
        return tuple(end if abs(end) == INF else math.trunc(end) for end in (low[0], high[0]))
    if op == "neg":
        return -high[0], -low[0]
    if op == "abs":
        return (0.0, INF) if low[0] < 0 else (low[0], high[0])
    if op == "sqrt":
        return (TINY if low[0] > 0 else 0.0), INF
    if op == "select":
        return min(low[1:]), max(high[1:])
    if op == "max":
        return max(low), max(high)
    if op == "min":
        return min(low), min(high)
    if op == "add" and -INF not in low:
        return sum(low), sum(high)
    if op == "mul":
        if args[0] is args[1]:
            return 0.0, INF
        if min(low) >= 0:  # two positive numbers may have the product 0, rounded
            return (low[0] * low[1] if INF not in high else 0.0), INF
    if op == "div" and min(low) >= 0:
        return 0.0, INF
    return -INF, INF
