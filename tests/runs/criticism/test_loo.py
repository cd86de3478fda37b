"""Leave-one-out cross-validation: ArviZ's numbers, the exact ones, a sample's errors, memory."""

import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.runs.criticism import loo as module
from subsample_mcmc.runs.criticism.psis import leave_out, scratch_of, tail_of
from subsample_mcmc.runs.criticism.sampling import (
    SampleOfData,
    chances_of,
    difference_of,
    sampled,
    total_of,
)
from tests.helpers.claims import at_least, at_most
from tests.runs.views.test_arviz import trace_of

N = 90


# ------------------------------------------------------- a normal mean, whose posterior is known
def log_likelihood(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0]) ** 2 - 0.9189385332046727


def log_prior(state):
    return -0.5 * state.mu[0] ** 2 / 100.0


def normal(y):
    return sm.Model(log_likelihood, {"y": y}, {"mu": 0.0}, log_prior)


def posterior(y):
    """Of the mean: (mean, variance)."""
    precision = len(y) + 0.01
    return y.sum() / precision, 1.0 / precision


def drawn(model, draws=2000, seed=5, chains=2):
    """A trace of independent draws from the posterior."""
    mean, variance = posterior(np.asarray(model.data.y))
    mu = stats.norm(mean, variance**0.5).rvs((chains, draws), random_state=seed)
    return trace_of(model, {"mu": mu})


@pytest.fixture(scope="module")
def example():
    y = np.random.default_rng(3).normal(0.7, 1.0, N)
    model = normal(y)
    return model, drawn(model)


def quiet(*given, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sm.loo(*given, progress=False, **named)


# --------------------------------------------------------------------------------------- numbers
def test_elpd_is_that_of_exact_leave_one_out(example):
    """Each datum under the posterior of all others: a normal law."""
    model, trace = example
    y = np.asarray(model.data.y)
    exact = np.empty(N)
    for n in range(N):
        mean, variance = posterior(np.delete(y, n))
        exact[n] = stats.norm(mean, (1.0 + variance) ** 0.5).logpdf(y[n])
    found = quiet(model, trace)
    # Of 4,000 independent draws: .003 of a standard deviation of the sum, measured over 50 seeds.
    assert abs(found.elpd - exact.sum()) < 0.05
    assert np.abs(found.elpd_i - exact).max() < 0.02
    inside = stats.norm(posterior(y)[0], (1.0 + posterior(y)[1]) ** 0.5).logpdf(y)
    assert abs(found.elpd - inside.sum()) > 0.5  # what is seen without leaving anything out
    assert found.se == pytest.approx((N * np.var(exact, ddof=1)) ** 0.5, rel=0.01)
    assert found.p_loo == pytest.approx(1.0, abs=0.4)
    assert found.counts == (N, 0, 0)


def arviz_loo(trace, model, **more):
    az = pytest.importorskip("arviz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = az.loo(trace.to_arviz(log_likelihood=model), pointwise=True, **more)
    new = hasattr(one, "elpd_i")
    elpd_i = (one.elpd_i if new else one.loo_i).values
    se = one.se if new else one.se * (len(elpd_i) / (len(elpd_i) - 1)) ** 0.5  # divides by N
    return (one.elpd, one.p) if new else (one.elpd_loo, one.p_loo), se, elpd_i, one.pareto_k


@pytest.mark.parametrize("kind", ["chains", "one chain", "heavy", "counts", "arch"])
def test_numbers_are_those_of_arviz(example, kind, rng):
    if kind == "heavy":  # some k are large, and draws are often equal
        model = normal(np.append(np.asarray(example[0].data.y), [9.0, 14.0]))
        mu = np.repeat(rng.normal(0.7, 0.4, size=(2, 300)), 3, axis=1)
        trace = trace_of(model, {"mu": mu})
    elif kind == "counts":  # whose log likelihoods lack terms that no draw depends on
        x = rng.normal(size=(50, 2))
        model = sm.models.glm.poisson(x, rng.poisson(3.0, 50).astype(float))
        trace = trace_of(model, {"beta": rng.normal(0.4, 0.1, size=(2, 500, 2))})
    elif kind == "arch":  # and a term of each draw
        model = sm.models.arch.ARCH(sm.models.arch.example_returns(60), (2, 3))
        theta = rng.uniform(0.5, 0.7, size=(2, 300, 5))
        theta[..., 0] += 3.0
        trace = trace_of(model, {"q": rng.integers(0, 2, (2, 300)), "theta": theta})
    else:
        model, trace = example[0], drawn(example[0], 500, chains=1 + (kind == "chains"))
    (elpd, p), se, elpd_i, k = arviz_loo(trace, model)
    found = quiet(model, trace)
    np.testing.assert_allclose(found.elpd_i, elpd_i, rtol=1e-10)
    np.testing.assert_allclose(found.k, np.asarray(k), rtol=1e-8, atol=1e-10)
    assert (found.elpd, found.se) == pytest.approx((float(elpd), float(se)), rel=1e-9)
    assert found.p_loo == pytest.approx(float(p), rel=1e-6, abs=1e-8)


@pytest.mark.plain
@pytest.mark.parametrize("newest", [False, True])
def test_the_tail_is_smoothed_as_the_paper_says(newest, rng):
    """By numpy: the largest weights become quantiles of the Pareto law that fits them."""
    values = np.stack([-0.5 * (s * rng.normal(size=1000)) ** 2 for s in (0.2, 1.0, 1.7)])
    tail = tail_of(1000, 0.5, newest)
    assert tail.length == {False: 135, True: 134}[newest]
    out = np.empty((3, 3))
    leave_out(values, tail, scratch_of(tail), out)
    for row, (elpd, lppd, k) in zip(values, out, strict=True):
        weights = np.exp(-row - np.max(-row))
        order = np.argsort(weights)[-tail.length :]
        cut = np.sort(weights)[-tail.length - 1]
        shape, scale = zhang_stephens(np.sort(weights[order]) - cut)
        q = (np.arange(tail.length) + 0.5) / tail.length
        weights[order] = np.minimum(cut + stats.genpareto(shape, scale=scale).ppf(q), 1.0)
        assert k == pytest.approx(shape, abs=1e-9)
        assert elpd == pytest.approx(np.log(weights @ np.exp(row) / weights.sum()), abs=1e-9)
        assert lppd == pytest.approx(np.log(np.exp(row).mean()), abs=1e-12)


def zhang_stephens(x):
    """The same fit, its weights by another way: profile likelihoods on their grid."""
    m = 30 + int(len(x) ** 0.5)
    j = np.arange(1, m + 1)
    b = 1.0 / x[-1] + (1.0 - np.sqrt(m / (j - 0.5))) / (3.0 * x[int(len(x) / 4 + 0.5) - 1])
    k = np.array([np.mean(np.log1p(-t * x)) for t in b])
    profile = np.array([stats.genpareto(s, scale=-s / t).logpdf(x).sum()
                        for s, t in zip(k, b, strict=True)])  # fmt: skip
    weight = np.exp(profile - profile.max())
    mean = b @ (weight / weight.sum())
    shape = np.mean(np.log1p(-mean * x))
    return (len(x) * shape + 5.0) / (len(x) + 10.0), -shape / mean


def test_cores_and_blocks_change_nothing(example, monkeypatch):
    model, trace = example
    first = quiet(model, trace)
    monkeypatch.setattr(module, "BLOCK_BYTES", 8 * 4000 * 7)  # seven data at a time
    for cores in (1, 3):
        again = quiet(model, trace, cores=cores)
        assert np.array_equal(again.elpd_i, first.elpd_i) and np.array_equal(again.k, first.k)
    some = quiet(model, trace, size=20, seed=4)
    assert np.array_equal(some.elpd_i, first.elpd_i[some.rows])
    assert len(set(some.rows.tolist())) == 20 and some.rows.max() < N
    assert np.array_equal(some.rows, quiet(model, trace, size=20, seed=4).rows)
    fewer = quiet(model, trace, draws=200)
    assert fewer.draws == 400 and abs(fewer.elpd - first.elpd) < 0.5


@pytest.mark.slow
def test_memory_does_not_grow_with_data_times_draws():
    """An array of all log likelihoods would have 800 MB."""
    y = np.random.default_rng(1).normal(size=100_000)
    model = normal(y)
    trace = drawn(model, 500)
    quiet(model, trace, size=10, seed=1)  # compiles
    tracemalloc.start()
    found = quiet(model, trace, cores=2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 60e6 < 8 * y.size * found.draws / 10
    assert found.p_loo == pytest.approx(1.0, abs=0.3)


# ---------------------------------------------------------------------------------------- samples
def test_sums_of_samples_are_unbiased_and_so_are_their_errors(rng):
    """All 210 samples of four rows of ten, by enumeration."""
    from itertools import combinations

    values = rng.normal(-2.0, 1.0, 10)
    near = values + 0.3 * rng.normal(size=10)
    made = [total_of(values[list(rows)], np.array(rows), near, np.full(10, 0.4))
            for rows in combinations(range(10), 4)]  # fmt: skip
    totals, spreads, errors = np.array(made).T
    assert totals.mean() == pytest.approx(values.sum(), abs=1e-9)
    assert np.mean(errors**2) == pytest.approx(np.var(totals), abs=1e-9)
    # The estimate of a variance is unbiased where no sample's was replaced for being negative.
    assert np.mean(spreads**2) == pytest.approx(10 * np.var(values, ddof=1), abs=1e-9)
    assert np.var(totals) < 0.2 * np.var([10 * values[list(rows)].mean()
                                          for rows in combinations(range(10), 4)])  # fmt: skip


def test_chances_are_those_of_samples(rng):
    """Of 20,000 samples, within 5 errors of a count: and most of a heavy measure is sampled."""
    measure = np.concatenate([1.0 / rng.random(40) ** 2, [np.nan, 0.0]])
    chances = chances_of(measure, 12)
    assert chances.sum() == pytest.approx(12.0) and chances.max() == 1.0 == chances[-2]
    assert chances.min() >= 0.5 * 12 / 42 * 0.5 and np.sum(chances == 1.0) > 2
    found = np.zeros(42)
    for _ in range(20_000):
        rows = sampled(chances, rng.random(42), 12)
        assert len(rows) == 12 and np.all(np.diff(rows) > 0)
        found[rows] += 1.0
    error = np.sqrt(chances * (1.0 - chances) / 20_000)
    # Pareto sampling has its chances up to some thousandths.
    assert np.all(np.abs(found / 20_000 - chances) <= 5.0 * error + 0.006)
    assert np.all(found[chances == 1.0] == 20_000)
    np.testing.assert_allclose(chances_of(np.zeros(9), 3), 1.0 / 3.0)
    np.testing.assert_array_equal(chances_of(measure, 42), 1.0)


def test_errors_of_samples_cover_with_heavy_tails(rng):
    """A normal model of data with two degrees of freedom: 300 samples, an alarm in 10^6."""
    y = rng.standard_t(2.0, 4_000)
    scale = float(y.std())
    spread = (y / scale) ** 4 / 8_000.0  # variances of log likelihoods
    values = -0.5 * (y / scale) ** 2 - spread * rng.gamma(4.0, 0.25, 4_000)
    near, seen = -0.5 * (y / scale) ** 2, spread * rng.chisquare(9, 4_000) / 9.0
    held = {}
    for name, measure in (("chances", seen), ("alike", np.ones(4_000))):
        chances, count = chances_of(measure, 200), 0
        for _ in range(300):
            rows = sampled(chances, rng.random(4_000), 200)
            total = total_of(values[rows], rows, near, chances)
            count += abs(total.value - values.sum()) < 1.96 * total.subsampling_se
        held[name] = count
    at_least(held["chances"], 300, 0.90)
    assert held["alike"] < 240  # which simple random samples do not


def test_differences_of_two_samples_have_errors_that_cover(rng):
    """Of two models alike in what leaving a datum out changes, and of two that are not."""
    size, base = 3_000, rng.standard_t(3.0, 3_000) ** 2
    for alike in (0.95, 0.2):
        changes = [base * alike + (1.0 - alike) * rng.standard_t(3.0, size) ** 2 for _ in range(2)]
        surrogates = [rng.normal(-1.0, 0.5, size) for _ in range(2)]
        values = [near - change for near, change in zip(surrogates, changes, strict=True)]
        chances = [chances_of(c * rng.chisquare(9, size) / 9.0, 150) for c in changes]
        samples = tuple(SampleOfData(s, c, (1,)) for s, c in zip(surrogates, chances, strict=True))
        truth = float((values[0] - values[1]).sum())
        off, errors, spreads = [], [], []
        for _ in range(400):
            uniform = rng.random(size)
            rows = tuple(sampled(c, uniform, 150) for c in chances)
            own = tuple(v[r] for v, r in zip(values, rows, strict=True))
            total = difference_of(own, rows, samples)
            off.append(total.value - truth)
            errors.append(total.subsampling_se)
            spreads.append(total.se)
        at_least(int(np.sum(np.abs(off) < 1.96 * np.array(errors))), 400, 0.85)
        assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(off), rel=0.25)
        wanted = np.sqrt(size * np.var(values[0] - values[1]))
        squares = np.sqrt(np.mean(np.square(spreads)))  # mostly too small where models differ
        assert squares == pytest.approx(wanted, rel=0.1), alike


@pytest.mark.parametrize("kind", ["continuous", "discrete"])
def test_errors_of_samples_cover(kind, rng):
    """300 samples: 95% intervals hold at least 90% of the time; a false alarm once in 10^6."""
    if kind == "continuous":
        y = np.random.default_rng(8).normal(size=600)
        model = normal(y)
        trace = drawn(model, 100)
    else:
        model, trace = of_steps(rng)
    whole = quiet(model, trace)
    some = [quiet(model, trace, size=80, seed=seed, cores=1) for seed in range(300)]
    off = np.array([(one.elpd - whole.elpd) / one.subsampling_se for one in some])
    at_least(int(np.sum(np.abs(off) < 1.96)), 300, 0.90)
    at_most(int(np.sum(np.abs(off) < 1.0)), 300, 0.78)  # they are not too wide: 68%
    plain = whole.size * np.std([one.elpd_i.mean() for one in some])
    assert np.std([one.elpd for one in some]) < 0.2 * plain  # what the surrogate gains
    off = np.array([one.p_loo - whole.p_loo for one in some])
    at_least(int(np.sum(np.abs(off) < 1.96 * np.array([one.p_loo_se for one in some]))), 300, 0.85)
    assert np.mean([one.se for one in some]) == pytest.approx(whole.se, rel=0.05)
    everything = quiet(model, trace, size=model.size, seed=1)
    assert everything.elpd == pytest.approx(whole.elpd, rel=1e-12)
    assert everything.subsampling_se == 0.0 and everything.se == pytest.approx(whole.se)


def steps(state, data, n):
    return -0.5 * (data.y[n] - 0.1 * state.k[0] - state.mu[0]) ** 2


def of_steps(rng):
    y = rng.normal(size=600)
    model = sm.Model(steps, {"y": y}, {"k": 0, "mu": 0.0}, support={"k": 3})
    k = rng.integers(0, 3, (2, 100))
    return model, trace_of(model, {"k": k, "mu": rng.normal(-0.1 * k, 0.04)})


def test_a_mean_where_data_are_impossible_is_no_surrogate(rng):
    def of_sides(state, data, n):  # the mean of both sides is in the hole between them
        far = abs(state.mu[0])
        return -0.5 * (data.y[n] - far) ** 2 if far > 0.5 else -np.inf

    model = sm.Model(of_sides, {"y": rng.normal(1.0, 1.0, 200)}, {"mu": 1.0})
    mu = rng.choice([-1.0, 1.0], (2, 100)) * rng.normal(1.0, 0.07, (2, 100))
    trace = trace_of(model, {"mu": mu})
    some, whole = quiet(model, trace, size=50, seed=1), quiet(model, trace)
    assert np.isfinite(some.sample.surrogate).all()
    assert abs(some.elpd - whole.elpd) < 5.0 * some.subsampling_se


# ----------------------------------------------------------------------------------- what is shown
@pytest.fixture(scope="module")
def two():
    """A normal and a Laplace model of the same data, one of which lies far off."""

    def laplace(state, data, n):
        return -abs(data.y[n] - state.mu[0]) - 0.6931471805599453

    y = np.append(np.random.default_rng(4).laplace(size=60), [8.0])
    labels = [f"row {n}" for n in range(61)]
    models = [sm.Model(f, {"y": y}, {"mu": 0.0}, coords={"obs": labels})
              for f in (log_likelihood, laplace)]  # fmt: skip
    rng = np.random.default_rng(5)
    return [(model, trace_of(model, {"mu": rng.normal(0.0, 0.3, (2, 400))})) for model in models]


def labelled(pair):
    model, trace = pair
    trace.axes = model.axes
    return quiet(model, trace)


def test_data_that_cannot_be_relied_upon_are_named(two):
    model, trace = two[0]
    with pytest.warns(UserWarning, match=r"1 of 61 data have a Pareto k above 0.66"):
        sm.loo(model, trace, progress=False)
    found = labelled(two[0])
    assert found.worst(2).index[0] == "row 60" and found.worst(1)["y"].item() == 8.0
    assert "in row row 60" in repr(found) and "1 beyond" in repr(found)
    assert "row 60" in found._repr_html_() and "<table" in found._repr_html_()
    table = found.to_frame()
    assert table.columns.tolist() == ["k", "elpd", "p"] and len(table) == 61
    np.testing.assert_array_equal(table.loc["row 60", "k"], found.k[60])
    assert found.elpd_i[60] == table["elpd"].min()
    some = quiet(*two[1], size=30, seed=1)
    assert "30 of 61 data" in repr(some) and "of the sample" in repr(some)


def test_tables_are_no_columns_of_the_worst():
    """An array that is looked up, of as many numbers as there are data."""
    price, shop = np.arange(8.0), np.arange(8)[::-1]

    def of_shops(state, data, n):
        return -0.5 * (data.y[n] - state.mu[0] - data.price[data.shop[n]]) ** 2

    data = {"y": price[shop] + 0.5, "shop": shop}
    model = sm.Model(of_shops, data, {"mu": 0.0}, tables={"price": price})
    draws = np.random.default_rng(6).normal(0.5, 0.3, (2, 400))
    table = quiet(model, trace_of(model, {"mu": draws})).worst(3)
    assert table.columns.tolist() == ["k", "elpd", "p", "y", "shop"]
    assert np.array_equal(table["shop"], shop[table.index])


def test_a_figure_shows_k(two):
    plt = pytest.importorskip("matplotlib.pyplot")
    (panel,) = labelled(two[0]).plot()
    assert [text.get_text() for text in panel.texts] == ["row 60"]
    assert panel.get_ylabel() == "Pareto k"
    plt.close("all")


@pytest.mark.slow
def test_arviz_compares_them(two):
    az = pytest.importorskip("arviz")
    found = {name: labelled(pair) for name, pair in zip(("normal", "laplace"), two, strict=True)}
    given = {name: one.to_arviz() for name, one in found.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = az.compare(given)
    assert table.index.tolist() == ["laplace", "normal"]
    assert "61 observations" in repr(given["normal"])
    apart = found["laplace"].difference(found["normal"])
    # ArviZ 1 rounds to few digits, and has the difference from the better one.
    assert apart.elpd == pytest.approx(abs(float(table.loc["normal", "elpd_diff"])), rel=0.05)
    assert apart.se == pytest.approx(float(table.loc["normal", "dse"]), rel=0.05)
    assert apart.subsampling_se == 0.0
    wanted = np.sum(found["laplace"].elpd_i - found["normal"].elpd_i)
    assert apart.elpd == pytest.approx(wanted, rel=1e-12)


def test_differences_of_samples_are_of_the_same_rows(two):
    some = [quiet(*pair, size=30, seed=1) for pair in two]
    whole = [quiet(*pair) for pair in two]
    apart, all_of = some[1].difference(some[0]), whole[1].difference(whole[0])
    assert abs(apart.elpd - all_of.elpd) < 5.0 * apart.subsampling_se
    with pytest.raises(ValueError, match=r"give sm.loo the same size and seed"):
        some[0].difference(quiet(*two[1], size=30, seed=2))
    with pytest.raises(ValueError, match=r"give sm.loo the same size and seed"):
        some[0].difference(whole[1])
    with pytest.raises(ValueError, match="only 30 of 61 data were left out"):
        some[0].to_arviz()
    with pytest.raises(TypeError, match=r"give what sm.loo returned"):
        some[0].difference(3.0)


@pytest.mark.parametrize("seed", range(4))
def test_data_that_were_made_by_the_same_seed_are_sampled_as_others(seed):
    """Rows were drawn by the data's own numbers: where u was the first of them, rows of small u."""
    rng = np.random.default_rng(seed)
    u = rng.random(400)
    model = normal(u + 0.1 * rng.standard_normal(400))
    found = u[sm.loo(model, drawn(model), size=60, seed=seed, progress=False).rows]
    assert found.mean() > 0.35  # 4 standard errors below .5; by these numbers themselves .15


def test_papers_of_what_was_done(two):
    model, trace = two[1]
    assert "magnusson2020" in sm.cite(quiet(model, trace, size=30, seed=1))
    assert "magnusson2020" not in sm.cite(quiet(model, trace))
    assert "vehtari2024" in sm.cite(quiet(model, trace))


# -------------------------------------------------------------------------------- what is refused
def test_what_cannot_be_left_out(example, rng):
    model, trace = example
    with pytest.raises(TypeError, match="give the Trace that"):
        sm.loo(model, model)
    with pytest.raises(ValueError, match="is not the model that was sampled"):
        sm.loo(normal(np.asarray(model.data.y) + 1.0), trace)
    with pytest.raises(ValueError, match=r"size=1: give 2 or more data, and no more than N=90"):
        sm.loo(model, trace, size=1)
    with pytest.raises(ValueError, match="size=91"):
        sm.loo(model, trace, size=91)
    with pytest.raises(ValueError, match=r"20 draws in all: sm.loo needs 25"):
        sm.loo(model, trace, draws=10)
    none = sm.Model(None, {"y": np.zeros(9)}, {"z": np.zeros(9, int)}, support={"z": 2})
    with pytest.raises(ValueError, match="has no log_likelihood of single data"):
        sm.loo(none, trace_of(none, {"z": np.zeros((2, 50, 9), int)}))
    stepped, _ = of_steps(rng)
    draws = {"k": np.zeros((2, 50), int), "mu": np.zeros((2, 50))}
    tilted = trace_of(stepped, draws, [{"label": "tilt", "kind": "WangLandau", "block": "k"}])
    with pytest.raises(ValueError, match="k: these draws are not from the posterior"):
        sm.loo(stepped, tilted)


def test_a_datum_that_is_impossible_is_told_of():
    def bounded(state, data, n):
        return 0.0 if data.y[n] < state.mu[0] else -np.inf

    model = sm.Model(bounded, {"y": np.arange(5.0)}, {"mu": 9.0})
    mu = np.full((2, 50), 9.0)
    mu[1, 3] = 2.5
    with pytest.raises(sm.RewardError, match=r"-inf at datum 3 \(y=3\) of draw 53"):
        sm.loo(model, trace_of(model, {"mu": mu}), progress=False)
