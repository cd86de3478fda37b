"""Author coreference: which mentions of authors are one person? Clusters by pairwise scores.

    frame = co.read("mentions.csv.gz")                     # or co.simulate(3000)
    train, test = co.Mentions(frame).halves()
    score = co.fit(train).with_bias(1.0)                   # the bias: tuned by B^3 on train
    model = score.model(test)                              # labels y, sm.GibbsPartition moves them
    co.b_cubed(labels, test.truth, test.block)
    co.table(test, labels, score)                          # to read

where co = sm.models.coreference. p(y) is proportional to exp(the sum over pairs in one cluster of
f); a positive f speaks for one person. Clusters lie within blocks, here: initial and surname.

Start with mentions.py, a table of mentions as arrays, and pair_score.py, the score and how it is
learned; simulation.py makes tables up, agreement.py judges clusters, tables.py reads and shows. How
clusters are moved does not enter: that is sm.GibbsPartition's.

Singh, S., Wick, M. and McCallum, A. (2012). Monte Carlo MCMC: efficient inference by approximate
sampling. EMNLP-CoNLL, 1104-1113.
"""

from subsample_mcmc.models.coreference.agreement import Agreement, b_cubed, pairwise
from subsample_mcmc.models.coreference.mentions import FIELDS, Mentions
from subsample_mcmc.models.coreference.pair_features import FEATURES, features, similarity
from subsample_mcmc.models.coreference.pair_score import (
    Category,
    PairScore,
    Tokens,
    category_fields,
    fit,
    token_fields,
)
from subsample_mcmc.models.coreference.simulation import scale, simulate
from subsample_mcmc.models.coreference.tables import read, table

__all__ = [
    "FEATURES", "FIELDS", "Agreement", "Category", "Mentions", "PairScore", "Tokens", "b_cubed",
    "category_fields", "features", "fit", "pairwise", "read", "scale", "similarity", "simulate",
    "table", "token_fields",
]  # fmt: skip


def __dir__() -> list[str]:
    return sorted(__all__)
