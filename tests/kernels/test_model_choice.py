"""Model choice with pseudo-priors: posterior probabilities that are known, whatever the Gaussians.

Carlin & Chib's draw must leave the joint law of model, parameters and data fixed for every
pseudo-prior; a bad one costs moves alone. The models are those of test_lengths.py, of 1, 2 and 4
parameters, with evidences in closed form. Every test cries wolf with probability 1e-6.
"""

import inspect
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.kernels import gibbs, pseudoprior
from tests.helpers import runs
from tests.helpers.claims import at_most
from tests.helpers.laws import ALARM, normalised, not_uniform
from tests.helpers.marks import slow_but
from tests.helpers.models import tally, walker
from tests.kernels.test_lengths import (
    HALF_LOG_2PI,
    LENGTHS,
    LINE,
    LOG_PRIOR,
    PAD,
    RATE,
    design,
    evidences,
    fixed,
    fresh,
    guesses,
    keeps_the_law,
    padded,
    probabilities,
    ranks,
    space,
    still,
)
from tests.runs.test_resume import under_way


def choice(fits, selector=None, transform=None, **more):
    pseudo = sm.PseudoPrior(fits, transform)
    return sm.Gibbs("q", selector or sm.Exact(), pseudo=pseudo, **more)


# ------------------------------------------------------------------ the joint law, whatever they ar
WRONG = {
    "as they are": {},
    "shifted": {"shift": 1.2},
    "inflated": {"wide": 2.5},
    "deflated": {"wide": 0.6},
}


@pytest.mark.parametrize("name", ["real", "log", "cuberoot", "interval"])
@pytest.mark.parametrize("wrong", slow_but(["as they are", "shifted"], WRONG))
def test_the_joint_law_is_kept(rng, name, wrong):
    """By draws of the model alone, which draw parameters of all models, and by walks besides."""
    model = space(name)
    fits = guesses(model, name, **WRONG[wrong])
    told, draws = keeps_the_law(model, choice(fits), rng, 60_000, least=0.02, label="q")
    assert told["decisions"] == told["steps"]
    assert len(np.unique(draws["theta"][:, 0])) > 30_000


@pytest.mark.parametrize("transform", ["log", "softplus", "squareroot", "cuberoot"])
def test_gaussians_in_other_coordinates(rng, transform):
    """Than the model's own; with square and cube roots many draws lie outside the support."""
    model = space("squareroot")
    fits = guesses(model, "squareroot", wide=2.5)
    told, _ = keeps_the_law(
        model, choice(fits, transform=transform), rng, 60_000, least=0.02, label="q"
    )
    outside = told["everything"] < told["decisions"] * 3 * 8
    assert outside == (transform in ("squareroot", "cuberoot"))


@pytest.mark.slow
def test_where_most_draws_are_outside(rng):
    """A Gaussian of square roots around nearly 0: models are often impossible, never wrongly so."""
    model = space("squareroot")
    fits = [replace(f, mean=f.mean - 0.75) for f in guesses(model, "squareroot", wide=2.0)]
    told, _ = keeps_the_law(model, choice(fits) >> fixed(), rng, 60_000, least=0.02, label="q")
    assert told["everything"] < 0.6 * told["decisions"] * 3 * 8


def everything(fits):
    """All moves of parameters, in any order, among draws of the model."""
    langevin = sm.Langevin("theta", 0.05, batch=3, selector=sm.Exact(), adapt=False)
    return sm.mixture(
        (choice(fits), 2.0), (fixed(), 1.0), (fixed(proposal=sm.independence(fits)), 1.0),
        (langevin, 1.0), (fixed(sm.Slice, 1.0), 0.5),
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["real", "softplus", "interval"])
def test_a_mixture_of_all_kernels(rng, name):
    model = space(name)
    kernel = everything(guesses(model, name, shift=0.5))
    keeps_the_law(model, kernel, rng, 40_000, times=12, least=0.05, label="q")


# ------------------------------------------------------------------------------------------- mutant
MUTANTS = {
    "no constant": ("+ own.levels[k]", ""),
    "no Jacobian": ("tools.tilt[k] + slope", "tools.tilt[k]"),
    "neither prior nor pseudo-prior": (
        "value + tools.tilt[k] + slope + 0.5 * square + own.levels[k]", "tools.tilt[k]",
    ),
    "no prior of the parameters": ("= value + tools", "= tools"),
    "its own parameters drawn anew": ("if k == current:\n", "if k < 0:\n"),
    "no density": ("+ 0.5 * square", ""),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_are_noticed(rng, mutant, monkeypatch):
    source, (old, new) = inspect.getsource(pseudoprior), MUTANTS[mutant]
    assert source.count(old) == 1
    scope = {"__name__": pseudoprior.__name__}
    exec(compile(source.replace(old, new), f"<{mutant}>", "exec"), scope)
    monkeypatch.setattr(gibbs, "choice_step", scope["choice_step"])
    model = space("cuberoot")
    kernel = choice(guesses(model, "cuberoot", shift=0.5)) >> fixed()
    one = walker(model, fresh >> sm.repeat(kernel, 4))
    made = one.advance(60_000)
    assert one.error is None
    not_uniform(ranks(RATE, one.program.layout.draws(made.ints, made.floats), rng))


# -------------------------------------------------------- one data set, and the fits one would take
def line_data(size=40, seed=3):
    """Data of the second model, of which none has a probability near 0."""
    x = design(size)
    return x[:, :2] @ [0.15, -0.25] + np.random.default_rng(seed).standard_normal(size)


def rate_data(size=40, seed=6):
    return np.random.default_rng(seed).exponential(size=size) * 1.3


def shares_agree(visits, p, alarm=ALARM):
    """Shares of visits of long chains (chains, draws) against probabilities, by batch means."""
    batches = np.array([[(part == k).mean() for k in range(3)]
                        for chain in visits for part in np.array_split(chain, 32)])  # fmt: skip
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
    far = stats.t.isf(alarm / 6, len(batches) - 1)
    assert np.all(np.abs(batches.mean(axis=0) - p) < far * error), (batches.mean(axis=0), p, error)
    return error


@pytest.fixture(scope="module", params=["real", "squareroot"])
def known(request):
    """A model with data, its posterior probabilities and its Laplace fits."""
    kind = LINE if request.param == "real" else RATE
    y = line_data() if kind == LINE else rate_data()
    model = padded(kind, None if kind == LINE else sm.positive(request.param), 40, y=y)
    fits = [sm.laplace(model, "theta", given={"q": k}, progress=False) for k in range(3)]
    return model, fits, probabilities(kind, y[None])[0]


def visits(model, kernel, draws=40_000, **more):
    one = walker(model, still >> kernel, **more)
    one.advance(500, warm=True)
    made = one.advance(draws)
    assert one.error is None, one.error
    return made.ints[:, model.variables["q"].block.start], tally(one, made.words, "q")


@pytest.mark.parametrize("wrong", ["right", "shifted", "inflated", "deflated", "elsewhere"])
def test_visits_are_the_posterior_probabilities(known, wrong):
    """However wrong the pseudo-priors are: only how often q moves depends on them."""
    model, fits, p = known
    assert p.min() > 0.02
    shift, wide = {"shifted": (1.0, 1.0), "inflated": (0.0, 4.0), "deflated": (0.0, 0.5)}.get(
        wrong, (0.0, 1.0)
    )
    own = [replace(f, mean=f.mean + shift * f.factor.sum(axis=1), covariance=wide * f.covariance,
                   factor=np.sqrt(wide) * f.factor) for f in fits]  # fmt: skip
    transform = None
    if wrong == "elsewhere":
        if model.data.kind == LINE:
            pytest.skip("real blocks have one set of coordinates")
        transform = "log"
    walk = fixed(proposal=sm.independence(fits))
    made, told = visits(model, choice(own, transform=transform) >> walk, seed=3)
    shares_agree(made.reshape(4, -1), p)
    moved = told["accepted"] / told["decisions"]
    assert moved > (0.25 if wrong in ("right", "elsewhere") else 0.02)


def test_fits_know_the_evidences(known):
    """Of regressions exactly: what the tests above rest on, and fits of given={"q": k} do."""
    model, fits, p = known
    y = model.floats[4:]
    logs = np.array([fit.log_evidence for fit in fits])
    if model.data.kind == LINE:
        expected = evidences(LINE, y[None])[0] + np.array(LOG_PRIOR) - 0.5 * y @ y
        assert logs == pytest.approx(expected, abs=1e-6)
    assert normalised(logs) == pytest.approx(p, abs=0.02)


def test_wang_landau_tilts_and_is_undone(known):
    model, fits, p = known
    kernel = still >> choice(fits) >> fixed(proposal=sm.independence(fits)) >> sm.WangLandau("q")
    spec = {"draws": 8000, "warmup": 4000, "chains": 4, "seed": 2, "progress": False}
    trace = sm.sample(model, kernel, **spec)
    found = trace.model_probabilities("q").table
    away = (found["probability"] - p) / found["probability_se"]
    assert np.abs(away).max() < stats.t.isf(ALARM / 6, 19)
    shares = np.bincount(trace.draws["q"].ravel(), minlength=3) / 32_000
    assert shares.min() > 0.25  # flat, where p is not


# --------------------------------------------------------------------------- races, and their error
SIZE = 2000


def tall_eta(state, data, n):
    m = LENGTHS[state.q[0]]
    value = 0.0
    for j in range(m):
        value += data.x[n, j] * state.theta[j]
    return value


def tall_factor(e, data, n):
    r = data.y[n] - e
    return -2.5 * sm.log1p(0.25 * r * r)  # Student, 4 degrees of freedom


def tall_derivatives(e, data, n):
    r = data.y[n] - e
    u = 4.0 + r * r
    return 5.0 * r / u, 5.0 * (r * r - 4.0) / (u * u), 10.0 * r * (r * r - 12.0) / (u * u * u)


EVEN = (0.0, 1.6, 8.8)  # makes the models about equally probable


def tall_prior(state):
    value = EVEN[state.q[0]]
    for j in range(LENGTHS[state.q[0]]):
        value -= 0.5 * state.theta[j] * state.theta[j] + HALF_LOG_2PI
    return value


def tall_model():
    x = design(SIZE)
    y = x[:, :2] @ [0.2, 0.06] + np.random.default_rng(9).standard_t(4, SIZE)
    return sm.Model(
        sm.Predictors(tall_eta, tall_factor, tall_derivatives), {"x": x, "y": y},
        {"q": 0, "theta": np.full(4, PAD)}, tall_prior, support={"q": 3},
        lengths={"theta": ("q", LENGTHS)},
    )  # fmt: skip


@pytest.fixture(scope="module")
def tall():
    model = tall_model()
    fits = [sm.laplace(model, "theta", given={"q": k}, progress=False) for k in range(3)]
    return model, fits, sm.Taylor(fits)


def race(delta=0.05):
    return sm.Racing(delta=delta, batch=32, retreat=False)


@sm.kernel(writes=("q", "theta"))
def restart(rng, state, data):
    """The same states for every chain of one seed, whatever was decided before."""
    q = int(3.0 * rng.random())
    state.q[0] = q
    for j in range(4):
        state.theta[j] = PAD
    for j in range(LENGTHS[q]):
        middle = (0.27 if q == 0 else 0.23) if j == 0 else (0.055 if j == 1 else 0.0)
        state.theta[j] = middle + 0.06 * (rng.random() - 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.1, 0.01])
def test_races_agree_with_exact_draws(tall, delta):
    """Under the same Gumbels and the same parameters of the others, but for a share delta."""
    model, fits, control = tall
    found = {}
    for name, selector, known in (
        ("exact", sm.Exact(), None), ("known", sm.Exact(), control),
        ("raced", race(delta), None), ("both", race(delta), control),
    ):  # fmt: skip
        kernel = restart >> choice(fits, selector, control=known)
        one = walker(model, kernel, 4, audit=1.0)
        made = one.advance(3000)
        assert one.error is None, one.error
        told = tally(one, made.words, "q")
        found[name] = made, told
        at_most(told["wrong"], told["audited"], delta)
    exact = found["exact"][0]
    assert len(np.unique(exact.ints[:, 0])) == 3
    assert np.array_equal(found["known"][0].floats, exact.floats)
    for name in ("raced", "both"):
        made, told = found[name]
        other = int((made.ints != exact.ints).any(axis=1).sum())
        assert other == told["wrong"]
        same = (made.ints == exact.ints).all(axis=1)
        assert np.array_equal(made.floats[same], exact.floats[same])
    assert found["raced"][1]["early"] > 100
    assert found["both"][1]["predicted"] > 1500
    assert found["both"][1]["pulls"] < 0.2 * found["raced"][1]["pulls"]


# ----------------------------------------------------------------------------- the same draws again
def complete(fits, control):
    """A kernel with everything that is new in it."""
    selector, local = race(0.05), sm.Langevin("theta", control=control, selector=race(0.05))
    walk = sm.Metropolis("theta", proposal=sm.independence(fits), control=control,
                         selector=selector)  # fmt: skip
    tilt = sm.WangLandau("q", start=[-fit.log_evidence for fit in fits])
    return choice(fits, selector, control=control) >> sm.mixture((walk, 0.5), (local, 0.5)) >> tilt


@pytest.fixture(scope="module")
def spec(tall):
    model, fits, control = tall
    return {"model": model, "kernel": complete(fits, control), "draws": 60, "warmup": 40,
            "audit": 0.2}  # fmt: skip


@pytest.mark.slow
def test_stopped_runs_are_completed_bit_for_bit(spec, tmp_path, monkeypatch, rng):
    data, header = under_way(tmp_path / "whole", monkeypatch, **spec)
    whole = runs.run(**spec)
    told = whole.stats["q"]
    assert told["predicted"].sum() > 50 and np.abs(np.diff(whole.draws["q"])).sum() > 5
    assert runs.same(runs.run(**spec, cores=1), runs.run(**spec, cores=2))
    again = {"model": spec["model"], "kernel": spec["kernel"]}
    for i, cut in enumerate([header, *rng.integers(header, len(data), 4)]):
        path = tmp_path / f"{i}.nc"
        path.write_bytes(data[:cut])
        found = runs.resumed(path, cores=1 + i % 2, **again)
        assert runs.same(found, whole) and runs.same_states(found, whole)
    found = runs.resumed(path, 90, **again)
    assert runs.same(found, runs.run(**(spec | {"draws": 90})))


@pytest.mark.slow
def test_what_is_pickled_draws_the_same(spec):
    whole = runs.run(**spec)
    model, kernel = pickle.loads(pickle.dumps((spec["model"], spec["kernel"])))
    assert runs.same(runs.run(**(spec | {"model": model, "kernel": kernel})), whole)
    apart = pickle.loads(pickle.dumps(spec["kernel"]))
    assert runs.same(runs.run(**(spec | {"kernel": apart})), whole)


@pytest.mark.slow
def test_other_pseudo_priors_are_another_run(spec, tall, tmp_path):
    model, fits, control = tall
    path = tmp_path / "run.nc"
    runs.run(**spec, store=path)
    other = [*fits[:2], replace(fits[2], mean=fits[2].mean + 1e-12)]
    rest = complete(fits, control).parts[1:]
    for kernel in (
        choice(other, race(0.05), control=control), choice(fits, race(0.06), control=control)
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"cannot be resumed: .*kernel q"):
            runs.resumed(path, 90, model=model, kernel=sm.cycle(kernel, *rest))


@sm.kernel(writes=("theta", "y", "kind"))
def beside(rng, state, data):
    """For chains that only draw the model."""


def test_starts_with_other_values_where_nothing_is(known, tmp_path):
    """A start may give the whole padded block: a resumed run is still the same run."""
    model, fits, _ = known
    theta = np.full(4, 2.0 * PAD)
    kernel = sm.Gibbs("q", sm.Exact(), pseudo=sm.PseudoPrior(fits)) >> beside
    given = {"warmup": 0, "chains": 1, "seed": 1, "start": [{"theta": theta}], "progress": False}
    whole = sm.sample(model, kernel, 200, **given)
    sm.sample(model, kernel, 50, store=tmp_path / "run.nc", **given)
    found = sm.resume(tmp_path / "run.nc", model, kernel, draws=200, progress=False)
    assert len(np.unique(whole.draws["q"])) == 3
    assert np.array_equal(whole.draws["q"], found.draws["q"])
    assert np.array_equal(whole.draws["theta"], found.draws["theta"])


SCRIPT = """
import subsample_mcmc as sm
from tests.helpers import runs
from tests.kernels.test_model_choice import complete, tall_model

if __name__ == "__main__":
    model = tall_model()
    fits = [sm.laplace(model, "theta", given={"q": k}, progress=False) for k in range(3)]
    kernel = complete(fits, sm.Taylor(fits))
    more = {"draws": 30, "warmup": 20, "chains": 2, "seed": 3, "progress": False}
    here = sm.sample(model, kernel, **more)
    there = sm.sample(model, kernel, **more, parallel="loky", cores=2)
    assert runs.same(here, there)
    print("equal")
"""


@pytest.mark.slow
def test_workers_draw_the_same(tmp_path):
    pytest.importorskip("joblib")
    done = runs.run_script(tmp_path, SCRIPT)
    assert done.returncode == 0 and done.stdout == "equal\n", done.stdout + done.stderr


# ------------------------------------------------------------------------------------------ refusal
def test_refusals(known):
    model, fits, _ = known
    with pytest.raises(TypeError, match=r"pseudo=\[.*give sm.PseudoPrior"):
        sm.Gibbs("q", pseudo=fits)
    for given in ([], 3, [1, 2]):
        with pytest.raises(TypeError, match="give a list of fits"):
            sm.PseudoPrior(given)
    with pytest.raises(ValueError, match="transform='square'"):
        sm.PseudoPrior(fits, "square")
    for name, value in (
        ("cumulative", True), ("log_prior", lambda state, data, site, arm: 0.0),
        ("temperature", 2.0),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=f"pseudo goes with neither .*{name}"):
            choice(fits, **{name: value})
    with pytest.raises(ValueError, match="3 lengths"):
        choice(fits[:2]).check(model)
    with pytest.raises(ValueError, match=r"fit 0 of PseudoPrior was made at q=2"):
        choice(fits[::-1]).check(model)
    other = space("log")
    with pytest.raises(ValueError, match=r"fit 0 of PseudoPrior is of another model"):
        choice(fits).check(other)
    with pytest.raises(ValueError, match=r"must be one block whose length goes with 'kind'"):
        sm.Gibbs("kind", pseudo=sm.PseudoPrior(fits)).check(model)
    if model.data.kind == LINE:
        with pytest.raises(ValueError, match=r"transform='log': block 'theta' is not sm.positive"):
            choice(fits, transform="log").check(model)


def test_touches_do_not_go_with_pseudo_priors():
    """Of parameters that are drawn, too, all data depend: a table for q alone would mislead."""
    touches = {"q": (np.array([0, 6]), np.arange(2, 8))}
    model = padded(RATE, sm.positive, 8, y=rate_data(8), touches=touches)
    fits = guesses(model, "log")
    with pytest.raises(ValueError, match="touches"):
        choice(fits).check(model)


def test_what_describe_says(known):
    model, fits, _ = known
    kernel = choice(fits, sm.Racing())
    told = kernel.facts(model)
    assert told["writes"] == ["q", "theta"] and told["arms"] == 3
    assert told["guarantee"] == "asymptotic"
    assert "moves q, theta" in kernel.describe(model)
    assert kernel.describe(model).count("pseudo-priors") == 1
