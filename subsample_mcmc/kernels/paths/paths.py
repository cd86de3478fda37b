"""Hidden paths: all sites of a discrete block at once, from their joint conditional, exactly.

Of a hidden Markov chain it is what is called forward filtering and backward sampling, of trees the
same from the leaves to the root and back. Drawn one at a time, sites hold each other: where states
last for hundreds of times, the border between two of them moves by a step a sweep.
"""

from dataclasses import dataclass
from math import exp, log
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.calls import helpful
from subsample_mcmc.decisions.exact import Exact
from subsample_mcmc.decisions.rules.rule import ALL_IMPOSSIBLE, EXACT, NOT_FINITE
from subsample_mcmc.decisions.selector import not_a_sum
from subsample_mcmc.kernels.base import BAD_PRIOR, DECIDES_EXACTLY, Leaf
from subsample_mcmc.kernels.decision import Decision, Judge, count_decision, count_end, fail
from subsample_mcmc.kernels.paths.forest import Forest, forest_of
from subsample_mcmc.kernels.sites.asked import check_data
from subsample_mcmc.kernels.sites.by_site import NO_SITES, SitePrior, terms_of
from subsample_mcmc.kernels.sites.independent import may_read, only_before
from subsample_mcmc.kernels.sites.touches import check_touches
from subsample_mcmc.kernels.sites.watching import Watched, remember, sees_others, watched
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.pointers import call_numbers
from subsample_mcmc.target.rewards import add_up


class Forests:
    """A key under which a model keeps who sees whom among the sites of its blocks."""


FORESTS = Forests()


# Numbers in a table of what each site's values weigh by its parent's: 128 MB. Where it would be
# larger, they are asked for again.
LARGEST = 1 << 24


class PathTools(NamedTuple):
    """What a draw of all sites works with."""

    judge: Judge  # which nobody asks
    forest: Forest
    prior: SitePrior
    messages: np.ndarray  # (sites, values): what a site and all below it say of its value
    weights: np.ndarray  # (sites, values of its parent, values), or empty
    room: np.ndarray  # (1, values): the same of one site and one value of its parent
    before: np.ndarray  # the block as it was
    watched: Watched


@dataclass(frozen=True, eq=False)
class Paths(Leaf):
    """All sites of a discrete block at once. See sm.paths."""

    elsewhere: ClassVar[str] = "reads the rows of all sites, at every step"

    block: str

    @property
    def writes(self) -> tuple[str, ...]:
        return (self.block,)

    def text(self) -> str:
        return f"paths({self.block!r})"

    def facts(self, model=None) -> dict[str, Any]:
        """Adds values, and what a step reads."""
        told = super().facts(model) | DECIDES_EXACTLY | {"guarantee": "exact"}
        told["moves"] = f"all sites of {self.block} at once"
        if model is None:
            return told
        variable, forest = model.variables[self.block], self.forest(model)
        told["arms"], told["rows"] = variable.support, len(forest.touched)
        trees = int(np.count_nonzero(forest.parent < 0))
        which = "as one path or tree" if trees == 1 else f"as {trees:,} paths or trees"
        told["note"] = f"{variable.sites:,} sites {which}, drawn from their joint conditional"
        return told

    def walks(self, model) -> bool:
        """Does the prior of a site read the one before it."""
        return only_before(self.block, model) == 1

    def forest(self, model) -> Forest:
        """Who sees whom, found out once."""
        known = model.prepared.setdefault(FORESTS, {})
        if self.block not in known:
            touches = model.variables[self.block].touches
            known[self.block] = forest_of(
                self.text(), self.block, touches, model.size, self.walks(model)
            )
        return known[self.block]

    def check(self, model) -> None:
        """Refuse blocks whose sites have no data of their own, or form no forest."""
        name, variable = self.block, model.variables[self.block]
        if not variable.block.discrete:
            raise ValueError(
                f"{self.text()}: the block is continuous, and paths are drawn of labels; of levels "
                f"that walk, sm.windows({name!r})."
            )
        if variable.touches is None:
            raise ValueError(
                f"{self.text()}: what a site says of its neighbours is asked from the data that "
                f'they touch: give sm.Model(touches={{{name!r}: "time"}}), the column that says '
                "which site a datum sees, or a tuple of two."
            )
        if any(v.place == variable.block.start for v in model.variables.values()):
            raise ValueError(f"{self.text()}: other blocks vary in length with {name!r}.")
        self.check_priors(model)
        check_touches(name, model)
        check_data(name, model)
        self.forest(model)

    def check_priors(self, model) -> None:
        """Refuse priors of which the code does not say that they read a site and the one before."""
        name = self.block
        others = {f"site_prior[{other!r}]": f for other, f in model.site_prior.items()}
        own = others.pop(f"site_prior[{name!r}]", None)
        if model.given[3] is not None:
            others["log_prior"] = model.given[3]
        for text, function in others.items():
            if may_read(function, name, model):
                raise ValueError(
                    f"{self.text()}: {text} may read {name!r}, as its code says or does not tell: "
                    f"all that depends on {name}[i] must be in log_likelihood or "
                    f"site_prior[{name!r}]. Read state.{name} there, and do not hand on `state`."
                )
        if model.prepare is not None and may_read(model.prepare, name, model):
            raise ValueError(
                f"{self.text()}: prepare(state, data) may read {name!r}, of which it would be "
                f"asked for every value of every site: read {name}[i] in log_likelihood."
            )
        if own is not None and only_before(name, model) not in (0, 1):
            raise ValueError(
                f"{self.text()}: site_prior[{name!r}] may read other sites than its own and the "
                f"one before it: it must look up state.{name}[i] and state.{name}[i - 1] alone, "
                "written so, with `i` as it is given, and not hand on `state`."
            )

    def build(self, model) -> Any:
        """The compiled step."""
        return draw_paths

    def bind(self, model, run) -> PathTools:
        """Tools of one chain."""
        variable, forest = model.variables[self.block], self.forest(model)
        decision = Decision(Exact(), None, variable.support, touched=True, draws=True)
        judge = decision.bind(
            model, run, variable.block, model.size, (None, None), indices=forest.touched
        )
        looked = judge.trial._replace(indices=variable.touches[1])
        behind = only_before(self.block, model)
        context, prior, values = judge.trial.calls.context, NO_SITES, variable.support
        table = (variable.sites, values, values)
        if np.prod(table, dtype=float) > LARGEST:
            table = (0, values, values)
        if behind is not None:
            prior = terms_of(model, self.block, context, behind)
        return PathTools(
            judge, forest, prior,
            np.zeros((variable.sites, values)), np.zeros(table), np.zeros((1, values)),
            np.zeros(variable.sites, dtype=np.int64), watched(model, run, self.block, looked),
        )  # fmt: skip


# --------------------------------------------------------------------------------------- the draw
@jit(inner="always")
def of_rows(chain, tools, site, value, first, last):
    """What some of its rows say of a site's value, as all it sees stands in the state.

    nan where one is none: the chain must then end.
    """
    trial = tools.judge.trial
    target = trial.target[0]
    if first == last:
        return 0.0
    target.site, target.first, target.rows = site, first, last - first
    total = add_up(trial, last - first)
    if not_a_sum(total):
        wrong = -1
        for i in range(last - first):
            target.first, target.rows = first + i, 1
            if wrong < 0 and not_a_sum(add_up(trial, 1)):
                wrong = trial.indices[first + i]
        fail(chain.now[0], trial, NOT_FINITE, value, wrong)
        return np.nan
    return total


@jit(inner="always")
def of_prior(chain, tools, site, value, shared):
    """The same of its prior; shared: what it shares with its parent, or what is its own."""
    trial, prior = tools.judge.trial, tools.prior
    reads_parent = prior.behind > 0 and site > 0
    if prior.of == 0 or shared != reads_parent:
        return 0.0
    told = call_numbers(prior.of, trial.calls.context, site, 0)
    if not_a_sum(told):
        trial.target[0].site = site
        fail(chain.now[0], trial, BAD_PRIOR, value, -1)
        return np.nan
    return told


@jit(inner="always")
def of_own(chain, tools, site, value):
    """What a site's own rows and prior say of a value; it is left in the state."""
    trial, forest = tools.judge.trial, tools.forest
    trial.ints[trial.target[0].start + site] = value
    told = of_rows(chain, tools, site, value, forest.first[site], forest.shared[site])
    return told + of_prior(chain, tools, site, value, False)


@jit(inner="always")
def of_both(chain, tools, site, value):
    """The same of what it shares with its parent, whose value stands in the state."""
    trial, forest = tools.judge.trial, tools.forest
    trial.ints[trial.target[0].start + site] = value
    told = of_rows(chain, tools, site, value, forest.shared[site], forest.first[site + 1])
    return told + of_prior(chain, tools, site, value, True)


@jit(inner="always")
def weigh(values):
    """Write what logs of weights come to, over the largest; return the log of their sum."""
    top, total = -np.inf, 0.0
    for value in values:
        top = max(top, value)
    for k in range(len(values)):
        values[k] = exp(values[k] - top) if top > -np.inf else 0.0
        total += values[k]
    return top + log(total) if total > 0.0 else -np.inf


@jit(inner="always")
def weigh_given_parent(chain, tools, site, weights):
    """The same of a site's values where that of its parent stands in the state."""
    own = tools.messages[site]
    for value in range(len(own)):
        weights[value] = own[value]
        if own[value] > -np.inf:
            weights[value] += of_both(chain, tools, site, value)
    return weigh(weights)


@jit(inner="always")
def to_roots(chain, tools):
    """Write what each site and all below it say of its value: children before their parents."""
    trial, forest, messages, table = tools.judge.trial, tools.forest, tools.messages, tools.weights
    start = trial.target[0].start
    messages[:] = 0.0
    for i in range(len(forest.order) - 1, -1, -1):
        site = forest.order[i]
        parent, own = forest.parent[site], messages[site]
        for value in range(len(own)):
            own[value] += of_own(chain, tools, site, value)
        if chain.now[0].code != 0:
            return
        for at in range(len(own) if parent >= 0 else 0):
            trial.ints[start + parent] = at
            weights = table[site, at] if len(table) > 0 else tools.room[0]
            messages[parent, at] += weigh_given_parent(chain, tools, site, weights)


@jit(inner="always")
def from_roots(chain, tools):
    """Draw each site, given its parent."""
    trial, forest, table, room = tools.judge.trial, tools.forest, tools.weights, tools.room[0]
    start, values = trial.target[0].start, len(room)
    for site in forest.order:
        parent = forest.parent[site]
        if parent >= 0 and len(table) > 0:
            weights = table[site, trial.ints[start + parent]]
        elif parent >= 0:
            weights = room
            weigh_given_parent(chain, tools, site, weights)
        else:
            weights = room
            for value in range(values):
                weights[value] = tools.messages[site, value]
            weigh(weights)
        total = 0.0
        for value in range(values):
            total += weights[value]
        if total == 0.0:
            trial.target[0].site = site
            fail(chain.now[0], trial, ALL_IMPOSSIBLE, -1, -1)
            return
        left, drawn = total * chain.rng.random(), -1
        for value in range(values):
            if weights[value] > 0.0 and left >= 0.0:  # not below by rounding: the last one
                drawn = value
                left -= weights[value]
        trial.ints[start + site] = drawn


@jit(inner="always")
def draw_paths(chain, tools):
    """step(chain, tools): all sites, from what they say together."""
    judge, forest, before = tools.judge, tools.forest, tools.before
    trial, tally, now = judge.trial, judge.tally[0], chain.now[0]
    start, sites, values = trial.target[0].start, len(forest.order), tools.room.shape[1]
    times = values * values if len(tools.weights) > 0 else values * (values + 1)
    tally.steps += 1
    remember(tools.watched)
    for site in range(sites):
        before[site] = trial.ints[start + site]
    to_roots(chain, tools)
    if now.code == 0:
        from_roots(chain, tools)
    if now.code != 0:
        for site in range(sites):
            trial.ints[start + site] = before[site]
        return
    for site in range(sites):
        alone = forest.shared[site] - forest.first[site]
        both = forest.first[site + 1] - forest.shared[site]
        count_decision(tally, values * alone + times * both)
        count_end(tally, EXACT)
        tally.pulls += values * alone + times * both
        tally.accepted += 1 if trial.ints[start + site] != before[site] else 0
    sees_others(chain, tools.watched)


@helpful
def paths(block: str):
    """All sites of a discrete block at once, from their joint conditional, exactly: a kernel.

    For hidden states in an order, each of which depends on the one before it: regimes, hidden
    Markov models, segments; and for trees of them. Forward filtering and backward sampling
    (Scott 2002). Where sm.Gibbs("z") draws each site given its neighbours, a border between two
    states that last moves by a step a sweep; here each draw is of the whole path, whatever it was.
    What the states have in common has kernels of its own: sm.paths("z") >> sm.Metropolis("mu").

    block: its sites, with touches. A datum may see two of them, a state and the one before it, say;
        the prior of a site, sm.Model(site_prior={"z": f}), f(state, i), may read state.z[i] and
        state.z[i - 1]. Who sees whom must have no rings. A step reads each datum of one site K
        times, once for each of the K values, and one of two K^2 times.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z = np.repeat([0, 1, 0, 1], [400, 300, 200, 100])
        >>> data = {"y": 1.5 * z + rng.standard_normal(1_000), "time": np.arange(1_000)}
        >>> def log_likelihood(state, data, n):
        ...     return -0.5 * (data.y[n] - state.mu[state.z[data.time[n]]]) ** 2
        >>> def change(state, i):
        ...     if i == 0:
        ...         return 0.0
        ...     p = state.p[0]
        ...     return sm.log(p if state.z[i] != state.z[i - 1] else 1.0 - p)
        >>> model = sm.Model(
        ...     log_likelihood, data, {"z": z, "mu": np.array([0.0, 1.0]), "p": 0.01},
        ...     support={"z": 2}, touches={"z": "time"}, site_prior={"z": change},
        ...     constraints={"mu": sm.ordered, "p": sm.interval(0.0, 1.0)},
        ... )
        >>> kernel = sm.paths("z") >> sm.Metropolis("mu") >> sm.Metropolis("p")
        >>> trace = sm.sample(model, kernel, draws=500, warmup=200, chains=2, seed=1)
        >>> found = trace.draws["z"].mean(axis=(0, 1))  # the probability of state 1
        >>> bool(np.mean((found > 0.5) == z) > 0.98)
        True
    """
    if not isinstance(block, str):
        raise TypeError(
            f'paths({block!r:.60}): give the name of the block whose sites are in an order, "z".'
        )
    return Paths(block)
