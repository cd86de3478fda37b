"""How long machines run: Weibull regression of times, most of which are not known to the end.

    python examples/survival.py --out results/survival.png

Machines that still run when the study ends are censored on the right; of some it is known only
between which two inspections they failed. The posterior is compared with the optimum that
scipy.optimize finds of the same likelihood, written by hand.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import optimize

import subsample_mcmc as sm


def machines(size):
    """Times in years by load and maker; the study ends after 5, and some are inspected yearly."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"load": rng.normal(size=size), "maker": rng.choice(["A", "B"], size)})
    scale = np.exp(1.4 - 0.4 * frame.load + 0.3 * (frame.maker == "B"))
    years = scale * rng.weibull(1.7, size)
    yearly = rng.random(size) < 0.3
    low, high = np.where(yearly, np.floor(years), years), np.where(yearly, np.ceil(years), years)
    seen = np.where(yearly, high, years) <= 5.0
    return frame.assign(years=np.where(seen, low, 5.0), latest=np.where(seen, high, np.inf))


def by_hand(frame, prior_sd=10.0):
    """The mode of the log posterior by scipy: log S(y) - log S(latest), or the log density."""
    x = np.column_stack([np.ones(len(frame)), frame.load, frame.maker == "B"])
    y, late = frame.years.to_numpy(), frame.latest.to_numpy()

    def minus(u):
        shape, scale = np.exp(u[3]), np.exp(x @ u[:3])
        with np.errstate(all="ignore"):
            first, last = (y / scale) ** shape, (late / scale) ** shape
            known = u[3] + shape * np.log(y / scale) - np.log(y) - first
            between = np.log(np.exp(-first) - np.exp(-last))
        prior = u[:3] @ u[:3] / prior_sd**2 + u[3] ** 2 / 4.0
        return 0.5 * prior - np.where(y == late, known, between).sum()

    options = {"xatol": 1e-6, "fatol": 1e-6, "maxiter": 4_000}
    start = np.array([1.0, 0.0, 0.0, 0.0])
    return optimize.minimize(minus, start, method="Nelder-Mead", options=options).x


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer machines and draws")
    parser.add_argument("--out", type=Path, help="a folder, or a file, for the figure")
    given = parser.parse_args()
    frame = machines(12_000 if given.quick else 100_000)
    model = sm.models.glm.weibull("years ~ load + C(maker)", frame, upper="latest")
    fit = sm.laplace(model, progress=False)
    kernel = sm.Metropolis(("beta", "log_shape"), proposal=sm.pcn(fit), control=sm.Taylor(fit))
    trace = sm.sample(model, kernel, 500 if given.quick else 2_000, seed=1, progress=False)
    table = trace.summary()[["mean", "sd", "ess_bulk"]].assign(scipy=by_hand(frame))
    print(table.round(4).to_string())
    print(trace)

    known = frame[np.isfinite(frame.latest) & (frame.years == frame.latest)]
    print(f"{len(known):,} of {len(frame):,} times are known")
    asked = {"run for 5 years": lambda y: (y > 5.0).mean(), "median": np.median}
    said = sm.predict(model, trace, draws=100, statistics=asked, seed=2, progress=False)
    print(said.summary()[["mean", "sd"]].round(4).to_string())
    print(f"ran for 5 years: {np.isinf(frame.latest).mean():.4f}")
    if given.out:
        path = given.out / "survival.png" if given.out.suffix == "" else given.out
        path.parent.mkdir(parents=True, exist_ok=True)
        said.plot()[0].figure.savefig(path)
        print(f"written: {path}")


if __name__ == "__main__":
    main()
