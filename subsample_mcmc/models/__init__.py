"""Ready models: likelihoods with everything that subsampling wants to know of them.

glm/ has regressions, arch/ time series of unknown order, coreference/ clusters of records, and
returns.py makes returns of prices. Start with glm/model.py. A model is made of what any user has,
sm.Model and sm.Predictors above all: what only our own models could do does not enter, and nothing
in the rooms below knows them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from subsample_mcmc.models import glm

if TYPE_CHECKING:
    from subsample_mcmc.models import arch, coreference, returns

__all__ = ["arch", "coreference", "glm", "returns"]


def __getattr__(name: str) -> Any:
    """Import arch, coreference and returns when they are asked for: they need pandas, .2 s."""
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
