"""Labels of texts by their words: which of four desks a message belongs to.

    python examples/analyses/text_labels.py

A table has a row for each message, with how often each of ten words occurs in it. The model is a
multinomial regression; its coefficients have the names of desks and words.
"""

import numpy as np
import pandas as pd

import subsample_mcmc as sm

WORDS = ["invoice", "refund", "crash", "login", "slow", "price", "team", "api", "thanks", "when"]
DESKS = ["billing", "bugs", "sales", "support"]


def messages(size=50_000):
    """Messages whose desk was known."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.poisson(0.5, (size, len(WORDS))), columns=WORDS, dtype=float)
    beta = rng.normal(0.0, 0.7, (len(WORDS), len(DESKS)))
    score = frame.to_numpy() @ beta + rng.gumbel(size=(size, len(DESKS)))
    return frame.assign(desk=np.take(DESKS, score.argmax(axis=1)))


def analysis(frame, draws=1_000):
    model = sm.models.glm.softmax(f"desk ~ {' + '.join(WORDS)}", frame)
    trace = sm.sample(model, draws=draws, seed=1)
    asked = {desk: lambda y, k=k: np.sum(y == k) for k, desk in enumerate(DESKS)}
    return trace, sm.predict(model, trace, draws=100, statistics=asked, seed=2)


if __name__ == "__main__":
    trace, said = analysis(messages())
    print(trace.posterior["beta"].mean(("chain", "draw")).to_pandas().round(2))
    print(said.summary().round(3).to_string())
    said.plot()[0].figure.savefig("text_labels.png")
