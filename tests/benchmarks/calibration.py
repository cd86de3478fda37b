"""Are draws of sm.sample(model) those of the posterior: simulation-based calibration.

    python -m tests.benchmarks.calibration [--repeats 100] [--seed 0] [--only TEXT ...]

Parameters are drawn from a model's prior, data from these, and the model is sampled as it is, with
the kernel that is chosen for it. The rank of what was drawn among the draws is then uniform, of
each quantity, whatever the posterior looks like: of each Kolmogorov and Smirnov's p, and a
chi-squared test's of ten bins. Of a hundred such tests the least p is some .01. Beside it how often
the report said that the chains had converged: what it called "no" counts as well.

The models are in calibration_models.py, of few data, and in calibration_tall.py, of some hundred to
thirty thousand rows, of which decisions read some: --only tall.
"""

import argparse
import collections
import warnings

import numpy as np
from scipy import stats

import subsample_mcmc as sm
from tests.benchmarks import calibration_models
from tests.benchmarks.calibration_tall import TALL
from tests.benchmarks.report import table

MODELS = calibration_models.MODELS | TALL

DRAWS, BINS = 400, 10
VERDICTS = ("yes", "nearly", "no", "not known")


def verdict_of(trace) -> str:
    """The first word of what the report says of convergence."""
    told = str(trace.report()).split("Converged")[1].lstrip()
    return next(word for word in ("not known", "yes", "nearly", "no") if told.startswith(word))


def ranks_of(trace, truth, rng) -> dict[str, float]:
    """By quantity, the share of draws below what was drawn; of equal ones, a part at random."""
    found = {}
    for name, values in truth.items():
        draws = trace.draws[name].reshape(-1, *np.shape(trace.draws[name])[2:])
        draws = draws.reshape(len(draws), -1)
        for i, value in enumerate(values.ravel()):
            same = np.mean(draws[:, i] == value)
            found[f"{name}[{i}]"] = np.mean(draws[:, i] < value) + same * rng.random()
    return found


def calibrated(name: str, repeats: int, seed: int) -> tuple[str, list[dict]]:
    """(what reports said, rows of the table) of one model."""
    ranks, verdicts = collections.defaultdict(list), collections.Counter()
    for k in range(repeats):
        rng = np.random.default_rng([seed, k, *name.encode()])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model, truth = MODELS[name](rng)
            trace = sm.sample(model, draws=DRAWS, seed=k, progress=False)
        verdicts[verdict_of(trace)] += 1
        for quantity, rank in ranks_of(trace, truth, rng).items():
            ranks[quantity].append(rank)
    said = ", ".join(f"{word} {verdicts[word]}" for word in VERDICTS if verdicts[word])
    rows = []
    for quantity, found in ranks.items():
        bins = np.histogram(found, BINS, (0.0, 1.0))[0]
        rows.append({
            "quantity": quantity, "KS": float(stats.kstest(found, "uniform").pvalue),
            "chi2": float(stats.chisquare(bins).pvalue), "ranks": " ".join(map(str, bins)),
        })  # fmt: skip
    return said, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[])
    given = parser.parse_args()
    chosen = [n for n in MODELS if not given.only or any(text in n for text in given.only)]
    for name in chosen:
        said, rows = calibrated(name, given.repeats, given.seed)
        print(table(f"{name} (converged: {said})", rows), flush=True)


if __name__ == "__main__":
    main()
