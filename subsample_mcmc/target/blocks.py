"""The blocks of a model: where each stands, what values it may take, how long it is."""

from dataclasses import dataclass, field, replace

import numpy as np

from subsample_mcmc.target.constraints import Constraint, real, simplex
from subsample_mcmc.target.layout import Block
from subsample_mcmc.target.population import touched, whole


def none() -> np.ndarray:
    """Lengths of a block that does not vary."""
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Variable:
    """One block of a model: where it stands, and what values it may take."""

    block: Block
    support: int  # values 0 .. support - 1 of a discrete block; 0 for a continuous one
    constraint: Constraint
    touches: tuple[np.ndarray, np.ndarray] | None  # CSR: which data depend on each site
    place: int = -1  # in the integers: the site that tells how long this block is; -1: none does
    lengths: np.ndarray = field(default_factory=none)  # by its value: components in use

    def length(self, ints: np.ndarray) -> int:
        """Components in use in a state; the others stand still at the model's initial values."""
        return int(self.lengths[ints[self.place]]) if self.place >= 0 else self.block.length


def variables(state, support, constraints, touches, size) -> dict[str, Variable]:
    """The blocks in order, with what was declared for each; refuses declarations of no block."""
    for given, name in ((support, "support"), (constraints, "constraints"), (touches, "touches")):
        unknown = sorted(set(given) - set(state))
        if unknown:
            raise ValueError(f"{name} names {unknown[0]!r}, which is no block of {tuple(state)}.")
    made, at = {}, {True: 0, False: 0}
    for name, value in state.items():
        array = np.asarray(value)
        if array.dtype.kind not in "biuf" or array.size == 0:
            raise TypeError(
                f"state {name}={value!r}: give integers (discrete) or floats (continuous), at "
                "least one."
            )
        discrete = array.dtype.kind in "biu"
        if discrete and name not in support:
            raise ValueError(
                f"block {name} is discrete but has no support: pass support={{{name!r}: K}} for "
                f"the values 0 .. K-1, or give it as a float if it is continuous."
            )
        if (discrete and name in constraints) or (
            not discrete and (name in support or name in touches)
        ):
            wrong = "constraints" if discrete else "support or touches"
            kinds = ("discrete", "continuous") if discrete else ("continuous", "discrete")
            given, other = ("integers", "floats") if discrete else ("floats", "integers")
            raise ValueError(
                f"block {name} is {kinds[0]}: {wrong} do not apply. The type in state decides, and "
                f"{array.flat[0]} is one of {given}: give {other} if it is {kinds[1]}, or else "
                f"drop {wrong}."
            )
        shape = array.shape
        block = Block(name, discrete, shape, at[discrete])
        at[discrete] += block.length
        values = (
            whole(
                support[name],
                f"support[{name!r}]",
                "the number of values, K, at least 1: the block takes 0 .. K-1",
            )
            if discrete
            else 0
        )
        constraint = constraints.get(name, real)
        if not isinstance(constraint, Constraint):
            raise TypeError(
                f"constraints[{name!r}]={constraint!r}: give sm.positive, sm.interval(low, high) "
                "or sm.simplex."
            )
        csr = touched(name, touches[name], block.length, size) if name in touches else None
        made[name] = Variable(block, values, constraint, csr)
    return made


def add_lengths(found: dict[str, Variable], lengths) -> None:
    """Note which blocks vary in length, and with which discrete one."""
    for name, (by, given) in lengths.items():
        if name not in found or by not in found:
            raise ValueError(f"lengths={lengths}: {name!r} and {by!r} must be blocks of the state.")
        v, ruler, counts = found[name], found[by], np.asarray(given)
        if v.block.discrete or len(v.block.shape) != 1 or v.constraint == simplex:
            raise ValueError(
                f"lengths[{name!r}]: the block must be a vector of floats, no simplex."
            )
        if not ruler.block.discrete or ruler.block.length != 1:
            raise ValueError(f"lengths[{name!r}]: {by!r} must be one integer.")
        if (
            counts.shape != (ruler.support,) or counts.dtype.kind not in "iu"
            or counts.min() < 1 or counts.max() > v.block.length
        ):  # fmt: skip
            raise ValueError(
                f"lengths[{name!r}]={given!r}: give {ruler.support} whole numbers, one for each "
                f"value of {by!r}, from 1 to {v.block.length}."
            )
        counts = counts.astype(np.int64)
        found[name] = replace(v, place=ruler.block.start, lengths=counts)
