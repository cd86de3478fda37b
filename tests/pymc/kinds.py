"""PyMC models of the kinds that have independent rows, as users write them; small data."""

import types

import numpy as np
import pymc as pm
import pytensor.tensor as pt

N, GROUPS = 80, 5


def made() -> types.SimpleNamespace:
    """Data of all kinds."""
    rng, found = np.random.default_rng(4), types.SimpleNamespace()
    found.X = rng.standard_normal((N, 3))
    found.x = np.sort(rng.uniform(0.0, 1.0, N))
    found.y = 0.5 * found.X[:, 0] + rng.standard_normal(N)
    found.yes = (rng.random(N) < 0.4).astype(int)
    found.count = rng.poisson(3.0, N)
    found.exposure = rng.uniform(0.5, 2.0, N)
    found.group = rng.integers(GROUPS, size=N)
    found.item = rng.integers(6, size=N)
    found.level = rng.integers(4, size=N)
    found.day = np.sort(rng.integers(12, size=N))
    found.shape = np.column_stack([np.clip((found.x - k) / 0.25, 0, 1) for k in (0, 0.3, 0.6)])
    found.home = rng.integers(GROUPS, size=N)
    found.away = (found.home + 1 + rng.integers(GROUPS - 1, size=N)) % GROUPS
    found.time = rng.weibull(1.5, N)
    found.event = rng.random(N) < 0.7
    found.holes = np.where(np.arange(N) % 20 == 3, np.nan, found.y)
    return found


D = made()


def logistic():
    beta = pm.Normal("beta", 0.0, 2.0, shape=3)
    pm.Bernoulli("y", logit_p=pm.Normal("a", 0.0, 2.0) + D.X @ beta, observed=D.yes)


def poisson_with_exposure():
    beta = pm.Normal("beta", 0.0, 1.0, shape=3)
    pm.Poisson("y", D.exposure * pm.math.exp(D.X @ beta), observed=D.count)


def robust():
    nu = pm.Exponential("nu", 0.1)
    mean = pm.Normal("a") + pm.Normal("b") * D.X[:, 0]
    pm.StudentT("y", nu=nu + 1.0, mu=mean, sigma=pm.HalfCauchy("sigma", 1.0), observed=D.y)


def negative_binomial():
    rate = pm.math.exp(pm.Normal("a") + D.X @ pm.Normal("beta", shape=3))
    pm.NegativeBinomial("y", mu=rate, alpha=pm.HalfNormal("alpha", 3.0), observed=D.count)


def intercepts_centred():
    mu, tau = pm.Normal("mu"), pm.HalfNormal("tau")
    a = pm.Normal("a", mu, tau, shape=GROUPS)
    pm.Normal("y", a[D.group], pm.HalfNormal("sigma"), observed=D.y)


def intercepts_not_centred():
    mu, tau, z = pm.Normal("mu"), pm.HalfNormal("tau"), pm.Normal("z", shape=GROUPS)
    a = pm.Deterministic("a", mu + tau * z)
    pm.Normal("y", a[D.group], pm.HalfNormal("sigma"), observed=D.y)


def slopes_with_lkj():
    """Varying intercepts and slopes with a correlation, not centred, as PyMC's page has them."""
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    z = pm.Normal("z", shape=(GROUPS, 2))
    effect = pm.Normal("mu", 0.0, 2.0, shape=2) + pt.dot(z, chol.T)
    mean = effect[D.group, 0] + effect[D.group, 1] * D.X[:, 0]
    pm.Normal("y", mean, pm.HalfNormal("sigma"), observed=D.y)


def slopes_centred():
    """Varying intercepts and slopes of a multivariate normal distribution, centred."""
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    effect = pm.MvNormal("effect", pm.Normal("mu", shape=2), chol=chol, shape=(GROUPS, 2))
    mean = effect[D.group, 0] + effect[D.group, 1] * D.X[:, 0]
    pm.Normal("y", mean, pm.HalfNormal("sigma"), observed=D.y)


def ordered_logistic():
    cuts = pm.Normal(
        "cuts", 0.0, 2.0, shape=3, transform=pm.distributions.transforms.ordered,
        initval=[-1.0, 0.0, 1.0],
    )  # fmt: skip
    pm.OrderedLogistic("y", eta=pm.Normal("b") * D.X[:, 0], cutpoints=cuts, observed=D.level)


def categorical():
    beta = pm.Normal("beta", shape=(3, 3))
    eta = pt.concatenate([D.X @ beta, np.zeros((N, 1))], axis=1)
    pm.Categorical("y", p=pm.math.softmax(eta, axis=1), observed=D.level)


def multinomial():
    """Counts of three classes in every row."""
    p = pm.Dirichlet("p", np.ones(3))
    counts = np.random.default_rng(1).multinomial(10, [0.2, 0.3, 0.5], size=N)
    pm.Multinomial("y", n=10, p=p, observed=counts)


def mixture():
    w = pm.Dirichlet("w", np.ones(2))
    parts = [pm.Normal.dist(pm.Normal("m"), 1.0), pm.StudentT.dist(4.0, mu=1.0, sigma=2.0)]
    pm.Mixture("y", w=w, comp_dists=parts, observed=D.y)


def normal_mixture():
    """With ordered means, so that labels do not switch."""
    w = pm.Dirichlet("w", np.ones(3))
    mu = pm.Normal("mu", 0.0, 3.0, shape=3, transform=pm.distributions.transforms.ordered,
                   initval=[-1.0, 0.0, 1.0])  # fmt: skip
    pm.NormalMixture("y", w, mu, sigma=pm.HalfNormal("sigma", 1.0, shape=3), observed=D.y)


def zero_inflated():
    rate = pm.math.exp(pm.Normal("a") + 0.3 * D.X[:, 0])
    pm.ZeroInflatedPoisson("y", psi=pm.Beta("psi", 2, 2), mu=rate, observed=D.count)


def hurdle():
    rate = pm.math.exp(pm.Normal("a") + 0.3 * D.X[:, 0])
    pm.HurdlePoisson("y", psi=pm.Beta("psi", 2, 2), mu=rate, observed=D.count)


def change_point():
    tau = pm.DiscreteUniform("tau", 0, N - 1)
    a, b = pm.Exponential("a", 1.0), pm.Exponential("b", 1.0)
    pm.Poisson("y", pm.math.switch(np.arange(N) >= tau, a, b), observed=D.count)


def random_walk():
    """A trend by day, which several rows see."""
    trend = pm.GaussianRandomWalk(
        "trend", sigma=pm.HalfNormal("tau"), init_dist=pm.Normal.dist(0.0, 2.0), shape=12
    )
    pm.Normal("y", trend[D.day], pm.HalfNormal("sigma"), observed=D.y)


def autoregression_by_day():
    """Effects of days that are an AR(1) process."""
    trend = pm.AR("trend", rho=[0.7], sigma=pm.HalfNormal("tau"),
                  init_dist=pm.Normal.dist(0.0, 2.0), shape=12)  # fmt: skip
    pm.Normal("y", trend[D.day], 1.0, observed=D.y)


def multivariate_prior():
    cov = 0.5 * np.eye(3) + 0.5
    beta = pm.MvNormal("beta", np.zeros(3), cov=cov)
    pm.Normal("y", D.X @ beta, pm.HalfNormal("sigma"), observed=D.y)


def process_of_groups():
    """A Gaussian process over few places, which rows read by their index."""
    distance = np.abs(np.arange(GROUPS)[:, None] - np.arange(GROUPS))
    length = pm.LogNormal("length")
    cov = pt.exp(-0.5 * (distance / length) ** 2) + 1e-4 * np.eye(GROUPS)
    f = pm.MvNormal("f", np.zeros(GROUPS), cov=cov, shape=GROUPS)
    pm.Normal("y", f[D.group], 1.0, observed=D.y)


def dirichlet_by_group():
    """Shares of classes, one set for each group."""
    p = pm.Dirichlet("p", np.ones((GROUPS, 4)))
    pm.Categorical("y", p=p[D.group], observed=D.level)


def zero_sum():
    a = pm.ZeroSumNormal("a", sigma=pm.HalfNormal("tau"), shape=GROUPS)
    pm.Normal("y", pm.Normal("mu") + a[D.group], 1.0, observed=D.y)


def censored():
    normal = pm.Normal.dist(pm.Normal("mu"), pm.HalfNormal("s"))
    pm.Censored("y", normal, lower=-1.0, upper=1.0, observed=np.clip(D.y, -1.0, 1.0))


def truncated():
    normal = pm.Normal.dist(pm.Normal("a") + 0.3 * D.X[:, 0], pm.HalfNormal("s"))
    pm.Truncated("y", normal, lower=0.0, observed=np.abs(D.y))


def truncated_prior():
    b = pm.TruncatedNormal("b", 1.0, 1.0, lower=0.5)
    pm.Normal("y", b * D.X[:, 0], 1.0, observed=D.y)


def potential():
    """A soft constraint."""
    beta = pm.Normal("beta", shape=3)
    pm.Potential("sum to zero", pm.logp(pm.Normal.dist(0.0, 0.01), beta.sum()))
    pm.Normal("y", D.X @ beta, 1.0, observed=D.y)


def minibatch():
    x, y = pm.Minibatch(D.X, D.y, batch_size=16)
    pm.Normal("y", x @ pm.Normal("beta", shape=3), pm.HalfNormal("s"), observed=y, total_size=N)


def all_data():
    """The same without minibatches."""
    beta = pm.Normal("beta", shape=3)
    pm.Normal("y", D.X @ beta, pm.HalfNormal("s"), observed=D.y)


def missing_outcomes():
    """Some outcomes are not known, which PyMC imputes."""
    pm.Normal("y", D.X @ pm.Normal("beta", shape=3), 1.0, observed=D.holes)


def missing_covariate():
    """Some values of a covariate are not known, and have a distribution."""
    x = np.where(np.arange(N) % 20 == 3, np.nan, D.X[:, 0])
    x = pm.Normal("x", pm.Normal("mu_x"), 1.0, observed=np.ma.masked_invalid(x))
    pm.Normal("y", pm.Normal("b") * x, 1.0, observed=D.y)


def survival():
    """Weibull times, some censored from the right."""
    alpha, mu = pm.HalfNormal("alpha", 2.0), D.X @ pm.Normal("beta", shape=3)
    time = pm.Weibull.dist(alpha, pm.math.exp(mu))
    upper = np.where(D.event, np.inf, D.time)
    pm.Censored("y", time, lower=None, upper=upper, observed=D.time)


def survival_with_potential():
    """The same with pm.Potential for those who were not seen to the end."""
    alpha, beta = pm.HalfNormal("alpha", 2.0), pm.math.exp(D.X @ pm.Normal("beta", shape=3))
    pm.Weibull("y", alpha, beta[D.event], observed=D.time[D.event])
    pm.Potential("censored", -((D.time[~D.event] / beta[~D.event]) ** alpha))


def splines():
    w = pm.Normal("w", 0.0, pm.HalfNormal("tau"), shape=3)
    pm.Normal("y", pm.Normal("a") + pm.math.dot(D.shape, w), 1.0, observed=D.y)


def bradley_terry():
    skill = pm.Normal("skill", 0.0, pm.HalfNormal("tau"), shape=GROUPS)
    pm.Bernoulli("y", logit_p=skill[D.home] - skill[D.away], observed=D.yes)


def item_response():
    theta, b = pm.Normal("theta", shape=GROUPS), pm.Normal("b", shape=6)
    a = pm.LogNormal("a", 0.0, 0.5, shape=6)
    pm.Bernoulli("y", logit_p=a[D.item] * (theta[D.group] - b[D.item]), observed=D.yes)


def with_dims():
    """pm.Data, dims and coords, two crossed factors, pm.Deterministic."""
    model = pm.modelcontext(None)
    model.add_coords({"term": ["one", "age", "income"], "place": list("abcde"), "row": range(N)})
    X, place = pm.Data("X", D.X, dims=("row", "term")), pm.Data("place_of", D.group, dims="row")
    beta, effect = pm.Normal("beta", dims="term"), pm.Normal("effect", dims="place")
    eta = pm.Deterministic("eta", X @ beta + effect[place], dims="row")
    pm.Bernoulli("y", logit_p=eta, observed=D.yes, dims="row")


def multivariate_rows():
    """Rows that are vectors of a multivariate normal distribution."""
    chol, _, _ = pm.LKJCholeskyCov("chol", n=3, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    pm.MvNormal("y", pm.Normal("mu", shape=3), chol=chol, observed=D.X)


def ordered_probit():
    cuts = pm.Normal("cuts", 0.0, 2.0, shape=3, transform=pm.distributions.transforms.ordered,
                     initval=[-1.0, 0.0, 1.0])  # fmt: skip
    pm.OrderedProbit("y", eta=pm.Normal("b") * D.X[:, 0], cutpoints=cuts, observed=D.level)


def labels():
    """A class of every row, not summed out."""
    w, mu = pm.Dirichlet("w", np.ones(3)), pm.Normal("mu", 0.0, 3.0, shape=3)
    z = pm.Categorical("z", p=w, shape=N)
    pm.Normal("y", mu[z], 1.0, observed=D.y)


def binomial():
    pm.Binomial("y", n=20, logit_p=D.X @ pm.Normal("beta", shape=3), observed=D.count)


def beta_regression():
    mu = pm.math.invlogit(D.X @ pm.Normal("beta", shape=3))
    pm.Beta("y", mu=mu, nu=pm.HalfNormal("nu", 20.0), observed=np.clip(D.x, 0.01, 0.99))


def gamma_regression():
    mu, shape = pm.math.exp(D.X @ pm.Normal("beta", shape=3)), pm.HalfNormal("shape", 3.0)
    pm.Gamma("y", alpha=shape, beta=shape / mu, observed=D.time)


def gaussian_process():
    gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.HalfNormal("ls")))
    gp.marginal_likelihood("y", X=D.x[:, None], y=D.y, sigma=1.0)


def approximate_process():
    """A Hilbert space approximation of a Gaussian process: a regression on known functions."""
    gp = pm.gp.HSGP(m=[8], c=1.5, cov_func=pm.gp.cov.ExpQuad(1, ls=pm.LogNormal("ls")))
    pm.Normal("y", gp.prior("f", X=D.x[:, None]), 1.0, observed=D.y)


def time_series():
    start = pm.Normal.dist(0.0, 1.0, shape=2)
    pm.AR("y", rho=pm.Normal("rho", shape=2), sigma=1.0, init_dist=start, observed=D.y)


def unbounded_count():
    k = pm.Poisson("k", 3.0)
    pm.Normal("y", k * 0.1, 1.0, observed=D.y)


def effect_per_row():
    pm.Poisson("y", pm.math.exp(pm.Normal("u", shape=N)), observed=D.count)


def ordered_otherwise():
    """From the largest down, above 0, and within bounds."""
    ordered = pm.distributions.transforms.Ordered
    a = pm.Normal("a", shape=2, transform=ordered(ascending=False), initval=[1.0, 0.0])
    b = pm.Normal("b", shape=2, transform=ordered(positive=True), initval=[0.5, 1.0])
    c = pm.Uniform("c", 0.0, 3.0, shape=2, transform=ordered(), initval=[0.5, 1.0])
    pm.Normal("y", (a + 2.0 * b + 3.0 * c)[D.group % 2], 1.0, observed=D.y)


def bounds_that_move():
    """Bounds that move, a half line, simplexes and ordered numbers by row, sums of zero."""
    order = pm.distributions.transforms.ordered
    high = pm.Uniform("high", 1, 2)
    mean = pm.Uniform("low", 0, high) + pm.Truncated("b", pm.Normal.dist(2.0), lower=1.0)
    mean += pm.Uniform("own", [0, 1], [1, 3])[D.group % 2]
    c = pm.Normal("c", shape=(2, 2), transform=order, initval=[[-1.0, 1.0], [0.0, 2.0]])
    w, s = pm.Dirichlet("w", np.ones((2, 3))), pm.ZeroSumNormal("s", shape=5)
    mean += c[D.group % 2, 1] * w[D.group % 2, 0] + s[D.group]
    pm.Normal("y", mean, 1.0, observed=D.y)


def several_lengths():
    a, b = pm.Normal("a"), pm.Normal("b")
    pm.Normal("y", a + b * D.X[:, 0], observed=D.y)
    pm.Poisson("t", pm.math.exp(a * np.arange(7)), observed=D.count[:7])


def sums_as_potentials():
    a, b, s = pm.Normal("a"), pm.Normal("b", shape=3), pm.HalfNormal("s")
    pm.Potential("all", pm.logp(pm.Normal.dist(a + D.X @ b, s), D.y).sum())
    pm.Potential("ridge", -(b**2).sum())
