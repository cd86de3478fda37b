"""Sites that several cores move at once: laws, streams, and the same draws by any cores."""

import itertools
import math
import threading
import time

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.base import ANY_CHAIN
from subsample_mcmc.kernels.sites import by_site
from subsample_mcmc.kernels.sites import side_by_side as module
from subsample_mcmc.numerics.jit import DISABLED
from subsample_mcmc.runs.chain import Program, Walker
from tests.helpers import runs
from tests.helpers.groups import (
    SIZES,
    data_of,
    errors_of,
    log_likelihood,
    model_of,
    sampled,
    wrong,
)
from tests.helpers.labels import COUNT, labels, of_k, whole_prior
from tests.helpers.marks import slow_but

KERNELS = [sm.Metropolis, sm.Slice, sm.Langevin]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Some five parts of few sites, where there would be one."""
    monkeypatch.setattr(module, "LEAST", 40)


def hierarchy(kind=sm.Metropolis, cores=None, **more):
    return sm.side_by_side(kind("a", **more), cores) >> sm.Metropolis(("mu", "tau"))


# --------------------------------------------------------------------------------------- laws
@pytest.mark.parametrize("kind", slow_but([sm.Metropolis], KERNELS))
def test_a_hierarchy_keeps_its_laws(kind):
    assert not wrong(sampled(model_of(), hierarchy(kind)))


def test_so_it_does_with_moves_of_all_sites_at_once():
    kernel = hierarchy() >> sm.interweave("a", location="mu", scale="tau")
    assert not wrong(sampled(model_of(), kernel))


def test_each_part_proposes_from_its_sites_of_a_fit():
    """As many proposals are accepted as of all sites one after the other, without learning."""
    model = model_of()
    sites = sm.Metropolis("a", adapt=False, proposal=sm.pcn(sm.laplace(model)))
    rest, accepted = sm.Metropolis(("mu", "tau"), 0.4, adapt=False), []
    for kernel in (sites, sm.side_by_side(sites, 1)):
        trace = sampled(model, kernel >> rest, 4_000, warmup=0)
        accepted.append(trace.stats["a"]["accepted"].mean() / len(SIZES))
    assert abs(accepted[0] - accepted[1]) < 0.03
    assert accepted[0] > 0.4


def of_line(state, data, n):
    g = data.group[n]
    z = data.y[n] - state.a[g, 0] - state.a[g, 1] * data.x[n]
    return -0.5 * z * z


def of_pair(state, site):
    return -0.5 * (state.a[site, 0] ** 2 + 0.25 * (state.a[site, 1] - 1.0) ** 2)


@pytest.mark.parametrize("kernel", [sm.Metropolis("a"), sm.Slice("a"), sm.Langevin("a")])
def test_the_numbers_of_a_site_move_together(rng, kernel):
    sizes = (30, 0, 3, 60)
    group = np.repeat(np.arange(4), sizes)
    x = rng.standard_normal(len(group)) + 1.0
    y = 0.3 * group + x + rng.standard_normal(len(group))
    model = sm.Model(
        of_line, {"y": y, "x": x, "group": group}, {"a": np.zeros((4, 2))},
        touches={"a": "group"}, site_prior={"a": of_pair},
    )  # fmt: skip
    trace = sampled(model, sm.side_by_side(kernel, 1), 6_000)
    for g in range(4):
        rows = np.column_stack([np.ones(sizes[g]), x[group == g]])
        precision = rows.T @ rows + np.diag([1.0, 0.25])
        mean = np.linalg.solve(precision, rows.T @ y[group == g] + [0.0, 0.25])
        z = (np.asarray(trace.draws["a"])[0, :, g] - mean) @ np.linalg.cholesky(precision)
        assert max(*errors_of(z[:, 0]), *errors_of(z[:, 1])) < 5.0, g


def normal(state, site):
    return -0.5 * state.a[site] ** 2


def nothing(state, data, n):
    return 0.0 * state.a[data.group[n]] * data.y[n]


def independent_model(sites=40):
    """Sites without data to speak of, all alike: independent standard normals."""
    data = {"y": np.zeros(sites), "group": np.arange(sites)}
    return sm.Model(
        nothing, data, {"a": np.zeros(sites)}, touches={"a": "group"}, site_prior={"a": normal}
    )


def errors_of_independence(trace):
    """(of means and squares, of products of two sites), in standard errors of independent draws.

    Slices of one normal number forget it in three sweeps.
    """
    a = np.asarray(trace.draws["a"])[0]
    n, pairs = len(a), np.triu_indices(a.shape[1], 1)
    ends = a[:-1].T @ a[1:] / n  # of one draw, and the next
    own = max(max(errors_of(column)) for column in a.T)
    both = np.abs((a.T @ a / n)[pairs]).max() * math.sqrt(n)
    later = np.abs(ends - np.diag(np.diag(ends))).max() * math.sqrt(n)
    return own, max(both, later)


def correlated(monkeypatch=None, streams=None):
    """780 pairs of sites, and 1,560 of successive draws: by chance once in 1,000 above 5."""
    if streams is not None:
        monkeypatch.setattr(module, "streams", streams)
    kernel = sm.side_by_side(sm.Slice("a", 4.0, adapt=False), 1)
    return errors_of_independence(sampled(independent_model(), kernel, 2_000, 20, thin=3))


def test_sites_of_different_parts_are_independent():
    own, both = correlated()
    assert own < 5.0
    assert both < 5.0


def alone(root, out):
    """Of the chain's number alone: all parts draw the same."""
    out[:] = np.random.default_rng(int(root)).integers(2**63, size=out.shape[1])


def of_neighbours(root, out):
    """Every other part has the numbers of the one before."""
    module_streams(root, out)
    out[1::2] = out[: len(out) - 1 : 2][: len(out[1::2])]


def of_the_part_alone(root, out):
    """The same in every sweep."""
    module_streams(np.uint64(5), out)


module_streams = module.streams


@pytest.mark.parametrize("streams", [alone, of_neighbours])
def test_parts_that_share_a_stream_would_be_seen(monkeypatch, streams):
    assert correlated(monkeypatch, streams)[1] > 20.0


def test_streams_that_begin_anew_would_be_seen(monkeypatch):
    assert correlated(monkeypatch, of_the_part_alone)[0] > 20.0


@pytest.mark.plain
def test_streams_are_those_of_the_part_and_of_the_sweep():
    roots, parts = np.random.default_rng(0).integers(2**63, size=200, dtype=np.uint64), 64
    found = np.zeros((len(roots), parts, module.WORDS), dtype=np.uint64)
    with np.errstate(all="ignore"):
        for root, out in zip(roots, found, strict=True):
            module_streams(root, out)
        few = np.zeros((3, module.WORDS), dtype=np.uint64)
        module_streams(roots[0], few)
    np.testing.assert_array_equal(few, found[0, :3])  # whatever their number
    assert len(np.unique(found)) == found.size
    bits = np.unpackbits(found.view(np.uint8)).reshape(-1, 64)
    errors = (bits.mean(axis=0) - 0.5) * 2.0 * math.sqrt(len(bits))
    assert np.abs(errors).max() < 5.0  # by chance once in 10^4


@pytest.mark.parametrize("at", ["generator", "rows", "audits"])
def test_each_part_has_each_of_its_streams_anew_in_each_sweep(monkeypatch, at):
    """Decisions are exact and not audited here: streams of rows and audits stay as they began."""
    begun, move = [], module.Sides.move

    def noted(self, k, now):
        move(self, k, now)
        _, bits, chain, _ = self.sides[k]
        told = {"generator": bits.state["state"]["inc"], "rows": int(chain.rows[0]),
                "audits": int(chain.audits[0])}  # fmt: skip
        begun.append(told[at])

    monkeypatch.setattr(module.Sides, "move", noted)
    sampled(model_of(), hierarchy(), 50, 10)
    assert len(begun) == len(set(begun)) >= 60 * 4


# ------------------------------------------------------------------------------ labels by Gibbs
def test_labels_have_the_probabilities_that_are_known():
    """Each label less its probability given the mean is 0, on average."""
    model = labels(log_prior=whole_prior)
    kernel = sm.side_by_side(sm.Gibbs("k", log_prior=of_k)) >> sm.Metropolis("mu")
    trace = sampled(model, kernel, 5_000)
    k, mu = (np.asarray(trace.draws[name])[0] for name in ("k", "mu"))
    p = 0.1 + 0.8 * np.arange(COUNT) / COUNT
    odds = np.log(p / (1.0 - p)) + mu[:, None] * model.data.y - 0.5 * mu[:, None] ** 2
    # mu moved after the labels: those of the next draw are given it.
    off = k[1:] - 1.0 / (1.0 + np.exp(-odds[:-1]))
    errors = np.abs(off.mean(axis=0)) / off.std(axis=0) * math.sqrt(len(off))
    assert errors.max() < 5.0
    assert np.abs(k.mean(axis=0) - 0.5).max() > 0.4  # not all alike
    together = np.abs(np.corrcoef(off.T) - np.eye(COUNT)).max() * math.sqrt(len(off))
    assert together < 5.0


# ------------------------------------------------------------------------------ any number of cores
def delayed(monkeypatch):
    """Parts begin late, some more than others, and end in any order."""
    move, rng = module.Sides.move, np.random.default_rng(0)

    def late(self, k, now):
        time.sleep(rng.random() * 0.002)
        move(self, k, now)

    monkeypatch.setattr(module.Sides, "move", late)


@pytest.mark.parametrize("kind", KERNELS)
def test_draws_do_not_depend_on_cores(monkeypatch, kind):
    kernels = [hierarchy(kind, cores) for cores in (1, 2, 4)]
    one, *others = [sampled(model_of(), kernel, 60, 40) for kernel in kernels]
    delayed(monkeypatch)
    others += [sampled(model_of(), kernels[-1], 60, 40)]
    for other in others:
        assert runs.same(one, other)
    assert one.stats["a"]["accepted"].sum() > 100


def test_labels_do_not_depend_on_cores(monkeypatch):
    kernels = [sm.side_by_side(sm.Gibbs("k"), n) >> sm.Metropolis("mu") for n in (1, 4)]
    one = sampled(labels(), kernels[0], 60, 40)
    delayed(monkeypatch)
    assert runs.same(one, sampled(labels(), kernels[1], 60, 40))


def test_nor_do_those_of_several_chains(monkeypatch):
    delayed(monkeypatch)
    four = sampled(model_of(), hierarchy(cores=3), 30, 20, chains=4, cores=2)
    again = sampled(model_of(), hierarchy(cores=1), 30, 20, chains=4, cores=1)
    assert runs.same(four, again)
    assert len({np.asarray(four.draws["a"])[c].tobytes() for c in range(4)}) == 4


def test_raced_sites_have_rows_of_their_own(monkeypatch):
    """Sites of many data, decided by mini-batches that differ from part to part; and audited."""
    monkeypatch.setattr(module, "LEAST", 1_000)
    kernels = [hierarchy(cores=n, selector=runs.RACING) for n in (1, 3)]
    model = model_of((900, 900, 900, 900))
    one, other, audited = (
        sampled(model, kernel, 100, 50, **more)
        for kernel, more in zip(kernels[:1] + kernels, ({}, {"audit": 0.5}, {"audit": 0.5}),
                                strict=True)
    )  # fmt: skip
    for name in ("a", "mu", "tau"):
        np.testing.assert_array_equal(one.draws[name], other.draws[name])
    assert runs.same(other, audited)
    counted = one.stats["a"]
    assert 0 < counted["pulls"].sum() < 0.9 * counted["everything"].sum()
    assert other.stats["a"]["audited"].sum() > 50


def test_counts_are_of_all_parts():
    for kind in KERNELS:
        one = sampled(model_of(), hierarchy(kind), 20, 20).stats["a"]
        assert (one["steps"] == 1).all()
        assert (one["decisions"] >= len(SIZES)).all()
        if kind is not sm.Slice:
            assert (one["decisions"] == len(SIZES)).all()
            assert (one["everything"] == 2 * sum(SIZES)).all()
    steps = sampled(independent_model(), sm.side_by_side(sm.Metropolis("a", 0.7, adapt=False)), 5)
    np.testing.assert_allclose(steps.stats["a"]["scale"], 0.7, rtol=1e-12)


def test_parts_have_nothing_in_common_that_they_write():
    """Arrays of two parts overlap only in the state, in data, and in what is read alone."""
    for model, kernel in (
        *((model_of(), kind("a")) for kind in KERNELS),
        (model_of((900, 900)), sm.Metropolis("a", selector=runs.RACING)),
        (labels(), sm.Gibbs("k")),
    ):
        composed = sm.side_by_side(kernel) >> rest_of(model)
        walker = Walker(Program(model, composed), np.random.SeedSequence(1))
        sides = tools_of_sides(walker)
        assert len(sides) > 1
        both = [list(written(side.step.tools.record, walker)) for side in sides[:2]]
        for own, side in zip(both, sides[:2], strict=True):
            own += [side.chain.rows, side.chain.audits, side.chain.now]
        assert min(map(len, both)) > 10
        for one, other in itertools.product(*both):
            assert not np.shares_memory(one, other), (kernel, one, other)


def rest_of(model):
    return sm.Metropolis(tuple(n for n in model.names if n not in ("a", "k")))


def tools_of_sides(walker):
    parts = walker.main.tools.record if DISABLED else walker.main._record.tools.record
    return parts.tools[0].record[0].sides


def written(tools, walker):
    """Arrays, at any depth, that a part may write and that are not of the state or the data."""
    tools = getattr(tools, "record", tools)
    if isinstance(tools, np.ndarray):
        model = walker.program.model
        shared = (walker.ints, walker.floats, *model.data, *walker.run.tilts.values())
        shared += tuple(v.touches[1] for v in model.variables.values() if v.touches is not None)
        if tools.flags.writeable and not any(np.shares_memory(tools, one) for one in shared):
            yield tools
    elif isinstance(tools, tuple):
        for part in tools:
            yield from written(part, walker)
    elif hasattr(tools, "arguments"):  # a function that is called by its address
        for part in tools.arguments:
            if part is not ANY_CHAIN and (isinstance(part, tuple) or hasattr(part, "record")):
                yield from written(part, walker)


def test_parts_are_cut_by_work_and_not_by_cores(monkeypatch):
    monkeypatch.undo()

    def touches(rows):
        return np.r_[0, np.cumsum(rows)], None

    many = module.cuts(touches(np.full(1_000_000, 3)))
    assert len(many) == 1 + module.MOST
    assert np.diff(many).max() - np.diff(many).min() < 3
    assert len(module.cuts(touches(np.full(100, 6)))) == 2  # one part
    heavy = np.ones(1_000, int)
    heavy[500] = 10**7
    cut = module.cuts(touches(heavy))
    assert cut[0] == 0 and cut[-1] == 1_000 and (np.diff(cut) > 0).all()


# ------------------------------------------------------------------------------ resumed, and ended
@pytest.mark.parametrize("kind", KERNELS)
def test_runs_resume_bit_for_bit(tmp_path, kind):
    model, path = model_of(), tmp_path / "run.nc"
    whole = sampled(model, hierarchy(kind, 2), 100, 80)
    sampled(model, hierarchy(kind, 1), 30, 80, store=path)
    again = sm.resume(path, model, hierarchy(kind, 4), 100, progress=False)  # by other cores
    assert runs.same(whole, again)
    with pytest.raises(ValueError, match="composition of kernels"):
        sm.resume(path, model, kind("a") >> sm.Metropolis(("mu", "tau")), 200, progress=False)


def broken(state, data, n):
    if state.a[data.group[n]] > 1.0 and data.group[n] > 2:
        raise ValueError("of the user's")
    return log_likelihood(state, data, n)


@pytest.mark.parametrize("cores", [1, 4])
def test_an_error_of_the_user_arrives_as_itself(monkeypatch, cores):
    delayed(monkeypatch)
    model = sm.Model(
        broken, data_of(), {"a": np.zeros(7)}, touches={"a": "group"},
        site_prior={"a": normal},
    )  # fmt: skip
    with pytest.raises(ValueError, match="of the user's"):
        sampled(model, sm.side_by_side(sm.Metropolis("a", 0.5, adapt=False), cores), 500, 0)


def nan_beyond(state, data, n):
    if data.group[n] >= 4 and state.a[data.group[n]] > 1.2:
        return np.nan
    return log_likelihood(state, data, n)


def test_a_bad_datum_is_told_the_same_by_any_cores(monkeypatch):
    delayed(monkeypatch)
    model, told = model_of(), set()
    bad = sm.Model(
        nan_beyond, data_of(), {"a": np.zeros(7)}, touches={"a": "group"},
        site_prior={"a": normal},
    )  # fmt: skip
    for cores in (1, 2, 4):
        with pytest.raises(sm.RewardError, match=r"log_likelihood is nan at datum \d+") as error:
            sampled(bad, sm.side_by_side(sm.Metropolis("a", 0.5, adapt=False), cores), 500, 0)
        told.add(str(error.value))
    assert len(told) == 1
    (text,) = told
    datum = int(text.split("at datum ")[1].split(" ")[0].strip(",;:("))
    assert model.data.group[datum] >= 4


@pytest.mark.plain
def test_all_have_ended_when_an_error_arrives():
    """Of two errors that of the lowest number, and after it nobody writes any more."""
    working, ended = threading.Barrier(3, timeout=60), []

    def work(k):
        if k < 3:
            working.wait()  # three threads are at work, so that two of the errors are others'
        time.sleep(0.02 * (5 - k))
        ended.append(k)
        if k in (1, 2):
            raise KeyError(k)

    with pytest.raises(KeyError, match="1"):
        module.share_out(work, 5, 3)
    assert sorted(ended) == list(range(5))


@pytest.mark.plain
def test_an_interrupt_waits_for_what_is_at_work():
    begun, ended, main = threading.Event(), [], threading.get_ident()

    def work(k):
        if threading.get_ident() == main:
            begun.wait(60)
            raise KeyboardInterrupt
        begun.set()
        time.sleep(0.1)
        ended.append(k)

    with pytest.raises(KeyboardInterrupt):
        module.share_out(work, 100, 2)
    assert len(ended) == 1  # the one that had begun has ended, and no other begins


@pytest.mark.plain
def test_what_ends_a_helper_is_raised():
    """Else its sites would stay where they are, and nobody would know."""
    begun, main = threading.Event(), threading.get_ident()

    def work(k):
        if threading.get_ident() != main:
            begun.set()
            raise SystemExit
        begun.wait(60)

    with pytest.raises(SystemExit):
        module.share_out(work, 4, 2)


def test_data_that_the_table_leaves_out_are_seen_as_it_runs(monkeypatch):
    """What sites are watched for one after the other, they are side by side."""
    model = hidden_model()
    for name in ("check_touches", "check_data"):
        monkeypatch.setattr(by_site, name, lambda *given: None)
    with pytest.raises(RuntimeError, match=r"touches\['a'\]: datum \d+ .* is said to see"):
        sampled(model, sm.side_by_side(sm.Metropolis("a"), 2), 100)


def also_next(state, data, n):
    g = data.group[n]
    return -0.5 * (data.y[n] - state.a[g] - state.a[(g + 1) % 7]) ** 2


def hidden_model():
    return sm.Model(
        also_next, data_of(), {"a": np.zeros(7)}, touches={"a": "group"},
        site_prior={"a": normal},
    )  # fmt: skip


# ------------------------------------------------------------------------------ plain Python
def two_chains():
    """Draws in a form to compare."""
    module.LEAST = 40
    found = {}
    for kind in KERNELS:
        trace = sampled(model_of((1, 2, 3, 5)), hierarchy(kind, 2), 12, 12)
        found[kind.__name__] = np.asarray(trace.draws["a"]).ravel().tolist()
    trace = sampled(labels(), sm.side_by_side(sm.Gibbs("k"), 2) >> sm.Metropolis("mu"), 12, 12)
    return found | {"k": np.asarray(trace.draws["k"]).ravel().tolist()}


@pytest.mark.slow
@pytest.mark.skipif(DISABLED, reason="compares compiled and plain runs: needs the JIT")
def test_compiled_and_plain_chains_draw_the_same():
    plain, compiled = runs.in_plain_python(__name__, "two_chains"), two_chains()
    assert plain.keys() == compiled.keys()
    for name, values in compiled.items():
        np.testing.assert_allclose(plain[name], values, rtol=1e-7)
