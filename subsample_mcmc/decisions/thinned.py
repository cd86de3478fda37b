"""Exact decisions that read few rows, drawn by what each of them may contribute: sm.Thinned."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from subsample_mcmc.decisions.selector import Selector
from subsample_mcmc.numerics.rows import CHUNK
from subsample_mcmc.target.population import Shape

BEHIND = 8.0  # nats by which a value is far behind: of e^-8 of all proposals, at most


class RowWeights(NamedTuple):
    """Rows drawn in proportion to bounds of their residuals, by configuration (Walker 1977)."""

    bounds: np.ndarray  # (K, N) float32, rounded up: of the residual of each row, in one unit
    keep: np.ndarray  # (K, N) draw one of the rows alike, and keep it with this probability,
    other: np.ndarray  # (K, N) or take this one: never an outlier
    outliers: np.ndarray  # (m,) rows that have a table of their own, by their places here:
    rare_keep: np.ndarray  # (K, m)
    rare_other: np.ndarray  # (K, m)
    # (K, 2) the unit, over the bound of the sum of all residuals but the outliers', and of all
    units: np.ndarray
    totals: np.ndarray  # (K, 2) of `bounds`, in that unit: of all but the outliers, and of these
    shares: np.ndarray  # (K,) what a pilot saw of the sum of absolute residuals, over its bound


class ThinnedParams(NamedTuple):
    """What a decision is made with."""

    weights: RowWeights
    most: float  # bounds of the sum beyond which everything is read
    lost: float  # of the sum of absolute residuals, beyond which the auxiliary test is used
    behind: float  # nats, beside the log of the number of values: these are not looked at


class ThinnedScratch(NamedTuple):
    """What a decision writes."""

    rows: np.ndarray  # (CHUNK,) drawn, with repetitions
    limits: np.ndarray  # (CHUNK,) bounds of their residuals
    values: np.ndarray  # (2, CHUNK) their residuals at both arms
    weights: np.ndarray  # (arms,) by which a draw proposes them
    bounds: np.ndarray  # (arms,) of the sums of their residuals
    done: np.ndarray  # (arms,) what was read of each
    first: np.ndarray  # (arms,) the bounds before any of it was read
    near: np.ndarray  # (arms,) those that are not far behind, as many as there are
    far: np.ndarray  # (arms,) is it far behind, and what is known of it (approx/thinned_draws.py)
    bound: np.ndarray  # (1,) a statistic: the sum over decisions of the bound that they met


@dataclass(frozen=True)
class Thinned(Selector):
    """Decisions that are exact and read few rows: by Poisson thinning.

    For Metropolis, Langevin, delayed and Gibbs, with a control variate whose residuals are bounded:
    sm.Taylor on sm.Predictors(derivatives=..., remainder=...), as sm.models.glm has, or on a plain
    function whose bounds intervals give (print(sm.derivatives(model)) says so). There it is what
    decides unless another selector is given.

    A proposal: with r_n the difference of row n's residuals between proposal y and current state x,
    |r_n| <= c_n, L = sum c_n, and Delta what is known of the log ratio without data:

    - *factorised*: accept if log u < Delta and no point of a Poisson process of rate L rejects; a
      point is a row n, with probability c_n / L, and rejects with probability max(-r_n, 0) / c_n.
      So alpha(x, y) = min(1, e^Delta) exp(-sum r_n^-), and as r^+ - r^- = r and -r is the
      difference from y to x, alpha(x, y) / alpha(y, x) = exp(Delta + sum r_n): detailed balance,
      whatever the rows drawn (Cornish et al. 2019, with the polynomial as one factor). It accepts
      at least exp(-sum |r_n|) as often as Exact.
    - *auxiliary*, where that would cost more than `lost`: counts s_n ~ Poisson(c_n - r_n^+),
      thinned from the same process; accept if log u < Delta + sum s_n log((c_n - r_n^-) / (c_n -
      r_n^+)). From y to x the counts are Poisson(c_n - r_n^-), as r_n changes its sign, and as
      r_n^+ - r_n^- = r_n the sum is sum r_n and the log ratio of both laws of s:
      Metropolis-Hastings on (state, s) (Zhang, Cooper & De Sa 2020; Prado, Nemeth & Sherlock 2024).
      It accepts at least as often as the factorised test: of row n alone the smaller of both
      densities of s_n adds up to exp(-r_n^-). Delta alone rejects nothing here: far from the
      reference it may be off by many nats, and would hold a chain there.
    - *everything*, where L exceeds `most` times the number of rows.

    Which of them is used depends on L and on a constant of the model. L is the same from x to y and
    from y to x, so the mixture is reversible, too. On average L rows are read at most. Outliers of
    the control variate whose bounds add up to more than their number are read instead of drawn, and
    their residuals are part of Delta: that, too, depends on the pair of states alone.

    A draw of a value k (Gibbs, also with pseudo-priors): with o_k what is known of its log
    probability without data, R_k the sum of its residuals r_n, |r_n| <= c_n, and L_k = sum c_n,
    k is proposed with probability proportional to exp(o_k + L_k), and accepted if no point of a
    Poisson process of rate 2 L_k survives; a point is a row n, with probability c_n / L_k, and
    survives with probability (c_n - r_n) / (2 c_n). None does with probability exp(R_k - L_k), so
    what is accepted has probability proportional to exp(o_k + R_k): the conditional, whatever the
    value was. It takes at most exp(2 max L) tries on average, as values with L_k > 1 are summed
    first, or their outliers if that is enough, unless they are 40 nats behind: which of them are
    depends on the state alone. Of 16 values and more, where the state is within some posterior
    standard deviations, most are not even looked at: a value that cannot come within 8 nats and the
    logarithm of the number of values of the best one's least is proposed with that weight instead,
    and accepted, if it ever is proposed, by what it really weighs over that.

    Each row that is read is checked against its bound: a bound that is too small is an error that
    names it.

    most: rows drawn, as a share of all, beyond which everything is read instead.
    lost: nats of acceptance at most, as a pilot says, beyond which the auxiliary test decides.
    weights: set by the package for models of weighted data: leave it out.

    An exact decision under the same u is coupled to other numbers, so an audit compares none. Of
    proposals it adds up max(-r_n, 0) over all rows: the most that the factorised test can cost, in
    nats of acceptance, which reports show as nats lost. Draws it passes by.

    Example:
        >>> x = np.column_stack([np.ones(20_000), np.linspace(-1.0, 1.0, 20_000)])
        >>> y = (np.random.default_rng(0).random(20_000) < 1.0 / (1.0 + np.exp(-x[:, 1]))) * 1.0
        >>> model = sm.models.glm.logistic(x, y)
        >>> fit = sm.laplace(model)
        >>> kernel = sm.Metropolis("beta", selector=sm.Thinned(), control=sm.Taylor(fit))
        >>> trace = sm.sample(model, kernel, draws=500, warmup=500, chains=1, seed=1)
        >>> bool(trace.stats["beta"]["pulls"].mean() < 2.0)  # of 40,000 rewards
        True
    """

    most: float = 0.05
    lost: float = 1.0
    weights: Any = field(default=None, repr=False, compare=False, kw_only=True)  # of one model

    guarantee: ClassVar[str] = "exact"
    takes_control: ClassVar[bool] = True
    thins: ClassVar[bool] = True

    def __post_init__(self):
        for name in ("most", "lost"):
            if not 0.0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name}={getattr(self, name)!r}: give a number, 0 or more.")

    def __repr__(self) -> str:
        given = ((n, getattr(self, n)) for n in ("most", "lost"))
        more = [f"{n}={v:g}" for n, v in given if v != type(self).__dataclass_fields__[n].default]
        return f"Thinned({', '.join(more)})"

    @property
    def promise(self) -> str:
        """Its cost, in acceptance and in rows."""
        return (
            "reads no more rows, on average, than the bounds of all residuals add up to; accepts "
            "a proposal at least exp(-sum |r|) as often as Exact, r the residuals' differences"
        )

    def with_weights(self, weights: RowWeights) -> "Thinned":
        """It, for one model and control variate."""
        return replace(self, weights=weights)

    def params(self, shape: Shape) -> ThinnedParams:
        """Refuses where no residuals are bounded: on arrays, and without a control variate."""
        if self.weights is None:
            raise ValueError(
                "Thinned() decides on residuals of a control variate that are bounded: use it in "
                "sm.Metropolis, sm.Langevin or sm.Gibbs with control=sm.Taylor(fit); here "
                "sm.Exact() is exact."
            )
        most = self.most * shape.sizes[0]
        return ThinnedParams(self.weights, most, self.lost, BEHIND)

    def scratch(self, shape: Shape) -> ThinnedScratch:
        """Room for a mini-batch."""
        kind = self.weights.other.dtype
        arms = len(shape.sizes)
        return ThinnedScratch(
            np.zeros(CHUNK, dtype=kind), np.zeros(CHUNK), np.zeros((2, CHUNK)),
            np.zeros(arms), np.zeros(arms), np.zeros(arms, dtype=np.int64), np.zeros(arms),
            np.zeros(arms, dtype=np.int64), np.zeros(arms, dtype=np.int64), np.zeros(1),
        )  # fmt: skip

    def build(self, sources: Any) -> Any:
        """What decides needs the control variate: see approx/thinning.py."""
        return self.params(Shape((0, 0), True, (), False))
