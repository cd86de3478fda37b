"""The same fields as inner products and tables: what a control variate sums over whole clusters.

A cosine of titles is an inner product of two mentions' token weights, so that its sum over a
cluster needs the cluster's total weights only. The features that are no inner products (square
roots, indicators of a shared coauthor) are what the control variate leaves over.
"""

from typing import NamedTuple

import numpy as np

from subsample_mcmc.models.coreference import mentions as m


class Tokens(NamedTuple):
    """Mention i has ids[indptr[i]:indptr[i + 1]], ascending, with these values."""

    indptr: np.ndarray
    ids: np.ndarray
    values: np.ndarray


class Category(NamedTuple):
    """A code per mention, -1 where missing; kind: which tables of two codes make sense.

    "gap": a function of |a - b|, capped at 20; "same": equal, different or missing; "free": any.
    """

    codes: np.ndarray
    kind: str


def token_fields(mentions: m.Mentions) -> dict[str, Tokens]:
    """Fields whose inner products are features of a pair.

    title, venue, organization: cosines; rarity: of shared coauthors, summed (10 times the feature
    where that is not capped); coauthors: how many are shared.
    """
    rows, data = mentions.data["mention"], mentions.data
    found = {}
    for k, name in enumerate(("rarity", *m.FIELDS[1:])):
        lengths = (rows[:, k + 1] - rows[:, k]).astype(np.int64)
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        where = np.repeat(rows[:, k] - indptr[:-1], lengths) + np.arange(indptr[-1])
        ids, values = data["token"][where], data["value"][where].astype(float)
        first = ids.min(initial=np.iinfo(np.int32).max)
        found[name] = Tokens(indptr, (ids - first).astype(np.int64), values)
    count = found["rarity"]
    return found | {"coauthors": count._replace(values=np.ones(len(count.values)))}


def category_fields(mentions: m.Mentions) -> dict[str, Category]:
    """Codes whose tables of pairs are features: years, middle initials, and what is there."""
    rows, years = mentions.data["mention"], mentions.years
    known = years >= 0
    first = years[known].min() if known.any() else 0
    has = rows[:, m.HAS]
    return {
        "year": Category(np.where(known, years - first, -1).astype(np.int64), "gap"),
        "middle": Category(rows[:, m.MIDDLE].astype(np.int64), "same"),
        "has coauthors": Category((has & m.HAS_COAUTHORS != 0).astype(np.int64), "free"),
        "has organization": Category((has & m.HAS_ORGANIZATION != 0).astype(np.int64), "free"),
        # A missing code has no table: that both lack an initial is told by these two.
        "has year": Category((has & m.HAS_YEAR != 0).astype(np.int64), "free"),
        "has middle": Category((has & m.HAS_MIDDLE != 0).astype(np.int64), "free"),
    }
