"""The same decisions by PyMC, NumPyro and BlackJAX, all exact, in float64.

Times are of steps inside each sampler's loop, compiled before: PyMC's step methods are called one
by one, as pm.sample calls them; the kernels of NumPyro and BlackJAX run in a scan of our own.
"""

import sys
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from tests.benchmarks import rivals, work
from tests.benchmarks.cost_methods import DISCRETE, METROPOLIS, Decider, by_hand
from tests.benchmarks.tall_peers import VARIANCE

PACKAGES = ("pymc", "pytensor", "numpyro", "blackjax", "jax", "jaxlib")
STEPS = 64  # of a scan, where many decisions are asked for


def scanned(step: Callable, state, data, share: float = 1.0) -> Callable:
    """run(count, rng) of step(state, data) -> state, by compiled scans."""
    import jax

    @cache
    def compiled(length):
        def block(state, data):
            return jax.lax.scan(lambda s, _: (step(s, data), None), state, length=length)[0]

        return jax.jit(block).lower(state, data).compile()

    now = [state]

    def run(count, rng):
        while count:
            length = STEPS if count >= STEPS else 1
            now[0] = jax.block_until_ready(compiled(length)(now[0], data))
            count -= length
        return share

    compiled(1), compiled(STEPS)
    return run


# --------------------------------------------------------------------------- a discrete decision
def pymc_gibbs(y, at) -> Decider:
    """CategoricalGibbsMetropolis, which evaluates every value, as Gibbs does."""
    import pymc as pm

    with pm.Model() as model:
        seen = pm.Data("seen", y)
        k = pm.Categorical("k", np.full(len(at), 1.0 / len(at)))
        places = pm.Data("places", at)
        pm.StudentT("y", nu=work.FREEDOM, mu=places[k], sigma=1.0, observed=seen)
        step = pm.CategoricalGibbsMetropolis([k], proposal="proportional")
    return stepped(DISCRETE, "PyMC", step, model)


def stepped(panel, name, step, model, unit=1) -> Decider:
    """A step method of PyMC that makes `unit` decisions a step."""
    point = [model.initial_point()]

    def run(count, rng):
        for _ in range(count):
            point[0] = step.step(point[0])[0]
        return 1.0

    return Decider(panel, name, run, unit=unit)


def numpyro_gibbs(y, at) -> Decider:
    """DiscreteGibbs with the exact conditional."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer.gibbs import DiscreteGibbs

    places = jnp.asarray(at)

    def model(y):
        k = numpyro.sample("k", dist.Categorical(jnp.full(len(at), 1.0 / len(at))))
        numpyro.sample("y", dist.StudentT(work.FREEDOM, places[k], 1.0), obs=y)

    kernel, seen = DiscreteGibbs(model), jnp.asarray(y)
    state = kernel.init(jax.random.PRNGKey(1), 0, None, (seen,), {})
    run = scanned(lambda state, y: kernel.sample(state, (y,), {}), state, seen)
    return Decider(DISCRETE, "NumPyro", run)


def jax_draw(y, at) -> Decider:
    """By hand: what a user of JAX would write."""
    return by_hand(DISCRETE, "JAX", rivals.jax_jit("float64", False), y, at)


# ------------------------------------------------------------------------- a Metropolis decision
def blackjax_walk(x, y, start, scale) -> Decider:
    """Its random walk, which remembers the log posterior it stands at."""
    import blackjax
    import jax
    import jax.numpy as jnp

    def walk(data):
        def log_posterior(beta):
            eta = data[0] @ beta
            sums = data[1] @ eta - jnp.sum(jax.nn.softplus(eta))
            return sums - 0.5 * jnp.sum(beta**2) / VARIANCE

        return blackjax.additive_step_random_walk(
            log_posterior, blackjax.mcmc.random_walk.normal(jnp.asarray(scale))
        )

    def step(state, data):
        following, here = jax.random.split(state[0])
        return following, walk(data).step(here, state[1])[0]

    data = jnp.asarray(x), jnp.asarray(y)
    state = jax.random.PRNGKey(1), walk(data).init(jnp.asarray(start))
    return Decider(METROPOLIS, "BlackJAX", scanned(step, state, data, 0.5))


def pymc_walk(x, y, start, scale) -> Decider:
    """Its Metropolis moves coordinate by coordinate: a step is as many decisions."""
    import pymc as pm

    with pm.Model() as model:
        rows, seen = pm.Data("rows", x), pm.Data("seen", y)
        beta = pm.Normal("beta", 0.0, VARIANCE**0.5, shape=len(start), initval=start)
        pm.Bernoulli("y", logit_p=rows @ beta, observed=seen)
        step = pm.Metropolis([beta], S=scale, tune=False)
    return stepped(METROPOLIS, "PyMC", step, model, len(start))


def deciders(makers, *given) -> Iterator[Decider]:
    """Those that are installed; who is not is named on stderr."""
    for make in makers:
        try:
            made = make(*given)
        except ImportError as error:
            made = f"{make.__name__} skipped: {error}"
        if isinstance(made, str):
            made = made if "skipped" in made else f"{make.__name__} skipped: {made}"
            print(f"{made}; pip install pymc numpyro blackjax", file=sys.stderr)
        else:
            yield made


def discrete(y, at) -> Iterator[Decider]:
    """Peers of the Gibbs draw."""
    yield from deciders((pymc_gibbs, numpyro_gibbs, jax_draw), y, at)


def metropolis(x, y, start, scale) -> Iterator[Decider]:
    """Peers of the Metropolis decision."""
    yield from deciders((blackjax_walk, pymc_walk), x, y, start, scale)
