"""NamedTuple classes made at run time that can still be found by name.

numba's machine code names the classes of its arguments, and reading it back imports them: a
class made in a user's script or in a closure cannot be found in the next process. `record`
gives the one class for a tuple of fields, and this module rebuilds it from its name alone.
"""

import keyword
import re
from collections import namedtuple
from difflib import get_close_matches
from typing import Any


def similar(name: str, known) -> str:
    """The end of a sentence that asks for what was probably meant, or nothing."""
    found = get_close_matches(name, [str(k) for k in known], 1)
    return f" Did you mean {found[0]!r}?" if found else ""


def no_field(self, name: str):
    """What a misspelt field raises, instead of an error that knows nothing of the others."""
    if name.startswith("__"):  # asked by copy, pickle, numpy, not by a user
        raise AttributeError(name)
    raise AttributeError(
        f"there is no {name!r} here: the names are {', '.join(self._fields)}."
        f"{similar(name, self._fields)}"
    )


def item(self, key):
    """Item `key` by its place; a name is refused with how it is read."""
    if isinstance(key, str):
        raise TypeError(
            f"[{key!r}]: names are read with a dot, .{key} (blocks and columns are arrays: "
            f"state.mu[0], data.y[n]). The names here are {', '.join(self._fields)}."
        )
    return tuple.__getitem__(self, key)


def no_assignment(self, key, value):
    """What an assignment to a place raises: the arrays in it are written, not they themselves."""
    raise TypeError(
        f"[{key!r}] = ...: values are written by name, such as .{self._fields[0]}[0] = ...; the "
        f"names here are {', '.join(self._fields)}."
    )


def record(*fields: str) -> type:
    """The one NamedTuple class with these fields, importable so that caches can name it.

    fields: their names.
    """
    for field in fields:
        if not isinstance(field, str):
            raise TypeError(f"the name {field!r} cannot be a field: give a text, like 'x1'.")
        if not field.isidentifier() or field.startswith("_") or keyword.iskeyword(field):
            raise ValueError(
                f"the name {field!r} cannot be a field: give an identifier that is no Python "
                "keyword and does not start with an underscore, like 'x1'."
            )
    name = "R" + "".join(f"{len(field)}{field}" for field in fields)
    if (known := globals().get(name)) is not None:
        return known
    made: Any = namedtuple(name, fields, module=__name__)  # type: ignore[misc]
    own = {"__getattr__": no_field, "__getitem__": item, "__setitem__": no_assignment}
    for method, function in own.items():
        setattr(made, method, function)
    return globals().setdefault(name, made)  # another thread may have been first


def as_record(data):
    """`data` with a dict or a user's NamedTuple turned into a record; a plain tuple unchanged."""
    if isinstance(data, dict):
        return record(*data)(*data.values())
    if hasattr(data, "_fields"):
        return record(*data._fields)(*data)
    return tuple(data)


def __getattr__(name: str) -> type:
    fields, rest = [], name[1:]
    while name[:1] == "R" and (digits := re.match(r"[1-9][0-9]*", rest)):
        start, stop = digits.end(), digits.end() + int(digits[0])
        fields.append(rest[start:stop])
        rest = rest[stop:]
    wrong = AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if rest or record(*fields).__name__ != name:
            raise wrong
    except ValueError:
        raise wrong from None
    return record(*fields)
