"""A fit and its Taylor sums as proposals: gradients that read no data, and what stays exact.

Chains start from exact, independent draws of the posterior, make a few steps, and must still be
such draws: no autocorrelation, and the change of a statistic between both ends is a sharp test.
"""

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.kernels import langevin
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.runs.chain import Program
from subsample_mcmc.target.moved import Moved
from subsample_mcmc.target.rewards import place
from tests.helpers.laws import ALARM, uniform_chance
from tests.helpers.models import tally, walker
from tests.helpers.runs import tools_of
from tests.helpers.tall import Bench, idle, regression

STEPS = 3  # of a kernel, between two ends


def moved(model, kernel, starts, seed=1):
    """(ints, floats) after STEPS of a kernel from each line of (ints, floats); and its counts."""
    one = walker(model, kernel, seed)
    ints, floats = (np.array(part) for part in starts)
    words = []
    for i in range(len(floats)):
        one.ints[:], one.floats[:] = ints[i], floats[i]
        made = one.advance(1, thin=STEPS)
        ints[i], floats[i] = made.ints[0], made.floats[0]
        words.append(made.words)
    assert one.error is None, one.error
    return ints, floats, one, np.concatenate(words)


def chance(ranks, before, after):
    """The smallest p-value (Bonferroni): ranks are uniform, and no statistic drifts.

    Both are of independent draws; the change of a statistic by the central limit theorem.
    """
    change = after - before
    z = np.abs(change.mean(axis=0)) / (change.std(axis=0) / np.sqrt(len(change)))
    values = [2.0 * stats.norm.sf(z).min()] + [uniform_chance(r) for r in ranks]
    return min(values) * (len(z) + len(ranks))


# ------------------------------------------------------------------------ one block: a regression
class Logistic:
    """A regression of two coefficients, its posterior on a grid, and draws from it."""

    def __init__(self, size=500, count=8000):
        rng = np.random.default_rng(3)
        self.x = np.column_stack([np.ones(size), rng.standard_normal(size)])
        self.y = (rng.random(size) < 1.0 / (1.0 + np.exp(-self.x @ [0.3, -0.8]))).astype(float)
        self.model = sm.models.glm.logistic(self.x, self.y, prior_sd=2.0)
        self.fit = sm.laplace(self.model, progress=False)
        self.control = sm.Taylor(self.fit)
        # By rejection, in coordinates in which the fit is standard normal.
        wide = 1.15 * rng.standard_normal((3 * count, 2))
        excess = self.density(self.at(wide)) + 0.5 * (wide**2).sum(axis=1) / 1.15**2
        kept = np.log(rng.random(3 * count)) < excess - excess.max() - 0.05
        self.draws = self.at(wide[kept][:count])
        assert len(self.draws) == count
        self.edges = np.linspace(-7.0, 7.0, 281)

    def at(self, z):
        return self.fit.mean + z @ self.fit.factor.T

    def density(self, beta):
        eta = beta @ self.x.T
        value = eta @ self.y - np.logaddexp(0.0, eta).sum(axis=1)
        return value - 0.5 * (beta**2).sum(axis=1) / 2.0**2

    def ranks(self, beta):
        """Where each coefficient lies in its marginal, by quadrature along the other."""
        sd, found = np.sqrt(np.diag(self.fit.covariance)), []
        for j in range(2):
            own, other = (self.fit.mean[i] + sd[i] * self.edges for i in (j, 1 - j))
            a, b = np.meshgrid(own, other, indexing="ij")
            grid = np.stack([a, b] if j == 0 else [b, a], axis=-1).reshape(-1, 2)
            values = np.concatenate([self.density(part) for part in np.array_split(grid, 20)])
            p = np.exp(values - values.max()).reshape(a.shape).sum(axis=1)
            area = np.concatenate([[0.0], np.cumsum(0.5 * (p[1:] + p[:-1]))])
            found.append(np.interp(beta[:, j], own, area / area[-1]))
        return found

    def statistics(self, beta):
        z = np.linalg.solve(self.fit.factor, (beta - self.fit.mean).T).T
        return np.column_stack([z, z**2, z[:, 0] * z[:, 1], z**3, self.density(beta)])

    def chance(self, kernel, **options):
        """That the kernel leaves the posterior fixed; and what it counted."""
        none = np.zeros((len(self.draws), 0), dtype=np.int64)
        made = moved(self.model, kernel, (none, self.draws), **options)
        _, after, one, words = made
        told = tally(one, words, "beta")
        p = chance(self.ranks(after), self.statistics(self.draws), self.statistics(after))
        return p, told


@pytest.fixture(scope="module")
def logistic():
    return Logistic()


def steps_of(control, **options):
    """A step at which a tenth or more of the proposals are refused."""
    settings = {"step": 1.7, "adapt": False, "selector": sm.Exact(), "control": control}
    return sm.Langevin("beta", **(settings | options))


@pytest.mark.slow
def test_draws_of_the_posterior_are(logistic):
    """What the tests below rest on."""
    assert min(uniform_chance(r) for r in logistic.ranks(logistic.draws)) > ALARM


@pytest.mark.slow
def test_leaves_the_posterior_fixed_and_reads_no_data(logistic):
    """By an exact selector; most decisions are proved without a datum, too."""
    p, told = logistic.chance(steps_of(logistic.control))
    assert p > ALARM
    assert told["steps"] == told["decisions"] == STEPS * len(logistic.draws)
    assert told["gradients"] == 0
    assert 0.3 < told["accepted"] / told["steps"] < 0.95
    assert told["predicted"] > 0.5 * told["steps"] and told["pulls"] < 0.4 * told["everything"]


@pytest.mark.slow
def test_a_mutant_is_noticed(logistic, monkeypatch):
    """As if proposals were symmetric."""
    monkeypatch.setattr(langevin, "ratio_of", lambda slope, again: langevin.no_ratio)
    assert logistic.chance(steps_of(logistic.control))[0] < 1e-12


def rough(state):
    """A stand-in for the log likelihood that reads no data."""
    return -100.0 * (state.beta[0] - 0.2) ** 2 - 60.0 * (state.beta[1] + 0.9) ** 2


@pytest.mark.slow
def test_delayed_acceptance_leaves_it_fixed(logistic):
    """Screened by one surrogate, decided with the other: what was screened by is taken out."""
    p, told = logistic.chance(sm.delayed(steps_of(logistic.control), rough))
    assert p > ALARM
    assert 0.1 < told["decisions"] / told["steps"] < 0.95  # the rest was screened
    assert told["accepted"] > 0.2 * told["decisions"] and told["predicted"] > 0


def in_seven_of_eight(gradients, steps):
    """Others walk without a gradient."""
    return gradients % 1 == 0 and abs(gradients - 7 / 8 * steps) < 6.0 * (7 / 64 * steps) ** 0.5


@pytest.mark.slow
def test_a_minibatch_around_the_reference_leaves_it_fixed(logistic):
    p, told = logistic.chance(steps_of(logistic.control, gradient="minibatch", batch=50))
    assert p > ALARM
    # Both ends of a proposal, the point and the reference, four differences of 50 data.
    assert in_seven_of_eight(told["gradients"] / (2 * 2 * 4 * 50), told["steps"])
    assert told["predicted"] > 0.5 * told["steps"]


@pytest.mark.slow
def test_the_way_back_needs_no_other_batch(logistic):
    """There is none to draw: fresh or not, the same draws."""
    made = [
        walker(logistic.model, steps_of(logistic.control, backward=way)).advance(200).floats
        for way in ("same", "fresh")
    ]
    assert np.array_equal(*made) and len(np.unique(made[0])) > 100


def test_decisions_are_those_of_sums_over_all_data(logistic):
    """Delayed acceptance with and without control variate: the same draws, bit for bit."""
    made = []
    for control in (logistic.control, None):
        metropolis = sm.Metropolis("beta", 0.2, None, sm.Exact(), control, adapt=False)
        one = walker(logistic.model, sm.delayed(metropolis, rough), seed=4)
        made.append((one.advance(2000), one))
    (with_it, one), (without, other) = made
    assert np.array_equal(with_it.floats, without.floats)
    told, plain = (tally(w, m.words, "beta") for m, w in made)
    assert told["decisions"] == plain["decisions"] < 2000 and told["predicted"] > 0
    assert told["accepted"] == plain["accepted"] > 100
    assert one.error is None and other.error is None


# ----------------------------------------------------------- two continuous blocks, and a discrete
KAPPA, SHAPE, RATE = 0.01, 2.0, 1.5  # mu ~ N(0, sigma^2 / KAPPA), 1 / sigma^2 ~ Gamma
LIFT = 0.15  # of y, where its group is lifted and k is 1, 2


def normal(state, data, n):
    r = (data.y[n] - state.mu[0] - LIFT * data.group[n] * state.k[0]) / state.sigma[0]
    return -0.5 * r * r - sm.log(state.sigma[0])


def normal_prior(state):
    """Of sigma, not of its square or logarithm."""
    s, mu = state.sigma[0], state.mu[0]
    value = -(2.0 * SHAPE + 1.0) * np.log(s) - RATE / (s * s)
    return value - np.log(s) - 0.5 * KAPPA * mu * mu / (s * s) + 0.1 * state.k[0]


class Conjugate:
    """mu, sigma > 0 and k, whose posterior has a closed form."""

    def __init__(self, size=500, count=8000):
        rng = np.random.default_rng(8)
        group = (np.arange(size) % 2).astype(float)
        y = 0.4 + LIFT * group + 1.3 * rng.standard_normal(size)
        state = {"mu": 0.5, "sigma": 1.2, "k": 1}
        self.model = sm.Model(
            normal, {"y": y, "group": group}, state, normal_prior, support={"k": 3},
            constraints={"sigma": sm.positive},
        )  # fmt: skip
        rest = y - LIFT * np.arange(3)[:, None] * group
        self.precision = KAPPA + size
        self.mean = rest.sum(axis=1) / self.precision
        self.shape = SHAPE + 0.5 * size
        self.rate = RATE + 0.5 * ((rest**2).sum(axis=1) - self.precision * self.mean**2)
        weight = 0.1 * np.arange(3) - self.shape * np.log(self.rate)
        self.p = np.exp(weight - weight.max())
        self.p /= self.p.sum()
        k = rng.choice(3, count, p=self.p)
        sigma = np.sqrt(self.rate[k] / rng.gamma(self.shape, size=count))
        mu = self.mean[k] + sigma / np.sqrt(self.precision) * rng.standard_normal(count)
        self.draws = k[:, None], np.column_stack([mu, sigma])
        self.fit = sm.laplace(self.model, progress=False)
        self.control = sm.Taylor([sm.laplace(self.model, given={"k": k}, progress=False)
                                  for k in range(3)])  # fmt: skip

    def ranks(self, ints, floats, rng):
        (mu, sigma), k = floats.T, ints[:, 0]
        t = (mu[:, None] - self.mean) / np.sqrt(self.rate / self.shape / self.precision)
        below = np.cumsum(self.p)[k] - self.p[k]
        return [
            stats.t.cdf(t, 2.0 * self.shape) @ self.p,
            stats.gamma.sf(sigma[:, None] ** -2.0, self.shape, scale=1.0 / self.rate) @ self.p,
            below + rng.random(len(k)) * self.p[k],
        ]

    def statistics(self, ints, floats):
        (mu, sigma), k = floats.T, ints[:, 0]
        a, b = 20.0 * (mu - 0.4), 20.0 * (sigma - 1.3)
        return np.column_stack([a, b, a * a, b * b, a * b, k, k == 1, a * k, b * k])


@pytest.fixture(scope="module")
def conjugate():
    return Conjugate()


def all_three(control, fit):
    """Two Langevin kernels and a Gibbs kernel that share one control variate."""
    options = {"adapt": False, "selector": sm.Exact(), "control": control}
    return (
        sm.Langevin("mu", step=1.5, precondition=fit, **options)
        >> sm.Langevin("sigma", step=1.2, precondition=fit, **options)
        >> sm.Gibbs("k", sm.Exact(), control=control)
    )


@pytest.mark.slow
def test_several_blocks_and_a_positive_one(conjugate, rng):
    """A surrogate by interpolation of log_likelihood; sigma moves on the log scale."""
    kernel = all_three(conjugate.control, conjugate.fit)
    ints, floats, one, words = moved(conjugate.model, kernel, conjugate.draws)
    assert min(uniform_chance(r) for r in conjugate.ranks(*conjugate.draws, rng)) > ALARM
    before, after = conjugate.statistics(*conjugate.draws), conjugate.statistics(ints, floats)
    assert chance(conjugate.ranks(ints, floats, rng), before, after) > ALARM
    for label in ("mu", "sigma"):
        told = tally(one, words, label)
        assert told["gradients"] == 0 and told["distance"] > 0
        assert 0.3 < told["accepted"] / told["steps"] < 0.95
    assert 0.2 < tally(one, words, "k")["accepted"] / len(words) / STEPS < 0.9
    assert np.corrcoef(floats[:, 0], ints[:, 0])[0, 1] < -0.2  # blocks depend on each other


@pytest.mark.slow
def test_temperatures_are_those_without(conjugate):
    """Draws of k from its conditional to a power, with and without control variate: the same."""
    rest = sm.Metropolis("mu", 0.1, selector=sm.Exact()) >> sm.Metropolis(
        "sigma", 0.1, selector=sm.Exact()
    )
    made = []
    for control in (conjugate.control, None):
        gibbs = sm.Gibbs("k", sm.Exact(), temperature=[3.0, 0.5, 2.0], control=control)
        one = walker(conjugate.model, gibbs >> rest, seed=5)
        made.append(one.advance(1000))
        assert one.error is None
    assert np.array_equal(made[0].ints, made[1].ints)
    assert np.array_equal(made[0].floats, made[1].floats)
    assert np.bincount(made[0].ints[:, 0], minlength=3).min() > 50


# ----------------------------------------------------------------------------- the gradient itself
_gradients: dict = {}


def gradient_at(bench, arm, start, length):
    """The derivatives of the sum of h, at an arm of a bench."""
    add_gradient = bench.control.gradient()
    if add_gradient not in _gradients:

        @jit
        def write(trial, arm, start, out):
            place(trial, arm)
            add_gradient(trial.control.arrays, trial, start, out)

        _gradients[add_gradient] = write
    out = np.full(length, np.nan)
    _gradients[add_gradient](bench.trial, arm, start, out)
    return out


SLOW = [
    pytest.param(*given, marks=pytest.mark.slow) for given in (("stencil", 2, 4), ("jets", 3, 4))
]


@pytest.mark.parametrize(
    ("source", "order", "configurations"),
    [("given", 2, 1), ("given", 3, 1), ("loose", 3, 4), *SLOW],
)
def test_the_gradient_is_that_of_the_sum_of_h(source, order, configurations, rng):
    """By differences of the sum, which are exact for polynomials of third order."""
    d = 3
    model, reference = regression("logistic", 400, d, source, configurations, seed=2)
    control = sm.Taylor(reference, order=order, outliers=0.0)  # the sum of h is over raced rows
    wide = 0.05
    for k in range(configurations):
        at = reference["beta"] + 0.3 * rng.standard_normal(d)
        ends = [at]
        for j in range(d):
            ends += [at + step * wide * np.eye(d)[j] for step in (2.0, 1.0, -1.0, -2.0)]
        bench = Bench(model, control, np.array(ends), [k], at=at)
        far, near = (
            (bench.means[1 + i :: 4] - bench.means[4 - i :: 4]) / (4.0 - 2.0 * i) for i in (0, 1)
        )
        by_differences = (4.0 * near - far) / (3.0 * wide)
        scale = np.abs(by_differences).max()
        found = gradient_at(bench, 0, 0, d)
        np.testing.assert_allclose(found, by_differences, rtol=1e-7, atol=1e-9 * scale)
        part = gradient_at(bench, 0, 1, 2)  # a block that is not the first
        assert np.array_equal(part, found[1:])
        # A sum asked for at the same place afterwards is a sum again.
        assert bench.mean_of(bench.trial, 0) == bench.means[0]


def test_outliers_count_for_the_gradient(rng):
    """It leads to the mode of all data, not of those that are raced."""
    model, reference = regression("logistic", 2000, 3, seed=2)
    at = reference["beta"] + 0.1 * rng.standard_normal(3)
    found = [
        gradient_at(
            Bench(model, sm.Taylor(reference, outliers=share), at[None], [0], at=at), 0, 0, 3
        )
        for share in (0.0, 0.1)
    ]
    assert np.array_equal(*found) and np.abs(found[0]).max() > 0.1


@pytest.mark.slow
def test_the_chain_rule_and_the_prior(conjugate, monkeypatch):
    """The slope of a step at (mu, log sigma, k): of sums of h, log prior and log |dx/du|."""
    monkeypatch.setattr(sm.Langevin, "walks", 0.0)  # which need none
    one = walker(conjugate.model, all_three(conjugate.control, conjugate.fit), seed=9)
    wide = 1e-3

    def height(k, floats):
        state = conjugate.model.state(np.array([k]), floats)
        bench = Bench(conjugate.model, conjugate.control, floats[None].copy(), [k], at=floats)
        return bench.means[0] + normal_prior(state)

    for _ in range(5):
        k, (mu, sigma) = int(one.ints[0]), one.floats.copy()
        one.advance(1)
        there = float(tools_of(one)[0].judge.trial.candidates[0][0])
        assert there == mu  # where the first kernel began
        ends = [height(k, np.array([mu + e, sigma])) for e in (wide, -wide)]
        slope = (ends[0] - ends[1]) / (2.0 * wide)
        np.testing.assert_allclose(tools_of(one)[0].push.here, slope, rtol=1e-4, atol=1e-3)
        now = tools_of(one)[1].judge.trial
        assert float(now.candidates[0][0]) == sigma
        mu = float(one.floats[0])  # already moved
        ends = [
            height(k, np.array([mu, sigma * np.exp(e)])) + e for e in (wide, -wide)
        ]  # fmt: skip
        slope = (ends[0] - ends[1]) / (2.0 * wide)
        np.testing.assert_allclose(tools_of(one)[1].push.here, slope, rtol=1e-4, atol=1e-3)


# ------------------------------------------------------------------------ where numbers come from
def test_the_preconditioner_is_the_fits(logistic, conjugate):
    covariance = logistic.fit.covariance
    made = steps_of(logistic.control, step="auto")
    np.testing.assert_array_equal(made.precondition, covariance)
    assert made.gradient == "control"
    assert steps_of(None).precondition is None and steps_of(None).gradient == "minibatch"
    given = np.array([0.1, 0.2])
    np.testing.assert_array_equal(
        steps_of(logistic.control, precondition=given).precondition, given
    )
    named = sm.Langevin("beta", precondition=logistic.fit)
    np.testing.assert_array_equal(named.precondition, covariance)
    for j, block in enumerate(conjugate.fit.blocks):
        part = sm.Langevin(block, control=sm.Taylor(conjugate.fit)).precondition
        np.testing.assert_array_equal(part, conjugate.fit.covariance[j : j + 1, j : j + 1])
    for control in (sm.Taylor(conjugate.fit.state), conjugate.control):  # a dict, and a list
        assert sm.Langevin("mu", control=control).precondition is None
    one = walker(logistic.model, made)  # from there the step is of the order of 1, not of 1/N
    assert tools_of(one).tuning.step[0] == 0.0 and tools_of(one).push.full == 1
    np.testing.assert_allclose(tools_of(one).push.factor[0], logistic.fit.factor, rtol=1e-12)


def sgld(control, **options):
    return sm.Langevin("beta", step=1e-3, correct=False, batch=25, control=control, **options)


@pytest.mark.slow
def test_a_fit_is_a_point_for_sgld_cv(logistic):
    """As control=fit, its values, its block, or the control variate with mini-batch gradients."""
    fit = logistic.fit
    given = [fit, fit.state, fit.state["beta"]]
    kernels = [sgld(one) for one in given]
    kernels.append(sgld(logistic.control, gradient="minibatch", precondition=[1.0, 1.0]))
    drawn = []
    for kernel in kernels:
        assert kernel.anchored and not kernel.surrogate_gradient
        assert "SGLD-CV" in kernel.describe(logistic.model)
        assert kernel.guarantee == "unadjusted"
        one = walker(logistic.model, kernel, seed=6)
        np.testing.assert_array_equal(tools_of(one).slope.anchor, fit.state["beta"])
        made = one.advance(50)
        assert one.error is None
        drawn.append(made.floats)
        assert tally(one, made.words, "beta")["gradients"] == 50 * 2 * 4 * 25
    for other in drawn[1:]:
        np.testing.assert_allclose(other, drawn[0], rtol=1e-12)


def test_langevin_on_the_surrogate_alone_reads_no_data():
    """Uncorrected: it goes on where all data were taken away."""
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(300), rng.standard_normal(300)])
    y = (rng.random(300) < 0.5).astype(float)
    model = sm.models.glm.logistic(x, y)
    kernel = sgld(sm.Taylor(sm.laplace(model, progress=False)))
    one = walker(model, kernel)
    assert "Langevin on the surrogate, nothing corrects it" in kernel.describe(model)
    whole = one.advance(20).floats
    one = walker(model, kernel)
    assert np.shares_memory(model.data.x, x)
    x[:], y[:] = np.nan, np.nan
    made = one.advance(20)
    assert one.error is None and np.array_equal(made.floats, whole)
    told = tally(one, made.words, "beta")
    assert told["gradients"] == told["pulls"] == told["decisions"] == 0 and told["steps"] == 20


@pytest.mark.parametrize("which", ["pcn", "independence"])
def test_proposals_from_a_fit_are_those_of_its_moments(which, logistic, conjugate):
    """The same draws, bit for bit; of the block's own part where the fit has several."""
    propose = {"pcn": sm.pcn, "independence": sm.independence}[which]
    more = {"beta": 0.4} if which == "pcn" else {}

    def walks(block, *given):
        return sm.Metropolis(block, proposal=propose(*given, **more), selector=sm.Exact())

    drawn = []
    for given in ((logistic.fit,), (logistic.fit.mean, logistic.fit.covariance)):
        drawn.append(walker(logistic.model, walks("beta", *given)).advance(100).floats)
    assert np.array_equal(*drawn) and len(np.unique(drawn[0])) > 100
    blocks = conjugate.model.variables
    sigma, k = Moved((blocks["sigma"],)), Moved((blocks["k"],))
    numbers = propose(conjugate.fit, **more).numbers(sigma)
    mean, covariance = conjugate.fit.gaussian("sigma")
    assert np.array_equal(numbers.mean[0], mean)
    assert np.array_equal(numbers.columns[0], np.sqrt(covariance))
    with pytest.raises(
        ValueError, match=r"block 'k' was not fitted: give one of \('mu', 'sigma'\)"
    ):
        propose(conjugate.fit, **more).numbers(k)
    for given in ((logistic.fit, logistic.fit.covariance), (logistic.fit.mean,)):
        with pytest.raises(TypeError, match=rf"{which}\(.*give a fit, or a mean and a covariance"):
            propose(*given, **more)


def test_a_proposal_of_another_models_fit_is_refused(logistic, conjugate):
    with pytest.raises(ValueError, match="block 'beta' was not fitted"):
        Program(logistic.model, sm.Metropolis("beta", proposal=sm.pcn(conjugate.fit)))
    with pytest.raises(ValueError, match="block 'beta' was not fitted"):
        sm.Langevin("beta", control=sm.Taylor(conjugate.fit))


# ---------------------------------------------------------------------------------------- mistakes
def student(state, data, n):
    r = data.y[n] - state.mu[0]
    return -2.0 * sm.log1p(r * r / 3.0)


def location():
    y = np.random.default_rng(4).standard_t(3.0, size=200)
    return sm.Model(student, {"y": y}, {"mu": 0.1})


def test_a_gradient_of_nothing_is_refused():
    for control in (None, 0.3):
        with pytest.raises(ValueError, match='gradient="control": give a control variate, contr'):
            sm.Langevin("mu", gradient="control", control=control)
    with pytest.raises(ValueError, match=r"Bins\(.*has no gradient: use gradient=\"minibatch\""):
        Program(location(), sm.Langevin("mu", control=sm.Bins(bins=10)))


@pytest.mark.parametrize("given", ["fit", sm.Exact(), object(), np.sum, {"theta": 0.3}])
def test_what_is_neither_point_nor_control_variate_is_refused(given):
    with pytest.raises((TypeError, ValueError), match=r"control.*give"):
        Program(location(), sm.Langevin("mu", batch=10, control=given))


def by_bins():
    return sm.Langevin(
        "mu", 0.01, "minibatch", 20, selector=sm.Exact(), control=sm.Bins(bins=10), adapt=False
    )


def test_bins_go_with_a_minibatch():
    """As the message about their missing gradient says; they have no reference point."""
    told = Program(location(), by_bins()).kernel.describe(location())
    assert "gradient by central differences, batch 20, one step" in told


@pytest.mark.slow
def test_bins_with_a_minibatch():
    one = walker(location(), by_bins())
    made = one.advance(100)
    assert one.error is None and len(np.unique(made.floats)) > 20
    assert in_seven_of_eight(tally(one, made.words, "mu")["gradients"] / (2 * 2 * 20), 100)


def test_a_minibatch_gradient_relative_to_a_point_needs_one_block(conjugate):
    """With several the point's own gradient would be stale; the control variate's never is."""
    others = sm.Metropolis("sigma") >> sm.Gibbs("k")
    for control in (conjugate.fit, sm.Taylor(conjugate.fit)):
        kernel = sm.Langevin("mu", gradient="minibatch", control=control) >> others
        with pytest.raises(ValueError, match="would be stale"):
            Program(conjugate.model, kernel)
    Program(conjugate.model, sm.Langevin("mu", control=sm.Taylor(conjugate.fit)) >> others)


def test_a_kernel_that_idles_is_no_obstacle():
    """A surrogate of beta and a discrete block that stays where it is."""
    model, reference = regression("logistic", 300, 2, seed=3)
    kernel = idle >> sm.Langevin("beta", 1e-3, control=sm.Taylor(reference), adapt=False)
    told = kernel.describe(model)
    assert "beta: Langevin moves beta; Thinned" in told and "which reads no data" in told
