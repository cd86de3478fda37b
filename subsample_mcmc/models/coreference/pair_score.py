"""The score of a pair of mentions, learned from labelled ones by logistic regression."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import expit

from subsample_mcmc.kernels.partition.bilinear import Bilinear
from subsample_mcmc.kernels.partition.gibbs_partition import GibbsPartition
from subsample_mcmc.kernels.partition.members import blocks_of
from subsample_mcmc.models.coreference import pair_features
from subsample_mcmc.models.coreference.agreement import b_cubed
from subsample_mcmc.models.coreference.mentions import (
    FIELDS,
    HAS,
    HAS_COAUTHORS,
    HAS_MIDDLE,
    HAS_ORGANIZATION,
    HAS_YEAR,
    MIDDLE,
    Mentions,
)
from subsample_mcmc.numerics.random import generator_of
from subsample_mcmc.runs.sample import sample
from subsample_mcmc.target.model import Model
from subsample_mcmc.target.population import prepared, read_only, whole


# ------------------------------------------------------------------------------- fields of a pair
class Tokens(NamedTuple):
    """Tokens of all mentions, one mention after the other.

    indptr: mention i has ids[indptr[i]:indptr[i + 1]].
    ids: of tokens, ascending within a mention.
    values: one for each of ids.
    """

    indptr: np.ndarray
    ids: np.ndarray
    values: np.ndarray


class Category(NamedTuple):
    """A code per mention, of which pairs have tables.

    codes: numbers from 0; -1 where missing.
    kind: which tables of two codes make sense: "gap", a function of |a - b|, capped at 20; "same",
        equal, different or missing; "free", any.
    """

    codes: np.ndarray
    kind: str


def token_fields(mentions: Mentions) -> dict[str, Tokens]:
    """Fields whose inner products are features of a pair.

    Of title, venue and organization, cosines; of rarity, that of shared coauthors, summed (10 times
    the feature where that is not capped); of coauthors, how many are shared.

    mentions: what sm.models.coreference.Mentions made of a table.
    """
    rows, data = mentions.data["mention"], mentions.data
    found = {}
    for k, name in enumerate(("rarity", *FIELDS[1:])):
        lengths = (rows[:, k + 1] - rows[:, k]).astype(np.int64)
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        where = np.repeat(rows[:, k] - indptr[:-1], lengths) + np.arange(indptr[-1])
        ids, values = data["token"][where], data["value"][where].astype(float)
        first = ids.min(initial=np.iinfo(np.int32).max)
        found[name] = Tokens(indptr, (ids - first).astype(np.int64), values)
    count = found["rarity"]
    return found | {"coauthors": count._replace(values=np.ones(len(count.values)))}


def category_fields(mentions: Mentions) -> dict[str, Category]:
    """Codes whose tables of pairs are features: years, middle initials, and what is there.

    mentions: what sm.models.coreference.Mentions made of a table.
    """
    rows, years = mentions.data["mention"], mentions.years
    known = years >= 0
    first = years[known].min() if known.any() else 0
    has = rows[:, HAS]
    return {
        "year": Category(np.where(known, years - first, -1).astype(np.int64), "gap"),
        "middle": Category(rows[:, MIDDLE].astype(np.int64), "same"),
        "has coauthors": Category((has & HAS_COAUTHORS != 0).astype(np.int64), "free"),
        "has organization": Category((has & HAS_ORGANIZATION != 0).astype(np.int64), "free"),
        # A missing code has no table: that both lack an initial is told by these two.
        "has year": Category((has & HAS_YEAR != 0).astype(np.int64), "free"),
        "has middle": Category((has & HAS_MIDDLE != 0).astype(np.int64), "free"),
    }


# ------------------------------------------------------------------------------------- the score
COUNT = len(pair_features.FEATURES)


@dataclass(frozen=True, eq=False)
class PairScore:
    """f = w'phi + w_0 + bias, clipped: what `co.similarity` computes of a pair of mentions.

    weights: one for each of co.FEATURES, then w_0.
    bias: what to add for pairs in one cluster to outweigh those that a clustering wrongly joins;
        tuned by B^3 on training blocks, see with_bias.
    clip: scores are at most this far from 0.
    pairs: that it was fitted to.
    """

    weights: np.ndarray
    bias: float = 0.0
    clip: float = pair_features.CLIP
    pairs: int = field(default=0, repr=False)

    def __post_init__(self):
        weights = np.array(self.weights, dtype=float)
        if weights.shape != (COUNT + 1,) or not np.all(np.isfinite(weights)):
            raise ValueError(
                f"weights has shape {weights.shape} and {np.sum(~np.isfinite(weights))} numbers "
                f"that are not finite: give {COUNT} weights and the intercept."
            )
        if not np.isfinite(self.bias) or not 0.0 < self.clip < np.inf:
            raise ValueError(
                f"bias={self.bias}, clip={self.clip}: give a finite bias, a positive clip."
            )
        object.__setattr__(self, "weights", read_only(weights))

    def __str__(self) -> str:
        names = (*pair_features.FEATURES, "intercept")
        shown = [f"{n:>28} {w:8.3f}" for n, w in zip(names, self.weights, strict=True)]
        return "\n".join([*shown, f"{'bias':>28} {self.bias:8.3f}"])

    def with_bias(self, bias: float) -> "PairScore":
        """The same score with another bias: larger ones make larger clusters.

        bias: as in sm.models.coreference.PairScore.
        """
        return replace(self, bias=float(bias))

    def data(self, mentions: Mentions) -> dict[str, np.ndarray]:
        """Arrays for sm.Model: those of the mentions, and the weights.

        mentions: as in sm.models.coreference.token_fields.
        """
        return mentions.data | {"weights": np.append(self.weights, [self.bias, self.clip])}

    def model(self, mentions: Mentions, start=None) -> Model:
        """A model of partitions of the mentions: block y, a label per mention.

        mentions: as in sm.models.coreference.token_fields.
        start: initial labels, 0 .. N-1; default: every mention on its own.
        """
        start = np.arange(mentions.size) if start is None else np.asarray(start)
        given = {"y": start}
        return Model(None, data=self.data(mentions), state=given, support={"y": mentions.size})

    def control(self, learn: Mentions, serve: Mentions | None = None, **options: Any) -> Bilinear:
        """The control variate of this score, fitted on one set of mentions, to serve another.

        What it leaves over is measured on the true clusters of labelled mentions; without any, on
        those of a pilot. Where the others have pairs of a kind that no pair of the first is, such
        as years further apart, it is fitted to the others themselves.

        learn: mentions to fit it to.
        serve: those that it serves; default: the same.
        options: of sm.Bilinear.fit.
        """
        if learn.truth is not None and np.any((learn.truth < 0) | (learn.block < 0)):
            known = learn.take((learn.truth >= 0) & (learn.block >= 0))
            learn = known if np.bincount(known.block).max(initial=0) > 1 else learn
        labelled = learn.truth is not None and bool(np.all(learn.truth >= 0))
        clusters = {"clusters": learn.truth if labelled else None}
        made = self.fitted(learn, **clusters | options)
        if serve is None:
            return made
        try:
            served = made.of(token_fields(serve), category_fields(serve))
            served.check_kinds(blocks_of(serve.block))
        except ValueError:
            return self.fitted(serve, **options | {"clusters": None})
        return served

    def fitted(self, mentions: Mentions, **options: Any) -> Bilinear:
        """The control variate of this score on some mentions.

        mentions: as in sm.models.coreference.token_fields.
        options: of sm.Bilinear.fit.
        """
        fields = token_fields(mentions), category_fields(mentions)
        candidates = mentions.block
        return Bilinear.fit(
            pair_features.similarity, self.data(mentions), *fields, candidates, **options
        )

    def kernel(self, mentions: Mentions, **options: Any) -> GibbsPartition:
        """sm.GibbsPartition of the mentions' blocks.

        mentions: as in sm.models.coreference.token_fields.
        options: of sm.GibbsPartition.
        """
        return GibbsPartition("y", pair_features.similarity, candidates=mentions.block, **options)

    def tuned(
        self, mentions: Mentions, biases=tuple(np.arange(0.0, 2.01, 0.25)), sweeps: int = 16,
        seed: int = 0, progress: bool = False,
    ) -> "PairScore":  # fmt: skip
        """The bias with the best B^3 F1 of an annealed clustering of labelled mentions.

        The one knob that matters. Training mentions only: it is no estimate of how well others
        will be clustered.

        mentions: with labels.
        biases: those that are tried.
        sweeps: of each clustering.
        seed: of the clusterings.
        progress: a bar.
        """
        if mentions.truth is None:
            raise ValueError("these mentions have no labels: give the table a column `label`.")
        if not len(biases):
            raise ValueError("biases is empty: give some to choose from.")
        first = self.with_bias(float(np.mean(biases)))
        control, best, found = first.control(mentions), -1.0, first
        heat = np.geomspace(8.0, 0.3, sweeps)
        for bias in biases:
            score = self.with_bias(bias)
            shifted = moved(control, score.bias - first.bias)
            kernel = score.kernel(mentions, control=shifted, temperature=heat)
            trace = sample(
                score.model(mentions), kernel, draws=1, warmup=sweeps - 1, chains=4, seed=seed,
                audit=0.0, progress=progress,
            )  # fmt: skip
            labels = trace.draws["y"][:, 0]
            f1 = float(np.mean([b_cubed(y, mentions.truth, mentions.block).f1 for y in labels]))
            if f1 > best:
                best, found = f1, score
        return found

    def scores(self, mentions: Mentions, left, right) -> np.ndarray:
        """f of pairs (left[k], right[k]).

        mentions: as in sm.models.coreference.token_fields.
        left, right: numbers of mentions.
        """
        left, right = (np.ascontiguousarray(x, dtype=np.int64) for x in (left, right))
        if left.shape != right.shape or left.ndim != 1:
            raise ValueError(f"left {left.shape}, right {right.shape}: give one pair per entry.")
        if len(left) and not 0 <= min(left.min(), right.min()) <= max(left.max(), right.max()) < (
            mentions.size
        ):
            raise ValueError(f"pairs must be of mentions 0 .. {mentions.size - 1}.")
        out = np.empty(len(left))
        pair_features.scores(prepared(self.data(mentions)), left, right, out)
        return out

    def auc(self, mentions: Mentions, pairs: int = 200_000, seed: int = 1) -> float:
        """How often a pair of one person scores above a pair of two, within blocks.

        mentions: with labels.
        pairs: how many are drawn, at most.
        seed: of that draw.
        """
        left, right, same = labelled_pairs(mentions, pairs, seed)
        ranks = pd.Series(self.scores(mentions, left, right)).rank().to_numpy()  # ties: the mean
        ones = int(same.sum())
        if not 0 < ones < len(same):
            raise ValueError(f"{ones} of {len(same)} pairs are one person's: no AUC exists.")
        above = ranks[same].sum() - ones * (ones + 1) / 2
        return float(above / (ones * (len(same) - ones)))


def moved(control: Bilinear, bias: float) -> Bilinear:
    """The control variate of a score whose bias is larger by this.

    All pairs move alike, but for the few that are clipped: h, and with it its levels.
    """
    edges = np.asarray(control.edges, dtype=float) + bias
    return replace(control, constant=control.constant + bias, edges=edges)


def fit(
    mentions: Mentions, pairs: int = 200_000, seed: int = 0, ridge: float = 1e-5, bias: float = 0.0
) -> PairScore:
    """Weights by logistic regression on labelled pairs within blocks: one person's, or not.

    mentions: with labels.
    pairs: at most so many, drawn without replacement.
    seed: of that draw.
    ridge: the penalty ridge |w|^2 / 2 on the mean log loss, intercept excepted.
    bias: of the score that comes out; it is not fitted here.
    """
    if not 0.0 <= ridge < np.inf:
        raise ValueError(f"ridge={ridge}: give a number >= 0.")
    left, right, same = labelled_pairs(mentions, pairs, seed)
    if same.all() or not same.any():
        raise ValueError(
            f"{same.sum()} of {len(same)} labelled pairs within blocks are one person's: a "
            "regression needs pairs of both kinds."
        )
    x = np.empty((len(left), COUNT))
    blank = prepared(mentions.data | {"weights": np.zeros(COUNT + 3)})
    pair_features.fill_features(blank, left, right, x)
    y = same.astype(float)
    spread = x.std(axis=0)
    spread[spread == 0.0] = 1.0  # a field that no pair has: its weight stays 0
    x /= spread

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        eta = x @ w[:-1] + w[-1]
        slope = (expit(eta) - y) / len(y)
        own = w[:-1] / spread
        value = np.mean(np.logaddexp(0.0, eta) - y * eta) + 0.5 * ridge * own @ own
        return value, np.append(x.T @ slope + ridge * own / spread, slope.sum())

    start = np.append(np.zeros(COUNT), np.log(y.mean() / (1.0 - y.mean())))
    found: Any = minimize(
        loss, start, jac=True, method="L-BFGS-B",
        options={"maxiter": 2000, "ftol": 1e-12, "gtol": 1e-7},
    )  # fmt: skip
    return PairScore(np.append(found.x[:-1] / spread, found.x[-1]), bias, pairs=len(left))


def labelled_pairs(mentions: Mentions, pairs: int, seed: int) -> tuple[np.ndarray, ...]:
    """(left, right, same) of pairs of labelled mentions within blocks, without replacement."""
    pairs = whole(pairs, "pairs", "how many pairs, at least 1")
    if mentions.truth is None:
        raise ValueError("these mentions have no labels: give the table a column `label`.")
    rows = np.flatnonzero((mentions.truth >= 0) & (mentions.block >= 0))
    rows = rows[np.argsort(mentions.block[rows], kind="stable")]
    _, counts = np.unique(mentions.block[rows], return_counts=True)
    first, ends = np.cumsum(counts) - counts, np.cumsum(counts * (counts - 1) // 2)
    total = int(ends[-1]) if len(ends) else 0
    if total == 0:
        raise ValueError("no block has two labelled mentions: there are no pairs.")
    if total > pairs:
        chosen = np.sort(generator_of(seed).choice(total, pairs, replace=False))
    else:
        chosen = np.arange(total)
    block = np.searchsorted(ends, chosen, side="right")
    within = chosen - (ends - counts * (counts - 1) // 2)[block]
    # Pair number k = b (b - 1) / 2 + a with a < b; the square root may be off by rounding.
    high = ((1.0 + np.sqrt(1.0 + 8.0 * within)) / 2.0).astype(np.int64)
    high -= high * (high - 1) // 2 > within
    high += high * (high + 1) // 2 <= within
    low = within - high * (high - 1) // 2
    left, right = rows[first[block] + low], rows[first[block] + high]
    return left, right, mentions.truth[left] == mentions.truth[right]
