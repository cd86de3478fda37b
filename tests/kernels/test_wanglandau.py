"""Wang-Landau: flat visits, frozen tilts, and posterior probabilities that undo them.

Claims about probabilities have a false alarm of 1e-6 each, shared among all values.
"""

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.kernels import wanglandau
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.runs.views.probabilities import (
    ModelProbabilities,
    estimate,
    jackknife,
    multistate,
)
from tests.helpers import runs
from tests.helpers.claims import at_least, at_most
from tests.helpers.laws import normalised
from tests.helpers.models import walker
from tests.runs.test_resume import under_way
from tests.runs.test_trace import made

VALUES, N, ALARM = 6, 40, 1e-6
FAR = stats.t.isf(ALARM / (2 * VALUES), 19)  # 20 batches or more tell the error
EVIDENCE = np.array([3.0, -4.0, 0.0, -9.0, 6.0, -1.5])


def log_likelihood(state, data, n):
    z = data.y[n] - state.theta[0]
    return data.table[n, state.q[0]] - 0.001 * z * z


def log_prior(state):
    return 0.3 * state.q[0] - 0.5 * state.theta[0] * state.theta[0]


def model(evidence=EVIDENCE, **changes):
    """Values whose data add up to these log evidences; theta is beside the point."""
    noise = np.random.default_rng(5).normal(size=(N, len(evidence)))
    table = noise - noise.mean(axis=0) + np.asarray(evidence) / N
    given = {
        "log_likelihood": log_likelihood, "data": {"table": table, "y": np.linspace(-1, 1, N)},
        "state": {"q": 0, "theta": 0.1}, "log_prior": log_prior, "support": {"q": len(evidence)},
    }  # fmt: skip
    return sm.Model(**(given | changes))


def truth(evidence=EVIDENCE):
    p = evidence + 0.3 * np.arange(len(evidence))
    return p - np.log(np.exp(p - p.max()).sum()) - p.max()


EXACT = sm.Gibbs("q", sm.Exact())
THETA = sm.Metropolis("theta", 1.0, selector=sm.Exact())
TILTED = EXACT >> THETA >> sm.WangLandau("q")


def run(kernel=TILTED, evidence=EVIDENCE, draws=1000, warmup=4000, chains=4, seed=3, **more):
    given = model(evidence, **more.pop("changes", {}))
    return sm.sample(given, kernel, draws, warmup, chains, seed, progress=False, **more)


@pytest.fixture(scope="module")
def trace():
    return run()


def away(found, column="log_probability", expected=None):
    """Distances from what is expected, in standard errors."""
    expected = truth() if expected is None else expected
    return ((found.table[column] - expected) / found.table[f"{column}_se"]).to_numpy()


# ----------------------------------------------------------------------------------- the kernel
def test_visits_are_flat_and_probabilities_right(trace):
    for chain in trace.draws["q"]:
        shares = np.bincount(chain, minlength=VALUES) * VALUES / len(chain)
        assert shares.min() > 0.4 and shares.max() < 2.5
    found = trace.model_probabilities("q")
    assert found.warnings == []
    assert np.abs(away(found)).max() < FAR
    assert np.abs(away(found, "probability", np.exp(truth()))).max() < FAR
    assert found.table["log_probability_se"].max() < 0.15
    prior = normalised(0.3 * np.arange(VALUES))
    factors = trace.model_probabilities("q", prior=prior, against=2)
    others = np.arange(VALUES) != 2
    assert np.abs(away(factors, "log_bayes_factor", EVIDENCE)[others]).max() < FAR
    assert factors.table["log_bayes_factor"][2] == factors.table["log_bayes_factor_se"][2] == 0.0


def test_without_reweighting_it_would_be_wrong(trace):
    """The mutant that forgets the tilts is rejected."""
    values = trace.draws["q"]
    mutant = ModelProbabilities("q", values, np.zeros((4, VALUES)))
    assert np.abs(away(mutant)).min() > FAR
    doubled = trace.model_probabilities("q").tilts * 1.1
    assert np.abs(away(ModelProbabilities("q", values, doubled))).max() > FAR


def test_weights_undo_the_tilt(trace):
    found = trace.model_probabilities("q")
    assert found.weights.sum() == pytest.approx(1.0)
    share = np.bincount(trace.draws["q"].ravel(), found.weights.ravel(), VALUES)
    assert share == pytest.approx(found.table["probability"].to_numpy(), rel=1e-9)


def test_a_tilt_is_frozen_and_kept(trace):
    for c in range(4):
        kept = trace.learnt("q_tilt", "tilt")[c]
        told = trace.stats["q_tilt"]
        assert np.array_equal(told["tilt"][c], kept[trace.draws["q"][c]])
        assert np.array_equal(told["value"][c], trace.draws["q"][c])
        assert (told["steps"] == 1).all()
        assert abs(kept.mean()) < 1e-9 and kept.std() > 3.0
        assert trace.learnt("q_tilt", "counts")[c][0] == 4000


@pytest.mark.plain
@pytest.mark.parametrize("warmup", [7, 300])
def test_steps_are_what_they_should_be(warmup):
    """1 / (1 + t / decay) off the value at hand, worked out from the values that were visited."""
    kernel = EXACT >> THETA >> sm.WangLandau("q", decay=3.0, rate=2.0, start=EVIDENCE)
    one, expected = walker(model(), kernel), EVIDENCE - EVIDENCE.mean()
    steps = 40 if DISABLED else warmup
    for t in range(steps):
        one.advance(1, warm=True)
        expected[one.ints[0]] -= 2.0 / (1.0 + t / 3.0)
    expected -= expected.mean()
    assert np.allclose(one.run.tilts["q"], expected, rtol=0.0, atol=1e-9)
    one.advance(5)
    assert np.allclose(one.run.tilts["q"], expected, rtol=0.0, atol=1e-9)


@pytest.mark.plain
@pytest.mark.parametrize("thin", [1, 3])
def test_history_knows_all_that_was_read(thin):
    """Also what later kernels of the cycle read, and whatever the chunks and thinning."""
    last = thin > 1
    kernel = TILTED if last else EXACT >> sm.WangLandau("q") >> THETA
    one, read, at = walker(model(), kernel), 0, 2 if last else 1
    columns = [c for c in one.program.layout.columns if c.field == "pulls"]
    for i in range(30):
        one.advance(1, thin, warm=True)
        pulls = {c.kernel: int(one.words[c.word]) for c in columns}
        read += sum(pulls.values())
        later = 0 if last else pulls["theta"]  # read after the line was written
        steps, lines, stride = one.run.kept[f"{at}.counts"]
        line = one.run.kept[f"{at}.history"][lines - 1]
        assert (steps, lines, stride) == ((i + 1) * thin, (i + 1) * thin + 1, 1)
        assert line[0] == steps and line[1] == read - later > 0
        assert np.array_equal(line[2:], one.run.tilts["q"])


def test_history_is_thinned_by_halves(monkeypatch):
    monkeypatch.setattr(wanglandau, "MOST_LINES", 8)
    one = walker(model(), TILTED)
    one.advance(100, warm=True)
    steps, lines, stride = one.run.kept["2.counts"]
    assert (steps, stride, lines) == (100, 16, 7)
    history = one.run.kept["2.history"]
    assert history.shape == (8, 2 + VALUES)
    assert history[:7, 0].tolist() == [0, 16, 32, 48, 64, 80, 96]
    assert (np.diff(history[:7, 1]) > 0).all()


def test_history_as_a_table(trace):
    table = trace.model_probabilities("q", labels=list("abcdef")).history
    assert list(table) == ["chain", "iteration", "rewards_read", *"abcdef"]
    last = table[table.chain == 2].iloc[-1]
    assert last["iteration"] == 4000
    assert np.array_equal(last[list("abcdef")].to_numpy(float), trace.learnt("q_tilt", "tilt")[2])


def test_it_runs_less_often_inside_other_kernels():
    kernel = sm.mixture((EXACT >> sm.WangLandau("q"), 0.5), (EXACT >> THETA, 0.5))
    trace = run(kernel, draws=2000)
    assert 0.4 < trace.stats["q_tilt"]["steps"].mean() < 0.6
    found = trace.model_probabilities("q")
    assert np.abs(away(found)).max() < FAR


@pytest.mark.slow
def test_raced_decisions_heed_the_tilt():
    kernel = sm.Gibbs("q", sm.Racing(batch=4)) >> THETA >> sm.WangLandau("q", start=-EVIDENCE)
    trace = run(kernel, warmup=1000)
    assert np.bincount(trace.draws["q"].ravel(), minlength=VALUES).min() > 300
    assert trace.meta["guarantee"] == "asymptotic"


# -------------------------------------------------------------------------------- bit for bit
@pytest.mark.plain
def test_goes_on_from_a_checkpoint_in_warmup():
    count = 30 if DISABLED else 700
    one, other = (walker(model(), TILTED) for _ in range(2))
    one.advance(count, warm=True)
    saved = one.checkpoint()
    assert saved["kernel 2.tilt"].any() and saved["kernel 2.before"][0] > 0
    other.restore(saved)
    one.advance(count, warm=True)
    for _ in range(2):
        other.advance(count // 2, warm=True)
    left, right = one.checkpoint(), other.checkpoint()
    assert all(np.array_equal(left[k], right[k]) for k in left)
    assert np.array_equal(one.advance(9).words, other.advance(9).words)


@pytest.mark.slow
def test_stopped_runs_are_completed(tmp_path, monkeypatch, rng):
    kernel = runs.kernel() >> sm.WangLandau("k")
    given = {"draws": 40, "warmup": 600, "kernel": kernel}
    data, header = under_way(tmp_path / "whole", monkeypatch, **given)
    whole = runs.run(**given)
    for i, cut in enumerate([header, *rng.integers(header, len(data), 5)]):
        path = tmp_path / f"{i}.nc"
        path.write_bytes(data[:cut])
        found = runs.resumed(path, kernel=kernel, cores=1 + i % 2)
        assert runs.same(found, whole) and runs.same_states(found, whole)
        assert found.model_probabilities("k").table.equals(whole.model_probabilities("k").table)
    with pytest.raises(ValueError, match="changed since it was started: kernel k_tilt"):
        runs.resumed(path, 50, kernel=runs.kernel() >> sm.WangLandau("k", decay=50.0))


def test_cores_make_no_difference():
    one, two = (run(draws=50, warmup=200, cores=cores) for cores in (1, 2))
    assert runs.same(one, two) and runs.same_states(one, two)


# ------------------------------------------------------------------------------------ refusals
Q = sm.WangLandau("q")


@sm.kernel(writes="q")
def jump(rng, state, data):
    state.q[0] = int(rng.random() * 6)


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (EXACT >> THETA >> sm.WangLandau("theta"), "the block is continuous"),
        (EXACT >> THETA >> sm.WangLandau("p"), "'p' is no block of"),
        (TILTED >> sm.WangLandau("q", 50.0), "two kernels WangLandau('q')"),
        (TILTED >> jump, "does not know of the tilt"),
        (jump >> THETA >> Q, "Move 'q' by sm.Gibbs('q') alone"),
        (sm.Gibbs("q", sm.Exact(), temperature=[3.0, 2.0]) >> THETA >> Q, "ends at temperature 2"),
        (EXACT >> THETA >> sm.WangLandau("q", start=[1.0, 2.0]), "start has 2 numbers for 6"),
        (THETA >> Q, "no kernel moves block 'q'"),
    ],
)
def test_refusals(kernel, text):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        sm.sample(model(), kernel, progress=False)
    assert text in str(caught.value)


def test_several_sites_are_refused():
    several = model(state={"q": [0, 1], "theta": 0.1})
    with pytest.raises(ValueError, match="has 2 sites, which would share one tilt"):
        sm.sample(several, TILTED, progress=False)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"decay": 0.0}, r"WangLandau\(decay=0.0\): it must be positive"),
        ({"rate": np.inf}, r"WangLandau\(rate=inf\)"),
        ({"start": [0.0, np.nan]}, "one finite number per value of 'q'"),
        ({"start": 3.0}, "one finite number per value of 'q'"),
    ],
)
def test_numbers_are_checked(given, text):
    with pytest.raises(ValueError, match=text):
        sm.WangLandau("q", **given)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"name": "z"}, "'z' is no block of"),
        ({"name": "theta"}, "it must be discrete, of one site"),
        ({"labels": "ab"}, "labels has 2 names for 6 values"),
        ({"against": 7}, "against=7: name one of 0, 1, 2"),
        ({"prior": [0.5, 0.5]}, "prior probability of each of 6 values"),
        ({"prior": [0.0, 0.2, 0.2, 0.2, 0.2, 0.2]}, "all positive"),
    ],
)
def test_questions_are_checked(trace, given, text):
    with pytest.raises(ValueError, match=text):
        trace.model_probabilities(**({"name": "q"} | given))


# ---------------------------------------------------------------------------------- evidences
HUGE = np.array([-3000.0, 0.0, -1500.0, 1000.0, 3000.0, -200.0])


def test_thousands_of_nats_with_a_start():
    guess = -HUGE + np.array([0.7, -1.0, 0.3, 0.0, 1.2, -0.4])
    kernel = EXACT >> THETA >> sm.WangLandau("q", start=guess)
    found = run(kernel, HUGE, warmup=2000).model_probabilities("q", against=1)
    expected = truth(HUGE) - truth(HUGE)[1]
    others = np.arange(VALUES) != 1
    assert np.abs(away(found, "log_bayes_factor", expected)[others]).max() < FAR
    assert found.warnings == []
    assert found.table["log_bayes_factor"].max() > 2990
    assert found.table["probability"][0] == 0.0  # below all floats; its log is not


def test_thousands_of_nats_without():
    found = run(evidence=HUGE, warmup=2000, draws=200).model_probabilities("q")
    assert any("visits are far from even" in w for w in found.warnings)
    (bridge,) = (w for w in found.warnings if "bridges 304 nats at most" in w)
    assert "start=-log_evidences" in bridge
    assert any(w.startswith("not visited: ") for w in found.warnings)
    unseen = found.table[found.table["visits"] == 0]
    assert (unseen["log_probability"] == -np.inf).all()
    assert unseen["log_probability_se"].isna().all()


@pytest.mark.filterwarnings("ignore:warmup=0")
def test_no_warmup_no_tilt():
    trace = run(warmup=0, draws=300, evidence=0.1 * EVIDENCE)
    assert not trace.stats["q_tilt"]["tilt"].any()
    found = trace.model_probabilities("q")
    assert any("no warm-up, so the tilt stayed" in w for w in found.warnings)
    assert np.abs(away(found, expected=truth(0.1 * EVIDENCE))).max() < FAR


def test_without_a_tilt_it_is_the_share_of_visits():
    trace = run(EXACT >> THETA, 0.1 * EVIDENCE, warmup=100)
    found = trace.model_probabilities("q")
    share = np.bincount(trace.draws["q"].ravel(), minlength=VALUES) / 4000
    assert found.table["probability"].to_numpy() == pytest.approx(share)
    assert found.history is None and found.warnings == []
    # Values that are never visited: a bound, from the support that Gibbs knows.
    rare = run(EXACT >> THETA, EVIDENCE, warmup=100).model_probabilities("q")
    assert len(rare.table) == VALUES and rare.table["visits"][3] == 0
    (text,) = (w for w in rare.warnings if w.startswith("not visited"))
    assert "3 (log probability below about -7" in text


def test_a_run_without_states_knows_the_tilts_of_visited_values(trace, monkeypatch):
    whole = trace.model_probabilities("q")
    monkeypatch.setattr(trace, "_states", [None] * 4)
    found = trace.model_probabilities("q")
    assert found.table.equals(whole.table) and found.history is None
    assert np.array_equal(found.tilts, whole.tilts)


def test_an_unknown_tilt_leaves_its_chain_out():
    tilts = np.array([[0.0, 1.0, np.nan], [0.0, -1.0, 2.0]])
    values = np.array([[0, 1] * 300, [0, 1, 2, 0, 1, 2] * 100])
    found = ModelProbabilities("q", values, tilts)
    assert any("not stored" in w for w in found.warnings)
    assert any("in 1 of 2 chains" in w for w in found.warnings)
    # Chain 0 asks about 0 and 1 alone: it draws them alike, under one more nat for 1.
    log_p = found.table["log_probability"].to_numpy()
    alone = multistate(
        np.array([[300, 300, 0], [200, 200, 200]]), np.nan_to_num(tilts, nan=-np.inf)
    )
    assert log_p == pytest.approx(alone)
    assert -1.0 < log_p[1] - log_p[0] < 1.0


def test_chains_that_disagree_are_seen(rng):
    """Each chain by itself looks well mixed; between them, probabilities differ."""
    p = np.array([0.2, 0.3, 0.7, 0.8])
    values = (rng.random((4, 2000)) < p[:, None]).astype(np.int64)
    found = ModelProbabilities("q", values, np.zeros((4, 2)))
    assert any(w.startswith("chains disagree about 0, 1:") for w in found.warnings)
    assert found.table["probability_se"][0] == pytest.approx(np.std(p, ddof=1) / 2, rel=0.1)
    same = (rng.random((4, 2000)) < 0.5).astype(np.int64)
    calm = ModelProbabilities("q", same, np.zeros((4, 2)))
    assert calm.warnings == []
    assert calm.table["probability_se"][0] == pytest.approx(np.sqrt(0.25 / 8000), rel=0.4)


def test_few_draws_have_no_errors():
    found = ModelProbabilities("q", np.array([[1]]), np.zeros((1, 3)))
    assert found.table["probability"].tolist() == [0.0, 1.0, 0.0]
    assert np.isinf(found.table["log_probability_se"][1])
    blocks = {"q": np.zeros((2, 0), dtype=np.int64)}
    with pytest.raises(ValueError, match="the trace has no draws"):
        made(blocks, {"g": {}}).model_probabilities("q")


# ---------------------------------------------------------------------------------- estimator
def test_one_chain_is_visits_over_the_tilt():
    visits, tilts = np.array([[10, 0, 30, 60]]), np.array([[3000.0, 7.0, -1.0, 0.5]])
    log_p = multistate(visits, tilts)
    expected = np.log([10, 30, 60]) - tilts[0, [0, 2, 3]]
    expected -= expected.max() + np.log(np.exp(expected - expected.max()).sum())
    assert log_p[1] == -np.inf and log_p[[0, 2, 3]] == pytest.approx(expected)


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
def test_several_chains_satisfy_the_multistate_equations(rng, spread):
    visits = rng.integers(0, 50, (5, 7)) + np.eye(5, 7, dtype=int)
    tilts = spread * rng.standard_normal((5, 7))
    log_p = multistate(visits, tilts)
    each, weights = visits.sum(axis=1), np.exp(log_p + tilts)
    chance = weights / weights.sum(axis=1, keepdims=True)
    assert each @ chance == pytest.approx(visits.sum(axis=0), rel=1e-6, abs=1e-6)
    assert np.exp(log_p).sum() == pytest.approx(1.0)
    shifted = multistate(visits, tilts + rng.normal(size=(5, 1)))
    assert shifted == pytest.approx(log_p, abs=1e-6 * (1 + spread))


def test_the_jackknife_of_a_mean_is_its_standard_error(rng):
    x = rng.normal(size=30)
    without = (x.sum() - x) / 29
    assert jackknife(without[:, None])[0] == pytest.approx(x.std(ddof=1) / np.sqrt(30))


P = normalised(-np.array([0.0, 2.5, 3.8, 4.9, 6.1, 6.8]))


def simulated(rng, runs, chains, draws, ladder):
    """Chains on 0 .. 5, in equilibrium under tilts of their own: (tilts, values)."""
    tilts = -np.log(P) + 0.5 * rng.standard_normal((runs, chains, 6))
    p = P * np.exp(tilts)
    p /= p.sum(axis=-1, keepdims=True)
    at = np.minimum((rng.random((runs, chains, 1)) > p.cumsum(-1)).sum(-1), 5)
    values = np.zeros((runs, chains, draws), dtype=np.int64)
    for d in range(draws):
        if ladder:  # Metropolis among neighbours
            to = at + np.where(rng.random(at.shape) < 0.5, -1, 1)
            near = np.clip(to, 0, 5)
            odds = np.take_along_axis(p, near[..., None], -1) / np.take_along_axis(
                p, at[..., None], -1
            )
            at = np.where((to == near) & (rng.random(at.shape) < odds[..., 0]), near, at)
        else:  # stays with probability 0.7
            new = np.minimum((rng.random((runs, chains, 1)) > p.cumsum(-1)).sum(-1), 5)
            at = np.where(rng.random(at.shape) < 0.7, at, new)
        values[..., d] = at
    return tilts, values


@pytest.mark.slow
@pytest.mark.parametrize(("chains", "draws", "ladder"), [(4, 1000, False), (4, 1500, True)])
def test_errors_are_calibrated(rng, chains, draws, ladder):
    """Two standard errors cover the truth in 90% to 99% of 200 runs, for every value."""
    tilts, values = simulated(rng, 200, chains, draws, ladder)
    kinds = {"log p": lambda p: p, "p": np.exp, "log BF": lambda p: p - p[..., :1]}
    hits = {kind: np.zeros(6, dtype=int) for kind in kinds}
    for t, v in zip(tilts, values, strict=True):
        found = estimate(v, t)
        for kind, of in kinds.items():
            se, _ = found.error(of)
            hits[kind] += np.abs(of(found.log_p) - of(np.log(P))) <= 2.0 * se
    for kind, counts in hits.items():
        for count in counts[1:] if kind == "log BF" else counts:
            at_least(count, 200, 0.90)
            at_most(count, 200, 0.99)


# ------------------------------------------------------------------------------ what is shown
def test_what_it_says(trace, capsys):
    text = TILTED.describe(model())
    assert "q_tilt: WangLandau moves nothing; no decision; guarantee: exact" in text
    assert TILTED.guarantee == "exact" and trace.meta["guarantee"] == "exact"
    report = trace.report()
    assert [row["kernel"] for row in report.rows] == ["q", "theta"]
    assert any(note.startswith("q_tilt: WangLandau, frozen tilt, from -") for note in report.notes)
    assert any("use trace.model_probabilities('q')" in note for note in report.notes)
    found = trace.model_probabilities("q", labels=[5, 10, 15, 20, 25, 30], against=15)
    assert found.table.index.tolist() == [5, 10, 15, 20, 25, 30]
    assert found.to_frame().equals(found.table) and found.to_frame() is not found.table
    shown = repr(found)
    assert shown.startswith("q: 6 values, 4 chains x 1,000 draws, their tilts undone")
    assert "Warnings" not in shown and max(map(len, shown.splitlines())) < 100
    assert found._repr_html_().startswith("<pre>q: 6 values")
    few = run(draws=20, warmup=10).model_probabilities("q")
    assert "Warnings\n- " in repr(few)


def test_arviz_knows_of_the_tilt(trace, tmp_path):
    made = trace.to_arviz()
    assert made.attrs["tilted"] == "q"
    assert made["sample_stats"]["q_tilt_tilt"].shape == (4, 1000)
    trace.save(tmp_path / "run.nc")
    loaded = sm.load(tmp_path / "run.nc").model_probabilities("q")
    assert loaded.table.equals(trace.model_probabilities("q").table)
    assert loaded.history.equals(trace.model_probabilities("q").history)


def test_plot(trace):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = trace.model_probabilities("q").plot(labels=list("abcdef"))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list("abcdef")
    assert len(axes.patches) == VALUES
    unseen = ModelProbabilities("q", np.zeros((1, 50), dtype=np.int64), np.zeros((1, 3)))
    assert len(unseen.plot(axes).patches) == VALUES + 1
    pyplot.close("all")
