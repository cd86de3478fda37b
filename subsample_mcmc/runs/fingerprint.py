"""What must be equal for a run to be resumed, part by part, so that a refusal can name it."""

import hashlib
import sys
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cached_property
from types import FunctionType
from typing import Any

import numpy as np

from subsample_mcmc import __version__
from subsample_mcmc.kernels.base import Kernel, Leaf, labelled
from subsample_mcmc.numerics.digest import PACKAGE, content, each_once
from subsample_mcmc.numerics.jit import NUMBA
from subsample_mcmc.target.dyadic import ORDER
from subsample_mcmc.target.model import LABELS, Model
from subsample_mcmc.target.sources.checksums import array_hash

INITIAL = "initial state"


@each_once()
def of_run(model: Model, kernel: Kernel) -> dict[str, str]:
    """Hashes of functions, data, blocks and kernels; versions as they are."""
    found = {
        "version of subsample_mcmc": __version__,
        "version of Python": ".".join(map(str, sys.version_info[:2])),
        "version of numpy": np.__version__,
        "version of numba": NUMBA,
        # Runs that were stored when rows were added up in another order cannot go on: draws would
        # be those of neither.
        "order in which rows are added up": ORDER,
    }
    found |= model.fingerprints(again=False)  # the program has just looked
    found[INITIAL] = array_hash(model.ints) + array_hash(model.floats)
    found["composition of kernels"] = kernel.text()
    joints = spelled(kernel, inside=False)  # to the last digit, and to the code of predicates
    found["weights or predicates of kernels"] = hashlib.sha256(joints.encode()).hexdigest()
    for label, leaf in labelled(kernel):
        text = spelled(leaf)
        if (prepared := leaf.prepared(model)) is not None:
            # What a user's own knows of the model is of a class of its own.
            text += "".join(own_code(type(prepared)))
            if prepared.found:
                found[f"derivatives for kernel {label}"] = prepared.found
        if how := leaf.found(model):
            found[f"gradient for kernel {label}"] = how
        if which := leaf.reads(model):
            found[f"data read by kernel {label}"] = which
        found[f"kernel {label}"] = hashlib.sha256(text.encode()).hexdigest()
    return found


def spelled(value: Any, inside: bool = True) -> str:
    """A text that is equal for equal specs: functions by content, arrays by value.

    inside: also what kernels that move something say, not only how they are composed. What draws do
    not depend on, such as the number of cores, is left out; and so is the default of an argument
    that came later than runs which are stored.
    """
    if isinstance(value, Leaf) and not inside:
        return value.text()
    if is_dataclass(value) and not isinstance(value, type):
        parts = [
            f"{f.name}={spelled(getattr(value, f.name), inside)}"
            for f in fields(value) if f.metadata.get("draws", True)
            and not (f.metadata.get("later") and getattr(value, f.name) is f.default)
        ]  # fmt: skip
        return f"{type(value).__qualname__}({', '.join(parts + own_code(type(value)))})"
    if isinstance(value, np.ndarray):
        return array_hash(value)
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, tuple | list):
        return f"({', '.join(spelled(item, inside) for item in value)})"
    if isinstance(value, dict):
        parts = [f"{spelled(k, inside)}: {spelled(v, inside)}" for k, v in value.items()]
        return f"{{{', '.join(parts)}}}"
    if hasattr(value, "__code__") or hasattr(value, "py_func"):
        return content(value)
    if hasattr(value, "__array__"):  # a table, whose repr leaves most of it out
        return array_hash(np.asarray(value))
    if isinstance(value, Model):  # fingerprinted by itself
        return repr(value)
    if " at 0x" in (text := repr(value)) and hasattr(value, "__dict__"):
        return f"{type(value).__qualname__}{spelled(vars(value), inside)}"
    return text


def own_code(kind: type) -> list[str]:
    """Methods and numbers of a class that is a user's own: a rule, a selector, a kernel."""
    found = []
    for base in kind.__mro__:
        if base is object or base.__module__.partition(".")[0] == PACKAGE:
            continue
        for name, value in sorted(vars(base).items()):
            function = getattr(value, "fget", getattr(value, "__func__", value))
            function = value.func if isinstance(value, cached_property) else function
            if name.startswith("__"):
                continue
            if isinstance(function, FunctionType):
                with suppress(NameError):  # a name that only type checkers know
                    found.append(f"{name}={content(function)}")
            elif isinstance(value, bool | int | float | str | tuple | list | dict | np.ndarray):
                found.append(f"{name}={spelled(value)}")
    return found


def refuse_changes(stored: dict[str, str], today: dict[str, str], path, begun: bool) -> None:
    """Raise if anything that the draws depend on is not what it was.

    begun: all chains have left the model's initial state, which may then be another. Runs that were
    stored before had no names of columns: draws do not depend on them.
    """
    changed = [name for name, value in stored.items() if today.get(name, value) != value]
    changed += sorted(set(stored) ^ set(today))
    changed = [name for name in changed if name in stored or not name.startswith(LABELS)]
    changed = [name for name in changed if not (begun and name == INITIAL)]
    if not changed:
        return
    shown = [
        f"{name} ({stored[name]} then, {today[name]} now)"
        if name.startswith(("version", "composition", "derivatives", "gradient", "order"))
        and name in stored
        and name in today
        else name + (" (new)" if name not in stored else "" if name in today else " (gone)")
        for name in changed
    ]
    raise ValueError(
        f"{path} cannot be resumed: changed since it was started: {'; '.join(shown)}. Resume with "
        "what it was started with, or start a new run at another path; sm.load reads it as it is."
    )
