"""Marks that tests share: parameters of which some are slow, and warnings that are not ours."""

from collections.abc import Iterable

import pytest


def slow_but(quick: Iterable, items: Iterable) -> list:
    """items, marked slow but those that are among `quick`, which must be items."""
    items, quick = list(items), list(quick)
    assert all(one in items for one in quick), f"{quick} are not all among {items}"
    return [one if one in quick else _slow(one) for one in items]


def _slow(item):
    several = item if isinstance(item, tuple) else (item,)
    return pytest.param(*several, marks=pytest.mark.slow)


WARNINGS_OF_PYMC = [
    # PyMC's own: of what it is built with, of its dependencies, of short runs.
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*[Nn]umba.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*BLAS.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*g\\+\\+.*:UserWarning"),
    pytest.mark.filterwarnings("ignore::subsample_mcmc.pymc.FullDataWarning"),
]
