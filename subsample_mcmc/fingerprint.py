"""What must be equal for a run to be resumed, part by part, so that a refusal can name it."""

import hashlib
import sys
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from subsample_mcmc.digest import content
from subsample_mcmc.jit import NUMBA
from subsample_mcmc.kernels.kernel import Kernel, labelled
from subsample_mcmc.model import Model, array_hash
from subsample_mcmc.version import __version__


def of_run(model: Model, kernel: Kernel) -> dict[str, str]:
    """Hashes of functions, data, blocks and kernels; versions as they are."""
    found = {
        "version of subsample_mcmc": __version__,
        "version of Python": ".".join(map(str, sys.version_info[:2])),
        "version of numpy": np.__version__,
        "version of numba": NUMBA,
    }
    found |= model.fingerprints()
    found["composition of kernels"] = kernel.text()
    for label, leaf in labelled(kernel):
        found[f"kernel {label}"] = hashlib.sha256(spelled(leaf).encode()).hexdigest()
    return found


def spelled(value: Any) -> str:
    """A text that is equal for equal specs: functions by content, arrays by value."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = (f"{f.name}={spelled(getattr(value, f.name))}" for f in fields(value))
        return f"{type(value).__qualname__}({', '.join(parts)})"
    if isinstance(value, np.ndarray):
        return array_hash(value)
    if isinstance(value, tuple | list):
        return f"({', '.join(spelled(item) for item in value)})"
    if hasattr(value, "__code__") or hasattr(value, "py_func"):
        return content(value)
    return repr(value)


def refuse_changes(stored: dict[str, str], today: dict[str, str], path) -> None:
    """Raise if anything that the draws depend on is not what it was."""
    changed = [name for name, value in stored.items() if today.get(name, value) != value]
    changed += sorted(set(stored) ^ set(today))
    if not changed:
        return
    shown = [
        f"{name} ({stored[name]} then, {today[name]} now)"
        if name.startswith(("version", "composition")) and name in stored and name in today
        else name + ("" if name in stored else " (new)" if name in today else " (gone)")
        for name in changed
    ]
    raise ValueError(
        f"{path} cannot be resumed: changed since it was started: {'; '.join(shown)}. Resume with "
        "what it was started with, or start a new run at another path; sm.load reads it as it is."
    )
