"""The verdict of a report: has the run converged, what was given up, what would make it faster.

Three lines, each of them an answer before its reasons. The numbers are those of the report's rows
and of the blocks' mixing; nothing is computed here that is not shown below it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from subsample_mcmc.runs.views.costs import all_audited
from subsample_mcmc.runs.views.findings import (
    APART,
    DISAGREE,
    FEW_DRAWS,
    FEW_EFFECTIVE,
    FEW_ROWS,
    FLAGGED,
    are_apart,
    is_confirmed,
    is_flagged,
    lost_much,
    more_than_delta,
    share,
    told_of,
)
from subsample_mcmc.runs.views.mixing import BEYOND, Component, Mixing

MUCH = 0.25  # share of all rewards that is worth reading less of
# In notes of kernels whose draws are sums in one loop, which no selector makes fewer.
IN_ONE_LOOP = ("cumulative sums over an ordered support", "summed exactly in one loop")
LONG_WAY = 10.0  # draws that one effective draw takes, from which on moves are worth a change


class Seen(NamedTuple):
    """What a verdict goes by, and what it cannot go by."""

    blocks: Mapping[str, Mixing]  # those that kernels move, and functions of the state
    functions: Sequence[str]  # these: they may be constant
    unkept: Sequence[str]  # blocks that kernels move, of which no draw was kept
    fixed: Sequence[str]  # blocks that no kernel moves
    tilts: Sequence[str]  # blocks that have one
    law: str  # what the draws are from
    alike: bool = False  # did several chains begin at one state, which R-hat supposes they did not

    def looked_at(self) -> dict[str, Mixing]:
        """Blocks of which enough draws were kept to tell anything."""
        return {name: block for name, block in self.blocks.items() if block.draws >= FEW_DRAWS}

    def unknown(self) -> list[str]:
        """Blocks of which nothing is known, and how many components of others."""
        enough = self.looked_at()
        found = [*self.unkept, *(name for name in self.blocks if name not in enough)]
        for name, block in enough.items():
            if block.looked < block.sites:
                found.append(f"{block.sites - block.looked:,} of {block.sites:,} of {name}")
        return found

    def held(self) -> list[tuple[str, int]]:
        """Continuous components that stood still, one of each block; in how many chains."""
        return [
            (block.held_one, block.holding)
            for name, block in self.looked_at().items()
            if block.held and not block.discrete and name not in self.functions
        ]

    def endless(self) -> list[str]:
        """Blocks whose draws go to where numbers end, which chains may well agree on."""
        blocks = self.blocks.items()
        return [name for name, b in blocks if b.beyond and name not in self.functions]

    def crowded(self) -> str:
        """Draws where the numbers next to an end of a block are no more, in words."""
        blocks = self.blocks.items()
        return next((b.crowded for n, b in blocks if b.crowded and n not in self.functions), "")

    def still(self) -> list[str]:
        """Blocks, and functions, that stood still in every chain."""
        return [name for name, block in self.blocks.items() if block.sites and not block.moved]

    def seldom(self) -> str:
        """A value that chains came to a few times and stayed at, in words; as a rule there is none.

        R-hat does not see it where all chains came there once.
        """
        looked = self.looked_at().items()
        return next((b.seldom for name, b in looked if b.seldom and name not in self.functions), "")

    def given(self) -> list[str]:
        """Of these the discrete blocks: chains may agree because all of them hold one value."""
        return [
            name for name in self.still()
            if self.blocks[name].discrete and name not in self.functions
        ]  # fmt: skip

    def partly(self) -> list[str]:
        """Discrete blocks of which some sites stood still in every chain, and others did not."""
        return [
            f"{block.stuck:,} of {block.looked:,} sites of {name}"
            for name, block in self.looked_at().items()
            if block.discrete and block.moved and block.stuck and name not in self.functions
        ]

    def of_what(self, own_law: bool) -> str:
        """What a yes is of, as words behind it."""
        told = ""
        if unknown := self.unknown():
            all_kept = len(unknown) == len(self.unkept)
            told = f" of what was {'kept' if all_kept else 'looked at'}"
        if self.law != "posterior":
            told += f", to the {self.law}, not the posterior"
        if own_law:
            told += ", to a law that is not the posterior's"
        if self.fixed:
            told += f", given {listed(self.fixed)}, which no kernel moves"
        if given := self.given():
            told += f", given {listed(given)}, which never moved"
        return f"{told}; not known of {listed(unknown)}" if unknown else told


class Verdict(NamedTuple):
    """Answers, in a sentence or two each."""

    converged: str
    given_up: str
    faster: str

    def lines(self) -> list[tuple[str, str]]:
        """(what is asked, answer)."""
        return [("Converged", self.converged), ("Given up", self.given_up), ("Faster", self.faster)]


def verdict_of(
    shape: tuple[int, int], rows: Sequence[dict], kernels: Sequence[dict], seen: Seen
) -> Verdict:  # fmt: skip
    """shape: chains and draws; kernels: facts of each row."""
    promises = [promise_of(row, kernel) for row, kernel in zip(rows, kernels, strict=True)]
    own_law = any(promise in ("tempered", "unadjusted") for promise in promises)
    own_law |= any(more_than_delta(row) or lost_much(row) for row in rows)
    apart = any(block.rhat > APART for block in seen.blocks.values())
    given_up = what_was_given_up(rows, promises)
    if seen.law != "posterior":
        given_up += f" These are draws of the {seen.law}, not of the posterior."
    return Verdict(
        has_converged(shape, seen, own_law),
        given_up,
        faster(rows, kernels, apart),
    )


# -------------------------------------------------------------------------------------- converged
def has_converged(shape: tuple[int, int], seen: Seen, own_law: bool) -> str:
    """The first line; own_law: chains converge to another law than the posterior."""
    chains, draws = shape
    blocks, enough = seen.blocks, seen.looked_at()
    far = farthest(blocks)
    known = [(c, b) for b in enough.values() for c in b.components if c.ess == c.ess]
    slow, of = min(known, key=lambda pair: pair[0].ess, default=(None, None))
    held = seen.held()
    somewhere = [pair for pair in held if pair[1] < chains]
    infinite = [name for name, block in blocks.items() if not block.finite]
    given, still, partly = seen.given(), seen.still(), seen.partly()
    never = f" {listed(still + partly)} never moved." if still or partly else ""
    others = [name for name in still if name not in given] + partly  # what a yes does not name
    more = f" {listed(others)} never moved." if others else ""
    if infinite:
        return f"no: draws of {listed(infinite)} are not finite."
    if endless := seen.endless():
        return f"no: draws of {listed(endless)} go beyond {BEYOND:g}, as where there is no law."
    if draws < FEW_DRAWS:
        return f"not known: {draws} draws per chain are too few to tell ({FEW_DRAWS} or more)."
    crowded = seen.crowded()
    if crowded:
        crowded = f"not known: {crowded}, where numbers end, and chains turn round."
    if far is not None and far.rhat == float("inf"):
        return f"no: chains stand at different values of {far.label}, which none leaves."
    if somewhere:
        name, count = somewhere[0]
        return f"no: {name} never moved in {count} of {chains} chains, and did in others."
    if slow is None or of is None:
        if not enough and seen.unknown():
            return f"not known: too few draws were kept of {listed(seen.unknown())}.{never}"
        return f"not known: nothing moved.{never}"
    if crowded and (far is None or far.rhat <= DISAGREE):
        return crowded
    kept = "draws" if of.every == 1 else "kept draws"
    least = f"smallest ESS {slow.ess:,.0f} of {chains * of.draws:,} {kept} ({slow.label})"
    few = slow.ess < FEW_EFFECTIVE * chains
    if few:
        least += f", below the {FEW_EFFECTIVE * chains} that estimates need"
    stood = ""
    if held:
        names = listed([name for name, _ in held])
        stood = f"not known: {names} never moved, which is continuous; "
    if seen.tilts:
        answer = f"as far as can be told{seen.of_what(own_law)}"
        answer = "not known" if few or held else answer
        said = "each chain has a tilt of its own, so R-hat says nothing"
        begin = stood or f"{answer}: "
        return f"{begin}{said}; {least}, chain by chain.{never if few or held else more}"
    if far is None:
        begin = stood or "not known: "
        return f"{begin}one chain cannot tell, R-hat needs two; {least}.{never}"
    told = f"R-hat at most {far.rhat:.3f} ({far.label}), {least}."
    if held and far.rhat <= DISAGREE:
        return f"{stood}{told}{never}"
    if seen.alike and far.rhat <= DISAGREE:
        more += " All began at one state, so other modes would not show: start=."
    if is_flagged(far.rhat):
        answer, tail = (
            ("no", never) if far.rhat > DISAGREE else (f"nearly{seen.of_what(own_law)}", more)
        )
        return f"{answer}: R-hat {far.rhat:.3f} ({far.label}), above {FLAGGED}; {least}.{tail}"
    if seldom := seen.seldom():
        more += f" {seldom}: how probable it is rests on that."
    return f"{'nearly' if few or seldom else 'yes'}{seen.of_what(own_law)}: {told}{more}"


def farthest(blocks: Mapping[str, Mixing]) -> Component | None:
    """The component whose chains are farthest apart; of few draws only what chance seldom does."""
    known = [
        c
        for block in blocks.values()
        for c in block.components
        if c.rhat == c.rhat and (block.draws >= FEW_DRAWS or are_apart(block, c.rhat))
    ]
    return max(known, key=lambda c: c.rhat, default=None)


# --------------------------------------------------------------------------------------- given up
def what_was_given_up(rows: Sequence[dict], promises: Sequence[str]) -> str:
    """The second line: of each promise, worst first, whose it is and what audits say."""
    groups: dict[str, list[dict]] = {}
    for row, promise in zip(rows, promises, strict=True):
        groups.setdefault(promise, []).append(row)
    order = [kind for kind in TOLD if kind in groups and kind != "exact"]
    told = [TOLD[kind](groups[kind]) for kind in order]
    if not told:
        wrong = sum(row["wrong"] for row in rows)
        if wrong:
            return f"nothing was meant to be, and {audits(rows)}."
        return "nothing: every decision is exact." if rows else "nothing: no kernel decided."
    return "; ".join(told) + "."


def promise_of(row: dict, kernel: dict) -> str:
    """What a row's draws are, in one word of TOLD."""
    if kernel.get("temperature"):
        return "tempered"
    given = row["guarantee"] if row["guarantee"] in TOLD else "none"
    if given in ("asymptotic", "bounded") and not row["wrong"]:
        if row["decisions"] and not row["early"]:
            return "exact"  # none stopped before its end
        if all_audited(row):
            return "counted"
    return given


def whose(rows: Sequence[dict]) -> str:
    """Kernels by name."""
    return listed([row["kernel"] for row in rows])


def audits(rows: Sequence[dict]) -> str:
    """What audits of some kernels came to, and the worst bound on a rate."""
    audited = [row for row in rows if row["audited"]]
    if not audited:
        return "no decision was audited"
    wrong, seen = (sum(row[key] for row in audited) for key in ("wrong", "audited"))
    worst = max(audited, key=lambda row: row["error_upper"])
    of = "" if len(audited) == 1 else f" of {worst['kernel']}'s"
    most = max(row["regret_worst"] for row in audited)
    nats = f", by up to {most:.3g} nats" if any(map(lost_much, audited)) else ""
    some = told_of(worst)
    told = f"{wrong:,} of {seen:,} audited decisions{some} were wrong{nats}, so at most "
    told += f"{share(worst['error_upper'])}{of or ' of all' * bool(some)} are (95%)"
    if any(more_than_delta(row) for row in audited):
        return f"{told}, more than the {share(max(row['delta'] or 0 for row in audited))} asked for"
    if all(is_confirmed(row) for row in rows):
        return f"{told}, within the {share(min(row['delta'] or 0 for row in rows))} asked for"
    return told


def asymptotic(rows: Sequence[dict]) -> str:
    """Of decisions by estimates."""
    return f"{whose(rows)}: decided by estimates (asymptotic); {audits(rows)}"


def bounded(rows: Sequence[dict]) -> str:
    """Of decisions with a proved rate of errors."""
    deltas = [row["delta"] for row in rows if row["delta"]]
    rate = f"at most {share(max(deltas))} of decisions differ from exact ones (proved)"
    more = f"; {audits(rows)}" if any(row["audited"] for row in rows) else ""
    return f"{whose(rows)}: {rate if deltas else 'errors are bounded (proved)'}{more}"


def counted(rows: Sequence[dict]) -> str:
    """Of decisions that were all made again."""
    total = sum(row["decisions"] for row in rows)
    return (
        f"{whose(rows)}: nothing in these draws, all {total:,} decisions were audited, none wrong"
    )


def no_promise(rows: Sequence[dict]) -> str:
    """Of selectors that promise nothing, and of kernels of a user's own."""
    if any(row["decisions"] for row in rows):
        return f"{whose(rows)}: decided without a promise; {audits(rows)}"
    return f"{whose(rows)}: not known, nothing here checks it"


TOLD = {
    "tempered": lambda rows: f"{whose(rows)}: tempered, these draws are not the posterior's",
    "none": no_promise,
    "unadjusted": lambda rows: f"{whose(rows)}: unadjusted, a bias that depends on the step",
    "asymptotic": asymptotic,
    "bounded": bounded,
    "counted": counted,
    "exact": lambda rows: f"{whose(rows)}: nothing",
}  # worst first


# ----------------------------------------------------------------------------------------- faster
def faster(rows: Sequence[dict], kernels: Sequence[dict], apart: bool) -> str:
    """The third line, one suggestion: of the kernel that reads most, or the one that moves least.

    apart: chains are so far from each other that moves are not what is slow.
    """
    both = list(zip(rows, kernels, strict=True))
    read = [row for row in rows if row["pulls_per_draw"] > 0]
    if read:
        row, kernel = max(both, key=lambda pair: pair[0]["pulls_per_draw"])
        if row["read"] > MUCH and (row["rows"] or 0) >= FEW_ROWS:
            if said := read_less(row, kernel):
                return said
    # Of thinned draws that are nearly independent it is not known how few would have been.
    thinned = [row["kernel"] for row in rows if row["iat_at_most"]]
    known = [(row, k) for row, k in both if row["ess"] == row["ess"] and not row["iat_at_most"]]
    if apart or not known:
        why = f", of {listed(thinned)} too few draws were kept" if thinned else ""
        return "first let the chains agree." if apart else f"nothing to go by{why}."
    row, kernel = min(known, key=lambda pair: pair[0]["ess"])
    name, iat = row["kernel"], row["iat"]
    count = f"{iat:,.0f}" if iat >= 9.5 else f"{iat:.2g}"
    each = f"{name} takes {count} draws for an effective one"
    if iat > LONG_WAY:
        if kernel["proposes"] and row["walks"]:
            return f"{each}: propose along a fit, proposal=sm.pcn(sm.laplace(model))."
        if kernel["kind"] == "Gibbs" and " data per site" in kernel["note"]:
            return f"{each}: sm.paths draws sites in an order, such as hidden states, at once."
        if " site by site " in kernel.get("moves", ""):
            return f"{each}: sm.interweave moves its sites at once, sm.windows those in an order."
        return f"{each}: move it together with what it depends on."
    each = each if iat >= 1.5 else f"nearly every draw is an effective one ({name})"
    most = max((row["read"] for row in read), default=1.0)
    told = f", and at most {share(most)} of the data are read" if most <= MUCH else ""
    return f"nothing obvious: {each}{told}."


def read_less(row: dict, kernel: dict) -> str:
    """What would read fewer data; empty: nothing that is known of."""
    way = f"{row['kernel']} reads {share(row['read'])} of {row['rows']:,} data in each decision"
    if kernel.get("control"):
        return ""
    if kernel["continuous"] and (kernel["takes_control"] or kernel["proposes"]):
        by = "give it" if kernel["subsamples"] else "leave its selector out and give it"
        by = by if kernel["proposes"] else "try"  # of values far apart a fit knows little
        return f"{way}: {by} control=sm.Taylor(sm.laplace(model)), to decide mostly without data."
    loop = any(told in (kernel.get("note") or "") for told in IN_ONE_LOOP)
    if "Exact" in kernel.get("parts", ()) and kernel.get("kind") == "Gibbs" and not loop:
        return f"{way}: selector=sm.Racing() reads fewer, at a stated risk."
    return ""


def listed(names: Sequence[str]) -> str:
    """Some names, and how many more."""
    shown = ", ".join(names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown
