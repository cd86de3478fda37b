"""A Gaussian around a posterior mode: what sm.laplace returns, and the coordinates it lives in."""

from dataclasses import dataclass
from functools import cached_property
from math import log, pi
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal, norm

from subsample_mcmc.constraints import COORDINATES, CUBEROOT, SIMPLEX, positive, to_block, to_free
from subsample_mcmc.control.reference import streamed, whole_state
from subsample_mcmc.jit import jit
from subsample_mcmc.kernels.kernel import Run
from subsample_mcmc.kernels.trial import make_trial, model_sources
from subsample_mcmc.model import flat

SHOWN = 12  # coordinates in a repr
PANELS = 24  # and in a figure
NODES, REACH = 13, 4.0  # of a line through the mode, and how far it goes, in standard deviations

block_at, free_at = (getattr(f, "py_func", f) for f in (to_block, to_free))
_lifts: dict[Any, Any] = {}


def lift_of(prior) -> Any:
    """lift(state, floats, parts, points, values, base): blocks at free coordinates, compiled."""
    if prior not in _lifts:

        @jit
        def lift(state, floats, parts, limits, points, values, base):
            for p in range(len(points)):
                base[p] = 0.0
                for k in range(len(parts)):
                    kind, a, b, c, d = parts[k]
                    base[p] += to_block(
                        kind, limits[k, 0], limits[k, 1], points[p, a:b], floats[c:d]
                    )
                for j in range(len(floats)):
                    values[p, j] = floats[j]
                if base[p] > -np.inf:
                    base[p] += prior(state)

        _lifts[prior] = lift
    return _lifts[prior]


class Coordinates:
    """Some continuous blocks of a model as one vector of free coordinates; the rest is held."""

    def __init__(self, model, blocks, ints: np.ndarray, floats: np.ndarray):
        self.model, self.ints, self.floats = model, ints, floats
        self.variables = [model.variables[name] for name in model.names if name in blocks]
        parts, self.labels, at = [], [], 0
        for v in self.variables:
            length = v.constraint.free_length(v.block.length)
            start = v.block.start
            parts.append((v.constraint.kind, at, at + length, start, start + v.block.length))
            self.labels += [label(v.block, j) for j in range(length)]
            at += length
        self.parts = parts
        self.limits = np.array([(v.constraint.low, v.constraint.high) for v in self.variables])
        self.size = at

    def free(self, floats: np.ndarray) -> np.ndarray:
        """Free coordinates of the blocks in a flat array."""
        u = np.zeros(self.size)
        for (kind, a, b, c, d), (low, high) in zip(self.parts, self.limits, strict=True):
            free_at(kind, low, high, np.asarray(floats[c:d], dtype=float), u[a:b])
        return u

    def block(self, u: np.ndarray) -> tuple[np.ndarray, float]:
        """All continuous values of the model at free coordinates u, and log |dx/du|."""
        floats, jacobian = self.floats.copy(), 0.0
        for (kind, a, b, c, d), (low, high) in zip(self.parts, self.limits, strict=True):
            with np.errstate(all="ignore"):
                jacobian += block_at(kind, low, high, u[a:b], floats[c:d])
        return floats, float(jacobian)

    def lift(self, points: np.ndarray, prior: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Of each point: all continuous values, and log prior + log |dx/du|."""
        floats = self.floats.copy()
        values, base = np.empty((len(points), len(floats))), np.empty(len(points))
        lift = lift_of(self.model.compiled[2] if prior else jit(flat, user=True, inner="always"))
        with np.errstate(all="ignore"):
            lift(
                self.model.state(self.ints.copy(), floats), floats, np.array(self.parts),
                self.limits, np.ascontiguousarray(points), values, base,
            )  # fmt: skip
        return values, base

    def slopes(self, u: np.ndarray) -> np.ndarray:
        """dx/du, (continuous values, free coordinates)."""
        found = []
        for step in (2e-3, 1e-3):  # coordinates change on the scale of 1
            up, down = u + step * np.eye(self.size), u - step * np.eye(self.size)
            change = self.lift(up, prior=False)[0] - self.lift(down, prior=False)[0]
            found.append(change / np.diag(up - down)[:, None])
        return ((4.0 * found[1] - found[0]) / 3.0).T

    def dict_of(self, floats: np.ndarray, every: bool = False) -> dict[str, Any]:
        """The fitted blocks by name, or all blocks of the model."""
        variables = self.model.variables.values() if every else self.variables
        found: dict[str, Any] = {}
        for v in variables:
            block, array = v.block, self.ints if v.support else floats
            part = array[block.start : block.start + block.length].reshape(block.shape)
            found[block.name] = part.copy() if block.shape else part.item()
        return found


def label(block, j: int) -> str:
    """How users write component j of a block."""
    if block.shape == ():
        return block.name
    return f"{block.name}[{', '.join(str(i) for i in np.unravel_index(j, block.shape))}]"


@dataclass(frozen=True, eq=False)
class Fit:
    """A Gaussian around the mode of a posterior, in the free coordinates of some blocks.

    One object, three uses: sm.Taylor(fit), a reference point; sm.pcn(fit) and Langevin's
    precondition, a proposal; and draw / log_prob, a pseudo-prior.

    blocks: those that were fitted, in the model's order; free coordinates follow it.
    point: all continuous values of the model at the mode. state: all its blocks by name.
    mean, covariance, factor: of the Gaussian in free coordinates, with factor @ factor.T the
        covariance. Where a block has no constraint these are its values.
    log_density: log likelihood + log prior + log |dx/du| at the mode.
    log_evidence: Laplace's approximation of the log of the integral, unnormalised as the
        likelihood and the prior were written.
    starts: log densities of the modes that the search came to, by start (on a subsample, if the
        model has many data); -inf where it came to none.
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
        told = f", {self.repaired} eigenvalues repaired" if self.repaired else ""
        lines = [
            f"Fit of {', '.join(self.blocks)} to {self.model.size} data: log density "
            f"{self.log_density:.6g}, log evidence {self.log_evidence:.6g}{told}"
        ]
        slopes = self.coordinates.slopes(self.mean)
        spread = np.sqrt(np.sum((slopes @ self.factor) ** 2, axis=1))
        rows = [
            (label(v.block, j), v.block.start + j)
            for v in self.coordinates.variables for j in range(v.block.length)
        ]  # fmt: skip
        width = max(len(name) for name, _ in rows[:SHOWN])
        lines += [
            f"  {name:<{width}}  {self.point[j]:.5g} +- {spread[j]:.2g}" for name, j in rows[:SHOWN]
        ]
        lines += [f"  ... {len(rows) - SHOWN} more"] if len(rows) > SHOWN else []
        return "\n".join(lines)

    @cached_property
    def coordinates(self) -> Coordinates:
        """From free coordinates to blocks and back."""
        ints, floats = self.model.ints.copy(), self.point.copy()
        self.model.set_state(ints, floats, {k: v for k, v in self.state.items()
                                            if self.model.variables[k].support})  # fmt: skip
        return Coordinates(self.model, self.blocks, ints, floats)

    # ----------------------------------------------------------------------------- a Gaussian
    def gaussian(self, block: str) -> tuple[np.ndarray, np.ndarray]:
        """(mean, covariance) of one block's free coordinates, the others integrated out."""
        if block not in self.blocks:
            raise ValueError(
                f"block {block!r} was not fitted: the fit has {self.blocks}. Name it in "
                "sm.laplace(model, blocks)."
            )
        _, a, b, _, _ = self.coordinates.parts[self.blocks.index(block)]
        return self.mean[a:b].copy(), self.covariance[a:b, a:b].copy()

    @cached_property
    def log_inside(self) -> float:
        """Log probability that the Gaussian is where the blocks are: cube roots are positive."""
        kinds = np.concatenate([[k] * (b - a) for k, a, b, _, _ in self.coordinates.parts])
        at = np.flatnonzero(kinds == CUBEROOT)
        far = self.mean[at] / np.sqrt(np.diag(self.covariance)[at])
        at = at[far < 8.0]  # the others are negative once in 1e15
        if len(at) < 2:
            return float(log_ndtr(far[far < 8.0]).sum())
        part = self.covariance[np.ix_(at, at)]
        return log(float(multivariate_normal.cdf(self.mean[at], np.zeros(len(at)), part)))

    def draw(self, rng: np.random.Generator) -> dict[str, Any]:
        """The fitted blocks, drawn from the Gaussian."""
        while True:
            u = self.mean + self.factor @ rng.standard_normal(len(self.mean))
            floats, jacobian = self.coordinates.block(u)
            if jacobian > -np.inf:
                return self.coordinates.dict_of(floats)

    def log_prob(self, state: dict[str, Any]) -> float:
        """Log density of draw() at values of the fitted blocks; other blocks are not read."""
        missing = [name for name in self.blocks if name not in state]
        if missing:
            raise ValueError(f"state has no block {missing[0]!r}: log_prob needs {self.blocks}.")
        floats = self.point.copy()
        for v in self.coordinates.variables:
            values, inner = np.asarray(state[v.block.name], dtype=float), v.constraint
            if values.size != v.block.length:
                raise ValueError(
                    f"state {v.block.name} has shape {values.shape}: the block has {v.block.shape}."
                )
            part = values.ravel()
            if not np.all((part > inner.low) & (part < inner.high)) or (
                inner.kind == SIMPLEX and abs(part.sum() - 1.0) > 1e-8
            ):
                return -np.inf
            floats[v.block.start : v.block.start + v.block.length] = part
        u = self.coordinates.free(floats)
        z = solve_triangular(self.factor, u - self.mean, lower=True)
        scale = np.log(np.diag(self.factor)).sum() + 0.5 * len(z) * log(2.0 * pi)
        return float(-0.5 * z @ z - scale - self.coordinates.block(u)[1] - self.log_inside)

    # ----------------------------------------------------------------------------- how good is it
    def compare_coordinates(self) -> dict[str, dict[str, float]]:
        """Which coordinates make each positive block most nearly Gaussian: the smallest number.

        Nats by which the marginal density differs from a Gaussian with its mean and variance
        (Kullback-Leibler; of the block's worst component), followed along a line through the mode
        on which the other coordinates are at their conditional means. Reads all data 13 times for
        each component. Then declare, for example, constraints={"sigma": sm.positive("cuberoot")}.
        """
        found: dict[str, dict[str, float]] = {}
        for v, (kind, a, b, c, _) in zip(
            self.coordinates.variables, self.coordinates.parts, strict=True
        ):
            if kind not in COORDINATES.values():
                continue
            worst = dict.fromkeys(COORDINATES, 0.0)
            for j in range(a, b):
                for name, nats in self.along(j, c + j - a).items():
                    worst[name] = max(worst[name], nats)
            found[v.block.name] = worst
        return found

    def along(self, j: int, at: int) -> dict[str, float]:
        """Nats from a Gaussian, by coordinates of the positive value `at`, free coordinate j."""
        co, sd = self.coordinates, float(np.sqrt(self.covariance[j, j]))
        low = -REACH
        if any(kind == CUBEROOT and a <= j < b for kind, a, b, _, _ in co.parts):
            low = max(low, -0.99 * self.mean[j] / sd)
        nodes = np.polynomial.chebyshev.chebpts1(NODES)
        nodes = 0.5 * (low + REACH) + 0.5 * (REACH - low) * nodes
        values, base = co.lift(self.mean + nodes[:, None] * self.covariance[j] / sd)
        total = streamed(model_sources(self.model, touched=False).total)
        run = Run(co.ints.copy(), co.floats.copy(), np.zeros(0, dtype=np.int64))
        whole = whole_state(len(co.floats))
        probe = make_trial(self.model, run, whole, self.model.size, values)
        heights = base + [total(probe, p, self.model.size) for p in range(NODES)]
        good = np.isfinite(heights)
        curve = np.polynomial.Chebyshev.fit(
            nodes[good], heights[good] - heights[good].max(), min(NODES - 3, good.sum() - 1)
        )
        z = np.linspace(low, REACH, 4001)
        line = np.repeat(self.mean[None], len(z), axis=0)
        line[:, j] += z * sd
        x = co.lift(line, prior=False)[0][:, at]
        p = np.exp(curve(z) - curve(z).max())
        p /= np.trapezoid(p, z) if hasattr(np, "trapezoid") else np.trapz(p, z)
        found, weight = {}, p * (z[1] - z[0])
        for name in COORDINATES:
            v = np.zeros(len(x))
            free_at(positive(name).kind, 0.0, np.inf, x, v)
            mean = v @ weight
            spread = (v - mean) ** 2 @ weight
            entropy = -weight @ np.log(np.maximum(p, 1e-300) / np.gradient(v, z))
            found[name] = float(max(0.5 * log(2.0 * pi * np.e * spread) - entropy, 0.0))
        return found

    def plot(self, trace=None) -> Any:
        """The Gaussian's density of every component, against draws of a trace: a Figure."""
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(
                "plot draws with matplotlib, which is not installed: "
                "pip install 'subsample-mcmc[plots]'."
            ) from error
        co = self.coordinates
        rows = [(v, k, j) for v, k in zip(co.variables, co.parts, strict=True)
                for j in range(v.block.length)][:PANELS]  # fmt: skip
        columns = min(4, len(rows))
        lines = -(-len(rows) // columns)
        figure, axes = plt.subplots(
            lines, columns, figsize=(3 * columns, 2.2 * lines), squeeze=False,
            layout="constrained",
        )  # fmt: skip
        z, rng = np.linspace(-4.0, 4.0, 401), np.random.default_rng(0)
        for panel, (v, (kind, a, _, c, _), j) in zip(axes.flat, rows, strict=False):
            if trace is not None:
                draws = np.asarray(trace.draws[v.block.name]).reshape(-1, v.block.length)[:, j]
                panel.hist(draws, bins=50, density=True, alpha=0.4, label="draws")
            if kind == SIMPLEX:  # no density of one component is known: drawn
                made = [np.ravel(self.draw(rng)[v.block.name])[j] for _ in range(2000)]
                panel.hist(made, bins=30, density=True, histtype="step", label="fit")
            else:
                sd = np.sqrt(self.covariance[a + j, a + j])
                points = np.repeat(self.mean[None], len(z), axis=0)
                points[:, a + j] += z * sd
                values, inside = co.lift(points, prior=False)
                x = values[:, c + j]
                with np.errstate(all="ignore"):
                    height = norm.pdf(z) / np.abs(np.gradient(x, z))
                height[~np.isfinite(inside)] = np.nan
                panel.plot(x, height, label="fit")
            panel.set(title=label(v.block, j), yticks=[])
        for panel in list(axes.flat)[len(rows) :]:
            panel.set_visible(False)
        axes.flat[0].legend(fontsize=8)
        return figure
