"""Varying intercepts beside NUTS: effective draws a CPU second of the slowest quantity.

    python -m tests.benchmarks.hierarchies [--rows 300000] [--groups 500] [--draws 2000]
    python -m tests.benchmarks.hierarchies --numpyro PYTHON --nutpie PYTHON
    python -m tests.benchmarks.hierarchies --slopes --rows 1000000 --groups 2000 [--numpyro ...]

y is Poisson, log rate a[group] + slope x, a[g] normal around mu with scale tau. Ours: a sweep over
the intercepts by their own data, a move of the slope that reads all data, five of (mu, tau) that
read none, and the same with moves of all intercepts at once; and from a fit, sm.laplace(model),
whose seconds stand beside: intercepts propose from it, the rest is drawn given them by surrogates;
thinned: by polynomials of each group, sm.SiteTaylor(fit), which read hardly a row.
Peers: NUTS of NumPyro, and of PyMC by nutpie, centred and not, in a process of its own; the fit, a
maximum of the marginal density as lme4's, is a reference of time. CPU seconds are those of
sampling, warm-up included, and of compiling for NUTS; ESS are arviz's, of mu, tau, the slope and
every intercept.

--slopes: y is 0 or 1, logit a[group, 0] + a[group, 1] x + a[group, 2] z; each column of a is normal
around a mean with a scale of its own. All data are seen by the groups alone.
"""

import argparse
import time

from tests.benchmarks import machine  # first: it limits the threads of numpy

# isort: split
import arviz
import numpy as np

import subsample_mcmc as sm
from tests.benchmarks.nuts import nuts
from tests.benchmarks.report import table

MU, TAU, SLOPE = 0.5, 0.6, 0.3
SOME = 1_000  # columns of which arviz is asked

NUTS = """
y, x, group = (jnp.asarray(found[k]) for k in ("y", "x", "group"))
groups, centred = given
def model():
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    if centred:
        a = numpyro.sample("a", dist.Normal(mu, tau).expand([groups]))
    else:
        z = numpyro.sample("z", dist.Normal(0.0, 1.0).expand([groups]))
        a = numpyro.deterministic("a", mu + tau * z)
    eta = a[group] + slope * x
    numpyro.factor("y", jnp.sum(y * eta - jnp.exp(eta)))
"""

NUTS_SLOPES = """
y, x, z, group = (jnp.asarray(found[k]) for k in ("y", "x", "z", "group"))
groups, centred = given
def model():
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0).expand([3]))
    tau = numpyro.sample("tau", dist.HalfNormal(1.0).expand([3]))
    if centred:
        a = numpyro.sample("a", dist.Normal(mu, tau).expand([groups, 3]))
    else:
        noise = numpyro.sample("noise", dist.Normal(0.0, 1.0).expand([groups, 3]))
        a = numpyro.deterministic("a", mu + tau * noise)
    eta = a[group, 0] + a[group, 1] * x + a[group, 2] * z
    numpyro.factor("y", jnp.sum(y * eta - jax.nn.softplus(eta)))
"""

PYMC = """
y, x, group = (found[k] for k in ("y", "x", "group"))
groups, centred = given
def model():
    with pm.Model() as made:
        mu, tau, slope = pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau", 1.0), pm.Normal("slope")
        if centred:
            a = pm.Normal("a", mu, tau, shape=groups)
        else:
            a = pm.Deterministic("a", mu + tau * pm.Normal("z", shape=groups))
        pm.Poisson("y", pm.math.exp(a[group] + slope * x), observed=y)
    return made
"""

PYMC_SLOPES = """
y, x, z, group = (found[k] for k in ("y", "x", "z", "group"))
groups, centred = given
def model():
    with pm.Model() as made:
        mu, tau = pm.Normal("mu", 0.0, 2.0, shape=3), pm.HalfNormal("tau", 1.0, shape=3)
        if centred:
            a = pm.Normal("a", mu, tau, shape=(groups, 3))
        else:
            a = pm.Deterministic("a", mu + tau * pm.Normal("noise", shape=(groups, 3)))
        pm.Bernoulli("y", logit_p=a[group, 0] + a[group, 1] * x + a[group, 2] * z, observed=y)
    return made
"""


def log_likelihood(state, data, n):
    eta = state.a[data.group[n]] + state.slope[0] * data.x[n]
    return data.y[n] * eta - sm.exp(eta)


def log_prior(state):
    return -0.5 * (state.mu[0] ** 2 / 4.0 + state.tau[0] ** 2 + state.slope[0] ** 2)


def of_intercept(state, g):
    z = (state.a[g] - state.mu[0]) / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def simulated(rows: int, groups: int) -> dict[str, np.ndarray]:
    """Data, sorted by group."""
    rng = np.random.default_rng(0)
    group, x = np.sort(rng.integers(groups, size=rows)), rng.standard_normal(rows)
    a = MU + TAU * rng.standard_normal(groups)
    return {"y": rng.poisson(np.exp(a[group] + SLOPE * x)).astype(float), "x": x, "group": group}


def of_slopes(state, data, n):
    g = data.group[n]
    eta = state.a[g, 0] + state.a[g, 1] * data.x[n] + state.a[g, 2] * data.z[n]
    return data.y[n] * eta - sm.softplus(eta)


def prior_of_slopes(state):
    total = 0.0
    for j in range(3):
        total -= 0.5 * (state.mu[j] ** 2 / 4.0 + state.tau[j] ** 2)
    return total


def of_group(state, g):
    total = 0.0
    for j in range(3):
        z = (state.a[g, j] - state.mu[j]) / state.tau[j]
        total -= 0.5 * z * z + sm.log(state.tau[j])
    return total


def simulated_slopes(rows: int, groups: int) -> dict[str, np.ndarray]:
    """Data of varying intercepts and slopes, sorted by group."""
    rng = np.random.default_rng(0)
    group, x, z = np.sort(rng.integers(groups, size=rows)), *rng.standard_normal((2, rows))
    a = np.array([0.5, 0.3, -0.2]) + np.array([0.6, 0.3, 0.4]) * rng.standard_normal((groups, 3))
    eta = a[group, 0] + a[group, 1] * x + a[group, 2] * z
    y = (rng.random(rows) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    return {"y": y, "x": x, "z": z, "group": group}


def row(name: str, draws: dict[str, np.ndarray], seconds: float) -> dict:
    """Effective draws a second, of each and of the slowest; arviz takes minutes for all of many."""
    each = {
        k: [float(arviz.ess(np.ascontiguousarray(flat[:, j])[None])) for j in looked_at(flat)]
        for k, flat in ((k, np.reshape(v, (len(v), -1))) for k, v in draws.items())
    }
    flat = np.reshape(draws["a"], (len(draws["a"]), -1))
    some = flat[:, :: max(1, flat.shape[1] // SOME)].T
    median = np.median([float(arviz.ess(np.ascontiguousarray(line)[None])) for line in some])
    told = {"method": name, "CPU s": seconds}
    told |= {f"{k}, ESS/s": min(found) / seconds for k, found in each.items() if k != "a"}
    told |= {"groups, least": min(each["a"]) / seconds, "median": float(median) / seconds}
    told["slowest"] = min(map(min, each.values())) / seconds
    print(f"{name}: {told['slowest']:.3g} ESS/s of the slowest", flush=True)
    return told | {f"mean {k}": float(np.mean(v)) for k, v in draws.items() if k != "a"}


def looked_at(flat: np.ndarray) -> np.ndarray:
    """Columns among which the slowest is: all, or of many those with the longest memory."""
    if flat.shape[1] <= SOME:
        return np.arange(flat.shape[1])
    found = [memory(flat[:, a : a + SOME]) for a in range(0, flat.shape[1], SOME)]
    return np.argsort(np.concatenate(found))[-SOME // 4 :]


def memory(flat: np.ndarray) -> np.ndarray:
    """The autocorrelation time of each column: pairs of lags up to the first that is negative."""
    count = len(flat)
    power = np.abs(np.fft.rfft(flat - flat.mean(0), 2 * count, axis=0)) ** 2
    along = np.fft.irfft(power, axis=0)[: count - count % 2]
    pairs = (along[0::2] + along[1::2]) / along[0]
    return 2.0 * np.where(np.cumsum(pairs < 0.0, axis=0) == 0, pairs, 0.0).sum(0) - 1.0


def of_intercepts(data, groups: int) -> tuple[sm.Model, list]:
    """A model of this package, and its kernels."""
    model = sm.Model(
        log_likelihood, data, {"a": np.zeros(groups), "slope": 0.0, "mu": 0.0, "tau": 1.0},
        log_prior, constraints={"tau": sm.positive}, touches={"a": "group"},
        site_prior={"a": of_intercept},
    )  # fmt: skip
    return model, [
        sm.Metropolis("a"), sm.Metropolis("slope", proposal=sm.pcn(), selector=sm.Exact()),
        sm.repeat(sm.Metropolis(("mu", "tau"), proposal=sm.pcn()), 5),
    ]  # fmt: skip


def of_rows(data, groups: int) -> tuple[sm.Model, list]:
    """The same of varying intercepts and slopes."""
    model = sm.Model(
        of_slopes, data, {"a": np.zeros((groups, 3)), "mu": np.zeros(3), "tau": np.ones(3)},
        prior_of_slopes, constraints={"tau": sm.positive}, touches={"a": "group"},
        site_prior={"a": of_group},
    )  # fmt: skip
    several = sm.repeat(sm.Metropolis(("mu", "tau"), proposal=sm.pcn()), 5)
    return model, [sm.Metropolis("a", selector=sm.Exact()), several]


def ours(made, draws: int, woven: bool) -> dict:
    """A row of this package; woven: all groups move with their mean and scale, too."""
    model, parts = made
    kernel = sm.cycle(*parts)
    if woven:
        kernel = kernel >> sm.interweave("a", location="mu", scale="tau")
    given = {"chains": 1, "seed": 1, "progress": False}
    sm.sample(model, kernel, draws=2, warmup=2, **given)
    begun = time.process_time()
    trace = sm.sample(model, kernel, draws=draws, warmup=draws // 2, **given)
    spent = time.process_time() - begun
    name = "ours, interwoven" if woven else "ours"
    return row(name, {k: np.asarray(trace.draws[k])[0] for k in model.names}, spent)


def from_fit(model: sm.Model, draws: int, thinned: bool) -> dict:
    """A row of this package, from a fit; thinned: by polynomials of each group."""
    begun = time.process_time()
    fit = sm.laplace(model, progress=False)
    fitted, seen = time.process_time() - begun, [n for n in model.names if n == "slope"]
    given = {"chains": 1, "seed": 1, "progress": False}
    given["start"] = [fit.start(np.random.default_rng(1))]
    if thinned:
        known = {"proposal": sm.pcn(fit), "control": sm.SiteTaylor(fit)}
        own = [sm.Metropolis("a", **known)]
        own += [sm.repeat(sm.Metropolis(name, **known), 5) for name in seen]
    else:
        own = [sm.Metropolis("a", proposal=sm.pcn(fit), selector=sm.Exact())]
        own += [sm.SurrogateTransition(name, fit) for name in seen]
    kernel = sm.cycle(*own, sm.SurrogateTransition(("mu", "tau"), fit))
    sm.sample(model, kernel, draws=2, warmup=2, **given)
    begun = time.process_time()
    trace = sm.sample(model, kernel, draws=draws, warmup=draws // 2, **given)
    spent = time.process_time() - begun
    found = {k: np.asarray(trace.draws[k])[0] for k in model.names}
    name = "ours, from a fit" + ", thinned" * thinned
    return row(name, found, spent) | {"fit, CPU s": fitted}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--slopes", action="store_true", help="varying intercepts and slopes")
    parser.add_argument("--peer-draws", type=int, default=200, help="of NUTS, after as many")
    parser.add_argument("--numpyro", help="a Python that has NumPyro: its NUTS, too")
    parser.add_argument("--nutpie", help="a Python that has PyMC and nutpie: their NUTS, too")
    given = parser.parse_args()
    print(f"{machine.processor()}, {machine.pin()}", flush=True)
    make, of, codes = simulated, of_intercepts, {"numpyro": NUTS, "nutpie": PYMC}
    names: tuple[str, ...] = ("mu", "tau", "slope", "a")
    if given.slopes:
        make, of, names = simulated_slopes, of_rows, ("mu", "tau", "a")
        codes = {"numpyro": NUTS_SLOPES, "nutpie": PYMC_SLOPES}
    data = make(given.rows, given.groups)
    found = [from_fit(of(data, given.groups)[0], given.draws, how) for how in (True, False)]
    found += [ours(of(data, given.groups), given.draws, woven) for woven in (False, True)]
    peers = [(by, how) for by in codes for how in ("centred", "not centred")]
    for by, how in [(by, how) for by, how in peers if getattr(given, by)]:
        numbers = (given.peer_draws, given.groups, int(how == "centred"))
        try:
            told = nuts(getattr(given, by), codes[by], data, names, *numbers, by=by)
            found.append(row(f"NUTS of {by}, {how}", *told))
        except RuntimeError as error:
            found.append({"method": f"NUTS of {by}, {how}: {error}"})
    nothing = dict.fromkeys(found[0], float("nan"))
    what = "logistic, intercepts and two slopes" if given.slopes else "Poisson, intercepts"
    title = f"{what}: {given.rows:,} rows, {given.groups:,} groups"
    print(table(title, [nothing | told for told in found]))


if __name__ == "__main__":
    main()
