"""One sweep over all mentions: compiled, block by block, and blocks side by side on all cores."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from time import thread_time
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.errors import RewardError
from subsample_mcmc.kernels.decision import tally_of
from subsample_mcmc.kernels.partition.blocks import Blocks, canonical, relabel
from subsample_mcmc.kernels.partition.cluster_race import Contest
from subsample_mcmc.kernels.partition.cluster_sums import add_to_sums, sum_anew, take_from_sums
from subsample_mcmc.kernels.partition.members import gather, join, leave
from subsample_mcmc.kernels.partition.pair_scores import wrong_pair
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import WEYL, draw, hashed
from subsample_mcmc.target.layout import TALLY

COUNTED = (
    "decisions", "pulls", "everything", "rounds", "accepted", "early", "alone", "exact",
    "predicted", "raced", "exhausted", "audited", "wrong", "regret", "margin",
)  # fmt: skip


class SweepTools(NamedTuple):
    """What a sweep works with."""

    contest: Contest
    data: Any
    blocks: Blocks
    temperatures: np.ndarray  # by iteration; the last one holds
    shuffled: bool
    tasks: np.ndarray  # (tasks + 1,): blocks that one core takes at a time
    cores: int
    words: np.ndarray
    leaf: int
    extra: Any = ()  # what other moves than a sweep need besides


def shares_of(blocks: Blocks, tasks: int) -> np.ndarray:
    """Consecutive blocks in shares of about equal work, which is quadratic in their sizes."""
    work = np.cumsum(np.diff(blocks.start).astype(float) ** 2)
    cuts = np.searchsorted(work, np.linspace(0.0, work[-1], tasks + 1)[1:-1])
    return np.unique(np.concatenate([[0], cuts, [len(work)]])).astype(np.int64)


@cache
def workers(cores: int, process: int) -> ThreadPoolExecutor:
    """Threads that all chains of a process share; they never wait for each other."""
    return ThreadPoolExecutor(cores, thread_name_prefix="partition")


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
                contest, tools.data, tools.extra, roots, tasks[k], tasks[k + 1], heat,
                float(now.audit), tools.shuffled,
            )  # fmt: skip
        return thread_time() - begun

    if not getattr(sweep, "signatures", True):  # compiled before the clock runs
        sweep(contest, tools.data, tools.extra, roots, 0, 0, heat, 0.0, tools.shuffled)
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
    """sweep(contest, data, extra, roots, first, last, heat, audit, shuffled): a step per block."""

    @jit
    def sweep(contest, data, extra, roots, first, last, heat, audit, shuffled):
        for b in range(first, last):
            # Streams of its own: what is drawn in a block does not depend on who draws it.
            number = hashed(np.uint64(b + 1) * WEYL)
            contest.noises[b] = hashed(roots[0] + number)
            contest.rows[b] = hashed(roots[1] + number)
            contest.audits[b] = hashed(roots[2] + number)
            step(contest, data, extra, b, heat, audit, shuffled)

    return sweep


@memoised
def sweep_over(choose: Any, controlled: bool) -> Any:
    """The sweep of GibbsPartition, see by_block: every mention is drawn once."""

    @jit(inner=True)
    def sweep_block(contest, data, extra, b, heat, audit, shuffled):
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
            y = choose(contest, data, b, i, heat, audit)
            join(m, b, i, y if y >= 0 else old)
            if y < 0:
                return
            if y != old:
                contest.tally[b].accepted += 1
                if controlled:
                    take_from_sums(contest.sums, i, old, m.size[old] == 0)
                    add_to_sums(contest.sums, i, y)

    return by_block(sweep_block)
