"""Components in order: every number by a plain twin, symmetric functions, refusals."""

import numpy as np
import pytest

import subsample_mcmc as sm
from tests.runs.views.test_arviz import trace_of

K, N = 3, 12
Y = np.repeat([-4.0, 0.0, 4.0], 4) + np.random.default_rng(0).normal(0.0, 0.3, N)


def log_likelihood(state, data, n):
    k = state.z[data.own[n]]
    r = (data.y[n] - state.mu[k] - state.b[k, 0] - data.x[n] * state.b[k, 1]) / state.sigma[0]
    return -0.5 * r * r - sm.log(state.sigma[0])


def log_prior(state):
    value = -state.sigma[0]
    for k in range(3):
        value -= 0.5 * (state.mu[k] / 5.0) ** 2 + 50.0 * (state.b[k, 0] ** 2 + state.b[k, 1] ** 2)
        value += sm.log(state.w[k])
    return value


def of_z(state, i):
    return sm.log(state.w[state.z[i]])


def made(**more):
    data = {"y": Y, "x": np.linspace(-1.0, 1.0, N), "own": np.arange(N)}
    state = {
        "mu": [0.1, 4.0, -4.0], "b": np.zeros((K, 2)), "w": np.full(K, 1.0 / K), "sigma": 1.0,
        "z": np.arange(N) % K, "three": np.zeros(3),
    }  # fmt: skip
    options = {
        "support": {"z": K}, "constraints": {"w": sm.simplex, "sigma": sm.positive},
        "touches": {"z": "own"}, "site_prior": {"z": of_z},
        "dims": {"mu": ["part"], "b": ["part", "column"], "w": ["part"]},
    }  # fmt: skip
    return sm.Model(log_likelihood, data, state, log_prior, **options | more)


@sm.kernel(writes=("mu", "b", "w", "sigma", "z", "three"))
def anywhere(rng, state, data):
    """Components that trade names all the time."""
    for k in range(3):
        state.mu[k], state.w[k] = rng.standard_normal(), 0.1 + rng.random()
        state.b[k, 0], state.b[k, 1] = rng.standard_normal(), rng.standard_normal()
        state.three[k] = rng.standard_normal()
    total = state.w[0] + state.w[1] + state.w[2]
    for k in range(3):
        state.w[k] /= total
    state.sigma[0] = 0.5 + rng.random()
    for i in range(len(state.z)):
        state.z[i] = int(3.0 * rng.random())


def drawn(model, **more):
    return sm.sample(model, anywhere, 30, 0, chains=2, seed=1, progress=False, **more)


@pytest.fixture(scope="module")
def model():
    return made()


@pytest.fixture(scope="module")
def trace(model):
    return drawn(model)


@pytest.mark.slow
@pytest.mark.plain
def test_all_that_components_have_moves_with_them(trace):
    done = trace.relabel("z", by="mu")
    for c in range(2):
        for d in range(30):
            order = np.argsort(trace.draws["mu"][c, d])
            for name in ("mu", "b", "w"):
                assert np.array_equal(done.draws[name][c, d], trace.draws[name][c, d][order])
            for i in range(N):
                assert order[done.draws["z"][c, d, i]] == trace.draws["z"][c, d, i]
    for name in ("sigma", "three"):
        assert np.array_equal(done.draws[name], trace.draws[name])
    assert done.stats["anywhere" if "anywhere" in done.stats else next(iter(done.stats))]
    assert np.array_equal(done.relabel("z", by="mu").draws["z"], done.draws["z"])
    assert done["mu"].dims == trace["mu"].dims and done.shape == trace.shape


@pytest.mark.filterwarnings("ignore:data have a label of their own")
def test_what_does_not_depend_on_names_is_as_it_was(model, trace):
    done = trace.relabel("z", by="mu", model=model)
    before, after = (
        t.to_arviz(log_likelihood=model)["log_likelihood"]["log_likelihood"].values
        for t in (trace, done)
    )
    np.testing.assert_allclose(after, before, rtol=1e-12)
    for t in (trace, done):  # the mean of each datum's component
        mu, z = t.draws["mu"], t.draws["z"]
        assert np.take_along_axis(mu, z, axis=2).sum() == pytest.approx(
            np.take_along_axis(trace.draws["mu"], trace.draws["z"], axis=2).sum()
        )
    wrong = trace.relabel(by="mu")  # labels were forgotten
    after = wrong.to_arviz(log_likelihood=model)["log_likelihood"]["log_likelihood"].values
    assert np.abs(after - before).max() > 1.0


def test_rows_are_sorted_by_a_column_and_thinned_blocks_follow(model, trace):
    done = trace.relabel("z", by=("b", 1))
    assert (np.diff(done.draws["b"][..., 1], axis=2) > 0.0).all()
    order = np.argsort(trace.draws["b"][..., 1], axis=2)
    assert np.array_equal(done.draws["mu"], np.take_along_axis(trace.draws["mu"], order, axis=2))
    kept = {"z": 7, "b": 4, "mu": True, "w": True}
    some = drawn(model, keep=kept).relabel("z", by="mu")
    whole = trace.relabel("z", by="mu")
    assert np.array_equal(some.thinned["z"], whole.draws["z"][:, ::7])
    assert np.array_equal(some.thinned["b"], whole.draws["b"][:, ::4])
    with pytest.raises(ValueError, match="only every 4th of its draws"):
        drawn(model, keep=kept).relabel("z", by=("b", 0))


def test_functions_of_the_state_that_were_kept_stay_and_are_named(model):
    kept = {"mu": True, "first": lambda state: state.mu[0]}
    some = drawn(model, keep=kept)
    with pytest.warns(UserWarning, match=r"were kept stay as they are: first\. What depends"):
        done = some.relabel(by="mu")
    assert np.array_equal(done.draws["first"], some.draws["first"])
    assert not np.array_equal(done.draws["first"], done.draws["mu"][..., 0])


def test_without_names_of_axes_one_is_asked(trace):
    plain = drawn(made(dims=None))
    with pytest.raises(ValueError, match=r"of the same 3 components: b, w, three\? Say so"):
        plain.relabel("z", by="mu")
    done = plain.relabel("z", by="mu", blocks=("b", "w"))
    wanted = trace.relabel("z", by="mu")
    for name in ("mu", "b", "w", "z", "three"):
        assert np.array_equal(done.draws[name], wanted.draws[name])
    alone = plain.relabel(by="mu", blocks=())
    assert np.array_equal(alone.draws["w"], plain.draws["w"])


def test_models_that_tell_components_apart_are_seen(model, trace):
    def tells(state):
        return log_prior(state) - 0.5 * (state.mu[0] - 4.0) ** 2

    other = sm.Model(log_likelihood, *model.given[1:3], tells, *model.given[4:11],
                     dims=model.given[12])  # fmt: skip
    with pytest.raises(ValueError, match="A prior tells components apart"):
        drawn(other).relabel("z", by="mu", model=other)
    with pytest.raises(ValueError, match="leave something of them out"):
        trace.relabel("z", by="mu", blocks=("w",), model=model)
    with pytest.raises(ValueError, match="leave something of them out"):
        trace.relabel(by="mu", model=model)


def test_sorted_runs_are_kept_and_not_gone_on_with(model, trace, tmp_path):
    done = trace.relabel("z", by="mu")
    done.save(tmp_path / "run.nc")
    back = sm.load(tmp_path / "run.nc")
    assert np.array_equal(back.draws["mu"], done.draws["mu"])
    with pytest.raises(ValueError, match="cut to one length, or relabelled"):
        sm.resume(tmp_path / "run.nc", model, anywhere, 60)


@pytest.mark.parametrize(("labels", "more", "error", "words"), [
    ("z", {"by": "mux"}, KeyError, "Did you mean 'mu'"),
    ("z", {"by": "sigma"}, ValueError, r"block 'sigma' has shape \(\)"),
    ("z", {"by": "b"}, ValueError, r"by=\('b', 0\) takes column 0"),
    ("q", {"by": "mu"}, KeyError, "'q' is no block"),
    ("sigma", {"by": "mu"}, ValueError, "must be whole numbers below 3"),
    ("w", {"by": "mu"}, ValueError, "must be whole numbers below 3"),
    ("z", {"by": "mu", "blocks": ["sigma"]}, ValueError, "blocks names 'sigma', whose shape is"),
])  # fmt: skip
def test_what_cannot_be_sorted(trace, labels, more, error, words):
    with pytest.raises(error, match=words):
        trace.relabel(labels, **more)


# ------------------------------------------------------------------------- axes that are not first
def flat(state, data, n):
    return 0.0 * data.y[n] * state.m[0]


@sm.kernel(writes=("m", "w", "P"))
def tied(rng, state, data):
    """Everything says which component it is of: w[f, k] = 10 f + m[k], P[i, j] = m[i] + 10 m[j]."""
    for k in range(3):
        state.m[k] = rng.standard_normal()
    for k in range(3):
        for f in range(2):
            state.w[f, k] = 10.0 * f + state.m[k]
        for j in range(3):
            state.P[k, j] = state.m[k] + 10.0 * state.m[j]


def tied_model(dims):
    state = {"m": np.zeros(3), "w": np.zeros((2, 3)), "P": np.zeros((3, 3))}
    return sm.Model(flat, {"y": np.zeros(4)}, state, dims=dims)


def still_tied(done):
    m, w, p = (done.draws[name] for name in "mwP")
    assert np.all(np.diff(m, axis=2) > 0.0)
    assert np.array_equal(w, 10.0 * np.arange(2)[:, None] + m[..., None, :])
    assert np.allclose(p, m[..., :, None] + 10.0 * m[..., None, :], rtol=0.0, atol=1e-12)


def test_components_are_found_along_any_axis():
    dims = {"m": ["part"], "w": ["feature", "part"], "P": ["part", "to"]}
    trace = sm.sample(tied_model(dims), tied, 20, 0, chains=2, seed=1, progress=False)
    with pytest.raises(ValueError, match=r"'P' has 3 entries along 'part' and along to: are these"):
        trace.relabel(by="m")  # who knows what `to` is of
    still_tied(trace.relabel(by="m", blocks={"w": 1, "P": (0, 1)}))
    plain = sm.sample(tied_model(None), tied, 20, 0, chains=2, seed=1, progress=False)
    with pytest.raises(ValueError, match=r"of the same 3 components: w, P\? Say so"):
        plain.relabel(by="m")
    still_tied(plain.relabel(by="m", blocks={"w": 1, "P": (0, 1)}))
    with pytest.raises(
        ValueError, match=r"blocks names 'w', whose shape is \(2, 3\): its axes \(0,\)"
    ):
        plain.relabel(by="m", blocks=("w",))
    only = {"m": ["part"], "w": ["feature", "part"], "P": ["from", "to"]}
    trace = sm.sample(tied_model(only), tied, 20, 0, chains=2, seed=1, progress=False)
    done = trace.relabel(by="m")
    assert np.array_equal(
        done.draws["w"], 10.0 * np.arange(2)[:, None] + done.draws["m"][..., None, :]
    )
    assert np.array_equal(done.draws["P"], trace.draws["P"])  # whose axes have other names


def test_draws_that_seldom_trade_names_are_asked():
    """Two normal means three sd apart trade names in 1.7% of draws, and in none of 20, maybe.

    Of a prior that tells them apart these are of no law; 12 of 20 such runs were sorted.
    """

    def apart(state):
        return -0.5 * state.m[0] ** 2 - 0.5 * (state.m[1] - 3.0) ** 2

    model = sm.Model(flat, {"y": np.zeros(4)}, {"m": np.array([0.0, 3.0])}, apart)
    rng = np.random.default_rng(5)
    for _ in range(10):
        m = rng.normal(size=(2, 100, 2)) + np.array([0.0, 3.0])
        assert 0 < np.sum(m[..., 0] > m[..., 1]) < 20
        trace = trace_of(model, {"m": m})
        with pytest.raises(ValueError, match="as components trade names"):
            trace.relabel(by="m", model=model)
    sorted_already = trace_of(model, {"m": np.sort(m, axis=2)})
    same = sorted_already.relabel(by="m", model=model)  # which changes nothing
    assert np.array_equal(same.draws["m"], sorted_already.draws["m"])
