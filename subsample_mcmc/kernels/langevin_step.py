"""The compiled half of Langevin: noise, a lean along the gradient, and a preconditioner."""

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.decisions.selector import not_a_sum
from subsample_mcmc.kernels.adapt import learn, step_size
from subsample_mcmc.kernels.decision import fail
from subsample_mcmc.kernels.gradient import draw_batch
from subsample_mcmc.kernels.kernel import BAD_PRIOR
from subsample_mcmc.kernels.metropolis import in_use
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.random import fill_normal
from subsample_mcmc.target.constraints import to_block, to_free
from subsample_mcmc.target.rewards import place


class Push(NamedTuple):
    """The noise of a proposal, and the gradients at both ends."""

    full: int  # 1: L is `factor`; 0: L is the diagonal of the tuning's scales
    factor: np.ndarray  # (models, d, d); of one model where `narrowed`
    decay: float
    noise: np.ndarray  # z
    lean: np.ndarray  # z plus h^1/2 / 2 L' g
    here: np.ndarray  # g_S(u)
    there: np.ndarray  # g_S(v)


def preconditioner(given, fallback, block: str) -> Any:
    """None, an array, or a tuple of matrices, one for each length of the block.

    fallback: a fit, or a list of them, if nothing is given; other things count as nothing.
    """
    source = fallback if given is None else given
    if hasattr(source, "gaussian"):
        return source.gaussian(block)[1]
    fits = isinstance(source, list | tuple) and all(hasattr(fit, "gaussian") for fit in source)
    if fits and source[0].model.variables[block].place >= 0:
        return tuple(fit.gaussian(block)[1] for fit in source)
    if isinstance(given, tuple) and all(np.ndim(one) == 2 for one in given):
        return given
    return None if given is None else np.array(given, dtype=float)


def scales_of(given, variable) -> tuple[int, np.ndarray, np.ndarray]:
    """(1 if matrices were given, scales, lower factors) of a preconditioner, checked."""
    free = variable.constraint.free_length(variable.block.length)
    ones, unused = np.ones(free), np.zeros((1, 1, 1))
    if given is None:
        return 0, ones, unused
    if isinstance(given, tuple) or given.ndim == 2:
        matrices = given if isinstance(given, tuple) else (given,)
        wanted = variable.lengths if variable.place >= 0 else [free]
        factors = np.zeros((len(wanted), free, free))
        fitting = [m.shape == (n, n) for m, n in zip(matrices, wanted, strict=False)]
        if len(matrices) == len(wanted) and all(fitting):
            with suppress(np.linalg.LinAlgError):
                for factor, m, n in zip(factors, matrices, wanted, strict=True):
                    factor[:n, :n] = np.linalg.cholesky(m if np.allclose(m, m.T) else -np.eye(n))
                if np.all(np.isfinite(factors)):
                    return 1, ones, factors
    elif given.shape == (free,) and np.all((given > 0.0) & (given < np.inf)):
        return 0, given, unused
    shape = [m.shape for m in given] if isinstance(given, tuple) else given.shape
    each = f"; one for each of the lengths {list(variable.lengths)}" if variable.place >= 0 else ""
    raise ValueError(
        f"precondition has shape {shape}: give {free} positive scales, or a symmetric, "
        f"positive definite matrix of shape {(free, free)}, for the block's {free} free "
        f"coordinates{each}."
    )


@jit(inner="always")
def narrowed(tools):
    """(u, v, push) as long as the block is now."""
    u, v, which = in_use(tools.coordinates, tools.judge.trial.ints)
    push, d = tools.push, len(u)
    return u, v, Push(
        push.full, push.factor[min(which, len(push.factor) - 1)], push.decay, push.noise[:d],
        push.lean[:d], push.here[:d], push.there[:d],
    )  # fmt: skip


@jit(inner="always")
def reads(slope, u):
    """What one gradient reads."""
    return slope.cost + slope.each * len(u)


@jit(inner="always")
def lean(push, tuning, g, root):
    """Add h^1/2 / 2 L' g to push.lean."""
    for i in range(len(g)):
        value = tuning.scales[i] * g[i] if push.full == 0 else 0.0
        for k in range(i, len(g) if push.full == 1 else i):
            value += push.factor[k, i] * g[k]
        push.lean[i] += 0.5 * root * value


@jit(inner="always")
def go(push, tuning, u, root, v):
    """v = u + h^1/2 L (z + h^1/2 / 2 L' g_S(u))."""
    for i in range(len(u)):
        push.lean[i] = push.noise[i]
    lean(push, tuning, push.here, root)
    for i in range(len(u)):
        value = tuning.scales[i] * push.lean[i] if push.full == 0 else 0.0
        for k in range(i + 1 if push.full == 1 else 0):
            value += push.factor[i, k] * push.lean[k]
        v[i] = u[i] + root * value


@jit(inner=True)
def root_of(tools, now):
    """h^1/2, the step in use."""
    return step_size(tools.tuning, now) * (1.0 + now.iteration) ** (-0.5 * tools.push.decay)


def launcher(slope):
    """launch(chain, tools) -> log |dy/dv| - log |dx/du|: a proposal in to.v and candidate 1.

    -inf: off the support. The state is as it was; after an error a code is set.
    """

    @jit(inner="always")
    def launch(chain, tools):
        trial, to = tools.judge.trial, tools.coordinates
        u, v, push = narrowed(tools)
        now, tally, start = chain.now[0], tools.judge.tally[0], trial.target[0].start
        x, y = trial.candidates[0], trial.candidates[1]
        for j in range(len(x)):
            x[j] = y[j] = trial.floats[start + j]
        to_free(to.kind, to.low, to.high, x, u)
        here = to_block(to.kind, to.low, to.high, u, y)
        draw_batch(tools.slope, chain.rows)
        code = slope(tools.slope, to, u, push.here)
        place(trial, 0)
        if code != 0:
            fail(now, trial, code, 0, tools.slope.bad[0])
            return -np.inf
        fill_normal(chain.rng, push.noise)
        root = root_of(tools, now)
        go(push, tools.tuning, u, root, v)
        tally.steps += 1
        tally.gradients += reads(tools.slope, u)
        tally.scale = root * root
        return to_block(to.kind, to.low, to.high, v, y) - here

    return launch


def ratio_of(slope, fresh: bool):
    """ratio(chain, tools) -> log q(u | v, S') - log q(v | u, S), S' = S or drawn anew.

    The way back needs z' = -(z + h^1/2 / 2 L' (g_S(u) + g_S(v))): solve its definition for z'.
    """

    @jit(inner="always")
    def ratio(chain, tools):
        to, root = tools.coordinates, root_of(tools, chain.now[0])
        _, v, push = narrowed(tools)
        if fresh:
            draw_batch(tools.slope, chain.rows)
        # A gradient that is no number counts as 0 here, which leaves the step exact; from there
        # the chain would stop with an error, so it hides nothing.
        slope(tools.slope, to, v, push.there)
        tools.judge.tally[0].gradients += reads(tools.slope, v)
        lean(push, tools.tuning, push.there, root)
        value = 0.0
        for i in range(len(push.noise)):
            value += 0.5 * (push.noise[i] * push.noise[i] - push.lean[i] * push.lean[i])
        return value if value == value else -np.inf  # overflow: there is no way back

    return ratio


@jit(inner=True)
def no_ratio(chain, tools):
    """For plain SGLD, which looks at nothing but its own way."""
    return 0.0


@jit(inner=True)
def go_there(chain, judge, ratio):
    """The decision of plain SGLD: yes, unless it is off the support."""
    if ratio > -np.inf:
        place(judge.trial, 1)
        judge.tally[0].accepted += 1
    return 0.0


def langevin_step(slope, ratio, prior, settle, inner: Any):
    """step(chain, tools): a proposal, its ratio, and what settles it."""
    launch = launcher(slope)

    @jit(inner=inner)
    def step(chain, tools):
        trial, now = tools.judge.trial, chain.now[0]
        change = launch(chain, tools)
        if change > -np.inf:
            place(trial, 1)
            value = prior(trial.state)
            if not_a_sum(value):
                fail(now, trial, BAD_PRIOR, 1, -1)
            # Where the prior is zero all is said, and data must not be asked.
            change = change + ratio(chain, tools) if value > -np.inf else -np.inf
            place(trial, 0)
        if now.code == 0:
            accepted = settle(chain, tools.judge, change)
            u, _, _ = in_use(tools.coordinates, trial.ints)
            learn(tools.tuning, now, u, accepted)

    return step
