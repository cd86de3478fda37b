"""The variables of a PyMC model as blocks: their names, supports and constraints."""

import keyword
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit, logit

from subsample_mcmc.target.constraints import (
    ORDERED,
    SIMPLEX,
    Constraint,
    interval,
    ordered,
    positive,
    real,
    simplex,
)

MOST_VALUES = 10_000  # values of a discrete variable


@dataclass(frozen=True)
class Part:
    """One free variable, on its natural scale, or in the free coordinates that PyMC has for it."""

    name: str  # PyMC's
    block: str  # of the state
    value_name: str  # of PyMC's value variable: sigma_log__
    start: np.ndarray = field(compare=False)
    support: int = 0  # of a discrete variable, which has the values shift .. shift + support - 1
    shift: int = 0
    constraint: Constraint = real
    free: bool = False  # it is PyMC's value variable, any real numbers

    @property
    def key(self) -> str:
        """Its name in points of the PyMC model that is translated."""
        return self.value_name if self.free else self.name

    @property
    def discrete(self) -> bool:
        return self.support > 0

    @property
    def state(self) -> Any:
        """Its initial value as a block."""
        if self.discrete:
            return np.asarray(self.start).astype(np.int64) - self.shift
        return np.asarray(self.start, dtype=float)

    def natural(self, value: np.ndarray) -> np.ndarray:
        """PyMC's value variable as the block is given."""
        kind, low, high = self.constraint.kind, self.constraint.low, self.constraint.high
        if self.discrete:
            return np.asarray(value, dtype=np.int64) - self.shift
        if self.constraint == real:
            return np.asarray(value, dtype=float)
        if kind == SIMPLEX:
            value = np.append(value, -np.sum(value))
            value = np.exp(value - value.max())
            return value / value.sum()
        if kind == ORDERED:
            return np.cumsum(np.append(value[:1], np.exp(value[1:])))
        return np.exp(value) if self.constraint == positive else low + (high - low) * expit(value)

    def value(self, natural: np.ndarray) -> np.ndarray:
        """The inverse of `natural`."""
        if self.discrete:
            return natural + self.shift
        if self.constraint == real:
            return natural
        if self.constraint.kind == SIMPLEX:
            logs = np.log(natural)
            return logs[:-1] - logs.mean()
        if self.constraint.kind == ORDERED:
            return np.append(natural[:1], np.log(np.diff(natural)))
        low, high = self.constraint.low, self.constraint.high
        return (
            np.log(natural)
            if self.constraint == positive
            else logit((natural - low) / (high - low))
        )


def parts_of(model) -> list[Part]:
    """All free variables of a model."""
    from pymc.initial_point import make_initial_point_fn

    starts = make_initial_point_fn(model=model, return_transformed=False)(0)
    values = make_initial_point_fn(model=model, return_transformed=True)(0)
    taken: set[str] = set()
    parts = []
    for rv in model.free_RVs:
        start = np.asarray(starts[rv.name])
        value_name = model.rvs_to_values[rv].name
        if rv.dtype.startswith(("int", "uint", "bool")):
            support, shift = support_of(model, rv)
            block = identifier(f"{rv.name}{told_shift(shift)}", taken)
            parts.append(Part(rv.name, block, value_name, start, support, shift))
        elif (constraint := constraint_of(model, rv, start)) is not None:
            block = identifier(rv.name, taken)
            parts.append(Part(rv.name, block, value_name, start, constraint=constraint))
        else:
            block = identifier(f"{rv.name}_free", taken)
            parts.append(
                Part(rv.name, block, value_name, np.asarray(values[value_name]), free=True)
            )
    return parts


def told_shift(shift: int) -> str:
    """What the name of a block says that counts from 0, of a variable that does not."""
    if not shift:
        return ""
    return f"_minus_{shift}" if shift > 0 else f"_plus_{-shift}"


def identifier(name: str, taken: set[str]) -> str:
    """A name as a field of a record, unlike those that are taken."""
    clean = re.sub(r"\W+", "_", name).strip("_") or "x"
    clean = clean if clean.isidentifier() else f"x_{clean}"
    if keyword.iskeyword(clean) or hasattr(tuple, clean):  # lambda; fields named count, index
        clean = f"{clean}_"
    found, k = clean, 2
    while found in taken:
        found, k = f"{clean}_{k}", k + 1
    taken.add(found)
    return found


def support_of(model, rv) -> tuple[int, int]:
    """(number of values, first value) of a discrete variable."""
    name = type(rv.owner.op).__name__
    op = rv.owner.op
    given = op.dist_params(rv.owner)
    if name == "BernoulliRV":
        return 2, 0
    if name == "CategoricalRV":
        if given[0].type.shape[-1] is not None:
            return int(given[0].type.shape[-1]), 0
        return int(np.asarray(constant(model, rv, "p", given[0].shape[-1]))), 0
    if name == "DiscreteUniformRV":
        low, high = (
            constant(model, rv, n, v) for n, v in zip(("lower", "upper"), given, strict=True)
        )
        support, shift = int(np.max(high) - np.min(low)) + 1, int(np.min(low))
    elif name == "BinomialRV":
        support, shift = int(np.max(constant(model, rv, "n", given[0]))) + 1, 0
    elif rv.name.endswith("_unobserved"):
        raise ValueError(
            f"from_pymc: {rv.name} are missing outcomes, counts without bound "
            f"({name.removesuffix('RV')}), which have no table of arms. Drop rows without an "
            "outcome: they say nothing of the parameters."
        )
    else:
        raise ValueError(
            f"from_pymc: {rv.name} is discrete and no Categorical, Bernoulli, DiscreteUniform or "
            f"Binomial ({name.removesuffix('RV')}): values without bound have no table of arms. "
            f"Bound it, as in pm.Truncated({rv.name!r}, ...) written as a pm.Categorical of its "
            "probabilities, marginalise it, or write the model as sm.Model(...)."
        )
    if support > MOST_VALUES:
        raise ValueError(f"from_pymc: {rv.name} has {support} values: at most {MOST_VALUES}.")
    return support, shift


def constant(model, rv, name: str, variable) -> np.ndarray:
    """A parameter of a distribution that must not depend on other variables."""
    if above := depends_on(model, variable):
        raise ValueError(
            f"from_pymc: {name} of {rv.name} depends on {above[0]}: the set of values of a "
            "discrete variable must be constant. Take the largest, with probabilities that may "
            "be 0, or write sm.Model."
        )
    return np.asarray(variable.eval())


def depends_on(model, variable) -> list[str]:
    """Names of the random variables that something is made of."""
    from pytensor.graph.traversal import ancestors

    above = set(ancestors([variable]))
    return [v.name for v in model.basic_RVs if v in above]


def constraint_of(model, rv, start) -> Constraint | None:
    """The constraint that a transform of PyMC stands for; None where blocks have none like it."""
    transform = model.rvs_to_transforms.get(rv)
    if transform is None:
        return real
    name = getattr(transform, "name", type(transform).__name__)
    if name == "log":
        return positive
    if name == "logodds":
        return interval(0.0, 1.0)
    if name in ("simplex", "ordered") and start.ndim != 1:  # of every row
        return None
    if name == "simplex":
        return simplex
    if name == "ordered":
        plain = not getattr(transform, "positive", False) and getattr(transform, "ascending", True)
        return ordered if plain else None
    if name != "interval":
        return None
    ends = []
    for end, default in zip(transform.args_fn(*rv.owner.inputs), (-np.inf, np.inf), strict=True):
        found: Any = default
        if isinstance(end, int | float | np.ndarray | np.number):
            found = end
        elif end is not None:
            if depends_on(model, end):
                return None
            found = end.eval()
        if np.unique(found).size != 1:
            return None
        ends.append(float(np.unique(found)[0]))
    if ends == [0.0, np.inf]:
        return positive
    if ends == [-np.inf, np.inf]:
        return real
    return interval(*ends) if np.all(np.isfinite(ends)) else None
