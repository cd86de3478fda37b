"""Gibbs: every transition matrix on small spaces, exact and raced; audits; twins; refusals.

Distributional tests cry wolf with probability 1e-6 each (laws.ALARM, Bonferroni inside).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.decisions.rules.rule import Rule, RuleFunctions
from subsample_mcmc.numerics.jit import DISABLED, jit
from subsample_mcmc.numerics.records import record
from subsample_mcmc.numerics.rows import WEYL, hashed
from tests.helpers.claims import at_most, equal
from tests.helpers.laws import (
    ALARM,
    conditional,
    contraction,
    distance,
    distance_margin,
    first_transitions,
    log_posterior,
    normalised,
    rows_equal,
    rows_within,
    transitions,
)
from tests.helpers.models import (
    code_of,
    enumerated,
    idle,
    matrix_counts,
    posterior,
    random_table,
    reset,
    smooth_table,
    steps_table,
    table_model,
    table_site_prior,
    tally,
    touching_table,
    walker,
)

EACH = 20_000  # steps from every state
X = sm.Gibbs("x", sm.Exact())


def site_matrices(model, temperature=1.0):
    """Transition matrices of drawing x, z[0] and z[1], with the posterior that they fix."""
    states, logp = enumerated(model)
    found = [conditional(states, logp, column, temperature) for column in range(3)]
    p = normalised(logp / temperature)
    for matrix in found:
        assert np.allclose(p @ matrix, p, atol=1e-14)
    return found


# ----------------------------------------------------------------------------- exact transitions
def test_scalar_block(rng):
    model = table_model(random_table(rng, 8))
    counts, told = matrix_counts(model, X, EACH, label="x")
    rows_equal(counts, site_matrices(model)[0])
    assert told["decisions"] == told["exact"] == told["steps"] == 36 * EACH
    assert told["pulls"] <= told["everything"] == 36 * EACH * 4 * 8  # some sums are remembered


@pytest.mark.parametrize("scan", ["fixed", "random", "weights"])
def test_vector_block_by_scan(rng, scan):
    model = table_model(random_table(rng, 8))
    _, first, second = site_matrices(model)
    weights = np.array([0.3, 1.2])
    share = weights / weights.sum() if scan == "weights" else np.array([0.5, 0.5])
    once = share[0] * first + share[1] * second
    kernel = sm.Gibbs("z", sm.Exact(), scan=weights if scan == "weights" else scan)
    counts, told = matrix_counts(model, kernel, EACH, label="z")
    rows_equal(counts, first @ second if scan == "fixed" else once @ once)
    assert told["decisions"] == 2 * told["steps"] == 2 * 36 * EACH


def test_temperature(rng):
    model = table_model(random_table(rng, 8, scale=2.0))
    counts, _ = matrix_counts(model, sm.Gibbs("x", sm.Exact(), temperature=2.5), EACH)
    rows_equal(counts, site_matrices(model, 2.5)[0])


def test_tempered_draws_are_not_called_exact(rng):
    """Neither a constant temperature nor a schedule that outlasts warm-up goes without a word."""
    model = sm.Model(lambda state, data, n: -abs(data.y[n] - state.k[0]), {"y": np.zeros(20)},
                     {"k": 0}, support={"k": 3})  # fmt: skip

    def run(temperature, warmup):
        kernel = sm.Gibbs("k", sm.Exact(), temperature=temperature)
        return sm.sample(model, kernel, 10, warmup, chains=1, seed=1, progress=False)

    warm = run(2.0, 5)
    assert warm.meta["guarantee"] == "none"
    assert any("to the power 1/2, not from the posterior" in w for w in warm.report().warnings)
    assert "no posterior probabilities: k drew" in warm.model_probabilities("k").warnings[-1]
    assert warm.to_arviz().attrs["tempered"] == "k"
    assert "Not of the posterior: tempered draws of k." in warm.to_html()
    cooled = run(np.r_[8.0, 4.0, 1.0], 2)
    assert "tempered" not in cooled.to_arviz().attrs
    assert cooled.meta["guarantee"] == "exact" and "temperature 8 to 1" in str(cooled.report())
    with pytest.warns(UserWarning, match=r"comes to 1 after 7 iterations.*warmup=5.*warmup=7"):
        hot = run(np.r_[np.full(7, 3.0), 1.0], 5)
    # And those who read the run later are told, too.
    assert hot.meta["guarantee"] == "none" and hot.to_arviz().attrs["tempered"] == "k"
    assert any("after 7 iterations" in w for w in hot.report().warnings)
    assert "no posterior probabilities: k drew" in hot.model_probabilities("k").warnings[-1]
    with pytest.raises(ValueError, match="not from the posterior"):
        sm.loo(model, hot)


@pytest.mark.slow
def test_these_tests_can_fail(rng):
    """Mutants: a temperature 3% too high; a selector that is blind one time in twenty."""
    model = table_model(random_table(rng, 8, scale=2.0))
    counts, _ = matrix_counts(model, sm.Gibbs("x", sm.Exact(), temperature=1.03), EACH)
    with pytest.raises(AssertionError, match="nats from what is expected"):
        rows_equal(counts, site_matrices(model)[0])
    model = table_model(np.zeros((64, 4, 2, 2)))
    kernel = sm.Gibbs("x", sm.Racing(Blind(0.05), batch=8, retreat=False))
    counts, _ = matrix_counts(model, kernel, EACH)
    with pytest.raises(AssertionError, match=r"more than 0\.02 away"):
        rows_within(counts, site_matrices(model)[0], 0.02)
    rows_within(counts, site_matrices(model)[0], 0.05)


def test_temperature_by_iteration_holds_its_last_value(rng):
    model = table_model(random_table(rng, 8, scale=2.0))
    cold = 1000
    heat = np.r_[np.full(cold, 1e-9), 2.5]
    one = walker(model, reset >> sm.Gibbs("x", sm.Exact(), temperature=heat))
    made = one.advance(cold).ints
    expected = site_matrices(model)[0].argmax(axis=1)
    assert np.array_equal(code_of(made, 3), expected[made[:, 3]])
    made = one.advance(36 * EACH // 2).ints
    # The clock goes on where it was: rows are counted by it, not by the draw.
    rows_equal(transitions(made[:, 3], code_of(made, 3), 36), site_matrices(model, 2.5)[0])


def test_touched_sites(rng):
    table, touches = touching_table(rng, 9)
    model = table_model(table, touches)
    _, first, second = site_matrices(model)
    counts, told = matrix_counts(model, sm.Gibbs("z", sm.Exact()), EACH, label="z")
    rows_equal(counts, first @ second)
    assert told["pulls"] == 36 * EACH * 3 * (6 + 6)  # six data a site, three arms


# ------------------------------------------------- twins: the same Gumbels, so the same arms
def draws_of(model, kernel, draws, seed=3):
    one = walker(model, reset >> kernel, seed)
    made = one.advance(draws)
    assert one.error is None
    return made.ints


@pytest.mark.plain
def test_a_local_prior_is_the_prior(rng):
    model = table_model(random_table(rng, 4))
    draws = 100 if DISABLED else 20_000
    own = sm.Gibbs("z", sm.Exact(), log_prior=table_site_prior)
    whole = draws_of(model, sm.Gibbs("z", sm.Exact()), draws)
    assert np.array_equal(draws_of(model, own, draws), whole)


@pytest.mark.plain
def test_touches_leave_out_what_does_not_matter(rng):
    table, touches = touching_table(rng, 9)
    draws = 100 if DISABLED else 20_000
    kernel = sm.Gibbs("z", sm.Exact())
    found = [draws_of(table_model(table, given), kernel, draws) for given in (None, touches)]
    assert np.array_equal(*found)


@pytest.mark.plain
def test_cumulative_sums_are_the_sums(rng):
    model = table_model(steps_table(rng, 6))
    draws = 100 if DISABLED else 20_000
    quick = sm.Gibbs("x", sm.Exact(), cumulative=True)
    assert np.array_equal(draws_of(model, quick, draws), draws_of(model, X, draws))


def test_a_change_point_costs_two_rewards_a_value(rng):
    model = table_model(steps_table(rng, 3))  # as few data as there are steps between values
    counts, told = matrix_counts(
        model, sm.Gibbs("x", sm.Racing(), cumulative=True), EACH, label="x"
    )
    rows_equal(counts, site_matrices(model)[0])
    assert told["pulls"] == 36 * EACH * 2 * 3


CENTRES = np.array([-0.8, 0.1, 0.6])


def mixture_likelihood(state, data, n):
    r = data.y[n] - CENTRES[state.label[n]]
    return -0.5 * r * r


def mixture_prior(state):
    equal_ones = 0.0
    for i in range(len(state.label) - 1):
        equal_ones += 0.7 if state.label[i] == state.label[i + 1] else 0.0
    return equal_ones


def test_a_label_per_datum(rng):
    size, labels = 4, 3
    model = small(
        data={"y": rng.standard_normal(size)},
        state={"label": np.zeros(size, dtype=int)},
        support={"label": labels},
        log_prior=mixture_prior,
        touches={"label": (np.arange(size + 1), np.arange(size))},
    )
    states, logp = log_posterior(model, ("label",))
    matrix = np.linalg.multi_dot([conditional(states, logp, i) for i in range(size)])
    p = normalised(logp)
    assert np.allclose(p @ matrix, p, atol=1e-14)
    one = walker(model, sm.Gibbs("label"))  # Racing: one datum a site is summed
    steps = 400_000
    codes = one.advance(steps).ints @ labels ** np.arange(size)[::-1]
    each = int(0.7 * steps * p.min())
    counts = first_transitions(codes, labels**size, each)
    assert np.all(counts.sum(axis=1) == each)
    rows_equal(counts, matrix)


# ---------------------------------------------------------------------------------------- raced
ROWS = 256
WIDTH = 6.0 / ROWS  # of an interval that holds every reward of smooth_table
RACES = {
    "normal .05": sm.Racing(delta=0.05, batch=8, retreat=False),
    "normal .2": sm.Racing(delta=0.2, batch=8, retreat=False),
    "betting .2": sm.Racing(sm.Betting(spread=WIDTH), delta=0.2, batch=8, retreat=False),
    "serfling .2": sm.Racing(sm.BernsteinSerfling(spread=WIDTH), delta=0.2, batch=8, retreat=False),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", RACES)
def test_raced_rows_are_within_delta(rng, name):
    model = table_model(smooth_table(rng, ROWS))
    kernel = sm.Gibbs("x", RACES[name])
    counts, told = matrix_counts(model, kernel, EACH, label="x")
    rows_within(counts, site_matrices(model)[0], kernel.selector.delta)
    assert told["decisions"] == told["raced"] + told["exhausted"] + told["retreated"]
    assert told["early"] > 0.02 * told["decisions"]  # there was something to get wrong


def test_a_race_on_touched_data(rng):
    table, (indptr, indices) = touching_table(rng, 192, second=2)
    model = table_model(table / 4.0, (indptr, indices))
    kernel = sm.Gibbs("z", sm.Racing(delta=0.01, batch=8, retreat=False))
    _, first, second = site_matrices(model)
    counts, told = matrix_counts(model, kernel, 2_000, label="z")
    rows_within(counts, first @ second, 0.02)  # two draws at delta each
    assert told["raced"] + told["exhausted"] == 2 * 16 * 2_000
    assert told["everything"] == 16 * 2_000 * 2 * 2 * 128


def test_sites_of_unequal_size_race_or_are_summed(rng):
    table, (indptr, indices) = touching_table(rng, 192, second=2)
    table[:, :, :, 1] = table[:, :, :, 0]  # z[1] touches nothing at all
    touches = (np.array([0, indptr[1], indptr[1]]), indices[: indptr[1]])
    model = table_model(table / 4.0, touches)
    kernel = sm.Gibbs("z", sm.Racing(delta=0.01, batch=8, retreat=False))
    _, first, second = site_matrices(model)
    counts, told = matrix_counts(model, kernel, 2_000, label="z")
    rows_within(counts, first @ second, 0.01)
    assert told["exact"] == 16 * 2_000  # z[1]: nothing to race


def test_one_value_is_no_decision(rng):
    model = table_model(smooth_table(rng, ROWS, second=1))
    told = matrix_counts(model, sm.Gibbs("z", RACES["normal .2"]), 100, label="z")[1]
    assert told["alone"] == told["decisions"] == 2 * 4 * 100
    assert told["pulls"] == told["everything"] == told["accepted"] == 0


RECEIVERS = {
    "lilucb": sm.LilUCB(scale=WIDTH / 2.0),
    "retreat": sm.Racing(batch=8),
    **{name: RACES[name] for name in ("normal .05", "betting .2", "serfling .2")},
}


@pytest.mark.parametrize("name", RECEIVERS)
def test_every_selector_hands_the_datums_own_number_on(rng, name):
    """table_likelihood is nan where data.index[n] is not n: a nan stops the chain."""
    model = table_model(smooth_table(rng, ROWS))
    one = walker(model, reset >> sm.Gibbs("x", RECEIVERS[name]))
    one.advance(300)
    assert one.error is None
    wrong = np.arange(ROWS)
    wrong[100] = 101
    broken = table_model(model.data.table, index=wrong)
    one = walker(broken, reset >> sm.Gibbs("x", RECEIVERS[name]))
    one.advance(300)
    assert isinstance(one.error, sm.RewardError)
    assert "datum 100" in str(one.error)


@pytest.mark.slow
def test_the_stationary_law_is_off_by_less_than_the_audited_error_over_the_gap(rng):
    """RACING.md 6: ||pi^ - pi|| <= e A / (1 - rho), A = 1 with Dobrushin's coefficient."""
    model = table_model(smooth_table(rng, ROWS))
    race = RACES["normal .2"]
    kernel = sm.Gibbs("x", race) >> sm.Gibbs("z", race)
    one = walker(model, idle >> kernel, audit=1.0)
    matrix = np.linalg.multi_dot(site_matrices(model))
    rho = contraction(matrix)
    # Thinned so far that draws are independent but for 1e-9.
    draws, thin = 10_000, int(np.ceil(np.log(1e-9) / np.log(rho)))
    made = one.advance(draws, thin)
    told = [tally(one, made.words, label) for label in ("x", "z")]
    steps = draws * thin
    assert [t["audited"] for t in told] == [steps, 2 * steps]
    assert sum(t["early"] for t in told) > 0.02 * steps
    error = sum(t["wrong"] for t in told) / steps
    # Errors given the past are a martingale difference in [0, 3]: Azuma-Hoeffding, alarm / 2.
    error += 3.0 * np.sqrt(np.log(2.0 / ALARM) / (2.0 * steps))
    p = posterior(model)
    counts = np.bincount(code_of(made.ints, 2), minlength=16)
    off = distance(counts, p)
    assert off <= error / (1.0 - rho) + distance_margin(draws, p, ALARM / 2)


# --------------------------------------------------------------------------------------- audits
@dataclass(frozen=True)
class Blind(Rule):
    """With probability `rate` a decision believes that arm 1 has won, whatever was read."""

    rate: float = 0.1
    batch: ClassVar[int] = 8

    def functions(self):
        return RuleFunctions(blind_drop, blind_observe, blind_start)

    def params(self, shape, delta, batch, growth):
        return record("rate")(self.rate)

    def memory(self, shape):
        return np.zeros(1, dtype=np.uint64), np.zeros(1)


@jit
def blind_start(race, params, memory):
    memory[0][0] += WEYL
    memory[1][0] = 1.0 if hashed(memory[0][0]) * 2.0**-64 < params.rate else 0.0


@jit
def blind_observe(race, params, memory, arm, rows, lo, hi):
    if arm == 1 and memory[1][0] == 1.0:
        race.arms[arm].latest += 1e6  # the race's own sums are wrong from here on


@jit
def blind_drop(race, params, memory, arm):
    return True


def gumbels(seed, draws, arms):
    """The Gumbels of a chain whose kernels draw nothing else."""
    main = np.random.SeedSequence(seed).spawn(3)[0]
    u = np.random.Generator(np.random.PCG64(main)).random((draws, arms))
    return -np.log(np.maximum(-np.log(1.0 - u), 1e-17))


@pytest.mark.slow
def test_audits_find_the_errors_that_there_are(rng):
    """Rewards equal in all rows, so that a race knows the best arm at once unless it is blind."""
    totals = np.log([0.4, 0.1, 0.3, 0.2])
    table = np.broadcast_to(totals[:, None, None] / 64, (64, 4, 2, 2)).copy()
    model = table_model(table)
    race = sm.Racing(Blind(0.1), batch=8, retreat=False)
    one = walker(model, idle >> sm.Gibbs("x", race) >> sm.Gibbs("z", sm.Exact()), audit=1.0)
    # z is drawn by Gumbels, too, and has to do with x through the prior.
    draws = 20_000
    made = one.advance(draws)
    states, x = made.ints, made.ints[:, 0]
    g = gumbels(1, draws, 8)[:, :4]
    z1 = np.r_[0, states[:-1, 2]]
    arms = np.arange(4)
    scores = totals + 0.4 * arms - 0.3 * arms * z1[:, None] + g
    best, ordered = scores.argmax(axis=1), np.sort(scores, axis=1)
    wrong = x != best
    told = tally(one, made.words, "x")
    assert told["audited"] == told["decisions"] == draws
    assert told["wrong"] == wrong.sum()
    assert np.all(x[wrong] == 1)
    lost = (scores.max(axis=1) - scores[np.arange(draws), x])[wrong].sum()
    assert told["regret"] == pytest.approx(lost, rel=1e-9)
    assert told["margin"] == pytest.approx((ordered[:, -1] - ordered[:, -2]).sum(), rel=1e-9)
    # A decision is wrong if it is blind, and its best arm is not arm 1 by chance.
    equal(int(wrong.sum()), int((best != 1).sum()), 0.1)


@pytest.mark.slow
def test_an_audit_of_some_decisions_changes_nothing_and_is_unbiased(rng):
    totals = np.log([0.4, 0.1, 0.3, 0.2])
    model = table_model(np.broadcast_to(totals[:, None, None] / 64, (64, 4, 2, 2)).copy())
    race = sm.Racing(Blind(0.3), batch=8, retreat=False)
    kernel = idle >> sm.Gibbs("x", race) >> sm.Gibbs("z", sm.Exact())
    draws, found = 20_000, {}
    for audit in (0.0, 0.25, 1.0):
        one = walker(model, kernel, audit=audit)
        made = one.advance(draws)
        found[audit] = made.ints, tally(one, made.words, "x")
    assert np.array_equal(found[0.0][0], found[0.25][0])
    assert np.array_equal(found[0.0][0], found[1.0][0])
    assert found[0.0][1]["audited"] == found[0.0][1]["wrong"] == 0
    some, all_of_them = found[0.25][1], found[1.0][1]
    equal(int(some["audited"]), draws, 0.25, ALARM / 2)
    equal(int(some["wrong"]), int(all_of_them["wrong"]), 0.25, ALARM / 2)


@pytest.mark.slow
def test_an_audit_sees_an_arm_that_is_impossible(rng):
    """The race chose it before it saw the one datum that rules it out; the other arm is right."""
    table = np.zeros((4096, 2, 1, 1))
    table[:, 1] = 0.01
    table[77, 1] = -np.inf
    model = table_model(table)
    race = sm.Racing(Blind(0.0), batch=8, retreat=False)
    one = walker(model, reset >> sm.Gibbs("x", race), audit=1.0)
    made = one.advance(400)
    told = tally(one, made.words, "x")
    chosen = int((made.ints[:, 0] == 1).sum())
    assert told["audited"] == 400
    assert told["wrong"] == chosen > 300  # 8 of 4096 rows hardly ever contain datum 77
    assert told["regret"] == np.inf
    at_most(400 - chosen, 400, 8 / 4096)


# ------------------------------------------------------------------------------------- refusals
def small(**changes):
    given = {
        "log_likelihood": mixture_likelihood,
        "data": {"y": np.zeros(6)},
        "state": {"label": np.zeros(6, dtype=int), "mu": 0.0},
        "support": {"label": 3},
    }
    return sm.Model(**(given | changes))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"selector": "exact"}, TypeError, "selector='exact'"),
        ({"temperature": 0.0}, ValueError, "temperature=0.0"),
        ({"temperature": [1.0, np.inf]}, ValueError, "inf"),
        ({"temperature": []}, ValueError, r"temperature=\[\]"),
        ({"scan": "reverse"}, ValueError, "scan='reverse'"),
        ({"log_prior": 3.0}, TypeError, "log_prior=3.0"),
    ],
)
def test_wrong_arguments_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        sm.Gibbs("label", **arguments)


@pytest.mark.parametrize("scan", [np.ones(5), np.zeros(6), np.full(6, np.nan), np.ones((6, 1))])
def test_weights_must_fit_the_sites(scan):
    with pytest.raises(ValueError, match=r"scan has shape .*6 sites"):
        sm.Gibbs("label", scan=scan).check(small())


def test_continuous_blocks_are_refused():
    with pytest.raises(ValueError, match=r"Gibbs.'mu'.*continuous"):
        sm.Gibbs("mu").check(small())


def test_many_sites_need_to_say_what_they_touch():
    state = {"label": np.zeros(1001, dtype=int)}
    data = {"y": np.zeros(1001)}
    with pytest.raises(ValueError, match=r"1001 sites.*touches"):
        sm.Gibbs("label").check(small(state=state, data=data))
    sm.Gibbs("label", log_prior=table_site_prior).check(small(state=state, data=data))


def test_lilucb_refuses_sites_of_unequal_size():
    model = small(touches={"label": (np.arange(7), np.arange(6))})
    with pytest.raises(TypeError, match=r"LilUCB\(\) serves decisions about all data"):
        walker(model, sm.Gibbs("label", sm.LilUCB()) >> sm.Metropolis("mu"))


def test_cumulative_is_checked():
    with pytest.raises(ValueError, match="8 values need at least 7 data"):
        sm.Gibbs("label", cumulative=True).check(small(support={"label": 8}))
    with pytest.raises(ValueError, match=r"going from value \d to \d changes datum"):
        sm.Gibbs("label", cumulative=True).check(small())


def excluded(state, data, site, arm):
    return -np.inf


def test_no_value_is_chosen_where_none_is_possible(rng):
    for kernel in (
        sm.Gibbs("x", sm.Exact(), log_prior=excluded),
        sm.Gibbs("x", sm.Exact(), log_prior=excluded, cumulative=True),
    ):
        one = walker(table_model(steps_table(rng, 6)), reset >> kernel)
        made = one.advance(5)
        assert len(made.ints) == 0
        assert isinstance(one.error, sm.RewardError)
        assert "every arm is impossible" in str(one.error)
        assert np.array_equal(one.ints, np.zeros(4))  # as it was before


def test_what_describe_says():
    model = small(touches={"label": (np.arange(7), np.arange(6))})
    assert "at most 1 data per site: summed exactly" in sm.Gibbs("label").describe(model)
    assert sm.Gibbs("label").facts(model)["guarantee"] == "exact"
    assert sm.Gibbs("label", sm.LilUCB()).facts(model)["guarantee"] == "none"
    assert sm.Gibbs("label", sm.Exact(), cumulative=True).facts(model)["arms"] == 3
    assert sm.Gibbs("label", None).selector.itself == sm.Racing()
