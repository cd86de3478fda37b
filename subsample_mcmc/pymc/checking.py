"""A translation is tried against PyMC before it is used."""

from typing import Any

import numpy as np

from subsample_mcmc.pymc.graph import RefusedError
from subsample_mcmc.pymc.rows import DROPS_TERMS, TermRows, summed, whole
from subsample_mcmc.target.constraints import INTERVAL, SIMPLEX

ROWS = 40
CLOSE = 1e-6  # PyMC's constants may be logarithms of small integers, which have single precision
FAR = 3.0  # in free coordinates, of variables between two ends: so they come near these


def check(model: Any, natural: Any, rows: TermRows) -> None:
    """Refuse a model whose functions differ from PyMC's, at the start and near it."""
    from pytensor.compile.mode import Mode

    # Stabilised, as PyMC samples; operations that are fused would run entry by entry in Python.
    mode = Mode(linker="py", optimizer="fast_run").excluding("fusion", DROPS_TERMS)
    terms = [logp if logp.type.ndim or t.name not in rows.summed else summed(logp)
             for t, logp in zip(rows.terms, natural.logp(vars=rows.terms, sum=False,
                                                         jacobian=False), strict=True)]  # fmt: skip
    likelihood = natural.compile_fn(
        whole(terms), inputs=natural.value_vars, mode=mode, on_unused_input="ignore"
    )
    names = {part.name: part.block for part in model.parts}
    alone = [v for v in rows.prior if names.get(v.name) in model.site_prior]
    rest = [v for v in rows.prior if v not in alone]
    before = natural.compile_logp(vars=rest, mode=mode) if rest else None
    of_sites = alone and natural.compile_fn(
        natural.logp(vars=alone, sum=False), inputs=natural.value_vars, mode=mode,
        on_unused_input="ignore",
    )  # fmt: skip
    rng = np.random.default_rng(0)  # the same points every time
    some = [*rng.integers(model.size, size=ROWS), *rare(model)]
    for length, first in rows.first.items():
        some += [first, first + length - 1, *rng.integers(first, first + length, size=3)]
    picked = np.unique(some)
    compared = 0
    for size in (0.0, 0.1, 0.5, FAR):
        point = {part.block: moved(part, size, rng) for part in model.parts}
        given = {p.key: np.asarray(point[p.block] + p.shift if p.discrete else point[p.block])
                 for p in model.parts}  # fmt: skip
        found, density = ours(model, point, picked)
        parts = of(likelihood, given)
        if parts is None:  # PyMC refuses these parameters: they are impossible
            continue
        every = rows.added(parts)
        compare("the log likelihood of row", found, every[picked], picked)
        if any(np.isnan(column).any() for column in floats_of(model)) and np.isnan(every).any():
            n = int(np.argmax(np.isnan(every)))
            raise RefusedError(
                f"from_pymc: the log likelihood of row {n} is nan: it reads a missing value (NaN), "
                "given, or made of data as log(x) of a negative x. Drop these rows in all data, or "
                "let the model take another branch there."
            )
        compared += 1
        if before is not None and (total := of(before, given)) is not None:
            compare("the log prior", np.array([density]), np.atleast_1d(total), [""])
        for v, each in zip(alone, (of_sites and of(of_sites, given)) or [], strict=False):
            if not np.ndim(each):  # of a walk PyMC has the sum of all steps
                numbers = np.arange(model.variables[names[v.name]].sites)
                own = priors_of_sites(model, point, names[v.name], numbers)
                compare(f"the log prior of {v.name}", own.sum()[None], np.array([each]), [""])
                continue
            count = len(each)
            sites = np.unique([0, count - 1, *rng.integers(count, size=ROWS)])
            own = priors_of_sites(model, point, names[v.name], sites)
            wanted = np.reshape(each, (count, -1)).sum(axis=1)[sites]
            compare(f"the log prior of {v.name}", own, wanted, sites)
    if not compared:
        raise RefusedError(
            "from_pymc: the initial values are impossible in PyMC, and so are values near them: "
            "give initval=... to the variables."
        )


def floats_of(model: Any) -> list[np.ndarray]:
    """Columns that may have missing values."""
    return [column for column in model.data if np.asarray(column).dtype.kind == "f"]


def rare(model: Any) -> list[int]:
    """Rows where a column has its extremes, or, if it has few values, each of them."""
    found: list[int] = []
    for column in model.data:
        flat = np.asarray(column)[:, 0] if np.ndim(column) > 1 else np.asarray(column)
        values, first = np.unique(flat, return_index=True)
        found += first.tolist() if len(values) <= ROWS else [int(first[0]), int(first[-1])]
    return found


def moved(part: Any, size: float, rng) -> np.ndarray:
    """A point near the start, or for discrete variables anywhere."""
    start = np.asarray(part.state)
    if size == 0.0:
        return start
    if part.discrete:
        return rng.integers(part.support, size=start.shape)
    if size == FAR and part.constraint.kind != INTERVAL:
        size = 0.1
    if part.constraint.kind == SIMPLEX:
        found = start * np.exp(size * rng.standard_normal(start.shape))
        return found / found.sum()
    return np.asarray(part.natural(part.value(start) + size * rng.standard_normal(start.shape)))


def of(function, point: dict) -> Any:
    """PyMC's log densities; None where it raises."""
    from pymc.logprob.utils import ParameterValueError

    try:
        with np.errstate(all="ignore"):
            return function(point)
    except ParameterValueError:
        return None


def ours(model: Any, point: dict, rows) -> tuple[np.ndarray, float]:
    """The generated functions, uncompiled, at some rows; and the prior, but for that of sites."""
    ints, floats = model.ints.copy(), model.floats.copy()
    model.set_state(ints, floats, point)
    state = model.state(ints, floats)
    found = np.full(len(rows), np.nan)
    with np.errstate(all="ignore"):
        made = model.extra(state)
        for i, n in enumerate(rows):
            found[i] = attempt(model.log_likelihood, state, model.data, int(n), *made)
        return found, attempt(model.given[3], state)


def priors_of_sites(model: Any, point: dict, block: str, sites) -> np.ndarray:
    """The log priors of some sites of a block, uncompiled."""
    ints, floats = model.ints.copy(), model.floats.copy()
    model.set_state(ints, floats, point)
    state = model.state(ints, floats)
    with np.errstate(all="ignore"):
        return np.array([attempt(model.site_prior[block], state, int(i)) for i in sites])


def attempt(function, *arguments) -> float:
    """A value, or nan where plain Python raises and compiled code goes on."""
    try:
        return float(function(*arguments))
    except (ArithmeticError, ValueError, TypeError):  # TypeError: of a complex number
        return np.nan


def compare(what: str, found: np.ndarray, wanted: np.ndarray, labels) -> None:
    """Refuse numbers that differ."""
    with np.errstate(invalid="ignore"):
        near = np.abs(found - wanted) <= CLOSE * (1.0 + np.abs(wanted))
    same = near | (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    if not np.all(same):
        i = int(np.flatnonzero(~same)[0])
        raise RefusedError(
            f"from_pymc: {what} {labels[i]} is {found[i]:.12g} as translated and {wanted[i]:.12g} "
            "in PyMC: this model cannot be used. Write it as sm.Model(...), and please report it."
        )
