"""How long machines run: Weibull regression of times, most of which are not known to the end.

    python examples/analyses/survival.py

Machines that still run when the study ends are censored on the right; of some it is known only
between which two inspections they failed.
"""

import numpy as np
import pandas as pd

import subsample_mcmc as sm


def machines(size=100_000):
    """Times in years by load and maker; the study ends after 5, and some are inspected yearly."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"load": rng.normal(size=size), "maker": rng.choice(["A", "B"], size)})
    scale = np.exp(1.4 - 0.4 * frame.load + 0.3 * (frame.maker == "B"))
    years = scale * rng.weibull(1.7, size)
    yearly = rng.random(size) < 0.3
    low, high = np.where(yearly, np.floor(years), years), np.where(yearly, np.ceil(years), years)
    seen = np.where(yearly, high, years) <= 5.0
    return frame.assign(years=np.where(seen, low, 5.0), latest=np.where(seen, high, np.inf))


def analysis(frame, draws=2_000):
    model = sm.models.glm.weibull("years ~ load + C(maker)", frame, upper="latest")
    trace = sm.sample(model, draws=draws, seed=1)
    asked = {"run for 5 years": lambda y: (y > 5.0).mean(), "median": np.median}
    return trace, sm.predict(model, trace, draws=100, statistics=asked, seed=2)


if __name__ == "__main__":
    frame = machines()
    trace, said = analysis(frame)
    print(trace.summary().round(4).to_string(), end="\n\n")
    print(said.summary()[["mean", "sd"]].round(4).to_string())
    print(f"ran for 5 years: {np.isinf(frame.latest).mean():.4f}")
    said.plot()[0].figure.savefig("survival.png")
