"""Whole clusters merged or split: moves that one mention at a time would take long to make."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from subsample_mcmc.kernels.base import Leaf
from subsample_mcmc.kernels.partition.gibbs_partition import GibbsPartition
from subsample_mcmc.kernels.partition.merge_split_move import Moves, moves_over
from subsample_mcmc.kernels.partition.pair_scores import compiled_scores
from subsample_mcmc.kernels.partition.sweep import SweepTools, one_sweep


@dataclass(frozen=True, eq=False)
class MergeSplit(Leaf):
    """Propose to merge two clusters, or to split one, and accept by Metropolis-Hastings.

    partition: the sm.GibbsPartition that it accompanies, whose scores, blocks, control variate,
        temperature and selector it shares: gibbs >> sm.MergeSplit(gibbs). Alone it moves slowly.
    moves: proposals per mention and step.

    A mention is drawn, and a second one: from its own cluster, to be separated from it, or from
    another, to be joined with it (in races, likelier from one of a high mean score by the control
    variate).
    The others of a cluster that is split choose sides one by one by their scores with the first few
    on either side; a merge is weighed against the chance that a split would undo it. Its test is
    about the sum over all pairs between the two parts: exact for few pairs; for many, of a random
    sample of them, as large as it takes at the selector's delta: its batch and growth are those of
    draws. A merge that is accepted has passed two tests.

    Example:
        >>> def similarity(data, i, j):
        ...     return 1.0 - abs(data.x[i] - data.x[j])
        >>> x = np.concatenate([np.zeros(20), np.full(20, 9.0)]) + np.linspace(0.0, 0.5, 40)
        >>> model = sm.Model(None, {"x": x}, state={"y": np.arange(40)}, support={"y": 40})
        >>> gibbs = sm.GibbsPartition("y", similarity)
        >>> kernel = gibbs >> sm.MergeSplit(gibbs)
        >>> trace = sm.sample(model, kernel, draws=5, warmup=0, chains=1, seed=1)
        >>> len(np.unique(trace.draws["y"][0, -1]))
        2
    """

    interpreted: ClassVar[bool] = True
    own_target: ClassVar[bool] = True
    columns: ClassVar[tuple[tuple[str, str], ...]] = GibbsPartition.columns

    partition: GibbsPartition
    moves: float = 1.0

    def __post_init__(self):
        if not isinstance(self.partition, GibbsPartition):
            raise TypeError(
                f"MergeSplit({self.partition!r:.60}): give the sm.GibbsPartition(...) it "
                "accompanies."
            )
        if not 0.0 < self.moves < np.inf:
            raise ValueError(f"moves={self.moves!r}: give proposals per mention, above 0.")

    @property
    def writes(self) -> tuple[str, ...]:
        return self.partition.writes

    @property
    def guarantee(self) -> str:  # type: ignore[override]
        """That of the partition's own draws."""
        return self.partition.guarantee

    def text(self) -> str:
        return f"MergeSplit({self.partition.block!r})"

    def facts(self, model=None) -> dict[str, Any]:
        """As the partition's."""
        told = super().facts(None) | self.partition.facts(model)
        return told | {"kind": type(self).__name__, "arms": 2}

    def check(self, model) -> None:
        """Refuse what the partition refuses."""
        self.partition.check(model)

    def build(self, model, inner: Any) -> Any:
        """Moves in all blocks, called from Python, which shares blocks out among cores."""
        own = self.partition
        fill = None if own.similarity is None else compiled_scores(own.similarity)
        sweep = moves_over(fill, own.controlled, own.races)

        def step(chain, tools):
            one_sweep(sweep, chain, tools)

        return step

    def bind(self, model, run) -> SweepTools:
        """Storage of one chain."""
        tools = self.partition.bind(model, run)
        sums = tools.contest.sums
        wide = sums.column.shape[1]
        extra = Moves(
            float(self.moves), np.zeros(len(sums.used)),
            np.zeros((len(tools.blocks.start) - 1, wide)), np.zeros(model.size, dtype=np.int64),
        )  # fmt: skip
        return tools._replace(extra=extra)
