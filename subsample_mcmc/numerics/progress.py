"""Progress bars: what they say, and one switch for all of a call.

Whoever is called with progress=False says so once, `with quietly(progress)`, and no bar of anything
that runs inside appears: not of a control variate's pass over the data, nor of a fit's.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tqdm.auto import tqdm

SEPARATE = 8  # more chains than this share one bar
COMPILING = "compiling"  # stands beside 0% until there is something to count

_hidden: ContextVar[bool] = ContextVar("hidden", default=False)


@contextmanager
def quietly(progress: bool | None) -> Iterator[None]:
    """Inside, no bar appears if progress is False, whatever is asked for."""
    token = _hidden.set(_hidden.get() or progress is False)
    try:
        yield
    finally:
        _hidden.reset(token)


class Bar(tqdm):
    """A bar on stderr that says that code compiles until it moves; nothing where it is not wanted.

    progress: False never shows it.
    """

    def __init__(self, *given, progress: bool | None = None, **named):
        hidden = _hidden.get() or progress is False
        usual = {"file": sys.stderr, "leave": False, "disable": hidden, "postfix": COMPILING}
        super().__init__(*given, **usual | named)

    def update(self, n=1):
        """Move on; what was said of compiling is over."""
        if n and not self.disable and self.postfix == COMPILING:
            self.set_postfix_str("", refresh=False)
        return super().update(n)


class Bars:
    """Progress of a run; `update` is called a few times a second by the thread that waits."""

    def __init__(self, show: bool, chains: int, total: int, done: list[int]):
        self.single = chains > SEPARATE
        names = ["chains"] if self.single else [f"chain {i}" for i in range(chains)]
        lengths = [total * chains] if self.single else [total] * chains
        starts = [sum(done)] if self.single else done
        self.bars = [
            Bar(
                total=length, initial=first, desc=name, unit="draw", position=i, leave=True,
                mininterval=0.2,
            )
            for i, (name, length, first) in enumerate(zip(names, lengths, starts, strict=True))
        ] if show else []  # fmt: skip

    def update(self, done: list[int], told: list[str]) -> None:
        """Move every bar to where its chain is; `told` are words about each."""
        if self.single and self.bars:
            done, told = [sum(done)], [told[0]]
        for bar, now, text in zip(self.bars, done, told, strict=False):
            if now != bar.n:  # until then it says what it waits for
                bar.set_postfix_str(text, refresh=False)
            bar.update(now - bar.n)

    def __enter__(self) -> "Bars":
        return self

    def __exit__(self, error, *more) -> None:
        """Leave the last state on the screen; nothing after a mistake."""
        for bar in self.bars:
            bar.leave = bar.leave and error is None
            bar.close()
