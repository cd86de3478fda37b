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
# # Best arms: who is best, from as few trials as can be
#
# A race in this package is a case of an old question. There are K arms: advertisements, doses,
# settings of a machine. One trial of an arm, a *pull*, gives a noisy reward. Which arm has the
# highest mean? `sm.identify` plays the known strategies on any function that gives one reward.

# %%
import matplotlib.pyplot as plt
import numpy as np

import subsample_mcmc as sm

OKABE_ITO = ["#0072B2", "#D55E00", "#009E73", "#CC79A7"]  # told apart by colour-blind readers
STYLES = [{"color": c, "linestyle": s, "marker": m} for c, s, m in zip(
    OKABE_ITO, ("-", "--", "-.", ":"), "os^D", strict=True)]  # fmt: skip


def pull(data, arm, rng):
    return data.means[arm] + data.sd[arm] * rng.standard_normal()


def play(strategy, means, sd, runs, seed):
    """Many runs on one problem; told the true means, they count their errors."""
    data = {"means": means, "sd": sd * np.ones(len(means))}
    return sm.identify(
        pull, len(means), strategy, seed, runs=runs, data=data, truth=means, progress=False
    )


# %% [markdown]
# Eight arms, the best one .3 ahead of the next, all with noise of standard deviation 1. `pull` is
# plain Python and is compiled: millions of pulls a second.
#
# ## One run
#
# `sm.LilUCB` pulls the arm with the highest upper confidence bound, the one that may still be the
# best, until one arm has been pulled more often than all others together, several times over.

# %%
means = np.array([0.9, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0])
data = {"means": means, "sd": np.ones(8)}
quick = sm.LilUCB(delta=0.1, scale=1.0)
found = sm.identify(pull, 8, quick, data=data, seed=1, progress=False)
print(found)
found.to_frame().round(2)

# %%
found.plot()
plt.show()

# %% [markdown]
# Left: all arms start alike, and then the pulls go to the arms that may be the best. Right: the
# more an arm was pulled, the better its mean is known; those far behind are left alone early.
#
# ## What a promise costs
#
# The same problem, sixty runs each. `error_rate` gives the share of wrong runs and its 95%
# interval. *Bounded* means proved: wrong with probability at most δ, .1 here, if the noise's scale
# is right. lil'UCB has proved constants, which are dear, and its authors' heuristic ones, which ask
# for a hundredth of that and promise nothing. Successive elimination pulls all arms that are left
# in turn, and drops those whose interval lies below another's.

# %%
rivals = {
    "lil'UCB, theory": sm.LilUCB(delta=0.1, variant="theory", scale=1.0),
    "lil'UCB, heuristic": quick,
    "successive elimination": sm.bandits.SuccessiveElimination(delta=0.1, scale=1.0),
}
for name, strategy in rivals.items():
    runs = play(strategy, means, 1.0, runs=60, seed=2)
    (rate, low, high), (pulls, _) = runs.error_rate(), runs.mean_total()
    print(
        f"{name:23} {pulls:7,.0f} pulls, wrong {rate:5.1%} ({low:.1%} to {high:.1%}), "
        f"promise: {runs.guarantee}"
    )

# %% [markdown]
# None erred. Proofs hold for the worst case, and this is a common one; the next but one section
# has a problem where the heuristic does err.
#
# ## A fixed budget
#
# Often what is fixed is not the risk but the number of pulls. `sm.SequentialHalving` (SH) divides
# them over rounds, and after each drops the worse half of the arms. It never exceeds its budget,
# and nothing bounds its error for you: look at it. Where arms differ in noise and the variances are
# known, `allocation="known-variance"` (SHVar) gives the noisy ones more; with
# `"adaptive-variance"` they are learnt on the way. Here two arms have eight times the noise.

# %%
sd = np.array([2.0, 0.25, 0.25, 2.0, 0.25, 0.25, 0.25, 0.25])
budgets = [50, 100, 200, 400, 800]
allocations = {
    "SH, equal": {},
    "SHVar, variances known": {"allocation": "known-variance", "variances": sd**2},
    "SHAdaVar, variances learnt": {"allocation": "adaptive-variance"},
}
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for (name, options), style in zip(allocations.items(), STYLES, strict=False):
    rates = []
    for budget in budgets:
        halving = sm.SequentialHalving(budget, **options)
        rates.append(play(halving, means, sd, runs=2000, seed=3).error_rate())
    middle, low, high = np.array(rates).T
    bars = [middle - low, high - middle]
    axes.errorbar(budgets, middle, bars, capsize=3, label=name, **style)
axes.set(xscale="log", yscale="log", xlabel="budget, pulls", ylabel="wrong runs, 95% interval")
axes.set_xticks(budgets, [str(budget) for budget in budgets])
axes.set_yticks([0.05, 0.1, 0.2, 0.4], ["5%", "10%", "20%", "40%"])
axes.minorticks_off()
axes.legend()
plt.show()

# %% [markdown]
# ## Arms that teach about one another
#
# So far a pull taught about its own arm only. If means are linear in known features of the arms,
# `sm.LinGapE` pulls what tells most about the *difference* of the two arms that are hardest to tell
# apart, and it need not be one of them. Below, arm 0 points along the first axis and the last one
# nearly so: the two are told apart best by pulling arm 1, along the second axis.

# %%
angle = 0.2
features = np.vstack([np.eye(3), [np.cos(angle), np.sin(angle), 0.0]])
linear = features @ [2.0, 0.0, 0.0]
for name, strategy in {
    "LinGapE": sm.LinGapE(features, delta=0.1, noise=1.0, norm=2.0),
    "lil'UCB, heuristic": sm.LilUCB(delta=0.1, scale=1.0),
}.items():
    runs = play(strategy, linear, 1.0, runs=200, seed=4)
    print(f"{name:19} {runs}\n    pulls of each arm:", np.round(runs.pulls).astype(int))

# %% [markdown]
# LinGapE needs a seventh of the pulls, and most of them are of arm 1. lil'UCB, which knows nothing
# of features, is wrong now and then: less than δ says, but nothing had promised that.
#
# `sm.BayesGap` takes a covariance of the means instead: neighbours on a curve are alike. Then there
# may be more arms than pulls. Two hundred places, ninety pulls, and one peak to be found. Halving
# needs a pull for each arm in the first of its eight stages, which share the budget: 1,600 in all.

# %%
place = np.linspace(0.0, 1.0, 200)
covariance = np.exp(-0.5 * ((place[:, None] - place) / 0.1) ** 2)
curve = np.sin(9.0 * place) + place
data = {"means": curve, "sd": np.full(200, 0.3)}
search = sm.BayesGap(90, covariance, noise=0.09)
one = sm.identify(pull, 200, search, data=data, seed=5, progress=False)

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.plot(place, curve, color="black", linewidth=1, label="true means")
pulled = one.pulls > 0
axes.scatter(place[pulled], one.means[pulled], 12 * one.pulls[pulled], facecolors="none",
             edgecolors=OKABE_ITO[0], label="rewards, their mean; area: pulls")  # fmt: skip
axes.axvline(place[one.arm], color=OKABE_ITO[1], linestyle="--", label="the arm that was named")
axes.set(xlabel="place of the arm", ylabel="reward")
axes.legend(fontsize=8)
plt.show()
for name, strategy in {"BayesGap": search, "halving": sm.SequentialHalving(1_600)}.items():
    runs = play(strategy, curve, 0.3, runs=100, seed=6)
    lacking = runs.regrets.mean()
    print(f"{name:9} {strategy.budget} pulls: the named arm is {lacking:.3f} below the best")

# %% [markdown]
# ## Back to MCMC
#
# A draw from a discrete distribution is such a problem, with Gumbel noise on top and N data to take
# rewards from without replacement: the arm's total is then known when all are read. So the same
# strategies are selectors of `sm.draw` and of every kernel. With the same seed, `sm.Exact` decides
# under the same noise, and counting where they differ audits the selector.


# %%
def log_factor(data, arm, n):
    z = data.y[n] - data.location[arm]
    return -0.5 * z * z


rng = np.random.default_rng(7)
table = {"y": rng.standard_normal(20_000), "location": np.linspace(-1.0, 1.0, 21)}
population = sm.Population(log_factor, table, arms=21)
exact = sm.draw(population, size=500, selector=sm.Exact(), seed=8)
selectors = (sm.Racing(delta=0.05), sm.LilUCB(delta=0.05), sm.SequentialHalving(8_400))
for selector in selectors:
    made = sm.draw(population, size=500, selector=selector, seed=8)
    wrong = np.mean(made.arms != exact.arms)
    print(f"{selector!s:.34} read {made.share_read:6.1%}, wrong {wrong:5.1%}, {made.guarantee}")

# %% [markdown]
# ## Which one, when
#
# | what you have | take | what it promises |
# |---|---|---|
# | a risk δ, the noise's scale | `sm.LilUCB(variant="theory", scale=…)` | wrong at most δ, proved |
# | the same, and dear pulls | `sm.LilUCB(scale=…)` | nothing; look at `error_rate()` |
# | a number of pulls | `sm.SequentialHalving(budget)` | the budget; no bound of the error |
# | the same, unequal noise | with `allocation="known-variance"` | the same |
# | means linear in features | `sm.LinGapE(features, noise=…, norm=…)` | at most δ, if they are |
# | more arms than pulls | `sm.BayesGap(budget, covariance)` | as good as the covariance |
# | a decision of a chain | `sm.Racing()`, first of all | see the next notebook |
