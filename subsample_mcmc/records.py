"""NamedTuple classes made at run time that can still be found by name.

numba's machine code names the classes of its arguments, and reading it back imports them: a
class made in a user's script or in a closure cannot be found in the next process. `record`
gives the one class for a tuple of fields, and this module rebuilds it from its name alone.
"""

import keyword
import re
from collections import namedtuple


def record(*fields: str) -> type:
    """The one NamedTuple class with these fields, importable so that caches can name it."""
    for field in fields:
        if not field.isidentifier() or field.startswith("_") or keyword.iskeyword(field):
            raise ValueError(
                f"the name {field!r} cannot be a field: give an identifier that is no Python "
                "keyword and does not start with an underscore, like 'x1'."
            )
    name = "R" + "".join(f"{len(field)}{field}" for field in fields)
    if name not in globals():
        globals()[name] = namedtuple(name, fields, module=__name__)
    return globals()[name]


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
