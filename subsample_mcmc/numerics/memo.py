"""The one memo: what was built for some arguments is not built again.

Builders make compiled functions out of others. Two calls with equal arguments must give the same
object, or the machine code above it would be compiled twice.

The one rule for what is forgotten: beyond MOST_RESULTS, the one that was asked for longest ago. It
is only built again when it is asked for again, so no builder may have an effect beside its result.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Any, TypeVar

Builder = TypeVar("Builder", bound=Callable[..., Any])

MOST_RESULTS = 16_384  # results kept; a model and its kernels leave some fifty
_results: OrderedDict[Any, Any] = OrderedDict()
_changing = Lock()


def recall(key: Any) -> Any:
    """What was kept under a key, or None."""
    with _changing:
        if key not in _results:
            return None
        _results.move_to_end(key)
        return _results[key]


def keep(key: Any, result: Any) -> Any:
    """Keep a result, which is not None; what another thread kept under its key is returned."""
    with _changing:
        result = _results.setdefault(key, result)
        while len(_results) > MOST_RESULTS:
            _results.popitem(last=False)
        return result


def memoised(build: Builder) -> Builder:
    """A builder whose results are kept, by its arguments; these are hashable, and by position."""

    @wraps(build)
    def remembered(*arguments):
        key = (build, arguments)
        kept = recall(key)
        return keep(key, build(*arguments)) if kept is None else kept

    return remembered  # type: ignore[return-value]
