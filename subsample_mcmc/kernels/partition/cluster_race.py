"""Which cluster a mention joins: a race of clusters, each with members of its own.

The score of a cluster is the sum of the mention's scores with all N members, plus a Gumbel variable
times the temperature. A look reads some members more of every cluster still in the race, and
estimates its score by N times their mean; clusters that are behind the leader by more than
B standard errors are dropped (Chen & Ghahramani 2016, section 5.3 and appendix C.3). With a control
variate the race is about what that leaves over, and its sums alone may end it: the zeroth look.
"""

from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.decisions.rules.rule import ALONE, EXACT, EXHAUSTED, PREDICTED, RACED
from subsample_mcmc.kernels.decision import count_audit, count_decision, count_end
from subsample_mcmc.kernels.partition.cluster_sums import ClusterSums, cluster_scores, pair_score
from subsample_mcmc.kernels.partition.members import Members, bring_forward, empty_label
from subsample_mcmc.kernels.partition.pair_scores import LARGEST, fill_scores
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import U11, WEYL, hashed, uniform

LARGEST_GUMBEL = 38.0  # no Gumbel variable of 53 bits is larger: log(2^54) = 37.4
LARGE = 1000  # members from which on the second look reads LARGE_SHARE of them, else SHARE
SHARE, LARGE_SHARE = 0.1, 0.01

# What is known of a cluster, by label.
ARM = np.dtype(
    [
        ("noise", float),  # temperature times Gumbel
        ("score", float),  # the estimate
        ("variance", float),  # of the estimate
        ("spread", float),  # variance of what is read of it, as far as is known before
        ("drawn", np.int64),  # members read; they stand first in the cluster's storage
        ("total", float),  # sum of what was read
        ("shift", float),  # a typical value, which keeps the two power sums accurate
        ("first", float),
        ("second", float),
    ],
    align=True,
)


class ContestNumbers(NamedTuple):
    """Run-time numbers of a race."""

    batch: int  # members of the first look
    share: float  # of the members, read in the second look; negative: by size
    growth: float  # of what is read, at each look from the third on
    prior: float  # pseudo-observations of the spread
    spread: float  # variance of scores, or of what the control leaves over, over random pairs
    new: float  # score of a new cluster
    bounds: np.ndarray  # (looks, log2 of rivals): B


class Contest(NamedTuple):
    """All that decisions in the blocks of one chain work with."""

    members: Members
    sums: ClusterSums
    arms: np.recarray  # (mentions,) of ARM, by label
    known: np.ndarray  # by label: score by the control variate; that of a new cluster
    scan: np.ndarray  # mentions in the order of a sweep, a stretch for each block
    racing: np.ndarray  # labels still in the race, a stretch for each block
    values: np.ndarray  # scores just read, a stretch for each block
    noises: np.ndarray  # (blocks,) uint64: streams of Gumbels ...
    rows: np.ndarray  # ... of members to read ...
    audits: np.ndarray  # ... and of decisions to audit
    tally: np.recarray  # (blocks,) of TALLY
    numbers: ContestNumbers


@jit(inner="always")
def next_target(numbers, size, drawn):
    """How many members of a cluster have been read after the next look."""
    if drawn == 0:
        target = numbers.batch
    elif drawn == numbers.batch:
        share = numbers.share
        if share < 0.0:
            share = SHARE if size <= LARGE else LARGE_SHARE
        target = drawn + max(1, int((size - drawn) * share))
    else:
        target = max(drawn + 1, int(drawn * numbers.growth))
    return size if target >= size - 1 else target  # one left unread would cost a look of its own


@jit(inner="always")
def looks_before_all(numbers, size):
    """Looks that leave members of a cluster unread."""
    count, drawn = 0, next_target(numbers, size, 0)
    while drawn < size:
        count += 1
        drawn = next_target(numbers, size, drawn)
    return count


@jit(inner="always")
def boundary(numbers, size, rivals):
    """B, for the largest cluster in the race and the number of the leader's rivals."""
    count = min(looks_before_all(numbers, size), numbers.bounds.shape[0] - 1)
    at, power = 0, 1
    while power < rivals and at < numbers.bounds.shape[1] - 1:
        at, power = at + 1, 2 * power
    return numbers.bounds[count, at]


@jit(inner="always")
def gumbel_at(bits, k):
    """The k-th Gumbel variable after a place of a stream."""
    u = (np.float64(hashed(bits + np.uint64(k + 1) * WEYL) >> U11) + 0.5) * 2.0**-53
    return -log(-log(u))


@jit(inner="always")
def surely_below(bits, x):
    """Is the Gumbel variable made of these bits below x > 0, told without a logarithm.

    It is at most -log(1 - u), and exp(-x) is at most (1 + x / 8)^-8.
    """
    rest = (np.float64(~bits >> U11) + 0.5) * 2.0**-53  # 1 - u
    power = 1.0 + 0.125 * x
    power *= power
    power *= power
    return rest * power * power > 1.0


@jit(inner="always")
def prepare(contest, y):
    """Begin with a cluster: no member is read, its score is what is known before and noise."""
    arm = contest.arms[y]
    arm.drawn, arm.total, arm.first, arm.second = 0, 0.0, 0.0, 0.0
    arm.score, arm.variance = contest.known[y] + arm.noise, 0.0
    arm.spread = contest.numbers.spread


@jit(inner="always")
def enter_all(contest, b, heat, controlled, i):
    """Every cluster, and a new one, with noise and what is known before any pair is read."""
    m, arms, racing = contest.members, contest.arms, contest.racing
    lo = m.start[b]
    count, bits = m.now[b].clusters + 1, contest.noises[b]
    contest.noises[b] += np.uint64(count) * WEYL
    if controlled:
        cluster_scores(contest.sums, m, b, i, contest.known)
    for k in range(count):
        y = m.alive[lo + k]
        racing[lo + k] = y
        arms[y].noise = heat * gumbel_at(bits, k)
        if k == count - 1:
            contest.known[y] = contest.numbers.new
        elif not controlled:
            contest.known[y] = 0.0
        prepare(contest, y)
    return count


@jit(inner="always")
def level_of(left, value):
    """The level in which a mean of known scores falls, by left.edges."""
    at = 0
    for k in range(len(left.edges)):
        at += 1 if value >= left.edges[k] else 0
    return at


@jit(inner="always")
def low_and_high(contest, y):
    """Where the score of a cluster lies, by what is known and what that usually leaves over."""
    arm, size, left = contest.arms[y], float(contest.members.size[y]), contest.sums.left_over
    if size == 0.0:
        return arm.score, arm.score
    at = level_of(left, contest.known[y] / size)
    arm.spread = left.within[at]
    middle = arm.score + size * left.shift[at]
    apart = left.reach[0] * sqrt(size * (size * left.between[at] + left.within[at]))
    return middle - apart, middle + apart


@jit(inner="always")
def enter_likely(contest, b, heat, i):
    """The clusters that may be the best by what is known: the zeroth look, which reads no pair.

    Most are ruled out without a logarithm.
    """
    m, arms, racing = contest.members, contest.arms, contest.racing
    left, lo = contest.sums.left_over, m.start[b]
    count, bits = m.now[b].clusters + 1, contest.noises[b]
    contest.noises[b] += np.uint64(count) * WEYL
    cluster_scores(contest.sums, m, b, i, contest.known)
    contest.known[m.alive[lo + count - 1]] = contest.numbers.new
    first = 0
    for k in range(1, count):
        if contest.known[m.alive[lo + k]] > contest.known[m.alive[lo + first]]:
            first = k
    floor, entered, cold = -np.inf, 0, 1.0 / heat
    lowest, steep, above = left.bound[0], left.bound[1], left.bound[2]
    for k in range(-1, count):
        y = m.alive[lo + (k if k >= 0 else first)]
        if k == first:
            continue
        place = k if k >= 0 else first
        known, size = contest.known[y], float(m.size[y])
        ahead = (floor - max(known + lowest * size, steep * known + above * size)) * cold
        if ahead > LARGEST_GUMBEL:
            continue
        if ahead > 0.0 and surely_below(hashed(bits + np.uint64(place + 1) * WEYL), ahead):
            continue
        arms[y].noise = heat * gumbel_at(bits, place)
        prepare(contest, y)
        low, high = low_and_high(contest, y)
        if high >= floor:
            floor = max(floor, low)
            arms[y].variance = high  # for the moment
            racing[lo + entered] = y
            entered += 1
    stay = 0
    for k in range(entered):
        y = racing[lo + k]
        if arms[y].variance >= floor:
            racing[lo + stay] = y
            stay += 1
    return stay


@jit(inner="always")
def leader_of(contest, lo, count):
    """The cluster with the highest score."""
    best = contest.racing[lo]
    for k in range(lo + 1, lo + count):
        if contest.arms[contest.racing[k]].score > contest.arms[best].score:
            best = contest.racing[k]
    return best


@jit(inner="always")
def drop(contest, lo, count, bound):
    """Drop clusters that are behind the leader by `bound` standard errors; return how many stay."""
    arms, racing = contest.arms, contest.racing
    best = leader_of(contest, lo, count)
    top, noise, left = arms[best].score, arms[best].variance, lo
    for k in range(lo, lo + count):
        y = racing[k]
        error = sqrt(noise + arms[y].variance)
        if y == best or top - arms[y].score < bound * error:
            racing[left] = y
            left += 1
    return left - lo


@jit(inner="always")
def estimate(contest, y):
    """Score and its variance from what was read of a cluster."""
    arm, size, numbers = contest.arms[y], contest.members.size[y], contest.numbers
    t = float(arm.drawn)
    arm.score = contest.known[y] + arm.noise + arm.total * (size / t)
    if arm.drawn == size:
        arm.variance = 0.0
        return
    # A few equal scores must not pass for certainty: a pseudo-observation of the usual spread.
    squares = max(0.0, arm.second - arm.first * arm.first / t) + numbers.prior * arm.spread
    finite = 1.0 - (t - 1.0) / (size - 1.0)
    arm.variance = size * size * squares / max(t - 1.0 + numbers.prior, 1e-9) / t * finite


# ---------------------------------------------------------------------------- the draw of a mention
@memoised
def readers(controlled: bool) -> tuple[Any, Any]:
    """read(...) some members more of a cluster, and total(...) of a cluster, compiled."""

    @jit(inner="always")
    def score_members(contest, scores, b, i, y, lo, hi):
        """Write scores of members lo .. hi - 1 into contest.values; False if one is no number."""
        m, at = contest.members, contest.members.start[b]
        rows = m.pool[m.first[y] + lo : m.first[y] + hi]
        out = contest.values[at : at + hi - lo]
        fill_scores(scores, i, rows, out)
        for k in range(hi - lo):
            if not abs(out[k]) < LARGEST:
                m.now[b].bad, m.now[b].i, m.now[b].j = 1, i, rows[k]
        return m.now[b].bad == 0

    @jit(inner="always")
    def read(contest, scores, b, i, y, target):
        m, arm, at = contest.members, contest.arms[y], contest.members.start[b]
        lo = arm.drawn
        if target < m.size[y]:
            bring_forward(m, contest.rows[b : b + 1], y, lo, target)
        if not score_members(contest, scores, b, i, y, lo, target):
            return False
        for k in range(target - lo):
            value = contest.values[at + k]
            if controlled:
                value -= pair_score(contest.sums, i, m.pool[m.first[y] + lo + k])
            if lo + k == 0:
                arm.shift = value
            d = value - arm.shift
            arm.total += value
            arm.first += d
            arm.second += d * d
        arm.drawn = target
        return True

    @jit(inner="always")
    def total(contest, scores, b, i, y):
        at, value = contest.members.start[b], 0.0
        if score_members(contest, scores, b, i, y, 0, contest.members.size[y]):
            for k in range(contest.members.size[y]):
                value += contest.values[at + k]
        return value

    return read, total


@jit(inner="always")
def choose_known(contest, scores, b, i, heat, audit):
    """The draw where the control variate is the score: sums are known, and no pair is read."""
    m, tally = contest.members, contest.tally[b]
    if m.now[b].clusters == 0:
        count_decision(tally, 0)
        count_end(tally, ALONE)
        return empty_label(m, b)
    count_decision(tally, m.start[b + 1] - m.start[b] - 1)
    count_end(tally, PREDICTED)
    count = enter_all(contest, b, heat, True, i)
    return leader_of(contest, m.start[b], count)


@memoised
def chooser(scored: bool, controlled: bool, racing: bool) -> Any:
    """choose(contest, scores, b, i, heat, audit) -> label for a mention in no cluster; -1: bad.

    scored: is there a similarity, else the control variate is the score.
    """
    if not scored:
        return choose_known
    controlled = controlled and racing
    read, total = readers(controlled)

    @jit(inner="always")
    def audited(contest, scores, b, i, heat, chosen):
        """Decide again, exactly, under the same noise; False if a score is no number."""
        m, lo, tally = contest.members, contest.members.start[b], contest.tally[b]
        count = m.now[b].clusters + 1
        bits = contest.noises[b] - np.uint64(count) * WEYL  # where this decision's noise begins
        first, runner, own = -np.inf, -np.inf, -np.inf
        for k in range(count):
            y = m.alive[lo + k]
            value = contest.numbers.new
            if k < count - 1:
                value = total(contest, scores, b, i, y)
            value += heat * gumbel_at(bits, k)
            own = value if y == chosen else own
            runner = max(runner, min(first, value))
            first = max(first, value)
        # The same numbers added in another order: within rounding of the best is the best.
        wrong = first - own > 1e-9 * (1.0 + abs(first))
        count_audit(tally, wrong, first - own, first - runner if runner > -np.inf else 0.0)
        return m.now[b].bad == 0

    @jit(inner="always")
    def race_on(contest, scores, b, i, count):
        """Read more of every cluster, look by look, until one is left or all are read."""
        m, arms, tally, numbers = contest.members, contest.arms, contest.tally[b], contest.numbers
        lo, largest, early, before = m.start[b], 0, 0, count
        for k in range(lo, lo + count):
            largest = max(largest, m.size[contest.racing[k]])
        bound = boundary(numbers, largest, count - 1)
        while True:
            unread = 0
            for k in range(lo, lo + count):
                y = contest.racing[k]
                size, drawn = m.size[y], arms[y].drawn
                if drawn < size:
                    target = next_target(numbers, size, drawn) if racing else size
                    if not read(contest, scores, b, i, y, target):
                        return -1
                    tally.pulls += target - drawn
                    estimate(contest, y)
                    unread += size - target
                elif size == 0:
                    arms[y].variance = 0.0
            tally.rounds += 1
            left = drop(contest, lo, count, bound)
            early = 1 if unread > 0 and left < count else early
            count = left
            if unread == 0 or count == 1:
                break
        tally.early += early if before == m.now[b].clusters + 1 else 0
        if not racing:
            count_end(tally, EXACT)
        else:
            count_end(tally, RACED if unread > 0 else EXHAUSTED)
        return leader_of(contest, lo, count)

    @jit(inner="always")
    def choose(contest, scores, b, i, heat, audit):
        m, tally = contest.members, contest.tally[b]
        if m.now[b].clusters == 0:
            count_decision(tally, 0)
            count_end(tally, ALONE)
            return empty_label(m, b)
        count_decision(tally, m.start[b + 1] - m.start[b] - 1)
        lo = m.start[b]
        if controlled:
            count = enter_likely(contest, b, heat, i)
        else:
            count = enter_all(contest, b, heat, False, i)
        tally.early += 1 if count <= m.now[b].clusters else 0
        if count == 1:
            count_end(tally, PREDICTED)
            chosen = contest.racing[lo]
        else:
            chosen = race_on(contest, scores, b, i, count)
            if chosen < 0:
                return -1
        if audit > 0.0 and uniform(contest.audits[b : b + 1]) < audit:
            if not audited(contest, scores, b, i, heat, chosen):
                return -1
        return chosen

    return choose
