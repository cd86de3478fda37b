"""Proposals of the user's own."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from subsample_mcmc.kernels.proposals.walk import (
    NO_PACE,
    Pace,
    ProposalNumbers,
    learn_step,
    no_numbers,
)
from subsample_mcmc.numerics.jit import FLAGS, jit
from subsample_mcmc.numerics.memo import memoised
from subsample_mcmc.numerics.pointers import (
    ABLE,
    FunctionAddress,
    RecordAddress,
    call_proposal,
    type_of,
)
from subsample_mcmc.target.user_functions import plain


class Ends(NamedTuple):
    """What a user's proposal reads and writes: the block's values, or a record of several blocks.

    Arrays in the chain's own memory, where the state stands and where the proposal is wanted.
    """

    current: Any  # read-only
    out: Any


@dataclass(frozen=True, eq=False)
class UserProposal:
    """draw(rng, current, out) writes a proposal; log_density(to, given) -> float, or None."""

    draw: Any
    log_density: Any
    free: ClassVar[bool] = False
    walks: ClassVar[bool] = False
    learned: ClassVar[bool] = False

    def pace(self, free: int) -> Pace:
        return NO_PACE

    def build(self) -> tuple[Any, Any]:
        return own_proposal, learn_step

    def numbers(self, blocks) -> ProposalNumbers:
        return no_numbers(blocks)

    def address(self, rng: Any, ends: RecordAddress) -> FunctionAddress:
        """The two functions as one; rng: of the type that they are called with."""
        draw, log_density = self.draw, self.log_density
        plain(draw, "proposal[0]", "draw(rng, current, out)")
        chosen, density = jit(draw, flags=FLAGS, user=True, inner=True), None
        if log_density is not None:
            plain(log_density, "proposal[1]", "log_density(to, given) -> float")
            density = jit(log_density, flags=FLAGS, user=True, inner=True)
        kinds = (type_of(rng), ends) if ABLE else ()
        return FunctionAddress(users_proposal(chosen, density), *kinds)


@jit(inner=True)
def own_proposal(rng, tuning, given, now, which, u, v):
    return call_proposal(given.own, rng, given.ends)


@memoised
def users_proposal(chosen: Any, density: Any) -> Any:
    """A user's two functions as one that is called by its address; density: None if symmetric."""
    if density is None:

        @jit(inner="entry", user=True)
        def symmetric(rng, ends):
            chosen(rng, ends.current, ends.out)
            return 0.0

        return symmetric

    @jit(inner="entry", user=True)
    def corrected(rng, ends):
        current, out = ends.current, ends.out
        chosen(rng, current, out)
        return 1.0 * (density(current, out) - density(out, current))

    return corrected
