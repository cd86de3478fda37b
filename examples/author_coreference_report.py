"""What examples/author_coreference.py prints and writes as text."""

import numpy as np

NEAR = 4  # last sweeps: "near convergence"
CLAIMED = {"whole": 3.0, "near": 5.0, "error": 0.046, "clusters": (2, 215), "sizes": (1, 1829)}
ABOUT = 0.8  # of what is claimed passes for "about" it


class Printer:
    """Prints, and keeps what was printed in a file."""

    def __init__(self, path):
        self.path = path
        path.write_text("")

    def __call__(self, text="") -> None:
        print(text, flush=True)
        with self.path.open("a") as file:
            file.write(f"{text}\n")


def described(name: str, lines: int, mentions) -> str:
    """How many mentions in blocks of what size."""
    sizes = np.unique(mentions.block[mentions.block >= 0], return_counts=True)[1]
    alone = int(np.sum(mentions.block < 0))
    told = f"; {alone:,} in no block stay alone" if alone else ""
    return (
        f"{name or 'Mentions'}: {lines:,}; clustered are {mentions.size:,} in {len(sizes)} blocks "
        f"of {sizes.min():,} to {sizes.max():,}{told}"
    )


# --------------------------------------------------------------------------------------- numbers
def total(values: np.ndarray, last: int | None = None) -> np.ndarray:
    """Sums over sweeps, or over the last ones, by seed."""
    return values[:, -last:].sum(axis=1) if last else values.sum(axis=1)


def rate(found, last: int | None = None) -> float:
    """Wrong ones among audited decisions, seeds together; nan where none was audited."""
    seen = total(found.audited, last).sum()
    return float(total(found.wrong, last).sum() / seen) if seen else float("nan")


def regret(found, last: int | None = None) -> float:
    """Nats of score that a wrong decision lost, on average; nan where none was wrong."""
    wrong = total(found.wrong, last).sum()
    return float(total(found.regret, last).sum() / wrong) if wrong else float("nan")


def times(runs: dict, name: str, key: str, last: int | None = None) -> float:
    """How many times as much exact decisions take: the ratio of means over seeds."""
    many = total(getattr(runs["exact"], key), last).mean()
    own = total(getattr(runs[name], key), last).mean()
    return float(many / own) if own > 0 else float("inf")


def apart(runs: dict, name: str) -> tuple[float, float]:
    """F1 less that of exact after the last sweep, and its standard error over seeds."""
    gap = runs[name].f1[:, -1] - runs["exact"].f1[:, -1]
    return float(gap.mean()), float(gap.std(ddof=1) / len(gap) ** 0.5) if len(gap) > 1 else 0.0


def summary(runs: dict) -> dict:
    """By sampler, one number a seed: whole runs, and the last four sweeps."""
    found = {}
    for name in ("exact", "paper", "ours"):
        run = runs[name]
        one = {"f1": None if run.f1 is None else run.f1[:, -1].tolist()}
        for label, last in (("", None), ("_last", NEAR)):
            wrong, seen = total(run.wrong, last), total(run.audited, last)
            one |= {
                f"evaluations{label}": total(run.evaluations, last).tolist(),
                f"seconds{label}": total(run.seconds, last).tolist(),
                f"error_rate{label}": (wrong / np.maximum(seen, 1)).tolist(),  # exact: not audited
                f"regret{label}": (total(run.regret, last) / np.maximum(wrong, 1)).tolist(),
            }
        found[name] = one
    return found


# ---------------------------------------------------------------------------------------- tables
def tell(runs: dict, warm: dict, task, say) -> None:
    """Tables of the runs from singletons and of the warm ones, and what the paper claims."""
    if runs:
        sweeps = runs["exact"].evaluations.shape[1]
        seeds = len(runs["exact"].evaluations)
        say(f"\nFrom singletons, {sweeps} sweeps, {seeds} seeds (x: exact's, divided by its own)")
        say(table(runs))
        say(quality(runs))
        say(shapes(runs, task))
        say(claims(runs, task))
    if warm:
        sweeps = warm["exact"].evaluations.shape[1]
        say(f"\nWarm: {sweeps} sweeps at the last temperature from the clusterings of ours")
        say(table(warm))
        say(quality(warm))


def aligned(columns: list[str], rows: list[list[str]]) -> str:
    """Rows in columns, numbers to the right."""
    width = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    return "\n".join(
        "  ".join(
            [row[0].ljust(width[0])] + [c.rjust(w) for c, w in zip(row[1:], width[1:], strict=True)]
        )
        for row in [columns, *rows]
    )


def spans(runs: dict) -> dict[str, int | None]:
    """The whole run, and its last sweeps where there are more."""
    sweeps = runs["exact"].evaluations.shape[1]
    return {"": None} | ({f"last {NEAR}": NEAR} if sweeps > NEAR else {})


def table(runs: dict) -> str:
    """F1 and costs."""
    kept = spans(runs)
    ratios = [f"x {label}".strip() for label in kept]
    columns = ["", "B3 F1", "sd", "evaluations", *ratios, "CPU s", *ratios, "unread"]
    rows = []
    for name, run in runs.items():
        f1 = ["-", "-"]
        if run.f1 is not None:
            last = run.f1[:, -1]
            f1 = [f"{last.mean():.4f}", f"{last.std(ddof=1):.4f}" if len(last) > 1 else "-"]
        cells = [name, *f1]
        for key, shown in (("evaluations", ",.0f"), ("seconds", ",.2f")):
            cells.append(format(total(getattr(run, key)).mean(), shown))
            cells += [f"{times(runs, name, key, last):,.1f}" for last in kept.values()]
        rows.append([*cells, f"{run.unread.sum() / run.decisions.sum():.1%}"])
    return aligned(columns, rows)


def quality(runs: dict) -> str:
    """Errors of decisions, by audits."""
    kept = spans(runs)
    columns = ["decisions"]
    for label in kept:
        columns += [f"audited {label}".strip(), "wrong", "nats lost by one"]
    rows = []
    for name, run in runs.items():
        cells = [name]
        for last in kept.values():
            seen, lost = total(run.audited, last).sum(), regret(run, last)
            cells += [f"{seen:,}", f"{rate(run, last):.2%}"] if seen else ["-", "-"]
            cells.append("-" if np.isnan(lost) else f"{lost:,.1f}")
        rows.append(cells)
    return "\n" + aligned(columns, rows)


def shapes(runs: dict, task) -> str:
    """Clusters per block, and sizes of clusters."""
    lines = [""]
    for name, run in runs.items():
        end = run.clusters[:, -NEAR:]
        lines.append(
            f"{name:8}clusters in a block (D) {run.clusters[..., 0].min()} .. "
            f"{run.clusters[..., 1].max()}, last {NEAR} sweeps {end[..., 0].min()} .. "
            f"{end[..., 1].max()}; sizes (N_y) 1 .. {run.largest.max():,}"
        )
    if (truth := task.mentions.truth) is not None:
        known, block = truth >= 0, task.mentions.block
        sizes = np.bincount(truth[known])
        firsts = np.unique(truth[known & (block >= 0)], return_index=True)[1]
        each = np.bincount(block[known & (block >= 0)][firsts])
        each = each[each > 0]
        lines.append(
            f"{'truth':8}clusters in a block {each.min()} .. {each.max()}; "
            f"sizes 1 .. {sizes.max():,}"
        )
    return "\n".join(lines)


def claims(runs: dict, task) -> str:
    """The paper's numbers, of data that are not public, beside these."""
    whole, near = (times(runs, "paper", "evaluations", last) for last in (None, NEAR))
    largest, run = max(r.largest.max() for r in runs.values()), runs["paper"]
    lines = [
        "\nThe paper on its own data (DBLP and 11,000 mentions of Rexa, not public), and here",
        beside("evaluations, whole run", f"about {CLAIMED['whole']:g}x fewer", f"{whole:.1f}x",
               whole >= ABOUT * CLAIMED["whole"]),
        beside("evaluations, near convergence", f"about {CLAIMED['near']:g}x fewer", f"{near:.1f}x",
               near >= ABOUT * CLAIMED["near"]),
        beside("wrong decisions", f"{CLAIMED['error']:.1%} (delta 5%)",
               f"{rate(run):.1%}, {rate(run, NEAR):.1%} near convergence",
               None if rate(run) <= 0.05 else False),
        beside("clusters in a block, D", "{} .. {}".format(*CLAIMED["clusters"]),
               f"{run.clusters[..., 0].min()} .. {run.clusters[..., 1].max()}", None),
        beside("members of a cluster, N_y", "{} .. {}".format(*CLAIMED["sizes"]),
               f"1 .. {largest:,}", None),
    ]  # fmt: skip
    if run.f1 is not None:
        gap, error = apart(runs, "paper")
        found = f"{gap:+.4f} +- {error:.4f}"
        # Neither is shown by a difference that is small beside its error.
        holds = gap >= 0.0 if abs(gap) > 2.0 * error else None
        lines.append(beside("F1 less that of exact", "none lost", found, holds))
        gap, error = apart(runs, "ours")
        lines.append(f"F1 of ours less that of exact: {gap:+.4f} +- {error:.4f} (standard error)")
        if "merged" in runs:
            gap, error = apart(runs, "merged")
            lines.append(f"and with whole clusters merged or split: {gap:+.4f} +- {error:.4f}")
    lost = [regret(runs[name]) for name in ("paper", "ours")]
    if not np.isnan(lost[0]):
        own = "ours made none" if np.isnan(lost[1]) else f"one of ours {lost[1]:,.1f}"
        lines.append(
            "Error rates alone say little. A wrong decision of the paper's race loses "
            f"{lost[0]:,.1f} nats on\naverage, as three members that score alike seem to have no "
            f"variance; {own}."
        )
    lines.append(
        "A race of all clusters reads three members of each at least. With the clusters found\n"
        f"here, that alone bounds what it can save near convergence by {bound(run, task):.1f}x."
    )
    return "\n".join(lines)


def bound(run, task) -> float:
    """All members, over three of each cluster or as many as it has: after the last sweep."""
    block, labels = task.mentions.block, run.last[0]
    cells, sizes = np.unique(block * len(labels) + labels, return_counts=True)
    where = cells // len(labels)
    inside = where >= 0
    each = np.bincount(where[inside], sizes[inside])
    least = np.bincount(where[inside], np.minimum(sizes[inside], 3))
    return float(each @ (each - 1.0) / (each @ least))


def beside(what: str, claimed: str, found: str, holds: bool | None) -> str:
    """One claim."""
    verdict = {True: "reproduced", False: "NOT reproduced", None: ""}[holds]
    return f"  {what:32}{claimed:20}{found:34}{verdict}".rstrip()


def clusters(shown, say, path) -> None:
    """Clusters to read: the largest block's first ones, and all of them as CSV."""
    shown.to_csv(path, index=False)
    joined = shown.groupby(["block", "cluster"]).ngroups
    say(f"\n{joined:,} clusters of two and more, {len(shown):,} mentions; all in {path.name}:")
    if not len(shown):
        return
    largest = shown["block"].value_counts().index[0]
    block = shown[shown["block"] == largest]
    part = block[block["cluster"] <= 3].groupby("cluster").head(5).copy()
    for name, width in (("title", 44), ("authors", 36), ("venue", 20)):
        text = part[name].fillna("").astype(str)
        part[name] = text.where(text.str.len() <= width, text.str[: width - 2] + "..")
    say(part.to_string(index=False, float_format="%.2f", na_rep=""))
    say("(score: mean over the others of the cluster; shown are five of each of three clusters)")
