"""The arrays of a PyMC model: which are read row by row, and which are tables."""

import hashlib
from typing import Any

import numpy as np

from subsample_mcmc.pymc.blocks import identifier
from subsample_mcmc.pymc.expressions import Node
from subsample_mcmc.pymc.graph import Tensor

PLACES: dict[str, Any] = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum,
          "min": np.minimum, "signed": np.int64, "select": np.where, "lt": np.less,
          "le": np.less_equal}  # fmt: skip
ROW = "row"  # how names of columns begin that have none of the user's
LARGE = 100_000  # numbers of a table that becomes part of the code


class Columns:
    """Data that are read row by row, one array per column, and tables that are not."""

    def __init__(self, named: dict[str, np.ndarray], size: int):
        self.named, self.size = named, size
        self.data: dict[str, np.ndarray] = {}
        self.tables: dict[str, np.ndarray] = {}
        self.fields: dict[Any, str] = {}
        self.taken: set[str] = set()
        self.at_row: set[str] = set()  # names as the user knows them
        self.elsewhere: set[str] = set()

    def constant(self, graph, variable) -> Tensor:
        """The tensor of an array that does not change."""
        array = np.asarray(variable.data)
        if array.dtype.kind == "f":
            array = array.astype(float)
        name = self.known_as(array, variable.name)

        def at(index):
            if not any(isinstance(i, Node) for i in index):
                return graph.make.const(array[tuple(index)])
            return self.read(graph, array, name, index)

        return Tensor(array.shape, at)

    def known_as(self, array: np.ndarray, name) -> str:
        """The user's name for an array, also where the graph has only its values."""
        if array.size > 1:
            for known, given in self.named.items():
                if given.size == array.size and np.array_equal(given.ravel(), array.ravel()):
                    return known
        return str(name or "")

    def read(self, graph, array: np.ndarray, name: str, index) -> Node:
        """An element whose place depends on the row, on a loop or on a parameter."""
        row, kind = graph.row, "i" if array.dtype.kind in "iu" else array.dtype.kind
        for axis in range(1, array.ndim):  # rows may be its columns
            if index[axis] is row and array.shape[axis] == graph.rows and index[0] is not row:
                array = np.moveaxis(array, axis, 0)
                index = (row, *index[:axis], *index[axis + 1 :])
        if index[0] is not row and (places := self.places(graph, index[0])) is not None:
            if 2 * len(array) > graph.rows or array.size > LARGE:  # better a column than a table
                array, index = array[places], (row, *index[1:])
        low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
        if not (low <= high):  # nan
            low, high = -np.inf, np.inf
        if index[0] is row and len(array) == graph.rows:
            self.at_row.add(name)
            n = graph.make.row
            if any(isinstance(i, Node) for i in index[1:]):  # a wide matrix: read in a loop
                field = self.field(self.data, self.padded(graph, array), name or "matrix")
                return graph.make.read("data", field, (n, *index[1:]), kind, low, high)
            column = array[(slice(None), *index[1:])]
            if np.all(column == column[0]):
                return graph.make.const(column[0])
            if kind == "i" and np.array_equal(column, np.arange(graph.rows)):
                return row
            more = "_".join(str(i) for i in index[1:]) if per_row(array) > 1 else ""
            label = f"{name or ROW}_{more}" if more else name or ROW
            field = self.field(self.data, self.padded(graph, column), label)
            return graph.make.read(
                "data", field, (n,), kind, float(column.min()), float(column.max())
            )
        self.elsewhere.add(name)
        depends = frozenset().union(*(i.free for i in index if isinstance(i, Node)))
        if len(array) == graph.rows > 1 and ("n" in depends or "state" not in depends):
            raise graph.refusal(
                f"one row's log likelihood reads other rows of {name or 'the data'}: it is no sum "
                "over rows"
            )
        if array.size > LARGE:
            raise graph.refusal(f"a table of {array.size} numbers is indexed by a parameter")
        field = self.field(self.tables, array, f"table_{name}" if name else "table")
        nodes = tuple(graph.node(i) for i in index)
        return graph.make.read("table", field, nodes, kind, low, high)

    def padded(self, graph, array: np.ndarray) -> np.ndarray:
        """With entries for the rows of other variables, which nothing comes of."""
        behind = self.size - graph.first - len(array)
        return np.concatenate(
            [array[:1].repeat(graph.first, 0), array, array[:1].repeat(behind, 0)]
        )

    def places(self, graph, node) -> np.ndarray | None:
        """What an index is in each of a graph's rows, where data alone say it."""
        if not isinstance(node, Node) or node.free != {"n"}:
            return None
        if node is graph.row:
            return np.arange(graph.rows)
        if node.op == "data":
            found = self.data[node.value]
            return found[graph.first : graph.first + graph.rows] if found.ndim == 1 else None
        if node.op not in PLACES:
            return None
        parts = [a.value if a.constant else self.places(graph, a) for a in node.args]
        return None if any(p is None for p in parts) else PLACES[node.op](*parts)

    def field(self, store: dict[str, np.ndarray], array: np.ndarray, name: str) -> str:
        """The name under which an array is stored: once, whatever it is called."""
        array = np.ascontiguousarray(array)
        key = (id(store), array.dtype.str, array.shape, hashlib.sha256(array.data).digest())
        if key not in self.fields:
            self.fields[key] = identifier(name, self.taken)
            store[self.fields[key]] = array
        return self.fields[key]


def per_row(array: np.ndarray) -> int:
    """Columns of an array of rows."""
    return array.size // max(len(array), 1)
