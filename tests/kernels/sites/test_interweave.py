"""Moves of all sites with their mean or scale: laws, mutants, who is asked, what is refused."""

import inspect
import math
import types

import arviz as az
import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.sites import interweave as module
from tests.helpers.groups import (
    data_of,
    errors_of,
    hierarchy,
    log_likelihood,
    model_of,
    sampled,
    wrong,
)

GROUPS = 6


@pytest.mark.slow
def test_a_centred_hierarchy_keeps_its_laws():
    both = sm.interweave("a", location="mu", scale="tau")
    trace = sampled(model_of(), hierarchy() >> both, 20_000)
    assert not wrong(trace)
    for label in ("a+mu", "a+tau"):
        told = trace.stats[label]
        assert 0.2 < told["accepted"].mean() < 0.7 and told["pulls"].sum() > 0


MUTANTS = {
    "the scale's own part of the Jacobian is forgotten": ("return by + change", "return change"),
    "one site too few": ("(end - start) * (high", "(end - start - 1) * (high"),
    "sites move half as far": ("y[at] += change\n", "y[at] += 0.5 * change\n"),
    "sites are stretched by another factor": ("factor = exp(change)", "factor = exp(0.9 * change)"),
    "sites are stretched around zero": (
        "centre = tools.centre[k if len(tools.centre) > 1 else 0]", "centre = 0.0",
    ),
}  # fmt: skip


def mutated(old, new, *given, **named):
    """interweave() with a mistake in it, or one that is none."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{old!r} is no longer there: write the mutant anew."
    scope = {"__name__": "mutant", "__file__": module.__file__}
    exec(compile(source.replace(old, new), "<mutant of interweave.py>", "exec"), scope)
    return scope["interweave"](*given, **named)


LEGAL = ("sites move half as far", "sites are stretched around zero")  # other moves, as good


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_seen(name):
    both = mutated(*MUTANTS[name], "a", location="mu", scale="tau")
    trace = sampled(model_of(), hierarchy() >> both, 20_000)
    assert bool(wrong(trace)) == (name not in LEGAL)


# ----------------------------------------------------------------- against each other: no data
def beside(state, data, n):
    z = data.y[n] - state.b[0] - state.a[data.group[n]]
    return -0.5 * z * z


def around_zero(state, i):
    return -0.5 * (state.a[i] / state.tau[0]) ** 2 - math.log(state.tau[0])


def multiplied(state, data, n):
    z = data.y[n] - state.b[0] - state.tau[0] * state.a[data.group[n]]
    return -0.5 * z * z


def standard(state, i):
    return -0.5 * state.a[i] ** 2


def rest(state):
    return -0.5 * state.b[0] ** 2 / 100.0 - state.tau[0]


def groups_of(likelihood, of_site, **more):
    rng = np.random.default_rng(4)
    group = np.repeat(np.arange(GROUPS), 8)
    y = 1.0 + 0.7 * rng.standard_normal(GROUPS)[group] + rng.standard_normal(len(group))
    given = {"touches": {"a": "group"}, "site_prior": {"a": of_site}} | more
    return sm.Model(
        likelihood, {"y": y, "group": group}, {"b": 0.0, "a": np.zeros(GROUPS), "tau": 1.0}, rest,
        constraints={"tau": sm.positive}, **given,
    )  # fmt: skip


def slow_moves():
    return sm.Metropolis("a") >> sm.Metropolis("b", selector=sm.Exact()) >> sm.Metropolis("tau")


def by_quadrature(model):
    """Mean and sd of b and of log tau: b and the sites integrated out, a grid of tau."""
    y, group = model.data.y, model.data.group
    where = np.linspace(-8.0, 4.0, 6_000)
    means, variances, logs = [], [], []
    for tau in np.exp(where):
        count = np.bincount(group)
        averages = np.bincount(group, y) / count
        spread = tau**2 + 1.0 / count  # of an average around b
        precision = (1.0 / spread).sum() + 0.01
        mean = (averages / spread).sum() / precision
        means.append(mean)
        variances.append(1.0 / precision)
        logs.append(
            -0.5 * np.log(spread).sum() - 0.5 * np.log(precision) + 0.5 * mean**2 * precision
            - 0.5 * (averages**2 / spread).sum() - tau + np.log(tau)
        )  # fmt: skip
    logs, means, variances = np.array(logs), np.array(means), np.array(variances)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    b = weights @ means
    scale = weights @ where
    return {
        "b": (b, math.sqrt(weights @ (variances + (means - b) ** 2))),
        "log tau": (scale, math.sqrt(weights @ (where - scale) ** 2)),
    }


def off(trace, known):
    """Standard errors that means and mean squares of b and log tau are off."""
    found = []
    for name, (mean, sd) in known.items():
        values = np.asarray(trace.draws[name.split()[-1]]).ravel()
        z = ((np.log(values) if name != "b" else values) - mean) / sd
        found += errors_of(z)
    return max(found)


@pytest.mark.slow_for("beside-around_zero")
@pytest.mark.parametrize(("likelihood", "of_site"), [(beside, around_zero), (multiplied, standard)])
def test_both_ways_to_write_it_have_the_same_law(likelihood, of_site):
    model = groups_of(likelihood, of_site)
    location = {"location": "b"} if likelihood is beside else {}
    both = sm.interweave("a", scale="tau", **location)
    kernel = slow_moves() >> both
    told = [line.partition(" (")[2][:7] for line in kernel.describe(model).splitlines()[4:]]
    assert told == (["against", "togethe"] if likelihood is beside else ["against"])
    trace = sampled(model, kernel, 40_000, 2_000)
    unread = trace.stats["a+b" if likelihood is beside else "a+tau"]
    assert unread["pulls"].sum() == 0 and 0.2 < unread["accepted"].mean() < 0.7
    assert off(trace, by_quadrature(model)) < 5.0


def test_what_it_is_for():
    """A mean beside 6 groups of 8: alone it creeps, with them it jumps."""
    model, known = groups_of(beside, around_zero), []
    for kernel in (slow_moves(), slow_moves() >> sm.interweave("a", location="b")):
        known.append(float(az.ess(np.asarray(sampled(model, kernel, 5_000).draws["b"]))))
    assert known[1] > 4.0 * known[0]


def lines(state, data, n):
    g = data.group[n]
    z = data.y[n] - state.b[0] - state.a[g, 0] - (state.b[1] + state.a[g, 1]) * data.x[n]
    return -0.5 * z * z


def half_centred(state, data, n):
    g = data.group[n]
    z = data.y[n] - state.b[0] - state.a[g, 0] - state.a[g, 1] * data.x[n]
    return -0.5 * z * z


def of_rows(state, i):
    z, w = state.a[i, 0], state.a[i, 1]
    return -0.5 * (z * z + w * w)


def of_half(state, i):
    z, w = state.a[i, 0], state.a[i, 1] - state.b[1]
    return -0.5 * (z * z + w * w)


def rows_of(likelihood, of_site, rng):
    group = np.repeat(np.arange(5), 6)
    data = {"y": rng.standard_normal(30), "x": rng.standard_normal(30), "group": group}
    return sm.Model(
        likelihood, data, {"a": np.zeros((5, 2)), "b": np.zeros(2)},
        lambda state: -0.5 * (state.b[0] ** 2 + state.b[1] ** 2),
        touches={"a": "group"}, site_prior={"a": of_site},
    )  # fmt: skip


def test_rows_have_a_mean_for_each_column(rng):
    model = rows_of(lines, of_rows, rng)
    kernel = sm.Metropolis("a") >> sm.Metropolis("b", selector=sm.Exact())
    trace = sampled(model, kernel >> sm.interweave("a", location="b"), 20_000)
    assert trace.stats["a+b"]["decisions"].sum() == 2 * 20_000
    assert trace.stats["a+b"]["pulls"].sum() == 0
    # All is normal: the law of (b, a) in closed form.
    n, d = model.size, 12
    design = np.zeros((n, d))
    x, group = model.data.x, model.data.group
    design[:, 0], design[:, 1] = 1.0, x
    design[np.arange(n), 2 + 2 * group], design[np.arange(n), 3 + 2 * group] = 1.0, x
    covariance = np.linalg.inv(design.T @ design + np.eye(d))
    mean = covariance @ design.T @ model.data.y
    values = np.concatenate(
        [np.asarray(trace.draws["b"])[0], np.asarray(trace.draws["a"])[0].reshape(-1, 10)], axis=1
    )
    z = (values - mean) / np.sqrt(np.diag(covariance))
    assert max(max(errors_of(z[:, j])) for j in range(d)) < 5.5


OF = np.array([0, 1, 0, 2, 1, 1])  # departments of lecturers; the last department has none


def nested(state, data, n):
    g = data.group[n]
    z = data.y[n] - state.dept[data.of[n]] - state.a[g]
    return -0.5 * z * z


def departments():
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(6), 5)
    data = {"y": rng.standard_normal(30) + OF[group], "group": group, "of": OF[group]}
    return sm.Model(
        nested, data, {"dept": np.zeros(4), "a": np.zeros(6)},
        touches={"a": "group", "dept": "of"},
        site_prior={"a": standard, "dept": lambda state, i: -0.5 * state.dept[i] ** 2},
    )  # fmt: skip


def off_departments(trace):
    """Standard errors that the law of (dept, a) is off, which is normal."""
    model = departments()
    design = np.zeros((30, 10))
    design[np.arange(30), model.data.of] = 1.0
    design[np.arange(30), 4 + model.data.group] = 1.0
    covariance = np.linalg.inv(design.T @ design + np.eye(10))
    mean = covariance @ design.T @ model.data.y
    values = np.concatenate([np.asarray(trace.draws[name])[0] for name in ("dept", "a")], axis=1)
    z = (values - mean) / np.sqrt(np.diag(covariance))
    return max(max(errors_of(z[:, j])) for j in range(10))


@pytest.mark.slow
def test_sites_may_have_means_of_their_own():
    kernel = sm.Metropolis("a") >> sm.Metropolis("dept")
    both = sm.interweave("a", location=("dept", OF))
    trace = sampled(departments(), kernel >> both, 20_000)
    told = trace.stats["a+dept"]
    assert told["pulls"].sum() == 0 and told["decisions"].sum() == 4 * 20_000
    assert off_departments(trace) < 5.5
    mutant = mutated("own = j if len", "own = 0 if len", "a", location=("dept", OF))
    with pytest.raises(RuntimeError, match="a and dept move against each other"):  # data see it
        sampled(departments(), kernel >> mutant, 20_000)


def test_a_wrong_table_is_seen_by_data():
    wrong_one = OF.copy()
    wrong_one[3] = 1
    with pytest.raises(ValueError, match="nor do data see the same where they move against"):
        sm.interweave("a", location=("dept", wrong_one)).describe(departments())


@pytest.mark.plain
@pytest.mark.parametrize(
    ("which", "match"),
    [
        (OF[:3], r"the table of sites has shape \(3,\): give a whole number for each of 6 sites"),
        (OF + 2, r"has values 2 \.\. 4 of dtype int64: .* which of dept\[0\] \.\. dept\[3\]"),
        (OF - 1.0, r"has values -1\.0 \.\. 1\.0 of dtype float64"),
    ],
)
def test_tables_of_sites_must_fit(which, match):
    with pytest.raises(ValueError, match=match):
        sm.interweave("a", location=("dept", which)).describe(departments())


@pytest.mark.plain
@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"location": ("dept", OF), "scale": "tau"}, ValueError, "scale goes with one location"),
        ({"location": 3}, TypeError, r"location=3, scale=None\): give names of blocks; or"),
    ],
)
def test_what_is_no_name_is_refused(given, error, match):
    with pytest.raises(error, match=match):
        sm.interweave("a", **given)


def test_one_column_that_data_see_is_read(rng):
    """Column 0 has its mean beside it, column 1 in its prior: then all is read."""
    model = rows_of(half_centred, of_half, rng)
    with pytest.raises(ValueError, match=r"the prior of site \d goes from"):
        sm.interweave("a", location="b").describe(model)


def rarely(state, data, n):
    z = data.y[n] - state.b[0] - state.a[data.group[n]]
    extra = state.b[0] if n == 17 else 0.0
    return -0.5 * z * z - 1e-6 * extra


def test_one_datum_that_sees_it_is_enough():
    with pytest.raises(ValueError, match="nor do data see the same"):
        sm.interweave("a", location="b").describe(groups_of(rarely, around_zero))
    free = groups_of(rarely, around_zero, site_prior=None)
    told = sm.interweave("a", location="b").describe(free)
    assert "all data are read" in told


def test_runs_resume_bit_for_bit(tmp_path):
    model, path = model_of(), tmp_path / "run.nc"
    kernel = hierarchy() >> sm.interweave("a", location="mu", scale="tau")
    whole = sampled(model, kernel, 300, 100)
    sampled(model, kernel, 100, 100, store=path)
    again = sm.resume(path, model, kernel, 300, progress=False)
    for name in ("a", "mu", "tau"):
        assert np.array_equal(whole.draws[name], again.draws[name])


# --------------------------------------------------------------------------------------- refusals
@pytest.mark.plain
@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"location": "tau"}, r"block 'tau' has the constraint sm.positive, and must have none"),
        ({"scale": "mu"}, r"block 'mu' has the constraint sm.real, and must have sm.positive"),
        ({"location": "m"}, r"kernel a\+m moves 'm', which is no block .* Did you mean 'mu'"),
        ({"scale": "tau", "location": "other"}, r"the prior of site \d goes from .* a location"),
    ],
)
def test_what_is_no_mean_or_scale_is_refused(given, match):
    model = sm.Model(
        log_likelihood, data_of(), {"a": np.zeros(7), "mu": 0.0, "tau": 1.0, "other": 0.0},
        lambda state: -0.5 * (state.mu[0] ** 2 + state.other[0] ** 2) - state.tau[0],
        constraints={"tau": sm.positive}, touches={"a": "group"},
        site_prior={"a": lambda s, i: -0.5 * ((s.a[i] - s.mu[0]) / s.tau[0]) ** 2
                    - math.log(s.tau[0])},
    )  # fmt: skip
    with pytest.raises(ValueError, match=match):
        sm.interweave("a", **given).describe(model)


@pytest.mark.plain
def test_nothing_in_common_is_refused():
    with pytest.raises(TypeError, match="name what its sites have in common, location= or scale="):
        sm.interweave("a")


@pytest.mark.plain
def test_lengths_must_fit(rng):
    model = sm.Model(
        log_likelihood, data_of(), {"a": np.zeros(7), "mu": np.zeros(3)}, touches={"a": "group"}
    )
    with pytest.raises(ValueError, match="'mu' has 3 numbers: give one for all, or one for each"):
        sm.interweave("a", location="mu").describe(model)


# --------------------------------------------------------------- what hides a dependence on data
def by_indicator(state, data, n):
    z = data.y[n] - state.b[0]
    if state.gamma[0] == 1:
        z -= state.a[data.group[n]]
    return -0.5 * z * z


def of_outliers(state, data, n):
    if state.z[n] == 1:
        return -0.5 * data.y[n] ** 2 / 400.0 - 3.0
    return -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2


def redescending(state, data, n):
    z = data.y[n] - state.a[data.group[n]]
    return -0.5 * min(z * z, 9.0)


def beyond_rounding(state, data, n):
    return -0.5 * ((data.y[n] - state.a[data.group[n]]) * 1e-12) ** 2


def standard(state, site):
    return -0.5 * state.a[site] ** 2


def around(state, site):
    return -0.5 * (state.a[site] - state.mu[0]) ** 2


def hidden(function, y=0.0, gamma=0, z=0):
    """Sites that some data see, or all do, though not in the initial state."""
    rng, size = np.random.default_rng(5), 60
    data = {"y": y + rng.standard_normal(size), "group": np.arange(size) % GROUPS}
    state = {"a": np.zeros(GROUPS), "b": 0.0, "mu": 0.0, "gamma": [gamma], "z": np.full(size, z)}
    prior = standard if function is by_indicator else around
    return sm.Model(
        function, data, state, lambda s: -0.5 * (s.b[0] ** 2 + s.mu[0] ** 2) / 100.0,
        support={"gamma": 2, "z": 2}, touches={"a": "group"}, site_prior={"a": prior},
    )  # fmt: skip


@pytest.mark.parametrize("gamma", [0, 1])
def test_what_an_indicator_hides_is_found(gamma):
    """Where it is 1 no datum sees b + d and a - d: which is so at one of two values alone."""
    with pytest.raises(ValueError, match="nor do data see the same"):
        sm.interweave("a", location="b").describe(hidden(by_indicator, gamma=gamma))


@pytest.mark.parametrize("model", [
    hidden(of_outliers), hidden(of_outliers, z=1), hidden(redescending, y=100.0),
    hidden(beyond_rounding),
])  # fmt: skip
def test_data_that_see_no_mean_do_not_let_it_move_against_them(model):
    """Hidden by indicators, by a loss that is flat there, by rounding: they move together."""
    told = sm.interweave("a", location="mu").describe(model)
    assert "together: how the sites lie is held" in told


@pytest.mark.slow
def test_indicators_and_a_mean_beside_sites_keep_their_law():
    """Data of known outliers: the posterior of mu and a given these is normal."""
    model = hidden(of_outliers)
    kernel = sm.Gibbs("z") >> sm.Metropolis("a") >> sm.Metropolis(("b", "mu"))
    kernel = kernel >> sm.Gibbs("gamma") >> sm.interweave("a", location="mu")
    trace = sampled(model, kernel, 10_000, 500)
    a = np.asarray(trace.draws["a"])[0]
    plain = sampled(model, sm.cycle(*kernel.parts[:-1]), 40_000, 500)
    other = np.asarray(plain.draws["a"])[0]
    means = [values.mean(axis=1) for values in (a, other)]
    errors = [v.std() / np.sqrt(float(az.ess(v[None], method="mean"))) for v in means]
    assert abs(means[0].mean() - means[1].mean()) < 5.0 * np.hypot(*errors)
    ratio = means[0].std() / means[1].std()
    few = min(float(az.ess(v[None] ** 2, method="mean")) for v in means)
    assert abs(np.log(ratio)) < 5.0 / np.sqrt(few)  # it was 1.5 where they moved unseen


def far_off(state, data, n):
    z = data.y[n] - state.b[0] - state.a[data.group[n]]
    if state.mu[0] > 40.0:
        z += state.b[0]
    return -0.5 * z * z


@pytest.mark.parametrize("wide", [5.0, 200.0])
def test_data_that_see_a_move_later_end_the_chain(wide):
    """Where mu is too far off for the states that are tried; or the chain never gets there."""
    rng, size = np.random.default_rng(5), 3_000
    data = {"y": rng.standard_normal(size), "group": np.arange(size) % GROUPS}
    model = sm.Model(
        far_off, data, {"a": np.zeros(GROUPS), "b": 0.0, "mu": 0.0},
        lambda s: -0.5 * (s.b[0] ** 2 / 100.0 + (s.mu[0] / wide) ** 2),
        touches={"a": "group"}, site_prior={"a": standard},
    )  # fmt: skip
    kernel = sm.Metropolis("a") >> sm.Metropolis("b") >> sm.Metropolis("mu", scale=50.0)
    kernel = kernel >> sm.interweave("a", location="b")
    assert "against each other" in kernel.describe(model)
    if wide < 10.0:
        trace = sampled(model, kernel, 1_000, 200)
        assert trace.stats["a+b"]["pulls"].sum() == 0
        return
    with pytest.raises(RuntimeError, match=r"a and b move against each other, .* but datum \d+ \("):
        sampled(model, kernel, 1_000, 200)


def test_rows_are_stretched_around_a_mean_of_each_column():
    move = getattr(module.weave, "py_func", module.weave)
    y = np.arange(1.0, 8.0)
    tools = types.SimpleNamespace(
        columns=0, width=2, indptr=np.array([0, 3]), members=np.arange(3), first=0, other=6,
        stretches=1, sign=1.0, centre=np.array([1.0, 5.0]), amounts=np.zeros(0),
    )  # fmt: skip
    wanted = tools.centre + 2.0 * (y[:6].reshape(3, 2) - tools.centre)
    assert move(tools, y, 0, math.log(2.0)) == pytest.approx(7.0 * math.log(2.0))
    np.testing.assert_allclose(y[:6].reshape(3, 2), wanted)
    assert y[6] == pytest.approx(14.0)


def test_other_rows_are_asked_with_every_move():
    """Whether data see a move: the same two of them would never tell of others."""
    walks = sm.Metropolis("a") >> sm.Metropolis("b") >> sm.Metropolis("tau")
    kernel = walks >> sm.interweave("a", location="b")
    model = groups_of(beside, around_zero)
    trace = sm.sample(model, kernel, draws=50, warmup=10, chains=1, seed=1, progress=False)
    (watched,) = (v for k, v in trace._states[0].items() if k.endswith(".watched"))
    assert watched.tolist() == [module.AT_ONCE * 60]
