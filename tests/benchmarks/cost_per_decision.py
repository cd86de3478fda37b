"""What one decision costs against N: ours, exact ones, and those of PyMC, NumPyro and BlackJAX.

    python -m tests.benchmarks.cost_per_decision --quick     N to 1e5, no figure
    python -m tests.benchmarks.cost_per_decision             ours, to 1e7: table, CSV, figure
    python -m tests.benchmarks.cost_per_decision --peers     the peers beside them, in the same run
    python -m tests.benchmarks.cost_per_decision --redraw    the figure again from the CSV

a  One Gibbs draw among ten Student-t locations (draws.py): .5 apart, where a race stops early; and
   1 / sqrt(N) apart, within some nats, which is the scale of a posterior. There a race without a
   control variate falls back to exact sums; with sm.Taylor (order 2) around a parameter that moves
   with every draw, in a chain, it reads a few rows. Others are at posterior scale, too: an exact
   draw costs the same anywhere.
b  One accept or reject decision of a random walk on ten coefficients of a logistic regression
   (tall.py), scale 2.38 sd / sqrt(10), chains that start in the posterior. "Racing + Taylor" is of
   order 3; the table has order 2, too. A decision is a step of the chain. It ends at N = 1e6: the
   matrix of 1e7 rows and the copies that peers make of it need 8 GB (--panels b --sizes 1e7).

"Proved" are the same with sm.Betting. With a control variate, fit and sums over the data come once;
`setup_seconds` says what they took (at the first N with compilation; what a line above has made
already is not counted again) and is not in a decision. Peers are exact and in float64, and
are timed inside their sampling loops, compiled before. PyMC: CategoricalGibbsMetropolis
("proportional") and Metropolis, which moves one coordinate at a time: each is a decision, and
reads the data twice. NumPyro: DiscreteGibbs. BlackJAX: its random walk. JAX and numpy: by hand;
the figure leaves out what is by hand in JAX, between sm.Exact and numpy at large N.
Left out, because a step of theirs is no decision: NUTS, HMC, HMCECS, SGLD; tall.py --peers compares
those by effective draws per second.

CPU times of one thread; medians over rounds in which every one is timed once, and quartiles.
`wrong`, of so many `audited`: arms that are not those of the exact decision under the same random
numbers. Peers: pip install pymc numpyro blackjax, in an environment of its own: PyMC holds numba
back.
"""

import argparse
import csv
import gc
import statistics
import sys
from pathlib import Path

from tests.benchmarks import machine  # first: it limits the threads of numpy and the peers

# isort: split
import numpy as np

import subsample_mcmc as sm
from tests.benchmarks import cost_figure, cost_methods, cost_peers, tall_peers, work
from tests.benchmarks.cost_methods import COEFFICIENTS, DISCRETE, METROPOLIS, Decider, clock
from tests.benchmarks.measure import cpu_seconds, how_many, quantile
from tests.benchmarks.report import table

HERE = Path(__file__).resolve().parent
CHECKOUT = (HERE.parent.parent / "pyproject.toml").exists()
FIGURE = (HERE if CHECKOUT else Path("results")) / "cost_per_decision"  # what README shows
SIZES, QUICK = (10**3, 10**4, 10**5, 10**6, 10**7), (10**3, 10**4, 10**5)
USUAL = {DISCRETE: 10**7, METROPOLIS: 10**6}  # the largest N unless sizes are given
NEEDS = 8.0  # GB of memory that panel b takes at N = 1e7: the matrix, and a copy for each peer


def say(text: str) -> None:
    """Progress, on stderr."""
    print(text, file=sys.stderr, flush=True)


def discrete(size: int, options) -> list[Decider]:
    """Panel a at one N."""
    found = list(cost_methods.discrete(size, options.seed))
    if options.peers:
        y = work.fresh_data("posterior", size, options.seed)
        at = work.locations(work.spacing("posterior", size))
        found += cost_peers.discrete(y, at)
    return found


def metropolis(size: int, options) -> list[Decider]:
    """Panel b at one N."""
    x, y = tall_peers.simulate(size, COEFFICIENTS, options.seed)
    model = sm.models.glm.logistic(x, y)
    begun = clock()
    fit = sm.laplace(model, "beta", progress=False)
    spent = clock() - begun
    scale = 2.38 * np.sqrt(np.diag(fit.covariance)) / np.sqrt(COEFFICIENTS)
    start = fit.draw(np.random.default_rng(options.seed))["beta"]
    found = list(cost_methods.metropolis(model, fit, start, scale, spent))
    run = cost_methods.numpy_metropolis(x, y, start, scale)
    found.append(Decider(METROPOLIS, "numpy", run))
    if options.peers:
        found += cost_peers.metropolis(x, y, start, scale)
    return found


def timed(deciders: list[Decider], size: int, options) -> list[dict]:
    """Every round times every decider once, in turn; then audits."""
    for one in deciders:
        one.count = how_many(one.run, options.budget, options.seed)
    shares: dict[str, list[float]] = {one.name: [] for one in deciders}
    for k in range(options.rounds):
        turn = k % len(deciders)
        for one in deciders[turn:] + deciders[:turn]:
            rng = work.Recorder(options.seed, size, 2 + k)
            spent, share = cpu_seconds(one.run, one.count, rng)
            one.seconds.append(spent / (one.count * one.unit))
            shares[one.name].append(share)
    rows = []
    for one in deciders:
        arms = work.ARMS if one.panel == DISCRETE else 2
        audited, wrong = one.audit(cost_methods.audits(size, arms)) if one.audit else (0, 0)
        rows.append({
            "panel": one.panel, "decider": one.name, "N": size,
            "median_us": statistics.median(one.seconds) * 1e6,
            "q1_us": quantile(one.seconds, 0.25) * 1e6, "q3_us": quantile(one.seconds, 0.75) * 1e6,
            "rounds": len(one.seconds), "decisions_per_round": one.count * one.unit,
            "share_read": statistics.fmean(shares[one.name]), "audited": audited, "wrong": wrong,
            "setup_seconds": one.setup,
        })  # fmt: skip
    return rows


def save(rows: list[dict], path: Path, about: dict[str, str]) -> None:
    """A CSV with the machine in lines that begin with #."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(f"# {name}: {value}\n" for name, value in about.items())
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()})


def read(path: Path) -> list[dict]:
    """The rows of such a CSV, numbers as numbers."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    for row in rows:
        row.update({k: float(v) for k, v in row.items() if k not in ("panel", "decider")})
        row["N"] = int(row["N"])
    return rows


def described(options) -> dict[str, str]:
    """What the CSV says about how it was made."""
    about = machine.describe(machine.pin())
    about.pop("system")
    about |= {name: machine.version(name) for name in cost_peers.PACKAGES}
    about["timing"] = f"CPU time, one thread, {options.rounds} rounds, seed {options.seed}"
    return about


def main(given=None) -> None:
    """Measure, print, save, draw."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.cost_per_decision", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("--quick", action="store_true", help="N to 1e5, without a figure")
    add("--peers", action="store_true", help="also measure PyMC, NumPyro, BlackJAX and JAX")
    add("--redraw", action="store_true", help="draw the figure from the CSV; measure nothing")
    add("--sizes", type=lambda s: int(float(s)), nargs="+", help="N; usual: to 1e7, b to 1e6")
    add("--panels", nargs="+", choices=(DISCRETE, METROPOLIS), default=[DISCRETE, METROPOLIS])
    add("--rounds", type=int, help="default 5; 3 with --quick")
    add("--budget", type=float, default=0.1, help="CPU seconds per decider and round")
    add("--seed", type=int, default=1)
    add("--out", type=Path, metavar="STEM", help="STEM.csv and STEM.svg are written")
    options = parser.parse_args(given)
    stem = options.out or (None if options.quick else FIGURE)
    if options.redraw:
        stem = stem or FIGURE
        cost_figure.draw(read(stem.with_suffix(".csv")), stem.with_suffix(".svg"))
        return
    usual = QUICK if options.quick else SIZES
    sizes = {p: options.sizes or [n for n in usual if n <= USUAL[p]] for p in USUAL}
    options.rounds = options.rounds or (3 if options.quick else 5)
    about = described(options)
    print("\n".join(f"{name:26s}{value}" for name, value in about.items()), flush=True)
    print(machine.warning(), flush=True)
    rows: list[dict] = []
    for panel, make in ((DISCRETE, discrete), (METROPOLIS, metropolis)):
        for size in sizes[panel] if panel in options.panels else ():
            if panel == METROPOLIS and size >= 10**7 and machine.free_gigabytes() < NEEDS:
                say(f"N = {size:.0e} skipped: {machine.free_gigabytes():.1f} GB of memory are "
                    f"free, {NEEDS} are needed")  # fmt: skip
                continue
            begun = clock()
            rows += timed(make(size, options), size, options)
            gc.collect()  # arrays of compiled closures go only now
            say(f"{panel}, N = {size:.0e}: {clock() - begun:.0f} CPU s, load {machine.load()}")
            about["load average at the end"] = machine.load()
            if stem:
                save(rows, stem.with_suffix(".csv"), about)
    print(table("One decision, microseconds of CPU time (wrong: of so many audited)", rows))
    if stem:
        cost_figure.draw(rows, stem.with_suffix(".svg"))


if __name__ == "__main__":
    main()
