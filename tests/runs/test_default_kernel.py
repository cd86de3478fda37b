"""sm.sample(model) without a kernel: what is chosen, that its code makes it, and its draws."""

import dataclasses
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.fit import modes
from subsample_mcmc.runs import default_kernel as defaults
from subsample_mcmc.runs.defaults import orders, pilots

SIZE = 2_000


def regression(size=SIZE):
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(size), rng.standard_normal((size, 2))])
    y = (rng.random(size) < 1.0 / (1.0 + np.exp(-x @ [0.3, -0.5, 0.8]))).astype(float)
    return sm.models.glm.logistic(x, y)


def mixed(size=SIZE):
    """A discrete, a free and a positive block."""

    def log_likelihood(state, data, n):
        z = (data.y[n] - 0.02 * state.k[0] - state.mu[0]) / state.sigma[0]
        return -0.5 * z * z - sm.log(state.sigma[0])

    def log_prior(state):
        return -50.0 * state.mu[0] ** 2 - state.sigma[0]

    y = 0.04 + np.random.default_rng(0).standard_normal(size)
    return sm.Model(log_likelihood, {"y": y}, {"k": 2, "mu": 0.0, "sigma": 1.0}, log_prior,
                    support={"k": 5}, constraints={"sigma": sm.positive})  # fmt: skip


def levels(size=SIZE):
    y = np.random.default_rng(0).laplace(1.5, 1.0, size)
    return sm.Model(lambda state, data, n: -abs(data.y[n] - 0.5 * state.k[0]), {"y": y},
                    state={"k": 0}, support={"k": 6})  # fmt: skip


def nested(size=SIZE):
    """A line or a parabola."""

    def log_likelihood(state, data, n):
        value = state.theta[0] + state.theta[1] * data.x[n]
        if state.q[0] == 1:
            value += state.theta[2] * data.x[n] ** 2
        return -0.5 * (data.y[n] - value) ** 2

    def log_prior(state):
        total = 0.0
        for j in range(2 + state.q[0]):
            total -= 0.5 * state.theta[j] ** 2
        return total

    x = np.linspace(-1.0, 1.0, size)
    y = x + np.random.default_rng(0).standard_normal(size)
    return sm.Model(log_likelihood, {"x": x, "y": y}, {"q": 0, "theta": np.zeros(3)}, log_prior,
                    support={"q": 2}, lengths={"theta": ("q", [2, 3])})  # fmt: skip


def remade(kernel, model):
    """The kernel that the code makes which is shown."""
    scope = {"sm": sm, "model": model}
    exec(kernel.code, scope)
    return scope["kernel"]


@pytest.mark.slow_for("make1-wanted1")
@pytest.mark.slow_for("mixed-wanted1", "nested-wanted3")
@pytest.mark.parametrize(("make", "wanted"), [
    (partial(regression, 20_000), ["sm.Metropolis(\"beta\"", "control=control"]),
    (partial(mixed, 20_000), ["sm.Gibbs(\"k\"", "sm.Metropolis((\"mu\", \"sigma\")"]),
    (levels, ["kernel = sm.Gibbs(\"k\""]),
    (nested, ["sm.Gibbs(\"q\", pseudo=sm.PseudoPrior(fits)", "fits = [sm.laplace(model, given="]),
])  # fmt: skip
def test_the_code_that_is_shown_makes_the_kernel(make, wanted):
    model = make()
    kernel = sm.default_kernel(model, progress=False)
    assert all(text in kernel.code for text in wanted)
    assert str(kernel).endswith(kernel.code) and kernel.found == tuple(
        line[2:] for line in str(kernel).splitlines() if line.startswith("# ")
    )
    again = remade(kernel, model)
    assert kernel.describe(model).splitlines()[1:] == again.describe(model).splitlines()[1:]
    one, two = (sm.sample(model, k, draws=40, warmup=20, chains=2, seed=3, progress=False)
                for k in (kernel, again))  # fmt: skip
    for name in model.names:
        assert np.array_equal(one.draws[name], two.draws[name])


@pytest.mark.slow
def test_draws_without_a_kernel_are_of_the_posterior():
    """Beside an exact chain of the plainest kernel: means within 4.5 of their errors."""
    model = mixed()
    trace = sm.sample(model, draws=3_000, warmup=500, chains=2, seed=1, progress=False)
    plain = sm.Gibbs("k", sm.Exact()) >> sm.Metropolis(("mu", "sigma"), selector=sm.Exact())
    long = sm.sample(model, plain, draws=6_000, warmup=1_000, chains=2, seed=2, progress=False)
    for name in model.names:
        a, b = (t.draws[name].ravel() for t in (trace, long))
        off = abs(a.mean() - b.mean())
        error = np.hypot(*(t.draws[name].std() / t.mixing(name).ess ** 0.5 for t in (trace, long)))
        assert off < 4.5 * error, (name, off, error)
    assert len(np.unique(trace.draws["k"])) == 5


@pytest.mark.slow
def test_a_promise_is_kept():
    model = mixed()
    loose = sm.default_kernel(model, progress=False)
    assert loose.guarantee == loose.settled(model).guarantee
    for promise in ("exact", "bounded"):
        kernel = sm.default_kernel(model, promise, progress=False)
        assert kernel.guarantee == kernel.settled(model).guarantee == "exact"
        assert "selector=sm.Exact()" in kernel.code
    trace = sm.sample(model, promise="exact", draws=20, warmup=20, chains=2, progress=False)
    assert trace.meta["guarantee"] == "exact"
    with pytest.raises(ValueError, match="promise='sure': give one of exact, bounded, asymptotic"):
        sm.default_kernel(model, "sure")
    with pytest.raises(ValueError, match="is for a run without a kernel"):
        sm.sample(model, loose, promise="exact")


@pytest.mark.slow
def test_without_a_mode_blocks_walk():
    """The likelihood knows the sum of both only, and there is no prior."""
    y = np.random.default_rng(0).standard_normal(300)
    model = sm.Model(lambda state, data, n: -0.5 * (data.y[n] - state.a[0] - state.b[0]) ** 2,
                     {"y": y}, {"a": 0.0, "b": 0.0},
                     constraints={"b": sm.interval(-1, 1)})  # fmt: skip
    many = sm.Model(lambda state, data, n: -0.5 * (data.y[n] - state.a[n % 301]) ** 2, {"y": y},
                    {"a": np.zeros(301)})  # fmt: skip
    kernel = sm.default_kernel(many, progress=False)
    assert kernel.fit is None and kernel.code.startswith('kernel = sm.Metropolis("a"')
    assert kernel.found[-1] == "no fit: 301 free coordinates and 300 data take too long"
    with pytest.raises(ValueError, match="there is no fit to start around"):
        kernel.start(np.random.default_rng(0))
    flat = sm.Model(lambda state, data, n: 0.0 * state.a[0], {"y": y}, {"a": 0.0})
    kernel = sm.default_kernel(flat, progress=False)
    assert kernel.fit is None and kernel.found[-1].startswith("no fit: ")
    assert sm.default_kernel(model, progress=False).fit is not None


def test_the_fastest_is_chosen_and_near_ties_go_to_the_first(monkeypatch):
    model = mixed()
    cost = dict.fromkeys(("pCN along the fit", "walks, block by block"), 1e-6)
    found = defaults.candidates_of(model, None)[0]
    names = {id(c.kernel): c.name for c in found}
    monkeypatch.setattr(pilots, "step_cost", lambda m, k, s: cost.get(names[id(k)], 1e-3))

    def chosen(rates):
        told = lambda m, k, s, n: (rates.get(names[id(k)], 1.0), 1.0)  # noqa: E731
        monkeypatch.setattr(pilots, "effective", told)
        best, notes = pilots.by_pilots(model, found, None, 10**9, False)
        assert len(notes) == len(found)
        return best[0].name

    assert chosen({"walks, block by block": 50.0}) == "walks, block by block"
    assert chosen({"walks, block by block": 50.0, "pCN along the fit": 48.0}) == "pCN along the fit"
    # 1,000 effective draws a second at most are not looked at where there are 5,000 already.
    slow = {"pCN along the fit": 5e3, "pCN that reads data": 1e9}
    assert chosen(slow) == "pCN along the fit"


@pytest.mark.parametrize(("steps", "wins"), [(10**9, "walks"), (8_000, "slices")])
def test_of_runs_that_are_over_at_once_the_draws_count(monkeypatch, steps, wins):
    """Steps of 1 and 20 us, of which a twentieth and four fifths are effective: a run of .16 s."""
    model, told = mixed(), {"walks": (0.05, 1e-6), "slices": (0.8, 2e-5)}
    found = [pilots.Candidate(name, (), "", name, "exact") for name in told]
    monkeypatch.setattr(pilots, "step_cost", lambda m, k, s: told[k][1])
    monkeypatch.setattr(pilots, "effective", lambda m, k, s, n: told[k])
    best, notes = pilots.by_pilots(model, found, None, steps, False)
    assert best[0].name == wins
    assert notes[0] == "walks: 5e+04 effective draws a second of the slowest quantity, 1 us a step"


def test_what_was_not_tried_is_not_taken_where_nothing_mixes(monkeypatch):
    """Slices of 45 ms a step, too slow for a pilot, were: a run of six minutes for one of .4 s."""
    model, cost = mixed(), {"slices": 0.045, "walks": 5e-5, "other walks": 6e-5}
    found = [pilots.Candidate(name, (), "", name, "exact") for name in cost]
    monkeypatch.setattr(pilots, "step_cost", lambda m, k, s: cost[k])
    monkeypatch.setattr(pilots, "effective", lambda m, k, s, n: (0.0, cost[k]))
    best, notes = pilots.by_pilots(model, found, None, 8_000, False)
    assert best[0].name == "walks" and "slices: 45 ms a step, too slow for a pilot" in notes


def test_what_fails_late_in_its_pilot_is_left_out(monkeypatch):
    """After a step was timed: a chain may come to where its model is not defined."""
    model, told = mixed(), {"walks": (0.05, 1e-6), "slices": (0.8, 2e-5)}
    found = [pilots.Candidate(name, (), "", name, "exact") for name in told]
    monkeypatch.setattr(pilots, "step_cost", lambda m, k, s: told[k][1])

    def failing(model, kernel, start, draws):
        if kernel == "slices":
            raise sm.RewardError("the log prior is nan. Somewhere.")
        return told[kernel]

    monkeypatch.setattr(pilots, "effective", failing)
    best, notes = pilots.by_pilots(model, found, None, 8_000, False)
    assert [c.name for c in best] == ["walks"]
    assert notes[1] == "slices: it failed. the log prior is nan"


@pytest.mark.slow
def test_what_fails_in_its_pilot_is_left_out(monkeypatch):
    model, real = mixed(20_000), pilots.step_cost

    def failing(model, kernel, start):
        if "Gibbs" in kernel.text() and any(getattr(leaf, "control", None)
                                            for leaf in kernel.leaves()):  # fmt: skip
            raise sm.RewardError("a residual is nan. Somewhere.")
        return real(model, kernel, start)

    monkeypatch.setattr(pilots, "step_cost", failing)
    kernel = sm.default_kernel(model, progress=False)
    assert "control" not in kernel.code
    assert "pCN along the fit: it failed. a residual is nan" in kernel.found
    monkeypatch.setattr(pilots, "step_cost", lambda *given: 10.0)  # no time for any pilot
    assert "fit" in sm.default_kernel(model, progress=False).code


def test_pilots_of_rows_in_files_count_what_was_waited_for(tmp_path):
    """A thread has a core for none of it; beside other processes, waiting for one is chance."""
    trace = SimpleNamespace(seconds=np.array([2.0, 1.0]), processor=np.array([0.5, 0.25]))
    path = tmp_path / "y.npy"
    np.save(path, np.zeros(100))

    def model_of(y):
        return sm.Model(lambda state, data, n: data.y[n] * state.mu[0], {"y": y}, {"mu": 0.0})

    assert pilots.seconds_of(trace, model_of(np.load(path))) == 0.75
    assert pilots.seconds_of(trace, model_of(np.load(path, mmap_mode="r"))) == 3.0
    trace.processor[:] = 0.0  # not known
    assert pilots.seconds_of(trace, model_of(np.load(path))) == 3.0


def test_ctrl_c_in_a_pilot_ends_the_run(monkeypatch):
    def stopped(*given, **more):
        trace = sm.sample(*given, **more)
        trace.interrupted = True
        return trace

    monkeypatch.setattr(pilots, "sample", stopped)
    with pytest.raises(KeyboardInterrupt):
        sm.default_kernel(regression(), progress=False)


@pytest.mark.slow
def test_chains_start_apart_and_inside():
    model = mixed()
    kernel = sm.default_kernel(model, progress=False)
    rng = np.random.default_rng(1)
    found = [kernel.start(rng) for _ in range(200)]
    sigma = np.array([one["sigma"] for one in found])
    sd = np.sqrt(kernel.fit.covariance[1, 1]) * kernel.fit.state["sigma"]
    assert sigma.min() > 0.0 and 1.5 < sigma.std() / sd < 2.5
    support = range(model.variables["k"].support)
    assert {int(np.ravel(one["k"])[0]) for one in found} == set(support)
    several = sm.default_kernel(nested(), progress=False)
    assert {int(np.ravel(several.start(rng)["q"])[0]) for _ in range(40)} == {0, 1}


@pytest.mark.slow
def test_a_stored_run_goes_on_with_the_code(tmp_path):
    model, path = mixed(), tmp_path / "run.nc"
    trace = sm.sample(model, draws=30, warmup=20, chains=2, seed=5, store=path, progress=False)
    code = sm.load(path).meta["chosen"]
    assert "The kernel was chosen by pilots" in str(trace.report()) and "sm.Gibbs" in code
    scope = {"sm": sm, "model": model}
    exec(code, scope)
    longer = sm.resume(path, model, scope["kernel"], draws=50, progress=False)
    assert longer.shape == (2, 50)
    for name in model.names:
        assert np.array_equal(longer.draws[name][:, :30], trace.draws[name])


def test_with_other_selectors_it_is_not_what_the_code_makes():
    model = levels()
    kernel = sm.default_kernel(model, progress=False)
    told = str(sm.audit(model, sm.Racing(delta=0.02), kernel, steps=20, warmup=0, seed=1))
    assert "chosen by pilots" not in told and "0.02" in told
    both = kernel >> sm.Gibbs("k", sm.Exact())
    assert both.settled(model).parts[0].text() == "Gibbs('k')"


def test_chains_that_disagree_are_told():
    """Two modes that no chain leaves."""
    y = np.random.default_rng(0).standard_normal(500) + 3.0
    model = sm.Model(lambda state, data, n: -0.5 * (data.y[n] - abs(state.a[0])) ** 2, {"y": y},
                     {"a": 3.0})  # fmt: skip
    kernel, apart = sm.Metropolis("a", selector=sm.Exact()), [{"a": 3.0}, {"a": -3.0}]
    trace = sm.sample(model, kernel, draws=400, warmup=300, chains=2, seed=1, start=apart,
                      progress=False)  # fmt: skip
    report = trace.report()
    assert report.rows[0]["rhat"] > 1.5
    assert any("its chains disagree: R-hat is" in text for text in report.warnings)
    together = sm.sample(model, kernel, draws=400, warmup=300, chains=2, seed=1,
                         progress=False).report()  # fmt: skip
    assert together.rows[0]["rhat"] < 1.05
    assert not any("disagree" in text for text in together.warnings)


# ------------------------------------------------------------------------------ change points
def change_point(size=300):
    y = np.random.default_rng(6).poisson(np.where(np.arange(size) < 200, 3.0, 6.0))

    def log_likelihood(state, data, n):
        rate = state.rate[0] if n < state.tau[0] else state.rate[1]
        return data.y[n] * sm.log(rate) - rate

    return sm.Model(log_likelihood, {"y": y.astype(float)}, {"tau": 100, "rate": [3.0, 4.0]},
                    lambda state: -state.rate[0] - state.rate[1], support={"tau": size + 1},
                    constraints={"rate": sm.positive})  # fmt: skip


@pytest.mark.slow
def test_a_change_point_is_summed_cumulatively():
    """Of all values a race would read the data some hundred times."""
    kernel = sm.default_kernel(change_point(), progress=False)
    assert 'sm.Gibbs("tau", cumulative=True) >> sm.' in kernel.code
    assert "sm.Taylor" not in kernel.code
    trace = sm.sample(change_point(), kernel, draws=500, warmup=300, seed=1, progress=False)
    assert abs(float(np.asarray(trace.draws["tau"]).mean()) - 200.0) < 5.0


def test_a_change_point_among_many_data_is_found():
    """And of one datum that changes at another place, that it is none."""
    assert orders.is_change_point(change_point(30_000), "tau")

    def log_likelihood(state, data, n):
        at = n if n != data.other else n // 2
        rate = state.rate[0] if at < state.tau[0] else state.rate[1]
        return data.y[n] * sm.log(rate) - rate

    def special(state, data, n):  # one value of thousands means that nothing changes
        shifted = n >= state.tau[0] and state.tau[0] != 200
        return data.y[n] * sm.log(state.rate[1 if shifted else 0]) - state.rate[1 if shifted else 0]

    few = {"y": change_point(3_000).data.y}
    state = {"tau": 5, "rate": np.array([1.0, 2.0])}
    with_one = sm.Model(special, few, state, support={"tau": 3_001},
                        constraints={"rate": sm.positive})  # fmt: skip
    assert not orders.is_change_point(with_one, "tau")
    data = {"y": change_point(30_000).data.y, "other": 29_000}
    model = sm.Model(log_likelihood, data, {"tau": 5, "rate": np.array([1.0, 2.0])},
                     support={"tau": 30_001}, constraints={"rate": sm.positive})  # fmt: skip
    assert not orders.is_change_point(model, "tau")


@pytest.mark.plain
def test_what_is_no_change_point_is_not_summed_so():
    """Many values that data see all, though not where the chain starts."""

    def log_likelihood(state, data, n):
        return -0.5 * (data.y[n] - state.b[0] * state.k[0]) ** 2

    data = {"y": np.random.default_rng(0).standard_normal(100)}
    model = sm.Model(log_likelihood, data, {"k": 3, "b": 0.0}, support={"k": 20})
    assert not orders.is_change_point(model, "k")
    assert orders.is_change_point(change_point(100), "tau")
    with pytest.raises(ValueError, match=r"cumulative=True\): going from value \d+ to \d+ changes"):
        sm.Gibbs("k", cumulative=True).check(model)


# ------------------------------------------------------------------------------- several modes
def mixture(weights, size=1_500):
    """Three normals, of which the means are unknown and start alike."""
    rng = np.random.default_rng(5)
    at = rng.choice(3, size, p=[0.3, 0.5, 0.2])
    y = np.array([-2.0, 0.5, 3.0])[at] + 0.8 * rng.standard_normal(size)
    a, b, c = weights

    def log_likelihood(state, data, n):
        total = 0.0
        for w, m in ((a, state.mu[0]), (b, state.mu[1]), (c, state.mu[2])):
            total += w * sm.exp(-0.5 * ((data.y[n] - m) / 0.8) ** 2)
        return sm.log(total)

    return sm.Model(log_likelihood, {"y": y}, {"mu": np.zeros(3)},
                    lambda state: -0.02 * np.sum(state.mu**2))  # fmt: skip


@pytest.mark.slow
def test_a_lower_mode_is_not_taken_for_the_posterior():
    """The first search ends 150 nats below: around it all chains would agree."""
    model = mixture((0.3, 0.5, 0.2))
    first = sm.laplace(model)
    with pytest.warns(UserWarning, match=r"searches came to \d modes of the posterior: 1 to"):
        trace = sm.sample(model, draws=300, warmup=300, seed=1, progress=False)
    mu = np.asarray(trace.draws["mu"]).mean(axis=(0, 1))
    assert np.abs(mu - [-2.0, 0.5, 3.0]).max() < 0.2
    assert np.abs(first.state["mu"] - [-2.0, 0.5, 3.0]).max() > 1.0
    code = trace.meta["chosen"]
    assert "fit = sm.laplace(model, given={'mu': [-" in code
    notes = [note for note in trace.report().notes if "came to" in note or "chosen" in note]
    assert (
        notes[1].startswith("Before, ") and " searches came to" in notes[1] and "#" not in notes[0]
    )


@pytest.mark.slow
def test_chains_start_at_modes_that_are_as_high():
    """Labels that trade places: each chain holds one order, and R-hat says so."""
    model = mixture((1 / 3, 1 / 3, 1 / 3))
    with pytest.warns(UserWarning, match="chains start around those within 10 nats"):
        trace = sm.sample(model, draws=200, warmup=200, seed=2, progress=False, chains=6)
    assert float(trace.mixing("mu").rhat) > 1.5


@pytest.mark.plain
def test_ends_of_searches_are_told_apart_by_modes():
    model = regression(200)
    fit = sm.laplace(model)
    ends = fit.mean + np.array([0.0, 0.001, 3.0, 0.0, -5.0])[:, None] * fit.factor[:, 0]
    ends[3] = np.nan
    found = modes.apart(fit.factor, (-5.0, -5.0 + 1e-9, -9.0, -np.inf, -4.0), ends)
    assert (found.searches, found.found, found.own) == (4, [1, 2, 1], 1)
    assert found.doubtful and len(found.near) == 3
    assert found.told().endswith("1 to the highest, others to such as are 1, 5 nats lower")
    alone = modes.apart(fit.factor, (-5.0, -5.0), ends[:2])
    assert not alone.several and not alone.doubtful and alone.told() == ""
    lower = modes.apart(fit.factor, (-5.0, -5.0, -90.0), ends[:3])
    assert lower.several and not lower.doubtful


def two(start, weights=None, size=400):
    """Two normals, alike but for their names."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(size) < 0.5, -1.5, 1.5) + rng.standard_normal(size)
    data = {"y": y}

    def log_likelihood(state, data, n):
        a, b = data.y[n] - state.m[0], data.y[n] - state.m[1]
        return sm.log(sm.exp(-0.5 * a * a) + sm.exp(-0.5 * b * b))

    def weighted(state, data, n):
        a, b = data.y[n] - state.m[0], data.y[n] - state.m[1]
        return sm.log(state.w[0] * sm.exp(-0.5 * a * a) + state.w[1] * sm.exp(-0.5 * b * b))

    def log_prior(state):
        return -0.005 * (state.m[0] ** 2 + state.m[1] ** 2)

    if weights is None:
        return sm.Model(log_likelihood, data, {"m": start}, log_prior)
    return sm.Model(weighted, data, {"m": start, "w": weights}, log_prior,
                    constraints={"w": sm.simplex})  # fmt: skip


@pytest.mark.filterwarnings("ignore:the Hessian at the mode is not positive")
@pytest.mark.parametrize("start", [[1.0, 1.0], [0.0, 0.0]])
def test_a_saddle_is_no_mode_of_all(start):
    """A search stays where components are alike, 220 nats lower, and flat towards either mode."""
    fit = sm.laplace(two(start))
    found = modes.modes_of(fit)
    assert fit.repaired == 1 and found.own == 2 and len(found.modes) == 3
    assert found.heights[0] - found.heights[2] > 200.0
    assert np.abs(found.heights[0] - found.heights[1]) < 1e-3
    assert modes.highest(fit, found)[0].log_density > fit.log_density + 200.0


@pytest.mark.parametrize("weights", [None, [0.5, 0.5]])
def test_names_that_trade_places_are_found(weights):
    """Where all searches come to one of two equal modes, the other is asked for by name."""
    found = modes.modes_of(sm.laplace(two([1.0, 1.2], weights)))
    assert len(found.near) == 2 and found.doubtful
    first, other = (u[:2] for u in found.modes)
    assert np.abs(first - other[::-1]).max() < 1e-2


@pytest.mark.parametrize("seed", range(8))
def test_chains_take_modes_in_turn(seed):
    """By chance all four would begin in one of two modes in a run of eight, and agree there."""
    model, rng = two([1.0, 1.2]), np.random.default_rng(seed)
    fit = sm.laplace(model)
    kernel = defaults.DefaultKernel(
        sm.Metropolis("m"), "", "exact", model, (), fit, modes.modes_of(fit)
    )
    start = kernel.in_turn()
    ordered = [bool(np.diff(start(rng)["m"])[0] > 0.0) for _ in range(4)]
    assert ordered[0] == ordered[2] != ordered[1] == ordered[3]
    anywhere = [bool(np.diff(kernel.start(rng)["m"])[0] > 0.0) for _ in range(40)]
    assert len(set(anywhere)) == 2  # all alike: once in 5 10^11


def test_a_mode_of_some_data_counts_if_all_say_so(monkeypatch):
    """The search from there may come back, or end nowhere."""
    fit = sm.laplace(regression())
    seen = modes.Modes(8, [fit.mean + 0.1, fit.mean], [-5.0, -90.0], [1, 7], 1)
    assert modes.highest(fit, seen)[:2] == (fit, "")
    poor = dataclasses.replace(fit, log_density=fit.log_density - 1.0)
    found, code, _ = modes.highest(poor, seen)
    assert found.log_density == pytest.approx(fit.log_density, abs=1e-6)
    assert code.startswith("sm.laplace(model, given={'beta': [")
    monkeypatch.setattr(modes, "laplace", lambda *given, **more: np.linalg.inv(np.zeros((2, 2))))
    assert modes.highest(poor, seen)[:2] == (poor, "")


def test_one_mode_is_not_talked_about(recwarn):
    kernel = sm.default_kernel(regression(), progress=False)
    assert kernel.modes.searches == modes.SEARCHES and not kernel.modes.several
    assert kernel.code.startswith("fit = sm.laplace(model)\n")
    assert not [w for w in recwarn if "searches" in str(w.message)]


@pytest.mark.plain
def test_a_value_that_few_data_see_is_no_change_point():
    """A sample of data would not meet them, and the draws would be of the prior."""
    rare = np.arange(300) < 5

    def log_likelihood(state, data, n):
        shift = 0.1 * state.k[0] if data.rare[n] else 0.0
        return -0.5 * (data.y[n] - state.b[0] - shift) ** 2

    data = {"y": np.random.default_rng(0).standard_normal(300), "rare": rare}
    model = sm.Model(log_likelihood, data, {"k": 3, "b": 0.0}, support={"k": 20})
    assert not orders.is_change_point(model, "k")


def classes(persons=300, items=4):
    """Two kinds of persons, whose labels are a block of their own; some shares are near 0."""

    def log_likelihood(state, data, n):
        p = state.p0[data.item[n]]
        if state.z[data.person[n]] == 1:
            p = state.p1[data.item[n]]
        return sm.log(p) if data.y[n] > 0.5 else sm.log1p(-p)

    def prior_of_label(state, person):
        return sm.log(state.share[0]) if state.z[person] == 1 else sm.log1p(-state.share[0])

    rng = np.random.default_rng(1)
    p = np.array([np.linspace(0.02, 0.2, items), np.linspace(0.8, 0.95, items)])
    z = (rng.random(persons) < 0.35).astype(int)
    y = (rng.random((persons, items)) < p[z]).astype(float)
    person, item = np.indices(y.shape)
    return sm.Model(
        log_likelihood, {"y": y.ravel(), "person": person.ravel(), "item": item.ravel()},
        {"z": z, "p0": p[0], "p1": p[1], "share": 0.35}, support={"z": 2},
        touches={"z": "person"}, site_prior={"z": prior_of_label},
        constraints=dict.fromkeys(("p0", "p1", "share"), sm.interval(0.0, 1.0)),
    )  # fmt: skip


@pytest.mark.parametrize("fit", [True, False])
def test_slices_without_a_control_variate_read_all_data(fit, monkeypatch):
    """Of such labels a race of slices had a share of .004 (sd .005) for .13, "yes"."""
    model = classes()
    if not fit:
        monkeypatch.setattr(defaults, "fitted", lambda model: (None, (), "no fit: none was asked"))
    found = defaults.candidates_of(model, None).found
    slices = [one for one in found if "sm.Slice(" in one.code and "control=" not in one.code]
    leaves = [leaf for one in slices for leaf in one.kernel.settled(model).leaves()]
    promised = [leaf.guarantee for leaf in leaves if isinstance(leaf, sm.Slice)]
    assert promised and all(promise == "exact" for promise in promised)
    assert any("along=fit" in one.code for one in slices) == fit


def rare_events(size=20_000):
    """A share on a grid, of a tenth of the rows: 2% of these are events, and say all."""
    rng = np.random.default_rng(0)
    item = rng.integers(0, 10, size)
    y = (rng.random(size) < np.where(item == 0, 0.02, 0.4)).astype(float)

    def log_likelihood(state, data, n):
        p = 0.4
        if data.item[n] == 0:
            p = data.grid[state.k[0]]
        return sm.log(p) if data.y[n] > 0.5 else sm.log1p(-p)

    grid = np.exp(np.linspace(np.log(0.004), np.log(0.1), 20))
    return sm.Model(log_likelihood, {"y": y, "item": item}, {"k": 10}, support={"k": 20},
                    tables={"grid": grid})  # fmt: skip


def test_races_that_err_in_a_pilot_are_by_all_data(monkeypatch):
    """Three quarters of raced decisions were wrong at delta .05, and the report said "yes"."""
    monkeypatch.setattr(pilots, "AUDITED", 60)
    promised = {}
    for name, model in (("rare", rare_events()), ("usual", levels(20_000))):
        (raced,) = (c for c in defaults.candidates_of(model, None).found if "Gibbs" in c.code)
        assert raced.guarantee == "asymptotic"
        best, told = pilots.audited(model, raced, None, 1_000)
        promised[name] = best.guarantee, best.code, bool(told)
    assert promised["rare"] == ("exact", 'sm.Gibbs("k", selector=sm.Exact())', True)
    assert promised["usual"] == ("asymptotic", 'sm.Gibbs("k")', False)
    kernel = sm.default_kernel(rare_events(), progress=False)
    assert kernel.guarantee == "exact"
    assert "of an audited pilot were wrong" in str(kernel) or "so none of its decisions" in str(
        kernel
    )
