"""Decisions by polynomials of sites: sm.Metropolis with sm.SiteTaylor.

What decides stands in approx/by_site/deciding.py; the steps are those of all other decisions.
"""

from typing import Any

import numpy as np

from subsample_mcmc.approx.by_site.control import SiteTaylor, local_blocks
from subsample_mcmc.approx.by_site.deciding import (
    SiteControls,
    SiteParams,
    SiteRoom,
    SiteScratch,
    audit_common,
    audit_site,
    choose_common,
    choose_site,
)
from subsample_mcmc.approx.by_site.expansion import SiteExpansion
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.kernels.base import ANY_CHAIN, BOUND
from subsample_mcmc.kernels.decision import (
    SAMPLED,
    Case,
    Judge,
    make_decider,
    nothing_to_resize,
    tally_of,
)
from subsample_mcmc.kernels.sites.asked import check_data
from subsample_mcmc.kernels.sites.touches import check_touches
from subsample_mcmc.numerics.pointers import (
    FLOATS,
    NUMBER,
    FunctionAddress,
    RecordAddress,
    array,
)
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.layout import TALLY
from subsample_mcmc.target.lookups.reads import unread
from subsample_mcmc.target.rewards import example_context, make_trial


def by_sums(kernel) -> bool:
    """Does a kernel decide by polynomials of sites."""
    return isinstance(getattr(kernel, "control", None), SiteTaylor)


def check_sums(kernel, model) -> None:
    """Refuse what polynomials of sites do not serve."""
    text, control = kernel.text(), kernel.control
    if not kernel.selector.by_default and not kernel.selector.thins:
        raise ValueError(
            f"{text}: SiteTaylor is for decisions that thin: leave selector out, or give "
            "sm.Thinned()."
        )
    if getattr(kernel, "surrogate", None) is not None:
        raise ValueError(
            f"{text}: a surrogate screens decisions that read data, and by SiteTaylor they read "
            "hardly any: leave one of them out."
        )
    control.check_serves(model, kernel.writes[0])
    local = local_blocks(model)
    sites = [name for name in kernel.writes if name in local]
    if sites and len(kernel.writes) > 1:
        raise ValueError(
            f"{text}: sites of {sites[0]!r} move one by one, with a decision each: move them and "
            "the others by kernels of their own."
        )
    if not sites and unread(model, kernel.writes):
        raise ValueError(f"{text}: no datum depends on it, the prior decides: leave control out.")
    for name in local:  # a datum of another site would have no polynomial, and no bound
        check_touches(name, model)
        check_data(name, model)
    try:
        prepared_for(model, control)
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from None


def told_of_sums(kernel, model) -> str:
    """What describe() says of it."""
    known = model.prepared.get(kernel.control)
    if not isinstance(known, SiteExpansion):
        return ""
    k, c = known.sums.places.shape[1], len(known.sums.common)
    told = f"polynomials of {k} numbers of each site and {c} that all data see"
    if known.few:
        told += f"; {known.few:,} of {len(known.sums.places):,} sites are summed: they have few "
        told += "data, or no bound"
    return told


def judge_by_sums(kernel, model, run, block, rows: int, candidates, indices=None) -> Judge:
    """What one chain decides with; indices: rows that sites touch, where sites move."""
    known: Any = prepared_for(model, kernel.control)
    own, kind = known.sums, row_kind(model.size)
    k, c = own.places.shape[1], len(own.common)
    beside = make_trial(model, run, block, 0, candidates, own.indices.astype(kind))
    bound, every = known.bind(2), len(own.indptr) - 1
    room = SiteRoom(
        np.zeros((2, len(own.shape.own.by))), np.zeros((2, len(own.shape.common.by))),
        np.zeros((2, k)), np.zeros((2, c)), np.zeros(max(k, c)),
        np.zeros(len(own.shape.common.by)), np.zeros(every), np.zeros(every),
        np.zeros(1, dtype=kind), np.zeros(1), bound.arrays, np.zeros(3),
    )  # fmt: skip
    context, source = RecordAddress(example_context(model)), RecordAddress(bound.source)
    reader = FunctionAddress(known.functions.reader, context, source, NUMBER, array(kind), FLOATS)
    controls = SiteControls(
        np.zeros(0, dtype=np.int64), own, room, beside.calls, beside.target,
        model.variables[kernel.writes[0]].block.start, source, reader,
    )  # fmt: skip
    trial = make_trial(model, run, block, rows, candidates, indices, controls)
    counted = len(TALLY.names or ())
    words = run.next_words(counted + len(BOUND))
    tally, selector = tally_of(words), kernel.selector
    case = Case(
        trial._replace(pulls=tally["pulls"]), np.zeros(2), np.zeros(0),
        SiteParams(selector.most, selector.lost), SiteScratch(words[counted:].view(float)), tally,
        np.zeros(SAMPLED, dtype=kind), np.zeros((2, SAMPLED)), np.zeros(2, np.int64), np.zeros(5),
    )  # fmt: skip
    case = case._replace(left=case.offsets)
    by_site = indices is not None
    if run.audited:
        again = audit_site if by_site else audit_common
        case = case._replace(audit=FunctionAddress(again, case, NUMBER))
    choose = choose_site if by_site else choose_common
    decide: Any = make_decider(choose, nothing_to_resize, False, None)
    asked = FunctionAddress(decide, ANY_CHAIN, case, NUMBER)
    return Judge(case.trial._replace(control=()), case.offsets, tally, asked, RecordAddress(case))
