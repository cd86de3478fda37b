"""Models by formulas: the same as by matrices, other frames by the same columns, and refusals."""

import pickle
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.backends import pickled

pytest.importorskip("formulaic", reason="needs formulaic: pip install 'subsample-mcmc[formulas]'")
N = 300


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    made = pd.DataFrame({"age": rng.normal(size=N), "region": rng.choice(["a", "b", "c"], N)})
    made["time"] = rng.gamma(2.0, size=N)
    made["claims"] = rng.poisson(made.time * np.exp(0.2 + 0.3 * made.age))
    made["cost"] = made.age + rng.normal(size=N)
    made["sick"] = np.where(rng.random(N) < 0.4, "yes", "no")
    made["level"] = pd.Categorical(rng.choice(["low", "mid", "high"], N), ["low", "mid", "high"])
    made.index = rng.permutation(N)  # rows are taken by position
    return made


def matrix_of(frame):
    return np.column_stack(
        [np.ones(N), frame.age, *(1.0 * (frame.region == c) for c in "bc"), frame.age**2]
    )


RIGHT = "age + C(region) + I(age ** 2)"
TERMS = ["Intercept", "age", "C(region)[T.b]", "C(region)[T.c]", "I(age ** 2)"]


@pytest.mark.parametrize(("family", "left", "y", "more"), [
    ("gaussian", "cost", lambda f: f.cost, {}),
    ("gaussian", "cost", lambda f: f.cost, {"sigma": None}),
    ("student_t", "cost", lambda f: f.cost, {}),
    ("logistic", "sick", lambda f: f.sick == "yes", {}),
    ("probit", "sick", lambda f: f.sick == "yes", {}),
    ("cloglog", "sick", lambda f: f.sick == "yes", {}),
    ("logistic", "I(claims > 1)", lambda f: f.claims > 1, {}),
    ("poisson", "claims", lambda f: f.claims, {}),
    ("binomial", "claims", lambda f: f.claims, {"trials": 30}),
    ("negative_binomial", "claims", lambda f: f.claims, {"dispersion": 2.0}),
    ("softmax", "level", lambda f: f.level.cat.codes, {}),
])  # fmt: skip
def test_they_are_the_models_of_their_matrices(frame, family, left, y, more):
    made = getattr(sm.models.glm, family)(f"{left} ~ {RIGHT}", frame, **more)
    same = getattr(sm.models.glm, family)(matrix_of(frame), y(frame).to_numpy() * 1.0, **more)
    assert np.array_equal(made.data.x, same.data.x)
    assert np.array_equal(made.data.y, same.data.y)
    assert made.axes.coords["term"].tolist() == TERMS
    assert sm.laplace(made, progress=False).log_density == pytest.approx(
        sm.laplace(same, progress=False).log_density, rel=1e-12
    )


def test_classes_have_their_names(frame):
    model = sm.models.glm.softmax("level ~ age", frame)
    assert [model.axes.label("beta", (k, 1)) for k in (0, 1)] == ["beta[mid,age]", "beta[high,age]"]
    made = sm.models.glm.softmax("region ~ age", frame)
    assert made.axes.coords["class"].tolist() == ["b", "c"]


LEVELS = ["low", "mid", "high"]
IN_ORDER = ["o", "C(o)", f"C(r, levels={LEVELS})", f"C(c, levels={LEVELS})", "C(k)"]


@pytest.fixture(scope="module")
def ratings():
    """The same levels as text, as categories, as ordered ones, and as numbers; slope 1."""
    rng = np.random.default_rng(1)
    found = pd.DataFrame({"x": rng.normal(size=2_000)})
    found["k"] = np.digitize(found.x + rng.logistic(size=2_000), [-1.0, 1.0])
    found["r"] = np.array(LEVELS)[found.k]
    found["c"] = pd.Categorical(found.r)  # in the order of the alphabet
    found["o"] = pd.Categorical(found.r, LEVELS, ordered=True)
    return found


@pytest.mark.parametrize("left", IN_ORDER)
def test_levels_are_in_the_order_that_was_said(ratings, left):
    for make in (sm.models.glm.ordered_logistic, sm.models.glm.ordered_probit):
        model = make(f"{left} ~ x", ratings)
        names = ["0", "1", "2"] if left == "C(k)" else LEVELS
        assert model.axes.coords["cut"].tolist() == [f"{a}|{b}" for a, b in pairwise(names)]
        assert np.array_equal(model.data.y, ratings.k)
        other = ratings.iloc[::-1]
        assert np.array_equal(model.design(other)["y"], other.k)
    fit = sm.laplace(sm.models.glm.ordered_logistic(f"{left} ~ x", ratings), progress=False)
    assert float(fit.state["beta"][0]) == pytest.approx(1.0, abs=0.25)  # five deviations


@pytest.mark.parametrize("left", ["r", "c", "C(r)", "C(c)", "C(o.astype(str))"])
def test_levels_of_text_in_no_order_are_refused(ratings, left):
    """They would be taken in the alphabet's: high, low, mid."""
    for make in (sm.models.glm.ordered_logistic, sm.models.glm.ordered_probit):
        with pytest.raises(ValueError, match=r"high, low, mid, is that .*C\(rating, levels="):
            make(f"{left} ~ x", ratings)
    model = sm.models.glm.softmax(f"{left} ~ x", ratings)  # which is not about their order
    assert model.axes.coords["class"].tolist() == ["low", "mid"]


@pytest.mark.parametrize("order", [[2, 1, 0], [1, 2, 0], [0, 2, 1]])
def test_numbers_as_categories_in_no_order_are_refused(ratings, order):
    """As they were met in a file: the slope had another sign."""
    made = ratings.assign(n=pd.Categorical(ratings.k, order))
    said = made.assign(n=pd.Categorical(ratings.k, order, ordered=True))
    numbers = made.assign(n=pd.Categorical(ratings.k, [0, 1, 2]))
    for make in (sm.models.glm.ordered_logistic, sm.models.glm.ordered_probit):
        with pytest.raises(ValueError, match=r"is that .*C\(rating, levels="):
            make("n ~ x", made)
        assert np.array_equal(make("n ~ x", numbers).data.y, ratings.k)
        places = np.argsort(order)[ratings.k.to_numpy()]
        for frame, left in ((said, "n"), (made, f"C(n, levels={order})")):
            assert np.array_equal(make(f"{left} ~ x", frame).data.y, places)


def test_a_response_of_categories_given_as_numbers(ratings):
    """In another frame, where the model knows which they are."""
    model = sm.models.glm.ordered_logistic(
        "n ~ x", ratings.assign(n=pd.Categorical(ratings.k + 1, [1, 2, 3], ordered=True))
    )
    other = pd.DataFrame({"x": [0.0, 1.0, 2.0], "n": [3, 1, 2]})
    assert model.design(other)["y"].tolist() == [2.0, 0.0, 1.0]
    with pytest.raises(ValueError, match="column n has 4 in this frame"):
        model.design(other.assign(n=[3, 1, 4]))


@pytest.mark.parametrize("family", ["softmax", "ordered_logistic"])
def test_classes_without_a_row_are_told(ratings, family):
    """As after rows were left out: the first is the reference of all coefficients."""
    make = getattr(sm.models.glm, family)
    for gone in LEVELS:
        rest = ratings[ratings.o != gone]
        with pytest.warns(UserWarning, match=f"no row is of class {gone} .*remove_unused"):
            make("o ~ x", rest)
        assert make("o ~ x", rest.assign(o=rest.o.cat.remove_unused_categories())).size == len(rest)


@pytest.mark.parametrize("term", ["level", "C(level)", "age:level"])
@pytest.mark.parametrize("gone", ["low", "high"])
def test_categories_of_no_row_are_told_of(frame, term, gone):
    """The first one would be what all others are compared with, of which no row says anything."""
    rest = frame[frame.level != gone]
    with pytest.warns(UserWarning, match=f"no row is of {gone} in column level: .* prior alone"):
        sm.models.glm.gaussian(f"cost ~ {term}", rest)
    known = rest.assign(level=rest.level.cat.remove_unused_categories())
    assert sm.models.glm.gaussian(f"cost ~ {term}", known).size == len(rest)
    for other in ("C(age > 0)", "C(age.clip(-1, 1).round())"):  # no categories of a column
        assert sm.models.glm.gaussian(f"cost ~ {other}", known).size == len(rest)
    spaced = rest.rename(columns={"level": "my level"})
    with pytest.warns(UserWarning, match=f"no row is of {gone} in column my level"):
        sm.models.glm.gaussian("cost ~ C(`my level`)", spaced)


def test_classes_that_a_term_lists_have_their_names(ratings):
    model = sm.models.glm.softmax(f"C(r, levels={LEVELS}) ~ x", ratings)
    assert model.axes.coords["class"].tolist() == ["mid", "high"]
    named = ratings.assign(r=ratings.r + "[1]")
    model = sm.models.glm.softmax("r ~ x", named)
    assert model.axes.coords["class"].tolist() == ["low[1]", "mid[1]"]


@pytest.mark.parametrize("family", ["poisson", "negative_binomial"])
def test_exposures_are_offsets(frame, family):
    make, more = getattr(sm.models.glm, family), {}
    if family == "negative_binomial":
        more = {"dispersion": 2.0}
    logs = np.log(frame.time.to_numpy())
    by_name = make("claims ~ age", frame, exposure="time", **more)
    assert np.array_equal(by_name.data.offset, logs)
    both = make("claims ~ age", frame, exposure="time", offset="age", **more)
    assert np.array_equal(both.data.offset, logs + frame.age.to_numpy())
    x = np.column_stack([np.ones(N), frame.age])
    assert np.array_equal(make(x, frame.claims, exposure=frame.time, **more).data.offset, logs)
    with pytest.raises(ValueError, match=r"exposure\[3\] is 0.0: give positive numbers"):
        make(x, frame.claims.to_numpy(), exposure=np.where(np.arange(N) == 3, 0.0, 1.0), **more)


@sm.kernel(writes="beta")
def stay(rng, state, data):
    """Leaves all as it is."""


def test_other_frames_are_made_the_same_way(frame):
    """Also centred columns, whose mean is of the first frame; what is not there is left out."""
    model = sm.models.glm.poisson("claims ~ center(age) + C(region)", frame, exposure="time",
                                  start=[0.1, 0.5, 1.0, 2.0])  # fmt: skip
    trace = sm.sample(model, stay, 2_000, 0, chains=1, seed=1, progress=False)
    new = pd.DataFrame(
        {"time": [2.0, 0.5], "region": ["c", "a"], "age": [1.0, -1.0], "more": [0, 0]}
    )
    made = sm.predict(model, trace, data=new, seed=1, progress=False)
    eta = 0.1 + 0.5 * (new.age - frame.age.mean()) + np.array([2.0, 0.0]) + np.log(new.time)
    mean = np.exp(eta.to_numpy())
    error = (made.values[""][0].mean(axis=0) - mean) / np.sqrt(mean / 2_000)
    assert np.abs(error).max() < 5.0 and made.observed is None
    again = pickle.loads(pickled(model))
    assert np.array_equal(again.design(new)["x"], model.design(new)["x"])
    seen = sm.predict(model, trace, data=frame.iloc[:5], draws=3, seed=1, progress=False)
    assert np.array_equal(seen.observed, frame.claims[:5])
    holed = frame.iloc[:5].assign(claims=[1.0, np.nan, 0.0, 0.0, 2.0])
    assert sm.predict(model, trace, data=holed, draws=3, progress=False).observed is None
    with pytest.raises(ValueError, match="the model does not know the categories 'z' of this"):
        sm.predict(model, trace, data=new.assign(region=["z", "a"]))
    with pytest.raises(ValueError, match=r"'time', given beside the formula.*is no column"):
        sm.predict(model, trace, data=new.drop(columns="time"))


@pytest.mark.slow
def test_what_stands_beside_a_formula_is_found_in_other_frames(frame):
    many = frame.assign(trials=frame.claims + 3)
    model = sm.models.glm.binomial("claims ~ age", many, trials="trials", start=[5.0, 0.0])
    trace = sm.sample(model, stay, 3, 0, chains=1, seed=1, progress=False)
    made = sm.predict(model, trace, data=many.iloc[:6], seed=1, progress=False)
    assert np.all(made.values[""] <= many.trials[:6].to_numpy())
    one = sm.models.glm.binomial("claims ~ age", frame, trials=50, start=[5.0, 0.0])
    trace = sm.sample(one, stay, 3, 0, chains=1, seed=1, progress=False)
    made = sm.predict(one, trace, data=frame.iloc[:6], seed=1, progress=False)
    assert made.values[""].mean() > 40.0
    offset = np.full(N, 3.0)
    fixed = sm.models.glm.poisson("claims ~ age", frame, exposure="time", offset=offset)
    trace = sm.sample(fixed, stay, 3, 0, chains=1, seed=1, progress=False)
    with pytest.raises(ValueError, match="offset was given as an array beside the formula"):
        sm.predict(fixed, trace, data=frame)


def test_classes_of_intervals_keep_their_brackets(frame):
    cut = frame.assign(part=pd.cut(frame.age, [-9.0, -0.5, 0.5, 9.0]))
    model = sm.models.glm.softmax("part ~ cost", cut)
    assert model.axes.coords["class"].tolist() == ["(-0.5, 0.5]", "(0.5, 9.0]"]


@pytest.mark.parametrize(("formula", "words"), [
    ("claims ~ agee", "`agee` is not present.*The columns are age, region, time"),
    ("~ age", "has no response"),
    ("age", "has no response"),
    ("claims ~ age +", "cannot be read: Operator"),
    ("level ~ age", "has a response of 3 classes, low, mid, high: this family needs at most 2"),
    ("claims ~ holed", "column holed has 1 missing value, in row 7: drop these rows before"),
    ("holed ~ age", "column holed has 1 missing value, in row 7"),
    ("claims ~ age + offset(np.log(time))", "offset='column', or exposure='column'"),
    ("claims + time ~ age", "has a response of 2 columns|needs 0 and 1"),
])  # fmt: skip
def test_what_a_formula_cannot_be(frame, formula, words):
    holed = frame.assign(holed=np.where(np.arange(N) == 7, np.nan, 1.0))
    with pytest.raises(ValueError, match=words):
        sm.models.glm.logistic(formula, holed)


def test_what_goes_with_no_formula(frame, monkeypatch):
    with pytest.raises(TypeError, match=r"give it in the place of y.*not a ndarray"):
        sm.models.glm.logistic("sick ~ age", np.zeros(3))
    with pytest.raises(TypeError, match=r"'claims' beside a data frame.*'claims ~ age', frame"):
        sm.models.glm.poisson(frame[["age", "claims"]], "claims")
    with pytest.raises(ValueError, match="needs numbers"):
        sm.models.glm.poisson("sick ~ age", frame)
    with pytest.raises(ValueError, match="classes=4: the response has low, mid, high"):
        sm.models.glm.softmax("level ~ age", frame, classes=4)
    with pytest.raises(ValueError, match="'times', given beside the formula"):
        sm.models.glm.poisson("claims ~ age", frame, exposure="times")
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(ImportError, match=r"needs formulaic.*subsample-mcmc\[formulas\]"):
        sm.models.glm.logistic("sick ~ age", frame)


# ------------------------------------------------------------ other frames: what would be another
def design_of(formula, frame, new):
    """The design matrix that predictions for new rows would have."""
    return sm.models.glm.gaussian(formula, frame, sigma=1.0, prior_sd=1e3).design(new)["x"]


@pytest.mark.parametrize("formula", ["time ~ zone", "time ~ zone * age", "time ~ 0 + zone"])
@pytest.mark.parametrize("categories", [["0", "1", "2"], [0, 1, 2]])
def test_numbers_for_categories_are_refused_or_taken_for_them(frame, formula, categories):
    """Formulaic takes the number into each column of the category."""
    text = isinstance(categories[0], str)
    zone = np.take(categories, np.arange(len(frame)) % 3)
    frame = frame.assign(zone=zone if text else pd.Categorical(zone))
    new = pd.DataFrame({"age": [30.0, 40.0, 50.0]})
    right = design_of(formula, frame, new.assign(zone=categories if text else
                                                 pd.Categorical(categories)))  # fmt: skip
    numbers = new.assign(zone=[0, 1, 2])
    if text:
        told = (
            "column zone has 0 in this frame, a number, and the model knows the categories '0', '1'"
        )
        with pytest.raises(ValueError, match=told):
            design_of(formula, frame, numbers)
    else:
        assert np.array_equal(design_of(formula, frame, numbers), right)
    with pytest.raises(ValueError, match="column zone has 7 in this frame, a number"):
        design_of(formula, frame, new.assign(zone=[7, 8, 9]))
    with pytest.raises(ValueError, match="column age was of numbers, and is of"):
        design_of("time ~ age", frame, new.astype(str))


@pytest.mark.parametrize(("family", "left"), [
    ("logistic", "sick"), ("poisson", "sick"), ("logistic", "C(sick == 'yes')"),
])  # fmt: skip
def test_a_response_of_one_class_is_refused(frame, family, left):
    """It was 1 in every row: those who are not sick had what the model is of."""
    healthy = frame[frame.sick == "no"]
    with pytest.raises(ValueError, match="has a response of one class"):
        getattr(sm.models.glm, family)(f"{left} ~ age", healthy)
    known = pd.Categorical(healthy.sick, ["no", "yes"])
    assert not sm.models.glm.logistic("sick ~ age", healthy.assign(sick=known)).data.y.any()
    assert not sm.models.glm.logistic("sick ~ age", frame).design(healthy)["y"].any()


def test_nullable_text_is_text(frame):
    made = sm.models.glm.gaussian("cost ~ region", frame.astype({"region": "string"}))
    assert np.array_equal(made.data.x, sm.models.glm.gaussian("cost ~ region", frame).data.x)


def test_a_frame_that_is_refused_changes_nothing_for_others(frame):
    model = sm.models.glm.logistic("sick ~ age + C(region) + center(time)", frame)
    right = model.design(frame[:3])
    for wrong in ({"age": pd.Categorical([1.0, 2.0, 1.0])}, {"region": "d"}, {"sick": 7}):
        with pytest.raises(ValueError, match="the formula"):
            model.design(frame[:3].assign(**wrong))
        again = model.design(frame[:3])
        assert all(np.array_equal(again[name], right[name]) for name in ("x", "y"))


@pytest.mark.parametrize("short", [
    "int8", "uint8", "Int8", "UInt16", "int16", "uint32", "uint64", "float16",
])  # fmt: skip
def test_terms_of_short_numbers_are_those_of_long_ones(short):
    """Sums, products, functions of them: those of numpy are modulo 256, or have three digits."""
    long = pd.DataFrame({"a": [100, 90, 3, 4], "b": [7, 90, 101, 3], "y": [1.0, 2.0, 2.5, 3.0]})
    frame = long.astype({"a": short, "b": short})
    for formula in (
        "y ~ a * b",
        "y ~ I(a ** 2) + I(b - a)",
        "y ~ np.log(a) + C(b)",
        "I(a - b) ~ b",
    ):
        made, wanted = (sm.models.glm.gaussian(formula, f, prior_sd=1e5) for f in (frame, long))
        assert np.array_equal(made.data.x, wanted.data.x)
        assert np.array_equal(made.data.y, wanted.data.y)
        assert short == "float16" or list(made.axes.coords["term"]) == list(
            wanted.axes.coords["term"]
        )
        assert np.array_equal(made.design(frame[::-1])["x"], wanted.design(long[::-1])["x"])


@pytest.mark.parametrize("kind", ["int64", "uint64", "Int64", "int32"])
def test_products_of_large_whole_numbers_do_not_wrap_around(kind):
    """Those of 64 bits would: 3e9 ** 2 is below 9.2e18, 2e9 ** 3 is not."""
    frame = pd.DataFrame({"k": [2_000_000_011, 5, 1_999_999_999], "y": [1.0, 2.0, 2.5]})
    frame = frame.astype({"k": kind})
    exact = [float(int(k) ** 3) for k in frame.k]
    for formula in ("y ~ 0 + I(k ** 3)", "y ~ 0 + I(k * k * k)", "y ~ 0 + {k ** 2 * k}"):
        x = sm.models.glm.gaussian(formula, frame, prior_sd=1e5).data.x
        assert np.allclose(x[:, 0], exact, rtol=1e-14)


@pytest.mark.parametrize("formula", ["I(k ** 4)", "k:I(k ** 3)", "I(k * k * k * k)"])
def test_products_of_more_than_three_do_not_wrap_around(formula):
    frame = pd.DataFrame({"k": [100_003, 5, 99_999], "y": [1.0, 2.0, 2.5]})
    x = sm.models.glm.gaussian(f"y ~ 0 + {formula}", frame, prior_sd=1e5).data.x
    assert np.allclose(x[:, 0], [float(int(k) ** 4) for k in frame.k], rtol=1e-14)


def test_differences_of_times_in_nanoseconds_keep_their_digits():
    begun = 1_700_000_000_000_000_000
    frame = pd.DataFrame({"t": begun + np.array([3, 500, 999]), "y": [1.0, 2.0, 2.5]})
    for formula, truth in ((f"t - {begun}", [3, 500, 999]), ("np.mod(t, 7)", None)):
        x = sm.models.glm.gaussian(f"y ~ 0 + I({formula})", frame, prior_sd=1e5).data.x
        assert x[:, 0].tolist() == (truth or [k % 7 for k in frame.t.tolist()])


def test_large_codes_stay_whole_numbers_where_a_formula_wants_them():
    frame = pd.DataFrame({"k": [2**60 + 1, 2**60 + 2, 2**60 + 3], "y": [1.0, 2.0, 2.5]})
    by_code = sm.models.glm.gaussian("y ~ C(k)", frame, prior_sd=1e5)
    assert list(by_code.axes.coords["term"])[1] == f"C(k)[T.{2**60 + 2}]"
    last = sm.models.glm.gaussian("y ~ 0 + I(k % 10)", frame, prior_sd=1e5).data.x[:, 0]
    assert last.tolist() == [k % 10 for k in frame.k.tolist()]


@pytest.mark.parametrize("formula", ["sick ~ age | region", "sick ~ age + (1 | region)"])
def test_terms_of_groups_are_told_what_to_do(frame, formula):
    with pytest.raises(ValueError, match="touches"):
        sm.models.glm.logistic(formula, frame)


def test_a_bar_that_is_no_group_is_read(frame):
    model = sm.models.glm.logistic("sick ~ I((age > 1) | (time > 1))", frame)
    assert model.data.x.shape == (len(frame), 2)


@pytest.mark.parametrize(("formula", "term"), [
    ("time ~ I(age - age.mean())", r"I\(age - age.mean\(\)\)"), ("time ~ {age / age.max()}", "age"),
    ("time ~ age.cumsum()", "cumsum"), ("I(time - time.mean()) ~ age", "time.mean"),
    ("time ~ age + age.rank()", "rank"),
])  # fmt: skip
def test_terms_of_all_rows_are_no_terms_of_other_frames(frame, formula, term):
    model = sm.models.glm.gaussian(formula, frame, sigma=1.0, prior_sd=1e3)  # which is as it was
    with pytest.raises(ValueError, match=f"{term}.* depends on all rows of a frame, as a mean"):
        model.design(frame)
    for known in ("center(age)", "scale(age)", "poly(age, 2)", "bs(age, df=4)", "np.exp(age)"):
        x = design_of(f"time ~ {known}", frame, frame.iloc[:2])
        assert np.allclose(x, sm.models.glm.gaussian(f"time ~ {known}", frame, sigma=1.0,
                                                     prior_sd=1e3).data.x[:2])  # fmt: skip


@pytest.mark.parametrize("term", [
    "k - k.min()", "k / k.max()", "k > k.median()", "(k == k.mode()[0]) * 1.0", "k - k.iloc[0]",
    "age - np.round(age.mean())",
])  # fmt: skip
def test_terms_of_all_rows_that_are_the_same_in_each_part_of_them(frame, term):
    """The least of few values is that of any 150 rows; of other frames it would be another."""
    few = frame.assign(k=np.arange(N) % 5)
    model = sm.models.glm.gaussian(f"time ~ I({term})", few, sigma=1.0, prior_sd=1e3)
    with pytest.raises(ValueError, match="depends on all rows of a frame"):
        model.design(few[2:5])


@pytest.mark.parametrize("term", [
    "C(k)", "k", "C(k, contr.sum):age", "cr(age, df=4)", "cc(age, df=4)", "scale(k)", "poly(k, 2)",
    "I(k > 2)", "bs(k, df=4)", "np.exp(age):C(region)", "I(time / 3.0)",
])  # fmt: skip
def test_terms_of_single_rows_are_terms_of_other_frames(frame, term):
    few = frame.assign(k=np.arange(N) % 5)
    whole = sm.models.glm.gaussian(f"time ~ {term}", few, sigma=1.0, prior_sd=1e3).data.x
    for rows in ([7], [3, 4, 9]):
        x = design_of(f"time ~ {term}", few, few.iloc[rows])
        assert np.allclose(x, whole[rows], rtol=0.0, atol=1e-12 * np.abs(whole).max())


@pytest.mark.parametrize("formula", [
    "time ~ I(old + rich)", "time ~ {old + rich}:age", "time ~ np.sqrt(age ** 2 + (old + rich))",
    "I((age > 0) + old) ~ age", "time ~ I(1 + ((k == 1) + k.isin([2, 3]) + ~old))",
    "time ~ I(old + `rich`) + `a b`", "time ~ I(null + (old | rich))",
])  # fmt: skip
def test_sums_of_truth_values_are_refused(frame, formula):
    """Pandas says "or": the number of two conditions, a response even, was at most 1."""
    more = frame.assign(old=frame.age > 0.0, rich=frame.time > 2.0, k=np.arange(N) % 5)
    more = more.assign(null=more.old.astype("boolean"), **{"a b": 1.0 * np.arange(N)})
    with pytest.raises(ValueError, match=r"adds truth values.*'or'.*write 1 \* \("):
        sm.models.glm.gaussian(formula, more, prior_sd=1e3)


@pytest.mark.parametrize(("term", "number"), [
    ("I(1 * (old) + rich)", lambda f: 1.0 * f.old + f.rich), ("old:rich", lambda f: f.old & f.rich),
    ("I(old | rich)", lambda f: f.old | f.rich), ("I(old + k)", lambda f: f.old + f.k),
    ("I(old + 1.5)", lambda f: f.old + 1.5), ("I(old * rich)", lambda f: f.old & f.rich),
    ("I((age > 0) + time)", lambda f: 1.0 * (f.age > 0) + f.time),
])  # fmt: skip
def test_what_else_is_made_of_truth_values(frame, term, number):
    more = frame.assign(old=frame.age > 0.0, rich=frame.time > 2.0, k=np.arange(N) % 5)
    x = sm.models.glm.gaussian(f"cost ~ 0 + {term}", more, prior_sd=1e3).data.x
    assert np.array_equal(x[:, 0], 1.0 * number(more))
