"""Ratings of hotels: what is liked, and how far it is from poor to fair, good and superb.

    python examples/analyses/ordered_ratings.py

A rating is ordered and no number. Ordered logistic regression finds where one level becomes the
next; draws, tables and predictions have the names of the levels.
"""

import numpy as np
import pandas as pd

import subsample_mcmc as sm

LEVELS = ["poor", "fair", "good", "superb"]


def ratings(size=200_000):
    """What guests said of hotels with 1 to 5 stars, more or less noisy, in two sites."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"stars": rng.integers(1, 6, size), "noise": rng.gamma(2.0, 0.5, size)})
    frame["site"] = rng.choice(["centre", "coast"], size, p=[0.7, 0.3])
    liked = 0.8 * (frame.stars - 3) - 0.5 * frame.noise + 0.6 * (frame.site == "coast")
    codes = np.digitize(liked + rng.logistic(size=size), [-2.0, -0.4, 1.5])
    return frame.assign(rating=pd.Categorical.from_codes(codes, LEVELS, ordered=True))


def analysis(frame, draws=2_000):
    model = sm.models.glm.ordered_logistic("rating ~ I(stars - 3) + noise + C(site)", frame)
    trace = sm.sample(model, draws=draws, seed=1)
    shares = {level: (lambda y, k=k: (y == k).mean()) for k, level in enumerate(LEVELS)}
    return model, trace, sm.predict(model, trace, draws=100, statistics=shares, seed=2)


if __name__ == "__main__":
    model, trace, said = analysis(ratings())
    for table in (trace.summary(), said.summary()):
        print(table.round(4).to_string(), end="\n\n")
    new = pd.DataFrame({"stars": [1, 5], "noise": [2.0, 0.2], "site": ["centre", "coast"]})
    guess = sm.predict(model, trace, data=new, seed=3).dataset["y"]
    print("P(superb) of two new hotels:", (guess == 3).mean(("chain", "draw")).values.round(3))
    said.plot()[0].figure.savefig("ordered_ratings.png")
