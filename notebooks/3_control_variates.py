# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Control variates: races at the scale of a posterior
#
# The chain of the second notebook raced for the lag, and not for the gain and the noise: their
# steps have the posterior's size, and there a race reads everything. This notebook shows why, and
# what changes when each datum's log likelihood is compared with a polynomial whose sum over the
# data is known.

# %%
import matplotlib.pyplot as plt
import numpy as np

import subsample_mcmc as sm

N, TRUE = 100_000, np.array([-1.0, 0.5, 0.25])
rng = np.random.default_rng(1)


def simulated(size):
    x = np.column_stack([np.ones(size), rng.standard_normal((size, 2))])
    return x, (rng.random(size) < 1.0 / (1.0 + np.exp(-x @ TRUE))).astype(float)


x, y = simulated(N)
model = sm.models.glm.logistic(x, y)
fit = sm.laplace(model)
fit

# %% [markdown]
# `sm.laplace` found the posterior mode and the Gaussian around it, in a few passes over the data.
#
# ## Two states, a posterior standard deviation apart
#
# Metropolis compares log u with the sum over n of `d[n] = l[n](there) − l[n](here)`, the change of
# each datum's log likelihood. Near the mode the score has variance I, the Fisher information of a
# datum, and the posterior has covariance (N I)⁻¹, as far as the model is right. So with v the
# variance of d over the data,
#
# N v ≈ (there − here)ᵀ N I (there − here) = (the distance in posterior standard deviations)².
#
# A step that is likely to be accepted is about one long. So N v is about 1, whatever N is, and the
# sum is itself about a nat. The estimate from T rows, N times their mean, is off by
# sqrt(N v (N/T − 1)): 40 nats at T = 64, 3 nats at T = N/10, and still half a nat at T = 4N/5.


# %%
def log_likelihoods(x, y, beta):
    z = np.where(y == 1.0, x @ beta, -(x @ beta))
    return np.minimum(z, 0.0) - np.log1p(np.exp(-np.abs(z)))


def away(fit, direction, distance):
    """The point so many posterior standard deviations from the mode."""
    return fit.mean + distance * fit.factor @ (direction / np.linalg.norm(direction))


here = away(fit, np.array([1.0, 0.0, 0.0]), 0.7)
there = away(fit, np.array([0.0, 1.0, 0.0]), 1.2)
d = log_likelihoods(x, y, there) - log_likelihoods(x, y, here)
apart = np.linalg.norm(np.linalg.solve(fit.factor, there - here))
print(
    f"distance {apart:.2f} sd; sum of d {d.sum():+.2f} nats; sqrt(N v) {np.sqrt(N * d.var()):.2f}"
)

# %% [markdown]
# ## Subtracting what is known
#
# Let t = xᵀ(β − mode). The Taylor polynomial of a datum's log likelihood at the mode is
#
# `h[n](β)` = l′[n] t + l″[n] t²/2 + l‴[n] t³/6,
#
# the last term if the order is 3. Its sum over n is a polynomial in β: one pass over the data
# gives its coefficients, once. Write sum l = sum h + sum (l − h). The first sum is known; only the
# second is estimated, and l − h varies far less than l.


# %%
def taylor(x, y, mode, beta, order):
    """The polynomial h[n](beta); order 0: nothing."""
    p, t = 1.0 / (1.0 + np.exp(-(x @ mode))), x @ (beta - mode)
    terms = (y - p) * t, -p * (1 - p) * t**2 / 2, -p * (1 - p) * (1 - 2 * p) * t**3 / 6
    return sum(terms[:order], np.zeros(len(y)))


h = taylor(x, y, fit.mean, there, 2) - taylor(x, y, fit.mean, here, 2)
rows = np.unique(np.geomspace(16, N, 200).astype(int))

figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
axes[0].hist(d, bins=80, color="C0")
axes[0].set(title="differences d[n]", xlabel="nats", ylabel="data", yscale="log")
axes[1].hist((d - h) * 1e6, bins=80, color="C1")
axes[1].set(title="left over, d[n] − h[n]", xlabel="millionths of a nat", yscale="log")
for k in range(12):
    order = rng.permutation(N)
    running = N * np.cumsum(d[order])[rows - 1] / rows
    controlled = h.sum() + N * np.cumsum((d - h)[order])[rows - 1] / rows
    axes[2].plot(rows, running, "C0", linewidth=0.6, label="" if k else "N times the mean")
    axes[2].plot(rows, controlled, "C1", linewidth=1.5, label="" if k else "with h")
axes[2].axhline(d.sum(), color="black", linestyle="--", linewidth=0.8, label="exact sum")
axes[2].set(xscale="log", ylim=(-40, 40), xlabel="rows read, T", title="estimates of the sum, nats")
axes[2].legend(fontsize=8, loc="lower right")
plt.show()

# %% [markdown]
# Every blue line is one order of reading the rows. They come within a nat, the size of what is to
# be decided, when a large part of the data is read. The orange lines start where they end.
#
# ## How much is left over
#
# Left: sqrt(N v) of the difference between the mode and a point at some distance, in three random
# directions. It grows with the power order + 1. Below the grey line a batch of 64 rows settles a
# nat, by three standard errors. Right: one posterior standard deviation away, for more and more
# data. The posterior shrinks like N^−1/2, so without h the spread stays at 1; of order 2 it falls
# like 1/N, of order 3 like N^−3/2. The more data, the less is left to read.

# %%
orders, marks = {0: "without h", 2: "order 2", 3: "order 3"}, "osd"
far = np.geomspace(0.3, 100.0, 14)
sizes = np.array([1_000, 10_000, 100_000, 1_000_000])
left, right = np.zeros((3, len(far), 3)), np.zeros((3, len(sizes)))


def spread(x, y, mode, beta, order):
    change = log_likelihoods(x, y, beta) - log_likelihoods(x, y, mode)
    return np.sqrt(len(y)) * (change - taylor(x, y, mode, beta, order)).std()


directions = rng.standard_normal((3, 3))
some = slice(20_000)  # a fifth of the rows tells v well enough
for i, order in enumerate(orders):
    for k, direction in enumerate(directions):
        for j, distance in enumerate(far):
            point = away(fit, direction, distance)
            left[i, j, k] = np.sqrt(5) * spread(x[some], y[some], fit.mean, point, order)
for j, size in enumerate(sizes):
    more = simulated(size)
    one = away(fit, directions[0], np.sqrt(N / size))  # of a posterior of `size` data
    right[:, j] = [spread(*more, fit.mean, one, order) for order in orders]

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for i, (order, name) in enumerate(orders.items()):
    axes[0].loglog(far, left[i], f"C{i}{marks[i]}", markersize=3)
    line = left[i, 5].mean() * (far / far[5]) ** (order + 1)
    axes[0].loglog(far, line, f"C{i}", linewidth=0.8, label=f"{name}: slope {order + 1}")
    axes[1].loglog(sizes, right[i], f"C{i}{marks[i]}-", label=name)
axes[0].axhline(np.sqrt(64 / N) / 3, color="grey", linewidth=0.8)
axes[1].plot(sizes, np.sqrt(64 / sizes) / 3, color="grey", linewidth=0.8)
axes[0].set(
    xlabel="distance from the mode, posterior sd", ylabel="sqrt(N v), nats", ylim=(1e-11, 1e3)
)
axes[1].set(xlabel="number of data, N")
for panel in axes:
    panel.legend(fontsize=8)
plt.show()

# %% [markdown]
# ## The same in the package
#
# `sm.Taylor(fit)` is that polynomial, for a kernel's `control=`. It also knows how large the sum of
# what is left over can be, so that a decision with a wider margin needs no data at all. `sm.plan`
# runs a kernel as it is, with each control variate, and exactly, and says what each would cost. G
# is how far the better arm is ahead; `predicted` counts decisions without data.

# %%
kernel = sm.Metropolis("beta", proposal=sm.pcn(fit, beta=0.5))
controls = {"order 2": sm.Taylor(fit, order=2), "order 3": sm.Taylor(fit, order=3)}
plan = sm.plan(model, kernel, controls, warmup=0, seed=1, progress=False)
print(plan)

# %%
plan.plot()
plt.show()

# %% [markdown]
# Left, the time of a decision, with a star for the fastest variant; then the share of all rewards,
# read by the pilot and expected of G and N v. On the right each point is a decision. G is the same
# in all variants, a fraction of a nat to several; the spread it has to be told from moves left by
# orders of magnitude.
#
# ## What a race reads
#
# First without a control variate: nearly every decision ends with all rows summed.

# %%
start = [fit.state] * 2
options = {"warmup": 0, "chains": 2, "seed": 2, "start": start, "progress": False}
plain = sm.sample(model, kernel, draws=200, **options)
plain.report()

# %% [markdown]
# Then with one, a hundred times as many draws. One decision in two hundred is made again exactly,
# with the same random numbers, and counted as wrong if it comes out otherwise.

# %%
walk = {"proposal": sm.pcn(fit, beta=0.5), "control": sm.Taylor(fit)}
raced = sm.Metropolis("beta", selector=sm.Racing(), **walk)
trace = sm.sample(model, raced, draws=20_000, audit=0.005, **options)
trace.report()

# %%
fit.plot(trace)
plt.show()

# %% [markdown]
# ## What is promised
#
# With `sm.Normal`, the default rule of a race, a decision is asymptotic: wrong with probability at
# most δ under a normal approximation. `sm.Betting` needs a range that holds every reward, and takes
# it from the control variate: the models of `sm.models.glm` bound the third and fourth derivatives
# of their log likelihoods, and so every residual at every pair of states. So every decision, raced
# or not, is wrong with probability at most δ, proved.
#
# The same bounds allow more: decisions that are exact. `sm.Thinned()` draws rows in proportion to
# what each may contribute at most, at the points of a Poisson process whose rate is the sum of
# these bounds, L; each may reject the proposal, and what none rejects is accepted. On average L
# rows are read, here much less than one. A kernel that is given no selector decides so wherever
# there are bounds.

# %% tags=["hide-input"]
proved = sm.Metropolis("beta", selector=sm.Racing(sm.Betting(), delta=0.01), **walk)
exact = sm.Metropolis("beta", **walk)
print(exact.describe(model))
runs = {
    "race": plain,
    "race + Taylor": sm.sample(model, raced, draws=20_000, **options),
    "proved + Taylor": sm.sample(model, proved, draws=20_000, **options),
    "exact + Taylor": sm.sample(model, exact, draws=20_000, **options),
}
for name, each in runs.items():
    total = {key: values.sum() for key, values in each.stats["beta"].items()}
    print(
        f"{name:16} {total['pulls'] / total['everything']:10.4%} of the data read, "
        f"{total['predicted'] / total['decisions']:6.1%} decided without any, "
        f"{1e6 * each.seconds.sum() / each.draws['beta'][..., 0].size:8,.1f} µs a draw"
    )

# %% [markdown]
# Any other likelihood of a smooth model takes `sm.Taylor` as well: the plain function is
# differentiated as it stands, order 3 for up to 12 parameters (or, with one or two parameters as
# here, and where it has kinks, interpolated through d² + d + 1 points around the mode, order 2; see
# `sm.derivatives(model)`). Its sum is just as exact, but nobody knows a bound of what it leaves
# over: decisions without data rest on an estimate, the promise is asymptotic, and `sm.Betting()`
# refuses.


# %%
def robust(state, data, n):
    z = data.y[n] - state.beta[0] - state.beta[1] * data.u[n]
    return -2.5 * sm.log1p(z * z / 4.0)


data = {"y": 0.3 * x[:, 1] + rng.standard_t(4, N), "u": x[:, 1].copy()}
other = sm.Model(robust, data, {"beta": np.zeros(2)})
control = sm.Taylor(sm.laplace(other))
print(sm.Metropolis("beta", control=control).describe(other))
try:
    unproved = sm.Metropolis("beta", selector=sm.Racing(sm.Betting()), control=control)
    sm.sample(other, unproved, draws=1000, progress=False)
except ValueError as refused:
    print("\nwith sm.Betting():", refused)

# %% [markdown]
# ## When not
#
# Residuals grow with the third or fourth power of the distance from the mode. A chain far from it,
# a posterior of several modes, few data or a heavy prior: there h explains less, and the race reads
# more, in the worst case everything. A likelihood with kinks has no Taylor polynomial; `sm.Bins`
# takes a quadratic in the data instead, whatever the parameters. `sm.plan` tells before a long run.
