"""Which mentions of authors are one person? Gibbs sampling over clusters, decided by races.

    python examples/author_coreference.py             a synthetic bibliography of 3,000 mentions
    python examples/author_coreference.py --data mentions.csv.gz              your own, labelled
    python examples/author_coreference.py --data a.csv.gz b.csv.gz --pool --scale 8 --warm

The experiment of Chen & Ghahramani (2016), section 5.3, on the model of Singh, Wick & McCallum
(2012): scores of pairs say which mentions corefer, and a mention's label is drawn given all others,
under a temperature that falls. An arm is a cluster; its score is a sum over its members, as many as
it has. Samplers go through the same schedule:

exact   every sum in full.
paper   the race of the paper: three members of each cluster, then a tenth, then twice as many, and
        a cluster is out once a normal bound by the variance of the few says so.
ours    a control variate, bilinear in tokens, whose sums over clusters are known without reading a
        pair; clusters far behind by it are out unread, and the others race on what it leaves over.
merged  ours, and after each sweep whole clusters merged or split: up to 20,000 mentions.

Weights are learned, and the bias tuned by B^3, on half of the blocks; everything reported is of
the other half (blocks by size, every other one, the largest among them).

--data takes CSV files with the columns block, title, authors, venue, year, organization, label;
see sm.models.coreference.read. Without labels clusters are still found, by --weights of an earlier
run (its weights.json) or, failing that, by weights of the synthetic bibliography.

S. Singh, M. Wick and A. McCallum, "Monte Carlo MCMC: efficient inference by approximate sampling",
EMNLP-CoNLL 2012. Y. Chen and Z. Ghahramani, "Scalable discrete sampling as a multi-armed bandit
problem", ICML 2016.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import author_coreference_plots as plots
import author_coreference_report as report
import numpy as np
from author_coreference_data import Task, frames, keep_weights, prepared

import subsample_mcmc as sm

co = sm.models.coreference

HOT, COLD = 8.0, 0.3  # temperatures of the first and of the last sweep
AUDIT = 0.05  # share of decisions made again, exactly
LARGE = 20_000  # mentions from which on all cores work on one chain


class Found(NamedTuple):
    """What a sampler did, by seed and sweep."""

    f1: np.ndarray | None
    evaluations: np.ndarray  # pairs scored
    seconds: np.ndarray  # of CPU
    audited: np.ndarray
    wrong: np.ndarray
    regret: np.ndarray  # score lost by wrong decisions, summed
    decisions: np.ndarray
    unread: np.ndarray  # decisions that scored no pair
    clusters: np.ndarray  # (seeds, sweeps, 2): fewest and most in a block
    largest: np.ndarray  # members of the largest cluster
    last: np.ndarray  # labels after the last sweep, by seed


def main(argv: list[str] | None = None) -> None:
    options = parsed(argv)
    began = time.monotonic()
    options.out.mkdir(parents=True, exist_ok=True)
    say = report.Printer(options.out / "report.txt")
    summary, files = {}, ["report.txt"]
    try:
        tasks = [prepared(name, frame, options, say) for name, frame in frames(options).items()]
    except (OSError, ValueError) as error:
        raise SystemExit(f"author_coreference: {error}") from error
    for task in tasks:
        name = task.name
        folder = options.out / name if name else options.out
        folder.mkdir(parents=True, exist_ok=True)
        keep_weights(task.score, folder / "weights.json")
        runs, warm = carried_out(task, options)
        report.tell(runs, warm, task, say)
        shown = co.table(task.mentions, (runs or warm)["ours"].last[0], task.score)
        report.clusters(shown, say, folder / "clusters.csv")
        made = plots.draw_all(runs or warm, task, folder)
        files += [str(Path(name) / f) for f in (*made, "clusters.csv", "weights.json")]
        summary[name] = report.summary(runs or warm)
    if options.summary:
        only = next(iter(summary.values()))
        options.summary.write_text(json.dumps(summary if len(summary) > 1 else only, indent=1))
    say(f"\nWritten in {time.monotonic() - began:.0f} s to {options.out}: {', '.join(files)}")


def parsed(argv: list[str] | None) -> argparse.Namespace:
    add = (parser := argparse.ArgumentParser(description=__doc__.splitlines()[0])).add_argument
    add("--data", type=Path, nargs="+", help="CSV files of mentions; default: synthetic ones")
    add("--pool", action="store_true", help="take all files of --data as one set")
    add("--mentions", type=int, help="of the synthetic bibliography (default 3,000)")
    add("--scale", type=int, default=1, help="so many perturbed copies of every mention")
    add("--warm", action="store_true", help="only sweeps from the clustering that ours finds")
    add("--warm-sweeps", type=int, help="sweeps from there (default 3 where --scale, else none)")
    add("--seeds", type=int, help="default 5")
    add("--seed", type=int, default=1, help="of the first chain")
    add("--sweeps", type=int, default=16)
    add("--bias", type=float, help="of the score; default: tuned by B^3 on training blocks")
    add("--weights", type=Path, help="weights.json of an earlier run, instead of learning them")
    add("--quick", action="store_true", help="few mentions, two seeds: to see it run")
    add("--out", type=Path, default=Path("results/coreference"), help="folder")
    add("--summary", type=Path, help="write the main numbers to this JSON file")
    options = parser.parse_args(argv)
    if options.scale < 1 or options.sweeps < 1 or (options.seeds or 1) < 1:
        parser.error("--scale, --sweeps and --seeds must be 1 or more")
    if options.warm_sweeps is None:
        options.warm_sweeps = 3 if options.warm or options.scale > 1 else 0
    if options.warm and options.warm_sweeps < 1:
        parser.error("--warm needs --warm-sweeps 1 or more")
    options.seeds = options.seeds or (2 if options.quick else 5)
    if options.mentions is None:
        options.mentions = 1_000 if options.quick else 3_000
    return options


# ------------------------------------------------------------------------------------- samplers
def ways(task: Task) -> dict[str, dict[str, Any]]:
    """What tells the samplers apart: options of sm.GibbsPartition."""
    rule = sm.Normal(paired=False, side="eq27", prior=0.0)
    return {
        "exact": {"selector": sm.Exact()},
        "paper": {"selector": sm.Racing(rule, delta=0.05, batch=3), "second": 0.1},
        "ours": {"control": task.control},
    }


def kernel_of(task: Task, way: dict[str, Any], heat: np.ndarray):
    """One sweep of a sampler."""
    cores = 1 if task.mentions.size < LARGE else None
    own = {key: value for key, value in way.items() if key != "moves"}
    kernel = task.score.kernel(task.mentions, temperature=heat, cores=cores, **own)
    return kernel >> sm.MergeSplit(kernel, way["moves"]) if "moves" in way else kernel


def carried_out(task: Task, options) -> tuple[dict, dict]:
    """(runs from singletons, runs from what ours found there), of the three samplers."""
    heat = np.geomspace(HOT, COLD, options.sweeps) if options.sweeps > 1 else np.array([COLD])
    runs = {}
    if not options.warm:
        merged = {"control": task.control, "moves": 1.0}
        also = {"merged": merged} if task.mentions.size < LARGE else {}
        for name, way in (ways(task) | also).items():
            runs[name] = measured(task, way, heat, options, told=name)
    if not options.warm_sweeps:
        return runs, {}
    if runs:
        start = runs["ours"].last
    else:
        start = measured(task, ways(task)["ours"], heat, options, audit=0.0, told="start").last
    heat = np.full(options.warm_sweeps, COLD)
    warm = {
        name: measured(task, way, heat, options, start=start, told=f"{name}, warm")
        for name, way in ways(task).items()
    }
    return runs, warm


def measured(
    task: Task, way: dict, heat: np.ndarray, options, start=None, audit=AUDIT, told=""
) -> Found:
    """Run a sampler by itself, for time, and again with audits, which must not change it."""
    began = time.monotonic()
    mentions, kernel = task.mentions, kernel_of(task, way, heat)
    begin = None if start is None else [{"y": labels} for labels in start]
    common = {
        "draws": len(heat), "warmup": 0, "chains": options.seeds, "seed": options.seed,
        "start": begin, "cores": 1, "progress": False,
    }  # fmt: skip
    model = task.score.model(mentions)
    trace = sm.sample(model, kernel, **common)
    labels, stats = trace.draws["y"], added(trace.stats)
    checks = {key: np.zeros_like(stats[key]) for key in ("audited", "wrong", "regret")}
    if audit and not isinstance(way.get("selector"), sm.Exact):  # exact decisions are right
        again = sm.sample(model, kernel, audit=audit, **common)
        assert np.array_equal(again.draws["y"], labels), "audits changed the draws"
        checks = added(again.stats)
    f1 = None
    if mentions.truth is not None:
        f1 = [[co.b_cubed(y, mentions.truth, mentions.block).f1 for y in one] for one in labels]
        f1 = np.array(f1)
    ranges = np.array([[ranges_of(y, mentions.block) for y in one] for one in labels])
    if told:
        print(f"{told}: {time.monotonic() - began:.0f} s, with compiling and checks", flush=True)
    return Found(
        f1, stats["pulls"], stats["seconds"], checks["audited"], checks["wrong"], checks["regret"],
        stats["decisions"], stats["predicted"], ranges[..., :2], ranges[..., 2],
        labels[:, -1].copy(),
    )  # fmt: skip


def added(stats: dict[str, dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Statistics of all kernels of a sampler together."""
    first, *rest = stats.values()
    return {key: sum((more[key] for more in rest), first[key]) for key in first}


def ranges_of(labels: np.ndarray, block: np.ndarray) -> tuple[int, int, int]:
    """Fewest and most clusters of a block, members of the largest cluster."""
    inside = block >= 0
    pairs, sizes = np.unique(block[inside] * len(labels) + labels[inside], return_counts=True)
    each = np.unique(pairs // len(labels), return_counts=True)[1]
    return int(each.min()), int(each.max()), int(sizes.max())


if __name__ == "__main__":
    main()
