"""Draws from a model's prior, by chains that see no data, for predictions before there are any.

A prior is a function here, not a list of laws, so that chains are the one way to draw from it. What
has no law, a flat prior, is looked for along lines on which a density must fall; and chains that
disagree are refused, as nobody could tell their draws from those of a law.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from subsample_mcmc.calls import helpful
from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.kernels.base import Kernel
from subsample_mcmc.kernels.compose import cycle
from subsample_mcmc.kernels.gibbs import Gibbs
from subsample_mcmc.kernels.slice import Slice
from subsample_mcmc.numerics.progress import quietly
from subsample_mcmc.numerics.random import root_of
from subsample_mcmc.runs.sample import sample
from subsample_mcmc.runs.trace import Trace
from subsample_mcmc.target.axes import Axes
from subsample_mcmc.target.constraints import ROOTS
from subsample_mcmc.target.model import Model, must_be_model
from subsample_mcmc.target.moved import Moved, change_all
from subsample_mcmc.target.population import whole

LAW = "prior"  # in a trace's meta: what its draws are from
FAR = 10.0 ** np.arange(0.0, 15.0, 0.25)  # how far along a line the density is looked at
FALLS = 0.1  # nats by which log density and log distance must fall over its last stretch
MOST_LINES = 100  # of single components of a block; fewer where a prior is a sum over many sites
SUMMED = 2_000_000  # terms of such sums that are computed in Python, about
SIDES = 4  # blocks that are moved up and down in all ways
WARMUP, THINS = 500, (1, 8, 64)  # steps before the first draw, and a draw, until chains agree
TRIES = 20  # states that the prior may rule out
APART, FEWEST = 1.03, 100  # R-hat at most, and effective draws at least, of each block


@helpful
def prior(
    model: Model, draws: int = 1000, kernel: Kernel | None = None, chains: int = 4, seed=None,
    cores: int | None = None, progress: bool | None = None,
) -> Trace:  # fmt: skip
    """Draws from a model's prior, a Trace.

    With it, sm.predict(model, trace) says what data the model expects before it has seen any.
    These are MCMC draws, as log_prior is a function: chains without data start far apart, and make
    up to 64 steps a draw, until they agree. If they do not they are refused, and so are priors that
    are found to be flat: on lines in which single components, blocks, or several of these move, the
    density must fall. What log_prior leaves to other functions is not in it, so that models which
    make their own data (from_pymc, ARCH, partitions) are refused, and those with lengths=.

    model: as in sm.sample.
    draws: of each chain.
    kernel: how chains move; default sm.Gibbs of discrete blocks, sm.Slice of others.
    chains, seed, cores: as in sm.sample.
    progress: as in sm.laplace.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(300, 2))
        >>> model = sm.models.glm.poisson(x, np.arange(300) % 5, prior_sd=0.5)
        >>> before = sm.prior(model, draws=500, seed=1, progress=False)
        >>> bool(abs(before.draws["beta"].std() - 0.5) < 0.05)
        True
        >>> said = sm.predict(model, before, statistics={"mean": np.mean}, seed=2, progress=False)
        >>> list(said.to_arviz())[:1]
        ['prior']
    """
    must_be_model(model, "sm.prior(model)")
    draws = whole(draws, "draws", "of each chain, at least 1")
    chains = whole(chains, "chains", "how many, at least 2")
    if chains < 2:
        raise ValueError("chains=1: sm.prior needs two or more, to tell whether they agree.")
    refuse_kinds(model)
    refuse_flat(model)
    alone, (entropy, key) = without_data(model), root_of(seed)
    kernel = default(alone) if kernel is None else kernel
    wanted = min(FEWEST, chains * draws // 4)
    stream = np.random.SeedSequence(entropy, spawn_key=key)
    starts = starts_of(alone, chains, np.random.default_rng(stream.spawn(1)[0]))
    for thin in THINS:
        with quietly(progress):
            trace = sample(
                alone, kernel, draws, WARMUP * (1 + thin // 8), chains, stream, 0.0,
                thin=thin, start=starts, cores=cores, progress=progress is not False,
            )  # fmt: skip
        seen = {n: trace.mixing(n) for n, v in alone.variables.items() if v.support != 1}
        apart = [n for n, m in seen.items() if m.sites and not m.ess >= wanted]
        apart += [n for n, m in seen.items() if m.rhat > APART]
        if not apart:
            break
    else:
        worst = seen[apart[0]]
        raise ValueError(
            f"chains on the prior alone do not agree about {worst.slowest or apart[0]}: R-hat is "
            f"{worst.rhat:.3f}, with {worst.ess:,.0f} effective draws of {chains} x {draws:,}. It "
            "may be flat in a direction, or hard to move in: give a proper log_prior, or "
            "kernel=, or more draws."
        )
    trace.meta |= {
        "law": LAW, "axes": model.axes.to_json(),
        "fingerprints": model.fingerprints() | {"law": LAW},
    }  # fmt: skip
    trace.axes = Axes.from_json(trace.meta["axes"])
    return trace


def refuse_kinds(model: Model) -> None:
    """Refuse models whose log_prior is not the prior of all blocks."""
    if model.log_likelihood is None or type(model).__reduce__ is not Model.__reduce__:
        raise ValueError(
            f"{model!r} brings terms of its own, so that its log_prior is not the whole prior, or "
            "not the prior alone. Draw from it where it was written: pm.sample_prior_predictive of "
            "PyMC, for instance."
        )
    if padded := [name for name, v in model.variables.items() if v.place >= 0]:
        raise ValueError(
            f"block {padded[0]!r} varies in length: chains would have to jump between lengths. "
            "Draw from the prior of one length, in a model of that."
        )


def nothing(state, data, n):
    """The log likelihood of no data."""
    return 0.0


def without_data(model: Model) -> Model:
    """The same prior, and a datum that says nothing and sees no site."""
    given = model.given
    touches = {
        name: (np.zeros(v.sites + 1, dtype=np.int64), np.zeros(0, dtype=np.int64))
        for name, v in model.variables.items()
        if v.touches is not None
    }
    return Model(
        nothing, {"nothing": np.zeros(1)}, given[2], given[3], given[4], given[5], touches,
        site_prior=given[10],
    )  # fmt: skip


def default(model: Model) -> Kernel:
    """Each block by itself, exactly."""
    return cycle(*(
        Gibbs(name, Exact()) if v.block.discrete else Slice(name, selector=Exact())
        for name, v in model.variables.items()
    ))  # fmt: skip


def starts_of(model: Model, chains: int, rng: np.random.Generator) -> list[dict[str, Any]]:
    """Initial states, apart from each other; the model's where the prior rules others out."""
    found = []
    for chain in range(chains):
        ints, floats = model.ints.copy(), model.floats.copy()
        with np.errstate(all="ignore"):
            change_all(model, ints, floats, rng, 1.0 + 2.0 * (chain % 2))
            state = model.state(ints, floats)
            possible = model.log_prior is None or model.log_prior(state) > -np.inf
        if not possible:
            state = model.state(model.ints, model.floats)
        found.append({
            b.name: np.array(values).reshape(b.shape)
            for b, values in zip(model.blocks, state, strict=True)
        })  # fmt: skip
    return found


# --------------------------------------------------------------------------------- flat priors
def refuse_flat(model: Model) -> None:
    """Refuse a prior that does not fall along a line, so that no law has its density."""
    continuous = tuple(v for v in model.variables.values() if not v.block.discrete)
    if not continuous:
        return
    blocks = Moved(continuous)
    ints, floats = somewhere(model)
    candidate, first = blocks.of(floats), blocks.of(floats.copy())  # the former is a view
    here = blocks.free_at(candidate)
    state, ends = model.state(ints, floats), at_zero(blocks)
    for line, told in lines(model, blocks):
        with np.errstate(all="ignore"):
            points = [along(here, line, t, ends) for t in FAR]
            values = [density(model, blocks, u, candidate, state) + more for u, more in points]
        known = [g + np.log(t) for g, t in zip(values, FAR, strict=True) if g == g]
        candidate[:] = first
        falls = len(known) > 2 and (known[-1] == -np.inf or known[-1] < known[-3] - FALLS)
        if not falls:
            raise ValueError(
                f"the prior is flat, or nearly so, where {told}: there is no law to draw from. "
                "Give log_prior a term for it, such as -0.5 * (state.mu[0] / 10.0) ** 2 of a "
                "normal one."
            )


def somewhere(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """A state that is like others: in the initial one all sites of a block may be at their mean.

    There the prior of a scale that falls to 0 has no end, though it is that of a law.
    """
    rng = np.random.default_rng(8)
    for _ in range(TRIES):
        ints, floats = model.ints.copy(), model.floats.copy()
        with np.errstate(all="ignore"):
            change_all(model, ints, floats, rng)
            state = model.state(ints, floats)
            if model.log_prior is None or model.log_prior(state) > -np.inf:
                return ints, floats
    return model.ints.copy(), model.floats.copy()


def lines(model: Model, blocks: Moved) -> Iterator[tuple[np.ndarray, str]]:
    """Directions in free coordinates, with what moves along them."""
    sums = sum(model.variables[name].sites for name in model.site_prior)
    most = int(np.clip(SUMMED // (len(FAR) * (1000 + sums)), 3, MOST_LINES))
    for v, (first, last, *_) in zip(blocks.variables, blocks.ends, strict=True):
        chosen = np.unique(np.linspace(first, last - 1, min(most, last - first)).astype(int))
        for j, sign in product(chosen if last > first else (), (1.0, -1.0)):
            line = np.zeros(blocks.free)
            line[j] = sign
            way = "grows" if sign > 0.0 else "falls"
            name = v.block.name if last - first == 1 else f"component {j - first} of {v.block.name}"
            yield line, f"{name} {way}"
    parts = [(v.block.name, *ends[:2]) for v, ends in zip(blocks.variables, blocks.ends,
                                                          strict=True)]  # fmt: skip
    several = [part for part in parts if part[2] - part[1] > 1]
    for name, first, last in several:
        for sign in (1.0, -1.0):
            line = np.zeros(blocks.free)
            line[first:last] = sign
            yield line, f"all components of {name} move together"
    if len(parts) > 1:
        for signs in product((1.0, -1.0), repeat=min(len(parts), SIDES)):
            line = np.zeros(blocks.free)
            for i, (_, first, last) in enumerate(parts):
                line[first:last] = signs[i % len(signs)]
            yield line, "blocks move together"


def at_zero(blocks: Moved) -> np.ndarray:
    """Which free coordinates end at 0."""
    found = np.zeros(blocks.free, dtype=bool)
    for v, (first, last, *_) in zip(blocks.variables, blocks.ends, strict=True):
        found[first:last] = v.constraint.kind in ROOTS
    return found


def along(here: np.ndarray, line: np.ndarray, t: float, ends: np.ndarray) -> tuple:
    """(where a line leads, what its log density has on top).

    Coordinates that end at 0 go there by their logarithm.
    """
    back = ends & (line < 0.0)
    u = here + t * line
    u[back] = here[back] * np.exp(-t)
    return u, -t * back.sum()


def density(model: Model, blocks: Moved, u: np.ndarray, candidate: np.ndarray, state: Any) -> float:
    """Log density of the prior at free coordinates; nan where numbers end."""
    try:
        jacobian = blocks.blocks_at(u, candidate)
        if jacobian == -np.inf:
            return np.nan  # at the edge of the set, as far as floats can tell
        if not np.isfinite(candidate).all():
            return np.nan
        value = 0.0 if model.log_prior is None else float(model.log_prior(state))
    except (ArithmeticError, ValueError):  # math.exp(1e15), math.log(1e-320 ** 2), in Python
        return np.nan
    return value + jacobian
