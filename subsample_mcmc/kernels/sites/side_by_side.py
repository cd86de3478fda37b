"""Sites of one block moved by several cores at once, within one chain.

The sites are cut into parts, as many as the model has work for, whatever the cores. A part has all
that a kernel works with to itself, and in each sweep random streams of its own, made of one number
that the chain draws and of the part's number. So the draws are the same however many threads there
are, and in whatever order they take the parts.
"""

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.calls import helpful
from subsample_mcmc.kernels.base import (
    NOW,
    BoundStep,
    Chain,
    Kernel,
    Leaf,
    Step,
    run_step,
    statistics_of,
)
from subsample_mcmc.kernels.compose import Single
from subsample_mcmc.kernels.partition.gibbs_partition import workers
from subsample_mcmc.kernels.sites.independent import check_independent
from subsample_mcmc.kernels.sites.watching import remember, sees_others, watched
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import ABLE, RecordAddress, call_step, pointer_to
from subsample_mcmc.numerics.rows import WEYL, hashed
from subsample_mcmc.target.dyadic import threads
from subsample_mcmc.target.layout import PartRun
from subsample_mcmc.target.rewards import make_trial

# A part has at least so many rows, a site counting as some more of them; and there are at most so
# many parts. Both decide about draws: parts have streams of their own.
LEAST, EACH, MOST = 32_000, 16, 32
WORDS = 6  # of random streams: four of a generator, and those of rows and of audits


@jit
def streams(root, out):
    """Random numbers for each part: of one number of the chain's, and of the part's number."""
    for k in range(len(out)):
        own = hashed(root + np.uint64(k + 1) * WEYL)  # no two parts have the same
        for j in range(out.shape[1]):
            out[k, j] = hashed(own + np.uint64(j + 1) * WEYL)


@jit
def begin(watched):
    """Before a sweep."""
    remember(watched)


@jit
def end(chain, watched):
    """After a sweep, when nobody writes."""
    sees_others(chain, watched)


def cuts(touches) -> np.ndarray:
    """Where parts begin, and the last one ends: sites in a row, of about equal work."""
    work = np.cumsum(np.diff(touches[0]) + EACH)
    count = int(np.clip(work[-1] // LEAST, 1, MOST))
    inner = np.searchsorted(work, np.linspace(0.0, work[-1], count + 1)[1:-1])
    return np.unique(np.r_[0, inner, len(work)])


def share_out(work: Callable[[int], None], count: int, cores: int) -> None:
    """Call work(k) for each k below count, by so many threads; this one is one of them.

    Threads that are busy elsewhere, as in another chain, are not waited for. An error is raised
    when nobody works any more: that of the lowest k, whoever came first.
    """
    left, errors = deque(range(count)), {}

    def take() -> None:
        with np.errstate(all="ignore"):  # plain Python warns where machine code goes on
            while True:
                try:
                    k = left.popleft()
                except IndexError:
                    return
                try:
                    work(k)
                except Exception as error:
                    errors[k] = error

    helpers: list = []
    try:
        for _ in range(min(cores, count) - 1):
            helpers.append(workers(cores, os.getpid()).submit(take))
        take()
    finally:  # also where this thread is interrupted
        left.clear()
        helpers = [helper for helper in helpers if not helper.cancel()]
        wait(helpers)
    for helper in helpers:
        helper.result()  # raises what is no Exception, such as SystemExit
    if errors:
        raise errors[min(errors)]


class Side(NamedTuple):
    """One part at work."""

    step: BoundStep
    bits: Any  # of its generator
    chain: Chain
    shared: Any  # the same, as compiled code takes it


class Sides:
    """All parts of a block, in one chain."""

    def __init__(self, sides: list[Side], sizes: np.ndarray, cores: int, watching: Any):
        self.sides, self.sizes, self.cores = sides, sizes, min(cores, len(sides))
        self.watching = pointer_to(watching)
        self.seeds = np.zeros((len(sides), WORDS), dtype=np.uint64)
        self.failed: Any = ()  # tools of the part that ended the chain

    def sweep(self, chain: Any) -> None:
        """All sites once."""
        self.failed = ()
        begin(self.watching)
        streams(chain.rng.integers(2**64 - 1, dtype=np.uint64), self.seeds)
        share_out(lambda k: self.move(k, chain.now), len(self.sides), self.cores)
        for side in self.sides:
            if (now := side.chain.now[0]).code != 0:
                for name in ("code", "kernel", "arm", "row"):
                    chain.now[name] = now[name]
                self.failed = side.step.tools
                return
        end(chain, self.watching)

    def move(self, k: int, now: np.recarray) -> None:
        """The sites of one part."""
        step, bits, chain, shared = self.sides[k]
        a, b, c, d, rows, audits = self.seeds[k].tolist()
        bits.state = {
            "bit_generator": "PCG64", "state": {"state": a << 64 | b, "inc": c << 64 | d | 1},
            "has_uint32": 0, "uinteger": 0,
        }  # fmt: skip
        chain.rows[0], chain.audits[0] = rows, audits
        chain.now[...] = now
        (run_step if ABLE else call_step)(step.step, shared, step.tools)


class Counted(NamedTuple):
    """What a leaf counts, in all parts and as a whole."""

    parts: np.ndarray  # (parts, columns)
    whole: np.ndarray
    kinds: tuple[tuple[str, str], ...]

    def add_up(self, sizes: np.ndarray) -> None:
        """Add what the parts counted in a sweep; sizes: sites of each."""
        ints, floats = self.parts.sum(axis=0), self.parts.view(float)
        own = self.whole.view(float)
        for k, (name, kind) in enumerate(self.kinds):
            if name == "steps":
                self.whole[k] += 1
            elif name == "scale":
                own[k] = floats[:, k] @ sizes / sizes.sum()
            elif kind == "i8":
                self.whole[k] += ints[k]
            else:
                own[k] += floats[:, k].sum()


@dataclass(frozen=True, eq=False)
class SideBySide(Single):
    """See side_by_side."""

    interpreted: ClassVar[bool] = True  # type: ignore[misc]

    part: Kernel
    cores: int | None = field(default=None, metadata={"draws": False})

    def text(self) -> str:
        return f"side_by_side({self.part.text()})"

    def check_composed(self, model) -> None:
        """Refuse sites that depend on each other."""
        check_independent(self.part, model)

    def at_work(self, model, run, steps) -> BoundStep:
        (leaf,) = self.leaves()
        (name,) = leaf.writes
        variable, kinds = model.variables[name], statistics_of(leaf)
        trial = make_trial(model, run, variable.block, 1, touched=variable.touches[1])
        watching = watched(model, run, name, trial)
        first = cuts(variable.touches)
        counts = np.zeros((len(first) - 1, len(kinds)), dtype=np.int64)
        sides = []
        for k, words in enumerate(counts):
            own = PartRun.of(run, int(first[k]), int(first[k + 1]), variable.sites, words)
            bits = np.random.PCG64(0)  # another one in each sweep
            chain = Chain(
                np.random.Generator(bits), np.zeros(1, np.uint64), np.zeros(1, np.uint64),
                np.zeros(1, dtype=NOW).view(np.recarray),
            )  # fmt: skip
            sides.append(Side(leaf.at_work(model, own, steps), bits, chain, pointer_to(chain)))
        counted = Counted(counts, run.next_words(len(kinds)), kinds)
        all_sides = Sides(sides, np.diff(first), self.cores or threads(), watching)

        def step(chain, tools):
            counts[...] = 0
            all_sides.sweep(chain)
            counted.add_up(all_sides.sizes)

        tools = all_sides, tuple(side.step for side in sides)
        return BoundStep(Step(step, tools, plain=step), RecordAddress(tools))


@helpful
def side_by_side(kernel: Kernel, cores: int | None = None) -> Kernel:
    """Sites of a block moved by several cores at once, where they are independent given the rest.

    For a hierarchy with so many groups, or rows, that a sweep takes two milliseconds or more. Draws
    are the same for any number of cores, as parts of the sites have random streams of their own;
    they are others than those of the kernel alone.

    kernel: sm.Metropolis("a"), sm.Slice("a"), sm.Langevin("a") or sm.Gibbs("a"), of a block with
        touches. Each datum must see one site, and a site's prior no other site: it must read the
        block as state.a[site] or state.a[site, j] alone. What is not so is refused.
    cores: how many threads work for one chain; default all that this process may use. Chains share
        them: a chain takes those that no other chain keeps busy.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> group = np.repeat(np.arange(2_000), 5)
        >>> data = {"y": rng.standard_normal(10_000) + group % 2, "group": group}
        >>> def log_likelihood(state, data, n):
        ...     return -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2
        >>> model = sm.Model(
        ...     log_likelihood, data, {"a": np.zeros(2_000)}, touches={"a": "group"},
        ...     site_prior={"a": lambda state, site: -0.5 * state.a[site] ** 2},
        ... )
        >>> kernel = sm.side_by_side(sm.Metropolis("a"))
        >>> trace = sm.sample(model, kernel, draws=200, warmup=200, chains=1, seed=1)
        >>> trace.draws["a"].mean(axis=(0, 1))[1::2].mean().round(1).item()  # 5 / 6
        0.8
    """
    if not isinstance(kernel, Leaf) or not vars(type(kernel)).get("in_parts"):
        raise TypeError(
            f"side_by_side({kernel!r:.60}): give one kernel that moves a block site by site, "
            'sm.Metropolis("a"), sm.Slice("a"), sm.Langevin("a") or sm.Gibbs("a"), and compose '
            "what you get."
        )
    if cores is not None and (int(cores) != cores or cores < 1):
        raise ValueError(f"cores={cores!r}: give how many, at least 1.")
    return SideBySide(kernel, cores)
