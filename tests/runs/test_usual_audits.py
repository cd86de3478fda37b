"""Audits that nobody asked for: which runs have them, what they cost, and what they find out."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.base import labelled
from subsample_mcmc.runs.defaults.audits import MOST, REWARDS, rewards_by_all, usual_share
from subsample_mcmc.target.sources.local import parts_of
from tests.helpers.claims import equal
from tests.helpers.partitions import model_of as clusters_of
from tests.helpers.partitions import records, score

RACE, EXACT = sm.Racing(), sm.Exact()


def squares(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] - 0.1 * state.k[0] - 0.01 * state.z[1]) ** 2


def of_mean(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0]) ** 2


def of_place(state, data, n):
    return -0.5 * (data.y[n] - 0.1 * state.k[0]) ** 2


def both(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] - 0.1 * state.k[0]) ** 2


def of_three(state, data, n):
    return -0.5 * (data.y[n] - 0.1 * state.z[0] - 0.1 * state.z[1] + 0.1 * state.z[2]) ** 2


def edges(state, data, n):
    return data.y[n] if state.z[data.a[n]] == state.z[data.b[n]] else 0.0


def located(size=20_000, far=(), density=squares, blocks=("mu", "k", "z")):
    y = np.random.default_rng(0).standard_normal(size)
    y[: len(far)] = far
    state, support = {"mu": 0.0, "k": 0, "z": np.zeros(3, int)}, {"k": 4, "z": 2}
    state, support = ({n: d[n] for n in blocks if n in d} for d in (state, support))
    return sm.Model(density, {"y": y}, state, support=support)


def mean_of(size=20_000, far=()):
    return located(size, far, of_mean, ["mu"])


def graph(sites=30, size=20_000):
    rng = np.random.default_rng(1)
    a = rng.integers(0, sites, size)
    b = (a + rng.integers(1, sites, size)) % sites
    data = {"y": 0.01 * rng.standard_normal(size), "a": a, "b": b}
    return sm.Model(edges, data, {"z": np.zeros(sites, int)}, support={"z": 3},
                    touches={"z": ["a", "b"]})  # fmt: skip


def walk(selector=RACE):
    return sm.Metropolis("mu", selector=selector, scale=0.01, adapt=False)


def run(model, kernel, draws=300, warmup=100, chains=2, **more):
    return sm.sample(model, kernel, draws, warmup, chains, seed=3, progress=False, **more)


def share_of(model, kernel, steps=1_000):
    return usual_share(kernel.settled(model), model, steps)


def test_draws_are_the_same_with_them_and_without():
    model, kernel = located(), sm.Gibbs("k", RACE) >> walk() >> sm.Gibbs("z", RACE)
    usual, none, each = (run(model, kernel, audit=share) for share in (None, 0.0, 1.0))
    for other in (none, each):
        assert all(np.array_equal(usual.draws[n], other.draws[n]) for n in ("mu", "k", "z"))
    for name in usual.stats:
        some, of_none, of_all = (
            int(trace.stats[name]["audited"].sum()) for trace in (usual, none, each)
        )
        assert of_none == 0 < of_all
        equal(some, of_all, usual.meta["audit"])


def test_they_find_a_race_that_errs():
    model, kernel = mean_of(100_000, far=np.full(20, 200.0)), sm.Metropolis("mu", selector=RACE)
    told = run(model, kernel, 1_000, 1_000, 4).report()
    assert told.rows[0]["wrong"] > 0 and "audited decisions were wrong" in str(told)
    silent = run(model, kernel, 1_000, 1_000, 4, audit=0.0).report()
    assert "no decision was audited, so nothing tells how often it errs" in str(silent)


@pytest.mark.parametrize("kernel", [
    walk(EXACT), walk(sm.Racing(sm.Betting(spread=50.0))), sm.Gibbs("k", EXACT) >> sm.Slice("mu"),
])  # fmt: skip
def test_what_has_a_proof_has_none(kernel):
    assert share_of(located(), kernel) == 0.0
    assert share_of(located(), kernel >> sm.Gibbs("z", RACE)) > 0.0


@pytest.mark.parametrize("selector", [sm.SequentialHalving(4_000), sm.LilUCB(), RACE])
def test_what_promises_an_estimate_or_nothing_has_some(selector):
    assert share_of(located(), sm.Gibbs("k", selector)) > 0.0


MEMBERS = sm.Racing(sm.Normal(paired=False), batch=3)
KINDS = {
    "a walk": (mean_of, walk), "a slice": (mean_of, lambda s: sm.Slice("mu", selector=s)),
    "one site": (lambda: located(density=of_place, blocks=["k"]), lambda s: sm.Gibbs("k", s)),
    "three sites": (lambda: located(density=of_three, blocks=["z"]), lambda s: sm.Gibbs("z", s)),
    "a cycle": (located, lambda s: walk(s) >> sm.Gibbs("z", s) >> sm.Gibbs("k", s)),
    "edges": (graph, lambda s: sm.Gibbs("z", s)),
    "clusters": (
        lambda: clusters_of(records(np.arange(60) % 4, np.eye(4) - 0.5), np.arange(60) % 4),
        lambda s: sm.GibbsPartition("y", score, selector=s),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_the_cost_is_that_of_exact_decisions(name):
    """What steps are thought to read if all is decided exactly, and what they do read then."""
    model, made = KINDS[name][0](), KINDS[name][1]
    kernel = made(MEMBERS if name == "clusters" else RACE)
    raced = kernel.settled(model)
    thought = sum(rewards_by_all(leaf, leaf.facts(model), model) for _, leaf in labelled(raced))
    stats = run(model, kernel, 40, 10, 1, audit=0.0).stats
    read = sum(float(counts["everything"].sum()) for counts in stats.values()) / 40
    assert read / 2 < thought < 2 * read


def test_the_share_is_of_as_many_rewards():
    small, large = located(1_000), located(200_000)
    assert share_of(small, walk()) == MOST
    for steps in (500, 50_000):
        assert share_of(large, walk(), steps) == pytest.approx(REWARDS / (steps * 400_000))
    two = share_of(large, walk() >> sm.Gibbs("k", RACE))
    assert two == pytest.approx(REWARDS / (1_000 * 1_200_000))


@sm.kernel(writes="mu")
def plain(rng, state, data):
    state.mu[0] = float(f"{rng.normal():.3f}")


def test_rows_elsewhere_and_plain_python_are_left_alone():
    far = sm.Model(of_mean, parts_of({"y": mean_of().data.y}, [12_000, 8_000]), {"mu": 0.0})
    assert share_of(far, walk()) == 0.0 < share_of(mean_of(), walk())
    slow = located(density=both, blocks=["mu", "k"])
    for model, kernel in ((far, walk()), (slow, plain >> sm.Gibbs("k", RACE))):
        assert run(model, kernel, 20, 0, 1).meta["audit"] == 0.0
    assert share_of(slow, walk() >> sm.Gibbs("k", RACE)) > 0.0


def test_few_are_told_of_as_few():
    model = mean_of(1_000_000)
    report = run(model, walk(), 300, 100, 1).report()
    assert 0 < report.rows[0]["audited"] < 10
    assert f"only {report.rows[0]['audited']} of 300 decisions were audited" in str(report)


def test_a_run_that_goes_on_has_the_same(tmp_path):
    model, kernel = mean_of(), walk()
    whole = run(model, kernel)
    run(model, kernel, draws=120, store=tmp_path / "run.nc")
    found = sm.resume(tmp_path / "run.nc", model, kernel, draws=300, progress=False)
    assert found.meta["audit"] == whole.meta["audit"] == MOST
    for name in ("audited", "wrong", "margin"):
        assert np.array_equal(found.stats["mu"][name], whole.stats["mu"][name])


def test_a_share_is_a_number_or_none():
    with pytest.raises(ValueError, match="between 0 and 1, or None"):
        run(located(), walk(), audit=2.0)
