"""sm.Taylor: a polynomial in the parameters for every datum, around a reference point.

At posterior scale log likelihoods of neighbouring states differ by a nat in all, N small terms
that nearly cancel: no subsample resolves that. Their Taylor polynomials differ by almost the same,
and sum to numbers that are known. What is left to race falls with the third power of the distance
from the reference, or the fourth: at N = 10^6 it is often so small that no datum need be read.
(Bardenet, Doucet & Holmes 2017; Chen & Ghahramani 2016, section 3.4.)
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from subsample_mcmc.approx.columns.columns import ColumnSums, columns_of, serves
from subsample_mcmc.approx.control import Bound, Control, ControlFunctions, Prepared
from subsample_mcmc.approx.elsewhere.over_parts import JetsOverParts, LinearOverParts
from subsample_mcmc.approx.elsewhere.row_scores import typical_of
from subsample_mcmc.approx.reuse.known_sums import KnownSums, keep_sums, known_before
from subsample_mcmc.approx.row_weights import row_weights
from subsample_mcmc.approx.taylor import derivatives_jets as by_jets
from subsample_mcmc.approx.taylor.ceilings import MANY, NONE, Ceilings, ceilings_of
from subsample_mcmc.approx.taylor.derivatives_jets import Jets, NotSmoothError
from subsample_mcmc.approx.taylor.derivatives_predictors import Linear, cubic
from subsample_mcmc.approx.taylor.derivatives_stencil import Stencil
from subsample_mcmc.approx.taylor.derivatives_user import Given
from subsample_mcmc.approx.taylor.found.derivatives_found import Found, NoPredictorsError
from subsample_mcmc.approx.taylor.found.ways import (
    FOUND,
    usual_order,
    way_of_plain,
    without_predictors,
)
from subsample_mcmc.approx.taylor.influence import influential, loud, room_for_scores, score_lines
from subsample_mcmc.approx.taylor.pilot import Probes, explain_little, pilot, study
from subsample_mcmc.approx.taylor.polynomial import (
    LIMITS,
    Sums,
    add_gradient,
    inverse_of,
    make_polynomial,
    metric_of,
    polynomial_functions,
    terms,
)
from subsample_mcmc.approx.taylor.predictor_chunks import Keep
from subsample_mcmc.approx.taylor.references import (
    configuration,
    configurations,
    references_of,
    sites_seen,
    strides_of,
    used_of,
)
from subsample_mcmc.approx.taylor.remainder import nothing
from subsample_mcmc.decisions.thinned import RowWeights
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.target.reuse.nodes import WholeNodes

TABLES = 4096  # configurations of the discrete blocks, each with sums of its own
MOST_WEIGHTS = 1 << 28  # rows, times configurations, of which weights are kept
USUAL_WEIGHTS = 1 << 26  # where nobody asked for them: a gigabyte
# Parameters up to which third order is the default: there thinned chains were .8 to 1.5 times as
# fast by it, at 10^4 to 10^6 rows (tests/benchmarks/exact.py --only order), and races far faster;
# beyond, .7 to 2 times, and sums take twice as long.
CUBIC = 40
GROWING = ("predictors", "jets")  # ways whose sums go on where rows are appended
PATIENT = 2.0  # seconds after which a progress bar appears


@dataclass(frozen=True, eq=False)
class Taylor(Control):
    """A control variate: the Taylor polynomial of every datum's log likelihood at a reference.

    Pass it as control= to Gibbs, Metropolis, Langevin or Slice; one object serves all of them.

    fit: sm.laplace(model), or a dict of the continuous blocks' values: the reference, near the
        posterior mode. A list of them gives one to each configuration of the discrete blocks, in
        the order of their values (the last block's last site changes fastest).
    order: 2 or 3. Default: 3 for sm.Predictors with at most 40 parameters (a decision costs
        parameters^3 / 6 multiplications, and reads far fewer rows), and for a plain function that
        compiles for derivatives, with 3 to 40 where at most 4 linear predictors of each datum are
        found in it (they are looked for in 10,000 data or more), else with 3 to 12 (sums take
        parameters^3 / 48 passes over the data); else 2.
        sm.plan(model, kernel, {"order 2": sm.Taylor(fit, 2)}) times both.
    derivatives(state, data, n, gradient, hessian): writes those of datum n's log likelihood by
        the continuous blocks, one after the other. Default: by sm.Predictors, if the model has
        them (O(parameters) a datum); else of log_likelihood itself, which is compiled for numbers
        that know their derivatives, and takes a few evaluations a datum; else, where it has at most
        2 parameters, kinks, or parts of which no derivatives are known, by interpolation between
        d^2 + d + 1 points. kernel.describe(model) and sm.derivatives(model) say which way, and why.
    outliers: rows that are read by every decision which the sums alone do not settle. "auto":
        those by which a decision may turn and that a batch seldom meets, such as the rows of a rare
        level or of a huge covariate, found beforehand by what the residual of each row may come
        to; and as many more as pay. Or a share of the data, those with the largest residuals. 0.0
        trusts the batches, and races may then err far more often than delta.
    predict: let the known size of the residuals rule out arms before any datum is read. With
        Predictors(remainder=...) that is proved, and used by all rules; otherwise it is estimated
        from a pilot, and used by rules that are asymptotic anyway.

    Example:
        >>> x = np.column_stack([np.ones(2_000), np.linspace(-1.0, 1.0, 2_000)])
        >>> y = x @ [1.0, 2.0] + np.random.default_rng(0).standard_normal(2_000)
        >>> model = sm.models.glm.gaussian(x, y)
        >>> fit = sm.laplace(model)
        >>> kernel = sm.Metropolis("beta", proposal=sm.pcn(fit), control=sm.Taylor(fit))
        >>> trace = sm.sample(model, kernel, draws=500, warmup=0, chains=1, seed=1)
        >>> bool(trace.stats["beta"]["predicted"].mean() > 0.9)  # decisions that read no data
        True
    """

    fit: Any
    order: int | None = None
    derivatives: Any = None
    outliers: Any = "auto"
    predict: bool = True
    anchor: ClassVar[bool] = True

    def __post_init__(self):
        if self.order not in (None, 2, 3):
            raise ValueError(f"order={self.order!r}: it must be 2 or 3.")
        if hasattr(self.fit, "local"):  # a HierarchyFit
            raise TypeError(
                "Taylor(fit): a HierarchyFit is of too many numbers to expand the likelihood in. "
                "Sites are decided by their own data, without a control variate: sm.Metropolis("
                f"{self.fit.local[0]!r}, proposal=sm.pcn(fit)), or with sm.SiteTaylor(fit); what "
                "they have in common by that, too, or by selector=sm.Exact()."
            )
        text = isinstance(self.outliers, str)
        if (text and self.outliers != "auto") or (not text and not 0.0 <= self.outliers <= 0.5):
            raise ValueError(
                f'outliers={self.outliers!r}: give a share of the data, 0 .. 0.5, or "auto".'
            )

    def __repr__(self) -> str:
        more = f", outliers={self.outliers!r}" if self.outliers != "auto" else ""
        return f"Taylor(order={self.order}{more})"

    def text(self, model=None) -> str:
        """Its order is that for the model."""
        if model is None:
            return repr(self)
        way, why = self.way_of(model)
        shown = repr(replace(self, order=self.order_of(model)))
        if why or way in (FOUND, "jets"):
            shown += f" by {'predictors found in log_likelihood' if way == FOUND else way}"
        return shown + (f" ({why})" if why else "")

    def order_of(self, model) -> int:
        """The order for a model."""
        if self.order is not None:
            return self.order
        if self.derivatives is not None:
            return 2
        if model.predictors is None:
            return usual_order(model, self.way_of(model)[0])
        return 3 if len(model.floats) <= CUBIC and cubic(model) else 2

    def way_of(self, model) -> tuple[str, str]:
        """(where a model's derivatives come from, why from nothing better, where that is asked)."""
        if self.derivatives is not None:
            return "given", ""
        if model.predictors is not None:
            return "predictors", ""
        if isinstance(prepared := model.prepared.get(self), Expansion):
            return prepared.way
        return way_of_plain(model, self.order)

    def check_order(self, way: str, why: str) -> None:
        """Refuse a third order that there is none of."""
        if self.order != 3 or way in ("predictors", FOUND, "jets"):
            return
        if way == "given":
            raise ValueError("order=3 does not go with derivatives=..., which are of second order.")
        raise ValueError(
            "order=3 needs third derivatives: of sm.Predictors, or of a log_likelihood that is "
            f"smooth and compiles for them. {why[:1].upper()}{why[1:]}. Leave order out."
        )

    def source_of(self, model, references: list[np.ndarray], configured: Any) -> tuple:
        """(a source of derivatives, its order, way_of(model)); what is not smooth is interpolated.

        configured(table): the discrete values of a configuration.
        """
        if model.elsewhere is not None:
            return self.source_elsewhere(model, references, configured)
        way, why = self.way_of(model)
        self.check_order(way, why)
        order = self.order_of(model)
        source = best_source(model, self.derivatives, order, way, references)
        try:
            if isinstance(source, Jets):
                source.check_smooth(references, configured)
            if isinstance(source, Found):
                source.confirm(references, configured)
        except NoPredictorsError as told:
            way, why = without_predictors(len(model.floats), str(told))
            order = self.order or usual_order(model, way)
        except NotSmoothError as told:
            way, why, order = "interpolation", str(told), 2
        else:
            return source, order, way, why
        self.check_order(way, why)
        return best_source(model, None, order, way, references), order, way, why

    def source_elsewhere(self, model, references: list[np.ndarray], configured: Any) -> tuple:
        """The same where rows are elsewhere: of derivatives that one pass over them gives."""
        way = self.way_of(model.near)[0]
        if way == "given":
            raise ValueError(
                f"{self!r} has derivatives of its own, which are read in memory, and the rows of "
                f"{model!r} are elsewhere: leave derivatives= out."
            )
        if way != "predictors":
            way = "jets"
            if why := by_jets.obstacle(model.near):
                raise ValueError(
                    f"the rows of {model!r} are elsewhere, where derivatives are those of the "
                    f"function itself, and {why}."
                )
        if way == "predictors":
            order = self.order_of(model.near)
            return best_source(model, None, order, way, references), order, way, ""
        order = self.order or (3 if len(model.floats) <= by_jets.CUBIC else 2)
        jets = best_source(model, None, order, way, references)
        try:
            jets.check_smooth(references, configured)  # of some rows
        except NotSmoothError as told:
            raise ValueError(
                f"the rows of {model!r} are elsewhere, where derivatives are those of the function "
                f"itself, and {told}."
            ) from None
        return jets, order, way, ""

    # ------------------------------------------------------------------------------- the seam
    def check(self, model, block: str) -> None:
        """Refuse models with too many configurations, or another model than the fit's."""
        count = configurations(model)
        if count > TABLES:
            discrete = [n for n, v in model.variables.items() if v.support]
            wide = [n for n in discrete if sites_seen(model, model.variables[n]).any()]
            raise ValueError(
                f"the discrete blocks {wide} have {count if count < 10**9 else 'more than 10^9'} "
                "configurations, and each would need "
                f"sums of its own: Taylor serves at most {TABLES}. Decide by selector=sm.Exact(), "
                "or sum the discrete blocks out of the likelihood. (Blocks that log_likelihood "
                "never reads as state.name do not count, nor sites to which touches gives none.)"
            )
        if len(model.floats) == 0:
            raise ValueError("the model has no continuous block: there is nothing to expand in.")
        references_of(self.fit, model, count)
        if model.elsewhere is None:
            self.check_order(*self.way_of(model))
        elif self.outliers and self.outliers != "auto":
            raise ValueError(
                f"{self!r}: the rows of {model!r} are elsewhere, and a share of them is looked for "
                'in memory: leave outliers="auto", or give 0.0.'
            )

    def append(self, model) -> "Taylor":
        """This control variate for a model to which rows were appended; its `fit` is of all rows.

        Sums of the new rows are added to those of the others, around the same reference: what comes
        out is what all rows give, to the last bit. By these sums the mode is found, without a pass.
        If it has moved farther than the order reaches, or sums cannot be added to, a warning says
        so, and the fit is made anew by passes over all rows.

        model: what model.append(rows) returned, of the model that `fit` is of.
        """
        from subsample_mcmc.approx.reuse.grown import grown

        return grown(self, model)

    def gradient(self) -> Any:
        """Compiled; it reads no data."""
        return add_gradient

    def by_column(self, model) -> bool:
        """Where second order serves one predictor; third-order sums tell more, of few."""
        known = self.derivatives is None and serves(model) and configurations(model) == 1
        return known and self.order_of(model) == 2

    def columns(self, model, near: np.ndarray | None = None) -> ColumnSums:
        """Three passes over the data; near: the reference, but where it is nan."""
        point = references_of(self.fit, model, 1)[0]
        return columns_of(
            model, self, point if near is None else np.where(near == near, near, point)
        )

    def prepare(self, model) -> "Expansion":
        """One or two passes over the data for each configuration of the discrete blocks."""
        count, strides = configurations(model), strides_of(model)
        references = references_of(self.fit, model, count)
        source, order, way, why = self.source_of(
            model, references, lambda table: configuration(strides, table)
        )
        how = self.derivatives, order, way, references
        if (before := known_before(model, self, how)) is not None:
            source.restore(before.kept)
            return Expansion(model, how, source, strides, before, why)
        nodes = WholeNodes(model.size) if count == 1 and way in GROWING else None
        if nodes is not None:
            source.nodes = nodes
        outliers, scores = np.zeros(0, dtype=np.int64), None
        if self.outliers == "auto":
            scores = room_for_scores(model, count)
        sums = self.add_up(model, source, references, strides, outliers, scores=scores)
        probes = self.probes(model, source, strides, count)
        if scores is not None:
            self.score(probes, sums, scores)
            outliers = loud(scores)
        elif self.outliers and self.outliers != "auto":
            outliers = influential(probes, sums, self.outliers)
        full = sums
        if len(outliers):
            sums = self.add_up(model, source, references, strides, outliers, sums)
        found = KnownSums(sums, outliers, self.look(probes, sums, outliers), source.kept())
        if nodes is not None:
            used, source.nodes = sums.used[0], None
            inverse = metric_of(-full.whole.s2[0, :used, :used])[1]
            raced = inverse_of(sums.metric[0], used) if len(outliers) else inverse
            typical = None if scores is None else typical_of(scores, outliers)
            found = found._replace(nodes=nodes.kept(), inverses=(inverse, raced), typical=typical)
        keep_sums(model, self, how, found)
        return Expansion(model, how, source, strides, found, why)

    def probes(self, model, source, strides: np.ndarray, count: int) -> Probes:
        """What looks at residuals around each of so many references."""
        several = isinstance(self.fit, list | tuple)
        return Probes(model, source, strides, self.fit if several else [self.fit] * count)

    def look(self, probes: Probes, sums: Sums, outliers: np.ndarray) -> bool:
        """See what sums leave over at some rows; is it known."""
        return pilot(probes, sums, outliers) and self.predict

    def score(self, probes: Probes, sums: Sums, scores: Any) -> None:
        """What the residual of each row may come to, where no bound has said so."""
        model, source = probes.model, probes.source
        if source.known():
            return
        total = model.size * len(sums.points)
        bar = Bar(total=total, desc="rows that matter", unit="row", unit_scale=True, delay=PATIENT)
        with bar:
            for table in range(len(sums.points)):
                if isinstance(source, Linear):
                    ints = configuration(probes.strides, table)
                    inverse = inverse_of(sums.metric[table], sums.used[table])
                    source.score(ints, sums.points[table], bar, inverse, scores)
                else:
                    score_lines(probes, sums, table, scores, bar)

    def add_up(
        self, model, source, references, strides, outliers, full=None, scores=None, inverse=None
    ) -> Sums:
        """The sums over all rows but the outliers; full: those over all rows, or over fewer.

        Their metric stays: without its outliers a direction may look flat, and no distance would
        measure it. inverse: of it, if bounds of some rows were made with one.
        """
        d, keep, parts = len(model.floats), Keep(outliers), []
        total = model.size * len(references) * (2 if source.known() else 1)
        bar = Bar(total=total, desc="control variate", unit="row", unit_scale=True, delay=PATIENT)
        with bar:
            for table, reference in enumerate(references):
                ints = configuration(strides, table)
                s0, s1, s2, s3 = source.sums(ints, reference, keep, bar, table)
                used, metric, turn = used_of(model, ints), *np.zeros((2, d, d))
                if full is None:
                    metric[:used, :used], turn[:used, :used] = metric_of(-s2[:used, :used])
                else:
                    metric = full.metric[table]
                    turn = inverse_of(metric, used) if inverse is None else inverse
                limits = np.zeros(LIMITS)
                if source.known():
                    seen = source.remainders(ints, reference, keep, bar, turn, scores)
                    limits[:4], limits[7:12] = seen[:4], source.within(ints, reference)
                    limits[12 : 8 + len(seen)] = seen[4:]
                    limits[15] = len(seen) > 4
                s0 = s0 if source.constant else 0.0
                parts.append((reference, used, metric, s0, s1, s2, s3, limits))
        each = map(np.array, zip(*parts, strict=True))
        points, lengths, metrics, s0s, s1s, s2s, s3s, limits = each
        third = s3s if source.order > 2 else np.zeros((0, d, 1))
        found = terms(s0s, s1s, s2s, third, limits)
        learnt = full.learnt if full else nothing(len(points), d)
        return Sums(points, lengths, metrics, found, full.whole if full else found, learnt)


def best_source(model, derivatives, order: int, way: str, references: list[np.ndarray]) -> Any:
    """Where derivatives come from, by the name of the way."""
    several = len(references) > 1
    if model.elsewhere is not None and way == "predictors":
        return LinearOverParts(model, order, several, references[0])
    if model.elsewhere is not None:
        return JetsOverParts(model, order)
    if way == "given":
        return Given(model, derivatives, several)
    if way == "predictors":
        return Linear(model, order, several, references[0])
    if way == FOUND:
        return Found(model, order, several)
    return Jets(model, order) if way == "jets" else Stencil(model, len(references))


class Expansion(Prepared):
    """Sums of polynomials around references, with their remainders, of one model."""

    def __init__(
        self, model, how: tuple, source, strides: np.ndarray, found: KnownSums, why: str
    ):  # fmt: skip
        sums = found.sums
        self.model, self.how, self.strides, self.sums = model, how, strides, sums
        self.outliers, self.known, self.proved = found.outliers, found.known, source.known()
        self.source, self.wanted, self.kept = source, source.needs, source.kept()
        # What sums over these rows and more go on from.
        self.nodes, self.inverses, self.typical = found.nodes, found.inverses, found.typical
        self.absolute = self.proved and len(sums.points) > 1
        self.slight = not self.proved and explain_little(sums.raced, sums.used, model.size)
        self.way = how[2], why  # where derivatives come from, and why from nothing better
        self.studied = bool(sums.learnt.known.any())
        # Runs that were stored when there were no jets cannot go on with them.
        self.found = f"{how[2]} of order {how[1]}" if how[2] in (FOUND, "jets") else ""
        if how[2] == FOUND and self.proved:
            self.found += ", bounded, all squares known"
            self.found += ", far out, too" if source.reaches_far() else ""
        if isinstance(source, Stencil):
            self.evaluations = 1 + len(model.floats) * (1 + len(model.floats)), 0
        if self.absolute and len(sums.points) >= MANY:
            self.found += ", with ceilings"

    @property
    def references(self) -> list[np.ndarray]:
        """The points of expansion, by configuration of the discrete blocks."""
        return self.how[-1]

    @cached_property
    def source(self) -> Any:
        """Where derivatives come from; made anew after it was unpickled."""
        source = best_source(self.model, *self.how)  # of rows elsewhere none is pickled
        source.restore(self.kept)
        return source

    def study(self, control: Taylor) -> None:
        """Learn what whole sums leave over, by up to 10^8 evaluations, and let the file keep it."""
        if self.studied or not control.predict:
            return
        sums, self.studied = self.sums, True
        probes = control.probes(self.model, self.source, self.strides, len(sums.points))
        study(probes, sums, self.outliers)
        more = self.nodes, self.inverses, self.typical
        found = KnownSums(sums, self.outliers, self.known, self.kept, *more)
        keep_sums(self.model, control, self.how, found)

    @cached_property
    def functions(self) -> ControlFunctions:
        """The compiled half."""
        return polynomial_functions(self.source.residuals, self.source.reading)

    @property
    def thins(self) -> bool:  # type: ignore[override]
        """Are residuals bounded, and weights of all rows no burden."""
        if self.model.elsewhere is not None:
            return False
        return self.proved and len(self.sums.points) * self.model.size <= USUAL_WEIGHTS

    @cached_property
    def row_weights(self) -> RowWeights:  # type: ignore[override]
        """Bounds of each row's residual: one pass for each configuration of the discrete blocks."""
        if not self.proved:
            return super().row_weights
        model, sums, bounds = self.model, self.sums, []
        if len(sums.points) * model.size > MOST_WEIGHTS:
            raise ValueError(
                f"sm.Thinned() keeps 16 bytes a row for each of the {len(sums.points)} "
                f"configurations of the discrete blocks, and the model has {model.size:,} rows: "
                "use sm.Racing(sm.Betting())."
            )
        total = model.size * len(sums.points)
        bar = Bar(total=total, desc="rows by weight", unit="row", unit_scale=True, delay=PATIENT)
        with bar:
            for table in range(len(sums.points)):
                ints = configuration(self.strides, table)
                inverse = inverse_of(sums.metric[table], sums.used[table])
                bounds.append(self.source.row_bounds(ints, sums.points[table], bar, inverse))
        bound, seen = sums.raced.limits[:, 0], sums.raced.limits[:, 4]
        shares = np.clip(seen / np.maximum(bound, 1e-300), 0.0, 1.0)
        return row_weights(bounds, self.outliers, bound, sums.whole.limits[:, 0], shares)

    def bind(self, arms: int) -> Bound:
        """Arrays of one chain."""
        return make_polynomial(
            self.model, self.sums, self.strides, arms, self.source,
            self.ceilings if arms > 2 else NONE,
        )  # fmt: skip

    @cached_property
    def ceilings(self) -> Ceilings:
        """What many values of a discrete block weigh at most; nothing where bounds are missing."""
        return ceilings_of(self.sums, len(self.outliers)) if self.absolute else NONE
