"""sm.SiteTaylor: a polynomial of each site's log likelihood, and bounds of what it leaves over."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from subsample_mcmc.approx.by_site.expansion import SiteExpansion, numbered_alike, why_not
from subsample_mcmc.approx.control import Control
from subsample_mcmc.approx.taylor.references import point_of


class NoSitesError(ValueError):
    """A model that polynomials by site do not serve."""


def local_blocks(model) -> tuple[str, ...]:
    """The continuous blocks with touches that are numbered alike; of most sites, if several are."""
    names = [n for n, v in model.variables.items() if v.touches is not None and v.support == 0]
    if not names:
        return ()
    first = max(names, key=lambda name: model.variables[name].sites)
    return numbered_alike(model, first)


@dataclass(frozen=True, eq=False)
class SiteTaylor(Control):
    """A control variate of hierarchies: a polynomial of third order for the rows of each site.

    For blocks with touches, sm.Metropolis("a"), whose sites have many rows, and for what all rows
    see besides, sm.Metropolis("slope"). Around a fit the log likelihood of a site's rows is a
    polynomial in the numbers of the site and in those that all rows see: sums of third order, made
    once. What a row leaves over is bounded, by its fourth derivative all over a ball around the
    fit, found by intervals; so sm.Thinned() decides exactly, and reads hardly a row. A decision
    about a site costs as much as its polynomial, one about what all rows see as those of all sites.

    Sites of few rows, and decisions beyond the ball, read their rows, as without.

    fit: sm.laplace(model), or a dict of the values of all continuous blocks, near the posterior's
        mode.

    Serves models whose rows see one site each, through at most 3 linear predictors (sm.derivatives
        says which), are smooth, and see at most 8 numbers. What it does not serve is refused, and
        why is said.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> group, x = rng.integers(80, size=10_000), rng.standard_normal(10_000)
        >>> eta = rng.standard_normal(80)[group] + 0.3 * x
        >>> data = {"y": rng.poisson(np.exp(eta)).astype(float), "x": x, "group": group}
        >>> def log_likelihood(state, data, n):
        ...     eta = state.a[data.group[n]] + state.slope[0] * data.x[n]
        ...     return data.y[n] * eta - sm.exp(eta)
        >>> model = sm.Model(
        ...     log_likelihood, data, {"a": np.zeros(80), "slope": 0.0},
        ...     lambda state: -0.5 * state.slope[0] ** 2, touches={"a": "group"},
        ...     site_prior={"a": lambda state, g: -0.5 * state.a[g] ** 2},
        ... )
        >>> fit = sm.laplace(model, progress=False)
        >>> known = {"proposal": sm.pcn(fit), "control": sm.SiteTaylor(fit)}
        >>> kernel = sm.Metropolis("a", **known) >> sm.Metropolis("slope", **known)
        >>> trace = sm.sample(model, kernel, draws=500, warmup=200, chains=1, seed=1)
        >>> bool(trace.stats["slope"]["predicted"].mean() > 0.9)  # decisions that read no data
        True
    """

    fit: Any

    def __repr__(self) -> str:
        return "SiteTaylor()"

    def text(self, model=None) -> str:
        """What describe() calls it."""
        return repr(self)

    def check(self, model, block: str) -> None:
        """Refuse: sm.Metropolis, which it serves, asks check_serves; others ask this."""
        raise ValueError(
            f"block {block!r}: SiteTaylor is for decisions of sm.Metropolis by sm.Thinned(): leave "
            "control out here."
        )

    def check_serves(self, model, block: str) -> None:
        """Refuse models and blocks that it knows nothing of."""
        local = local_blocks(model)
        if not local:
            raise NoSitesError(
                f"block {block!r}: SiteTaylor is about sites that see rows of their own, and no "
                "continuous block has touches: give sm.Model(touches=...), or control=sm.Taylor("
                "fit)."
            )
        if why := why_not(model, local):
            raise NoSitesError(f"block {block!r}: SiteTaylor does not serve: {why}.")

    def prepare(self, model) -> SiteExpansion:
        """Pass over the data."""
        local = local_blocks(model)
        self.check_serves(model, local[0] if local else "")
        return SiteExpansion(model, local, np.array(point_of(self.fit, model)))
