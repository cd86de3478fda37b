"""What each kernel would cost, before a long run: `plan`, a pilot and an advice.

Two numbers decide what a race costs: G, the nats between the best two arms, and N v, N times the
variance of the difference of their rewards. Chen & Ghahramani (2016, Prop. 7) turn them into the
rewards a race reads. A control variate leaves G and shrinks N v.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.control import Control
from subsample_mcmc.calls import helpful
from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.racing import Racing, expected_pulls
from subsample_mcmc.decisions.rules.bnormal import b_normal
from subsample_mcmc.kernels.base import Kernel, check, labelled
from subsample_mcmc.kernels.compose import changed
from subsample_mcmc.kernels.langevin import Langevin
from subsample_mcmc.numerics.progress import Bar, quietly
from subsample_mcmc.runs.audit import takes, with_selector
from subsample_mcmc.runs.sample import sample
from subsample_mcmc.runs.views.as_code import code_of, names_of
from subsample_mcmc.runs.views.costs import microseconds_of
from subsample_mcmc.style import listing, safe, shown, tabled
from subsample_mcmc.target.model import Model, must_be_model

LEVEL = 1.1  # times as fast: below it the pilot cannot tell
BRIEF, MORE = 0.05, 50  # seconds too short to time; how many times longer the second try is
FEWEST, MOST = 20, 20_000  # draws of a pilot that has its time
MIXED = 10.0  # effective draws, below which a pilot tells nothing of them
GIVEN, EXACT = "as given", "exact"  # names of variants
PATHS = 64  # simulated races for every audited decision
BATCHES, DELTAS = (32, 64, 128, 256, 512), (0.1, 0.05, 0.02, 0.01, 0.005, 0.001, 1e-4)
_COLUMNS = (  # and formats; empty: a number, as reports write it
    ("kernel", "s"), ("variant", "s"), ("G, nats", ""), ("N v, nats^2", ""),
    ("expected", ".2%"), ("read", ".2%"), ("predicted", ".1%"), ("us a decision", ""),
    ("ESS a second", ""),
)  # fmt: skip


class Plan:
    """A pilot's findings: `rows`, a dict per kernel and variant; `advice`, lines of text.

    G and N v are medians over decisions made exactly; `expected` is what Prop. 7 says of them, as
    a share of all rewards; `read` and the time are what the variant did. The time of a decision is
    a mean over all kernels, which a variant changes together; so is the number of effective draws a
    second, of the slowest quantity, which short pilots tell roughly. Both are without the audits
    that sm.sample makes unasked, which read a fifth more at most. `kernels` has each variant by
    its name, and `best` is the one that the advice names: sm.sample(model, found.best).

    rows: a dict for each kernel and variant.
    decisions: (G, N v) of each pilot's decisions, by (kernel, variant).
    size: rows of the model.
    refused: lines on variants that could not run.
    kernels: each variant by its name.
    by_rate: several kernels were compared, by effective draws a second.
    code: lines of Python that make `best` again, to copy; print() shows them.

    Example:
        >>> def log_likelihood(state, data, n):
        ...     return -abs(data.y[n] - 0.5 * state.k[0])
        >>> y = np.random.default_rng(0).laplace(1.5, 1.0, 5_000)
        >>> model = sm.Model(log_likelihood, {"y": y}, state={"k": 0}, support={"k": 6})
        >>> found = sm.plan(model, sm.Gibbs("k"), steps=50, warmup=0, seed=1)
        >>> found.to_frame()["variant"].tolist(), found.best in found.kernels.values()
        (['as given', 'exact'], True)
        >>> sm.plan(model, sm.Gibbs("k", sm.Exact()), steps=50, warmup=0, seed=1).code
        'kernel = sm.Gibbs("k", selector=sm.Exact())'
    """

    def __init__(
        self, rows: list[dict[str, Any]], decisions: dict, size: int, refused=(),
        kernels: Mapping[str, Kernel] | None = None, by_rate: bool = False,
    ):  # fmt: skip
        self.rows, self.decisions, self.size = rows, decisions, size
        self.kernels, self.by_rate = dict(kernels or {}), by_rate
        self.advice = [*(advice_by_rate(rows) if by_rate else advices(rows)), *refused]

    @property
    def best(self) -> Kernel:
        """The variant with most effective draws a second, of several kernels; or the fastest."""
        return self.kernels[fastest(self.rows, self.by_rate)["variant"]]

    @property
    def code(self) -> str:
        """Lines of Python that make `best` again, to copy.

        The selectors that the model says are written out. Fits are called fit, or fit_1, fit_2
        where the plan has several; functions and classes of your own have their names. What has
        none, such as an array or a lambda, is told in a comment, and plan.best stands for it.
        """
        return code_of(self.best, names_of(self.kernels.values())) if self.kernels else ""

    def to_frame(self) -> Any:
        """A pandas table."""
        import pandas

        return pandas.DataFrame(self.rows)

    def cells(self) -> list[list[str]]:
        """The table as text, line by line."""
        lines = [[name for name, _ in _COLUMNS]]
        for row in self.rows:
            lines.append([
                "-" if row[name] != row[name]
                else format(row[name], form) if form else shown(row[name])
                for name, form in _COLUMNS
            ])  # fmt: skip
        return lines

    def __str__(self) -> str:
        cells = self.cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = []
        for line in cells:
            names = [cell.ljust(width) for cell, width in zip(line[:2], widths, strict=False)]
            numbers = [cell.rjust(w) for cell, w in zip(line[2:], widths[2:], strict=True)]
            lines.append("  ".join(names + numbers))
        code = ["", "# .best as code, which is .code", self.code] if self.kernels else []
        return "\n".join([*lines, "", *self.advice, *code])

    def _repr_html_(self) -> str:
        head, *rest = self.cells()
        code = [f"<pre># .best as code, which is .code\n{safe(self.code)}</pre>"]
        told = [*listing(self.advice), *(code if self.kernels else [])]
        return "\n".join([*told, *tabled(head, rest)])

    __repr__ = __str__

    def plot(self, axes: Any = None, panels: Any = None) -> Any:
        """Matplotlib axes, an array of one per panel: what the pilots took, and why.

        axes: as many of your own as there are panels; None: of a new figure.
        panels: names of "times" (per decision; a star is the advice), "shares" (of all rewards:
            read, and expected) and "gaps" (G of each decision against what a race tells it from,
            with lines of equal cost); None: all.
        """
        from subsample_mcmc.runs.views.figures import plot_plan

        return plot_plan(self, axes, panels)

    def design(self, kernel: str, variant: str, error: float = 1e-3) -> dict[str, float]:
        """The batch and delta of Racing(Normal()) that read least, erring at most so often.

        Korattikara, Chen & Welling (2014, section 5), on the decisions of the pilot: every one is
        raced PATHS times by simulation, Gaussian increments, and the mean over decisions of the
        rate of wrong ones is held to `error`.

        kernel, variant: names, as in rows.
        error: share of decisions that may be wrong.
        """
        if (kernel, variant) not in self.decisions:
            known = ", ".join(str(pair) for pair in self.decisions)
            raise ValueError(f"design{(kernel, variant)}: the pilot has decisions of {known}.")
        gaps, spreads = self.decisions[kernel, variant]
        found = [
            (pulls, wrong, batch, delta)
            for batch in BATCHES if 4 * batch < self.size
            for delta in DELTAS
            for pulls, wrong in [simulated(gaps, spreads, self.size, batch, delta)]
        ]  # fmt: skip
        good = [item for item in found if item[1] <= error]
        if not good:
            raise ValueError(f"no batch and delta err at most {error}: use sm.Exact().")
        pulls, wrong, batch, delta = min(good)
        return {"batch": batch, "delta": delta, "share": pulls / self.size, "error": wrong}


def simulated(gaps, spreads, size: int, batch: int, delta: float) -> tuple[float, float]:
    """Mean rows read, and rate of wrong decisions, of two-arm races at doubling looks.

    At a share f of the rows the estimate of G is Gaussian with variance N v (1/f - 1), and its
    deviations at later looks are a Brownian motion run backwards in that variance.
    """
    rng = np.random.default_rng(0)
    looks = [batch]
    while 2 * looks[-1] < size:
        looks.append(2 * looks[-1])
    clock = np.array([size / look - 1.0 for look in looks])
    bound = b_normal(delta, batch / size, "table1", 2.0)
    steps = -np.diff(np.append(clock, 0.0))
    noise = rng.standard_normal((len(gaps), PATHS, len(looks))) * np.sqrt(steps)
    walks = np.cumsum(noise[..., ::-1], axis=-1)[..., ::-1]  # 0 when all is read
    z = gaps[:, None, None] / np.sqrt(np.maximum(spreads, 1e-300))[:, None, None] + walks
    crossed = np.abs(z) > bound * np.sqrt(clock)
    first = np.where(crossed.any(-1), crossed.argmax(-1), len(looks))
    rows = np.append(looks, size)[first]
    ends = np.take_along_axis(z, np.minimum(first, len(looks) - 1)[..., None], -1)[..., 0]
    wrong = (first < len(looks)) & (ends < 0.0)
    return float(rows.mean()), float(wrong.mean())


@helpful
def plan(
    model: Model, kernel: Kernel | Mapping[str, Kernel],
    controls: Mapping[str, Control] | None = None, steps: int = 200, warmup: int = 200, seed=None,
    progress: bool = True, seconds: float | None = None,
) -> Plan:  # fmt: skip
    """Run short pilots of a kernel as it is, without control variates, with others, and exactly.

    Pilots start at the fit of a control variate, if there is one, else in the model's initial
    state. Ctrl-C gives what there is so far.

    model: as in sm.sample.
    kernel: one, or several by name, {"walk": sm.Metropolis("b"), "pCN": ...}, each in all variants:
        they are compared by effective draws a second.
    controls: control variates by name, such as {"order 2": sm.Taylor(fit, 2), "bins": sm.Bins()};
        each is given to every kernel that decides.
    steps: draws of a pilot, once to time it and once to audit it.
    warmup: steps before these.
    seed: as in sm.sample.
    progress: a bar.
    seconds: instead of steps: as many as fit into this time of all pilots, beside compiling and
        warm-up.

    Example:
        >>> def log_likelihood(state, data, n):
        ...     return -abs(data.y[n] - 0.5 * state.k[0])
        >>> y = np.random.default_rng(0).laplace(1.5, 1.0, 5_000)
        >>> model = sm.Model(log_likelihood, {"y": y}, state={"k": 0}, support={"k": 6})
        >>> found = sm.plan(model, sm.Gibbs("k"), {"bins": sm.Bins()}, steps=50, warmup=0, seed=1)
        >>> [row["variant"] for row in found.rows]
        ['as given', 'bins', 'exact']
    """
    must_be_model(model, "sm.plan(model, kernel)")
    several = isinstance(kernel, Mapping)
    named = dict(kernel) if isinstance(kernel, Mapping) else {"": kernel}
    for one in named.values():
        check(one, model)
        if not any(getattr(leaf, "selector", None) for leaf in one.leaves()):
            raise ValueError(f"{one.text()} makes no decisions: there is nothing to plan.")
    if not isinstance(controls or {}, Mapping):
        raise TypeError(
            f"controls={controls!r:.60}: give them by name, such as {{'taylor': sm.Taylor(fit)}}."
        )
    if taken := sorted({GIVEN, "no control", EXACT} & set(controls or {})):
        raise ValueError(f"controls names {taken[0]!r}, which a pilot of its own has: rename it.")
    if seconds is not None and not 0.0 < seconds < np.inf:
        raise ValueError(f"seconds={seconds!r}: give a positive number, of all pilots together.")
    given = {
        ", ".join(filter(None, (name, how if not (several and how == GIVEN) else ""))): variant
        for name, one in named.items() for how, variant in variants(one, controls or {}).items()
    }  # fmt: skip
    rows: list[dict[str, Any]] = []
    decisions: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]] = {}
    refused: list[str] = []
    tried: dict[str, Kernel] = {}
    start = reference_state(given)
    bar = Bar(given.items(), "pilots", progress=progress)
    for name, variant in bar:
        bar.set_postfix_str(f"{name}: compiling, and short runs")
        options = {"draws": steps, "warmup": warmup, "chains": 1, "seed": seed, "progress": False}
        options |= {"start": [start]} if start else {}
        try:
            check(variant, model)
            with quietly(progress):
                variant = variant.settled(model)
                for leaf in variant.leaves():  # some refuse a model only when they are prepared
                    leaf.prepared(model)
        except ValueError as error:
            if name == GIVEN:
                raise
            refused.append(f"{name}: not for this model. {error}")
            continue
        own = None if seconds is None else seconds / len(given)
        try:
            audited = name.split(", ")[-1] != EXACT
            found = pilots(model, variant, options, audited, own)
        except KeyboardInterrupt:
            bar.close()
            if not rows:
                raise
            left = ", ".join(list(given)[list(given).index(name) :])
            refused.append(f"Stopped by Ctrl-C: without pilots of {left}.")
            break
        tried[name] = variant
        for label, leaf in labelled(variant):
            if getattr(leaf, "selector", None) is not None:
                rows.append(measured(name, label, leaf, found, model, decisions))
    return Plan(rows, decisions, model.size, refused, tried, several)


class Pilots(NamedTuple):
    """Runs of one variant."""

    stats: dict[str, Any]  # of the kernels, by label
    checked: dict[str, Any]  # the same of an audited run; none where all is decided exactly
    microseconds: float  # of a decision, of all kernels
    rate: float  # effective draws a second of the slowest quantity; nan: too few to tell


def pilots(
    model: Model, variant: Kernel, options: dict[str, Any], audited: bool, seconds: float | None
) -> Pilots:
    """Run a variant, to time it and to audit it; seconds: about, for both."""
    if seconds is None:
        whole = timed(model, variant, options)
    else:
        part = seconds / (2.0 if audited else 1.0)
        whole = as_long(model, variant, options, part)
    checked = {}
    if audited and seconds is None:
        checked = pilot(model, variant, options | {"audit": 1.0}).stats
    elif audited:
        checked = as_long(model, variant, options | {"audit": 1.0}, part).stats
    decided = sum(v["decisions"].sum() for v in whole.stats.values() if "decisions" in v)
    return Pilots(whole.stats, checked, microseconds_of(whole, int(decided)), rate_of(whole, model))


def as_long(model: Model, kernel: Kernel, options: dict[str, Any], seconds: float) -> Any:
    """A pilot that takes about so long."""
    brief = pilot(model, kernel, options | {"draws": FEWEST, "warmup": 0})  # compiles
    cost = float(brief.seconds.sum()) / FEWEST
    draws = int(np.clip(seconds / max(cost, 1e-9), FEWEST, MOST))
    return pilot(model, kernel, options | {"draws": draws})


def rate_of(trace: Any, model: Model) -> float:
    """Effective draws a second, of draws alone, of the slowest quantity."""
    found = [trace.mixing(name) for name in model.names]
    ess = min((m.ess for m in found if m.moved and m.ess == m.ess), default=np.nan)
    stuck = any(not m.moved for m in found)
    drawn = trace.shape[1] / (trace.shape[1] + (trace.meta.get("warmup") or 0))
    return ess / (drawn * float(np.sum(trace.seconds))) if ess >= MIXED and not stuck else np.nan


def timed(model: Model, kernel: Kernel, options: dict[str, Any]) -> Any:
    """A pilot that is long enough to time."""
    found = pilot(model, kernel, options)
    if float(found.seconds.sum()) < BRIEF:
        found = pilot(model, kernel, options | {"draws": MORE * options["draws"]})
    return found


def pilot(model: Model, kernel: Kernel, options: dict[str, Any]) -> Any:
    """A run; one that Ctrl-C cut short tells nothing of a time, and ends all of them."""
    trace = sample(model, kernel, **{"audit": 0.0} | options)
    if trace.interrupted:
        raise KeyboardInterrupt
    return trace


def reference_state(variants: Mapping[str, Kernel]) -> dict[str, Any] | None:
    """Where a fit behind one of the control variates says that the posterior is."""
    for variant in variants.values():
        for leaf in variant.leaves():
            state = state_of(getattr(getattr(leaf, "control", None), "fit", None))
            if state is not None:
                return state
    return None


def state_of(fit: Any) -> dict[str, Any] | None:
    """A fit's state, or that of the most probable of several models; None where there is none."""
    if isinstance(fit, list | tuple):
        fit = max(fit, key=lambda one: getattr(one, "log_evidence", -np.inf), default=None)
    return getattr(fit, "state", None)


def variants(kernel: Kernel, controls: Mapping[str, Control]) -> dict[str, Kernel]:
    """The kernel with other control variates, and deciding exactly."""

    def without(leaf):
        return controlled(leaf, None)

    own = any(getattr(leaf, "control", None) is not None for leaf in kernel.leaves())
    found = {GIVEN: kernel} | ({"no control": changed(kernel, without)} if own else {})
    for name, control in controls.items():
        found[name] = changed(kernel, lambda leaf, c=control: controlled(leaf, c))
    return found | {EXACT: with_selector(found.get("no control", kernel), Exact())}


def controlled(leaf: Any, control: Control | None) -> Any:
    """A kernel with another control variate, if it decides: Langevin then proposes along it."""
    if getattr(leaf, "selector", None) is None or not takes(leaf, "control"):
        return leaf
    if isinstance(leaf, Langevin) and control is None:
        return replace(leaf, control=None, gradient=leaf.own)
    if isinstance(leaf, Langevin) and leaf.own is None and control is not None:
        known = type(control).gradient is not Control.gradient
        return replace(leaf, control=control, gradient="control" if known else "minibatch")
    return replace(leaf, control=control)


def measured(name, label, leaf, found: Pilots, model, decisions) -> dict[str, Any]:
    """One row of the plan."""
    total = {k: v.sum() for k, v in found.stats[label].items()}
    gap = spread = expected = np.nan
    facts, delta = leaf.facts(model), getattr(leaf.selector, "delta", None)
    arms = facts["arms"] or 2
    if found.checked:
        stats = found.checked[label]
        seen = (stats["audited"] > 0) & (stats["margin"] > 0.0)
        gaps = (stats["margin"][seen] / stats["audited"][seen]).ravel()
        spreads = (stats["variance"][seen] / stats["audited"][seen]).ravel()
        if len(gaps):
            decisions[label, name] = gaps, spreads
            gap, spread = float(np.median(gaps)), float(np.median(spreads))
            races = leaf.selector.dropping_rule is not None and leaf.selector.risk is not None
            selector = leaf.selector if races else Racing()
            known = leaf.prepared(model)
            always = 0 if known is None else len(known.outliers)
            raced = model.size - always
            scaled = gaps / np.sqrt(raced * np.maximum(spreads, 1e-300))
            pulls = expected_pulls(scaled, raced, arms, min(selector.delta, 0.49))
            if not leaf.selector.thins:  # whose reading depends on bounds, not on G and N v
                expected = float(np.mean(pulls)) / (arms * model.size) + always / model.size
    return {
        "kernel": label, "variant": name, "G, nats": gap, "N v, nats^2": spread,
        "expected": expected, "read": total["pulls"] / max(total["everything"], 1),
        "predicted": total["predicted"] / max(total["decisions"], 1),
        "us a decision": found.microseconds, "ESS a second": found.rate,
        "arms": arms, "delta": delta, "fit": facts["rows"] == model.size and facts["continuous"],
    }  # fmt: skip


def by_kernel(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Rows grouped by kernel."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["kernel"], []).append(row)
    return found


def fastest(rows: list[dict[str, Any]], by_rate: bool) -> dict[str, Any]:
    """The row with most effective draws a second, or whose decisions take least."""
    if by_rate and not all(np.isnan(row["ESS a second"]) for row in rows):
        return max(rows, key=lambda row: np.nan_to_num(row["ESS a second"], nan=-1.0))
    return min(rows, key=lambda row: row["us a decision"])


def advice_by_rate(rows: list[dict[str, Any]]) -> list[str]:
    """Which of several kernels has most effective draws a second, and by how much."""
    best = fastest(rows, True)
    if np.isnan(best["ESS a second"]):
        return ["No pilot mixed: take more steps, or start them elsewhere."]
    rates = {row["variant"]: row["ESS a second"] for row in rows}
    others = [r for v, r in rates.items() if v != best["variant"] and r == r]
    told = f"{best['variant']}: {shown(best['ESS a second'])} effective draws a second"
    if others:
        told += f", {best['ESS a second'] / max(others):.3g} times the next"
    return [f"{told}. It is `.best`."]


def advices(rows: list[dict[str, Any]]) -> list[str]:
    """What was fastest, and how that was found of several kernels."""
    kernels = by_kernel(rows)
    if len(kernels) < 2:
        return [advice_of(part) for part in kernels.values()]
    first = [row | {"kernel": ", ".join(kernels)} for row in next(iter(kernels.values()))]
    told = (
        f"Times are those of all {len(kernels)} kernels together. To tell them apart, give one of "
        "them another selector or control variate, and plan again."
    )
    return [advice_of(first), told]


def advice_of(rows: list[dict[str, Any]]) -> str:
    """Race, exact, or which control variate: what was fastest in the pilot, and by how much."""
    best = min(rows, key=lambda row: row["us a decision"])
    exact = next((row for row in rows if row["variant"] == "exact"), None)
    if exact is None:
        return f"{best['kernel']}: {best['variant']} was fastest."
    times = exact["us a decision"] / best["us a decision"]
    if best is exact:
        told = f"{best['kernel']}: decide exactly, selector=sm.Exact(): no variant was faster."
        if best.get("fit", True):  # of continuous blocks; its sums are over all data
            told += (
                " A control variate near the mode, control=sm.Taylor(sm.laplace(model)), may be."
            )
        return told
    if times < LEVEL:
        return f"{best['kernel']}: racing and exact decisions take about the same time."
    how = "race as given" if best["variant"] == "as given" else f"race, {best['variant']}"
    return f"{best['kernel']}: {how}: {times:.3g} times as fast as exact decisions."
