"""Does the sum of scores over all pairs of two parts reach a bar: exactly, or by a sample of pairs.

The sample grows until the sum is B standard errors away from the bar (Chen & Ghahramani 2016, a
race of two arms); with a control variate it is about what that leaves over.
"""

from math import sqrt
from typing import Any

from subsample_mcmc.decisions.rules.rule import EXACT, EXHAUSTED, PREDICTED, RACED
from subsample_mcmc.kernels.decision import count_audit, count_decision, count_end
from subsample_mcmc.kernels.partition.cluster_race import level_of
from subsample_mcmc.kernels.partition.cluster_sums import pair_score
from subsample_mcmc.kernels.partition.pair_scores import LARGEST, fill_scores
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.rows import draw, uniform

FEW = 512  # pairs up to which all are read
WIDER = 2.0  # times the control's reach before it decides alone: parts differ more than mentions
FIRST = 64  # pairs of the first look; each look doubles them


@jit(inner=True)
def part_scores(contest, extra, b, lo, middle, hi):
    """The control variate's score, summed over all pairs of two parts: O(tokens)."""
    s, parts = contest.sums, extra.parts
    value = s.constant[0] * (middle - lo) * (hi - middle)
    for p in range(middle, hi):
        j = parts[p]
        for k in range(s.tokens[j], s.tokens[j + 1]):
            extra.weight[s.token[k]] += s.right[k]
        for t in range(len(s.category)):
            c = s.category[t, j]
            if c >= 0:
                for other in range(s.offset[t], s.offset[t + 1]):
                    extra.column[b, other] += s.table[s.offset[t] + c, other - s.offset[t]]
    for p in range(lo, middle):
        i = parts[p]
        for k in range(s.tokens[i], s.tokens[i + 1]):
            value += s.left[k] * extra.weight[s.token[k]]
        for t in range(len(s.category)):
            if s.category[t, i] >= 0:
                value += extra.column[b, s.offset[t] + s.category[t, i]]
    for p in range(middle, hi):  # all zero again
        j = parts[p]
        for k in range(s.tokens[j], s.tokens[j + 1]):
            extra.weight[s.token[k]] = 0.0
    for other in range(extra.column.shape[1]):
        extra.column[b, other] = 0.0
    return value


@jit(inner=True)
def score_of_one(contest, scores, b, i, j):
    """The score of one pair; contest.members.now tells a bad one."""
    at = contest.members.start[b]
    rows, out = contest.racing[at : at + 1], contest.values[at : at + 1]
    rows[0] = j
    fill_scores(scores, i, rows, out)
    if not abs(out[0]) < LARGEST:
        now = contest.members.now[b]
        now.bad, now.i, now.j = 1, i, j
    return out[0]


@memoised
def sum_of_pairs(scored: bool, controlled: bool, racing: bool) -> Any:
    """reaches(contest, scores, extra, b, lo, middle, hi, bar, audit): 1 if the sum reaches bar."""
    if not scored:

        @jit(inner=True)
        def known(contest, scores, extra, b, lo, middle, hi, bar, audit):
            tally = contest.tally[b]
            count_decision(tally, (middle - lo) * (hi - middle))
            count_end(tally, PREDICTED)
            return 1 if part_scores(contest, extra, b, lo, middle, hi) >= bar else 0

        return known

    @jit(inner=True)
    def exact(contest, scores, extra, b, lo, middle, hi):
        m, value, at = contest.members, 0.0, contest.members.start[b]
        rows, out = extra.parts[middle:hi], contest.values[at : at + hi - middle]
        for p in range(lo, middle):
            i = extra.parts[p]
            fill_scores(scores, i, rows, out)
            part = 0.0
            for k in range(hi - middle):
                part += out[k]
                if not abs(out[k]) < LARGEST:
                    m.now[b].bad, m.now[b].i, m.now[b].j = 1, i, rows[k]
            value += part
        return value

    @jit(inner=True)
    def foreseen(contest, known, pairs, bar):
        """1 or 0 if what the control variate usually leaves over cannot matter; else -1."""
        left, size = contest.sums.left_over, float(pairs)
        at = level_of(left, known / size)
        apart = known + size * left.shift[at] - bar
        spread = size * (size * left.between[at] + left.within[at])
        if abs(apart) <= WIDER * left.reach[0] * sqrt(spread):
            return -1
        return 1 if apart > 0.0 else 0

    @jit(inner=True)
    def raced(contest, scores, extra, b, lo, middle, hi, bar):
        """1 or 0 if a sample decides; -1 if all pairs must be read, -2 if so after a sample."""
        tally, stream, parts = contest.tally[b], contest.rows[b : b + 1], extra.parts
        pairs = (middle - lo) * (hi - middle)
        known = 0.0
        if controlled:
            known = part_scores(contest, extra, b, lo, middle, hi)
            found = foreseen(contest, known, pairs, bar)
            if found >= 0:
                count_end(tally, PREDICTED)
                return found
        if pairs <= FEW:
            return -1
        looks, reach = 0, FIRST
        while 4 * reach <= pairs:
            looks, reach = looks + 1, 2 * reach
        bound = contest.numbers.bounds[min(looks, contest.numbers.bounds.shape[0] - 1), 0]
        count, target, total, square, shift = 0, FIRST, 0.0, 0.0, 0.0
        while 4 * target <= pairs:
            while count < target:
                i = parts[lo + draw(stream, middle - lo)]
                j = parts[middle + draw(stream, hi - middle)]
                value = score_of_one(contest, scores, b, i, j)
                if controlled:
                    value -= pair_score(contest.sums, i, j)
                shift = value if count == 0 else shift
                total += value - shift
                square += (value - shift) * (value - shift)
                count += 1
            tally.pulls += target if target == FIRST else target // 2
            tally.rounds += 1
            if contest.members.now[b].bad == 1:
                return 0
            mean, t = total / count, float(count)
            # Not less than usual: rare large scores are those that a sample has not met.
            usual = contest.numbers.spread
            if controlled:
                left = contest.sums.left_over
                usual = left.within[level_of(left, known / pairs)]
            usual = usual if contest.numbers.prior > 0.0 else 0.0
            spread = max(square / t - mean * mean, usual)
            apart = known + pairs * (mean + shift) - bar
            if abs(apart) > bound * pairs * sqrt(spread / t):
                return 1 if apart > 0.0 else 0
            target *= 2
        return -2 if count > 0 else -1

    @jit(inner=True)
    def reaches(contest, scores, extra, b, lo, middle, hi, bar, audit):
        tally, pairs, found = contest.tally[b], (middle - lo) * (hi - middle), -1
        before = tally.predicted
        count_decision(tally, pairs)
        if racing:
            found = raced(contest, scores, extra, b, lo, middle, hi, bar)
        if found >= 0:
            if tally.predicted == before:
                count_end(tally, RACED)
            tally.early += 1
        else:
            count_end(tally, EXACT if found == -1 else EXHAUSTED)
            tally.pulls += pairs
            found = 1 if exact(contest, scores, extra, b, lo, middle, hi) >= bar else 0
        if audit > 0.0 and uniform(contest.audits[b : b + 1]) < audit:
            apart = exact(contest, scores, extra, b, lo, middle, hi) - bar
            count_audit(tally, (apart >= 0.0) != (found == 1), abs(apart), abs(apart))
        return found

    return reaches
