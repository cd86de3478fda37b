"""Default kernels of few data: where all of them are read at once, no decision is an estimate."""

from dataclasses import replace

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.defaults import pilots


def regression(size):
    """With an unknown scale, whose derivatives have no bound: races of it are estimates."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(size), rng.standard_normal((size, 2))])
    return sm.models.glm.gaussian(x, x @ [0.3, -0.5, 0.8] + rng.standard_normal(size), sigma=None)


def test_of_few_data_a_default_kernel_is_exact(monkeypatch):
    monkeypatch.setattr(pilots, "step_cost", lambda *given: 2.5e-5)  # on a busy machine, too
    model = regression(150)
    kernel = sm.default_kernel(model, progress=False)
    assert kernel.guarantee == "exact" == kernel.settled(model).guarantee
    assert "sm.Exact()" in kernel.code and "control" not in kernel.code
    assert any("so none of its decisions is an estimate" in one for one in kernel.found)
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
    assert best == (sure if is_sure else raced) and timed == ["by all"]
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


# ------------------------------------------------------------------- slices in the place of pilots
def zeros_and_counts(state, data, n):
    p, rate = state.p[0], state.rate[0]
    if data.y[n] == 0:
        return sm.log(p + (1.0 - p) * sm.exp(-rate))
    return sm.log(1.0 - p) + data.y[n] * sm.log(rate) - rate


def skewed(size=220):
    """Zeros by either of two causes: a ridge that bends, of which a fit knows the top alone."""
    rng = np.random.default_rng(9)
    y = rng.poisson(0.2, size) * (rng.random(size) > 0.85)
    return sm.Model(
        zeros_and_counts, {"y": y}, {"p": 0.5, "rate": 1.0}, lambda state: -0.5 * state.rate[0],
        constraints={"p": sm.interval(0.0, 1.0), "rate": sm.positive},
    )  # fmt: skip


def distribution(model, points=400):
    """P(p < .05, ..., p < .95), by a grid."""
    y, p = model.data.y, (np.arange(points) + 0.5) / points
    rate = np.geomspace(1e-4, 30.0, points)
    zero = np.log(p[:, None] + (1.0 - p[:, None]) * np.exp(-rate))
    some = np.log1p(-p[:, None]) * (y > 0).sum() + y.sum() * np.log(rate) - rate * (y > 0).sum()
    density = (y == 0).sum() * zero + some - 0.5 * rate + np.log(rate)
    mass = np.exp(density - density.max()).sum(axis=1)
    return np.interp(np.linspace(0.05, 0.95, 10), p + 0.5 / points, np.cumsum(mass) / mass.sum())


def test_slices_of_few_data_have_their_posterior():
    """Within 5 standard errors in each of ten points: an alarm in 10^5. No pilot has run."""
    model = skewed()
    kernel = sm.default_kernel(model, progress=False)
    assert kernel.code.endswith(
        'kernel = sm.Slice(("p", "rate"), along=fit, selector=sm.Exact())'
    ) and kernel.found[0].startswith("slices along the lines of the fit: by all data a step takes")
    trace = sm.sample(model, kernel, draws=1_000, seed=1, progress=False, start=kernel.in_turn())
    ess = float(trace.mixing("p").ess)
    assert ess > 400.0  # by pCN along the fit 10 of 1,600
    p, truth = trace.draws["p"].ravel(), distribution(model)
    told = np.array([(p < at).mean() for at in np.linspace(0.05, 0.95, 10)])
    allowed = 5.0 * np.sqrt(truth * (1.0 - truth) / ess) + 1e-3
    assert np.all(np.abs(told - truth) < allowed), (told, truth)


def test_change_points_have_slices_of_their_own():
    """The fit is of one of them: its lines are not those of others."""
    y = np.random.default_rng(0).poisson(np.where(np.arange(80) < 30, 1.5, 2.5)).astype(float)

    def log_likelihood(state, data, n):
        rate = state.rate[1] if n >= state.tau[0] else state.rate[0]
        return data.y[n] * sm.log(rate) - rate

    model = sm.Model(
        log_likelihood, {"y": y}, {"tau": 40, "rate": np.ones(2)}, support={"tau": 80},
        constraints={"rate": sm.positive},
    )  # fmt: skip
    kernel = sm.default_kernel(model, progress=False)
    assert kernel.code == (
        'kernel = sm.Gibbs("tau", cumulative=True) >> sm.Slice("rate", selector=sm.Exact())'
    )


WALKS, PCN = (
    pilots.Candidate("a", ("fit = 1",), code, "k", "exact")
    for code in ("sm.Metropolis(scale=fit)", "sm.Metropolis(proposal=sm.pcn(fit))")
)


@pytest.mark.parametrize(("along", "cost", "steps", "taken"), [
    (WALKS, 1.2e-4, 8_000, True), (WALKS, 1.3e-4, 8_000, False), (WALKS, 1.2e-4, 9_000, False),
    (WALKS, 1e-6, 900_000, True), (PCN, 3e-5, 8_000, True), (PCN, 4e-5, 8_000, False),
])  # fmt: skip
def test_slices_are_taken_where_pilots_would_take_longer(monkeypatch, along, cost, steps, taken):
    """A second, and a quarter of one where others propose along the fit."""
    _, slices = candidates()
    monkeypatch.setattr(pilots, "step_cost", lambda *given: cost)
    monkeypatch.setattr(pilots, "effective", lambda *given: (0.7, cost))
    best, told = pilots.at_once(regression(100), slices, [along], None, steps)
    assert best == (replace(slices, share=0.7) if taken else None) and len(told) == taken


def test_slices_that_fail_are_not_taken(monkeypatch):
    def failing(*given):
        raise sm.RewardError("the log likelihood is nan")

    _, slices = candidates()
    monkeypatch.setattr(pilots, "step_cost", failing)
    assert pilots.at_once(regression(100), slices, [], None, 8_000) == (None, [])
    assert pilots.at_once(regression(100), None, [], None, 8_000) == (None, [])
    assert pilots.at_once(regression(100_000), slices, [], None, 8_000_000) == (None, [])


# ----------------------------------------------------------------------------- several steps a draw
@pytest.mark.parametrize(("share", "cost", "steps", "times"), [
    (0.6, 1e-6, 8_000, 1), (None, 1e-6, 8_000, 1), (0.26, 1e-6, 8_000, 2), (0.05, 1e-6, 8_000, 10),
    (0.0, 1e-6, 8_000, 20), (0.05, 3e-5, 8_000, 4), (0.05, 7e-5, 8_000, 1),
    (0.05, 1e-6, 400_000, 2), (0.05, 1e-6, 10**6, 1), (0.05, 1e-4, 8_000, 1),
])  # fmt: skip
def test_draws_that_say_little_are_several_steps(monkeypatch, share, cost, steps, times):
    """Half of them shall be effective, if the run takes no second."""
    monkeypatch.setattr(pilots, "step_cost", lambda *given: cost)
    walk = sm.Metropolis("beta", selector=sm.Exact())
    candidate = pilots.Candidate("walks", (), "code", walk, "exact", None, share)
    best, told = pilots.several_a_draw(regression(100), candidate, None, steps, 0.0)
    if times == 1:
        assert best is candidate and not told
    else:
        assert best.code == f"sm.repeat(code, {times})" and len(told) == 1
        assert best.kernel.text() == f"repeat({walk.text()}, {times})"


@pytest.mark.parametrize(("waited", "times"), [(1.9, 1), (4.0, 2), (17.0, 10), (900.0, 10)])
def test_so_are_they_where_choosing_took_longer(monkeypatch, waited, times):
    """Half the time of that, at most: a run of a second with few effective draws is no gain."""
    monkeypatch.setattr(pilots, "step_cost", lambda *given: 1e-4)
    candidate = pilots.Candidate("walks", (), "code", sm.Metropolis("beta"), "exact", None, 0.05)
    best, told = pilots.several_a_draw(regression(100), candidate, None, 8_000, waited)
    assert best.code == (f"sm.repeat(code, {times})" if times > 1 else "code")
    assert [f"choosing took {waited:.2g}" in line for line in told] == [True] * (times > 1)


def test_many_data_are_not_timed_for_it(monkeypatch):
    monkeypatch.setattr(pilots, "step_cost", lambda *given: 1 / 0)
    candidate = pilots.Candidate("walks", (), "code", None, "exact", None, 0.01)
    assert pilots.several_a_draw(regression(100_000), candidate, None, 8_000, 0.0) == (
        candidate,
        [],
    )


@pytest.mark.slow
def test_hierarchies_of_few_data_have_effective_draws():
    """Of a scale that data say little of: 85 of 1,600 draws were, a step each."""

    def of_group(state, g):
        z = (state.a[g] - state.mu[0]) / state.tau[0]
        return -0.5 * z * z - sm.log(state.tau[0])

    rng = np.random.default_rng(8)
    group = np.repeat(np.arange(15), 4)
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.a[data.g[n]]) ** 2,
        {"y": -2.0 + rng.normal(size=60), "g": group},
        {"a": np.zeros(15), "mu": 0.0, "tau": 1.0},
        lambda state: -0.5 * state.mu[0] ** 2 - state.tau[0],
        constraints={"tau": sm.positive}, touches={"a": "g"}, site_prior={"a": of_group},
    )  # fmt: skip
    trace = sm.sample(model, draws=400, seed=1, progress=False)
    code = trace.meta["chosen"].splitlines()[-1]
    assert code.startswith("kernel = sm.repeat(") and code.endswith(")")
    assert float(trace.mixing("tau").ess) > 400.0


def test_what_does_not_mix_is_not_taken_before_what_was_not_tried(monkeypatch):
    """50 rows of 200 coefficients: walks that stand still, and slices too slow for a pilot."""
    walks, slices = (
        pilots.Candidate(name, (), name, name, "exact") for name in ("walks", "slices")
    )
    monkeypatch.setattr(pilots, "step_cost", lambda m, k, s: {"walks": 5e-6, "slices": 3e-3}[k])
    monkeypatch.setattr(pilots, "effective", lambda *given: (0.0, 5e-6))
    best, _ = pilots.by_pilots(regression(100), [walks, slices], None, 8_000, False)
    assert [c.name for c in best] == ["slices", "walks"]
    best, _ = pilots.by_pilots(regression(100), [walks], None, 8_000, False)
    assert [c.name for c in best] == ["walks"]
    # Slices by all data are no candidate where proposals follow a fit; but if none of these mixes.
    for known in ([walks], [walks, slices]):
        best, _ = pilots.by_pilots(regression(100), known, None, 8_000, False, slices)
        assert [c.name for c in best] == ["slices", "walks"]
    best, _ = pilots.by_pilots(regression(100), [walks], None, 80_000, False, slices)
    assert [c.name for c in best] == ["walks", "slices"]
