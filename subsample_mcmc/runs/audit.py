"""How often a selector errs on a model's own decisions: `audit`, on demand."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

from subsample_mcmc.calls import helpful
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.kernels.base import Kernel
from subsample_mcmc.kernels.compose import changed, cycle
from subsample_mcmc.kernels.gibbs import Gibbs
from subsample_mcmc.kernels.metropolis import Metropolis
from subsample_mcmc.runs.sample import sample
from subsample_mcmc.runs.trace import Trace
from subsample_mcmc.runs.views.report import Report
from subsample_mcmc.target.model import Model, must_be_model


@helpful
def audit(
    model: Model, selector: Selector, kernel: Kernel | None = None, steps: int = 1000,
    trace: Trace | None = None, warmup: int = 200, seed=None, progress: bool = False,
) -> Report:  # fmt: skip
    """Make every decision of a short run twice, by a selector and exactly: a Report of the errors.

    The exact decision sums all data under the same Gumbels and uniforms; it never uses the race's
    own sums.

    model: as in sm.sample.
    selector: that is to be judged.
    kernel: whose decisions, with its selectors replaced; default a Gibbs or Metropolis kernel for
        every block.
    steps: of the kernel.
    trace: start where it ended, else in the model's initial state.
    warmup: steps before, which are not counted.
    seed: as in sm.sample.
    progress: a bar.

    Example:
        >>> def log_likelihood(state, data, n):
        ...     return -abs(data.y[n] - 0.5 * state.k[0])
        >>> y = np.random.default_rng(0).laplace(1.5, 1.0, 5_000)
        >>> model = sm.Model(log_likelihood, {"y": y}, state={"k": 0}, support={"k": 6})
        >>> report = sm.audit(model, sm.Racing(delta=0.01), steps=200, warmup=0, seed=1)
        >>> report.rows[0]["audited"], report.rows[0]["error"] <= 0.05
        (200, True)
    """
    must_be_model(model, "sm.audit(model, selector, kernel)")
    if not isinstance(selector, Selector):
        after = " A kernel comes after it." if isinstance(selector, Kernel) else ""
        raise TypeError(
            f"selector={selector!r:.60}: give a selector such as sm.Racing(delta=0.01).{after}"
        )
    judged = with_selector(kernel, selector) if kernel is not None else usual(model, selector)
    start = None
    if trace is not None:
        kept = [name for name in model.names if name in trace.draws]
        start = [{name: trace.draws[name][0, -1] for name in kept}]
    made = sample(
        model, judged, draws=steps, warmup=warmup, chains=1, seed=seed, audit=1.0, start=start,
        progress=progress,
    )  # fmt: skip
    return made.report()


def usual(model: Model, selector: Selector) -> Kernel:
    """A kernel for every block."""
    parts: list[Kernel] = [
        Gibbs(name, selector) if v.block.discrete else Metropolis(name, selector=selector)
        for name, v in model.variables.items()
    ]
    return cycle(*parts)


def takes(leaf: Any, name: str) -> bool:
    """Is this an argument of a kernel: sm.SurrogateTransition decides by all rows, and has none."""
    return is_dataclass(leaf) and any(f.name == name for f in fields(leaf))


def with_selector(kernel: Any, selector: Selector) -> Kernel:
    """The same kernel, deciding by another selector wherever it takes one."""

    def decided(leaf: Any) -> Any:
        given = takes(leaf, "selector") and leaf.selector is not None
        return replace(leaf, selector=selector) if given else leaf

    return changed(kernel, decided)
