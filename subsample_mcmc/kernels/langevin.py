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

from subsample_mcmc.approx.control import Control, check_control, make_controls, with_range
from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.kernels.adapt import Tuning, make_tuning
from subsample_mcmc.kernels.anchored import anchor, anchored, reference_of
from subsample_mcmc.kernels.decision import Judge, decider, make_judge
from subsample_mcmc.kernels.gradient import (
    Slope,
    check_gradient,
    make_slope,
    slope_of,
)
from subsample_mcmc.kernels.kernel import OneBlock, tally_of
from subsample_mcmc.kernels.langevin_step import (
    Push,
    go_there,
    langevin_step,
    no_ratio,
    preconditioner,
    ratio_of,
    scales_of,
)
from subsample_mcmc.kernels.metropolis import Coordinates, coordinates, ends_of, two_arms
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.target.rewards import make_trial
from subsample_mcmc.target.user_functions import plain

OPTIMAL = 0.574  # acceptance at which a Langevin proposal moves farthest, in many dimensions


class Tools(NamedTuple):
    """What a Langevin step works with."""

    judge: Judge
    coordinates: Coordinates
    tuning: Tuning
    slope: Slope
    push: Push


@dataclass(frozen=True, eq=False)
class Langevin(OneBlock):
    """Propose along a gradient, of a mini-batch (SGLD) or a surrogate; accept by a race.

    step: h of v = u + h/2 M g(u) + (h M)^1/2 z in free coordinates. "auto" starts from 1/N, or
        from 1 with a preconditioner; warm-up adapts it to an acceptance of 0.574 (adapt=False
        keeps it).
    gradient: "control", that of the control variate's sum, which reads no data: the default with
        control=sm.Taylor(fit), and 100 times better than a mini-batch at posterior scale.
        "minibatch", the default without: central differences of log_likelihood, 2 batch rewards a
        coordinate. Or gradient(state, data, n, out), which writes the derivatives of datum n's
        log likelihood by the block into out, zeros on entry (with prepare in the model:
        gradient(state, data, n, prepared, out)). Checked on a few data when the chain is built.
    batch: rows of a gradient, drawn anew in every step; all N make it plain Langevin.
    precondition: M in free coordinates: sm.laplace(model), a vector of scales (the square roots
        of a diagonal) or a covariance matrix; for a block of varying length a list of fits, or a
        tuple of matrices, one for each. Default: the fit behind control=sm.Taylor(fit);
        else warm-up learns one scale per coordinate.
    selector: how the decision is made; default Racing(). It reads rows of its own.
    correct=False: plain SGLD: no decision, and a bias that nobody knows. Proposals off the
        support are refused. Steps are h (1 + t)^-decay, t the chain's iterations before,
        warm-up included; where they decrease, weight draws by the statistic `scale`, the step.
    backward: the mini-batch of the way back, "same" as forward or "fresh". Both are exact: (S, S')
        and (S', S) are equally likely. A fresh one mixes better (ESS 102 against 9 with 10% of
        20,000 data): the same one adds its noise twice.
    control: sm.Taylor(fit): its gradient proposes, and the race is about what it leaves over. Or
        a reference point, sm.laplace(model) or the block's values there: its gradient over all
        data is computed once, and the mini-batch estimates only the difference to it (SGLD-CV).
        That needs a model of one block. With correct=False a bias remains, of the order of h.
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

    block: str
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
        if self.correct or self.selector is not None:
            self.take_selector()
        if self.gradient is None:
            kind = "control" if self.variate is not None else "minibatch"
            object.__setattr__(self, "gradient", kind)
        refuse(self)
        given = preconditioner(self.precondition, getattr(self.variate, "fit", None), self.block)
        object.__setattr__(self, "precondition", given)

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """What the selector promises, per decision."""
        return self.selector.guarantee if self.selector is not None else "unadjusted"

    @property
    def own(self) -> Any:
        """The user's gradient, or None."""
        return self.gradient if callable(self.gradient) else None

    @property
    def variate(self) -> Control | None:
        """The control variate of its decisions, or None."""
        return self.control if isinstance(self.control, Control) else None

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
        note = f"{kind}, batch {self.batch}" + (", control variate" if self.anchored else "")
        if self.surrogate_gradient:
            note = "gradient of the control variate, which reads no data"
        if not self.correct:
            fall = f" (1 + t)^-{self.decay:g}, t iterations before" if self.decay else ""
            name = "SGLD-CV" if self.anchored else "plain SGLD"
            name = "Langevin on the surrogate" if self.surrogate_gradient else name
            note += f"; {name}, nothing corrects it, steps {self.step:g}{fall}"
        return super().facts(model) | {"arms": 2 if self.correct else None, "note": note}

    def suspects(self, model, state):
        """Its gradient and its surrogate."""
        if self.surrogate is not None:
            yield self.surrogate, (state,)
        if self.own is not None:
            out = np.zeros(model.variables[self.block].block.shape or (1,))
            yield self.own, (state, model.data, np.int64(0), *model.extra(state), out)

    def check(self, model) -> None:
        """Refuse discrete blocks, batches beyond N, wrong shapes and wrong gradients."""
        variable = self.continuous(model)
        if not self.surrogate_gradient and self.batch > model.size:
            raise ValueError(
                f"batch={self.batch} exceeds the model's {model.size} data: take at most those."
            )
        scales_of(self.precondition, variable)
        check_control(self.variate, model, self.block, self.selector or Exact(), 2)
        if self.anchored and len(model.names) > 1:
            raise ValueError(
                f"Langevin({self.block!r}, control=...): the gradient at the reference point "
                f"changes with the other blocks of {model.names}, and would be stale. Leave "
                "control out, or make the model one block."
            )
        if self.anchored:
            reference_of(self.control, variable)
        if self.own is not None:
            check_gradient(model, self.block, self.own)

    def build(self, model, inner: Any) -> Any:
        """The compiled step."""
        source = self.variate if self.surrogate_gradient else None
        slope, prior = slope_of(model, self.own, source), model.compiled[2]
        slope = anchored(slope) if self.anchored else slope
        if self.selector is None:
            return langevin_step(slope, no_ratio, prior, go_there, inner)
        surrogate = self.surrogate
        if surrogate is not None:
            surrogate = jit(surrogate, flags=FLAGS, user=True, inner=True)
        settle = two_arms(decider(model, self.selector, False, self.variate), prior, surrogate)
        ratio = ratio_of(slope, self.backward == "fresh")
        return langevin_step(slope, ratio, prior, settle, inner)

    def bind(self, model, run) -> Tools:
        """Tools of one chain."""
        variable = model.variables[self.block]
        block, to = variable.block, coordinates(variable)
        free, given = len(to.u), self.precondition
        selector = self.selector or Exact()
        controls = make_controls(self.variate, model, selector, 2)
        ends = ends_of(model, variable)
        trial = make_trial(model, run, block, model.size, ends, None, controls)
        source = self.variate if self.surrogate_gradient else None
        surrogate = make_controls(source, model, selector, 2)
        slope = make_slope(model, run, variable, int(self.batch), self.own is not None, surrogate)
        if self.anchored:
            point = reference_of(self.control, variable)
            full = make_slope(model, run, variable, model.size, self.own is not None)
            anchor(slope_of(model, self.own), slope, full, to, point, run.floats)
            slope = slope._replace(cost=2 * slope.cost, each=2 * slope.each)
        matrix, scales, factors = scales_of(given, variable)
        h = self.step if self.step != "auto" else 1.0 if given is not None else 1.0 / model.size
        target = OPTIMAL if self.adapt and self.correct else 0.0
        tuning = make_tuning(run, float(h) ** 0.5, scales, free, target, scaled=given is None)
        room = (np.zeros(free) for _ in range(4))
        push = Push(matrix, factors, float(self.decay), *room)
        tally = tally_of(run.next_words(len(self.columns)))
        selector = with_range(selector, self.variate, model, 2)
        judge = make_judge(model, run, trial, selector, 2, tally)
        return Tools(judge, to, tuning, slope, push)


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
