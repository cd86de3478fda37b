"""K-fold cross-validation: exact numbers where the posterior is known, folds, refusals."""

import warnings

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.runs.criticism.kfold import folds_of, units_of

N = 40
Y = np.random.default_rng(3).normal(0.7, 1.0, N)


def log_likelihood(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0]) ** 2 - 0.9189385332046727


def log_prior(state):
    return -0.005 * state.mu[0] ** 2


MODEL = sm.Model(log_likelihood, {"y": Y, "group": np.repeat(np.arange(8), 5)}, {"mu": 0.0},
                 log_prior)  # fmt: skip
SHORT = {"draws": 500, "warmup": 100, "chains": 2, "progress": False}


def exact(fold):
    """Each datum under the posterior of the other folds, which is normal."""
    found = np.empty(N)
    for i in np.unique(fold):
        rest = Y[fold != i]
        precision = len(rest) + 0.01
        law = stats.norm(rest.sum() / precision, (1.0 + 1.0 / precision) ** 0.5)
        found[fold == i] = law.logpdf(Y[fold == i])
    return found


def test_numbers_are_the_exact_ones():
    """Of 1,000 draws, with 10 posterior standard errors; other folds are farther off."""
    found = sm.kfold(MODEL, sm.Slice("mu"), folds=5, seed=1, **SHORT)
    wanted = exact(found.fold)
    # A posterior mean of 1,000 draws is off by 1 / sqrt(32 * 1000), and |d elpd_i| by 2.5 of that.
    assert np.abs(found.elpd_i - wanted).max() < 0.14
    assert abs(found.elpd - wanted.sum()) < 0.3
    inside = stats.norm(Y.mean(), (1.0 + 1.0 / N) ** 0.5).logpdf(Y).sum()
    assert inside - wanted.sum() > 0.3 + 0.3  # what nothing left out would give
    assert found.se == pytest.approx((N * np.var(found.elpd_i, ddof=1)) ** 0.5)
    again = sm.kfold(MODEL, lambda rest: sm.Slice("mu"), folds=5, seed=1, cores=1, **SHORT)
    assert np.array_equal(again.elpd_i, found.elpd_i) and "5 folds of 40 data;" in repr(found)
    assert found.to_frame()["elpd"].tolist() == found.elpd_i.tolist()


def of_groups(state, data, n):
    return -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2 - 0.9189385332046727


def of_site(state, site):
    return -0.5 * state.a[site] ** 2


def test_a_group_that_is_held_out_is_a_new_one():
    """Its mean is drawn from the prior: a datum is then normal with variance 2."""
    rng = np.random.default_rng(4)
    group = np.repeat(np.arange(8), 5)
    y = rng.normal(size=8)[group] + rng.normal(size=40)
    model = sm.Model(of_groups, {"y": y, "group": group}, {"a": np.zeros(8)},
                     touches={"a": "group"}, site_prior={"a": of_site})  # fmt: skip
    found = sm.kfold(model, sm.Slice("a"), folds=8, by="group", seed=1, **SHORT)
    assert all(len(set(found.fold[group == g])) == 1 for g in range(8))
    wanted = stats.norm(0.0, 2.0**0.5).logpdf(y)
    # Of 1,000 draws: a mean of likelihoods, whose sd is at most .14, is off by .005.
    assert np.abs(np.exp(found.elpd_i) - np.exp(wanted)).max() < 0.03
    sums = np.bincount(group, weights=found.elpd_i)
    assert found.se == pytest.approx((8 * np.var(sums, ddof=1)) ** 0.5)
    assert "8 folds of 40 data in 8 groups" in repr(found)
    each = sm.kfold(model, sm.Slice("a"), folds=4, seed=1, **SHORT)
    assert each.elpd > found.elpd + 2.0  # where others of its group are seen


def test_differences_are_of_the_same_folds():
    def wide(state, data, n):
        return -0.125 * (data.y[n] - state.mu[0]) ** 2 - 1.612085713764618

    other = sm.Model(wide, {"y": Y}, {"mu": 0.0}, log_prior)
    one, two = (sm.kfold(m, sm.Slice("mu"), folds=4, seed=2, **SHORT) for m in (MODEL, other))
    apart = one.difference(two)
    assert apart.elpd == pytest.approx(one.elpd - two.elpd) and 0.0 < apart.se < apart.elpd
    with pytest.raises(ValueError, match="other folds"):
        one.difference(sm.kfold(other, sm.Slice("mu"), folds=4, seed=3, **SHORT))
    with pytest.raises(TypeError, match=r"what sm\.kfold returned"):
        one.difference(None)


def test_folds_are_of_equal_size(rng):
    for count in (2, 7, 40):
        sizes = np.bincount(folds_of(count, units_of(MODEL, None), rng))
        assert len(sizes) == count and sizes.max() - sizes.min() <= 1
    units = np.repeat(np.arange(9), [1, 2, 3, 4, 5, 6, 7, 8, 9])
    fold = folds_of(3, units, rng)
    assert all(len(set(fold[units == unit])) == 1 for unit in range(9))
    assert np.bincount(fold).max() - np.bincount(fold).min() <= 9


@pytest.mark.parametrize(("more", "words"), [
    ({"folds": 1}, "folds=1: give 2 or more, and no more than there are data, 40"),
    ({"folds": 9, "by": "group"}, "no more than there are groups, 8"),
    ({"folds": [0, 1]}, r"folds has shape \(2,\): give 40 whole numbers"),
    ({"folds": np.full(N, 2)}, "folds has the numbers 2: give 0, 1"),
    ({"folds": np.arange(N) % 2, "by": "group"}, "folds splits a group"),
    ({"by": "grup"}, "Did you mean 'group'"),
])  # fmt: skip
def test_folds_that_are_none(more, words):
    with pytest.raises(ValueError, match=words):
        sm.kfold(MODEL, sm.Slice("mu"), **more)


def test_groups_are_a_column_s_name():
    with pytest.raises(TypeError, match=r"by=ndarray: give the name of a column, one of y.*folds="):
        sm.kfold(MODEL, sm.Slice("mu"), folds=4, by=np.arange(MODEL.size) % 8)


def test_chains_that_disagree_are_told_of():
    @sm.kernel(writes="mu")
    def stay(rng, state, data):
        """Leaves all as it is: four chains from one place agree, of two they do not."""
        state.mu[0] = state.mu[0] if state.mu[0] != 0.0 else rng.standard_normal()

    with pytest.warns(UserWarning, match="chains of 3 of 3 folds disagree: R-hat is inf in fold 0"):
        sm.kfold(MODEL, stay, folds=3, seed=1, **SHORT)


def test_numbers_that_are_none_are_told_of():
    """Only where the datum is held out: no chain reads it then."""

    def root(state, data, n):
        return np.sqrt(data.y[n] - state.mu[0])

    model = sm.Model(root, {"y": np.append(np.linspace(4.0, 5.0, 20), 0.1)}, {"mu": 0.0},
                     lambda state: -50.0 * (state.mu[0] - 1.0) ** 2)  # fmt: skip
    fold = np.r_[np.ones(20, int), 0]
    with pytest.raises(sm.RewardError, match=r"datum 20 \(y=0.1.*other folds than 0"):
        sm.kfold(model, sm.Slice("mu"), folds=fold, seed=1, **SHORT)
    with pytest.raises(sm.RewardError) as caught:
        sm.kfold(model, sm.Slice("mu"), folds=1 - fold, seed=1, **SHORT)
    assert "without those of fold 0" in " ".join(caught.value.__notes__)


# ------------------------------------------------------------- what nobody can tell, or is no datum
def scaled(state, data, n):
    z = (data.y[n] - state.mu[0]) / state.sigma[0]
    return -0.5 * z * z - sm.log(state.sigma[0])


@pytest.mark.parametrize(("options", "told"), [
    ({"chains": 1}, "nothing tells whether the chains of 2 of 2 folds agree"),
    ({"chains": 2, "draws": 3}, "nothing tells whether the chains of 2 of 2 folds agree"),
])  # fmt: skip
def test_an_r_hat_that_nobody_knows_is_not_one(options, told):
    model = sm.Model(scaled, {"y": np.arange(20.0)}, {"mu": 0.0, "sigma": 5.0},
                     constraints={"sigma": sm.positive})  # fmt: skip
    kernel = sm.Slice("mu") >> sm.Slice("sigma")
    with pytest.warns(UserWarning, match=told):
        found = sm.kfold(model, kernel, folds=2, warmup=10, seed=1, progress=False,
                         **{"draws": 20} | options)  # fmt: skip
    assert np.isnan(found.rhat).all()


def test_a_block_that_stands_still_is_no_sample():
    model = sm.Model(scaled, {"y": np.arange(20.0)}, {"mu": 0.0, "sigma": 5.0},
                     constraints={"sigma": sm.positive})  # fmt: skip

    @sm.kernel(writes="sigma")
    def stay(rng, state, data):
        """Leaves it as it is."""

    with pytest.warns(UserWarning, match="chains of 2 of 2 folds disagree: R-hat is inf"):
        sm.kfold(model, sm.Slice("mu") >> stay, folds=2, draws=200, warmup=50, chains=2, seed=1,
                 progress=False)  # fmt: skip


def test_rows_that_count_for_several_cannot_be_left_out():
    x, y = np.ones((40, 1)), np.random.default_rng(0).normal(size=40)
    for weights in (np.ones(40), np.where(np.arange(40) < 20, 3.0, 1.0)):
        model = sm.models.glm.gaussian(x, y, weights=weights)
        trace = sm.sample(model, sm.Slice("beta"), 300, 50, seed=1, progress=False)
        if weights.max() == 1.0:
            assert sm.loo(model, trace, progress=False).elpd < 0.0
            continue
        for ask in (lambda m=model, t=trace: sm.loo(m, t), lambda m=model: sm.kfold(m)):
            with pytest.raises(ValueError, match="has row weights, and sm"):
                ask()


def coins(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] + 0.0 * state.mu[1] + 0.0 * state.k[0]) ** 2


@pytest.mark.slow_for("a number of a block")
@pytest.mark.parametrize("stands", ["a number of a block", "a discrete block, elsewhere by chain"])
def test_what_stands_still_beside_others_is_told(stands):
    """One of two numbers of a block; a discrete block, at a value of its own in each chain."""
    model = sm.Model(coins, {"y": np.arange(20.0)}, {"mu": np.zeros(2), "k": 0},
                     lambda state: -0.5 * state.mu[1] ** 2, support={"k": 1_000})  # fmt: skip
    first = stands.startswith("a number")

    @sm.kernel(writes=("mu", "k"))
    def move(rng, state, data):
        """Draws mu; of the other one, or of k, only where chains begin."""
        state.mu[0] = 9.5 + rng.standard_normal() / np.sqrt(20.0)
        if first:
            state.k[0] = rng.integers(0, 1_000)
        else:
            state.mu[1] = rng.standard_normal()
            state.k[0] = state.k[0] if state.k[0] > 0 else rng.integers(1, 1_000)

    with pytest.warns(UserWarning, match="chains of 2 of 2 folds disagree: R-hat is inf"):
        sm.kfold(model, move, folds=2, draws=200, warmup=50, chains=2, seed=1, progress=False)


def test_biases_of_unadjusted_draws_are_told():
    """Steps of Langevin that nothing corrects: of what is made of them, too."""

    def draw(rng, state, data, n):
        return state.mu[0] + rng.standard_normal()

    model = sm.Model(lambda s, data, n: -0.5 * (data.y[n] - s.mu[0]) ** 2,
                     {"y": np.linspace(-2.0, 2.0, 60)}, {"mu": 0.0})  # fmt: skip
    fast = sm.Langevin("mu", step=0.05, batch=20, correct=False)
    trace = sm.sample(model, fast, 100, 100, chains=2, seed=1, progress=False)
    assert trace.meta["guarantee"] == "unadjusted"
    for name, make in (
        ("sm.loo", lambda: sm.loo(model, trace, progress=False)),
        ("sm.kfold", lambda: sm.kfold(model, fast, folds=2, seed=1, **SHORT)),
        ("these", lambda: sm.predict(model, trace, draw, seed=1, progress=False)),
    ):
        with pytest.warns(UserWarning, match=f"mu: unadjusted draws have a bias.*{name}"):
            make()
    exact = sm.sample(model, sm.Slice("mu"), 100, 100, chains=2, seed=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sm.loo(model, exact, progress=False)


# -------------------------------------------------------------------------- of which data they are
def labelled(y, **more):
    return sm.Model(log_likelihood, {"y": y}, {"mu": 0.0}, log_prior, **more)


@pytest.mark.parametrize("judged", ["loo", "kfold"])
def test_differences_of_other_data_are_told(judged):
    """Log densities of y and of log y, or of rows in another order, were taken from each other."""

    def found(model):
        if judged == "kfold":
            return sm.kfold(model, sm.Slice("mu"), folds=2, seed=2, **SHORT)
        trace = sm.sample(model, sm.Slice("mu"), 200, 100, 2, seed=1, progress=False)
        return sm.loo(model, trace, progress=False)

    names = {"obs": [f"row {n}" for n in range(len(Y))]}
    own = found(labelled(Y, coords=names))
    same = labelled(Y.astype(np.float32).astype(float), coords=names)  # from a file of few digits
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert own.difference(found(same)).elpd == pytest.approx(0.0, abs=0.1)
        own.difference(found(labelled(Y)))
    with pytest.warns(UserWarning, match=r"other values y, .* in row 0: densities of other data"):
        own.difference(found(labelled(Y[::-1].copy())))
    with pytest.warns(UserWarning, match="rows of the two models have other labels"):
        own.difference(found(labelled(Y, coords={"obs": names["obs"][::-1]})))


def test_folds_of_unequal_groups_are_of_equal_size():
    """Each group goes into the smallest fold so far: apart by the largest group at most."""
    units = np.repeat(np.arange(40), 1 + np.arange(40) % 7)
    for seed in range(20):
        assert np.ptp(np.bincount(folds_of(5, units, np.random.default_rng(seed)))) <= 7
