"""How well blocks mixed: effective sample sizes and R-hat, component by component.

Numbers are ArviZ's (Vehtari et al. 2021). Of a wide block some components are looked at, evenly
spaced; of chains that sm.WangLandau tilted, each by itself, as each has a law of its own.
"""

from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.runs.store.netcdf import tilted

BEYOND = 1e150  # numbers whose squares are none
NUMBERS, LEAST = 128, 1e-300  # so many next to an end, or so near 0, is where numbers end ...
CROWDED = 0.005  # ... and this part of the draws there is too many
MOST_RANKED = 200_000  # values that R-hat ranks, which takes long: of more draws, one of every few
MOST_SITES = 200  # components of one block whose ESS is computed ...
MOST_VALUES = 20_000_000  # ... and draws of them in all: seconds, not minutes
MOST_VISITED = 64  # values of a component of which visits are counted; fewer visits than this, each
FEW_VISITS, LONG_VISIT = 10, 10  # of so many draws, tell little of a value's probability ...
MATTERS = 0.005  # ... if they are this part of a chain, and their draws of all


class Component(NamedTuple):
    """How well one number of a block mixed."""

    site: int  # where it stands in its block
    label: str
    ess: float  # bulk; nan if it never moved, or is not finite
    rhat: float  # 1 where chains agree; nan of one chain, and of chains with laws of their own


class Mixing(NamedTuple):
    """How well one block mixed."""

    ess: float  # bulk, of the worst component that moved; nan if none did
    sites: int  # components, without those that a constraint makes constant
    looked: int  # components whose ESS was computed
    stuck: int  # of those, components that never moved
    moved: bool  # any component, in any chain
    finite: bool
    rhat: float  # of the worst component: 1 where chains agree; nan of one chain
    slowest: str  # the component of this ESS, by name
    farthest: str  # the one of this R-hat
    components: tuple[Component, ...]  # all that were looked at
    draws: int  # of each chain, those that were kept
    every: int  # of how many draws one was kept
    discrete: bool  # or only names of values: a component may have all its mass at one
    held: int  # components, of all that every draw has, that never moved in one chain or more
    holding: int  # chains in which one of these never moved, not all if there is such a one
    held_one: str  # its name
    beyond: bool = False  # are there draws so far out that none has a variance
    seldom: str = ""  # a value that chains came to a few times and stayed at: in words, how often
    crowded: str = ""  # draws where the numbers next to an end are no more: in words, how many


def mixing_of(trace: Any, name: str) -> Mixing:
    """See Trace.mixing."""
    import arviz

    trace.must_have(name)
    values = trace.thinned[name] if name in trace.thinned else trace.draws[name]
    chains, draws = values.shape[:2]
    tilts = tilted(trace.meta)
    flat = values.reshape(chains, draws, int(np.prod(values.shape[2:], dtype=int)))
    free = np.ones(flat.shape[2], dtype=bool)  # what no constraint makes constant
    free[trace.constant(name)] = False
    places, sites = np.flatnonzero(free), int(free.sum())
    most = max(1, min(sites, MOST_SITES, MOST_VALUES // max(1, chains * draws)))
    chosen = places[np.linspace(0, sites - 1, most).astype(int)] if sites else []
    if (used := trace.in_use(name)) is not None:  # those that all draws have
        always = np.asarray(used.all(axis=(0, 1)))
        chosen = [site for site in chosen if always[site]]

    def label_of(site: Any) -> str:
        return trace.axes.label(name, np.unravel_index(site, values.shape[2:]))

    names = any(t.get("labels") and name in t["writes"] for t in trace.meta["kernels"])
    # Chain by chain: the block may fill most of the memory, and this makes copies.
    stands = np.array([(chain == chain[:1]).all(axis=0) for chain in flat]) & (draws > 1) & free
    moved = draws < 2 or int(stands.sum()) < chains * sites
    for told in trace.meta["kernels"]:
        if told.get("zeros") == name:  # a coefficient may be 0, where its indicator says so
            stands &= ~off_throughout(trace, flat, told["writes"][1])
    if used is not None:
        stands &= always
    counts = stands.sum(axis=0)
    held = np.flatnonzero(counts)
    if draws > 1 and not tilts and not names:
        # At different values, which no chain leaves: of all components, for this tells for sure.
        apart = np.flatnonzero((counts == chains) & (flat[:, 0] != flat[:1, 0]).any(axis=0))
        chosen = sorted({*chosen, *apart[:1]})
    # One that moves in other chains is surely held, so it is the one to name.
    first = min(held, key=lambda site: (counts[site] == chains, site), default=None)
    finite = all(bool(np.isfinite(chain).all()) for chain in flat)
    beyond = finite and values.dtype.kind == "f" and any(
        chain.size and max(chain.max(), -chain.min()) > BEYOND for chain in flat
    )  # fmt: skip
    found: list[Component] = []
    stuck, seldom, crowded = 0, NEVER, ""
    ends = (trace.meta.get("ends") or {}).get(name, ())
    sizes = cluster_sizes(flat, chosen) if names else None
    some = some_draws(chains, draws)
    for k, site in enumerate(chosen):
        part = flat[..., site].astype(float) if sizes is None else sizes[..., k]
        label = label_of(site)
        ess, rhat = np.nan, np.nan
        # arviz calls a constant perfectly mixed; here it is a sampler that may be stuck.
        still = draws > 1 and bool((part == part[:, :1]).all())
        stuck += still
        if still and not tilts and (part != part[:1]).any():  # each at a value of its own
            rhat = np.inf
        if not still and draws >= 4 and np.isfinite(part).all():
            with np.errstate(all="ignore"):
                # Chains with tilts of their own do not have one law: each by itself.
                each = [row[None] for row in part if np.ptp(row)] if tilts else [part]
                ess = sum(float(arviz.ess(one, method="bulk")) for one in each)
                if chains > 1 and not tilts:
                    # Of ranks also where they take long: R-hat of values does not see spread.
                    rhat = float(arviz.rhat(part[:, some], method="rank"))
        found.append(Component(int(site), label, ess, rhat))
        crowded = crowded or crowded_at(part, ends, label)
        if values.dtype.kind == "i" and not names and not still:
            seldom = max(seldom, seldom_at(flat[..., site], label), key=lambda visits: visits.draws)
    slow = min((c for c in found if c.ess == c.ess), key=lambda c: (c.ess, c.label), default=None)
    far = max((c for c in found if c.rhat == c.rhat), key=lambda c: (c.rhat, c.label), default=None)
    return Mixing(
        slow.ess if slow else np.nan, sites, len(chosen), stuck, moved, finite,
        far.rhat if far else np.nan, slow.label if slow else "", far.label if far else "",
        tuple(found), draws, trace.every(name), values.dtype.kind == "i", len(held),
        0 if first is None else int(counts[first]), "" if first is None else label_of(first),
        bool(beyond), seldom.told(), crowded,
    )  # fmt: skip


def crowded_at(part: np.ndarray, ends: Any, label: str) -> str:
    """Do draws stand where the numbers next to an end are no more; in words, how many.

    What lies beyond is refused, so chains turn round there, and may well agree.
    """
    for end in ends:
        near = NUMBERS * abs(np.spacing(end)) if end else LEAST
        share = float(np.mean(np.abs(part - end) <= near)) if part.size else 0.0
        if share > CROWDED:
            part_of_all = f"{share:.0%}" if share > 0.1 else f"{100.0 * share:.2g}%"
            return f"{part_of_all} of the draws of {label} are within {near:.1g} of {end:g}"
    return ""


class Visits(NamedTuple):
    """How often chains came to a value, and for how many draws in all."""

    value: str
    times: int
    draws: int

    def told(self) -> str:
        """In words; empty where there is none."""
        often = "once" if self.times == 1 else f"{self.times} times"
        each = self.draws / max(self.times, 1)
        return f"{self.value} was entered {often}, for {each:,.0f} draws each" if self.times else ""


NEVER = Visits("", 0, 0)


def seldom_at(part: np.ndarray, label: str) -> Visits:
    """The value of a component, but the most frequent, that was entered a few times for long.

    How probable it is rests on these visits, not on its draws. Where they are short beside a chain,
    or few draws are there in all, it is known to be small. part: (chains, draws).
    """
    least = part.min() if part.size else 0
    if part.size == 0 or part.max() - least >= MOST_VISITED:
        return NEVER
    part, begins = part - least, np.ones(part.shape, dtype=bool)
    begins[:, 1:] = part[:, 1:] != part[:, :-1]
    draws, times = (np.bincount(x, minlength=MOST_VISITED) for x in (part.ravel(), part[begins]))
    long = max(LONG_VISIT, MATTERS * part.shape[1])
    few = (times > 0) & (times < FEW_VISITS) & (draws >= long * times)
    few &= draws >= MATTERS * part.size
    few[np.argmax(draws)] = False
    value = int(np.argmax(np.where(few, draws, 0)))
    if not few[value]:
        return NEVER
    return Visits(f"{label}={value + least}", int(times[value]), int(draws[value]))


def off_throughout(trace: Any, flat: np.ndarray, indicators: str) -> np.ndarray:
    """Which coefficients are 0 as a chain's draws begin, and are said to be: (chains, sites)."""
    off = flat[:, :1] == 0.0
    kept = trace.thinned if indicators in trace.thinned else trace.draws
    if indicators in kept:
        off = off & (np.asarray(kept[indicators])[:, :1].reshape(off.shape) == 0)
    return off.any(axis=1)  # of runs that ended before a draw, too


def some_draws(chains: int, draws: int) -> Any:
    """Which draws R-hat ranks: all, or one of every k, each where chance has it among its k.

    Not the same of every k: a chain that returns every k draws would seem to stand still.
    """
    k = -(-chains * draws // MOST_RANKED)
    if k <= 1:
        return slice(None)
    begins = np.arange(0, draws - k + 1, k)
    return begins + np.random.default_rng(0).integers(0, k, len(begins))


def cluster_sizes(labels: np.ndarray, sites: Any) -> np.ndarray:
    """How many share the label of each of some sites: (chains, draws, sites)."""
    found = np.empty((*labels.shape[:2], len(sites)))
    for at in np.ndindex(labels.shape[:2]):
        found[at] = np.bincount(labels[at])[labels[at][sites]]
    return found
