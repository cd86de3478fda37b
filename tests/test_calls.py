"""Calls that do not fit: each says what to write. Signatures, docstrings and pickles stay."""

import inspect
import pickle
import pydoc
import warnings
from collections import deque

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
        (lambda: sm.identify(both, 3, sm.bandits.LUCB), "selector=LUCB is a class: make one"),
        (lambda: sm.bandits.LILStopping(sm.bandits.UCB1), "strategy=UCB1 is a class: make one"),
        (lambda: sm.bandits.LILStopping(sm.Racing()), "strategy=Racing("),
        (lambda: sm.Experiment(sm.bandits.LUCB, 3), "selector=LUCB is a class: make one"),
        (lambda: sm.Experiment.load("no.npz", sm.LilUCB), "selector=LilUCB is a class: make one"),
        (lambda: sm.identify(lambda d, a, rng: 0.0, 3, lambda data: sm.LilUCB, data=()),
         "selector(data)=LilUCB is a class: make one"),
        (lambda: sm.identify(Y, 3, sm.LilUCB()), "give a function, pull(arm, rng) -> float"),
        (lambda: sm.sample(M, WALK >> PICK, start=3), "start=3: give a list of states"),
        (lambda: sm.Model(both, {"y": None}, {"mu": 0.0}), "data y is None: give an array"),
        (lambda: M.without(row=3), "Model.without(..., row=3)"),
        (M.without, "Model.without(...) lacks rows. It takes rows."),
    ],
)  # fmt: skip
def test_what_to_write_instead(call, words):
    told(call, words)


TRACE = sm.sample(M, WALK >> PICK, 5, 5, chains=2, seed=1, progress=False)
FIT = sm.laplace(sm.Model(lambda s, d, n: -((d.y[n] - s.mu[0]) ** 2), {"y": Y}, {"mu": 0.0}))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: TRACE.summary(var_names=["mu"]), "no argument 'var_names'. Did you mean names?"),
        (lambda: TRACE.summary(3), "Trace.summary(..., names=3): 'int' object is not iterable. "
         "names: of blocks; default all but labels of clusters, which are only names."),
        (lambda: TRACE.save(None), "path: of the file."),
        (lambda: FIT.draw(100), "Fit.draw(..., rng=100): 'int' object has no attribute"),
        (lambda: FIT.draw(100), "rng: a numpy Generator."),
        (lambda: sm.Model(both, {"y": Y}, {"mu": 0.0}, support=3), 'support: {"k": 10}: block k '
         "takes the values 0 .. 9. Every discrete block needs one."),
        (lambda: sm.sample(M, WALK >> PICK, warmup=[9]), "warmup=[9]): give a number."),
        (lambda: sm.sample(M, WALK >> PICK, warmup=None), "warmup=None): give a number."),
        (lambda: sm.Gibbs("k", temperature="hot"), "temperature: a number, or an array by"),
        (lambda: sm.Racing(batch="all"), "batch='all'): give a number."),
        (lambda: sm.interval("0", "1"), "sm.interval(..., low='0'): give a number."),
        (lambda: sm.kfold(M, 5), "kernel=5): give how its blocks move, such as"),
        (lambda: sm.Population(both, None, 3), "data=None): give a dict of arrays, such as"),
        (lambda: sm.models.glm.weibull(Y[:, None], np.exp(Y), event="died"), "event: 1 where it"),
    ],
)  # fmt: skip
def test_errors_of_python_and_numpy_say_what_to_give(call, words):
    told(call, words)


@pytest.mark.parametrize("call", [TRACE.mixing, lambda name: TRACE.learnt(name, "tilt")])
def test_names_that_are_none_are_told_of(call):
    with pytest.raises(KeyError, match="'zz' is no"):
        call("zz")


def test_who_is_to_blame_is_not_guessed():
    """Python's own words where arguments fit, two may be meant, or a user's function erred."""
    found = {"__name__": "numpy"}
    text = "def sum_of(left, right, times=1):\n    return (left + right) * times"
    exec(compile(text, "<sums>", "exec"), found)  # as code of a library
    sum_of = calls.helpful(found["sum_of"])
    told(lambda: sum_of(1, 2, times=None), "times=None): give a number.")
    with pytest.raises(TypeError, match=r"^unsupported operand type"):
        sum_of(None, None)
    with pytest.raises(TypeError, match=r"^can't multiply sequence by non-int of type 'float'$"):
        sum_of([1], [2], times=2.0)

    def broken(rng):
        return {"mu": len(3)}

    with pytest.raises(TypeError, match=r"^object of type 'int' has no len\(\)$"):
        sm.sample(M, WALK >> PICK, start=broken)


def test_whose_code_it_was():
    ours = calls.HOME + "runs/trace.py"
    for file in (np.__file__, inspect.__file__, ours, "<frozen importlib._bootstrap>"):
        assert calls.is_library(file, "__main__"), file
    site = np.__file__.partition("numpy")[0]
    for file in (__file__, site + "mine/model.py", site + "mine.py", "numpy/x.py", "<stdin>"):
        assert not calls.is_library(file, "__main__"), file
    assert calls.is_library("<string>", "subsample_mcmc.kernels.gibbs")  # of a dataclass
    assert calls.is_library("<__array_function__ internals>", "numpy")


TYPED = """
def misspelt(values):
    return values.meen()

def of_text(rng):
    return {"mu": int("y")}

def of_a_wrong_name(rng):
    return {"mu": rng.foo()}
"""


@pytest.mark.parametrize("file", ["<stdin>", "<ipython-input-1>", "a_script.py"])
def test_errors_of_users_functions_are_not_blamed_on_arguments(file):
    """Each has the type, or the text, of an argument that was given, too, and is lawful."""
    found = {"__name__": "__main__"}
    exec(compile(TYPED, file, "exec"), found)
    model = sm.Model(
        lambda s, d, n: -0.5 * (d.y[n] - s.mu[0]) ** 2, {"y": Y}, {"mu": 0.0},
        simulate=lambda rng, s, d, n: s.mu[0] + rng.normal(),
    )  # fmt: skip
    trace = sm.sample(model, WALK, 5, 5, chains=1, seed=1, progress=False)
    with pytest.raises(AttributeError, match=r"^'numpy.ndarray' object has no attribute 'meen'$"):
        sm.predict(model, trace, observed=Y, statistics={"m": found["misspelt"]}, progress=False)
    rng = np.random.default_rng(1)
    with pytest.raises(AttributeError, match=r"Generator' object has no attribute 'foo'$"):
        sm.sample(model, WALK, 5, seed=rng, start=found["of_a_wrong_name"], progress=False)
    with pytest.raises(ValueError, match=r"^invalid literal for int\(\) with base 10: 'y'$"):
        sm.sample(model, WALK, 5, store="y", start=found["of_text"], progress=False)


def test_words_of_this_package_stay():
    """Though they end as Python's do, and name the type of an argument."""
    found = {"__name__": "subsample_mcmc.runs"}
    text = 'def check(state):\n    raise TypeError("state must be a dict, not list")'
    exec(compile(text, calls.HOME + "runs/none.py", "exec"), found)
    calls.linecache.cache[calls.HOME + "runs/none.py"] = (1, None, text.splitlines(True), "")
    try:
        with pytest.raises(TypeError, match=r"^state must be a dict, not list$"):
            calls.helpful(found["check"])([1.0])
    finally:
        del calls.linecache.cache[calls.HOME + "runs/none.py"]


def test_what_the_user_called_is_told_of_with_its_cause():
    """Not the method that it calls; Python's error is behind it, and so are notes."""
    for call, words in (
        (lambda: sm.sample(M, WALK >> PICK, chains=2, start=[0.0, 1.0]), "give a list of states"),
        (lambda: sm.sample(M, WALK >> PICK, start=lambda rng: 0.5), "give a list of states"),
        (lambda: FIT.draw(100), "Fit.draw(..., rng=100)"),
    ):
        assert "set_state" not in told(call, words)
    with pytest.raises(TypeError) as caught:
        FIT.draw(100)
    assert isinstance(caught.value.__cause__, AttributeError)
    pytest.importorskip("matplotlib")
    said = sm.predict(M, TRACE, lambda rng, s, d, n: s.mu[0] + rng.normal(), progress=False)
    assert "draw_values" not in told(lambda: said.plot(3), "Predictions.plot(..., axes=3)")


def test_starts_may_stand_in_any_container():
    states = [{"mu": 0.1, "k": 1}, {"mu": 0.2, "k": 2}]
    for given in (states, tuple(states), deque(states), dict(enumerate(states)).values()):
        trace = sm.sample(M, WALK >> PICK, 1, 5, chains=2, start=given, seed=1, progress=False)
        assert [one["k"] for one in trace.meta["start"]] == [1, 2]


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
