"""How soon lil'UCB and its rivals find the best of K arms, and how soon they know that they have.

    python examples/best_arm/lil_ucb.py            Figures 2 and 3, K up to 1,000; some minutes
    python examples/best_arm/lil_ucb.py --quick    K = 10 and 50, few runs; under a minute
    python examples/best_arm/lil_ucb.py --full     K up to 10,000, 5,000 runs; many hours

Rewards are Gaussian of variance 1/4 and the allowed chance of error is nu = .1. The arms have means
1/2, 0, 0, .. ("1-sparse"), or 1 - (i / n)^alpha, i = 0 .. n = K - 1, alpha = .3 or .6. Figure 2:
pulls until a strategy stops, in units of the hardness H1 = sum of 1 / gap^2. Figure 3: how often
the arm with the highest mean so far is not the best one, after so many pulls.

LS is the stopping rule of the paper, at nu / 2 beside a strategy that runs with nu / 2. Its level
here is what the authors used (variant="paper"); their lemma supports a lower one, which stops
about twice as late (LILStopping's default). Successive elimination has the same bounds, as theirs
has. The constants of lil'UCB are those of the experiments, which no theorem covers. LUCB++ and
TopTwo came later; they stop by rules of their own, which are proved.

Exponential-gap elimination wants 140,000 pulls of each of ten arms before it drops one: a thousand
of its own, the others of the median elimination within its first phase. Made in turn, they are
those of nonadaptive sampling; made arm by arm, LS has to wait for the last arm.

K. Jamieson, M. Malloy, R. Nowak and S. Bubeck, "lil'UCB: an optimal exploration algorithm for
multi-armed bandits", COLT 2014, arXiv:1312.7308.
"""

from typing import NamedTuple

import numpy as np
from lil_ucb_plots import anytime, cut, early_table, reached, stopping_table, stopping_times
from paper import Claims, options, save, share, size
from scipy.stats import binomtest

import subsample_mcmc as sm
from subsample_mcmc import bandits

NU, SCALE = 0.1, 0.5
WINDOW = 30.0  # of Figure 3, in units of H1
CLOSE = 2.0  # "comparable" is read as: within this factor
EXPONENTS = {"1-sparse": None, "alpha = .3": 0.3, "alpha = .6": 0.6}


def with_ls(strategy):
    return bandits.LILStopping(strategy, NU / 2.0, scale=SCALE, variant="paper")


NONADAPTIVE, GAP, ELIMINATION = "nonadaptive + LS", "exponential gap + LS", "succ. elimination"
PLAIN, LIL, UCB, HEURISTIC = "lil'UCB", "lil'UCB + LS", "UCB1 + LS", "lil'UCB heuristic"
LUCB, TOP_TWO = "LUCB++", "TopTwo"
STRATEGIES = {
    NONADAPTIVE: with_ls(bandits.Uniform()),
    GAP: with_ls(bandits.ExponentialGap(NU / 2.0, SCALE)),
    ELIMINATION: bandits.SuccessiveElimination(NU, SCALE, "paper"),
    PLAIN: sm.LilUCB(NU, "experiment", SCALE),
    LIL: with_ls(sm.LilUCB(NU / 2.0, "experiment", SCALE)),
    UCB: with_ls(bandits.UCB1(SCALE)),
    HEURISTIC: sm.LilUCB(NU, "heuristic", SCALE),
    LUCB: bandits.LUCB(NU, SCALE, "++"),
    TOP_TWO: bandits.TopTwo(NU, SCALE),
}
EVEN = (NONADAPTIVE, GAP)  # they pull all arms until the closest two are apart
ALL_ARMS = (UCB, LUCB, TOP_TWO)  # they look at K arms before every pull
SUCCESSORS = (LUCB, TOP_TWO)


def pull(data, arm, rng):
    return data.means[arm] + 0.5 * rng.standard_normal()


# ------------------------------------------------------------------------------- the problems
class Problem(NamedTuple):
    scenario: str
    arms: int

    @property
    def means(self) -> np.ndarray:
        alpha = EXPONENTS[self.scenario]
        if alpha is None:
            return np.where(np.arange(self.arms) == 0, 0.5, 0.0)
        return 1.0 - (np.arange(self.arms) / (self.arms - 1)) ** alpha

    @property
    def gaps(self) -> np.ndarray:
        return self.means[0] - self.means[1:]

    @property
    def hardness(self) -> float:
        """H1, the exact sum."""
        return float(np.sum(self.gaps**-2.0))

    def __str__(self) -> str:
        return f"{self.scenario}, K = {self.arms:,}"


class Plan(NamedTuple):
    """What can be afforded. patience: pulls of a run; looks: arms that it looks at.

    early_runs, early_pulls: of Figure 3, runs and pulls of each curve.
    """

    arms: list[int]
    runs: int
    patience: float
    looks: float
    early_runs: int
    early_pulls: float = 5e7

    def most_pulls(self, problem) -> int:
        return int(max(self.patience, 400.0 * problem.hardness))

    def affords(self, problem, name) -> bool:
        """Expected work of a run: 30 / gap^2 pulls of every arm, or 50 H1 pulls in all."""
        if name in EVEN:
            return 30.0 * problem.arms / problem.gaps.min() ** 2 <= self.patience / 2.0
        return name not in ALL_ARMS or 50.0 * problem.hardness * problem.arms <= self.looks

    def window_runs(self, problem) -> int:
        """Of Figure 3: fewer of the big problems, at least 50."""
        affordable = self.early_pulls / (WINDOW * problem.hardness)
        return int(min(self.early_runs, max(affordable, 50.0)))


def planned(chosen) -> Plan:
    quick = Plan([10, 50], 10, 4e5, 3e8, 60)
    default = Plan([10, 100, 1_000], 40, 3e6, 1e8, 300, 2e7)
    return size(chosen, quick, default, Plan([10, 100, 1_000, 10_000], 40, 3e8, 1e9, 5_000, 1e10))


def play(problem, name, chosen, part, runs, most, strategy=None):
    """Independent runs: every strategy and every figure has rewards of its own."""
    place = [*STRATEGIES].index(name), [*EXPONENTS].index(problem.scenario)
    seed = np.random.SeedSequence([chosen.seed, part, problem.arms, *place])
    return sm.identify(
        pull, problem.arms, strategy or STRATEGIES[name], seed, most, runs,
        data={"means": problem.means}, truth=problem.means, cores=chosen.cores,
    )  # fmt: skip


# ------------------------------------------------------------------------------------ Figure 2
def stops(plan, problems, chosen) -> dict:
    """Runs until they stop, by (problem, strategy)."""
    return {
        (problem, name): play(problem, name, chosen, 2, plan.runs, plan.most_pulls(problem))
        for problem in problems
        for name in STRATEGIES
        if plan.affords(problem, name)
    }


# ------------------------------------------------------------------------------------ Figure 3
def early_errors(plan, problems, chosen) -> dict:
    """Runs up to the end of the window, by (problem, strategy); LS alone changes no pull."""
    found = {}
    for problem in problems:
        for name in STRATEGIES:
            if name != PLAIN and (name in EVEN or plan.affords(problem, name)):
                most, runs = int(WINDOW * problem.hardness), plan.window_runs(problem)
                found[problem, name] = play(problem, name, chosen, 3, runs, most)
    return found


# ------------------------------------------------------------------------------------ claims
def ratio(over, under) -> np.ndarray:
    """Of two mean stopping times, with its 95% interval."""
    (a, a_error), (b, b_error) = over.mean_total(), under.mean_total()
    wide = np.exp(1.96 * np.hypot(a_error / a, b_error / b))
    return a / b * np.array([1.0, 1.0 / wide, wide])


def judged(ratios: dict, lowest: float, highest: float) -> tuple[str, bool | None]:
    """(the smallest and the largest, whether all intervals are inside; None: too few to tell)."""
    if not ratios:
        return "not run", None
    inside = all(lowest <= low and high <= highest for _, low, high in ratios.values())
    outside = [p for p, (_, low, high) in ratios.items() if high < lowest or low > highest]
    ends = sorted(ratios, key=lambda p: ratios[p][0])[:: max(len(ratios) - 1, 1)]
    text = " to ".join("{:.2f} ({:.2f} .. {:.2f}) [{}]".format(*ratios[p], p) for p in ends)
    if outside:
        text += f"; {len(outside)} of {len(ratios)} problems outside"
    return text, False if outside else True if inside else None


def compare(found, over, under) -> dict:
    """Ratios of stopping times where neither was cut."""
    ratios = {}
    for problem in {p: None for p, _ in found}:
        runs = [found.get((problem, name)) for name in (over, under)]
        if all(r is not None and not cut(r) for r in runs):
            ratios[problem] = ratio(*runs)
    return ratios


def fastest(found, problem, names):
    """The runs of the strategy that stopped first; None if none did."""
    played = [found[problem, name] for name in names if (problem, name) in found]
    return min((r for r in played if not cut(r)), key=lambda r: r.mean_total()[0], default=None)


def lead(found, names, others) -> dict:
    """The fastest of some strategies over the fastest of the others."""
    ratios = {}
    for problem in {p: None for p, _ in found}:
        pair = [fastest(found, problem, group) for group in (names, others)]
        if None not in pair:
            ratios[problem] = ratio(*pair)
    return ratios


def wrongs(many) -> tuple[str, float, float]:
    """Share of wrong runs among those that stopped by themselves, as text, and its 95% interval."""
    done = np.concatenate([r.errors[r.stopped_by != "max_pulls"] for r in many])
    wrong, count = int(done.sum()), len(done)
    low, high = binomtest(wrong, count).proportion_ci()
    return f"{wrong} of {count:,} runs: {share((wrong / count, low, high))}", low, high


def add_claims(claims, found, early, ls_on_heuristic) -> None:
    near, factor = (1.0 / CLOSE, CLOSE), f"(factor {CLOSE:g})"
    text, holds = judged(compare(found, GAP, NONADAPTIVE), *near)
    capped = [str(p) for (p, name), runs in found.items() if name == GAP and cut(runs)]
    text += f"; cut off in {'; '.join(capped)}" if capped else ""
    claims.add(f"(i) {GAP} stops when {NONADAPTIVE} does {factor}", text, holds)
    for other in (LIL, UCB):
        ratios = compare(found, ELIMINATION, other)
        claims.add(f"(ii) {ELIMINATION} is close to {other} {factor}", *judged(ratios, *near))
    ratios = compare(found, LIL, UCB)
    claims.add(f"(iii) {LIL} and {UCB} are comparable {factor}", *judged(ratios, *near))
    ratios = lead(found, (LIL, UCB), (NONADAPTIVE, GAP, ELIMINATION))
    claims.add("(iii) the first of them stops before all of (i), (ii)", *judged(ratios, 0.0, 1.0))
    ratios = compare(found, PLAIN, LIL)
    claims.add(
        f"(iv) without LS, {PLAIN} stops much later {factor}", *judged(ratios, CLOSE, np.inf)
    )
    rest = [name for name in STRATEGIES if name not in (HEURISTIC, *SUCCESSORS)]
    ratios = lead(found, (HEURISTIC,), rest)
    claims.add("(iv) the heuristic stops before all others", *judged(ratios, 0.0, 1.0))
    ended = sum(int(np.sum(r.stopped_by == "stopping rule")) for r in ls_on_heuristic)
    text = f"LS ended {ended} of {sum(map(len, ls_on_heuristic))} runs of the heuristic"
    claims.add("(iv) LS has no effect on the heuristic", text, ended == 0)
    played = [*found.items(), *early.items()]
    text, low, _ = wrongs([runs for (_, name), runs in played if name == HEURISTIC])
    claims.add("(iv) the heuristic is never wrong, in tens of thousands of runs", text, low == 0.0)
    for name in (LIL, UCB, HEURISTIC):
        claim = f"(v) the leader of {name} errs in {NU:.0%} after half the pulls of elimination's"
        claims.add(claim, *judged(sooner(early, name), 2.0, np.inf))
    sparse = {
        problem: interval(r) / problem.hardness
        for (problem, name), r in found.items()
        if name == HEURISTIC and problem.scenario == "1-sparse"
    }
    claim = "the heuristic is of order H1 (1-sparse: in 8 .. 12 H1 at any K; the range is ours)"
    claims.add(claim, *judged(sparse, 8.0, 12.0))
    text, low, high = wrongs([r for (_, name), r in found.items() if name != HEURISTIC])
    holds = True if high <= NU else False if low > NU else None
    claims.add(f"the others are wrong in at most {NU:.0%} (Figure 2)", text, holds)


def interval(runs) -> np.ndarray:
    """The mean stopping time and its 95% interval."""
    middle, error = runs.mean_total()
    return middle + error * np.array([0.0, -1.96, 1.96])


def sooner(early, name) -> dict:
    """Elimination's pulls to an error of nu over another strategy's."""
    ratios = {}
    for (problem, other), runs in early.items():
        if other == name:
            slow, fast = reached(early[problem, ELIMINATION], NU), reached(runs, NU)
            if np.isfinite(slow[0]) and np.isfinite(fast[0]):
                ratios[problem] = slow[[0, 1, 2]] / fast[[0, 2, 1]]
    return ratios


def main() -> None:
    chosen = options(__doc__)
    claims, plan = Claims(), planned(chosen)
    problems = [Problem(scenario, arms) for scenario in EXPONENTS for arms in plan.arms]
    found = stops(plan, problems, chosen)
    stopping_table(found)
    both = with_ls(STRATEGIES[HEURISTIC])
    ls_on_heuristic = [play(p, HEURISTIC, chosen, 4, plan.runs, 10**8, both) for p in problems]
    early = early_errors(plan, problems, chosen)
    early_table(early, NU, WINDOW)
    add_claims(claims, found, early, ls_on_heuristic)
    usual = [name for name in STRATEGIES if name not in SUCCESSORS]
    save(stopping_times(found, usual, SUCCESSORS), chosen, "lil_ucb_figure2")
    save(anytime(early, found, WINDOW, SUCCESSORS), chosen, "lil_ucb_figure3")
    claims.show()


if __name__ == "__main__":
    main()
