"""The tail that a generalised Pareto law is fitted to."""

from subsample_mcmc.runs.criticism.psis import Tail, tail_of


def test_tails_of_arviz_1_are_short_where_few_draws_are_effective():
    assert tail_of(1_000, 0.1, True) == Tail(200, False)
    assert tail_of(1_000, 0.5, True) == Tail(134, False)
