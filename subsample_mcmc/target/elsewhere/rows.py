"""A model whose rows are elsewhere, and passes over them: what each part does, and their sum.

What a pass does is done, in each part, by an ordinary model of the part's rows: the same
functions, and data that are arrays. Sums are of blocks of 256 rows along a tree (target/dyadic.py),
so they are the same however rows are cut into parts: a part adds up the blocks that lie in it, and
sends rows of blocks that it shares with others as they are.
"""

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from subsample_mcmc.numerics.bytecode import fields_read
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.dyadic import BLOCK, Tree, aligned, blocks_of, whole_blocks
from subsample_mcmc.target.elsewhere.alone import check_alone
from subsample_mcmc.target.elsewhere.resident import MARK, Resident
from subsample_mcmc.target.lookups.bounds import at_state, first_row_beyond, suspects_of
from subsample_mcmc.target.population import read_only
from subsample_mcmc.target.reuse.nodes import WholeNodes
from subsample_mcmc.target.reuse.remembered import found_before, keep_found, key_of
from subsample_mcmc.target.reuse.subset import without

PARTS, ROWS = 16, 64  # rows that a model is tried on: so many of so many parts
FEW = 2  # rows that travel with the functions of a model
LOOKED_UP = "look-ups"  # the name of that pass
PATIENT = 2.0  # seconds after which a bar is shown


class PartWork(NamedTuple):
    """What is done in each part; it travels to all."""

    model: Any  # of a few rows
    size: int  # rows in all
    # (model of some rows, number of their first block, arguments) -> Tree of their blocks, or
    # that and an array with a number for each row.
    work: Callable[..., Any]
    arguments: tuple


class RowsElsewhere:
    """What a model knows of rows that are elsewhere."""

    def __init__(self, model: Any, source: Any):
        """model: an ordinary one, of some of the rows."""
        self.source, self.near = source, with_rows(model, {})
        self.near.numbers = some_numbers(source)
        source.missing = model.missing
        columns = [name for name in source.columns if name in model.data._fields]
        wrong = [name for name in columns if name.startswith(MARK)]
        if wrong:
            raise ValueError(f"column {wrong[0]!r}: names that begin with {MARK!r} are taken.")
        self.example = {name: getattr(model.data, name) for name in columns}
        self.others = {n: v for n, v in model.data._asdict().items() if n not in self.example}
        few = {name: read_only(array[:FEW].copy()) for name, array in self.example.items()}
        self.stub = with_rows(model, few)  # what travels to parts

    def take(self, model: Any) -> None:
        """Make the model one of all rows."""
        if model.prepare is not None:
            read = fields_read(model.prepare, 1)
            if read is None or read & set(self.example):
                raise ValueError(
                    "prepare(state, data) reads columns of the data, and these rows are elsewhere: "
                    "what is made of all of them is a table, sm.Model(..., tables={...})."
                )
        check_alone(self.near, self.source.size)
        if self.near.size > 1:
            without(self.near, [0])  # refuses functions that read a neighbour
        model.elsewhere, model.size, model.row_labels = self, self.source.size, None
        model.data = self.data(model)
        if any(v.touches is not None for v in model.variables.values()):
            raise ValueError(
                "touches= says which rows a site sees, and these rows are elsewhere: sites of "
                "their own need rows in memory. Leave it out, or read the rows into arrays."
            )

    def data(self, model: Any) -> Any:
        """Data of the types that compiled code finds, without rows."""
        none = Resident(self.example, self.source.size, 1, model.ints.copy(), model.floats.copy())
        for array in none.columns.values():
            array[:] = np.nan if array.dtype.kind == "f" else 0
        return none.record(self.others)

    def of_rows(self, rows: np.ndarray) -> Any:
        """An ordinary model of these rows, which are fetched: distinct, in ascending order."""
        return with_rows(self.near, self.source.receive(self.source.request(rows)))

    def sum_over(
        self, work: Callable[..., Any], arguments: tuple, combine: Any = np.add,
        bar: Any = None, told: str = "rows", rows: Any = None,
        nodes: WholeNodes | None = None, name: str = "",
    ) -> np.ndarray:  # fmt: skip
        """What `work` adds up over all rows: one pass. It is a function of a module.

        rows: where what it says of each row is written: an array, or what takes slices as one.
        nodes: where those of this pass, by its name, are kept; parts whose blocks they have are not
            read.
        """
        size = self.source.size
        nodes = nodes or WholeNodes(size)
        chosen, pieces = self.left(nodes.first_unknown(name))
        asked = PartWork(self.stub, size, work, arguments)
        tree, rest = Tree(combine), Tree(combine)

        def add_shared(pieces: list) -> list:
            """Blocks that parts share, as soon as all of their rows are here."""
            whole, pieces = whole_pieces(pieces, size)
            for first, columns in whole:
                done, each = both(work(with_rows(self.near, columns), first // BLOCK, *arguments))
                (rest if first // BLOCK == nodes.whole else tree).merge(done.nodes())
                if rows is not None and each is not None:
                    rows[first : first + len(each)] = each
            return pieces

        own = bar
        if bar is None:
            own = Bar(total=size, desc=told, unit="row", unit_scale=True, delay=PATIENT)
        try:
            pieces = add_shared(pieces)
            for _, (inside, ragged, each) in self.source.map(in_part, asked, chosen, own):
                tree.merge(inside)
                if rows is not None and each is not None:
                    rows[each[0] : each[0] + len(each[1])] = each[1]
                pieces = add_shared(pieces + ragged)
        finally:
            if bar is None:
                own.close()
        return nodes.end(name, tree, rest)

    def left(self, block: int) -> tuple[Any, list]:
        """(parts that hold rows from a block on, rows of it in parts before them, as pieces).

        Where rows were appended, a part ends where they begin, less than a block further on.
        """
        if block == 0:
            return None, []
        starts, lengths = self.source.starts(), self.source.lengths()
        chosen = np.flatnonzero((starts >= block * BLOCK) & (lengths > 0))
        behind = int(starts[chosen[0]]) if len(chosen) else self.source.size
        rows = np.arange(block * BLOCK, behind)
        if not len(rows):
            return chosen, []
        return chosen, [(block * BLOCK, self.source.receive(self.source.request(rows)))]

    def look_up(self, model: Any, states: list[tuple[Any, int]]) -> None:
        """Refuse rows at which the model's functions look up what is not there: one pass.

        states: (a State, every how many rows). Of rows that were appended, those alone are read;
        and none where the model remembers that all was right.
        """
        key = key_of("look-ups", tuple((at.ints, at.floats, step) for at, step in states))
        if found_before(model, LOOKED_UP, key) is not None:
            return
        nodes = None
        smaller = None if model.grown is None else model.grown.smaller()
        keys = [(at.ints.tobytes(), at.floats.tobytes(), 1) for at, step in states if step == 1]
        if smaller is not None and all(key in smaller.looked_up for key in keys):
            known = [(k, i, np.full(1, np.inf)) for k, i in aligned(0, model.grown.rows // BLOCK)]
            nodes = WholeNodes(self.source.size, {LOOKED_UP: known})
        (row,) = self.sum_over(
            rows_beyond, (states,), np.minimum, told="look-ups", nodes=nodes, name=LOOKED_UP
        )
        if not row < self.source.size:
            keep_found(model, LOOKED_UP, key, True)
            return
        one = self.of_rows(np.array([int(row)]))
        one.numbers = [int(row)]
        for at, _ in states:
            at_state(one, suspects_of(one), at, range(1))
        raise IndexError(
            f"the model's functions look up what is not there at one of the data from {int(row)} "
            "on: compare the indices with the lengths of what they are looked up in."
        )

    def sums_at(self, ints: np.ndarray, floats: np.ndarray) -> np.ndarray:
        """The exact log likelihoods at some floats, one state a row: one pass."""
        return self.sums_of([(ints, floats)])

    def sums_of(self, states: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """The same of several (integers, floats, one state a row), one after the other."""
        return self.sum_over(exact_sums, (states,), told="exact sums")

    def first_row(self, ints: np.ndarray, floats: np.ndarray, impossible: bool = False) -> int:
        """The first row whose log likelihood is nan or +inf, or impossible: -inf; -1: none is."""
        arguments = ints.copy(), floats.copy(), impossible
        (row,) = self.sum_over(rows_by_value, arguments, np.minimum, told="rows by value")
        return int(row) if row < self.source.size else -1


def some_rows(source: Any) -> dict[str, np.ndarray]:
    """Rows of several parts, the last row among them; a first pass, where lengths are not known."""
    return source.receive(source.request(some_numbers(source)))


def some_numbers(source: Any) -> np.ndarray:
    """Their numbers."""
    lengths, starts = np.asarray(source.lengths()), np.asarray(source.starts())
    size = int(lengths.sum())
    if size == 0:
        raise ValueError(f"{source} has no rows: give at least one datum.")
    parts = np.flatnonzero(lengths)
    chosen = parts[np.unique(np.linspace(0, len(parts) - 1, PARTS).astype(int))]
    rows = [starts[i] + np.arange(min(ROWS, lengths[i])) for i in chosen]
    return np.unique(np.concatenate([*rows, [size - 1]]))


def with_rows(model: Any, columns: dict[str, np.ndarray]) -> Any:
    """A model of the same functions with other columns; none: of the same."""
    made = object.__new__(type(model))  # not tried anew, as copies are: its functions are the same
    vars(made).update(vars(model))
    made.prepared, made.looked_up = WeakKeyDictionary(), set()
    made.noticed = made.hashed = made.elsewhere = made.remembered = made.grown = None
    made.numbers = made.row_labels = None
    for name in ("large", "chunks"):  # of these rows
        vars(made).pop(name, None)
    if columns:
        arrays = {n: read_only(np.ascontiguousarray(a)) for n, a in columns.items()}
        known = {name: array for name, array in arrays.items() if name in model.data._fields}
        made.data = model.data._replace(**known)
        likelihood, by_row, *more = model.given
        by_row = by_row._replace(**{n: a for n, a in known.items() if n in by_row._fields})
        made.given = (likelihood, by_row, *more)
        made.size = len(next(iter(arrays.values())))
    return made


def in_part(columns: dict[str, np.ndarray], first: int, part: int, asked: PartWork) -> tuple:
    """(nodes of the blocks in a part, rows of the others, numbers of rows): where its rows are."""
    rows = len(next(iter(columns.values())))
    begin, end = whole_blocks(first, first + rows, asked.size // BLOCK * BLOCK)
    nodes, ragged, numbers = [], [], None
    inside = slice(begin * BLOCK - first, end * BLOCK - first)
    if begin < end:
        asked.model.compiled  # noqa: B018  once, and not for the rows of each part
        some = with_rows(asked.model, {name: a[inside] for name, a in columns.items()})
        tree, each = both(asked.work(some, begin, *asked.arguments))
        nodes, numbers = tree.nodes(), None if each is None else (begin * BLOCK, each)
    else:
        inside = slice(rows, rows)
    for piece in (slice(0, min(inside.start, rows)), slice(inside.stop, rows)):
        if piece.start < piece.stop:
            own = {name: np.array(a[piece]) for name, a in columns.items()}
            ragged.append((first + piece.start, own))
    return nodes, ragged, numbers


def both(found: Any) -> tuple[Tree, np.ndarray | None]:
    """(tree, numbers of rows) of what work returns."""
    return found if isinstance(found, tuple) else (found, None)


def whole_pieces(pieces: list, size: int) -> tuple[list, list]:
    """Rows of blocks that several parts share, block by block: (first row, columns).

    And those of the last block, as pieces, where its other rows have not come yet.
    """
    found, held, begin = [], [], 0
    for first, columns in sorted(pieces, key=lambda one: one[0]):
        length = len(next(iter(columns.values())))
        while length:
            if not held:
                begin = first
            stop = min((first // BLOCK + 1) * BLOCK, size)
            take = min(length, stop - first)
            held.append({name: a[:take] for name, a in columns.items()})
            columns = {name: a[take:] for name, a in columns.items()}
            first, length = first + take, length - take
            if first == stop:
                whole = {name: np.concatenate([one[name] for one in held]) for name in held[0]}
                found.append((begin, whole))
                held = []
    left = []
    for columns in held:
        left.append((begin, columns))
        begin += len(next(iter(columns.values())))
    return found, left


def exact_sums(model: Any, begin: int, states: list) -> Tree:
    """Log likelihoods of (integers, floats, one state a row), by nodes of the tree."""
    from subsample_mcmc.target.rewards import probe, sums_between  # which knows resident.py

    nodes = aligned(begin, begin + blocks_of(model.size))
    ends = np.array([(i << k, min((i + 1) << k, begin + blocks_of(model.size))) for k, i in nodes])
    ends = np.minimum((ends - begin) * BLOCK, model.size)
    found = np.zeros((len(nodes), sum(len(floats) for _, floats in states)))
    column = 0
    with np.errstate(all="ignore"):
        for ints, floats in states:
            trial = probe(model, ints.copy(), floats[0].copy(), floats)
            for (first, past), out in zip(ends.tolist(), found, strict=True):
                sums_between(trial, first, past, out[column : column + len(floats)])
            column += len(floats)
    tree = Tree()
    for (level, index), value in zip(nodes, found, strict=True):
        tree.add(level, index, value)
    return tree


def rows_beyond(model: Any, begin: int, states: list) -> Tree:
    """By block, the first row at which a look-up fails at one of some states; infinite: none."""
    tree = Tree(np.minimum)
    numbers = np.full((blocks_of(model.size), 1), np.inf)
    found = [first_row_beyond(model, at, step) for at, step in states]
    row = min((row for row in found if row >= 0), default=-1)
    if row >= 0:
        numbers[row // BLOCK] = begin * BLOCK + row
    tree.add_blocks(begin, numbers)
    return tree


def rows_by_value(model: Any, begin: int, ints, floats, impossible: bool) -> Tree:
    """By block, the first row whose log likelihood is no number, or is -inf; infinite: none."""
    from subsample_mcmc.target.rewards import probe, rewards_of

    trial, tree = probe(model, ints, floats.copy(), floats[None]), Tree(np.minimum)
    rows, each = np.arange(model.size, dtype=row_kind(model.size)), np.zeros(model.size)
    with np.errstate(all="ignore"):
        rewards_of(trial, 0, rows, each)
    found = each == -np.inf if impossible else ~(each < np.inf)
    numbers = np.where(found, begin * BLOCK + rows.astype(float), np.inf)
    tree.add_blocks(begin, np.minimum.reduceat(numbers, np.arange(0, len(rows), BLOCK))[:, None])
    return tree
