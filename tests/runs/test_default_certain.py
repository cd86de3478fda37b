"""Default kernels of few data: where all of them are read at once, no decision is an estimate."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.defaults import pilots


def regression(size):
    """With an unknown scale, whose derivatives have no bound: races of it are estimates."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(size), rng.standard_normal((size, 2))])
    return sm.models.glm.gaussian(x, x @ [0.3, -0.5, 0.8] + rng.standard_normal(size), sigma=None)


def test_of_few_data_a_default_kernel_is_exact():
    model = regression(150)
    kernel = sm.default_kernel(model, progress=False)
    assert kernel.guarantee == "exact" == kernel.settled(model).guarantee
    assert "sm.Exact()" in kernel.code and "control" not in kernel.code
    assert "so none of its decisions is an estimate" in kernel.found[0]
    scope = {"sm": sm, "model": model}
    exec(kernel.code, scope)
    one, two = (
        sm.sample(model, k, draws=40, warmup=20, chains=2, seed=3, progress=False)
        for k in (kernel, scope["kernel"])
    )
    assert np.array_equal(one.draws["beta"], two.draws["beta"])
    assert "every decision is exact" in str(one.report())


def test_of_many_it_is_what_pilots_found():
    kernel = sm.default_kernel(regression(40_000), progress=False)
    assert kernel.guarantee == "asymptotic" and "sm.Exact" not in kernel.code


def candidates(guarantee="asymptotic", by_all=None):
    sure = pilots.Candidate("walks", (), "all", "by all", "exact")
    return pilots.Candidate(
        "walks", (), "raced", "raced", guarantee, by_all or (lambda: sure)
    ), sure


@pytest.mark.parametrize(("cost", "steps", "is_sure"), [
    (3e-5, 8_000, True), (3e-5, 20_000, False), (4e-5, 8_000, False), (1e-6, 200_000, True),
])  # fmt: skip
def test_the_run_must_be_over_at_once(monkeypatch, cost, steps, is_sure):
    raced, sure = candidates()
    timed = []
    monkeypatch.setattr(pilots, "step_cost", lambda m, k, s: timed.append(k) or cost)
    best, told = pilots.certain(regression(100), raced, None, steps)
    assert best is (sure if is_sure else raced) and timed == ["by all"]
    assert len(told) == is_sure


def test_what_need_not_be_timed_is_not(monkeypatch):
    def timed(*given):
        raise AssertionError("it was timed")

    monkeypatch.setattr(pilots, "step_cost", timed)
    exact, _ = candidates("exact")
    assert pilots.certain(regression(100), exact, None, 8_000) == (exact, [])
    raced, _ = candidates()
    assert pilots.certain(regression(100_000), raced, None, 8_000) == (raced, [])
    assert pilots.certain(regression(100), raced, None, 10**9) == (raced, [])


def test_what_cannot_read_all_data_stays_as_it_is():
    def refused():
        raise ValueError("only along a control variate")

    raced, _ = candidates(by_all=refused)
    assert pilots.certain(regression(100), raced, None, 8_000) == (raced, [])
