"""What one draw of a chain is: named blocks in two flat arrays, and counts in a row of words.

A chain keeps its state in one int64 and one float64 array; blocks are views of them. So the
compiled loop, the store and the trace see three plain arrays per draw, whatever the model: the
integers, the floats, and the words, 8 bytes each, that kernels write statistics into.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

# What a kernel counts in one draw. Counts are summed over the steps that one draw takes (thinning,
# repeat, mixture); `scale` is the last value. A kernel that makes no decisions leaves zeros.
TALLY = np.dtype(
    [
        ("steps", np.int64),  # times the kernel ran
        ("decisions", np.int64),
        ("pulls", np.int64),  # rewards read by decisions; a sum that is remembered reads none
        ("everything", np.int64),  # rewards that exact decisions would have read, remembering none
        ("rounds", np.int64),
        ("accepted", np.int64),  # decisions that changed the state
        ("early", np.int64),  # decisions in which an arm was dropped before all rows were read
        (
            "alone",
            np.int64,
        ),  # how decisions ended (decisions/rules/rule.py): one arm was possible ...
        ("exact", np.int64),  # ... read exactly from the start ...
        ("predicted", np.int64),  # ... the control variate alone told, no datum was raced ...
        ("raced", np.int64),  # ... one arm was left ...
        ("exhausted", np.int64),  # ... all rows were read ...
        ("retreated", np.int64),  # ... or the survivors were streamed
        ("audited", np.int64),  # decisions made a second time, exactly
        ("wrong", np.int64),  # audited decisions whose arm is not the exact one
        ("regret", np.float64),  # nats lost by wrong decisions
        ("margin", np.float64),  # sum over audited decisions: nats between the best two arms
        ("skewness", np.float64),  # sum over audited decisions: |skewness| between the best two
        ("variance", np.float64),  # sum over audited decisions: N v between the best two, nats^2
        ("distance", np.float64),  # sum over decisions: squared, from the control's reference
        ("gradients", np.int64),  # rewards, or gradients of one, read for a proposal
        ("capped", np.int64),  # slices given up after too many tests
        ("scale", np.float64),  # the step size in use
    ]
)
# Of these, what belongs with any sampler's statistics; the others are about decisions.
SAMPLER = ("steps", "accepted", "gradients", "capped", "scale")
DECISIONS = frozenset(name for name in TALLY.names or () if name not in SAMPLER)


class Block(NamedTuple):
    """One named block of the state."""

    name: str
    discrete: bool  # in the integers, else in the floats
    shape: tuple[int, ...]  # of a draw; () for a block given as a number
    start: int  # where it begins in its flat array

    @property
    def length(self) -> int:
        return int(np.prod(self.shape, dtype=int))


class Column(NamedTuple):
    """One statistic of one kernel."""

    kernel: str
    field: str
    kind: str  # "i8" or "f8"
    word: int  # which word of the row


class Layout(NamedTuple):
    """All blocks and all statistics of a run."""

    blocks: tuple[Block, ...]
    columns: tuple[Column, ...]

    @property
    def ints(self) -> int:
        return sum(block.length for block in self.blocks if block.discrete)

    @property
    def floats(self) -> int:
        return sum(block.length for block in self.blocks if not block.discrete)

    @property
    def words(self) -> int:
        return 1 + max((column.word for column in self.columns), default=-1)

    def to_json(self) -> dict[str, Any]:
        """Plain lists, for a header."""
        return {
            "blocks": [list(b) for b in self.blocks],
            "columns": [list(c) for c in self.columns],
        }

    @classmethod
    def from_json(cls, text: dict[str, Any]) -> "Layout":
        """The inverse of to_json."""
        blocks = [Block(n, d, tuple(shape), start) for n, d, shape, start in text["blocks"]]
        return cls(tuple(blocks), tuple(Column(*c) for c in text["columns"]))

    def draws(self, ints: np.ndarray, floats: np.ndarray) -> dict[str, np.ndarray]:
        """Blocks by name, from arrays (..., ints) and (..., floats); views, no copies."""
        found = {}
        for block in self.blocks:
            flat = ints if block.discrete else floats
            part = flat[..., block.start : block.start + block.length]
            found[block.name] = part.reshape(*flat.shape[:-1], *block.shape)
        return found

    def stats(self, words: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
        """Statistics by kernel and field, from an array (..., words)."""
        found: dict[str, dict[str, np.ndarray]] = {}
        for column in self.columns:
            values = np.ascontiguousarray(words[..., column.word]).view(column.kind)
            found.setdefault(column.kernel, {})[column.field] = values
        return found


@dataclass
class Run:
    """The arrays of one chain, while kernels take their tools from it."""

    ints: np.ndarray
    floats: np.ndarray
    words: np.ndarray  # statistics of the draw under way
    kept: dict[str, np.ndarray] = field(default_factory=dict)  # part of every checkpoint
    known: np.ndarray | None = None  # exact sums that all kernels share (exact_sums.py)
    tilts: dict[str, np.ndarray] = field(default_factory=dict)  # added to log priors, by block
    leaf: int = 0  # the leaf that is bound next
    word: int = 0
    reads: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # words: rewards read
    before: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))  # in earlier draws
    audited: bool = False  # are some decisions made again, exactly, as was asked for ...
    unasked: bool = False  # ... or a few of those that have no proof
    data: Any = None  # of rows that are elsewhere: those that this chain has in memory
    part: tuple[int, int] | None = None  # the sites of a block that are moved; None: all

    @classmethod
    def over(
        cls, ints, floats, words, reads=(), audited=False, unasked=False, data: Any = None
    ) -> "Run":
        """A chain's arrays, before a kernel is bound to them; the one place where a run begins."""
        reads = np.asarray(reads, dtype=np.int64)
        return cls(
            ints, floats, words, reads=reads, audited=audited, unasked=unasked, data=data
        )  # fmt: skip

    def keep(self, name: str, array: np.ndarray) -> np.ndarray:
        """Make an array part of the checkpoint: what a kernel has learnt."""
        self.kept[f"{self.leaf}.{name}"] = array
        return array

    def tilt(self, name: str, support: int) -> np.ndarray:
        """What is added to the log prior of a discrete block's values: zeros, or WangLandau's."""
        return self.tilts.setdefault(name, np.zeros(support))

    def next_words(self, count: int) -> np.ndarray:
        """The statistics' place of the leaf being bound; moves on to the next leaf."""
        self.leaf += 1
        return self.more_words(count)

    def more_words(self, count: int) -> np.ndarray:
        """The place of more statistics of the leaf that was bound last."""
        start, self.word = self.word, self.word + count
        return self.words[start : self.word]


@dataclass
class PartRun(Run):
    """The same chain to a kernel that moves only some sites of a block: see sm.side_by_side.

    The state and what sites learn are the chain's own, whose arrays have a row for each site; all
    else that a kernel takes from here, or makes, is of this part alone.
    """

    kept_by_all: dict[str, np.ndarray] = field(default_factory=dict)  # `kept` of the chain
    sites: int = 0  # of the whole block

    @classmethod
    def of(cls, run: Run, first: int, last: int, sites: int, words: np.ndarray) -> "PartRun":
        """Sites first .. last - 1 of a block, for the leaf that is bound next; words: its own."""
        asleep = np.zeros((1, 1))  # no sum over all data is remembered
        return cls(
            run.ints, run.floats, words, known=asleep, tilts=run.tilts,
            leaf=run.leaf, audited=run.audited, part=(first, last), kept_by_all=run.kept,
            sites=sites,
        )  # fmt: skip

    def keep(self, name: str, array: np.ndarray) -> np.ndarray:
        """Its sites' rows of an array that the whole block has; of none, if there are none."""
        first, last = self.part or (0, self.sites)
        key, rows = f"{self.leaf}.{name}", min(len(array), 1) * self.sites
        if key not in self.kept_by_all:
            self.kept_by_all[key] = np.zeros((rows, *array.shape[1:]), array.dtype)
        own = self.kept_by_all[key][first:last]
        if own.shape != array.shape:
            raise RuntimeError(f"{name} has shape {array.shape}: it must have a row for each site.")
        own[...] = array
        return own
