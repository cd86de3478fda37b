"""Are all draws the same as before, bit for bit: digests of short runs of everything that draws.

    python tools/digests.py before.json                 in the one checkout
    python tools/digests.py after.json                  in the other, on the same machine
    python tools/digests.py --compare before.json after.json
    python tools/digests.py some.json --only taylor     the runs with that word in their names

Each run is one of kernels, selectors, rules, control variates, compositions or strategies, on small
data. Its digest is that of all draws and of all that was counted. Machines differ in the last bits
of floating-point numbers, so digests of two machines may differ where nothing is wrong.
"""

import argparse
import hashlib
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import subsample_mcmc as sm

SIZE = 3_000
GRID = np.linspace(0.0, 1.0, 4)
RUNS = {}


def run(made):
    """Make a function one of the runs, under its name."""
    RUNS[made.__name__] = made
    return made


def several(**variants):
    """Make a function of one argument several runs, one for each variant."""

    def add(made):
        for name, variant in variants.items():
            RUNS[f"{made.__name__}_{name}"] = lambda variant=variant: made(variant)
        return made

    return add


def digest(*arrays) -> str:
    """A hash of numbers, their types and their shapes."""
    found = hashlib.sha256()
    for array in arrays:
        value = np.ascontiguousarray(array)
        found.update(f"{value.dtype}{value.shape}".encode() + value.tobytes())
    return found.hexdigest()[:16]


def chains(model, kernel, draws=120, warmup=80, **more) -> str:
    """The digest of a short run."""
    trace = sm.sample(model, kernel, draws, warmup, 2, seed=11, progress=False, audit=0.2, **more)
    values = [trace.draws[name] for name in sorted(trace.draws)]
    for label in sorted(trace.stats):
        counts = trace.stats[label]
        values += [counts[name] for name in sorted(counts) if name != "seconds"]
    return digest(*values)


# ------------------------------------------------------------------------------------- models
def student_t(state, data, n):
    z = (data.y[n] - 0.1 * state.k[0] - state.mu[0]) / state.sigma[0]
    return -2.5 * sm.log1p(z * z / 4.0) - sm.log(state.sigma[0])


def weak_prior(state):
    return -0.5 * state.mu[0] ** 2 - state.sigma[0]


def located():
    """A place on a grid, an offset and a scale."""
    y = 0.4 + np.random.default_rng(0).standard_t(4, SIZE)
    state = {"k": 3, "mu": 0.0, "sigma": 1.0}
    return sm.Model(student_t, {"y": y}, state, weak_prior, support={"k": 12},
                    constraints={"sigma": sm.positive})  # fmt: skip


def regression(size=SIZE):
    """A logistic regression with proved bounds."""
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(size), rng.standard_normal((size, 2))])
    y = rng.random(size) < 1.0 / (1.0 + np.exp(-x @ [-0.5, 0.6, -0.3]))
    return sm.models.glm.logistic(x, y.astype(float))


def table():
    """Rewards of five arms, two of them close."""
    means = np.array([[0.0], [0.02], [0.03], [-0.5], [-1.0]])
    return np.clip(means + 0.2 * np.random.default_rng(2).standard_normal((5, SIZE)), -2.0, 2.0)


def curves():
    """A line or a parabola."""

    def log_likelihood(state, data, n):
        mean = state.theta[0] + state.theta[1] * data.x[n]
        if state.q[0] == 1:
            mean += state.theta[2] * data.x[n] ** 2
        return -0.5 * (data.y[n] - mean) ** 2

    def log_prior(state):
        value = -0.919 * (2 + state.q[0])
        for j in range(2 + state.q[0]):
            value -= 0.5 * state.theta[j] ** 2
        return value

    x = np.linspace(-1.0, 1.0, SIZE)
    y = x - 0.1 * x**2 + np.random.default_rng(0).standard_normal(SIZE)
    return sm.Model(log_likelihood, {"x": x, "y": y}, {"q": 0, "theta": np.zeros(3)}, log_prior,
                    support={"q": 2}, lengths={"theta": ("q", [2, 3])})  # fmt: skip


def alike(data, i, j):
    return 1.0 - abs(data.x[i] - data.x[j])


def records():
    """Three groups of records."""
    rng = np.random.default_rng(4)
    x = np.repeat([0.0, 4.0, 9.0], 20) + 0.5 * rng.standard_normal(60)
    return sm.Model(None, {"x": x}, {"y": np.arange(60)}, support={"y": 60})


# -------------------------------------------------------------------------- decisions by themselves
SELECTORS = {
    "exact": sm.Exact(),
    "racing": sm.Racing(),
    "eq5": sm.Racing(sm.Normal(side="eq5"), delta=0.01),
    "unpaired": sm.Racing(sm.Normal(paired=False), retreat=False),
    "betting": sm.Racing(sm.Betting(spread=4.0)),
    "serfling": sm.Racing(sm.BernsteinSerfling(spread=4.0)),
    "lilucb": sm.LilUCB(delta=0.1),
    "halving": sm.SequentialHalving(budget=4_000),
    "lingape": sm.LinGapE(np.eye(5), delta=0.2, noise=0.3, norm=1.0),
    "bayesgap": sm.BayesGap(4_000, np.eye(5)),
}


@several(**SELECTORS)
def choose(selector):
    found = [sm.choose(table(), selector=selector, seed=seed) for seed in range(20)]
    return digest([c.arm for c in found], [c.pulls for c in found], [c.rounds for c in found])


@several(**{k: v for k, v in SELECTORS.items() if k not in ("lingape", "bayesgap")})
def draw(selector):
    def log_factor(data, arm, n):
        z = data.y[n] - 0.1 * arm
        return max(-2.0, -0.5 * z * z)

    y = np.random.default_rng(5).standard_normal(SIZE) + 0.2
    found = sm.draw(sm.Population(log_factor, {"y": y}, arms=5), 200, selector, seed=3)
    return digest(found.arms, found.pulls)


@several(
    ttest=sm.Racing(sm.TTest()), confidence=sm.Racing(sm.Confidence(spread=4.0)),
    betting=sm.Racing(sm.Betting(spread=4.0)), normal=sm.Racing(delta=0.001),
)  # fmt: skip
def two_arms(selector):
    found = [sm.choose(table()[[0, 4]], selector=selector, seed=seed) for seed in range(40)]
    return digest([c.arm for c in found], [c.pulls for c in found])


# -------------------------------------------------------------------------------------- kernels
@several(
    raced=sm.Gibbs("k"), exact=sm.Gibbs("k", sm.Exact()), random=sm.Gibbs("k", scan="random"),
    tempered=sm.Gibbs("k", temperature=2.0), lilucb=sm.Gibbs("k", sm.LilUCB()),
    halving=sm.Gibbs("k", sm.SequentialHalving(budget=9_000)),
)  # fmt: skip
def gibbs(kernel):
    return chains(located(), kernel >> sm.Metropolis("mu") >> sm.Metropolis("sigma"))


# With few rows a race that may retreat reads everything at once: these never do.
ALWAYS = sm.Racing(batch=32, retreat=False)
RACE = sm.Racing()  # where the default would be exact


@several(
    gibbs=sm.Gibbs("k", ALWAYS) >> sm.Metropolis("mu"), walk=sm.Metropolis("mu", selector=ALWAYS),
    slice=sm.Slice("mu", selector=ALWAYS), frozen=sm.Slice("mu", selector=ALWAYS, frozen=True),
    sgld=sm.Langevin("mu", selector=ALWAYS),
    ttest=sm.Metropolis("mu", selector=sm.Racing(sm.TTest(), batch=64, growth=1.0, retreat=False)),
    unguarded=sm.Metropolis("mu", selector=sm.Racing(sm.Normal(guard=False), retreat=False)),
    late=sm.Metropolis("mu", selector=sm.Racing(batch=512, retreat=3.0)),
)  # fmt: skip
def raced(kernel):
    rest = sm.Metropolis("sigma") if "Gibbs" in kernel.text() else (
        sm.Metropolis("sigma") >> sm.Gibbs("k", sm.Exact())
    )  # fmt: skip
    return chains(located(), kernel >> rest)


@several(
    taylor=lambda fit: (sm.Taylor(fit, order=2, predict=False), sm.Normal()),
    floored=lambda fit: (sm.Taylor(fit, order=2, outliers=0.0), sm.Normal()),
    betting=lambda fit: (sm.Taylor(fit, order=2, predict=False), sm.Betting()),
    bins=lambda fit: (sm.Bins(bins=60, fit=fit), sm.Normal()),
)
def raced_residuals(made):
    model = regression(20_000)
    fit = sm.laplace(model, progress=False)
    control, rule = made(fit)
    race = sm.Racing(rule, batch=32, retreat=False)
    wide = sm.pcn(fit.mean, 25.0 * fit.covariance, beta=0.7)
    return chains(model, sm.Metropolis("beta", proposal=wide, control=control, selector=race))


@several(**{k: v for k, v in {
    "normal": sm.Racing(batch=32, retreat=False), "betting": sm.Racing(sm.Betting(spread=2.0),
    retreat=False), "serfling": sm.Racing(sm.BernsteinSerfling(spread=2.0), retreat=False),
    "eq27": sm.Racing(sm.Normal(side="eq27"), retreat=False), "patient": sm.Racing(retreat=2.0),
}.items()})  # fmt: skip
def raced_draws(selector):
    def log_factor(data, arm, n):
        z = data.y[n] - 0.01 * arm
        return max(-2.0, -0.5 * z * z)

    y = np.random.default_rng(5).standard_normal(100_000) + 0.4
    found = sm.draw(sm.Population(log_factor, {"y": y}, arms=5), 200, selector, seed=3)
    return digest(found.arms, found.pulls, found.rounds)


def propose(rng, state, data, out):
    out[0] = state.mu[0] + 0.05 * rng.standard_normal()
    return 0.0


@several(
    walk=sm.Metropolis("mu"), exact=sm.Metropolis("mu", selector=sm.Exact()),
    slice=sm.Slice("mu"), frozen=sm.Slice("mu", frozen=True), sgld=sm.Langevin("mu"),
    plain=sm.Langevin("mu", correct=False, step=1e-4), fresh=sm.Langevin("mu", backward="fresh"),
)  # fmt: skip
def moves(kernel):
    return chains(located(), kernel >> sm.Metropolis("sigma") >> sm.Gibbs("k", sm.Exact()))


@several(
    pcn=lambda fit: sm.pcn(fit, beta=0.5), independence=sm.independence, walk=lambda fit: None,
    bare=lambda fit: sm.pcn(fit, beta=0.3, defensive=0.0), learnt=sm.pcn,
)  # fmt: skip
def proposals(made):
    model = regression()
    fit = sm.laplace(model, progress=False)
    return chains(model, sm.Metropolis("beta", proposal=made(fit), selector=RACE,
                                       control=sm.Taylor(fit)))  # fmt: skip


@several(
    proved=sm.Taylor, order2=lambda fit: sm.Taylor(fit, order=2),
    outliers=lambda fit: sm.Taylor(fit, outliers=0.01),
    unpredicted=lambda fit: sm.Taylor(fit, predict=False),
    bins=lambda fit: sm.Bins(fit=fit, outliers=0.05),
)  # fmt: skip
def controls(made):
    model = regression()
    fit = sm.laplace(model, progress=False)
    control = made(fit)
    kernel = sm.Metropolis("beta", proposal=sm.pcn(fit, beta=0.3), selector=RACE, control=control)
    return chains(model, kernel >> sm.Slice("beta", control=control))


@run
def control_of_a_plain_function():
    model = located()
    control = sm.Taylor(sm.laplace(model, progress=False))
    kernel = sm.Gibbs("k", control=control) >> sm.Metropolis("mu", control=control)
    return chains(model, kernel >> sm.Langevin("sigma", control=control))


@run
def control_by_columns():
    control = sm.Bins(bins=50, outliers=0.02)
    kernel = sm.Gibbs("k", control=control) >> sm.Metropolis("mu", control=control)
    return chains(located(), kernel >> sm.Metropolis("sigma", control=control))


@run
def control_with_betting():
    model = regression()
    fit = sm.laplace(model, progress=False)
    proved = sm.Racing(sm.Betting())
    return chains(model, sm.Metropolis("beta", proposal=sm.pcn(fit, beta=0.3), selector=proved,
                                       control=sm.Taylor(fit)))  # fmt: skip


@several(same="same", fresh="fresh")
def langevin_with_control(backward):
    model = regression()
    control = sm.Taylor(sm.laplace(model, progress=False))
    kernel = sm.Langevin("beta", gradient="control", selector=RACE, control=control)
    other = sm.Langevin("beta", backward=backward, selector=RACE, control=control)
    return chains(model, kernel >> other)


@run
def delayed_acceptance():
    model = regression()
    at = sm.laplace(model, progress=False).state["beta"]

    def surrogate(state):
        total = 0.0
        for j in range(3):
            total -= 300.0 * (state.beta[j] - at[j]) ** 2
        return total

    return chains(model, sm.delayed(sm.Metropolis("beta"), surrogate))


@run
def model_choice():
    model = curves()
    fits = [sm.laplace(model, "theta", given={"q": k}, progress=False) for k in range(2)]
    control = sm.Taylor(fits)
    gibbs = sm.Gibbs("q", pseudo=sm.PseudoPrior(fits), control=control)
    walk = sm.Metropolis("theta", proposal=sm.independence(fits), control=control)
    return chains(model, gibbs >> walk >> sm.WangLandau("q"))


@run
def arch_orders():
    returns = sm.models.returns.simulated(1_500) if hasattr(sm.models.returns, "simulated") else (
        0.01 * np.random.default_rng(6).standard_t(4, 1_500)
    )  # fmt: skip
    model = sm.models.arch.ARCH(returns, orders=(1, 3), coordinates="cuberoot")
    fits = [sm.laplace(model, "theta", given={"q": k}, progress=False) for k in range(2)]
    control = sm.Taylor(fits)
    gibbs = sm.Gibbs("q", pseudo=sm.PseudoPrior(fits), control=control)
    return chains(model, gibbs >> sm.Langevin("theta", control=control), draws=60, warmup=60)


@run
def a_custom_kernel():
    @sm.kernel(writes="mu")
    def refresh(rng, state, data):
        state.mu[0] = 0.9 * state.mu[0] + 0.01 * rng.standard_normal()

    return chains(located(), refresh >> sm.Gibbs("k") >> sm.Metropolis("sigma"))


@run
def compositions():
    def far(state):
        return abs(state.mu[0]) > 0.01

    near, wide = sm.Metropolis("mu", scale=0.01), sm.Metropolis("mu", scale=0.5)
    kernel = sm.mixture((near, 0.7), (wide, 0.3)) >> sm.repeat(sm.Gibbs("k"), 2)
    return chains(located(), kernel >> sm.when(far, sm.Metropolis("sigma")), thin=2)


@run
def labels_of_data():
    def log_likelihood(state, data, n):
        return -0.5 * (data.y[n] - state.mu[state.z[n]]) ** 2

    rng = np.random.default_rng(7)
    y = np.append(rng.normal(-2.0, 1.0, 100), rng.normal(2.0, 1.0, 100))
    few = (np.arange(201), np.arange(200))
    model = sm.Model(log_likelihood, {"y": y}, {"z": np.zeros(200, int), "mu": [-1.0, 1.0]},
                     support={"z": 2}, touches={"z": few})  # fmt: skip
    return chains(model, sm.Gibbs("z") >> sm.Metropolis("mu"))


@run
def a_change_point():
    def log_likelihood(state, data, n):
        return -0.5 * (data.y[n] - (state.mu[0] if n < state.k[0] else state.mu[1])) ** 2

    rng = np.random.default_rng(8)
    y = np.append(rng.normal(0.0, 1.0, 300), rng.normal(0.5, 1.0, 200))
    model = sm.Model(log_likelihood, {"y": y}, {"k": 100, "mu": [0.0, 1.0]}, support={"k": 501})
    return chains(model, sm.Gibbs("k", cumulative=True) >> sm.Metropolis("mu"))


@run
def prepared():
    def prepare(state, data):
        return (np.exp(GRID * state.mu[0]),)

    def log_likelihood(state, data, n, made):
        return -0.5 * (data.y[n] - made[0][data.level[n]]) ** 2

    rng = np.random.default_rng(9)
    level = rng.integers(0, 4, SIZE)
    data = {"level": level, "y": np.exp(0.5 * GRID[level]) + rng.standard_normal(SIZE)}
    model = sm.Model(log_likelihood, data, {"mu": 0.1}, prepare=prepare)
    return chains(model, sm.Metropolis("mu") >> sm.Slice("mu"))


@several(
    raced=lambda: sm.GibbsPartition("y", alike),
    exact=lambda: sm.GibbsPartition("y", alike, selector=sm.Exact()),
)
def partition(made):
    gibbs = made()
    return chains(records(), gibbs >> sm.MergeSplit(gibbs), draws=20, warmup=0)


@run
def bilinear_partition():
    colour = np.arange(40) % 3
    score = sm.Bilinear(tables={"colour": (colour, np.full((3, 3), -1.0) + 2.0 * np.eye(3))})
    model = sm.Model(None, {"x": colour}, {"y": np.arange(40)}, support={"y": 40})
    return chains(model, sm.GibbsPartition("y", None, control=score), draws=20, warmup=0)


# ------------------------------------------------------------------------------- runs, strategies
@run
def stored_and_resumed():
    model, kernel = located(), sm.Gibbs("k") >> sm.Metropolis("mu") >> sm.Metropolis("sigma")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.nc"
        sm.sample(model, kernel, 60, 40, 2, seed=11, progress=False, store=path)
        sm.resume(path, model, kernel, draws=90, progress=False)
        trace = sm.load(path)
        return digest(*(trace.draws[name] for name in sorted(trace.draws)))


PRIOR = np.exp(-0.5 * (np.arange(6)[:, None] - np.arange(6)) ** 2)
SHARED = sm.bandits
STRATEGIES = {
    "lilucb": sm.LilUCB(delta=0.1, scale=0.3), "halving": sm.SequentialHalving(600),
    "lingape": sm.LinGapE(np.eye(6), noise=0.3), "bayesgap": sm.BayesGap(300, PRIOR, noise=0.1),
    "lucb": SHARED.LUCB(scale=0.3), "ucb1": SHARED.LILStopping(SHARED.UCB1(0.3)),
    "elimination": SHARED.SuccessiveElimination(scale=0.3), "uniform": SHARED.Uniform(600),
    "rejects": SHARED.SuccessiveRejects(600), "variance": SHARED.VarianceRejects(600),
    "ugape": SHARED.UGapE(600), "gape": SHARED.GapE(600), "gapev": SHARED.GapEV(600),
    "toptwo": SHARED.TopTwo(scale=0.3), "track": SHARED.TrackAndStop(scale=0.3),
    "thompson": SHARED.Thompson(300, PRIOR, 0.1), "bayesucb": SHARED.BayesUCB(300, PRIOR, 0.1),
    "gpucb": SHARED.GPUCB(300, PRIOR, 0.1), "exponential": SHARED.ExponentialGap(scale=0.3),
    "median": SHARED.MedianElimination(0.2, scale=0.3), "xy": SHARED.XYAllocation(np.eye(6)),
    "improvement": SHARED.ExpectedImprovement(300, PRIOR, 0.1),
}  # fmt: skip


@several(**STRATEGIES)
def identify(strategy):
    def pull(data, arm, rng):
        return data.means[arm] + 0.3 * rng.standard_normal()

    means = np.array([0.9, 0.1, 0.3, 0.2, 0.0, 0.4])
    found = sm.identify(pull, 6, strategy, seed=4, runs=10, data={"means": means},
                        max_pulls=200_000, progress=False)  # fmt: skip
    return digest(found.arms, found.pulls)


# ------------------------------------------------------------------------------------- the table
def compare(one: Path, other: Path) -> int:
    """Print where two tables differ; how many places that are."""
    before, after = (json.loads(path.read_text()) for path in (one, other))
    apart = [n for n in before.keys() & after.keys() if before[n] != after[n]]
    for name in sorted(apart):
        print(f"{name}: {before[name]} before, {after[name]} after")
    for name in sorted(before.keys() ^ after.keys()):
        print(f"{name}: only in {one if name in before else other}")
    failed = sum(str(before[n]).startswith("failed") for n in before)
    print(f"{len(before.keys() & after.keys())} runs, {len(apart)} differ, {failed} failed before")
    return len(apart) + len(before.keys() ^ after.keys())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--only", default="", help="runs with this in their names")
    parser.add_argument("--compare", type=Path, nargs=2)
    given = parser.parse_args()
    if given.compare:
        return int(compare(*given.compare) > 0)
    if given.out is None:
        parser.error("give a file to write to, or --compare BEFORE AFTER")
    found = {}
    for name, made in RUNS.items():
        if given.only in name:
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    found[name] = made()
                except Exception as error:
                    found[name] = f"failed: {type(error).__name__}: {error}"[:200]
            print(f"{name:28s} {found[name]}  {time.perf_counter() - start:.1f} s", flush=True)
            given.out.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
