"""A Gaussian around a posterior mode: what sm.laplace returns, and the coordinates it lives in."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from math import log, pi
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal, norm

from subsample_mcmc.constraints import COORDINATES, CUBEROOT, SIMPLEX, inside, to_block, to_free
from subsample_mcmc.control.reference import gathered, whole_state
from subsample_mcmc.jit import jit
from subsample_mcmc.kernels.kernel import Run
from subsample_mcmc.kernels.trial import make_trial, model_sources

BLOCK, SHOWN, PANELS = 8192, 12, 24  # rows read at a time; components in a repr, in a figure
NODES, REACH = 13, 4.0  # of a line through the mode; how far it goes, in standard deviations

free_at, is_inside = (getattr(f, "py_func", f) for f in (to_free, inside))
_lifts: dict[Any, Any] = {}


def lift_of(prior) -> Any:
    """The compiled half of Coordinates.lift."""
    if prior not in _lifts:

        @jit
        def lift(state, floats, kinds, limits, ends, points, values, base):
            for p in range(len(points)):
                total = 0.0
                for k in range(len(kinds)):
                    u = points[p, ends[k, 0] : ends[k, 1]]
                    x = floats[ends[k, 2] : ends[k, 3]]
                    total += to_block(kinds[k], limits[k, 0], limits[k, 1], u, x)
                for j in range(len(floats)):
                    values[p, j] = floats[j]
                base[p, 0] = total
                base[p, 1] = total + prior(state) if total > -np.inf else total

        _lifts[prior] = lift
    return _lifts[prior]


class Coordinates:
    """Some continuous blocks of a model as one vector of free coordinates; the rest is held."""

    def __init__(self, model, names, given: dict[str, Any]):
        every = [name for name, v in model.variables.items() if not v.support]
        names = every if names is None else [names] if isinstance(names, str) else list(names)
        wrong = [name for name in names or model.names[:1] if name not in every]
        if wrong:
            raise ValueError(
                f"{wrong[0]!r} is no continuous block of the model, which has {every}: fit these. "
                f"Discrete blocks are held at a value, which given={{{wrong[0]!r}: 0}} chooses."
            )
        self.model, self.ints, self.floats = model, model.ints.copy(), model.floats.copy()
        model.set_state(self.ints, self.floats, given)
        self.variables = [v for name, v in model.variables.items() if name in names]
        self.parts: dict[str, tuple] = {}  # kind, low, high, ends in u, ends in the floats
        self.labels, end = [], model.size
        for v in self.variables:
            to, a, c = v.constraint, len(self.labels), v.block.start
            self.labels += [label(v.block, j) for j in range(to.free_length(v.block.length))]
            ends = a, len(self.labels), c, c + v.block.length
            self.parts[v.block.name] = (to.kind, to.low, to.high, *ends)
        self.size, self.blocks = len(self.labels), tuple(self.parts)
        self.spans = [(i, min(i + BLOCK, end)) for i in range(0, end, BLOCK)]  # of all rows

    def free(self, floats: np.ndarray) -> np.ndarray:
        """Free coordinates of all continuous values of the model."""
        u = np.zeros(self.size)
        for kind, low, high, a, b, c, d in self.parts.values():
            free_at(kind, low, high, floats[c:d], u[a:b])
        return u

    def lift(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of each point: all continuous values, log |dx/du| + log prior, and log |dx/du|."""
        floats, points = self.floats.copy(), np.ascontiguousarray(np.atleast_2d(points))
        values, base = np.empty((len(points), len(floats))), np.empty((len(points), 2))
        state, lift = self.model.state(self.ints.copy(), floats), lift_of(self.model.compiled[2])
        parts = np.array(list(self.parts.values()))
        kinds, limits, ends = parts[:, 0].astype(int), parts[:, 1:3], parts[:, 3:].astype(int)
        lift(state, floats, kinds, limits, ends, points, values, base)
        return values, base[:, 1], base[:, 0]

    def slopes(self, u: np.ndarray) -> np.ndarray:
        """dx/du, (continuous values, free coordinates)."""
        found = []
        for step in (2e-3, 1e-3):  # coordinates change on the scale of 1
            up, down = u + step * np.eye(self.size), u - step * np.eye(self.size)
            change = self.lift(up)[0] - self.lift(down)[0]
            found.append(change / np.diag(up - down)[:, None])
        return ((4.0 * found[1] - found[0]) / 3.0).T

    def sums(self, values: np.ndarray, spans, tell=lambda rows: None) -> np.ndarray:
        """By span of rows: the log likelihood at the first line of values, its rises at the others.

        Spans are read at all points while in the cache; totals of rows would cancel, rows do not.
        """
        model, block = self.model, whole_state(len(self.floats))
        rewards = gathered(model_sources(model, touched=False).rewards)

        def part(span):
            run = Run(self.ints.copy(), values[0].copy(), np.zeros(0, dtype=np.int64))
            trial = make_trial(model, run, block, model.size, values)
            rows = np.arange(*span, dtype=np.int32 if model.size < 2**31 else np.int64)
            first, each, found = np.zeros(len(rows)), np.empty(len(rows)), np.empty(len(values))
            with np.errstate(all="ignore"):
                for p in range(len(values)):
                    rewards(trial, p, rows, each)
                    found[p] = (each - first).sum()
                    first = first if p else each.copy()
            tell(len(rows))
            return found

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return np.array(list(pool.map(part, spans)))

    def show(self, u: np.ndarray) -> str:
        """The model's state at free coordinates u, in words."""
        return self.model.show(self.ints, self.lift(u)[0][0])

    def dict_of(self, floats: np.ndarray, variables=None) -> dict[str, Any]:
        """Blocks by name: the fitted ones, or others."""
        found: dict[str, Any] = {}
        for v in self.variables if variables is None else variables:
            block, array = v.block, self.ints if v.support else floats
            part = array[block.start : block.start + block.length].reshape(block.shape)
            found[block.name] = part.copy() if block.shape else part.item()
        return found


def label(block, j: int) -> str:
    """Component j of a block, as users write it."""
    place = ", ".join(str(i) for i in np.unravel_index(j, block.shape)) if block.shape else ""
    return f"{block.name}[{place}]" if place else block.name


@dataclass(frozen=True, eq=False)
class Fit:
    """A Gaussian around the mode of a posterior, in the free coordinates of some blocks.

    One object, three uses: a reference point (sm.Taylor), a proposal or preconditioner (mean and
    covariance), and a pseudo-prior (draw and log_prob).

    blocks: those that were fitted, in the model's order; free coordinates follow it.
    point: all continuous values of the model at the mode. state: all its blocks by name.
    mean, covariance, factor: the Gaussian in free coordinates; factor @ factor.T = covariance.
        Where a block has no constraint these are its values.
    log_density: log likelihood + log prior + log |dx/du| at the mode.
    log_evidence: Laplace's approximation of the log of its integral.
    starts: log densities to which the searches came (with many data: on some of them); -inf: none.
    repaired: eigenvalues of the negative Hessian that were not positive and were raised.
    passes: times that all data were read.
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
        blocks = [v.block for v in self.coordinates.variables]
        rows = [(label(b, j), b.start + j) for b in blocks for j in range(b.length)]
        told = f"Fit of {', '.join(self.blocks)} to {self.model.size} data: log density "
        told += f"{self.log_density:.9g}, log evidence {self.log_evidence:.9g}"
        told += f", {self.repaired} eigenvalues repaired" if self.repaired else ""
        for name, j in rows[:SHOWN]:
            told += f"\n  {name:<10} {self.point[j]:.5g} +- {spread[j]:.2g}"
        return told + (f"\n  ... {len(rows) - SHOWN} more" if len(rows) > SHOWN else "")

    @cached_property
    def coordinates(self) -> Coordinates:
        """From free coordinates to blocks and back."""
        return Coordinates(self.model, self.blocks, self.state)

    # ---------------------------------------------------------------------------- a Gaussian
    def gaussian(self, block: str) -> tuple[np.ndarray, np.ndarray]:
        """(mean, covariance) of one block's free coordinates, the others integrated out."""
        if block not in self.blocks:
            raise ValueError(f"block {block!r} was not fitted: give one of {self.blocks}.")
        a, b = self.coordinates.parts[block][3:5]
        return self.mean[a:b].copy(), self.covariance[a:b, a:b].copy()

    @cached_property
    def log_inside(self) -> float:
        """Log probability that the Gaussian is where the blocks are: cube roots are positive."""
        kinds = np.concatenate([[p[0]] * (p[4] - p[3]) for p in self.coordinates.parts.values()])
        far = self.mean / np.sqrt(np.diag(self.covariance))
        at = np.flatnonzero((kinds == CUBEROOT) & (far < 8.0))  # others are negative once in 1e15
        if len(at) < 2:
            return float(log_ndtr(far[at]).sum())
        part = self.covariance[np.ix_(at, at)]
        return log(float(multivariate_normal.cdf(self.mean[at], np.zeros(len(at)), part)))

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        """Values of the fitted blocks, drawn from the Gaussian."""
        while True:
            u = self.mean + self.factor @ rng.standard_normal(len(self.mean))
            values, _, jacobian = self.coordinates.lift(u)
            if jacobian[0] > -np.inf:
                return self.coordinates.dict_of(values[0])

    def log_prob(self, state: dict[str, Any]) -> float:
        """Log density of draw() at values of the fitted blocks; others are not read."""
        floats = self.point.copy()
        for name, (kind, low, high, _, _, c, d) in self.coordinates.parts.items():
            if np.size(state.get(name, ())) != d - c:
                raise ValueError(f"log_prob needs {self.blocks}, and {name} of {d - c} values.")
            floats[c:d] = np.ravel(state[name])
            if not is_inside(kind, low, high, floats[c:d]):
                return -np.inf
        u = self.coordinates.free(floats)
        z = solve_triangular(self.factor, u - self.mean, lower=True)
        height = -0.5 * z @ z - np.log(np.diag(self.factor)).sum() - 0.5 * len(z) * log(2.0 * pi)
        return float(height - self.coordinates.lift(u)[2][0] - self.log_inside)

    # ------------------------------------------------------------------------- how good is it
    def compare_coordinates(self) -> dict[str, dict[str, float]]:
        """How far each positive block is from Gaussian, in each of its coordinates.

        {"sigma": {"log": 2e-4, "softplus": 7e-3, "cuberoot": 4e-5}}: take the least, by
        constraints={"sigma": sm.positive("cuberoot")}. Nats between the density and a Gaussian of
        its mean and variance (Kullback-Leibler; of the worst component), along a line on which
        the other coordinates follow as the Gaussian says. Reads the data 13 times a component.
        """
        found = {}
        for block, (kind, _, _, a, b, c, _) in self.coordinates.parts.items():
            if kind in COORDINATES.values():
                each = [self.along(kind, a + j, c + j) for j in range(b - a)]
                found[block] = {name: max(e[name] for e in each) for name in COORDINATES}
        return found

    def along(self, kind: int, j: int, at: int) -> dict[str, float]:
        """Nats from a Gaussian of a positive value, in each coordinate; j: its free coordinate."""
        co, column, sd = self.coordinates, self.covariance[j], float(self.covariance[j, j] ** 0.5)
        low = max(-REACH, -0.99 * self.mean[j] / sd) if kind == CUBEROOT else -REACH
        nodes = 0.5 * (low + REACH + (REACH - low) * np.polynomial.chebyshev.chebpts1(NODES))
        nodes = nodes[np.argsort(np.abs(nodes))]  # rises are over the first
        values, base, _ = co.lift(self.mean + nodes[:, None] * column / sd)
        heights = base + np.append(0.0, co.sums(values, co.spans).sum(axis=0)[1:])
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
        """The Gaussian's density of each component, against draws of a trace: a Figure."""
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("plot: pip install 'subsample-mcmc[plots]' for matplotlib") from error
        co, z, rng = self.coordinates, np.linspace(-4.0, 4.0, 401), np.random.default_rng(0)
        rows = [(v.block, j) for v in co.variables for j in range(v.block.length)][:PANELS]
        shape = -(-len(rows) // 4), min(4, len(rows))
        figure, axes = plt.subplots(
            *shape, figsize=(3 * shape[1], 2.2 * shape[0]), squeeze=False, layout="constrained"
        )
        for panel, (block, j) in zip(axes.flat, rows, strict=False):
            kind, _, _, a, _, c, _ = co.parts[block.name]
            if trace is not None:
                draws = np.asarray(trace.draws[block.name]).reshape(-1, block.length)[:, j]
                panel.hist(draws, bins=50, density=True, alpha=0.4, label="draws")
            if kind == SIMPLEX:  # the density of one component has no formula: drawn
                made = [np.ravel(self.draw(rng)[block.name])[j] for _ in range(2000)]
                panel.hist(made, bins=30, density=True, histtype="step", label="fit")
            else:
                sd = np.sqrt(np.diag(self.covariance)) * np.eye(co.size)[a + j]
                x = co.lift(self.mean + z[:, None] * sd)[0][:, c + j]
                with np.errstate(all="ignore"):
                    panel.plot(x, norm.pdf(z) / np.abs(np.gradient(x, z)), label="fit")
            panel.set(title=label(block, j), yticks=[])
        for panel in axes.flat[len(rows) :]:
            panel.remove()
        axes.flat[0].legend(fontsize=8)
        return figure
