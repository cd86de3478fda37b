"""Wang-Landau: tilt the prior of a discrete block in warm-up, until all its values are visited."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.kernels.base import Leaf
from subsample_mcmc.kernels.gibbs import Gibbs
from subsample_mcmc.numerics.jit import jit

STEPS, LINES, STRIDE = range(3)  # of WangLandauTools.counts
MOST_LINES = 512  # of the history ...
MOST_NUMBERS = 1 << 17  # ... and numbers in it: a checkpoint carries them


class WangLandauTools(NamedTuple):
    """What a Wang-Landau step works with."""

    ints: np.ndarray
    place: int  # of the block in them
    tilt: np.ndarray  # (values,) that Gibbs adds to the log prior
    rate: float
    decay: float
    counts: np.ndarray  # (3,) steps in warm-up, lines of the history, steps between two of them
    history: np.ndarray  # (lines, 2 + values): iteration, rewards read until then, tilt
    words: np.ndarray  # statistics of all kernels ...
    reads: np.ndarray  # ... which of them count rewards read ...
    before: np.ndarray  # ... and how many were read in earlier draws
    own: np.ndarray  # its own statistics
    told: np.ndarray  # the same, as floats


@dataclass(frozen=True, eq=False)
class WangLandau(Leaf):
    """Tilt the prior of a discrete block in warm-up, so that all its values are visited alike.

    Compose it with the Gibbs kernel of the block: sm.Gibbs("q") >> ... >> sm.WangLandau("q"). It
    moves nothing. Its step t of the warm-up takes rate / (1 + t / decay) nats off the log prior of
    the value at hand (and centres the tilt: a constant changes nothing); after warm-up the tilt is
    frozen, and each draw is one under prior times exp(tilt) of its chain.
    trace.model_probabilities("q") undoes the tilt.

    block: its name.
    decay: steps after which increments are half as large.
    rate: nats of the first one.
    start: the tilt to start from, one number per value, up to a constant: minus the log evidences
        of Laplace fits. From zero, T steps can bridge decay * log(1 + T / decay) nats at most.
    (Wang and Landau 2001, Phys. Rev. Lett. 86, 2050; annealed as in Chen and Ghahramani 2016,
    Scalable discrete sampling as a multi-armed bandit problem, appendix C.2.)

    Example:
        >>> kernel = sm.Gibbs("q") >> sm.WangLandau("q", start=[0.0, 4.5])
        >>> print(kernel.text())
        Gibbs('q') >> WangLandau('q')
    """

    block: str
    decay: float = 100.0
    start: Any = None
    rate: float = 1.0
    columns: ClassVar[tuple[tuple[str, str], ...]] = (
        ("steps", "i8"), ("value", "i8"), ("tilt", "f8"),
    )  # fmt: skip

    def __post_init__(self):
        for name in ("decay", "rate"):
            if not 0.0 < getattr(self, name) < np.inf:
                raise ValueError(
                    f"WangLandau({name}={getattr(self, name)!r}): it must be positive and finite; "
                    "the defaults are decay=100.0 steps and rate=1.0 nats."
                )
        if self.start is not None:
            start = np.array(self.start, dtype=float)
            if start.ndim != 1 or not np.isfinite(start).all():
                raise ValueError(
                    f"WangLandau(start={self.start!r:.80}): give one finite number per value of "
                    f"{self.block!r}, such as minus its log evidence."
                )
            object.__setattr__(self, "start", start)

    @property
    def writes(self) -> tuple[str, ...]:
        """It moves nothing."""
        return ()

    @property
    def label(self) -> str:
        return f"{self.block}_tilt"

    def text(self) -> str:
        return f"WangLandau({self.block!r})"

    def facts(self, model=None) -> dict[str, Any]:
        """Adds whose tilt it is, and how far it can go."""
        told = super().facts(model) | {"block": self.block, "note": "tilts a prior in warm-up"}
        return told | {
            "rate": float(self.rate), "decay": float(self.decay),
            "values": model.variables[self.block].support if model else None,
        }  # fmt: skip

    def check(self, model) -> None:
        """Refuse blocks that are not one discrete site, and a start of another length."""
        variable = model.variables.get(self.block)
        if variable is None:
            raise ValueError(
                f"{self.text()}: {self.block!r} is no block of {model.names}; name a discrete one."
            )
        if not variable.block.discrete:
            raise ValueError(
                f"{self.text()}: the block is continuous; only a discrete one has values to visit. "
                "Give it as an integer with a support."
            )
        if variable.block.length != 1:
            raise ValueError(
                f"{self.text()}: the block has {variable.block.length} sites, which would share "
                "one tilt; it needs a block of one site, such as the number of a model."
            )
        if self.start is not None and len(self.start) != variable.support:
            raise ValueError(
                f"{self.text()}: start has {len(self.start)} numbers for {variable.support} "
                "values; give one for each."
            )

    def check_among(self, leaves, model) -> None:
        """Refuse a second one of the block, and kernels that would move it without the tilt."""
        for leaf in leaves:
            if isinstance(leaf, WangLandau) and leaf is not self and leaf.block == self.block:
                raise ValueError(
                    f"two kernels {self.text()}: both would change one tilt; leave one out."
                )
            if self.block not in leaf.writes:
                continue
            if not isinstance(leaf, Gibbs):
                raise ValueError(
                    f"kernel {leaf.text()} moves {self.block!r} and does not know of the tilt that "
                    f"{self.text()} adds to its log prior: its draws would have another law. Move "
                    f"{self.block!r} by sm.Gibbs({self.block!r}) alone, or leave WangLandau out."
                )
            if np.atleast_1d(leaf.temperature)[-1] != 1.0:
                raise ValueError(
                    f"{leaf.text()} ends at temperature {np.atleast_1d(leaf.temperature)[-1]:g}, "
                    f"where {self.text()} cannot be undone; let it end at 1."
                )

    def build(self, model) -> Any:
        """The compiled step."""

        @jit(inner="always")
        def step(chain, tools):
            now, value = chain.now[0], tools.ints[tools.place]
            if now.warm == 1:
                adapt(tools, value)
                note(tools, now.iteration + 1)
            tools.own[0] += 1
            tools.own[1] = value
            tools.told[2] = tools.tilt[value]

        return step

    def bind(self, model, run) -> WangLandauTools:
        """The chain's tilt, and what is remembered of its way."""
        variable = model.variables[self.block]
        tilt, values = run.tilt(self.block, variable.support), variable.support
        if self.start is not None:
            tilt[:] = self.start - self.start.mean()
        lines = max(2, min(MOST_LINES, MOST_NUMBERS // (2 + values)) // 2 * 2)
        history = np.zeros((lines, 2 + values))
        history[0, 2:] = tilt
        run.keep("tilt", tilt)
        run.keep("before", run.before)
        counts = run.keep("counts", np.array([0, 1, 1], dtype=np.int64))
        run.keep("history", history)
        own = run.next_words(len(self.columns))
        return WangLandauTools(
            run.ints, variable.block.start, tilt, float(self.rate), float(self.decay), counts,
            history, run.words, run.reads, run.before, own, own.view(float),
        )  # fmt: skip


@jit(inner=True)
def adapt(tools, value):
    """Make the value at hand less likely, and keep the mean of the tilt."""
    tilt = tools.tilt
    less = tools.rate / (1.0 + tools.counts[STEPS] / tools.decay)
    tilt[value] -= less
    for k in range(len(tilt)):
        tilt[k] += less / len(tilt)
    tools.counts[STEPS] += 1


@jit(inner=True)
def note(tools, iteration):
    """Every so many steps, a line of the history; once it is full, only every other one stays."""
    counts, history = tools.counts, tools.history
    if counts[STEPS] % counts[STRIDE] != 0:
        return
    if counts[LINES] == len(history):
        counts[LINES] //= 2
        counts[STRIDE] *= 2
        for i in range(counts[LINES]):
            for j in range(history.shape[1]):
                history[i, j] = history[2 * i, j]
    line = history[counts[LINES]]
    line[0], line[1] = iteration, tools.before[0]
    for i in range(len(tools.reads)):
        line[1] += tools.words[tools.reads[i]]
    for k in range(len(tools.tilt)):
        line[2 + k] = tools.tilt[k]
    counts[LINES] += 1
