"""What a chain keeps while it walks: generators, extremes, warm-up; where it begins and ends."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.chain import Chunk, Program, Walker
from subsample_mcmc.runs.fingerprint import INITIAL, of_run
from subsample_mcmc.runs.parallel import ChainPlan
from subsample_mcmc.runs.sample import annealing
from tests.helpers import runs


def test_checkpoints_keep_the_half_of_a_number_that_generators_hold_back():
    """Of 64 bits, 32 are left where a kernel of one's own drew a small integer."""
    program = Program(runs.model(), runs.kernel())
    one, other = (Walker(program, np.random.SeedSequence(seed)) for seed in (1, 2))
    one.bits.state = one.bits.state | {"has_uint32": 1, "uinteger": 123_456_789}
    other.restore(one.checkpoint())
    assert other.bits.state == one.bits.state


def test_the_lowest_and_highest_draws_of_all_chunks_are_remembered():
    walker = Walker(Program(runs.model(), runs.kernel()), np.random.SeedSequence(1))
    for floats in ([[1.0, 0.0], [-3.0, 5.0]], [[-7.0, 1.0], [2.0, 2.0]], [[0.0, -1.0], [0.5, 1.0]]):
        ints = np.zeros((2, 1), dtype=np.int64)
        walker.remember(Chunk(ints, np.array(floats), np.zeros((2, 0), np.int64)))
    found = {key: states[1].tolist() for key, states in walker.extremes.items() if key[0] == 1}
    assert found[1, 0, -1] == [-7.0, 1.0] and found[1, 0, 1] == [2.0, 2.0]
    assert found[1, 1, -1] == [0.0, -1.0] and found[1, 1, 1] == [-3.0, 5.0]


def test_starts_do_not_share_the_numbers_of_whoever_has_the_same_seed():
    """Data, say, that were made by default_rng(1), of a run of seed 1; nor those of a chain."""
    seen = []

    def start(rng):
        seen.append(rng.random())
        return {"theta": [0.2, 0.1]}

    runs.run(1, 1, seed=1, start=start)
    own = (np.random.SeedSequence(1, spawn_key=key) for key in ((), (0,), (1,)))
    theirs = [np.random.default_rng(s).random(8) for one in own for s in (one, *one.spawn(3))]
    assert len(seen) == 2 and not np.isin(seen, theirs).any()


def test_a_schedule_that_ends_after_draws_began_is_told_of_short_runs():
    """Fewer draws than steps of warm-up."""
    kernel = sm.Gibbs("k", temperature=np.append(np.geomspace(8.0, 1.1, 24), 1.0))
    told = annealing(kernel, 20, 10)
    assert told["last"] == 24 and told["guarantee"] == "none" and told["temperature"] > 1.0
    assert annealing(kernel, 24, 10) == {}


def test_where_discrete_blocks_begin_is_part_of_a_fingerprint():
    prints = []
    for k in (0, 1):
        model = runs.model(state={"k": k, "theta": np.array([0.2, 0.1])})
        program = Program(model, runs.kernel())
        prints.append(of_run(model, program.kernel))
    assert [name for name in prints[0] if prints[0][name] != prints[1][name]] == [INITIAL]


def test_starts_may_be_one_dict_that_a_function_changes():
    state = {"theta": np.zeros(2)}

    def start(rng):
        state["theta"] += 0.1
        return state

    begun = runs.run(1, 1, chains=3, start=start).meta["start"]
    assert [one["theta"][0] for one in begun] == pytest.approx([0.1, 0.2, 0.3])


def test_chains_that_were_cut_to_one_length_do_not_go_on(tmp_path):
    """Their states are those after draws that the file has not."""
    model = runs.model(data=runs.data(limit=0.6))
    with pytest.raises(sm.RewardError) as broken:
        runs.run(3000, model=model, chains=3, warmup=3, parallel="threading")
    trace = broken.value.trace
    assert len(set(trace.made)) > 1
    trace.save(tmp_path / "cut.nc")
    with pytest.raises(ValueError, match="not where each chain stood"):
        runs.resumed(tmp_path / "cut.nc", 4_000, model=model)


def test_gradients_of_mini_batches_count_as_what_was_read():
    """By what was read it is told how many decisions are audited unasked."""
    model = sm.Model(lambda s, data, n: -0.5 * (data.y[n] - s.mu[0]) ** 2,
                     {"y": np.linspace(-1.0, 1.0, 60)}, {"mu": 0.0})  # fmt: skip
    program = Program(model, sm.Langevin("mu", 0.1, batch=5))
    fields = {c.field for c in program.layout.columns if c.word in program.reads}
    assert fields == {"pulls", "gradients"}


@pytest.mark.parametrize("thin", [1, 2, 3])
def test_a_function_that_breaks_leaves_the_whole_draws_before_it(thin):
    """At the eighth step: of thinned draws as many as are whole."""

    @sm.kernel(writes="mu")
    def step(rng, state, data):
        state.mu[0] += 1.0
        if state.mu[0] == 8.0:
            raise ZeroDivisionError("eight")

    model = sm.Model(lambda s, data, n: 0.0 * s.mu[0], {"y": np.zeros(3)}, {"mu": 0.0})
    with pytest.raises(ZeroDivisionError) as broken:
        sm.sample(model, step, 10, 0, chains=1, thin=thin, seed=1, progress=False)
    draws = broken.value.trace.draws["mu"][0]
    assert draws.tolist() == [float(k) for k in range(thin, 8, thin)]


def test_chains_know_how_long_their_warm_up_is():
    """Kernels that learn settle in the last part of it; at a checkpoint, too."""
    program = Program(runs.model(), runs.kernel())
    plan = ChainPlan(10, 40, 1, 0.0, 1, ())
    first = plan.walker(program, 0)
    for walker in (first, plan.walker(program, 1, first.checkpoint())):
        assert int(walker.chain.now[0].warmup) == 40
