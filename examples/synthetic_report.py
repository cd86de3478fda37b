"""What examples/synthetic.py prints: Table 1, a summary, and the paper's claims, one by one."""

from pathlib import Path

import numpy as np
import pandas as pd
from synthetic_cells import BETTING, DISTRIBUTIONS, EBS, GUARDED, LIL, NORMAL, SIGMAS, SKEWED

import subsample_mcmc as sm

PRINTED = Path(__file__).with_name("table1_printed.csv")


def printed_table1() -> pd.DataFrame:
    """Table 1 as the paper prints it: rows delta, columns first fraction."""
    table = pd.read_csv(PRINTED, index_col="delta")
    table.columns = table.columns.astype(float)
    return table


def write_table1(out: Path) -> list[Path]:
    """Ours beside the printed one, and what Eq. 5, read literally, would give."""
    printed = printed_table1()
    rows = [
        {
            "delta": delta, "first_fraction": fraction, "printed": printed.loc[delta, fraction],
            "ours": sm.b_normal(delta, fraction), "eq5": sm.b_normal(delta, fraction, "eq5"),
        }
        for delta in printed.index for fraction in printed.columns
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    table.insert(4, "difference", table.ours - table.printed)
    path = out / "table1.csv"
    table.round(6).to_csv(path, index=False)
    worst = table.difference.abs().groupby(np.where(table.delta <= 0.37, "<= .37", "> .37")).max()
    print("\nTable 1, largest |ours - printed|: ", end="")
    print(", ".join(f"delta {which}: {value:.4f}" for which, value in worst.items()))
    return [path]


def summarise(frame) -> None:
    """One line per population and selector, over its deltas."""
    frame = frame.assign(ratio=frame.error / frame.delta, above=frame.low > frame.delta)
    for sigma in sorted(frame.sigma.unique(), reverse=True):
        part = frame[frame.sigma == sigma]
        group = part.groupby(["D", "distribution", "selector", "variance"], sort=False)
        lines = pd.DataFrame(
            {
                "draws": group.draws.sum(),
                "errors": group.errors.sum(),
                "error/delta": group.ratio.max(),
                "above": group.above.sum(),
                "nats lost": group.regret_max.max(),
                "read from": group.share_read.min(),
                "to": group.share_read.max(),
                "us/draw": group.us_per_draw.median(),
                "stopped": group.stopped_by.agg(stops),
            }
        ).reset_index()
        print(f"\nsigma = {sigma:g}")
        print(lines.to_string(index=False, float_format=lambda x: f"{x:.3g}", na_rep="-"))
    print(
        "\nerror/delta: the largest over the deltas; above: cells with their whole 95% interval "
        "above it;\nnats lost: by the worst wrong arm; stopped: by interval / draws / time.\n"
    )


def stops(reasons) -> str:
    return "/".join(str((reasons == why).sum()) for why in ("interval", "draws", "time"))


# ------------------------------------------------------------------------------------- claims
def write_claims(frame, out: Path, quick: bool) -> list[Path]:
    """The paper's claims and ours, each with the number that decides it."""
    lines = ["Claims. An error counts as above delta when its whole 95% interval is."]
    if quick:
        lines.append("--quick has too few draws and too small an N to decide them.")
    with np.errstate(all="ignore"):
        for number, (claim, holds, detail) in enumerate(claims(frame), start=1):
            verdict = {True: "holds", False: "does not hold", None: "not measured"}[holds]
            lines += [f"{number:2}. {claim}", f"    {verdict}: {detail}"]
    print("\n".join(lines))
    path = out / "claims.txt"
    path.write_text("\n".join(lines) + "\n")
    return [path]


def select(frame, selector, variance=None, **equal):
    """Rows of a selector on the paper's distributions."""
    chosen = (frame.selector == selector) & frame.distribution.isin(DISTRIBUTIONS)
    if variance is not None:
        chosen &= frame.variance == variance
    for name, value in equal.items():
        chosen &= frame[name] == value
    return frame[chosen]


def claims(frame):
    """(claim, holds, detail) for everything that is said in section 5.1 and appendix C.1."""
    for D, where in ((10, "Fig. 1"), (2, "Fig. 6"), (100, "Fig. 7")):
        name = f"Racing-Normal's error never exceeds delta, D = {D} ({where})"
        yield never_above(name, select(frame, NORMAL, "paired", D=D))
    name = "the same with marginal variances, D = 10 (Fig. 5)"
    yield never_above(name, select(frame, NORMAL, "marginal"))
    yield sharp(frame)
    for selector in (EBS, LIL):
        rows = select(frame, selector, D=10, sigma=0.1)
        if selector == EBS:
            rows = rows[rows.variance == "paired"]
        ratio = (rows.error / rows.delta).max()
        name = f"{selector}'s bound is very loose, D = 10, sigma = .1 (Fig. 1b): error < delta/3"
        yield name, verdict(rows, ratio < 1 / 3), f"largest error/delta {ratio:.2g}"
    yield fewest(frame)
    yield overlap(frame)
    yield marginal(frame)
    yield lil_fails(frame)
    yield never_above("Racing-EBS never exceeds delta (it is proved)", select(frame, EBS))
    name = "ours: Racing-Betting never exceeds delta (it is proved)"
    yield never_above(name, select(frame, BETTING))
    yield betting_cost(frame)
    for selector, text, wanted in (
        (NORMAL, "ours: on skewed differences Racing-Normal without guard exceeds delta", True),
        (GUARDED, "ours: with the guard it does not", False),
        (BETTING, "ours: nor does Racing-Betting", False),
    ):
        rows = frame[(frame.selector == selector) & frame.distribution.isin(SKEWED)]
        _, holds, detail = never_above(text, rows)
        yield text, None if holds is None else holds != wanted, detail


def verdict(rows, holds):
    return bool(holds) if len(rows) else None


def never_above(claim, rows):
    """Is no cell's error above delta beyond doubt; 2.5% of sharp cells would be by chance."""
    above = rows[rows.low > rows.delta]
    if above.empty:
        ratio = (rows.error / rows.delta).max()
        detail = f"0 of {len(rows)} cells above; largest error/delta {ratio:.2g}"
        return claim, verdict(rows, True), detail
    worst = above.loc[(above.low / above.delta).idxmax()]
    return claim, False, (
        f"{len(above)} of {len(rows)} cells above, at most {worst.error:.4f} "
        f"[{worst.low:.4f}, {worst.high:.4f}] at delta {worst.delta:g} ({worst.distribution}, "
        f"sigma {worst.sigma:g})"
    )  # fmt: skip


def sharp(frame):
    rows = select(frame, NORMAL, "paired", D=10, sigma=0.1)
    rows = rows[rows.delta <= 0.01]
    ratio = rows.errors.sum() / (rows.draws * rows.delta).sum() if len(rows) else np.nan
    claim = "Racing-Normal is sharp at sigma = .1 and small delta (Fig. 1b): error > delta/2"
    detail = f"errors are {ratio:.2f} of delta x draws, delta <= .01"
    return claim, verdict(rows, ratio > 0.5), detail


def shares(frame, selector, variance):
    """Share read by (sigma, distribution, delta) at D = 10."""
    rows = select(frame, selector, variance, D=10)
    return rows.set_index(["sigma", "distribution", "delta"]).share_read


def fewest(frame):
    """Fewer rewards than EBS and lil'UCB everywhere but at sigma = 1e-5, Uniform."""
    normal = shares(frame, NORMAL, "paired")
    rivals = [shares(frame, EBS, "paired"), shares(frame, LIL, "none")]
    ratio = (normal / pd.concat(rivals, axis=1).min(axis=1)).dropna()
    claim = "Racing-Normal reads least, except at sigma = 1e-5 with Uniform rewards (Fig. 1f-h)"
    if ratio.empty:
        return claim, None, "no cells"
    special = ratio[[key[:2] == (SIGMAS[-1], "Uniform") for key in ratio.index]]
    other = ratio.drop(special.index)
    return claim, bool(other.max() <= 1.0), (
        f"reads {other.min():.2f} to {other.max():.2f} times the better rival's; "
        f"{special.min():.2f} to {special.max():.2f} in the exception"
    )  # fmt: skip


def overlap(frame):
    table = shares(frame, NORMAL, "paired").unstack("distribution")
    spread = (table.max(axis=1) / table.min(axis=1)).max() if len(table) else np.nan
    claim = "Racing-Normal's shares overlap for the three distributions (Fig. 1f-h): within 25%"
    detail = f"they differ by a factor of at most {spread:.2f}"
    return claim, verdict(table, spread < 1.25), detail


def marginal(frame):
    ratios = [
        (shares(frame, rule, "marginal") / shares(frame, rule, "paired")).dropna()
        for rule in (NORMAL, EBS)
    ]
    ratio = pd.concat(ratios)
    claim = "marginal variances are more conservative: they read more (Fig. 5)"
    return claim, verdict(ratio, ratio.min() >= 0.98), (
        f"{ratio.min():.2f} to {ratio.max():.2f} times the paired variance's reading, "
        f"median {ratio.median():.2f}"
    )  # fmt: skip


def lil_fails(frame):
    claim = "lil'UCB (heuristic) exceeds delta at D = 100 with Uniform rewards (Fig. 7)"
    rows = select(frame, LIL, D=100, distribution="Uniform")
    _, holds, detail = never_above(claim, rows)
    return claim, None if holds is None else not holds, detail


def betting_cost(frame):
    keys = ["D", "sigma", "distribution", "delta"]
    both = [select(frame, s, "paired").set_index(keys).share_read for s in (BETTING, NORMAL)]
    ratio = (both[0] / both[1]).dropna().drop("LogNormal", level="distribution", errors="ignore")
    ratio = ratio[ratio.index.get_level_values("sigma") < 0.1]
    claim = "ours: Racing-Betting reads at most 1.2 times Racing-Normal's, Normal and Uniform, easy"
    detail = f"{ratio.min():.2f} to {ratio.max():.2f} times, median {ratio.median():.2f}"
    return claim, verdict(ratio, ratio.max() <= 1.2), detail
