"""What the four experiments share: options, tables with intervals, claims beside findings."""

import argparse
import sys
import time
from pathlib import Path


def options(doc: str, data: str = "") -> argparse.Namespace:
    """--quick, --full, --out, --cores, --seed, and --data if there is any."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few runs, small problems: a minute")
    parser.add_argument("--full", action="store_true", help="as many runs as the paper")
    parser.add_argument("--out", type=Path, default=Path("results/best_arm"), help="folder")
    parser.add_argument("--cores", type=int, help="default: all")
    parser.add_argument("--seed", type=int, default=0)
    if data:
        parser.add_argument("--data", type=Path, help=data)
    chosen = parser.parse_args()
    if chosen.quick and chosen.full:
        parser.error("give --quick or --full, not both")
    chosen.out.mkdir(parents=True, exist_ok=True)
    return chosen


def size(chosen: argparse.Namespace, quick, default, full):
    """A number by what was asked for."""
    return quick if chosen.quick else full if chosen.full else default


def table(columns: list[str], rows: list[list], title: str = "") -> None:
    """Print rows in columns, numbers to the right."""
    cells = [[cell if isinstance(cell, str) else f"{cell:,.6g}" for cell in row] for row in rows]
    widths = [max(len(c), *(len(row[i]) for row in cells)) for i, c in enumerate(columns)]
    if title:
        print(f"\n{title}")
    for row in [columns, *cells]:
        padded = [c.rjust(w) for c, w in zip(row, widths, strict=True)]
        print("  ".join(["", row[0].ljust(widths[0]), *padded[1:]]))


def share(found: tuple[float, float, float]) -> str:
    """A rate with its interval."""
    rate, low, high = found
    return f"{rate:.3f} ({low:.3f} .. {high:.3f})"


def mean(found: tuple[float, float]) -> str:
    """A mean with its standard error."""
    return f"{found[0]:,.0f} +- {found[1]:,.0f}"


class Claims:
    """What the paper says beside what was found; printed at the end."""

    def __init__(self):
        self.rows: list[tuple[str, str, str]] = []
        self.began = time.monotonic()

    def add(self, claim: str, found: str, holds: bool | None) -> None:
        """holds: None where the runs are too few to tell."""
        self.rows.append(({True: "yes", False: "NO", None: "?"}[holds], claim, found))

    def show(self) -> None:
        """All of them, and how long it took."""
        print("\nThe paper's claims, and what was found")
        for holds, claim, found in self.rows:
            print(f"  [{holds:>3}] {claim}\n        {found}")
        print(f"\n{time.monotonic() - self.began:.0f} seconds")


def save(figure, chosen: argparse.Namespace, name: str) -> None:
    """Write a figure where it was asked for."""
    path = chosen.out / f"{name}.png"
    figure.savefig(path, dpi=120)
    print(f"wrote {path}")
    sys.stdout.flush()
