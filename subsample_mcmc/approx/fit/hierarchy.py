"""Fits of hierarchies: many sites, each with data of its own, and what they have in common.

The joint density of sites and their scale has no mode, as a rule: it rises without end where the
scale falls to 0 and all sites come together. So what sites have in common is fitted to its own
density, from which Laplace's approximation takes the sites, and sites are fitted given that
(Tierney & Kadane 1986; Rue, Martino & Chopin 2009). The Hessian is an arrow: one small block a
site, and borders; nothing of the size of all sites squared is made.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, pi
from typing import Any

import numpy as np

from subsample_mcmc.approx.fit.coordinates import Coordinates
from subsample_mcmc.approx.fit.fit import SHOWN, TRIES, UNFOLDED, Fit, mode_table
from subsample_mcmc.approx.fit.sites import columns_of, free_of, lift_sites, part_of, place_at
from subsample_mcmc.errors import RewardError
from subsample_mcmc.style import safe

DENSE = 2_000  # free coordinates of which a covariance is made
OFF = 1_000  # draws that may lie off the support


@dataclass(frozen=True, eq=False)
class HierarchyFit:
    """A Gaussian around a hierarchy: sites given what they have in common, and that.

    What sm.laplace returns where blocks have touches and a site_prior, and there are too many
    numbers for one dense Gaussian, or no mode of all of them. What sites have in common is fitted
    to its own density, the sites integrated out; each site has a Gaussian given that, whose mean
    follows it. Memory and time are linear in data and sites.

    sm.Metropolis("a", proposal=sm.pcn(fit)) lets sites propose from it from the first step on.
    Of sites of several factors that are crossed, of which a datum sees one each, modes and slopes
    are one line a number, factor by factor, and covariances a list, of each factor.

    model: the one that was fitted.
    blocks: those that were fitted, in the model's order.
    local: those of them whose sites see data of their own, in the order of their columns in modes.
    common: the Fit of the others; its log_density and log_evidence are of their own density, sites
        integrated out. None: sites alone were fitted.
    point, state: all continuous values of the model, and all blocks by name, at the modes.
    modes: (sites, k), free coordinates of each site.
    covariances: (sites, k, k), of each site given what they have in common; where factors are
        crossed, other sites integrated out.
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
        told = f"HierarchyFit of {', '.join(self.blocks)} to {self.model.size} data: log density "
        told += f"{self.log_density:.9g}, log evidence {self.log_evidence:.9g}\n"
        told += f"  {self.told_of_sites()} fitted given "
        if self.common is None:
            return told + "the rest of the state"
        told += "what they have in common,\n  and that with the sites integrated out"
        told += " (of all together there is, as a rule, no mode)"
        frame = self.common.to_frame()
        width = max([10, *(len(name) for name in frame.index[:SHOWN])])
        for name, mode, sd in zip(frame.index[:SHOWN], frame["mode"], frame["sd"], strict=False):
            told += f"\n  {name:<{width}} {mode:.5g} +- {sd:.2g}"
        return told

    def told_of_sites(self) -> str:
        """How many there are."""
        count, k = self.modes.shape
        return f"{', '.join(self.local)}: {count:,} sites of {k} numbers, each"

    def _repr_html_(self) -> str:
        told = str(self).split("\n  and that")[0].split(",\n")[0]
        return "\n".join([f"<p>{safe(told)}</p>", *mode_table(self.to_frame(UNFOLDED))])

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
        return self.must_be_local(block, columns_of(self.variables))

    def must_be_local(self, block: str, found: dict[str, Any]) -> Any:
        """What is known of a block, if its sites were fitted.

        block: its name.
        found: by the names of those that were.
        """
        if block not in found:
            raise ValueError(
                f"block {block!r} has no sites that were fitted: give one of {self.local}."
            )
        return found[block]

    def places(self, block: str) -> np.ndarray:
        """Where a block's numbers stand among those of all sites, site by site.

        block: one of `local`.
        """
        return np.arange(self.modes.size).reshape(self.modes.shape)[:, self.columns(block)].ravel()

    def covariance_of(self, at: np.ndarray) -> np.ndarray:
        """Of some of the sites' numbers, given what they have in common.

        at: where they stand among those of all sites.
        """
        site, number = np.divmod(at, self.modes.shape[1])
        every = self.covariances[site[:, None], number[:, None], number]
        return np.where(site[:, None] == site, every, 0.0)

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
        own: list[np.ndarray] = []  # numbers of sites, and where they stand among all
        size, where = 0, []
        for name in names:
            if name in self.local:
                own.append(self.places(name))
                where.append(size + np.arange(len(own[-1])))
                moves = self.slopes.reshape(self.modes.size, -1)
                parts.append((self.modes.ravel()[own[-1]], moves[own[-1]]))
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
        if own:
            i = np.concatenate(where)
            covariance[np.ix_(i, i)] += self.covariance_of(np.concatenate(own))
        return np.concatenate([part[0] for part in parts]), covariance

    def draw(self, rng: np.random.Generator, wide: float = 1.0) -> dict[str, Any]:
        """Values of the fitted blocks, drawn from the Gaussian.

        rng: a numpy Generator.
        wide: what standard deviations are multiplied by.
        """
        floats, values = self.point.copy(), {}
        z = np.zeros(self.slopes.shape[-1])
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
        own = self.spread(rng.standard_normal(self.modes.shape))
        self.place(self.modes + self.slopes @ z + wide * own, floats)
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
                possible = np.isfinite(co.prior(co.free(floats))[0])
                if possible and np.isfinite(co.sums(floats[None], co.spans)[0]):
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
        u, z = self.free(floats), np.zeros(self.slopes.shape[-1])
        if self.common is not None:
            value = self.common.log_prob(state)
            if value == -np.inf:
                return value
            co = self.common.coordinates
            for name, part in co.parts.items():
                floats[part[5] : part[6]] = np.ravel(state[name])[: part[6] - part[5]]
            z = np.linalg.solve(self.common.factor, co.free(floats) - self.common.mean)
        away = u - self.modes - self.slopes @ z
        square, logs = self.distance(away)
        logs += away.size * log(2.0 * pi)
        return float(value - 0.5 * (square + logs) - self.place(u, floats).sum())

    # ---------------------------------------------------------- of all sites, as they are numbered
    def spread(self, noise: np.ndarray) -> np.ndarray:
        """Normal numbers with the covariances of sites.

        noise: independent ones.
        """
        return np.einsum("gij,gj->gi", np.linalg.cholesky(self.covariances), noise)

    def distance(self, away: np.ndarray) -> tuple[float, float]:
        """(squared distance of sites from their modes, log determinant of their covariances).

        away: from the modes, of all numbers.
        """
        square = np.sum(away * np.linalg.solve(self.covariances, away[:, :, None])[:, :, 0])
        return float(square), float(np.linalg.slogdet(self.covariances)[1].sum())

    def place(self, u: np.ndarray, floats: np.ndarray) -> np.ndarray:
        """Write the values of sites; log |dx/du|.

        u: free coordinates.
        floats: all continuous values.
        """
        return place_at(self.variables, u, floats)

    def free(self, floats: np.ndarray) -> np.ndarray:
        """Free coordinates of sites.

        floats: all continuous values.
        """
        return free_of(self.variables, floats)


def slopes_of(constraint, u: np.ndarray) -> np.ndarray:
    """|dx/du| of values that have their constraint one by one."""
    found, x = np.zeros(len(u)), np.zeros(len(u))
    lift_sites(constraint.kind, constraint.low, constraint.high, u.copy(), x, 1, found)
    return np.exp(found)


@dataclass(frozen=True, eq=False, repr=False)
class CrossedFit(HierarchyFit):
    """The same of several factors, such as students and lecturers: their sites together.

    modes: (numbers,) of all sites: the first factor's, one after the other, then the next's.
    covariances: (sites, k, k) of each factor, given what sites have in common, other sites
        integrated out.
    slopes: (numbers, d).
    precision: of all numbers given what they have in common.
    factors: blocks of each.
    """

    covariances: Any
    precision: Any = None
    factors: tuple[tuple[str, ...], ...] = ()

    def told_of_sites(self) -> str:
        """How many there are."""
        each = [
            f"{len(own):,} of {', '.join(names)}"
            for names, own in zip(self.factors, self.covariances, strict=True)
        ]
        return f"crossed sites: {'; '.join(each)}; together"

    @property
    def parts(self) -> Iterator[tuple[list[Any], slice, tuple[int, int]]]:
        """(variables, where their numbers stand, (sites, k)) of each factor."""
        first = 0
        for names, own in zip(self.factors, self.covariances, strict=True):
            n, k, _ = own.shape
            yield [self.model.variables[v] for v in names], slice(first, first + n * k), (n, k)
            first += n * k

    def columns(self, block: str) -> slice:
        """Which numbers of a site are a block's.

        block: one of `local`.
        """
        found: dict[str, slice] = {}
        for variables, _, _ in self.parts:
            found |= columns_of(variables)
        return self.must_be_local(block, found)

    def places(self, block: str) -> np.ndarray:
        """Where a block's numbers stand among those of all sites, site by site.

        block: one of `local`.
        """
        at = self.columns(block)
        part, shape = next((p, s) for names, (_, p, s) in zip(self.factors, self.parts, strict=True)
                           if block in names)  # fmt: skip
        return np.arange(part.start, part.stop).reshape(shape)[:, at].ravel()

    def sites(self, block: str) -> tuple[np.ndarray, np.ndarray]:
        """(means, covariances) of a block's sites in free coordinates, all else integrated out.

        block: one of `local`.
        """
        at, places = self.columns(block), self.places(block)
        own = next(c for names, c in zip(self.factors, self.covariances, strict=True)
                   if block in names)  # fmt: skip
        shape = len(own), at.stop - at.start
        slopes = self.slopes[places].reshape(*shape, -1)
        return (
            self.modes[places].reshape(shape), own[:, at, at] + slopes @ slopes.transpose(0, 2, 1)
        )  # fmt: skip

    def covariance_of(self, at: np.ndarray) -> np.ndarray:
        """Of some of the sites' numbers, given what they have in common.

        at: where they stand among those of all sites.
        """
        return self.precision.columns(at)

    def spread(self, noise: np.ndarray) -> np.ndarray:
        """Normal numbers with the covariance of sites.

        noise: independent ones.
        """
        return self.precision.spread(noise)

    def distance(self, away: np.ndarray) -> tuple[float, float]:
        """(squared distance of sites from their modes, log determinant of their covariance).

        away: from the modes, of all numbers.
        """
        return float(away @ self.precision.times(away)), -self.precision.log_det

    def place(self, u: np.ndarray, floats: np.ndarray) -> np.ndarray:
        """Write the values of sites; log |dx/du|.

        u: free coordinates.
        floats: all continuous values.
        """
        return np.concatenate([
            place_at(variables, u[at].reshape(shape), floats) for variables, at, shape in self.parts
        ])  # fmt: skip

    def free(self, floats: np.ndarray) -> np.ndarray:
        """Free coordinates of sites.

        floats: all continuous values.
        """
        return np.concatenate(
            [free_of(variables, floats).ravel() for variables, _, _ in self.parts]
        )
