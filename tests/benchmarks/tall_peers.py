"""Tall logistic regression with the tools of others: exact NUTS, HMCECS, SGLD and SGLD-CV.

    python -m tests.benchmarks.tall_peers --size 1e6 --d 10 20 --rivals nuts hmcecs sgld sgldcv

Simulated: logit p = x beta, x[:, 0] = 1, the rest standard normal, beta ~ N(0, 1/d); the prior of
every coefficient is N(0, 100). Rivals are set up in their favour: they start at the mode with the
Laplace covariance as mass matrix, Langevin batches are contiguous blocks in float32 (the rows are
in random order already), and no compilation is timed. NumPyro's kernels run in a scan of our own:
MCMC.run compiles anew at every call, which costs more than a thousand iterations of HMCECS.

CPU times of one thread. ESS: arviz's of one chain, the smallest over the coordinates, bulk and of
the sd (antithetic chains estimate means well, spreads badly), per second of sampling alone; warm-up
and set-up (Newton, copies, proxies, compilation) have their own columns. Errors are against exact
moments by importance sampling. JAX and the rivals are optional: pip install numpyro blackjax arviz
"""

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks import machine  # first: it limits the threads of numpy and the rivals

# isort: split
import numpy as np

from tests.benchmarks.report import table, without_nan

VARIANCE = 100.0  # of the prior
BATCH = 1000  # rows of a mini-batch, for everyone who has them
BLOCK = 10_000  # Langevin steps per call
clock = time.process_time


class Truth(NamedTuple):
    """The exact posterior, and how well it is known."""

    mode: np.ndarray
    covariance: np.ndarray  # Laplace's
    mean: np.ndarray
    sd: np.ndarray
    error_mean: float  # Monte Carlo standard errors, in posterior sds, the largest
    error_sd: float
    newton: float  # CPU seconds


def simulate(size: int, d: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Rows x, C-ordered, and y of 0.0 and 1.0."""
    rng = np.random.default_rng([seed, size, d])
    beta = rng.standard_normal(d) / np.sqrt(d)
    x = rng.standard_normal((size, d))
    x[:, 0] = 1.0
    return x, (rng.random(size) < 1.0 / (1.0 + np.exp(-(x @ beta)))).astype(float)


def laplace(x, y) -> tuple[np.ndarray, np.ndarray]:
    """The mode and the covariance of the Laplace approximation, by Newton."""
    mode = np.zeros(x.shape[1])
    for _ in range(50):
        gradient, hessian = -mode / VARIANCE, np.eye(len(mode)) / VARIANCE
        for lo in range(0, len(y), 8192):
            part = x[lo : lo + 8192]
            p = 1.0 / (1.0 + np.exp(-(part @ mode)))
            gradient += (y[lo : lo + 8192] - p) @ part
            hessian += (part * (p * (1.0 - p))[:, None]).T @ part
        move = np.linalg.solve(hessian, gradient)
        mode = mode + move
        if gradient @ move < 1e-12:  # in squared posterior sds
            return mode, np.linalg.inv(hessian)
    raise RuntimeError("Newton did not converge: are the classes separable?")


def reference(x, y) -> tuple[np.ndarray, np.ndarray]:
    """Mode and standard deviations of the Laplace approximation."""
    mode, covariance = laplace(x, y)
    return mode, np.sqrt(np.diag(covariance))


def log_posterior(x, y, points) -> np.ndarray:
    """Exact, up to a constant, at every row of `points`; blocks stay in the cache."""
    total = points @ (y @ x) - 0.5 * np.sum(points**2, axis=1) / VARIANCE
    for start in range(0, len(points), 64):
        some = np.ascontiguousarray(points[start : start + 64].T)
        for lo in range(0, len(y), 512):
            odds = np.exp(x[lo : lo + 512] @ some)
            total[start : start + 64] -= np.log(1.0 + odds).sum(axis=0)
    return total


def long_reference(
    x, y, draws: int = 1000, seed: int = 1, laplace=laplace, log_posterior=log_posterior
) -> Truth:
    """Importance sampling from the Laplace approximation, by antithetic pairs.

    The moments of the proposal are known, so only the weights' deviations from one cost precision:
    an independence sampler would need thousands of times the draws.
    """
    begun = clock()
    (mode, covariance), newton = laplace(x, y), clock() - begun
    half = np.random.default_rng(seed).standard_normal((draws // 2, len(mode)))
    z = np.concatenate([half, -half])
    away = z @ np.linalg.cholesky(covariance).T
    log_weight = log_posterior(x, y, mode + away) + 0.5 * np.sum(z**2, axis=1)
    weight = np.exp(log_weight - log_weight.max())
    ratio = weight / weight.mean()
    values = np.concatenate([away, away**2 - np.diag(covariance)], axis=1)
    each = (ratio - 1.0)[:, None] * values
    pairs = 0.5 * (each[: len(half)] + each[len(half) :])
    shift, wider = np.split(pairs.mean(axis=0), 2)
    shift_error, wider_error = np.split(pairs.std(axis=0) / np.sqrt(len(pairs)), 2)
    sd = np.sqrt(np.diag(covariance) + wider - shift**2)
    errors = float((shift_error / sd).max()), float((0.5 * wider_error / sd**2).max())
    return Truth(mode, covariance, mode + shift, sd, *errors, newton)


def run(begun, block, state, data, calls) -> tuple[np.ndarray, list[float]]:
    """Compile a block of steps, call it to warm up and to sample: draws, and when each ended."""
    import jax

    block = jax.jit(block).lower(state, data).compile()
    ends = [begun, clock()]
    for times in calls:
        chain = []
        for _ in range(times):
            state, made = block(state, data)
            chain.append(np.asarray(made, dtype=float))
        ends.append(clock())
    return np.concatenate(chain), ends


def row(rival, x, truth, chain, ends, note) -> dict:
    """A chain (draws x d) in numbers."""
    import arviz as az

    setup, warmup, spent = np.diff(ends).tolist()
    wide = chain.std(axis=0, ddof=1) / truth.sd
    if not wide.min() > 0.1:  # the ESS of a constant is the number of draws
        raise RuntimeError(f"{rival} has not moved: sd ratio {wide.min():.2g}")
    bulk = min(float(az.ess(line[None], method="bulk")) for line in chain.T)
    spread = min(float(az.ess(line[None], method="sd")) for line in chain.T)
    return {
        "rival": rival, "N": len(x), "d": x.shape[1], "ESS/s": bulk / spent,
        "ESS/s of the sd": spread / spent, "ms per draw": spent / len(chain) * 1e3,
        "draws": len(chain), "ESS": bulk, "warm-up s": warmup, "set-up s": setup + truth.newton,
        "mean error / sd": float(np.abs((chain.mean(axis=0) - truth.mean) / truth.sd).max()),
        "sd ratio, least": float(wide.min()), "most": float(wide.max()), "note": note,
    }  # fmt: skip


def logistic(x, y, subsample=None):
    """The model as NumPyro reads it."""
    import numpyro
    import numpyro.distributions as dist

    scale = np.full(x.shape[1], VARIANCE**0.5)
    beta = numpyro.sample("beta", dist.Normal(0.0, scale).to_event(1))
    with numpyro.plate("N", len(x), subsample_size=subsample):
        rows = numpyro.subsample(x, event_dim=1)
        seen = numpyro.subsample(y, event_dim=0)
        numpyro.sample("y", dist.Bernoulli(logits=rows @ beta), obs=seen)


def hamiltonian_chain(x, y, draws, warmup, seed, mode, covariance, inner, subsample):
    """(draws, and in a last column gradients; when parts ended): see `hamiltonian`."""
    import jax
    from numpyro.infer import HMC, HMCECS, NUTS, init_to_value

    mode, keywords = {"beta": mode}, {"subsample": subsample}
    known = {"init_strategy": init_to_value(values=mode), "inverse_mass_matrix": covariance}
    known |= {"dense_mass": True, "adapt_mass_matrix": False}
    kernel = NUTS(logistic, **known)
    if inner == "HMC":
        kernel = HMC(logistic, num_steps=3, trajectory_length=1.5, adapt_step_size=False, **known)
    if subsample:
        kernel = HMCECS(kernel, num_blocks=100, proxy=HMCECS.taylor_proxy(mode))

    def block(state, data):
        def step(state, _):
            state = kernel.sample(state, data, keywords)
            hmc = state.hmc_state if subsample else state
            return state, jax.numpy.append(hmc.z["beta"], hmc.num_steps)

        return jax.lax.scan(step, state, length=warmup)

    begun = clock()
    data = jax.numpy.asarray(x), jax.numpy.asarray(y)
    state = kernel.init(jax.random.PRNGKey(seed), warmup, None, data, keywords)
    return run(begun, block, state, data, (1, -(-draws // warmup)))


def hamiltonian(x, y, draws, warmup, seed=1, truth=None, inner="NUTS", subsample=None) -> dict:
    """NumPyro's NUTS or HMC on the exact likelihood, or inside HMCECS with a Taylor proxy.

    In float64: a sum of 1e6 terms in float32 is off by hundredths of a nat. NUTS adapts its step;
    HMC goes almost a quarter period in three, after which the next draw is a new one.
    """
    truth = truth or long_reference(x, y)
    chain, ends = hamiltonian_chain(
        x, y, draws, warmup, seed, truth.mode, truth.covariance, inner, subsample
    )
    name = f"NumPyro HMCECS, {inner} inside" if subsample else f"NumPyro {inner}, exact"
    note = f"{chain[:, -1].mean():.1f} gradients a draw"
    return row(name, x, truth, chain[:, :-1], ends, note)


def langevin(x, y, draws, share, control, seed=1, truth=None, batch=BATCH, kind="float32") -> dict:
    """BlackJAX's SGLD with steps of `share` posterior variances, after ten relaxation times."""
    import blackjax
    import jax
    import jax.numpy as jnp
    from blackjax.sgmcmc import gradients

    truth = truth or long_reference(x, y)
    step_size = share * float(np.mean(truth.sd**2))

    def log_factor(beta, datum):
        eta = datum[0] @ beta
        return datum[1] * eta - jax.nn.softplus(eta)

    def block(state, data):
        def step(beta, key):
            pick, noise = jax.random.split(key)
            lo = jax.random.randint(pick, (), 0, len(x) // batch, dtype=jnp.int32) * batch
            rows = tuple(jax.lax.dynamic_slice_in_dim(part, lo, batch) for part in data)
            return (sampler.step(noise, beta, rows, step_size),) * 2

        here, following = jax.random.split(state[1])
        beta, made = jax.lax.scan(step, state[0], jax.random.split(here, BLOCK))
        return (beta, following), made

    with jax.enable_x64(kind == "float64"):  # BlackJAX's noise is float64 wherever JAX has it
        begun = clock()
        data = jnp.asarray(x, kind), jnp.asarray(y, kind)
        beta = jnp.asarray(truth.mode, kind)
        gradient = gradients.grad_estimator(
            lambda beta: -0.5 * jnp.sum(beta**2) / VARIANCE, log_factor, len(x)
        )
        if control:
            gradient = gradients.control_variates(gradient, beta, data)
        sampler = blackjax.sgld(gradient)
        calls = -(-int(10.0 / share) // BLOCK), -(-draws // BLOCK)
        chain, ends = run(begun, block, (beta, jax.random.key(seed)), data, calls)
    name = f"BlackJAX SGLD{'-CV' if control else ''}, steps of {share} sd^2"
    return row(name, x, truth, chain, ends, f"step size {step_size:.2g}")


nuts = partial(hamiltonian, draws=240, warmup=60)
hmcecs = partial(hamiltonian, draws=4000, warmup=200, subsample=BATCH)
# Plain SGLD: at N = 1e6 the gradients add twice the noise of the dynamics at this step already.
sgld = partial(langevin, draws=400_000, share=0.004, control=False)
sgldcv = partial(langevin, draws=200_000, share=0.2, control=True)  # Euler's bias: sd (1 + .05)
RIVALS = {
    "nuts": (nuts, partial(nuts, inner="HMC")),
    "hmcecs": (hmcecs, partial(hmcecs, inner="HMC")),
    "sgld": (sgld,),
    "sgldcv": (sgldcv, partial(sgldcv, share=0.05)),
}


def measure(x, y, truth, names, seed=1, times=1.0) -> list[dict]:
    """One row per rival; who is not installed is named on stderr."""
    rows = []
    for name in names:
        try:
            for rival in RIVALS[name]:
                draws = max(1, int(rival.keywords["draws"] * times))
                rows.append(rival(x, y, draws=draws, seed=seed, truth=truth))
        except ImportError as error:
            print(f"{name}: {error}; pip install numpyro blackjax arviz", file=sys.stderr)
    return rows


def main(given=None) -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--size", type=lambda s: int(float(s)), default=10**6, help="N, such as 1e6")
    add("--d", type=int, nargs="+", default=[10, 20], help="coefficients")
    add("--rivals", nargs="+", choices=list(RIVALS), default=list(RIVALS))
    add("--draws", type=float, default=1.0, metavar="TIMES", help="times the usual draws")
    add("--seed", type=int, default=1)
    add("--json", type=Path, metavar="FILE")
    options = parser.parse_args(given)
    about = {"pinned": machine.pin(), "cpu": machine.processor(), "load": machine.load()}
    about |= {name: machine.version(name) for name in ("numpy", "jax", "numpyro", "blackjax")}
    print("\n".join(f"{name:10s}{value}" for name, value in about.items()), flush=True)
    saved = {"machine": about, "options": vars(options), "truth": {}, "rows": []}
    for d in options.d:
        x, y = simulate(options.size, d, options.seed)
        truth = long_reference(x, y)
        rows = measure(x, y, truth, options.rivals, options.seed, options.draws)
        known = f"means known to {truth.error_mean:.1g} posterior sds, sds to {truth.error_sd:.1g}"
        print(table(f"load {machine.load()}; {known}", rows), flush=True)
        saved["rows"] += rows
        saved["truth"][d] = {k: np.asarray(v).tolist() for k, v in truth._asdict().items()}
    if options.json:
        text = json.dumps(without_nan(saved), indent=1, default=str)
        options.json.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
