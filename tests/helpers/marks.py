"""Parameters of tests, of which some are slow: all of them are tested, some in every run."""

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
