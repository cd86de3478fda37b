"""That all kernels of a partition leave one law fixed, the one that its scores say."""

from typing import Any

import numpy as np

from subsample_mcmc.target.lookups.reads import blocks_read
from subsample_mcmc.target.user_functions import plain


def must_agree(own: Any, leaves: list) -> None:
    """Refuse two kernels of one partition that would leave two laws fixed."""
    for leaf in leaves:
        other = getattr(leaf, "partition", leaf)
        if other is own or not isinstance(other, type(own)) or other.block != own.block:
            continue
        same = {
            "similarity": other.similarity is own.similarity,
            "candidates": equal(other.candidates, own.candidates),
            "new": other.new == own.new,
            "temperature": np.ravel(other.temperature)[-1] == np.ravel(own.temperature)[-1],
            "control": own.similarity is not None or other.control is own.control,
        }
        differ = [name for name, agrees in same.items() if not agrees]
        if differ:
            raise ValueError(
                f"{own.text()} and {leaf.text()} move block {own.block!r} with different "
                f"{' and '.join(differ)}: each would draw from a law of its own, and together from "
                "none. Give both the same; selector and scan may differ."
            )


def equal(one: Any, other: Any) -> bool:
    """Are candidates the same, by name or by value."""
    if one is other:
        return True
    if one is None or other is None or isinstance(one, str) != isinstance(other, str):
        return False
    return one == other if isinstance(one, str) else np.array_equal(np.asarray(one), other)


def check_prior(block: str, model) -> None:
    """Refuse a log_prior that depends on the labels: by its code, or else by trying some.

    One that says which two mentions must share a cluster, or must not, is the same for almost all
    labels: where code does not tell, all are put together, and each with the first.
    """
    if model.log_prior is None:
        return
    read = [blocks_read(plain(f, "log_prior", "f(state)"), model) for f, *_ in model.priors]
    rng, found = np.random.default_rng(0), []
    ints, floats = model.ints.copy(), model.floats.copy()
    place = model.variables[block].block
    labels = ints[place.start : place.start + place.length]
    first = labels.copy()
    tried = [first, np.zeros_like(first)]
    tried += [rng.integers(k, size=len(first)) for k in (2, len(first))]
    tried += [
        np.where(np.arange(len(first)) == i, first[0], first) for i in range(1, min(len(first), 64))
    ]
    for one in tried if None in read else ():
        labels[:] = one
        found.append(float(model.log_prior(model.state(ints, floats))))
    apart = bool(found) and not np.allclose(found, found[0], rtol=1e-12, atol=0.0)
    if apart or any(block in names for names in read if names) or block in model.site_prior:
        raise ValueError(
            f"GibbsPartition({block!r}): log_prior depends on the labels, and would be left out. "
            "Put pairwise terms into similarity, a price per cluster into new."
        )
