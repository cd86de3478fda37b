"""Cluster labels of records with pairwise scores: every sweep draws each mention's cluster anew."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import thread_time
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.decisions.racing import Racing
from subsample_mcmc.decisions.rules.normal import Normal
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.errors import CompileError, RewardError
from subsample_mcmc.kernels.base import ANY_NUMBER, DECIDES_EXACTLY, Leaf
from subsample_mcmc.kernels.decision import tally_of
from subsample_mcmc.kernels.partition.cluster_race import ARM, Contest, ContestNumbers, chooser
from subsample_mcmc.kernels.partition.cluster_sums import (
    LeftOver,
    Pieces,
    add_to_sums,
    make_sums,
    sum_anew,
    take_from_sums,
)
from subsample_mcmc.kernels.partition.members import (
    Blocks,
    blocks_of,
    canonical,
    gather,
    join,
    keys_of,
    leave,
    make_members,
    relabel,
)
from subsample_mcmc.kernels.partition.one_target import check_prior, must_agree
from subsample_mcmc.kernels.partition.pair_scores import (
    compare_control,
    compare_pairs,
    is_batched,
    random_pairs,
    scores_by,
    scores_of,
    try_pairs,
    wrong_pair,
)
from subsample_mcmc.numerics.jit import FLAGS, compiles, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import WEYL, draw, hashed
from subsample_mcmc.target.layout import TALLY

FIRST_LOOK = 3  # members read at first where the selector does not say
LEAST_GROWTH = 1.5  # then 40 looks are more than any cluster takes
PILOT = 2000  # random pairs whose scores tell the usual spread
TASKS = 8  # per core: blocks are of very different sizes


COUNTED = (
    "decisions", "pulls", "everything", "rounds", "accepted", "early", "alone", "exact",
    "predicted", "raced", "exhausted", "audited", "wrong", "regret", "margin",
)  # fmt: skip


class SweepTools(NamedTuple):
    """What a sweep works with."""

    contest: Contest
    scores: Any  # PairScores, or () without a similarity
    blocks: Blocks
    temperatures: np.ndarray  # by iteration; the last one holds
    shuffled: bool
    tasks: np.ndarray  # (tasks + 1,): blocks that one core takes at a time
    cores: int
    words: np.ndarray
    leaf: int
    extra: Any = ()  # what other moves than a sweep need besides


@dataclass(frozen=True, eq=False)
class GibbsPartition(Leaf):
    """Draw every mention's cluster from its conditional: records with pairwise scores.

    The target is p(y) ~ exp((sum of similarity over pairs in the same cluster) / temperature), on
    partitions of N mentions: the model's block of N labels, support N; equal labels, same cluster.
    The model has no log_likelihood of its own: sm.Model(None, data, {"y": np.arange(N)},
    support={"y": N}). One step of the kernel draws every mention once.

    block: its name.
    similarity(data, i, j) -> float: symmetric, finite; plain Python, compiled. Or
        similarity(data, i, rows, out), which fills out with the scores of i and each of rows.
        None: the control variate is the score; its sums are known, draws are exact and read no
        pair.
    candidates: which mentions may share a cluster: one key per mention (strings, integers; missing,
        "" or negative: none), the name of such a field of the data, or key(data, i). Default: all.
        A new cluster is always a candidate.
    selector: sm.Exact(), or sm.Racing(sm.Normal(paired=False), delta=.05, batch=3), the default.
        B is that of Eq. 27, delta being shared among looks and rivals. The race of the paper, where
        rivals do not share it: sm.Racing(sm.Normal(paired=False, side="eq27", prior=0.0), batch=3)
        with second=.1. There is no retreat: a race reads no more than exact sums do.
    control: sm.Bilinear(...). Without, races pay only for clusters of some dozens and more.
    temperature: a number, or an array by sweep (its last value holds), for annealing:
        np.geomspace(8, .3, 16). The Gumbel variables are scaled, not the bound.
    scan: "random" order in every sweep, or "fixed".
    second: share of a cluster's members that the second look reads; default .1, and .01 of
        clusters of more than 1,000. From there on looks double.
    new: score of opening a cluster.
    cores: of which blocks are worked on side by side; default all. The draws are the same.

    Promises: exact with Exact() or without similarity; else asymptotic: means of few members are
    taken as Gaussian, and what the control leaves over as its fit says. Audits report regret.

    Example:
        >>> def similarity(data, i, j):
        ...     return 1.0 - abs(data.x[i] - data.x[j])
        >>> x = np.concatenate([np.zeros(20), np.full(20, 9.0)]) + np.linspace(0.0, 0.5, 40)
        >>> model = sm.Model(None, {"x": x}, state={"y": np.arange(40)}, support={"y": 40})
        >>> gibbs = sm.GibbsPartition("y", similarity)
        >>> trace = sm.sample(model, gibbs, draws=10, warmup=0, chains=1, seed=1)
        >>> len(np.unique(trace.draws["y"][0, -1]))  # clusters
        2
    """

    interpreted: ClassVar[bool] = True
    own_target: ClassVar[bool] = True
    columns: ClassVar[tuple[tuple[str, str], ...]] = (*Leaf.columns, ("seconds", "f8"))

    block: str
    similarity: Any
    candidates: Any = None
    selector: Any = None
    control: Any = None
    temperature: Any = 1.0
    scan: str = "random"
    second: float | None = None
    new: float = 0.0
    cores: int | None = None

    def __post_init__(self):
        if self.selector is None:
            default = Racing(Normal(paired=False), batch=FIRST_LOOK)
            object.__setattr__(self, "selector", default)
        check_selector(self.selector)
        if self.similarity is None and self.control is None:
            raise TypeError("similarity=None needs a control variate that is the score.")
        if self.similarity is not None:
            is_batched(self.similarity)
        if self.control is not None and not hasattr(self.control, "pieces"):
            raise TypeError(f"control={self.control!r:.60}: give an sm.Bilinear(...).")
        heat = np.asarray(self.temperature, dtype=float)
        if heat.ndim > 1 or heat.size == 0 or not np.all((heat > 0.0) & (heat < np.inf)):
            raise ValueError(
                f"temperature={self.temperature!r}: give a positive number, or an array of them "
                "by sweep."
            )
        if self.scan not in ("random", "fixed"):
            raise ValueError(f'scan={self.scan!r}: it must be "random" or "fixed".')
        if self.second is not None and not 0.0 < self.second < 1.0:
            raise ValueError(f"second={self.second!r}: give a share of the members, such as .1.")
        if not abs(self.new) < np.inf:
            raise ValueError(f"new={self.new!r}: give the finite score of opening a cluster.")
        if self.cores is not None and (int(self.cores) != self.cores or self.cores < 1):
            raise ValueError(f"cores={self.cores!r}: give how many, at least 1.")

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.block,)

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """Exact, or asymptotic."""
        return "asymptotic" if self.races else "exact"

    @property
    def races(self) -> bool:
        """Are members drawn at random."""
        return self.similarity is not None and self.selector.dropping_rule is not None

    def text(self) -> str:
        return f"GibbsPartition({self.block!r})"

    def blocks(self, model) -> Blocks:
        """Mentions by candidate key."""
        return blocks_of(keys_of(self.candidates, model))

    def facts(self, model=None) -> dict[str, Any]:
        """Adds blocks, mentions without candidates, and whether pairs are read at all."""
        told = super().facts(model) | {"labels": True}
        if not self.races:
            told |= DECIDES_EXACTLY
        if model is None:
            return told
        sizes = np.diff(self.blocks(model).start)
        told["rows"] = int(sizes.max())
        alone = int((sizes == 1).sum())
        told["note"] = f"{model.size} mentions in {len(sizes)} blocks, the largest of {sizes.max()}"
        if alone:
            told["note"] += f"; {alone} mentions without candidates stay alone"
        heat = np.atleast_1d(np.asarray(self.temperature, dtype=float))
        if np.any(heat != 1.0):
            told["note"] += f"; temperature {heat[0]:.3g} to {heat[-1]:.3g}"
        if self.similarity is None:
            told["note"] += "; the score is bilinear: its sums are known, no pair is read"
        return told

    def check(self, model) -> None:
        """Refuse a block that holds no labels, likelihoods and priors that would be left out."""
        variable = model.variables[self.block]
        if not variable.block.discrete or variable.block.shape != (model.size,):
            raise ValueError(
                f"{self.text()}: block {self.block!r} has shape {variable.block.shape}; it must be "
                f'integers, one label per mention: state={{"{self.block}": np.arange({model.size})'
                "} (the first array of the data says how many there are)."
            )
        if variable.support < model.size:
            raise ValueError(
                f'{self.text()}: support={{"{self.block}": {variable.support}}}; there may be as '
                f"many clusters as mentions: give {model.size}."
            )
        if model.log_likelihood is not None:
            raise ValueError(
                f"{self.text()} draws labels from their pairwise scores, and would leave out the "
                "model's log_likelihood: give sm.Model(None, data, state, ...)."
            )
        check_prior(self.block, model)
        if self.control is not None:
            self.control.check(model.size)
        if self.similarity is not None:
            try_pairs(self.similarity, model.data, self.blocks(model))
            if reason := compiles(self.similarity, self.example(model), FLAGS):
                raise CompileError(reason)

    def check_among(self, leaves, model) -> None:
        """Refuse others of the block that have another target."""
        must_agree(self, leaves)

    def example(self, model) -> tuple:
        """Arguments of similarity."""
        one = np.int64(0)
        if is_batched(self.similarity):
            return (model.data, one, np.zeros(1, np.int64), np.zeros(1))
        return (model.data, one, one)

    def build(self, model) -> Any:
        """The sweep, called from Python, which shares blocks out among cores."""
        self.compare(model)
        choose = chooser(self.similarity is not None, self.control is not None, self.races)
        sweep = sweep_over(choose, self.controlled)

        def step(chain, tools):
            one_sweep(sweep, chain, tools)

        return step

    def compare(self, model) -> None:
        """Refuse scores that are others where they are compiled, or than the control says."""
        if self.controlled:
            self.control.check_kinds(self.blocks(model))
        if self.similarity is not None:  # whose look-ups were checked by now
            compare_pairs(self.similarity, model.data, self.blocks(model))
            if self.controlled:
                compare_control(self.similarity, model.data, self.blocks(model), self.control)

    @property
    def controlled(self) -> bool:
        """Are sums of the control variate kept."""
        return self.control is not None and (self.races or self.similarity is None)

    def bind(self, model, run) -> SweepTools:
        """Storage of one chain."""
        place, leaf = model.variables[self.block].block, run.leaf
        label = run.ints[place.start : place.start + place.length]
        blocks = self.blocks(model)
        members, count = make_members(blocks, label), len(blocks.start) - 1
        none = Pieces(0.0, (), (), LeftOver(*(np.zeros(1) for _ in LeftOver._fields)))
        sums = make_sums(self.control.pieces() if self.controlled else none, members)
        tally = np.zeros(count, dtype=TALLY).view(np.recarray)
        noises, rows, audits = (np.zeros(count, dtype=np.uint64) for _ in range(3))
        contest = Contest(
            members, sums, np.zeros(model.size, dtype=ARM).view(np.recarray), np.zeros(model.size),
            np.zeros(model.size, dtype=np.int64), np.zeros(model.size, dtype=np.int64),
            np.zeros(model.size), noises, rows, audits, tally,
            self.numbers(model, blocks),
        )  # fmt: skip
        heat = np.atleast_1d(np.asarray(self.temperature, dtype=float)).copy()
        cores = self.cores or os.cpu_count() or 1
        words = run.next_words(len(self.columns))
        return SweepTools(
            contest, scores_by(self.similarity, model.data), blocks, heat, self.scan == "random",
            shares_of(blocks, cores * TASKS), cores, words, leaf,
        )  # fmt: skip

    def numbers(self, model, blocks) -> ContestNumbers:
        """Numbers of the race; the spread of what is raced, from the control or from some pairs."""
        second = -1.0 if self.second is None else float(self.second)
        if not self.races:
            return ContestNumbers(1, second, 2.0, 1.0, 0.0, float(self.new), np.zeros((1, 1)))
        rule, batch = self.selector.dropping_rule, int(self.selector.batch or FIRST_LOOK)
        spread = 0.0  # with a control, by level
        if self.control is None:
            spread = pilot_spread(self.similarity, model.data, blocks)
        bounds = rule.boundaries_of_own_rows(self.selector.delta)
        growth = float(self.selector.growth)
        return ContestNumbers(
            batch,
            second,
            growth,
            float(getattr(rule, "prior", 0.0)),
            float(spread),
            float(self.new),
            bounds,
        )


def check_selector(selector: Any) -> None:
    """Refuse what cannot decide between clusters with members of their own."""
    if not isinstance(selector, Selector):
        raise TypeError(f"selector={selector!r}: give sm.Exact() or sm.Racing(...).")
    rule = selector.dropping_rule
    if rule is None and selector.reads_everything(ANY_NUMBER):
        return
    if rule is None or rule.boundaries_of_own_rows(0.05) is None:
        raise ValueError(
            f"selector={selector!r}: clusters have members of their own, so that nothing can be "
            "paired, and no range of few scores bounds a cluster's sum usefully: give "
            "sm.Racing(sm.Normal(paired=False)) or sm.Exact()."
        )
    if rule.compares_pairs:
        raise ValueError(
            "selector: Normal() compares arms row by row, but clusters have members of their own: "
            "give sm.Racing(sm.Normal(paired=False), batch=3)."
        )
    growth = getattr(selector, "growth", 2.0)
    if growth < LEAST_GROWTH:
        raise ValueError(
            f"growth={growth}: races of clusters look at growing numbers of members, at least "
            f"{LEAST_GROWTH} times as many each."
        )


def pilot_spread(similarity: Any, data: Any, blocks: Blocks) -> float:
    """Variance of the score over random pairs that may share a cluster."""
    if np.all(np.diff(blocks.start) < 2):
        return 0.0
    pairs = random_pairs(blocks, PILOT, np.random.default_rng(0))  # the same every time
    return float(np.var(scores_of(similarity, data, *pairs)))


# ---------------------------------------------------------------------------------------- one sweep
def shares_of(blocks: Blocks, tasks: int) -> np.ndarray:
    """Consecutive blocks in shares of about equal work, which is quadratic in their sizes."""
    work = np.cumsum(np.diff(blocks.start).astype(float) ** 2)
    cuts = np.searchsorted(work, np.linspace(0.0, work[-1], tasks + 1)[1:-1])
    return np.unique(np.concatenate([[0], cuts, [len(work)]])).astype(np.int64)


@memoised
def workers(cores: int, process: int) -> ThreadPoolExecutor:
    """Threads that all chains of a process share; they never wait for each other."""
    return ThreadPoolExecutor(cores, thread_name_prefix="cores")


def one_sweep(sweep: Any, chain: Any, tools: SweepTools) -> None:
    """Draw every mention once; the same draws for any number of cores."""
    now, contest, tasks = chain.now[0], tools.contest, tools.tasks
    members, tally = contest.members, contest.tally
    if not canonical(members.label, tools.blocks):
        relabel(members.label, tools.blocks)
    heat = float(tools.temperatures[min(int(now.iteration), len(tools.temperatures) - 1)])
    chain.rows[:] += WEYL
    chain.audits[:] += WEYL
    noise = chain.rng.integers(2**64 - 1, dtype=np.uint64)
    roots = np.array([noise, chain.rows[0], chain.audits[0]], dtype=np.uint64)
    tally[...] = np.zeros(1, dtype=TALLY)

    def share(k: int) -> float:
        begun = thread_time()
        with np.errstate(all="ignore"):  # plain Python warns where machine code goes on
            sweep(
                contest, tools.scores, tools.extra, roots, tasks[k], tasks[k + 1], heat,
                float(now.audit), tools.shuffled,
            )  # fmt: skip
        return thread_time() - begun

    if not getattr(sweep, "signatures", True):  # compiled before the clock runs
        sweep(contest, tools.scores, tools.extra, roots, 0, 0, heat, 0.0, tools.shuffled)
    shares = range(len(tasks) - 1)
    if tools.cores == 1 or len(shares) == 1:
        seconds = [share(k) for k in shares]
    else:
        seconds = list(workers(tools.cores, os.getpid()).map(share, shares))
    wrong = np.flatnonzero(members.now["bad"])
    if len(wrong):
        found = members.now[wrong[0]]
        members.now["bad"] = 0
        raise RewardError(wrong_pair(int(found.i), int(found.j)))
    own = tally_of(tools.words)[0]
    own.steps += 1
    for name in COUNTED:
        own[name] += tally[name].sum()
    tools.words[len(TALLY.names or ()) :].view(float)[0] += sum(seconds)


@jit(inner=True)
def shuffle(scan, stream, lo, hi):
    """Put mentions in random order."""
    for k in range(lo, hi - 1):
        other = k + draw(stream, hi - k)
        scan[k], scan[other] = scan[other], scan[k]


def by_block(step: Any) -> Any:
    """sweep(contest, scores, extra, roots, first, last, heat, audit, shuffled): block by block."""

    @jit
    def sweep(contest, scores, extra, roots, first, last, heat, audit, shuffled):
        for b in range(first, last):
            # Streams of its own: what is drawn in a block does not depend on who draws it.
            number = hashed(np.uint64(b + 1) * WEYL)
            contest.noises[b] = hashed(roots[0] + number)
            contest.rows[b] = hashed(roots[1] + number)
            contest.audits[b] = hashed(roots[2] + number)
            step(contest, scores, extra, b, heat, audit, shuffled)

    return sweep


@memoised
def sweep_over(choose: Any, controlled: bool) -> Any:
    """The sweep of GibbsPartition, see by_block: every mention is drawn once."""

    @jit(inner=True)
    def sweep_block(contest, scores, extra, b, heat, audit, shuffled):
        m = contest.members
        lo, hi = m.start[b], m.start[b + 1]
        gather(m, b)
        if controlled:
            sum_anew(contest.sums, m, b)
        for k in range(lo, hi):
            contest.scan[k] = m.order[k]
        if shuffled:
            shuffle(contest.scan, contest.noises[b : b + 1], lo, hi)
        for k in range(lo, hi):
            i = contest.scan[k]
            old = m.label[i]
            leave(m, b, i)
            y = choose(contest, scores, b, i, heat, audit)
            join(m, b, i, y if y >= 0 else old)
            if y < 0:
                return
            if y != old:
                contest.tally[b].accepted += 1
                if controlled:
                    take_from_sums(contest.sums, i, old, m.size[old] == 0)
                    add_to_sums(contest.sums, i, y)

    return by_block(sweep_block)
