"""PyMC models: sm.from_pymc(model), and step methods for pm.sample. PyMC is imported when used.

Start with bridge.py, which makes an sm.Model of a PyMC model: rows.py says which rows it has,
graph.py, shapes.py, algebra.py and expressions.py read its graph, sites.py finds the groups of a
hierarchy, source.py writes the likelihood of one row as plain Python, checking.py compares it with
PyMC's. results.py gives draws as PyMC's
variables, steps.py has the step methods. How a decision is made or a chain moves does not enter: a
translated model is an sm.Model like any other.
"""

from typing import Any

__all__ = ["FullDataWarning", "RacingGibbs", "RacingMetropolis", "from_pymc", "posterior"]


class FullDataWarning(UserWarning):
    """Some variables of a PyMC model are raced, and the steps of the others read all data."""


def from_pymc(pm_model: Any, rows: Any = None, touches: Any = None) -> Any:
    """Make an sm.Model of a PyMC model: one block per free variable, by its name and scale.

    The log likelihood of one row is translated into plain Python, which `model.source` shows; it
    is as fast as a hand-written one, and works with every kernel, control variate and store. Its
    data are copies: later pm.set_data does not change them. Constraints and supports are taken
    over ("sigma" is positive, not "sigma_log__"). A DiscreteUniform from 20 on is held from 0 on,
    as a block `tau_minus_20`; from -3 on, `k_plus_3`: sm.pymc.posterior has its own values.
    Values of functions are compared with PyMC's at four points, and refused if they differ.

    Rows are the entries of the observed variables, which must be independent given the free
    variables; a pm.Potential may have an entry per row too, or be a sum over rows. Variables of
    other lengths have rows behind those of the first. pm.Minibatch is taken for all data, which a
    warning says; a pm.Potential of one, which PyMC does not scale, is refused. Missing observed
    values are blocks (y_unobserved), as in PyMC.
    Of a hierarchy, a[group[n]], the groups are found: block a has touches and a site_prior, so that
    sm.Metropolis("a") moves group by group, each by its own rows, and sm.laplace fits them so. Of
    a = mu + tau * z it is z that has sites. The steps of a pm.GaussianRandomWalk or pm.AR (of up
    to 8 lags), if more than 24, are priors of its values, which sm.windows moves. Where values
    depend on one another otherwise, as those of pm.ZeroSumNormal, they move as one:
    model.together says why.
    A variable with a value per row is a block of sites that touch one row each; its prior is in the
    rows, so that sm.loo refuses the model. Where blocks have
    no constraint for a variable (pm.LKJCholeskyCov, pm.ZeroSumNormal, a Dirichlet per group,
    bounds that move or differ), the block is PyMC's vector of free coordinates: "chol_free";
    sm.pymc.posterior(pm_model, trace) gives the draws as PyMC's variables.
    What is no sum over rows (a time series, a Gaussian process of the rows) and distributions
    without bounds of a discrete variable are refused, with what to do.

    pm_model: a pm.Model.
    rows: names of the data with one entry per row. Default: found by how the likelihood reads
        them. Given, from_pymc refuses where it finds others.
    touches: names of the variables that move site by site, and no others do; (): none, so that
        kernels move each block as one, with a control variate. Default: all that can, of at least
        10 sites.

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
    return found.from_pymc(pm_model, rows, touches)


def posterior(pm_model: Any, trace: Any, var_names: Any = None) -> Any:
    """Draws of sm.from_pymc(pm_model) as PyMC's variables: xarray's Dataset, by PyMC's names.

    Variables are on their own scale, whatever the blocks are (a matrix of pm.LKJCholeskyCov is
    packed, as PyMC has it); pm.Deterministic are computed for every draw.

    pm_model: a pm.Model.
    trace: draws of the model that sm.from_pymc(pm_model) gave.
    var_names: default, all but pm.Deterministic with an entry per row, which may not fit memory.

    Example:
        >>> import pymc as pm
        >>> with pm.Model() as pm_model:
        ...     mu = pm.Normal("mu", 0.0, 10.0)
        ...     twice = pm.Deterministic("twice", 2.0 * mu)
        ...     y = pm.Normal("y", mu, 1.0, observed=np.linspace(0.0, 2.0, 5_000))
        >>> trace = sm.sample(sm.from_pymc(pm_model), sm.Metropolis("mu"), draws=500, seed=1)
        >>> round(float(sm.pymc.posterior(pm_model, trace)["twice"].mean()), 1)
        2.0
    """
    return needed("results").posterior(pm_model, trace, var_names)


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
