"""Langevin proposals driven by a mini-batch gradient, corrected by a race of two arms.

v = u + (h/2) M g_S(u) + h^1/2 L z in free coordinates, M = L L', z standard normal. The mini-batch
S is drawn for this step, independently of the state, and serves the mean of the proposal and of
the way back. So given S the step is Metropolis-Hastings with a density that is known, and leaves
the posterior fixed whatever S is. (Welling & Teh 2011; corrected by a race: Chen & Ghahramani
2016; acceptance: Roberts & Rosenthal 1998.)
"""

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.constraints import to_block, to_free
from subsample_mcmc.jit import FLAGS, jit
from subsample_mcmc.kernels.adapt import Tuning, learn, make_tuning
from subsample_mcmc.kernels.gradient import (
    Push,
    Slope,
    check_gradient,
    draw_batch,
    go,
    lean,
    make_slope,
    root_of,
    slope_of,
)
from subsample_mcmc.kernels.kernel import BAD_PRIOR, Leaf, tally_of
from subsample_mcmc.kernels.metropolis import Coordinates, coordinates, two_arms
from subsample_mcmc.kernels.noise import fill_normal
from subsample_mcmc.kernels.trial import (
    Judge,
    decider,
    fail,
    make_judge,
    make_trial,
    place,
)
from subsample_mcmc.selectors.exact import Exact
from subsample_mcmc.selectors.racing import Racing
from subsample_mcmc.selectors.selector import Selector, not_a_sum
from subsample_mcmc.userfunction import plain

OPTIMAL = 0.574  # acceptance at which a Langevin proposal moves farthest, in many dimensions


class Tools(NamedTuple):
    """What a Langevin step works with."""

    judge: Judge
    coordinates: Coordinates
    tuning: Tuning
    slope: Slope
    push: Push


@dataclass(frozen=True, eq=False)
class Langevin(Leaf):
    """Propose along the gradient of a mini-batch (SGLD), and accept by a race of two arms.

    step: h of v = u + h/2 M g(u) + (h M)^1/2 z in free coordinates. "auto" starts from 1/N, or
        from 1 with a preconditioner; warm-up adapts it to an acceptance of 0.574 (adapt=False
        keeps it).
    gradient: "minibatch", central differences of log_likelihood: 2 batch rewards a coordinate;
        or gradient(state, data, n, out), which writes the derivatives of datum n's log
        likelihood by the block into out, zeros on entry (with prepare in the model:
        gradient(state, data, n, prepared, out)). Checked on a few data when the chain is built.
    batch: rows of a gradient, drawn anew in every step; all N make it plain Langevin.
    precondition: M in free coordinates: a vector of scales (the square roots of a diagonal) or a
        covariance matrix. By default warm-up learns one scale per coordinate.
    selector: how the decision is made; default Racing(). It reads rows of its own.
    correct=False: plain SGLD: no decision, and a bias that nobody knows. Proposals off the
        support are refused. Steps are h (1 + t)^-decay, t the chain's iterations before,
        warm-up included; where they decrease, weight draws by the statistic `scale`, the step.
    surrogate: see sm.delayed.
    """

    block: str
    step: Any = "auto"
    gradient: Any = "minibatch"
    batch: int = 256
    precondition: Any = None
    selector: Selector | None = None
    correct: bool = True
    adapt: bool = True
    decay: float = 0.0
    surrogate: Any = None

    def __post_init__(self):
        refuse(self)
        if self.correct and self.selector is None:
            object.__setattr__(self, "selector", Racing())
        if self.precondition is not None:
            object.__setattr__(self, "precondition", np.array(self.precondition, dtype=float))

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.block,)

    def text(self) -> str:
        return f"Langevin({self.block!r})"

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """What the selector promises, per decision."""
        return self.selector.guarantee if self.selector is not None else "unadjusted"

    @property
    def own(self) -> Any:
        """The user's gradient, or None."""
        return None if self.gradient == "minibatch" else self.gradient

    def facts(self, model=None) -> dict[str, Any]:
        """Adds which gradient is used, and the steps of plain SGLD."""
        kind = "your gradient" if self.own else "gradient by central differences"
        note = f"{kind}, batch {self.batch}"
        if not self.correct:
            fall = f" (1 + t)^-{self.decay:g}, t iterations before" if self.decay else ""
            note += f"; plain SGLD, nothing corrects it, steps {self.step:g}{fall}"
        return super().facts(model) | {"arms": 2 if self.correct else None, "note": note}

    def check(self, model) -> None:
        """Refuse discrete blocks, batches beyond N, wrong shapes and wrong gradients."""
        variable = model.variables[self.block]
        if variable.block.discrete:
            raise ValueError(
                f"Langevin({self.block!r}): the block is discrete; use sm.Gibbs({self.block!r})."
            )
        if self.batch > model.size:
            raise ValueError(
                f"batch={self.batch} exceeds the model's {model.size} data: take at most those."
            )
        scales_of(self.precondition, variable.constraint.free_length(variable.block.length))
        if self.own is not None:
            check_gradient(model, self.block, self.own)

    def build(self, model, inner: bool) -> Any:
        """The compiled step."""
        slope, prior = slope_of(model, self.own), model.compiled[2]
        if self.selector is None:
            return langevin_step(slope, no_ratio, prior, go_there, inner)
        surrogate = self.surrogate
        if surrogate is not None:
            surrogate = jit(surrogate, flags=FLAGS, user=True, inner=True)
        settle = two_arms(decider(model, self.selector, touched=False), prior, surrogate)
        return langevin_step(slope, ratio_of(slope), prior, settle, inner)

    def bind(self, model, run) -> Tools:
        """Tools of one chain."""
        variable = model.variables[self.block]
        block, to = variable.block, coordinates(variable)
        free, given = len(to.u), self.precondition
        trial = make_trial(model, run, block, model.size, np.zeros((2, block.length)))
        slope = make_slope(model, run, variable, int(self.batch), self.own is not None)
        scales, factor = scales_of(given, free)
        h = self.step if self.step != "auto" else 1.0 if given is not None else 1.0 / model.size
        target = OPTIMAL if self.adapt and self.correct else 0.0
        tuning = make_tuning(run, float(h) ** 0.5, scales, free, target, scaled=given is None)
        room = (np.zeros(free) for _ in range(4))
        push = Push(int(np.ndim(given) == 2), factor, float(self.decay), *room)
        tally = tally_of(run.next_words(len(self.columns)))
        judge = make_judge(model, run, trial, self.selector or Exact(), 2, tally)
        return Tools(judge, to, tuning, slope, push)


def refuse(spec: Langevin) -> None:
    """Raise for numbers that are none, and for what plain SGLD, or a corrected step, cannot use."""
    auto = isinstance(spec.step, str) and spec.step == "auto"
    if not auto and (isinstance(spec.step, str) or not 0.0 < spec.step < np.inf):
        raise ValueError(f'step={spec.step!r}: give a positive number, or "auto".')
    if not isinstance(spec.batch, int | np.integer) or spec.batch < 1:
        raise ValueError(f"batch={spec.batch!r}: give a whole number of rows, at least 1.")
    if spec.gradient != "minibatch":
        plain(spec.gradient, "gradient", '"minibatch" or gradient(state, data, n, out)')
    if spec.selector is not None and not isinstance(spec.selector, Selector):
        raise TypeError(f"selector={spec.selector!r}: give a selector such as sm.Exact().")
    if not 0.0 <= spec.decay < np.inf or (spec.decay and spec.correct):
        raise ValueError(
            f"decay={spec.decay!r}: give a power, 0 (constant steps) or more, and only with "
            "correct=False: a corrected kernel needs no decreasing steps."
        )
    if not spec.correct and (auto or spec.selector is not None or spec.surrogate is not None):
        raise ValueError(
            'correct=False decides nothing: give a number as step, such as 0.1 / N ("auto" adapts '
            "to decisions), and neither a selector nor a surrogate; or use correct=True."
        )


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


# ---------------------------------------------------------------------------------- compiled half
def launcher(slope):
    """launch(chain, tools) -> log |dy/dv| - log |dx/du|: a proposal in to.v and candidate 1.

    -inf: off the support. The state is as it was; after an error a code is set.
    """

    @jit(inner=True)
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


def ratio_of(slope):
    """ratio(chain, tools) -> log q(u | v, S) - log q(v | u, S).

    The way back needs z' = -(z + h^1/2 / 2 L' (g_S(u) + g_S(v))): solve its definition for z'.
    """

    @jit(inner=True)
    def ratio(chain, tools):
        push, to, root = tools.push, tools.coordinates, root_of(tools, chain.now[0])
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


def langevin_step(slope, ratio, prior, settle, inner: bool):
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
