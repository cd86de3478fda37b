"""Step methods for pm.sample: some variables by racing, the others by PyMC's own steps."""

from typing import Any, ClassVar

import numpy as np
from pymc import modelcontext
from pymc.step_methods.compound import BlockedStep, Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator

from subsample_mcmc.errors import warn
from subsample_mcmc.kernels.base import Kernel, Leaf, check
from subsample_mcmc.kernels.compose import Cycle
from subsample_mcmc.kernels.gibbs import Gibbs
from subsample_mcmc.kernels.metropolis import Metropolis
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.pymc import FullDataWarning
from subsample_mcmc.pymc.bridge import Translated, from_pymc, same
from subsample_mcmc.pymc.rows import shared_in
from subsample_mcmc.runs.chain import Program, Walker
from subsample_mcmc.target.sources.checksums import array_hash


class Elsewhere(Leaf):
    """Stands for blocks that other steps move: does nothing."""

    columns = ()

    def __init__(self, blocks: tuple[str, ...]):
        self.blocks = blocks

    @property
    def writes(self) -> tuple[str, ...]:
        """What it is taken to move."""
        return self.blocks

    def text(self) -> str:
        return f"other steps for {', '.join(self.blocks)}"

    def build(self, model) -> Any:
        """A step that leaves everything as it is."""

        @jit(inner="always")
        def step(chain, tools):
            return

        return step

    def bind(self, model, run) -> tuple:
        """No tools."""
        run.next_words(0)
        return ()


@dataclass_state
class RacingState(StepMethodState):
    """What pm.sample puts back between chains."""

    tune: bool


def free_variables(given, model, step) -> list:
    """Free variables of a model, of what a step method was given: variables or names, or one."""
    if given is None:
        discrete = step.kernel is Gibbs
        return [
            rv for rv in model.free_RVs if rv.dtype.startswith(("int", "uint", "bool")) == discrete
        ]
    if isinstance(given, str) or not isinstance(given, list | tuple):
        given = [given]
    known = {rv.name: rv for rv in model.free_RVs}
    by_value = {model.rvs_to_values[rv]: rv for rv in model.free_RVs}
    found: list[Any] = []
    for v in given:
        rv = known.get(v) if isinstance(v, str) else by_value.get(v, v)
        if rv is None or rv not in by_value.values():
            raise ValueError(
                f"{type(step).__name__}: {getattr(v, 'name', v)!r} is no free variable of the "
                f"model, which has {', '.join(known)}."
            )
        if rv not in found:
            found.append(rv)
    return found


class RacingStep(BlockedStep):
    """What the two step methods share: the model, a chain of one step, and its statistics."""

    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        "tune": (bool, []), "rows": (np.int64, []), "share": (np.float64, []),
    }  # fmt: skip
    _state_class = RacingState
    kernel: Any = None

    def __init__(
        self, vars=None, *, model=None, rng=None, blocked=True, initial_point=None,
        compile_kwargs=None, translated=None, **options,
    ):  # fmt: skip
        model = modelcontext(model)
        self.vars = [model.rvs_to_values[v] for v in free_variables(vars, model, self)]
        self.rng = get_random_generator(rng)
        self.tune, self.blocked = True, blocked
        if translated is not None and not isinstance(translated, Translated):
            raise TypeError(f"translated={translated!r}: give what sm.from_pymc(model) returned.")
        fresh = from_pymc(model, touches=() if translated is None else translated.asked)
        if translated is not None and not same(translated, fresh):
            raise ValueError(
                "translated= is of another model, or of other data: give what sm.from_pymc(model) "
                "returns now, or leave it out."
            )
        self.translated = fresh if translated is None else translated
        observed = [model.rvs_to_values[rv] for rv in model.observed_RVs]
        shared = shared_in([*model.basic_RVs, *model.potentials, *observed])
        self.shared: Any = [(v, array_hash(np.asarray(v.get_value()))) for v in shared]
        self.parts = {part.value_name: part for part in self.translated.parts}
        self.moved = [self.parts[v.name] for v in self.vars]
        names = {part.block for part in self.moved}
        self.rest = tuple(p.block for p in self.translated.parts if p.block not in names)
        if np.size(options.get("temperature", 1.0)) > 1:
            raise ValueError(
                f"{type(self).__name__}: a schedule of temperatures counts the iterations of "
                "sm.sample, and would go on while pm.sample keeps draws: give one number, or none."
            )
        self.options = options
        self.program: Program | None = None
        self.walker: Walker | None = None
        check(self.composed(), self.translated)  # a mistake shows now
        if any(not p.discrete and p.block in self.rest for p in self.translated.parts):
            warn_once()

    def composed(self) -> Kernel:
        """The kernel, with what stands for the other variables."""
        kernels: list[Kernel] = [self.kernel(part.block, **self.options) for part in self.moved]
        return Cycle((*kernels, Elsewhere(self.rest)) if self.rest else tuple(kernels))

    def __getstate__(self) -> dict:
        """Without machine code, which is made anew where it is needed."""
        self.check_data()
        return {**self.__dict__, "program": None, "walker": None, "shared": []}

    def set_rng(self, rng) -> None:
        """What PyMC 5 calls where a chain begins."""
        super().set_rng(rng)
        self.begin()

    def setup_chain(self, rng, tune: int, draws: int) -> None:
        """What PyMC 6 calls there."""
        super().setup_chain(rng, tune, draws)
        self.begin()

    def begin(self) -> None:
        """A new chain: its own streams, nothing learnt, and it tunes again."""
        self.check_data()
        self.walker, self.tune = None, True

    def reset_tuning(self) -> None:
        """What PyMC calls before a run of steps that were used before."""
        self.tune = True

    def check_data(self) -> None:
        """Refuse to go on with data that pm.set_data has changed: the translation has copies."""
        changed = [v.name for v, was in self.shared if array_hash(np.asarray(v.get_value())) != was]
        if changed:
            raise ValueError(
                f"{type(self).__name__}: data {', '.join(map(repr, changed))} have changed since "
                "this step was made, and it holds those of before: make it anew, "
                f"sm.pymc.{type(self).__name__}([...])."
            )

    def begun(self) -> Walker:
        """The chain; compiled at the first step of a process."""
        if self.program is None:
            self.program = Program(self.translated, self.composed())
            self.program.compile()
        if self.walker is None:
            seed = np.random.SeedSequence(self.rng.integers(2**63, size=2).tolist())
            self.walker = Walker(self.program, seed)
        return self.walker

    def step(self, point):
        """One step from a point of PyMC's value variables."""
        walker = self.walker or self.begun()
        blocks = self.translated.variables
        for part in self.translated.parts:
            block = blocks[part.block].block
            flat = walker.ints if block.discrete else walker.floats
            value = part.natural(np.asarray(point[part.value_name]))
            flat[block.start : block.start + block.length] = np.ravel(value)
        before = walker.ints.copy(), walker.floats.copy()
        walker.advance(1, warm=bool(self.tune))
        if walker.error is not None:
            raise walker.error
        after = dict(point)
        for part in self.moved:
            block = blocks[part.block].block
            flat, old = (walker.ints, before[0]) if block.discrete else (walker.floats, before[1])
            here = slice(block.start, block.start + block.length)
            if not np.array_equal(flat[here], old[here]):  # else it stays, to the last bit
                given = np.asarray(point[part.value_name])
                value = part.value(flat[here].reshape(block.shape))
                after[part.value_name] = np.asarray(value).astype(given.dtype).reshape(given.shape)
        return after, [self.told(walker)]

    def told(self, walker: Walker) -> dict[str, Any]:
        """Statistics of the last step."""
        leaves = [s for s in walker.program.layout.stats(walker.words).values() if "pulls" in s]
        total = {f: sum(s[f].item() for s in leaves) for f in ("pulls", "everything", "accepted",
                 "decisions")}  # fmt: skip
        found = {
            "tune": bool(self.tune), "rows": int(total["pulls"]),
            "share": total["pulls"] / max(total["everything"], 1),
        }  # fmt: skip
        if "accepted" in self.stats_dtypes_shapes:
            found["accepted"] = total["accepted"] / max(total["decisions"], 1)
        return found

    @staticmethod
    def competence(var, has_grad):
        """Only where it is asked for."""
        return Competence.INCOMPATIBLE


class RacingGibbs(RacingStep):
    """Draw discrete variables of a PyMC model by races, in pm.sample(step=[RacingGibbs([z])]).

    vars: discrete variables, or their names; default, all of them.
    options: selector, control, scan, temperature, cumulative, those of sm.Gibbs.
    translated: what sm.from_pymc(model) returned, if fits or control variates are of it.
    model, rng, blocked, initial_point, compile_kwargs: what pm.sample gives to all steps of PyMC.

    The step holds the data of now: after pm.set_data it refuses to go on. PyMC's steps for the
    other variables, NUTS say, read all data at every step of theirs: a FullDataWarning says so
    once. Statistics of a step: rows, the log factors that it read, and share, of all that an exact
    step may read.
    """

    name = "racing_gibbs"
    kernel = Gibbs


class RacingMetropolis(RacingStep):
    """Move continuous variables of a PyMC model by raced Metropolis steps, one after the other.

    vars: continuous variables, or their names; default, all of them.
    options: scale, proposal, selector, control, adapt, those of sm.Metropolis.
    translated, model, rng, blocked, initial_point, compile_kwargs: as in sm.pymc.RacingGibbs.

    A step adapts its scale while PyMC tunes. The rest is as of RacingGibbs; accepted is the share
    of the step's proposals that was accepted.
    """

    name = "racing_metropolis"
    kernel = Metropolis
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {
        **RacingStep.stats_dtypes_shapes,
        "accepted": (np.float64, []),
    }


_warned = False


def warn_once() -> None:
    """Say that PyMC's own steps are not made of races."""
    global _warned  # noqa: PLW0603
    if not _warned:
        _warned = True
        warn(
            "races decide for the variables of this step only: NUTS, and PyMC's other steps, read "
            "all data at every step of theirs. sm.pymc.RacingMetropolis, or sm.from_pymc(model) "
            "with kernels for all blocks, do not.",
            FullDataWarning,
        )
