"""Where else the posterior may be: other modes, and other values of discrete blocks.

A fit holds discrete blocks where they stand. Where fits at their other values lie elsewhere, chains
that all begin around one fit keep the values that go with it, and agree: R-hat is 1, and the
posterior is another. So there is a fit at each value, as far as they are few, and chains begin
around those whose evidence is near the highest.
"""

import itertools
import json
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from subsample_mcmc.approx.fit.fit import Fit
from subsample_mcmc.approx.fit.laplace import laplace
from subsample_mcmc.approx.fit.modes import NEAR, Modes
from subsample_mcmc.errors import warn
from subsample_mcmc.target.model import Model

MOST = 16  # configurations that have a fit: all; or of one number with more values, evenly spread
LEAST, SECONDS = 3, 10.0  # of the processor, after which no more are made than so many
# Bhattacharyya's distance of two Gaussians, beyond which a chain hardly goes from one to the other:
# e^-2 is what they have in common. An indicator and a slope that is as the prior without it: .8.
FAR = 2.0
# Times the standard deviation of a fit, along some direction, beyond which proposals from it stand
# still at values where the posterior is so much wider: a coefficient that an indicator leaves to
# its prior was 4.8 times as wide, and 6 of 14 short runs agreed on shares that were wrong by .14.
WIDER = 2.0


@dataclass(frozen=True, eq=False)
class Configurations:
    """Fits at values of the discrete blocks, the highest evidence first."""

    names: tuple[str, ...]  # of the discrete blocks
    fits: list[Fit]
    own: Fit  # at the values that the model begins with
    spread: bool = False  # are they some of those of one number: others lie between neighbours
    left: int = 0  # of those that were to have a fit: for these there was no time

    @cached_property
    def near(self) -> list[Fit]:
        """Those whose values may have some of the mass."""
        least = self.fits[0].log_evidence - NEAR
        return [fit for fit in self.fits if fit.log_evidence > least]

    @cached_property
    def elsewhere(self) -> bool:
        """Do some of these lie so far off that a chain hardly comes there, by way of others."""
        left, reached = self.near[1:], self.near[:1]
        while reached and left:
            here = reached.pop()
            found = [fit for fit in left if self.are_neighbours(here, fit)]
            left = [fit for fit in left if not any(fit is other for other in found)]
            reached += found
        return bool(left)

    def are_neighbours(self, one: Fit, other: Fit) -> bool:
        """May a chain go from one to the other: at once or, on a grid, by what is between."""
        if self.spread:
            (name,) = self.names
            every = sorted(int(np.ravel(fit.state[name])[0]) for fit in self.fits)
            ranks = [every.index(int(np.ravel(fit.state[name])[0])) for fit in (one, other)]
            if abs(ranks[0] - ranks[1]) == 1:
                return True
        return not are_apart(one, other)

    def around(self, fit: Fit, centres: list) -> list[tuple[Fit, Any]]:
        """(a fit, free coordinates) to start around in turn; centres: modes of the one given."""
        here = self.values_of(fit)
        found: list[tuple[Fit, Any]] = [(fit, centre) for centre in centres or [None]]
        return found + [(one, None) for one in self.near if self.values_of(one) != here]

    @property
    def best(self) -> Fit:
        """The one to start around: where all that count lie together, the model's own."""
        return self.own if self.own in self.near and not self.elsewhere else self.fits[0]

    def wider(self, fit: Fit) -> tuple[float, Fit]:
        """How many times as wide as a fit one of these is, at most, along any direction."""
        found = [(1.0, fit)]
        for other in self.near:
            with suppress(np.linalg.LinAlgError, ValueError):
                inverse = np.linalg.inv(fit.factor)
                squares = np.linalg.eigvalsh(inverse @ other.covariance @ inverse.T)
                found.append((float(np.sqrt(max(squares[-1], 0.0))), other))
        return max(found, key=lambda one: one[0])

    def values_of(self, fit: Fit) -> dict[str, Any]:
        """Its values of the discrete blocks, as sm.laplace(given=...) takes them."""
        return discrete_values(fit, self.names)

    def code_of(self, fit: Fit) -> str:
        """What makes it."""
        given = json.dumps(self.values_of(fit))
        return "sm.laplace(model)" if fit is self.own else f"sm.laplace(model, given={given})"

    def text_of(self, fit: Fit) -> str:
        """Its values in words."""
        return ", ".join(f"{name}={value}" for name, value in self.values_of(fit).items())

    def told(self) -> str:
        """What was found, where modes lie apart."""
        top = self.fits[0].log_evidence
        others = [
            f"{self.text_of(fit)} ({top - fit.log_evidence:.3g} nats less)"
            for fit in self.near[1:4]
        ]
        more = ", ..." if len(self.near) > 4 else ""
        return (
            f"of fits at {len(self.fits)} values of {', '.join(self.names)} the one at "
            f"{self.text_of(self.fits[0])} has the highest evidence, others lie elsewhere and "
            f"may have some of the mass: {', '.join(others)}{more}"
        )


def discrete_values(fit: Fit, names: tuple[str, ...]) -> dict[str, Any]:
    """Where a fit holds discrete blocks, as numbers and lists."""
    return {name: np.asarray(fit.state[name]).tolist() for name in names}


def are_apart(one: Fit, other: Fit) -> bool:
    """Have the two Gaussians little in common."""
    shift, both = one.mean - other.mean, 0.5 * (one.covariance + other.covariance)
    logs = [np.linalg.slogdet(m)[1] for m in (both, one.covariance, other.covariance)]
    wide = 0.5 * (logs[0] - 0.5 * (logs[1] + logs[2]))
    try:
        with np.errstate(all="ignore"):
            return not shift @ np.linalg.solve(both, shift) / 8.0 + wide <= FAR
    except np.linalg.LinAlgError:  # both without an end along the same direction
        return True


def configured(model: Model) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """(names of the discrete blocks, values at which there is to be a fit); none: too many."""
    blocks = {name: v for name, v in model.variables.items() if v.block.discrete}
    names = tuple(blocks)
    count = 1
    for v in blocks.values():
        for _ in range(v.block.length):
            count *= v.support
            if count > MOST and (len(blocks) > 1 or v.block.length > 1):
                return names, []
    only = blocks[names[0]] if len(names) == 1 else None
    if count <= MOST:
        parts = [
            [np.reshape(value, v.block.shape).tolist() for value in
             itertools.product(range(v.support), repeat=v.block.length)]
            for v in blocks.values()
        ]  # fmt: skip
        return names, [dict(zip(names, value, strict=True)) for value in itertools.product(*parts)]
    if only is None or only.touches is not None:
        return names, []
    spread = np.unique(np.linspace(0, only.support - 1, MOST).astype(int))
    return names, [{names[0]: np.reshape(k, only.block.shape).tolist()} for k in spread]


def at_configurations(model: Model, own: Fit) -> Configurations | None:
    """Fits at other values of the discrete blocks; None where there are none, or too many."""
    if not any(v.block.discrete for v in model.variables.values()) or model.elsewhere is not None:
        return None
    names, every = configured(model)
    every = [values for values in every if values != discrete_values(own, names)]
    # One here, one there: where time ends, what was looked at is spread over all.
    order = np.argsort(np.arange(len(every)) * 0.618 % 1.0)
    found, left, end = [own], 0, time.process_time() + SECONDS
    for done, values in enumerate(every[i] for i in order):
        if done >= LEAST and time.process_time() > end:
            left = len(every) - done
            break
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit = laplace(model, given=values)
        except Exception:  # of a value that is not allowed, where functions may do anything
            continue
        if isinstance(fit, Fit) and fit.mean.shape == own.mean.shape:
            found.append(fit)
    found = [fit for fit in found if np.isfinite(fit.log_evidence)]
    if len(found) < 2:
        return None
    found.sort(key=lambda fit: -fit.log_evidence)
    number = model.variables[names[0]]
    spread = len(names) == 1 and number.block.length == 1 and number.support > MOST
    return Configurations(names, found, own, spread, left)


def warn_of_configurations(found: Configurations | None) -> None:
    """Say where chains begin that may not come from one value of a discrete block to another."""
    if found is None or not found.elsewhere:
        return
    warn(
        f"{found.told()}. Chains start around these, and R-hat in the report says whether they go "
        f"from one to another. Where they do not, let parameters go with the value: "
        f"{remedy_of(found)}, of which a draw proposes both together (sm.PseudoPrior)."
    )


def remedy_of(found: Configurations) -> str:
    """A model of which parameters are proposed with the value."""
    model, (name, *others) = found.own.model, found.names
    continuous = [n for n, v in model.variables.items() if not v.block.discrete]
    support = model.variables[name].support
    if others or model.variables[name].block.length > 1 or len(continuous) > 1 or support > MOST:
        return 'one block for all of them, and sm.Model(lengths={"theta": ("k", [2, 3])})'
    lengths = [model.variables[continuous[0]].block.length] * support
    return f'sm.Model(lengths={{"{continuous[0]}": ("{name}", {lengths})}})'


def warn_of_modes(modes: Modes | None) -> None:
    """Say where a chain that starts and proposes around one mode may not tell of another."""
    if modes is not None and modes.doubtful:
        others = (
            "chains start around those within 10 nats of it, and R-hat in the report says whether "
            "they hold them"
            if len(modes.near) > 1 else
            "chains start around it, and say nothing of others: a higher one may not have been "
            "found"
        )  # fmt: skip
        warn(
            f"{modes.told()}; {others}. Look further, sm.laplace(model, starts=50), and start "
            "chains where you know that it is right, start=[...]; or give a prior, an order of "
            "parameters that trade places, or a sign, sm.positive, of such as change it together."
        )
