"""Hierarchies from PyMC: which rows see which sites, priors of single sites, moves site by site."""

import pickle
import types
from functools import cache

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.sites.asked import seen_behind, sites_behind
from subsample_mcmc.kernels.sites.watching import watched_priors
from tests.helpers.marks import WARNINGS_OF_PYMC
from tests.helpers.models import densities

pm = pytest.importorskip("pymc", reason="needs PyMC: pip install 'subsample-mcmc[pymc]'")
import pytensor.tensor as pt  # noqa: E402

pytestmark = WARNINGS_OF_PYMC
N, GROUPS, FEW, DAYS = 90, 12, 4, 30


def made() -> types.SimpleNamespace:
    """Data; some group has no row."""
    rng, found = np.random.default_rng(7), types.SimpleNamespace()
    found.x = rng.standard_normal((N, 2))
    found.y = rng.standard_normal(N)
    found.yes = (rng.random(N) < 0.4).astype(int)
    found.count = rng.poisson(2.0, N)
    found.group = rng.integers(GROUPS - 1, size=N)
    found.other = rng.integers(GROUPS + 3, size=N)
    found.home = rng.integers(GROUPS, size=N)
    found.away = (found.home + 1 + rng.integers(GROUPS - 1, size=N)) % GROUPS
    found.day = rng.integers(DAYS, size=N)
    found.parent = rng.integers(FEW, size=GROUPS)
    found.size = rng.uniform(0.5, 2.0, GROUPS)
    return found


D = made()


# ----------------------------------------------------------------------- move site by site: which
def centred():
    """Sites: a."""
    a = pm.Normal("a", pm.Normal("mu"), pm.HalfCauchy("tau", 1.0), shape=GROUPS)
    pm.Poisson("y", pm.math.exp(a[D.group] + pm.Normal("b") * D.x[:, 0]), observed=D.count)


def not_centred():
    """Sites: z."""
    z = pm.Normal("z", shape=GROUPS)
    a = pm.Deterministic("a", pm.Normal("mu") + pm.Exponential("tau", 1.0) * z)
    pm.Bernoulli("y", logit_p=a[D.group], observed=D.yes)


def slopes():
    """Sites: b."""
    mu, tau = pm.Normal("mu", shape=3), pm.HalfNormal("tau", shape=3)
    b = pm.Normal("b", mu, tau, shape=(GROUPS, 3))[D.group]
    pm.Normal("y", b[:, 0] + b[:, 1] * D.x[:, 0] + b[:, 2] * D.x[:, 1], observed=D.y)


def slopes_by_matrix():
    """Sites: b."""
    b = pm.Normal("b", 0.0, pm.HalfNormal("tau"), shape=(GROUPS, 2))
    pm.Normal("y", (b[D.group] * D.x).sum(axis=1), observed=D.y)


def correlated():
    """Sites: b."""
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    b = pm.MvNormal("b", pm.Normal("mu", shape=2), chol=chol, shape=(GROUPS, 2))
    pm.Normal("y", b[D.group, 0] + b[D.group, 1] * D.x[:, 0], observed=D.y)


def correlated_not_centred():
    """Sites: z."""
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    b = pm.Normal("mu", shape=2) + pt.dot(pm.Normal("z", shape=(GROUPS, 2)), chol.T)
    pm.Normal("y", b[D.group, 0] + b[D.group, 1] * D.x[:, 0], observed=D.y)


def crossed():
    """Sites: u, v."""
    u = pm.Normal("u", 0.0, pm.HalfNormal("sd_u"), shape=GROUPS)
    v = pm.StudentT("v", nu=4.0, mu=0.0, sigma=pm.HalfNormal("sd_v"), shape=GROUPS + 3)
    sigma = pm.HalfNormal("sigma")
    pm.Normal("y", pm.Normal("c") + u[D.group] + v[D.other], sigma, observed=D.y)


def nested():
    """Sites: shop."""
    region = pm.Normal("region", pm.Normal("mu"), pm.HalfNormal("t1"), shape=FEW)
    shop = pm.Normal("shop", region[D.parent], pm.HalfNormal("t2") * D.size, shape=GROUPS)
    pm.Normal("y", shop[D.group], observed=D.y)


def two_places():
    """Sites: skill."""
    skill = pm.Normal("skill", 0.0, pm.HalfNormal("tau"), shape=GROUPS)
    pm.Bernoulli("y", logit_p=skill[D.home] - skill[D.away], observed=D.yes)


def same_place_twice():
    """Sites: skill."""
    skill = pm.Normal("skill", shape=GROUPS)
    pm.Normal("y", skill[D.home] + skill[np.where(D.yes, D.home, D.away)] ** 2, observed=D.y)


def with_dims():
    """Sites: a."""
    pm.modelcontext(None).add_coords({"place": [f"p{i}" for i in range(GROUPS)]})
    a = pm.Normal("a", 0.0, 2.0, dims="place")
    pm.Normal("y", a[pm.Data("place_of", D.group)], observed=D.y)


def from_the_end():
    """Sites: a."""
    a = pm.Normal("a", shape=GROUPS)
    pm.Normal("y", a[D.group - GROUPS], observed=D.y)


def first_is_zero():
    """Sites: a."""
    a = pt.concatenate([pt.zeros(1), pm.Normal("a", shape=GROUPS)])
    pm.Normal("y", pm.Normal("c") + a[D.other % (GROUPS + 1)], observed=D.y)


def positive():
    """Sites: rate."""
    rate = pm.Gamma("rate", 2.0, pm.Exponential("beta", 1.0), shape=GROUPS)
    pm.Poisson("y", rate[D.group], observed=D.count)


def between():
    """Sites: p."""
    p = pm.Beta("p", pm.Exponential("a", 0.5), 2.0, shape=GROUPS)
    pm.Bernoulli("y", p=p[D.group], observed=D.yes)


def two_lengths():
    """Sites: a."""
    a = pm.Normal("a", 0.0, pm.HalfNormal("tau"), shape=GROUPS)
    pm.Normal("y", a[D.group], observed=D.y)
    pm.Poisson("t", pm.math.exp(a[D.home[:50]]), observed=D.count[:50])


def measured_groups():
    """Sites: a."""
    a = pm.Normal("a", pm.Normal("mu"), 1.0, shape=GROUPS)
    pm.Normal("y", pm.Normal("b") * D.x[:, 0], observed=D.y)
    pm.Normal("w", a, D.size, observed=D.y[:GROUPS])


def labels_of_groups():
    """Sites: k."""
    mu = pm.Normal("mu", 0.0, 3.0, shape=2)
    k = pm.Bernoulli("k", pm.Beta("w", 2.0, 2.0), shape=GROUPS)
    pm.Normal("y", mu[k[D.group]], observed=D.y)


def walk():
    """Sites: a."""
    a = pm.GaussianRandomWalk(
        "a", sigma=pm.HalfNormal("tau"), init_dist=pm.Normal.dist(), shape=DAYS
    )
    pm.Normal("y", a[D.day], observed=D.y)


def drift():
    """Sites: a."""
    a = pm.GaussianRandomWalk(
        "a", mu=pm.Normal("mu"), sigma=pm.HalfNormal("tau"), init_dist=pm.Normal.dist(1.0, 2.0),
        shape=DAYS,
    )  # fmt: skip
    pm.Normal("y", a[D.day] - a[(D.day + 3) % DAYS], observed=D.y)


def walk_of_rows():
    """Sites: a."""
    a = pm.GaussianRandomWalk("a", sigma=0.2, init_dist=pm.Normal.dist(), shape=N)
    pm.Normal("y", 0.0, pm.math.exp(0.5 * a), observed=D.y)


def autoregression_by_day():
    """Sites: a."""
    s, rho = pm.HalfNormal("s"), pm.Normal("rho", shape=1)
    a = pm.AR("a", rho=rho, sigma=s, init_dist=pm.Normal.dist(0.0, 2.0), steps=DAYS - 1)
    pm.Normal("y", a[D.day], observed=D.y)


def two_lags():
    """Sites: a."""
    rho = pm.Normal("rho", shape=3)  # the first is a constant
    first = pm.Normal.dist(0.0, 2.0, shape=2)
    a = pm.AR("a", rho=rho, sigma=0.7, init_dist=first, steps=DAYS - 2, constant=True)
    pm.Normal("y", a[D.day] - a[(D.day + 3) % DAYS], observed=D.y)


def autoregression_of_rows():
    """Sites: a."""
    a = pm.AR("a", rho=[0.8, 0.1], sigma=0.3, init_dist=pm.Normal.dist(shape=2), steps=N - 2)
    pm.Normal("y", 0.0, pm.math.exp(0.5 * a), observed=D.y)


# --------------------------------------------------------------------------- move as one: and why
def short_walk():
    """As one: a: the prior of each of its values depends on others of them."""
    a = pm.GaussianRandomWalk("a", sigma=1.0, init_dist=pm.Normal.dist(), shape=GROUPS)
    pm.Normal("y", a[D.group], observed=D.y)


def autoregression():
    """As one: a: the prior of each of its values depends on others of them."""
    a = pm.AR("a", rho=[0.7], sigma=1.0, init_dist=pm.Normal.dist(), shape=GROUPS)
    pm.Normal("y", a[D.group], observed=D.y)


def zero_sum():
    """As one: a_free: its values depend on one another."""
    a = pm.ZeroSumNormal("a", sigma=pm.HalfNormal("tau"), shape=GROUPS)
    pm.Normal("y", a[D.group], observed=D.y)


def process():
    """As one: f: the prior of each of its values depends on others of them."""
    distance = np.abs(np.arange(GROUPS)[:, None] - np.arange(GROUPS))
    f = pm.MvNormal("f", np.zeros(GROUPS), cov=np.exp(-distance) + 0.1 * np.eye(GROUPS))
    pm.Normal("y", f[D.group], observed=D.y)


def seen_by_another_prior():
    """As one: a: the prior of b depends on it."""
    a = pm.Normal("a", shape=GROUPS)
    b = pm.Normal("b", a[D.other[:FEW]], 1.0, shape=FEW)
    pm.Normal("y", a[D.group] + b[D.group % FEW], observed=D.y)


def soft_sum():
    """As one: a: the prior of sum depends on it."""
    a = pm.Normal("a", shape=GROUPS)
    pm.Potential("sum", pm.logp(pm.Normal.dist(0.0, 0.01), a.sum()))
    pm.Normal("y", a[D.group], observed=D.y)


def second_axis():
    """As one: b: rows see places along its second axis."""
    b = pm.Normal("b", shape=(2, GROUPS))
    pm.Normal("y", b[0, D.group] + b[1, D.group] * D.x[:, 0], observed=D.y)


def with_their_mean():
    """As one: a: a row sees many of its sites, or all."""
    a = pm.Normal("a", shape=GROUPS)
    pm.Normal("y", a[D.group] - a.mean(), observed=D.y)


MODELS = [v for v in list(globals().values()) if getattr(v, "__doc__", None)
          and v.__doc__.startswith(("Sites: ", "As one: "))]  # fmt: skip
BY_SITE = [v.__name__ for v in MODELS if v.__doc__.startswith("Sites")]
AS_ONE = [v.__name__ for v in MODELS if v.__doc__.startswith("As one")]


@cache
def built(name: str):
    """(PyMC's log density of a point of natural values, our model)."""
    from pymc.model.transform.conditioning import remove_value_transforms

    with pm.Model() as pm_model:
        globals()[name]()
    model = sm.from_pymc(pm_model)
    pm_model.rvs_to_initial_values.update(dict.fromkeys(pm_model.rvs_to_initial_values))
    held = [pm_model[p.name] for p in model.parts if not p.free]
    logp = remove_value_transforms(pm_model, held).compile_logp(mode="FAST_COMPILE")
    return lambda at: logp({p.key: np.asarray(at[p.block] + p.shift) for p in model.parts}), model


def anywhere(model, rng) -> dict:
    """Values of all blocks, at random."""
    found = {}
    for part in model.parts:
        start = np.asarray(part.state)
        if part.discrete:
            found[part.block] = rng.integers(part.support, size=start.shape)
        else:
            value = part.value(start)
            found[part.block] = part.natural(value + 0.5 * rng.standard_normal(np.shape(value)))
    return found


def own_terms(model, point, block: str, site: int, touches, of_site) -> float:
    """What a site's move sees of the log density: its rows, and the prior of its value."""
    indptr, indices = touches
    ints, floats = model.ints.copy(), model.floats.copy()
    model.set_state(ints, floats, point)
    rows, prior = densities(model, point)
    own = rows[indices[indptr[site] : indptr[site + 1]]].sum()
    if of_site is None:
        return own + prior
    last = min(site + sites_behind(block, model), model.variables[block].sites - 1)
    return own + sum(of_site(model.state(ints, floats), i) for i in range(site, last + 1))


def worst(known, model, block: str, touches, of_site, rng) -> float:
    """How far changes of what single sites see are from those of PyMC's log density."""
    far = 0.0
    for site in range(model.variables[block].sites):
        before, after = anywhere(model, rng), anywhere(model, rng)
        other = {**before, block: before[block].copy()}
        other[block][site] = after[block][site]
        wanted = known(other) - known(before)
        found = own_terms(model, other, block, site, touches, of_site) - own_terms(
            model, before, block, site, touches, of_site
        )
        far = max(far, abs(found - wanted) / (1.0 + abs(wanted)))
    return far


@pytest.mark.parametrize("name", BY_SITE)
def test_sites_are_found(name):
    """And nothing else is taken for one."""
    model = built(name)[1]
    wanted = globals()[name].__doc__.removeprefix("Sites: ").rstrip(".").split(", ")
    assert [n for n, v in model.variables.items() if v.touches is not None] == wanted
    continuous = [n for n in wanted if not model.variables[n].block.discrete]
    assert list(model.site_prior) == continuous
    assert not model.together
    again = pickle.loads(pickle.dumps(model))
    assert list(again.site_prior) == continuous and again.source == model.source


@pytest.mark.parametrize("name", BY_SITE)
def test_density_with_priors_of_sites_is_that_of_pymc(name, rng):
    known, model = built(name)
    for _ in range(3):
        point = anywhere(model, rng)
        rows, prior = densities(model, point)
        np.testing.assert_allclose(rows.sum() + prior, known(point), rtol=1e-9)
        ints, floats = model.ints.copy(), model.floats.copy()
        model.set_state(ints, floats, point)
        state = model.state(ints, floats)
        rest = model.given[3](state)
        each = [f(state, i) for n, f in model.site_prior.items()
                for i in range(model.variables[n].sites)]  # fmt: skip
        np.testing.assert_allclose(rest + sum(each), prior, rtol=1e-9)


@pytest.mark.parametrize("name", BY_SITE)
def test_what_a_site_sees_is_all_that_changes_with_it(name, rng):
    """Mutants that leave out a row, or the prior, do not pass."""
    known, model = built(name)
    for block in [n for n, v in model.variables.items() if v.touches is not None]:
        touches, of_site = model.variables[block].touches, model.site_prior.get(block)
        assert worst(known, model, block, touches, of_site, rng) < 1e-8
        indptr, indices = touches
        shorter = np.minimum(indptr, len(indices) - 1), indices[:-1]
        assert worst(known, model, block, shorter, of_site, rng) > 1e-5
        if of_site is not None:
            none = lambda state, site: 0.0  # noqa: E731
            assert worst(known, model, block, touches, none, rng) > 1e-5


def test_a_wrong_prior_of_sites_is_refused(monkeypatch):
    """A mutant: of sites from the sixth on, another value."""
    from subsample_mcmc.pymc import sites

    right = sites.prior_of_site

    def wrong(part, graph, *more):
        found = right(part, graph, *more)
        (site,) = {n for n in sites.postorder(found.node) if n.op == "loop"}
        make = graph.make
        more = make("float", make("lt", make.const(5), site))
        return found._replace(node=make("add", found.node, more))

    monkeypatch.setattr(sites, "prior_of_site", wrong)
    with pm.Model() as pm_model:
        centred()
    with pytest.raises(ValueError, match=r"from_pymc: the log prior of a \d+ is .* as translated"):
        sm.from_pymc(pm_model)


@pytest.mark.parametrize("name", AS_ONE)
def test_what_moves_as_one_says_why(name):
    block, _, why = globals()[name].__doc__.removeprefix("As one: ").rstrip(".").partition(": ")
    model = built(name)[1]
    assert model.variables[block].touches is None and block not in model.site_prior
    assert model.together[block].startswith(why)
    told = sm.Metropolis(block, proposal=sm.pcn()).describe(model)
    assert f"{block!r} moves as one: {why}" in str(told)


def test_walks_move_in_windows(rng):
    """Each step reads the day before; the default moves neighbours together."""
    for name in ("walk", "drift", "walk_of_rows"):
        assert seen_behind("a", built(name)[1]) == 1
    model = built("drift")[1]
    kernel = sm.windows("a", scale="tau") >> sm.Metropolis(("mu", "tau"), selector=sm.Exact())
    assert "windows of 1 to 30 neighbours" in kernel.describe(model)


@pytest.mark.parametrize("which", ["part_by_site", "part_of_one_site"])
@pytest.mark.parametrize("name", ["walk", "drift", "autoregression_by_day", "two_lags"])
def test_a_wrong_step_of_a_walk_is_refused(name, which, monkeypatch):
    """Mutants: sites from the sixth on have another value, or of the first ones nothing is said."""
    from subsample_mcmc.pymc import sites

    if which == "part_of_one_site" and name in ("walk", "drift"):
        return  # whose first step stands in the sum
    right = getattr(sites, which)

    def wrong(part, one, site, make, *more):
        found = right(part, one, site, make, *more)
        other = make("float", make("lt", make.const(5), site))
        added = make("add", found.node, other) if which == "part_by_site" else make.const(0.0)
        return found._replace(node=added)

    monkeypatch.setattr(sites, which, wrong)
    with pm.Model() as pm_model:
        globals()[name]()
    with pytest.raises(ValueError, match=r"from_pymc: the log prior of a  is .* as translated"):
        sm.from_pymc(pm_model)


def test_who_sees_what():
    """Of two lengths of rows, each row sees its own site; of one place twice, it is listed once."""
    indptr, indices = built("two_lengths")[1].variables["a"].touches
    for site in range(GROUPS):
        rows = set(indices[indptr[site] : indptr[site + 1]].tolist())
        first, second = np.flatnonzero(D.group == site), np.flatnonzero(D.home[:50] == site)
        assert rows == {*first.tolist(), *(N + second).tolist()}
    indptr, indices = built("same_place_twice")[1].variables["skill"].touches
    assert len(indices) == N + int(np.sum(D.yes == 0)) == indptr[-1]


def test_names_and_places_stay():
    model = built("with_dims")[1]
    assert model.axes.dims["a"] == ("place",) and model.axes.coords["place"][3] == "p3"


def test_touches_are_asked_for_or_left_out():
    """Few sites move as one unless they are named; names of others say why not."""
    with pm.Model() as pm_model:
        few = pm.Normal("few", shape=FEW)
        many = pm.Normal("many", shape=GROUPS)
        pm.Normal("walk", pt.cumsum(pm.Normal("steps", shape=3))[0])
        mean = few[D.group % FEW] + many[D.group] + pm.Normal("c")
        pm.Normal("y", mean, pm.HalfNormal("s"), observed=D.y)

    def touched(**given):
        model = sm.from_pymc(pm_model, **given)
        return [name for name, v in model.variables.items() if v.touches is not None]

    assert touched() == ["many"]
    assert touched(touches=["few"]) == touched(touches="few") == ["few"]
    assert touched(touches=["many", "few"]) == ["few", "many"]
    assert touched(touches=()) == []
    with pytest.raises(ValueError, match=r"'a' is not among the free variables, few, many"):
        touched(touches=["a"])
    with pytest.raises(ValueError, match=r"c cannot move site by site: its values depend"):
        touched(touches=["c"])
    with pytest.raises(ValueError, match=r"steps cannot move site by site: data do not say"):
        touched(touches=["steps"])
    with pm.Model() as pm_model:
        short_walk()
    with pytest.raises(ValueError, match=r"a cannot move site by site: the prior of each of its"):
        sm.from_pymc(pm_model, touches=["a"])


def test_sites_move_by_their_own_data():
    """Means of a normal model against their formula; one false alarm in 10,000."""
    with pm.Model() as pm_model:
        a = pm.Normal("a", 0.5, 0.7, shape=GROUPS)
        pm.Normal("y", a[D.group], observed=D.y)
    model = sm.from_pymc(pm_model)
    trace = sm.sample(
        model, sm.Metropolis("a"), 4_000, 500, chains=2, cores=1, seed=3, progress=False
    )
    draws = trace.draws["a"]
    count = np.bincount(D.group, minlength=GROUPS)
    precision = count + 1.0 / 0.7**2
    mean = (np.bincount(D.group, D.y, GROUPS) + 0.5 / 0.7**2) / precision
    batches = draws.reshape(2 * 40, 100, GROUPS).mean(axis=1)
    score = (batches.mean(axis=0) - mean) / (batches.std(axis=0, ddof=1) / np.sqrt(80))
    # Student's t of 79 degrees: beyond 4.6 with probability 1.6e-5, of 12 means.
    assert np.abs(score).max() < 4.6
    spread = draws.reshape(-1, GROUPS).std(axis=0) * np.sqrt(precision)
    assert np.abs(spread - 1.0).max() < 0.15
    assert "site by site" in str(sm.Metropolis("a").describe(model))


def test_step_methods_of_pymc_move_blocks_as_one_unless_they_are_given_sites():
    with pm.Model() as pm_model:
        centred()
    step = sm.pymc.RacingMetropolis(["a"], model=pm_model)
    assert step.translated.variables["a"].touches is None
    own = sm.pymc.RacingMetropolis(["a"], model=pm_model, translated=sm.from_pymc(pm_model))
    assert own.translated.variables["a"].touches is not None


def test_how_many_sites_before_its_own_a_prior_reads_is_told():
    """By its maker: the code looks up places that are no less than 0, and does not tell."""
    wanted = {
        "walk": 1, "drift": 1, "walk_of_rows": 1, "autoregression_by_day": 1, "two_lags": 2,
        "autoregression_of_rows": 2,
    }  # fmt: skip
    for name, behind in wanted.items():
        model = built(name)[1]
        assert model.behind["a"] == sites_behind("a", model) == seen_behind("a", model) == behind
        assert pickle.loads(pickle.dumps(model)).behind == model.behind
        assert watched_priors(model, "a") == []
