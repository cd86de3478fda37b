"""The variables of a PyMC model as blocks: their names, supports and constraints."""

import keyword
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import expit, logit

from subsample_mcmc.target.constraints import SIMPLEX, Constraint, interval, positive, real, simplex

MOST_VALUES = 10_000  # values of a discrete variable


@dataclass(frozen=True)
class Part:
    """One free variable, on its natural scale."""

    name: str  # PyMC's
    block: str  # of the state
    value_name: str  # of PyMC's value variable: sigma_log__
    start: np.ndarray = field(compare=False)
    support: int = 0  # of a discrete variable, which has the values shift .. shift + support - 1
    shift: int = 0
    constraint: Constraint = real

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
    taken: set[str] = set()
    parts = []
    for rv in model.free_RVs:
        start = np.asarray(starts[rv.name])
        block = identifier(rv.name, taken)
        value_name = model.rvs_to_values[rv].name
        if rv.dtype.startswith(("int", "uint", "bool")):
            support, shift = support_of(model, rv)
            parts.append(Part(rv.name, block, value_name, start, support, shift))
        else:
            constraint = constraint_of(model, rv, start)
            parts.append(Part(rv.name, block, value_name, start, constraint=constraint))
    return parts


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
    from pytensor.graph.traversal import ancestors

    above = set(ancestors([variable]))
    free = [v.name for v in model.basic_RVs if v in above]
    if free:
        raise ValueError(
            f"from_pymc: {name} of {rv.name} depends on {free[0]}: its set of values must be "
            "constant. Rescale it, such as a pm.Uniform(0, 1) times a bound, or write sm.Model."
        )
    return np.asarray(variable.eval())


def constraint_of(model, rv, start) -> Constraint:
    """The constraint that a transform of PyMC stands for."""
    transform = model.rvs_to_transforms.get(rv)
    if transform is None:
        return real
    name = getattr(transform, "name", type(transform).__name__)
    if name == "log":
        return positive
    if name == "logodds":
        return interval(0.0, 1.0)
    if name == "simplex":
        if start.ndim != 1:
            raise ValueError(
                f"from_pymc: {rv.name} has shape {start.shape}: one simplex is a block, several "
                "are not. Make one variable of each."
            )
        return simplex
    if name == "interval":
        low, high = transform.args_fn(*rv.owner.inputs)
        ends = []
        for end, word, default in ((low, "lower", -np.inf), (high, "upper", np.inf)):
            found: Any = default
            if isinstance(end, int | float | np.ndarray | np.number):
                found = end
            elif end is not None:
                found = constant(model, rv, word, end)
            if np.unique(found).size != 1:
                raise ValueError(
                    f"from_pymc: {rv.name} has a bound ({word}) for each of its components: one "
                    "block has one. Make one variable of each."
                )
            ends.append(float(np.unique(found)[0]))
        if ends == [0.0, np.inf]:
            return positive
        if np.all(np.isfinite(ends)):
            return interval(*ends)
        if ends == [-np.inf, np.inf]:
            return real
        raise ValueError(
            f"from_pymc: {rv.name} lies in {tuple(ends)}: blocks are positive, between two "
            f"finite numbers, or without bounds. Shift it, so that it begins at 0."
        )
    raise ValueError(
        f"from_pymc: {rv.name} has the transform {name!r}, for which there are no coordinates: "
        "log, logodds, interval and simplex can be used. Write the model with other variables "
        f"({'positive differences, say' if name == 'ordered' else 'independent ones'}), or as "
        "sm.Model(...)."
    )
