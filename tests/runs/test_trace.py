"""The result object: draws and counts by name, and its views for ArviZ and pandas."""

from collections import namedtuple
from types import SimpleNamespace

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.trace import Trace
from subsample_mcmc.target.layout import TALLY, Block, Column, Layout

ENDS = ("alone", "exact", "raced", "exhausted", "retreated")


def layout_of(blocks, stats):
    described, at = [], {True: 0, False: 0}
    for name, values in blocks.items():
        discrete = values.dtype.kind == "i"
        described.append(Block(name, discrete, values.shape[2:], at[discrete]))
        at[discrete] += described[-1].length
    columns = []
    for kernel, counts in stats.items():
        for field in TALLY.names:
            kind = TALLY[field].str[1:]
            columns.append(Column(kernel, field, kind, len(columns)))
        for field in [f for f in counts if f not in TALLY.names]:
            columns.append(Column(kernel, field, "f8", len(columns)))
    return Layout(tuple(described), tuple(columns))


def made(blocks, stats, kernels=None, **meta):
    """A trace of these draws, (chains, draws, ...), and these counts; the rest is plausible."""
    layout = layout_of(blocks, stats)
    chains, draws = next(iter(blocks.values())).shape[:2]
    words = np.zeros((chains, draws, layout.words), dtype=np.int64)
    for kernel, field, kind, word in layout.columns:
        values = np.zeros((chains, draws), dtype=kind)
        values[...] = stats[kernel].get(field, 0)
        words[..., word] = values.view(np.int64)
    parts = []
    for discrete, kind in ((True, np.int64), (False, np.float64)):
        flat = [np.zeros((chains, draws, 0))]
        for block, values in zip(layout.blocks, blocks.values(), strict=True):
            if block.discrete == discrete:
                flat.append(values.reshape(chains, draws, block.length))
        parts.append(np.concatenate(flat, axis=2).astype(kind))
    described = [
        {
            "label": label, "kind": "Gibbs", "writes": list(blocks), "guarantee": "asymptotic",
            "selector": "Racing(delta=0.05)", "delta": 0.05, "rows": 100_000, "arms": 2,
            "asymptotic_normal": True, "note": "",
        } | (kernels or {}).get(label, {})
        for label in stats
    ]  # fmt: skip
    meta = {
        "version": "0.1.0", "seed": 2**100, "chains": chains, "draws": draws, "warmup": 10,
        "thin": 1, "audit": 0.01, "layout": layout.to_json(), "guarantee": "asymptotic",
        "describe": "Gibbs('k') >> Metropolis('w')", "kernels": described,
    } | meta  # fmt: skip
    ints, floats = parts
    records = [
        SimpleNamespace(ints=ints[c], floats=floats[c], words=words[c], seconds=1.0 + c)
        for c in range(chains)
    ]
    return Trace(meta, records)


@pytest.fixture
def blocks(rng):
    return {
        "theta": rng.normal(size=(4, 200)),
        "k": rng.integers(0, 3, size=(4, 200)),
        "w": rng.normal(size=(4, 200, 2, 3)),
    }


@pytest.fixture
def trace(blocks):
    racing = {
        "steps": 1, "decisions": 2, "pulls": 50, "everything": 400, "rounds": 3, "accepted": 1,
        "early": 1, "raced": 1, "retreated": 1, "audited": 1, "regret": 0.25, "scale": 0.5,
    }  # fmt: skip
    walk = {"steps": 3, "accepted": 1, "temperature": 1.5}
    return made(blocks, {"Gibbs('k')": racing, "walk, 2 steps": walk})


def test_draws_and_stats_are_what_chains_recorded(trace, blocks):
    assert trace.shape == (4, 200)
    assert list(trace.draws) == ["theta", "k", "w"]
    for name, values in blocks.items():
        np.testing.assert_array_equal(trace.draws[name], values)
    assert trace.draws["k"].dtype == np.int64
    assert (trace.stats["Gibbs('k')"]["pulls"] == 50).all()
    assert (trace.stats["Gibbs('k')"]["regret"] == 0.25).all()
    assert (trace.stats["walk, 2 steps"]["temperature"] == 1.5).all()
    np.testing.assert_array_equal(trace.seconds, [1.0, 2.0, 3.0, 4.0])


def test_ragged_chains_are_cut_to_the_shortest(trace, blocks):
    def chain(c, draws):
        flat = blocks["w"][c, :draws].reshape(draws, 6)
        floats = np.column_stack([blocks["theta"][c, :draws], flat])
        words = np.arange(draws)[:, None] + np.zeros(trace.layout.words, dtype=np.int64)
        ints = blocks["k"][c, :draws, None]
        return SimpleNamespace(ints=ints, floats=floats, words=words, seconds=1.0)

    cut = Trace(trace.meta, [chain(0, 200), chain(1, 120), chain(2, 150)])
    assert cut.shape == (3, 120)
    np.testing.assert_array_equal(cut.draws["w"], blocks["w"][:3, :120])
    np.testing.assert_array_equal(cut.stats["Gibbs('k')"]["steps"][2], np.arange(120))
    whole = Trace(trace.meta, [chain(c, 120) for c in range(3)])
    assert cut.made == [200, 120, 150] and whole.made == [120] * 3


def test_costs_of_chains_that_were_cut_are_of_what_is_left():
    """Seconds of draws that are not here made effective draws a second a tenth of what they are."""
    rng = np.random.default_rng(4)
    whole = made({"k": rng.integers(0, 2, (2, 2_000))}, {"k": {"decisions": 1}})
    parts = [SimpleNamespace(
        ints=whole.flat[0][c, :draws], floats=whole.flat[1][c, :draws], seconds=draws / 1_000.0,
        words=whole._counts[c].words()[:draws],
    ) for c, draws in ((0, 2_000), (1, 200))]  # fmt: skip
    cut, told = Trace(whole.meta | {"warmup": 0}, parts), "Chains have 200 to 2,000 draws"
    row = cut.report().rows[0]
    assert row["ess_per_second"] == pytest.approx(row["ess"] / 0.4)  # 200 draws of each: .2 s
    assert row["microseconds"] == pytest.approx(1_000.0)
    assert any(note.startswith(told) for note in cut.report().notes)
    assert not any(note.startswith("Chains have") for note in whole.report().notes)


def test_no_chains_and_no_draws(blocks):
    empty = made({k: v[:, :0] for k, v in blocks.items()}, {"g": {}})
    assert empty.draws["w"].shape == (4, 0, 2, 3)
    assert len(empty.to_frame()) == 0
    with pytest.raises(ValueError, match=r"no chains .* Sample first"):
        Trace(empty.meta, [])


def test_repr_says_what_it_is(trace, blocks):
    assert repr(trace) == (
        "Trace(4 chains x 200 draws; theta scalar, k scalar, w (2, 3); 12.5% of the data read; "
        "guarantee: asymptotic)"
    )
    one = made({"theta": blocks["theta"][:1]}, {"g": {}}, guarantee="exact")
    assert repr(one) == "Trace(1 chain x 200 draws; theta scalar; guarantee: exact)"


def test_frame_has_a_row_per_chain_and_draw(trace, blocks):
    frame = trace.to_frame()
    sites = [f"w[{i},{j}]" for i in range(2) for j in range(3)]
    assert list(frame) == ["chain", "draw", "theta", "k", *sites]
    assert len(frame) == 800
    row = frame[(frame.chain == 2) & (frame.draw == 17)].iloc[0]
    assert row["theta"] == blocks["theta"][2, 17]
    assert row["k"] == blocks["k"][2, 17]
    assert row["w[1,2]"] == blocks["w"][2, 17, 1, 2]


# ------------------------------------------------------------------------------------- arviz
def test_arviz_gets_draws_counts_and_attributes(trace, blocks):
    data = trace.to_arviz()
    assert data.posterior["w"].dims == ("chain", "draw", "w_dim_0", "w_dim_1")
    assert data.posterior["theta"].dims == ("chain", "draw")
    for name, values in blocks.items():
        np.testing.assert_array_equal(data.posterior[name].values, values)
    sampler = ("steps", "accepted", "gradients", "capped", "scale")
    labels = list(trace.stats)
    assert set(data.sample_stats.data_vars) == {
        *(f"{label}_{field}" for label in labels for field in sampler),
        "walk, 2 steps_temperature",
    }
    others = set(TALLY.names) - set(sampler)
    assert set(data["decisions"].data_vars) == {f"{k}_{f}" for k in labels for f in others}
    assert (data.sample_stats["Gibbs('k')_scale"].values == 0.5).all()
    assert (data["decisions"]["Gibbs('k')_pulls"].values == 50).all()
    for attrs in (data.attrs, data.posterior.attrs):
        assert attrs["version"] == "0.1.0"
        assert attrs["seed"] == str(2**100)
        assert attrs["kernels"] == "Gibbs('k') >> Metropolis('w')"
        assert attrs["guarantee"] == "asymptotic"
        assert attrs["inference_library"] == "subsample_mcmc"
        assert attrs["sampling_time"] == 4.0
    assert "observed_data" not in dir(data)


@pytest.mark.parametrize("kind", [dict, "named tuple"])
def test_arviz_gets_observed_data(trace, rng, kind):
    y, x = rng.normal(size=50), rng.normal(size=(50, 2))
    observed = {"y": y, "x": x} if kind is dict else namedtuple("Data", "y x")(y, x)
    data = trace.to_arviz(observed=observed).observed_data
    np.testing.assert_array_equal(data["y"].values, y)
    assert data["x"].dims == ("x_dim_0", "x_dim_1")


def test_arviz_refuses_observed_data_without_names(trace):
    with pytest.raises(TypeError, match=r"observed=True is a bool; it must be a dict"):
        trace.to_arviz(observed=True)


def test_arviz_computes_and_plots(trace):
    import arviz as az

    data = trace.to_arviz()
    table = az.summary(data)
    assert list(table.index)[:2] == ["theta", "k"] and len(table) == 8
    assert float(az.rhat(data.posterior)["theta"]) < 1.1
    assert float(az.ess(data.posterior)["theta"]) > 100


def test_arviz_file_keeps_every_group(trace, tmp_path):
    import arviz as az

    data = trace.to_arviz(observed={"y": np.arange(3.0)})
    data.to_netcdf(str(tmp_path / "run.nc"))
    back = az.from_netcdf(str(tmp_path / "run.nc"))
    assert (back["decisions"]["Gibbs('k')_pulls"].values == 50).all()
    assert back["posterior"].attrs["seed"] == str(2**100)
    assert back["observed_data"]["y"].shape == (3,)


@pytest.mark.parametrize("name", ["chain", "draw"])
def test_blocks_named_as_a_column_of_draws_are_refused(name):
    with pytest.raises(ValueError, match=f"block '{name}': .* Rename it, to {name}_, say"):
        sm.Model(None, {"y": np.zeros(3)}, {name: 0.0})


def test_names_that_netcdf_or_each_other_would_break(blocks):
    stats = {"a/b": {}, "c": {"d_e": 1.0}, "c_d": {"e": 2.0}}
    data = made({"theta": blocks["theta"]}, stats).to_arviz()
    assert "a|b_pulls" in data["decisions"]
    assert float(data.sample_stats["c_d_e"].values[0, 0]) == 1.0
    assert float(data.sample_stats["c_d_e_"].values[0, 0]) == 2.0


# ------------------------------------------------------------------------------------ mixing
def test_mixing_of_independent_and_of_slow_draws(rng):
    noise = rng.normal(size=(4, 1000, 3))
    slow = noise.copy()
    for t in range(1, 1000):  # IAT (1 + .9) / (1 - .9) = 19
        slow[:, t, 1] = 0.9 * slow[:, t - 1, 1] + noise[:, t, 1]
    trace = made({"good": noise, "slow": slow}, {"g": {}})
    assert 3000 < trace.mixing("good").ess < 5000
    assert 100 < trace.mixing("slow").ess < 450
    assert trace.mixing("slow")[1:6] == (3, 3, 0, True, True)


def test_chains_that_tell_different_things_are_apart(rng):
    noise = rng.normal(size=(4, 1000))
    shifted, stuck = noise + np.arange(4)[:, None], np.zeros((4, 1000, 2), dtype=int)
    stuck[..., 0], stuck[2, :, 1] = rng.integers(0, 2, size=(4, 1000)), 1
    many = rng.normal(size=(2, 150_000))  # without ranks
    blocks = {"good": noise, "shifted": shifted, "stuck": stuck, "one": np.zeros((4, 1000)),
              "wide": np.stack([noise, shifted], axis=-1)}  # fmt: skip
    trace = made(blocks, {"g": {}})
    assert trace.mixing("good").rhat == pytest.approx(1.0, abs=0.01)
    assert trace.mixing("shifted").rhat > 1.4 and trace.mixing("stuck").rhat == np.inf
    assert trace.mixing("wide").rhat == trace.mixing("shifted").rhat
    assert np.isnan(trace.mixing("one").rhat)
    apart = made({"many": many, "off": many + np.array([[0.0], [3.0]])}, {"g": {}})
    assert apart.mixing("many").rhat == pytest.approx(1.0, abs=0.01)
    assert apart.mixing("off").rhat > 1.4
    assert np.isnan(made({"good": noise[:1]}, {"g": {}}).mixing("good").rhat)


def test_mixing_of_what_never_moves(rng):
    stuck = np.arange(4)[:, None] + np.zeros((4, 200), dtype=int)
    partly = rng.integers(0, 2, size=(4, 200, 3))
    partly[..., 1] = 1
    bad = rng.normal(size=(4, 200))
    bad[0, 3] = np.nan
    trace = made({"stuck": stuck, "partly": partly, "bad": bad}, {"g": {}})
    assert np.isnan(trace.mixing("stuck").ess) and not trace.mixing("stuck").moved
    assert trace.mixing("partly").stuck == 1 and trace.mixing("partly").ess > 300
    assert np.isnan(trace.mixing("bad").ess) and not trace.mixing("bad").finite


def test_mixing_of_a_wide_block_looks_at_some_sites(rng):
    trace = made({"wide": rng.normal(size=(1, 20, 1000)), "none": np.zeros((1, 20, 0))}, {"g": {}})
    assert trace.mixing("wide")[1:3] == (1000, 200)
    assert trace.mixing("none")[1:3] == (0, 0)


def test_places_of_one_name_are_told_apart(rng):
    """Labels with commas: one of four columns stood for two places, and one was gone."""
    axes = {
        "dims": {"w": ["a", "b"]},
        "coords": {"a": ["<U3", ["p,q", "p"]], "b": ["<U3", ["r", "q,r"]]},
    }  # fmt: skip
    w = rng.normal(size=(2, 50, 2, 2))
    trace = made({"w": w}, {"g": {}}, axes=axes)
    names = ["w[p,q,r]", "w[p,q,q,r]", "w[p,r]", "w[p,q,r]_"]
    table = trace.to_frame()
    assert table.columns.tolist() == ["chain", "draw", *names]
    np.testing.assert_array_equal(table["w[p,q,r]_"], w[..., 1, 1].ravel())
    found = trace.summary()
    assert found.index.tolist() == names
    np.testing.assert_allclose(found["mean"], w.mean(axis=(0, 1)).ravel(), atol=1e-12)


def test_a_chain_that_forgets_at_once_does_not_forget_before(rng):
    """Of antithetic draws the IAT is below 1: errors count as those of independent draws do."""
    noise = rng.normal(size=(4, 1_000))
    for i in range(1, 1_000):
        noise[:, i] = -0.8 * noise[:, i - 1] + 0.6 * noise[:, i]
    wrong = (np.arange(4_000).reshape(4, 1_000) % 400 == 0).astype(int)
    racing = {"steps": 1, "decisions": 2, "audited": 1, "wrong": wrong, "early": 2}
    (row,) = made({"theta": noise}, {"g": racing}).report().rows
    assert row["iat"] < 0.3 and row["wrong"] == 10
    assert row["bias_scale"] == row["error_per_draw"] == pytest.approx(2.0 * row["error_upper"])
