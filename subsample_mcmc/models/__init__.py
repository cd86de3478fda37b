"""Ready models: likelihoods with everything that subsampling wants to know of them."""

from subsample_mcmc.models import glm

__all__ = ["glm"]
