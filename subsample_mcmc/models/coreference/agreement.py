"""How well clusters agree with true ones: B^3 and pairwise precision, recall and F1.

Bagga, A. and Baldwin, B. (1998). Algorithms for scoring coreference chains. LREC workshop on
linguistic coreference, 563-566.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from subsample_mcmc.target.row_labels import refuse_other_order


class Agreement(NamedTuple):
    """Precision, recall and their harmonic mean.

    precision, recall, f1: numbers from 0 to 1.
    """

    precision: float
    recall: float
    f1: float


def b_cubed(labels, truth, block=None) -> Agreement:
    """B^3 of a clustering: means over mentions, so that clusters count in proportion to their size.

    Precision of a mention is the share of its cluster that is the same person; recall the share
    of this person's mentions that its cluster has. Mentions with truth -1 (unknown) are left out,
    as if they did not exist.

    labels: of the clusters, one for each mention.
    truth: the person of each.
    block: of each mention; where given, labels (not truth) need only be unique within blocks.
    """
    both, cluster, person = contingency(labels, truth, block)
    size = both.size.sum()
    precision = float((both.size**2 / cluster[both.cluster]).sum() / size)
    recall = float((both.size**2 / person[both.person]).sum() / size)
    return agreement(precision, recall)


def pairwise(labels, truth, block=None) -> Agreement:
    """Precision and recall of pairs that are joined; 1 where there is none to be judged.

    Quadratic in the sizes of clusters: a few large ones decide.

    labels, truth, block: as in sm.models.coreference.b_cubed.
    """
    both, cluster, person = contingency(labels, truth, block)
    right, joined, one = (float((n * (n - 1)).sum()) for n in (both.size, cluster, person))
    return agreement(right / joined if joined else 1.0, right / one if one else 1.0)


def agreement(precision: float, recall: float) -> Agreement:
    """With the harmonic mean, 0 if both are."""
    total = precision + recall
    return Agreement(precision, recall, 2.0 * precision * recall / total if total else 0.0)


class Cells(NamedTuple):
    """Non-empty cells of the table of clusters by persons."""

    size: np.ndarray
    cluster: np.ndarray
    person: np.ndarray


def contingency(labels, truth, block=None) -> tuple[Cells, np.ndarray, np.ndarray]:
    """The cells, and the sizes of clusters and of persons, among mentions whose truth is known."""
    if truth is None:
        raise ValueError("truth is None: these mentions have no labels, so there is no F1.")
    refuse_other_order({"labels": labels, "truth": truth, "block": block})
    labels, truth = integers(labels, "labels"), integers(truth, "truth")
    block = np.zeros(len(labels), dtype=np.int64) if block is None else integers(block, "block")
    if not len(labels) == len(truth) == len(block):
        raise ValueError(
            f"{len(labels)} labels, {len(truth)} of truth, {len(block)} blocks: give one of each "
            "per mention."
        )
    known = truth >= 0
    if not known.any():
        raise ValueError("no mention has a true label: there is nothing to compare with.")
    cluster, person = joint(block[known], labels[known]), codes(truth[known])
    cell, cells = pd.factorize(cluster * (person.max() + 1) + person)
    size, width = np.bincount(cell), person.max() + 1
    found = Cells(size.astype(float), cells // width, cells % width)
    return found, np.bincount(cluster).astype(float), np.bincount(person).astype(float)


def codes(values: np.ndarray) -> np.ndarray:
    """Values as numbers 0, 1, ... in order of appearance, in linear time."""
    return pd.factorize(values)[0].astype(np.int64)


def joint(block: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """One number for each (block, label)."""
    label = codes(labels)
    return codes(codes(block) * (label.max(initial=0) + 1) + label)


def integers(values, name: str) -> np.ndarray:
    """One integer per mention."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(
            f"{name} has shape {array.shape} and dtype {array.dtype}: give one integer per mention."
        )
    return array.astype(np.int64)
