"""Hidden paths: draws against posteriors that are enumerated, mutants, what is refused."""

import inspect
import itertools
import math

import numpy as np
import pytest
from scipy import stats

import subsample_mcmc as sm
from subsample_mcmc.kernels.paths import paths as paths_module
from subsample_mcmc.kernels.paths.forest import forest_of, rooted
from subsample_mcmc.kernels.sites import asked
from subsample_mcmc.runs.defaults.orders import in_an_order

SITES, VALUES, NONE = 6, 3, -np.inf
EVERY = np.array(list(itertools.product(range(VALUES), repeat=SITES)))
FALSE_ALARM = 1e-7  # of one comparison of all states, of some forty


# ------------------------------------------------------------------------------------------ models
def of_pair(state, data, n):
    return data.w[n, state.z[data.a[n]], state.z[data.b[n]]]


def walk(state, i):
    """A prior that no two sites share."""
    if i == 0:
        return -0.7 * state.z[0]
    d = state.z[i] - 0.8 * state.z[i - 1] - 0.1 * i
    return -0.6 * d * d


def alone(state, i):
    return -0.3 * (state.z[i] - 0.2 * i) ** 2


FORESTS = {  # which sites rows see; one alone, or two
    "a chain": [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), 0, 3],
    "a chain in another order": [(3, 0), (0, 5), (5, 1), (1, 4), (4, 2), 2],
    "a tree": [(2, 0), (2, 1), (2, 4), (4, 3), (4, 5), (4, 5), 1, 1, 3],
    "two trees, and one alone": [(0, 4), (4, 2), (1, 5), 3, 3, 5],
    "no pairs, and one unseen": [0, 1, 1, 3, 4, 5],
    "a star, and rows of it by twos": [(5, j) for j in range(5)] * 2,
}


def tables_of(kind):
    """Rows of a forest: the sites of each, and its log likelihood by their values."""
    rng = np.random.default_rng(list(FORESTS).index(kind))
    pairs = [(e, e) if isinstance(e, int) else e for e in FORESTS[kind]]
    w = 1.2 * rng.standard_normal((len(pairs), VALUES, VALUES))
    w[0, 2, 1] = w[1, 2, 2] = NONE  # what cannot be
    a, b = np.array(pairs).T
    return {"a": a, "b": b, "w": w}


def model_of(data, prior=None, likelihood=of_pair, **more):
    given = {} if prior is None else {"site_prior": {"z": prior}}
    return sm.Model(
        likelihood, data, {"z": np.zeros(SITES, int)}, support={"z": VALUES},
        touches={"z": ("a", "b")}, missing="infinite", **given, **more,
    )  # fmt: skip


def log_weights(data, prior=None):
    """Of every state, by a loop."""
    found = []
    for z in EVERY:
        value = sum(
            data["w"][n, z[a], z[b]]
            for n, (a, b) in enumerate(zip(data["a"], data["b"], strict=True))
        )
        state = type("State", (), {"z": z})
        found.append(value + sum(prior(state, i) for i in range(SITES) if prior is not None))
    return np.array(found)


def chances(logs):
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def p_value(draws, wanted):
    """Of the counts of all states, rare ones together."""
    numbers = draws @ VALUES ** np.arange(SITES)[::-1]
    counts = np.bincount(numbers, minlength=len(wanted))
    assert counts[wanted == 0.0].sum() == 0
    expected = wanted * len(draws)
    often = expected > 8.0
    few = expected[~often].sum(), counts[~often].sum()
    observed = np.append(counts[often], few[1]) if few[0] > 0 else counts[often]
    expected = np.append(expected[often], few[0]) if few[0] > 0 else expected[often]
    return stats.chisquare(observed, expected).pvalue


def sampled(model, kernel, draws=20_000, seed=1, **more):
    return sm.sample(
        model, kernel, draws=draws, warmup=0, chains=1, seed=seed, progress=False, **more
    )  # fmt: skip


CASES = [
    *((kind, prior) for kind in FORESTS for prior in (None, alone)),
    ("no pairs, and one unseen", walk), ("a chain", walk),
]  # fmt: skip


def name_of(case):
    return f"{case[0]}, {'no prior' if case[1] is None else case[1].__name__}"


@pytest.mark.parametrize("table", [True, False], ids=["kept", "asked again"])
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_draws_are_independent_ones_of_the_posterior(case, table, monkeypatch):
    """Also where the prior's links stand on those of rows, and weights are too many to keep."""
    kind, prior = case
    if not table:
        monkeypatch.setattr(paths_module, "LARGEST", 0)
    data = tables_of(kind)
    start = EVERY[np.argmax(log_weights(data, prior))]
    trace = sampled(model_of(data, prior), sm.paths("z"), start=[{"z": start}])
    draws, wanted = trace.draws["z"][0], chances(log_weights(data, prior))
    assert p_value(draws, wanted) > FALSE_ALARM
    again = draws[:-1, 0] * VALUES + draws[1:, 0]  # of one draw and the next
    first = np.bincount(draws[:, 0], minlength=VALUES) / len(draws)
    pairs = np.bincount(again, minlength=VALUES**2).reshape(VALUES, VALUES)
    some = first > 0.0
    if some.sum() > 1:
        table = pairs[np.ix_(some, some)]
        assert stats.chi2_contingency(table).pvalue > FALSE_ALARM


# ---------------------------------------------------------------------------------------- mutants
MUTANTS = {
    "what sites said before stays": ("    messages[:] = 0.0\n", ""),
    "sites are drawn given another value of their parent": (
        "table[site, trial.ints[start + parent]]", "table[site, 0]",
    ),
    "of a parent one value is asked": ("trial.ints[start + parent] = at", "pass"),
    "of a site the last value is forgotten": (
        "        total += values[k]\n", "        total += values[k] if k < 2 else 0.0\n",
    ),
    "own rows count twice": (
        "forest.shared[site], forest.first[site + 1])",
        "forest.first[site], forest.first[site + 1])",
    ),
    "the first site has no prior": ("prior.behind > 0 and site > 0", "prior.behind > 0"),
    "each link of the prior counts again": (
        "prior.of == 0 or shared != reads_parent", "prior.of == 0",
    ),
    "rare values are drawn too often": (
        "left -= weights[value]", "left -= weights[value] ** 0.9",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_seen(name):
    old, new = MUTANTS[name]
    source = inspect.getsource(paths_module)
    assert source.count(old) == 1, f"{old!r} is no longer there: write the mutant anew."
    scope = {"__name__": "mutant_of_paths", "__file__": paths_module.__file__}
    exec(compile(source.replace(old, new), "<mutant of paths>", "exec"), scope)
    worst = 1.0
    for kind, prior in (("a chain", walk), ("a tree", alone)):
        data = tables_of(kind)
        logs = log_weights(data, prior)
        model = model_of(data, prior)
        kernel = scope["Paths"]("z")
        trace = sampled(model, kernel, start=[{"z": EVERY[np.argmax(logs)]}])
        draws, wanted = trace.draws["z"][0], chances(logs)
        if wanted[draws @ VALUES ** np.arange(SITES)[::-1]].min() == 0.0:
            worst = 0.0
            break
        worst = min(worst, p_value(draws, wanted))
    assert worst < FALSE_ALARM


# ----------------------------------------------------------------------- with what states share
SHARES = np.array([0.5, 0.75, 0.97])  # how often the state stays, by k
Y = np.array([0.1, -0.4, 1.3, 0.9, 1.2, 0.2])


def seen(state, data, n):
    return -2.0 * (data.y[n] - state.z[data.a[n]]) ** 2


def seen_in_rows(state, data, n):
    now = state.z[data.a[n]]
    value = -2.0 * (data.y[n] - now) ** 2
    if data.a[n] != data.b[n]:
        stays = SHARES[state.k[0]]
        value += sm.log(stays if now == state.z[data.b[n]] else 1.0 - stays)
    return value


def stays(state, i):
    if i == 0:
        return 0.0
    p = SHARES[state.k[0]]
    return sm.log(p if state.z[i] == state.z[i - 1] else 1.0 - p)


def together(form):
    every = np.arange(SITES)
    data = {"y": Y, "a": every, "b": np.maximum(every - 1, 0)}
    given = {} if form == "rows" else {"site_prior": {"z": stays}}
    return sm.Model(
        seen_in_rows if form == "rows" else seen, data, {"z": np.zeros(SITES, int), "k": 0},
        support={"z": 2, "k": 3}, touches={"z": ("a", "b") if form == "rows" else "a"}, **given,
    )  # fmt: skip


def truth():
    """Means of the states, of k, and of neighbours that are the same."""
    total, found = 0.0, 0.0
    for k, p in enumerate(SHARES):
        for z in np.array(list(itertools.product(range(2), repeat=SITES))):
            same = z[1:] == z[:-1]
            weight = np.exp(-2.0 * np.sum((Y - z) ** 2)) * np.prod(np.where(same, p, 1.0 - p))
            total += weight
            found = found + weight * np.array([*z, *same, k == 0, k == 1])
    return found / total


@pytest.mark.parametrize("form", ["rows", "priors"])
@pytest.mark.parametrize("kernel", [
    sm.paths("z"), sm.Gibbs("z", sm.Exact()), sm.Gibbs("z", sm.Racing()),
    sm.Gibbs("z", sm.Exact(), scan="random"), sm.Gibbs("z", sm.Exact()) >> sm.paths("z"),
], ids=lambda kernel: kernel.text())  # fmt: skip
def test_states_and_how_long_they_last_have_their_posterior(kernel, form):
    """Of sites one by one, too, which read the terms of the prior that they are in."""
    trace = sampled(together(form), kernel >> sm.Gibbs("k", sm.Exact()), 20_000, seed=3)
    z, k = trace.draws["z"][0], trace.draws["k"][0].reshape(-1)
    numbers = np.column_stack([z, z[:, 1:] == z[:, :-1], k == 0, k == 1])
    batches = numbers.reshape(40, -1, numbers.shape[1]).mean(axis=1)
    errors = batches.std(axis=0, ddof=1) / math.sqrt(40)
    assert np.abs((batches.mean(axis=0) - truth()) / errors).max() < 7.0  # 1 run in 10^6


def test_whose_terms_of_the_prior_a_site_by_itself_asks():
    """Its own and the next one's; all, where the code does not tell."""
    every = np.arange(400)

    def made(prior):
        return sm.Model(
            seen, {"y": np.zeros(400), "a": every}, {"z": np.zeros(400, int), "k": 1},
            support={"z": 2, "k": 3}, touches={"z": "a"}, site_prior={"z": prior},
        )  # fmt: skip

    def by_hand(state, i):
        j = i - 1
        return stays(state, i) if j >= 0 else 0.0

    gibbs = sm.Gibbs("z")
    assert gibbs.reads_before(made(stays)) == 1
    assert gibbs.reads_before(made(by_hand)) is None
    assert gibbs.reads_before(together("rows")) is None
    assert sm.Gibbs("z", log_prior=lambda s, d, i, a: 0.0).reads_before(made(stays)) is None


@pytest.mark.plain
@pytest.mark.parametrize("form", ["rows", "priors"])
def test_what_a_step_reads_is_counted(form, monkeypatch):
    model = together(form)
    found = []
    for most, pairs in ((1_000, 5 * 2 * 2), (0, 5 * 2 * 3)):
        monkeypatch.setattr(paths_module, "LARGEST", most)
        trace = sampled(model, sm.paths("z") >> sm.Gibbs("k", sm.Exact()), draws=40)
        told = trace.stats["z"]
        per_draw = SITES * 2 if form == "priors" else 2 + pairs
        assert (told["pulls"] == per_draw).all() and (told["everything"] == per_draw).all()
        assert (told["decisions"] == SITES).all()
        z = np.concatenate([np.zeros((1, SITES), int), trace.draws["z"][0]])
        assert (told["accepted"] == (z[1:] != z[:-1]).sum(axis=1)).all()
        found.append(z)
    assert np.array_equal(*found)


# ---------------------------------------------------------------------------------------- forests
def test_forests_have_parents_first_and_each_row_once(rng):
    for _ in range(60):
        sites = int(rng.integers(1, 12))
        names = rng.permutation(sites)
        links = [(names[i], names[rng.integers(i)]) for i in range(1, sites) if rng.random() < 0.8]
        rows = [links[rng.integers(len(links))] if links and rng.random() < 0.6
                else (int(rng.integers(sites)),) * 2 for _ in range(20)]  # fmt: skip
        used = {tuple(sorted(pair)) for pair in rows if pair[0] != pair[1]}
        owners = [[n for n, pair in enumerate(rows) if site in pair] for site in range(sites)]
        indptr = np.concatenate([[0], np.cumsum([len(own) for own in owners])])
        indices = np.array([n for own in owners for n in own], dtype=np.int64)
        forest = forest_of("paths('z')", "z", (indptr, indices), len(rows), False)
        place = np.argsort(forest.order)
        assert sorted(forest.order) == list(range(sites))
        for site, parent in enumerate(forest.parent):
            assert parent < 0 or place[parent] < place[site]
        found = {tuple(sorted((s, int(p)))) for s, p in enumerate(forest.parent) if p >= 0}
        assert found == used
        assert sorted(forest.touched) == list(range(len(rows)))
        for site in range(sites):
            first, shared, last = forest.first[site], forest.shared[site], forest.first[site + 1]
            assert all(set(rows[n]) == {site} for n in forest.touched[first:shared])
            both = {site, int(forest.parent[site])}
            assert all(set(rows[n]) == both for n in forest.touched[shared:last])


def test_a_long_chain_is_one_path():
    number = np.arange(100_000)
    found = rooted("paths('z')", "z", np.stack([number[:-1], number[1:]], axis=1), len(number))
    assert np.array_equal(found.order, number)
    assert np.array_equal(found.parent, number - 1)


# --------------------------------------------------------------------------- what is told, refused
def test_what_paths_do_not_serve_is_refused():
    kernel = sm.paths("z")

    def refused(message, model):
        with pytest.raises(ValueError, match=message):
            kernel.check(model)

    ring = {"a": np.arange(SITES), "b": (np.arange(SITES) + 1) % SITES, "w": np.zeros((6, 3, 3))}
    refused(
        r"in a ring, such as among z\[0\], z\[1\], z\[2\], z\[3\] \.\.\.: .*sm.Gibbs",
        model_of(ring),
    )
    star = tables_of("a tree")
    refused("in a ring", model_of(star, walk))

    def of_three(state, data, n):
        return 0.1 * state.z[0] * state.z[1] * state.z[2] if n == 1 else of_pair(state, data, n)

    data = {"a": np.array([0, 1]), "b": np.array([0, 2]), "c": np.array([0, 0]),
            "w": np.zeros((2, 3, 3))}  # fmt: skip
    start, touches = {"z": np.zeros(SITES, int)}, {"z": ("a", "b", "c")}
    three = sm.Model(of_three, data, start, support={"z": 3}, touches=touches)
    refused(r"datum 1 sees z\[0\], z\[1\], z\[2\]: .* two sites at most", three)

    def ahead(state, i):
        return 0.1 * state.z[i] * state.z[(i + 1) % 6]

    def two_before(state, i):
        return 0.1 * state.z[i] * (state.z[i - 2] if i > 1 else 0.0)

    for prior in (ahead, two_before):
        refused(r"site_prior\['z'\] may read other sites", model_of(tables_of("a chain"), prior))
    rest = model_of(tables_of("a chain"), log_prior=lambda state: 0.1 * state.z[0])
    refused("log_prior may read 'z'", rest)

    def shared(state, data):
        return (state.z[0],)

    def with_shared(state, data, n, made):
        return 0.0 * made[0] + of_pair(state, data, n)

    refused("prepare.* may read 'z'", model_of(
        tables_of("a chain"), likelihood=with_shared, prepare=shared))  # fmt: skip
    plain = sm.Model(of_pair, tables_of("a chain"), {"z": np.zeros(SITES, int)}, support={"z": 3},
                     missing="infinite")  # fmt: skip
    refused("touches=", plain)
    levels = sm.Model(lambda state, data, n: -(state.z[data.a[n]] ** 2), {"a": np.arange(3)},
                      {"z": np.zeros(3)}, touches={"z": "a"})  # fmt: skip
    refused("sm.windows", levels)
    with pytest.raises(TypeError, match="name of the block"):
        sm.paths(3)
    with pytest.raises(TypeError, match="moves a block site by site"):
        sm.side_by_side(kernel)


def test_a_datum_without_a_value_is_named_and_the_state_is_as_it_was():
    data = tables_of("a chain")
    data["w"] = np.where(np.isinf(data["w"]), -1.0, data["w"])
    data["w"][3, 2, 1] = np.nan
    model = sm.Model(
        of_pair, data, {"z": np.zeros(SITES, int)}, support={"z": 3}, touches={"z": ("a", "b")},
        missing="allow",
    )  # fmt: skip
    told = r"log_likelihood is nan or \+inf at datum 3 .*state was z=\[0, 0, 0, 0"
    with pytest.raises(sm.RewardError, match=told):
        sampled(model, sm.paths("z"), draws=5)

    def nowhere(state, data, n):
        return -np.inf if state.k[0] == 1 else of_pair(state, data, n)

    data["w"][3, 2, 1] = 0.0
    model = sm.Model(
        nowhere, data, {"z": np.zeros(SITES, int), "k": 0}, support={"z": 3, "k": 2},
        touches={"z": ("a", "b")},
    )  # fmt: skip

    @sm.kernel(writes="k")
    def leaves(rng, state, data):
        state.k[0] = 1

    with pytest.raises(sm.RewardError, match="every arm is impossible"):
        sampled(model, leaves >> sm.paths("z"), draws=5)


def test_a_datum_that_sees_another_site_ends_the_chain(monkeypatch):
    """In a state that was not tried; as of sites one by one."""

    def far_off(state, data, n):
        value = of_pair(state, data, n)
        return value - (0.3 * state.z[5] if state.z[data.a[n]] == 2 and state.z[4] == 2 else 0.0)

    monkeypatch.setattr(asked, "AWAY", (0.0,))
    data = tables_of("a chain")
    data["w"] = np.where(np.isinf(data["w"]), -1.0, data["w"])
    with pytest.raises(RuntimeError, match=r"touches\['z'\]: datum \d+ .*said to see"):
        sampled(model_of(data, likelihood=far_off), sm.paths("z"), draws=2_000)


def test_defaults_and_reports_name_them():
    model = together("priors")
    assert in_an_order(model) == {"z": 'sm.paths("z")'}
    assert in_an_order(together("rows")) == {"z": 'sm.paths("z")'}
    assert in_an_order(model_of(tables_of("no pairs, and one unseen"))) == {}
    kernel = sm.paths("z") >> sm.Gibbs("k")
    assert "6 sites as one path or tree" in kernel.describe(model)
    trace = sampled(model, kernel, draws=50)
    assert "scott2002" in sm.cite(trace)
    assert "guarantee: exact" in repr(trace)
