"""Mentions of authors as sorted lists of token numbers: what pairs of them are compared by.

A mention is one author of one paper. Of the paper it keeps the other authors (initials and
surname), the words of title, venue and organisation, and the year; of the author the middle
initial. Every field may be missing. Tokens of one field are numbered together, in one array for
all mentions and fields, so that two mentions are compared by merging two sorted lists.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from subsample_mcmc.models.coreference.author_names import (
    focal,
    folded,
    key,
    mark_of,
    parts,
    split,
)

FIELDS = ("coauthors", "title", "venue", "organization")
COLUMNS = ("block", "title", "authors", "venue", "year", "organization")
# Columns of data["mention"]: where the tokens of each field start, where they end, and the rest.
END, YEAR, MIDDLE, HAS = 4, 5, 6, 7
# Bits of data["mention"][:, HAS], the first four in the order of FIELDS.
HAS_COAUTHORS, HAS_TITLE, HAS_VENUE, HAS_ORGANIZATION, HAS_YEAR, HAS_MIDDLE = (
    1 << k for k in range(6)
)
LETTERS = "abcdefghijklmnopqrstuvwxyz"  # whose middle initials have the codes 0 .. 25
STOP = frozenset(
    [
        "a", "an", "and", "as", "at", "by", "for", "from", "in", "into", "is", "its", "of", "on",
        "or", "over", "the", "to", "towards", "under", "using", "via", "with",
        "de", "des", "der", "die", "das", "du", "et", "fur", "la", "le", "les", "und",
    ]
)  # fmt: skip
WORD = re.compile(r"[^\W_]+")


class Mentions:
    """Tokenised mentions of authors, one per row of `frame`.

    frame: a table with the columns block, title, authors (separated by commas, or by semicolons,
        in which case "Surname, First" is understood; where most lists of several authors have
        semicolons, so it is in those without), venue, year, organization and, where they are
        known, label; as co.read and co.simulate give it. Columns may be missing, but for title
        and authors, of which there must be one.
    initials: take first names as initials only, as most bibliographies give them. False:
        coauthors count as the same where their names are spelled alike.
    """

    def __init__(self, frame: pd.DataFrame, initials: bool = True):
        frame = checked_table(frame)
        self.frame, self.initials = frame, bool(initials)
        self.block, self.blocks = codes_of(frame["block"])
        self.truth = truth_of(frame, self.block)
        lists, middle = tokens_of(frame, self.initials)
        years = pd.to_numeric(frame["year"], errors="coerce").to_numpy(float, na_value=np.nan)
        self.data, self.vocabulary = arrays_of(lists, middle, years)

    def __repr__(self) -> str:
        known = "no labels" if self.truth is None else f"{np.sum(self.truth >= 0)} labelled"
        blocks = len(np.unique(self.block[self.block >= 0]))
        return f"Mentions({self.size} in {blocks} blocks, {known})"

    def __len__(self) -> int:
        return self.size

    @property
    def size(self) -> int:
        """How many mentions."""
        return len(self.block)

    @property
    def years(self) -> np.ndarray:
        """Years, -1 where missing."""
        rows = self.data["mention"]
        return np.where(rows[:, HAS] & HAS_YEAR, rows[:, YEAR], -1)

    def words(self, field: str, i: int) -> list[str]:
        """The tokens of one field of a mention, as text.

        field: its name.
        i: number of the mention.
        """
        rows, k = self.data["mention"], FIELDS.index(field)
        return [self.vocabulary[t] for t in self.data["token"][rows[i, k] : rows[i, k + 1]]]

    def take(self, rows) -> "Mentions":
        """Some of the mentions, with the vocabulary and rarities of all.

        rows: numbers of mentions, or booleans.
        """
        rows = np.asarray(rows)
        if rows.dtype == bool and rows.shape == (self.size,):
            rows = np.flatnonzero(rows)
        if rows.ndim != 1 or not len(rows) or rows.dtype.kind not in "iu":
            raise ValueError(
                f"rows has shape {rows.shape} and dtype {rows.dtype}: give the numbers of some "
                f"mentions, or a mask of {self.size}."
            )
        if rows.min() < 0 or rows.max() >= self.size:
            raise ValueError(
                f"rows {rows.min()} .. {rows.max()}: mentions are 0 .. {self.size - 1}."
            )
        made = object.__new__(Mentions)
        made.frame = self.frame.iloc[rows].reset_index(drop=True)
        made.initials, made.blocks, made.vocabulary = self.initials, self.blocks, self.vocabulary
        made.block = self.block[rows]
        kept = None if self.truth is None else self.truth[rows]
        made.truth = kept if kept is not None and np.any(kept >= 0) else None
        old = self.data["mention"][rows]
        lengths = old[:, END].astype(np.int64) - old[:, 0]
        start = np.cumsum(lengths) - lengths
        where = np.repeat(old[:, 0] - start, lengths) + np.arange(lengths.sum())
        new = old.copy()
        new[:, : END + 1] += (start - old[:, 0])[:, None].astype(np.int32)
        made.data = {
            "mention": new,
            "signature": self.data["signature"][rows],
            "token": self.data["token"][where],
            "value": self.data["value"][where],
        }
        return made

    def halves(self) -> tuple["Mentions", "Mentions"]:
        """(train, test): blocks by size, every other one for the test, the largest among them.

        Mentions in no block go to the training half. Rarities of tokens are those of all mentions,
        of both halves; labels play no part in them.
        """
        names, counts = np.unique(self.block[self.block >= 0], return_counts=True)
        if len(names) < 2:
            raise ValueError(f"{len(names)} block(s) cannot be halved: there must be two or more.")
        order = names[np.argsort(-counts, kind="stable")]
        test = np.isin(self.block, order[::2])
        return self.take(~test), self.take(test)


# --------------------------------------------------------------------------------------- tokens
@lru_cache(maxsize=1 << 17)
def words_of(text: str) -> tuple[str, ...]:
    """The words of a text that say something."""
    return tuple(w for w in WORD.findall(folded(text)) if w not in STOP and len(w) > 1)


def tokens_of(frame: pd.DataFrame, initials: bool) -> tuple[list[list], np.ndarray]:
    """Tokens of each field of each mention, and the codes of middle initials (-1: missing)."""
    middle = np.full(len(frame), -1, dtype=np.int32)
    coauthors: list[Iterable[str]] = []
    blocks, mark = frame["block"].tolist(), mark_of(frame["authors"])
    codes = {letter: code for code, letter in enumerate(LETTERS)}
    for i, (authors, block) in enumerate(zip(frame["authors"].tolist(), blocks, strict=True)):
        names = split(authors, mark) if authors is not None else []
        if not names:
            coauthors.append(())
            continue
        mine = focal(names, block)
        words = parts(names.pop(mine))
        if len(words) > 2:
            middle[i] = codes.setdefault(words[1][0], len(codes))
        spelled = map(key, names) if initials else (" ".join(parts(name)) for name in names)
        coauthors.append([name for name in spelled if name])
    lists: list[list] = [coauthors]
    for field in FIELDS[1:]:
        lists.append([() if text is None else words_of(text) for text in frame[field].tolist()])
    return lists, middle


def arrays_of(lists: list[list], middle, years) -> tuple[dict[str, np.ndarray], list[str]]:
    """The data of a model of pairs, and the text of every token.

    mention: (N, 8), see END, YEAR, MIDDLE, HAS. token, value: every mention's tokens, by field,
    ascending, and their weights: rarity over the field's norm, so that a sum of products is a
    cosine; of coauthors the square root of the rarity, so that it is a sum of rarities. Tokens
    that no other mention has count in the norms, and are left out: they are never shared.
    signature: (N, 5), one bit of 64 per token (of 128 in titles): where two mentions have no
    common bit, they share no token.
    """
    size, vocabulary = len(middle), []
    columns = [column_of(words, sums=k == 0) for k, words in enumerate(lists)]
    lengths = np.stack([np.bincount(c.owner, minlength=size) for c in columns], axis=1)
    ends = np.cumsum(lengths).reshape(lengths.shape)  # by mention, and by field within it
    total = int(ends[-1, -1])
    if total >= 2**31:
        raise ValueError(f"{total} tokens: at most 2^31 - 1 are supported. Split the mentions.")
    mention = np.zeros((size, 8), dtype=np.int32)
    mention[:, :END], mention[:, END] = ends - lengths, ends[:, -1]
    token, value = np.empty(total, dtype=np.int32), np.empty(total, dtype=np.float32)
    signature = np.zeros((size, 5), dtype=np.uint64)
    for k, (owner, number, weight, present, words) in enumerate(columns):
        first = np.cumsum(lengths[:, k]) - lengths[:, k]
        place = mention[owner, k] + np.arange(len(owner)) - first[owner]
        token[place] = number + len(vocabulary)
        value[place] = weight
        vocabulary += words
        bits = np.uint64(1) << (number % 64).astype(np.uint64)
        second = (number % 128 >= 64) & (k == 1)
        for column, mine in ((k, ~second), (4, second)):
            np.bitwise_or.at(signature[:, column], owner[mine], bits[mine])
        mention[:, HAS] |= present.astype(np.int32) << k
    known = (years >= 0.0) & (years < 10_000.0)  # neither nan nor nonsense
    mention[:, YEAR], mention[:, MIDDLE] = np.where(known, years, 0), middle
    mention[:, HAS] |= np.where(known, HAS_YEAR, 0) | np.where(middle >= 0, HAS_MIDDLE, 0)
    made: dict[str, np.ndarray] = {
        "mention": mention, "signature": signature, "token": token, "value": value
    }  # fmt: skip
    return made, vocabulary


class TextColumn(NamedTuple):
    """One field of all mentions: an entry per mention and token that others have as well."""

    owner: np.ndarray
    number: np.ndarray  # ascending within a mention, frequent tokens first
    weight: np.ndarray
    present: np.ndarray  # of each mention: has it the field
    words: list[str]


def column_of(lists: list, sums: bool = False) -> TextColumn:
    """Number the tokens of a field and weigh them by log(1 + N / number of mentions)."""
    numbers: dict[str, int] = {}
    of = [{numbers.setdefault(word, len(numbers)) for word in words} for words in lists]
    lengths = np.fromiter(map(len, of), dtype=np.int64, count=len(of))
    flat = np.fromiter((t for one in of for t in one), dtype=np.int64, count=lengths.sum())
    owner, count = np.repeat(np.arange(len(of)), lengths), np.bincount(flat, minlength=len(numbers))
    rare = np.log1p(len(of) / count)[flat]  # positive, so that no norm is 0
    norm = np.sqrt(np.bincount(owner, rare * rare, minlength=len(of)))
    weight = np.sqrt(rare) if sums else rare / norm[owner]
    order = np.argsort(-count, kind="stable")
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    kept = np.flatnonzero(count[flat] > 1)
    kept = kept[np.lexsort((rank[flat[kept]], owner[kept]))]
    words = list(numbers)
    shared = [words[t] for t in order[: np.sum(count > 1)]]
    return TextColumn(owner[kept], rank[flat[kept]], weight[kept], lengths > 0, shared)


# ------------------------------------------------------------------------------------- checking
def checked_table(frame: Any) -> pd.DataFrame:
    """A copy of the table with all columns, None where text is missing."""
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"frame is a {type(frame).__name__}: give a data frame, as of co.read.")
    if not {"title", "authors"} & set(frame.columns):
        raise ValueError(
            f"the table has the columns {list(frame.columns)}: there must be `title` or `authors`, "
            f"and may be {', '.join(COLUMNS)} and label."
        )
    if not len(frame):
        raise ValueError("the table has no rows: there must be at least one mention.")
    made = frame.reset_index(drop=True).copy()
    known = {str(name).strip().lower(): name for name in reversed(made.columns)}
    others = {known[n]: n for n in (*COLUMNS, "label") if n in known and n not in made}
    made = made.rename(columns=others)  # Year is year
    twice = [n for n in made.columns[made.columns.duplicated()] if n in (*COLUMNS, "label")]
    if twice:
        raise ValueError(f"the table has two columns {twice[0]!r}: give each a name of its own.")
    for name in (*COLUMNS, "label"):
        if name == "label" and name not in made:
            continue
        made[name] = made.get(name)
        if name == "year":
            made[name] = years_of(made[name], "the table")
        else:
            given = made[name].astype(object)
            several = [v for v in given if isinstance(v, list | tuple | set | dict | np.ndarray)]
            if several:
                raise TypeError(
                    f"the column {name!r} holds {several[0]!r:.60}, a {type(several[0]).__name__}: "
                    "give one text for each mention, with authors separated by ';'."
                )
            text = [None if pd.isna(v) or not str(v).strip() else str(v) for v in given]
            made[name] = pd.Series(text, dtype=object)
    return made


def years_of(given: pd.Series, shown: str) -> pd.Series:
    """Years as whole numbers, missing where they are; of dates, theirs."""
    if pd.api.types.is_datetime64_any_dtype(given) or isinstance(given.dtype, pd.PeriodDtype):
        return given.dt.year.where(given.notna()).astype("Int64")
    if given.dtype.kind == "O" or pd.api.types.is_string_dtype(given.dtype):
        plain = [getattr(v, "year", v) for v in given]  # dates
        plain = [None if isinstance(v, str) and not v.strip() else v for v in plain]
        given = pd.Series(plain, index=given.index, dtype=object)
    years = pd.to_numeric(given, errors="coerce")
    wrong = given.notna() & ~(years.between(1000, 2999) & (years % 1 == 0))
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"{shown}: the year of mention {first} (the first is 0) is {given.iloc[first]!r} "
            f"({wrong.sum()} such): give a year as 1996, or nothing where it is not known."
        )
    return years.astype("Int64")


def codes_of(names: pd.Series) -> tuple[np.ndarray, list[str]]:
    """Numbers of blocks, -1 where there is none, and their names."""
    codes, found = pd.factorize(names)
    return codes.astype(np.int64), [str(name) for name in found]


def truth_of(frame: pd.DataFrame, block: np.ndarray) -> np.ndarray | None:
    """Numbers of the true clusters, -1 where unknown; None without any label."""
    if "label" not in frame or frame["label"].isna().all():
        return None
    label, _ = pd.factorize(frame["label"])  # -1 where missing
    label = np.where(block < 0, -1, label)  # a label says nothing outside its block
    if np.all(label < 0):
        return None
    pair, _ = pd.factorize(block * (label.max() + 1) + label)
    return np.where(label < 0, -1, pair).astype(np.int64)
