"""Tables as text, and what was promised beside what was measured."""

import math

from tests.benchmarks.rivals import BETTING, EXACT, NAIVE, NORMAL


def text_of(value) -> str:
    """A number in three or four digits; text as it is."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}" if value < 10**5 else f"{value:.0e}".replace("+0", "")
    if math.isnan(value):
        return "-"
    if value == 0.0:
        return "0"
    if abs(value) >= 1e5 or abs(value) < 1e-3:
        return f"{value:.2e}".replace("e+0", "e").replace("e-0", "e-")
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def without_nan(value):
    """What JSON can hold: null for what is not a number."""
    if isinstance(value, dict):
        return {key: without_nan(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(title: str, rows: list[dict]) -> str:
    """Aligned columns under a title."""
    if not rows:
        return f"\n{title}\n  (not measured)"
    names = list(rows[0])
    cells = [names, *[[text_of(row[name]) for name in names] for row in rows]]
    width = [max(len(line[i]) for line in cells) for i in range(len(names))]
    left = [isinstance(rows[0][name], str) for name in names]
    lines = [
        "  ".join(
            c.ljust(w) if side else c.rjust(w) for c, w, side in zip(line, width, left, strict=True)
        ).rstrip()
        for line in cells
    ]
    return "\n".join(["", title, lines[0], "-" * len(lines[0]), *lines[1:]])


def draws_table(rows) -> str:
    """The W1 table: one block per case and N."""
    shown = []
    for row in rows:
        wrong = f"{row.errors:,}/{row.draws:,}" if not row.reason else "-"
        shown.append(
            {
                "case": row.case,
                "N": row.size,
                "rival": row.rival,
                "us/draw": row.microseconds,
                "ns/factor": row.per_factor,
                "read": f"{row.share:.3g}" if not row.reason else "-",
                "x exact": row.versus_exact,
                "x naive": row.versus_naive,
                "errors": wrong,
                "mean regret": row.lost / row.draws if row.draws else math.nan,
                "max regret": row.most_lost if row.draws else math.nan,
                "note": row.reason or row.warning,
            }
        )
    return table(
        "One Gibbs draw over ten Student-t locations (x exact, x naive: times faster than our "
        "Exact with sm.log1p\nand than naive numba; regret in nats against the exact arm under "
        "the same Gumbels)",
        shown,
    )


def promises(rows, retreats, overhead, firsts) -> list[dict]:
    """The targets of this kind of machine (one AVX-512 core), where this run measured them."""
    found = {(row.case, row.size, row.rival): row for row in rows if not row.reason}
    lines = []

    def check(promise, limit, measured, at_least=False):
        if measured is None or math.isnan(measured):
            verdict, measured = "not measured", math.nan
        else:
            kept = measured >= limit if at_least else measured <= limit
            verdict = "kept" if kept else "MISSED"
        lines.append({"promise": promise, "limit": limit, "measured": measured, "": verdict})

    def of(case, size, rival, name):
        row = found.get((case, size, rival))
        return getattr(row, name) if row else None

    million = 10**6
    for case in ("easy", "medium", "hard", "posterior"):
        if (case, million, EXACT) in found:
            break
    check(f"Exact at 1e6 over {NAIVE}, times", 15.0, of(case, million, EXACT, "versus_naive"), True)
    check("Exact at 1e6, ns a factor", 0.5, of(case, million, EXACT, "per_factor"))
    for size, limit in ((million, 3.0), (10**7, 6.0), (10**8, 6.0)):
        check(f"Racing, easy, N = {size:.0e}, us", limit, of("easy", size, NORMAL, "microseconds"))
    check("Racing, medium, N = 1e+06, us", 150.0, of("medium", million, NORMAL, "microseconds"))
    retreats = [r for r in retreats if r["N"] >= 10**5]
    normal = [r for r in retreats if r["rule"] == "Normal"]
    here = [r for r in normal if r["h sqrt(N)"] == 1.0]
    check(
        "Racing / Exact at posterior scale, worst N, median of rounds", 1.10,
        max((r["racing / exact"] for r in here), default=None),
    )  # fmt: skip
    check(
        "the same, 95% of rounds", 1.10,
        max((r["95% of rounds below"] for r in here), default=None),
    )  # fmt: skip
    check(
        "the same, median, worst h of the retreat table", 1.10,
        max((r["racing / exact"] for r in normal), default=None),
    )  # fmt: skip
    check(
        "the same, Betting, worst h of the retreat table", 1.10,
        max((r["racing / exact"] for r in retreats if r["rule"] != "Normal"), default=None),
    )  # fmt: skip
    check(
        "Betting's overhead, ns a reward", 20.0,
        max((r["overhead, ns/pull"] for r in overhead), default=None),
    )  # fmt: skip
    cold = {r["process"]: r["first wall, s"] for r in firsts}
    check("first draw of a new population, cold, s", 4.0, cold.get("cold: empty cache"))
    check("first draw in the next process, s", 0.7, cold.get("next process"))
    lost = [row.most_lost for row in rows if row.case == "easy" and row.rival in (NORMAL, BETTING)]
    check("worst regret of an easy race, nats", 20.0, max(lost, default=None))
    return lines
