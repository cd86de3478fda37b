"""Precisions of crossed sites, factored: parts of them, memory, and sites that are nested."""

import tracemalloc

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.fit import elimination
from subsample_mcmc.approx.fit.elimination import Eliminated, SiteRows


@pytest.mark.parametrize("way", ["dense", "sparse"])
def test_parts_of_the_inverse_are_those_of_the_whole(way, rng, monkeypatch):
    """Two numbers a site, beside 25 others: solutions, blocks, any columns, normal numbers."""
    from scipy.sparse import csr_array

    if way == "sparse":
        monkeypatch.setattr(elimination, "DENSE", 0)
        monkeypatch.setattr(elimination, "LARGE", 0)
    n, k, rest = 60, 2, 25
    own = np.einsum("nij,nkj->nik", *2 * [rng.standard_normal((n, k, k))]) + 8.0 * np.eye(k)
    beside = np.zeros((n * k, rest))
    for i in range(n):
        beside[i * k : i * k + k, rng.choice(rest, 3, replace=False)] = rng.standard_normal((k, 3))
    others = 30.0 * np.eye(rest) + np.eye(rest, k=1) + np.eye(rest, k=-1)
    whole = np.zeros((n * k + rest,) * 2)
    for i in range(n):
        whole[i * k : i * k + k, i * k : i * k + k] = own[i]
    whole[: n * k, n * k :], whole[n * k :, : n * k] = beside, beside.T
    whole[n * k :, n * k :] = others
    inverse, parts = np.linalg.inv(whole), [csr_array(part) for part in (beside, others)]
    found = Eliminated(own, *(SiteRows(p.indptr, p.indices, p.data) for p in parts))
    assert found.log_det == pytest.approx(np.linalg.slogdet(whole)[1], abs=1e-9)
    x = rng.standard_normal(len(whole))
    assert np.allclose(found.solve(x), inverse @ x) and np.allclose(found.times(x), whole @ x)
    first, second = found.blocks([(n, k), (rest, 1)])
    for i in range(n):
        assert np.allclose(first[i], inverse[i * k : i * k + k, i * k : i * k + k])
    assert np.allclose(second.ravel(), np.diag(inverse)[n * k :])
    root = np.array([found.spread(e) for e in np.eye(len(whole))]).T
    assert np.allclose(root @ root.T, inverse)
    at = np.array([3, 130, 144, 7])
    assert np.allclose(found.columns(at), inverse[np.ix_(at, at)])


def of_one(state, i):
    z = state.s[i] / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def memory_of(rows, rng):
    """Most bytes that a fit of sites takes, of so many rows and a fifth of that many sites."""
    s, d = np.arange(rows) % (rows // 5), rng.integers(40, size=rows)
    y = rng.standard_normal(rows)
    model = sm.Model(
        pair, {"y": y, "s": s, "d": d}, {"s": np.zeros(rows // 5), "d": np.zeros(40), "tau": 1.0},
        lambda state: -state.tau[0], constraints={"tau": sm.positive},
        touches={"s": "s", "d": "d"}, site_prior={"s": of_one, "d": of_unit},
    )  # fmt: skip
    tracemalloc.start()
    try:
        fit = sm.laplace(model, ("s", "d"), progress=False)
        fit.sites("s")
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def of_unit(state, i):
    return -(state.d[i] ** 2)


def pair(state, data, n):
    return -0.5 * (data.y[n] - state.s[data.s[n]] - state.d[data.d[n]]) ** 2


@pytest.mark.slow
def test_memory_is_linear_in_rows(rng):
    """A dense precision of the larger model would have 64 times the entries, and 84 MB."""
    memory_of(1_000, rng)  # what is made once
    few, many = memory_of(2_000, rng), memory_of(16_000, rng)
    assert many < 9.0 * few and many < 16_000 * 1_000


def tied_by_all(rng, sites, others, each):
    """A precision of sites that see some of many others each, at random: nearly all are tied."""
    columns = np.sort([rng.choice(others, each, replace=False) for _ in range(sites)], axis=1)
    beside = 0.1 * rng.standard_normal(columns.size)
    rows = SiteRows(np.arange(sites + 1) * each, columns.ravel(), beside)
    at = np.arange(others)
    rest = SiteRows(np.append(at, others), at, np.full(others, 300.0))
    return Eliminated(np.full((sites, 1, 1), 50.0), rows, rest)


@pytest.mark.parametrize("large", [0, 2_000], ids=["refused", "dense"])
def test_what_is_tied_by_all_is_not_made_as_a_sparse_matrix(large, rng, monkeypatch):
    """Of 4 million pairs that took 194 MB, before it was refused, or made dense."""
    precision = tied_by_all(rng, 6_000, 2_000, 60)
    known = precision.log_det
    again = Eliminated(precision.own, precision.beside, precision.rest)
    for name, value in (("DENSE", 0), ("LARGE", large), ("FILLED", 100_000)):
        monkeypatch.setattr(elimination, name, value)
    tracemalloc.start()
    try:
        if large:
            assert again.log_det == pytest.approx(known, rel=1e-12)
        else:
            with pytest.raises(ValueError, match="more than 100,000 pairs"):
                again.log_det  # noqa: B018
        assert tracemalloc.get_traced_memory()[1] < (110e6 if large else 30e6)
    finally:
        tracemalloc.stop()


def nested(rng, classes=400, schools=100):
    """Pupils in classes, classes in schools: what is left of schools is diagonal."""
    rows = 4 * classes
    s = np.arange(rows) % classes
    d = s % schools
    y = rng.standard_normal(rows) + 0.5 * rng.standard_normal(schools)[d]
    return sm.Model(
        pair, {"y": y, "s": s, "d": d},
        {"s": np.zeros(classes), "d": np.zeros(schools), "tau": 1.0}, lambda state: -state.tau[0],
        constraints={"tau": sm.positive}, touches={"s": "s", "d": "d"},
        site_prior={"s": of_one, "d": of_unit},
    )  # fmt: skip


def test_nested_factors_of_many_sites_are_sparse(rng, monkeypatch):
    model = nested(rng)
    one = sm.laplace(model)
    monkeypatch.setattr(elimination, "DENSE", 0)
    monkeypatch.setattr(elimination, "LARGE", 0)
    monkeypatch.setattr(elimination, "FILLED", 100)  # the pairs of schools with themselves
    two = sm.laplace(model)
    assert np.allclose(one.modes, two.modes, atol=1e-6)
    for name in "sd":
        assert np.allclose(one.sites(name)[1], two.sites(name)[1], rtol=1e-4)
    monkeypatch.setattr(elimination, "FILLED", 99)
    with pytest.raises(ValueError, match="Hold one of the factors"):
        sm.laplace(model)
