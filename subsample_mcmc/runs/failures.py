"""Why a chain broke: the exception, with kernel, arm, datum and state."""

from typing import Any

import numpy as np

from subsample_mcmc.decisions.rules.rule import (
    ALL_IMPOSSIBLE,
    BEYOND_BOUND,
    NOT_FINITE,
    OUT_OF_SPREAD,
)
from subsample_mcmc.errors import RewardError, SpreadError
from subsample_mcmc.kernels.base import (
    BAD_PREDICATE,
    BAD_PRIOR,
    BAD_PROPOSAL,
    SEEN_BY_DATA,
    TOUCHED_BY_OTHERS,
    labelled,
)
from subsample_mcmc.kernels.decision import Judge
from subsample_mcmc.kernels.sites.side_by_side import Sides
from subsample_mcmc.kernels.sites.touches import seen_by, told_of
from subsample_mcmc.kernels.sites.watching import watched_priors
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.pointers import Addresses, RecordAddress
from subsample_mcmc.target.data import datum_of
from subsample_mcmc.target.predictors import WHAT_IT_BOUNDS

MOST_SHOWN = 4  # components of a block in a message


def at_datum(model, state, n: int, made: tuple) -> float:
    """The log likelihood of a datum; as compiled where plain Python raises."""
    try:
        return float(model.log_likelihood(state, model.data, n, *made))
    except (ArithmeticError, ValueError):
        compiled = jit(model.log_likelihood, flags=FLAGS, user=True)
        return float(compiled(state, model.data, np.int64(n), *made))


def prior_at(model, state) -> float:
    """The log prior; as compiled where plain Python raises."""
    try:
        return float(model.log_prior(state))
    except (ArithmeticError, ValueError):
        return float(jit(model.log_prior, flags=FLAGS, user=True)(state))


def more_read(model, name: str, part: int, site: int) -> str:
    """What to tell of a part of the log prior that moves of a block's sites do not ask."""
    text, _, sites, behind = watched_priors(model, name)[part]
    of = f"of site {site} " if sites > 1 else ""
    if behind < 0:
        return (
            f"{text} {of}changes where {name!r} does, which has site_prior[{name!r}], and moves of "
            "its sites ask that alone. In the states that were tried it did not, so draws before "
            f"may be wrong, too: take the part with {name!r} out of it, or leave "
            f"site_prior[{name!r}] out"
        )
    return (
        f"{text} {of}changes with sites of {name!r} that moves do not ask about: those after it, "
        f"or more than {behind} before it. In the states that were tried it did not, so draws "
        "before may be wrong, too: write each term once, for the last of its sites, or leave "
        "site_prior out and give log_prior the whole"
    )


def explanation(walker: Any) -> Exception:
    """Why the chain broke, with kernel, arm, datum and state."""
    now, model = walker.chain.now[0], walker.program.model
    label, leaf = labelled(walker.program.kernel)[int(now.kernel)]
    arm, row, code = int(now.arm), int(now.row), int(now.code)
    where = f"chain {walker.number}, iteration {walker.iteration}, kernel {label}"
    state = f"the state was {model.show(walker.ints, walker.floats)}"
    if code == BAD_PRIOR:
        return RewardError(
            f"{where}: the log prior is nan or +inf at {candidate(model, leaf, arm)}; {state}. It "
            "must be a number, or -inf where the prior is zero."
        )
    if code == BAD_PREDICATE:
        return RuntimeError(
            f"{where}: the predicate of when() no longer holds after its kernel ran; {state}. "
            "The kernel must not change what the predicate reads, or the posterior is not "
            "left fixed."
        )
    if code == BAD_PROPOSAL:
        return ValueError(
            f"{where}: it left a value that is nan, infinite or off its support, or a proposal "
            f"density is not a number, or a surrogate not finite; {state}."
            + " A surrogate must be finite wherever the posterior is positive: what it rules out "
            "by -inf would never be drawn." * (getattr(leaf, "surrogate", None) is not None)
        )
    if code == SEEN_BY_DATA:
        return RuntimeError(
            f"{where}: {' and '.join(leaf.writes)} move against each other, as no datum saw that "
            f"in the states that were tried, but datum {row}{datum_of(model.data, row, model.size)}"
            f" does; {state}. Draws before may be wrong, too: leave sm.interweave of them out."
        )
    if code == TOUCHED_BY_OTHERS:
        (name,) = leaf.writes
        if row < 0:
            return RuntimeError(f"{where}: {more_read(model, name, arm, -1 - row)}; {state}.")
        said = seen_by(model.variables[name].touches, [row])[1]
        return RuntimeError(
            f"{where}: touches[{name!r}]: datum {row}{datum_of(model.data, row, model.size)} is "
            f"said to see {told_of(name, said)}, but its log likelihood changes where "
            f"other sites of {name!r} do; {state}. Draws before may be wrong, too: give each "
            "datum all the sites that it sees in any state, or leave touches out."
        )
    if code == ALL_IMPOSSIBLE:
        broken = f"{where}: every arm is impossible, the current value included; {state}"
        broken += why_impossible(walker)
        leaves = walker.program.kernel.leaves()
        risky = [one for one in leaves if one.guarantee in ("asymptotic", "bounded")]
        if walker.iteration > 0 and risky:
            return RewardError(
                f"{broken}. If the chain started where likelihood and prior are positive, a "
                f"decision of {risky[0].text()} accepted a state that some datum rules out, which "
                "it had not read. Decide by selector=sm.Exact(), give a control variate, or say by "
                "constraints= where such states end; audit=1.0 shows how often it errs."
            )
        return RewardError(
            f"{broken}. Start where likelihood and prior are positive: "
            "sm.sample(..., start=[{...}, ...]), a state per chain, or another state in sm.Model."
        )
    told = None
    if row < 0 or code == NOT_FINITE:  # an exact sum does not say which of its terms it was
        told = first_bad(walker, int(now.kernel), arm, code, row)
        row = told[0] if told else row
    datum = f" at datum {shown(model, row)}" if row >= 0 else ""
    if code == NOT_FINITE:
        value, block = (f"{told[1]}", told[2]) if told else ("nan or +inf", "")
        return RewardError(
            f"{where}: log_likelihood is {value}{datum} for {candidate(model, leaf, arm)}{block}; "
            f"{state}. It must be finite, or -inf where the state is impossible. A nan is often "
            "the log or root of a negative number: correct or drop the datum, or declare where a "
            "block ends, constraints={'sigma': sm.positive}."
        )
    if code == OUT_OF_SPREAD:
        return SpreadError(
            f"{where}: a reward of {candidate(model, leaf, arm)}{datum} breaks the range declared "
            f"in {getattr(leaf, 'selector', None)!r}; {state}. Declare a wider one, or use "
            "sm.Normal(), which needs none."
        )
    if code == BEYOND_BOUND:
        told = f"{where}: the residual of {candidate(model, leaf, arm)}{datum} exceeds the bound"
        if model.predictors is None:  # then it was found, by intervals
            return SpreadError(
                f"{told} that was found by intervals; {state}. Data that changed in the meantime "
                "would do that; else this is a mistake of the package: please report it, with the "
                "function and the datum. selector=sm.Racing() needs no bound."
            )
        return SpreadError(
            f"{told} that remainder gives; {state}. {WHAT_IT_BOUNDS}: correct it, and test it at "
            "that datum."
        )
    return RuntimeError(f"{where}: unknown error {code}; {state}.")


def shown(model, row: int) -> str:
    """A datum in words: its number, and its columns."""
    if model.elsewhere is None:
        return f"{row}{datum_of(model.data, row, model.size)}"
    return f"{row}{datum_of(model.elsewhere.of_rows(np.array([row])).near.data, 0, 1)}"


def why_impossible(walker: Any) -> str:
    """Which part of the density is zero in the current state, in words, if it can be told."""
    model = walker.program.model
    state = model.state(walker.ints, walker.floats)
    try:
        with np.errstate(all="ignore"):
            if model.log_prior is not None and prior_at(model, state) == -np.inf:
                return ", where log_prior is -inf"
            made = model.extra(state)
            if (away := model.elsewhere) is not None:
                row = away.first_row(walker.ints, walker.floats, impossible=True)
                return f", where log_likelihood is -inf at datum {shown(model, row)}" * (row >= 0)
            for n in range(model.size) if model.log_likelihood is not None else ():
                if at_datum(model, state, n, made) == -np.inf:
                    return f", where log_likelihood is -inf at datum {shown(model, n)}"
    except Exception:  # a message must not fail
        return ""
    return ""


def first_bad(walker: Any, leaf: int, arm: int, code: int, row: int):
    """(datum, its log likelihood, the block there), if it cannot be added; row: where, or -1.

    None if no such datum is found by a scan: a gradient's point is not known here.
    """
    model = walker.program.model
    judge = next((j for j in judges(walker.main.tools) if j.trial.target[0].leaf == leaf), None)
    if judge is None:
        return None
    trial, target = judge.trial, judge.trial.target[0]
    state = trial.calls.context.record.state
    where, value = (trial.ints, arm) if target.site >= 0 else (
        trial.floats, trial.candidates[arm, : int(target.length)]  # of a window: a part of them
    )  # fmt: skip
    first = int(target.start + max(target.site, 0))
    last = first + (1 if target.site >= 0 else int(target.length))
    kept = where[first:last].copy()
    where[first:last] = value
    words = ", ".join(f"{v:.6g}" for v in where[first : min(last, first + MOST_SHOWN)])
    more = ", ..." if last - first > MOST_SHOWN else ""
    words = f" = {words}" if last == first + 1 else f" = [{words}{more}]"
    writes = labelled(walker.program.kernel)[leaf][1].writes
    if target.site < 0 and len(writes) > 1:  # several as one, with what stands still between them
        words = f" ({model.show(walker.ints, walker.floats, names=writes)})"
    try:
        with np.errstate(all="ignore"):
            made, near, rows = model.extra(state), model, range(model.size) if row < 0 else (row,)
            if (away := model.elsewhere) is not None:
                if row < 0:
                    row = away.first_row(trial.ints, trial.floats, code != NOT_FINITE)
                near, rows = away.of_rows(np.array([row])), (0,)
            for n in rows:
                found = at_datum(near, state, n, made)
                if not found < np.inf if code == NOT_FINITE else found == -np.inf:
                    return n if near is model else row, found, "" if target.site >= 0 else words
    except Exception:  # of a user's function: a message must not fail
        return None
    finally:
        where[first:last] = kept
    return None


def judges(tools):
    """The decisions' tools among nested tools, in the order of the leaves."""
    tools = tools.record if isinstance(tools, RecordAddress) else tools
    if isinstance(tools, Judge):
        yield tools
    elif isinstance(tools, Sides):
        yield from judges(tools.failed)
    elif isinstance(tools, tuple | Addresses):
        for part in tools:
            yield from judges(part)


def candidate(model, leaf, arm: int) -> str:
    """What an arm is, in words."""
    block = leaf.writes[0]
    if model.variables[block].block.discrete:
        return f"{block}={arm}"
    names = ", ".join(leaf.writes)
    return f"the current {names}" if arm == 0 else f"a proposal for {names}"
