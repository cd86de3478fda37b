"""Gibbs(log_prior=...) is the model's prior, or it is refused."""

import numpy as np
import pytest

import subsample_mcmc as sm

SITES = 6
Y = np.random.default_rng(3).standard_normal(SITES)
TOUCHES = {"z": (np.arange(SITES + 1), np.arange(SITES))}


def log_likelihood(state, data, n):
    return -0.5 * (data.y[n] - 1.0 * state.z[n]) ** 2


def chain_prior(state):
    """Neighbours like to be equal; by how much, is a parameter that starts at 0."""
    total = -0.5 * state.j[0] * state.j[0]
    for i in range(len(state.z) - 1):
        if state.z[i] == state.z[i + 1]:
            total += state.j[0]
    return total


def neighbours(state, data, site, arm):
    total = 0.0
    if site > 0 and state.z[site - 1] == arm:
        total += state.j[0]
    if site < len(state.z) - 1 and state.z[site + 1] == arm:
        total += state.j[0]
    return total


def twice(state, data, site, arm):
    return 2.0 * neighbours(state, data, site, arm)


def one_side(state, data, site, arm):
    return state.j[0] if site > 0 and state.z[site - 1] == arm else 0.0


def by_the_value_now(state, data, site, arm):
    """Of the state's own value, which is not the one that is asked for."""
    return neighbours(state, data, site, state.z[site])


def with_a_constant(state, data, site, arm):
    return 7.0 + neighbours(state, data, site, arm)


def nothing(state, data, site, arm):
    return 0.0


def impossible_at_one(state, data, site, arm):
    return -np.inf if arm == 1 else neighbours(state, data, site, arm)


def made(log_prior=chain_prior, touches=TOUCHES, **more):
    return sm.Model(
        log_likelihood, {"y": Y}, {"z": np.zeros(SITES, dtype=int), "j": 0.0}, log_prior,
        support={"z": 3}, touches=touches, **more,
    )  # fmt: skip


@pytest.mark.plain
@pytest.mark.parametrize("touches", [TOUCHES, None])
@pytest.mark.parametrize("own", [neighbours, with_a_constant])
def test_the_prior_itself_is_taken(own, touches):
    sm.Gibbs("z", sm.Exact(), log_prior=own).check(made(touches=touches))


@pytest.mark.plain
@pytest.mark.parametrize("own", [twice, one_side, by_the_value_now, nothing, impossible_at_one])
def test_another_prior_is_refused(own):
    """The coupling is 0 in the initial state, where four of the five are right."""
    kernel = sm.Gibbs("z", log_prior=own)
    with pytest.raises(ValueError, match=r"Gibbs\('z'\): from \d to \d at site \d log_prior rises"):
        sm.sample(made(), kernel, draws=1, warmup=0, chains=1, progress=False)


def test_a_prior_of_the_kernel_alone_is_taken():
    """The model says nothing of the block: its part is the kernel's."""

    def of_j(state):
        return -0.5 * state.j[0] ** 2

    for log_prior in (None, of_j):
        sm.Gibbs("z", log_prior=neighbours).check(made(log_prior))


def test_sites_with_priors_in_the_model_are_compared():
    def of_site(state, site):
        return -0.3 * site * state.z[site]

    def of_z(state, data, site, arm):
        return -0.3 * site * arm

    model = made(None, site_prior={"z": of_site})
    sm.Gibbs("z", log_prior=of_z).check(model)
    with pytest.raises(ValueError, match="log_prior rises by 0, and the model's log_prior by"):
        sm.Gibbs("z", log_prior=nothing).check(model)


def test_of_many_sites_a_few_are_asked():
    """As many as cost a second at most: a coupling of the wrong sign is everywhere."""
    size = 200_000
    model = sm.Model(
        log_likelihood, {"y": np.zeros(size)}, {"z": np.zeros(size, dtype=int), "j": 0.4},
        chain_prior, support={"z": 3}, touches={"z": (np.arange(size + 1), np.arange(size))},
    )  # fmt: skip
    sm.Gibbs("z", log_prior=neighbours).check(model)
    with pytest.raises(ValueError, match="Correct one of them"):
        sm.Gibbs("z", log_prior=twice).check(model)
