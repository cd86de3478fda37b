"""Slice sampling, one free coordinate at a time, each test "is this point in the slice" a decision.

Neal (2003, Ann. Statist. 31(3)): draw a level y = u pi(x); find a bracket around x by stepping out
(Fig. 3); draw points in it until one has pi > y, shrinking the bracket to each that has not
(Fig. 5). pi is the posterior in free coordinates, so the test "log pi(v) > log pi(x) + log u" has
two arms: the current point, arm 0, with log u added to its prior, and v, arm 1.

Both limits keep pi fixed. That on stepping out, because it is split at random between the sides:
then every point of a bracket is as likely to have led to it. That on shrinking, because a move
made at the k-th test is as likely as its reverse at the k-th test; what is left over stays.

The coordinates may be those along the lines of a covariance, u + t L e_j (Tibbits et al. 2014, JCGS
23(2)): any line that does not depend on where the point is on it serves as an axis does.

Sites of a block with touches are slices of their own, one after the other: log pi(v) - log pi(x) is
then about the data and the prior of that site, and nothing else of either is read.
"""

from dataclasses import dataclass, field
from math import log
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.racing import Default
from subsample_mcmc.decisions.selector import Selector, not_a_sum
from subsample_mcmc.kernels.base import BAD_PRIOR, DECIDED_BY_PRIOR, READS_NONE, worst
from subsample_mcmc.kernels.continuous import ContinuousBlock, start_from_current
from subsample_mcmc.kernels.decision import Decision, Judge, decide, fail
from subsample_mcmc.kernels.proposals.gaussian import by_columns, gaussians
from subsample_mcmc.kernels.sites.by_site import (
    FEW,
    NO_SITES,
    READS_OWN,
    SitePrior,
    check_sites,
    facts_of_sites,
    go_to,
    judge_of_sites,
    most_rows,
    moves_by_site,
    one_site,
    part_of,
    prior_at,
    site_prior_of,
)
from subsample_mcmc.kernels.sites.watching import Watched, remember, sees_others, watched
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.rows import BACK, WEYL
from subsample_mcmc.target.lookups.reads import unread
from subsample_mcmc.target.moved import (
    BlockCoordinates,
    all_to_block,
    all_to_free,
    in_use,
    moved,
)
from subsample_mcmc.target.population import whole
from subsample_mcmc.target.rewards import place

# Width per bracket left after shrinking: on a Gaussian, averages settle at a width of 4 standard
# deviations, which needs the fewest tests (4.8 a slice; 5.1 at half and 5.0 at twice that).
SHARE = 2.0 / 3.0


class SliceTools(NamedTuple):
    """What slices of a block, or of its sites, work with."""

    judge: Judge
    coordinates: BlockCoordinates
    widths: np.ndarray  # (sites, d) of the first bracket, per free coordinate
    seen: np.ndarray  # (sites, d) brackets learnt from
    most: int
    adapts: int
    frozen: int
    height: np.ndarray  # (1,) log prior and log |dx/du| of the point tested last
    order: np.ndarray  # (2,) where a slice's rows start in the stream, and how far tests have read
    prior: SitePrior
    first: int  # number of the first site
    lines: np.ndarray  # (lengths, d, d) the j-th is what moves where t does; (1, 0, 0): the axes


class SitesInSlices(NamedTuple):
    """What a sweep over sites works with."""

    slices: SliceTools
    sites: int
    start: int  # of the first site in the floats
    indptr: np.ndarray  # which part of the data touched is a site's
    watched: Watched


@dataclass(frozen=True, eq=False)
class Slice(ContinuousBlock):
    """Draw each free coordinate of a continuous block, in turn, uniformly from a random slice.

    Nothing is rejected and little needs tuning; it costs about five tests a coordinate, each as
    dear as a Metropolis decision on two arms. `accepted` counts coordinates that moved.

    A block with touches, sm.Model(touches={"a": "group"}), moves site by site: the tests of a site
    are about the data that it touches, and each site learns widths of its own. A block that no
    datum depends on, such as the mean of a prior, is tested by the prior alone.

    block: a name, or a tuple of names: one sweep over the coordinates of all of them.
    width: of the first bracket in free coordinates, one number or one per coordinate (of a site,
        where sites move). Warm-up adapts it to the brackets found; adapt=False keeps it.
    selector: how a test is decided. Default with a control variate as for sm.Metropolis, of frozen
        rows Racing(), else Exact(): a slice tests points far off, where few rows may hold all that
        is known, which a race does not meet. Of ten shares of 750 rows each it was wrong in 14% of
        all tests at delta .05, and standard deviations came out two to four times too large. A
        selector's promise is per test, on rows of its own.
    most: limit on stepping out (times the width) and on tests while shrinking; a slice in which
        no point was found stays where it is and is counted as capped.
    frozen: all tests of one slice read the same rows in the same order (DuBois et al. 2014). Then
        they seldom contradict each other, and a misleading order leads all of them astray: with
        Normal at delta .05 and .01, a posterior's sd came out 2.1 and 1.24 times too large, with
        fresh rows 1.12 and 1.006. Points are chosen knowing the order, so no bound on a single
        test survives: at best "asymptotic".
    adapt: let warm-up learn the width.
    control: as in sm.Metropolis.
    along: a fit, fit = sm.laplace(model), or a covariance of the free coordinates: its lines take
        the place of the axes, so that coordinates which depend on each other mix as well as others;
        widths are in its standard deviations then. It need not be right, as that of sm.pcn, and
        tails are reached whatever it says. Of a block of varying length a list of fits.

    Example:
        >>> x = np.column_stack([np.ones(2_000), np.linspace(-1.0, 1.0, 2_000)])
        >>> y = x @ [1.0, 2.0] + np.random.default_rng(0).standard_normal(2_000)
        >>> model = sm.models.glm.gaussian(x, y)
        >>> kernel = sm.Slice("beta", control=sm.Taylor(sm.laplace(model)))
        >>> trace = sm.sample(model, kernel, draws=500, warmup=200, chains=1, seed=1)
        >>> trace.draws["beta"].mean(axis=(0, 1)).round(1).tolist()
        [1.0, 2.0]

    Few data, and columns that tell nearly the same: along the lines of a fit.
        >>> x = np.linspace(9.0, 10.0, 30)
        >>> x = np.column_stack([np.ones(30), x])
        >>> y = x @ [-9.0, 1.0] + 0.1 * np.random.default_rng(0).standard_normal(30)
        >>> model = sm.models.glm.gaussian(x, y, sigma=0.1)
        >>> kernel = sm.Slice("beta", along=sm.laplace(model))
        >>> trace = sm.sample(model, kernel, draws=500, warmup=200, chains=2, seed=1)
        >>> bool(trace.summary()["ess_bulk"].min() > 700)  # 5 along the axes
        True

    Site by site:
        >>> data = {"y": np.array([1.0, 2.0, 3.0, 4.0]), "group": np.array([0, 0, 1, 1])}
        >>> def log_likelihood(state, data, n):
        ...     return -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2
        >>> model = sm.Model(
        ...     log_likelihood, data, {"a": np.zeros(2)}, touches={"a": "group"},
        ...     site_prior={"a": lambda state, site: -0.5 * state.a[site] ** 2},
        ... )
        >>> trace = sm.sample(model, sm.Slice("a"), draws=2_000, warmup=200, chains=1, seed=1)
        >>> trace.draws["a"].mean(axis=(0, 1)).round(1).tolist()  # 1 and 7 / 3
        [1.0, 2.3]
    """

    in_parts: ClassVar[bool] = True
    sized: ClassVar[str] = "width"

    block: str | tuple[str, ...]
    width: Any = 1.0
    selector: Selector = Default()
    most: int = 50
    frozen: bool = False
    adapt: bool = True
    control: Any = None
    along: Any = field(default=None, metadata={"later": True})

    def __post_init__(self):
        self.take_numbers()
        self.take_selector()
        self.take_control()
        width = np.asarray(self.width, dtype=float)
        if width.ndim > 1 or width.size == 0 or not np.all((width > 0.0) & (width < np.inf)):
            raise ValueError(f"width={self.width!r}: give a positive number, or one a coordinate.")
        whole(self.most, "most", "how often a bracket may grow or shrink, at least 1")
        self.take_lines()

    def take_lines(self) -> None:
        """A square array where `along` is one; refuses what is neither that nor a fit."""
        given = self.along
        fits = given if isinstance(given, list | tuple) else (given,)
        if given is None or (fits and all(hasattr(fit, "gaussian") for fit in fits)):
            return
        try:
            covariance = np.atleast_2d(np.array(given, dtype=float))
        except (TypeError, ValueError):
            covariance = np.zeros((0, 1))
        if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1]:
            raise TypeError(
                f"along={given!r:.60}: give a fit, sm.laplace(model), or a covariance of the free "
                "coordinates, a square array; of a block of varying length a list of fits."
            )
        object.__setattr__(self, "along", covariance)

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """What the selector promises, per test; frozen rows keep no bound."""
        promised = self.selector.guarantee
        return worst((promised, "asymptotic")) if self.frozen and promised != "exact" else promised

    @property
    def decision(self) -> Decision:
        """Is the density at a point above a level: no proposal."""
        return Decision(self.selector, self.control)

    @property
    def learns(self) -> str:
        """The width, unless it is kept."""
        return "width" if self.adapt else ""

    def by_site(self, model) -> bool:
        """Does the block move site by site."""
        return moves_by_site(self, model)

    def by_prior(self, model) -> bool:
        """Is it tested by the prior alone: no datum depends on what moves."""
        return unread(model, self.writes)

    def usual_selector(self, model) -> Selector:
        """What decides where no selector was given."""
        few = self.by_site(model) and most_rows(model, self.writes[0]) <= FEW
        blind = self.control is None and not self.frozen
        exact = few or blind or self.by_prior(model)
        return Exact() if exact else super().usual_selector(model)

    def facts(self, model=None) -> dict[str, Any]:
        """Adds the two arms, whose data decide, and that errors are shared where they are."""
        told = super().facts(model) | {"arms": 2}
        if self.along is not None:
            told["moves"] = f"{told.get('moves', self.writes[0])}, along the lines of a covariance"
        if model is not None and self.by_site(model):
            told |= facts_of_sites(self, model)
        elif model is not None and self.by_prior(model):
            told |= DECIDED_BY_PRIOR
        if self.frozen and told["guarantee"] != "exact":
            told["note"] = "frozen rows: the tests of one slice err together"
        return told

    def reads(self, model) -> str:
        """What a stored run must have in common with it, beside the kernel as it is written."""
        return READS_OWN if self.by_site(model) else READS_NONE if self.by_prior(model) else ""

    def check(self, model) -> None:
        """Refuse also what sites cannot be moved with, where they see data of their own."""
        if self.by_site(model):
            self.continuous(model)
            check_sites(self, model)
            if self.along is not None:
                raise ValueError(
                    f"{self.text()}: its sites move one by one, each by widths of its own: leave "
                    "along= out, or the model's touches."
                )
        else:
            super().check(model)
            self.lines(model)

    def lines(self, model) -> np.ndarray:
        """For each length of the block, what moves as one coordinate does; refuses other sizes."""
        blocks = moved(model, self.writes)
        if self.along is None:
            return np.zeros((len(blocks.lengths), 0, 0))
        if hasattr(self.along, "gaussian") or isinstance(self.along, list | tuple):
            return by_columns(gaussians(self.along, None, blocks)[1])
        if not blocks.varies and len(self.along) != blocks.free:
            raise ValueError(f"along has shape {self.along.shape}: {blocks.sizes()}.")
        return by_columns(gaussians(np.zeros(len(self.along)), self.along, blocks)[1])

    def build(self, model) -> Any:
        """The compiled step."""
        return sweep_of_slices if self.by_site(model) else slice_step

    def judge(self, model, run) -> Judge:
        """What one chain decides with."""
        if self.by_site(model):
            return judge_of_sites(self, model, run)
        return (self.judge_by_prior if self.by_prior(model) else super().judge)(model, run)

    def bind(self, model, run) -> SliceTools | SitesInSlices:
        """Tools of one chain."""
        name, by_site = self.writes[0], self.by_site(model)
        blocks = one_site(model, name) if by_site else moved(model, self.writes)
        to = blocks.coordinates()
        part = part_of(model, run, name) if by_site else None
        size = (len(to.u),) if part is None else (part.sites, len(to.u))
        widths = run.keep("widths", np.broadcast_to(np.asarray(self.width, float), size).copy())
        seen = run.keep("seen", np.zeros(size))
        judge = self.judge(model, run)
        made = SliceTools(
            judge, to, np.atleast_2d(widths), np.atleast_2d(seen), int(self.most), int(self.adapt),
            int(self.frozen), np.zeros(1), np.zeros(2, dtype=np.uint64),
            site_prior_of(model, name, judge) if by_site else NO_SITES, part.first if part else 0,
            np.zeros((1, 0, 0)) if by_site else self.lines(model),
        )  # fmt: skip
        if part is None:
            return made
        watching = watched(model, run, name, judge.trial)
        return SitesInSlices(made, part.sites, part.start, part.indptr, watching)


@jit(inner=True)
def learn(tools, site, j, bracket):
    """Move the width of coordinate j towards a share of the brackets: the k-th has weight k."""
    widths, seen = tools.widths, tools.seen
    if bracket > 0.0:  # else the bracket shrank to nothing around a point with no neighbours
        seen[site, j] += 1.0
        widths[site, j] += (SHARE * bracket - widths[site, j]) * 2.0 / (seen[site, j] + 2.0)


@jit(inner=True)
def test(chain, tools, site, level, j, at):
    """1 if the point at `at` on line j is in the slice, 0 if not, -1 after an error."""
    judge, to = tools.judge, tools.coordinates
    trial, offsets, tally = judge.trial, judge.offsets, judge.tally[0]
    if chain.now[0].code != 0:
        return -1
    u, v, which = in_use(to, trial.ints)
    if tools.lines.shape[1] == 0:
        v[j] = at
    else:
        line = tools.lines[which, j]
        for i in range(len(v)):
            v[i] = u[i] + at * line[i]
    there = all_to_block(to, v, trial.candidates[1])
    offsets[0], offsets[1] = level, -np.inf
    if there > -np.inf:
        place(trial, 1)
        own = tools.first + site
        offsets[1] = prior_at(trial, tools.prior, own, own + 1) + there
        place(trial, 0)
    if not_a_sum(offsets[1]):
        fail(chain.now[0], trial, BAD_PRIOR, 1, -1)
        return -1
    if tools.frozen == 1:
        chain.rows[0] = tools.order[0]
    moved, tools.height[0] = tally.accepted, offsets[1]
    won = decide(chain, judge, 0)  # which may add to the offsets
    # A point in the slice has won a test; the chain has not moved there yet.
    tally.accepted = moved
    place(trial, 0)
    if tools.frozen == 1:
        read = (chain.rows[0] - tools.order[0]) * BACK
        tools.order[1] = max(tools.order[1], read)
    return won


@jit(inner=True)
def step_out(chain, tools, site, level, j, end, step, times):
    """Move one end of the bracket out of the slice, at most so many times; return it."""
    while times > 0 and test(chain, tools, site, level, j, end) == 1:
        end += step
        times -= 1
    return end


@jit(inner=True)
def move(chain, tools, site, level, j, here, low, high):
    """Draw points from the shrinking bracket until one is in the slice; its final width."""
    tally = tools.judge.tally[0]
    for _ in range(tools.most):
        at = low + (high - low) * chain.rng.random()
        won = test(chain, tools, site, level, j, at)
        if won == 1:
            tally.accepted += 1
        if won != 0:
            return high - low
        if at < here:
            low = at
        else:
            high = at
    tally.capped += 1
    return high - low


@jit(inner=True)
def move_all(chain, tools, site):
    """Move every coordinate of a site within its slice; the sum of the widths."""
    judge, to, now, rng = tools.judge, tools.coordinates, chain.now[0], chain.rng
    trial, tally = judge.trial, judge.tally[0]
    x, y = trial.candidates[0], trial.candidates[1]
    start_from_current(trial)
    now_u, now_v, _ = in_use(to, trial.ints)
    all_to_free(to, x, now_u)
    own = tools.first + site
    height = prior_at(trial, tools.prior, own, own + 1) + all_to_block(to, now_u, y)
    if not_a_sum(height):
        fail(now, trial, BAD_PRIOR, 0, -1)
        return 0.0
    for i in range(len(now_u)):
        now_v[i] = now_u[i]
    scale = 0.0
    for j in range(len(now_u)):
        width, tested = tools.widths[site, j], tally.accepted
        here = now_u[j] if tools.lines.shape[1] == 0 else 0.0
        tools.order[0], tools.order[1] = chain.rows[0], np.uint64(0)
        level = height + log(1.0 - rng.random())
        low = here - width * rng.random()
        left = min(int(rng.random() * (tools.most + 1)), tools.most)
        high = step_out(chain, tools, site, level, j, low + width, width, tools.most - left)
        low = step_out(chain, tools, site, level, j, low, -width, left)
        bracket = move(chain, tools, site, level, j, here, low, high)
        if now.code != 0:
            return 0.0
        if tools.frozen == 1:  # past every row that a test has seen
            chain.rows[0] = tools.order[0] + tools.order[1] * WEYL
        if tally.accepted > tested:
            height = tools.height[0]
            for i in range(len(now_u)):
                now_u[i] = now_v[i]
            for i in range(len(x)):
                x[i] = y[i]
            place(trial, 0)
        for i in range(len(now_u)):
            now_v[i] = now_u[i]
        scale += width / len(now_u)
        if now.warm == 1 and tools.adapts == 1:
            learn(tools, site, j, bracket)
    return scale


@jit(inner="always")
def slice_step(chain, tools):
    """Move every coordinate within its slice."""
    tally = tools.judge.tally[0]
    tally.steps += 1
    tally.scale = move_all(chain, tools, 0)


@jit(inner="always")
def sweep_of_slices(chain, tools):
    """The same of one site after the other."""
    slices, now = tools.slices, chain.now[0]
    trial, tally, scale = slices.judge.trial, slices.judge.tally[0], 0.0
    tally.steps += 1
    remember(tools.watched)
    for site in range(tools.sites):
        go_to(trial, tools.start, tools.indptr, site)
        scale += move_all(chain, slices, site)
        if now.code != 0:
            return
    sees_others(chain, tools.watched)
    tally.scale = scale / tools.sites
