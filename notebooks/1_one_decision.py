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
# # One decision: how a race works
#
# A decision is an argmax. Each of D arms has a total, the sum of its rewards over N data, and we
# want the arm with the largest total. Reading all N D rewards settles it. A race reads a small
# random batch, drops the arms that are clearly behind, reads more for the rest, and stops when one
# arm is left. How much it has to read depends on one thing: how far ahead the winner is.

# %%
import matplotlib.pyplot as plt
import numpy as np

import subsample_mcmc as sm

N, D = 100_000, 10
rng = np.random.default_rng(1)

# %% [markdown]
# Ten arms whose rewards have standard deviation 1 and whose means are evenly spaced. `gap` is the
# distance between neighbouring means; the last arm is the best.


# %%
def ten_arms(gap):
    rewards = rng.standard_normal((D, N))
    rewards -= rewards.mean(axis=1, keepdims=True)
    return rewards + gap * np.arange(D)[:, None]


rewards = ten_arms(gap=0.05)
exact = sm.choose(rewards, selector=sm.Exact())
race = sm.choose(rewards, selector=sm.Racing(delta=0.01), seed=2)
for name, choice in [("exact", exact), ("race", race)]:
    share = choice.pulls / (N * D)
    print(f"{name:5s}  arm {choice.arm}  {choice.pulls:8d} pulls  {share:6.1%} of the rewards")

# %% [markdown]
# ## The race, look by look
#
# The same in plain numpy. After T rows, read in random order, every arm is compared with the one
# that leads: how far is its mean behind, and how well is that difference known? An arm is dropped
# once it is more than B standard errors behind. `sm.b_normal` gives the B with which the winner is
# dropped, at any look, with probability at most δ/(D − 1) for each rival. Then T doubles. Bars are
# B standard errors of the difference to the leader, who has none. (The race above read other rows.)

# %%
delta, batch = 0.01, 64
bound = sm.b_normal(delta / (D - 1), batch / N, side="eq5")
order = np.random.default_rng(2).permutation(N)
alive, seen, looks, pulls = np.arange(D), batch, [], 0
while len(alive) > 1 and seen < N:
    read = rewards[alive][:, order[:seen]]
    behind = read[read.mean(axis=1).argmax()] - read
    error = np.sqrt(behind.var(axis=1) / seen * (1 - seen / N))
    out = behind.mean(axis=1) > bound * error
    pulls += len(alive) * (seen - looks[-1][0] if looks else seen)
    looks.append((seen, alive, behind.mean(axis=1), bound * error, out))
    alive, seen = alive[~out], 2 * seen
print(f"left: {alive}, after {pulls} pulls")

figure, grid = plt.subplots(2, 4, figsize=(10, 5), layout="constrained", sharey=True, sharex=True)
for axes, (seen, arms, behind, radius, out) in zip(grid.flat, looks[-8:], strict=False):
    for which, mark, colour in [(~out, "o", "#0072B2"), (out, "x", "#D55E00")]:
        label = "stays" if mark == "o" else "is dropped"
        axes.errorbar(
            -behind[which], arms[which], xerr=radius[which], fmt=mark, color=colour, label=label,
            capsize=2,
        )  # fmt: skip
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set(title=f"{seen:,} rows read", yticks=range(D))
grid[0, 0].set_ylabel("arm")
grid[1, 0].set(ylabel="arm", xlabel="mean, from the leader's")
axes.legend(fontsize=8, loc="lower left")
plt.show()

# %% [markdown]
# ## The gap decides the cost
#
# The same race with smaller and smaller gaps, on a few data sets each. A batch mean of T rewards is
# known to about 1/sqrt(T), so a gap g is visible after about 1/g² rows: halving the gap quadruples
# the reading. The dashed line has that slope. On the right the first batch is enough, and nobody
# reads less than that. On the left sampling cannot decide: the race gives up early, adds up the
# rewards of all arms that are left, and ends a few percent above the exact decision's line.

# %%
gaps = np.geomspace(0.003, 1.0, 11)
repeats = 5
share = {"Normal": np.empty((gaps.size, repeats)), "Betting": np.empty((gaps.size, repeats))}
wrong = dict.fromkeys(share, 0)
for i, gap in enumerate(gaps):
    for j in range(repeats):
        rewards = ten_arms(gap)
        # An interval that holds every reward of every arm: here we can look, a model has to know.
        width = rewards.max() - rewards.min()
        rules = {"Normal": sm.Normal(), "Betting": sm.Betting(spread=width)}
        for name, rule in rules.items():
            choice = sm.choose(rewards, selector=sm.Racing(rule=rule, delta=0.01), seed=100 * i + j)
            share[name][i, j] = choice.pulls / (N * D)
            wrong[name] += choice.arm != D - 1
print(f"wrong decisions among {gaps.size * repeats}:", wrong)

# %%
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for (name, values), marker in zip(share.items(), "os", strict=True):
    axes.loglog(gaps, values.mean(axis=1), marker=marker, label=f"sm.{name}")
guide = 12 * gaps**-2.0 / N
axes.loglog(gaps[guide < 1], guide[guide < 1], "k--", linewidth=1, label="slope −2")
axes.axhline(1.0, color="grey", linewidth=1, label="sm.Exact")
axes.set_xlabel("gap between neighbouring means, in standard deviations")
axes.set_ylabel("share of the rewards read")
axes.set_title("Ten arms, N = 100,000: the race reads what the gap demands")
axes.legend()
plt.show()

# %% [markdown]
# ## From a decision to a draw
#
# Add independent Gumbel noise to each total, and the argmax is a draw from the distribution whose
# log probabilities are the totals. `sm.draw` does that, with fresh noise and fresh rows for every
# draw. The same seed gives the same noise whatever the selector, so that an exact run and a race
# can be compared draw by draw: where they differ, the race decided wrongly.
#
# The arms below are locations of a Student-t distribution. A hundredth apart, several of them are
# plausible given 20,000 data, and no race can tell them apart for less than the price of reading
# everything. A tenth apart, one candidate is far ahead and the race reads a part; half a unit
# apart, next to nothing. The totals of likelihoods grow apart with the square of the distance.


# %%
def log_factor(data, arm, n):
    z = data.y[n] - data.location[arm]
    return -2.5 * sm.log1p(z * z / 4.0)


y = rng.standard_t(df=4, size=20_000) + 0.5
for spacing in (0.01, 0.1, 0.5):
    data = {"y": y, "location": 0.5 + spacing * np.arange(-5, 6)}
    population = sm.Population(log_factor, data, arms=11)
    exact = sm.draw(population, size=500, selector=sm.Exact(), seed=3)
    race = sm.draw(population, size=500, selector=sm.Racing(delta=0.01), seed=3)
    differ = np.mean(race.arms != exact.arms)
    print(f"spacing {spacing}: race read {race.share_read:.1%}, decided otherwise {differ:.1%}")
    print("   drawn:", np.bincount(exact.arms, minlength=11))
