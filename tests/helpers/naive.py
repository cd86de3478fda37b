"""Exhaustive and plain counterparts of what the package does: slow, short, easy to believe."""

import importlib
import inspect
import itertools
from typing import NamedTuple

import numpy as np

import subsample_mcmc as sm
import subsample_mcmc.numerics.jit
from subsample_mcmc.decisions.race import race_choice
from subsample_mcmc.decisions.rules.betting import BETS
from subsample_mcmc.decisions.rules.rule import RuleFunctions
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.target.population import Shape, Table
from subsample_mcmc.target.rewards import POPULATION, calls_of_population


class Orders(NamedTuple):
    """How Racing decided under each order of the rows; one line per order, one column per arm."""

    ended: np.ndarray
    arm: np.ndarray
    survived: np.ndarray  # the arm was never dropped
    lost: np.ndarray  # the arm's game says that it is not the best
    wealth: np.ndarray  # of the arm's game, at its end
    best: np.ndarray  # which arms have the largest total


_drivers: dict = {}


def driver(functions):
    """The race of the package, once for each order of the rows."""
    if functions in _drivers:
        return _drivers[functions]
    choose = race_choice(POPULATION, functions)

    @jit
    def decide(
        stream,
        calls,
        table,
        rewards,
        orders,
        offsets,
        params,
        scratch,
        made,
        survived,
        lost,
        wealth,
    ):
        for p in range(len(orders)):
            for arm in range(len(rewards)):
                for n in range(rewards.shape[1]):
                    table[arm, n] = rewards[arm, orders[p, n]]
            # With one seed the race reads the places of the table in one order: the same rows
            # of `rewards` come in a different order for every p, and in every order once.
            stream[0] = 0
            choice = choose(stream, calls, offsets, params, scratch)
            made[p, 0], made[p, 1] = choice.ended, choice.arm
            for k in range(scratch.race.now[0].alive):
                survived[p, scratch.race.alive[k]] = 1.0
            for arm in range(len(rewards)):
                lost[p, arm] = scratch.memory.lost[arm]
                for k in range(BETS):
                    wealth[p, arm] += scratch.memory.wealth[arm, k] / BETS

    _drivers[functions] = decide
    return decide


def every_order(
    rule, rewards, offsets, delta, batch=2, functions=None, orders=None, extra=0
) -> Orders:
    """Race under every order of the rows (or those given), with a rule's or other functions.

    extra: by how much the array of bets is too long, which tells mutants what to do wrong.
    """
    rewards, offsets = np.asarray(rewards, dtype=float), np.asarray(offsets, dtype=float)
    arms, size = rewards.shape
    if orders is None:
        orders = list(itertools.permutations(range(size)))
    orders = np.array(orders)
    selector = sm.Racing(rule=rule, delta=delta, batch=batch, retreat=False)
    shape = Shape((size,) * arms, shared=True)
    scratch = selector.scratch(shape)
    scratch = scratch._replace(memory=scratch.memory._replace(theta=np.zeros(BETS + extra)))
    made = np.zeros((len(orders), 2), dtype=np.int64)
    survived, lost, wealth = (np.zeros((len(orders), arms)) for _ in range(3))
    shuffled = np.zeros((arms, size))
    calls = pointer_to(calls_of_population(Table(shuffled)))
    with np.errstate(all="ignore"):
        driver(functions or rule.functions())(
            np.zeros(1, dtype=np.uint64), calls, shuffled, rewards, orders, offsets,
            *pointer_to((selector.params(shape), scratch)), made, survived, lost, wealth,
        )  # fmt: skip
        totals = rewards.sum(axis=1) + offsets
    best = totals >= totals.max() - 1e-9
    return Orders(made[:, 0], made[:, 1], survived == 1.0, lost == 1.0, wealth, best)


def mutant(module, *changes) -> RuleFunctions:
    """A rule's functions after changes (old, new) to the text of its module."""
    source = inspect.getsource(module)
    for old, new in changes:
        assert source.count(old) == 1, f"{module.__name__} no longer has one {old!r}"
        source = source.replace(old, new)
    scope = {"__name__": module.__name__}
    exec(compile(source, f"<mutant of {module.__name__}>", "exec"), scope)
    return RuleFunctions(scope["drop"], scope["observe"], scope["start"])


def uncompiled(module, patch):
    """A second copy of a module, as it is under NUMBA_DISABLE_JIT=1."""
    patch.setattr(subsample_mcmc.numerics.jit, "DISABLED", True)
    spec = importlib.util.spec_from_file_location(f"plain_{module.__name__}", module.__file__)
    copy = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copy)
    return copy


def lookup(data, arm, n):
    return data[0][arm, n]


def table(rewards) -> sm.Population:
    """A population whose rewards stand in an (arms, N) array."""
    rewards = np.asarray(rewards, dtype=float)
    return sm.Population(lookup, (rewards,), *rewards.shape)


def against_exact(rewards, selector, size, seed):
    """Draws by a selector, and how many of them differ from the exact ones under equal Gumbels."""
    population = table(rewards)
    made = sm.draw(population, size, selector, seed=seed, progress=False)
    truth = sm.draw(population, size, sm.Exact(), seed=seed, progress=False)
    return made, int(np.count_nonzero(made.arms != truth.arms))
