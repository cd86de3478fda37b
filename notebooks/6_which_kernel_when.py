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
# # Which kernel when, with honest failures
#
# A decision can be made exactly, by a race, or by a race with a control variate. This notebook runs
# all three where each of them is right, and then shows four ways to fail. The rule behind it: a
# race is over early only if G² is much larger than 2 N v log(D/δ), where G is how far the best of D
# arms is ahead, in nats, and v the variance over data of the difference between two arms.

# %%
import matplotlib.pyplot as plt
import numpy as np

import subsample_mcmc as sm

OKABE_ITO = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]  # told apart by colour-blind readers
rng = np.random.default_rng(1)

# %% [markdown]
# ## Three cases
#
# *Far apart.* A discrete block with forty candidates, most of them hopeless. `sm.plan` runs short
# pilots of a kernel as it is, exactly, and with each control variate that it is given.


# %%
def location(state, data, n):
    z = data.y[n] - 0.2 * state.k[0]
    return -2.5 * sm.log1p(z * z / 4.0)


y = rng.standard_t(4, 100_000) + 5.0
far = sm.Model(location, {"y": y}, {"k": 0}, support={"k": 40})
short = {"steps": 100, "warmup": 20, "seed": 1, "progress": False}
plans = {"far apart, N = 100,000": sm.plan(far, sm.Gibbs("k"), **short)}


# %% [markdown]
# *Near.* Steps at the scale of a posterior, which differ by a nat or two: a logistic regression.
# *Few.* The same with 500 data.


# %%
def regression(size):
    x = np.column_stack([np.ones(size), rng.standard_normal((size, 2))])
    model = sm.models.glm.logistic(x, rng.random(size) < 1.0 / (1.0 + np.exp(-x @ [-1.0, 0.5, 1])))
    return model, sm.laplace(model, progress=False)


near, fit = regression(100_000)
few, few_fit = regression(500)
for name, model, around in [("near, N = 100,000", near, fit), ("few, N = 500", few, few_fit)]:
    walk = sm.Metropolis("beta", proposal=sm.pcn(around, beta=0.5))
    plans[name] = sm.plan(model, walk, {"Taylor": sm.Taylor(around)}, **short)
print(plans["near, N = 100,000"])

# %%
labels = {"exact": "sm.Exact()", "as given": "sm.Racing()", "Taylor": "with sm.Taylor(fit)"}
figure, panels = plt.subplots(1, 3, figsize=(10, 2.6), layout="constrained", sharey=True)
for (name, plan), axes in zip(plans.items(), panels, strict=True):
    times = plan.to_frame().set_index("variant")["us a decision"]
    for at, (variant, colour, marker) in enumerate(zip(labels, OKABE_ITO, "os^", strict=False)):
        if variant in times:
            axes.plot(times[variant], at, marker, color=colour, markersize=8)
            axes.annotate(f"{times[variant]:,.3g}" if times[variant] < 100 else
                          f"{times[variant]:,.0f}", (times[variant], at), (0, 8),
                          textcoords="offset points", ha="center", fontsize=9)  # fmt: skip
    axes.set(title=name, xlabel="µs a decision", xscale="log", ylim=(2.4, -0.7), xlim=(0.5, 2e5))
    axes.set_yticks(range(3), labels.values())
    axes.grid(axis="x", alpha=0.3)
plt.show()

# %% [markdown]
# Far apart, a race needs no help; here a control variate would be of none, for no polynomial holds
# so far from its mode. Near, a race reads everything and pays for its looks on top: exact sums do
# the same sooner (**failure 1**: no control variate at the scale of a posterior). With one it reads
# next to nothing. With few data (**failure 2**) an exact decision takes microseconds: a plain race
# saves nothing, and there is little that anything could save.
#
# ## Failure 3: a few data decide
#
# `sm.Normal`, the default rule, takes batch means for Gaussian. Here 20 of 50,000 data are gross
# errors, and a normal likelihood takes them seriously: they alone pull the mean up, against all
# others together. A batch that has met none of them shows a clear leader, and it is the wrong one.
# The same seed gives the same noise, so we can count where a selector decides otherwise.


# %%
def normal(data, arm, n):
    z = data.y[n] - data.mean[arm]
    return -0.5 * z * z


N, arms = 50_000, 9
spoilt = rng.standard_normal(N)
spoilt[rng.choice(N, 20, replace=False)] += 500.0
mean = spoilt.mean() + 0.005 * np.arange(-4, 5)
population = sm.Population(normal, {"y": spoilt, "mean": mean}, arms)

# The least and the largest difference that two arms have at any datum: a line in y.
i, j = np.meshgrid(np.arange(arms), np.arange(arms), indexing="ij")
ends = [(mean[i] - mean[j]) * (y - (mean[i] + mean[j]) / 2) for y in (spoilt.min(), spoilt.max())]
bounds = np.minimum(*ends), np.maximum(*ends)


exact = sm.draw(population, 1000, sm.Exact(), seed=2, progress=False)
for rule in (sm.Normal(), sm.Betting(bounds=bounds)):
    made = sm.draw(population, 1000, sm.Racing(rule, delta=0.05), seed=2, progress=False)
    wrong, name = np.mean(made.arms != exact.arms), type(rule).__name__
    print(f"sm.{name:8} wrong {wrong:5.1%}, read {made.share_read:6.1%}, {made.guarantee}")

# %% [markdown]
# Two of three draws are wrong where δ is .05. The guard of `sm.Normal` reads on where it sees
# skewness, but it cannot see what no batch has met. `sm.Betting` knows the range of the
# differences, and so knows that it must read everything. What helps: a likelihood with heavier
# tails; `sm.Betting` with a range; a control variate, `sm.Taylor(fit)`, which finds the rows by
# which a decision may turn and reads them always; and in every case an audit:
# `sm.sample(..., audit=0.02)` makes the comparison of this cell, with exact decisions under the
# same noise, for a chain.
#
# The same in a chain: ten rows of 10⁵ carry a coefficient. A race whose batches are all it sees,
# `outliers=0.0`, seldom meets them: it decides by the polynomial alone, the standard deviation
# comes out a percent off, and an audit counts decisions that are wrong. `sm.Betting` has to
# read thousands of rows to be sure. Drawn by their bounds (`sm.Thinned`, which decides unless told
# otherwise), the ten are the rows that are read, and nothing is wrong.

# %% tags=["hide-input"]
rare = np.zeros((100_000, 2))
rare[:, 0] = 1.0
rare[rng.choice(100_000, 10, replace=False), 1] = 1.0
ones = (rng.random(100_000) < 0.4).astype(float)
ones[rare[:, 1] == 1.0] = [1.0] * 6 + [0.0] * 4
carried = sm.models.glm.logistic(rare, ones)
mode = sm.laplace(carried, progress=False)
blind = sm.Taylor(mode, outliers=0.0)
for name, selector in {
    "Normal": sm.Racing(),
    "Betting": sm.Racing(sm.Betting(), delta=0.01),
    "Thinned": sm.Thinned(),
}.items():
    step = sm.Metropolis("beta", proposal=sm.pcn(mode), selector=selector, control=blind)
    chain = sm.sample(
        carried, step, draws=20_000, warmup=500, chains=1, seed=3, progress=False, audit=0.05
    )
    told = {key: values.sum() for key, values in chain.stats["beta"].items()}
    found, rows = chain.draws["beta"][..., 1], told["pulls"] / told["decisions"] / 2
    print(
        f"{name:8} mean {found.mean():.3f}, sd {found.std():.3f}, {told['wrong']:.0f} of "
        f"{told['audited']:.0f} audited wrong, {rows:,.3g} rows read"
    )

# %% [markdown]
# ## Failure 4: steps that nobody checks
#
# Stochastic gradient Langevin dynamics (SGLD) takes gradients from mini-batches and accepts every
# step. Its error depends on the step and on the batch, and nothing in the run tells it. The same
# kernel with `correct=True`, the default, decides whether to accept: exactly, by a few rows.

# %%
options = {"chains": 2, "start": [fit.state] * 2, "seed": 3, "progress": False}
kernels = {
    "SGLD, unadjusted": sm.Langevin("beta", 0.02, precondition=fit, correct=False),
    "corrected, sm.Taylor(fit)": sm.Langevin("beta", control=sm.Taylor(fit)),
}
figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for (name, kernel), colour, line in zip(kernels.items(), OKABE_ITO, ("-", "--"), strict=False):
    trace = sm.sample(near, kernel, draws=10_000, warmup=1_000, **options)
    drawn = trace.draws["beta"][..., 0].ravel()
    axes.hist(drawn, 60, density=True, histtype="step", color=colour, linestyle=line, label=name,
              linewidth=1.5)  # fmt: skip
    ratio = drawn.std() / fit.to_frame().loc["beta[0]", "sd"]
    print(f"{name:26} sd {ratio:.2f} times that of the posterior; {trace.meta['guarantee']}")
mode, sd = fit.to_frame().loc["beta[0]"]
z = np.linspace(-4.0, 4.0, 200)
height = np.exp(-0.5 * z * z) / (sd * np.sqrt(2.0 * np.pi))
axes.plot(mode + sd * z, height, "k:", label="Gaussian at the mode")
axes.set(xlabel="beta[0]", yticks=[])
axes.legend(fontsize=8)
plt.show()

# %% [markdown]
# ## Before all of it: marginalise
#
# The fastest decision is one that need not be made. In a mixture every datum has a label, and a
# chain may draw them one by one; or they are summed out, and there is nothing left to draw. Both
# chains have the same posterior of the two means.


# %% tags=["hide-input"]
def labelled(state, data, n):
    miss = data.y[n] - state.mu[state.z[n]]
    return -0.5 * miss * miss


def summed_out(state, data, n):
    low, high = data.y[n] - state.mu[0], data.y[n] - state.mu[1]
    return sm.log(sm.exp(-0.5 * low * low) + sm.exp(-0.5 * high * high))


size = 1_000
mixed = {"y": rng.standard_normal(size) + 2.0 * rng.integers(0, 2, size)}
means = {"mu": np.array([0.0, 2.0])}
unknown = {"z": np.zeros(size, dtype=int)}
own = {"z": (np.arange(size + 1), np.arange(size))}  # label z[n] matters to datum n only
with_labels = sm.Model(labelled, mixed, means | unknown, support={"z": 2}, touches=own)
without = sm.Model(summed_out, mixed, means)
step = sm.Metropolis("mu", selector=sm.Exact())
for name, model, kernel in [
    ("labels drawn", with_labels, sm.Gibbs("z", sm.Exact(), log_prior=lambda *_: 0.0) >> step),
    ("labels summed out", without, step),
]:
    trace = sm.sample(model, kernel, draws=4_000, chains=2, seed=4, progress=False)
    ess = trace.mixing("mu").ess
    print(f"{name:18} ESS of mu {ess:5,.0f}, {ess / trace.seconds.sum():7,.0f} a second")

# %% [markdown]
# ## Which kernel when
#
# | what you have | take |
# |---|---|
# | a discrete variable that can be summed out | no kernel: sum it out |
# | less than a few thousand data | any kernel with `selector=sm.Exact()` |
# | a discrete block, candidates far apart | `sm.Gibbs("k")`: its default is to race |
# | a smooth posterior, many data | `sm.Metropolis` or `sm.Langevin`, `control=sm.Taylor(fit)` |
# | the same, and exactness is wanted | models of `sm.models.glm`: nothing else is needed |
# | a likelihood with kinks, few numbers a datum | `control=sm.Bins()` |
# | models of several sizes | `sm.Gibbs("q", pseudo=…)`: the fourth notebook |
# | a few data that decide alone | heavier tails, `control=sm.Taylor(fit)`, an audit |
# | a parameter without scale or gradient | `sm.Slice("theta")` |
# | no idea | `print(sm.plan(model, kernel, controls))`, then a run with `audit=0.02` |
