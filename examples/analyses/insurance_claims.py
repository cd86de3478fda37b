"""Claims of policies that ran for some time each, by a formula, and what new policies will cost.

    python examples/analyses/insurance_claims.py

A policy has claims in proportion to its exposure, by age and region. The formula makes the model;
draws, tables and predictions have the names of its terms.
"""

import numpy as np
import pandas as pd

import subsample_mcmc as sm


def policies(size=300_000):
    """A portfolio: 0 to 2 years each, in three regions."""
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"age": rng.uniform(18, 80, size), "years": rng.uniform(0.1, 2.0, size)})
    frame["region"] = rng.choice(["coast", "plain", "town"], size, p=[0.2, 0.5, 0.3])
    rate = 0.1 * np.exp(-0.01 * (frame.age - 40.0) + 0.4 * (frame.region == "town"))
    return frame.assign(claims=rng.poisson(frame.years * rate))


def analysis(frame, draws=2_000):
    formula = "claims ~ I((age - 40) / 10) + C(region)"
    model = sm.models.glm.poisson(formula, frame, exposure="years")
    trace = sm.sample(model, draws=draws, seed=1)
    asked = {"without a claim": lambda y: (y == 0).mean(), "most claims of one": np.max}
    return model, trace, sm.predict(model, trace, draws=100, statistics=asked, seed=2)


if __name__ == "__main__":
    model, trace, said = analysis(policies())
    for table in (trace.summary(), said.summary()):
        print(table.round(4).to_string(), end="\n\n")
    new = pd.DataFrame({"age": [20.0, 60.0], "region": ["town", "coast"], "years": [1.0, 1.0]})
    claims = sm.predict(model, trace, data=new, seed=3).dataset["y"]
    print("claims a year of two new policies:", claims.mean(("chain", "draw")).values.round(3))
    said.plot()[0].figure.savefig("insurance_claims.png")
