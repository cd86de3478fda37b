"""A process that does one thing: import the package and draw once. Its times, as JSON, on stdout.

python -m tests.benchmarks.first_draw [other]     `other` is a log factor not met before
"""

import json
import sys
import time


def clocks():
    return time.perf_counter(), time.process_time()


begun = clocks()
import numpy as np  # noqa: E402

import subsample_mcmc as sm  # noqa: E402

imported = clocks()


def usual(data, arm, n):
    z = data.y[n] - data.location[arm]
    return -2.5 * sm.log1p(z * z / 4.0)


def other(data, arm, n):
    z = data.y[n] - data.location[arm]
    return -3.5 * sm.log1p(z * z / 6.0) - sm.log(data.scale[arm])


def main():
    rng = np.random.default_rng(0)
    data = {"y": rng.standard_t(4.0, 100_000), "location": 0.5 * np.arange(-3.0, 7.0)}
    if sys.argv[1:] == ["other"]:
        data["scale"] = np.ones(10)
    start = clocks()
    population = sm.Population(usual if "scale" not in data else other, data, arms=10)
    sm.draw(population, seed=1)
    first = clocks()
    sm.draw(population, seed=2)
    second = clocks()
    spans = {"import": (begun, imported), "first": (start, first), "second": (first, second)}
    print(
        json.dumps(
            {
                f"{name} {clock}": to[i] - at[i]
                for name, (at, to) in spans.items()
                for i, clock in enumerate(("wall", "cpu"))
            }
        )
    )


if __name__ == "__main__":
    main()
