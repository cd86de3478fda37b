"""The step of sm.Langevin: a proposal along a gradient, and the density of the way back.

slope(tools, to, u, g) -> 0 or what went wrong, which writes a gradient, is of kernels/gradient.py.
"""

from typing import NamedTuple

import numpy as np

from subsample_mcmc.decisions.selector import not_a_sum
from subsample_mcmc.kernels.adapt import learn, step_size
from subsample_mcmc.kernels.base import BAD_PRIOR
from subsample_mcmc.kernels.continuous import start_from_current
from subsample_mcmc.kernels.decision import fail
from subsample_mcmc.kernels.gradient import draw_batch
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.random import fill_normal
from subsample_mcmc.target.moved import all_to_block, all_to_free, in_use
from subsample_mcmc.target.rewards import place, prior_of

OPTIMAL = 0.574  # acceptance at which a Langevin proposal moves farthest, in many dimensions
# Far from its reference the gradient of a polynomial throws proposals away, as any does beside a
# bound where it has no end, and all of them are refused: a chain would hardly ever enter a heavier
# tail, or come near the bound. So some steps walk, and a polynomial's gradient is cut, too.
LONGEST = 3.0  # times d^1/2, the length that a Gaussian's has: of a thousand steps three are cut
WALKS = 0.125
WALK_STEP = 1.44  # times d^-1/3: how long, in Langevin steps (Roberts & Rosenthal 2001)


class Push(NamedTuple):
    """The noise of a proposal, and the gradients at both ends."""

    full: int  # 1: L is `factor`; 0: L is the diagonal of the tuning's scales
    factor: np.ndarray  # (models, d, d); of one model where `narrowed`
    decay: float
    walks: float  # the share of steps without a gradient
    longest: float  # where a gradient is cut; 0.0: nowhere
    walking: np.ndarray  # 1.0: this is one
    noise: np.ndarray  # z
    lean: np.ndarray  # z plus h^1/2 / 2 L' g
    here: np.ndarray  # g_S(u)
    there: np.ndarray  # g_S(v)


@jit(inner="always")
def narrowed(tools):
    """(u, v, push) as long as the block is now."""
    u, v, which = in_use(tools.coordinates, tools.judge.trial.ints)
    push, d = tools.push, len(u)
    return u, v, Push(
        push.full, push.factor[min(which, len(push.factor) - 1)], push.decay, push.walks,
        push.longest, push.walking, push.noise[:d], push.lean[:d], push.here[:d], push.there[:d],
    )  # fmt: skip


@jit(inner="always")
def reads(slope, u):
    """How many rewards, or gradients of single data, one gradient reads."""
    return slope.cost + slope.each * len(u)


@jit(inner="always")
def turned(push, tuning, g, i):
    """Component i of L' g."""
    value = tuning.scales[i] * g[i] if push.full == 0 else 0.0
    for k in range(i, len(g) if push.full == 1 else i):
        value += push.factor[k, i] * g[k]
    return value


@jit(inner="always")
def lean(push, tuning, g, root):
    """Add h^1/2 / 2 L' g to push.lean; of a control variate's, L' g is cut to a length."""
    cut = 1.0
    if push.longest > 0.0:
        square = 0.0
        for i in range(len(g)):
            square += turned(push, tuning, g, i) ** 2
        cut = min(1.0, push.longest * (len(g) / square) ** 0.5) if square > 0.0 else 1.0
    for i in range(len(g)):
        push.lean[i] += 0.5 * root * cut * turned(push, tuning, g, i)


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
        now, tally = chain.now[0], tools.judge.tally[0]
        x, y = trial.candidates[0], trial.candidates[1]
        start_from_current(trial)
        all_to_free(to, x, u)
        here = all_to_block(to, u, y)
        root, push.walking[0] = root_of(tools, now), 0.0
        tally.scale = root * root
        if push.walks > 0.0 and chain.rng.random() < push.walks:
            push.walking[0], push.here[:] = 1.0, 0.0
            root *= WALK_STEP * len(u) ** (-1.0 / 3.0)
        else:
            draw_batch(tools.slope, chain.rows)
            code = slope(tools.slope, to, u, push.here)
            place(trial, 0)
            if code != 0:
                fail(now, trial, code, 0, tools.slope.bad[0])
                return -np.inf
            tally.gradients += reads(tools.slope, u)
        fill_normal(chain.rng, push.noise)
        go(push, tools.tuning, u, root, v)
        tally.steps += 1
        return all_to_block(to, v, y) - here

    return launch


def ratio_of(slope, fresh: bool):
    """ratio(chain, tools) -> log q(u | v, S') - log q(v | u, S), S' = S or drawn anew.

    The way back needs z' = -(z + h^1/2 / 2 L' (g_S(u) + g_S(v))): solve its definition for z'.
    """

    @jit(inner="always")
    def ratio(chain, tools):
        to, root = tools.coordinates, root_of(tools, chain.now[0])
        _, v, push = narrowed(tools)
        if push.walking[0] == 1.0:
            return 0.0
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
    """The ratio of plain SGLD, which corrects nothing."""
    return 0.0


@jit(inner=True)
def go_there(chain, judge, ratio):
    """The decision of plain SGLD: yes, unless it is off the support."""
    if ratio > -np.inf:
        place(judge.trial, 1)
        judge.tally[0].accepted += 1
    return 0.0


def langevin_step(slope, ratio, settle):
    """step(chain, tools): a proposal, its ratio, and what settles it."""
    launch = launcher(slope)

    @jit(inner="always")
    def step(chain, tools):
        trial, now = tools.judge.trial, chain.now[0]
        change = launch(chain, tools)
        if change > -np.inf:
            place(trial, 1)
            value = prior_of(trial)
            if not_a_sum(value):
                fail(now, trial, BAD_PRIOR, 1, -1)
            # Where the prior is zero all is said, and data must not be asked.
            change = change + ratio(chain, tools) if value > -np.inf else -np.inf
            place(trial, 0)
        if now.code == 0:
            accepted = settle(chain, tools.judge, change)
            u, _, _ = in_use(tools.coordinates, trial.ints)
            if tools.push.walking[0] == 0.0:
                learn(tools.tuning, now, u, accepted)

    return step
