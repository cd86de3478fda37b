"""Fits of hierarchies: many sites, each with data of its own, and what they have in common.

The joint density of sites and their scale has no mode, as a rule: it rises without end where the
scale falls to 0 and all sites come together. So what sites have in common is fitted to its own
density, from which Laplace's approximation takes the sites, and sites are fitted given that
(Tierney & Kadane 1986; Rue, Martino & Chopin 2009). The Hessian is an arrow: one small block a
site, and borders; nothing of the size of all sites squared is made.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from math import log, pi
from typing import Any

import numpy as np

from subsample_mcmc.approx.fit.coordinates import Coordinates
from subsample_mcmc.approx.fit.fit import SHOWN, TRIES, UNFOLDED, Fit, finished
from subsample_mcmc.approx.fit.kinks import ROUGH, EndedAtKinksError, past_kinks, warn_of_kinks
from subsample_mcmc.approx.fit.marginal import Marginal, has_jets, marginal_of, worth_jets
from subsample_mcmc.approx.fit.newton import several
from subsample_mcmc.approx.fit.sites import (
    Settled,
    Sites,
    columns_of,
    free_of,
    lift_sites,
    part_of,
    place_at,
)
from subsample_mcmc.approx.taylor.derivatives_jets import NotSmoothError
from subsample_mcmc.approx.taylor.derivatives_stencil import MOST_PARAMETERS
from subsample_mcmc.errors import RewardError
from subsample_mcmc.style import folded, safe, significant, tabled

MOST = 20  # free coordinates that sites may have in common: their density is read d^2 + d + 1 times
MOST_DENSE = 300  # free coordinates of sm.Predictors of which one Gaussian is made
DENSE = 2_000  # free coordinates of which a covariance is made
FAILURES = (ValueError, np.linalg.LinAlgError)  # of a search
OFF = 1_000  # draws that may lie off the support


@dataclass(frozen=True, eq=False)
class HierarchyFit:
    """A Gaussian around a hierarchy: sites given what they have in common, and that.

    What sm.laplace returns where blocks have touches and a site_prior, and there are too many
    numbers for one dense Gaussian, or no mode of all of them. What sites have in common is fitted
    to its own density, the sites integrated out; each site has a Gaussian given that, whose mean
    follows it. Memory and time are linear in data and sites.

    sm.Metropolis("a", proposal=sm.pcn(fit)) lets sites propose from it from the first step on.

    model: the one that was fitted.
    blocks: those that were fitted, in the model's order.
    local: those of them whose sites see data of their own, in the order of their columns in modes.
    common: the Fit of the others; its log_density and log_evidence are of their own density, sites
        integrated out. None: sites alone were fitted.
    point, state: all continuous values of the model, and all blocks by name, at the modes.
    modes: (sites, k), free coordinates of each site.
    covariances: (sites, k, k), of each site given what they have in common.
    slopes: (sites, k, d), by how much sites' modes move with one standard deviation of each
        direction of common.factor.
    log_density: log likelihood + log prior + log |dx/du| at the modes.
    log_evidence: Laplace's approximation of the log of its integral.
    passes: times that all data were read, for values or for derivatives along up to 8 lines.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> group = np.repeat(np.arange(200), 5)
        >>> y = 1.0 + 0.5 * rng.standard_normal(200)[group] + rng.standard_normal(1_000)
        >>> def log_likelihood(state, data, n):
        ...     return -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2
        >>> def of_site(state, i):
        ...     z = (state.a[i] - state.mu[0]) / state.tau[0]
        ...     return -0.5 * z * z - sm.log(state.tau[0])
        >>> model = sm.Model(
        ...     log_likelihood, {"y": y, "group": group},
        ...     {"a": np.zeros(200), "mu": 0.0, "tau": 1.0},
        ...     lambda state: -0.5 * (state.mu[0] ** 2 + state.tau[0] ** 2),
        ...     constraints={"tau": sm.positive},
        ...     touches={"a": "group"}, site_prior={"a": of_site},
        ... )
        >>> fit = sm.laplace(model)
        >>> round(fit.state["mu"], 1), round(fit.state["tau"], 1)
        (1.0, 0.5)
        >>> kernel = sm.Metropolis("a", proposal=sm.pcn(fit)) >> sm.Metropolis(("mu", "tau"))
    """

    model: Any
    blocks: tuple[str, ...]
    local: tuple[str, ...]
    common: Fit | None
    point: np.ndarray
    state: dict[str, Any]
    modes: np.ndarray
    covariances: np.ndarray
    slopes: np.ndarray
    log_density: float
    log_evidence: float
    passes: int = 0

    def __repr__(self) -> str:
        count, k = self.modes.shape
        told = f"HierarchyFit of {', '.join(self.blocks)} to {self.model.size} data: log density "
        told += f"{self.log_density:.9g}, log evidence {self.log_evidence:.9g}\n"
        names = ", ".join(self.local)
        told += f"  {names}: {count:,} sites of {k} numbers, each fitted given "
        if self.common is None:
            return told + "the rest of the state"
        told += "what they have in common,\n  and that with the sites integrated out"
        told += " (of all together there is, as a rule, no mode)"
        frame = self.common.to_frame()
        width = max([10, *(len(name) for name in frame.index[:SHOWN])])
        for name, mode, sd in zip(frame.index[:SHOWN], frame["mode"], frame["sd"], strict=False):
            told += f"\n  {name:<{width}} {mode:.5g} +- {sd:.2g}"
        return told

    def _repr_html_(self) -> str:
        frame = self.to_frame(UNFOLDED)
        rows = [
            [name, significant(mode), significant(sd)]
            for name, mode, sd in zip(frame.index, frame["mode"], frame["sd"], strict=True)
        ]
        head = ["", "mode", "sd"]
        told = str(self).split("\n  and that")[0].split(",\n")[0]
        parts = [f"<p>{safe(told)}</p>", *tabled(head, rows[:SHOWN])]
        if more := rows[SHOWN:]:
            parts += folded(f"{len(more)} more", tabled(head, more))
        return "\n".join(parts)

    def to_frame(self, most: int | None = None) -> Any:
        """A pandas table with one row per component: mode, and sd to first order around it.

        most: how many sites of each block; None: all.
        """
        import pandas

        frames = [] if self.common is None else [self.common.to_frame()]
        for name in self.local:
            v = self.model.variables[name]
            mean, covariance = self.sites(name)
            width = mean.shape[1]
            count = len(mean) if most is None else min(most, len(mean))
            sd = np.sqrt(np.diagonal(covariance[:count], axis1=1, axis2=2)).ravel()
            first = v.block.start
            x = self.point[first : first + count * width]
            index = [self.model.axes.at(v.block, j) for j in range(len(x))]
            columns = {"mode": x, "sd": sd * slopes_of(v.constraint, mean[:count].ravel())}
            frames.append(pandas.DataFrame(columns, pandas.Index(index, name="component")))
        return pandas.concat(frames)

    # ------------------------------------------------------------------------------ Gaussians
    @property
    def variables(self) -> list[Any]:
        """Those of `local`."""
        return [self.model.variables[name] for name in self.local]

    def columns(self, block: str) -> slice:
        """Which numbers of a site are a block's.

        block: one of `local`.
        """
        found = columns_of(self.variables)
        if block not in found:
            raise ValueError(
                f"block {block!r} has no sites that were fitted: give one of {self.local}."
            )
        return found[block]

    def sites(self, block: str) -> tuple[np.ndarray, np.ndarray]:
        """(means, covariances) of a block's sites in free coordinates, all else integrated out.

        block: one of `local`.
        """
        at = self.columns(block)
        slopes = self.slopes[:, at]
        return self.modes[:, at], self.covariances[:, at, at] + slopes @ slopes.transpose(0, 2, 1)

    def gaussian(self, block: str | tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """(mean, covariance) of a block's free coordinates, the others integrated out.

        block: a name, or a tuple of names, as in Fit.gaussian; of at most 2,000 free coordinates:
            `sites` serves blocks of more.
        """
        names = (block,) if isinstance(block, str) else tuple(block)
        parts: list[tuple[np.ndarray, np.ndarray]] = []  # means; what moves with `common`
        own: list[tuple[int, slice, int]] = []
        size = 0
        for name in names:
            if name in self.local:
                at = self.columns(name)
                own.append((size, at, at.stop - at.start))
                mean, moves = self.modes[:, at].ravel(), self.slopes[:, at]
                parts.append((mean, moves.reshape(len(mean), moves.shape[2])))
            elif self.common is not None and name in self.common.blocks:
                a, b = self.common.coordinates.parts[name][3:5]
                parts.append((self.common.mean[a:b], self.common.factor[a:b]))
            else:
                raise ValueError(f"block {name!r} was not fitted: give one of {self.blocks}.")
            size += len(parts[-1][0])
        if size > DENSE:
            raise ValueError(
                f"{', '.join(names)}: a covariance of {size:,} free coordinates would fill memory: "
                f"name blocks of at most {DENSE:,}; fit.sites({names[0]!r}) has one for each site."
            )
        with_common = np.concatenate([part[1] for part in parts])
        covariance = with_common @ with_common.T
        for first, at, width in own:
            for other, beside, size in own:
                for g in range(len(self.modes)):
                    i, j = first + g * width, other + g * size
                    covariance[i : i + width, j : j + size] += self.covariances[g, at, beside]
        return np.concatenate([part[0] for part in parts]), covariance

    def draw(self, rng: np.random.Generator, wide: float = 1.0) -> dict[str, Any]:
        """Values of the fitted blocks, drawn from the Gaussian.

        rng: a numpy Generator.
        wide: what standard deviations are multiplied by.
        """
        floats, values = self.point.copy(), {}
        z = np.zeros(self.slopes.shape[2])
        if self.common is not None:
            for _ in range(OFF):
                z = wide * rng.standard_normal(len(z))
                lifted, _, jacobian = self.common.coordinates.lift(
                    self.common.mean + self.common.factor @ z
                )
                if jacobian[0] > -np.inf:
                    break
            else:
                raise RewardError("draws of the fit lie off the support of its blocks.")
            values = self.common.coordinates.dict_of(lifted[0])
        noise = rng.standard_normal(self.modes.shape)
        own = np.einsum("gij,gj->gi", np.linalg.cholesky(self.covariances), noise)
        place_at(self.variables, self.modes + self.slopes @ z + wide * own, floats)
        for v in self.variables:
            values[v.block.name] = part_of(v, floats).reshape(v.block.shape).copy()
        return {name: values[name] for name in self.blocks}

    def start(self, rng: np.random.Generator, wide: float = 2.0, centre=None) -> dict[str, Any]:
        """A state of the model to start a chain from, drawn around the modes.

        rng, wide: as in draw.
        centre: as in Fit.start; there is one mode, and it is not used.
        """
        co = Coordinates(self.model, self.blocks, self.state)
        for _ in range(TRIES):
            state, floats = self.draw(rng, wide), self.point.copy()
            for v in co.variables:
                part_of(v, floats)[:] = np.ravel(state[v.block.name])
            with np.errstate(all="ignore"):
                if np.isfinite(co.sums(floats[None], co.spans)[0]):
                    return self.state | state
        return self.state

    def log_prob(self, state: dict[str, Any]) -> float:
        """Log density of draw() at values of the fitted blocks; others are not read.

        state: values by name, as draw() gives them.
        """
        floats, value = self.point.copy(), 0.0
        for v in self.variables:
            given = np.ravel(np.asarray(state.get(v.block.name, ()), dtype=float))
            if len(given) != v.block.length:
                raise ValueError(
                    f"log_prob needs {self.blocks}, and {v.block.name} of {v.block.length} values."
                )
            if not np.all((given > v.constraint.low) & (given < v.constraint.high)):
                return -np.inf
            part_of(v, floats)[:] = given
        u, z = free_of(self.variables, floats), np.zeros(self.slopes.shape[2])
        if self.common is not None:
            value = self.common.log_prob(state)
            if value == -np.inf:
                return value
            co = self.common.coordinates
            for name, part in co.parts.items():
                floats[part[5] : part[6]] = np.ravel(state[name])
            z = np.linalg.solve(self.common.factor, co.free(floats) - self.common.mean)
        away = u - self.modes - self.slopes @ z
        square = np.sum(away * np.linalg.solve(self.covariances, away[:, :, None])[:, :, 0])
        logs = np.linalg.slogdet(self.covariances)[1].sum() + away.size * log(2.0 * pi)
        return float(value - 0.5 * (square + logs) - place_at(self.variables, u, floats).sum())


def slopes_of(constraint, u: np.ndarray) -> np.ndarray:
    """|dx/du| of values that have their constraint one by one."""
    found, x = np.zeros(len(u)), np.zeros(len(u))
    lift_sites(constraint.kind, constraint.low, constraint.high, u.copy(), x, 1, found)
    return np.exp(found)


# ------------------------------------------------------------------------------------- the fit
def is_local(model, name: str) -> bool:
    """Do the sites of a block see data, and have priors, of their own."""
    v = model.variables[name]
    return v.touches is not None and v.support == 0 and v.place < 0 and name in model.site_prior


def local_blocks(co: Coordinates) -> tuple[str, ...]:
    """The blocks that are fitted site by site: of most numbers, and those numbered alike.

    Others that are crossed with them are fitted with what sites have in common, if they are small.
    """
    model = co.model
    found = [name for name in co.blocks if is_local(model, name)]
    if not found:
        return ()
    first = max(found, key=lambda name: model.variables[name].block.length)
    own = model.variables[first].touches
    return tuple(
        name for name in found
        if all(np.array_equal(a, b) for a, b in
               zip(model.variables[name].touches, own, strict=True))
    )  # fmt: skip


def goes_by_site(co: Coordinates, local: tuple[str, ...]) -> bool:
    """Are there sites, and too many numbers for one Gaussian of all."""
    most = MOST_PARAMETERS if co.model.predictors is None else MOST_DENSE
    return co.size > most and len(local) > 0


def common_blocks(co: Coordinates, local: tuple[str, ...]) -> tuple[str, ...]:
    """The other blocks of a fit, which must be few numbers."""
    names = tuple(name for name in co.blocks if name not in local)
    size = sum(b - a for a, b in (co.parts[name][3:5] for name in names))
    if size > MOST:
        wide = max(names, key=lambda name: co.parts[name][4] - co.parts[name][3])
        why = f"name fewer, sm.laplace(model, {local}), and the others are held"
        if is_local(co.model, wide):
            why = (
                f"{wide!r} is crossed with {local[0]!r}: hold one of them, by naming the blocks to "
                "fit"
            )
        raise ValueError(
            f"beside the {co.model.variables[local[0]].sites:,} sites of {', '.join(local)} there "
            f"are {size:,} free coordinates of {', '.join(names)}, and at most {MOST} are fitted: "
            f"{why}."
        )
    return names


def fit_hierarchy(
    model, co: Coordinates, local: tuple[str, ...], starts: int, rng, tolerance: float, bar
) -> HierarchyFit:
    """What laplace returns of blocks some of which are fitted site by site."""
    names = common_blocks(co, local)
    if not names:
        return fit_sites(model, co, local)
    state, jets = rng.bit_generator.state, worth_jets(co, local)
    labels = Coordinates(model, names, co.dict_of(co.floats, model.variables.values())).labels

    def fitted(jets: bool) -> HierarchyFit:
        """The fit, by derivatives or by differences."""

        def search(kinks: np.ndarray) -> tuple[HierarchyFit, np.ndarray]:
            rng.bit_generator.state = state
            marginal = marginal_of(model, co, local, names, bar, jets)
            marginal.kinks, near = kinks, max(tolerance, ROUGH) if kinks.any() else tolerance
            try:
                return fit_both(marginal, co, local, starts, rng, near)
            except FAILURES as error:
                more = marginal.kinks_found(marginal.last, ended=False)
                if np.any(more & ~kinks):
                    raise EndedAtKinksError(more) from error
                marginal.check_smooth()
                raise

        fit, near = past_kinks(search, labels)
        warn_of_kinks(near, labels)
        return fit

    try:
        return fitted(jets)
    except (NotSmoothError, *FAILURES) as error:
        if jets and not isinstance(error, NotSmoothError):
            raise
        if not jets and (isinstance(error, RewardError) or not has_jets(model)):
            raise
        with suppress(NotSmoothError, *(() if jets else FAILURES)):
            return fitted(not jets)
        raise


def fit_sites(model, co: Coordinates, local: tuple[str, ...]) -> HierarchyFit:
    """The fit of sites alone, given the rest of the state."""
    sites = Sites(model, local, co.ints, co.floats.copy())
    sites.check()
    now = usable(sites.settle(sites.free(), learn=True), sites, "the state that is given")
    rest = sites.rest(sites.place(now.u)[1]) + model.constant()
    slopes = np.zeros((sites.count, sites.size, 0))
    return made(co, sites, now, None, slopes, rest, now.integral + rest)


def fit_both(
    marginal: Marginal, co: Coordinates, local: tuple[str, ...], starts: int, rng, tolerance: float
) -> tuple[HierarchyFit, np.ndarray]:
    """The fit of sites, and of what they have in common; and along which of that are kinks."""
    sites, own, model = marginal.sites, marginal.coordinates, co.model
    sites.check()
    start = own.free(sites.floats)
    usable(marginal.at(start, marginal.u, learn=True)[1], sites, own.show(start))
    now, heights, _ = several(marginal, start, starts, rng, tolerance)
    found = marginal.sharpened(now[0])
    gain, kinks = now[1:], marginal.kinks_found(found, ended=True)
    if found is not now[0]:
        move = np.linalg.solve(found.curvature, found.gradient)
        gain = (move, 0.5 * float(move @ found.gradient))
    mean = found.u + gain[0]
    now = usable(marginal.at(mean, marginal.u, learn=True)[1], sites, own.show(mean))
    common = finished(own, heights, marginal.passes, found, *gain)
    slopes = marginal.slopes_along(common, now.u)
    jacobian = marginal.put(mean)
    rest = sites.rest(sites.place(now.u)[1]) + jacobian + model.constant()
    point = sites.floats.copy()
    common = replace(common, point=point, state=co.dict_of(point, model.variables.values()))
    return made(co, sites, now, common, slopes, rest, common.log_evidence), kinks


def made(co, sites: Sites, now: Settled, common, slopes, rest: float, evidence) -> HierarchyFit:
    """The fit, of sites that are at their modes."""
    floats = sites.floats
    state = co.dict_of(floats, co.model.variables.values())
    return HierarchyFit(
        co.model, co.blocks, sites.names, common, floats.copy(), state, now.u,
        np.linalg.inv(now.precision), slopes, now.height + rest, float(evidence), sites.passes,
    )  # fmt: skip


def usable(found: Settled, sites: Sites, where: str) -> Settled:
    """Sites that have modes, or an error that says what is wrong."""
    if found.usable:
        return found
    raise RewardError(
        f"the sites of {', '.join(sites.names)} have no modes given the rest, at {where:.200}: "
        f"{sites.trouble}. Start inside the support, by given={{...}}, and give every site a prior "
        "that holds it, site_prior={...}."
    )
