"""The one memo: what was built for some arguments is not built again.

Builders make compiled functions out of others. Two calls with equal arguments must give the same
object, or the machine code above it would be compiled twice.
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


def memoised(build: Builder) -> Builder:
    """A builder whose results are kept, by its arguments; these are hashable, and by position.

    The one rule for what is forgotten: beyond MOST_RESULTS, the one that was asked for longest
    ago. It is only built again when it is asked for again, so no builder may have an effect beside
    its result.
    """

    @wraps(build)
    def remembered(*arguments):
        key = (build, arguments)
        with _changing:
            if key in _results:
                _results.move_to_end(key)
                return _results[key]
        built = build(*arguments)  # unlocked: builders call builders
        with _changing:
            built = _results.setdefault(key, built)  # another thread's, if it was first
            while len(_results) > MOST_RESULTS:
                _results.popitem(last=False)
        return built

    return remembered  # type: ignore[return-value]
