"""Moves of all sites of a block with what they have in common: their mean, or their scale.

Sites and their mean hold each other where the sites move one by one: a mean of 50,000 sites goes no
farther in a sweep than their average lets it. So all are moved at once, by one number: mu + d with
a + d, which keeps how the sites lie around it (Yu & Meng 2011, ancillarity-sufficiency
interweaving); or b + d with a - d, which keeps what data see, b + a: none of them decides.
"""

from dataclasses import dataclass
from math import exp
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.calls import helpful
from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.racing import Default
from subsample_mcmc.decisions.selector import Selector, not_a_sum
from subsample_mcmc.kernels.adapt import Tuning, learn, make_tuning, of_one, step_size
from subsample_mcmc.kernels.base import (
    ANY_NUMBER,
    BAD_PRIOR,
    DECIDED_BY_PRIOR,
    READS_NONE,
    SEEN_BY_DATA,
)
from subsample_mcmc.kernels.compose import cycle
from subsample_mcmc.kernels.continuous import (
    ContinuousBlock,
    read_by_sites,
    start_from_current,
    stay_or_go,
    with_own_prior,
)
from subsample_mcmc.kernels.decision import Judge, fail
from subsample_mcmc.kernels.sites.asked import check_site_prior
from subsample_mcmc.kernels.sites.by_site import site_prior_of
from subsample_mcmc.kernels.sites.seen import check_common, held_by_data, values
from subsample_mcmc.kernels.sites.watching import AT_ONCE, WATCHED, differ
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import call_numbers
from subsample_mcmc.numerics.random import fill_normal
from subsample_mcmc.numerics.rows import row_kind
from subsample_mcmc.target.blocks import by_columns
from subsample_mcmc.target.constraints import COORDINATES, REAL, positive, real
from subsample_mcmc.target.moved import BlockCoordinates, all_inside, moved
from subsample_mcmc.target.rewards import place, rewards

TARGET, START = 0.44, 0.1  # acceptance of moves by one number; their step at first


class Manners:
    """A key under which a model keeps how its sites move."""


MANNERS = Manners()


class WovenTools(NamedTuple):
    """What these moves work with."""

    judge: Judge
    coordinates: BlockCoordinates
    tuning: Tuning  # a row for each move
    noise: np.ndarray  # (1,)
    moves: int  # numbers of the mean or scale: each goes with some sites, or with ...
    columns: int  # 1: ... one number of each
    stretches: int  # 1: of a scale
    sign: float  # 1: together; -1: against each other
    amounts: np.ndarray  # (sites,) how far each goes where the mean goes by 1; none: as far
    indptr: np.ndarray  # which part of `members` each move is about ...
    members: np.ndarray  # ... the sites that it moves
    each: Any  # the prior of one of them, called by its address; 0: all priors are asked
    width: int  # numbers of a site
    first: int  # of the sites, in a candidate
    other: int  # of the mean or scale
    centre: np.ndarray  # (moves,) views of the mean in the state; zeros without one
    watched: np.ndarray  # (1,) how many rows were asked whether they see a move; none: all decide
    rows: np.ndarray  # (AT_ONCE,) places in trial.indices of those that are asked now
    seen: np.ndarray  # (2, AT_ONCE)


class Manner(NamedTuple):
    """How sites and their mean or scale move as one."""

    sign: int  # 1: together; -1: against each other
    centre: str | None  # the block that the sites are stretched around; None: around 0
    read: bool  # do data decide; else none of them sees it


@dataclass(frozen=True, eq=False)
class Woven(ContinuousBlock):
    """All sites of a block, and their mean or scale, moved by one number. See sm.interweave."""

    sites: str
    other: str
    centre: str | None = None
    selector: Selector = Default()
    of: Any = None  # which number of the other each site goes with; None: all, or by columns
    step: float = START  # of the other, or of its logarithm
    amounts: ClassVar[Any] = None  # how far each site goes where the other goes by 1: as far
    control: ClassVar[None] = None
    far: ClassVar[int] = ANY_NUMBER  # priors of all sites cost more than what is copied
    stretches: ClassVar[bool]
    learns: ClassVar[str] = "step"  # type: ignore[assignment]
    elsewhere: ClassVar[str] = "looks at rows of each site, all along the chain"

    @property
    def writes(self) -> tuple[str, ...]:
        return self.sites, self.other

    def text(self) -> str:
        return f"{type(self).__name__}({self.sites!r}, {self.other!r})"

    def usual_selector(self, model) -> Selector:
        """Nothing is won by a race: the sums of two states far apart differ by as much as rows."""
        return Exact()

    def manner(self, model) -> Manner:
        """How they move in a model, found out once."""
        tables = [b"" if t is None else np.asarray(t).tobytes() for t in (self.of, self.amounts)]
        key = type(self).__name__, self.sites, self.other, self.centre, *tables
        known = model.prepared.setdefault(MANNERS, {})
        if key not in known:
            centre = self.centre
            if centre is not None and Shift(self.sites, centre).manner(model).sign == -1:
                centre = None  # it is beside the sites, not in their midst
            against = Manner(-1, centre, read=False)
            held = held_by_data(self, model, against)
            if not held.by_all:
                together = self.amounts is None and not held.where_seen
                against = Manner(1 if together else -1, centre, read=True)
            known[key] = against
        return known[key]

    def facts(self, model=None) -> dict[str, Any]:
        """Adds what is held, and whether data are read."""
        told = super().facts(model) | {"arms": 2, "proposes": True, "takes_control": False}
        if model is None:
            return told
        by = "by one factor" if self.stretches else "by one number"
        told["moves"] = f"all of {self.sites} and {self.other}, {by}"
        sign, _, read = self.manner(model)
        if sign == 1:
            return told | {"note": "together: how the sites lie is held, and all data are read"}
        if read:
            by = ", by amounts" if self.amounts is not None else ""
            return told | {"note": f"against each other{by}; all data are read"}
        note = "against each other: what data see is held, and the prior decides"
        return told | DECIDED_BY_PRIOR | {"note": note}

    def reads(self, model) -> str:
        """What a stored run must have in common with it, beside the kernel as it is written."""
        return "" if self.manner(model).read else READS_NONE

    def check(self, model) -> None:
        """Refuse blocks that have no common mean or scale."""
        blocks = self.continuous(model)
        sites, other = blocks.variables
        found, scale = model.variables, positive if self.stretches else real
        given = [name for name in (self.sites, self.other, self.centre) if name is not None]
        if len(set(given)) < len(given):
            raise ValueError(f"{self.text()}: sites, location and scale must be three blocks.")
        of = None if self.of is None else np.asarray(self.of)
        for name, wanted in ((self.sites, real), (self.other, scale), (self.centre, real)):
            if name is None:
                continue
            if name not in found or found[name].block.discrete:
                raise ValueError(
                    f"{self.text()}: {name!r} is no continuous block of {model.names}."
                )
            kinds = COORDINATES.values() if wanted is positive else (REAL,)
            if found[name].constraint.kind not in kinds:
                wants = "sm.positive" if wanted is positive else "none"
                raise ValueError(
                    f"{self.text()}: block {name!r} has the constraint {found[name].constraint!r}, "
                    f"and must have {wants}."
                )
            width = sites.block.length // sites.sites
            count = found[name].block.length
            if name != self.sites and of is not None:
                wrong = "" if of.shape == (sites.sites,) else f"has shape {of.shape}"
                if not wrong and (of.dtype.kind not in "iu" or of.min() < 0 or of.max() >= count):
                    wrong = f"has values {of.min()} .. {of.max()} of dtype {of.dtype}"
                if wrong:
                    raise ValueError(
                        f"{self.text()}: the table of sites {wrong}: give a whole number for each "
                        f"of {sites.sites} sites, which of {name}[0] .. {name}[{count - 1}] is its "
                        "own."
                    )
            elif name != self.sites and count not in (1, width):
                raise ValueError(
                    f"{self.text()}: block {name!r} has {count} numbers: give one for all, or one "
                    f"for each of the {width} numbers of a site; or a table, ({name!r}, which), of "
                    "the one that each site goes with."
                )
        if blocks.varies:
            raise ValueError(f"{self.text()}: block {other.block.name!r} varies in length.")
        self.decision.check(model, self.sites)
        self.check_amounts(sites, other)
        if self.each_alone(model):
            check_site_prior(self.sites, model)
        if self.manner(model).sign == 1:
            check_common(self, model)

    def check_amounts(self, sites, other) -> None:
        """Refuse amounts that are not one finite number for each site."""
        if self.amounts is None:
            return
        amounts = np.asarray(self.amounts)
        if amounts.shape != (sites.sites,) or not np.all(np.isfinite(amounts)):
            raise ValueError(
                f"{self.text()}: amounts have shape {amounts.shape}: give a finite number for each "
                f"of {sites.sites} sites, how far it goes where {self.other!r} goes by 1."
            )
        if sites.block.length > sites.sites or other.block.length > 1:
            raise ValueError(
                f"{self.text()}: amounts are of sites of one number, and of a location of one."
            )

    def each_alone(self, model) -> bool:
        """Does a move change priors of the sites that it moves alone, and of no others."""
        if self.of is None or self.sites not in model.site_prior:
            return False
        touched = model.variables[self.sites].touches is not None
        return touched and self.other not in read_by_sites(model, self.sites)

    def build(self, model) -> Any:
        """The compiled step."""
        return woven_step

    def bind(self, model, run) -> WovenTools:
        """Tools of one chain."""
        blocks, (sign, middle, read) = moved(model, self.writes), self.manner(model)
        sites, other = blocks.variables
        moves, grouped = other.block.length, self.of is not None
        which = np.asarray(self.of) if grouped else np.zeros(sites.sites, dtype=np.int64)
        indptr, members = by_columns([which], moves if grouped else 1)
        tuning = make_tuning(run, self.step, 1.0, 1, TARGET, scaled=False, sites=moves)
        watched = np.zeros(0, dtype=np.int64)
        if read:
            judge = self.judge(model, run)
        else:
            beside = np.random.default_rng(0).permutation(model.size)[:WATCHED].astype(np.int64)
            judge, watched = self.judge_by_prior(model, run, beside), np.zeros(1, dtype=np.int64)
        start = blocks.block.start
        # Of sites whose prior does not read the other one, those that stay need not be asked.
        alone = self.each_alone(model)
        each = site_prior_of(model, self.sites, judge).of if alone else 0
        judge = with_own_prior(model, judge, self.writes, self.sites if alone else "")
        return WovenTools(
            judge, blocks.coordinates(), tuning, np.zeros(1), moves,
            int(moves > 1 and not grouped), int(self.stretches), float(sign),
            np.zeros(0) if self.amounts is None else np.array(self.amounts, dtype=float),
            indptr, members, each,
            sites.block.length // sites.sites, sites.block.start - start,
            other.block.start - start, values(model, middle, run.floats),
            run.keep("watched", watched), np.zeros(AT_ONCE, dtype=row_kind(model.size)),
            np.zeros((2, AT_ONCE)),
        )  # fmt: skip


class Shift(Woven):
    """Sites and their mean."""

    stretches: ClassVar[bool] = False


@dataclass(frozen=True, eq=False)
class ShiftByAmounts(Shift):
    """Sites against a slope, each as far as it is said to go."""

    amounts: Any = None  # type: ignore[misc]


class Stretch(Woven):
    """Sites and their scale."""

    stretches: ClassVar[bool] = True


@jit(inner="always")
def weave(tools, y, j, by):
    """Move a candidate by one number or factor; return log |dy/dx|."""
    low, high = (j, j + 1) if tools.columns == 1 else (0, tools.width)
    own = j if len(tools.indptr) > 2 else 0
    if tools.stretches == 1:
        y[tools.other + j] *= exp(by)
    else:
        y[tools.other + j] += by
    change = tools.sign * by
    factor = exp(change) if tools.stretches == 1 else 1.0
    start, end = tools.indptr[own], tools.indptr[own + 1]
    for i in range(start, end):
        for k in range(low, high):
            at = tools.first + tools.members[i] * tools.width + k
            if tools.stretches == 1:
                centre = tools.centre[k if len(tools.centre) > 1 else 0]
                y[at] = centre + factor * (y[at] - centre)
            elif len(tools.amounts) > 0:
                y[at] += change * tools.amounts[tools.members[i]]
            else:
                y[at] += change
    if tools.stretches == 0:
        return 0.0
    return by + change * (end - start) * (high - low)  # of the scale itself, and of the sites


@jit(inner=True)
def data_see_it(chain, tools):
    """Do some of the data see a move that no datum sees, as was found: then the chain must end."""
    trial, rows, seen = tools.judge.trial, tools.rows, tools.seen
    for i in range(len(rows)):
        rows[i] = (tools.watched[0] + i) % len(trial.indices)
    tools.watched[0] += len(rows)
    for arm in range(2):
        rewards(trial, 1 - arm, rows, seen[1 - arm])  # the current one last: it stays in the state
    for i in range(len(rows)):
        if differ(seen[0, i], seen[1, i]):
            fail(chain.now[0], trial, SEEN_BY_DATA, 1, trial.indices[rows[i]])
            return True
    return False


@jit(inner="always")
def of_members(tools, j):
    """The log prior of the sites that move number j is about, as they stand in the state."""
    total, context = 0.0, tools.judge.trial.calls.context
    for i in range(tools.indptr[j], tools.indptr[j + 1]):
        total += call_numbers(tools.each, context, tools.members[i], 0)
    return total


@jit(inner="always")
def woven_step(chain, tools):
    """step(chain, tools): a move for each number of the mean or scale."""
    judge, now = tools.judge, chain.now[0]
    trial, tally = judge.trial, judge.tally[0]
    y = trial.candidates[1]
    tally.steps += 1
    steps = 0.0
    for j in range(tools.moves):
        tuning = of_one(tools.tuning, j)
        start_from_current(trial)
        fill_normal(chain.rng, tools.noise)
        ratio = weave(tools, y, j, step_size(tuning, now) * tools.noise[0])
        if not all_inside(tools.coordinates, y):
            ratio = -np.inf
        elif len(tools.watched) > 0 and data_see_it(chain, tools):
            return
        elif tools.each != 0:
            ratio -= of_members(tools, j)
            place(trial, 1)
            ratio += of_members(tools, j)
            place(trial, 0)
            if not_a_sum(ratio):
                fail(now, trial, BAD_PRIOR, 1, -1)
                return
        accepted = stay_or_go(chain, judge, ratio)
        if now.code != 0:
            return
        steps += step_size(tuning, now)
        learn(tuning, now, tools.noise, accepted)
    tally.scale = steps / tools.moves


@helpful
def interweave(block: str, location=None, scale: str | None = None, selector=None, amounts=None):
    """Moves of all sites of a block at once, with their mean and with their scale: a kernel.

    Compose it with kernels that move the sites one by one, and mean and scale by themselves:
    sm.Metropolis("a") >> sm.Metropolis(("mu", "tau")) >> sm.interweave("a", "mu", "tau").

    block: its sites, real numbers, or rows of several.
    location: a block with the mean of its prior: mu and all of a move by the same number, as read
        from all data. Or what data see beside it, b + a[group]: then they move against each other,
        and no datum decides. Which of the two it is, is found out, by every datum in six states.
        Two data are asked again with every move, and end the chain if they see it. Where some data
        do not see b in any of the states, as those of neighbours on a map, all data decide.
    scale: a block with the standard deviation of its prior, sm.positive: tau and a - mu are
        multiplied by one number. Or what the sites are multiplied by, b + tau * z[group]: against
        each other, and no datum decides.
    Of rows a[i, :] both have one number for each column, which move one after the other, or one for
    all. Where sites have means of their own, location=("dept", which): site i goes with number
    which[i] of block dept, as lecturers do with their departments.
    selector: how moves that read data are decided; default Exact().
    amounts: an array, one number for each site: location goes by c, and site i by -amounts[i] c.
        For a slope that the sites hold: of slope * x[n] + a[group[n]], the mean of x in each group
        leaves to data what differs within groups. All data decide, unless none sees it.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> group = rng.integers(50, size=1_000)
        >>> data = {"y": rng.standard_normal(50)[group] + rng.standard_normal(1_000), "g": group}
        >>> def log_likelihood(state, data, n):
        ...     return -0.5 * (data.y[n] - state.b[0] - state.a[data.g[n]]) ** 2
        >>> def of_site(state, i):
        ...     return -0.5 * (state.a[i] / state.tau[0]) ** 2 - sm.log(state.tau[0])
        >>> model = sm.Model(
        ...     log_likelihood, data, {"b": 0.0, "a": np.zeros(50), "tau": 1.0},
        ...     lambda state: -state.tau[0], constraints={"tau": sm.positive},
        ...     touches={"a": "g"}, site_prior={"a": of_site},
        ... )
        >>> both = sm.interweave("a", location="b", scale="tau")
        >>> print(both.describe(model).splitlines()[1])
          a+b: Shift moves all of a and b, by one number; Exact(); guarantee: exact (against each \
other: what data see is held, and the prior decides)
    """
    if location is None and scale is None:
        raise TypeError(
            f"interweave({block!r}): name what its sites have in common, location= or scale=."
        )
    parts: list[Woven] = []
    chosen = Default() if selector is None else selector
    which = None
    if isinstance(location, tuple) and len(location) == 2:
        location, which = location[0], np.array(location[1])
        if scale is not None:
            raise ValueError(
                f"interweave({block!r}, ...): scale goes with one location for all sites: give "
                "the two to kernels of their own."
            )
    if not isinstance(location, str | None) or not isinstance(scale, str | None):
        raise TypeError(
            f"interweave({block!r}, location={location!r:.40}, scale={scale!r:.40}): give names of "
            'blocks; or ("dept", which) for locations, one number of dept for each site.'
        )
    if amounts is not None:
        if location is None or which is not None or scale is not None:
            raise ValueError(
                f"interweave({block!r}, ..., amounts=...): they say how far sites go with one "
                'location for all: give location="slope", and scale to a kernel of its own.'
            )
        return ShiftByAmounts(block, location, None, chosen, amounts=np.array(amounts, float))
    if location is not None:
        parts.append(Shift(block, location, None, chosen, which))
    if scale is not None:
        parts.append(Stretch(block, scale, location, chosen))
    return cycle(*parts) if len(parts) > 1 else parts[0]
