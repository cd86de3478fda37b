"""A Gaussian around a posterior mode: what sm.laplace returns."""

from dataclasses import dataclass, replace
from functools import cached_property
from math import log, pi
from typing import Any

import numpy as np
import scipy

from subsample_mcmc.approx.fit.coordinates import Coordinates, free_at
from subsample_mcmc.approx.fit.importance import moments
from subsample_mcmc.approx.fit.newton import FLAT, FLOOR, Local, spectrum
from subsample_mcmc.errors import warn
from subsample_mcmc.numerics.random import generator_of
from subsample_mcmc.style import folded, pyplot, safe, significant, tabled
from subsample_mcmc.target.constraints import COORDINATES, ROOTS, inside
from subsample_mcmc.target.population import whole

SHOWN, PANELS = 12, 24  # components in a repr, in a figure
UNFOLDED = 200  # components that a notebook shows on request
TRIES = 20  # starts that may be impossible
NODES, REACH = 13, 4.0  # of a line through the mode; how far it goes, in standard deviations

is_inside = getattr(inside, "py_func", inside)


@dataclass(frozen=True, eq=False)
class Fit:
    """A Gaussian around the mode of a posterior, in the free coordinates of some blocks.

    One object, three uses: a reference point (sm.Taylor), a proposal or preconditioner (mean and
    covariance), and a pseudo-prior (draw and log_prob).

    model: the one that was fitted.
    blocks: those that were fitted, in the model's order; free coordinates follow it.
    point: all continuous values of the model at the mode; of control.append(model).fit, where
        polynomials are around, which is near it.
    state: all blocks of the model at the mode, by name.
    mean, covariance, factor: the Gaussian in free coordinates; factor @ factor.T = covariance.
        Where a block has no constraint these are its values.
    log_density: log likelihood + log prior + log |dx/du| at the mode, with terms that ready models
        leave out of their log likelihoods, such as log y! of counts.
    log_evidence: Laplace's approximation of the log of its integral.
    starts: log densities to which the searches came (with many data: on some of them); -inf: none.
    repaired: eigenvalues of the negative Hessian that were not positive and were raised.
    passes: times that all data were read.

    Example:
        >>> x = np.column_stack([np.ones(2_000), np.linspace(-1.0, 1.0, 2_000)])
        >>> y = x @ [1.0, 2.0] + np.random.default_rng(0).standard_normal(2_000)
        >>> model = sm.models.glm.gaussian(x, y)
        >>> fit = sm.laplace(model)
        >>> np.sqrt(np.diag(fit.covariance)).round(2).tolist(), bool(np.isfinite(fit.log_evidence))
        ([0.02, 0.04], True)
    """

    model: Any
    blocks: tuple[str, ...]
    point: np.ndarray
    state: dict[str, Any]
    mean: np.ndarray
    covariance: np.ndarray
    factor: np.ndarray
    log_density: float
    log_evidence: float
    starts: tuple[float, ...] = ()
    repaired: int = 0
    passes: int = 0

    def __repr__(self) -> str:
        spread = np.linalg.norm(self.coordinates.slopes(self.mean) @ self.factor, axis=1)
        name = self.model.axes.at
        rows = [(name(v.block, j), v.block.start + j) for v, j in self.components()]
        told = f"Fit of {', '.join(self.blocks)} to {self.model.size} data: log density "
        told += f"{self.log_density:.9g}, log evidence {self.log_evidence:.9g}"
        told += f", {self.repaired} eigenvalues repaired" if self.repaired else ""
        width = max([10, *(len(name) for name, _ in rows[:SHOWN])])
        for name, j in rows[:SHOWN]:
            told += f"\n  {name:<{width}} {self.point[j]:.5g} +- {spread[j]:.2g}"
        return told + (f"\n  ... {len(rows) - SHOWN} more" if len(rows) > SHOWN else "")

    def _repr_html_(self) -> str:
        frame = self.to_frame()
        parts = [f"<p>{safe(str(self).splitlines()[0])}</p>", *mode_table(frame[:UNFOLDED])]
        if len(frame) > UNFOLDED:
            parts.append(f"<p>... {len(frame) - UNFOLDED:,} more: fit.to_frame() has all.</p>")
        return "\n".join(parts)

    def to_frame(self) -> Any:
        """A pandas table with one row per component: mode, and sd to first order around it."""
        import pandas

        spread = np.linalg.norm(self.coordinates.slopes(self.mean) @ self.factor, axis=1)
        name = self.model.axes.at
        names, at = zip(
            *((name(v.block, j), v.block.start + j) for v, j in self.components()), strict=True
        )
        index = pandas.Index(names, name="component")
        return pandas.DataFrame({"mode": self.point[[*at]], "sd": spread[[*at]]}, index)

    @cached_property
    def coordinates(self) -> Coordinates:
        """From free coordinates to blocks and back."""
        return Coordinates(self.model, self.blocks, self.state)

    # ---------------------------------------------------------------------------- a Gaussian
    def gaussian(self, block: str | tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """(mean, covariance) of a block's free coordinates, the others integrated out.

        Of several blocks, fit.gaussian(("b", "sigma")): theirs one after the other, in this order.

        block: a name, or a tuple of names.
        """
        names = (block,) if isinstance(block, str) else tuple(block)
        for name in names:
            if name not in self.blocks:
                raise ValueError(f"block {name!r} was not fitted: give one of {self.blocks}.")
        ends = [self.coordinates.parts[name][3:5] for name in names]
        at = np.concatenate([np.arange(a, b) for a, b in ends])
        return self.mean[at], self.covariance[np.ix_(at, at)]

    def sites(self, block: str) -> tuple[np.ndarray, np.ndarray]:
        """(means, covariances) of a block's sites in free coordinates, all else integrated out.

        block: the name of one whose values have their constraints one by one.
        """
        variable = self.model.variables.get(block)
        if variable is not None and variable.constraint.together:
            raise ValueError(
                f"block {block!r} is {variable.constraint.noun}: its values are nothing one by one."
            )
        mean, covariance = self.gaussian(block)
        width = len(mean) // variable.sites  # type: ignore[union-attr]
        at = np.arange(len(mean)).reshape(-1, width)
        return mean[at], covariance[at[:, :, None], at[:, None, :]]

    @cached_property
    def log_inside(self) -> float:
        """Log probability that the Gaussian is where the blocks are: cube roots are positive."""
        kinds = np.concatenate([[p[0]] * (p[4] - p[3]) for p in self.coordinates.parts.values()])
        far = self.mean / np.sqrt(np.diag(self.covariance))
        at = np.flatnonzero(np.isin(kinds, ROOTS) & (far < 8.0))  # others are negative once in 1e15
        if len(at) < 2:
            return float(scipy.special.log_ndtr(far[at]).sum())
        from scipy.stats import multivariate_normal  # .3 s at import, seldom needed

        part = self.covariance[np.ix_(at, at)]
        return log(float(multivariate_normal.cdf(self.mean[at], np.zeros(len(at)), part)))

    def components(self) -> list[tuple[Any, int]]:
        """Fitted values: their variables, and where they stand in them; no constant ones."""
        co, found = self.coordinates, []
        for v in co.variables:
            length = v.length(co.ints)
            constant = set(v.constraint.constant(length))
            found += [(v, j) for j in range(length) if j not in constant]
        return found

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        """Values of the fitted blocks, drawn from the Gaussian.

        rng: a numpy Generator.
        """
        while True:
            u = self.mean + self.factor @ rng.standard_normal(len(self.mean))
            values, _, jacobian = self.coordinates.lift(u)
            if jacobian[0] > -np.inf:
                return self.coordinates.dict_of(values[0])

    def start(self, rng: np.random.Generator, wide: float = 2.0, centre=None) -> dict[str, Any]:
        """A state of the model to start a chain from, drawn around the mode.

        rng: a numpy Generator.
        wide: what standard deviations are multiplied by.
        centre: free coordinates to draw around; None: the mean. Where draws lie off the support
            of the posterior, the state is that of the mode.
        """
        co, centre = self.coordinates, self.mean if centre is None else centre
        for _ in range(TRIES):
            u = centre + wide * self.factor @ rng.standard_normal(len(centre))
            with np.errstate(all="ignore"):
                values, base, _ = co.lift(u)
                if np.isfinite(base[0]) and np.isfinite(co.sums(values, co.spans)[0]):
                    return self.state | co.dict_of(values[0])
        return self.state

    def log_prob(self, state: dict[str, Any]) -> float:
        """Log density of draw() at values of the fitted blocks; others are not read.

        state: values by name, as draw() gives them.
        """
        from scipy.linalg import solve_triangular  # .1 s at import

        floats = self.point.copy()
        for name, (kind, low, high, _, _, c, d) in self.coordinates.parts.items():
            length = self.model.variables[name].block.length
            if np.size(state.get(name, ())) not in (d - c, length):
                raise ValueError(f"log_prob needs {self.blocks}, and {name} of {d - c} values.")
            floats[c:d] = np.ravel(state[name])[: d - c]
            if not is_inside(kind, low, high, floats[c:d]):
                return -np.inf
        u = self.coordinates.free(floats)
        z = solve_triangular(self.factor, u - self.mean, lower=True)
        height = -0.5 * z @ z - np.log(np.diag(self.factor)).sum() - 0.5 * len(z) * log(2.0 * pi)
        return float(height - self.coordinates.lift(u)[2][0] - self.log_inside)

    def matched(self, control=None, draws: int = 4000, inflate: float = 1.1, seed=0) -> "Fit":
        """This fit with the posterior's own mean and covariance, by importance sampling.

        Better for proposals and pseudo-priors than the curvature at the mode, by far where a
        posterior is not Gaussian in its coordinates. The point and log_density stay the mode's;
        log_evidence is the importance sampler's.

        control: sm.Taylor(...), with which no data are read.
        draws: in a round, of which there are a few; each reads all data without a control.
        inflate: factor on the covariance, as a light tail is worse than a heavy one.
        seed: None, an int, a SeedSequence, or a Generator.
        """
        if not 0.0 < inflate < np.inf:
            raise ValueError(f"inflate={inflate!r}: give a factor above 0, such as 1.1.")
        self.model.notice_changes()
        found = moments(
            self.coordinates, self.mean, self.factor, control,
            whole(draws, "draws", "how many, at least 1"), generator_of(seed),
        )  # fmt: skip
        if not found.effective:
            warn(
                f"matched: rounds of {draws} draws did not lead from the fit to the posterior of "
                f"{len(self.mean)} coordinates: the fit stays as it is. Take more draws, or "
                "coordinates that fit.compare_coordinates() likes better.",
            )
            return self
        covariance = inflate * found.covariance
        return replace(
            self, mean=found.mean, covariance=covariance, factor=np.linalg.cholesky(covariance),
            log_evidence=found.log_evidence + self.model.constant(),
        )  # fmt: skip

    # ------------------------------------------------------------------------- how good is it
    def compare_coordinates(self) -> dict[str, dict[str, float]]:
        """How far each positive block is from Gaussian, in each of its coordinates.

        {"sigma": {"log": 2e-4, "softplus": 7e-3, "squareroot": 1e-4, "cuberoot": 4e-5}}: take the
        least, by constraints={"sigma": sm.positive("cuberoot")}. Nats between density and Gaussian
        of its mean and variance (Kullback-Leibler; of the worst component), along a line on which
        the other coordinates follow as the Gaussian says. Reads the data 13 times a component.
        """
        self.model.notice_changes()
        found = {}
        for block, (kind, _, _, a, b, c, _) in self.coordinates.parts.items():
            if kind in COORDINATES.values():
                each = [self.along(kind, a + j, c + j) for j in range(b - a)]
                found[block] = {name: max(e[name] for e in each) for name in COORDINATES}
        return found

    def along(self, kind: int, j: int, at: int) -> dict[str, float]:
        """Nats from a Gaussian of a positive value, in each coordinate.

        kind: of its constraint.
        j: its free coordinate.
        at: its place among continuous values.
        """
        co, column, sd = self.coordinates, self.covariance[j], float(self.covariance[j, j] ** 0.5)
        low = max(-REACH, -0.99 * self.mean[j] / sd) if kind in ROOTS else -REACH
        nodes = 0.5 * (low + REACH + (REACH - low) * np.polynomial.chebyshev.chebpts1(NODES))
        nodes = nodes[np.argsort(np.abs(nodes))]  # rises are over the first
        values, base, _ = co.lift(self.mean + nodes[:, None] * column / sd)
        heights = base + np.append(0.0, co.sums(values, co.spans)[1:])
        good = np.isfinite(heights)
        curve = np.polynomial.Chebyshev.fit(nodes[good], heights[good], min(10, good.sum() - 1))
        z = np.linspace(low, REACH, 4001)
        line = self.mean + z[:, None] * sd * np.eye(co.size)[j]
        x, density = co.lift(line)[0][:, at], np.exp(curve(z) - curve(z).max())
        weights, found = density / density.sum(), {}
        density = weights / (z[1] - z[0])
        for name, other in COORDINATES.items():
            v = np.zeros(len(x))
            free_at(other, 0.0, np.inf, x, v)
            variance = weights @ (v - weights @ v) ** 2
            entropy = -weights @ np.log(np.maximum(density, 1e-300) / np.gradient(v, z))
            found[name] = float(max(0.5 * log(2.0 * pi * np.e * variance) - entropy, 0.0))
        return found

    def plot(self, trace=None) -> Any:
        """The Gaussian's density of each component, against draws of a trace: a Figure.

        trace: draws to compare with; None: the densities alone.
        """
        plt = pyplot("fit.plot")
        co, z, rng = self.coordinates, np.linspace(-4.0, 4.0, 401), np.random.default_rng(0)
        rows = [(v.block, j) for v, j in self.components()][:PANELS]
        shape = -(-len(rows) // 4), min(4, len(rows))
        figure, axes = plt.subplots(
            *shape, figsize=(3 * shape[1], 2.2 * shape[0]), squeeze=False, layout="constrained"
        )
        for panel, (block, j) in zip(axes.flat, rows, strict=False):
            a, _, c, _ = co.parts[block.name][3:]
            if trace is not None:
                draws = np.asarray(trace.draws[block.name]).reshape(-1, block.length)[:, j]
                panel.hist(draws, bins=50, density=True, alpha=0.4, label="draws")
            if self.model.variables[block.name].constraint.together:
                # The density of one component has no formula: drawn.
                made = [np.ravel(self.draw(rng)[block.name])[j] for _ in range(2000)]
                panel.hist(made, bins=30, density=True, histtype="step", label="fit")
            else:
                sd = np.sqrt(np.diag(self.covariance)) * np.eye(co.size)[a + j]
                x = co.lift(self.mean + z[:, None] * sd)[0][:, c + j]
                normal = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
                with np.errstate(all="ignore"):
                    panel.plot(x, normal / np.abs(np.gradient(x, z)), label="fit")
            panel.set(title=self.model.axes.at(block, j), yticks=[])
        for panel in axes.flat[len(rows) :]:
            panel.remove()
        axes.flat[0].legend(fontsize=8)
        return figure


def mode_table(frame: Any) -> list[str]:
    """HTML of modes and standard deviations, by name; what is more than a few is folded."""
    rows = [
        [name, significant(mode), significant(sd)]
        for name, mode, sd in zip(frame.index, frame["mode"], frame["sd"], strict=True)
    ]
    head = ["", "mode", "sd"]
    parts = list(tabled(head, rows[:SHOWN]))
    if more := rows[SHOWN:]:
        parts += folded(f"{len(more)} more", tabled(head, more))
    return parts


def finished(co: Coordinates, heights, passes: int, now: Local, move, gain: float) -> Fit:
    """The Gaussian at the mode; eigenvalues that are not positive are raised."""
    still = [co.labels[j] for j in range(co.size) if not now.curvature[j].any()]
    if still:
        raise ValueError(f"the log density does not depend on {', '.join(still)}: give a prior.")
    scale, values, vectors = spectrum(now.curvature)
    top = np.abs(values).max()
    bad = values < FLAT * top
    if bad.any():
        named = [f"{co.labels[j]} ({vectors[j, 0]:+.2f})" for j in np.argsort(-abs(vectors[:, 0]))]
        warn(
            f"the Hessian at the mode is not positive definite: {bad.sum()} of {co.size} "
            f"directions are flat or a saddle, the weakest along {', '.join(named[:3])}. Its "
            f"eigenvalues were raised to {FLOOR:g} of the largest: log_evidence means nothing. "
            "Give a prior that holds this direction; from a saddle, starts=5 leads away.",
        )
        values = np.where(bad, FLOOR * top, values)
    root, mean = scale[:, None] * vectors / np.sqrt(values), now.u + move
    constant = co.model.constant()
    height, heights = now.value + gain + constant, tuple(h + constant for h in heights)
    factor = np.linalg.cholesky(root @ root.T)
    evidence = height + 0.5 * co.size * log(2.0 * pi) + float(np.log(np.diag(factor)).sum())
    point = co.lift(mean)[0][0]
    return Fit(
        co.model, co.blocks, point, co.dict_of(point, co.model.variables.values()), mean,
        root @ root.T, factor, height, evidence, heights, int(bad.sum()), passes,
    )  # fmt: skip
