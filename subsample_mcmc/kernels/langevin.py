"""Langevin proposals driven by a mini-batch or surrogate gradient, corrected by a race of two arms.

v = u + (h/2) M g_S(u) + h^1/2 L z in free coordinates, M = L L', z standard normal. The mini-batch
S is drawn for this step, independently of the state, and serves the mean of the proposal and of
the way back (or that one has a mini-batch of its own). So given S the step is Metropolis-Hastings
with a density that is known, and leaves the posterior fixed whatever S is. (Welling & Teh 2011;
corrected by a race: Chen & Ghahramani 2016; acceptance: Roberts & Rosenthal 1998.)
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.control import Control, make_controls
from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.selector import Selector, not_a_sum
from subsample_mcmc.kernels.adapt import (
    Tuning,
    learn,
    make_tuning,
    preconditioner,
    scales_of,
    step_size,
)
from subsample_mcmc.kernels.base import BAD_PRIOR
from subsample_mcmc.kernels.continuous import ContinuousBlock, start_from_current, stay_or_go
from subsample_mcmc.kernels.decision import Decision, Judge, fail
from subsample_mcmc.kernels.gradient import (
    DERIVATIVES,
    Slope,
    anchor,
    anchored,
    draw_batch,
    has_derivatives,
    make_slope,
    reference_of,
    slope_of,
)
from subsample_mcmc.kernels.proposals.own_gradient import check_gradient
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.random import fill_normal
from subsample_mcmc.target.moved import (
    BlockCoordinates,
    all_to_block,
    all_to_free,
    in_use,
    moved,
)
from subsample_mcmc.target.rewards import place, prior_of
from subsample_mcmc.target.user_functions import plain

OPTIMAL = 0.574  # acceptance at which a Langevin proposal moves farthest, in many dimensions
# Far from its reference the gradient of a polynomial throws proposals away, and all of them are
# refused: a chain would hardly ever enter a heavier tail. So it is cut, and some steps walk.
LONGEST = 3.0  # times d^1/2, the length that a Gaussian's has: of a thousand steps three are cut
WALKS = 0.125
WALK_STEP = 1.44  # times d^-1/3: how long, in Langevin steps (Roberts & Rosenthal 2001)


class LangevinTools(NamedTuple):
    """What a Langevin step works with."""

    judge: Judge
    coordinates: BlockCoordinates
    tuning: Tuning
    slope: Slope
    push: "Push"


@dataclass(frozen=True, eq=False)
class Langevin(ContinuousBlock):
    """Propose along a gradient, of a mini-batch (SGLD) or a surrogate; accept by a race.

    block: a name, or a tuple of names of blocks that move as one: see sm.Metropolis.
    step: h of v = u + h/2 M g(u) + (h M)^1/2 z in free coordinates. "auto" starts from 1/N, or
        from 1 with a preconditioner; warm-up adapts it to an acceptance of 0.574 (adapt=False
        keeps it).
    gradient: "control", that of the control variate's sum, which reads no data: the default with
        control=sm.Taylor(fit), and 100 times better than a mini-batch at posterior scale; one step
        in eight walks without it, since far out it leads nowhere and the chain must go there.
        "minibatch", the default without: derivatives of log_likelihood itself, 8 components at
        once, where it is a plain function that compiles for them and more than two numbers move;
        else central differences, 2 batch rewards a coordinate. Or gradient(state, data, n, out),
        which writes the derivatives of datum n's log likelihood by the block into out, zeros on
        entry (with prepare in the model: gradient(state, data, n, prepared, out)); of several
        blocks by their names, out.b[0]. Checked on a few data when the chain is built.
    batch: rows of a gradient, drawn anew in every step; all N make it plain Langevin.
    precondition: M in free coordinates: sm.laplace(model), a vector of scales (the square roots
        of a diagonal) or a covariance matrix; for a block of varying length a list of fits, or a
        tuple of matrices, one for each. Default: the fit behind control=sm.Taylor(fit);
        else warm-up learns one scale per coordinate.
    selector: how the decision is made; default Thinned() with a control variate whose residuals
        are bounded, else Racing(). It reads rows of its own.
    correct: False is plain SGLD: no decision, and a bias that nobody knows. Proposals off the
        support are refused.
    adapt: learn step and scales in warm-up.
    decay: with correct=False steps are h (1 + t)^-decay, t the chain's iterations before, warm-up
        included; where they decrease, weight draws by the statistic `scale`, the step.
    backward: the mini-batch of the way back, "same" as forward or "fresh". Both are exact: (S, S')
        and (S', S) are equally likely. A fresh one mixes better (ESS 102 against 9 with 10% of
        20,000 data): the same one adds its noise twice.
    control: sm.Taylor(fit): its gradient proposes, and the race is about what it leaves over. Or
        a reference point, sm.laplace(model) or the block's values there: its gradient over all
        data is computed once, and the mini-batch estimates only the difference to it (SGLD-CV).
        That needs a kernel that moves all blocks of the model. With correct=False a bias remains,
        of the order of h.
    surrogate: see sm.delayed.

    Example:
        >>> x = np.column_stack([np.ones(2_000), np.linspace(-1.0, 1.0, 2_000)])
        >>> y = x @ [1.0, 2.0] + np.random.default_rng(0).standard_normal(2_000)
        >>> model = sm.models.glm.gaussian(x, y)
        >>> fit = sm.laplace(model)
        >>> kernel = sm.Langevin("beta", control=sm.Taylor(fit), precondition=fit)
        >>> trace = sm.sample(model, kernel, draws=500, warmup=200, chains=1, seed=1)
        >>> trace.draws["beta"].mean(axis=(0, 1)).round(1).tolist()
        [1.0, 2.0]
    """

    block: str | tuple[str, ...]
    step: Any = "auto"
    gradient: Any = None
    batch: int = 256
    precondition: Any = None
    selector: Selector | None = None
    correct: bool = True
    adapt: bool = True
    decay: float = 0.0
    backward: str = "same"
    control: Any = None
    surrogate: Any = None

    def __post_init__(self):
        self.take_block()
        if self.correct or self.selector is not None:
            self.take_selector()
        if self.gradient is None:
            kind = "control" if self.variate is not None else "minibatch"
            object.__setattr__(self, "gradient", kind)
        refuse(self)
        given = preconditioner(self.precondition, getattr(self.variate, "fit", None), self.writes)
        object.__setattr__(self, "precondition", given)

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """What the selector promises, per decision."""
        return self.selector.guarantee if self.selector is not None else "unadjusted"

    @property
    def own(self) -> Any:
        """The user's gradient, or None."""
        return self.gradient if callable(self.gradient) else None

    def source_of(self, model) -> Any:
        """The user's gradient, DERIVATIVES of the likelihood, or None: by differences."""
        if self.own is not None or self.surrogate_gradient:
            return self.own
        length = moved(model, self.writes).block.length
        return DERIVATIVES if has_derivatives(model, length) else None

    def found(self, model) -> str:
        """Runs that were stored by differences, or without walks, cannot go on as they are now."""
        if self.walks:
            return "of the control variate, some steps without"
        return DERIVATIVES if self.source_of(model) is DERIVATIVES else ""

    @property
    def walks(self) -> float:
        """The share of its steps that use no gradient."""
        return WALKS if self.surrogate_gradient and self.correct else 0.0

    @property
    def variate(self) -> Control | None:
        """The control variate of its decisions, or None."""
        return self.control if isinstance(self.control, Control) else None

    @property
    def decision(self) -> Decision:
        """Stay or go; uncorrected steps go without asking."""
        return Decision(self.selector or Exact(), self.variate, proposes=True)

    @property
    def surrogate_gradient(self) -> bool:
        """Does the gradient come from the control variate."""
        return self.gradient == "control"

    @property
    def anchored(self) -> bool:
        """Is the mini-batch's gradient relative to that of a reference point."""
        point = self.variate is None or self.variate.anchor
        return self.control is not None and point and not self.surrogate_gradient

    @property
    def learns(self) -> str:
        """The step, unless it is kept."""
        return "step" if self.adapt and self.correct else ""

    def facts(self, model=None) -> dict[str, Any]:
        """Adds which gradient is used, and the steps of plain SGLD."""
        kind = "your gradient" if self.own else "gradient by central differences"
        if model is not None and self.source_of(model) is DERIVATIVES:
            kind = "gradient by derivatives of log_likelihood"
        note = f"{kind}, batch {self.batch}" + (", control variate" if self.anchored else "")
        if self.surrogate_gradient:
            note = "gradient of the control variate, which reads no data"
            note += ", one step in eight without" if self.walks else ""
        if not self.correct:
            fall = f" (1 + t)^-{self.decay:g}, t iterations before" if self.decay else ""
            name = "SGLD-CV" if self.anchored else "plain SGLD"
            name = "Langevin on the surrogate" if self.surrogate_gradient else name
            note += f"; {name}, nothing corrects it, steps {self.step:g}{fall}"
        return super().facts(model) | {
            "arms": 2 if self.correct else None, "proposes": True, "note": note,
        }  # fmt: skip

    @property
    def elsewhere(self) -> str:  # type: ignore[override]
        """Mini-batch gradients read rows at every step."""
        if self.surrogate_gradient:
            return ""
        return (
            "reads a mini-batch of rows at every step for its gradient: give it "
            'gradient="control" and control=sm.Taylor(fit)'
        )

    def suspects(self, model, state):
        """Its gradient and its surrogate."""
        if self.surrogate is not None:
            yield self.surrogate, (state,)
        if self.own is not None:
            blocks = moved(model, self.writes)
            out = blocks.views(np.zeros(blocks.block.length))
            yield self.own, (state, model.data, np.int64(0), *model.extra(state), out)

    def check(self, model) -> None:
        """Refuse discrete blocks, batches beyond N, wrong shapes and wrong gradients."""
        blocks = self.continuous(model)
        if not self.surrogate_gradient and self.batch > model.size:
            raise ValueError(
                f"batch={self.batch} exceeds the model's {model.size} data: take at most those."
            )
        scales_of(self.precondition, blocks)
        for name in self.writes:
            self.decision.check(model, name)
        if self.anchored and len(model.names) > len(self.writes):
            raise ValueError(
                f"Langevin({self.block!r}, control=...): the gradient at the reference point "
                f"changes with the other blocks of {model.names}, and would be stale. Leave "
                "control out, or move all blocks as one, if they are continuous."
            )
        if self.anchored:
            reference_of(self.control, blocks)
        if self.own is not None:
            check_gradient(model, self.writes, self.own)

    def build(self, model) -> Any:
        """The compiled step."""
        source = self.variate if self.surrogate_gradient else None
        slope = slope_of(self.source_of(model), source)
        slope = anchored(slope) if self.anchored else slope
        if self.selector is None:
            return langevin_step(slope, no_ratio, go_there)
        return langevin_step(slope, ratio_of(slope, self.backward == "fresh"), stay_or_go)

    def bind(self, model, run) -> LangevinTools:
        """Tools of one chain."""
        blocks = moved(model, self.writes)
        free, given = blocks.free, self.precondition
        source = self.variate if self.surrogate_gradient else None
        surrogate = make_controls(source, model, self.decision.selector, 2)
        own = self.source_of(model)
        slope = make_slope(model, run, blocks, int(self.batch), own, surrogate)
        if self.anchored:
            point = reference_of(self.control, blocks)
            full = make_slope(model, run, blocks, model.size, own)
            anchor(slope_of(own), slope, full, blocks, point, run.floats)
            slope = slope._replace(cost=2 * slope.cost, each=2 * slope.each)
        matrix, scales, factors = scales_of(given, blocks)
        h = self.step if self.step != "auto" else 1.0 if given is not None else 1.0 / model.size
        target = OPTIMAL if self.adapt and self.correct else 0.0
        tuning = make_tuning(run, float(h) ** 0.5, scales, free, target, scaled=given is None)
        room = (np.zeros(free) for _ in range(4))
        push = Push(matrix, factors, float(self.decay), self.walks, np.zeros(1), *room)
        return LangevinTools(self.judge(model, run), blocks.coordinates(), tuning, slope, push)


def refuse(spec: Langevin) -> None:
    """Raise for numbers that are none, and for what plain SGLD, or a corrected step, cannot use."""
    auto = isinstance(spec.step, str) and spec.step == "auto"
    if not auto and (isinstance(spec.step, str) or not 0.0 < spec.step < np.inf):
        raise ValueError(f'step={spec.step!r}: give a positive number, or "auto".')
    if not isinstance(spec.batch, int | np.integer) or spec.batch < 1:
        raise ValueError(f"batch={spec.batch!r}: give a whole number of rows, at least 1.")
    if spec.gradient == "control" and spec.variate is None:
        raise ValueError('gradient="control": give a control variate, control=sm.Taylor(fit).')
    if spec.gradient not in ("minibatch", "control"):
        wanted = '"minibatch", "control" or gradient(state, data, n, out)'
        plain(spec.gradient, "gradient", wanted)
    if spec.backward not in ("same", "fresh"):
        raise ValueError(f'backward={spec.backward!r}: it must be "same" or "fresh".')
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


# --------------------------------------------------------------------------------------- the step
class Push(NamedTuple):
    """The noise of a proposal, and the gradients at both ends."""

    full: int  # 1: L is `factor`; 0: L is the diagonal of the tuning's scales
    factor: np.ndarray  # (models, d, d); of one model where `narrowed`
    decay: float
    walks: float  # the share of steps without a gradient
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
        push.walking, push.noise[:d], push.lean[:d], push.here[:d], push.there[:d],
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
    if push.walks > 0.0:
        square = 0.0
        for i in range(len(g)):
            square += turned(push, tuning, g, i) ** 2
        cut = min(1.0, LONGEST * (len(g) / square) ** 0.5) if square > 0.0 else 1.0
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
