"""Discrete blocks whose values, or sites, are in an order: change points and hidden paths."""

import json

from subsample_mcmc.kernels.paths.paths import Paths
from subsample_mcmc.kernels.sites.ordered import all_cumulative
from subsample_mcmc.target.lookups.reads import unread
from subsample_mcmc.target.model import Model

WIDEST = 16  # values of a block that are summed one by one, without asking whether they are ordered
FEW_VALUES = 16  # of a hidden path: a step reads a row of two sites so many times squared


def in_an_order(model: Model) -> dict[str, str]:
    """Code of steps of discrete blocks whose values, or sites, are in an order."""
    found = {}
    for name, variable in model.variables.items():
        if not variable.block.discrete:
            continue
        if is_change_point(model, name):
            found[name] = f"sm.Gibbs({json.dumps(name)}, cumulative=True)"
        elif has_paths(model, name):
            found[name] = f"sm.paths({json.dumps(name)})"
    return found


def is_change_point(model: Model, name: str) -> bool:
    """Do neighbouring values of a block differ in one datum: then a draw reads the data twice."""
    if model.variables[name].support < WIDEST or model.variables[name].touches is not None:
        return False
    try:
        return not unread(model, (name,)) and all_cumulative(name, model)
    except (ValueError, TypeError, ArithmeticError, IndexError):
        return False


def has_paths(model: Model, name: str) -> bool:
    """Do sites of a block with few values see each other as in a path: then they move at once."""
    variable = model.variables[name]
    if variable.touches is None or variable.support > FEW_VALUES:
        return False
    kernel = Paths(name)
    try:
        kernel.check(model)
    except ValueError:  # rings, or what has no prior of its own
        return False
    return bool((kernel.forest(model).parent >= 0).any())
