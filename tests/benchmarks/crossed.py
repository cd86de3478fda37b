"""Crossed effects beside NUTS and beside the collapsed Gibbs sampler that was made for them.

    python -m tests.benchmarks.crossed --data insteval.csv.gz [--seeds 5] [--numpyro PYTHON]

y = intercept + service x + s[student] + d[lecturer] + dept[department] + noise, the model of
examples/crossed.py. Effective draws a CPU second, warm-up included, and of NUTS the compiling.
Ours and the Gibbs sampler by turns, and medians over the seeds.
The Gibbs sampler is that of Papaspiliopoulos, Roberts and Zanella (2020): each kind of effect with
the intercept, which is drawn with these effects integrated out; service, and what the standard
deviations are, given all else. It serves normal models with normal effects, these alone.
"""

import argparse
import time

from tests.benchmarks import machine  # first: it limits the threads of numpy

# isort: split
import arviz
import numba
import numpy as np
import pandas as pd

import subsample_mcmc as sm
from examples.crossed import KINDS, TRUE, kernel_of, model_of, simulated
from tests.benchmarks.nuts import nuts
from tests.benchmarks.report import table

NUTS = """
y, service = jnp.asarray(found["y"]), jnp.asarray(found["service"])
codes = {k: jnp.asarray(found[k]) for k in ("s", "d", "dept")}
sizes = {k: int(v.max()) + 1 for k, v in codes.items()}
def model():
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 10.0))
    slope = numpyro.sample("service", dist.Normal(0.0, 1.0))
    sd_y, eta = numpyro.sample("sd_y", dist.HalfNormal(1.0)), intercept + slope * service
    for k, code in codes.items():
        sd = numpyro.sample("sd_" + k, dist.HalfNormal(1.0))
        z = numpyro.sample("z_" + k, dist.Normal(0.0, 1.0).expand([sizes[k]]))
        eta = eta + numpyro.deterministic(k, sd * z)[code]
    numpyro.sample("obs", dist.Normal(eta, sd_y), obs=y)
"""


@numba.njit
def scale_of(rng, sd, count, squares):
    """A standard deviation given so many effects and their squares: a half-normal(1) prior."""
    for _ in range(20):
        new = sd * np.exp(2.4 / np.sqrt(2.0 * count) * rng.standard_normal())
        gain = -(count - 1.0) * np.log(new / sd)  # the walk is of the log
        gain -= 0.5 * squares * (new**-2.0 - sd**-2.0) + 0.5 * (new * new - sd * sd)
        if np.log(rng.random()) < gain:
            sd = new
    return sd


@numba.njit
def collapsed(y, service, codes, sizes, draws, rng, kept, effects):
    """Rows of kept: intercept, service, sd_y and the others'; of effects: all of them."""
    n, kinds = len(y), len(sizes)
    starts = np.zeros(kinds + 1, np.int64)
    starts[1:] = np.cumsum(sizes)
    a, sds, left = np.zeros(starts[-1]), np.ones(kinds), y.copy()  # left: y less all that is known
    intercept, slope, sd_y = 0.0, 0.0, 1.0
    counts, totals = np.zeros(starts[-1]), np.zeros(starts[-1])
    for k in range(kinds):
        for i in range(n):
            counts[starts[k] + codes[k, i]] += 1.0
    squares = (service * service).sum()
    for draw in range(-draws // 2, draws):
        for k in range(kinds):
            first, last = starts[k], starts[k + 1]
            totals[first:last] = 0.0
            for i in range(n):
                g = first + codes[k, i]
                totals[g] += left[i] + a[g] + intercept
            error, spread = sd_y**2, sds[k] ** 2
            weight, along = 0.01, 0.0  # of the intercept: its prior is N(0, 10^2)
            for g in range(first, last):
                if counts[g] > 0.0:
                    part = 1.0 / (spread + error / counts[g])
                    weight += part
                    along += part * totals[g] / counts[g]
            new = along / weight + rng.standard_normal() / np.sqrt(weight)
            moved = np.zeros(last - first)
            for g in range(first, last):
                precise = counts[g] / error + 1.0 / spread
                value = (totals[g] - counts[g] * new) / error / precise
                value += rng.standard_normal() / np.sqrt(precise)
                moved[g - first] = value - a[g]
                a[g] = value
            for i in range(n):
                left[i] -= moved[codes[k, i]] + new - intercept
            intercept = new
            sds[k] = scale_of(rng, sds[k], last - first, (a[first:last] ** 2).sum())
        along = 0.0
        for i in range(n):
            along += service[i] * (left[i] + slope * service[i])
        precise = squares / sd_y**2 + 1.0
        new = along / sd_y**2 / precise + rng.standard_normal() / np.sqrt(precise)
        for i in range(n):
            left[i] -= (new - slope) * service[i]
        slope = new
        sd_y = scale_of(rng, sd_y, n, (left * left).sum())
        if draw >= 0:
            kept[draw, 0], kept[draw, 1], kept[draw, 2] = intercept, slope, sd_y
            kept[draw, 3:], effects[draw] = sds, a


def row(name: str, draws: dict[str, np.ndarray], seconds: float) -> dict:
    """Effective draws a second of each quantity, and of the slowest effect of each kind."""
    each = {
        k: min(float(arviz.ess(np.ascontiguousarray(line)[None])) for line in flat.T) / seconds
        for k, flat in ((k, np.reshape(v, (len(v), -1))) for k, v in draws.items())
    }
    told = {"method": name, "CPU s": seconds} | {f"{k}, ESS/s": v for k, v in each.items()}
    told["slowest"] = min(each.values())
    return told | {f"mean {k}": float(np.mean(draws[k])) for k in TRUE}


def ours(data: pd.DataFrame, draws: int, seed: int) -> dict:
    """A row of this package."""
    model = model_of(data)
    kernel = kernel_of(model)
    given = {"chains": 1, "seed": seed, "progress": False}
    sm.sample(model, kernel, draws=2, warmup=2, **given)
    begun = time.process_time()
    trace = sm.sample(model, kernel, draws=draws, warmup=draws // 2, **given)
    spent = time.process_time() - begun
    found = {k: np.asarray(trace.draws[k])[0] for k in (*TRUE, *KINDS)}
    return row("ours", found, spent)


def gibbs(arrays: dict[str, np.ndarray], draws: int, seed: int) -> dict:
    """A row of the collapsed Gibbs sampler."""
    codes = np.stack([arrays[k] for k in KINDS])
    sizes = codes.max(axis=1) + 1
    for many in (4, draws):  # the first compiles
        kept, effects = np.zeros((many, 6)), np.zeros((many, sizes.sum()))
        begun = time.process_time()
        rng = np.random.default_rng(seed)
        collapsed(arrays["y"], arrays["service"], codes, sizes, many, rng, kept, effects)
        spent = time.process_time() - begun
    names = ("intercept", "service", "sd_y", *(f"sd_{k}" for k in KINDS))
    draws_of = dict(zip(names, kept.T, strict=True))
    parts = np.split(effects, np.cumsum(sizes)[:-1], axis=1)
    return row("collapsed Gibbs", draws_of | dict(zip(KINDS, parts, strict=True)), spent)


def medians(rows: list[dict]) -> dict:
    """Of each number over the seeds."""
    first = rows[0]
    return {k: v if k == "method" else float(np.median([r[k] for r in rows]))
            for k, v in first.items()}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="a table with columns y, service, s, d, dept")
    parser.add_argument("--draws", type=int, default=2_000)
    parser.add_argument("--gibbs-draws", type=int, default=8_000, help="of the Gibbs sampler")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--peer-draws", type=int, default=300, help="of NUTS, after as many")
    parser.add_argument("--numpyro", default="", help="a Python that has NumPyro: NUTS, too")
    given = parser.parse_args()
    print(f"{machine.processor()}, {machine.pin()}", flush=True)
    data = pd.read_csv(given.data) if given.data else simulated(3_000, 1_100, 14, 70_000)
    arrays = {k: data[k].to_numpy(float) for k in ("y", "service")}
    arrays |= {k: np.unique(data[k], return_inverse=True)[1] for k in KINDS}
    pairs: list[list[dict]] = [[], []]
    for seed in range(1, given.seeds + 1):
        pairs[0].append(ours(data, given.draws, seed))
        pairs[1].append(gibbs(arrays, given.gibbs_draws, seed))
        ratio = pairs[0][-1]["slowest"] / pairs[1][-1]["slowest"]
        told = (f"{rows[-1]['slowest']:.3g}" for rows in pairs)
        print(f"seed {seed}: slowest {' and '.join(told)}, ratio {ratio:.3g}", flush=True)
    found = [medians(rows) for rows in pairs]
    print(table("so far", found), flush=True)
    if given.numpyro:
        try:
            told = nuts(given.numpyro, NUTS, arrays, (*TRUE, *KINDS), given.peer_draws)
            found.append(row("NUTS, not centred", *told))
        except RuntimeError as error:
            found.append({"method": f"NUTS: {error}"})
    nothing = dict.fromkeys(found[0], float("nan"))
    print(table(f"crossed effects: {len(data):,} rows", [nothing | told for told in found]))


if __name__ == "__main__":
    main()
