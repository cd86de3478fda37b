"""Best arms on a fixed budget when rewards vary unequally: SHVar and SHAdaVar, figures 1 to 6.

    python examples/best_arm/sh_var.py              400 runs a point; five minutes on two cores
    python examples/best_arm/sh_var.py --quick      200, fewer points, in a minute
    python examples/best_arm/sh_var.py --full       5,000 as the paper; about an hour
    python examples/best_arm/sh_var.py --data ml-1m      your own copy of MovieLens

Sequential halving gives all arms that are left the same number of pulls. SHVar gives more to arms
whose rewards vary more, and SHAdaVar does so by estimates. How often is the arm that they name not
the best, and does that hold for the same decision as a sampler: which arm to draw, by the rewards
of a finite population? The last table sets a fixed budget against racing and exact draws.

Where the paper leaves a choice: arms are counted from 0, so that the best one varies much ("even"),
which its numbers need; GapE has H = sum 1 / gap^2, which they need too, and H = sum b^2 / gap^2, as
its theorem has it, beside that; the hardness of both GapE is true and multiplied by c / c', as in
the paper (that of GapE-V has b inside by its form, so it has one reading). "VBR-like" stands in
for VBR, of which no public text gives the details, and proves nothing about it.

All methods meet the same problems. Where a claim orders them, the findings below it are differences
of shares with 99% intervals, at the place that favours the claim least.

A. Lalitha, K. Kalantari, Y. Ma, A. Deoras and B. Kveton, "Fixed-budget best-arm identification
with heterogeneous reward variances", UAI 2023, arXiv:2306.07549.
"""

import time
from math import log, log2, sqrt

import numpy as np
from paper import Claims, options, share, size, table
from scipy.stats import binomtest
from sh_var_data import gaussian, movielens, pull, rated, sampled, simulated
from sh_var_plots import errors_figure, gaussian_figure, movies_figure, sampler_figure

import subsample_mcmc as sm
from subsample_mcmc.bandits import (
    GapE,
    GapEV,
    SuccessiveRejects,
    Uniform,
    VarianceRejects,
    hardness_of_means,
)

DATA = "folder of your copy of ml-100k (u.data) or ml-1m (ratings.dat); default: simulated ratings"
HARD, SURE = 5_000, 2.58  # the budget of figure 3; standard errors of 99% intervals
OTHERS = ("Uniform", "GapE", "GapE-V", "SH")  # of the paper; VBR is not here
ALLOCATIONS = ("equal", "known-variance", "adaptive-variance")


def main() -> None:
    chosen = options(__doc__, DATA)
    claims = Claims()
    budgets = size(chosen, (2_000, HARD), *[(2_000, 3_000, HARD, 8_000, 12_000)] * 2)
    many = size(chosen, (32,), *[(32, 40, 48, 56)] * 2)
    gaussian_figure(chosen)
    by_budget = {n: play(gaussian(64), n, chosen) for n in budgets}
    report(by_budget, "n", "Figure 2: Gaussian bandit, K = 64, budget n", chosen, "sh_var_figure2")
    by_arms = {arms: play(gaussian(arms), HARD, chosen) for arms in many} | {64: by_budget[HARD]}
    report(by_arms, "K", f"Figure 3: Gaussian bandit, n = {HARD:,}", chosen, "sh_var_figure3")
    claim_gaussian(claims, by_budget, by_arms)
    low_best(by_budget[HARD], chosen)

    ratings = movielens(chosen.data) if chosen.data else simulated()
    print(f"\nMovies: {ratings.told}")
    movies_figure(rated(ratings, 64), "K = 64", chosen)
    few = {n: play(rated(ratings, 64), n, chosen) for n in size(chosen, (2_000,), budgets, budgets)}
    report(few, "n", "Figure 5: movies, K = 64, budget n", chosen, "sh_var_figure5")
    more = size(chosen, (2_000,), *[(4_000, 8_000, 12_000)] * 2)
    more = {n: play(rated(ratings, 128), n, chosen) for n in more}
    report(more, "n", "Figure 6: movies, K = 128, budget n", chosen, "sh_var_figure6")
    claim_movies(claims, few, more)
    sampler(chosen)
    claims.show()


# -------------------------------------------------------------------------------- fixed budgets
def methods(arms: int, n: int) -> dict:
    """Strategies, or functions of the data of a run that give one, by name."""
    loosened = {GapE: 4.0 * log2(arms) / 144.0, GapEV: 4.0 * log2(arms) / 512.0}  # c / c'

    def by_gaps(kind, inside):
        def made(data):
            b = float(np.max(data.means + np.sqrt(data.variances * log(n))))
            hardness = hardness_of_means(kind, data.means, b, data.variances, inside=inside)
            given = {"b_in_hardness": inside} if kind is GapE else {}
            return kind(n, b, hardness * loosened[kind], **given)

        return made

    return {
        "Uniform": Uniform(n),
        "SuccessiveRejects": SuccessiveRejects(n),
        "GapE": by_gaps(GapE, False),
        "GapE, b in H": by_gaps(GapE, True),
        "GapE-V": by_gaps(GapEV, True),
        "VBR-like": VarianceRejects(n),
        "SH": sm.SequentialHalving(n),
        "SHVar": lambda data: sm.SequentialHalving(n, "known-variance", data.variances),
        "SHAdaVar": sm.SequentialHalving(n, "adaptive-variance"),
    }


def play(bandit, n: int, chosen, names=None) -> dict:
    """Runs of all methods on the same problems: one seed."""
    runs, found = size(chosen, 200, 400, 5_000), {}
    for name, strategy in methods(bandit.arms, n).items():
        if names is None or name in names:
            found[name] = sm.identify(
                pull, bandit.arms, strategy, seed=chosen.seed, runs=runs, data=bandit.data,
                truth=lambda data: data.means, cores=chosen.cores,
            )  # fmt: skip
    return found


def report(found: dict, across: str, title: str, chosen, name: str) -> None:
    """A table and a figure of the shares of wrong runs."""
    first = next(iter(found.values()))
    columns = [f"{across} = {place:,}" for place in sorted(found)]
    rows = [
        [method, *(share(found[at][method].error_rate()) for at in sorted(found))]
        for method in first
    ]
    runs = len(first["SH"])
    table(["share of wrong runs", *columns], rows, f"{title}; {runs:,} runs, 95% intervals")
    errors_figure(found, across, f"{title} ({runs:,} runs)", chosen, name)


def low_best(high: dict, chosen) -> None:
    """Arms counted from 1, as the paper prints it: odd arms vary little, the best one too."""
    names = ("Uniform", "SH", "SHVar", "SHAdaVar")
    low = play(gaussian(64, low_best=True), HARD, chosen, names)
    rows = [[name, *(share(f[name].error_rate()) for f in (high, low))] for name in names]
    columns = ["share of wrong runs", "even from 0: best varies", "even from 1: best does not"]
    table(columns, rows, f'Which arms are "even"? K = 64, n = {HARD:,}')


# --------------------------------------------------------------------------------------- claims
def judge(claims: Claims, claim: str, found: dict, better, worse, most: bool = False) -> None:
    """Is each of some methods wrong less often than each of others, at all places or at most.

    All methods met the same problems, so differences are of pairs of runs. Shown is the least
    favourable place for each of the others.
    """
    verdicts, told = {at: [] for at in found}, []
    for other in worse:
        gaps = []
        for at in found:
            for one in better:
                apart = found[at][one].errors.astype(float) - found[at][other].errors
                error = SURE * apart.std(ddof=1) / sqrt(len(apart))
                gaps.append((apart.mean(), error, one, at))
                verdicts[at].append(sign(apart.mean(), error))
        gap, error, one, at = max(gaps)
        told.append(f"{one} - {other} {gap:+.3f} +- {error:.3f} at {at:,}")
    places = [both(signs) for signs in verdicts.values()]
    if most and len(places) > 1:
        half = len(places) / 2.0
        holds = True if places.count(True) > half else None
        holds = False if places.count(False) >= half else holds
    else:
        holds = both(places)
    claims.add(claim, "; ".join(told), holds)


def sign(gap: float, error: float) -> bool | None:
    """Is a difference below zero; None: it cannot be told."""
    return None if abs(gap) <= error else gap < 0.0


def both(verdicts: list) -> bool | None:
    """Do all hold."""
    return False if False in verdicts else None if None in verdicts else True


def claim_gaussian(claims: Claims, by_budget: dict, by_arms: dict) -> None:
    """What section 5.1 reads off figures 2 and 3."""
    theorem, stand_in = ("GapE, b in H",), ("VBR-like",)
    small, large = min(by_budget), max(by_budget)
    judge(claims, "Figure 2: Unif is the worst for every n", by_budget, OTHERS[1:], OTHERS[:1])
    judge(claims, "Figure 2: SH outperforms GapE (b not in H) and GapE-V", by_budget, ("SH",),
          ("GapE", "GapE-V"))  # fmt: skip
    judge(claims, "    the same against GapE as its theorem has it (b in H)", by_budget, ("SH",),
          theorem)  # fmt: skip
    judge(claims, "Figure 2: SHVar outperforms all algorithms for all n", by_budget, ("SHVar",),
          (*OTHERS, "SHAdaVar"))  # fmt: skip
    judge(claims, "    the same against what the paper has not, and the stand-in for VBR",
          by_budget, ("SHVar",), (*theorem, "SuccessiveRejects", *stand_in))  # fmt: skip
    approach(claims, by_budget, small, large)
    judge(claims, "Figure 2: VBR outperforms SHAdaVar for small n (a stand-in for VBR here)",
          {small: by_budget[small]}, stand_in, ("SHAdaVar",))  # fmt: skip
    judge(claims, "Figure 3: SHVar and SHAdaVar have the lowest errors for all K", by_arms,
          ("SHVar", "SHAdaVar"), OTHERS)  # fmt: skip
    level(claims, "Figure 3: the others err in around .05 or less at K = 32", by_arms[32], 0.06, -1)
    level(claims, "Figure 3: the others err in more than .1 at K = 64", by_arms[64], 0.1, 1)


def approach(claims: Claims, found: dict, small: int, large: int) -> None:
    """How far SHAdaVar is from SHVar, at two budgets."""
    signs, told = [], []
    for n in (small, large):
        apart = found[n]["SHAdaVar"].errors.astype(float) - found[n]["SHVar"].errors
        error = SURE * apart.std(ddof=1) / sqrt(len(apart))
        signs.append(sign(apart.mean(), error))
        told.append(f"{apart.mean():+.3f} +- {error:.3f} at {n:,}")
    # Worse at first and no longer so; if it is no worse at first, there is nothing to tell.
    holds = None if signs[0] is not False else signs[1] is not False
    claims.add("Figure 2: SHAdaVar approaches SHVar as n grows",
               f"SHAdaVar - SHVar {'; '.join(told)}", holds)  # fmt: skip


def level(claims: Claims, claim: str, runs: dict, at: float, side: int) -> None:
    """Are the rates of the others above (side 1) or below (-1) a number."""
    rates = {name: runs[name].error_rate() for name in OTHERS}
    signs = [None if low <= at <= high else side * (rate - at) > 0.0
             for rate, low, high in rates.values()]  # fmt: skip
    claims.add(claim, "; ".join(f"{name} {share(rate)}" for name, rate in rates.items()),
               both(signs))  # fmt: skip


def claim_movies(claims: Claims, few: dict, more: dict) -> None:
    """What section 5.2 reads off figures 5 and 6."""
    for figure, found in (("5 (K = 64)", few), ("6 (K = 128)", more)):
        judge(claims, f"Figure {figure}: SHVar and SHAdaVar are best for most n", found,
              ("SHVar", "SHAdaVar"), OTHERS, most=True)  # fmt: skip
        judge(claims, f"Figure {figure}: Unif is the worst", found, OTHERS[1:], OTHERS[:1])


# ---------------------------------------------------------------------------------- as a sampler
def sampler(chosen) -> None:
    """Fixed budgets beside a race and exact draws, all under the same Gumbels."""
    draws, panels = size(chosen, 150, 400, 5_000), {}
    for noise in (0.0002, 2.0):
        drawn = sampled(64, 20_000, 20.0, noise, chosen.seed)
        panels[f"N v = {noise:g}"] = compare(drawn, draws, chosen.seed, f"N v = {noise:g}")
    sampler_figure(panels, chosen)
    print(
        "  Wrong draws bound the TV distance. A reward here is a number in an array, as cheap as\n"
        "  can be: where it has to be computed, time goes with what is read."
    )


def compare(drawn, draws: int, seed: int, told: str) -> tuple[dict, tuple]:
    """One table; (share read and share of wrong draws by allocation and budget, of the race)."""
    everything = 64 * drawn.population.size
    selectors = {"Exact": sm.Exact(), "Racing, delta = 0.05": sm.Racing()}
    for part in (0.001, 0.005, 0.05):
        for allocation in ALLOCATIONS:
            known = drawn.variances if allocation == "known-variance" else None
            budget = int(part * everything)
            selectors[f"halving {part:.1%}, {allocation}"] = sm.SequentialHalving(
                budget, allocation, known
            )
    exact, rows, race, longest, enough = None, [], (), 0.0, []
    lines = {name: [] for name in ALLOCATIONS}
    for name, selector in selectors.items():
        sm.draw(drawn.population, 2, selector, seed=seed)  # compile
        began = time.perf_counter()
        made = sm.draw(drawn.population, draws, selector, seed=seed, progress=False)
        micro = (time.perf_counter() - began) / draws * 1e6
        exact = made if exact is None else exact
        wrong = int(np.sum(made.arms != exact.arms))
        bounds = binomtest(wrong, draws).proportion_ci()
        # By the difference of the two frequencies: right draws then add no noise. Never more than
        # the share of wrong draws, which bounds the distance.
        apart = [np.bincount(d.arms, minlength=64) / draws for d in (made, exact)]
        distance = 0.5 * np.abs(apart[0] - apart[1]).sum()
        point = made.share_read, wrong / draws, bounds.low, bounds.high
        if "halving" in name:
            lines[selector.allocation].append(point)
            enough += [(made.share_read, name)] if bounds.high <= 0.05 else []
        elif "Racing" in name:
            race, longest = point, made.pulls.max() / everything
        most = made.pulls.max() / everything
        rows.append([name, share(point[1:]), f"{distance:.4f}", f"{made.share_read:.2%}",
                     f"{most:.2%}", f"{micro:,.0f}"])  # fmt: skip
    likely = int(np.sum(drawn.p > 0.01))
    table(["selector", "wrong draws", "TV, estimated", "read", "most in a draw", "us a draw"], rows,
          f"64 arms ({likely} with p > 0.01), N = {drawn.population.size:,} rewards each, {told}; "
          f"{draws:,} draws")  # fmt: skip
    read, name = min(enough) if enough else (np.inf, "no budget tried")
    print(
        f"  The least budget that is wrong in at most .05 of draws, as a race may be: {name}.\n"
        f"  The race reads {race[0]:.2%}, up to {longest:.2%} in a draw: "
        f"a fixed budget {'wins' if read < race[0] else 'loses'} here."
    )
    return lines, race


if __name__ == "__main__":
    main()
