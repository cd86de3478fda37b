"""sm.laplace: the posterior mode and the Gaussian around it, from a few passes over the data.

Newton's steps, in the free coordinates in which kernels move. Value, gradient and Hessian of the
log likelihood come from sm.Predictors where a model has them, with many data from derivatives of
the function itself (jets), and else from differences, datum by datum. With many data the search
begins on some: two or three passes over all of them are enough.
"""

from contextlib import suppress
from math import sqrt
from typing import Any

import numpy as np

from subsample_mcmc.approx.elsewhere.over_parts import JetsOverParts, LinearOverParts
from subsample_mcmc.approx.fit.by_sites import factors_of, fit_hierarchy, goes_by_site
from subsample_mcmc.approx.fit.coordinates import Coordinates, side_by_side, windows
from subsample_mcmc.approx.fit.fit import Fit, finished
from subsample_mcmc.approx.fit.hierarchy import HierarchyFit
from subsample_mcmc.approx.fit.kinks import ROUGH, searched, warn_of_kinks, wide_steps, with_kinks
from subsample_mcmc.approx.fit.newton import (
    FLAT,
    MANY,
    Local,
    along_axes,
    begin,
    climb,
    deviations,
    differences,
    falls_around,
    several,
    spectrum,
    widths,
)
from subsample_mcmc.approx.taylor.derivatives_jets import FEW, Jets, NotSmoothError, obstacle
from subsample_mcmc.approx.taylor.derivatives_predictors import Linear
from subsample_mcmc.approx.taylor.derivatives_stencil import MOST_PARAMETERS
from subsample_mcmc.approx.taylor.found.derivatives_found import (
    Found,
    NoPredictorsError,
    predictors_of,
)
from subsample_mcmc.approx.taylor.predictor_chunks import Keep
from subsample_mcmc.approx.taylor.taylor import PATIENT
from subsample_mcmc.calls import helpful
from subsample_mcmc.decisions.compared import check_compiled
from subsample_mcmc.errors import RewardError, warn
from subsample_mcmc.numerics.progress import Bar
from subsample_mcmc.numerics.random import generator_of
from subsample_mcmc.target.dyadic import RowBlocks
from subsample_mcmc.target.lookups.bounds import check_model
from subsample_mcmc.target.model import must_be_model
from subsample_mcmc.target.population import whole
from subsample_mcmc.target.reuse.remembered import found_before, keep_found, key_of
from subsample_mcmc.target.user_functions import blaming

# With many data the search begins on runs of neighbours, for the models that read datum n - 1.
WINDOWS, WINDOW = 80, 256
STEP = 1e-3  # of a difference over data, in standard deviations: more where rounding asks for it
HALF = 0.5  # the same, where it is asked whether a function has kinks
BENT = 0.1  # the part by which curvatures at these two may differ
FAR = 2.0  # the step for functions that have kinks
KINKED = 1e7  # evaluations for which sm.Predictors are searched by differences, where they may have
NARROW = (
    "the log likelihood has kinks around the mode, and no search over wide steps came to an end: "
    "the fit's standard deviations are those of single kinks, as a rule, and may be a hundredth of "
    "the posterior's. Chains that propose from it hardly move: take sm.Metropolis(...) without it."
)
KEPT = (  # fields of a fit that are remembered
    "point", "mean", "covariance", "factor", "log_density", "log_evidence", "starts", "repaired",
    "passes",
)  # fmt: skip
SETTLING = 6  # steps of one length after another, where the first say that they are too long
FAILURES = (ValueError, np.linalg.LinAlgError)  # of a search


class Summed:
    """Any log_likelihood, at the points that differences need."""

    step = STEP
    kinks = np.zeros(0, dtype=bool)  # along which coordinates the prior has some
    rough = 0  # 1: it is read over steps as wide as the posterior
    last: Local | None = None  # where a search came to

    def __init__(self, coordinates: Coordinates, spans, bar):
        self.coordinates, self.spans, self.bar, self.passes = coordinates, spans, bar, 0
        self.weight = coordinates.count / sum(last - first for first, last in spans)

    def around(self, u: np.ndarray, before: Local | None) -> Local:
        """The log density around u; before: around a point not far away."""
        if len(u) > MOST_PARAMETERS:
            raise ValueError(too_many(len(u)) + why_not_predicted(self.coordinates.model))
        self.passes += 1
        steps = deviations(before.curvature) if before else np.diag(widths(self.rises, u))
        value = before.value if before else self.rises(u[None])[0]
        found = differences(self.rises, u, self.least(value) * steps)
        if self.kinks.any():
            found = with_kinks(found, self.coordinates.prior, self.kinks)
        self.last = found if found.usable else self.last
        return found

    def least(self, value: float) -> float:
        """The shortest step, in standard deviations, that rounding allows."""
        noise = 1e-15 * abs(value) * sqrt(self.weight / self.coordinates.count)
        return min(max(1.0, self.step), max(self.step, noise**0.25))

    def kinked(self, u: np.ndarray, curvature: np.ndarray, within: float) -> bool:
        """Has the log density kinks within so many standard deviations: does it bend more, or less.

        Second differences of a smooth function differ from its second derivative by the square of
        their step, so at half the step by a quarter. Kinks are missed by the shortest steps, and
        seen by both others alike. Of some of the data these are as much wider. Where the curvature
        is none of a mode, they are such that the log density bends by about a nat.
        """
        values = spectrum(curvature)[1]
        of_mode = values.min() > FLAT * np.abs(values).max()
        steps = deviations(curvature) if of_mode else np.diag(widths(self.rises, u))
        ways = [(steps, True)]
        if of_mode:  # a kink of data along one coordinate: directions may be mixtures of all
            ways.append((np.diag(np.diag(curvature) ** -0.5), False))
        bends = []
        for part in (within, 0.5 * within, self.least(self.rises(u[None])[0])):
            found = []
            for steps, prior in ways:
                ends = part * sqrt(self.weight) * steps.T
                points = np.concatenate([u[None], u + ends, u - ends])
                both = self.rises(points, prior)[1].reshape(2, -1)
                found.append((both[0] + both[1]) / part**2)
            bends.append(np.concatenate(found))
        wide, half, least = bends
        apart, most = wide - least, np.maximum(np.abs(wide), np.abs(least))
        if of_mode:  # what data tell little of bends by rounding: all of it by `weight`
            most[len(u) :] = np.maximum(most[len(u) :], self.weight)
        return bool(np.any((np.abs(apart) > BENT * most) & ((half - least) / apart > 0.5)))

    def rises(self, points: np.ndarray, prior: bool = True) -> tuple[float, np.ndarray]:
        """Log density at the first point, and what it rises by at others; or that of data alone."""
        values, base, _ = self.coordinates.lift(points)
        share = len(points) / (len(points.T) * (len(points.T) + 1) + 1)  # of what `around` reads
        found = self.coordinates.sums(values, self.spans, lambda n: self.bar.update(share * n))
        sums = self.weight * found
        own = base[1:] - base[0] if prior and not self.kinks.any() else 0.0
        return float(base[0] + sums[0]), own + sums[1:]


def too_many(size: int) -> str:
    """Why differences do not serve, and what does."""
    return (
        f"{size} free coordinates are too many for differences, which serve {MOST_PARAMETERS}; "
        "more are fitted where data see them through few sums of products, without kinks. Name "
        "fewer blocks, or give sm.Predictors(eta, log_factor). Sites that see data of their own, "
        "sm.Model(touches={...}, site_prior={...}), are fitted one by one."
    )


def why_not_predicted(model) -> str:
    """Why data are not seen to see few predictors, as another sentence."""
    if model.predictors is not None or model.elsewhere is not None:
        return ""
    why = obstacle(model) or predictors_of(model)[1]
    return f" Here {why}." if why else ""


class Wide(Summed):
    """By differences over steps as wide as the posterior, for log likelihoods with kinks."""

    step, rough = FAR, 1


class Steep(Wide):
    """The same, where each step of the search must rise, as if there were none."""

    rough = 0


class Expanded:
    """A log likelihood with derivatives by the blocks' values: these, and the chain rule."""

    kinks, rough, last = Summed.kinks, Summed.rough, Summed.last

    def __init__(self, coordinates: Coordinates, spans, bar):
        self.coordinates, self.bar, self.passes, model = coordinates, bar, 0, coordinates.model
        self.source = self.source_of(model, spans)
        self.weight = coordinates.count / sum(last - first for first, last in spans)

    def source_of(self, model, spans) -> Any:
        """Derivatives by sm.Predictors."""
        if model.elsewhere is not None:
            return LinearOverParts(model, 2, True, model.floats)
        source = Linear(model, 2, True, model.floats)
        source.blocks = RowBlocks(spans)
        return source

    def steps(self, u: np.ndarray, known: np.ndarray) -> np.ndarray:
        """How far to go along each coordinate; known: second derivatives, with the sign turned."""
        sd, wide = 1.0 / np.sqrt(np.maximum(known, 1e-300)), np.maximum(1.0, np.abs(u))
        return 0.01 * np.minimum(sd, wide)

    def around(self, u: np.ndarray, before: Local | None) -> Local:
        """The log density around u; before: around a point not far away."""
        self.passes += 1
        co, keep = self.coordinates, Keep(np.zeros(0, dtype=np.int64))
        values, base, _ = co.lift(u)
        s0, s1, s2, _ = self.source.sums(co.ints, values[0], keep, self.bar)
        value, slopes = self.weight * s0 + float(base[0]), co.slopes(u)
        data = -self.weight * slopes.T @ s2 @ slopes
        if not (np.isfinite(value) and np.all(np.isfinite(data))):
            return Local(u, -np.inf, np.zeros(co.size), data)

        def rises(points):  # of all that is not quadratic in the blocks' values: no data are read
            values, base, _ = co.lift(points)
            return value, self.weight * ((values[1:] - values[0]) @ s1) + base[1:] - base[0]

        known = np.diag(data if before is None else before.curvature)
        steps = self.steps(u, known)
        for _ in range(SETTLING):
            twice = 2.0 * steps
            if self.kinks.any():
                far = wide_steps(co.prior, u, np.diag(data))
                steps, twice = np.where(self.kinks, far, steps), np.where(self.kinks, far, twice)
            one, two = along_axes(rises, u, steps), along_axes(rises, u, twice)
            # Without the error of second order.
            gradient = (4.0 * one.gradient - two.gradient) / 3.0
            bent = data + (4.0 * one.curvature - two.curvature) / 3.0
            # Data tell nothing of what a prior alone holds, however narrow that is.
            shorter = self.steps(u, np.diag(bent))
            long = shorter < 0.5 * steps
            if self.kinks.any():
                long &= ~self.kinks
            if before is not None or not long.any():
                break
            steps = shorter
        self.last = Local(u, value, gradient, bent)
        return self.last


class Followed(Expanded):
    """A log likelihood that is differentiated as it stands, by the coordinates that are fitted."""

    def source_of(self, model, spans) -> Any:
        """Derivatives by jets."""
        ends = [(part[5], part[6]) for part in self.coordinates.parts.values()]
        free = np.concatenate([np.arange(*each) for each in ends])
        if model.elsewhere is not None:
            return JetsOverParts(model, 2, free)
        return Jets(model, 2, spans, free)

    def around(self, u: np.ndarray, before: Local | None) -> Local:
        """The same; where it is not smooth, nothing that is usable."""
        try:
            return super().around(u, before)
        except NotSmoothError:
            return Local(u, -np.inf, np.zeros(len(u)), np.eye(len(u)))


class FoundAnywhere(Found):
    """Predictors that are found in a plain function; sums at any point, none of them kept."""

    def sums(self, ints, point, keep, bar, table: int = 0):
        """(s0, s1, s2, s3) at a point, over the rows that are kept."""
        return self.along_lines(ints, point, keep, bar)


class Predicted(Followed):
    """A plain log likelihood of many coordinates, by the few predictors that are found in it."""

    def source_of(self, model, spans) -> Any:
        """Derivatives by jets along the predictors of each row."""
        source = FoundAnywhere(model, 2)
        source.blocks = RowBlocks(spans)
        return source

    def around(self, u: np.ndarray, before: Local | None) -> Local:
        """The same; where rows have other predictors than those looked at, nothing is usable."""
        try:
            return super().around(u, before)
        except NoPredictorsError as error:
            raise ValueError(f"{too_many(len(u))} Here {error}.") from error


@helpful
def laplace(
    model, blocks=None, *, given: dict[str, Any] | None = None, starts: int = 1, seed=None,
    tolerance: float = 1e-4, progress: bool | None = None,
) -> Any:  # fmt: skip
    """The posterior mode and the Gaussian around it, in free coordinates: a Fit.

    More than 64 free coordinates are fitted where data see them through at most four sums of
    products, as of a linear predictor, be they given by sm.Predictors or found in a plain function.
    Of more than 64 (300 of sm.Predictors), some of which are sites with data and
    priors of their own, sm.Model(touches=..., site_prior=...), and where no search finds a mode of
    all together: a HierarchyFit. Its sites are fitted given what they have in common, and that,
    of at most 20 free coordinates, with the sites integrated out. Sites of several factors that
    are crossed, such that a datum sees one of each, are fitted together.

    model: whose posterior is fitted.
    blocks: a name or several, of continuous blocks; default all. The others are held.
    given: values of blocks by name, {"k": 2, "sigma": 1.0}: what the others are held at, and where
        the search for fitted ones starts. Default: the model's initial values.
    starts: how many searches. Those after the first begin at draws from the Gaussian around its
        mode, sqrt(N) times as wide; the highest mode counts.
    seed: of the starts after the first.
    tolerance: how far from the mode the result may be, in posterior standard deviations; what
        sites have in common, where it is found by differences, is known to about 1e-3.
    progress: a bar after two seconds (None), at once (True), or never (False).

    Functions with kinks, such as abs, bend by differences over two standard deviations, and their
    mode is known to a tenth of one. Priors with a kink near the mode are warned of, and bend by
    differences over 2.6.
    With 50,000 data or more the search begins on 20,000. sm.Predictors are read once a step, and
    so are those that are found in a function of more than 64; other functions f^2 + f + 1 times (f
    free coordinates), or with their derivatives, where they have them and data are many, f^2 / 16
    times; by all cores. Eigenvalues of the negative Hessian,
    scaled to a diagonal of ones, below 1e-10 of the largest become 1e-4, with a warning.

    Example:
        >>> x = np.column_stack([np.ones(2_000), np.linspace(-1.0, 1.0, 2_000)])
        >>> y = x @ [1.0, 2.0] + np.random.default_rng(0).standard_normal(2_000)
        >>> model = sm.models.glm.gaussian(x, y)
        >>> fit = sm.laplace(model)
        >>> fit.state["beta"].round(1).tolist()
        [1.0, 2.0]

    Of 80 coefficients in a plain function, whose linear predictor is found:
        >>> x = np.random.default_rng(0).standard_normal((1_000, 80))
        >>> def log_likelihood(state, data, n):
        ...     rest = data.y[n]
        ...     for j in range(80):
        ...         rest -= data.x[n, j] * state.beta[j]
        ...     return -0.5 * rest * rest
        >>> model = sm.Model(log_likelihood, {"x": x, "y": x @ np.ones(80)}, {"beta": np.zeros(80)})
        >>> sm.laplace(model).state["beta"][:3].round(6).tolist()
        [1.0, 1.0, 1.0]
    """
    must_be_model(model, "sm.laplace(model)")
    model.notice_changes()
    co, size = Coordinates(model, blocks, given or {}), model.size
    none: tuple[float, ...] = (-np.inf,) * whole(starts, "starts", "how many, at least 1")
    if not 0.0 < tolerance < 1.0:
        raise ValueError(f"tolerance={tolerance!r}: give standard deviations, more than 0.")
    key = key_of_fit(co, len(none), seed, tolerance)
    if (known := found_before(model, "fit", key)) is not None:
        return fit_of(co, known)
    u, rng = co.free(co.floats), generator_of(seed)
    few, co_few = windows(size, WINDOWS, WINDOW) if size >= MANY else co.spans, co
    if model.elsewhere is not None:  # the same rows, side by side
        few, co_few = side_by_side(few, co)
    check_model(model, ints=co.ints)
    if model.predictors is None:  # chains compare those, too
        check_compiled(model.near)

    def by_sites() -> HierarchyFit:
        """The fit of sites, and of what they have in common."""
        return fit_hierarchy(model, co, len(none), rng, tolerance, bar)

    def search(kind: type) -> tuple:
        """(what was found, heights, passes over all rows, kinks of the prior there) by one way."""

        def once(kinks: np.ndarray, tried: list) -> tuple:
            def of_kind(*given) -> Any:
                tried.append(kind(*given))
                tried[-1].kinks = kinks
                return tried[-1]

            return search_once(of_kind, issubclass(kind, Wide) or bool(kinks.any()))

        made, near = searched(once, co)
        return *made, near

    def search_once(kind, rough: bool) -> tuple:
        """(what was found, heights, passes over all rows), by log densities of some kind."""
        full, heights = kind(co_few if size < MANY else co, co.spans, bar), none
        near = max(tolerance, ROUGH) if rough else tolerance
        if size < MANY:
            return *several(full, u, len(none), rng, near)[:2], full.passes
        try:
            found, heights, _ = several(kind(co_few, few, bar), u, len(none), rng, max(near, 1e-2))
            found = climb(full, full.around(found[0].u + found[1], found[0]), near)
        except FAILURES:  # some data did not tell about all
            found = climb(full, begin(full, u), near)
        return found, heights, full.passes

    def again(kind: type, error: Exception) -> tuple[type, tuple]:
        """(way, the same) where one way failed: by differences, and by Wide if it finds kinks."""
        if kind is Followed:
            try:
                return Summed, search(Summed)
            except FAILURES as other:
                error = other
        if kind is Predicted:
            said = isinstance(error, RewardError) or too_many(co.size) in str(error)
            more = "" if said else f" If it has kinks, such as abs: {too_many(co.size)}"
            raise (ValueError(f"{error}{more}") if more else error) from error.__cause__
        untold = kind is Expanded and co.model.predictors.derivatives is None  # they see no kinks
        if kind is not Expanded or (untold and co.count * co.size**2 <= KINKED):
            with suppress(*FAILURES):
                made = searched_widely()
                if kinks_at(made, FAR):
                    return Wide, made
        raise error

    def searched_widely() -> tuple:
        """The same for functions that have kinks; from its end where that is far too wide."""
        nonlocal u
        begun, trouble = u, ValueError("no posterior mode was found: wide steps end on a plain.")
        for kind in (Wide, Steep):
            u = begun
            try:
                for _ in range(2):
                    made = search(kind)
                    if falls_around(Wide(co, co.spans, bar).rises, made[0]):
                        return made
                    u = made[0][0].u + made[0][1]
            except FAILURES as error:
                trouble = error
        raise trouble

    def kinks_at(made: tuple, within: float) -> bool:
        """Has it kinks around there, beside those of the prior that were found."""
        now, full = made[0][0], Summed(co_few, few, bar)
        full.kinks = made[3]
        return full.kinked(now.u, now.curvature, within)

    narrow = False
    with np.errstate(all="ignore"), Bar(
        desc="laplace", unit="row", unit_scale=True, progress=progress,
        delay=0.0 if progress else PATIENT,
    ) as bar, blaming(model):  # fmt: skip
        if goes_by_site(co):
            return by_sites()
        kind = way_of(co_few, few, u)
        try:
            made = search(kind)
        except FAILURES as error:
            if factors_of(co):  # as a rule there is no mode of all together
                with suppress(*FAILURES):
                    return by_sites()
            kind, made = again(kind, error)
        if kind in (Followed, Predicted, Summed) and kinks_at(made, HALF):
            if kind is Predicted:  # derivatives see no kinks, and differences do not serve
                raise ValueError(too_many(co.size))
            u = made[0][0].u
            try:
                made = searched_widely()
            except FAILURES:
                narrow = True
                warn(NARROW)
    found, heights, passes, near = made
    fit = finished(co, heights, passes, *found)
    warn_of_kinks(near, co.labels)
    if not (fit.repaired or near.any() or narrow):  # what was warned of is warned of again
        keep_found(model, "fit", key, tuple(getattr(fit, name) for name in KEPT))
    return fit


def key_of_fit(co: Coordinates, starts: int, seed: Any, tolerance: float) -> str | None:
    """What a fit depends on beside its model; None: on a generator, whose state goes on."""
    if starts > 1 and not (seed is None or isinstance(seed, int)):
        return None
    seed = seed if starts > 1 else None
    return key_of("laplace", co.blocks, co.ints, co.floats, starts, seed, float(tolerance))


def fit_of(co: Coordinates, known: tuple) -> Fit:
    """A fit that was remembered."""
    kept = dict(zip(KEPT, known, strict=True))
    state = co.dict_of(kept["point"], co.model.variables.values())
    return Fit(co.model, co.blocks, state=state, **kept)


def way_of(co: Coordinates, spans, u: np.ndarray) -> type:
    """How the log density of a model is read: by derivatives where it has them near the start."""
    model = co.model
    if model.predictors is not None:
        return Expanded
    if is_predicted(co):
        return Predicted
    few_evaluations = co.count < MANY or co.size <= FEW  # sooner made than jets are compiled
    if few_evaluations or co.size > MOST_PARAMETERS or obstacle(model):
        return Summed
    try:
        Followed(co, spans, None).source.check_sums(co.ints, co.lift(u)[0][0])
    except NotSmoothError:
        return Summed
    return Followed


def is_predicted(co: Coordinates) -> bool:
    """Are there too many coordinates for differences, and few predictors that data see them by."""
    model = co.model
    plain = model.predictors is None and model.elsewhere is None
    if co.size <= MOST_PARAMETERS or not plain or obstacle(model):
        return False
    count, why = predictors_of(model)
    return count < co.size and not why  # 0: a few rows see none, as where others are masked
