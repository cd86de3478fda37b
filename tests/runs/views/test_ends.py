"""Draws where numbers end: next to 1 there are no more of them, next to 0 at last as well."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.views.mixing import crowded_at


def counts(a, seen):
    """A share of 30, of which so many were seen, with a Beta(a, a) prior."""

    def log_likelihood(state, data, n):
        return sm.log(state.p[0]) if data.y[n] else sm.log1p(-state.p[0])

    def log_prior(state):
        return (a - 1.0) * (sm.log(state.p[0]) + sm.log1p(-state.p[0]))

    return sm.Model(
        log_likelihood, {"y": np.arange(30) < seen}, {"p": 0.5}, log_prior,
        constraints={"p": sm.interval(0.0, 1.0)},
    )  # fmt: skip


def rate():
    """No count in ten times, and a prior 1 / r: there is no posterior."""
    return sm.Model(
        lambda state, data, n: -state.r[0], {"y": np.zeros(10)}, {"r": 0.5},
        lambda state: -sm.log(state.r[0]), constraints={"r": sm.positive},
    )  # fmt: skip


def told(model, name):
    kernel = sm.Slice(name, width=20.0, selector=sm.Exact())
    trace = sm.sample(model, kernel, draws=1_000, warmup=200, seed=1, progress=False)
    return " ".join(str(trace.report()).split())


@pytest.mark.parametrize(("a", "seen", "crowd"), [
    (0.01, 30, True), (0.1, 30, True), (0.01, 0, False), (0.01, 15, False), (0.5, 30, False),
])  # fmt: skip
def test_mass_beyond_the_last_number_is_told_of(a, seen, crowd):
    """Of 30 of 30 E(1 - p) was .0012 for .0003, and "yes"; the mirror image is right."""
    report = told(counts(a, seen), "p")
    words = "% of the draws of p are within 3e-14 of 1, where numbers end"
    assert (words in report) == crowd
    assert ("Converged not known" in report) == crowd
    assert ("or, of a probability next to 1, that of the contrary" in report) == crowd


def test_there_may_be_no_law():
    report = told(rate(), "r")
    assert "% of the draws of r are within 1e-300 of 0, where numbers end" in report
    assert "Converged not known" in report and "there may be no law at all" in report


def test_a_sure_no_stays_one():
    """Two chains of q that stand apart, beside draws of p that crowd."""
    y = np.arange(30) < 30
    model = sm.Model(
        lambda state, data, n: sm.log(state.p[0]), {"y": y}, {"p": 0.5, "q": 20.0},
        lambda state: -0.99 * (sm.log(state.p[0]) + sm.log1p(-state.p[0]))
        - 0.5 * (abs(state.q[0]) - 20.0) ** 2,
        constraints={"p": sm.interval(0.0, 1.0)},
    )  # fmt: skip
    kernel = sm.Slice("p", width=20.0, selector=sm.Exact()) >> sm.Metropolis("q", scale=1.0)
    trace = sm.sample(model, kernel, draws=500, warmup=200, chains=2, seed=1, progress=False,
                      start=[{"p": 0.5, "q": 20.0}, {"p": 0.5, "q": -20.0}])  # fmt: skip
    report = " ".join(str(trace.report()).split())
    assert "Converged no: R-hat" in report and "where numbers end" in report


def test_what_is_crowded():
    part = np.full((4, 1_000), 0.5)
    assert crowded_at(part, (0.0, 1.0), "p") == ""
    part[0, :20] = 1.0 - 1e-16  # 20 of 4,000 are a part of .005
    assert crowded_at(part, (0.0, 1.0), "p") == ""
    part[0, 20] = 1.0
    assert crowded_at(part, (0.0, 1.0), "p[3]").startswith("0.53% of the draws of p[3] are within")
    assert crowded_at(part, (), "p") == "" and crowded_at(part[:, :0], (0.0,), "p") == ""
    assert crowded_at(50.0 + 0.0 * part, (-20.0, 50.0), "t").endswith("of 50")
    assert crowded_at(1e-299 + 0.0 * part, (0.0,), "r") == ""


def test_blocks_without_ends_of_their_own_have_none():
    y = np.zeros(5)
    model = sm.Model(
        lambda state, data, n: -state.s[0], {"y": y},
        {"s": np.full(2, 0.5), "o": np.array([0.0, 1.0]), "t": 0.0, "i": 1.0, "k": 0},
        lambda state: -0.5 * (state.t[0] ** 2 + state.o[0] ** 2 + state.o[1] ** 2),
        support={"k": 2},
        constraints={"s": sm.simplex, "o": sm.ordered, "i": sm.interval(-1.0, 3.0)},
    )  # fmt: skip
    kernel = sm.Slice(("s", "o", "t", "i"), selector=sm.Exact()) >> sm.Gibbs("k")
    trace = sm.sample(model, kernel, draws=5, warmup=5, chains=1, seed=1, progress=False)
    assert trace.meta["ends"] == {"i": [-1.0, 3.0]}
