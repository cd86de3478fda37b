"""Why a chain broke: the exception, with kernel, arm, datum and state."""

from typing import Any

import numpy as np

from subsample_mcmc.errors import RewardError, SpreadError
from subsample_mcmc.kernels.kernel import BAD_PREDICATE, BAD_PRIOR, BAD_PROPOSAL, labelled
from subsample_mcmc.kernels.trial import Judge
from subsample_mcmc.rules.race import ALL_IMPOSSIBLE, NOT_FINITE, OUT_OF_SPREAD


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
            f"density or a surrogate is not a number; {state}."
        )
    if code == ALL_IMPOSSIBLE:
        return RewardError(
            f"{where}: every arm is impossible, the current value included; {state}. Start "
            "where likelihood and prior are positive."
        )
    if row < 0:  # an exact sum does not say which of its terms it was
        row = first_bad(walker, int(now.kernel), arm, code)
    datum = f" at datum {row}" if row >= 0 else ""
    if code == NOT_FINITE:
        return RewardError(
            f"{where}: log_likelihood is nan or +inf{datum} for {candidate(model, leaf, arm)}; "
            f"{state}. It must be finite, or -inf where the state is impossible."
        )
    if code == OUT_OF_SPREAD:
        return SpreadError(
            f"{where}: a reward of {candidate(model, leaf, arm)}{datum} breaks the range declared "
            f"in {getattr(leaf, 'selector', None)!r}; {state}. Declare a wider one, or use "
            "sm.Normal(), which needs none."
        )
    return RuntimeError(f"{where}: unknown error {code}; {state}.")


def first_bad(walker: Any, leaf: int, arm: int, code: int) -> int:
    """The first datum whose log likelihood cannot be added, found by a scan; -1 if none is."""
    model = walker.program.model
    judge = next((j for j in judges(walker.tools) if j.trial.target[0].leaf == leaf), None)
    if judge is None:
        return -1
    trial, target = judge.trial, judge.trial.target[0]
    where, value = (trial.ints, arm) if target.site >= 0 else (trial.floats, trial.candidates[arm])
    first = int(target.start + max(target.site, 0))
    last = first + (1 if target.site >= 0 else int(target.length))
    kept = where[first:last].copy()
    where[first:last] = value
    try:
        with np.errstate(all="ignore"):
            made = model.extra(trial.state)
            for n in range(model.size):
                found = model.log_likelihood(trial.state, model.data, n, *made)
                if not found < np.inf if code == NOT_FINITE else found == -np.inf:
                    return n
    except ArithmeticError:  # plain Python raises where compiled code goes on
        return -1
    finally:
        where[first:last] = kept
    return -1


def judges(tools):
    """The decisions' tools among nested tools, in the order of the leaves."""
    if isinstance(tools, Judge):
        yield tools
    elif isinstance(tools, tuple):
        for part in tools:
            yield from judges(part)


def candidate(model, leaf, arm: int) -> str:
    """What an arm is, in words."""
    block = leaf.writes[0]
    if model.variables[block].block.discrete:
        return f"{block}={arm}"
    return f"the current {block}" if arm == 0 else f"a proposal for {block}"
