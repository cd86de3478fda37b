"""Ready models: likelihoods with everything that subsampling wants to know of them.

glm/ has regressions, arch/ time series of unknown order, coreference/ clusters of records, and
returns.py makes returns of prices. Start with glm/model.py. A model is made of what any user has,
sm.Model and sm.Predictors above all: what only our own models could do does not enter, and nothing
in the rooms below knows them.
"""

from subsample_mcmc.models import arch, coreference, glm, returns

__all__ = ["arch", "coreference", "glm", "returns"]


def __dir__() -> list[str]:
    return sorted(__all__)
