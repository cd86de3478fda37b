"""Exact minibatch methods beside ours: effective draws per second and per row, and their errors.

Each has one thread, starts at the mode and walks in the posterior's covariance. A peer's step (and
Firefly's share of dark rows) is the best of a pilot's. ESS are arviz's, of every coefficient: the
least, mean and most; rows are those looked at, of a proposal's pair of states one. Errors of means
are in posterior sds, beside importance sampling from the Laplace approximation, which says how
precise it is.
"""

import sys
import time

import arviz
import numpy as np

import subsample_mcmc as sm
from tests.benchmarks.peers import firefly, others, poisson, potts, walks, zigzag
from tests.benchmarks.peers.families import LOGISTIC
from tests.benchmarks.peers.targets import TASKS, target_of, truth_of
from tests.benchmarks.report import table

PILOT = 0.15  # of the time of a row, for each setting that is tried
MOST = 400_000  # draws of a row
FIRST = 20  # draws of a row at first; then twice as many, until its time is spent
SLOW = 0.2  # of the time of a row: a draw that takes longer is not tried further
SHOWN = "ESS/s", "rows a draw", "mean error"  # of a row as soon as it is done
POTTS = "Potts, side 20, 10 colours"
LARGE = 50  # coefficients beyond which all of ours have order 2: that is the default, too
GAPS = (0.3, 1.0)  # of the zig-zag's times: it does not walk faster for them
OURS = {
    "ours, Thinned 3": (sm.Thinned(), 3), "ours, Thinned 2": (sm.Thinned(), 2),
    "ours, Betting": (sm.Racing(sm.Betting(), delta=0.01), 3),
    "ours, Normal": (sm.Racing(delta=0.01), 3), "ours, Exact": (sm.Exact(), 3),
}  # fmt: skip


def effective(chain) -> np.ndarray:
    """ESS of every coordinate: none, where it never moved."""
    found = [float(arviz.ess(np.ascontiguousarray(line)[None])) for line in chain.T]
    return np.where(chain.std(axis=0) > 1e-9, found, 0.0)


def row(name, chain, seconds, rows, accepted, truth) -> dict:
    """In numbers; chain: in theta."""
    ess, wide = effective(chain), chain.std(axis=0, ddof=1) / truth.sd
    off = np.abs(chain.mean(axis=0) - truth.mean) / truth.sd
    with np.errstate(divide="ignore"):
        its = float((1.0 / np.sqrt(ess)).max())
    return {
        "method": name, "us a draw": 1e6 * seconds / len(chain), "rows a draw": rows,
        "accepted": accepted, "ESS/s": ess.min() / seconds, "mean": ess.mean() / seconds,
        "most": ess.max() / seconds, "ESS/1000 rows": 1e3 * ess.min() / max(rows * len(chain), 1.0),
        "mean error": off.max(), "its error": its,
        "sd ratio, least": wide.min(), "largest": wide.max(),
    }  # fmt: skip


def timed(call, draws: int):
    """(chain, rows a draw, accepted, seconds); call(draws, seed)."""
    begun = time.process_time()
    chain, rows, moved = call(draws, 1)
    return chain, rows / draws, moved / draws, time.process_time() - begun


def within(call, draws: int, seconds: float):
    """The same, of at most so many draws: twice as many as before, until half the time is spent.

    A chain starts at the mode, where its draws may be much cheaper than they become.
    """
    now = min(FIRST, draws)
    while True:
        found = timed(call, now)
        if now == draws or found[3] > seconds / 2:
            return found
        now = min(2 * now, draws)


def best_of(calls: dict, seconds: float):
    """The setting with most ESS a second in a pilot, draws that fit its time, seconds of one."""
    found = {}
    for setting, call in calls.items():
        call(2, 0)
        *_, brief = timed(call, 2)
        if brief > 2 * SLOW * seconds:
            found[setting] = (0.0, brief / 2)
            continue
        *_, brief = timed(call, 10)
        draws = int(np.clip(PILOT * seconds / max(brief, 1e-5) * 10, 20, MOST))
        chain, _, _, spent = within(call, draws, PILOT * seconds)
        moved = chain.std(axis=0).min() > 1e-6
        found[setting] = (effective(chain).min() / spent if moved else 0.0, spent / len(chain))
    best = max(found, key=lambda setting: found[setting][0])
    cost = found[best][1]
    return best, int(np.clip(seconds / cost, 100, MOST)), cost


def tuned(name, calls, target, truth, seconds) -> dict:
    """A row of a compiled peer; calls: by setting."""
    best, draws, cost = best_of(calls, seconds)
    if cost > SLOW * seconds:
        return {"method": f"{name}: {cost:.2g} s a draw, too slow for a row"}
    chain, rows, accepted, spent = within(calls[best], draws, seconds)
    theta = target.mode + chain @ target.factor.T
    return row(f"{name} ({best})", theta, spent, rows, accepted, truth)


def compiled(target, truth, seconds):
    """Rows of the peers that are our own implementations."""
    for name in walks.WALKS:
        run = walks.walker(target, name)
        calls = {f"step {k:g}": lambda n, s, k=k, run=run: run(k, n, s) for k in walks.KAPPAS}
        yield tuned(name, calls, target, truth, seconds)
    fly = firefly.flier(target)
    calls = {
        f"step {k:g}, share {q:g}": lambda n, s, k=k, q=q: fly(k, q, n, s)
        for k in (0.3, 1.0) for q in firefly.SHARES
    }  # fmt: skip
    yield tuned("Firefly", calls, target, truth, seconds)
    for name in poisson.WALKS:
        run = poisson.walker(target, name)
        calls = {
            f"step {k:g}, share {q:g}": lambda n, s, k=k, q=q, run=run: run(k, q, n, s)
            for k in poisson.KAPPAS for q in poisson.SHARES
        }  # fmt: skip
        yield tuned(name, calls, target, truth, seconds)
    zig = zigzag.zigzagger(target)
    calls = {f"every {g:g}": lambda n, s, g=g: zig(n, g, s) for g in GAPS}
    yield tuned("zig-zag", calls, target, truth, seconds)


def ours(x, y, family, truth, seconds):
    """Rows of this package: the same walk, and its own proposal along the fit."""
    model = (sm.models.glm.logistic if family == LOGISTIC else sm.models.glm.student_t)(x, y)
    fit = sm.laplace(model, progress=False)
    for name, (selector, order) in OURS.items():
        if x.shape[1] > LARGE:
            if name == "ours, Thinned 3":
                continue
            order = 2
        control = sm.Taylor(fit, order=order)
        for proposal in ("walk", "pCN"):
            made = sm.pcn(fit) if proposal == "pCN" else walk_of(fit)
            kernel = sm.Metropolis("beta", proposal=made, selector=selector, control=control)

            def call(draws, kernel=kernel):
                begun = time.process_time()
                trace = sm.sample(
                    model, kernel, draws=draws, warmup=0, chains=1, seed=1, start=[fit.state],
                    progress=False,
                )  # fmt: skip
                return time.process_time() - begun, trace

            call(20)
            brief, _ = call(200)
            spent, trace = call(int(np.clip(seconds / brief * 200, 200, MOST)))
            told, chain = trace.stats["beta"], np.asarray(trace.draws["beta"])[0]
            rows, accepted = float(np.mean(told["pulls"])) / 2.0, float(np.mean(told["accepted"]))
            yield row(f"{name}, {proposal}", chain, spent, rows, accepted, truth)


def walk_of(fit):
    """The peers' own proposal: a normal step in the posterior's covariance."""
    factor, d = 2.4 / np.sqrt(len(fit.mean)) * np.asarray(fit.factor), len(fit.mean)

    def step(rng, current, out):
        for i in range(d):
            out[i] = current[i]
        for j in range(d):
            z = rng.normal()
            for i in range(j, d):
                out[i] += factor[i, j] * z

    return step


def programs(x, target, truth, seconds, python):
    """Rows of others' programs; of one that is not there, why."""
    calls = {f"PyMHSS {name}": (others.pymhss, name) for name in others.NAMES}
    calls["NumPyro HMCECS"] = others.hmcecs, ""
    for name, (call, what) in calls.items():
        told = "its models have no Student noise"
        if target.family == LOGISTIC:
            told = call(python, what, x, target, seconds)
        if isinstance(told, str):
            yield {"method": f"{name}: {told}"}
        else:
            yield row(name, *told, truth)


def task(name: str, seconds: float, python: str) -> list[dict]:
    """All rows of a task."""
    family, make, *given = TASKS[name]
    x, y = make(*given)
    truth, target = truth_of(x, y, family), target_of(x, y, family)
    print(f"\n{name}: truth known to {truth.error_mean:.2g} sd", flush=True)
    found: list[dict] = []
    for rows in (
        ours(x, y, family, truth, seconds), compiled(target, truth, seconds),
        programs(x, target, truth, seconds, python),
    ):  # fmt: skip
        for told in rows:
            shown = [
                f"{k} {told[k]:.3g}" for k in ("ESS/s", "rows a draw", "mean error") if k in told
            ]
            # The next may take minutes.
            print(", ".join([f"  {told['method']}", *shown]), file=sys.stderr, flush=True)
            found.append(told)
    nothing = dict.fromkeys(found[0], float("nan"))
    return [nothing | told for told in found]


def main(chosen: str, seconds: float, python: str) -> None:
    """The tables of all tasks whose names hold a text."""
    for name in TASKS:
        if chosen in name:
            print(table(name, task(name, seconds, python)), flush=True)
    if chosen in POTTS:
        print(table(POTTS, potts.table(seconds, effective)), flush=True)
