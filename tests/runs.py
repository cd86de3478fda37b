"""One tiny model and its kernel, shared by the tests that run chains: compiled once."""

import json

import numpy as np

import subsample_mcmc as sm

N = 300
STEP = 0.3  # a global that the likelihood reads


def offset(k):
    return STEP * k


def log_likelihood(state, data, n):
    z = data.y[n] - state.theta[0] - state.theta[1] * data.x[n] - offset(state.k[0])
    return -0.5 * z * z


def log_prior(state):
    return -0.5 * (state.theta[0] * state.theta[0] + state.theta[1] * state.theta[1])


def data():
    rng = np.random.default_rng(20)
    x = rng.normal(size=N)
    return {"y": 0.5 + 0.2 * x + rng.normal(size=N), "x": x}


def model(**changes):
    given = {
        "log_likelihood": log_likelihood, "data": data(),
        "state": {"k": 1, "theta": np.array([0.2, 0.1])}, "log_prior": log_prior,
        "support": {"k": 3},
    }  # fmt: skip
    return sm.Model(**(given | changes))


def kernel(delta=0.05, scale=0.1):
    """Racing for the discrete block, an exact decision for the adapted one."""
    racing = sm.Racing(delta=delta, batch=16, retreat=False)
    return sm.Gibbs("k", racing) >> sm.Metropolis("theta", scale, selector=sm.Exact())


def run(draws=60, warmup=40, chains=2, seed=1, **more):
    """A run of the model, quiet unless told."""
    spec = {"model": model(), "kernel": kernel(), "progress": False} | more
    return sm.sample(draws=draws, warmup=warmup, chains=chains, seed=seed, **spec)


def same(a, b, head=None):
    """Are all draws and statistics of two traces equal, bit for bit; head: of the first draws."""
    for one, other in zip(a._arrays, b._arrays, strict=True):
        if head is not None:
            one, other = one[:, :head], other[:, :head]
        if one.shape != other.shape or one.tobytes() != other.tobytes():
            return False
    return a.layout == b.layout


def same_states(a, b):
    """Are the checkpoints of two traces equal, bit for bit."""
    for one, other in zip(a._checkpoints, b._checkpoints, strict=True):
        if one.keys() != other.keys():
            return False
        if any(one[k].tobytes() != other[k].tobytes() for k in one):
            return False
    return True


def plain(meta):
    """A header as it is after JSON."""
    return json.loads(json.dumps(meta))
