"""Discrete blocks that no datum sees: a control variate needs no sums of their values."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.control import prepared_for
from subsample_mcmc.approx.taylor.references import configuration, configurations, strides_of

SITES = 30
EMPTY = (np.zeros(SITES + 1, dtype=int), np.zeros(0, dtype=int))
RNG = np.random.default_rng(1)
Y = RNG.normal(0.4, 1.0, (3, 4000))


def of_theta(state, data, n):
    return -0.5 * (
        (data.a[n] - state.theta[0]) ** 2 + (data.b[n] - state.theta[1]) ** 2
        + (data.c[n] - state.theta[2]) ** 2
    )  # fmt: skip


def whole(state):
    return state.theta[0]


def by_helper(state, data, n):  # the state under another name: nobody follows it
    same = state
    return -0.5 * (data.a[n] - whole(same)) ** 2


def by_known_helper(state, data, n):
    return -0.5 * (data.a[n] - whole(state)) ** 2


def mixed(state):
    """Thirty labels, each of a component of theta: which of two normals it is from."""
    total = 0.0
    for i in range(30):
        r = state.theta[i % 3] - (0.2 if state.z[i] == 0 else 0.6)
        total -= 0.5 * r * r / 0.25
    return total


def model(likelihood=of_theta, **more):
    data = dict(zip("abc", Y, strict=True))
    state = {"theta": np.full(3, 0.4), "z": np.zeros(SITES, dtype=int)}
    return sm.Model(likelihood, data, state, mixed, {"z": 2}, **more)


@pytest.mark.slow
@pytest.mark.parametrize("touches", [pytest.param(None, marks=pytest.mark.slow), {"z": EMPTY}])
def test_a_block_that_no_datum_sees_needs_no_sums(touches):
    given = model(touches=touches)
    assert configurations(given) == 1
    fit = {"theta": np.full(3, 0.4)}
    control = sm.Taylor(fit, order=2)
    kernel = sm.Metropolis("theta", 0.02, control=control) >> sm.Gibbs("z")
    options = {"draws": 300, "warmup": 100, "chains": 1, "seed": 1, "progress": False}
    raced = sm.sample(given, kernel, **options)
    exact = sm.sample(
        given, sm.Metropolis("theta", 0.02, selector=sm.Exact()) >> sm.Gibbs("z", sm.Exact()),
        **options,
    )  # fmt: skip
    assert len(prepared_for(given, control).references) == 1
    np.testing.assert_array_equal(raced.draws["z"], exact.draws["z"])
    np.testing.assert_array_equal(raced.draws["theta"], exact.draws["theta"])


def test_touches_alone_tell_where_a_function_hides_what_it_reads():
    assert configurations(model(by_helper, touches={"z": EMPTY})) == 1
    assert configurations(model(by_helper)) == 2**SITES
    assert configurations(model(by_known_helper)) == 1
    with pytest.raises(ValueError, match=r"\['z'\] have more than 10\^9 .*gives none\.\)"):
        sm.Taylor({"theta": np.zeros(3)}).check(model(by_helper), "theta")


def seen(state, data, n):
    shift = state.z[2] + state.z[7] if n == 5 else 0.0
    return -0.5 * (data.a[n] - state.theta[0] - shift - state.k[0]) ** 2


def test_sites_that_a_datum_sees_count():
    indptr = np.searchsorted([2, 7], np.arange(SITES + 1), side="left")
    state = {"k": 0, "theta": np.zeros(3), "z": np.zeros(SITES, dtype=int), "u": 1}
    given = sm.Model(
        seen, {"a": Y[0]}, state, support={"k": 3, "z": 2, "u": 9},
        touches={"z": (indptr, np.array([5, 5]))},
    )  # fmt: skip
    assert configurations(given) == 12
    strides = strides_of(given)
    assert strides[0] == 4 and strides[1 + 2] == 2 and strides[1 + 7] == 1 and strides.sum() == 7
    for table in range(12):
        assert strides @ configuration(strides, table) == table
    with pytest.raises(ValueError, match=r"5 references.*each of the 12 .*that data depend on"):
        sm.Taylor([{"theta": np.zeros(3)}] * 5).check(given, "theta")


def by_length(state, data, n):
    return -0.5 * (data.a[n] - state.theta[0] - state.theta[1]) ** 2


def test_a_block_that_tells_the_length_of_another_counts():
    given = sm.Model(
        by_length, {"a": Y[0]}, {"k": 0, "theta": np.zeros(2)}, support={"k": 2},
        lengths={"theta": ("k", (1, 2))},
    )  # fmt: skip
    assert configurations(given) == 2
