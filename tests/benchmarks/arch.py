"""Model choice among ARCH models on real bars: exact and raced, same proposals, in one run.

    python -m tests.benchmarks.arch --data bars.csv.gz --year 2016
    python -m tests.benchmarks.arch --data one_minute_bars.csv.gz --draws 5000 --exact-draws 300
    python -m tests.benchmarks.arch --reference bridge.json      errors against tests.benchmarks.
                                                                 arch_bridge --json bridge.json

decision  one exact draw of the order among six, nanoseconds a log factor; beside it the likelihood
          of the arch package (pip install arch), if that is there.
chains    ESS of the order a second and a million evaluations, share of the log factors, audited
          errors; exact, raced with sm.Taylor of order 3 and 2, and with the paper's sm.Bins.
settle    Wang-Landau from zero: evaluations until log p(q) stays within half a nat.

One thread, wall time of one chain at a time; an exact sampler remembers its current likelihood.
"""

import argparse
import json
import time
from pathlib import Path

from tests.benchmarks import machine  # first: it limits the threads of numpy

# isort: split
import arviz
import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.models import arch, returns
from subsample_mcmc.runs.chain import Program, Walker
from tests.benchmarks.report import table, without_nan

ORDERS = (5, 10, 15, 20, 25, 30)
BIG = 50_000  # data from which on fits are matched by sums alone
NEAR = 0.5  # nats


class Study:
    """A series, its model and its fits."""

    def __init__(self, series: np.ndarray, outliers: float):
        self.model = arch.ARCH(series, ORDERS, coordinates="squareroot")
        begun = time.perf_counter()
        raw = [sm.laplace(self.model, "theta", given={"q": k}) for k in range(len(ORDERS))]
        rough = sm.Taylor(raw) if self.model.size > BIG else None
        self.fits = [fit.matched(rough) for fit in raw]
        self.controls = {
            "Taylor 3": sm.Taylor(self.fits, outliers=outliers),
            "Taylor 2": sm.Taylor(self.fits, order=2, outliers=outliers),
            "bins, 20% outliers": sm.Bins(columns=("r2",), fit=self.fits),
        }
        self.controls["Taylor 3"].always_read(self.model)
        self.prepared = time.perf_counter() - begun
        self.evidence = np.array([fit.log_evidence for fit in self.fits])

    def kernel(self, selector, control, start):
        """The sampler: same proposals whatever decides."""
        lead = self.controls["Taylor 3"]
        more = {"selector": selector, "control": control}
        walk = sm.Metropolis("theta", proposal=sm.independence(self.fits), **more)
        drift = sm.Langevin("theta", selector=selector, control=control or lead)
        if control is not lead and control is not None:  # bins have no gradient: walk only
            moves = walk
        else:
            moves = sm.mixture((drift, 0.5), (walk, 0.5))
        pseudo = sm.PseudoPrior(self.fits)
        return sm.Gibbs("q", pseudo=pseudo, **more) >> moves >> sm.WangLandau("q", start=start)


# ------------------------------------------------------------------------------------- decision
def decision(study: Study) -> list[dict]:
    """Nanoseconds a log factor of an exact draw of the order, and of the arch package."""
    pseudo = sm.PseudoPrior(study.fits)
    draw = sm.Gibbs("q", pseudo=pseudo, selector=sm.Exact()) >> sm.Metropolis(
        "theta", scale=1e-9, selector=sm.Exact(), adapt=False
    )  # which reads one more set of factors
    program = Program(study.model, draw)
    program.compile()
    one, steps, best = Walker(program, np.random.SeedSequence(1)), 20, np.inf
    for _ in range(7):
        begun = time.thread_time()
        words = one.advance(steps).words
        taken = time.thread_time() - begun
        told = program.layout.stats(words)
        read = sum(told[label]["pulls"].sum() for label in ("q", "theta"))
        best = min(best, taken / read)
    rows = [{"what": "exact draw of the order", "ns a factor": 1e9 * best}]
    rival = packaged(study)
    if rival is not None:
        rows.append({"what": "arch package", "ns a factor": 1e9 * rival, "ratio": rival / best})
    return rows


def packaged(study: Study) -> float | None:
    """Seconds a factor of the arch package's variance recursion and Student-t likelihood."""
    try:
        from arch import univariate
    except ImportError:
        return None
    series, best = study.model.returns, np.inf
    law = univariate.StudentsT(seed=0)
    for _ in range(5):
        begun = time.thread_time()
        for fit, order in zip(study.fits, ORDERS, strict=True):
            theta = fit.state["theta"]
            volatility = univariate.ARCH(p=order)
            variances = np.empty_like(series)
            first = np.full(order, series.var())
            bounds = np.ones((len(series), 1)) * [1e-6, 1e6]
            volatility.compute_variance(
                theta[1 : order + 2], series, variances, first.mean(), bounds
            )
            law.loglikelihood([theta[0]], series, variances)
        best = min(best, time.thread_time() - begun)
    return best / (len(ORDERS) * len(series))


# --------------------------------------------------------------------------------------- chains
def effective(q: np.ndarray) -> float:
    """ESS of the order: of the worst indicator, chain by chain, as each has its own tilt."""
    found = []
    for k in range(len(ORDERS)):
        each = [arviz.ess((chain == k).astype(float)[None], method="bulk") for chain in q]
        found.append(float(np.nansum(each)))
    return min(found)


def chains(study: Study, draws: int, exact_draws: int, names) -> list[dict]:
    """One row a way to decide."""
    plans = {"exact": (sm.Exact(), None, exact_draws)}
    for name in names:
        plans[f"raced, {name}"] = (sm.Racing(), study.controls[name], draws)
    rows = []
    for name, (selector, control, count) in plans.items():
        kernel = study.kernel(selector, control, -study.evidence)
        begin = [study.fits[int(np.argmax(study.evidence))].state]
        common = {"chains": 1, "start": begin, "progress": False}
        audited = sm.sample(
            study.model, kernel, max(count // 5, 50), 500, seed=1, audit=0.5, **common
        )
        trace = sm.sample(study.model, kernel, count, min(2000, count), seed=2, **common)
        found = trace.model_probabilities("q", labels=ORDERS)
        read = sum(s["pulls"].sum() for s in trace.stats.values() if "pulls" in s)
        all_of = sum(s["everything"].sum() for s in trace.stats.values() if "pulls" in s)
        ess, seconds = effective(trace.draws["q"]), float(trace.seconds.sum())
        row = {
            "decided": name, "us an iteration": 1e6 * seconds / count,
            "ESS(q) an iteration": ess / count, "ESS(q)/s": ess / seconds,
            "ESS(q) per 1e6": ess / read * 1e6, "share read": read / all_of,
            "predicted": predicted(trace),
        }  # fmt: skip
        if name != "exact":
            row |= {"wrong, q": rate(audited, "q"), "wrong, theta": rate(audited, "theta")}
        row["log p"] = found.table["log_probability"].tolist()
        row["se"] = found.table["log_probability_se"].tolist()
        rows.append(row)
        print(f"  {name}: {row['ESS(q)/s']:.4g} ESS/s, {row['share read']:.2%} read", flush=True)
    return rows


def predicted(trace) -> float:
    """Share of decisions that read no data."""
    made = [s for s in trace.stats.values() if "decisions" in s]
    return sum(s["predicted"].sum() for s in made) / sum(s["decisions"].sum() for s in made)


def rate(trace, block: str) -> str:
    """Wrong of audited decisions of all kernels of a block."""
    own = [s for label, s in trace.stats.items() if label.startswith(block) and "audited" in s]
    return f"{sum(s['wrong'].sum() for s in own)} of {sum(s['audited'].sum() for s in own)}"


# --------------------------------------------------------------------------------------- settle
def settle(study: Study, steps: int, truth: np.ndarray) -> list[dict]:
    """Evaluations after which log p(q) of Wang-Landau, from zero, stays within half a nat."""
    rows = []
    for name, selector in (("exact", sm.Exact()), ("raced", sm.Racing())):
        control = study.controls["Taylor 3"] if name == "raced" else None
        kernel = study.kernel(selector, control, None)
        begin = [study.fits[int(np.argmax(study.evidence))].state]
        trace = sm.sample(
            study.model, kernel, 200, steps, chains=1, seed=3, start=begin, progress=False
        )
        history = trace.model_probabilities("q").history
        tilts = history.drop(columns=["chain", "iteration", "rewards_read"])
        said = -tilts.to_numpy(dtype=float)
        said -= said.max(axis=1, keepdims=True)
        said -= np.log(np.exp(said).sum(axis=1, keepdims=True))
        off = np.abs((said - said[:, 2:3]) - (truth - truth[2])).max(axis=1) > NEAR
        last = int(np.flatnonzero(off)[-1]) if off.any() else -1
        reached = last + 1 < len(off)
        at = history["rewards_read"].to_numpy()[last + 1] if reached else np.nan
        rows.append({"decided": name, "evaluations": float(at), "iterations": float(
            history["iteration"].to_numpy()[last + 1] if reached else np.nan
        )})  # fmt: skip
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="bars, a CSV; default: the simulated year")
    parser.add_argument("--year", type=int)
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--exact-draws", type=int, default=5_000)
    parser.add_argument("--outliers", type=float, default=0.01)
    parser.add_argument("--steps", type=int, default=30_000, help="of Wang-Landau; 0: none")
    parser.add_argument("--only", nargs="*", default=["decision", "chains", "settle"])
    parser.add_argument("--controls", nargs="*", default=["Taylor 3", "Taylor 2"])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    told = machine.describe(machine.pin())
    print("\n".join(f"{k}: {v}" for k, v in told.items()), machine.warning(), sep="\n")
    if given.data:
        bars = returns.read_bars(given.data)
        if given.year:
            bars = bars[bars["time"].dt.year == given.year]
        series = returns.standardised(returns.log_returns(bars).values)[0]
    else:
        series = arch.example_returns()
    study = Study(np.asarray(series), given.outliers)
    print(f"N = {study.model.size}; fits and sums of Taylor 3 took {study.prepared:.1f} s")
    found: dict = {"machine": told, "size": study.model.size}
    if "decision" in given.only:
        found["decision"] = decision(study)
        print(table("One exact draw of the order", found["decision"]))
    if "chains" in given.only:
        found["chains"] = chains(study, given.draws, given.exact_draws, given.controls)
        shown = [{k: r[k] for k in found["chains"][0] if k not in ("log p", "se")} | {
            "wrong, q": r.get("wrong, q", ""), "wrong, theta": r.get("wrong, theta", "")
        } for r in found["chains"]]  # fmt: skip
        print(table("Chains", shown))
        for row in found["chains"]:
            pairs = zip(ORDERS, row["log p"], row["se"], strict=True)
            print(row["decided"], "; ".join(f"{q}: {p:.4f} ({s:.4f})" for q, p, s in pairs))
    if "settle" in given.only and given.steps:
        truth = np.array(found["chains"][-1]["log p"] if "chains" in found else study.evidence)
        found["settle"] = settle(study, given.steps, truth)
        print(table("Wang-Landau from zero, to within half a nat", found["settle"]))
    if given.json:
        given.json.write_text(json.dumps(without_nan(found), indent=1))


if __name__ == "__main__":
    main()
