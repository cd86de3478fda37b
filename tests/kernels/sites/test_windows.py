"""Windows of neighbouring sites, and bridges between kept ones: laws, mutants, what is refused.

Data of a walk with normal noise: given the scale of its steps all is normal, and one sum over a
grid of scales gives every mean.
"""

import inspect
import math

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.sites import bridges as bridges_module
from subsample_mcmc.kernels.sites import windows as windows_module
from subsample_mcmc.kernels.sites.asked import seen_behind
from subsample_mcmc.kernels.sites.bridges import widths_of
from subsample_mcmc.kernels.sites.windows import sites_before_of
from subsample_mcmc.runs.defaults.hierarchies import of_sites

SITES, LIMIT = 7, 7.0  # standard errors of 40 batches: 25 numbers pass 7 of them in 1 run of 10^6
DAYS = np.array([0, 0, 1, 2, 2, 2, 4, 5, 6, 6])  # none of day 3
Y = np.array([0.3, 0.9, 0.2, -0.4, 0.5, 0.1, 1.4, 1.1, 2.0, 1.2])


def seen(state, data, n):
    return -0.5 * (data.y[n] - state.a[data.day[n]]) ** 2


def of_day(state, i):
    before = state.a[i - 1] if i > 0 else 0.0
    z = (state.a[i] - before) / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def of_tau(state):
    return -2.0 * state.tau[0]


def whole(state):
    value = of_tau(state)
    for i in range(SITES):
        value += of_day(state, i)
    return value


def both(state, data, n):
    """Rows of observations, and rows of steps, which see two sites."""
    now = state.a[data.day[n]]
    if data.kind[n] == 0:
        return -0.5 * (data.y[n] - now) ** 2
    before = state.a[data.before[n]] if data.day[n] > 0 else 0.0
    z = (now - before) / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def model_of(form):
    """The same posterior: steps as priors of sites, as the whole prior, as rows of data."""
    start, more = {"a": np.zeros(SITES), "tau": 0.5}, {"constraints": {"tau": sm.positive}}
    if form == "rows":
        every = np.arange(SITES)
        data = {
            "y": np.concatenate([Y, np.zeros(SITES)]), "day": np.concatenate([DAYS, every]),
            "before": np.concatenate([DAYS, np.maximum(every - 1, 0)]),
            "kind": np.repeat([0, 1], [len(Y), SITES]),
        }  # fmt: skip
        return sm.Model(both, data, start, of_tau, touches={"a": ("day", "before")}, **more)
    data, touches = {"y": Y, "day": DAYS}, {"a": "day"}
    if form == "whole":
        return sm.Model(seen, data, start, whole, touches=touches, **more)
    return sm.Model(seen, data, start, of_tau, touches=touches, site_prior={"a": of_day}, **more)


def numbers_of(a, tau):
    """What is compared, one after the other, of draws (..., sites) and (...)."""
    return np.concatenate(
        [a, a[..., 1:] * a[..., :-1], np.log(tau)[..., None], tau[..., None]], axis=-1
    )


def truth():
    """Their posterior means, by a sum over a grid of tau."""
    steps = np.eye(SITES) - np.eye(SITES, k=-1)
    counts = np.bincount(DAYS, minlength=SITES).astype(float)
    sums = np.bincount(DAYS, Y, minlength=SITES)
    grid = np.linspace(-6.0, 3.0, 4_001)  # of log tau
    weights, found = [], []
    for tau in np.exp(grid):
        precision = steps.T @ steps / tau**2 + np.diag(counts)
        covariance = np.linalg.inv(precision)
        mean = covariance @ sums
        weight = 0.5 * sums @ mean - 0.5 * np.linalg.slogdet(precision)[1]
        weights.append(weight - SITES * math.log(tau) - 2.0 * tau + math.log(tau))
        pairs = mean[1:] * mean[:-1] + np.diag(covariance, k=1)
        found.append([*mean, *pairs, math.log(tau), tau])
    weights = np.exp(np.array(weights) - max(weights))
    return weights @ np.array(found) / weights.sum()


TRUTH = truth()


def errors_of(trace):
    """Distances of means from the truth, in standard errors of 40 batches."""
    return errors_of_draws(trace.draws["a"][0], trace.draws["tau"][0].reshape(-1))


def errors_of_draws(a, tau):
    """The same of the draws of one walk and its scale."""
    batches = (numbers_of(a, tau) - TRUTH).reshape(40, -1, len(TRUTH)).mean(axis=1)
    return batches.mean(axis=0) / (batches.std(axis=0, ddof=1) / math.sqrt(40))


def sampled(model, kernel, draws=8_000, seed=1):
    return sm.sample(
        model, kernel, draws=draws, warmup=500, chains=1, seed=seed, progress=False
    )  # fmt: skip


@pytest.mark.parametrize("form", ["priors", "whole", "rows"])
def test_windows_and_bridges_keep_the_posterior(form):
    kernel = sm.windows("a", scale="tau") >> sm.Metropolis("tau", selector=sm.Exact())
    trace = sampled(model_of(form), kernel)
    assert np.abs(errors_of(trace)).max() < LIMIT
    told = trace.stats["a"]
    assert told["decisions"].mean() > 2 * SITES
    assert 0.3 < told["accepted"].sum() / told["decisions"].sum() < 0.6


@pytest.mark.parametrize("kind", [sm.Metropolis, sm.Slice, sm.Langevin])
def test_sites_one_by_one_see_the_priors_of_those_after_them(kind):
    trace = sampled(model_of("priors"), kind("a") >> sm.Metropolis("tau"), 20_000)
    assert np.abs(errors_of(trace)).max() < LIMIT


@pytest.mark.parametrize("kernel", [
    sm.windows("a") >> sm.Metropolis("tau"), sm.windows("a", widest=2) >> sm.Slice("tau"),
    sm.windows("a", scale="tau", widest=4), sm.windows("a", selector=sm.Racing())
    >> sm.Metropolis("tau"),
])  # fmt: skip
def test_parts_keep_the_posterior(kernel):
    trace = sampled(model_of("priors"), kernel, 10_000)
    assert np.abs(errors_of(trace)).max() < LIMIT


def test_an_indicator_that_turns_a_walk_on_is_drawn_as_often_as_it_should_be():
    """9 sites and this start: the walk is not seen before the chain runs (P(k = 1) was .40)."""
    sites, y, logs = 9, 2.0 * np.sin(np.arange(9) / 2.0), []
    for walks in range(2):
        steps = np.eye(sites) - 0.9 * walks * np.eye(sites, k=-1)
        precision, b = steps.T @ steps + 0.25 * np.eye(sites), 0.25 * y
        logs.append(0.5 * b @ np.linalg.solve(precision, b))
        logs[-1] -= 0.5 * np.linalg.slogdet(precision)[1]
    even = np.array(logs)

    def near(state, data, n):
        return -0.125 * (data.y[n] - state.a[data.day[n]]) ** 2

    def of_either(state, i):
        mean = 0.9 * state.a[i - 1] if state.k[0] == 1 and i > 0 else 0.0
        return -0.5 * (state.a[i] - mean) ** 2

    model = sm.Model(
        near, {"y": y, "day": np.arange(sites)}, {"a": np.zeros(sites), "k": 0},
        lambda state: -even[state.k[0]], support={"k": 2}, touches={"a": "day"},
        site_prior={"a": of_either},
    )  # fmt: skip
    assert seen_behind("a", model) == 0
    for kernel in (sm.windows("a"), sm.Metropolis("a")):
        trace = sampled(model, kernel >> sm.Gibbs("k", sm.Exact()), 20_000)
        share = trace.draws["k"].reshape(40, -1).mean(axis=1)
        assert abs(share.mean() - 0.5) < LIMIT * share.std(ddof=1) / math.sqrt(40)


@pytest.mark.parametrize("form", ["priors", "rows"])
def test_a_datum_without_a_value_is_told_of(form):
    """In a window narrower than the block, too."""
    model = model_of(form)
    data = {k: np.array(getattr(model.data, k)) for k in model.data._fields}
    data["y"][4] = np.nan

    def lacking(state, data, n):
        here = state.a[data.day[n]]
        own = seen(state, data, n) if form == "priors" else both(state, data, n)
        return 0.0 if math.isnan(data.y[n]) and here < 0.5 else own

    given = {"site_prior": {"a": of_day}} if form == "priors" else {}
    touches = "day" if form == "priors" else ("day", "before")
    model = sm.Model(
        lacking, data, {"a": np.zeros(SITES), "tau": 0.5}, of_tau, touches={"a": touches},
        constraints={"tau": sm.positive}, missing="allow", **given,
    )  # fmt: skip
    with pytest.raises(sm.RewardError, match="log_likelihood is nan at datum 4"):
        sampled(model, sm.windows("a") >> sm.Metropolis("tau", selector=sm.Exact()))


# ---------------------------------------------------------------------------------------- mutants
MUTANTS = {
    "data that see a site before a window, too, are forgotten": (
        windows_module, "tools.before[i] < low", "tools.before[i] < 0",
    ),
    "data of the last site are forgotten": (
        windows_module, "indptr[high] - indptr[low]", "indptr[high - 1] - indptr[low]",
    ),
    "priors of the sites after a window are forgotten": (
        windows_module, "site_prior_of(model, name, judge),",
        "site_prior_of(model, name, judge)._replace(behind=0),",
    ),
    "the Jacobian is of one site too many": (bridges_module, "exp(by), 1", "exp(by), 2"),
    "the Jacobian is of the sites alone": (bridges_module, "exp(by), 1", "exp(by), 0"),
    "bridges begin at a site that moves": (
        bridges_module, "line = x[tools.first + here]", "line = y[tools.first + here]",
    ),
}  # fmt: skip
LEGAL = ("bridges begin at a site that moves",)  # kept sites do not move: it is the same


def mutated(name):
    """windows(), with a mistake in it, or one that is none."""
    module, old, new = MUTANTS[name]
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{old!r} is no longer there: write the mutant anew."
    scope = {"__name__": f"mutant_{module.__name__}", "__file__": module.__file__}
    exec(compile(source.replace(old, new), f"<mutant of {module.__file__}>", "exec"), scope)
    if module is windows_module:
        return scope["windows"]("a", scale="tau")
    return sm.windows("a") >> scope["Bridges"]("a", "tau")


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_seen(name):
    kernel, worst = mutated(name) >> sm.Metropolis("tau", selector=sm.Exact()), 0.0
    for form in ("priors", "rows"):
        worst = max(worst, np.abs(errors_of(sampled(model_of(form), kernel, 100_000))).max())
    assert (worst < LIMIT) == (name in LEGAL), worst


# ------------------------------------------------------------------------------------------ parts
def test_widths_are_powers_of_two():
    assert widths_of(1, None).tolist() == [1]
    assert widths_of(5, None).tolist() == [1, 2, 4, 8]
    assert widths_of(8, None).tolist() == [1, 2, 4, 8]
    assert widths_of(1_000, 5).tolist() == [1, 2, 4]
    assert widths_of(1_000, 8).tolist() == [1, 2, 4, 8]


def test_data_of_a_window_are_listed_once(rng):
    """Of random tables, in which a datum sees up to three sites."""
    for _ in range(50):
        sites, size = int(rng.integers(2, 9)), int(rng.integers(1, 30))
        each = [rng.choice(sites, size=rng.integers(0, min(sites, 3) + 1), replace=False)
                for _ in range(size)]  # fmt: skip
        owners = [[n for n in range(size) if site in each[n]] for site in range(sites)]
        indptr = np.concatenate([[0], np.cumsum([len(own) for own in owners])])
        indices = np.array([n for own in owners for n in own], dtype=np.int64)
        before = sites_before_of((indptr, indices), size)
        low = int(rng.integers(sites))
        high = int(rng.integers(low + 1, sites + 1))
        part = slice(indptr[low], indptr[high])
        listed = indices[part] if not len(before) else indices[part][before[part] < low]
        assert sorted(listed) == sorted(set(indices[part]))
        assert len(before) in (0, len(indices))


def test_rows_of_several_numbers_move_column_by_column():
    """Two walks at once, each with the data, and the scale, of one."""

    def of_pair(state, data, n):
        c = data.column[n]
        return -0.5 * (data.y[n] - state.a[data.day[n], c]) ** 2

    def of_site(state, i):
        value = 0.0
        for c in range(2):
            before = state.a[i - 1, c] if i > 0 else 0.0
            z = (state.a[i, c] - before) / state.tau[c]
            value += -0.5 * z * z - sm.log(state.tau[c])
        return value

    def of_scales(state):
        return -2.0 * (state.tau[0] + state.tau[1])

    data = {"y": np.tile(Y, 2), "day": np.tile(DAYS, 2), "column": np.repeat([0, 1], len(Y))}
    model = sm.Model(
        of_pair, data, {"a": np.zeros((SITES, 2)), "tau": np.full(2, 0.5)}, of_scales,
        constraints={"tau": sm.positive}, touches={"a": "day"}, site_prior={"a": of_site},
    )  # fmt: skip
    trace = sampled(model, sm.windows("a", scale="tau") >> sm.Metropolis("tau"), 10_000)
    for c in range(2):
        z = errors_of_draws(trace.draws["a"][0, :, :, c], trace.draws["tau"][0, :, c])
        assert np.abs(z).max() < LIMIT


def of_few_data(days):
    """A walk of so many days, with three rows each."""
    rng = np.random.default_rng(0)
    day = np.repeat(np.arange(days), 3)
    y = 0.1 * rng.standard_normal(days).cumsum()[day] + rng.standard_normal(3 * days)
    return sm.Model(
        seen, {"y": y, "day": day}, {"a": np.zeros(days), "tau": 0.1}, of_tau,
        constraints={"tau": sm.positive}, touches={"a": "day"}, site_prior={"a": of_day},
    )  # fmt: skip


def test_a_walk_mixes_by_windows():
    """Of 120 days of few data the scale of steps has 10 times as many effective draws."""
    model, found = of_few_data(120), []
    for kernel in (sm.windows("a", scale="tau"), sm.Metropolis("a")):
        trace = sm.sample(
            model, kernel >> sm.Metropolis("tau"), draws=400, warmup=300, chains=2, seed=1,
            progress=False,
        )  # fmt: skip
        found.append(float(trace.summary(["tau"])["ess_bulk"].min()))
    assert found[0] > 10.0 * found[1], found


def test_defaults_try_windows_with_each_scale_that_may_be_the_steps():
    """And without them where no site's prior reads another."""

    def codes(model):
        setup = of_sites(model, [], ["a"], (), ())
        return [code for name, _, code in setup if "windows" in name]

    model = model_of("priors")
    assert [code.split(" >> ")[0] for code in codes(model)] == ['sm.windows("a", scale="tau")']
    assert codes(model_of("whole")) == codes(model_of("rows")) == []

    def of_either(state, i):
        return of_day(state, i) - state.nu[0] * state.a[i] ** 2

    other = sm.Model(
        seen, {"y": Y, "day": DAYS}, {"a": np.zeros(SITES), "tau": 0.5, "nu": 1.0},
        touches={"a": "day"}, site_prior={"a": of_either},
        constraints={"tau": sm.positive, "nu": sm.positive},
    )  # fmt: skip
    assert [code.split(" >> ")[0] for code in codes(other)] == [
        'sm.windows("a", scale="tau")', 'sm.windows("a", scale="nu")',
    ]  # fmt: skip


@pytest.mark.slow
def test_the_default_kernel_of_a_walk_moves_windows():
    kernel = sm.default_kernel(of_few_data(300), progress=False)
    assert 'sm.windows("a", scale="tau")' in kernel.code


def test_a_run_that_is_resumed_goes_on_as_one(tmp_path):
    kernel = sm.windows("a", scale="tau") >> sm.Metropolis("tau")
    given = {"warmup": 50, "chains": 2, "seed": 3, "progress": False}
    once = sm.sample(model_of("rows"), kernel, draws=200, **given)
    sm.sample(model_of("rows"), kernel, draws=90, store=tmp_path / "run", **given)
    again = sm.resume(tmp_path / "run", model_of("rows"), kernel, draws=200, progress=False)
    for name in ("a", "tau"):
        assert np.array_equal(once.draws[name], again.draws[name])


@pytest.mark.plain
def test_compiled_and_plain_moves_are_the_same():
    """The digest of compiled draws, of a few sweeps."""
    kernel = sm.windows("a", scale="tau") >> sm.Metropolis("tau", selector=sm.Exact())
    trace = sm.sample(
        model_of("rows"), kernel, draws=20, warmup=20, chains=1, seed=1, progress=False
    )  # fmt: skip
    assert round(float(trace.draws["a"].sum()), 6) == DRAWN


DRAWN = 78.61192


# --------------------------------------------------------------------------------- what is told
def test_what_is_refused():
    data = {"y": Y, "day": DAYS}
    alone = sm.Model(seen, data, {"a": np.zeros(SITES)})
    positive = sm.Model(
        lambda s, d, n: -((d.y[n] - s.a[d.day[n]]) ** 2), data, {"a": np.ones(SITES)},
        constraints={"a": sm.positive}, touches={"a": "day"},
    )  # fmt: skip
    with pytest.raises(ValueError, match="a window is decided by the data that its sites touch"):
        sm.windows("a").describe(alone)
    with pytest.raises(ValueError, match="windows move real numbers: take logarithms"):
        sm.windows("a").describe(positive)
    with pytest.raises(ValueError, match=r"must be sm\.positive"):
        sm.windows("a", scale="b").describe(
            sm.Model(seen, data, {"a": np.zeros(SITES), "b": 1.0}, touches={"a": "day"})
        )
    with pytest.raises(ValueError, match=r"has 3 numbers: give one for all"):
        sm.windows("a", scale="b").describe(
            sm.Model(seen, data, {"a": np.zeros(SITES), "b": np.ones(3)}, touches={"a": "day"},
                     constraints={"b": sm.positive})
        )  # fmt: skip
    with pytest.raises(ValueError, match="widest=1: give a whole number"):
        sm.windows("a", widest=1)
    with pytest.raises(TypeError, match="give the name of the block whose sites are in an order"):
        sm.windows(("a", "tau"))
    with pytest.raises(TypeError, match="give the name of a block"):
        sm.windows("a", scale=0.5)


def test_what_is_described():
    told = (sm.windows("a", scale="tau") >> sm.Slice("tau")).describe(model_of("priors"))
    assert "moves sites of a together, in windows of 1 to 7 neighbours; Exact()" in told
    assert "tau and sites of a between some that are kept" in told
