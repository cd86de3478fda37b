"""One decision of a kernel: by its selector, with its bookkeeping, and now and then audited."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.control import (
    Control,
    check_control,
    grain_of_residuals,
    make_controls,
    prepared_for,
    with_range,
)
from subsample_mcmc.approx.prediction import prediction, questions_of, residual_sources
from subsample_mcmc.approx.thinned_draws import distances, thinned_draw
from subsample_mcmc.approx.thinning import known_sums, negative_parts, thinned_choice
from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.racing import Racing
from subsample_mcmc.decisions.rules.betting import Betting
from subsample_mcmc.decisions.rules.rule import (
    ALL_IMPOSSIBLE,
    ALONE,
    EXACT,
    EXHAUSTED,
    NOT_FINITE,
    PREDICTED,
    RACED,
    RETREATED,
    Outcome,
)
from subsample_mcmc.decisions.selector import Selector, not_a_sum, possible_arms
from subsample_mcmc.decisions.thinned import Thinned
from subsample_mcmc.kernels.base import ANY_CHAIN, BOUND
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import (
    NUMBER,
    FunctionAddress,
    RecordAddress,
    call_decision,
    call_record,
)
from subsample_mcmc.numerics.rows import chance_of_audit, is_audited, row_kind
from subsample_mcmc.target.elsewhere.resident import TOGETHER
from subsample_mcmc.target.layout import TALLY
from subsample_mcmc.target.population import Shape
from subsample_mcmc.target.rewards import (
    ALL,
    TOUCHED,
    Sources,
    Trial,
    make_trial,
    place,
)

UNASKED = -1.0  # in the place of a share, where a run was told nothing of audits (see NOW)
PART, FIRST = 0.2, 16  # they read such a part of what decisions read, of so many or more
UNPROVED = ("asymptotic", "none")  # promises of which audits say more
# What Case.spent has: decisions, rewards read, by all those that may be wrong if they are made
# exactly, by the dearest one, and the chance of an audit.
MADE, READ, AGAIN, DEAREST, CHANCE = range(5)
SAMPLED = 1024  # rows that an audit measures the skewness of a difference on


@jit(inner=True)
def nothing_known(case, current):
    """Without a control variate nothing precedes the race."""
    return -1, -1, 0


@jit(inner=True)
def raced_rows(trial):
    return trial.target[0].rows


@jit(inner=True)
def all_rows(trial):
    return trial.control.size


@jit(inner=True)
def evenly(case):
    """Choose rows evenly spaced; return how many."""
    rows = case.trial.target[0].rows
    count = min(rows, SAMPLED)
    for i in range(count):
        case.sample[i] = i * rows // count
    return count


@jit(inner=True)
def evenly_raced(case):
    """Choose rows evenly spaced, but for those that are always read."""
    rows, outliers = case.trial.control.size, case.trial.control.outliers
    tries, count, at = min(rows, SAMPLED), 0, 0
    for i in range(tries):
        row = i * rows // tries
        while at < len(outliers) and outliers[at] < row:
            at += 1
        if at == len(outliers) or outliers[at] != row:
            case.sample[count] = row
            count += 1
    return count


def deciders(
    model, selector: Selector, touched: bool, control: Control | None = None, draws: bool = False
) -> tuple[Any, Any]:
    """(decide(chain, case, current) -> arm, again(case, arm): the audit of one), compiled.

    The arm is -1 after an error, and the state as it was.
    """
    sources, predict = TOUCHED if touched else ALL, None
    if control is not None:
        functions = prepared_for(model, control).functions
        if selector.thins:
            if draws:
                choose, before, again = thinned_draw(sources, functions), distances(functions), None
            else:
                choose, before = thinned_choice(sources, functions), known_sums(functions)
                again = negative_parts(functions)
            return make_decider(choose, nothing_to_resize, touched, before), again
        predict = prediction(sources, functions, place, questions_of(selector, functions))
        sources = residual_sources(sources, functions)
    resize = selector.resize() if touched else nothing_to_resize
    decide = make_decider(selector.build(sources), resize, touched, predict)
    return decide, make_auditor(sources, control is not None)


@jit(inner=True)
def nothing_to_resize(params, scratch, rows):
    """For decisions about all data, whose number stays."""


@memoised
def make_auditor(sources: Sources, controlled: bool) -> Any:
    """again(case, chosen), compiled: an arm whose sum is no number, or -1; counts an audit."""
    rewards, total, _ = sources
    spread_rows = evenly_raced if controlled else evenly

    @jit(inner=True)
    def compare(case, best, second):
        """Variance and skewness of the difference of two arms, over evenly spaced rows."""
        trial, tally = case.trial, case.tally[0]
        rows, count = trial.target[0].rows, spread_rows(case)
        rewards(trial, best, case.sample[:count], case.values[0, :count])
        rewards(trial, second, case.sample[:count], case.values[1, :count])
        mean, square, cube = 0.0, 0.0, 0.0
        for i in range(count):
            mean += (case.values[0, i] - case.values[1, i]) / count
        for i in range(count):
            d = case.values[0, i] - case.values[1, i] - mean
            square += d * d / count
            cube += d * d * d / count
        # -inf among the rewards, or no difference: nothing to measure.
        if square > 1e-28 * mean * mean:
            tally.variance += rows * square
            tally.skewness += abs(cube) / square**1.5

    @jit(inner="entry")
    def again(case, chosen):
        """Decide again, exactly, under the same offsets; return an arm that is no number, or -1."""
        trial, offsets, tally = case.trial, case.offsets, case.tally[0]
        best, second, score, first, runner = -1, -1, -np.inf, -np.inf, -np.inf
        unknown = -1
        for arm in range(len(offsets)):
            if offsets[arm] == -np.inf:
                continue
            value = offsets[arm] + total(trial, arm, trial.target[0].rows)
            if not_a_sum(value):
                if case.wanted[1] == 0:
                    return 1.0 * arm
                unknown = arm
            if arm == chosen:
                score = value
            if value > first:
                best, second, first, runner = arm, best, value, first
            elif value > runner:
                second, runner = arm, value
        if unknown >= 0:  # nothing is counted: these steps are made again once sums are known
            return 1.0 * unknown if case.wanted[1] == TOGETHER else -1.0
        # The same numbers added in another order: within rounding of the best is the best.
        wrong = best != chosen and first - score > 1e-13 * abs(first)
        two = second >= 0 and runner > -np.inf
        count_audit(tally, wrong, first - score, first - runner if two else 0.0)
        if two:
            compare(case, best, second)
        return -1.0

    return again


@memoised
def make_decider(choose: Any, resize: Any, touched: bool, predict: Any) -> Any:
    """decide() of a compiled choice; predict: what precedes it, with a control variate.

    resize(params, scratch, rows): where sites touch different numbers of data.
    """
    before = nothing_known if predict is None else predict
    len_of = raced_rows if predict is None else all_rows

    @jit(inner="always")
    def settled(chain, case, current):
        trial, tally, now = case.trial, case.tally[0], chain.now[0]
        resize(case.params, case.scratch, trial.target[0].rows)
        possible, _ = possible_arms(case.offsets)
        everything, pulls = possible * len_of(trial) if possible > 1 else 0, tally.pulls
        none, only, risk = before(case, current)
        if none >= 0:
            fail(now, trial, NOT_FINITE, none, -1)
            place(trial, current)
            return -1
        if only >= 0:
            made = Outcome(only, 0, 0, PREDICTED, 0, -1, -1)
        else:
            made = choose(chain.rows, trial, case.left, case.params, case.scratch)
        count_decision(tally, everything)
        count_end(tally, made.ended)
        tally.pulls += made.pulls
        tally.rounds += made.rounds
        early = made.dropped_early > 0 or risk == 1
        tally.early += 1 if early else 0
        if made.ended < 0:
            row = made.bad_row
            if touched and row >= 0:
                row = trial.indices[trial.target[0].first + row]
            fail(now, trial, made.ended, made.bad_arm, row)
            place(trial, current)
            return -1
        pulls = tally.pulls - pulls
        if case.audit != 0 and wants_audit(chain, case.spent, early, everything, pulls):
            trial.target[0].asleep += 1  # an audit leaves no trace
            none = np.int64(call_record(case.audit, case, made.arm))
            trial.target[0].asleep -= 1
            if none >= 0:  # a race may not have read the datum that is no number
                fail(now, trial, NOT_FINITE, none, -1)
                place(trial, current)
                return -1
        tally.accepted += 1 if made.arm != current else 0
        place(trial, made.arm)
        return made.arm

    @jit(inner="entry", user=True)
    def decide(chain, case, current):
        return 1.0 * settled(chain, case, current)

    return decide


@jit(inner=True)
def wants_audit(chain, spent, early, everything, pulls):
    """Is this decision, of so many rewards if it is made exactly, made again.

    Unasked, only those that may be wrong are, which dropped an arm early: all with one chance, by
    which audits read a part of what decisions read. It stays until twice as many were made, so that
    neither what one costs nor its place in a sweep decides. In warm-up nobody counts audits.
    """
    now = chain.now[0]
    if now.audit >= 0.0:
        return is_audited(chain)
    audited = chance_of_audit(chain) < spent[CHANCE] and early and now.warm == 0
    spent[MADE] += 1.0
    spent[READ] += pulls
    spent[AGAIN] += everything if early else 0
    spent[DEAREST] = max(spent[DEAREST], everything)
    made = np.int64(spent[MADE])
    if made >= FIRST and made & (made - 1) == 0:
        spent[CHANCE] = min(1.0, PART * spent[READ] / max(spent[AGAIN] + spent[DEAREST], 1.0))
    return audited


@jit(inner=True)
def fail(now, trial, code, arm, row):
    """Stop the chain: what went wrong, and where."""
    now.code, now.kernel, now.arm, now.row = code, trial.target[0].leaf, arm, row


class Judge(NamedTuple):
    """What the step of a kernel knows of its decision: nothing of how it is made."""

    trial: Trial  # without a control variate
    offsets: np.ndarray  # of the arms: what is known before any datum is read
    tally: np.recarray
    decide: Any  # (chain, case, current), called by its address; 0: nobody asks
    case: Any
    surrogate: Any = 0  # a function of the state that decides first (see sm.delayed)


class Case(NamedTuple):
    """What a decision is made with: the arms, the selector's numbers and arrays, and the counts."""

    trial: Trial
    offsets: np.ndarray
    left: np.ndarray  # the offsets that are raced: the same, less arms that are ruled out
    params: Any
    scratch: Any
    tally: np.recarray
    sample: np.ndarray  # rows, and rewards of two arms, that an audit looks at
    values: np.ndarray
    wanted: np.ndarray  # (2,) how many rows and sums are missing, of what is elsewhere
    spent: np.ndarray  # (5,) what the chance of an audit that nobody asked for is made of
    audit: Any = 0  # (case, chosen), called by its address; 0: decisions are not audited


@jit(inner="always")
def decide(chain, judge, current):
    """The arm chosen, which stands in the state; -1 after an error, the state as it was."""
    return np.int64(call_decision(judge.decide, chain, judge.case, current))


def make_judge(
    model,
    trial,
    selector: Selector,
    arms: int,
    tally,
    decide: Any,
    again: Any,
    bound: np.ndarray,
    wanted: np.ndarray,
    spent: np.ndarray,
    grain: float,
) -> Judge:
    """A kernel's means to decide between `arms` arms; decide, again: compiled, or None.

    bound: where a selector that thins adds up what it met. wanted, spent: see Case. grain: see
    grain_of_residuals.
    """
    barred = trial.control.outliers if trial.control else ()
    sizes = (int(trial.target[0].rows),) * arms
    shape = Shape(sizes, shared=True, barred=barred, residual_rewards=bool(trial.control))
    offsets = np.zeros(arms)
    trial, scratch = trial._replace(pulls=tally["pulls"]), selector.scratch(shape)
    if selector.thins:
        scratch = scratch._replace(bound=bound)
    if hasattr(scratch, "race"):
        scratch.race.now["grain"] = grain
    case = Case(
        trial, offsets, trial.control.left if trial.control else offsets, selector.params(shape),
        scratch, tally, np.zeros(SAMPLED, dtype=row_kind(model.size)),
        np.zeros((2, SAMPLED)), wanted, spent,
    )  # fmt: skip
    asked: Any = 0
    if again is not None:
        case = case._replace(audit=FunctionAddress(again, case, NUMBER))
    if decide is not None:
        asked = FunctionAddress(decide, ANY_CHAIN, case, NUMBER)
    return Judge(trial._replace(control=()), offsets, tally, asked, RecordAddress(case))


@dataclass(frozen=True)
class Decision:
    """What a kernel asks: which of so many arms, by which selector, with which control variate.

    Its methods are what all kernels that decide do alike: refuse, and bind to a chain. In bind() a
    kernel registers what it keeps (run.keep) before it calls this one.

    selector: what decides.
    control: the control variate, or None.
    arms: how many.
    touched: is it about the rows that a site touches, not about all.
    proposes: is it Metropolis-Hastings': the log of u among the offsets.
    draws: is it a draw from a distribution over the arms: with Gumbels among them.
    """

    selector: Selector
    control: Control | None
    arms: int = 2
    touched: bool = False
    proposes: bool = False
    draws: bool = False

    def check(self, model, block: str) -> None:
        """Refuse a control variate that the model or the selector cannot go with."""
        if self.selector.thins and not (self.proposes or self.draws):
            raise ValueError(
                f"block {block!r}: {self.selector!r} decides about proposals, in sm.Metropolis and "
                "sm.Langevin, and draws, in sm.Gibbs without a temperature; this kernel asks "
                "another question. sm.Exact() serves it, and sm.Racing(sm.Betting()) with a bound "
                "of its error."
            )
        check_control(self.control, model, block, self.selector, self.arms)

    def usual_selector(self, model, block: str) -> Selector:
        """What decides where no selector was given: exactly, by few rows, where bounds allow it.

        And by all rows where the control variate explains too little for a race to read fewer.
        """
        if self.control is None or not (self.proposes or self.draws):
            return Racing()
        check_control(self.control, model, block, Racing(), self.arms)
        known = prepared_for(model, self.control)
        if model.elsewhere is not None:  # weights of all rows would be kept in memory
            return Racing(Betting()) if known.proved else Racing()
        if known.slight and self.proposes:
            return Exact()
        return Thinned() if known.thins and (known.absolute or not self.draws) else Racing()

    def deciders(self, model) -> tuple[Any, Any]:
        """decide() and its audit, compiled."""
        return deciders(model, self.selector, self.touched, self.control, self.draws)

    def bind(
        self, model, run, block, rows: int, made: tuple, candidates=None, indices=None, beside=None
    ) -> Judge:
        """What one chain decides with; made: deciders(), or (None, None) where nobody asks.

        The other arguments are those of make_trial.
        """
        controls = make_controls(self.control, model, self.selector, self.arms)
        trial = make_trial(model, run, block, rows, candidates, indices, controls, beside)
        unasked = run.unasked and self.selector.guarantee in UNPROVED
        spent = run.keep("audits", np.zeros(5)) if unasked else np.zeros(5)
        counted = len(TALLY.names or ())
        words = run.next_words(counted + len(BOUND if self.selector.thins else ()))
        selector = with_range(self.selector, self.control, model, self.arms)
        decide, again = made
        return make_judge(
            model, trial, selector, self.arms, tally_of(words), decide,
            again if run.audited or unasked else None, words[counted:].view(float),
            np.zeros(2, np.int64) if run.data is None else run.data.resident_told, spent,
            grain_of_residuals(model, self.control),
        )  # fmt: skip


@memoised
def in_one_loop(touched: bool) -> Any:
    """decide(chain, case, current) for few data: sums and an argmax, no selector between."""
    total = (TOUCHED if touched else ALL).total

    @jit(inner="entry")
    def summed(chain, case, current):
        trial, tally = case.trial, case.tally[0]
        rows = trial.target[0].rows
        best, highest, everything, wrong = -1, -np.inf, 0, -1
        for arm in range(len(case.offsets)):  # all: sums of rows elsewhere are one pass
            if case.offsets[arm] == -np.inf:
                continue
            value = total(trial, arm, rows)
            tally.pulls += rows
            everything += rows
            if not_a_sum(value):
                wrong = arm if wrong < 0 else wrong
            elif case.offsets[arm] + value > highest:
                best, highest = arm, case.offsets[arm] + value
        if wrong >= 0 or best < 0:
            fail(chain.now[0], trial, NOT_FINITE if wrong >= 0 else ALL_IMPOSSIBLE, wrong, -1)
            place(trial, current)
            return -1.0
        count_decision(tally, everything)
        count_end(tally, EXACT)
        tally.accepted += 1 if best != current else 0
        place(trial, best)
        return 1.0 * best

    return summed


# --------------------------------------------------------------------------------- what is counted


def tally_of(words: np.ndarray) -> np.recarray:
    """A leaf's statistics as a record that its step counts in."""
    return words[: len(TALLY.names or ())].view(TALLY).view(np.recarray)


@jit(inner="always")
def count_decision(tally, everything):
    """One decision more; everything: rewards that an exact one reads."""
    tally.decisions += 1
    tally.everything += everything


@jit(inner="always")
def count_end(tally, ended):
    """How it ended; codes of errors are not counted."""
    if ended == ALONE:
        tally.alone += 1
    elif ended == EXACT:
        tally.exact += 1
    elif ended == PREDICTED:
        tally.predicted += 1
    elif ended == RACED:
        tally.raced += 1
    elif ended == EXHAUSTED:
        tally.exhausted += 1
    elif ended == RETREATED:
        tally.retreated += 1


@jit(inner="always")
def count_audit(tally, wrong, lost, margin):
    """It was made again, exactly: was it wrong, by how many nats; margin: between the best two."""
    tally.audited += 1
    tally.margin += margin
    if wrong:
        tally.wrong += 1
        tally.regret += lost
