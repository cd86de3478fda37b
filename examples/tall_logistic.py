"""Logistic regression on many rows: what a control variate does to a chain.

    python examples/tall_logistic.py                        simulated, 200,000 rows
    python examples/tall_logistic.py --data hflights.csv.gz late arrival of 223,874 flights

At the mode a proposal changes the log posterior by a nat or two, N small terms that nearly cancel:
no subsample resolves that, so a race alone reads everything. A Taylor polynomial of every term at
the mode (sm.laplace, sm.Taylor) sums to a number that is known, and leaves so little over that most
decisions need no data at all. The same proposals, decided in five ways.
"""

import argparse
import gzip
import warnings
from pathlib import Path

import numpy as np

import subsample_mcmc as sm

TRUE = np.array([-1.0, 0.5, 0.25, -0.25, 0.1])


def simulated(size):
    """Rows with an intercept, and the probability that y is 1 of a known regression."""
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(size), rng.standard_normal((size, len(TRUE) - 1))])
    y = rng.random(size) < 1.0 / (1.0 + np.exp(-x @ TRUE))
    return x, y.astype(float), ["one", *(f"x{j}" for j in range(1, len(TRUE)))]


def flights(path):
    """Did a flight from Houston arrive more than 15 minutes late."""
    import pandas

    path = Path(path)
    path = path / "hflights.csv.gz" if path.is_dir() else path
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        table = pandas.read_csv(file, parse_dates=["Date"]).dropna(subset=["ArrDelay", "DepTime"])
    hour = (table.DepTime // 100 + table.DepTime % 100 / 60.0).to_numpy() * np.pi / 12.0
    far = np.log(table.Distance.to_numpy())
    days = table.Date.to_numpy().astype("datetime64[D]").astype(int)
    columns = {
        "one": np.ones(len(table)),
        "sin hour": np.sin(hour), "cos hour": np.cos(hour),
        "sin 2 hour": np.sin(2.0 * hour), "cos 2 hour": np.cos(2.0 * hour),
        "log distance": (far - far.mean()) / far.std(),
        "from Hobby": (table.Origin == "HOU").to_numpy(float),
        "weekend": ((days + 3) % 7 >= 5).astype(float),  # day 0 was a Thursday
        "summer": table.Date.dt.month.isin([6, 7, 8]).to_numpy(float),
    }  # fmt: skip
    common = table.UniqueCarrier.value_counts()
    for carrier in common.index[1:]:  # relative to the most common one
        columns[f"carrier {carrier}"] = (table.UniqueCarrier == carrier).to_numpy(float)
    y = (table.ArrDelay > 15).to_numpy(float)
    return np.column_stack(list(columns.values())), y, list(columns)


def run(model, fit, selector, control, draws):
    """Chains from the fit, proposing as if it were the posterior."""
    kernel = sm.Metropolis(
        "beta", proposal=sm.pcn(fit, beta=0.5), selector=selector, control=control
    )
    start = [fit.state] * 2
    if control is None:  # a rival here; that it may miss rare carriers is why there is another
        warnings.filterwarnings("ignore", message=".*is 0 in all but")
    return sm.sample(model, kernel, draws, 0, 2, seed=2, start=start, progress=False)


def pictured(traces, fit, names, path):
    """Posterior, traces, data read and effective draws per second, as a figure."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
    exact, raced = traces["exact"], traces["race + Taylor"]
    last = len(names) - 1
    for trace, name in ((exact, "exact"), (raced, "race + Taylor")):
        values = trace.draws["beta"][..., last]
        axes[0, 0].hist(values.ravel(), bins=40, density=True, alpha=0.5, label=name)
        own = {"color": "k", "zorder": 3} if name == "exact" else {"color": "C1", "linewidth": 0.7}
        axes[0, 1].plot(values[0, :500], label=name, **own)
    mean, sd = fit.mean[last], np.sqrt(fit.covariance[last, last])
    grid = mean + sd * np.linspace(-4.0, 4.0, 100)
    normal = np.exp(-0.5 * ((grid - mean) / sd) ** 2) / (sd * np.sqrt(2.0 * np.pi))
    axes[0, 0].plot(grid, normal, "k", linewidth=0.8, label="sm.laplace")
    axes[0, 0].set(title=f"posterior of {names[last]}", yticks=[])
    axes[0, 1].set(title="the first draws: same proposals, same decisions", xlabel="draw")
    for ax in axes[0]:
        ax.legend(fontsize=8)
    read = [max(share_read(trace), 1e-7) for trace in traces.values()]
    axes[1, 0].barh(list(traces), read)
    axes[1, 0].set(xscale="log", title="share of the log likelihoods read")
    axes[1, 1].barh(list(traces), [per_second(trace) for trace in traces.values()])
    axes[1, 1].set(xscale="log", title="effective draws per second")
    for ax in axes[1]:
        ax.invert_yaxis()
    figure.savefig(path, dpi=120)
    print(f"\nwrote {path}")


def share_read(trace):
    counts = trace.stats["beta"]
    return counts["pulls"].sum() / counts["everything"].sum()


def per_second(trace):
    return trace.mixing("beta").ess / trace.seconds.sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", help="hflights.csv.gz, or the folder it lies in")
    parser.add_argument("--size", type=int, default=200_000, help="rows to simulate")
    parser.add_argument("--out", type=Path, default=Path("tall_logistic.png"), help="figure")
    options = parser.parse_args()
    x, y, names = flights(options.data) if options.data else simulated(options.size)
    model = sm.models.glm.logistic(x, y)
    fit = sm.laplace(model, "beta", progress=False)
    # Rows of rare carriers have most of what the polynomial misses: they are always read.
    taylor = sm.Taylor(fit, outliers=0.003 if options.data else 0.0)
    draws, few = 20_000, max(50, int(1e8 / x.size))
    ways = {
        "exact": (sm.Exact(), None, few),
        "race": (sm.Racing(delta=0.01), None, few),
        "race + Taylor": (sm.Racing(delta=0.01), taylor, draws),
        "proved + Taylor": (sm.Racing(sm.Betting(), delta=0.01), taylor, draws // 10),
        "exact + Taylor": (sm.Thinned(), taylor, draws),
    }
    print(f"{len(y):,} rows, {len(names)} coefficients; {y.mean():.1%} are 1")
    print("decided by        draws   accepted   data read   no data   us a draw   ESS a second")
    traces = {}
    for name, (selector, control, count) in ways.items():
        traces[name] = trace = run(model, fit, selector, control, count)
        total = {key: values.sum() for key, values in trace.stats["beta"].items()}
        print(
            f"{name:16}{2 * count:7,}{total['accepted'] / total['decisions']:11.1%}"
            f"{share_read(trace):12.3%}{total['predicted'] / total['decisions']:10.1%}"
            f"{1e6 * trace.seconds.sum() / (2 * count):12,.1f}{per_second(trace):15,.0f}"
        )
    print("\n                 laplace, sd           exact: mean, sd     race + Taylor: mean, sd")
    sds = np.sqrt(np.diag(fit.covariance))
    for j, name in enumerate(names):
        print(f"{name:14}{fit.mean[j]:9.4f}, {sds[j]:.4f}", end="")
        for way in ("exact", "race + Taylor"):
            found = traces[way].draws["beta"][..., j]
            print(f"{found.mean():16.4f}, {found.std():.4f}", end="")
        print()
    pictured(traces, fit, names, options.out)


if __name__ == "__main__":
    main()
