"""Names of authors, spelled in many ways: initials, surnames, and whose mention a record is."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

SUFFIXES = frozenset(["jr", "sr", "ii", "iii", "iv"])


@lru_cache(maxsize=1 << 18)
def parts(name: str) -> tuple[str, ...]:
    """A name as lower-case words without accents, dots, numbers and suffixes, surname last."""
    pieces = [words_in(piece) for piece in without_suffixes(name.split(","))]
    fewest = 2 if len(pieces) == 1 else 1  # "Smith Jr., John"; but "John Jr" is all of a name
    for words in pieces:
        while len(words) > fewest and words[-1] in SUFFIXES:
            words.pop()
    last, *first = pieces
    return tuple(word for words in [*first, last] for word in words)  # Surname, First


def words_in(text: str) -> list[str]:
    """Lower-case words of letters alone."""
    found = re.sub(r"[.\s]+", " ", folded(text)).split()
    words = ("".join(c for c in word if c.isalpha()) for word in found)
    return [word for word in words if word]


@lru_cache(maxsize=1 << 18)
def key(name: str) -> str:
    """First initial and surname, as in "j smith"; a single word is itself."""
    words = parts(name)
    return f"{words[0][0]} {words[-1]}" if len(words) > 1 else "".join(words)


@lru_cache(maxsize=1 << 18)
def folded(text: str) -> str:
    """Lower case without accents."""
    if text.isascii():
        return text.lower()
    spread = unicodedata.normalize("NFKD", text)
    return "".join(c for c in spread if not unicodedata.combining(c)).lower()


def focal(names: list[str], block: str | None) -> int:
    """Which of the authors a mention is of: the one who matches the block's name, else the first.

    A block's name is a full name, or initial and surname, "jsmith" or "j smith".
    """
    if block is None or len(names) < 2:
        return 0
    whole, short = parts(block), key(block)
    joined = "".join(short.split()) if len(whole) > 1 else short
    best, found = 0, 0
    for k, name in enumerate(names):
        mine = parts(name)
        if not mine:
            continue
        if mine == whole:
            return k
        how = 2 if key(name).replace(" ", "") == joined else 1 if mine[-1:] == whole[-1:] else 0
        if how > found:
            best, found = k, how
    return best


def without_suffixes(pieces: list[str]) -> list[str]:
    """What commas separate, but for the Jr. of "Smith, John, Jr."."""
    return [one for k, one in enumerate(pieces) if k == 0 or bare(one) not in SUFFIXES]


def bare(word: str) -> str:
    """Lower case, without dots and blanks."""
    return folded(word).replace(".", "").strip()


def is_list(authors: str) -> bool:
    """Do commas separate several authors: three and more, or two of two words and more each."""
    pieces = without_suffixes(authors.split(","))
    return len(pieces) > 2 or (len(pieces) == 2 and all(len(words_in(one)) > 1 for one in pieces))


def mark_of(lists: Iterable[Any]) -> str:
    """What separates the authors in a column of such lists: ";", or "," where each row tells.

    Where ";" does, "Smith, John" is one author. It does where it stands in more lists than commas
    separate several authors in without it.
    """
    given = [authors for authors in lists if isinstance(authors, str)]
    with_it = sum(";" in authors for authors in given)
    return ";" if with_it > sum(";" not in one and is_list(one) for one in given) else ","


def split(authors: str, mark: str = ",") -> list[str]:
    """The names in a list of authors. mark: what separates them in its column; see `mark_of`."""
    if ";" in authors or (mark == ";" and not is_list(authors)):
        names = authors.split(";")
    else:
        names = without_suffixes(authors.split(","))
    return [name.strip() for name in names if name.strip()]
