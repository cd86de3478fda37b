"""A kernel for a model that came with none: candidates that suit its blocks, and short pilots.

What is proposed: Gibbs for discrete blocks; for continuous ones, all as one, moves along a fit with
a control variate where there is a fit, or around a Gaussian that is learnt; sites that see data of
their own one by one, and all at once with their mean and scale; where no moves follow a fit,
slices, along its lines if there is one; and adaptive random walks. Pilots start at the fit and
count effective draws of the slowest quantity. As plain walks are among the candidates, the choice
is no slower than they are, by as much as a pilot can tell. Where a run that reads all data is over
at once, none of its decisions is an estimate; where one of slices is over before pilots would be,
there are no pilots.
"""

import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from subsample_mcmc.approx.fit.by_sites import factors_of, fits_crossed, goes_by_site
from subsample_mcmc.approx.fit.coordinates import Coordinates
from subsample_mcmc.approx.fit.fit import Fit
from subsample_mcmc.approx.fit.laplace import is_predicted, laplace
from subsample_mcmc.approx.fit.modes import Modes, highest, modes_of
from subsample_mcmc.calls import helpful
from subsample_mcmc.kernels.base import GUARANTEES, Kernel, check, worst
from subsample_mcmc.kernels.compose import Single
from subsample_mcmc.kernels.sites.touches import could_touch
from subsample_mcmc.numerics.progress import quietly
from subsample_mcmc.runs.defaults.code import OPTIONS, all_as_one, of_code
from subsample_mcmc.runs.defaults.configurations import WIDER, Configurations, at_configurations
from subsample_mcmc.runs.defaults.hierarchies import of_sites
from subsample_mcmc.runs.defaults.orders import in_an_order
from subsample_mcmc.runs.defaults.pilots import (
    EXACT,
    Candidate,
    at_once,
    audited,
    by_pilots,
    certain,
    first_sentence,
    several_a_draw,
)
from subsample_mcmc.runs.defaults.site_priors import warn_of_site_priors
from subsample_mcmc.runs.defaults.spikes import refuse_spikes
from subsample_mcmc.runs.defaults.starts import anywhere, blocks_to_draw
from subsample_mcmc.runs.defaults.tails import heavier, of_few_data
from subsample_mcmc.runs.plan import state_of
from subsample_mcmc.style import safe
from subsample_mcmc.target.lookups.reads import unread
from subsample_mcmc.target.model import Model, must_be_model
from subsample_mcmc.target.moved import moved
from subsample_mcmc.target.population import whole

PROMISES = GUARANTEES[:3]
DENSE = 300  # free coordinates up to which a fit is made; and
WORK = 4e9  # data, times their square, of functions that are no sm.Predictors
CONFIGURED = 256  # configurations of discrete blocks, of each of which a control variate has sums
LEARNABLE = 50  # free coordinates whose covariance a warm-up of usual length may learn
STEPS = 8_000  # of the run to come, where nobody says: four chains, 1,000 draws and a warm-up each
# A random walk's scales where there is a fit; else warm-up has to find them.
WALK = "2.4 / len(fit.mean) ** 0.5 * fit.covariance.diagonal() ** 0.5"
CONTROL = ", control=control"  # in code that is written
RACED = (", selector=sm.Racing()",)
BY_ALL = ", selector=sm.Exact()"
LEARNT = "a Gaussian that is learnt"
WIDE = 2.0  # standard deviations of the fit by which chains start apart


@dataclass(frozen=True, eq=False)
class DefaultKernel(Single):
    """The kernel that was chosen for a model. print() shows code that makes it again.

    part, code, promised: the kernel, code that makes it again, and its guarantee for the model.
    model: what it was chosen for.
    found: one line for each candidate that was tried or left out, and why.
    fit, modes: what sm.laplace said, if a fit was made, and what further searches came to.
    configurations: fits at other values of the discrete blocks, where these are few.

    Example:
        >>> y = np.random.default_rng(0).laplace(1.5, 1.0, 50_000)
        >>> def log_likelihood(state, data, n):
        ...     return -abs(data.y[n] - 0.5 * state.k[0])
        >>> model = sm.Model(log_likelihood, {"y": y}, state={"k": 0}, support={"k": 6})
        >>> sm.default_kernel(model)  # nothing else would do
        kernel = sm.Gibbs("k")
    """

    part: Kernel
    code: str
    promised: str
    model: Model = field(repr=False)
    found: tuple[str, ...] = ()
    fit: Any = field(default=None, repr=False)
    modes: Modes | None = field(default=None, repr=False)
    configurations: Configurations | None = field(default=None, repr=False)

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        return self.promised

    def text(self) -> str:
        return self.part.text()

    def made_of(self, parts: tuple[Kernel, ...]) -> Kernel:
        """The kernel itself: with other selectors it is not what the code makes."""
        return parts[0]

    def __str__(self) -> str:
        return "\n".join([*(f"# {line}" for line in self.found), self.code])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"{Kernel._repr_html_(self)}\n<pre>{safe(self)}</pre>"

    def start(self, rng: np.random.Generator, turn: int | None = None) -> dict[str, Any]:
        """A state for sm.sample(start=kernel.start), wide around the fit or another mode with mass.

        Discrete blocks have any values that are allowed, or, where fits at several of them lie
        apart, those of one that may have mass: chains that never leave one are told by the others.

        rng: a numpy Generator.
        turn: number of a chain: of several modes, the highest first, or fits each takes the next,
            as the chains of sm.sample(model) do. None: any of them, at random.
        """
        if not self.starts_apart:
            raise ValueError("there is no fit to start around: the model's initial state serves.")
        state: dict[str, Any] = {}
        several = isinstance(self.fit, list)  # one of each value of the block that says lengths
        if self.fit is not None:

            def one_of(given):
                return given[rng.integers(len(given)) if turn is None else turn % len(given)]

            near = [] if self.modes is None else self.modes.near
            if self.configurations is not None and self.configurations.elsewhere:
                fit, centre = one_of(self.configurations.around(self.fit, near))
                return fit.start(rng, WIDE, centre)
            fit = one_of(self.fit) if several else self.fit
            centre = one_of(near) if len(near) > 1 else None
            state = fit.start(rng, WIDE, centre)
        chosen = chooser_of(self.model) if several else ""
        names = [name for name in blocks_to_draw(self.model) if name != chosen]
        return anywhere(self.model, state, names, rng) if names else state

    def in_turn(self) -> Callable[[np.random.Generator], dict[str, Any]]:
        """start(rng) for chains one after the other; by chance all might begin in one mode."""
        turns = itertools.count()
        return lambda rng: self.start(rng, next(turns))

    @property
    def starts_apart(self) -> bool:
        """Is there a fit to start around, or a block of which any value may do."""
        return self.fit is not None or bool(blocks_to_draw(self.model))


@helpful
def default_kernel(
    model: Model, promise: str | None = None, steps: int = STEPS, progress: bool = True
) -> DefaultKernel:
    """The kernel that sm.sample(model) takes where none is given; print it for code to copy.

    model, progress: as in sm.sample.
    promise: the weakest guarantee that may do: "exact", "bounded" or "asymptotic", with which races
        are tried as well; None: what each kernel decides by where it is told nothing.
    steps: of the run to come, over all chains: pilots have a tenth of its time, or a second each.

    The choice rests on times, and may be another one next time: to have the same, copy the code.

    Example:
        >>> x = np.column_stack([np.ones(2_000), np.linspace(-1.0, 1.0, 2_000)])
        >>> y = x @ [1.0, 2.0] + np.random.default_rng(0).standard_normal(2_000)
        >>> model = sm.models.glm.gaussian(x, y)
        >>> kernel = sm.default_kernel(model, promise="exact")
        >>> kernel.guarantee, "sm.laplace(model)" in kernel.code
        ('exact', True)
    """
    must_be_model(model, "sm.default_kernel(model)")
    model.notice_changes()
    if promise is not None and promise not in PROMISES:
        raise ValueError(f"promise={promise!r}: give one of {', '.join(PROMISES)}, or None.")
    steps = whole(steps, "steps", "how many the run will make, over all chains")
    begun = time.monotonic()
    refuse_spikes(model)
    warn_of_site_priors(model)  # here, as pilots run without a word
    with quietly(progress):
        found, notes, fit, modes, others, slices = candidates_of(model, promise)
        best, told = at_once(model, slices, found, state_of(fit), steps)
        if best is None:
            if len(found) > 1:
                found, told = by_pilots(model, found, state_of(fit), steps, progress, slices)
                notes = [*told, *notes]
            best, told = certain(model, found[0], state_of(fit), steps)
            best, more = audited(model, best, state_of(fit), steps)
            told = [*more, *told]
        waited = time.monotonic() - begun
        best, more = several_a_draw(model, best, state_of(fit), steps, waited)
    notes = [*more, *told, *notes]
    told = [f"# {modes.told()}"] if modes is not None and modes.several else []
    if others is not None and others.elsewhere:
        told.append(f"# {others.told()}")
    code = "\n".join([*told, *best.setup, f"kernel = {best.code}"])
    return DefaultKernel(best.kernel, code, best.guarantee, model, tuple(notes), fit, modes, others)


# --------------------------------------------------------------------------------- the candidates
class Candidates(NamedTuple):
    """What serves a model, and why others do not."""

    found: list[Candidate]
    notes: list[str]
    fit: Any
    modes: Modes | None  # what further searches came to
    others: Configurations | None
    slices: Candidate | None  # of all that is continuous, by all data, if there is a fit


def candidates_of(model: Model, promise: str | None) -> Candidates:
    """See Candidates."""
    if len(several := choosers_of(model)) > 1:
        moves = " >> ".join(f"sm.Gibbs({name!r}, pseudo=sm.PseudoPrior(...))" for name in several)
        raise ValueError(
            f"no kernel is known for a model whose blocks vary in length with each of "
            f"{', '.join(several)}: give one, {moves} and moves of the other blocks."
        )
    fit, setup, why = fitted(model)
    modes = others = None
    if isinstance(fit, Fit):
        others = at_configurations(model, fit)
        if others is not None and others.best is not fit:
            fit = others.best
            setup = (f"fit = {others.code_of(fit)}",)
        modes = modes_of(fit)
        if modes is not None and modes.own > 0:
            fit, code, modes = highest(fit, modes)
            setup = (f"fit = {code}",) if code else setup
    found: list[Candidate] = []
    notes, refusal, known = [why] if why else [], None, dict.fromkeys(setup, fit)
    lines_of: tuple[str, ...] = ()
    walks: tuple[str, ...] = ()
    slices, tails, ordered = None, "", in_an_order(model)  # which look at all data
    if isinstance(fit, Fit):
        slices, tails = sure_slices(model, setup, known, ordered), of_few_data(model, fit)
        apart = tails or lies_apart(model, fit, others, modes)
        if not apart and (tails := heavier(model, fit)):
            walks = setup
        if why := apart or tails:
            setup, lines_of = (), setup  # it is where chains start
            notes.append(f"no moves along the fit: {why}")
    local = getattr(fit, "local", ())
    for name, lines, code in written(model, setup, ordered, local, lines_of, walks):
        if tails and name == LEARNT:  # it would know as little
            continue
        try:
            candidate = made(model, name, lines, code, known, promise)
            if tails and candidate.guarantee == "asymptotic":  # a race errs most in such tails
                name = f"{name.removesuffix(' with a control variate')}, by all data"
                candidate = all_read(model, name, lines, code, known)
        except (TypeError, ValueError) as error:
            refusal = refusal or error
            notes.append(f"{name}: not for this model. {first_sentence(error)}")
        else:
            if candidate.code in {other.code for other in found}:
                continue
            found.append(candidate)
            # What decides where nothing is said may be exact, and dear.
            if promise == "asymptotic" and CONTROL in code and not tails:
                found.append(made(model, f"{name}, raced", lines, code, known, promise, RACED))
    if not found:
        raise refusal or ValueError(
            f"no kernel is known for a model whose blocks vary in length with "
            f"{chooser_of(model)!r} and that has {why}: give one, sm.Gibbs(..., pseudo=...)."
        )
    if others is not None and others.left:
        notes.append(f"no time for fits at {others.left} more values of {', '.join(others.names)}")
    notes += [told for told in (could_touch(model, name) for name in model.names) if told]
    return Candidates(found, notes, fit, modes, others, slices)


def sure_slices(model: Model, setup, known: dict, ordered: dict[str, str]) -> Candidate | None:
    """Slices by all data of all that is continuous, if that is not site by site."""
    if sites_of(model) or chooser_of(model) or not kinds_of_blocks(model)[1]:
        return None
    lines = () if ordered else setup  # whose fit is of one change point, or path
    try:
        return made(model, *slices_of(model, lines, ordered), known, EXACT, (BY_ALL,))
    except (TypeError, ValueError):
        return None


def lies_apart(
    model: Model, fit: Fit, others: Configurations | None = None, modes: Modes | None = None
) -> str:
    """Why a fit is of a part of the posterior alone; empty if it is of all."""
    if others is not None and others.elsewhere:
        return f"those at other values of {', '.join(others.names)} lie elsewhere"
    if others is not None and (wide := others.wider(fit))[0] > WIDER:
        return f"at {others.text_of(wide[1])} the posterior is {wide[0]:.2g} times as wide as it is"
    if modes is not None and len(modes.near) > 1:  # in another, a wrong decision is for good
        return f"it is around one of {len(modes.near)} modes"
    sites = [
        v for v in model.variables.values() if v.support and not unread(model, (v.block.name,))
    ]
    digits = sum(v.block.length * np.log10(v.support) for v in sites)  # 2^2000 is no float
    if digits > np.log10(CONFIGURED) + 1e-9:
        count = f"{10.0**digits:.3g}" if digits < 300.0 else f"1e+{digits:.0f}"
        return f"it is one of {count}, of each configuration of the discrete blocks"
    return ""


def made(
    model: Model, name: str, setup, code: str, known: dict, promise: str | None,
    selectors: tuple[str, ...] = ("", BY_ALL),
) -> Candidate:  # fmt: skip
    """A candidate of its code, checked; exact decisions where it would promise too little."""
    guarantee = ""
    for options in selectors:
        own = code.replace(OPTIONS, options)
        kernel = of_code(own, setup, known)
        check(kernel, model)
        guarantee = kernel.settled(model).guarantee
        if promise is None or worst((guarantee, promise)) == promise:
            by_all = partial(all_read, model, name, setup, code, known)
            return Candidate(name, tuple(setup), own, kernel, guarantee, by_all)
    raise ValueError(f"its guarantee is {guarantee}.")


def all_read(model: Model, name: str, setup, code: str, known: dict) -> Candidate:
    """The same candidate, every decision by all data: a control variate is of no use then."""
    lines = [line for line in setup if not line.startswith("control = ")]
    return made(model, name, lines, code.replace(CONTROL, ""), known, EXACT, (BY_ALL,))


def fitted(model: Model) -> tuple[Any, tuple[str, ...], str]:
    """(a fit, or a list of one for each configuration, or None; the code; why there is none)."""
    continuous = [name for name, v in model.variables.items() if not v.block.discrete]
    if not continuous or model.log_likelihood is None:
        return None, (), ""
    size = (co := Coordinates(model, None, {})).size
    much = model.predictors is None and size * size * model.size > WORK
    dear = size > DENSE or (much and (goes_by_site(co) or not is_predicted(co)))
    chooser = chooser_of(model)
    values = range(model.variables[chooser].support) if chooser else ()
    try:  # fits of crossed sites take minutes
        if dear and (not goes_by_site(co) or fits_crossed(co, factors_of(co))):
            why = f"{size} free coordinates and {model.size:,} data take too long"
            return None, (), f"no fit: {why}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not chooser:
                return laplace(model), ("fit = sm.laplace(model)",), ""
            several = [laplace(model, given={chooser: k}) for k in values]
            if not all(isinstance(one, Fit) for one in several):
                return None, (), "no fit: sites by themselves, and blocks that vary in length"
    except (ValueError, np.linalg.LinAlgError) as error:
        return None, (), f"no fit: {first_sentence(error)}"
    each = f"sm.laplace(model, given={{{json.dumps(chooser)}: k}})"
    return several, (f"fits = [{each} for k in range({len(values)})]",), ""


def choosers_of(model: Model) -> list[str]:
    """The discrete blocks that say how long others are."""
    places = {v.place for v in model.variables.values() if v.place >= 0}
    discrete = ((name, v.block) for name, v in model.variables.items() if v.block.discrete)
    return [name for name, block in discrete if block.start in places]


def chooser_of(model: Model) -> str:
    """The discrete block that says how long others are; empty: none does."""
    return next(iter(choosers_of(model)), "")


def written(
    model: Model,
    setup,
    ordered: dict[str, str],
    local=(),
    lines_of: tuple[str, ...] = (),
    walks: tuple[str, ...] = (),
) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """(name, setup, code) of each candidate, the best bets first; OPTIONS stands for more.

    setup: makes a fit, if there is one. ordered: see in_an_order. local: blocks that the fit has
    site by site. lines_of: makes a fit that no moves follow, along whose lines slices may be;
    walks: one that is good for a control variate all the same.
    """
    discrete, continuous = kinds_of_blocks(model)
    together = all_as_one(continuous)
    gibbs = partial(gibbs_of, ordered=ordered)

    def moves(blocks: str, more: str = "") -> str:
        return f"sm.Metropolis({blocks}{more}{OPTIONS})"

    if chooser := chooser_of(model):
        others = [name for name in discrete if name != chooser]
        for name, lines, more in (
            ("jumps with a control variate", (*setup, "control = sm.Taylor(fits)"), CONTROL),
            ("jumps", setup, ""),
        ):
            jump = gibbs([chooser], more=f", pseudo=sm.PseudoPrior(fits){more}")
            along = moves(together, f", proposal=sm.pcn(fits){more}")
            if setup:
                yield name, lines, " >> ".join([*jump, *gibbs(others), along])
        return
    follows = continuous and not local and not ordered  # whose fit is of one change point, or path
    for name, proposal, lines in (
        ("pCN along the fit", ", proposal=sm.pcn(fit)", setup),
        ("independence proposals of the fit", ", proposal=sm.independence(fit)", setup),
        ("a walk with a control variate", f", scale={WALK}", setup or walks),
    ):
        if follows and lines:
            parts = [*gibbs(discrete, more=CONTROL), moves(together, proposal + CONTROL)]
            yield name, (*lines, "control = sm.Taylor(fit)"), " >> ".join(parts)
    if follows and walks:
        parts = [
            *gibbs(discrete, more=CONTROL),
            f"sm.Slice({together}, along=fit{CONTROL}{OPTIONS})",
        ]
        lines = (*walks, "control = sm.Taylor(fit)")
        yield "slices with a control variate", lines, " >> ".join(parts)
    if follows and setup:
        along = moves(together, ", proposal=sm.pcn(fit)")
        yield "pCN that reads data", setup, " >> ".join([*gibbs(discrete), along])
    if sites := sites_of(model):
        yield from of_sites(model, gibbs(discrete), sites, setup, local)
    elif continuous:
        free = moved(model, tuple(continuous)).free
        if not setup and free <= DENSE:
            yield slices_of(model, lines_of, ordered)
        if free <= LEARNABLE and (discrete or not setup):  # a fit holds discrete ones where it is
            learnt = moves(together, ", proposal=sm.pcn()")
            yield LEARNT, (), " >> ".join([*gibbs(discrete), learnt])
    if len(continuous) > 1:
        yield "a walk of all blocks as one", (), " >> ".join([*gibbs(discrete), moves(together)])
    one_by_one = [moves(json.dumps(name)) for name in continuous]
    name = "walks, block by block" if continuous else "Gibbs"
    yield name, (), " >> ".join([*gibbs(discrete), *one_by_one])


def kinds_of_blocks(model: Model) -> tuple[list[str], list[str]]:
    """Names of (discrete, continuous) ones; one whose length varies is the last."""
    discrete = [name for name, v in model.variables.items() if v.block.discrete]
    continuous = [name for name, v in model.variables.items() if not v.block.discrete]
    return discrete, sorted(continuous, key=lambda name: model.variables[name].place >= 0)


def sites_of(model: Model) -> list[str]:
    """Continuous blocks of sites that see data of their own."""
    continuous = kinds_of_blocks(model)[1]
    return [name for name in continuous if model.variables[name].touches is not None]


def slices_of(
    model: Model, lines: tuple[str, ...], ordered: dict[str, str]
) -> tuple[str, tuple[str, ...], str]:
    """(name, setup, code) of slices of the continuous blocks; lines: makes a fit, or is empty."""
    discrete, continuous = kinds_of_blocks(model)
    along = ", along=fit" if lines else ""
    name = "slices along the lines of the fit" if lines else "slices"
    slices = f"sm.Slice({all_as_one(continuous)}{along}{OPTIONS})"
    return name, lines, " >> ".join([*gibbs_of(discrete, ordered), slices])


def gibbs_of(names: list[str], ordered: dict[str, str], more: str = "") -> list[str]:
    """Code of steps of discrete blocks; ordered: of in_an_order."""
    usual = {name: f"sm.Gibbs({json.dumps(name)}{more}{OPTIONS})" for name in names}
    return [ordered.get(name, code) for name, code in usual.items()]
