"""Chains whose rows are elsewhere make the draws of chains whose rows are in memory."""

import math

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.numerics.jit import jit
from subsample_mcmc.numerics.rows import make_rows, take
from subsample_mcmc.runs import chain
from subsample_mcmc.target.elsewhere import pool as pools
from subsample_mcmc.target.elsewhere import resident
from subsample_mcmc.target.elsewhere.resident import rows_ahead
from subsample_mcmc.target.sources.local import parts_of

SIZE = 3_000
LAYOUTS = {
    "one part": [3000], "uneven, empty": [0, 1, 999, 0, 1300, 1, 699, 0],
    "of blocks": [768, 768, 768, 696], "single rows": [1] * 5 + [2990] + [1] * 5,
}  # fmt: skip


def log_likelihood(state, data, n):
    z = data.y[n] - state.mu[0] - 0.5 * state.k[0] * data.x[n]
    return -sm.log1p(z * z)


def log_prior(state):
    return -0.5 * (state.mu[0] / 10.0) ** 2


@pytest.fixture(scope="module")
def columns():
    rng = np.random.default_rng(3)
    x = rng.standard_normal(SIZE).astype(np.float32)
    return {"y": 0.3 + 0.5 * x + rng.standard_normal(SIZE), "x": x}


def model_of(data):
    state = {"mu": 0.0, "k": 1}
    return sm.Model(log_likelihood, data, state, log_prior, support={"k": 4})


def same(one, other):
    for name in one.draws:
        np.testing.assert_array_equal(one.draws[name], other.draws[name])
    for kernel, fields in one.stats.items():
        for name, values in fields.items():
            np.testing.assert_array_equal(values, other.stats[kernel][name], f"{kernel} {name}")


KERNELS = {
    "exact": lambda: sm.cycle(
        sm.Gibbs("k", selector=sm.Exact()), sm.Metropolis("mu", selector=sm.Exact())
    ),
    "races": lambda: sm.cycle(
        sm.Gibbs("k", selector=sm.Racing(batch=64)),
        sm.Metropolis("mu", selector=sm.Racing(batch=64)),
    ),
    "slice": lambda: sm.cycle(sm.Slice("mu", selector=sm.Exact()), sm.Gibbs("k")),
    "weights": lambda: sm.cycle(sm.WangLandau("k"), sm.Gibbs("k"), sm.Metropolis("mu")),
}  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
def test_draws_are_those_of_memory(columns, kernel):
    made = KERNELS[kernel]()
    options = {"draws": 12, "warmup": 4, "chains": 2, "seed": 5, "progress": False, "audit": 0.0}
    wanted = sm.sample(model_of(columns), made, **options)
    far = model_of(parts_of(columns, LAYOUTS["uneven, empty"]))
    same(wanted, sm.sample(far, made, **options))


@pytest.mark.plain
def test_few_rows(columns):
    few = {name: column[:600] for name, column in columns.items()}
    options = {"draws": 5, "warmup": 2, "chains": 1, "seed": 2, "progress": False, "audit": 0.5}
    wanted = sm.sample(model_of(few), KERNELS["races"](), **options)
    far = model_of(parts_of(few, [100, 0, 257, 1, 242]))
    same(wanted, sm.sample(far, KERNELS["races"](), **options))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_layout_changes_a_draw(columns, layout):
    made = KERNELS["races"]()
    options = {"draws": 6, "warmup": 2, "chains": 1, "seed": 2, "progress": False, "audit": 0.5}
    wanted = sm.sample(model_of(columns), made, **options)
    found = sm.sample(model_of(parts_of(columns, LAYOUTS[layout])), made, **options)
    same(wanted, found)


def test_a_run_goes_on_over_another_layout(columns, tmp_path):
    made, path = KERNELS["races"](), tmp_path / "run.nc"
    options = {"warmup": 3, "chains": 2, "seed": 8, "progress": False, "audit": 0.0}
    wanted = sm.sample(model_of(columns), made, draws=14, **options)
    far = model_of(parts_of(columns, LAYOUTS["uneven, empty"]))
    sm.sample(far, made, draws=6, store=path, **options)
    other = model_of(parts_of(columns, LAYOUTS["one part"]))
    same(wanted, sm.resume(path, other, made, draws=14, progress=False))


def test_rows_that_changed_do_not_go_on(columns, tmp_path):
    made, path = KERNELS["exact"](), tmp_path / "run.nc"
    options = {"draws": 2, "warmup": 2, "chains": 1, "seed": 8, "progress": False}
    sm.sample(model_of(parts_of(columns, [3000])), made, store=path, **options)
    other = {**columns, "y": columns["y"].copy()}
    other["y"][2345] += 1e-9
    with pytest.raises(ValueError, match="rows elsewhere"):
        sm.resume(path, model_of(parts_of(other, [3000])), made, draws=4, progress=False)


def of_one_block(state, data, n):
    z = data.y[n] - state.mu[0]
    return -sm.log1p(z * z)


def test_audits_ask_for_many_sums_a_pass(columns):
    """The audits of memory, in far fewer passes than there are; and it is said before how many."""
    near, far = (
        sm.Model(of_one_block, data, {"mu": 0.0})
        for data in ({"y": columns["y"]}, parts_of({"y": columns["y"]}, [1000, 2000]))
    )
    selector = sm.Racing(batch=64, retreat=False)
    kernel = sm.Metropolis("mu", 0.05, selector=selector, adapt=False)
    options = {"draws": 300, "warmup": 0, "chains": 1, "seed": 2, "progress": False, "audit": 0.5}
    found = sm.sample(far, kernel, **options)
    same(sm.sample(near, kernel, **options), found)
    audited, passes = found.stats["mu"]["audited"].sum(), found.fetched[1]
    assert 120 < audited < 180 and passes < 0.2 * audited
    with pytest.warns(match=r"audit=1.0: rows are elsewhere, .* 4,000 states .* 64 passes"):
        sm.sample(far, kernel, **options | {"draws": 1_000, "audit": 1.0, "chains": 2})


def of_three_sites(state, data, n):
    return -abs(data.y[n] - 0.1 * (state.k[0] + state.k[1] + state.k[2]))


def test_a_draw_of_more_sums_than_are_kept_is_refused(columns, monkeypatch):
    """Else it would be begun again for ever."""
    monkeypatch.setattr(resident, "SUMS", 4)
    monkeypatch.setattr(chain, "SUMS", 4)
    state = {"k": np.zeros(3, int)}
    far = sm.Model(of_three_sites, parts_of({"y": columns["y"]}, [3000]), state, support={"k": 4})
    with pytest.raises(RuntimeError, match="one draw asks for more than 4 exact sums"):
        sm.sample(far, sm.Gibbs("k", selector=sm.Exact()), draws=2, warmup=0, progress=False)


# ------------------------------------------------------------------------------ rows ahead
@jit
def take_some(rows, stream, counts, out):
    """Rows of decisions of these lengths, which are put back after each."""
    at = 0
    for count in counts:
        first = take(rows, stream, 0, count)
        for i in range(count):
            out[at + i] = rows.kept[first + i]
        at += count


def test_rows_that_are_drawn_were_known_before():
    size, rows = 10**6, make_rows((10**6,))
    stream, known = np.array([12345], np.uint64), np.zeros(2_000, np.int64)
    rows_ahead(stream[0], size, known)
    drawn = np.zeros(900, np.int64)
    take_some(rows, stream, np.array([300, 300, 300]), drawn)
    assert set(drawn) <= set(known) and len(set(drawn)) > 890
    np.testing.assert_array_equal(drawn[:100], known[:100])


def test_a_pool_that_fetches_other_rows_changes_no_draw(columns, monkeypatch):
    """Rows are found by their numbers: what was fetched in vain costs time and no more."""
    made = sm.cycle(sm.Gibbs("k"), sm.Metropolis("mu", selector=sm.Racing(batch=64, retreat=False)))
    options = {"draws": 8, "warmup": 2, "chains": 1, "seed": 5, "progress": False, "audit": 0.0}
    wanted = sm.sample(model_of(columns), made, **options)
    right = rows_ahead

    def first_again(counter, size, out):
        right(np.uint64(1), size, out)

    monkeypatch.setattr(pools, "rows_ahead", first_again)
    same(wanted, sm.sample(model_of(parts_of(columns, LAYOUTS["one part"])), made, **options))


# -------------------------------------------------------------------------------- refused
def reads_its_number(state, data, n):
    return -abs(data.y[n] - state.mu[0]) * (1.0 if n % 2 else 0.5)


def reads_its_neighbour(state, data, n):
    return -abs(data.y[n] - state.mu[0] * data.y[max(n - 1, 0)])


def reads_a_maximum(state, data, n):
    return -abs(data.y[n] - state.mu[0]) / np.max(data.y)


def reads_the_last(state, data, n):
    return -abs(data.y[n] - state.mu[0]) - 0.01 * data.y[-1] ** 2


def counts_rows(state, data, n):
    return -abs(data.y[n] - state.mu[0]) + 1e-6 * len(data.y)


def is_the_last(state, data, n):
    return -abs(data.y[n] - state.mu[0]) * (2.0 if n == len(data.y) - 1 else 1.0)


def differs_far_behind(state, data, n):
    return -abs(data.y[n] - state.mu[0]) * (2.0 if n > 2_500 else 1.0)


OTHERS = (
    reads_its_number, reads_its_neighbour, reads_a_maximum, reads_the_last, counts_rows,
    is_the_last, differs_far_behind,
)  # fmt: skip


@pytest.mark.parametrize("function", OTHERS)
def test_a_row_says_the_same_wherever_it_is(columns, function):
    with pytest.raises(ValueError, match="reads more than its own row"):
        sm.Model(function, parts_of({"y": columns["y"]}, [1000, 2000]), {"mu": 0.0})


def test_what_needs_all_rows_is_refused(columns):
    far = model_of(parts_of(columns, [1000, 2000]))
    trace = sm.sample(far, KERNELS["exact"](), draws=2, warmup=1, chains=1, progress=False)
    for call in (
        lambda: sm.loo(far, trace),
        lambda: far.without([0]),
        lambda: sm.predict(far, trace, lambda rng, state, data, n: 0.0),
        lambda: trace.log_likelihood(far),
        lambda: trace.to_arviz(log_likelihood=far),
    ):
        with pytest.raises(ValueError, match="reads rows at random"):
            call()
    with pytest.raises(TypeError, match="the rows of this model are elsewhere"):
        sm.sample(far, KERNELS["exact"](), warmup=1, parallel="threading")

    @sm.kernel(writes="mu")
    def step(rng, state, data):
        state.mu[0] = data.y[0]

    with pytest.raises(ValueError, match="reads data, and nobody knows which rows"):
        sm.sample(far, sm.cycle(step, sm.Gibbs("k")), draws=2, warmup=1, chains=1)
    with pytest.raises(ValueError, match="touches"):
        sm.Model(
            log_likelihood, parts_of({**columns, "g": np.zeros(SIZE, int)}, [3000]),
            {"mu": np.zeros(1), "k": 1}, support={"k": 4}, touches={"mu": "g"},
        )  # fmt: skip


def test_functions_of_kernels_and_models_read_no_rows(columns):
    state = {"mu": 0.0, "k": 1}

    def shared(state, data):
        return (data.y[0],)

    def with_shared(state, data, n, prepared):
        return -abs(data.y[n] - state.mu[0]) + 0.0 * prepared[0]

    with pytest.raises(ValueError, match=r"prepare.* reads columns"):
        sm.Model(with_shared, parts_of(columns, [3000]), state, support={"k": 4}, prepare=shared)

    def own_prior(state, data, site, value):
        return -0.1 * value * abs(data.y[0])

    far = model_of(parts_of(columns, [1000, 2000]))
    kernel = sm.cycle(sm.Gibbs("k", log_prior=own_prior), sm.Metropolis("mu"))
    with pytest.raises(ValueError, match="reads data, and nobody knows which rows"):
        sm.sample(far, kernel, draws=2, warmup=1, chains=1)


def test_batches_longer_than_the_room_for_them(columns):
    made = sm.cycle(
        sm.Gibbs("k", selector=sm.Exact()),
        sm.Metropolis("mu", selector=sm.Racing(batch=1400, retreat=False)),
    )
    options = {"draws": 8, "warmup": 2, "chains": 1, "seed": 5, "progress": False, "audit": 0.0}
    wanted = sm.sample(model_of(columns), made, **options)
    same(wanted, sm.sample(model_of(parts_of(columns, LAYOUTS["uneven, empty"])), made, **options))


def root_of(state, data, n):
    return -abs(data.y[n] - state.mu[0]) * math.sqrt(data.x[n] + 3.0 - state.mu[0])


def test_a_datum_that_cannot_be_added_is_named(columns):
    x = np.abs(columns["x"])
    x[2_345] = -3.0 + 0.05  # a root of a negative number, where mu is above .05
    far = sm.Model(root_of, parts_of({"y": columns["y"], "x": x}, [1000, 2000]), {"mu": 0.0})
    assert "1000, 2000" not in far._repr_html_() and "2 parts" in far._repr_html_()
    step = sm.Metropolis("mu", selector=sm.Exact(), scale=0.3, adapt=False)
    with pytest.raises(sm.RewardError, match=r"is nan at datum 2345 \(y=.*x=-2.95"):
        sm.sample(far, step, draws=50, warmup=0, chains=1, seed=1, progress=False)


def test_a_missing_value_is_named(columns):
    y = columns["y"].copy()
    y[2_345] = np.nan
    far = model_of(parts_of({**columns, "y": y}, [1000, 2000]))
    with pytest.raises(ValueError, match=r"data y .*row 2345 \(part 1\)"):
        sm.sample(far, KERNELS["exact"](), draws=2, warmup=1, chains=1, progress=False)
