"""The summary that reports show: posterior moments of each component, its ESS and its R-hat.

Of a block of many components the first few and the worst few are shown; `Trace.summary` has all.
ESS and R-hat are those that the verdict goes by.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.runs.store.netcdf import tempered, tilted
from subsample_mcmc.runs.views.findings import FLAGGED, is_flagged
from subsample_mcmc.runs.views.mixing import Component, Mixing
from subsample_mcmc.style import significant

HEAD = ("mean", "sd", "5%", "95%", "ESS", "R-hat")
WHOLE = 8  # components of a block that is shown whole; of others ...
FIRST, WORST = 3, 3  # ... the first ones, and those of the lowest ESS and the highest R-hat
MOST = 40  # rows in all
FLAG = " !"


class ShortSummary(NamedTuple):
    """A table as text: a first column of names, HEAD, and what to know about its numbers."""

    rows: list[list[str]]  # a name and six cells; of components that are folded, a name alone
    captions: list[str]

    def cells(self) -> list[list[str]]:
        """The table with its head, every row as long."""
        return [["", *HEAD], *([*row, *[""] * (len(HEAD) + 1 - len(row))] for row in self.rows)]


def short_summary(trace: Any, blocks: Mapping[str, Mixing]) -> ShortSummary:
    """The summary of some blocks; those of cluster labels are left out: they are only names."""
    labels = {n for told in trace.meta["kernels"] if told.get("labels") for n in told["writes"]}
    rows: list[list[str]] = []
    left: list[str] = []
    for name, block in blocks.items():
        if name in labels or not trace.shape[1] or not block.sites:
            continue
        shown, more = chosen(trace, name, block)
        if len(rows) + len(shown) > MOST:
            left.append(name)
            continue
        rows += [numbers(trace, name, component) for component in shown]
        if more:
            rows.append([f"... {more:,} more of {name}, {block.sites:,} in all"])
    captions = about(trace, rows)
    if left:
        names = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
        captions.append(f"Not shown: {names}; trace.summary() has all.")
    return ShortSummary(rows, captions)


def chosen(trace: Any, name: str, block: Mixing) -> tuple[list[Component], int]:
    """Components that are shown, in their order, and how many are not; no constant ones."""
    shape = kept(trace, name).shape[2:]
    places = np.delete(np.arange(np.prod(shape, dtype=int)), trace.constant(name)).tolist()
    known = {component.site: component for component in block.components}

    def of(site: int) -> Component:
        label = trace.axes.label(name, np.unravel_index(site, shape) if shape else ())
        return known.get(site) or Component(site, label, np.nan, np.nan)

    if block.sites <= WHOLE:
        return [of(site) for site in places], 0
    sites = set(places[:FIRST])
    rest = [c for c in block.components if c.site not in sites]
    apart = sorted((c for c in rest if is_flagged(c.rhat)), key=lambda c: -c.rhat)
    slow = sorted((c for c in rest if c.ess == c.ess and c not in apart), key=lambda c: c.ess)
    sites |= {c.site for c in [*apart, *slow][:WORST]}
    return [of(site) for site in sorted(sites)], block.sites - len(sites)


def kept(trace: Any, name: str) -> np.ndarray:
    """Draws of a block, or those that were kept of it."""
    return trace.thinned[name] if name in trace.thinned else trace.draws[name]


def numbers(trace: Any, name: str, component: Component) -> list[str]:
    """One row: name and cells."""
    found = kept(trace, name)
    values = found.reshape(*found.shape[:2], -1)[..., component.site].astype(float)
    if (used := trace.in_use(name)) is not None:
        values = values[np.asarray(used[..., component.site])]
    told = [np.nan] * 4
    if values.size and np.isfinite(values).all():
        sd = values.std(ddof=1) if values.size > 1 else np.nan
        told = [values.mean(), sd, *np.quantile(values, (0.05, 0.95))]
    ess = f"{component.ess:,.0f}" if component.ess == component.ess else "-"
    rhat = f"{component.rhat:.3f}" if component.rhat == component.rhat else "-"
    flag = FLAG * is_flagged(component.rhat)
    return [component.label, *map(significant, told), ess, rhat + flag]


def about(trace: Any, rows: list[list[str]]) -> list[str]:
    """What to know about these numbers, beside them."""
    found = []
    if blocks := tilted(trace.meta):
        names = ", ".join(blocks)
        found.append(
            f"sm.WangLandau tilted {names}: these are means of the draws, not of the posterior, "
            f"which trace.model_probabilities({blocks[0]!r}) gives, and weights for the others."
        )
    if law := trace.meta.get("law"):
        found.append(f"Of the {law}, not of the posterior.")
    if kernels := tempered(trace.meta):
        found.append(f"Not of the posterior: tempered draws of {', '.join(kernels)}.")
    if any(row[-1].endswith(FLAG) for row in rows):
        found.append(f"{FLAG.strip()} R-hat above {FLAGGED}: chains do not tell the same yet.")
    return found
