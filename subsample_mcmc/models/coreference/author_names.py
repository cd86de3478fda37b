"""Names of authors, spelled in many ways: initials, surnames, and whose mention a record is."""

import re
import unicodedata
from functools import lru_cache

SUFFIXES = frozenset(["jr", "sr", "ii", "iii", "iv"])


@lru_cache(maxsize=1 << 18)
def parts(name: str) -> tuple[str, ...]:
    """A name as lower-case words without accents, dots, numbers and suffixes, surname last."""
    if "," in name:  # Surname, First
        last, _, first = name.partition(",")
        name = f"{first} {last}"
    text = re.sub(r"[.\s]+", " ", folded(name))
    found = ["".join(c for c in word if c.isalpha()) for word in text.split()]
    found = [word for word in found if word]
    while len(found) > 2 and found[-1] in SUFFIXES:
        found.pop()
    return tuple(found)


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


def split(authors: str) -> list[str]:
    """The names in a list of authors."""
    names = authors.split(";") if ";" in authors else authors.split(",")
    return [name.strip() for name in names if name.strip()]
