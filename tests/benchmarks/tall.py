"""Subsampling at posterior scale: tall logistic regression, discrete draws, and cost against N.

    python -m tests.benchmarks.tall                  all tables of ours
    python -m tests.benchmarks.tall --peers          the rivals beside them, in the same run
    python -m tests.benchmarks.tall --only discrete flat

tall      ESS per second of Metropolis and Langevin with sm.Taylor, beside exact Metropolis, on the
          model of tall_peers; moments against exact ones by importance sampling.
discrete  one Gibbs draw of ten Student-t locations 1/sqrt(N) apart, which move with a parameter.
flat      a raced decision at N = 1e5 and at N = 1e8, memory-mapped.

CPU times of one thread, a process that does nothing else; medians over rounds where cheap. ESS per
second is that of the whole call of sm.sample, a twentieth of warm-up included.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.benchmarks import machine  # first: it limits the threads of numpy

# isort: split
import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.runs.chain import Program, Walker
from tests.benchmarks import tall_peers
from tests.benchmarks.report import table, without_nan

ROUNDS = 5
clock = time.process_time


def walker(model, kernel, audit=0.0) -> Walker:
    program = Program(model, kernel)
    program.compile()
    return Walker(program, np.random.SeedSequence(1), audit)


def counted(one, words, label) -> dict:
    """Sums of a kernel's counts."""
    return {name: v.sum() for name, v in one.program.layout.stats(words)[label].items()}


# ------------------------------------------------------------------------------ tall regression
def kernels(fit) -> dict:
    """What is compared: proposals by decisions."""
    sd = np.sqrt(np.diag(fit.covariance))
    walk = 2.38 * sd / np.sqrt(len(sd))
    third, second = sm.Taylor(fit), sm.Taylor(fit, order=2)
    normal, betting = sm.Racing(delta=0.01), sm.Racing(sm.Betting(), delta=0.01)
    exact, raced = sm.Exact(), {"control": third, "selector": normal}
    thinned = sm.Thinned()

    def metropolis(selector, control):
        return sm.Metropolis("beta", walk, selector=selector, control=control, adapt=False)

    return {
        "random walk, exact": (metropolis(exact, None), 100),
        "random walk, raced, no control": (metropolis(normal, None), 100),
        "random walk, Taylor 2, Normal": (metropolis(normal, second), 100_000),
        "random walk, Taylor 2, Betting": (metropolis(betting, second), 100_000),
        "random walk, Taylor 3, Normal": (metropolis(normal, third), 400_000),
        "random walk, Taylor 3, Betting": (metropolis(betting, third), 400_000),
        "random walk, Taylor 3, Exact": (metropolis(exact, third), 100_000),
        "random walk, Taylor 2, Thinned": (metropolis(thinned, second), 400_000),
        "random walk, Taylor 3, Thinned": (metropolis(thinned, third), 400_000),
        "pCN, Taylor 3, Normal": (
            sm.Metropolis("beta", proposal=sm.pcn(fit, beta=0.9), **raced), 100_000,
        ),
        "pCN, Taylor 3, Betting": (
            sm.Metropolis(
                "beta", proposal=sm.pcn(fit, beta=0.9), selector=betting, control=third
            ), 100_000,
        ),
        "pCN, Taylor 3, Thinned": (
            sm.Metropolis("beta", proposal=sm.pcn(fit, beta=0.9), control=third), 100_000,
        ),
        "independence, Taylor 3, Normal": (
            sm.Metropolis("beta", proposal=sm.independence(fit), **raced), 100_000,
        ),
        "independence, Taylor 3, Thinned": (
            sm.Metropolis("beta", proposal=sm.independence(fit), control=third), 100_000,
        ),
        "Langevin, Taylor 3, Normal": (sm.Langevin("beta", **raced), 100_000),
        "Langevin, Taylor 3, Thinned": (sm.Langevin("beta", control=third), 100_000),
    }  # fmt: skip


def tall(size: int, d: int, seed: int) -> tuple[list[dict], list[dict]]:
    """One row per kernel; and what the fit and the sums took."""
    import arviz as az

    x, y = tall_peers.simulate(size, d, seed)
    truth = tall_peers.long_reference(x, y)
    model = sm.models.glm.logistic(x, y)
    begun = clock()
    fit = sm.laplace(model, "beta", progress=False)
    fitted, rows = clock() - begun, []
    begun = clock()
    sm.laplace(model, "beta", progress=False)
    again = clock() - begun
    setup = [{"N": size, "d": d, "laplace, first s": fitted, "laplace, again s": again}]
    for control in (sm.Taylor(fit, 2), sm.Taylor(fit, 3)):
        begun = clock()
        prepared_for(model, control)
        setup[0][f"sums, order {control.order} s"] = clock() - begun
    model.set_state(*writable(model), fit.state)
    for name, (kernel, draws) in kernels(fit).items():
        begun = clock()
        one = walker(model, kernel)
        one.restore({**one.checkpoint(), "floats": fit.point})
        one.advance(max(draws // 20, 10), warm=True)
        compiled = clock() - begun
        begun = clock()
        one.advance(1, draws)
        alone = clock() - begun
        begun = clock()
        trace = sm.sample(
            model, kernel, draws, warmup=max(draws // 20, 10), chains=1, seed=seed, progress=False,
            start={"beta": fit.point},
        )  # fmt: skip
        spent = clock() - begun
        chain, told = trace.draws["beta"][0], trace.stats["beta"]
        total = {name: told.total(name) for name in told}
        ess = min(float(az.ess(line[None], method="bulk")) for line in chain.T)
        spread = min(float(az.ess(line[None], method="sd")) for line in chain.T)
        wide = chain.std(axis=0, ddof=1) / truth.sd
        rows.append({
            "kernel": name, "N": size, "d": d, "ESS/s": ess / spent,
            "ESS/s of the sd": spread / spent, "us per draw": spent / draws * 1e6,
            "us a step alone": alone / draws * 1e6,
            "draws": draws, "ESS": ess, "set-up s": compiled,
            "accepted": total["accepted"] / total["decisions"],
            "predicted": total["predicted"] / total["decisions"],
            "pulls per draw": total["pulls"] / draws,
            "mean error / sd": float(np.abs((chain.mean(axis=0) - truth.mean) / truth.sd).max()),
            "sd ratio, least": float(wide.min()), "most": float(wide.max()),
        })  # fmt: skip
        print(".", end="", flush=True)
    print()
    return rows, setup


def writable(model) -> tuple[np.ndarray, np.ndarray]:
    """Copies of a model's state, to check values against."""
    return model.ints.copy(), model.floats.copy()


# ------------------------------------------------------------------------------- discrete draws
def location(state, data, n):
    return state.mu[0] + data.step * (state.k[0] - 3)


def student(eta, data, n):
    r = data.y[n] - eta
    return -3.0 * sm.log1p(r * r / 5.0)


def slopes(eta, data, n):
    r = data.y[n] - eta
    v = 5.0 + r * r
    return (6.0 * r / v, 6.0 * (r * r - 5.0) / (v * v), 12.0 * r * (r * r - 15.0) / (v * v * v))


def bounds(eta, data, n):
    return 1.57, 1.44  # 3 (3/2 + 2^1/2) 2 / 5^(3/2), 36 / 25


@sm.kernel(writes="mu")
def jump(rng, state, data):
    state.mu[0] = data.step * rng.standard_normal()


def locations(y) -> sm.Model:
    """Arms k: locations mu + (k - 3) / sqrt(N)."""
    data = {"y": y, "step": 1.0 / np.sqrt(len(y))}
    likelihood = sm.Predictors(location, student, slopes, bounds)
    return sm.Model(likelihood, data, {"k": 3, "mu": 0.0}, support={"k": 10})


def spent_on(model, kernel, label, draws=100_000, times=10) -> tuple[float, dict]:
    """Microseconds of one decision: the median, with and without all but one of them."""
    one = {n: walker(model, jump >> sm.repeat(kernel, n)) for n in (1, times + 1)}
    taken: dict = {n: [] for n in one}
    for _ in range(ROUNDS):
        for n, chain in one.items():
            begun = clock()
            out = chain.advance(max(draws // n, 1))
            taken[n].append((clock() - begun) / max(draws // n, 1) * 1e6)
    few, many = (median(taken[n]) for n in one)
    return (many - few) / times, counted(one[times + 1], out.words, label)


def discrete(sizes) -> list[dict]:
    """A draw of ten locations at posterior scale."""
    rows = []
    for size in sizes:
        model = locations(np.random.default_rng(1).standard_t(5, size))
        for name, selector, order in (
            ("Exact", sm.Exact(), None), ("Taylor 2, Normal", sm.Racing(delta=0.01), 2),
            ("Taylor 3, Normal", sm.Racing(delta=0.01), 3),
            ("Taylor 2, Betting", sm.Racing(sm.Betting(), delta=0.01), 2),
        ):  # fmt: skip
            control = None if order is None else sm.Taylor({"mu": 0.0}, order)
            kernel, draws = sm.Gibbs("k", selector, control=control), 100_000
            if order is None:
                draws = max(11, min(1000, 10**7 // size))
            micros, total = spent_on(model, kernel, "k", draws)
            audited = {"audited": 0, "wrong": 0}
            if order is not None:
                checked = walker(model, jump >> kernel, audit=1.0)
                out = checked.advance(min(10_000, 10**9 // size))
                audited = counted(checked, out.words, "k")
            rows.append({
                "decision": name, "N": size, "us": micros,
                "pulls": total["pulls"] / total["decisions"],
                "predicted": total["predicted"] / total["decisions"],
                "audited": int(audited["audited"]), "wrong": int(audited["wrong"]),
            })  # fmt: skip
            print(".", end="", flush=True)
    print()
    return rows


# ------------------------------------------------------------------------------------- flat in N
def flat(sizes) -> list[dict]:
    """A raced Metropolis decision on a location, the data on disk."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            path = Path(folder) / f"{size}.npy"
            y = np.lib.format.open_memmap(path, "w+", np.float32, (size,))
            rng = np.random.default_rng(1)
            for first in range(0, size, 1 << 22):
                part = y[first : first + (1 << 22)]
                part[:] = rng.standard_t(5, len(part))
            model = sm.Model(
                sm.Predictors(lonely, student, slopes, bounds),
                {"y": np.load(path, mmap_mode="r"), "step": 1.0 / np.sqrt(size)}, {"mu": 0.0},
            )  # fmt: skip
            begun = clock()
            control = sm.Taylor({"mu": 0.0}, 2, predict=False)  # else no datum would be read
            prepared_for(model, control)
            setup = clock() - begun
            for name, selector in (("Normal", sm.Racing(delta=0.01)),):
                kernel = sm.Metropolis(
                    "mu", 2.0 / np.sqrt(size), selector=selector, control=control, adapt=False
                )
                one, taken = walker(model, kernel), []
                one.advance(10_000)
                for _ in range(ROUNDS):
                    begun = clock()
                    out = one.advance(50_000)
                    taken.append((clock() - begun) / 50_000 * 1e6)
                total = counted(one, out.words, "mu")
                rows.append({
                    "rule": name, "N": size, "us": median(taken), "sums s": setup,
                    "pulls": total["pulls"] / total["decisions"],
                    "retreated": int(total["retreated"]),
                })  # fmt: skip
                print(".", end="", flush=True)
    print()
    return rows


def lonely(state, data, n):
    return state.mu[0]


def main(given=None) -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--size", type=lambda s: int(float(s)), default=10**6, help="N, such as 1e6")
    add("--d", type=int, nargs="+", default=[10, 20], help="coefficients")
    add("--only", nargs="+", choices=["tall", "discrete", "flat"], default=["tall", "discrete"])
    add("--peers", action="store_true", help="also measure NumPyro and BlackJAX")
    add("--sizes", type=lambda s: int(float(s)), nargs="+", default=None)
    add("--seed", type=int, default=1)
    add("--json", type=Path, metavar="FILE")
    options = parser.parse_args(given)
    machine.pin()
    print(f"{machine.processor()}, load {machine.load()}", flush=True)
    saved: dict = {}
    for d in options.d if "tall" in options.only else ():
        rows, setup = tall(options.size, d, options.seed)
        saved[f"tall {d}"] = rows + setup
        print(table(f"tall logistic regression, load {machine.load()}", rows), flush=True)
        print(table("set-up", setup), flush=True)
        if options.peers:
            x, y = tall_peers.simulate(options.size, d, options.seed)
            truth = tall_peers.long_reference(x, y)
            rivals = tall_peers.measure(x, y, truth, list(tall_peers.RIVALS), options.seed)
            saved[f"rivals {d}"] = rivals
            print(table(f"rivals, load {machine.load()}", rivals), flush=True)
    if "discrete" in options.only:
        saved["discrete"] = discrete(options.sizes or (10**5, 10**6, 10**7))
        print(table(f"a discrete draw, D = 10, load {machine.load()}", saved["discrete"]))
    if "flat" in options.only:
        saved["flat"] = flat(options.sizes or (10**5, 10**8))
        print(table(f"a raced decision against N, load {machine.load()}", saved["flat"]))
    if options.json:
        text = json.dumps(without_nan(saved), indent=1, default=str)
        options.json.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
