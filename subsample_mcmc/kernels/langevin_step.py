"""The compiled half of Langevin: noise, a lean along the gradient, and a preconditioner."""

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.constraints import to_block, to_free
from subsample_mcmc.jit import jit
from subsample_mcmc.kernels.adapt import learn, step_size
from subsample_mcmc.kernels.decision import fail
from subsample_mcmc.kernels.gradient import draw_batch
from subsample_mcmc.kernels.kernel import BAD_PRIOR
from subsample_mcmc.kernels.noise import fill_normal
from subsample_mcmc.kernels.trial import place
from subsample_mcmc.selectors.selector import not_a_sum


class Push(NamedTuple):
    """The noise of a proposal, and the gradients at both ends."""

    full: int  # 1: L is `factor`; 0: L is the diagonal of the tuning's scales
    factor: np.ndarray
    decay: float
    noise: np.ndarray  # z
    lean: np.ndarray  # z plus h^1/2 / 2 L' g
    here: np.ndarray  # g_S(u)
    there: np.ndarray  # g_S(v)


def scales_of(given, free: int) -> tuple[np.ndarray, np.ndarray]:
    """(scales, lower factor) of a preconditioner, checked."""
    ones, unused = np.ones(free), np.zeros((1, 1))
    if given is None:
        return ones, unused
    if given.shape == (free,) and np.all((given > 0.0) & (given < np.inf)):
        return given, unused
    if given.shape == (free, free) and np.all(np.isfinite(given)) and np.allclose(given, given.T):
        with suppress(np.linalg.LinAlgError):
            return ones, np.ascontiguousarray(np.linalg.cholesky(given))
    raise ValueError(
        f"precondition has shape {given.shape}: give {free} positive scales, or a symmetric, "
        f"positive definite matrix of shape {(free, free)}, for the block's {free} free "
        "coordinates."
    )


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
        trial, to, push = tools.judge.trial, tools.coordinates, tools.push
        now, tally, start = chain.now[0], tools.judge.tally[0], trial.target[0].start
        x, y = trial.candidates[0], trial.candidates[1]
        for j in range(len(x)):
            x[j] = trial.floats[start + j]
        to_free(to.kind, to.low, to.high, x, to.u)
        here = to_block(to.kind, to.low, to.high, to.u, y)
        draw_batch(tools.slope, chain.rows)
        code = slope(tools.slope, to, to.u, push.here)
        place(trial, 0)
        if code != 0:
            fail(now, trial, code, 0, tools.slope.bad[0])
            return -np.inf
        fill_normal(chain.rng, push.noise)
        root = root_of(tools, now)
        go(push, tools.tuning, to.u, root, to.v)
        tally.steps += 1
        tally.gradients += tools.slope.cost
        tally.scale = root * root
        return to_block(to.kind, to.low, to.high, to.v, y) - here

    return launch


def ratio_of(slope, fresh: bool):
    """ratio(chain, tools) -> log q(u | v, S') - log q(v | u, S), S' = S or drawn anew.

    The way back needs z' = -(z + h^1/2 / 2 L' (g_S(u) + g_S(v))): solve its definition for z'.
    """

    @jit(inner="always")
    def ratio(chain, tools):
        push, to, root = tools.push, tools.coordinates, root_of(tools, chain.now[0])
        if fresh:
            draw_batch(tools.slope, chain.rows)
        # A gradient that is no number counts as 0 here, which leaves the step exact; from there
        # the chain would stop with an error, so it hides nothing.
        slope(tools.slope, to, to.v, push.there)
        tools.judge.tally[0].gradients += tools.slope.cost
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
            learn(tools.tuning, now, tools.coordinates.u, accepted)

    return step
