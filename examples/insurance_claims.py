"""From a data frame to a figure: claims with exposures, by a formula, names all the way.

    python examples/insurance_claims.py --out results/claims.png

A policy has claims in proportion to the time that it ran, by age and region. The formula makes the
model; draws, tables and predictions have the names of its terms; predictions say whether the model
makes such data, and what new policies will cost.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import subsample_mcmc as sm


def policies(size):
    """A portfolio: 0 to 2 years each, in three regions."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame(
        {"age": rng.uniform(18.0, 80.0, size), "years": rng.uniform(0.1, 2.0, size)}
    )
    frame["region"] = rng.choice(["coast", "plain", "town"], size, p=[0.2, 0.5, 0.3])
    rate = 0.1 * np.exp(-0.01 * (frame.age - 40.0) + 0.4 * (frame.region == "town"))
    return frame.assign(claims=rng.poisson(frame.years * rate))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer policies and draws")
    parser.add_argument("--out", type=Path, help="a folder, or a file, for the figure")
    given = parser.parse_args()
    frame = policies(20_000 if given.quick else 300_000)
    model = sm.models.glm.poisson(
        "claims ~ I((age - 40) / 10) + C(region)", frame, exposure="years"
    )
    trace = sm.sample(model, draws=500 if given.quick else 2_000, seed=1, progress=False)
    print(trace.summary()[["mean", "sd", "ess_bulk"]].round(4))

    asked = {"without a claim": lambda y: (y == 0).mean(), "most claims of one": np.max}
    said = sm.predict(model, trace, draws=100, statistics=asked, seed=2, progress=False)
    print(said.summary().round(4))
    new = pd.DataFrame({"age": [20.0, 60.0], "region": ["town", "coast"], "years": [1.0, 1.0]})
    claims = sm.predict(model, trace, data=new, seed=3, progress=False).dataset["y"]
    print("claims a year of two new policies:", claims.mean(("chain", "draw")).values.round(3))
    if given.out:
        path = given.out / "claims.png" if given.out.suffix == "" else given.out
        path.parent.mkdir(parents=True, exist_ok=True)
        said.plot()[0].figure.savefig(path)
        print(f"written: {path}")


if __name__ == "__main__":
    main()
