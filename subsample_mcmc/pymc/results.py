"""Draws of a translated model as the variables of the PyMC model."""

from typing import Any

import numpy as np

from subsample_mcmc.pymc.blocks import parts_of
from subsample_mcmc.pymc.rows import DROPS_TERMS, data_of


def posterior(pm_model, trace, var_names=None) -> Any:
    """See subsample_mcmc.pymc.posterior."""
    import xarray
    from pytensor.compile.mode import get_default_mode

    parts = parts_of(pm_model)
    missing = [p.block for p in parts if p.block not in trace.draws]
    if missing:
        raise ValueError(
            f"posterior: the trace has no block {missing[0]!r}: it must have all blocks of "
            "sm.from_pymc(model), of this model, kept."
        )
    known = {v.name: v for v in pm_model.unobserved_RVs}
    if isinstance(var_names, str):
        var_names = [var_names]
    if var_names is None:
        rows = {np.shape(data_of(pm_model, rv))[0] for rv in pm_model.observed_RVs
                if np.shape(data_of(pm_model, rv))}  # fmt: skip
        free = {v.name for v in pm_model.free_RVs}
        shapes = pm_model.eval_rv_shapes() | {
            v.name: tuple(v.shape.eval()) for v in pm_model.deterministics
        }
        for rv in pm_model.observed_RVs:  # with missing values, the whole is a deterministic
            rows |= set(shapes.get(rv.name.removesuffix("_observed"), ())[:1])
        var_names = [n for n in known if n in free or not rows & set(shapes[n][:1])]
    for name in var_names:
        if name not in known:
            raise ValueError(f"posterior: {name!r} is not among {', '.join(known)}.")
    function = pm_model.compile_fn(
        pm_model.replace_rvs_by_values([known[name] for name in var_names]),
        inputs=pm_model.value_vars, on_unused_input="ignore",
        mode=get_default_mode().excluding(DROPS_TERMS),
    )  # fmt: skip
    draws = {p.block: np.asarray(trace.draws[p.block]) for p in parts}
    chains, length = next(iter(draws.values())).shape[:2]
    found: list[np.ndarray] = []
    for chain in range(chains):
        for i in range(length):
            values = function({p.value_name: p.value(draws[p.block][chain, i]) for p in parts})
            if not found:
                found = [np.empty((chains, length, *np.shape(v)), np.asarray(v).dtype)
                         for v in values]  # fmt: skip
            for array, value in zip(found, values, strict=True):
                array[chain, i] = value
    exact = {p.name: draws[p.block] + p.shift for p in parts if not p.free}  # not exp(log(sigma))
    found = [exact.get(name, a) for name, a in zip(var_names, found, strict=True)]
    variables, coords = {}, {"chain": np.arange(chains), "draw": np.arange(length)}
    for name, array in zip(var_names, found, strict=True):
        axes = pm_model.named_vars_to_dims.get(name) or [
            f"{name}_dim_{k}" for k in range(array.ndim - 2)
        ]
        variables[name] = (("chain", "draw", *axes), array)
        for axis in axes:
            if pm_model.coords.get(axis) is not None:
                coords[axis] = np.asarray(pm_model.coords[axis])
    return xarray.Dataset(variables, coords)
