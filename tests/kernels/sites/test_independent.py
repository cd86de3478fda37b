"""Which sites may move side by side: refusals of sm.side_by_side, and what is taken."""

import math

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.sites.independent import reads_before, reads_own
from tests.helpers.groups import data_of, log_likelihood, model_of, of_site, sampled
from tests.helpers.labels import COUNT, labels, whole_prior


def hierarchy():
    return sm.side_by_side(sm.Metropolis("a")) >> sm.Metropolis(("mu", "tau"))


def normal(state, site):
    return -0.5 * state.a[site] ** 2


def rest_of(model):
    return sm.Metropolis(tuple(n for n in model.names if n not in ("a", "k")))


def of_matches(state, data, n):
    return sm.log_sigmoid(state.a[data.winner[n]] - state.a[data.loser[n]])


def matches():
    pairs = np.array([(0, 1), (1, 2), (2, 0)])
    return sm.Model(
        of_matches, {"winner": pairs[:, 0], "loser": pairs[:, 1]}, {"a": np.zeros(3)},
        touches={"a": ("winner", "loser")}, site_prior={"a": normal},
    )  # fmt: skip


def with_prior(function):
    return model_of(site_prior={"a": function})


def of_the_one_before(state, site):
    return of_site(state, site) - 0.1 * (state.a[site] - state.a[site - 1]) ** 2


def hidden(state, site):
    """Reads the neighbour, where no check of values sees it."""
    return of_site_again(state.a[site] + 0.0 * state.a[site - 1], state.mu[0], state.tau[0])


def of_site_again(a, mu, tau):
    z = (a - mu) / tau
    return -0.5 * z * z - math.log(tau)


def by_another_name(state, site):
    a = state.a
    return of_site_again(a[site], state.mu[0], state.tau[0])


def handed_on(state, site):
    return of_site(state, site)


def another_site(state, site):
    site = min(site + 1, 6)
    return of_site_again(state.a[site], state.mu[0], state.tau[0]) * 0.0


def sliced(state, site):
    return of_site_again(state.a[site:][0], state.mu[0], state.tau[0])


def plain_prior(state, site):
    return of_site_again(state.a[site], state.mu[0], state.tau[0])


def by_rows(state, site):
    return -0.5 * (state.a[site, 0] ** 2 + state.a[site][1] ** 2)


ROWS = np.zeros((7, 2))


def of_row(state, data, n):
    return -0.5 * (data.y[n] - state.a[data.group[n], 0] - state.a[data.group[n], 1]) ** 2


@pytest.mark.plain
@pytest.mark.parametrize(
    ("model", "kernel", "words"),
    [
        (matches, sm.Metropolis("a"), r"datum 0 sees a\[0\], a\[1\], which depend on each other"),
        (lambda: sm.Model(log_likelihood, data_of(), {"a": np.zeros(7)}), sm.Metropolis("a"),
         "does not move site by site"),
        (lambda: model_of(site_prior=None), sm.Slice("a"), r"give sm.Model\(site_prior=\{'a': f\}"),
        (lambda: with_prior(of_the_one_before), sm.Metropolis("a"), r"site_prior\['a'\] of site 0"),
        (lambda: with_prior(hidden), sm.Metropolis("a"), r"may read other sites of 'a'"),
        (lambda: with_prior(by_another_name), sm.Slice("a"), r"may read other sites of 'a'"),
        (lambda: with_prior(handed_on), sm.Langevin("a"), r"not hand on `state`"),
        (lambda: with_prior(another_site), sm.Metropolis("a"), r"may read other sites of 'a'"),
        (lambda: with_prior(sliced), sm.Metropolis("a"), r"may read other sites of 'a'"),
        (model_of, sm.Langevin("a", batch=16, correct=False, step=0.01),
         "does not move site by site"),
        (labels, sm.Gibbs("k", scan="random"), 'give scan="fixed"'),
        (lambda: labels(log_prior=whole_prior), sm.Gibbs("k"), r"Gibbs\('k', log_prior=f\)"),
    ],
)  # fmt: skip
def test_what_may_depend_on_each_other_is_refused(model, kernel, words):
    rest = rest_of(model()) if len(model().names) > 1 else None
    both = sm.side_by_side(kernel)
    both = both >> rest if rest else both
    with pytest.raises(ValueError, match=words):
        both.describe(model())
    with pytest.raises(ValueError, match=words):
        sampled(model(), both, 1, 0)


@pytest.mark.plain
@pytest.mark.parametrize(
    "prior", [of_site, plain_prior, lambda state, site: normal_of(state.a[site])]
)
def test_priors_that_read_their_own_site_are_taken(prior):
    assert "side_by_side" in hierarchy().describe(with_prior(prior))


def in_a_loop(state, site):
    total = 0.0
    for j in range(2):
        total += state.a[site, j]
    return total


def one_of_two(state, site):
    return state.a[site] if state.mu[0] > 0.0 else state.a[site - 1]


def at_one_of_two(state, site):
    return state.a[site if state.mu[0] > 0.0 else 0]


def of_all(state, site):
    return state.a.sum()


def of_each(state, site):
    return sum([state.a[i] for i in range(7)])


def the_first(state, site):
    return state.a[0]


def next_row(state, site):
    return state.a[site + 1, 0]


def another_loop(state, site):
    for site in range(3):  # noqa: PLR1704
        a = state.a[site]
    return a


def another_state(state, site):
    same = state
    return same.a[site]


def of_two_before(state, site):
    if site < 2:
        return -abs(state.a[site])
    return -abs(state.a[site] - 2.0 * state.a[site - 1] + state.a[site - 2])


def column_before(state, site):
    return -abs(state.a[site, 0] - state.a[site - 3, 1]) if site > 2 else 0.0


def by_a_name(state, site):
    lag = 2
    return -abs(state.a[site] - state.a[site - lag]) if site > 1 else 0.0


def by_a_sum(state, site):
    return -abs(state.a[site] - state.a[site - 1 + 2])


def by_halves(state, site):
    return -abs(state.a[site] - state.a[int(site - 1.0)])


@pytest.mark.plain
def test_the_code_says_how_many_sites_before_its_own_a_prior_reads():
    model = model_of()
    told = {of_site: 0, of_two_before: 2, column_before: 3}
    assert {prior: reads_before(prior, 1, "a", model) for prior in told} == told
    for prior in (by_a_name, by_a_sum, by_halves, another_site, next_row, the_first, handed_on):
        assert reads_before(prior, 1, "a", model) is None


@pytest.mark.plain
def test_the_code_says_which_priors_read_their_own_site_alone():
    model, own = model_of(), (of_site, plain_prior, by_rows, in_a_loop, normal)
    others = (
        of_the_one_before, hidden, by_another_name, handed_on, another_site, sliced, one_of_two,
        at_one_of_two, of_all, of_each, the_first, next_row, another_loop, another_state,
    )  # fmt: skip
    assert all(reads_own(prior, 1, "a", model) for prior in own)
    assert not any(reads_own(prior, 1, "a", model) for prior in others)
    assert all(reads_own(prior, 1, "tau", model) for prior in (the_first, next_row))  # none of it


def normal_of(a):
    return -0.5 * a * a


@pytest.mark.plain
def test_rows_of_numbers_are_taken():
    model = sm.Model(
        of_row, data_of(), {"a": ROWS}, touches={"a": "group"},
        site_prior={"a": by_rows},
    )  # fmt: skip
    assert sm.side_by_side(sm.Slice("a")).describe(model)


def of_potts(state, data, site, arm):
    return 0.3 if site > 0 and state.k[site - 1] == arm else 0.0


def potts(state):
    total = 0.0
    for i in range(1, COUNT):
        total += 0.3 if state.k[i] == state.k[i - 1] else 0.0
    return total


@pytest.mark.plain
def test_labels_that_depend_on_their_neighbours_are_refused():
    """Alone they are drawn one after the other; here given neighbours that move."""

    def of_both(state, data, site, arm):
        after = 0.3 if site < COUNT - 1 and state.k[site + 1] == arm else 0.0
        return of_potts(state, data, site, arm) + after

    model = labels(log_prior=potts)
    kernel = sm.Gibbs("k", log_prior=of_both)
    assert (kernel >> sm.Metropolis("mu")).describe(model)
    with pytest.raises(ValueError, match="log_prior may read other sites of 'k'"):
        (sm.side_by_side(kernel) >> sm.Metropolis("mu")).describe(model)


def of_cell(state, data, n):
    return -0.5 * (data.y[n] - state.k[data.row[n], data.column[n]]) ** 2


def of_a_row(state, data, site, arm):
    return 4.0 if site < 20 and state.k[site, 0] == arm else 0.0


@pytest.mark.plain
def test_rows_of_labels_are_of_other_sites():
    """Sites of two axes are counted one by one: k[site, 0] is site 2 site."""
    row, column = np.divmod(np.arange(40), 2)
    model = sm.Model(
        of_cell, {"y": np.zeros(40), "row": row, "column": column},
        {"k": np.zeros((20, 2), int)}, support={"k": 3},
        touches={"k": (np.arange(41), np.arange(40))},
    )  # fmt: skip
    assert sm.side_by_side(sm.Gibbs("k")).describe(model)
    with pytest.raises(ValueError, match="other sites of 'k' than its own: it must not read them"):
        sm.side_by_side(sm.Gibbs("k", log_prior=of_a_row)).describe(model)


def test_prepared_numbers_of_all_sites_are_refused():
    def prepare(state, data):
        return (state.a.sum(),)

    def likelihood(state, data, n, prepared):
        return log_likelihood(state, data, n)

    model = sm.Model(
        likelihood, data_of(), {"a": np.zeros(7)}, touches={"a": "group"},
        site_prior={"a": normal}, prepare=prepare,
    )  # fmt: skip
    assert sm.Metropolis("a").describe(model)
    with pytest.raises(ValueError, match="prepare"):
        sm.side_by_side(sm.Metropolis("a")).describe(model)


class Mine(sm.Metropolis):
    """Of a user's own: nobody knows whether its bind() heeds parts."""


@pytest.mark.plain
def test_only_moves_of_sites_are_taken():
    for given in (
        sm.Metropolis("a") >> sm.Metropolis("mu"), sm.interweave("a", "mu"), sm.WangLandau("k"),
        Mine("a"), "a", sm.Metropolis, sm.side_by_side(sm.Metropolis("a")),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="give one kernel that moves a block site by site"):
            sm.side_by_side(given)
    for cores in (0, -1, 1.5):
        with pytest.raises(ValueError, match=f"cores={cores}: give how many, at least 1"):
            sm.side_by_side(sm.Metropolis("a"), cores)
    with pytest.raises(ValueError, match="its block does not move site by site"):
        sm.side_by_side(sm.Metropolis(("mu", "tau"))).describe(model_of())
