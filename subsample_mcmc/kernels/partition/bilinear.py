"""Bilinear control variates of pairwise scores: sums over whole clusters that need no pair."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from subsample_mcmc.kernels.base import NOW, Chain
from subsample_mcmc.kernels.partition.categories import (
    LearntTable,
    PairKinds,
    codes_of,
    columns_of,
    combined,
    rare_pairs,
    refuse_unseen,
    whole,
)
from subsample_mcmc.kernels.partition.cluster_sums import LeftOver, Pieces
from subsample_mcmc.kernels.partition.gibbs_partition import GibbsPartition
from subsample_mcmc.kernels.partition.members import Blocks, blocks_of, keys_of
from subsample_mcmc.kernels.partition.pair_scores import random_pairs, scores_of
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.numerics.random import generator_of
from subsample_mcmc.target.layout import Run
from subsample_mcmc.target.model import Model


@dataclass(frozen=True, eq=False)
class Bilinear:
    """A score of pairs whose sum over a cluster is known without reading a pair of it.

    h(i, j) = constant + sum over kinds of tokens of coefficient * <weights of i, weights of j>
              + sum over tables of table[category of i, category of j].

    As control=... of sm.GibbsPartition it is a control variate: a race is then about what h leaves
    of similarity, and clusters far behind are ruled out before any pair is read. Without similarity
    it is the score itself.

    constant: the score of every pair, before tokens and tables.
    tokens: {"title": (indptr, ids, values, coefficient)}: mention i has the tokens
        ids[indptr[i]:indptr[i + 1]], each once, with these values.
    tables: {"year": (codes, table)}: one category per mention, -1 where it is missing, and a
        symmetric matrix of scores.
    between, within, shift: what similarity - h usually is: the variance, between clusters, of its
        mean over one; the variance between the members of one; and its mean. Numbers, or arrays by
        level.
    edges: ascending numbers; level k begins where h, averaged over the cluster, reaches
        edges[k - 1]. Default: one level.
    reach: standard deviations by which a cluster must be behind to be ruled out unread.
    explained: share of similarity's variance that h has; written by fit, printed, used by nothing.
    learnt: of each table its kind and coefficients, by which `of` makes it for other mentions, and
        of which kinds of pairs these know; written by fit.

    `Bilinear.fit` estimates all of it from scored pairs.

    Example:
        >>> colour = np.array([0, 0, 1, 1])
        >>> table = np.array([[2.0, -3.0], [-3.0, 2.0]])  # alike: +2 nats, different: -3
        >>> score = sm.Bilinear(tables={"colour": (colour, table)})
        >>> model = sm.Model(None, {"x": colour}, state={"y": np.arange(4)}, support={"y": 4})
        >>> kernel = sm.GibbsPartition("y", None, control=score)  # exact: no pair is read
        >>> labels = sm.sample(model, kernel, draws=50, warmup=0, chains=1, seed=1).draws["y"][0]
        >>> bool(((labels[:, 0] == labels[:, 1]) & (labels[:, 0] != labels[:, 2])).mean() > 0.6)
        True
    """

    tokens: Any = None  # a dict of them by name; None: none
    tables: Any = None
    constant: float = 0.0
    between: Any = 0.0
    within: Any = 0.0
    shift: Any = 0.0
    edges: Any = ()
    reach: float = 2.5
    explained: float = float("nan")
    learnt: Any = None  # LearntTable, by table

    def __post_init__(self):
        for name in ("tokens", "tables", "learnt"):
            object.__setattr__(self, name, getattr(self, name) or {})
        if not self.tokens and not self.tables:
            raise ValueError("Bilinear needs tokens, tables, or both.")
        tokens = {name: weighted(name, given) for name, given in self.tokens.items()}
        tables = {name: scored(name, given) for name, given in self.tables.items()}
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "tables", tables)
        edges = np.asarray(self.edges, dtype=float)
        if not (np.all(np.diff(edges) > 0.0) and np.all(np.isfinite(edges))):
            raise ValueError(f"edges={self.edges!r}: they must be finite and ascend.")
        for name in ("constant", "shift"):
            if not np.all(np.isfinite(np.asarray(getattr(self, name), dtype=float))):
                raise ValueError(f"{name}={getattr(self, name)!r}: it must be finite.")
        for name in ("between", "within", "reach"):
            given = np.asarray(getattr(self, name), dtype=float)
            if not np.all((given >= 0.0) & (given < np.inf)):
                raise ValueError(
                    f"{name}={getattr(self, name)!r}: it must be 0 or more, and finite."
                )
        for name in ("between", "within", "shift"):
            if np.ndim(value := getattr(self, name)) and len(value) != len(self.edges) + 1:
                raise ValueError(
                    f"{name} has {len(value)} levels: {len(self.edges)} edges make "
                    f"{len(self.edges) + 1}."
                )

    def __repr__(self) -> str:
        return (
            f"Bilinear(tokens: {', '.join(self.tokens) or 'none'}; tables: "
            f"{', '.join(self.tables) or 'none'}; explains {100 * self.explained:.1f}%, leaves "
            f"{np.mean(self.between):.3g} between clusters, {np.mean(self.within):.3g} within)"
        )

    def check(self, size: int) -> None:
        """Refuse another number of mentions."""
        for name, (indptr, *_) in self.tokens.items():
            if len(indptr) != size + 1:
                raise ValueError(
                    f"control: tokens {name!r} are of {len(indptr) - 1} mentions, the model has "
                    f"{size}: use `of(tokens, categories)` for another set of mentions."
                )
        for name, (codes, _) in self.tables.items():
            if len(codes) != size:
                raise ValueError(
                    f"control: table {name!r} is of {len(codes)} mentions, the model has {size}: "
                    "use `of(tokens, categories)` for another set of mentions."
                )

    def check_kinds(self, blocks: Blocks) -> None:
        """Refuse mentions of which pairs are of kinds that no pair of the fit was.

        blocks: of mentions that may share a cluster.
        """
        for name, learnt in self.learnt.items():
            refuse_unseen(name, learnt, self.tables[name][0], blocks)

    def pieces(self) -> Pieces:
        """What the sums of a partition are made of."""
        edges = np.array(self.edges, dtype=float)
        shift, between, within = (
            np.array(np.broadcast_to(np.asarray(v, dtype=float), len(edges) + 1))
            for v in (self.shift, self.between, self.within)
        )
        bound = upper_lines(edges, shift + self.reach * np.sqrt(between + within))
        left = LeftOver(edges, shift, between, within, np.array([self.reach]), bound)
        return Pieces(self.constant, tuple(self.tokens.values()), tuple(self.tables.values()), left)

    def value(self, i: int, j: int) -> float:
        """h of one pair.

        i, j: numbers of the mentions.
        """
        return float(self.values(np.array([i]), np.array([j]))[0])

    def values(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """h of pairs (one[k], other[k]).

        one, other: arrays of numbers of mentions.
        """
        found = np.full(len(one), self.constant)
        for *lists, coefficient in self.tokens.values():
            found += coefficient * Sample(*lists).products(one, other)
        for codes, table in self.tables.values():
            both = (codes[one] >= 0) & (codes[other] >= 0)
            found += np.where(both, table[codes[one], codes[other]], 0.0)
        return found

    def of(self, tokens: Mapping[str, Any], categories: Mapping[str, Any]) -> "Bilinear":
        """The same scores of other mentions: the coefficients learnt here, their tokens.

        tokens, categories: those of the others, as in fit.
        """
        for name in (*self.tokens, *self.tables):
            if name not in (tokens if name in self.tokens else categories):
                raise ValueError(f"{name!r} was fitted and is not given: give the same fields.")
        made = {name: (*tokens[name], old[3]) for name, old in self.tokens.items()}
        tables = {}
        for name, (_, table) in self.tables.items():
            learnt = self.learnt.get(name)
            kind = learnt.kind if learnt else "given"
            codes = codes_of(name, categories[name], kind)
            if np.max(codes, initial=-1) >= len(table):
                if kind not in ("same", "gap"):
                    raise ValueError(
                        f"categories[{name!r}] go to {np.max(codes)}, but {len(table)} were fitted."
                    )
                table = combined(columns_of(name, codes, kind), learnt.coefficients)
            tables[name] = (codes, table)
        return replace(self, tokens=made, tables=tables)

    @classmethod
    def fit(
        cls, similarity: Any, data: Any, tokens: Mapping[str, Any], categories: Mapping[str, Any],
        candidates: Any = None, clusters: Any = None, pairs: int = 50_000, seed: int = 0,
        reach: float = 2.5,
    ) -> "Bilinear":  # fmt: skip
        """Least squares of similarity on random pairs of candidates, and what that leaves over.

        similarity: as in sm.GibbsPartition.
        data: as in sm.Model.
        tokens: {"title": (indptr, ids, values)}.
        categories: {"year": (codes, kind)}: kind "same" (one number for equal ones, one
            for different ones), "gap" (one for each |difference| up to 20), "free" (one for each
            pair of categories), or a list of symmetric matrices.
        candidates: as in sm.GibbsPartition.
        clusters: a labelling to measure the variances on, such as a true one of training data;
            None: that of a pilot, annealed by the fit itself.
        pairs: how many are scored.
        seed: of their draw.
        reach: as in sm.Bilinear.
        """
        for name, given in categories.items():
            if not (isinstance(given, tuple) and len(given) == 2):
                raise ValueError(f"categories[{name!r}]: give a pair (codes, kind).")
        model = Model(None, data, {"y": np.zeros(1)}, missing="allow")  # scores are looked at
        blocks = blocks_of(keys_of(candidates, model))
        rng = generator_of(seed)
        one, other = random_pairs(blocks, pairs, rng)
        size = len(blocks.order)
        codes_by = {name: codes_of(name, *given) for name, given in categories.items()}
        bases = {name: columns_of(name, codes_by[name], categories[name][1]) for name in codes_by}
        parts = {name: Sample(*token_lists(name, given)) for name, given in tokens.items()}
        counts = {name: part.matrix.shape[0] for name, part in parts.items()}
        counts |= {name: len(codes) for name, codes in codes_by.items()}
        if clusters is not None:
            counts["clusters"] = len(clusters)
        for name, count in counts.items():
            if count != size:
                raise ValueError(f"{name!r} is of {count} mentions, candidates are of {size}.")
        kinds = {name: PairKinds.of(categories[name][1], bases[name]) for name in codes_by}
        own = np.random.default_rng([seed, RARE])
        more = [rare_pairs(blocks, codes_by[n], kinds[n], one, other, own) for n in codes_by]
        one, other = (
            np.concatenate([x, *(m[k] for m in more)]) for k, x in enumerate((one, other))
        )
        scores = scores_of(similarity, model.data, one, other)
        design = [np.ones(len(one))]
        design += [part.products(one, other) for part in parts.values()]
        for name, basis in bases.items():
            codes = codes_by[name]
            both = (codes[one] >= 0) & (codes[other] >= 0)
            for matrix in basis:
                design.append(np.where(both, matrix[codes[one], codes[other]], 0.0))
        columns = np.column_stack(design)
        found = np.linalg.lstsq(columns, scores, rcond=1e-10)[0]
        left = scores - columns @ found
        at = 1 + len(tokens)
        tables, learnt = {}, {}
        for name, basis in bases.items():
            own = found[at : at + len(basis)]
            codes = codes_by[name]
            tables[name] = (codes, combined(basis, own))
            numbers = np.unique(kinds[name].numbers(codes[one], codes[other]))
            learnt[name] = LearntTable(
                kinds[name].kind, own, kinds[name], frozenset(numbers.tolist())
            )
            at += len(basis)
        spread = float(np.var(scores))
        varies = spread > ROUNDING**2 * float(np.mean(scores**2))
        coefficients = dict(zip(tokens, found[1:].tolist(), strict=False))
        made = cls(
            {name: (*given, coefficients[name]) for name, given in tokens.items()},
            tables, float(found[0]), 0.0, float(np.mean(left**2)), 0.0, (), reach,
            1.0 - float(np.mean(left**2)) / spread if varies else 1.0, learnt,
        )  # fmt: skip
        if clusters is None:
            clusters = pilot(made, data, size, candidates, rng)
        seen = left_over(similarity, model.data, made, blocks, np.asarray(clusters), rng)
        return replace(made, **seen)


def upper_lines(edges: np.ndarray, most: np.ndarray) -> np.ndarray:
    """l, s, a: x + most[level of x] is at most max(x + l, s x + a), with s >= 1.

    Two lines, so that a sum need not be divided, nor its level be looked up.
    """
    if not len(edges):
        return np.array([most[0], 1.0, most[0]])
    # Above every level's beginning is above all of it, as s is at least 1.
    tops = edges + most[1:]
    steep = max(1.0, *((tops[1:] - tops[0]) / (edges[1:] - edges[0]))) if len(edges) > 1 else 1.0
    return np.array([most[0], steep, tops[0] - steep * edges[0]])


def pilot(
    control: Bilinear, data: Any, size: int, candidates: Any, rng: np.random.Generator
) -> np.ndarray:
    """A labelling by the control variate alone, annealed: it reads no pair."""
    model = Model(None, data, {"y": np.arange(size)}, support={"y": size}, missing="allow")
    heat = np.geomspace(8.0, 0.3, 8)
    kernel = GibbsPartition("y", None, candidates, control=control, temperature=heat)
    ints, words = model.ints.copy(), np.zeros(len(kernel.columns), dtype=np.int64)
    tools = pointer_to(kernel.bind(model, Run.over(ints, model.floats.copy(), words)))
    step, now = kernel.build(model), np.zeros(1, dtype=NOW).view(np.recarray)
    chain = Chain(rng, np.zeros(1, np.uint64), np.zeros(1, np.uint64), now)
    for sweep in range(len(heat)):
        now["iteration"] = sweep
        step(chain, tools)
    return ints


# ---------------------------------------------------------------- checks of tokens and tables
def token_lists(name: str, given: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(indptr, ids, values) as arrays; refuses lists that are not what they should be."""
    if len(given) != 3:
        raise ValueError(f"tokens[{name!r}] has {len(given)} parts: give (indptr, ids, values).")
    indptr, ids = whole(name, given[0]), whole(name, given[1])
    values = np.asarray(given[2], dtype=float)
    if len(indptr) < 2 or indptr[0] != 0 or np.any(np.diff(indptr) < 0) or indptr[-1] != len(ids):
        raise ValueError(
            f"tokens[{name!r}]: indptr must start at 0, never fall, and end at {len(ids)}, the "
            "number of ids."
        )
    if len(values) != len(ids) or not np.all(np.isfinite(values)):
        raise ValueError(f"tokens[{name!r}]: give one finite value for each of {len(ids)} ids.")
    owner = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    order = np.lexsort((ids, owner))
    twice = (np.diff(ids[order]) == 0) & (np.diff(owner[order]) == 0)
    if twice.any() or np.min(ids, initial=0) < 0:
        who = owner[order][np.flatnonzero(twice)[0]] if twice.any() else int(owner[np.argmin(ids)])
        raise ValueError(
            f"tokens[{name!r}]: mention {who} has a token twice, or a negative one: add up the "
            "values of equal tokens, and number them from 0."
        )
    return indptr, ids, values


def weighted(name: str, given: Any) -> tuple:
    """Token lists and the coefficient of their products."""
    if len(given) != 4:
        raise ValueError(
            f"tokens[{name!r}] has {len(given)} parts: give (indptr, ids, values, coefficient)."
        )
    if not abs(given[3]) < np.inf:
        raise ValueError(f"tokens[{name!r}]: its coefficient is {given[3]}; it must be finite.")
    return (*token_lists(name, given[:3]), float(given[3]))


def scored(name: str, given: Any) -> tuple[np.ndarray, np.ndarray]:
    """Categories and the table of their scores."""
    if len(given) != 2:
        raise ValueError(f"tables[{name!r}] has {len(given)} parts: give (codes, table).")
    codes, table = whole(name, given[0]), np.asarray(given[1], dtype=float)
    size = len(table)
    if table.shape != (size, size) or not np.all(np.isfinite(table)):
        raise ValueError(f"tables[{name!r}]: give a square matrix of finite scores.")
    if not np.allclose(table, table.T, rtol=1e-12, atol=1e-12):
        raise ValueError(f"tables[{name!r}] is not symmetric: the order of a pair must not matter.")
    if np.max(codes, initial=-1) >= size:
        raise ValueError(
            f"tables[{name!r}]: codes must be integers below {size}, the size of the table; "
            "negative ones are missing."
        )
    return codes, table


# ---------------------------------------------------------------- what a fit is made of, and leaves
ROUNDING = 1e-12  # of the largest score: means that differ by less are the same
RARE = 1  # of a seed's streams: the one by which pairs of rare kinds are drawn
LOOKED = 8000  # clusters that variances are measured on
MEMBERS = 8  # of each of them
LEVELS = 8
PRIOR = 20  # clusters of the average that every level is given


class Sample:
    """Token lists as a sparse matrix."""

    def __init__(self, indptr, ids, values):
        from scipy.sparse import csr_array

        shape = (len(indptr) - 1, int(np.max(ids, initial=-1)) + 1)
        self.matrix = csr_array((np.asarray(values, float), ids, indptr), shape=shape)

    def products(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Inner products of pairs of mentions."""
        return np.asarray(self.matrix[one].multiply(self.matrix[other]).sum(axis=1)).ravel()


def left_over(
    similarity: Any, data: Any, control: Any, blocks: Blocks, labels: np.ndarray,
    rng: np.random.Generator,
) -> dict[str, Any]:  # fmt: skip
    """Mean and variances of similarity - control, by level of control's mean over a cluster.

    Half of the clusters looked at are the mention's own, which decide and fit worst.
    """
    sizes = np.diff(blocks.start)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    code = np.unique(
        np.column_stack([owner, labels[blocks.order]]), axis=0, return_inverse=True
    )[1].ravel()  # fmt: skip
    by_cluster = np.argsort(code, kind="stable")
    members = blocks.order[by_cluster]
    first = np.searchsorted(code[by_cluster], np.arange(code.max() + 2))
    from_block = code[blocks.start[:-1]]  # clusters of a block are numbered one after the other
    lowest = np.minimum.reduceat(code, blocks.start[:-1]) if len(code) else from_block
    count = np.maximum.reduceat(code, blocks.start[:-1]) - lowest + 1
    one, other, group = [], [], []
    for k in range(LOOKED):
        at = rng.integers(len(owner))
        own = code[at]
        cluster = own if k % 2 else lowest[owner[at]] + rng.integers(count[owner[at]])
        inside = members[first[cluster] : first[cluster + 1]]
        inside = inside[inside != blocks.order[at]]
        if len(inside) > MEMBERS:
            inside = rng.choice(inside, MEMBERS, replace=False)
        one += [blocks.order[at]] * len(inside)
        other += inside.tolist()
        group += [k] * len(inside)
    if not one:
        return {}
    pair = np.array(one), np.array(other)
    known = control.values(*pair)
    left = scores_of(similarity, data, *pair) - known
    number = np.bincount(group, minlength=LOOKED)
    kept = number > 0
    sums = [np.bincount(group, x, LOOKED)[kept] for x in (known, left, left**2)]
    return by_level(number[kept], *sums)


def by_level(number, known, total, square) -> dict[str, Any]:
    """Mean, variance between and variance within clusters, at each level, of sums over members."""
    level_by, mean = known / number, total / number
    # Between two values that occur: rounding must not carry a sum from one level to another.
    values = np.unique(level_by)
    apart = np.diff(values) > ROUNDING * np.max(np.abs(values))
    values = values[np.concatenate([[True], apart])]
    at = np.searchsorted(values, np.quantile(level_by, np.arange(1, LEVELS) / LEVELS))
    at = np.unique(np.clip(at, 1, None)[np.clip(at, 1, None) < len(values)])
    edges = 0.5 * (values[at - 1] + values[at])
    at = np.searchsorted(edges, level_by, side="right")
    count = np.bincount(at, minlength=len(edges) + 1)
    inner, free = square - number * mean**2, number - 1.0

    def shrunk(top, bottom):
        """A ratio of sums in each level, with some clusters of the average added."""
        average = top.sum() / max(bottom.sum(), 1.0)
        above, below = (np.bincount(at, x, len(edges) + 1) for x in (top, bottom))
        weight = PRIOR * below.sum() / len(number)
        return (above + weight * average) / np.maximum(below + weight, 1e-300)

    within = np.maximum(shrunk(inner, free), 0.0)
    shift = np.bincount(at, mean, len(edges) + 1) / (count + PRIOR)
    between = shrunk((mean - shift[at]) ** 2 - within[at] / number, np.ones(len(number)))
    return {
        "edges": edges, "shift": shift, "within": within, "between": np.maximum(between, 0.0),
    }  # fmt: skip
