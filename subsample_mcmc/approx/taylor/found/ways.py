"""By which way a plain function is differentiated, to which order, and why not by a better one."""

from subsample_mcmc.approx.taylor import derivatives_jets as by_jets
from subsample_mcmc.approx.taylor.found import derivatives_found as by_tapes

FOUND = "found predictors"  # the way of a plain function that has them


def way_of_plain(model, order: int | None) -> tuple[str, str]:
    """See Taylor.way_of: of a plain function."""
    d = len(model.floats)
    if order != 3 and d <= by_jets.FEW:
        return "interpolation", ""
    if why := by_jets.obstacle(model):
        return "interpolation", why
    if d <= by_jets.FEW:
        return "jets", ""
    if d <= by_jets.CUBIC and model.size < by_tapes.MANY:
        return "jets", f"fewer than {by_tapes.MANY:,} data: no predictors or bounds are looked for"
    count, why = by_tapes.predictors_of(model)
    return (FOUND, "") if 0 < count < d and not why else without_predictors(d, why)


def without_predictors(d: int, why: str) -> tuple[str, str]:
    """(the way for d parameters, why not a better one) where no predictors are found."""
    if d > by_jets.MOST:
        more = f"{d} parameters are more than the {by_jets.MOST} of jets"
        return "interpolation", f"{more}, and {why}" if why else more
    return "jets", why


def usual_order(model, way: str) -> int:
    """The order by a way, where nobody asked for one."""
    most = {FOUND: by_tapes.CUBIC, "jets": by_jets.CUBIC}.get(way, 0)
    return 3 if len(model.floats) <= most else 2
