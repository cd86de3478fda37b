"""The data sets of the battery in rare.py, their models, and the kernels that are tried on them."""

from dataclasses import dataclass

import numpy as np

import subsample_mcmc as sm

PRIOR_SD = 2.5


# -------------------------------------------------------------------------------------- the data
@dataclass(frozen=True)
class Case:
    """One data set and the kernel that is tried on it."""

    family: str  # "logistic", "poisson", "student_t"; "plain ..." without bounds
    size: int
    counts: tuple[int, ...] = ()  # rows of each rare level
    share: float = 0.3  # of ones among them; 0 and 1: separated
    huge: str = ""  # "cauchy": a column with that tail; "carriers": ten rows of a column are +-30
    kernel: str = "pcn"
    seed: int = 0
    control: str = "taylor"

    @property
    def name(self) -> str:
        levels = "x".join(map(str, self.counts[:2])) + ("..." if len(self.counts) > 2 else "")
        rare = f"{len(self.counts)}:{levels}@{self.share:g}" if self.counts else ""
        more = "" if self.control == "taylor" else f" {self.control}"
        return f"{self.family} {self.size:.0e} {rare}{self.huge} {self.kernel}{more}"

    def draw(self):
        """(x, y): an intercept, two common levels, two covariates, and what is rare."""
        rng = np.random.default_rng(1000 + self.seed)
        n = self.size
        level = rng.integers(0, 3, n)
        columns = [np.ones(n), level == 1, level == 2, *rng.standard_normal((2, n))]
        if self.huge == "cauchy":
            columns.append(rng.standard_cauchy(n))
        if self.huge == "carriers":
            column = np.zeros(n)
            column[rng.choice(n, 10, replace=False)] = 30.0 * rng.choice([-1.0, 1.0], 10)
            columns.append(column)
        where, at, rare = rng.permutation(n), 0, []
        for count in self.counts:
            column = np.zeros(n)
            rare.append(where[at : at + count])
            column[rare[-1]] = 1.0
            columns.append(column)
            at += count
        x = np.column_stack(columns).astype(float)
        beta = np.concatenate([[-0.5, 0.3, -0.4, 0.5, -0.3], np.zeros(x.shape[1] - 5)])
        if self.huge:
            beta[5] = 0.02
        eta = x @ beta
        family = self.family.split()[-1]
        if family == "logistic":
            y = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
        elif family == "poisson":
            y = rng.poisson(np.exp(np.minimum(eta, 8.0))).astype(float)
        else:
            y = eta + rng.standard_t(4, n)
        for rows in rare:
            ones = round(self.share * len(rows))
            if family == "logistic":
                y[rows] = 0.0
                y[rows[:ones]] = 1.0
            elif family == "poisson":
                y[rows] = 0.0
                y[rows[:ones]] = 2.0
        return x, y


CASES = [
    *(Case("logistic", 10_000, (c,), s, seed=c) for c, s in ((3, 0.0), (17, 0.06), (100, 0.3))),
    *(Case("logistic", 100_000, (c,), s, seed=c) for c, s in ((3, 0.3), (17, 0.0), (300, 0.05))),
    *(Case("logistic", 300_000, (c,), s, seed=c) for c, s in ((17, 0.06), (17, 1.0), (100, 0.0))),
    *(Case("logistic", 1_000_000, (c,), s, seed=c) for c, s in ((17, 0.06), (300, 0.3))),
    Case("logistic", 10_000, (3, 5, 10, 17, 30, 60), 0.3, kernel="walk"),
    Case("logistic", 100_000, (3, 10, 30, 100, 300), 0.3, kernel="walk"),
    Case("logistic", 300_000, (17,) * 8, 0.06, kernel="walk"),
    Case("logistic", 100_000, (17,) * 8, 0.06, kernel="langevin"),
    Case("logistic", 100_000, (17, 300), 0.0, kernel="independence"),
    Case("logistic", 300_000, (30,), 0.1, kernel="independence"),
    Case("logistic", 300_000, (3, 17, 100, 300), 0.3, kernel="langevin"),
    Case("logistic", 1_000_000, (3, 17, 100, 300), 0.1, kernel="walk"),
    Case("logistic", 10_000, huge="cauchy"),
    Case("logistic", 100_000, huge="carriers", kernel="walk"),
    Case("poisson", 100_000, (17,), 0.3),
    Case("poisson", 300_000, (3, 17, 100), 0.3, kernel="walk"),
    Case("poisson", 100_000, (17,), 0.06, kernel="langevin"),
    Case("student_t", 100_000, (3, 17, 100)),
    Case("student_t", 5_000, huge="cauchy"),
    Case("student_t", 300_000, huge="carriers", kernel="walk"),
    Case("student_t", 100_000, (10,) * 6, kernel="langevin"),
    Case("plain logistic", 10_000, (17,), 0.06),
    Case("plain logistic", 100_000, (17,), 0.06),
    Case("plain logistic", 100_000, (17,), 0.0, kernel="walk"),
    Case("plain logistic", 300_000, (100,), 0.05),
    Case("plain logistic", 100_000, (3, 30, 300), 0.3, kernel="independence"),
    Case("plain student_t", 5_000, huge="cauchy"),
    Case("plain student_t", 5_000, huge="cauchy", seed=1),
    Case("plain student_t", 5_000, huge="cauchy", kernel="walk", seed=2),
    Case("plain student_t", 100_000, huge="carriers"),
    Case("plain student_t", 100_000, huge="carriers", kernel="walk", seed=1),
    Case("plain student_t", 100_000, (3, 17)),
    Case("plain student_t", 300_000, (17,), kernel="langevin"),
    Case("plain logistic", 100_000, (17,), 0.06, kernel="gibbs"),
    Case("plain logistic", 30_000, (3, 100), 0.0, kernel="gibbs"),
    # The way back: nothing is rare here, and nothing may cost more than before.
    Case("logistic", 100_000),
    Case("logistic", 1_000_000, kernel="walk"),
    Case("student_t", 100_000, kernel="walk"),
    Case("plain student_t", 50_000),
    # What shares the machinery: screens, several models, bins, models of PyMC.
    Case("logistic", 100_000, (17,), 0.06, kernel="delayed"),
    Case("logistic", 300_000, (3, 17, 100), 0.3, kernel="delayed", seed=1),
    Case("plain logistic", 100_000, (17,), 0.06, kernel="pseudo"),
    Case("plain logistic", 30_000, (100, 3), 0.3, kernel="pseudo", seed=1),
    Case("plain student_t", 100_000, (30, 5), kernel="pseudo"),
    Case("logistic", 100_000, (17,), 0.06, control="bins"),
    Case("logistic", 300_000, (3, 17, 100), 0.3, kernel="walk", control="bins"),
    Case("student_t", 100_000, (10,) * 6, control="bins"),
    Case("plain logistic", 100_000, (17, 100), 0.06, kernel="columns", control="bins"),
    Case("plain student_t", 100_000, (17, 300), kernel="columns", control="bins"),
    Case("pymc logistic", 100_000, (17,), 0.06),
    Case("pymc logistic", 30_000, (3, 100), 0.3, kernel="walk"),
    Case("pymc student_t", 100_000, (3, 17, 100)),
    Case("logistic", 100_000, (17,), 0.06, kernel="slice"),
    Case("plain student_t", 30_000, (3, 30), kernel="slice"),
]


# ------------------------------------------------------------------------------------- the models
def plain_logistic(state, data, n):
    eta = 0.0
    for j in range(state.beta.shape[0]):
        eta += data.x[n, j] * state.beta[j]
    z = eta if data.y[n] == 1.0 else -eta
    return min(z, 0.0) - sm.log1p(sm.exp(-abs(z)))


def shifted_logistic(state, data, n):
    """With a level's effect on a grid: what is known of k sits in the rows of that level."""
    last = state.beta.shape[0] - 1
    eta = 0.5 * state.k[0] * data.x[n, last]
    for j in range(state.beta.shape[0]):
        eta += data.x[n, j] * state.beta[j]
    z = eta if data.y[n] == 1.0 else -eta
    return min(z, 0.0) - sm.log1p(sm.exp(-abs(z)))


def plain_student_t(state, data, n):
    z = data.y[n]
    for j in range(state.beta.shape[0]):
        z -= data.x[n, j] * state.beta[j]
    return -2.5 * sm.log1p(0.25 * z * z)


def plain_prior(state):
    total = 0.0
    for b in state.beta:
        total -= 0.5 * b * b / PRIOR_SD**2
    return total


def nested_logistic(state, data, n):
    """Without the last level (q = 0) or with it."""
    eta = 0.0
    for j in range(data.x.shape[1] - 1 + state.q[0]):
        eta += data.x[n, j] * state.beta[j]
    z = eta if data.y[n] == 1.0 else -eta
    return min(z, 0.0) - sm.log1p(sm.exp(-abs(z)))


def nested_student_t(state, data, n):
    z = data.y[n]
    for j in range(data.x.shape[1] - 1 + state.q[0]):
        z -= data.x[n, j] * state.beta[j]
    return -2.5 * sm.log1p(0.25 * z * z)


def nested_prior(state):
    total = 0.0
    for j in range(state.beta.shape[0] - 1 + state.q[0]):
        b = state.beta[j]
        total -= 0.5 * b * b / PRIOR_SD**2 + 0.5 * np.log(2.0 * np.pi * PRIOR_SD**2)
    return total


def column_logistic(state, data, n):
    """One covariate and levels by their codes: what sm.Bins cuts by itself."""
    eta = state.beta[0] + state.beta[1] * data.u[n] + state.beta[2 + data.level[n]]
    z = eta if data.y[n] == 1 else -eta
    return min(z, 0.0) - sm.log1p(sm.exp(-abs(z)))


def column_student_t(state, data, n):
    z = data.y[n] - state.beta[0] - state.beta[1] * data.u[n] - state.beta[2 + data.level[n]]
    return -2.5 * sm.log1p(0.25 * z * z)


def pymc_model(case: Case, x, y):
    """The same in PyMC, translated."""
    import pymc as pm

    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, PRIOR_SD, shape=x.shape[1])
        eta = pm.math.dot(pm.Data("x", x), beta)
        if "logistic" in case.family:
            pm.Bernoulli("y", logit_p=eta, observed=y.astype(int))
        else:
            pm.StudentT("y", nu=4.0, mu=eta, sigma=1.0, observed=y)
    return sm.from_pymc(model)


def model_of(case: Case):
    """The model of a data set, with a Normal(0, 2.5^2) prior."""
    x, y = case.draw()
    width, logistic = x.shape[1], "logistic" in case.family
    if case.kernel == "gibbs":
        state = {"k": 2, "beta": np.zeros(width)}
        return sm.Model(shifted_logistic, {"x": x, "y": y}, state, plain_prior, support={"k": 5})
    if case.kernel == "pseudo":
        likelihood = nested_logistic if logistic else nested_student_t
        return sm.Model(
            likelihood, {"x": x, "y": y}, {"q": 1, "beta": np.zeros(width)}, nested_prior,
            support={"q": 2}, lengths={"beta": ("q", [width - 1, width])},
        )  # fmt: skip
    if case.kernel == "columns":
        level = np.argmax(x[:, 4:] * (np.arange(width - 4) > 0), axis=1)
        data = {"u": x[:, 3], "level": level, "y": y.astype(int) if logistic else y}
        likelihood = column_logistic if logistic else column_student_t
        return sm.Model(likelihood, data, {"beta": np.zeros(2 + width - 4)}, plain_prior)
    if case.family.startswith("pymc"):
        return pymc_model(case, x, y)
    if case.family.startswith("plain"):
        likelihood = plain_logistic if logistic else plain_student_t
        return sm.Model(likelihood, {"x": x, "y": y}, {"beta": np.zeros(width)}, plain_prior)
    family = getattr(sm.models.glm, case.family)
    more = {"nu": 4.0, "sigma": 1.0} if case.family == "student_t" else {}
    return family(x, y, prior_sd=PRIOR_SD, **more)


def fit_of(case: Case, model):
    """The mode; of several models, one of each."""
    if case.kernel == "pseudo":
        return [sm.laplace(model, "beta", given={"q": k}) for k in range(2)]
    return sm.laplace(model)


def control_of(case: Case, fit):
    """The default control variate."""
    if case.control == "taylor":
        return sm.Taylor(fit)
    return sm.Bins() if case.kernel == "columns" else sm.Bins(fit=fit)


def surrogate_of(fit):
    """The Gaussian of a fit, as a screen of proposals."""
    mode, precision = fit.state["beta"], np.linalg.inv(fit.covariance)

    def surrogate(state):
        total = 0.0
        for i in range(mode.shape[0]):
            for j in range(mode.shape[0]):
                total -= (
                    0.5 * precision[i, j] * (state.beta[i] - mode[i]) * (state.beta[j] - mode[j])
                )
        return total

    return surrogate


def kernel_of(case: Case, fit, selector, control):
    """The kernel of a data set."""
    given = {"selector": selector, "control": control}
    if case.kernel == "pseudo":
        return sm.Gibbs("q", pseudo=sm.PseudoPrior(fit), **given) >> sm.Metropolis(
            "beta", proposal=sm.independence(fit), **given
        )
    if case.kernel == "gibbs":
        return sm.Gibbs("k", **given) >> sm.Metropolis(
            "beta", proposal=sm.pcn(fit, beta=0.7), **given
        )
    if case.kernel in ("pcn", "columns"):
        return sm.Metropolis("beta", proposal=sm.pcn(fit, beta=0.7), **given)
    if case.kernel == "independence":
        return sm.Metropolis("beta", proposal=sm.independence(fit), **given)
    if case.kernel == "langevin":
        return sm.Langevin("beta", **given)
    if case.kernel == "slice":
        return sm.Slice("beta", **given)
    walk = sm.Metropolis("beta", scale=np.sqrt(np.diag(fit.covariance)), **given)
    return sm.delayed(walk, surrogate_of(fit)) if case.kernel == "delayed" else walk
