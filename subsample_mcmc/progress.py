"""A bar per chain: draws, acceptance, share of the data read, time left."""

import sys

from tqdm.auto import tqdm

SEPARATE = 8  # more chains than this share one bar


class Bars:
    """Progress of a run; `update` is called a few times a second by the thread that waits."""

    def __init__(self, show: bool, chains: int, total: int, done: list[int]):
        self.single = chains > SEPARATE
        names = ["chains"] if self.single else [f"chain {i}" for i in range(chains)]
        lengths = [total * chains] if self.single else [total] * chains
        starts = [sum(done)] if self.single else done
        self.bars = [
            tqdm(
                total=length, initial=first, desc=name, unit="draw", position=i, leave=True,
                file=sys.stderr, mininterval=0.2,
            )
            for i, (name, length, first) in enumerate(zip(names, lengths, starts, strict=True))
        ] if show else []  # fmt: skip

    def update(self, done: list[int], told: list[str]) -> None:
        """Move every bar to where its chain is; `told` are words about each."""
        if self.single and self.bars:
            done, told = [sum(done)], [told[0]]
        for bar, now, text in zip(self.bars, done, told, strict=False):
            bar.set_postfix_str(text, refresh=False)
            bar.update(now - bar.n)

    def close(self) -> None:
        """Leave the last state on the screen."""
        for bar in self.bars:
            bar.close()
