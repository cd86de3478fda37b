"""Moves of neighbouring sites together, in windows of all widths: for sites in an order.

Where each site is near the one before it, as the days of a walk are, sites that move one by one
hold each other: a level that many of them share goes no farther in a sweep than one site's
neighbours let it. So windows of 1, 3, 7, 15, ... sites move, each by one number, the site in the
middle farthest and those beside it less and less: multigrid Monte Carlo (Goodman & Sokal 1989) with
Metropolis' decisions. A window's decision is about the data that its sites touch.
"""

from dataclasses import dataclass
from math import log
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.calls import helpful
from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.racing import Default
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.kernels.adapt import Tuning, learn, make_tuning, of_one, step_size
from subsample_mcmc.kernels.base import DECIDES_EXACTLY
from subsample_mcmc.kernels.compose import cycle
from subsample_mcmc.kernels.continuous import ContinuousBlock
from subsample_mcmc.kernels.decision import Decision, Judge, decide
from subsample_mcmc.kernels.sites.asked import check_data, sites_behind
from subsample_mcmc.kernels.sites.bridges import Bridges, widths_of
from subsample_mcmc.kernels.sites.by_site import (
    READS_OWN,
    SitePrior,
    judge_of_few,
    no_whole_prior,
    priors_of_sites,
    site_prior_of,
)
from subsample_mcmc.kernels.sites.interweave import TARGET
from subsample_mcmc.kernels.sites.touches import by_datum, check_touches
from subsample_mcmc.kernels.sites.watching import Watched, remember, sees_others, watched
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.random import fill_normal
from subsample_mcmc.target.constraints import REAL
from subsample_mcmc.target.layout import Block
from subsample_mcmc.target.population import read_only

START = 0.5  # the step of windows at first


class Neighbours:
    """A key under which a model keeps which data sites in an order see together."""


NEIGHBOURS = Neighbours()


class SeenTogether(NamedTuple):
    """Which data the sites of a block see together."""

    before: np.ndarray  # see `sites_before_of`
    rows: int  # that any of them sees: the most that a window may touch


class WindowTools(NamedTuple):
    """What a sweep over windows works with."""

    judge: Judge
    tuning: Tuning  # a row for each place of a window, of each number of a site
    noise: np.ndarray  # (1,)
    steps: np.ndarray  # (levels,) how far apart windows' middles are: 1, 2, 4, ...
    places: np.ndarray  # (levels + 1,) where each level's rows of `tuning` start
    sites: int
    width: int  # numbers of a site
    start: int  # of the first site in the floats
    indptr: np.ndarray  # which part of `touched` are a site's data
    touched: np.ndarray
    before: np.ndarray  # the site before this one that such a datum sees, or -1; empty: none does
    room: np.ndarray  # then: where the data of a window are listed, each once
    prior: SitePrior
    watched: Watched


@dataclass(frozen=True, eq=False)
class Windows(ContinuousBlock):
    """Neighbouring sites of a block together, in windows of all widths. See sm.windows."""

    block: str
    widest: int | None = None
    selector: Selector = Default()
    step: float = START
    control: ClassVar[None] = None
    several: ClassVar[bool] = False
    learns: ClassVar[str] = "step"  # type: ignore[assignment]
    elsewhere: ClassVar[str] = "reads the rows of windows of sites, at every step"

    def __post_init__(self):
        self.take_selector()

    def text(self) -> str:
        return f"windows({self.block!r})"

    @property
    def decision(self) -> Decision:
        """Stay or go, about the data of a window."""
        return Decision(self.selector, None, touched=True, proposes=True)

    def usual_selector(self, model) -> Selector:
        """Most windows touch few data, and nothing is won by a race of such small moves."""
        return Exact()

    def distances(self, model) -> np.ndarray:
        """How far apart the middles of windows are at each level: 1, 2, 4, ..."""
        return widths_of(model.variables[self.block].sites, self.widest)

    def seen_together(self, model) -> "SeenTogether":
        """Which data its sites see together, found out once."""
        known = model.prepared.setdefault(NEIGHBOURS, {})
        if self.block not in known:
            touches = model.variables[self.block].touches
            before = sites_before_of(touches, model.size)
            seen = np.bincount(touches[1], minlength=model.size)
            known[self.block] = SeenTogether(before, int(np.count_nonzero(seen)))
        return known[self.block]

    def facts(self, model=None) -> dict[str, Any]:
        """Adds the windows."""
        told = super().facts(model) | {"arms": 2, "proposes": True, "takes_control": False}
        if model is None:
            return told | {"moves": f"sites of {self.block} together, in windows of neighbours"}
        steps, rows = self.distances(model), self.seen_together(model).rows
        exact = self.selector.reads_everything(rows)
        widest = min(2 * int(steps[-1]) - 1, model.variables[self.block].sites)
        told["moves"] = f"sites of {self.block} together, in windows of 1 to {widest:,} neighbours"
        told["rows"] = rows
        told["note"] = "each window by its own data" + (", summed in one loop" if exact else "")
        return told | (DECIDES_EXACTLY | {"guarantee": "exact"} if exact else {})

    def reads(self, model) -> str:
        """What a stored run must have in common with it, beside the kernel as it is written."""
        return READS_OWN

    def check(self, model) -> None:
        """Refuse blocks whose sites have no data of their own, or no order of real numbers."""
        (variable,) = self.continuous(model).variables
        name = self.block
        if variable.touches is None:
            raise ValueError(
                f"{self.text()}: a window is decided by the data that its sites touch: give "
                f'sm.Model(touches={{{name!r}: "day"}}), the column that says which site a datum '
                "sees, or several."
            )
        if variable.constraint.kind != REAL:
            raise ValueError(
                f"{self.text()}: block {name!r} has the constraint {variable.constraint!r}, and "
                "windows move real numbers: take logarithms, say, as the block."
            )
        if variable.place >= 0:
            raise ValueError(f"{self.text()}: block {name!r} varies in length.")
        no_whole_prior(name, model)
        check_touches(name, model)
        check_data(name, model)
        self.decision.check(model, name)
        if name in model.site_prior:
            sites_behind(name, model)

    def build(self, model) -> Any:
        """The compiled step."""
        return sweep_of_windows

    def bind(self, model, run) -> WindowTools:
        """Tools of one chain."""
        name, variable = self.block, model.variables[self.block]
        sites, width = variable.sites, variable.block.length // variable.sites
        steps, (indptr, touched) = self.distances(model), variable.touches
        places = np.concatenate([[0], np.cumsum(sites // steps + 3)]) * width
        tuning = make_tuning(run, self.step, 1.0, 1, TARGET, scaled=False, sites=int(places[-1]))
        before, rows = self.seen_together(model)
        room = np.zeros(rows if len(before) else 0, dtype=touched.dtype)
        block = Block(name, False, (variable.block.length,), variable.block.start)
        listed = read_only(room.view()) if len(room) else touched
        ends = np.zeros((2, block.length))
        judge = judge_of_few(self.decision, model, run, block, rows, ends, listed)
        looked = judge.trial._replace(indices=touched)
        return WindowTools(
            judge, tuning, np.zeros(1), steps, places, sites, width, block.start, indptr, touched,
            before, room, site_prior_of(model, name, judge), watched(model, run, name, looked),
        )  # fmt: skip


def sites_before_of(touches, size: int) -> np.ndarray:
    """For each datum of each site, the last site before it which that datum sees, or -1.

    Empty where no datum sees two sites: then those of a window follow each other in the table.
    """
    indices = touches[1]
    first, sites = by_datum(touches, size)
    if np.all(np.diff(first) <= 1):
        return np.zeros(0, dtype=np.int64)
    found = np.full(len(sites), -1)  # in the order of the data, and there of the sites
    found[1:] = sites[:-1]
    found[first[:-1][np.diff(first) > 0]] = -1
    back = np.zeros(len(sites), dtype=np.int64)
    back[np.argsort(indices, kind="stable")] = found
    return back


@jit(inner="always")
def go_to_window(tools, low, high):
    """Let candidates and data be those of sites low .. high - 1; each datum once."""
    trial, indptr = tools.judge.trial, tools.indptr
    target = trial.target[0]
    target.start = tools.start + low * tools.width
    target.length = (high - low) * tools.width
    if len(tools.before) == 0:
        target.first, target.rows = indptr[low], indptr[high] - indptr[low]
        return
    count = 0
    for i in range(indptr[low], indptr[high]):
        if tools.before[i] < low:
            tools.room[count] = tools.touched[i]
            count += 1
    target.first, target.rows = 0, count


@jit(inner="always")
def move_window(tools, low, high, middle, step, column, by):
    """Write the sites as they are, and as they would be, into the candidates."""
    trial = tools.judge.trial
    x, y, start = trial.candidates[0], trial.candidates[1], trial.target[0].start
    for j in range(trial.target[0].length):
        x[j] = y[j] = trial.floats[start + j]
    for site in range(low, high):
        y[(site - low) * tools.width + column] += by * (1.0 - abs(site - middle) / step)


@jit(inner="always")
def sweep_of_windows(chain, tools):
    """step(chain, tools): a decision for each window."""
    judge, now = tools.judge, chain.now[0]
    tally = judge.tally[0]
    tally.steps += 1
    remember(tools.watched)
    scale, count = 0.0, 0
    for level in range(len(tools.steps)):
        step = tools.steps[level]
        first = np.int64(chain.rng.random() * step) - step  # of the middles, which are `step` apart
        for k in range((tools.places[level + 1] - tools.places[level]) // tools.width):
            middle = first + k * step
            low, high = max(middle - step + 1, 0), min(middle + step, tools.sites)
            for column in range(tools.width if low < high else 0):
                tuning = of_one(tools.tuning, tools.places[level] + k * tools.width + column)
                go_to_window(tools, low, high)
                fill_normal(chain.rng, tools.noise)
                by = step_size(tuning, now)
                move_window(tools, low, high, middle, step, column, by * tools.noise[0])
                threshold = log(1.0 - chain.rng.random())
                if not priors_of_sites(chain, judge, tools.prior, low, high, 0.0):
                    return
                judge.offsets[0] += threshold
                accepted = 1.0 if decide(chain, judge, 0) == 1 else 0.0
                if now.code != 0:
                    return
                learn(tuning, now, tools.noise, accepted)
                scale += by
                count += 1
    sees_others(chain, tools.watched)
    tally.scale = scale / count


@helpful
def windows(block: str, scale: str | None = None, widest: int | None = None, selector=None):
    """Moves of neighbouring sites together, in windows of all widths: a kernel.

    For sites in an order, each near the one before it: days of a walk, volatilities, knots of a
    curve, ages. One by one they hold each other, and a sweep moves what many of them share by a
    hair. It serves the block alone, without sm.Metropolis("a"); what the sites have in common has
    kernels of its own: sm.windows("a", scale="tau") >> sm.Metropolis("tau").

    A sweep moves windows of 1, 3, 7, 15, ... sites, each by one number c: the site in the middle by
    c, those beside it less and less, and none outside. Their places are drawn anew in each sweep,
    and each learns a step of its own in warm-up. A window's decision is about the data that its
    sites touch, which are read some four times for each of the widths 1, 2, 4, ..., in a sweep.

    Say what a site's prior is given those before it, sm.Model(site_prior={"a": f}), f(state, i) of
    state.a[i] and state.a[i - 1], say: then a window asks that of its sites alone, and not the
    prior of the whole state.

    block: its sites, with touches: real numbers, or rows a[i, :] of several, which move one by one.
    scale: a block with the standard deviation of the steps from one site to the next, sm.positive.
        It is multiplied by a factor, and with it what sites are off the line between some that are
        kept, every second, fourth, eighth, ... one; all data decide. Without such moves the sites
        hold it: that of 1,000 steps goes by a thirtieth of itself at a time. Of rows of several
        numbers one for all, or one for each.
    widest: sites from a window's middle to its end, at most, and between those that are kept;
        default all, so that the block moves as a whole, too.
    selector: how decisions are made; default Exact().

    Example:
        >>> rng = np.random.default_rng(0)
        >>> day = np.repeat(np.arange(200), 5)
        >>> level = 0.1 * rng.standard_normal(200).cumsum()
        >>> data = {"y": level[day] + rng.standard_normal(1_000), "day": day}
        >>> def log_likelihood(state, data, n):
        ...     return -0.5 * (data.y[n] - state.a[data.day[n]]) ** 2
        >>> def step(state, i):
        ...     before = state.a[i - 1] if i > 0 else 0.0
        ...     return -0.5 * ((state.a[i] - before) / state.tau[0]) ** 2 - sm.log(state.tau[0])
        >>> model = sm.Model(
        ...     log_likelihood, data, {"a": np.zeros(200), "tau": 0.1},
        ...     lambda state: -state.tau[0], constraints={"tau": sm.positive},
        ...     touches={"a": "day"}, site_prior={"a": step},
        ... )
        >>> kernel = sm.windows("a", scale="tau") >> sm.Metropolis("tau")
        >>> trace = sm.sample(model, kernel, draws=1_000, warmup=500, chains=2, seed=1)
        >>> bool(trace.summary()["ess_bulk"].min() > 200)  # site by site: 8
        True
    """
    if not isinstance(block, str):
        raise TypeError(
            f'windows({block!r:.60}): give the name of the block whose sites are in an order, "a".'
        )
    whole = isinstance(widest, int | np.integer) and not isinstance(widest, bool)
    if widest is not None and not (whole and widest >= 2):
        raise ValueError(
            f"widest={widest!r}: give a whole number, how many sites a window reaches from its "
            "middle to its end, at least 2; or leave it out."
        )
    if not isinstance(scale, str | None):
        raise TypeError(f'scale={scale!r:.60}: give the name of a block, "tau", or leave it out.')
    chosen = Default() if selector is None else selector
    moves = Windows(block, widest, chosen)
    return moves if scale is None else cycle(moves, Bridges(block, scale, widest, moves.selector))
