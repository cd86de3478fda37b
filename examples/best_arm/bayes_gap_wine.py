"""Which of 160 regression models is best, for the price of ten fits: section 6.2 of Hoffman et al.

    python examples/best_arm/bayes_gap_wine.py            10 runs, 10 splits; a few minutes
    python examples/best_arm/bayes_gap_wine.py --quick    2 runs, 2 splits, small forests
    python examples/best_arm/bayes_gap_wine.py --full     100 runs, 100 splits: half an hour or more

An arm is a model of scikit-learn with its parameters, a pull trains it on a tenth of the wines and
tests it on another tenth; the reward is minus the RMSE. T = 10 or 40 pulls, far fewer than arms: a
kernel exp(-(x - x')^2) within a class of models, 0 across, lets a pull speak for its neighbours.
The models that were named are drawn as in Figure 3, what was pulled as in Figure 4.

The paper leaves open, and we chose: red and white wines together, measurements scaled to variance
1 on the training wines; x, the place of each parameter on its grid, from 0 to 1; prior mean minus
the standard deviation of the scores (what a constant would do), prior deviation 0.1, deviation of a
pull 0.02. min_samples_split = 1 is not allowed any more and equals 2. A pull takes one of some
splits at random, scored once for all policies; the RMSE of a model is the mean over these splits,
so that the best model is known. All policies see the same split at the n-th pull of a model.

In 10 runs mean RMSEs of the policies lie within .004 at T = 10 and .002 at T = 40, and EI and PI
are stuck in 20% of the runs at T = 10, none at T = 40: none of it can be told from chance.
docs/papers.md has all numbers.

M. W. Hoffman, B. Shahriari and N. de Freitas, "On correlation and budget constraints in
model-based bandit optimization with application to automatic machine learning", AISTATS 2014.
Wines: Cortez et al. 2009, see data/README.md.
"""

import itertools
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from bayes_gap import score, verdict
from bayes_gap_plots import draw_allocations, draw_boxes
from paper import Claims, options, save, size, table

import subsample_mcmc as sm
from subsample_mcmc import bandits

C, EPSILON = (0.001, 0.01, 0.1, 1.0), (0.0001, 0.001, 0.01, 0.1)
GRIDS = {
    "Lasso": {"alpha": (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5)},
    "forest": {
        "n_estimators": (1, 10, 100, 1000),
        "min_samples_split": (1, 3, 5, 7),
        "min_samples_leaf": (2, 6, 10, 14),
    },
    "linear SVM": {"C": C, "epsilon": EPSILON},
    "rbf SVM": {"C": C, "epsilon": EPSILON, "gamma": (0.025, 0.05, 0.1, 0.2)},
    "k-NN": {"n_neighbors": (1, 3, 5, 7, 9, 11, 13, 15)},
}
MODELS = [
    (name, dict(zip(grid, values, strict=True)))
    for name, grid in GRIDS.items()
    for values in itertools.product(*grid.values())
]
BUDGETS = (10, 40)
RUNS = (2, 10, 100)  # quick, default, full
PRIOR_SD, NOISE_SD = 0.1, 0.02
FAR = 0.02  # RMSE above the best model that counts as stuck: ours, the paper gives no number
RIVALS = ("BayesUCB", "GPUCB", "Thompson", "ExpectedImprovement", "ProbabilityOfImprovement")


def prior_covariance() -> np.ndarray:
    """exp(-(x - x')^2) within a class, 0 across."""
    covariance = np.zeros((len(MODELS), len(MODELS)))
    start = 0
    for grid in GRIDS.values():
        steps = [np.linspace(0.0, 1.0, len(values)) for values in grid.values()]
        x = np.array(list(itertools.product(*steps)))
        squares = ((x[:, None] - x) ** 2).sum(axis=2)
        covariance[start : start + len(x), start : start + len(x)] = np.exp(-squares)
        start += len(x)
    return covariance


# -------------------------------------------------------------------------------- the models
def wines() -> np.ndarray:
    """Red and white, the score in the last column."""
    folder = Path(__file__).parent / "data"
    files = [folder / f"winequality-{colour}.csv.gz" for colour in ("red", "white")]
    return np.concatenate([np.loadtxt(file, delimiter=";", skiprows=1) for file in files])


def score_split(task) -> np.ndarray:
    """RMSE of every model on one split. most: trees of the largest forest."""
    seed, most = task
    data, rng = wines(), np.random.default_rng(seed)
    order, tenth = rng.permutation(len(data)), len(data) // 10
    train, test = data[order[:tenth]], data[order[tenth : 2 * tenth]]
    centre, spread = train[:, :-1].mean(axis=0), train[:, :-1].std(axis=0)
    x, unseen = (train[:, :-1] - centre) / spread, (test[:, :-1] - centre) / spread
    forests: dict = {}
    scores = []
    for name, given in MODELS:
        if name == "forest":
            said = forest_of(forests, given, most, x, train[:, -1], unseen)
        else:
            said = regression(name, given).fit(x, train[:, -1]).predict(unseen)
        scores.append(np.sqrt(np.mean((said - test[:, -1]) ** 2)))
    return np.array(scores)


def forest_of(forests, given, most, x, y, unseen) -> np.ndarray:
    """What a forest says. Trees of a smaller one are the first trees of a larger one.

    A node of n wines is split if n is min_samples_split at least, and both halves have
    min_samples_leaf: so min_samples_split <= 2 min_samples_leaf changes nothing.
    """
    from sklearn.ensemble import RandomForestRegressor

    leaf = given["min_samples_leaf"]
    key = (max(given["min_samples_split"], 2 * leaf), leaf)
    if key not in forests:
        grown = RandomForestRegressor(
            most, min_samples_split=key[0], min_samples_leaf=leaf, random_state=0
        ).fit(x, y)
        said = np.array([tree.predict(unseen) for tree in grown.estimators_])
        forests[key] = said.cumsum(axis=0) / np.arange(1, most + 1)[:, None]
    return forests[key][min(given["n_estimators"], most) - 1]


def regression(name, given):
    from sklearn.linear_model import Lasso
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.svm import SVR

    if name == "Lasso":
        return Lasso(**given)
    if name == "k-NN":
        return KNeighborsRegressor(**given)
    return SVR(kernel="linear" if name == "linear SVM" else "rbf", **given)


def all_scores(chosen) -> np.ndarray:
    """(splits, models) RMSE, on all cores."""
    splits, most = size(chosen, (2, 50), (10, 200), (100, 1000))
    if most < 1000:
        print(f"forests have {most} trees at most, where the paper had 1000")
    tasks = [((chosen.seed, i), most) for i in range(splits)]
    workers = min(chosen.cores or os.cpu_count() or 1, splits)
    if workers == 1:
        return np.array([score_split(task) for task in tasks])
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        return np.array(list(pool.map(score_split, tasks)))


# ------------------------------------------------------------------------------------ playing
def play(strategy, scores, run, seed) -> tuple[int, list[int]]:
    """(the model that was named, the models that were pulled) in one run."""
    pulled: list[int] = []

    def pull(arm, rng):
        again = np.random.default_rng((seed, run, arm, pulled.count(arm)))
        pulled.append(arm)
        return -scores[again.integers(len(scores)), arm]

    # Python keeps what was pulled: this must not be compiled.
    made = sm.identify(
        pull, len(MODELS), strategy, seed=(seed, run), compiled=False, progress=False
    )
    return made.arm, pulled


def play_all(chosen, scores):
    """({(policy, T): models named}, {(policy, T): models pulled}, one row a run)."""
    runs = size(chosen, *RUNS)
    covariance, level = prior_covariance(), -wines()[:, -1].std()
    named, pulled = {}, {}
    for budget in BUDGETS:
        for name in ("BayesGap", *RIVALS):
            kind = sm.BayesGap if name == "BayesGap" else getattr(bandits, name)
            played = []
            for run in range(runs):
                # All arms are equal at first: a last digit decides at random, not by rounding.
                tie = 1e-9 * np.random.default_rng((chosen.seed, run)).random(len(MODELS))
                strategy = kind(
                    budget, covariance=covariance, noise=NOISE_SD**2, prior_scale=PRIOR_SD,
                    mean=level + tie,
                )  # fmt: skip
                played.append(play(strategy, scores, run, chosen.seed))
            named[name, budget] = np.array([arm for arm, _ in played])
            pulled[name, budget] = np.array([arms for _, arms in played])
    return named, pulled


# ------------------------------------------------------------------------------------- telling
def describe(scores, truth) -> None:
    """How hard it is."""
    rows, start = [], 0
    for name, grid in GRIDS.items():
        count = int(np.prod([len(values) for values in grid.values()]))
        part = truth[start : start + count]
        rows.append([name, str(count), f"{part.min():.3f}", f"{np.median(part):.3f}",
                     f"{part.max():.3f}"])  # fmt: skip
        start += count
    title = f"RMSE over {len(scores)} splits; from split to split it varies by "
    title += f"{np.median(scores.std(axis=0, ddof=1)):.3f}"
    table(["class", "models", "best", "median", "worst"], rows, title)
    kinds = {(max(g["min_samples_split"], 2 * g["min_samples_leaf"]), g["min_samples_leaf"])
             for name, g in MODELS if name == "forest"}  # fmt: skip
    print(f"of the 64 forests of the paper's grid {4 * len(kinds)} differ: see forest_of")


def judge(named, truth, claims) -> None:
    """The paper's sentences on Figures 3 and 4."""
    for budget in BUDGETS:
        rmse = {name: truth[arms] for (name, of), arms in named.items() if of == budget}
        good, rest = ("BayesGap", "Thompson"), [name for name in RIVALS if name != "Thompson"]
        apart = {(a, b): rmse[b] - rmse[a] for a in good for b in rest}
        (a, b), least = min(apart.items(), key=lambda item: score(item[1]))
        clear = sum(verdict([values]) is True for values in apart.values())
        claims.add(
            f"Wine, T = {budget}: BayesGap and Thompson are best",
            f"clearly better in {clear} of {len(apart)} pairs; least so {a} against {b}: RMSE "
            f"{least.mean():+.4f}, z = {score(least):+.1f}",
            verdict(list(apart.values())),
        )
        far = {name: (values > truth.min() + FAR) * 1.0 for name, values in rmse.items()}
        caught = ("ExpectedImprovement", "ProbabilityOfImprovement", "GPUCB")
        claims.add(
            f"Wine, T = {budget}: EI, PI and GPUCB get stuck, BayesGap less often",
            f"runs that named a model {FAR:g} RMSE or more above the best: "
            + ", ".join(f"{name} {far[name].mean():.0%}" for name in (*caught, *good))
            + f"; and {FAR / 2:g} or more: "
            + ", ".join(
                f"{np.mean(rmse[name] > truth.min() + FAR / 2):.0%}" for name in (*caught, *good)
            ),
            verdict([far[name] - far["BayesGap"] for name in caught]),
        )


def main() -> None:
    chosen = options(__doc__)
    try:
        import sklearn  # noqa: F401
    except ImportError:
        print("This example fits models of scikit-learn: pip install scikit-learn")
        return
    claims = Claims()
    scores = all_scores(chosen)
    truth = scores.mean(axis=0)
    describe(scores, truth)
    named, pulled = play_all(chosen, scores)
    for budget in BUDGETS:
        rows = [
            [name, f"{truth[arms].mean():.4f} +- {truth[arms].std(ddof=1) / len(arms) ** 0.5:.4f}",
             f"{np.median(truth[arms]):.4f}", f"{truth[arms].max():.4f}", classes(arms)]
            for (name, of), arms in named.items() if of == budget
        ]  # fmt: skip
        title = f"RMSE of the models named, T = {budget}, {size(chosen, *RUNS)} runs"
        table(["policy", "mean", "median", "worst", "classes named"], rows, title)
    judge(named, truth, claims)
    boxes = {key: truth[arms] for key, arms in named.items()}
    save(draw_boxes(boxes, truth.min(), BUDGETS), chosen, "bayes_gap_wine_rmse")
    most, both = BUDGETS[-1], ("BayesGap", "ExpectedImprovement")
    edges = [0, *np.cumsum([np.prod([len(v) for v in g.values()]) for g in GRIDS.values()])]
    figure = draw_allocations(
        {name: pulled[name, most] for name in both}, {name: named[name, most] for name in both},
        truth, edges, list(GRIDS),
    )  # fmt: skip
    save(figure, chosen, "bayes_gap_wine_pulls")
    claims.show()


def classes(arms) -> str:
    """How often each class was named."""
    names = [MODELS[arm][0] for arm in arms]
    return ", ".join(f"{names.count(name)} {name}" for name in GRIDS if name in names)


if __name__ == "__main__":
    main()
