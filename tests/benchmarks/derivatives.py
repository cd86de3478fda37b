"""Plain functions beside ready families: derivatives of any likelihood, and what they cost.

    python -m tests.benchmarks.derivatives [--only chain | bounds | residual | laplace | compile]

`chain`: a logistic regression written as a plain function, beside sm.models.glm.logistic, beside
interpolation, and beside sm.from_pymc where PyMC is installed; one chain, one thread, one run;
raced, and decided by default.
`bounds`: what intervals say of remainders at the usual distance, in nats over all rows, and exact
chains by it (sm.Thinned). `residual`: ns a residual of one row of a Student-t regression with free
scale, by jets and by interpolation; and of found predictors over predictors by hand. `laplace`:
seconds of the processor that a fit takes, by derivatives and by differences. `compile`: seconds of
the processor until a new model's derivatives, predictors and bounds are there, without and with an
engine on disk, and where all is on disk.
"""

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks import machine  # first: it limits the threads of numpy

# isort: split
import arviz
import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.fit import laplace as fitting
from subsample_mcmc.approx.taylor import derivatives_jets as jets
from tests.benchmarks.report import table

WARMUP, DRAWS, REPEATS = 500, 200_000, 5


def linear(state, data, n):
    total = 0.0
    for j in range(len(state.beta)):
        total += data.x[n, j] * state.beta[j]
    return total


def logistic(state, data, n):
    e = linear(state, data, n)
    return sm.log_sigmoid(e) if data.y[n] == 1.0 else sm.log_sigmoid(-e)


def student_t(state, data, n):
    z = (data.y[n] - linear(state, data, n)) * sm.exp(-state.log_sigma[0])
    return -state.log_sigma[0] - 2.5 * sm.log1p(z * z / 4.0)


def prior(state):
    total = 0.0
    for j in range(len(state.beta)):
        total -= 0.005 * state.beta[j] ** 2
    return total


def design(size: int, d: int, free_scale: bool = False):
    """Correlated columns, and what y is drawn from."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((size, d)) + 0.5 * rng.standard_normal((size, 1))
    e = x @ np.linspace(0.4, -0.4, d)
    if free_scale:
        return x, e + rng.standard_t(4, size)
    return x, (rng.random(size) < 1.0 / (1.0 + np.exp(-e))).astype(float)


def logistic_model(size: int, d: int):
    """The plain function's model."""
    x, y = design(size, d)
    return sm.Model(logistic, {"x": x, "y": y}, {"beta": np.zeros(d)}, prior)


def interpolating(work):
    """Do something with jets out of the way."""
    kept = jets.FEW, fitting.FEW
    jets.FEW = fitting.FEW = 10**6
    try:
        return work()
    finally:
        jets.FEW, fitting.FEW = kept


def chain_of(model, prepare=lambda work: work(), draws=DRAWS) -> tuple:
    """(us a step, those by the usual selector, ESS a second, seconds of the control variate, share
    of decisions that read; the control variate, in words).

    The processor's time, medians of REPEATS runs, of which ESS a second are, too.
    """
    fit = prepare(lambda: sm.laplace(model, progress=False))
    control, begun = sm.Taylor(fit), time.process_time()
    prepare(lambda: control.always_read(model))
    spent = time.process_time() - begun
    raced = sm.Metropolis("beta", proposal=sm.pcn(fit), selector=sm.Racing(), control=control)
    usual = sm.Metropolis("beta", proposal=sm.pcn(fit), control=control)

    def run(kernel, draws):
        begun = time.process_time()
        trace = sm.sample(model, kernel, draws=draws, warmup=WARMUP, chains=1, seed=1,
                          start=fit.state, progress=False)  # fmt: skip
        return trace, time.process_time() - begun

    def step_of(kernel):
        run(kernel, 100)
        several = [run(kernel, draws) for _ in range(REPEATS)]
        trace, seconds = several[0][0], float(np.median([spent for _, spent in several]))
        return trace, seconds, 1e6 * seconds / (draws + WARMUP)

    trace, seconds, us = step_of(raced)
    by_default = step_of(usual)[2]
    ess = min(float(arviz.ess(column)) for column in trace.draws["beta"][0].T)
    read = float(np.mean(1.0 - trace.stats["beta"]["predicted"]))
    return us, by_default, ess / seconds, spent, read, control.text(model)


def of_pymc(x, y) -> dict:
    """The same model, as PyMC has it."""
    if importlib.util.find_spec("pymc") is None:
        return {}
    import pymc as pm

    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 10.0, shape=x.shape[1])
        pm.Bernoulli("y", logit_p=x @ beta, observed=y)
    return {"PyMC's": sm.from_pymc(model)}


def chains() -> None:
    rows = []
    for size, d in ((400_000, 8), (400_000, 20)):
        x, y = design(size, d)
        plain = logistic_model(size, d)
        for name, model, how in (
            ("glm.logistic", sm.models.glm.logistic(x, y), lambda work: work()),
            ("plain function", plain, lambda work: work()),
            *((name, model, lambda work: work()) for name, model in of_pymc(x, y).items()),
            ("interpolated", logistic_model(size, d), interpolating),
        ):
            us, usual, ess, spent, read, text = chain_of(
                model, how, 10_000 if how is interpolating else DRAWS
            )
            rows.append({
                "N": size, "d": d, "model": name, "control": text.split(" (")[0], "us a step": us,
                "by default": usual, "ESS/s": ess, "decisions that read, %": 100.0 * read,
                "sums, CPU s": spent,
            })  # fmt: skip
    print(table("Metropolis with pcn, one chain", rows))


def bounds() -> None:
    """Of Metropolis moves of beta, and of a free scale."""
    rows, size = [], 400_000
    for d in (8, 20):
        x, y = design(size, d)
        real_x, real = design(size, d - 1, free_scale=True)
        state = {"beta": np.zeros(d - 1), "log_sigma": 0.0}
        for name, model in (
            ("glm.logistic", sm.models.glm.logistic(x, y)),
            ("plain logistic", logistic_model(size, d)),
            ("plain Student-t", sm.Model(student_t, {"x": real_x, "y": real}, state, prior)),
        ):
            fit = sm.laplace(model, progress=False)
            control, begun = sm.Taylor(fit), time.process_time()
            prepared = prepared_for(model, control)
            spent, limits = time.process_time() - begun, prepared.sums.whole.limits[0]
            power = d ** (0.5 * (prepared.source.order + 1)) / 24.0
            kernel: Any = sm.Metropolis("beta", 0.5 / np.sqrt(size), control=control, adapt=False)
            if "log_sigma" in model.names:
                kernel = kernel >> sm.Metropolis("log_sigma", 1.0 / np.sqrt(size), adapt=False,
                                                 control=control)  # fmt: skip
            sm.sample(model, kernel, draws=100, warmup=0, chains=1, seed=1, progress=False)
            begun = time.process_time()
            trace = sm.sample(model, kernel, draws=20_000, warmup=0, chains=1, seed=1,
                              start=fit.state, progress=False)  # fmt: skip
            rows.append({
                "d": d, "model": name, "proved": prepared.proved, "bounds, nats": limits[0] * power,
                "within": limits[7], "prepared, CPU s": spent,
                "us a step": (time.process_time() - begun) / 0.02,
                "rows read a decision": float(trace.stats["beta"]["pulls"].mean()),
            })  # fmt: skip
    print(table("Exact chains of plain functions, N = 4e5", rows))


def residuals() -> None:
    rows = []
    for d in (2, 8, 12, 20):
        x, y = design(100_000, d - 1, free_scale=True)
        state = {"beta": np.linspace(0.4, -0.4, d - 1), "log_sigma": 0.0}
        model = sm.Model(student_t, {"x": x, "y": y}, state)
        for found in (sm.derivatives(model, state), interpolating(lambda m=model: inspected(m))):
            rows.append({
                "d": d, "way": found.way, "order": found.order,
                "ns a row, two arms": 2.0 * found.nanoseconds, "left over": found.left,
                "power": found.power,
            })  # fmt: skip
    print(table("Student-t regression with free scale, N = 1e5", rows))
    print(table("Residuals of found predictors over those of sm.Predictors, N = 1e5, d = 20",
                beside_predictors()))  # fmt: skip


def of_sign(eta, data, n):
    return sm.log_sigmoid(eta) if data.y[n] == 1.0 else sm.log_sigmoid(-eta)


def of_count(eta, data, n):
    return data.y[n] * eta - sm.exp(eta)


def of_scale(eta, data, n):
    z = (data.y[n] - eta[0]) * sm.exp(-eta[1])
    return -eta[1] - 2.5 * sm.log1p(z * z / 4.0)


def by_sign(eta, data, n):
    p = 1.0 / (1.0 + sm.exp(-eta))
    v = p * (1.0 - p)
    return data.y[n] - p, -v, -v * (1.0 - 2.0 * p)


def by_count(eta, data, n):
    rate = sm.exp(eta)
    return data.y[n] - rate, -rate, -rate


def by_scale(eta, data, n):
    r = sm.exp(-eta[1])
    z = (data.y[n] - eta[0]) * r
    q = 1.0 / (4.0 + z * z)
    one, two, three = -5.0 * z * q, -5.0 * (4.0 - z * z) * q * q, 10.0 * z * (12.0 - z * z) * q**3
    first = (-r * one, -1.0 - z * one)
    second = (r * r * two, r * (one + z * two), z * one + z * z * two)
    return (
        *first, *second, -r * r * r * three, -r * r * (2.0 * two + z * three),
        -r * (one + 3.0 * z * two + z * z * three), -z * (one + 3.0 * z * two + z * z * three),
    )  # fmt: skip


def with_scale(state, data, n):
    return linear(state, data, n), state.log_sigma[0]


def counts(state, data, n):
    return of_count(linear(state, data, n), data, n)


def beside_predictors(size=100_000, d=20, times=7) -> list[dict]:
    """The same models as one function, and as predictors with derivatives by hand; alternating.

    Medians of ratios: what else the machine does changes times, and both alike.
    """
    x, y = design(size, d)
    real_x, real = design(size, d - 1, free_scale=True)
    rate = np.exp(np.clip(x @ np.linspace(0.1, -0.1, d), -3.0, 3.0))
    count = np.random.default_rng(1).poisson(rate).astype(float)
    beta = {"beta": np.linspace(0.1, -0.1, d)}
    scaled = {"beta": np.linspace(0.4, -0.4, d - 1), "log_sigma": 0.0}
    rows = []
    for name, whole, eta, factor, each, data, state in (
        ("logistic", logistic, linear, of_sign, by_sign, {"x": x, "y": y}, beta),
        ("Poisson", counts, linear, of_count, by_count, {"x": x, "y": count}, beta),
        ("Student-t", student_t, with_scale, of_scale, by_scale, {"x": real_x, "y": real}, scaled),
    ):
        by_hand = sm.Predictors(eta, factor, derivatives=each)
        both = (sm.Model(whole, data, state), sm.Model(by_hand, data, state))
        seen = np.array([[2.0 * sm.derivatives(model, state).nanoseconds for model in both]
                         for _ in range(times)])  # fmt: skip
        found, given = np.median(seen, axis=0)
        rows.append({
            "model": name, "found, ns a row": found, "sm.Predictors": given,
            "ratio": np.median(seen[:, 0] / seen[:, 1]),
        })  # fmt: skip
    return rows


def inspected(model):
    return sm.derivatives(model)


def fits() -> None:
    rows = []
    for size, d in ((1_000_000, 10), (1_000_000, 20)):
        model = logistic_model(size, d)
        sm.laplace(model, progress=False)
        for name, how in (("derivatives", lambda work: work()), ("differences", interpolating)):
            begun = time.process_time()
            fit = how(lambda m=model: sm.laplace(m, progress=False))
            spent = time.process_time() - begun
            rows.append({"N": size, "d": d, "by": name, "CPU s": spent, "passes": fit.passes})
    print(table("sm.laplace of a plain logistic regression", rows))


COMPILE = """
import time
from tests.benchmarks import derivatives as here
model = here.logistic_model(20_000, 8)
begun = time.process_time()
model.compiled
own = time.process_time() - begun
fit = {"beta": here.np.zeros(8)}
prepared = here.prepared_for(model, here.sm.Taylor(fit))
assert prepared.proved
first = time.process_time() - begun - own
again = here.logistic_model(20_000, 8)
again.compiled
begun = time.process_time()
here.prepared_for(again, here.sm.Taylor(fit))
print(f"{first:.2f} {time.process_time() - begun:.2f}")
"""
UNIT = "predictors and bounds that are found"


def compiles() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "SUBSAMPLE_MCMC_CACHE": cache}

        def run(*command):
            command = (sys.executable, *command)
            return subprocess.run(command, env=environment, check=True, capture_output=True,
                                  text=True).stdout.split()  # fmt: skip

        def measured(name):
            told = run("-c", COMPILE)
            rows.append({
                "process": name, "CPU s": float(told[0]), "of which work": float(told[1]),
            })  # fmt: skip

        measured("nothing on disk")
        for file in Path(cache).rglob("*"):
            if file.is_file():
                file.unlink()
        run("-m", "subsample_mcmc", "compile", "--unit", UNIT)
        measured("the engine is there")
        measured("another process")
    print(table("Jets, predictors and bounds of a new model, beside its own code", rows))


PARTS = {
    "chain": chains, "bounds": bounds, "residual": residuals, "laplace": fits, "compile": compiles,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=sorted(PARTS))
    only = parser.parse_args().only
    print(machine.processor())
    for name, part in PARTS.items():
        if only in (None, name):
            part()


if __name__ == "__main__":
    main()
