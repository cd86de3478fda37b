"""Moves of the scale of steps between neighbouring sites, with what lies between some of them.

The scale of a walk's steps and the walk hold each other: given all sites it is known to within one
in the square root of their number, and it moves no farther. Some sites are kept, every second,
fourth, eighth, ... of them; what the others are off the line from one that is kept to the next is
multiplied by the factor that the scale is. Of a walk these bridges are as likely as before, and the
kept sites and data decide. Where data say little of single sites wide bridges go far, where they
say much narrow ones: interweaving (Yu & Meng 2011) on every width.
"""

from dataclasses import dataclass
from math import exp
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.racing import Default
from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.kernels.adapt import Tuning, learn, make_tuning, of_one, step_size
from subsample_mcmc.kernels.base import ANY_NUMBER
from subsample_mcmc.kernels.continuous import ContinuousBlock, start_from_current, stay_or_go
from subsample_mcmc.kernels.decision import Judge
from subsample_mcmc.kernels.sites.interweave import START, TARGET
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.random import fill_normal
from subsample_mcmc.target.constraints import COORDINATES, REAL
from subsample_mcmc.target.moved import BlockCoordinates, all_inside, moved


class BridgeTools(NamedTuple):
    """What these moves work with."""

    judge: Judge
    coordinates: BlockCoordinates
    tuning: Tuning  # a row for each gap, of each number of the scale
    noise: np.ndarray  # (1,)
    gaps: np.ndarray  # between sites that are kept: 2, 4, 8, ...
    moves: int  # numbers of the scale: one, or one for each number of a site
    sites: int
    width: int  # numbers of a site
    first: int  # of the sites, in a candidate
    other: int  # of the scale


@dataclass(frozen=True, eq=False)
class Bridges(ContinuousBlock):
    """The scale of steps between sites, and sites between some that are kept. See sm.windows."""

    sites: str
    scale: str
    widest: int | None = None
    selector: Selector = Default()
    step: float = START  # of the logarithm of the scale
    control: ClassVar[None] = None
    far: ClassVar[int] = ANY_NUMBER  # priors of all sites cost more than what is copied
    learns: ClassVar[str] = "step"  # type: ignore[assignment]
    elsewhere: ClassVar[str] = "moves all sites, each of which reads its own rows"

    @property
    def writes(self) -> tuple[str, ...]:
        return self.sites, self.scale

    def text(self) -> str:
        return f"{type(self).__name__}({self.sites!r}, {self.scale!r})"

    def usual_selector(self, model) -> Selector:
        """Nothing is won by a race: the sums of two states far apart differ by as much as rows."""
        return Exact()

    def gaps(self, model) -> np.ndarray:
        """How far apart the sites are that are kept: 2, 4, ..."""
        return widths_of(model.variables[self.sites].sites, self.widest)[1:]

    def facts(self, model=None) -> dict[str, Any]:
        """Adds what moves."""
        told = super().facts(model) | {"arms": 2, "proposes": True, "takes_control": False}
        told["moves"] = f"{self.scale} and sites of {self.sites} between some that are kept"
        if model is not None:
            told["note"] = f"every 2 to {self.gaps(model)[-1]:,} sites one is kept"
        return told

    def check(self, model) -> None:
        """Refuse blocks that are no sites in an order, or no scale."""
        sites, scale = self.continuous(model).variables
        width = sites.block.length // sites.sites
        if sites.constraint.kind != REAL:
            raise ValueError(
                f"{self.text()}: block {self.sites!r} has the constraint {sites.constraint!r}, and "
                "bridges are of real numbers: take logarithms, say, as the block."
            )
        if scale.constraint.kind not in COORDINATES.values():
            raise ValueError(
                f"{self.text()}: block {self.scale!r} has the constraint {scale.constraint!r}: the "
                "scale of the steps from a site to the next must be sm.positive."
            )
        if scale.block.length not in (1, width):
            raise ValueError(
                f"{self.text()}: block {self.scale!r} has {scale.block.length} numbers: give one "
                f"for all, or one for each of the {width} numbers of a site."
            )
        if sites.place >= 0 or scale.place >= 0 or sites.sites < 2:
            raise ValueError(
                f"{self.text()}: there must be two sites or more, and none may vary in length."
            )
        self.decision.check(model, self.sites)

    def build(self, model) -> Any:
        """The compiled step."""
        return bridges_step

    def bind(self, model, run) -> BridgeTools:
        """Tools of one chain."""
        blocks = moved(model, self.writes)
        sites, scale = blocks.variables
        gaps, moves, start = self.gaps(model), scale.block.length, blocks.block.start
        tuning = make_tuning(run, self.step, 1.0, 1, TARGET, scaled=False, sites=len(gaps) * moves)
        return BridgeTools(
            self.judge(model, run), blocks.coordinates(), tuning, np.zeros(1), gaps, moves,
            sites.sites, sites.block.length // sites.sites, sites.block.start - start,
            scale.block.start - start,
        )  # fmt: skip


def widths_of(sites: int, widest: int | None) -> np.ndarray:
    """1, 2, 4, ...: to the first that all sites fit in, or to the last that is at most `widest`."""
    count = max(sites - 1, 0).bit_length()
    if widest is not None:
        count = min(count, int(widest).bit_length() - 1)
    return 2 ** np.arange(count + 1)


@jit(inner="always")
def stretch_bridges(tools, first, gap, number, by):
    """Move one number of the scale, and sites between kept ones; return log |dy/dx|.

    first: the first site that is kept, and then every `gap`-th. Sites before the first, and after
    the last, are stretched around it.
    """
    x, y = tools.judge.trial.candidates[0], tools.judge.trial.candidates[1]
    low, high = (number, number + 1) if tools.moves > 1 else (0, tools.width)
    factor, count = exp(by), 1
    y[tools.other + number] *= factor
    for site in range(tools.sites):
        behind = (site - first) % gap if site > first else first - site
        if behind == 0:
            continue
        kept = site - behind if site > first else first
        for column in range(low, high):
            at, here = tools.first + site * tools.width + column, kept * tools.width + column
            line = x[tools.first + here]
            if site > first and kept + gap < tools.sites:
                there = x[tools.first + here + gap * tools.width]
                line += (there - line) * behind / gap
            y[at] = line + factor * (x[at] - line)
            count += 1
    return by * count


@jit(inner="always")
def bridges_step(chain, tools):
    """step(chain, tools): a decision for each gap, and each number of the scale."""
    judge, now = tools.judge, chain.now[0]
    trial, tally = judge.trial, judge.tally[0]
    tally.steps += 1
    steps = 0.0
    for level in range(len(tools.gaps)):
        gap = tools.gaps[level]
        for number in range(tools.moves):
            tuning = of_one(tools.tuning, level * tools.moves + number)
            start_from_current(trial)
            first = min(np.int64(chain.rng.random() * gap), tools.sites - 1)
            fill_normal(chain.rng, tools.noise)
            step = step_size(tuning, now)
            ratio = stretch_bridges(tools, first, gap, number, step * tools.noise[0])
            if not all_inside(tools.coordinates, trial.candidates[1]):
                ratio = -np.inf
            accepted = stay_or_go(chain, judge, ratio)
            if now.code != 0:
                return
            steps += step
            learn(tuning, now, tools.noise, accepted)
    tally.scale = steps / (len(tools.gaps) * tools.moves)
