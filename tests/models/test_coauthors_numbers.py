"""How rare shared coauthors are, in features of a pair."""

import numpy as np
import pytest

import subsample_mcmc as sm


def test_many_rare_coauthors_are_told_by_their_number_alone():
    """Rarity beyond 20 does not grow; co.FEATURES has a tenth of it."""
    import pandas as pd

    co = sm.models.coreference
    names = ["J Smith", *(f"A{c} Uncommon{c}" for c in "bcdefghijklmnopqrst")]
    frame = pd.DataFrame(
        {
            "block": "j smith",
            "authors": [", ".join(names)] * 2 + ["J Smith"] * 60,
            "title": ["x y"] * 62,
        }
    )
    mentions = co.Mentions(frame)
    out = np.zeros(16)
    from subsample_mcmc.models.coreference.pair_features import features
    from subsample_mcmc.target.population import prepared

    features(prepared(mentions.data), 0, 1, out)
    shared = len(names) - 1
    assert shared * np.log1p(62 / 2) > 20.0 and out[2] == pytest.approx(2.0)
    assert out[1] == pytest.approx(np.log1p(shared))
