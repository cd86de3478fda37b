"""What would draw from another law without a word is refused: promises that do not hold."""

import numpy as np
import pandas as pd
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.proposals.own_gradient import check_gradient
from subsample_mcmc.kernels.sites.own_prior import pairs_of
from subsample_mcmc.numerics.jit import DISABLED


def sampled(model, kernel, draws=5, warmup=5, **more):
    return sm.sample(model, kernel, draws, warmup, chains=1, seed=1, progress=False, **more)


# --------------------------------------------------- a prior that one kernel has, and no other
Y = np.random.default_rng(0).normal(size=40)


def labelled(state, data, n):
    return -0.5 * (data.y[n] - state.z[n]) ** 2


def by_weight(state, data, site, arm):
    return sm.log(state.w[arm])


def alone(state, data, site, arm):
    return 0.3 * arm


def mixture_of(log_prior=None):
    return sm.Model(
        labelled, {"y": Y}, {"z": np.zeros(40, int), "w": [0.5, 0.5]}, log_prior,
        support={"z": 2}, constraints={"w": sm.simplex},
        touches={"z": (np.arange(41), np.arange(40))},
    )  # fmt: skip


def of_all(state):
    total = 0.0
    for i in range(40):
        total += sm.log(state.w[state.z[i]])
    return total


@pytest.mark.plain
def test_a_prior_that_other_kernels_would_leave_out_is_refused():
    """Without it w is drawn from its own prior alone: .50, where .77 is right."""
    kernel = sm.Gibbs("z", log_prior=by_weight) >> sm.Metropolis("w")
    with pytest.raises(ValueError, match=r"Metropolis\('w'\) moves 'w', on which it depends, with"):
        sampled(mixture_of(), kernel)
    assert sampled(mixture_of(of_all), kernel).shape == (1, 5)  # it is the model's, too
    apart = sm.Gibbs("z", log_prior=alone) >> sm.Metropolis("w")
    assert sampled(mixture_of(), apart).shape == (1, 5)  # of which w knows nothing
    ones = sm.mixture((sm.Gibbs("z", log_prior=alone), 0.5), (sm.Gibbs("z"), 0.5))
    with pytest.raises(ValueError, match=r"Gibbs\('z'\) moves 'z', without it"):
        sampled(mixture_of(), ones >> sm.Metropolis("w"))
    both = sm.Gibbs("z", log_prior=alone) >> sm.Gibbs("z", log_prior=alone, scan="random")
    assert sampled(mixture_of(), both >> sm.Metropolis("w")).shape == (1, 5)


def test_a_prior_whose_code_does_not_tell_is_asked():
    def helper(state, arm):
        return 0.3 * arm * state.z[0]

    def handed(state, data, site, arm):
        return helper(state, arm)

    def of_w(state, data, site, arm):
        return weigh(state, arm)

    def weigh(state, arm):
        return sm.log(state.w[arm])

    kernel = sm.Gibbs("z", log_prior=handed) >> sm.Metropolis("w")
    assert sampled(mixture_of(), kernel).shape == (1, 5)
    with pytest.raises(ValueError, match=r"moves 'w', on which it depends"):
        sampled(mixture_of(), sm.Gibbs("z", log_prior=of_w) >> sm.Metropolis("w"))


def test_all_values_of_few_sites_are_compared(rng):
    """And of many the first and the last value at either end."""
    sites, arms = pairs_of(3, 500, rng)
    assert {(s, a, b) for s, (a, b) in zip(sites.tolist(), arms.tolist(), strict=True)} >= {
        (s, a, a + 1) for s in range(3) for a in range(499)
    }
    sites, arms = pairs_of(300_000, 40, rng)
    ends = {(s, a) for s, (a, _) in zip(sites.tolist(), arms.tolist(), strict=True)}
    assert ends >= {(s, a) for s in (0, 299_999) for a in (0, 39)} and len(sites) < 200
    assert pairs_of(2, 1, rng)[1].max() == 0


def test_one_value_that_a_prior_forgets_is_found():
    def likelihood(state, data, n):
        return -1e-3 * (data.y[n] - 1e-3 * state.k[0]) ** 2

    def special(state):
        return 6.0 if state.k[0] == 0 else 0.0

    def nothing(state, data, site, arm):
        return 0.0

    model = sm.Model(likelihood, {"y": Y}, {"k": 250}, special, support={"k": 500})
    with pytest.raises(ValueError, match="log_prior rises by 0, and the model's log_prior by"):
        sampled(model, sm.Gibbs("k", log_prior=nothing))


# --------------------------------------------------------------- a value with a meaning of its own
@pytest.mark.skipif(DISABLED, reason="where nothing is compiled some data are asked")
@pytest.mark.parametrize("special", [0, 600, 2_999])
def test_a_value_of_its_own_is_no_cumulative_one(special):
    """Value 0 for no change: sums along the support never see it."""
    y = np.random.default_rng(1).normal(size=3_000)

    def likelihood(state, data, n):
        if state.k[0] == special:
            return -0.5 * (data.y[n] - 2.0) ** 2
        return -0.5 * (data.y[n] - (0.0 if n < state.k[0] else state.b[0])) ** 2

    model = sm.Model(likelihood, {"y": y}, {"k": 5, "b": 0.5}, support={"k": 3_000})
    kernel = sm.Gibbs("k", cumulative=True) >> sm.Metropolis("b")
    with pytest.raises(ValueError, match=r"cumulative=True\): (at value|going from value) \d+"):
        sampled(model, kernel)


@pytest.mark.skipif(DISABLED, reason="where nothing is compiled some data are asked")
@pytest.mark.parametrize("touches", [None, {"k": "series"}])
def test_nor_is_it_of_one_of_several_sites(touches):
    """In the second series 0 means that nothing changes; its data are those of odd numbers."""
    y = np.random.default_rng(1).normal(size=3_000)
    data = {"y": y, "series": np.arange(3_000) % 2}

    def likelihood(state, data, n):
        k = state.k[data.series[n]]
        shifted = n >= k and not (k == 0 and data.series[n] == 1)
        return -0.5 * (data.y[n] - (0.5 if shifted else 0.0)) ** 2

    model = sm.Model(likelihood, data, {"k": [5, 9]}, support={"k": 3_000}, touches=touches)
    with pytest.raises(
        ValueError, match=r"cumulative=True\): at value 1 of site 1 datum \d*[13579]"
    ):
        sampled(model, sm.Gibbs("k", cumulative=True))


def test_a_change_point_is_one():
    y = np.random.default_rng(1).normal(size=3_000)

    def likelihood(state, data, n):
        return -0.5 * (data.y[n] - (0.0 if n < state.k[0] else state.b[0])) ** 2

    model = sm.Model(likelihood, {"y": y}, {"k": 5, "b": 0.5}, support={"k": 3_000})
    kernel = sm.Gibbs("k", cumulative=True) >> sm.Metropolis("b")
    assert sampled(model, kernel).shape == (1, 5)


# ------------------------------------------------------------------------------------- others
def normal(state, data, n):
    return -0.5 * (data.y[n] - state.m[0]) ** 2


def test_a_surrogate_that_rules_out_what_is_possible_ends_the_chain():
    def bounded(state):
        return -0.5 * 40 * (state.m[0] - 0.2) ** 2 if state.m[0] > 0.1 else -np.inf

    model = sm.Model(normal, {"y": Y}, {"m": 0.5})
    kernel = sm.delayed(sm.Metropolis("m", scale=0.5, adapt=False), bounded)
    with pytest.raises(ValueError, match="must be finite wherever the posterior is positive"):
        sampled(model, kernel, 200, 0)


def test_a_surrogate_may_rule_out_what_the_likelihood_does():
    def ended(state, data, n):
        return -0.5 * (data.y[n] - state.m[0]) ** 2 if state.m[0] > 0.1 else -np.inf

    def bounded(state):
        return -0.5 * 40 * (state.m[0] - 0.2) ** 2 if state.m[0] > 0.1 else -np.inf

    kernel = sm.delayed(sm.Metropolis("m", scale=0.5, adapt=False), bounded)
    trace = sampled(sm.Model(ended, {"y": Y}, {"m": 0.5}), kernel, 300, 0)
    assert trace.draws["m"].min() > 0.1 and np.ptp(trace.draws["m"]) > 0.0


@pytest.mark.plain
def test_truth_values_are_no_block():
    with pytest.raises(TypeError, match=r"`~state.on\[0\]` is never 0.*support=\{'on': 2\}"):
        sm.Model(normal, {"y": Y}, {"m": 0.0, "on": True}, support={"on": 2})


def test_a_gradient_that_forgets_a_branch_of_few_data_is_found():
    y = np.random.default_rng(3).normal(size=5_000)

    def likelihood(state, data, n):
        z = data.y[n] - state.m[0]
        return -0.5 * z * z if data.y[n] < 2.0 else -2.0 * z * z

    def gradient(state, data, n, out):
        out[0] = data.y[n] - state.m[0]

    def right(state, data, n, out):
        out[0] = (data.y[n] - state.m[0]) * (1.0 if data.y[n] < 2.0 else 4.0)

    model = sm.Model(likelihood, {"y": y}, {"m": 0.1})
    assert abs(np.mean(y >= 2.0) - 0.023) < 0.01
    check_gradient(model, ("m",), right)
    with pytest.raises(ValueError, match="gradient says that the log likelihood of datum"):
        check_gradient(model, ("m",), gradient)


def test_right_gradients_at_kinks_and_of_large_counts_are_taken(rng):
    """Differences see the kink, and the rounding of log likelihoods of 10^7."""
    x = rng.integers(-5, 6, 4_000) * 1.0
    counts = rng.poisson(1e6, 4_000) * 1.0

    def hinge(state, data, n):
        return -max(0.0, data.x[n] - state.m[0])

    def of_hinge(state, data, n, out):
        out[0] = 1.0 if data.x[n] > state.m[0] else 0.0

    def poisson(state, data, n):
        return data.c[n] * state.m[0] - sm.exp(state.m[0])

    def of_poisson(state, data, n, out):
        out[0] = data.c[n] - np.exp(state.m[0])

    check_gradient(sm.Model(hinge, {"x": np.r_[0.5, x, 0.5, 0.5]}, {"m": 2.0}), ("m",), of_hinge)
    model = sm.Model(poisson, {"c": counts}, {"m": float(np.log(1e6))})
    check_gradient(model, ("m",), of_poisson)


def test_a_slab_without_a_density_is_refused(rng):
    x = rng.normal(size=(200, 3))

    def flat(state):
        total = 0.0
        for j in range(3):
            total += sm.log(0.3) if state.gamma[j] == 1 else sm.log(0.7)
        return total

    plain = sm.models.glm.gaussian(x, x[:, 0] + rng.normal(size=200))
    model = sm.Model(plain.predictors, plain.data, {"beta": np.zeros(3), "gamma": np.ones(3, int)},
                     flat, support={"gamma": 2})  # fmt: skip
    fit = sm.laplace(plain, progress=False)
    with pytest.raises(ValueError, match="a constant that nobody chose"):
        sampled(model, sm.SpikeAndSlab("beta", "gamma", fit))


# ----------------------------------------------------------------------- data in other orders
def line(state, data, n):
    return -0.5 * (data.y[n] - state.m[0] * data.x[n]) ** 2


@pytest.mark.parametrize("kind", ["pandas", "xarray"])
def test_columns_in_another_order_are_refused(kind, rng):
    import xarray

    x, order = rng.normal(size=50), rng.permutation(50)
    make = {
        "pandas": lambda v, ids: pd.Series(v, index=ids),
        "xarray": lambda v, ids: xarray.DataArray(v, dims="id", coords={"id": ids}),
    }[kind]
    one, same, other = make(x, np.arange(50)), make(x, np.arange(50)), make(x[order], order)
    sm.Model(line, {"x": one, "y": same}, {"m": 0.0})
    with pytest.raises(ValueError, match="the same rows in another order: align them"):
        sm.Model(line, {"x": one, "y": other}, {"m": 0.0})
    bare = xarray.DataArray(x, dims="id")
    sm.Model(line, {"x": bare, "y": other}, {"m": 0.0})  # it has no labels


# ------------------------------------------------------------------------------------- views
def test_log_likelihoods_of_models_with_touches_are_the_models():
    """What kernels read of the data is no part of the model."""
    group = np.arange(40) % 4

    def seen(state, data, n):
        return -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2

    def prior(state):
        total = -0.5 * state.mu[0] ** 2
        for j in range(4):
            total -= 0.5 * (state.a[j] - state.mu[0]) ** 2
        return total

    model = sm.Model(seen, {"y": Y, "group": group}, {"a": np.zeros(4), "mu": 0.0}, prior,
                     touches={"a": "group"})  # fmt: skip
    trace = sampled(model, sm.Metropolis("a") >> sm.Metropolis("mu"))
    values = trace.to_arviz(log_likelihood=model)["log_likelihood"]["log_likelihood"].values
    wanted = -0.5 * (Y - trace.draws["a"][:, :, group]) ** 2
    assert np.allclose(values, wanted, rtol=1e-12, atol=1e-12)


def test_chains_that_stand_at_values_of_their_own_are_told_of():
    @sm.kernel(writes="m")
    def stay(rng, state, data):
        """Leaves all as it is."""

    model = sm.Model(normal, {"y": Y}, {"m": 0.0})
    trace = sm.sample(model, stay, 120, 0, chains=3, seed=1, progress=False,
                      start=[{"m": v} for v in (0.0, 1.0, 2.0)])  # fmt: skip
    assert trace.mixing("m").rhat == np.inf
    assert any("chains stand at different values" in w for w in trace.report().warnings)
    one = sm.sample(model, stay, 120, 0, chains=3, seed=1, progress=False)
    assert any("One value may have all the mass" in w for w in one.report().warnings)


def test_starts_that_a_function_changes_are_its_own():
    @sm.kernel(writes="m")
    def stay(rng, state, data):
        """Leaves all as it is."""

    where = {"m": np.zeros(1)[0]}
    kept = {"m": np.zeros(())}

    def start(rng):
        kept["m"] += 1.0
        return kept

    trace = sm.sample(sm.Model(normal, {"y": Y}, where), stay, 3, 0, chains=3, start=start,
                      seed=1, progress=False)  # fmt: skip
    assert trace.draws["m"][:, 0].tolist() == [1.0, 2.0, 3.0]
