"""PyMC models: sm.from_pymc(model), and step methods for pm.sample. PyMC is imported when used.

Start with bridge.py, which makes an sm.Model of a PyMC model: graph.py, shapes.py and
expressions.py read its graph, source.py writes the likelihood of one row as plain Python,
checking.py compares it with PyMC's. steps.py has the step methods. How a decision is made or a
chain moves does not enter: a translated model is an sm.Model like any other.
"""

from typing import Any

__all__ = ["FullDataWarning", "RacingGibbs", "RacingMetropolis", "from_pymc"]


class FullDataWarning(UserWarning):
    """Some variables of a PyMC model are raced, and the steps of the others read all data."""


def from_pymc(pm_model: Any, rows: Any = None) -> Any:
    """Make an sm.Model of a PyMC model: one block per free variable, by its name and scale.

    The log likelihood of one row is translated into plain Python, which `model.source` shows; it
    is as fast as a hand-written one, and works with every kernel, control variate and store. Its
    data are copies: later pm.set_data does not change them. Constraints and supports are taken
    over ("sigma" is positive, not "sigma_log__"). A DiscreteUniform from 1 on is held from 0 on.
    Values of functions are compared with PyMC's at four points, and refused if they differ.

    Rows are the entries of the observed variables, which must be independent given the free
    variables; a pm.Potential may have an entry per row too. A discrete variable with a value per
    row is a block of sites that touch one row each. What is no sum over rows (a multivariate
    normal, a Gaussian process, a scan) and distributions without bounds of a discrete variable
    are refused, with what to do.

    rows: names of the data with one entry per row. Default: found by how the likelihood reads
        them. Given, from_pymc refuses where it finds others.

    Example:
        >>> import pymc as pm
        >>> with pm.Model() as pm_model:
        ...     mu = pm.Normal("mu", 0.0, 10.0)
        ...     y = pm.Normal("y", mu, 1.0, observed=np.linspace(0.0, 2.0, 5_000))
        >>> model = sm.from_pymc(pm_model)
        >>> round(float(sm.laplace(model).state["mu"]), 1)
        1.0
    """
    found = needed("bridge")
    return found.from_pymc(pm_model, rows)


def needed(module: str) -> Any:
    """A module of this package that imports PyMC."""
    import importlib

    try:
        importlib.import_module("pymc")
    except ImportError as error:
        raise ImportError(
            "this needs PyMC, which is not installed: pip install 'subsample-mcmc[pymc]'"
        ) from error
    return importlib.import_module(f"{__name__}.{module}")


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in ("RacingGibbs", "RacingMetropolis"):
        return getattr(needed("steps"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
