"""A strategy of one's own for sm.identify: KL-LUCB for rewards of 0 and 1, beside LUCB.

    python examples/own_strategy.py [--quick]

A strategy says which arm to pull next, and when to stop. This one pulls the leader and its closest
rival until the lower bound of the one has passed the upper bound of the other. The bounds are
Chernoff's: with d the Kullback-Leibler divergence of two coins,

    T d(mean_T, mu) <= log(2 K t^2 / delta)      for all T <= t

above the best arm's mean and below each other's, but with probability delta: K events of
(1 + 1/4 + 1/9 + ..) / 2 < 1 times delta / K (Kaufmann & Kalyanakrishnan, COLT 2013).
Where probabilities are small, d knows that coins vary little, which the bound of LUCB does not.
"""

import argparse
from dataclasses import dataclass
from math import log
from typing import ClassVar, NamedTuple

import numpy as np

import subsample_mcmc as sm


class Level(NamedTuple):
    """log(2 K / delta): computed once, in Python."""

    log_arms: float


@sm.extend.jit
def divergence(p, q):
    """Of two coins."""
    found = 0.0
    if p > 0.0:
        found += p * log(p / q)
    if p < 1.0:
        found += (1.0 - p) * log((1.0 - p) / (1.0 - q))
    return found


@sm.extend.jit
def bound(mean, end, allowed):
    """The probability farthest from `mean` towards `end` (0 or 1) that is not ruled out."""
    near, far = mean, end
    for _ in range(40):
        middle = 0.5 * (near + far)
        if divergence(mean, middle) > allowed:
            far = middle
        else:
            near = middle
    return far


# Compiled: which arm next, or how it stopped. `state` begins with now, pulls, means and squares.
@sm.extend.jit
def ask(params, state, rng):
    now = state.now[0]
    first = sm.extend.pull_each_once(state, rng, state.order)
    if first >= 0:
        return first
    now.count = 1
    if now.left == 1:  # the other of the pair
        now.left = 0
        return now.second
    level, leader, highest = (
        params.log_arms + 2.0 * log(now.total),
        sm.extend.leading(state, rng),
        -1.0,
    )
    for arm in range(len(state.pulls)):
        if arm != leader:
            upper = bound(state.means[arm], 1.0, level / state.pulls[arm])
            if upper > highest:
                now.second, highest = arm, upper
    if bound(state.means[leader], 0.0, level / state.pulls[leader]) >= highest:
        return sm.extend.stop(state, sm.extend.OWN_RULE)
    now.left = 1
    return leader


STEPS = sm.extend.Steps(ask, sm.extend.tell_all, sm.extend.answer_mean)


@dataclass(frozen=True)
class KLLUCB(sm.extend.Strategy):
    """The best of K coins, wrong with probability delta at most."""

    delta: float = 0.05
    guarantee: ClassVar[str] = "bounded"

    def steps(self):
        return STEPS

    def numbers(self, arms):
        return Level(log(2.0 * arms / self.delta))

    def fresh(self, arms, params):
        return sm.extend.each(arms)


# --------------------------------------------------------------------------------- trying it
def coin(data, arm, rng):
    """1 with the probability of this arm."""
    return 1.0 if rng.random() < data.p[arm] else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    runs, delta = (40 if parser.parse_args().quick else 400), 0.05
    p = np.array([0.10, 0.05, 0.04, 0.03, 0.02, 0.02, 0.01, 0.01])
    print(
        f"{len(p)} coins of probability {p.min():g} to {p.max():g}, delta = {delta}, {runs} runs\n"
    )
    print(f"{'strategy':10}{'guarantee':12}{'pulls a run':>22}   wrong")
    rivals = sm.bandits.LUCB(delta, 0.5), sm.bandits.LUCB(delta, 0.5, "++")
    for strategy in (KLLUCB(delta), *rivals):
        made = sm.identify(coin, len(p), strategy, 1, runs=runs, data={"p": p}, truth=p)
        name = type(strategy).__name__ + getattr(strategy, "variant", "").replace("1", "")
        mean, error = made.mean_total()
        rate, low, high = made.error_rate()
        pulls = f"{mean:,.0f} +- {error:,.0f}"
        print(f"{name:10}{made.guarantee:12}{pulls:>22}   {rate:.3f} ({low:.3f} .. {high:.3f})")


if __name__ == "__main__":
    main()
