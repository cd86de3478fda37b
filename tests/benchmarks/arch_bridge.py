"""p(q | data) of Student-t ARCH(q) models by bridge sampling: a reference for the sampler.

    python -m tests.benchmarks.arch_bridge --data bars.csv.gz --json reference.json
    python -m tests.benchmarks.arch_bridge --returns returns.npy --orders 5 10

r_t = sigma_t z_t, z_t standard Student-t with nu degrees of freedom, sigma_t^2 = a_0 + sum_i a_i
r_{t-i}^2, i = 1..q; a_0..a_q and nu independent Exp(1), q uniform over the orders. Every order's
likelihood starts at the same t. Nothing here comes from the package.

Evidence: the optimal bridge as in Gronau et al. (2017): the first half of a chain fits a normal
proposal, the second half is used. Errors are those of independent replicates: own start, pilots,
chain and proposal. Importance sampling from a Student-t stands beside it.

All parameters move as w = sqrt(a) > 0, with prior density 2 w exp(-w^2): the target vanishes
smoothly as a_i -> 0, where in log a it has a long left tail, and it is closer to normal than in
a^(1/3). Normal proposals put some mass at w <= 0, where the target is zero; such points count as
draws of the proposal with ratio 0, as bridge and importance sampling ask: nothing is truncated.
"""

import argparse
import json
import math
from pathlib import Path

import numpy as np
from numba import njit
from scipy import linalg, optimize, stats
from scipy.special import logsumexp

DATA = "shared/data/nifty50_intraday/nifty50_5min_2013-01_2016-09.csv.gz"
ORDERS = (5, 10, 15, 20, 25, 30)
CHUNK, FOLD = 512, 8  # one logarithm of a product of eight factors, each within 1e-38 .. 1e38
INFLATE = 1.1  # of fitted covariances, where the proposal's tails should cover the target's
TAIL = 12.0  # degrees of freedom of the importance proposal
EVIDENCES = (
    "{q:2d} {log_evidence:13.4f} {se:.4f} {importance[log_evidence]:11.4f} {importance[se]:.4f}"
    " {importance[share]:6.3f} {log_p:9.4f} {log_p_se:.4f} {p:9.3e} {p_se:.1e}"
)
MEANS = (
    "{q:2d} {nu[mean]:8.4f} {nu[mcse]:.4f} {nu[sd]:.4f} {sum_a[mean]:8.5f} {sum_a[mcse]:.5f}"
    " {sum_a[sd]:.5f} {rhat:6.4f} {ess:6.0f}"
)


# ----------------------------------------------------------------------------------- the target
@njit(fastmath={"contract"})
def log_likelihood(theta, r2, r, q, first):
    """Log density of r[first:] given what is before; theta = (a_0, ..., a_q, nu), r2 = r * r."""
    nu, part = theta[q + 1], CHUNK // FOLD
    h, g = np.empty(CHUNK), np.empty(CHUNK)
    log_h = log_g = 0.0
    for begin in range(first, r.size, CHUNK):
        m = min(CHUNK, r.size - begin)
        h[:] = theta[0]
        for i in range(1, q + 1):
            a, lagged = theta[i], r2[begin - i : begin - i + m]
            for j in range(m):
                h[j] += a * lagged[j]
        g[:m] = nu * h[:m] + r[begin : begin + m] ** 2
        if m == CHUNK:
            for k in range(1, FOLD):
                for j in range(part):
                    h[j] *= h[k * part + j]
                    g[j] *= g[k * part + j]
            m = part
        log_h += np.log(h[:m]).sum()
        log_g += np.log(g[:m]).sum()
    each = math.lgamma(0.5 * nu + 0.5) - math.lgamma(0.5 * nu) - 0.5 * math.log(math.pi)
    each += 0.5 * nu * math.log(nu)
    return (r.size - first) * each + 0.5 * nu * log_h - 0.5 * (nu + 1.0) * log_g


@njit
def log_target(w, r2, r, q, first):
    """Log of likelihood x prior x Jacobian in w = sqrt(a), every constant included."""
    if w.min() <= 0.0:
        return -np.inf
    return np.log(2.0 * w).sum() - w @ w + log_likelihood(w * w, r2, r, q, first)


# -------------------------------------------------------------------------------------- chains
@njit
def walk(z, centre, root, steps, r2, r, q, first, rng):
    """A Metropolis chain from w = centre + root z: autoregressive steps, and random walks.

    z -> rho z + sqrt(1 - rho^2) noise leaves the normal law invariant, so that only target /
    normal decides; rho is uniform, near 0 this is an independence proposal. Every fifth step,
    on average, walks: it frees the chain where the normal's tails are light.
    """
    kept = np.empty((steps, z.size))
    w = centre + root @ z
    here = log_target(w, r2, r, q, first)
    for step in range(steps):
        normal = rng.random() < 0.8
        rho = rng.random() if normal else 1.0
        scale = math.sqrt(1.0 - rho * rho) if normal else 2.38 / math.sqrt(z.size)
        new_z = rho * z + scale * rng.standard_normal(z.size)
        new = centre + root @ new_z
        there = log_target(new, r2, r, q, first)
        gain = there - here + (0.5 * (new_z @ new_z - z @ z) if normal else 0.0)
        if math.log(1.0 - rng.random()) < gain:  # from a start at w <= 0 any w > 0 is a gain
            z, w, here = new_z, new, there
        kept[step] = w
    return kept


def laplace(*data):
    """Mode and covariance in w; differences suffice, for the result is only a first proposal."""
    d = data[2] + 2  # the order and two
    start = np.sqrt(np.r_[0.5, np.full(d - 2, 0.5 / max(d - 2, 1)), 4.0])
    mode = optimize.minimize(lambda w: -log_target(w, *data), start, bounds=[(1e-3, None)] * d).x
    eye, hessian = 1e-3 * np.eye(d), np.empty((d, d))
    for i, j in zip(*np.tril_indices(d), strict=True):
        steps = (eye[i] - eye[j], eye[j] - eye[i], eye[i] + eye[j], -eye[i] - eye[j])
        found = [log_target(mode + step, *data) for step in steps]
        hessian[i, j] = hessian[j, i] = (found[0] + found[1] - found[2] - found[3]) / 4e-6
    values, vectors = np.linalg.eigh(hessian)
    return mode, (vectors / np.maximum(values, 1e-3 * values.max())) @ vectors.T


def chain(mode, covariance, draws, data, rng):
    """Draws of one replicate, from its own dispersed start and after its own two pilot runs."""
    centre, root = mode, np.linalg.cholesky(covariance)
    z = 1.5 * rng.standard_normal(mode.size)
    for _ in range(2):
        pilot = walk(z, centre, root, draws // 2, *data, rng)[draws // 8 :]
        centre, root = pilot.mean(axis=0), np.linalg.cholesky(INFLATE * np.cov(pilot.T))
        z = linalg.solve_triangular(root, pilot[-1] - centre, lower=True)
    return walk(z, centre, root, draws, *data, rng)


def effective(draws):
    """ESS of each column, by Geyer's initial monotone sequence of pair sums."""
    n, d = len(draws) // 2 * 2, draws.shape[1]
    spectrum = np.fft.rfft(draws - draws.mean(axis=0), 2 * n, axis=0)
    rho = np.fft.irfft(np.abs(spectrum) ** 2, axis=0)[:n]
    pairs = (rho / rho[0]).reshape(-1, 2, d).sum(axis=1)
    alive = np.minimum.accumulate(pairs, axis=0) * np.cumprod(pairs > 0, axis=0)
    return n / np.maximum(2.0 * alive.sum(axis=0) - 1.0, 1.0 / n)


def split_rhat(chains):
    """R-hat of each parameter; chains: replicate x step x parameter, each cut in two."""
    n = chains.shape[1] // 2
    halves = np.concatenate([chains[:, :n], chains[:, -n:]])
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    return np.sqrt((n - 1) / n + halves.mean(axis=1).var(axis=0, ddof=1) / within)


# ------------------------------------------------------------------------------------- evidence
def log_ratios(points, law, data):
    return np.array([log_target(w, *data) for w in points]) - law.logpdf(points)


def bridge(draws, data, rng):
    """Log evidence by the optimal bridge; ESS, not the chain's length, weighs the chain."""
    fit, used = np.split(draws[: len(draws) // 2 * 2], 2)
    law = stats.multivariate_normal(fit.mean(axis=0), np.cov(fit.T), seed=rng)
    l1, l2 = log_ratios(used, law, data), log_ratios(law.rvs(2 * len(used)), law, data)
    ess = np.median(effective(used))
    log_s1, log_s2 = np.log(np.array([ess, l2.size]) / (ess + l2.size))

    def update(log_r):
        top = logsumexp(l2 - np.logaddexp(log_s1 + l2, log_s2 + log_r)) - math.log(l2.size)
        bottom = logsumexp(-np.logaddexp(log_s1 + l1, log_s2 + log_r)) - math.log(l1.size)
        return top - bottom

    return float(optimize.fixed_point(update, np.median(l1), xtol=1e-12, maxiter=1000))


def importance(draws, count, data, rng):
    """Log evidence, its error and ESS share: importance sampling from a Student-t in w."""
    shape = INFLATE * (TAIL - 2) / TAIL * np.cov(draws.T)
    law = stats.multivariate_t(draws.mean(axis=0), shape, TAIL, seed=rng)
    logs = log_ratios(law.rvs(count), law, data)
    weights = np.exp(logs - logs.max())
    share = float(weights.sum() ** 2 / (weights @ weights) / count)
    log_evidence = float(logs.max() + math.log(weights.mean()))
    return {"log_evidence": log_evidence, "se": ((1 / share - 1) / count) ** 0.5, "share": share}


def summary(values):
    """Mean, its error from the replicates and sd; values: replicate x step."""
    mcse = float(stats.sem(values.mean(axis=1)))
    return {"mean": float(values.mean()), "mcse": mcse, "sd": float(values.std())}


def evidence(r, q, first, replicates=8, draws=16_000, seed=1):
    """Log evidence, its error, and {"nu", "sum_a": means with errors, and how it went}."""
    if not q <= first < r.size:
        raise ValueError(f"order {q} cannot start at t = {first} of {r.size}")
    r = np.ascontiguousarray(r, dtype=float)
    data = (r * r, r, q, first)
    mode, covariance = laplace(*data)
    logs, chains = [], []
    for replicate in range(replicates):
        rng = np.random.default_rng((seed, q, replicate))
        chains.append(chain(mode, covariance, draws, data, rng))
        logs.append(bridge(chains[-1], data, rng))
    a = np.array(chains) ** 2
    more = {
        "nu": summary(a[:, :, -1]),
        "sum_a": summary(a[:, :, 1:-1].sum(axis=2)),
        "importance": importance(np.concatenate(chains), 4 * draws, data, rng),
        "replicates": logs,
        "rhat": float(split_rhat(np.sqrt(a)).max()),
        "ess": float(sum(effective(kept) for kept in chains).min()),
    }
    return float(np.mean(logs)), float(stats.sem(logs)), more


def posterior(found):
    """Adds p(q | data) and errors by the delta method; the orders' errors are independent."""
    logs, errors = (np.array([f[name] for f in found]) for name in ("log_evidence", "se"))
    log_p = logs - logsumexp(logs)
    for f, lp, slope in zip(found, log_p, np.eye(len(logs)) - np.exp(log_p), strict=True):
        se = float(np.sqrt(slope**2 @ errors**2))
        f |= {"log_p": float(lp), "log_p_se": se, "p": math.exp(lp), "p_se": math.exp(lp) * se}


# ---------------------------------------------------------------------------- checks and the run
def check_likelihood():
    """The compiled likelihood is scipy's, whole chunks, rests and lags included."""
    rng = np.random.default_rng(1)
    for n, q, first in ((40, 0, 3), (700, 3, 3), (1100, 7, 30), (30 + 2 * CHUNK, 30, 30)):
        r = rng.standard_t(3, n)
        theta = np.r_[rng.exponential(size=q + 1), rng.exponential() + 0.1]
        h = theta[0] + sum(theta[i] * r[first - i : n - i] ** 2 for i in range(1, q + 1))
        known = stats.t.logpdf(r[first:], theta[-1], scale=np.sqrt(h)).sum()
        found = log_likelihood(theta, r * r, r, q, first)
        assert math.isclose(found, known, rel_tol=1e-10), (n, q, found, known)


def check_evidence():
    """Bridge against quadrature, ARCH(1): it knows neither w nor the Jacobian (a = -log u)."""
    r = np.random.default_rng(2).standard_t(4, 60)
    nodes, weights = np.polynomial.legendre.leggauss(64)
    x, weights = -np.log(0.5 * nodes + 0.5), 0.5 * weights
    points = np.stack(np.meshgrid(x, x, x, indexing="ij"), axis=-1).reshape(-1, 3)
    logs = [log_likelihood(theta, r * r, r, 1, 1) for theta in points]
    known = logsumexp(logs, b=np.kron(weights, np.kron(weights, weights)))
    found, se, _ = evidence(r, 1, 1, draws=8000)
    assert abs(found - known) < 5 * se + 1e-3, (found, se, known)
    return f"ARCH(1), 60 returns: bridge {found:.4f} +- {se:.4f}, quadrature {known:.4f}"


def returns(path, year):
    """Within-day log returns of the bars, standardised; 0 takes all years."""
    import pandas as pd

    bars = pd.read_csv(path, parse_dates=["datetime"])
    bars = bars[bars["datetime"].dt.year == year] if year else bars
    r = np.log(bars["close"]).groupby(bars["datetime"].dt.date).diff().dropna().to_numpy()
    return (r - r.mean()) / r.std()


def show(found):
    """The table, and under it what would make a row untrustworthy."""
    print(" q  log evidence     se  importance     se  share  log p(q)     se      p(q)      se")
    print(*(EVIDENCES.format(**f) for f in found), sep="\n")
    print(" q       nu   mcse     sd    sum a    mcse      sd  R-hat    ESS")
    print(*(MEANS.format(**f) for f in found), sep="\n")
    for f in found:
        i = f["importance"]
        apart = abs(f["log_evidence"] - i["log_evidence"]) / math.hypot(f["se"], i["se"])
        if f["rhat"] > 1.01 or f["ess"] < 1000 or f["se"] > 0.03 or apart > 3.5:
            print(f"DOUBTFUL: q = {f['q']}; bridge and importance {apart:.1f} errors apart")


def main(given=None):
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.arch_bridge")
    add = parser.add_argument
    add("--data", type=Path, default=Path(__file__).resolve().parents[3] / DATA, help="5-min bars")
    add("--year", type=int, default=2016, help="0: all")
    add("--returns", type=Path, help="a .npy file of prepared returns, instead of --data")
    add("--orders", type=int, nargs="+", default=list(ORDERS))
    for name, value in (("first", max(ORDERS)), ("replicates", 8), ("draws", 16_000), ("seed", 1)):
        add(f"--{name}", type=int, default=value)
    add("--json", type=Path, metavar="FILE")
    options = parser.parse_args(given)
    source = options.returns or options.data
    if not source.exists():
        parser.error(f"no file {source}: name one with --data or --returns")
    r = np.load(source) if options.returns else returns(source, options.year)
    check_likelihood()
    print(f"{check_evidence()}\n{r.size} returns from t = {options.first}", flush=True)
    sizes = {name: getattr(options, name) for name in ("first", "replicates", "draws", "seed")}
    found = []
    for q in options.orders:
        log_evidence, se, more = evidence(r, q, **sizes)
        found.append({"q": q, "log_evidence": log_evidence, "se": se, **more})
        print(f"  q = {q}: log evidence {log_evidence:.4f} +- {se:.4f}", flush=True)
    posterior(found)
    show(found)
    if options.json:
        options.json.write_text(json.dumps({"n": r.size, **sizes, "orders": found}, indent=1))


if __name__ == "__main__":
    main()
