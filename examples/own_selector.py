"""A selector of one's own: exact decisions that stop reading an arm which can no longer win.

    python examples/own_selector.py [--quick]

A selector says how one decision is made. Where no log factor exceeds a known number, a log
probability never exceeds 0, say, an arm's total is at most its offset, plus what was read of it,
plus that number for each row that is left. So arms are read one after the other, and an arm is
abandoned once this falls below the best total so far. The choice is that of sm.Exact(), always.
"""

import argparse
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import subsample_mcmc as sm


# The spec: numbers for one population in `params`, arrays to work in from `scratch`.
@dataclass(frozen=True)
class Abandoning(sm.extend.Selector):
    """Sum arm after arm, but leave an arm once it cannot win: no error, at most D N pulls."""

    most: float = 0.0  # no log factor is larger; a larger one is an error
    guarantee: ClassVar[str] = "exact"

    def build(self, sources):
        return abandoning(sources)

    def params(self, shape):
        return sm.extend.record("sizes", "most")(np.array(shape.sizes), float(self.most))

    def scratch(self, shape):
        rows = np.zeros(sm.extend.CHUNK, dtype=np.int32)
        return sm.extend.record("rows", "values")(rows, np.zeros(sm.extend.CHUNK))


# The compiled half, made once for each log factor: `sources.rewards` fills `values` with those of
# some rows. What cannot go on is a code, which becomes an exception in Python.
@sm.extend.memoised
def abandoning(sources):
    rewards = sources.rewards

    @sm.extend.jit
    def choose(rng, context, offsets, params, scratch):
        best, highest, pulls = -1, -np.inf, 0
        for arm in range(len(offsets)):
            total, size, read = offsets[arm], params.sizes[arm], 0
            while read < size and total + params.most * (size - read) > highest:
                count = min(size - read, len(scratch.rows))
                for i in range(count):
                    scratch.rows[i] = read + i
                rewards(context, arm, scratch.rows[:count], scratch.values[:count])
                for i in range(count):
                    value = scratch.values[i]
                    if sm.extend.not_a_sum(value):
                        return sm.extend.failed(sm.extend.NOT_FINITE, arm, read + i, pulls, 1)
                    if value > params.most:
                        return sm.extend.failed(sm.extend.OUT_OF_SPREAD, arm, read + i, pulls, 1)
                    total += value
                pulls += count
                read += count
            if read == size and total > highest:
                best, highest = arm, total
        if best < 0:
            return sm.extend.failed(sm.extend.ALL_IMPOSSIBLE, -1, -1, pulls, 1)
        return sm.extend.Outcome(best, pulls, 1, sm.extend.EXACT, 0, -1, -1)

    return choose


# --------------------------------------------------------------------------------- trying it
def log_factor(data, arm, n):
    """Categorical data: log probability of what was seen, under each arm's probabilities."""
    return data.logs[arm, data.seen[n]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows and draws")
    quick = parser.parse_args().quick
    size, draws = (20_000, 50) if quick else (200_000, 500)

    rng = np.random.default_rng(1)
    logs = np.log(rng.dirichlet(np.ones(20), size=30))
    logs[1:4] = logs[0] + rng.normal(0.0, 3.0 / size**0.5, (3, 20))  # some that are hard to tell
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    seen = rng.choice(20, size=size, p=np.exp(logs[0]))
    population = sm.Population(log_factor, {"seen": seen, "logs": logs}, arms=30, size=size)

    print(f"30 arms, N = {size:,}, {draws} draws\n")
    print("selector       guarantee   share read   other arms than Exact")
    exact = sm.draw(population, draws, sm.Exact(), seed=2)
    for selector in (sm.Exact(), Abandoning(), sm.Racing(delta=0.01)):
        made = sm.draw(population, draws, selector, seed=2)
        name, other = type(selector).__name__, int(np.sum(made.arms != exact.arms))
        print(f"{name:15}{made.guarantee:12}{made.share_read:10.2%}{other:12}")


if __name__ == "__main__":
    main()
