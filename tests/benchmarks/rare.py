"""Data in which few rows decide: are raced decisions wrong more often than delta, and at what cost.

    python -m tests.benchmarks.rare                      every data set, delta .05, .01 and .001
    python -m tests.benchmarks.rare --only 3 17 --delta .001 --steps 3000
    python -m tests.benchmarks.rare --json rare.jsonl    one line per cell, appended

Levels of 3 to 300 rows among 10^4 to 10^6, separated or not, one or many of them; columns with a
few huge values; GLMs with proved bounds, and plain likelihoods without. Each chain has the default
control variate, and every decision is made again exactly (a part of them where N is 10^6). `over`
is the chance of as many wrong decisions if the rate were delta: below 1e-4 the promise is broken.
`mean` and `sd` compare each coordinate with a chain of sm.Exact(): the largest difference of means
in Monte Carlo errors; the smallest and largest ratio of standard deviations, and (in brackets) how
many of its errors the logarithm of one is off.
"""

import argparse
import json
import time
from dataclasses import dataclass

from tests.benchmarks import machine  # first: it limits the threads of numpy  # noqa: F401

# isort: split
import arviz as az
import numpy as np
from scipy.stats import binom

import subsample_mcmc as sm

AUDITED = 4_000_000_000  # evaluations that the audits of a cell may take


# -------------------------------------------------------------------------------------- the data
@dataclass(frozen=True)
class Case:
    """One data set and the kernel that is tried on it."""

    family: str  # "logistic", "poisson", "student_t"; "plain ..." without bounds
    size: int
    counts: tuple[int, ...] = ()  # rows of each rare level
    share: float = 0.3  # of ones among them; 0 and 1: separated
    huge: str = ""  # "cauchy": a column with that tail; "carriers": ten rows of a column are +-30
    kernel: str = "pcn"
    seed: int = 0

    @property
    def name(self) -> str:
        levels = "x".join(map(str, self.counts[:2])) + ("..." if len(self.counts) > 2 else "")
        rare = f"{len(self.counts)}:{levels}@{self.share:g}" if self.counts else ""
        return f"{self.family} {self.size:.0e} {rare}{self.huge} {self.kernel}"

    def draw(self):
        """(x, y): an intercept, two common levels, two covariates, and what is rare."""
        rng = np.random.default_rng(1000 + self.seed)
        n = self.size
        level = rng.integers(0, 3, n)
        columns = [np.ones(n), level == 1, level == 2, *rng.standard_normal((2, n))]
        if self.huge == "cauchy":
            columns.append(rng.standard_cauchy(n))
        if self.huge == "carriers":
            column = np.zeros(n)
            column[rng.choice(n, 10, replace=False)] = 30.0 * rng.choice([-1.0, 1.0], 10)
            columns.append(column)
        where, at, rare = rng.permutation(n), 0, []
        for count in self.counts:
            column = np.zeros(n)
            rare.append(where[at : at + count])
            column[rare[-1]] = 1.0
            columns.append(column)
            at += count
        x = np.column_stack(columns).astype(float)
        beta = np.concatenate([[-0.5, 0.3, -0.4, 0.5, -0.3], np.zeros(x.shape[1] - 5)])
        if self.huge:
            beta[5] = 0.02
        eta = x @ beta
        family = self.family.split()[-1]
        if family == "logistic":
            y = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
        elif family == "poisson":
            y = rng.poisson(np.exp(np.minimum(eta, 8.0))).astype(float)
        else:
            y = eta + rng.standard_t(4, n)
        for rows in rare:
            ones = round(self.share * len(rows))
            if family == "logistic":
                y[rows] = 0.0
                y[rows[:ones]] = 1.0
            elif family == "poisson":
                y[rows] = 0.0
                y[rows[:ones]] = 2.0
        return x, y


CASES = [
    *(Case("logistic", 10_000, (c,), s, seed=c) for c, s in ((3, 0.0), (17, 0.06), (100, 0.3))),
    *(Case("logistic", 100_000, (c,), s, seed=c) for c, s in ((3, 0.3), (17, 0.0), (300, 0.05))),
    *(Case("logistic", 300_000, (c,), s, seed=c) for c, s in ((17, 0.06), (17, 1.0), (100, 0.0))),
    *(Case("logistic", 1_000_000, (c,), s, seed=c) for c, s in ((17, 0.06), (300, 0.3))),
    Case("logistic", 10_000, (3, 5, 10, 17, 30, 60), 0.3, kernel="walk"),
    Case("logistic", 100_000, (3, 10, 30, 100, 300), 0.3, kernel="walk"),
    Case("logistic", 300_000, (17,) * 8, 0.06, kernel="walk"),
    Case("logistic", 100_000, (17,) * 8, 0.06, kernel="langevin"),
    Case("logistic", 100_000, (17, 300), 0.0, kernel="independence"),
    Case("logistic", 300_000, (30,), 0.1, kernel="independence"),
    Case("logistic", 300_000, (3, 17, 100, 300), 0.3, kernel="langevin"),
    Case("logistic", 1_000_000, (3, 17, 100, 300), 0.1, kernel="walk"),
    Case("logistic", 10_000, huge="cauchy"),
    Case("logistic", 100_000, huge="carriers", kernel="walk"),
    Case("poisson", 100_000, (17,), 0.3),
    Case("poisson", 300_000, (3, 17, 100), 0.3, kernel="walk"),
    Case("poisson", 100_000, (17,), 0.06, kernel="langevin"),
    Case("student_t", 100_000, (3, 17, 100)),
    Case("student_t", 5_000, huge="cauchy"),
    Case("student_t", 300_000, huge="carriers", kernel="walk"),
    Case("student_t", 100_000, (10,) * 6, kernel="langevin"),
    Case("plain logistic", 10_000, (17,), 0.06),
    Case("plain logistic", 100_000, (17,), 0.06),
    Case("plain logistic", 100_000, (17,), 0.0, kernel="walk"),
    Case("plain logistic", 300_000, (100,), 0.05),
    Case("plain logistic", 100_000, (3, 30, 300), 0.3, kernel="independence"),
    Case("plain student_t", 5_000, huge="cauchy"),
    Case("plain student_t", 5_000, huge="cauchy", seed=1),
    Case("plain student_t", 5_000, huge="cauchy", kernel="walk", seed=2),
    Case("plain student_t", 100_000, huge="carriers"),
    Case("plain student_t", 100_000, huge="carriers", kernel="walk", seed=1),
    Case("plain student_t", 100_000, (3, 17)),
    Case("plain student_t", 300_000, (17,), kernel="langevin"),
    Case("plain logistic", 100_000, (17,), 0.06, kernel="gibbs"),
    Case("plain logistic", 30_000, (3, 100), 0.0, kernel="gibbs"),
    # The way back: nothing is rare here, and nothing may cost more than before.
    Case("logistic", 100_000),
    Case("logistic", 1_000_000, kernel="walk"),
    Case("student_t", 100_000, kernel="walk"),
    Case("plain student_t", 50_000),
]


# ------------------------------------------------------------------------------------- the models
def plain_logistic(state, data, n):
    eta = 0.0
    for j in range(state.beta.shape[0]):
        eta += data.x[n, j] * state.beta[j]
    z = eta if data.y[n] == 1.0 else -eta
    return min(z, 0.0) - sm.log1p(sm.exp(-abs(z)))


def shifted_logistic(state, data, n):
    """With a level's effect on a grid: what is known of k sits in the rows of that level."""
    last = state.beta.shape[0] - 1
    eta = 0.5 * state.k[0] * data.x[n, last]
    for j in range(state.beta.shape[0]):
        eta += data.x[n, j] * state.beta[j]
    z = eta if data.y[n] == 1.0 else -eta
    return min(z, 0.0) - sm.log1p(sm.exp(-abs(z)))


def plain_student_t(state, data, n):
    z = data.y[n]
    for j in range(state.beta.shape[0]):
        z -= data.x[n, j] * state.beta[j]
    return -2.5 * sm.log1p(0.25 * z * z)


def plain_prior(state):
    total = 0.0
    for b in state.beta:
        total -= 0.5 * b * b / 6.25
    return total


def model_of(case: Case):
    """The model of a data set, with a Normal(0, 2.5^2) prior."""
    x, y = case.draw()
    if case.kernel == "gibbs":
        state = {"k": 2, "beta": np.zeros(x.shape[1])}
        return sm.Model(shifted_logistic, {"x": x, "y": y}, state, plain_prior, support={"k": 5})
    if case.family.startswith("plain"):
        likelihood = plain_logistic if "logistic" in case.family else plain_student_t
        return sm.Model(likelihood, {"x": x, "y": y}, {"beta": np.zeros(x.shape[1])}, plain_prior)
    family = getattr(sm.models.glm, case.family)
    more = {"nu": 4.0, "sigma": 1.0} if case.family == "student_t" else {}
    return family(x, y, prior_sd=2.5, **more)


def kernel_of(case: Case, fit, selector, control):
    """The kernel of a data set."""
    given = {"selector": selector, "control": control}
    if case.kernel == "gibbs":
        return sm.Gibbs("k", **given) >> sm.Metropolis(
            "beta", proposal=sm.pcn(fit, beta=0.7), **given
        )
    if case.kernel == "pcn":
        return sm.Metropolis("beta", proposal=sm.pcn(fit, beta=0.7), **given)
    if case.kernel == "independence":
        return sm.Metropolis("beta", proposal=sm.independence(fit), **given)
    if case.kernel == "langevin":
        return sm.Langevin("beta", **given)
    return sm.Metropolis("beta", scale=np.sqrt(np.diag(fit.covariance)), **given)


# ------------------------------------------------------------------------------------- one cell
def moments(draws) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(mean, standard deviation, effective sample size, error of log sd) of each coordinate."""

    def size(values):
        return np.array([float(az.ess(column[None, :])) for column in values.T])

    square = (draws - draws.mean(axis=0)) ** 2
    variance = square.mean(axis=0)
    error = 0.5 * square.std(axis=0) / np.maximum(variance, 1e-300) / np.sqrt(size(square))
    return draws.mean(axis=0), np.sqrt(variance), size(draws), error


def reference(case: Case, model, fit, control, steps: int):
    """Moments by exact decisions."""
    kernel = kernel_of(case, fit, sm.Exact(), control)
    trace = sm.sample(model, kernel, draws=steps, warmup=steps // 4, chains=1, seed=5,
                      start=fit.state, progress=False)  # fmt: skip
    return moments(trace.draws["beta"][0])


def cell(case: Case, model, fit, control, delta: float, steps: int, exact) -> dict:
    """One chain, audited."""
    selector = sm.Racing(delta=delta)
    kernel = kernel_of(case, fit, selector, control)
    arguments = {"draws": steps, "warmup": steps // 4, "chains": 1, "seed": 7, "progress": False}
    arguments |= {"start": fit.state}
    share = min(1.0, AUDITED / (2.0 * model.size * steps))
    audited = sm.sample(model, kernel, audit=share, **arguments).stats
    audited = audited["k" if case.kernel == "gibbs" else "beta"]
    start = time.process_time()
    trace = sm.sample(model, kernel, **arguments)
    seconds = time.process_time() - start
    checked, wrong = int(audited["audited"].sum()), int(audited["wrong"].sum())
    mean, sd, ess, error = moments(trace.draws["beta"][0])
    told = {
        "case": case.name, "delta": delta, "checked": checked, "wrong": wrong,
        "over": float(binom.sf(wrong - 1, checked, delta)),
        "regret": float(audited["regret"].sum()) / max(wrong, 1),
        "accepted": float(audited["accepted"].mean()), "pulls": float(audited["pulls"].mean()),
        "ess_s": float(ess.min()) / seconds,
    }  # fmt: skip
    if exact is not None:
        errors = np.sqrt(sd**2 / ess + exact[1] ** 2 / exact[2])
        told["mean"] = float((np.abs(mean - exact[0]) / errors).max())
        told["sd"] = [float((sd / exact[1]).min()), float((sd / exact[1]).max())]
        off = np.abs(np.log(sd / exact[1])) / np.hypot(error, exact[3])
        told["sd_errors"] = float(off.max())
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", type=int, nargs="*", help="numbers of data sets")
    parser.add_argument("--delta", type=float, nargs="*", default=[0.05, 0.01, 0.001])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--no-exact", action="store_true", help="no moments of sm.Exact()")
    parser.add_argument("--json", help="a file to which each cell is appended as a line")
    given = parser.parse_args()
    print(f"{'data':44s} {'delta':>6s} {'wrong':>11s} {'over':>8s} {'regret':>7s} {'acc':>5s} "
          f"{'rows':>8s} {'ESS/s':>8s} {'mean':>5s} sd", flush=True)  # fmt: skip
    for number, case in enumerate(CASES):
        if given.only and number not in given.only:
            continue
        model = model_of(case)
        fit, start = sm.laplace(model), time.process_time()
        control = sm.Taylor(fit)
        kept = len(control.always_read(model))
        prepared = time.process_time() - start
        exact = None
        if not given.no_exact:
            exact = reference(case, model, fit, control, 2 * given.steps)
        for delta in given.delta:
            told = cell(case, model, fit, control, delta, given.steps, exact)
            told |= {"number": number, "outliers": kept, "prepared": prepared}
            more = ""
            if exact is not None:
                more = f"{told['mean']:5.1f} {told['sd'][0]:.2f}-{told['sd'][1]:.2f}"
                more += f" ({told['sd_errors']:.1f})"
            flag = "  BROKEN" if told["over"] < 1e-4 else ""
            print(f"{number:2d} {case.name:41s} {delta:6g} {told['wrong']:5d}/{told['checked']:5d} "
                  f"{told['over']:8.1e} {told['regret']:7.2g} {told['accepted']:5.2f} "
                  f"{told['pulls']:8.1f} {told['ess_s']:8.0f} {more} m={kept} "
                  f"{prepared:.1f}s{flag}", flush=True)  # fmt: skip
            if given.json:
                with open(given.json, "a", encoding="utf-8") as file:
                    file.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
