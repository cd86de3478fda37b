"""What a kernel is: a frozen spec, a compiled step, and the arrays a chain gives it.

    build(model)      the compiled step(chain, tools); functions are compile-time
    bind(model, run)  the tools: numbers and arrays of one chain
    writes            names of the blocks it may change

A step changes its blocks in place, counts what it did in its tally, and reports an error by a
code in chain.now, which Python turns into an exception.
"""

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.approx.control import Control, prepared_for
from subsample_mcmc.decisions.racing import Default, Racing
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import (
    ABLE,
    FunctionAddress,
    RecordAddress,
    call_step,
    is_ours,
)
from subsample_mcmc.numerics.records import similar
from subsample_mcmc.style import safe, tabled
from subsample_mcmc.target.layout import TALLY, Column, Run
from subsample_mcmc.target.model import Model, must_be_model

NOW = np.dtype(
    [
        ("iteration", np.int64),  # steps of the chain so far, warm-up included
        ("warmup", np.int64),  # iterations of it in all; 0: not known
        ("warm", np.int64),  # 1 in warm-up: the only time at which kernels adapt
        ("audit", float),  # share of decisions to make again, exactly; negative: a few, unasked
        ("code", np.int64),  # 0, or what went wrong ...
        ("kernel", np.int64),  # ... in which leaf
        ("arm", np.int64),
        ("row", np.int64),
    ],
    align=True,
)
# Codes beside those of decisions/rules/rule.py.
BAD_PRIOR, BAD_PREDICATE, BAD_PROPOSAL, SEEN_BY_DATA, TOUCHED_BY_OTHERS = -10, -11, -12, -13, -14

GUARANTEES = ("exact", "bounded", "asymptotic", "unadjusted", "none")  # best to worst


class Chain(NamedTuple):
    """What all kernels of a chain share."""

    rng: Any  # numpy Generator: Gumbels, uniforms, proposals
    rows: np.ndarray  # uint64 (1,): the stream that mini-batches come from
    audits: np.ndarray  # uint64 (1,): the stream that decides which decisions are audited
    now: np.recarray  # (1,) of NOW


# One of the same types as all: what is called by its address is compiled for them.
ANY_CHAIN = Chain(
    np.random.Generator(np.random.PCG64(0)), np.zeros(1, dtype=np.uint64),
    np.zeros(1, dtype=np.uint64), np.zeros(1, dtype=NOW).view(np.recarray),
)  # fmt: skip
# Of selectors that thin: over the decisions of a draw, what bounds of all residuals add up to.
BOUND = (("bound", "f8"),)
ANY_NUMBER = 2**62  # of rows: more than there can be
# What a kernel's facts say where its decisions are summed directly.
DECIDES_EXACTLY = {
    "selector": "Exact()", "parts": ["Exact"], "delta": None, "asymptotic_normal": False,
    "subsamples": False, "takes_control": False,
}  # fmt: skip
# ... and where no datum has a say in them; and what Leaf.reads() says then.
DECIDED_BY_PRIOR = DECIDES_EXACTLY | {
    "guarantee": "exact", "rows": 0, "control": "",
    "note": "no datum depends on it: decided by the prior alone",
}  # fmt: skip
READS_NONE = "none: the prior decides"


class BoundStep(NamedTuple):
    """A kernel at work in one chain: its step, and what that works with, by their addresses."""

    step: Any  # (chain, tools)
    tools: Any


class Step(FunctionAddress):
    """The step of a kernel in one chain; plain: the same in Python, where it is not compiled."""

    def __init__(self, function: Any, tools: Any, plain: Any = None):
        super().__init__(function, ANY_CHAIN, tools)
        self.plain = plain


@jit
def call_compiled(chain, step, tools):
    """Make a compiled step, from Python."""
    call_step(step, chain, tools)


def run_step(step: Step, chain: Any, tools: RecordAddress) -> None:
    """Make a step from Python, where a part of a composition is plain Python."""
    if step.plain is not None:
        step.plain(chain, tools.pointer)
    else:
        call_compiled(chain, step.address, tools.pointer._address)


class OtherTools(NamedTuple):
    """Tools that are no record of the package: those of a user's own leaf."""

    own: Any


@memoised
def of_others(step: Any) -> Any:
    """The step of a user's own leaf, given OtherTools."""

    @jit(inner=True, user=True)
    def run(chain, tools):
        step(chain, tools.own)

    return run


@memoised
def step_entry(step: Any) -> Any:
    """A leaf's step, to be called by its address."""

    @jit(inner="entry", user=True)
    def run(chain, tools):
        step(chain, tools)
        return 0.0

    return run


class Kernel:
    """A move that leaves the posterior fixed, exactly or as its guarantee says."""

    guarantee: str = "exact"
    interpreted: ClassVar[bool] = False  # is its step Python, which hands out work to cores

    def leaves(self) -> "Iterator[Leaf]":
        """The kernels that move something, in the order in which they are bound."""
        raise TypeError(f"{type(self).__name__} must define leaves().")

    def at_work(self, model: Model, run: Run, steps: dict) -> "BoundStep":
        """It at work in one chain; steps: what the leaves' build() returned."""
        raise TypeError(f"{type(self).__name__} must define at_work(): see kernels/base.py.")

    def check_composed(self, model: Model) -> None:
        """Refuse a model that its parts serve, but not as they are composed."""

    def suspects(self, model: Model, state) -> Iterator[tuple[Any, tuple]]:
        """The user's functions in it, with arguments: who is to blame if it does not compile."""
        yield from ()

    def text(self) -> str:
        """The structure, in one line."""
        return repr(self)

    def settled(self, model: Model) -> "Kernel":
        """The same, with a selector in all kernels that were given none."""
        return self

    def __rshift__(self, other: "Kernel") -> "Kernel":
        from subsample_mcmc.kernels.compose import cycle  # compose builds on this module

        return cycle(self, other)

    def describe(self, model: Model | None = None) -> str:
        """Blocks, selectors, control variates and guarantees, one kernel a line.

        model: refused as in sm.sample, but for blocks that it does not move, which it tells. (A
            control variate reads the data, once for both.) None: what is known without a model.
        """
        return description(self if model is None else checked_and_bound(self, model), model)

    def _repr_html_(self) -> str:
        rows = []
        for label, leaf in labelled(self):
            told, given = leaf.facts(), getattr(leaf, "selector", None)
            by, promise = (brief(given) if given else "no decision"), told["guarantee"]
            if given and given.by_default:  # exact where the model allows it
                by, promise = "the default", "describe(model) says"
            moving = told.get("moves") or ", ".join(told["writes"]) or "nothing"
            rows.append([label, told["kind"], moving, by, told["control"] or "-", promise])
        head = ["", "kernel", "moves", "decides by", "control variate", "guarantee"]
        return "\n".join([f"<p><code>{safe(self.text())}</code></p>", *tabled(head, rows)])


class Leaf(Kernel):
    """A kernel that moves blocks itself."""

    in_parts: ClassVar[bool] = False  # may it move some of a block's sites: those of run.part
    own_target: ClassVar[bool] = False  # does it bring what a model's log_likelihood is to others
    elsewhere: ClassVar[str] = ""  # why it does not serve where rows are elsewhere
    columns: ClassVar[tuple[tuple[str, str], ...]] = tuple(
        (name, TALLY[name].str[1:]) for name in TALLY.names or ()
    )

    @property
    def writes(self) -> tuple[str, ...]:
        raise TypeError(f"{type(self).__name__} must define writes.")

    @property
    def learns(self) -> str:
        """What it adapts in warm-up, by the name of its argument; empty: nothing."""
        return ""

    @property
    def label(self) -> str:
        """What statistics are filed under; made unique by `labelled`."""
        return "_".join(self.writes)

    def leaves(self) -> "Iterator[Leaf]":
        yield self

    def build(self, model: Model) -> Any:
        """step(chain, tools), compiled."""
        raise TypeError(f"{type(self).__name__} must define build(): see kernels/base.py.")

    def bind(self, model: Model, run: Run) -> tuple:
        """The tools of one chain."""
        raise TypeError(f"{type(self).__name__} must define bind(): see kernels/base.py.")

    def at_work(self, model: Model, run: Run, steps: dict) -> BoundStep:
        """It at work in one chain."""
        tools, step = self.bind(model, run), steps[self]
        if ABLE and not hasattr(step, "py_func"):
            return BoundStep(Step(step, tools, plain=step), RecordAddress(tools))
        if not is_ours(tools):
            step, tools = of_others(step), OtherTools(tools)
        return BoundStep(Step(step_entry(step), tools), RecordAddress(tools))

    def check(self, model: Model) -> None:
        """Refuse a model this kernel cannot serve."""

    def prepared(self, model: Model) -> Any:
        """What it asks of its control variate, made on first use by passes over data; or None."""
        control = getattr(self, "control", None)
        if not isinstance(control, Control):
            return None
        return prepared_for(model, control, getattr(self, "selector", None))

    def found(self, model: Model) -> str:
        """What the model was found to allow, where draws depend on it; empty: nothing."""
        return ""

    def reads(self, model: Model) -> str:
        """Which data its decisions are about, where that was found out; empty: as it is written."""
        return ""

    def check_among(self, leaves: "list[Leaf]", model: Model) -> None:
        """Refuse other kernels of the composition that it cannot work with."""

    def not_in_parts(self, model: Model) -> str:
        """Why it cannot move its block's sites in parts, side by side; empty: it can."""
        return "its blocks move as one"

    def facts(self, model: Model | None = None) -> dict[str, Any]:
        """What describe() and report() say about it."""
        given, control = getattr(self, "selector", None), getattr(self, "control", None)
        selector = None if given is None else given.itself
        rule = None if selector is None else selector.dropping_rule
        known = model.prepared.get(control) if model and isinstance(control, Control) else None
        return {
            "kind": type(self).__name__,
            "writes": list(self.writes),
            "guarantee": self.guarantee,
            "selector": repr(selector) if selector is not None else "",
            "parts": [type(part).__name__ for part in (selector, rule) if part is not None],
            # May it decide by some of the rows; would a control variate let it read fewer.
            "subsamples": selector is not None and not selector.reads_everything(ANY_NUMBER),
            "takes_control": selector is not None and rule is not None and selector.takes_control,
            "continuous": model is None or len(model.floats) > 0,  # what a fit may be made of
            "control": control.text(model) if isinstance(control, Control) else "",
            "evaluations": list(getattr(known, "evaluations", (0, 0))),
            "delta": getattr(selector, "risk", None),
            "promise": getattr(selector, "promise", ""),
            "remedy": getattr(selector, "remedy", ""),
            "rows": model.size if model else 0,
            "arms": None,
            "asymptotic_normal": rule is not None and rule.guarantee == "asymptotic",
            "note": "",
        }


class OneBlock(Leaf):
    """A leaf that moves one block, or several as one, and decides by a selector.

    Fields: block, a name or a tuple of names; selector.
    """

    several: ClassVar[bool] = False  # may it move several blocks as one

    block: Any
    selector: Any

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.block,) if isinstance(self.block, str) else self.block

    def text(self) -> str:
        return f"{type(self).__name__}({self.block!r})"

    def take_selector(self) -> None:
        """Default() where None was given; refuses what is no selector."""
        self.take_block()
        if self.selector is None:
            object.__setattr__(self, "selector", Default())
        if not isinstance(self.selector, Selector):
            raise TypeError(f"selector={self.selector!r}: give a selector such as sm.Exact().")

    def take_block(self) -> None:
        """A name, or a tuple of names where several may move as one: one alone is that block."""
        name, given = type(self).__name__, self.block
        if isinstance(given, str):
            return
        if not self.several:
            raise TypeError(
                f"{name}({given!r}): give the name of one block, and compose kernels: "
                f'sm.{name}("a") >> sm.{name}("b"). Parameters that depend on each other mix '
                "better as one block, an array of the state."
            )
        names = tuple(given) if isinstance(given, list | tuple) else ()
        if not names or not all(isinstance(one, str) for one in names):
            raise TypeError(
                f'{name}({given!r}): give the name of a block, "b", or a tuple of the names of '
                'several that move as one, ("b", "sigma").'
            )
        if twice := [one for one in names if names.count(one) > 1]:
            raise ValueError(f"{name}({given!r}): name block {twice[0]!r} once.")
        object.__setattr__(self, "block", names if len(names) > 1 else names[0])

    def settled(self, model: Model) -> Kernel:
        """With the selector that the model says, if there was none."""
        if self.selector is None or not self.selector.by_default:
            return self
        made = copy(self)  # a user's own kernel need be no dataclass
        object.__setattr__(made, "selector", self.usual_selector(model))
        return made

    def usual_selector(self, model: Model) -> Selector:
        """What decides where no selector was given."""
        return Racing()

    def take_control(self) -> None:
        """Refuses what is no control variate."""
        given = self.control  # type: ignore[attr-defined]
        if given is not None and not isinstance(given, Control):
            raise TypeError(f"control={given!r:.60}: give a control variate, sm.Taylor(fit).")


def labelled(kernel: Kernel) -> list[tuple[str, Leaf]]:
    """Leaves with unique labels: a second kernel of block mu is "mu_2"."""
    found: list[tuple[str, Leaf]] = []
    taken: set[str] = set()
    for leaf in kernel.leaves():
        label, count = leaf.label, 1
        while label in taken:
            count += 1
            label = f"{leaf.label}_{count}"
        taken.add(label)
        found.append((label, leaf))
    return found


def statistics_of(leaf: Leaf) -> tuple[tuple[str, str], ...]:
    """What a leaf counts in every draw: (name, kind)."""
    return (
        *leaf.columns,
        *(BOUND if getattr(getattr(leaf, "selector", None), "thins", False) else ()),
    )


def columns_of(kernel: Kernel) -> tuple[Column, ...]:
    """Where each leaf's statistics stand in a draw's row of words."""
    found: list[Column] = []
    for label, leaf in labelled(kernel):
        for name, kind in statistics_of(leaf):
            found.append(Column(label, name, kind, len(found)))
    return tuple(found)


def worst(guarantees) -> str:
    """The weakest of several guarantees."""
    return max(guarantees, key=GUARANTEES.index, default="exact")


def check(kernel: Kernel, model: Model, part: bool = False) -> None:
    """Refuse a composition that moves what is not there, or leaves a block unmoved.

    part: it may, as others are to follow.
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel={kernel!r:.60}: it is no kernel; {instead_of(kernel, model)}.")
    moved: set[str] = set()
    leaves = list(kernel.leaves())
    for label, leaf in labelled(kernel):
        missing = [name for name in leaf.writes if name not in model.variables]
        if missing:
            raise ValueError(
                f"kernel {label} moves {missing[0]!r}, which is no block of {model.names}: name "
                f"one of these.{similar(missing[0], model.names)}"
            )
        if model.log_likelihood is None and not leaf.own_target:
            raise ValueError(
                f"kernel {label} draws from the model's log_likelihood, and the model has none: "
                "sm.Model(None, ...) is for kernels that bring their target, as GibbsPartition."
            )
        leaf.check(model)
        leaf.check_among(leaves, model)
        moved |= set(leaf.writes)
    kernel.check_composed(model)
    still = [name for name in model.names if name not in moved]
    if still and not part:
        raise ValueError(
            f"no kernel moves block {', '.join(map(repr, still))}: give kernel >> "
            f"{moves(model, still)}, say, or make it data or a constant."
        )


# -------------------------------------------------------------------------- what is said of kernels
def brief(part: Any) -> str:
    """A selector or a rule as one writes it: with what differs from its defaults."""
    if not is_dataclass(part):
        return repr(part)
    told = [f for f in fields(part) if f.repr and getattr(part, f.name) != f.default]
    inside = ", ".join(f"{f.name}={brief(getattr(part, f.name))}" for f in told)
    return f"{type(part).__name__}({inside})"


def moves(model: Any, names: Iterable[str]) -> str:
    """A plain kernel for each of some blocks, as users write them."""
    return " >> ".join(
        f"sm.{'Gibbs' if model.variables[name].block.discrete else 'Metropolis'}({name!r})"
        for name in names
    )


def instead_of(given: Any, model: Model) -> str:
    """What to write where something else was given as a kernel."""
    values = tuple(given.values()) if isinstance(given, dict) else given
    if isinstance(values, list | tuple) and values and all(isinstance(k, Kernel) for k in values):
        combined = " >> ".join(k.text() for k in values)
        return f"combine several with k1 >> k2, or sm.cycle(k1, k2): {combined}"
    names = [given] if isinstance(given, str) and given in model.names else list(model.names)
    if isinstance(given, type) and issubclass(given, Kernel):
        kind = given.__name__
        return f"{kind} is a class: make one for a block, sm.{kind}({names[0]!r})"
    if isinstance(given, Model):
        return f"write the model once and first: sm.sample(model, {moves(model, names)})"
    if isinstance(given, Selector):
        return f"a selector decides for one: sm.Gibbs('k', {given!r:.60})"
    if callable(given):
        return "declare what your function moves: @sm.kernel(writes='mu')"
    return f"give one such as {moves(model, names)}"


def checked_and_bound(kernel: Kernel, model: Model) -> Kernel:
    """Refuse what sm.sample would refuse before it compiles, but for blocks that nothing moves.

    Return the kernel as it would be sampled.
    """
    must_be_model(model, "kernel.describe(model)")
    check(kernel, model, part=True)
    kernel = kernel.settled(model)
    words = np.zeros(len(columns_of(kernel)), dtype=np.int64)
    data = None if model.elsewhere is None else model.data  # of no rows: nothing is run
    run = Run.over(model.ints.copy(), model.floats.copy(), words, data=data)
    for leaf in kernel.leaves():
        leaf.bind(model, run)
    return kernel


def description(kernel: Kernel, model: Model | None = None) -> str:
    """What Kernel.describe() returns, of a kernel that was checked before."""
    lines = [kernel.text()]
    for label, leaf in labelled(kernel):
        facts = leaf.facts(model)
        more = "; ".join(filter(None, (facts["promise"], facts["note"])))
        moving = facts.get("moves") or ", ".join(facts["writes"]) or "nothing"
        parts = [
            f"{facts['kind']} moves {moving}",
            facts["selector"] or "no decision",
            facts["control"] and f"control: {facts['control']}",
            f"guarantee: {facts['guarantee']}" + (f" ({more})" if more else ""),
        ]
        lines.append(f"  {label}: {'; '.join(filter(None, parts))}")
    moved = {name for leaf in kernel.leaves() for name in leaf.writes}
    if still := [name for name in (model.names if model else ()) if name not in moved]:
        shown = ", ".join(map(repr, still))
        lines.append(f"  nothing moves {shown}: sm.sample wants ... >> {moves(model, still)}")
    return "\n".join(lines)
