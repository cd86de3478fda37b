"""Where the package meets its users' functions: what they allocate, print and raise."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.runs import parallel
from subsample_mcmc.runs.chain import Program
from tests.helpers.models import walker

ROOT = Path(__file__).resolve().parents[2]
compiled_only = pytest.mark.skipif(DISABLED, reason="about compiled code")


def shifted(state, data, n, made):
    r = data.y[n] - made[0][0]
    return -0.5 * r * r


def doubled(state, data):
    return (2.0 * state.mu,)  # a new array


def gradient(state, data, n, made, out):
    out[0] = 2.0 * (data.y[n] - made[0][0])


@sm.kernel(writes="mu", stats=("a", "b"))
def telling(rng, state, data):
    return np.array([state.mu[0], 1.0])


def kernels():
    """Each calls a user function that allocates."""
    exact = {"selector": sm.Exact()}
    yield sm.Metropolis("mu", **exact)
    yield sm.Langevin("mu", gradient=gradient, batch=4, **exact)
    yield telling


def unreleased():
    """Allocations of 2,000 steps that are not released, for each."""
    from numba.core.runtime import rtsys

    for kernel in kernels():
        one = walker(sm.Model(shifted, {"y": np.ones(20)}, {"mu": [0.1]}, prepare=doubled), kernel)
        one.advance(10)
        before = rtsys.get_allocation_stats()
        one.advance(2000)
        after = rtsys.get_allocation_stats()
        assert after.alloc - before.alloc > 1000  # else there is nothing to see
        yield (after.alloc - before.alloc) - (after.free - before.free)


@compiled_only
@pytest.mark.slow
def test_what_user_functions_allocate_is_released():
    """numba counts allocations only if it is told to before it starts."""
    code = "import tests.target.test_user_code as t; print(list(t.unreleased()))"
    made = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, cwd=ROOT,
        env=os.environ | {"NUMBA_NRT_STATS": "1"}, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert max(json.loads(made.stdout)) < 100


PRINTING = """
import numpy as np
import subsample_mcmc as sm

def likelihood(state, data, n):
    if n == 0:
        print("mu is", state.mu[0])
    return -0.5 * (data.y[n] - state.mu[0]) ** 2

model = sm.Model(likelihood, {"y": np.zeros(3)}, {"mu": 0.25})
sm.sample(model, sm.Metropolis("mu", selector=sm.Exact()), draws=5, warmup=5, chains=1,
          progress=False)
"""


@compiled_only
@pytest.mark.slow
def test_a_likelihood_may_print():
    """Freshly compiled: a function that is read from the cache never lacked what print needs."""
    made = subprocess.run(
        [sys.executable, "-c", PRINTING], capture_output=True, text=True, timeout=240, cwd=ROOT,
        env=os.environ | {"SUBSAMPLE_MCMC_CACHE": "off"}, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert made.stdout.count("mu is 0.25") >= 2


def raising(state, data, n):
    r = data.y[n] - state.mu[0]
    if r > data.most:
        raise ValueError("too far")
    return -0.5 * r * r


@sm.kernel(writes="count")
def uncompilable(rng, state, data):
    state.count[0] += float(str(1))


@sm.kernel(writes="count")
def counting(rng, state, data):
    state.count[0] += 1.0


@pytest.mark.filterwarnings("ignore:kernel mu. data.y")  # one row is unlike the rest
@pytest.mark.parametrize("counter", [counting, uncompilable], ids=["compiled", "python"])
def test_an_exception_in_a_race_keeps_the_draws_before_it(counter):
    """The race it left in the middle must not be gone on with."""
    y = np.zeros(500)
    y[100] = 0.6
    model = sm.Model(raising, {"y": y, "most": 0.7}, {"mu": 0.0, "count": 0.0})
    kernel = counter >> sm.Metropolis("mu", 0.05, selector=sm.Racing(retreat=False), adapt=False)
    with pytest.raises(ValueError, match="too far") as caught:
        sm.sample(model, kernel, draws=20_000, warmup=0, chains=1, seed=1, progress=False, cores=1)
    kept = caught.value.trace.draws["count"][0]
    assert len(kept) > 0
    np.testing.assert_array_equal(kept, 1.0 + np.arange(len(kept)))
    assert any("chain 0, iteration" in note for note in caught.value.__notes__)


def bad_datum(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0]) ** 2


@pytest.mark.filterwarnings("ignore:kernel mu. data.y")  # one row is unlike the rest
def test_an_audit_finds_a_datum_that_no_race_has_read():
    y = np.zeros(20_000)
    y[777] = np.nan
    model = sm.Model(bad_datum, {"y": y}, {"mu": 0.0}, missing="allow")
    kernel = sm.Metropolis("mu", 5.0, selector=sm.Racing(retreat=False), adapt=False)
    with pytest.raises(sm.RewardError, match="datum 777"):
        sm.sample(model, kernel, draws=3, warmup=0, chains=1, seed=1, audit=1.0, progress=False)


def change(state, data, n):
    """Data from 7 on are impossible before the change, those below 3 after it."""
    late = n >= state.tau[0]
    if (n >= 7 and not late) or (n < 3 and late):
        return -np.inf
    return -0.5 * (data.y[n] - (1.0 if late else 0.0)) ** 2


@pytest.mark.plain
def test_cumulative_sums_take_impossible_values():
    y = np.random.default_rng(3).normal(0.5, 1.0, 10)
    draws = []
    for cumulative in (True, False):
        model = sm.Model(change, {"y": y}, {"tau": 5}, support={"tau": 11})
        one = walker(model, sm.Gibbs("tau", sm.Exact(), cumulative=cumulative))
        draws.append(one.advance(300).ints[:, 0])
        assert one.error is None, one.error
    np.testing.assert_array_equal(*draws)
    assert set(draws[0]) <= set(range(3, 8)) and len(set(draws[0])) > 2


def never(state, data, n):
    return -np.inf if n == 4 else 0.0


def test_cumulative_sums_say_when_nothing_is_possible():
    model = sm.Model(never, {"y": np.zeros(10)}, {"tau": 5}, support={"tau": 11})
    one = walker(model, sm.Gibbs("tau", cumulative=True))
    one.advance(1)
    # Datum 4 is impossible at all arms alike, which cumulative sums, being relative, cannot see.
    assert one.error is None or "every arm is impossible" in str(one.error)


def from_gamma(state, data, n):
    d = data.y[n] - state.c[0]
    return sm.log(d) - d if d > 0.0 else -np.inf


@pytest.mark.skipif(DISABLED, reason="100,000 data")
def test_a_race_that_met_an_impossible_state_does_not_blame_the_start(tmp_path, monkeypatch):
    """One datum of 100,000 rules the state out, and no batch read it."""
    model = sm.Model(from_gamma, {"y": 1.0 + np.random.default_rng(0).gamma(2.0, 1.0, 100_000)},
                     {"c": 0.9})  # fmt: skip
    kernel = sm.Metropolis("c", scale=0.02, adapt=False)
    with pytest.raises(sm.RewardError, match=r"a decision of Metropolis\('c'\) accepted a state"):
        sm.sample(model, kernel, 3_000, 0, chains=4, seed=1, progress=False)
    # Of chains one after another some have not begun; a warning of it would hide the error here.
    monkeypatch.setattr(parallel, "TURN_SECONDS", 3600.0)  # on a busy machine, too
    for more in ({}, {"store": tmp_path / "run.nc"}):
        with pytest.raises(sm.RewardError, match=r"a decision of Metropolis\('c'\) acc") as told:
            sm.sample(model, kernel, 3_000, 0, chains=4, seed=1, progress=False, cores=1, **more)
        assert 1 <= len(told.value.trace.made) < 4
    far = sm.Model(from_gamma, {"y": np.ones(50)}, {"c": 2.0})
    with pytest.raises(sm.RewardError, match="Start where likelihood and prior are positive"):
        sm.sample(far, kernel, 5, 0, chains=1, seed=1, progress=False)


@sm.kernel(writes="s")
def below_zero(rng, state, data):
    state.s[0] = -1.0


def of_s(state, data, n):
    return -state.s[0] * data.y[n]


def test_a_kernel_that_leaves_its_constraint_is_stopped():
    model = sm.Model(of_s, {"y": np.ones(3)}, {"s": 1.0}, constraints={"s": sm.positive})
    one = walker(model, below_zero)
    one.advance(1)
    assert "kernel below_zero" in str(one.error)


@sm.kernel(writes="s")
def into_another(rng, state, data):
    state.other[0] = 1.0


@compiled_only
def test_an_undeclared_write_is_refused_before_sampling():
    model = sm.Model(of_s, {"y": np.ones(3)}, {"s": 1.0, "other": 0.0})
    with pytest.raises(sm.CompileError, match="declares writes=\\('s',\\)"):
        Program(model, into_another >> sm.Metropolis("other"))


def in_scipy(state, data, n):
    import scipy.special

    return -float(scipy.special.gammaln(state.s[0]))


@compiled_only
def test_a_loop_in_python_is_checked_before_it_starts(tmp_path):
    model = sm.Model(in_scipy, {"y": np.ones(3)}, {"s": 1.0, "count": 0.0})
    path = tmp_path / "run.nc"
    with pytest.raises(sm.CompileError, match="in_scipy cannot be compiled"):
        sm.sample(
            model, uncompilable >> sm.Metropolis("s"), draws=5, chains=1, store=path,
            progress=False,
        )  # fmt: skip
    assert not path.exists()


def test_an_audit_leaves_uncorrected_kernels_alone():
    model = sm.Model(bad_datum, {"y": np.zeros(50)}, {"mu": 0.0})
    sgld = sm.Langevin("mu", step=1e-3, batch=10, correct=False)
    found = sm.audit(model, sm.Exact(), sgld >> sm.Metropolis("mu"), steps=100, seed=1)
    assert [row["guarantee"] for row in found.rows] == ["unadjusted", "exact"]


def clipped(state, data, n):
    eta = np.clip(state.b[0], -9.0, 9.0)  # which numba knows of arrays alone
    return data.y[n] * eta - sm.softplus(eta)


@compiled_only
@pytest.mark.parametrize("how", ["derivatives", "describe", "sample", "laplace"])
def test_whoever_compiles_first_shows_the_line(how):
    model = sm.Model(clipped, {"y": np.ones(50)}, {"b": [0.0]})
    kernel = sm.Metropolis("b", adapt=False, control=sm.Taylor({"b": [0.0]}))
    first = {
        "derivatives": lambda: sm.derivatives(model), "describe": lambda: kernel.describe(model),
        "sample": lambda: sm.sample(model, kernel, 3, 0, chains=1, seed=1, progress=False),
        "laplace": lambda: sm.laplace(model, progress=False),
    }[how]  # fmt: skip
    words = r"clipped cannot be compiled: [\s\S]*, line \d+: eta = np\.clip\(state\.b\[0\]"
    with pytest.raises(sm.CompileError, match=words):
        first()
