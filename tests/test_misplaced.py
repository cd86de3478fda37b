"""Arguments where a number belongs: a selector, say, second as in sm.Gibbs("k", sm.Exact())."""

import numpy as np
import pytest

import subsample_mcmc as sm

PROPOSED = sm.Metropolis("mu")


@pytest.mark.parametrize(("call", "told"), [
    (lambda: sm.Metropolis("mu", sm.Exact()), "scale=sm.Exact(...)): this is a selector. Give by "
     "name, selector=sm.Exact(...)."),
    (lambda: sm.Slice("mu", sm.Racing()), "width=sm.Racing(...)): this is a selector. Give by"),
    (lambda: sm.Langevin("mu", sm.Exact()), "step=sm.Exact(...)): this is a selector. Give by"),
    (lambda: sm.Metropolis("mu", sm.Bins("y")), "is a control. Give by name, control=sm.Bins("),
    (lambda: sm.WangLandau("k", sm.Exact()), "decay=sm.Exact(...)): this is a selector; give a nu"),
    (lambda: sm.WangLandau("k", "slow"), "sm.WangLandau(..., decay='slow'): give a number."),
    (lambda: sm.LilUCB("a"), "delta='a'): give a number."),
    (lambda: sm.interval("a", 1.0), "sm.interval(..., low='a'): give a number."),
    (lambda: sm.repeat(PROPOSED, "twice"), "times='twice': give how often, at least 1."),
    (lambda: sm.repeat(PROPOSED, 1.5), "times=1.5: give how often, at least 1."),
    (lambda: sm.mixture(PROPOSED, PROPOSED, weights=[1, 2]), "a kernel stands beside its weight"),
    (lambda: sm.delayed(PROPOSED), "sm.delayed(...) lacks surrogate."),
    (lambda: sm.side_by_side(PROPOSED, core=2), "'core'; here it is cores=2."),
])  # fmt: skip
def test_what_to_write_is_told(call, told):
    with pytest.raises((TypeError, ValueError)) as error:
        call()
    assert told in str(error.value)


def of_one(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0]) ** 2


def test_errors_of_users_functions_arrive_as_they_are():
    """Here a start that compares what cannot be: its own words."""
    model = sm.Model(of_one, {"y": np.arange(9.0)}, {"mu": 0.0})
    with pytest.raises(TypeError, match="between instances of 'float' and 'str'"):
        sm.sample(model, PROPOSED, start=lambda rng: {"mu": rng.random() > "a"}, progress=False)


@sm.kernel(writes="mu")
def odd(rng, state, data):
    if rng.random() < 0.2:
        state.mu[0] = float(str(rng.random()) > rng.random())


def test_what_is_there_is_not_lost():
    """An error of a step keeps its words and the draws before it, whatever else is odd."""
    model = sm.Model(of_one, {"y": np.arange(9.0)}, {"mu": 0.0})
    with pytest.raises(TypeError, match="between instances of 'str' and 'float'") as error:
        sm.sample(model, odd, draws=100, warmup=0, chains=1, seed=1, progress=None)
    assert error.value.trace.shape[1] < 100


def test_nothing_is_blamed_that_may_be_so():
    x, y = np.ones((9, 1)), np.arange(9.0)
    with pytest.raises((TypeError, ValueError)) as error:
        sm.models.glm.gaussian(x, y, sigma=None, start={"beta": None})
    assert "sigma" not in str(error.value)
    with pytest.raises((TypeError, ValueError)) as error:
        sm.MergeSplit(sm.GibbsPartition("y", lambda data, i, j: 0.0, selector=sm.Exact()), "often")
    assert "partition=" not in str(error.value)
