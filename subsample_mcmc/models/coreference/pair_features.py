"""What two mentions have in common: 16 features and the score made of them, compiled.

f = w'phi + w_0 + bias, clipped to +-8 (a pair's vote is bounded, however sure the regression is).
`features` and `similarity` are plain Python for kernels to compile, and exactly symmetric in i and
j. They are of two different mentions: of a mention with itself, tokens that only it has are missed.
"""

from math import sqrt

import numpy as np

from subsample_mcmc.numerics.fastmath import log1p
from subsample_mcmc.numerics.jit import FLAGS, jit

FEATURES = (
    "shares a coauthor", "log(1 + shared coauthors)", "their rarity", "both have coauthors",
    "title", "sqrt(title)", "venue", "sqrt(venue)", "decades apart", "at most a year apart",
    "organization", "both have organizations", "same middle initial", "other middle initial",
    "no middle initials", "sqrt(title * venue)",
)  # fmt: skip
CLIP = 8.0
GAP = 20  # years beyond which a gap does not grow
RAREST = 20.0  # beyond which the rarity of shared coauthors does not grow


def common(token, value, a, a_end, b, b_end):
    """How many tokens two sorted lists share, and the sum of their products of weights."""
    count, total = 0.0, 0.0
    while a < a_end and b < b_end:
        x, y = token[a], token[b]
        if x == y:
            count += 1.0
            total += np.float64(value[a]) * np.float64(value[b])
        # No branch: which list is behind cannot be predicted.
        a += np.uint64(x <= y)
        b += np.uint64(y <= x)
    return count, total


def phi(data, i, j):
    """All features of a pair, in the order of FEATURES."""
    i, j = np.uint64(i), np.uint64(j)
    one, other, bits = data.mention[i], data.mention[j], data.signature
    token, value = data.token, data.value
    coauthors = shared = rare = title = venue = organization = 0.0
    # Without a common bit there is no common token: most fields of most pairs end here.
    if bits[i, 0] & bits[j, 0]:
        coauthors, rare = common(
            token, value, np.uint64(one[0]), np.uint64(one[1]), np.uint64(other[0]),
            np.uint64(other[1]),
        )  # fmt: skip
        if coauthors > 0.0:
            shared, coauthors, rare = 1.0, log1p(coauthors), 0.1 * min(rare, RAREST)
    if (bits[i, 1] & bits[j, 1]) | (bits[i, 4] & bits[j, 4]):
        title = common(
            token, value, np.uint64(one[1]), np.uint64(one[2]), np.uint64(other[1]),
            np.uint64(other[2]),
        )[1]  # fmt: skip
    if bits[i, 2] & bits[j, 2]:
        venue = common(
            token, value, np.uint64(one[2]), np.uint64(one[3]), np.uint64(other[2]),
            np.uint64(other[3]),
        )[1]  # fmt: skip
    if bits[i, 3] & bits[j, 3]:
        organization = common(
            token, value, np.uint64(one[3]), np.uint64(one[4]), np.uint64(other[3]),
            np.uint64(other[4]),
        )[1]  # fmt: skip
    both, any_middle = one[7] & other[7], (one[7] | other[7]) & 32
    gap = min(abs(one[5] - other[5]), GAP)
    year, middle, same = both & 16 != 0, both & 32 != 0, one[6] == other[6]
    root, route = sqrt(title), sqrt(venue)
    return (
        shared, coauthors, rare, 1.0 if both & 1 else 0.0,
        title, root, venue, route,
        0.1 * gap if year else 0.0, 1.0 if year and gap <= 1 else 0.0,
        organization, 1.0 if both & 8 else 0.0,
        1.0 if middle and same else 0.0, 1.0 if middle and not same else 0.0,
        1.0 if any_middle == 0 else 0.0, root * route,
    )  # fmt: skip


def features(data, i, j, out):
    """Write the features of a pair.

    data, i, j: as in sm.models.coreference.similarity.
    out: out[0] to out[15] are written.
    """
    for k, x in enumerate(phi(data, i, j)):
        out[k] = x


def similarity(data, i, j):
    """The score of two mentions: positive if they look like one person's.

    data: that of PairScore.data: the arrays of Mentions.data, and weights: 16 of the features, the
        intercept, the bias and the clip.
    i, j: numbers of the mentions.
    """
    w = data.weights
    f = w[16] + w[17]
    for k, x in enumerate(phi(data, i, j)):
        f += w[k] * x
    return min(max(f, -w[18]), w[18])


@jit(flags=FLAGS)
def fill_features(data, left, right, out):
    """Features of many pairs, one row each."""
    for n in range(np.uint64(len(left))):
        features(data, left[n], right[n], out[n])


@jit(flags=FLAGS)
def scores(data, left, right, out):
    """Scores of many pairs."""
    for n in range(np.uint64(len(left))):
        out[n] = similarity(data, left[n], right[n])
