"""Ratings of hotels by a formula: cutpoints between poor, fair, good and superb, named all the way.

    python examples/ordered_ratings.py --out results/ratings.png

A guest's rating is ordered and no number: the step from poor to fair need not be that from good to
superb. Ordered logistic regression learns where these steps are. Draws, tables and predictions have
the names of the levels; the predictions of all ratings say whether the model makes such data.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import subsample_mcmc as sm

LEVELS = ["poor", "fair", "good", "superb"]
CUTS, SLOPES = np.array([-2.0, -0.4, 1.5]), {"stars": 0.8, "noise": -0.5, "coast": 0.6}


def ratings(size):
    """Guests, and what they said of hotels with 1 to 5 stars, more or less noisy, in two sites."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"stars": rng.integers(1, 6, size), "noise": rng.gamma(2.0, 0.5, size)})
    frame["site"] = rng.choice(["centre", "coast"], size, p=[0.7, 0.3])
    liked = SLOPES["stars"] * (frame.stars - 3) + SLOPES["noise"] * frame.noise
    liked += SLOPES["coast"] * (frame.site == "coast") + rng.logistic(size=size)
    codes = np.digitize(liked, CUTS)
    return frame.assign(rating=pd.Categorical.from_codes(codes, LEVELS, ordered=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer guests and draws")
    parser.add_argument("--out", type=Path, help="a folder, or a file, for the figure")
    given = parser.parse_args()
    frame = ratings(12_000 if given.quick else 200_000)
    model = sm.models.glm.ordered_logistic("rating ~ I(stars - 3) + noise + C(site)", frame)
    fit = sm.laplace(model, progress=False)
    kernel = sm.Metropolis(("beta", "cutpoints"), proposal=sm.pcn(fit), control=sm.Taylor(fit))
    trace = sm.sample(model, kernel, 500 if given.quick else 2_000, seed=1, progress=False)
    print(trace.summary()[["mean", "sd", "ess_bulk"]].round(4).to_string())
    print(trace)

    shares = {level: (lambda y, k=k: (y == k).mean()) for k, level in enumerate(LEVELS)}
    said = sm.predict(model, trace, draws=100, statistics=shares, seed=2, progress=False)
    print(said.summary().round(4).to_string())
    new = pd.DataFrame({"stars": [1, 5], "noise": [2.0, 0.2], "site": ["centre", "coast"]})
    guess = sm.predict(model, trace, data=new, seed=3, progress=False).dataset["y"]
    print("P(superb) of two new hotels:", (guess == 3).mean(("chain", "draw")).values.round(3))
    if given.out:
        path = given.out / "ratings.png" if given.out.suffix == "" else given.out
        path.parent.mkdir(parents=True, exist_ok=True)
        said.plot()[0].figure.savefig(path)
        print(f"written: {path}")


if __name__ == "__main__":
    main()
