"""What is kept under which key, and which data of a comparison are looked at."""

import numpy as np

from subsample_mcmc.numerics.compared import extremes_of


def test_extremes_of_tables_are_rows():
    """Of a table of whole numbers, the data in which they are."""
    table = np.ones((10, 4), dtype=int)
    table[7, 3], table[2, 1] = 99, -99
    assert extremes_of((table, np.arange(10)), 10) == [2, 7, 0, 9]


def test_a_result_of_which_a_part_is_gone_is_no_result():
    from subsample_mcmc.numerics.memo import held, lent

    def one(): ...
    def two(): ...

    loan = lent((one, None, (two,)), lambda _: None)
    assert held(loan) == (one, None, (two,))
    del two
    assert held(loan) is None


def test_numbers_of_other_types_are_other_constants():
    """Their bytes may be the same."""
    from subsample_mcmc.numerics.digest import content

    def made(x):
        return lambda y: y * x

    kinds = (np.int64(0), np.float64(0.0), np.uint64(0))
    assert len({content(made(x)) for x in kinds}) == 3
