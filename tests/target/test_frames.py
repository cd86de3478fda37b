"""Tables of other libraries as data: the same draws as of arrays, or a refusal by its row."""

import numpy as np
import pytest

import subsample_mcmc as sm

N = 60
Y = np.random.default_rng(0).normal(size=N)
G = np.arange(N) % 3
NAMES = np.array(["a", "b", "c"])[G]


def log_likelihood(state, data, n):
    return -0.5 * (data.y[n] - state.mu[0] - 0.1 * data.g[n]) ** 2


def model(data, **more):
    return sm.Model(log_likelihood, data, {"mu": 0.0}, **more)


def draws(given):
    kernel = sm.Metropolis("mu", 0.3, selector=sm.Exact())
    return sm.sample(given, kernel, 20, 20, chains=1, seed=1, progress=False).draws["mu"]


PLAIN = {"y": Y, "g": G}


def polars():
    return pytest.importorskip("polars", reason="needs polars: `make clusters`")


def pyarrow():
    return pytest.importorskip("pyarrow", reason="needs pyarrow: `make clusters`")


def dataset():
    xarray = pytest.importorskip("xarray", reason="needs xarray")
    return xarray.Dataset({"y": ("obs", Y), "g": ("obs", G)})


TABLES = {
    "polars": lambda: polars().DataFrame(PLAIN),
    "pyarrow": lambda: pyarrow().table(PLAIN),
    "pyarrow in chunks": lambda: pyarrow().concat_tables(
        [pyarrow().table({k: v[part] for k, v in PLAIN.items()})
         for part in (slice(0, 7), slice(7, N))]
    ),
    "a batch": lambda: pyarrow().RecordBatch.from_pydict(PLAIN),
    "columns of pyarrow": lambda: {"y": pyarrow().array(Y), "g": pyarrow().chunked_array([G])},
    "xarray": dataset,
    "records": lambda: np.rec.fromarrays([Y, G], names="y,g"),
    "packed records": lambda: np.array(
        list(zip(Y, G, strict=True)), dtype=[("g1", "i1"), ("y", "f8"), ("g", "i4")][1:]
    ),
    "a field of packed records": lambda: {"g": G, "y": packed()["y"]},
}  # fmt: skip


def packed():
    made = np.zeros(N, dtype=[("flag", "i1"), ("y", "f8")])
    made["y"] = Y
    assert not made["y"].flags.aligned
    return made


@pytest.mark.parametrize("kind", TABLES)
def test_draws_are_those_of_arrays(kind):
    given = model(TABLES[kind]())
    assert given.size == N and set(given.data._fields) == {"y", "g"}
    assert all(np.asarray(column).flags.aligned for column in given.data)
    assert np.array_equal(draws(given), draws(model(PLAIN)))


def test_populations_take_them_too():
    def log_factor(data, arm, n):
        return -abs(data.y[n] - arm)

    population = sm.Population(log_factor, dataset()[["y"]], arms=2)
    same = sm.Population(log_factor, {"y": Y}, arms=2)
    one, two = (sm.draw(p, size=20, seed=1, progress=False) for p in (population, same))
    assert np.array_equal(one.arms, two.arms)


def test_numbers_and_matrices_of_datasets():
    def of_matrix(state, data, n):
        return -0.5 * (data.x[n, 1] - data.shift - state.mu[0]) ** 2

    made = dataset().assign(x=(("obs", "term"), np.column_stack([Y, Y])), shift=2.5)
    given = sm.Model(of_matrix, made, {"mu": 0.0})
    assert given.data.shift == 2.5 and given.data.x.shape == (N, 2)


# -------------------------------------------------------------------------------------- categories
def of_groups(state, data, n):
    return -0.5 * (data.y[n] - state.a[data.kind[n]]) ** 2


def simulate(rng, state, data, n):
    return state.a[data.kind[n]] + 0.0 * rng.random()


@sm.kernel(writes="a")
def stay(rng, state, data):
    """Leaves all as it is."""


@pytest.mark.parametrize("kind", ["categorical", "enum", "dictionary"])
def test_categories_name_the_sites(kind):
    order = ["c", "a", "b"] if kind == "enum" else ["a", "b", "c"]
    if kind == "dictionary":
        frame = pyarrow().table({"y": Y, "kind": pyarrow().array(NAMES).dictionary_encode()})
    else:
        pl = polars()
        column = pl.Series(NAMES).cast(pl.Enum(order) if kind == "enum" else pl.Categorical)
        frame = pl.DataFrame({"y": Y, "kind": column})
    given = sm.Model(of_groups, frame, {"a": [1.0, 2.0, 3.0]}, touches={"a": "kind"})
    assert given.axes.coords["kind"].tolist() == order
    assert [order[code] for code in given.data.kind] == NAMES.tolist()
    trace = sm.sample(given, stay, 4, 0, chains=1, seed=1, progress=False)
    new = frame[:5] if kind != "dictionary" else frame.slice(0, 5)
    made = sm.predict(given, trace, simulate, data=new, progress=False).values[""]
    assert np.array_equal(made[0, 0], [1.0 + order.index(name) for name in NAMES[:5]])


def test_categories_that_are_missing_are_refused():
    pl = polars()
    column = pl.Series([None, *NAMES[1:]]).cast(pl.Categorical)
    with pytest.raises(ValueError, match=r"data kind, which says the site.* in row 0"):
        sm.Model(of_groups, pl.DataFrame({"y": Y, "kind": column}), {"a": np.zeros(3)},
                 touches={"a": "kind"})  # fmt: skip


# -------------------------------------------------------------------------------- what is refused
@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_nulls_are_refused_by_row_and_column(kind):
    for values in ([*Y[:7], None, *Y[8:]], [*G[:7].tolist(), None, *G[8:].tolist()]):
        columns = {"y": Y, "g": values}
        table = polars().DataFrame(columns) if kind == "polars" else pyarrow().table(columns)
        drop = r"df\.drop_nulls\('g'\)" if kind == "polars" else r"table\.drop_null\(\)"
        with pytest.raises(
            ValueError, match=rf"data g has 1 missing value \(NaN\), in row 7.*{drop}"
        ):
            model(table)


def test_holes_and_infinities_of_records_and_datasets():
    holed = np.where(np.arange(N) == 11, np.nan, Y)
    for made in (np.rec.fromarrays([holed, G], names="y,g"), dataset().assign(y=("obs", holed))):
        with pytest.raises(ValueError, match=r"data y has 1 missing value \(NaN\), in row 11"):
            model(made)
    masked = np.ma.array(np.zeros(N, dtype=[("y", "f8"), ("g", "i8")]))
    masked["y"][4] = np.ma.masked
    with pytest.raises(ValueError, match="data y is a masked array with 1 missing value, in row 4"):
        model(masked)
    far = np.where(np.arange(N) == 3, np.inf, Y)
    with pytest.raises(ValueError, match="data y has 1 infinite value, in row 3"):
        model(np.rec.fromarrays([far, G], names="y,g"))


def test_tables_that_are_not_row_by_row_are_refused():
    made = dataset().assign(z=("other", np.zeros(4)))
    with pytest.raises(ValueError, match=r"first axes, y \(obs\), g \(obs\), z \(other\)"):
        model(made)
    with pytest.raises(ValueError, match=r"data has shape \(30, 2\): give one record a datum"):
        model(np.rec.fromarrays([Y, G], names="y,g").reshape(30, 2))
    with pytest.raises(ValueError, match="structured array has a column 'a b'"):
        model(np.zeros(N, dtype=[("a b", "f8")]))
    with pytest.raises(ValueError, match="Dataset has a column 3"):
        model(dataset().rename({"y": 3}))
    with pytest.raises(TypeError, match="data=ndarray: give a dict"):
        model(np.zeros((N, 2)))
