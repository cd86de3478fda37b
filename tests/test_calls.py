"""Calls that do not fit: each says what to write. Signatures, docstrings and pickles stay."""

import inspect
import pickle
import pydoc
import warnings

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc import calls

Y = np.random.default_rng(1).normal(0.5, 1.0, 300)


def both(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] - state.k[0]) ** 2


M = sm.Model(both, {"y": Y}, {"mu": 0.0, "k": 0}, support={"k": 3})
WALK, PICK = sm.Metropolis("mu"), sm.Gibbs("k")
OTHERS = {
    "tune": "warmup", "random_seed": "seed", "n_samples": "draws", "num_samples": "draws",
    "num_warmup": "warmup", "nchains": "chains", "n_jobs": "cores", "progressbar": "progress",
    "thinning": "thin", "initvals": "start", "burn_in": "warmup", "step": "kernel",
}  # fmt: skip


def told(call, *words):
    with pytest.raises(TypeError) as caught:
        call()
    for word in words:
        assert word in str(caught.value), f"{word!r} is not said in: {caught.value}"
    return str(caught.value)


@pytest.mark.parametrize("key", OTHERS)
def test_arguments_by_the_names_of_other_libraries(key):
    given = (M, WALK >> PICK) if key != "step" else (M,)
    head = f"sm.sample(..., {key}=9): there is no argument {key!r}; here it is {OTHERS[key]}=9."
    told(lambda: sm.sample(*given, **{key: 9}), head)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: sm.resume("run.nc", M), "lacks kernel, how its blocks move, such as "
         "sm.Metropolis('mu') >> sm.Gibbs('k')"),
        (lambda: sm.sample(M, WALK >> PICK, warmpu=3), "Did you mean warmup=3?"),
        (lambda: sm.sample(M, WALK, foo=2), "no argument 'foo'. It takes model"),
        (lambda: sm.sample(M, WALK, delta=0.1), "sm.Gibbs('k', sm.Racing(delta=0.01))"),
        (lambda: sm.sample(M, WALK, target_accept=0.9), "rates of their own; leave it out"),
        (lambda: sm.sample(M, WALK, model=M), "given model twice"),
        (lambda: sm.sample(M, *[WALK] * 15), "given 16 arguments by position, and has 15"),
        (lambda: sm.sample(WALK, M), "in the place of this kernel: sm.sample(model, kernel)"),
        (lambda: sm.sample(M, [WALK, PICK]), "(k1, k2): Metropolis('mu') >> Gibbs('k')"),
        (lambda: sm.sample(M, (WALK, PICK)), "combine several with k1 >> k2"),
        (lambda: sm.sample(M, {"mu": WALK}), "combine several with k1 >> k2"),
        (lambda: sm.sample(M, sm.Gibbs), "is a class: make one for a block, sm.Gibbs('mu')"),
        (lambda: sm.sample(M, "k"), "it is no kernel; give one such as sm.Gibbs('k')"),
        (lambda: sm.sample(M, "nuts"), "give one such as sm.Metropolis('mu') >> sm.Gibbs('k')"),
        (lambda: sm.sample(M, sm.Exact()), "a selector decides for one: sm.Gibbs('k', Exact())"),
        (lambda: sm.sample(M, both), "@sm.kernel(writes='mu')"),
        (lambda: sm.sample(M, M), "sm.sample(model, sm.Metropolis('mu') >> sm.Gibbs('k'))"),
        (lambda: sm.sample(both, WALK), "give an sm.Model, sm.Model(both, data, state)"),
        (lambda: sm.sample(sm.Model, WALK), "this is the class; make one"),
        (sm.laplace, "sm.laplace(...) lacks model, an sm.Model."),
        (lambda: sm.laplace(WALK), "in the place of this kernel: sm.laplace(model)"),
        (lambda: sm.laplace(M, tol=1e-3), "here it is tolerance=0.001"),
        (lambda: sm.plan(WALK, M), "give an sm.Model in the place of this kernel: sm.plan("),
        (lambda: sm.plan(M, [WALK, PICK]), "combine several with k1 >> k2"),
        (lambda: sm.audit(M, WALK), "A kernel comes after it."),
        (lambda: sm.Model(both, {"y": Y}, {"mu": 0.0}, suport={"k": 3}), "Did you mean support?"),
        (lambda: sm.Model(both, {"y": Y}), "lacks state, a dict of named blocks with initial"),
        (lambda: sm.Model(loglik=both, data={"y": Y}, state={}), "here it is log_likelihood."),
        (lambda: sm.Metropolis("mu", step_size=0.1), "here it is scale=0.1"),
        (lambda: sm.Metropolis("mu", scael=0.1), "Did you mean scale=0.1?"),
        (lambda: sm.Metropolis("mu", delta=0.1), "selector=sm.Racing(delta=0.01)"),
        (sm.Gibbs, "lacks block, the name of a block"),
        (lambda: sm.Racing(Delta=0.1), "Did you mean delta=0.1?"),
        (lambda: sm.Exact(delta=0.1), "no argument 'delta'. It takes no arguments."),
        (lambda: sm.models.glm.logistic(Y[:, None], prior=1.0), "sm.models.glm.logistic(..., pr"),
        (lambda: sm.bandits.UCB1(foo=1), "sm.bandits.UCB1(..., foo=1)"),
        (lambda: sm.identify(both, n_arms=3), "here it is arms=3"),
    ],
)  # fmt: skip
def test_what_to_write_instead(call, words):
    told(call, words)


def test_errors_from_within_are_left_alone():
    def broken(state, data, n):
        return None + 1

    text = told(lambda: sm.Model(broken, {"y": Y}, {"mu": 0.0}))
    assert "It takes" not in text and "NoneType" in text


def test_signatures_docstrings_and_pickles_stay():
    assert list(inspect.signature(sm.sample).parameters)[:3] == ["model", "kernel", "draws"]
    assert inspect.signature(sm.sample).parameters["warmup"].default == 1000
    assert list(inspect.signature(sm.Metropolis).parameters)[:2] == ["block", "scale"]
    assert "self" not in inspect.signature(sm.Model).parameters
    assert "warmup: int = 1000" in pydoc.render_doc(sm.sample)
    assert "missing='refuse'" in pydoc.render_doc(sm.Model)
    for made in (sm.sample, sm.laplace, sm.Metropolis, sm.models.glm.logistic):
        assert pickle.loads(pickle.dumps(made)) is made
    assert pickle.loads(pickle.dumps(WALK)).block == "mu"
    assert calls.helpful(sm.Metropolis).__init__ is sm.Metropolis.__init__  # once


def test_warnings_point_at_the_users_line():
    here = {"y": (Y + 1e6).astype(np.float32)}

    def quiet(state, data, n):
        return -((data.y[n] - state.mu[0]) ** 2)

    for call in (
        lambda: sm.Model(quiet, here, {"mu": 1e6}),
        lambda: sm.sample(M, WALK >> PICK, draws=1, warmup=0, chains=1, progress=False),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        assert caught[0].filename == __file__
