"""Operations that only move the elements of tensors: indexing, joining, reshaping."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from subsample_mcmc.pymc.expressions import Node
from subsample_mcmc.pymc.graph import UNROLLED, Graph, Tensor, fitting


class Translator(Graph):
    """Operations that move elements."""

    def do_DimShuffle(self, node) -> Tensor:
        tensor, order = self.tensor(node.inputs[0]), node.op.new_order
        shape = tuple(1 if d == "x" else tensor.shape[d] for d in order)

        def at(index):
            inner: list[Any] = [0] * len(tensor.shape)  # what is dropped has length 1
            for i, d in zip(index, order, strict=True):
                if d != "x":
                    inner[d] = i
            return tensor.at(tuple(inner))

        return Tensor(shape, at)

    def do_Alloc(self, node) -> Tensor:
        tensor = self.tensor(node.inputs[0])
        shape = tuple(self.number(s) for s in node.inputs[1:])
        skip = len(shape) - len(tensor.shape)
        return Tensor(shape, lambda index: tensor.at(fitting(tensor, index[skip:])))

    def do_MakeVector(self, node) -> Tensor:
        parts = [self.tensor(i) for i in node.inputs]
        return Tensor((len(parts),), lambda index: self.pick(index[0], [p.at(()) for p in parts]))

    def pick(self, index, values: list[Node]) -> Node:
        """One of several values, by an index that may be an expression."""
        if not isinstance(index, Node):
            return values[index]
        low, high, count = *self.span(index), len(values)
        if not (-count <= low and high < count):  # there is no array to look beyond
            raise self.refusal(
                f"an index goes from {low:g} to {high:g}, into {count} values that are put "
                "together (stack, concatenate): PyMC would raise IndexError"
            )
        found = values[-1]
        for k in range(len(values) - 2, -1, -1):
            here = self.make("le", index, self.make.const(k))
            found = self.make("select", here, values[k], found)
        return found

    def span(self, index: Node) -> tuple[float, float]:
        """Bounds of an index as it was before negative ones were counted from the front."""
        if index.op == "select" and index.args[0].op == "lt" and index.args[2].low < 0:
            before = index.args[2]
            if index.args[0].args[0] is before and index.args[1].op == "add":
                return before.low, before.high
        return (index.low, index.high) if index.low >= 0 else (-np.inf, index.high)

    def do_Join(self, node) -> Tensor:
        own = "axis" in node.op.__props__  # of pytensor 3; before, it is an input
        axis = node.op.axis if own else self.number(node.inputs[0])
        parts = [self.tensor(i) for i in node.inputs[0 if own else 1 :]]
        axis %= len(parts[0].shape)
        ends = np.cumsum([p.shape[axis] for p in parts]).tolist()
        parts = [p for p in parts if p.shape[axis] > 0]
        ends = sorted(set(ends) - {0})
        shape = (*parts[0].shape[:axis], ends[-1], *parts[0].shape[axis + 1 :])

        def at(index):
            i = index[axis]

            def of(k):
                first = ends[k - 1] if k else 0
                moved = i - first if not isinstance(i, Node) else self.moved(i, -first)
                if isinstance(moved, Node):  # never beyond the part's ends
                    if first:
                        moved = self.make("max", moved, self.make.const(0))
                    if ends[k] < shape[axis]:
                        moved = self.signed(moved)
                        last = self.make.const(parts[k].shape[axis] - 1)
                        inside = self.make("le", moved, last)  # min of one row would be no row's
                        moved = self.make("select", inside, moved, last)
                return parts[k].at((*index[:axis], moved, *index[axis + 1 :]))

            if not isinstance(i, Node):
                return of(int(np.searchsorted(ends, i, side="right")))
            if shape[axis] <= UNROLLED:
                return self.pick(i, [at((*index[:axis], k, *index[axis + 1 :]))
                                     for k in range(shape[axis])])  # fmt: skip
            found = of(len(parts) - 1)
            for k in range(len(parts) - 2, -1, -1):
                here = self.make("lt", i, self.make.const(ends[k]))
                found = self.make("select", here, of(k), found)
            return found

        return Tensor(shape, at)

    def moved(self, index: Node, by: int) -> Node:
        """An index plus a number."""
        if not by:
            return index
        return self.make("add", self.make.const(by), self.signed(index))

    def signed(self, index: Node) -> Node:
        """A row's index is unsigned: right for reading, not for arithmetic."""
        return self.make("signed", index) if index is self.make.row else index

    def do_Reshape(self, node) -> Tensor:
        tensor, wanted = self.tensor(node.inputs[0]), self.tensor(node.inputs[1])
        new = []
        for k in range(wanted.shape[0]):
            length = wanted.at((k,))
            if not length.constant:
                raise self.refusal("a shape depends on parameters")
            new.append(int(length.value))
        total = math.prod(tensor.shape)
        if -1 in new:
            new[new.index(-1)] = total // -math.prod(new)
        shape, old = tuple(new), tensor.shape

        def at(index):
            if [s for s in shape if s != 1] == [s for s in old if s != 1]:
                long = iter([i for i, s in zip(index, shape, strict=True) if s != 1])
                return tensor.at(tuple(next(long) if s != 1 else 0 for s in old))
            if any(isinstance(i, Node) for i in index):
                raise self.refusal("a reshape mixes rows")
            flat = np.ravel_multi_index(tuple(index), shape)
            return tensor.at(tuple(int(i) for i in np.unravel_index(flat, old)))

        return Tensor(shape, at)

    def do_OpFromGraph(self, node) -> Tensor:
        """An operation that is made of others (of pytensor 3: LogSumExp, XLogY, ...)."""
        from pytensor.graph.replace import graph_replace

        graph = node.op.fgraph
        graph = graph.unfreeze() if hasattr(graph, "unfreeze") else graph
        if len(graph.outputs) > 1:
            raise self.refusal(f"the operation {node.op} has no translation")
        given = {a: b for a, b in zip(graph.inputs, node.inputs, strict=True)
                 if a not in graph.outputs}  # fmt: skip
        return self.tensor(graph_replace(graph.outputs, given, strict=False)[0])

    def do_Split(self, node, output: int) -> Tensor:
        """One of the parts of a tensor that is cut along an axis."""
        tensor = self.tensor(node.inputs[0])
        own = "axis" in node.op.__props__  # of pytensor 3; before, it is an input
        axis = node.op.axis if own else self.number(node.inputs[1])
        axis %= len(tensor.shape)
        sizes = self.tensor(node.inputs[-1])
        lengths = [sizes.at((k,)) for k in range(sizes.shape[0])]
        if not all(length.constant for length in lengths):
            raise self.refusal("a shape depends on parameters")
        first = sum(int(length.value) for length in lengths[:output])
        here = range(first, first + int(lengths[output].value))
        shape = (*tensor.shape[:axis], len(here), *tensor.shape[axis + 1 :])
        return Tensor(shape, lambda index: tensor.at(
            (*index[:axis], self.along(here, index[axis]), *index[axis + 1 :])))  # fmt: skip

    def do_AllocEmpty(self, node) -> Tensor:
        """Elements that others take the place of."""
        shape = tuple(self.number(s) for s in node.inputs)
        return Tensor(shape, lambda index: self.make.const(np.nan))

    def do_ARange(self, node) -> Tensor:
        made = range(*(self.number(i) for i in node.inputs))
        return Tensor((len(made),), lambda index: self.node(self.along(made, index[0])))

    def do_CumOp(self, node) -> Tensor:
        """Sums or products of all elements up to one, of which there are few."""
        tensor, axis = self.tensor(node.inputs[0]), node.op.axis
        if axis is None and len(tensor.shape) > 1:
            raise self.refusal("a cumulative sum runs over several axes")
        axis, op = (axis or 0) % len(tensor.shape), node.op.mode
        if tensor.shape[axis] > UNROLLED:
            raise self.refusal(f"a cumulative {op} of {tensor.shape[axis]} terms is too long")

        def at(index):
            parts = [tensor.at((*index[:axis], k, *index[axis + 1 :]))
                     for k in range(tensor.shape[axis])]  # fmt: skip
            for k in range(1, len(parts)):
                parts[k] = self.make(op, parts[k - 1], parts[k])
            return self.pick(index[axis], parts)

        return Tensor(tensor.shape, at)

    def do_Shape_i(self, node) -> Tensor:
        length = self.tensor(node.inputs[0]).shape[node.op.i]
        return Tensor((), lambda index: self.make.const(length))

    def do_Shape(self, node) -> Tensor:
        shape = self.tensor(node.inputs[0]).shape
        return Tensor((len(shape),), lambda index: self.pick(
            index[0], [self.make.const(s) for s in shape]))  # fmt: skip

    # -------------------------------------------------------------------------------- indexing
    def do_Subtensor(self, node) -> Tensor:
        from pytensor.tensor.subtensor import indices_from_subtensor

        return self.indexed(node, indices_from_subtensor(node.inputs[1:], node.op.idx_list))

    def do_AdvancedSubtensor(self, node) -> Tensor:
        if getattr(node.op, "idx_list", None):
            from pytensor.tensor.subtensor import indices_from_subtensor

            given = indices_from_subtensor(node.inputs[1:], node.op.idx_list)
        else:
            given = node.inputs[1:]
        return self.indexed(node, given)

    def do_AdvancedSubtensor1(self, node) -> Tensor:
        return self.indexed(node, node.inputs[1:])

    def do_IncSubtensor(self, node) -> Tensor:
        return self.written(node)

    def do_AdvancedIncSubtensor(self, node) -> Tensor:
        return self.written(node)

    def do_AdvancedIncSubtensor1(self, node) -> Tensor:
        return self.written(node)

    def written(self, node) -> Tensor:
        """A tensor with some elements set (or added to), at places that are known."""
        from pytensor.tensor.subtensor import indices_from_subtensor

        given = node.inputs[2:]
        if getattr(node.op, "idx_list", None):
            given = indices_from_subtensor(given, node.op.idx_list)
        base, new = (self.tensor(i) for i in node.inputs[:2])
        place = np.full(base.shape, -1)
        where = np.arange(place.size).reshape(place.shape)[tuple(map(self.known, given))]
        place.ravel()[where.ravel()] = np.arange(where.size)
        if not node.op.set_instead_of_inc and np.unique(where).size < where.size:
            raise self.refusal("something is added twice to one place of an array")
        empty = type(getattr(node.inputs[0].owner, "op", None)).__name__ == "AllocEmpty"
        every = empty or (place >= 0).all()
        skip = len(where.shape) - len(new.shape)

        def within(k) -> Node:
            """The new element number k."""
            if not isinstance(k, Node):
                inner: tuple = tuple(int(i) for i in np.unravel_index(k, where.shape))
            else:
                inner, left = (), where.size
                for length in where.shape:
                    left //= length
                    part = k if left == 1 else self.make("floordiv", k, self.make.const(left))
                    if inner:
                        part = self.make("mod", part, self.make.const(length))
                    inner = (*inner, part)
            return new.at(fitting(new, inner[skip:]))

        def at(index):
            if not any(isinstance(i, Node) for i in index):
                if (k := int(place[tuple(index)])) < 0:
                    return base.at(index)
                found = within(k)
            else:
                found = within(self.place_of(np.maximum(place, 0)).at(index))
            if not node.op.set_instead_of_inc:
                found = self.make("add", base.at(index), found)
            if every or not any(isinstance(i, Node) for i in index):
                return found
            here = self.place_of(place >= 0).at(index)
            return self.make("select", self.truth(here), found, base.at(index))

        return Tensor(base.shape, at)

    def place_of(self, array: np.ndarray) -> Tensor:
        """A tensor of known numbers."""
        return self.constant(self, SimpleNamespace(data=array, name="place"))

    def known(self, entry) -> Any:
        """An entry of an index, which must be known, as numpy takes it."""
        if entry is None or isinstance(entry, int | np.integer | np.ndarray):
            return entry
        if isinstance(entry, slice):
            return slice(*(self.known(e) for e in (entry.start, entry.stop, entry.step)))
        if is_none(entry):
            return None
        if hasattr(entry, "data"):
            return entry.data
        tensor = self.tensor(entry)
        found = [tensor.at(i) for i in np.ndindex(*tensor.shape)]
        if not all(e.constant for e in found):
            raise self.refusal("an array is written to at places that depend on parameters")
        return np.array([e.value for e in found]).reshape(tensor.shape)

    def indexed(self, node, given) -> Tensor:
        """x[given], as numpy indexes: slices, numbers and arrays of whole numbers."""
        tensor = self.tensor(node.inputs[0])
        entries: list[Any] = []
        for entry in given:
            if getattr(entry, "dtype", "") == "bool" and hasattr(entry, "data"):
                entries += [self.place_of(places) for places in np.nonzero(entry.data)]
            else:
                entries.append(self.entry(entry, tensor.shape[len(entries)]))
        entries += [range(s) for s in tensor.shape[len(entries) :]]
        arrays = [d for d, e in enumerate(entries) if isinstance(e, Tensor)]
        common = np.broadcast_shapes(*(entries[d].shape for d in arrays))
        together = [d for d in arrays if entries[d].shape or type(node.op).__name__ != "Subtensor"]
        contiguous = not together or together == list(range(together[0], together[-1] + 1))
        before = [d for d, e in enumerate(entries) if isinstance(e, range)
                  and contiguous and together and d < together[0]]  # fmt: skip
        after = [d for d, e in enumerate(entries) if isinstance(e, range) and d not in before]
        shape = (*(len(entries[d]) for d in before), *common, *(len(entries[d]) for d in after))

        def at(index):
            inner: list[Any] = [None] * len(entries)
            first, last = len(before), len(before) + len(common)
            for d, i in zip((*before, *after), (*index[:first], *index[last:]), strict=True):
                inner[d] = self.along(entries[d], i)
            for d in arrays:
                part = entries[d]
                place = index[first:last][len(common) - len(part.shape) :]
                inner[d] = self.whole(part.at(fitting(part, place)), tensor.shape[d])
            return tensor.at(tuple(inner))

        return Tensor(shape, at)

    def entry(self, given, length: int) -> Any:
        """A slice as a range; anything else as a tensor of indices."""
        if isinstance(given, slice):
            known = [
                e if e is None or isinstance(e, int) else (None if is_none(e) else self.number(e))
                for e in (given.start, given.stop, given.step)
            ]
            return range(length)[slice(*known)]
        if is_none(given):
            raise self.refusal("np.newaxis stands in an index: write x[i][:, None]")
        if type(given.type).__name__ == "SliceType":
            return range(length)[given.data] if hasattr(given, "data") else range(length)
        if given.dtype == "bool":
            raise self.refusal(
                "an array is indexed by truth values that depend on parameters: multiply by them"
            )
        return self.tensor(given)

    def along(self, part: range, index) -> Any:
        """Element `index` of a slice."""
        if not isinstance(index, Node):
            return part[index]
        scaled = index if part.step == 1 else self.make("mul", self.make.const(part.step), index)
        return self.moved(scaled, part.start)

    def whole(self, index: Node, length: int) -> Any:
        """An index counted from the front: as a number, where it is known."""
        if index.constant:
            return int(index.value) % length
        if index.low >= 0:
            return index
        make = self.make
        behind = make("add", make.const(length), index)
        return make("select", make("lt", index, make.const(0)), behind, index)


def is_none(entry) -> bool:
    """Is it pytensor's constant None."""
    return type(getattr(entry, "type", None)).__name__ == "NoneTypeT"
