"""What is said of kernels: descriptions, and refusals of what is none or does not fit a model."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.kernels.base import Kernel, check, columns_of, labelled
from subsample_mcmc.target.layout import Run
from subsample_mcmc.target.model import Model, must_be_model


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


def refuse(kernel: Kernel, model: Model) -> None:
    """Refuse what sm.sample would refuse before it compiles, but for blocks that nothing moves."""
    must_be_model(model, "kernel.describe(model)")
    check(kernel, model, part=True)
    words = np.zeros(len(columns_of(kernel)), dtype=np.int64)
    kernel.bind(model, Run.over(model.ints.copy(), model.floats.copy(), words))


def told(kernel: Kernel, model: Model | None = None) -> str:
    """Kernel.describe() of what was checked before."""
    lines = [kernel.text()]
    for label, leaf in labelled(kernel):
        facts = leaf.facts(model)
        more = "; ".join(filter(None, (facts["promise"], facts["note"])))
        parts = [
            f"{facts['kind']} moves {', '.join(facts['writes']) or 'nothing'}",
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
