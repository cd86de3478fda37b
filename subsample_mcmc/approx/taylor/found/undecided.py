"""Which comparison of a user's function is not the same all over a ball: its line.

Compiled code does not know it. What is not decided there is not decided in plain Python either,
whose traceback does.
"""

import linecache
from pathlib import Path
from typing import Any

import numpy as np

from subsample_mcmc.numerics.jit import Dispatcher
from subsample_mcmc.target.population import read_only

HOME = str(Path(__file__).parents[3])  # of the package


def undecided_line(model, ints, point, words: np.ndarray, row: int) -> str:
    """Which line compares, in words; empty where no line is to blame.

    words: of all parameters, of this row.
    """
    from subsample_mcmc.numerics.jets import plain  # wanted for this alone, where all is compiled
    from subsample_mcmc.numerics.jets.plain_ranges import UndecidedError

    parts: list[Any] = []
    for block, values in zip(model.blocks, model.state(ints, point), strict=True):
        if not block.discrete:
            own = words[block.start : block.start + block.length]
            values = plain.point(values, read_only(own.reshape(*values.shape, -1)))
        parts.append(values)
    function = model.log_likelihood
    function = plain.readable(function.py_func if isinstance(function, Dispatcher) else function)
    try:
        with np.errstate(all="ignore"):
            function(model.record(*parts), model.data, row)
    except UndecidedError as error:
        return told(error.__traceback__)
    except Exception:  # plain Python refuses what compiled code does: then there is no line to tell
        return ""
    return ""


def told(traceback) -> str:
    """The innermost line that is not this package's."""
    found = ""
    while traceback is not None:
        code, line = traceback.tb_frame.f_code, traceback.tb_lineno
        if not code.co_filename.startswith(HOME):
            source = linecache.getline(code.co_filename, line, traceback.tb_frame.f_globals)
            shown = f": {source.strip()}" if source.strip() else ""
            found = f"line {line} of {code.co_name} ({Path(code.co_filename).name}{shown})"
        traceback = traceback.tb_next
    return found
