"""What examples/author_coreference.py clusters, and by what score: read, halved, learned, tuned."""

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import author_coreference_report as report
import numpy as np
import pandas as pd

import subsample_mcmc as sm

co = sm.models.coreference

TUNED_ON = 6_000  # mentions that the bias is tuned on, at most: whole blocks
BIASES = tuple(np.arange(0.0, 2.01, 0.25))


class Task(NamedTuple):
    """What is to be clustered, by what score."""

    name: str
    mentions: Any
    score: Any
    control: Any
    told: str


def frames(options) -> dict[str, pd.DataFrame]:
    """Tables of mentions by name; "" for the only one."""
    if options.data is None:
        found = {"": co.simulate(options.mentions)}
    else:
        found = {path.name.partition(".")[0]: co.read(path) for path in options.data}
        if len(found) < len(options.data):
            raise SystemExit("--data: files must have different names, before the first dot.")
        if options.pool:
            found = {"": pooled(found)}
        elif len(found) == 1:
            found = {"": next(iter(found.values()))}
    return {name: co.scale(frame, options.scale) for name, frame in found.items()}


def pooled(frames: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """One table of several; equal labels of two files are two persons."""
    named = [
        frame.assign(label=f"{name}:" + frame["label"]) if "label" in frame else frame
        for name, frame in frames.items()
    ]
    return pd.concat(named, ignore_index=True)


def prepared(name: str, frame: pd.DataFrame, options, say) -> Task:
    """Learn on one half of the blocks what to cluster the other half by."""
    mentions = co.Mentions(frame)
    if not (mentions.block >= 0).any():
        raise ValueError("no mention has a block: give a column `block`, such as initial surname.")
    labelled = mentions.truth is not None
    few_blocks = len(np.unique(mentions.block[mentions.block >= 0])) < 2
    halved = labelled and not (options.weights and few_blocks)
    learn, serve = mentions.halves() if halved else (mentions, mentions)
    if options.weights:
        score, source = loaded(options.weights), f"of {options.weights}"
    elif labelled:
        score, source = co.fit(learn), f"learned on {learn.size:,} others"
    else:
        score = synthetic_score(options)
        source = "of the synthetic bibliography, for want of labels"
    bias = "as it came with them"
    if options.bias is not None:
        score, bias = score.with_bias(options.bias), "given"
    elif labelled and not options.weights:
        tuned_on = few(learn)
        score = score.tuned(tuned_on, biases=BIASES[::2] if options.quick else BIASES)
        bias = f"tuned by B^3 on {tuned_on.size:,} of them"
    began = time.process_time()
    control = score.control(learn, serve)
    began = time.process_time() - began
    shown = report.described(name, len(frame), serve)
    told = [
        shown,
        f"weights {source}; bias {score.bias:+.2f}, {bias}",
        f"control variate: explains {control.explained:.1%} of the score's variance; fitted once, "
        f"on up to 114,000 pairs, in {began:.2f} s, which the times below leave out",
    ]
    if serve.truth is None:
        told.append("no labels: there is no F1 to report")
    else:
        told.append(separation(score, serve))
    if labelled and not halved:
        told.append("one block: it is not halved, and nothing is held out")
    say("\n" + "\n".join(told))
    return Task(name, serve, score, control, shown)


def few(mentions):
    """Whole blocks, drawn at random, of at most TUNED_ON mentions; or the smallest one."""
    if mentions.size <= TUNED_ON:
        return mentions
    blocks, counts = np.unique(mentions.block[mentions.block >= 0], return_counts=True)
    kept, room = [], TUNED_ON
    for k in np.random.default_rng(0).permutation(len(blocks)):
        if 1 < counts[k] <= room:
            kept.append(blocks[k])
            room -= counts[k]
    kept = kept or [blocks[counts > 1][np.argmin(counts[counts > 1])]]
    return mentions.take(np.isin(mentions.block, kept))


def separation(score, mentions) -> str:
    """How well the score tells pairs of one person from pairs of two, if there are both."""
    try:
        return f"pairs of one person score above pairs of two in {score.auc(mentions):.1%}"
    except ValueError as error:
        return f"how well it tells persons apart is not known: {error}"


def synthetic_score(options):
    """Weights and bias learned on a synthetic bibliography."""
    learn = co.Mentions(co.simulate(options.mentions))
    return co.fit(learn).tuned(learn, biases=BIASES[::2])


def keep_weights(score, path: Path) -> None:
    kept = {"weights": score.weights.tolist(), "bias": score.bias, "clip": score.clip}
    path.write_text(json.dumps(kept, indent=1))


def loaded(path: Path):
    """A score that keep_weights wrote."""
    try:
        return co.PairScore(**json.loads(path.read_text()))
    except TypeError as error:
        raise ValueError(f"{path} is no weights.json of an earlier run: {error}") from error
