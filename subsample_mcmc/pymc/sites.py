"""Hierarchies: blocks of which a row sees one site or a few, and the prior of one site.

A row's expression says at which places it reads a block. Where data alone say them, as in
a[group[n]], they are looked up for all rows. A site moves by its own rows if nothing else of the
posterior sees it but the prior of its own value: that expression must read the block at the site
alone, and no other prior may read the block.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.kernels.sites.asked import BEHIND
from subsample_mcmc.pymc.blocks import Part
from subsample_mcmc.pymc.columns import PLACES, Columns
from subsample_mcmc.pymc.expressions import Node
from subsample_mcmc.pymc.graph import RefusedError, Tensor
from subsample_mcmc.target.constraints import ORDERED, SIMPLEX

SEVERAL = 10  # sites from which on they move one by one without being asked to
SHARE = 4  # a row sees at most one of so many sites
TESTS: dict[str, Any] = {**PLACES, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
          "ne": np.not_equal, "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
          "isnan": np.isnan}  # fmt: skip


class PriorParts(NamedTuple):
    """The log prior of a variable: each entry of it, and their sum."""

    tensor: Tensor
    total: Node


class PriorOfSite(NamedTuple):
    """The log prior of the site numbered "site"."""

    node: Node
    behind: int  # how many sites before its own it reads, at most


class FoundSites(NamedTuple):
    """What moves site by site, and why the rest of a hierarchy does not."""

    touches: dict[str, Any]  # by block: a column of the data, or (indptr, indices)
    priors: dict[str, Node]  # by block: the log prior of the site numbered "site"
    behind: dict[str, int]  # by block: how many sites before its own that prior reads
    together: dict[str, str]  # by block: why its sites move as one


class AsOneError(Exception):
    """Why the sites of a block do not move one by one."""


class ReadsOfRows:
    """At which places the rows of a model read its blocks."""

    def __init__(self, likelihood: Node, columns: "Columns | SiteNumbers"):
        self.columns, self.known = columns, {}
        self.at: dict[str, list[tuple[Node, Any]]] = {}  # by block: nodes, and rows that see them
        order = postorder(likelihood)
        rows: dict[Node, Any] = {likelihood: None}  # None: all of them
        for node in reversed(order):
            if node.op == "state":
                self.at.setdefault(node.value, []).append((node, rows[node]))
            for k, part in enumerate(node.args):
                own = self.branch(node, k, rows[node])
                if part in rows and rows[part] is not own:
                    both = rows[part], own
                    own = None if any(r is None for r in both) else both[0] | both[1]
                rows[part] = own

    def branch(self, node: Node, k: int, own) -> Any:
        """The rows that see argument k of a node, where data alone choose between two."""
        if node.op != "select" or k == 0 or (test := self.values(node.args[0])) is None:
            return own
        test = np.asarray(test) if k == 1 else ~np.asarray(test)
        return test if own is None else own & test

    def values(self, node: Node) -> Any:
        """An expression in all rows, where data alone say it; else None."""
        if node.constant:
            return node.value
        if not node.free <= {"n"}:
            return None
        if node not in self.known:
            self.known[node] = self.found(node)
        return self.known[node]

    def found(self, node: Node) -> Any:
        """The same, of one that was not asked for before."""
        size = self.columns.size
        if node.op == "n":
            return np.arange(size)
        if node.op == "data":
            array = self.columns.data[node.value]
            return array if array.ndim == 1 else None
        parts = [self.values(a) for a in node.args]
        if any(p is None for p in parts):
            return None
        if node.op == "table":
            return np.broadcast_to(self.columns.tables[node.value][tuple(parts)], (size,))
        if node.op not in TESTS:
            return None
        return np.broadcast_to(TESTS[node.op](*parts), (size,))

    def sites(self, block: str, sites: int) -> Any:
        """Which rows see which sites: a column's name, or (indptr, indices).

        None: no row's place in the block depends on data.
        """
        reads = self.at.get(block, [])
        sure = any(self.by_data(n.args[0]) for n, _ in reads)
        if not sure and all(rows is None for _, rows in reads):
            if any(self.by_data(a) for n, _ in reads for a in n.args[1:]):
                raise AsOneError(
                    "rows see places along its second axis, and groups are sites along the first: "
                    "give it shape=(groups, k)"
                )
            return None
        if any(self.values(n.args[0]) is None for n, _ in reads):
            if not sure:
                return None
            raise AsOneError("a row sees all of it, or a place that depends on parameters")
        first, size = reads[0][0].args[0], self.columns.size
        alone = all(n.args[0] is first and rows is None for n, rows in reads)
        if alone and first.op == "data":
            return first.value
        keys = []
        for node, rows in reads:
            place = np.broadcast_to(self.values(node.args[0]), (size,)).astype(np.int64)
            seen = np.arange(size) if rows is None else np.flatnonzero(rows)
            keys.append(place[seen] * size + seen)
        pairs = np.unique(np.concatenate(keys))
        if pairs.size and not (pairs[0] >= 0 and pairs[-1] < sites * size):
            raise AsOneError("a row looks beyond it")
        if SHARE * np.bincount(pairs % size).max(initial=0) > sites:
            if not sure:
                return None
            raise AsOneError("a row sees many of its sites, or all")
        indptr = np.searchsorted(pairs, np.arange(sites + 1) * size)
        return indptr.astype(np.int64), pairs % size

    def by_data(self, index: Node) -> bool:
        """Do data say a place, other in other rows."""
        return not index.constant and self.values(index) is not None


def postorder(root: Node) -> list[Node]:
    """An expression and all that it is made of, parts before what is made of them."""
    found: list[Node] = []
    seen: set[Node] = set()
    stack = [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            found.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack += [(a, False) for a in node.args if a not in seen]
    return found


def reads_of(root: Node, block: str) -> list[Node]:
    """Where an expression reads a block."""
    return [n for n in postorder(root) if n.op == "state" and n.value == block]


def prior_of_site(
    part: Part, graph, priors: dict[str, PriorParts], columns: Columns
) -> PriorOfSite:
    """The log prior of one site's value, at the index "site"."""
    for name, prior in priors.items():
        if name != part.name and reads_of(prior.total, part.block):
            raise AsOneError(f"the prior of {name} depends on it")
    tensor, shape = priors[part.name].tensor, np.shape(part.start)
    # Every block has a node of its own, as the bounds of its number are others.
    site = Node("loop", (), "site", "i", frozenset(["site"]), 0, shape[0] - 1)
    graph.of = f"the prior of {part.name}"
    if tensor.shape and tensor.shape == shape[: len(tensor.shape)]:
        try:
            found = graph.folded("add", tensor.shape[1:], lambda i: tensor.at((site, *i)))
        except RefusedError:
            found = None
        if found is not None and found.free <= {"site", "state"}:
            if all(n.args[0] is site for n in reads_of(found, part.block)):
                return PriorOfSite(found, 0)
    if not tensor.shape:
        ordered = prior_in_order(part, tensor.at(()), site, graph.make, columns)
        if ordered is not None:
            return ordered
    raise AsOneError("the prior of each of its values depends on others of them")


def prior_in_order(part: Part, total: Node, site: Node, make, columns) -> "PriorOfSite | None":
    """The prior of one site given those before it, where the whole is a sum over the sites.

    So it is of a pm.GaussianRandomWalk or pm.AR whose sum is not written out. None: it is no such
    sum, or a part of it reads sites after its own, or long before it.
    """
    found, behind = make.const(0.0), 0
    parts = added(total)
    for one in parts:
        own = None
        if one.op == "reduce":
            own = part_by_site(part, one, site, make, columns)
        elif len(parts) <= BEHIND + 2:  # of the first sites: all of a short walk would be slow
            own = part_of_one_site(part, one, site, make)
        if own is None:
            return None
        found, behind = make("add", found, own.node), max(behind, own.behind)
    return PriorOfSite(found, behind)


def added(node: Node) -> list[Node]:
    """What a sum is made of."""
    return [node] if node.op != "add" else [part for arg in node.args for part in added(arg)]


def part_by_site(part: Part, one: Node, site: Node, make, columns) -> "PriorOfSite | None":
    """A sum over the sites, or over all but the first few, as the part of one of them."""
    (op, name, length), (body,) = one.value, one.args
    sites = np.shape(part.start)[0]
    first = sites - length
    if op != "add" or first < 0 or not body.free <= {name, "state"}:
        return None
    own, behind = np.arange(first, sites), 0
    every = ReadsOfRows(replaced(body, name, make.row, make), SiteNumbers(length, columns))
    for node, where in every.at.get(part.block, []):
        if (place := every.values(node.args[0])) is None:
            return None
        seen = np.arange(length) if where is None else np.flatnonzero(where)
        before = own[seen] - np.broadcast_to(place, (length,))[seen]
        if np.any((before < 0) | (before > BEHIND)):
            return None
        behind = max(behind, int(before.max(initial=0)))
    if first == 0:
        return PriorOfSite(replaced(body, name, site, make), behind)
    number = make("max", make("sub", site, make.const(first)), make.const(0))
    early = make("lt", site, make.const(first))
    found = make("select", early, make.const(0.0), replaced(body, name, number, make))
    return PriorOfSite(found, behind)


def part_of_one_site(part: Part, one: Node, site: Node, make) -> "PriorOfSite | None":
    """What reads the block at places that are known, as the part of the last of them."""
    reads = reads_of(one, part.block)
    if not one.free <= {"state"} or not all(n.args[0].constant for n in reads):
        return None
    places = [int(n.args[0].value) for n in reads] or [0]
    if max(places) - min(places) > BEHIND:
        return None
    here = make("eq", site, make.const(max(places)))
    found = make("select", here, one, make.const(0.0))
    return PriorOfSite(found, max(places) - min(places))


class SiteNumbers:
    """Numbers of sites, in the place of rows of data; tables are those of a model."""

    def __init__(self, sites: int, columns: Columns):
        self.size, self.tables = sites, columns.tables
        self.data: dict[str, np.ndarray] = {}


def replaced(node: Node, name: str, by: Node, make) -> Node:
    """An expression with another node in the place of a loop's variable."""
    if name not in node.free:
        return node
    if node.op == "loop":
        return by
    args = [replaced(part, name, by, make) for part in node.args]
    if node.op in ("state", "data", "table"):
        return make.read(node.op, node.value, tuple(args), node.kind, node.low, node.high)
    if node.op == "reduce":
        op, variable, length = node.value
        own = make.leaf("loop", variable, "i", frozenset([variable]), 0, length - 1)
        return make.reduce(op, own, length, args[0])
    return make(node.op, *args)


def sites_of(
    parts: list[Part], local: list[str], likelihood: Node, columns: Columns, graph,
    priors: dict[str, PriorParts], asked: Any,
) -> FoundSites:  # fmt: skip
    """Find the blocks that move site by site.

    local: blocks with a site per row, whose priors are in the rows. asked: names of variables, and
    no others then move site by site; None: all that have several sites.
    """
    names = named(asked, parts)
    reads, found = ReadsOfRows(likelihood, columns), FoundSites({}, {}, {}, {})
    for part in parts:
        shape = np.shape(part.start)
        if part.block in local or (part.name not in names if asked is not None else not shape):
            continue
        if asked is None and max(shape) < SEVERAL:
            continue
        try:
            if not shape or part.free or part.constraint.kind in (SIMPLEX, ORDERED):
                raise AsOneError("its values depend on one another")
            if part.discrete and len(shape) > 1:
                raise AsOneError("it has discrete values along two axes")
            touches = reads.sites(part.block, shape[0])
            if touches is None and asked is not None:
                raise AsOneError("data do not say which place in it a row sees")
            if touches is None or (asked is None and shape[0] < SEVERAL):
                continue
            if not part.discrete:
                own = prior_of_site(part, graph, priors, columns)
                found.priors[part.block], found.behind[part.block] = own
            found.touches[part.block] = touches
        except AsOneError as error:
            if asked is not None:
                raise ValueError(
                    f"from_pymc(touches=): {part.name} cannot move site by site: {error}."
                ) from None
            found.together[part.block] = str(error)
    return found


def named(asked: Any, parts: list[Part]) -> tuple[str, ...]:
    """Names of variables that a user gave as touches=."""
    names = (asked,) if isinstance(asked, str) else tuple(asked or ())
    known = [part.name for part in parts]
    for name in names:
        if name not in known:
            raise ValueError(
                f"from_pymc(touches={list(names)}): {name!r} is not among the free variables, "
                f"{', '.join(known)}. Of a = mu + tau * z it is z that has sites."
            )
    return names
