"""The one memo: what was built for some arguments is not built again.

Builders make compiled functions out of others. Two calls with equal arguments must give the same
object, or the machine code above it would be compiled twice.

The one rule for what is forgotten: of results about users' functions, beyond MOST_OF_USERS, the one
that was asked for longest ago; of the package's own, beyond MOST_RESULTS. It is only built again
when it is asked for again, so no builder may have an effect beside its result. Models and runs hold
what they use, and what somebody holds is found again: nothing that is in use is built twice. What
nobody holds is freed, and the machine code of users' functions with it (compilers.OwnLibrary).
"""

import weakref
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from threading import Lock
from types import FunctionType
from typing import Any, TypeVar

PACKAGE = __name__.partition(".")[0]
Builder = TypeVar("Builder", bound=Callable[..., Any])

MOST_RESULTS = 16_384
MOST_OF_USERS = 256  # a model and its kernels leave five to thirty
_results: OrderedDict[Any, Any] = OrderedDict()
_of_users: OrderedDict[Any, Any] = OrderedDict()
_lent: dict[Any, Any] = {}  # results about users' functions, as long as somebody holds them
_changing = Lock()


def recall(key: Any) -> Any:
    """What was kept under a key, or None."""
    with _changing:
        for shelf in (_results, _of_users):
            if key in shelf:
                shelf.move_to_end(key)
                return shelf[key]
        found = held(_lent.get(key))
        if found is not None:
            put(_of_users, MOST_OF_USERS, key, found)
        return found


def put(shelf: OrderedDict, most: int, key: Any, result: Any) -> Any:
    """Put a result on a shelf, and take those off that were asked for longest ago."""
    result = shelf.setdefault(key, result)
    while len(shelf) > most:
        shelf.popitem(last=False)
    return result


def lent(value: Any, gone: Callable[[Any], Any]) -> Any:
    """Weak references to the functions of a result; gone: called when one of them is freed."""
    if isinstance(value, tuple):
        return type(value), tuple(lent(part, gone) for part in value)
    return value if value is None else weakref.ref(value, gone)


def held(loan: Any) -> Any:
    """The result that was lent; None: it is not there any more."""
    if isinstance(loan, weakref.ref):
        return loan()
    if not isinstance(loan, tuple):
        return loan
    kind, loans = loan
    parts = [held(one) for one in loans]
    if any(part is None and one is not None for part, one in zip(parts, loans, strict=True)):
        return None
    return kind(*parts) if hasattr(kind, "_fields") else tuple(parts)


def keep(key: Any, result: Any) -> Any:
    """Keep a result, which is not None; what another thread kept under its key is returned."""
    users = is_of_users(result) or is_of_users(key)
    shelf, most = (_of_users, MOST_OF_USERS) if users else (_results, MOST_RESULTS)
    with _changing:
        result = put(shelf, most, key, result)
        if is_of_users(result):
            with suppress(TypeError):  # more than functions
                _lent[key] = lent(result, lambda _: _lent.pop(key, None))
        return result


def is_of_users(value: Any) -> bool:
    """Is a user's function in it, or machine code that was made from one."""
    if isinstance(value, tuple):
        return any(is_of_users(part) for part in value)
    if isinstance(value, FunctionType):
        return (value.__module__ or "").partition(".")[0] != PACKAGE
    return bool(getattr(value, "of_user", False))


def memoised(build: Builder) -> Builder:
    """A builder whose results are kept, by its arguments.

    build: a function whose arguments are hashable and by position.
    """

    @wraps(build)
    def remembered(*arguments):
        key = (build, arguments)
        kept = recall(key)
        return keep(key, build(*arguments)) if kept is None else kept

    return remembered  # type: ignore[return-value]
