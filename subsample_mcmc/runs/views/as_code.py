"""A kernel as Python code, to copy: calls of the names in `sm`, with what differs from defaults.

Code that is written is also run, and what it makes compared with the kernel: where it would make
another, or where something has no name (arrays, lambdas), the code says plan.best, and why.
"""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from fractions import Fraction
from math import isfinite, lcm
from typing import Any

import numpy as np

from subsample_mcmc.approx.fit.fit import Fit
from subsample_mcmc.approx.fit.hierarchy import HierarchyFit
from subsample_mcmc.kernels.adapt import preconditioner
from subsample_mcmc.kernels.base import Kernel
from subsample_mcmc.kernels.compose import Cycle, Mixture, Repeat, When
from subsample_mcmc.kernels.custom import Custom
from subsample_mcmc.kernels.langevin import Langevin
from subsample_mcmc.kernels.metropolis import Metropolis
from subsample_mcmc.kernels.paths.paths import Paths
from subsample_mcmc.kernels.proposals.choose import DEFENSIVE
from subsample_mcmc.kernels.proposals.gaussian import Gaussian
from subsample_mcmc.kernels.proposals.learned import Learned
from subsample_mcmc.kernels.proposals.own import UserProposal
from subsample_mcmc.kernels.sites.bridges import Bridges
from subsample_mcmc.kernels.sites.interweave import Woven
from subsample_mcmc.kernels.sites.side_by_side import SideBySide
from subsample_mcmc.kernels.sites.windows import Windows
from subsample_mcmc.numerics.digest import PACKAGE

WIDTH = 88  # characters of a line, beyond which each part of a cycle has its own
FITS = (Fit, HierarchyFit)  # that have names
FINEST = 1_000  # largest whole number that stands for a weight of a mixture


class NotWrittenError(Exception):
    """Something in a kernel cannot be written as code; says what."""


def code_of(kernel: Kernel, names: Mapping[str, Any]) -> str:
    """Lines of code, the last "kernel = ...", which make the kernel again.

    names: what has no constructor call, by the names under which the code may use it: see
        names_of. Functions and classes of the user's own have those of their definitions.
    """
    scope = dict(names)
    try:
        text = CodeWriter(scope).written(kernel)
        made = eval(text, scope | {"sm": public()})
    except Exception as error:  # of classes of the user's own, any: a plan is printed all the same
        return told_why(error)
    if not same(made, kernel):
        return told_why("the constructors of its parts make another kernel")
    if len(text) > WIDTH and isinstance(kernel, Cycle):
        parts = "\n    >> ".join(CodeWriter(scope).in_turn(kernel))
        text = f"(\n    {parts}\n)"
    several = [
        f"# {name}: {described(value)}"
        for name, value in names.items() if re.search(rf"\b{name}\b", text)
    ]  # fmt: skip
    return "\n".join([*(several if len(names) > 1 else []), f"kernel = {text}"])


def told_why(error: Any) -> str:
    """The code where a kernel cannot be written."""
    why = (str(error).splitlines() or [type(error).__name__])[0]
    return (
        f"# plan.best, of what sm.plan returned; no code makes it again: {why}\nkernel = plan.best"
    )


def names_of(kernels: Iterable[Kernel]) -> dict[str, Any]:
    """Names of the fits in some kernels: fit, or fit_1, fit_2; lists of them: fits."""
    alone: list[Any] = []
    lists: list[Any] = []
    for kernel in kernels:
        for found in fits_in(kernel):
            known = alone if isinstance(found, FITS) else lists
            if not any(same(found, one) for one in known):
                known.append(found)
    return numbered("fit", alone) | numbered("fits", lists)


def numbered(name: str, found: list[Any]) -> dict[str, Any]:
    """One by its name, several with a number behind it."""
    if len(found) == 1:
        return {name: found[0]}
    return {f"{name}_{i}": one for i, one in enumerate(found, 1)}


def fits_in(value: Any) -> Iterator[Any]:
    """Fits, and lists of them, anywhere in a kernel."""
    if isinstance(value, FITS) or is_list_of_fits(value):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from fits_in(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for f in fields(value):
            yield from fits_in(getattr(value, f.name))


def is_list_of_fits(value: Any) -> bool:
    """A list or tuple of fits, and of nothing else."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(item, Fit) for item in value)


def described(value: Any) -> str:
    """Which fit a name stands for."""
    if isinstance(value, FITS):
        return f"the fit of {', '.join(value.blocks)} with log evidence {value.log_evidence:.9g}"
    return f"a list of {len(value)} fits, the first of {', '.join(value[0].blocks)}"


def public() -> Any:
    """The package, whose public names stand behind `sm.`; asked for when all of it is imported."""
    return sys.modules[PACKAGE]


def same(one: Any, other: Any) -> bool:
    """Are two specs equal, to the last digit, with the same functions and fits in them."""
    if one is other:
        return True
    if isinstance(one, FITS):  # another one may have been fitted to other data
        return False
    if isinstance(one, Cycle) and isinstance(other, Cycle):
        return same(flat(one), flat(other))
    if type(one) in (list, tuple):
        if type(other) not in (list, tuple) or len(one) != len(other):
            return False
        return all(same(a, b) for a, b in zip(one, other, strict=True))
    if type(one) is dict:
        return type(other) is dict and same(list(one.items()), list(other.items()))
    if type(plain_number(one)) is not type(plain_number(other)):
        return False
    if is_dataclass(one) and not isinstance(one, type):
        if not of_package(type(one)) and hasattr(one, "__dict__"):  # what its own __init__ may set
            return same(vars(one), vars(other))
        return all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return isinstance(one, bool | int | float | str | np.generic) and bool(one == other)


def of_package(value: Any) -> bool:
    """Is a function or class the package's; else it is a user's own."""
    return (value.__module__ or "").partition(".")[0] == PACKAGE


def plain_number(value: Any) -> Any:
    """A number of numpy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value


def flat(cycle: Cycle) -> list[Kernel]:
    """Parts of a cycle, and of those that stand in it."""
    return [k for part in cycle.parts for k in (flat(part) if isinstance(part, Cycle) else [part])]


class CodeWriter:
    """Writes specs; scope has what the code needs beside `sm`, and gets the functions it names."""

    def __init__(self, scope: dict[str, Any]):
        self.scope = scope

    def written(self, value: Any) -> str:
        """One spec as an expression."""
        value = plain_number(value)
        if value is None or type(value) in (bool, int):
            return repr(value)
        if type(value) is float:
            return repr(value) if isfinite(value) else f'float("{value}")'
        if type(value) is str:
            return json.dumps(value, ensure_ascii=False)
        for name, known in self.scope.items():
            if known is value or (is_list_of_fits(value) and same(known, value)):
                return name
        for kind, write in self.special().items():
            if isinstance(value, kind):
                return write(value)
        if type(value) is dict:
            pairs = [f"{self.written(k)}: {self.written(v)}" for k, v in value.items()]
            return f"{{{', '.join(pairs)}}}"
        if type(value) in (list, tuple):
            inside = ", ".join(map(self.written, value))
            comma = "," if len(value) == 1 else ""
            return f"[{inside}]" if type(value) is list else f"({inside}{comma})"
        if isinstance(value, np.ndarray):
            raise NotWrittenError(f"an array of shape {value.shape} has no name")
        if is_dataclass(value) and not isinstance(value, type):
            return self.called(value)
        return self.named(value, getattr(value, "py_func", value))

    def special(self) -> dict[type, Callable[[Any], str]]:
        """How kinds are written whose fields are not the arguments that a user gives."""
        return {
            Cycle: lambda kernel: " >> ".join(self.in_turn(kernel)), Mixture: self.mixture,
            Repeat: lambda k: f"sm.repeat({self.written(k.part)}, {k.times})",
            SideBySide: self.side_by_side,
            When: lambda k: f"sm.when({self.written(k.predicate)}, {self.written(k.part)})",
            Custom: lambda kernel: self.named(kernel, kernel.function), Woven: self.woven,
            Windows: self.windows,
            Paths: lambda kernel: f"sm.paths({self.written(kernel.block)})",
            Metropolis: self.metropolis, Langevin: self.langevin, Gaussian: self.gaussian,
            Learned: lambda proposal: "sm.pcn()", UserProposal: self.own,
        }  # fmt: skip

    # ------------------------------------------------------------------------------ compositions
    def in_turn(self, cycle: Cycle) -> list[str]:
        """Each part of a cycle; two that one call makes, such as mean and scale, as that call."""
        found: list[str] = []
        parts = flat(cycle)
        while parts:
            first, second = parts[0], parts[1] if len(parts) > 1 else None
            if isinstance(first, Woven) and isinstance(second, Woven) and second.centre is not None:
                found.append(self.woven(first, second))
                del parts[:2]
            elif isinstance(first, Windows) and isinstance(second, Bridges):
                found.append(self.windows(first, second))
                del parts[:2]
            else:
                found.append(self.written(first))
                del parts[0]
        return found

    def mixture(self, kernel: Mixture) -> str:
        """With weights that come to the same probabilities, to the last digit."""
        shares = [Fraction(w).limit_denominator(FINEST) for w in kernel.weights]
        whole = lcm(*(share.denominator for share in shares))
        for weights in (kernel.weights, [int(share * whole) for share in shares]):
            total = float(sum(weights))
            if total and tuple(float(w) / total for w in weights) == tuple(kernel.weights):
                pairs = zip(kernel.parts, weights, strict=True)
                inside = ", ".join(f"({self.written(p)}, {self.written(w)})" for p, w in pairs)
                return f"sm.mixture({inside})"
        raise NotWrittenError(
            "no weights are found that come to those of a mixture to the last digit"
        )

    def side_by_side(self, kernel: SideBySide) -> str:
        """With its cores, where they were given."""
        more = "" if kernel.cores is None else f", cores={kernel.cores}"
        return f"sm.side_by_side({self.written(kernel.part)}{more})"

    def woven(self, kernel: Woven, scale: Woven | None = None) -> str:
        """One move of all sites, or that along their mean and that along their scale."""
        stretch = scale or (kernel if kernel.stretches else None)
        given: dict[str, Any] = {} if kernel.stretches else {"location": kernel.other}
        given |= {} if stretch is None else {"scale": stretch.other}
        if kernel.of is not None:
            raise NotWrittenError("an array, which location each site goes with, has no name")
        if kernel.amounts is not None:
            raise NotWrittenError("an array, how far each site goes, has no name")
        if not kernel.selector.by_default:
            given["selector"] = kernel.selector
        more = "".join(f", {name}={self.written(value)}" for name, value in given.items())
        return f"sm.interweave({self.written(kernel.sites)}{more})"

    def windows(self, kernel: Windows, bridges: Bridges | None = None) -> str:
        """Windows of sites, and the scale of their steps with them."""
        given: dict[str, Any] = {} if bridges is None else {"scale": bridges.scale}
        given |= {} if kernel.widest is None else {"widest": kernel.widest}
        if not kernel.selector.by_default:
            given["selector"] = kernel.selector
        more = "".join(f", {name}={self.written(value)}" for name, value in given.items())
        return f"sm.windows({self.written(kernel.block)}{more})"

    # ---------------------------------------------------------------------- kernels and proposals
    def metropolis(self, kernel: Metropolis) -> str:
        """Without the proposal that is meant where none is given."""
        proposal = kernel.proposal
        usual = isinstance(proposal, Gaussian | Learned | UserProposal)
        return self.delayed(kernel, {} if usual else {"proposal": ""})

    def langevin(self, kernel: Langevin) -> str:
        """Its gradient and scales only where they are not what the control variate says."""
        instead = {}
        if kernel.gradient == ("control" if kernel.variate is not None else "minibatch"):
            instead["gradient"] = ""
        by_control = preconditioner(None, getattr(kernel.variate, "fit", None), kernel.writes)
        if same(kernel.precondition, by_control):
            instead["precondition"] = ""
        else:
            for name, fit in self.scope.items():
                serves = isinstance(fit, FITS) and set(kernel.writes) <= set(fit.blocks)
                if serves and same(kernel.precondition, fit.gaussian(kernel.writes)[1]):
                    instead["precondition"] = name
                    break
        return self.delayed(kernel, instead)

    def delayed(self, kernel: Any, instead: dict[str, str]) -> str:
        """A kernel that accepts or rejects, with its surrogate around it."""
        made = self.called(kernel, instead | {"surrogate": ""})
        if kernel.surrogate is None:
            return made
        return f"sm.delayed({made}, {self.written(kernel.surrogate)})"

    def gaussian(self, proposal: Gaussian) -> str:
        """sm.independence, which is sm.pcn with beta = 1; or sm.pcn."""
        name = "independence"
        given: dict[str, Any] = {"covariance": (proposal.covariance, None)}
        if proposal.beta != 1.0:
            name, given = "pcn", given | {"beta": (proposal.beta, None)}
        given["defensive"] = (proposal.defensive, DEFENSIVE)
        more = "".join(
            f", {key}={self.written(value)}"
            for key, (value, default) in given.items() if not same(value, default)
        )  # fmt: skip
        return f"sm.{name}({self.written(proposal.mean)}{more})"

    def own(self, proposal: UserProposal) -> str:
        """The function of a proposal of the user's own, or its two."""
        if proposal.log_density is None:
            return self.written(proposal.draw)
        return self.written((proposal.draw, proposal.log_density))

    # ------------------------------------------------------------------------------ calls and names
    def called(self, value: Any, instead: Mapping[str, str] | None = None) -> str:
        """A call of the class, with the arguments that differ from their defaults.

        instead: what to write for some fields; empty: nothing.
        """
        arguments = []
        for k, f in enumerate(one for one in fields(value) if one.init):
            given, default = getattr(value, f.name), f.default
            if f.default_factory is not MISSING:
                default = f.default_factory()
            needed = default is MISSING
            if f.name in (instead or {}):
                text = (instead or {})[f.name]
            elif not needed and (same(given, default) or getattr(given, "by_default", False)):
                text = ""
            else:
                try:
                    text = self.written(given)
                except NotWrittenError as error:
                    raise NotWrittenError(f"{f.name} of {type(value).__name__}: {error}") from None
            if text:
                plain = not f.kw_only and (needed or k == 0)
                arguments.append(text if plain else f"{f.name}={text}")
        return f"{self.class_name(type(value))}({', '.join(arguments)})"

    def class_name(self, kind: type) -> str:
        """A class of the package by its public name; or of the user's own."""
        if not of_package(kind):
            return self.named(kind, kind)
        if vars(public()).get(kind.__name__) is not kind:
            raise NotWrittenError(f"{kind.__name__} has no public name")
        return f"sm.{kind.__name__}"

    def named(self, value: Any, function: Any) -> str:
        """A function, or class, of the user's own by the name of its definition.

        function: that was defined, whose name stands for `value`. A name that stands for something
        else by now, as after a cell of a notebook was changed, is none.
        """
        name, whole = getattr(function, "__name__", ""), getattr(function, "__qualname__", "")
        if name == "<lambda>":
            raise NotWrittenError("a lambda has no name; define a function")
        if not name.isidentifier():
            raise NotWrittenError(f"{value!r:.60} has no name")
        if of_package(function):
            if vars(public()).get(name) is not value:
                raise NotWrittenError(f"{name} has no public name")
            return f"sm.{name}"
        home = getattr(function, "__globals__", None)
        if home is None:
            home = getattr(sys.modules.get(function.__module__), "__dict__", {})
        if home.get(name, value if "<locals>" in whole else None) is not value:
            raise NotWrittenError(f"the name {name} stands for something else, or nothing")
        if name == "sm" or self.scope.setdefault(name, value) is not value:
            raise NotWrittenError(f"two things have the name {name}")
        return name
