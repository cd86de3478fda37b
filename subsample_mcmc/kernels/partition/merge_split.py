"""Whole clusters merged or split: moves that one mention at a time would take long to make.

The pair (i, j) of mentions is an auxiliary variable: a merge of their clusters is the reverse of
the split that separates them with the same pair and the same order of the others (Dahl 2005). The
ratio of Metropolis and Hastings holds the probabilities of the pair in both states, and of the
sides that the split would take.
"""

from dataclasses import dataclass
from math import ceil, exp, log
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.kernels.base import Leaf
from subsample_mcmc.kernels.partition.cluster_sums import (
    add_to_sums,
    cluster_scores,
    pair_score,
    sum_anew,
    take_from_sums,
)
from subsample_mcmc.kernels.partition.gibbs_partition import (
    GibbsPartition,
    SweepTools,
    by_block,
    one_sweep,
    shuffle,
)
from subsample_mcmc.kernels.partition.members import empty_label, gather, join, leave
from subsample_mcmc.kernels.partition.one_target import must_agree
from subsample_mcmc.kernels.partition.pair_test import score_of_one, sum_of_pairs
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import draw, uniform


@dataclass(frozen=True, eq=False)
class MergeSplit(Leaf):
    """Propose to merge two clusters, or to split one, and accept by Metropolis-Hastings.

    partition: the sm.GibbsPartition that it accompanies, whose scores, blocks, control variate,
        temperature and selector it shares: gibbs >> sm.MergeSplit(gibbs). Alone it moves slowly.
    moves: proposals per mention and step.

    A mention is drawn, and a second one: from its own cluster, to be separated from it, or from
    another, to be joined with it (in races, likelier from one of a high mean score by the control
    variate).
    The others of a cluster that is split choose sides one by one by their scores with the first few
    on either side; a merge is weighed against the chance that a split would undo it. Its test is
    about the sum over all pairs between the two parts: exact for few pairs; for many, of a random
    sample of them, as large as it takes at the selector's delta: its batch and growth are those of
    draws. A merge that is accepted has passed two tests.

    Example:
        >>> def similarity(data, i, j):
        ...     return 1.0 - abs(data.x[i] - data.x[j])
        >>> x = np.concatenate([np.zeros(20), np.full(20, 9.0)]) + np.linspace(0.0, 0.5, 40)
        >>> model = sm.Model(None, {"x": x}, state={"y": np.arange(40)}, support={"y": 40})
        >>> gibbs = sm.GibbsPartition("y", similarity)
        >>> kernel = gibbs >> sm.MergeSplit(gibbs)
        >>> trace = sm.sample(model, kernel, draws=5, warmup=0, chains=1, seed=1)
        >>> len(np.unique(trace.draws["y"][0, -1]))
        2
    """

    interpreted: ClassVar[bool] = True
    own_target: ClassVar[bool] = True
    columns: ClassVar[tuple[tuple[str, str], ...]] = GibbsPartition.columns

    partition: GibbsPartition
    moves: float = 1.0

    def __post_init__(self):
        if not isinstance(self.partition, GibbsPartition):
            raise TypeError(
                f"MergeSplit({self.partition!r:.60}): give the sm.GibbsPartition(...) it "
                "accompanies."
            )
        if not 0.0 < self.moves < np.inf:
            raise ValueError(f"moves={self.moves!r}: give proposals per mention, above 0.")

    @property
    def writes(self) -> tuple[str, ...]:
        return self.partition.writes

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """That of the partition's own draws."""
        return self.partition.guarantee

    def text(self) -> str:
        return f"MergeSplit({self.partition.block!r})"

    def facts(self, model=None) -> dict[str, Any]:
        """As the partition's."""
        told = super().facts(None) | self.partition.facts(model)
        return told | {"kind": type(self).__name__, "arms": 2}

    def check(self, model) -> None:
        """Refuse what the partition refuses."""
        self.partition.check(model)

    def check_among(self, leaves, model) -> None:
        """Refuse others of the block that have another target."""
        must_agree(self.partition, leaves)

    def build(self, model) -> Any:
        """Moves in all blocks, called from Python, which shares blocks out among cores."""
        own = self.partition
        own.compare(model)
        sweep = moves_over(own.similarity is not None, own.controlled, own.races)

        def step(chain, tools):
            one_sweep(sweep, chain, tools)

        return step

    def bind(self, model, run) -> SweepTools:
        """Storage of one chain."""
        tools = self.partition.bind(model, run)
        sums = tools.contest.sums
        wide = sums.column.shape[1]
        extra = Moves(
            float(self.moves), np.zeros(len(sums.used)),
            np.zeros((len(tools.blocks.start) - 1, wide)), np.zeros(model.size, dtype=np.int64),
        )  # fmt: skip
        return tools._replace(extra=extra)


# ------------------------------------------------------------------------------------- one proposal
ANCHORS = 4  # members of each side whose scores decide on which one the next stands
SPLITS = 0.25  # share of proposals: splits cost more, and clusters seldom want to be split
STEEP = 30.0  # mean scores beyond which clusters are no likelier to be merged with


class Moves(NamedTuple):
    """What these moves need besides a contest."""

    moves: float  # proposals per mention
    weight: np.ndarray  # by token, all zero: sums over one part
    column: np.ndarray  # (blocks, categories), all zero
    parts: np.ndarray  # by block: members of the first part, then those of the second


@jit(inner=True)
def log_sigmoid(x):
    """log(1 / (1 + exp(-x))) without overflow."""
    return -log(1.0 + exp(-x)) if x > -30.0 else x


@jit(inner=True)
def attraction(contest, y, known, controlled):
    """How likely a cluster is to be proposed for a merge, up to a factor."""
    size = float(contest.members.size[y])
    if not controlled:
        return size
    return exp(min(max(known / size, -STEEP), STEEP))


@memoised
def moves_over(scored: bool, controlled: bool, racing: bool) -> Any:
    """The moves of MergeSplit in all blocks, see by_block."""
    total = sum_of_pairs(scored, controlled, racing)

    @jit(inner=True)
    def score(contest, scores, b, i, j):
        """The score of a pair by which sides are chosen: the control variate's, if there is one."""
        if controlled:
            return pair_score(contest.sums, i, j)
        contest.tally[b].pulls += 1
        contest.tally[b].everything += 1
        return score_of_one(contest, scores, b, i, j)

    @jit(inner=True)
    def choose_sides(contest, scores, extra, b, heat, i, j, known_sides):
        """Let all members of two clusters, or of one, choose between i and j, in random order.

        known_sides: they stand where they stand (a merge), and only the chance of it is asked.
        Leaves i's part and then j's in extra.parts; returns the size of i's part, and the chance's
        logarithm.
        """
        m, lo, noise = contest.members, contest.members.start[b], contest.noises[b : b + 1]
        order, count = contest.scan, 0
        for part in range(2 if known_sides else 1):
            y = m.label[i] if part == 0 else m.label[j]
            for c in range(m.first[y], m.first[y] + m.size[y]):
                if m.pool[c] not in (i, j):
                    order[lo + count] = m.pool[c]
                    count += 1
        shuffle(order, noise, lo, lo + count)
        # i's part grows from the front of `parts`, j's from the back.
        parts, front, back, chance = extra.parts, lo, lo + count + 1, 0.0
        parts[front], parts[back] = i, j
        for k in range(count):
            who, lean = order[lo + k], 0.0
            for a in range(lo, min(front, lo + ANCHORS - 1) + 1):
                lean += score(contest, scores, b, who, parts[a])
            for a in range(max(back, lo + count + 1 - ANCHORS + 1), lo + count + 2):
                lean -= score(contest, scores, b, who, parts[a])
            lean /= heat
            if known_sides:
                left = m.label[who] == m.label[i]
            else:
                left = log(uniform(noise)) < log_sigmoid(lean)
            chance += log_sigmoid(lean if left else -lean)
            if left:
                front += 1
                parts[front] = who
            else:
                back -= 1
                parts[back] = who
        return front + 1 - lo, chance

    @jit(inner=True)
    def others(contest, b, i, own):
        """Sum of attractions of all clusters but i's; they stay in contest.arms[].score."""
        m, lo, value = contest.members, contest.members.start[b], 0.0
        if controlled:
            cluster_scores(contest.sums, m, b, i, contest.known)
        for k in range(lo, lo + m.now[b].clusters):
            y = m.alive[k]
            if y != own:
                contest.arms[y].score = attraction(contest, y, contest.known[y], controlled)
                value += contest.arms[y].score
        return value

    @jit(inner=True)
    def move_to(contest, b, who, y):
        """Move a mention to another cluster, and the sums with it."""
        m, old = contest.members, contest.members.label[who]
        leave(m, b, who)
        join(m, b, who, y)
        if controlled:
            take_from_sums(contest.sums, who, old, m.size[old] == 0)
            add_to_sums(contest.sums, who, y)

    @jit(inner=True)
    def propose_merge(contest, scores, extra, b, heat, audit, i):
        m, lo, noise = contest.members, contest.members.start[b], contest.noises[b : b + 1]
        own, tally = m.label[i], contest.tally[b]
        everything = others(contest, b, i, own)
        rest, chosen = uniform(noise) * everything, -1
        for k in range(lo, lo + m.now[b].clusters):
            y = m.alive[k]
            if y != own and (rest > 0.0 or chosen < 0):
                chosen = y
                rest -= contest.arms[y].score
        j = m.pool[m.first[chosen] + draw(noise, m.size[chosen])]
        both, parts = m.size[own] + m.size[chosen], extra.parts
        chance = log(m.size[chosen] * everything / contest.arms[chosen].score) - log(both - 1.0)
        chance += log(SPLITS / (1.0 - SPLITS))
        bar = contest.numbers.new + heat * (log(uniform(noise)) - chance)
        at = lo
        for y in (own, chosen):
            for c in range(m.first[y], m.first[y] + m.size[y]):
                parts[at] = m.pool[c]
                at += 1
        # The chance that a split takes just these sides, at most 1, can only raise the bar.
        count = m.size[own]
        if total(contest, scores, extra, b, lo, lo + count, lo + both, bar, audit) <= 0:
            return
        count, chance = choose_sides(contest, scores, extra, b, heat, i, j, True)
        bar -= heat * chance
        accepted = total(contest, scores, extra, b, lo, lo + count, lo + both, bar, audit)
        if m.now[b].bad == 1 or accepted <= 0:
            return
        tally.accepted += 1
        for k in range(lo + count, lo + both):
            move_to(contest, b, extra.parts[k], own)

    @jit(inner=True)
    def propose_split(contest, scores, extra, b, heat, audit, i):
        m, lo, noise = contest.members, contest.members.start[b], contest.noises[b : b + 1]
        own, tally = m.label[i], contest.tally[b]
        both = m.size[own]
        other = draw(noise, both - 1)
        other += 1 if other >= m.place[i] else 0
        j = m.pool[m.first[own] + other]
        count, chance = choose_sides(contest, scores, extra, b, heat, i, j, False)
        back = float(both - count)
        # How likely the merge of the two parts would be proposed.
        everything, weight = others(contest, b, i, own), back
        if controlled:
            known = 0.0
            for k in range(lo + count, lo + both):
                known += pair_score(contest.sums, i, extra.parts[k])
            weight = exp(min(max(known / back, -STEEP), STEEP))
        chance = log(weight / (everything + weight) / back) + log(both - 1.0) - chance
        chance += log((1.0 - SPLITS) / SPLITS)
        bar = contest.numbers.new + heat * (chance - log(uniform(noise)))
        accepted = total(contest, scores, extra, b, lo, lo + count, lo + both, bar, audit)
        if m.now[b].bad == 1 or accepted > 0:
            return
        tally.accepted += 1
        y = empty_label(m, b)
        for k in range(lo + count, lo + both):
            move_to(contest, b, extra.parts[k], y)

    @jit(inner=True)
    def move_block(contest, scores, extra, b, heat, audit, shuffled):
        m, noise = contest.members, contest.noises[b : b + 1]
        lo, hi = m.start[b], m.start[b + 1]
        if hi - lo < 2:
            return
        gather(m, b)
        if controlled:
            sum_anew(contest.sums, m, b)
        for _ in range(int(ceil(extra.moves * (hi - lo)))):
            i, split = m.order[lo + draw(noise, hi - lo)], uniform(noise) < SPLITS
            if split and m.size[m.label[i]] > 1:
                propose_split(contest, scores, extra, b, heat, audit, i)
            elif not split and m.now[b].clusters > 1:
                propose_merge(contest, scores, extra, b, heat, audit, i)
            if m.now[b].bad == 1:
                return

    return by_block(move_block)
