"""Crossed effects: ratings of lectures by students, of lecturers, in departments.

    python examples/crossed.py [--data insteval.csv.gz] [--summary FILE] [--quick]

y = intercept + service x + s[student] + d[lecturer] + dept[department] + noise. Each kind of effect
is normal around 0 with a standard deviation of its own, and every effect moves by the ratings that
see it. The intercept and the mean of each kind hold each other, and a department its lecturers:
sm.interweave moves them against each other, which no rating sees, so it reads none. Lecturers also
hold the slope of service, as many lectures of one are alike in that: it moves against them, too.

--data: a table with columns y, service, s, d, dept, such as InstEval of lme4. Without it, ratings
are simulated, and the truth is printed beside the result. --summary: write posterior means and
standard deviations there, as JSON.
"""

import argparse
import json
import time
from pathlib import Path

import arviz
import numpy as np
import pandas as pd

import subsample_mcmc as sm

KINDS = ("s", "d", "dept")
TRUE = {  # in the order of the result
    "sd_s": 0.33, "sd_d": 0.52, "sd_dept": 0.1, "sd_y": 1.18, "intercept": 3.3, "service": -0.07,
}  # fmt: skip


def prepare(state, data):
    sd = state.sd_y[0]
    return 1.0 / sd, sm.log(sd)


def log_likelihood(state, data, n, prepared):
    eta = state.intercept[0] + state.service[0] * data.service[n]
    eta += state.s[data.s[n]] + state.d[data.d[n]] + state.dept[data.dept[n]]
    z = (data.y[n] - eta) * prepared[0]
    return -0.5 * z * z - prepared[1]


def log_prior(state):  # normal, and half-normal
    sds = state.sd_s[0] ** 2 + state.sd_d[0] ** 2 + state.sd_dept[0] ** 2 + state.sd_y[0] ** 2
    return -0.5 * (state.intercept[0] ** 2 / 100.0 + state.service[0] ** 2 + sds)


def of_student(state, i):
    return -0.5 * (state.s[i] / state.sd_s[0]) ** 2 - sm.log(state.sd_s[0])


def of_lecturer(state, i):
    return -0.5 * (state.d[i] / state.sd_d[0]) ** 2 - sm.log(state.sd_d[0])


def of_department(state, i):
    return -0.5 * (state.dept[i] / state.sd_dept[0]) ** 2 - sm.log(state.sd_dept[0])


def simulated(students, lecturers, departments, ratings):
    """A table with known effects; lecturers belong to a department."""
    rng = np.random.default_rng(0)
    s, d = rng.integers(students, size=ratings), rng.integers(lecturers, size=ratings)
    dept, service = (d * departments) // lecturers, rng.integers(2, size=ratings)
    effects = [
        TRUE[f"sd_{name}"] * rng.standard_normal(count)[codes]
        for name, count, codes in (
            ("s", students, s), ("d", lecturers, d), ("dept", departments, dept),
        )
    ]  # fmt: skip
    y = TRUE["intercept"] + TRUE["service"] * service + sum(effects)
    y += TRUE["sd_y"] * rng.standard_normal(ratings)
    return pd.DataFrame({"y": y, "service": service, "s": s, "d": d, "dept": dept})


def model_of(table):
    """The model of a table, its levels counted from 0."""
    data = {name: table[name].to_numpy(float) for name in ("y", "service")}
    state = {"intercept": 0.0, "service": 0.0, "sd_y": 1.0}
    state |= {f"sd_{name}": 1.0 for name in KINDS}  # side by side, as they move as one
    left = data["y"] - data["y"].mean()
    state["intercept"] = data["y"].mean()
    for name in KINDS:  # effects begin at means: where all are 0 a standard deviation goes to 0
        codes = data[name] = np.unique(table[name], return_inverse=True)[1]
        state[name] = np.bincount(codes, left) / np.bincount(codes)
    return sm.Model(
        log_likelihood, data, state, log_prior, prepare=prepare,
        constraints={name: sm.positive for name in state if name.startswith("sd_")},
        touches={name: name for name in KINDS},
        site_prior=dict(zip(KINDS, (of_student, of_lecturer, of_department), strict=True)),
    )  # fmt: skip


def against_service(model, name):
    """The slope of service against effects whose ratings are alike in it."""
    codes = getattr(model.data, name)
    means = np.bincount(codes, model.data.service) / np.bincount(codes)
    return sm.interweave(name, location="service", amounts=means)


def kernel_of(model):
    """Effects by their ratings, all of a kind with what holds them, and standard deviations."""
    noise = sm.Metropolis("sd_y", selector=sm.Exact())
    service = against_service(model, "d")
    parts = [sm.Metropolis("s"), sm.Metropolis("d"), noise, service, against_service(model, "s")]
    pairs = np.unique(np.stack([model.data.d, model.data.dept]), axis=1)
    if len(pairs[0]) == len(model.variables["d"].touches[0]) - 1:  # each has one department
        departments = sm.interweave("d", location=("dept", pairs[1]))
    else:
        departments = sm.Metropolis("dept", selector=sm.Exact())
    parts.append(sm.repeat(departments >> sm.Slice("sd_dept"), 6))
    for name, times in zip(KINDS, (1, 2, 4), strict=True):  # the fewer effects, the cheaper
        parts.append(sm.repeat(sm.interweave(name, location="intercept"), times))
    parts += [sm.Slice("sd_s"), sm.Slice("sd_d"), sm.interweave("s", scale="sd_s"), noise, service]
    return sm.cycle(*parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="a table, .csv or .csv.gz")
    parser.add_argument("--summary", help="a file for means and standard deviations, as JSON")
    parser.add_argument("--draws", type=int, default=5_000)
    parser.add_argument("--quick", action="store_true", help="fewer data and draws")
    given = parser.parse_args()
    draws = 500 if given.quick else given.draws
    if given.data:
        table = pd.read_csv(given.data)
    else:
        table = simulated(*((200, 60, 5, 5_000) if given.quick else (3_000, 1_100, 14, 70_000)))
    model = model_of(table)
    kernel = kernel_of(model)
    print(kernel.describe(model))
    start = time.perf_counter()
    trace = sm.sample(
        model, kernel, draws=draws, warmup=max(draws // 2, 500), chains=2, seed=1, progress=False
    )
    took = time.perf_counter() - start
    print(f"\n{model.size:,} ratings, {trace.shape[0]} chains of {draws:,} draws: {took:.1f} s\n")
    print(f"{'':10s} {'' if given.data else 'truth':>7s} {'mean':>8s} {'sd':>8s} {'ESS':>7s}")
    summary = {}
    for name, true in TRUE.items():
        values = np.asarray(trace.draws[name])
        summary[name] = [float(values.mean()), float(values.std())]
        shown = "" if given.data else f"{true:.3f}"
        mean, sd = summary[name]
        print(f"{name:10s} {shown:>7s} {mean:8.4f} {sd:8.4f} {float(arviz.ess(values)):7,.0f}")
    for name in KINDS:
        print(f"the slowest of {name}: {trace.mixing(name).ess:,.0f} effective draws")
    if given.summary:
        Path(given.summary).write_text(json.dumps(summary, indent=2) + "\n")
        print(f"written to {given.summary}")


if __name__ == "__main__":
    main()
