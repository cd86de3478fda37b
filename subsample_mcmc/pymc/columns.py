"""The arrays of a PyMC model: which are read row by row, and which are tables."""

import hashlib
from typing import Any

import numpy as np

from subsample_mcmc.pymc.blocks import identifier
from subsample_mcmc.pymc.expressions import Node
from subsample_mcmc.pymc.graph import Tensor

LARGE = 100_000  # numbers of a table that becomes part of the code


class Columns:
    """Data that are read row by row, one array per column, and tables that are not."""

    def __init__(self, rows: int, named: dict[str, np.ndarray]):
        self.rows, self.named = rows, named
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
        row, kind = graph.make.row, "i" if array.dtype.kind in "iu" else array.dtype.kind
        for axis in range(1, array.ndim):  # rows may be its columns
            if index[axis] is row and array.shape[axis] == self.rows and index[0] is not row:
                array = np.moveaxis(array, axis, 0)
                index = (row, *index[:axis], *index[axis + 1 :])
        low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
        if not (low <= high):  # nan
            low, high = -np.inf, np.inf
        if index[0] is row and len(array) == self.rows:
            self.at_row.add(name)
            if any(isinstance(i, Node) for i in index[1:]):  # a wide matrix: read in a loop
                field = self.field(self.data, array, name or "matrix")
                return graph.make.read("data", field, index, kind, low, high)
            column = array[(slice(None), *index[1:])]
            if np.all(column == column[0]):
                return graph.make.const(column[0])
            if kind == "i" and np.array_equal(column, np.arange(self.rows)):
                return row
            more = "_".join(str(i) for i in index[1:]) if per_row(array) > 1 else ""
            field = self.field(
                self.data, column, f"{name or 'row'}_{more}" if more else name or "row"
            )
            return graph.make.read(
                "data", field, (row,), kind, float(column.min()), float(column.max())
            )
        self.elsewhere.add(name)
        depends = frozenset().union(*(i.free for i in index if isinstance(i, Node)))
        if len(array) == self.rows > 1 and ("n" in depends or "state" not in depends):
            raise graph.refusal(
                f"one row's log likelihood reads other rows of {name or 'the data'}: it is no sum "
                "over rows"
            )
        if array.size > LARGE:
            raise graph.refusal(f"a table of {array.size} numbers is indexed by a parameter")
        field = self.field(self.tables, array, f"table_{name}" if name else "table")
        places = tuple(graph.node(i) for i in index)
        return graph.make.read("table", field, places, kind, low, high)

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
