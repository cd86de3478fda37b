"""Langevin proposals driven by a mini-batch or surrogate gradient, corrected by a race of two arms.

v = u + (h/2) M g_S(u) + h^1/2 L z in free coordinates, M = L L', z standard normal. The mini-batch
S is drawn for this step, independently of the state, and serves the mean of the proposal and of
the way back (or that one has a mini-batch of its own). So given S the step is Metropolis-Hastings
with a density that is known, and leaves the posterior fixed whatever S is. (Welling & Teh 2011;
corrected by a race: Chen & Ghahramani 2016; acceptance: Roberts & Rosenthal 1998.)
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.approx.control import Control, make_controls
from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.kernels.adapt import Tuning, make_tuning, preconditioner, scales_of
from subsample_mcmc.kernels.continuous import ContinuousBlock, stay_or_go
from subsample_mcmc.kernels.decision import Decision, Judge
from subsample_mcmc.kernels.gradient import (
    DERIVATIVES,
    Slope,
    anchor,
    anchored,
    has_derivatives,
    make_slope,
    reference_of,
    slope_of,
)
from subsample_mcmc.kernels.proposals.langevin_step import (
    LONGEST,
    OPTIMAL,
    WALKS,
    Push,
    go_there,
    langevin_step,
    no_ratio,
    ratio_of,
)
from subsample_mcmc.kernels.proposals.own_gradient import check_gradient
from subsample_mcmc.kernels.sites.by_site import (
    FEW,
    READS_OWN,
    check_sites,
    facts_of_sites,
    most_rows,
    moves_by_site,
)
from subsample_mcmc.kernels.sites.langevin_sites import SiteSlopes, bind_slopes, sweep_of_slopes
from subsample_mcmc.target.moved import BlockCoordinates, moved
from subsample_mcmc.target.user_functions import plain


class LangevinTools(NamedTuple):
    """What a Langevin step works with."""

    judge: Judge
    coordinates: BlockCoordinates
    tuning: Tuning
    slope: Slope
    push: Push


@dataclass(frozen=True, eq=False)
class Langevin(ContinuousBlock):
    """Propose along a gradient, of a mini-batch (SGLD) or a surrogate; accept by a race.

    A block with touches, sm.Model(touches={"a": "group"}), moves site by site: each along the
    gradient of its own data, all of them, and of its prior, and decides by these; it learns a step
    of its own. With correct=False, a gradient of your own, precondition, control or surrogate it
    moves as one.

    block: a name, or a tuple of names of blocks that move as one: see sm.Metropolis.
    step: h of v = u + h/2 M g(u) + (h M)^1/2 z in free coordinates. "auto" starts from 1/N, or
        from 1 with a preconditioner; warm-up adapts it to an acceptance of 0.574 (adapt=False
        keeps it).
    gradient: "control", that of the control variate's sum, which reads no data: the default with
        control=sm.Taylor(fit), and 100 times better than a mini-batch at posterior scale.
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
        are bounded, Exact() with one that explains too little, else Racing(). It reads rows of its
        own.
    correct: True decides, and one step in eight walks without the gradient, but for sites, which
        leads nowhere far out and beside bounds, where chains must go, too. False is plain SGLD: no
        decision, and a bias that nobody knows. Proposals off the support are refused.
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

    Site by site, in rows of two numbers that move together:
        >>> rng = np.random.default_rng(0)
        >>> group, x = np.repeat(np.arange(30), 20), rng.standard_normal(600)
        >>> data = {"y": 1.0 + 2.0 * x + rng.standard_normal(600), "x": x, "group": group}
        >>> def log_likelihood(state, data, n):
        ...     g = data.group[n]
        ...     return -0.5 * (data.y[n] - state.a[g, 0] - state.a[g, 1] * data.x[n]) ** 2
        >>> def of_group(state, g):
        ...     return -0.05 * (state.a[g, 0] ** 2 + state.a[g, 1] ** 2)
        >>> model = sm.Model(
        ...     log_likelihood, data, {"a": np.zeros((30, 2))}, touches={"a": "group"},
        ...     site_prior={"a": of_group},
        ... )
        >>> trace = sm.sample(model, sm.Langevin("a"), 500, warmup=500, chains=1, seed=1)
        >>> trace.draws["a"].mean(axis=(0, 1, 2)).round().tolist()  # over the groups
        [1.0, 2.0]
    """

    in_parts: ClassVar[bool] = True

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

    def by_site(self, model) -> bool:
        """Does the block move site by site: nothing was given that is about all data."""
        about_all = (self.own, self.control, self.surrogate, self.precondition)
        none = all(given is None for given in about_all)
        return self.correct and none and moves_by_site(self, model)

    def usual_selector(self, model) -> Selector:
        """What decides where no selector was given."""
        if self.by_site(model) and most_rows(model, self.writes[0]) <= FEW:
            return Exact()
        return super().usual_selector(model)

    def reads(self, model) -> str:
        """What a stored run must have in common with it, beside the kernel as it is written."""
        return READS_OWN if self.by_site(model) else ""

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
        if self.by_site(model):
            return ""
        found = DERIVATIVES if self.source_of(model) is DERIVATIVES else ""
        if not self.walks:
            return "" if self.surrogate_gradient else found
        usual = (
            "of the control variate" if self.surrogate_gradient else "as given or by differences"
        )
        return f"{found or usual}, some steps without"

    @property
    def walks(self) -> float:
        """The share of its steps that use no gradient."""
        return WALKS if self.correct else 0.0

    @property
    def variate(self) -> Control | None:
        """The control variate of its decisions, or None."""
        return self.control if isinstance(self.control, Control) else None

    @property
    def decision(self) -> Decision:
        """Stay or go; uncorrected steps go without asking."""
        return Decision(
            Exact() if self.selector is None else self.selector, self.variate, proposes=True
        )

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
        if model is not None and self.by_site(model):
            told = super().facts(model) | facts_of_sites(self, model)
            told["note"] += "; along the gradient of these"
            return told | {"arms": 2, "proposes": True}
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
        if self.by_site(model):
            check_sites(self, model)
            return
        if not self.surrogate_gradient and self.batch > model.size:
            usual = ", the default," if self.batch == type(self).batch else ""
            raise ValueError(
                f"batch={self.batch}{usual} exceeds the model's {model.size} data: give "
                f"batch={model.size}, which is all of them, or fewer."
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
        if self.by_site(model):
            return sweep_of_slopes
        source = self.variate if self.surrogate_gradient else None
        slope = slope_of(self.source_of(model), source)
        slope = anchored(slope) if self.anchored else slope
        if self.selector is None:
            return langevin_step(slope, no_ratio, go_there)
        return langevin_step(slope, ratio_of(slope, self.backward == "fresh"), stay_or_go)

    def bind(self, model, run) -> LangevinTools | SiteSlopes:
        """Tools of one chain."""
        if self.by_site(model):
            return bind_slopes(self, model, run)
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
        longest = LONGEST if self.surrogate_gradient and self.correct else 0.0
        push = Push(matrix, factors, float(self.decay), self.walks, longest, np.zeros(1), *room)
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
