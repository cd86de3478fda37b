"""Mentions read from files, and a table of what a chain made of them."""

import os
from typing import Any

import numpy as np
import pandas as pd

from subsample_mcmc.models.coreference.agreement import integers, joint
from subsample_mcmc.models.coreference.mentions import COLUMNS, Mentions, years_of
from subsample_mcmc.models.coreference.pair_features import scores
from subsample_mcmc.models.coreference.pair_score import PairScore
from subsample_mcmc.target.population import prepared

MISSING = ["", "null", "NULL", "nan", "NaN"]
OTHERS = 200  # members of its cluster that a mention is compared with in a table, at most


def read(path: str | os.PathLike) -> pd.DataFrame:
    """Mentions of a CSV file (gz too): columns block, title, authors, venue, year, organization.

    There may be a column label, the true person, unique within its block; other columns are kept.
    "null" and empty mean missing, and a missing column that all are; title or authors must exist.
    Rows that repeat another one in every column are dropped: .attrs["duplicates"] says how many.

    path: of the file.
    """
    shown = os.fspath(path)
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, na_values=MISSING)
    except (pd.errors.ParserError, pd.errors.EmptyDataError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{shown} is no CSV file ({str(error).strip()}): give one whose first line names its "
            f"columns, {', '.join(COLUMNS)} and label."
        ) from None
    if not isinstance(frame.index, pd.RangeIndex):  # pandas takes what is too much as an index
        raise ValueError(
            f"{shown}: its lines have more fields than the first one names columns: name every "
            "column, and quote texts that have commas."
        )
    frame.columns = [str(name).strip() for name in frame.columns]
    known = {name.lower(): name for name in reversed(frame.columns)}
    wanted = {known[n]: n for n in (*COLUMNS, "label") if n in known}
    frame = frame.rename(columns=wanted)
    twice = frame.columns[frame.columns.duplicated()]
    if len(twice):
        raise ValueError(f"{shown} has two columns {twice[0]!r}: give each a name of its own.")
    if not {"title", "authors"} & set(frame.columns):
        raise ValueError(
            f"{shown} has the columns {list(frame.columns)}: there must be `title` or `authors`, "
            f"and may be {', '.join(COLUMNS)} and label, named in the first line."
        )
    lines = len(frame)
    if not lines:
        raise ValueError(f"{shown} has a first line and no other: there are no mentions.")
    for name in COLUMNS:
        if name not in frame:
            frame[name] = pd.Series([None] * lines, dtype=object)
    frame["year"] = years_of(frame["year"], shown)
    frame = frame.drop_duplicates().reset_index(drop=True)
    frame.attrs["duplicates"] = lines - len(frame)
    return frame


def table(mentions: Mentions, labels, score: Any = None, most: int | None = None) -> pd.DataFrame:
    """Clusters of two or more as a table to read, one row per mention.

    mentions: as in sm.models.coreference.token_fields.
    labels: of their clusters.
    score: a PairScore or a model made of one; the column `score` is then the mean score of a
        mention to the others of its cluster, so that the weakest links of a cluster stand last.
        In clusters of more than 200, to 200 of the others, evenly spaced.
    most: rows at most, of the first blocks; default: all.
    Clusters are sorted by block and size, and numbered within their block.
    """
    labels = integers(labels, "labels")
    if len(labels) != mentions.size:
        raise ValueError(f"{len(labels)} labels for {mentions.size} mentions: give one for each.")
    cluster = joint(mentions.block, labels)
    size = np.bincount(cluster)[cluster]
    rows = np.flatnonzero((size > 1) & (mentions.block >= 0))
    mean = np.full(mentions.size, np.nan)
    if score is not None:
        data = prepared(score.data(mentions)) if isinstance(score, PairScore) else score.data
        mean = mean_scores(data, cluster, rows)
    names = np.array([*mentions.blocks, ""], dtype=object)[mentions.block]
    frame = mentions.frame
    made = pd.DataFrame({"block": names, "cluster": cluster, "size": size})
    for name in ("title", "authors", "venue", "year"):
        made[name] = frame[name].array
    made["score"] = mean
    if mentions.truth is not None:
        made["label"] = frame["label"].array
    made = made.iloc[rows].sort_values(
        ["block", "size", "cluster", "score"], ascending=[True, False, True, False], kind="stable"
    )
    new = made["cluster"].ne(made["cluster"].shift())
    made["cluster"] = new.groupby(made["block"]).cumsum().astype(np.int64)
    made = made.reset_index(drop=True)
    return made if most is None else made.head(most)


def mean_scores(data, cluster: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The mean score of each of `rows` to (at most OTHERS of) the others of its cluster."""
    mean = np.full(len(cluster), np.nan)
    if not len(rows):
        return mean
    order = rows[np.argsort(cluster[rows], kind="stable")]
    for members in np.split(order, np.flatnonzero(np.diff(cluster[order])) + 1):
        n = len(members)
        steps = np.unique(np.linspace(1, n - 1, min(n - 1, OTHERS)).astype(np.int64))
        other = members[(np.arange(n)[:, None] + steps) % n]
        left, out = np.repeat(members, len(steps)), np.empty(other.size)
        scores(data, left, other.ravel(), out)
        mean[members] = out.reshape(other.shape).mean(axis=1)
    return mean
