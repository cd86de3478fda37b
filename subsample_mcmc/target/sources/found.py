"""Recognise rows that are elsewhere in what a user gave."""

from typing import Any

from subsample_mcmc.target.sources.source import Source


def source_of(data: Any) -> Source | None:
    """The source that some data are; None: they are none."""
    return data if isinstance(data, Source) else None
