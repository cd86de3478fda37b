"""Short runs of candidates for a model's kernel, and which of them they say is the best.

They count effective draws of the slowest quantity a second; where a run is over at once whatever
the kernel, a draw.
"""

import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from subsample_mcmc.kernels.base import GUARANTEES, Kernel
from subsample_mcmc.kernels.compose import repeat
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.runs.sample import sample
from subsample_mcmc.runs.views.findings import lost_much, more_than_delta
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.reuse.append import is_mapped

EXACT = GUARANTEES[0]
SHARE = 0.1  # of the time of the run that all pilots may take
# Draws that tell something; seconds that pilots may take of any run, and each that makes so many.
LEAST, FLOOR = 200, 1.0
MOST = 4_000  # draws of a pilot
INSTANT = 0.25  # seconds of a run to come, below which more effective draws are better than fewer
AWHILE = 60.0  # seconds of a run by what no pilot had time for, where nothing else mixes
QUICKEST = 2e-9  # seconds in which a datum is read at best
BRIEF = 0.02  # seconds of steps that are long enough to time
# Times as fast, below which the earlier candidate is taken: by long pilots, and by short ones.
CLOSE, ROUGH, LONG = 1.15, 1.5, 1_000
# Of draws, so many should be effective: where fewer are, each is the last of several steps, if all
# of them take less than FLOOR, or this part of the time in which the kernel was chosen.
RICH, TIMES, PART = 0.5, 20, 0.5
FEWEST, AUDITED = 10, 400  # draws of a pilot whose decisions are audited
MIXED = 10.0  # effective draws, below which a chain that stands still or drifts looks the same


@dataclass(frozen=True)
class Candidate:
    """A kernel, and the code that makes it."""

    name: str
    setup: tuple[str, ...]  # lines that go before
    code: str
    kernel: Kernel
    guarantee: str  # the weakest, with the selectors that it decides by
    by_all: "Callable[[], Candidate] | None" = None  # the same, every decision by all data
    share: float | None = None  # of its draws, so many are effective, as its pilot says


def first_sentence(error: BaseException) -> str:
    """Of a message: the rest is advice on what was not asked for."""
    told = str(error).split(". ")[0].splitlines()[0] if str(error) else type(error).__name__
    return told if len(told) < 160 else told[:157] + "..."


def by_pilots(
    model: Model, found: list[Candidate], start: dict | None, steps: int, progress: bool,
    spare: Candidate | None = None,
) -> tuple[list[Candidate], list[str]]:  # fmt: skip
    """(candidates that ran, the best first, what pilots found); spare: where none of them mixes."""
    costs: dict[str, float] = {}
    rates: dict[str, float] = {}
    shared: dict[str, float] = {}
    notes: list[str] = []
    bar = Bar(found, "pilots", progress=progress)
    for candidate in bar:
        bar.set_postfix_str(f"{candidate.name}: compiling, and timing a step")
        try:
            costs[candidate.name] = step_cost(model, candidate.kernel, start)
        except (ValueError, TypeError) as error:
            notes.append(f"{candidate.name}: it failed. {first_sentence(error)}")
    able = [c for c in found if c.name in costs]
    if not able:  # let the run say what is wrong
        return found, notes
    budget, short = max(FLOOR, SHARE * steps * min(costs.values())) / len(able), False
    instant = INSTANT / steps
    for candidate in sorted(able, key=lambda c: costs[c.name]):
        cost = costs[candidate.name]
        draws = int(min(budget / cost / 2.0, MOST))
        if draws < LEAST and 2.0 * LEAST * cost <= FLOOR:
            draws = LEAST
        # At most one effective draw a step: what is already slower than the best need not run.
        slow = rates and 1.0 / max(cost, instant) < max(rates.values())
        if slow or draws < LEAST:
            why = "slower than the best at its best" if slow else "too slow for a pilot"
            notes.append(f"{candidate.name}: {told_time(cost)} a step, {why}")
            continue
        try:
            shares, seconds = effective(model, candidate.kernel, start, draws)
        except (ValueError, TypeError) as error:
            notes.append(f"{candidate.name}: it failed. {first_sentence(error)}")
            del costs[candidate.name]
            continue
        shared[candidate.name] = shares
        rates[candidate.name], short = shares / max(seconds, instant), short or draws < LONG
        shown = f"{shares / seconds:,.3g} effective draws a second of the slowest quantity"
        if shares == 0.0:
            shown = f"it did not mix in {draws} draws"
        notes.append(f"{candidate.name}: {shown}, {told_time(cost)} a step")
    able = [c for c in able if c.name in costs] or able
    if not rates:  # no time to tell: the cheapest step of those that follow a fit, if there is one
        follow = {c.name for c in able if c.setup and "along=" not in c.code}
        return sorted(able, key=lambda c: (c.name not in follow, costs[c.name])), notes
    if not any(rates.values()):  # what is known not to mix is no choice, if others take no hours
        if spare is not None and spare.code not in {c.code for c in found}:
            with suppress(ValueError, TypeError):
                costs[spare.name] = step_cost(model, spare.kernel, start)
                able.append(spare)
        untried = [c for c in able if c.name not in rates and costs[c.name] * steps < AWHILE]
        if untried:
            first = min(untried, key=lambda c: costs[c.name])
            return [first, *(c for c in able if c is not first)], notes
    top, close = max(rates.values()), ROUGH if short else CLOSE
    best = next(c for c in able if c.name in rates and close * rates[c.name] >= top)
    others = [c for c in able if c is not best]
    return [replace(best, share=shared[best.name]), *others], notes


def certain(
    model: Model, best: Candidate, start: dict | None, steps: int
) -> tuple[Candidate, list[str]]:
    """(the candidate, decided by all data where the run is over at once even so; a note of it).

    A race that may err is for data that take long to read; of few it saves nothing that is felt.
    """
    instant = INSTANT / steps
    few = model.elsewhere is None and model.size * QUICKEST < instant
    if best.guarantee == EXACT or best.by_all is None or not few:
        return best, []
    try:
        other = best.by_all()
        cost = step_cost(model, other.kernel, start)
    except (ValueError, TypeError):  # as of blocks that only a control variate goes between
        return best, []
    if cost > instant:
        return best, []
    told = f"by all data a step takes {told_time(cost)}, so none of its decisions is an estimate"
    return replace(other, share=best.share), [f"{best.name}: {told}"]


def audited(
    model: Model, best: Candidate, start: dict | None, steps: int
) -> tuple[Candidate, list[str]]:
    """(the candidate, by all data where a pilot's audits say that its races err; a note of it).

    Without a control variate a race sees nothing of few rows that hold what is known, such as the
    events of a rare kind. It takes as long as other pilots, with each decision made again exactly.
    """
    blind = best.guarantee == "asymptotic" and "control=" not in best.code
    if not blind or best.by_all is None or model.elsewhere is not None:
        return best, []
    try:
        room = max(FLOOR, SHARE * steps * step_cost(model, best.kernel, start))
        few = run(model, best.kernel, start, FEWEST, 0, audit=1.0)
        draws = int(min(0.5 * room * FEWEST / max(seconds_of(few, model), 1e-9), AUDITED))
        trace = run(model, best.kernel, start, draws, draws, audit=1.0) if draws > FEWEST else few
        wrong = [row for row in trace.report().rows if more_than_delta(row) or lost_much(row)]
        other = best.by_all() if wrong else best
    except (ValueError, TypeError):  # as of blocks that only a control variate goes between
        return best, []
    if not wrong:
        return best, []
    row = max(wrong, key=lambda one: one["error"])
    told = (
        f"{row['wrong']} of {row['audited']} decisions of an audited pilot were wrong, by up to "
        f"{row['regret_worst']:.3g} nats, so all are by all data"
    )
    return replace(other, share=best.share), [f"{best.name}: {told}"]


def several_a_draw(
    model: Model, best: Candidate, start: dict | None, steps: int, waited: float
) -> tuple[Candidate, list[str]]:
    """(the candidate, repeated where its draws say little each and time is no matter; a note).

    waited: seconds, so far, of choosing.
    """
    room = max(FLOOR, PART * waited)
    if best.share is None or best.share >= RICH or model.elsewhere is not None:
        return best, []
    if model.size * QUICKEST * steps >= room:
        return best, []
    times = ceil(RICH / max(best.share, RICH / TIMES))
    times = min(times, int(room / steps / step_cost(model, best.kernel, start)))
    if times < 2:
        return best, []
    code, kernel = f"sm.repeat({best.code}, {times})", repeat(best.kernel, times)
    soon = (
        "a second in all"
        if room == FLOOR
        else f"{room:.2g} s in all, and choosing took {waited:.2g}"
    )
    told = f"{best.name}: {times} times a draw, which takes less than {soon}"
    return replace(best, code=code, kernel=kernel), [told]


def at_once(
    model: Model, slices: Candidate | None, found: list[Candidate], start: dict | None, steps: int
) -> tuple[Candidate | None, list[str]]:
    """(slices by all data, a note of them), where their run is over at once; or None.

    Posteriors of few data have tails and corners that no Gaussian has. Proposals along a fit stand
    still there for hundreds of steps, and pilots, which begin at the fit, do not see it; slices
    are at home anywhere. Where none proposes along a fit, they may take as long as pilots.
    """
    along = any(c.setup and "proposal=" in c.code for c in found)
    soon = (INSTANT if along else FLOOR) / steps
    if slices is None or model.elsewhere is not None or model.size * QUICKEST >= soon:
        return None, []
    try:
        cost = step_cost(model, slices.kernel, start)
        if cost > soon:
            return None, []
        share, _ = effective(model, slices.kernel, start, LONG)
    except (ValueError, TypeError):
        return None, []
    told = f"by all data a step takes {told_time(cost)}, and the run less than pilots would"
    told = f"{slices.name}: {told}, so none of its decisions is an estimate"
    return replace(slices, share=share), [told]


def told_time(seconds: float) -> str:
    """In words."""
    return f"{1e6 * seconds:,.3g} us" if seconds < 1e-3 else f"{1e3 * seconds:,.3g} ms"


def run(
    model: Model, kernel: Kernel, start: dict | None, draws: int, warmup: int, audit: float = 0.0
) -> Any:
    """A pilot; Ctrl-C ends all of them, and the run that they are for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = sample(model, kernel, draws=draws, warmup=warmup, chains=1, seed=0, progress=False,
                       start=None if start is None else [start], audit=audit)  # fmt: skip
    if trace.interrupted:
        raise KeyboardInterrupt
    return trace


def step_cost(model: Model, kernel: Kernel, start: dict | None) -> float:
    """Seconds, of as few steps as can be timed."""
    run(model, kernel, start, 1, 0)  # compiles
    draws = 2
    while True:
        spent = seconds_of(run(model, kernel, start, draws, 0), model)
        last = draws >= MOST
        if (spent > BRIEF or last) and spent < FLOOR:
            # What a machine does besides makes it longer, never shorter: two steps that stood still
            # for a while are no dear ones, and more are timed then.
            spent = min(spent, seconds_of(run(model, kernel, start, draws, 0), model))
        if spent > BRIEF or last:
            return spent / draws
        draws *= 4


def effective(model: Model, kernel: Kernel, start: dict | None, draws: int) -> tuple[float, float]:
    """(effective draws of the slowest quantity in each draw, or 0; seconds a draw).

    After as many steps of warm-up.
    """
    trace, least = run(model, kernel, start, draws, draws), float(draws)
    spent = seconds_of(trace, model) / (2.0 * draws)
    for name in model.names:
        mixing = trace.mixing(name)
        if mixing.moved and mixing.ess == mixing.ess:
            least = min(least, mixing.ess)
        elif not model.variables[name].block.discrete:  # which may have one value
            return 0.0, spent
    return (least / draws if least >= MIXED else 0.0), spent


def seconds_of(trace: Any, model: Model) -> float:
    """Of a pilot's steps, while they had a core; where rows are in files, all that it waited, too.

    What is done beside the first steps, such as looks at doubtful indices, takes longer than a
    hundred of them, and on a busy machine so does waiting for a core: the choice would be chance.
    """
    wall, had = float(trace.seconds.sum()), float(trace.processor.sum())
    fine = time.get_clock_info("thread_time").resolution < BRIEF / 10.0
    away = model.elsewhere is not None or any(is_mapped(column) for column in model.data)
    return min(wall, had) if fine and had and not away else wall
