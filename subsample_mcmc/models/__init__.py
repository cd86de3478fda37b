"""Ready models: likelihoods with everything that subsampling wants to know of them."""

from subsample_mcmc.models import arch, coreference, glm, returns

__all__ = ["arch", "coreference", "glm", "returns"]


def __dir__() -> list[str]:
    return sorted(__all__)
