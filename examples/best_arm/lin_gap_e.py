"""The experiments of Xu, Honda & Sugiyama (2018): the best of arms that share a linear model.

    python examples/best_arm/lin_gap_e.py           d = 2 .. 6; three minutes on two cores
    python examples/best_arm/lin_gap_e.py --quick   d = 2 and 3; half a minute
    python examples/best_arm/lin_gap_e.py --full    d = 2 .. 10, XY-adaptive up to 5e8 pulls; hours

The mean reward of an arm is x' theta: its features x are known, theta is not. LinGapE pulls what
tells the leader from its closest rival; the designs of Soare et al. tell all pairs apart
("static"), in phases those that are left ("adaptive"), or know theta ("oracle").

    Table 1, Figure 1   a rival almost aligned with the best arm: an adaptive strategy is suitable
    Figure 2            orthogonal arms, all rivals equal: pulling all alike is almost optimal
    Figure 3            clicks on articles; the paper's data are not free, ours are simulated
    A table of our own  LinGapE as a sampler of log-linear factors, beside its closed-form rivals

Pulls differ by a factor of three from run to run: read the standard errors. --quick replaces the
angle of .01 between the two arms by .1, a problem that takes a hundredth of the pulls.

L. Xu, J. Honda and M. Sugiyama, "A fully adaptive algorithm for pure exploration in linear
bandits", AISTATS 2018. M. Soare, A. Lazaric and R. Munos, "Best-arm identification in linear
bandits", NIPS 2014.
"""

import lin_gap_e_clicks as clicks
import lin_gap_e_plots as plots
import lin_gap_e_sampler as sampler
import numpy as np
from paper import Claims, mean, options, share, size, table

import subsample_mcmc as sm
from subsample_mcmc.bandits import XYAllocation

DELTA, NORM = 0.05, 2.0  # the paper's; NORM is |theta| in the first setting
MOST = 2_000_000_000  # pulls of a run; none comes near
BUDGET = 500_000_000  # of XY-adaptive at the paper's angle
GREEDY, RATIO = "LinGapE, greedy", "LinGapE, ratio"
STATIC, ADAPTIVE, ORACLE = "XY-static", "XY-adaptive", "XY-oracle"
# Table 1 of the paper, d = 5: pulls of each arm in one run.
PRINTED = {
    GREEDY: [2133, 428889, 19, 34, 33, 11],
    STATIC: [1298590, 2546604, 2546666, 2546666, 2546666, 1273742],
    ORACLE: [13646, 2728606, 68, 68, 68, 1],
}
CLOSED_FORM = 2_742_242  # pulls of the oracle by the formula of its bound


def noisy(data, arm, rng):
    """A mean plus standard normal noise."""
    return data.means[arm] + rng.standard_normal()


def aligned(d: int, angle: float) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors, one more arm at a small angle to the first; and theta."""
    features = np.vstack([np.eye(d), np.zeros(d)])
    features[d, :2] = np.cos(angle), np.sin(angle)
    return features, NORM * np.eye(d)[0]


def play(chosen, features, theta, strategy, runs, most=MOST) -> sm.Identifications:
    """Runs with normal noise; the same seeds, so the same noise, for every strategy."""
    means = features @ theta
    seed = np.random.SeedSequence([chosen.seed, *features.shape])
    return sm.identify(
        noisy, len(features), strategy, seed, most, runs, data={"means": means}, truth=means,
        cores=chosen.cores,
    )  # fmt: skip


def strategies(features, theta) -> dict:
    """All but the adaptive one, which takes too long."""
    return {
        GREEDY: sm.LinGapE(features, DELTA, norm=NORM),
        RATIO: sm.LinGapE(features, DELTA, rule="ratio", norm=NORM),
        ORACLE: XYAllocation(features, DELTA, allocation="oracle", theta=theta),
        STATIC: XYAllocation(features, DELTA),
    }


# ------------------------------------------------------------------------- Table 1 and Figure 1
def first(chosen, claims) -> None:
    """The setting where an adaptive strategy is suitable."""
    angle = 0.1 if chosen.quick else 0.01
    dimensions = size(chosen, (2, 3), range(2, 7), range(2, 11))
    count = {GREEDY: 10, RATIO: 10, ORACLE: 2, STATIC: size(chosen, 3, 2, 10)}
    found, rows = {}, []
    for d in dimensions:
        features, theta = aligned(d, angle)
        for name, strategy in strategies(features, theta).items():
            made = found[name, d] = play(chosen, features, theta, strategy, count[name])
            rows.append([d, name, len(made), mean(made.mean_total()), f"{made.totals.min():,}",
                         f"{made.totals.max():,}", share(made.error_rate())])  # fmt: skip
    title = f"Figure 1: pulls until the stop, angle {angle}, delta {DELTA}"
    columns = ["d", "strategy", "runs", "mean pulls +- s.e.", "least", "most", "wrong"]
    table(columns, rows, f"{title} (the oracle's number of pulls does not depend on rewards)")
    plots.first(chosen, found, angle)
    ordered = [d for d in dimensions if means(found, d) == sorted(means(found, d))]
    claims.add(
        "Figure 1: LinGapE pulls less than XY-oracle, XY-oracle less than XY-static",
        f"mean pulls so ordered for d in {ordered}, of d in {list(dimensions)}",
        ordered == list(dimensions),
    )
    ours = [made for (name, _), made in found.items() if name in (GREEDY, RATIO)]
    wrong, runs = sum(int(made.errors.sum()) for made in ours), sum(len(made) for made in ours)
    claims.add(
        f"Theorem 1: LinGapE names a wrong arm with probability {DELTA} at most, by either rule",
        f"{wrong} of {runs} runs",
        wrong <= DELTA * runs,
    )
    logs = np.concatenate(
        [np.log(found[RATIO, d].totals / found[GREEDY, d].totals) for d in dimensions]
    )
    about, wide = logs.mean(), 1.96 * logs.std(ddof=1) / len(logs) ** 0.5
    claims.add(
        "the greedy rule and the ratio differ very little",
        f"ratio over greedy, runs with the same seeds: {np.exp(about):.3f} "
        f"({np.exp(about - wide):.3f} .. {np.exp(about + wide):.3f}) times the pulls",
        bool(abs(about) + wide < 0.25),
    )
    if 5 in dimensions:
        table1(found, claims)
    adaptive(chosen, claims)


def means(found, d) -> list[float]:
    """In the order that the paper claims."""
    return [found[name, d].mean_total()[0] for name in (GREEDY, ORACLE, STATIC)]


def table1(found, claims) -> None:
    """Pulls of each arm."""
    rows = []
    for name, printed in PRINTED.items():
        ours = found[name, 5]
        here = [*ours.pulls, ours.mean_total()[0]]
        rows.append([f"{name}, paper", *(f"{n:,}" for n in (*printed, sum(printed)))])
        rows.append([f"{name}, here", *(f"{n:,.0f}" for n in here)])
    columns = ["", *(f"arm {i + 1}" for i in range(6)), "all"]
    table(columns, rows, "Table 1: pulls of each arm, d = 5 (the paper: one run; here: mean)")
    low, high = found[GREEDY, 5].totals.min(), found[GREEDY, 5].totals.max()
    claims.add(
        "Table 1: LinGapE took 431,119 pulls in one run",
        f"{len(found[GREEDY, 5])} runs took {low:,} to {high:,}",
        bool(low <= 431_119 <= high),
    )
    total = found[ORACLE, 5].totals[0]
    claims.add(
        f"Table 1: XY-oracle 2,742,457 pulls (closed form {CLOSED_FORM:,})",
        f"{total:,}, off the closed form by {abs(total / CLOSED_FORM - 1):.3%}",
        bool(abs(total / CLOSED_FORM - 1) < 0.001),
    )
    pulls, printed = found[STATIC, 5].pulls, np.array(PRINTED[STATIC])
    ours, theirs = pulls / pulls.sum(), printed / printed.sum()
    claims.add(
        "Table 1: XY-static pulls in shares .1018, .1996 (four times), .0998",
        "here " + ", ".join(f"{s:.4f}" for s in ours),
        bool(abs(ours - theirs).max() < 0.002),
    )
    totals = found[STATIC, 5].totals
    within = bool(totals.min() <= 12_758_934 <= totals.max())
    claims.add(
        "Table 1: XY-static took 12,758,934 pulls in one run",
        f"{len(totals)} runs took {totals.min():,} to {totals.max():,}",
        within or (None if len(totals) < 10 else False),
    )


def adaptive(chosen, claims) -> None:
    """XY-adaptive beside XY-static: at the paper's angle only if there is time."""
    rows, ratios = [], {}
    settings = [(d, 0.1, 10) for d in size(chosen, (2, 3), (2, 3, 4, 5, 6), (2, 4, 6, 8, 10))]
    settings += size(chosen, [], [], [(5, 0.01, 2)])
    for d, angle, runs in settings:
        features, theta = aligned(d, angle)
        most = BUDGET if angle < 0.1 else MOST
        found = [
            play(
                chosen, features, theta, XYAllocation(features, DELTA, allocation=name), runs, most
            )
            for name in ("static", "adaptive")
        ]
        (static, _), (late, _) = (made.mean_total() for made in found)
        ratios[d, angle] = late / static
        stopped = int((found[1].stopped_by == "own rule").sum())
        rows.append([d, f"{angle}", runs, mean(found[0].mean_total()), mean(found[1].mean_total()),
                     f"{np.median(found[1].totals):,.0f}", stopped, late / static])  # fmt: skip
    columns = ["d", "angle", "runs", "static", "adaptive", "median", "stopped", "ratio of means"]
    table(columns, rows, f"XY-adaptive: at angle .01 with --full only, up to {BUDGET:,} pulls")
    told = ", ".join(f"{r:.2f} (d = {d}, angle {a})" for (d, a), r in ratios.items())
    claims.add(
        "XY-adaptive pulls at least five times as much as XY-static",
        f"times as much: {told}",
        all(r >= 5.0 for r in ratios.values()),
    )


# ------------------------------------------------------------------------------------- Figure 2
def second(chosen, claims) -> None:
    """The setting where XY-static is almost optimal."""
    gaps = size(
        chosen, (0.5, 0.3), (0.1, 0.15, 0.2, 0.3, 0.4, 0.5), (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
    )
    runs = size(chosen, 10, 40, 100)
    features, rows, found = np.eye(5), [], {}
    for gap in gaps:
        theta = gap * features[0]
        # |theta| <= 2 serves here, too: the same numbers in both settings.
        ours = play(chosen, features, theta, sm.LinGapE(features, DELTA, norm=NORM), runs)
        static = play(chosen, features, theta, XYAllocation(features, DELTA), runs)
        found[gap] = ours, static
        rows.append([f"{gap}", runs, mean(ours.mean_total()), mean(static.mean_total()),
                     static.mean_total()[0] / ours.mean_total()[0], share(ours.error_rate()),
                     share(static.error_rate())])  # fmt: skip
    columns = ["Delta", "runs", "LinGapE", "XY-static", "ratio", "LinGapE wrong", "static wrong"]
    table(columns, rows, "Figure 2: pulls, five orthogonal arms (the grid of Delta is ours)")
    plots.second(chosen, found)
    apart = {g: s.mean_total()[0] - o.mean_total()[0] for g, (o, s) in sorted(found.items())}
    ratio = {g: s.mean_total()[0] / o.mean_total()[0] for g, (o, s) in sorted(found.items())}
    claims.add(
        "Figure 2: LinGapE pulls less than XY-static at every Delta",
        f"ratios {min(ratio.values()):.2f} .. {max(ratio.values()):.2f}",
        min(ratio.values()) > 1.0,
    )
    small, large = min(gaps), max(gaps)
    claims.add(
        "Figure 2: the gap between them grows as Delta -> 0",
        f"difference {apart[large]:,.0f} pulls at Delta {large}, {apart[small]:,.0f} at {small}; "
        f"ratio {ratio[large]:.2f} and {ratio[small]:.2f}",
        list(apart.values()) == sorted(apart.values(), reverse=True),
    )


# ------------------------------------------------------------------------------------- all of it
def main() -> None:
    chosen = options(__doc__)
    claims = Claims()
    first(chosen, claims)
    second(chosen, claims)
    clicks.third(chosen, claims)
    sampler.compare(chosen, claims)
    claims.show()


if __name__ == "__main__":
    main()
