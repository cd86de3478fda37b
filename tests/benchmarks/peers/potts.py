"""A Potts model whose sites all touch each other: Poisson-Gibbs (Zhang & De Sa 2019) beside ours.

Their model: side 20, ten colours, weights w_ij = 4.6 exp(-1.5 |i - j|^2) of pairs of equal colour,
so that a site touches 399 pairs, of which few weigh much. With L the most that the weights of a
site add up to, Poisson-Gibbs draws a site's colour x_i after counts

    s_j ~ Poisson(q w_ij + w_ij [x_i = x_j]),  q = lambda / L,

from probabilities that are proportional to exp(sum of s_j log(1 + 1 / q) over j of that colour). So
of (1 + q) sum_j w_ij pairs, drawn by an alias table on w_i, those of another colour are kept with
probability q / (1 + q). Rows are pairs looked at for one colour; a draw is that of one site.
"""

import time
from math import log1p

import numba
import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.approx.row_weights import alias_table
from tests.benchmarks.peers.walks import drawn_row

SIDE, COLOURS = 20, 10
SHARES = (0.1, 1.0, 5.0)  # of lambda / L^2, as theirs
WATCHED = 10  # sites whose colours are among the statistics


def weights_of(side: int, strength: float = 4.6, narrow: float = 1.5) -> np.ndarray:
    """w, with nothing on its diagonal."""
    at = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), -1).reshape(-1, 2)
    found = strength * np.exp(-narrow * ((at[:, None] - at[None]) ** 2).sum(axis=-1))
    np.fill_diagonal(found, 0.0)
    return found


def tables_of(weights: np.ndarray) -> tuple:
    """Alias tables of every site's pairs."""
    made = [alias_table(line) for line in weights]
    return np.array([keep for keep, _ in made]), np.array([other for _, other in made])


@numba.njit
def colour_of(rng, score):
    """A colour, with probability proportional to exp(score)."""
    weight = np.exp(score - score.max())
    u, k = rng.random() * weight.sum(), 0
    while k < len(score) - 1 and u > weight[k]:
        u -= weight[k]
        k += 1
    return k


@numba.njit
def sweeps(weights, tables, q, start, colours, count, rng):
    """(states after every sweep, pairs looked at); q: 0 for plain Gibbs."""
    keep, other = tables
    x, chain, rows = start.copy(), np.zeros((count, len(start)), dtype=np.int8), 0
    gain = log1p(1.0 / q) if q > 0.0 else 0.0
    for t in range(count):
        for i in range(len(x)):
            score = np.zeros(colours)
            if q > 0.0:
                looks = rng.poisson((1.0 + q) * weights[i].sum())
                for _ in range(looks):
                    j = drawn_row(rng, keep[i], other[i])
                    if x[j] == x[i] or rng.random() * (1.0 + q) < q:
                        score[x[j]] += gain
                rows += looks
            else:
                for j in range(len(x)):
                    score[x[j]] += weights[i, j]
                rows += len(x) - 1
            x[i] = colour_of(rng, score)
        chain[t] = x
    return chain, rows


def energies(weights: np.ndarray, chain: np.ndarray) -> np.ndarray:
    """The sum of the weights of pairs of equal colour, of every state."""
    return np.array([0.5 * np.sum(weights * (x[:, None] == x)) for x in chain])


def statistics(weights: np.ndarray, chain: np.ndarray) -> np.ndarray:
    """Of every state: its energy, the share of a colour, and which of some sites have it."""
    first = chain == 0
    parts = energies(weights, chain)[:, None], first.mean(axis=1)[:, None], first[:, :WATCHED]
    return np.concatenate(parts, axis=1)


def row(name: str, weights, chain, seconds: float, rows: float, effective) -> dict:
    """rows: all that were looked at. A colour's share is a tenth, as all are alike."""
    told, draws = statistics(weights, chain), chain.size
    ess, share = effective(told), told[:, 1]
    return {
        "method": name, "us a draw": 1e6 * seconds / draws, "rows a draw": rows / draws,
        "ESS/s": ess.min() / seconds, "mean": ess.mean() / seconds, "most": ess.max() / seconds,
        "ESS/1000 rows": 1e3 * ess.min() / rows, "energy": told[:, 0].mean(),
        "its error": told[:, 0].std() / np.sqrt(ess[0]), "share - .1": share.mean() - 0.1,
        "its error ": share.std() / np.sqrt(ess[1]),
    }  # fmt: skip


# ------------------------------------------------------------------------------------------- ours
def log_factor(state, data, n):
    return data.w[n] if state.x[data.i[n]] == state.x[data.j[n]] else 0.0


def no_prior(state, data, site, arm):
    return 0.0


def model_of(weights: np.ndarray, start: np.ndarray) -> sm.Model:
    """Its data are pairs."""
    i, j = np.triu_indices(len(weights), 1)
    ends = np.concatenate([i, j])
    pairs = np.tile(np.arange(len(i)), 2)[np.argsort(ends, kind="stable")]
    touches = {"x": (np.r_[0, np.cumsum(np.bincount(ends))], pairs)}
    data = {"i": i, "j": j, "w": weights[i, j]}
    return sm.Model(log_factor, data, {"x": start}, support={"x": COLOURS}, touches=touches)


def table(seconds: float, effective) -> list[dict]:
    """All rows; effective: the ESS of every column of a chain."""
    weights = weights_of(SIDE)
    tables, most = tables_of(weights), weights.sum(axis=1).max()
    start = np.random.default_rng(0).integers(COLOURS, size=len(weights))
    model, found = model_of(weights, start), []
    ours = {
        "ours, Exact": sm.Exact(), "ours, Normal": sm.Racing(delta=0.01),
        "ours, Betting": sm.Racing(sm.Betting(spread=weights.max()), delta=0.01),
    }  # fmt: skip
    for name, selector in ours.items():
        kernel = sm.Gibbs("x", selector, log_prior=no_prior)

        def call(draws, kernel=kernel):
            begun = time.process_time()
            trace = sm.sample(
                model, kernel, draws=draws, warmup=0, chains=1, seed=1, progress=False
            )
            return time.process_time() - begun, trace

        call(5)
        brief, _ = call(20)
        spent, trace = call(int(np.clip(seconds / brief * 20, 100, 20_000)))
        told = trace.stats["x"]
        chain, read = np.asarray(trace.draws["x"])[0], told["pulls"].sum() / COLOURS
        found.append(row(name, weights, chain, spent, float(read), effective))
    settings = {"Gibbs, compiled": 0.0} | {f"Poisson-Gibbs, {s:g} L^2": s * most for s in SHARES}
    for name, q in settings.items():
        rng = np.random.default_rng(1)
        sweeps(weights, tables, q, start, COLOURS, 2, rng)
        begun = time.process_time()
        sweeps(weights, tables, q, start, COLOURS, 20, rng)
        count = int(np.clip(seconds / (time.process_time() - begun) * 20, 100, 20_000))
        begun = time.process_time()
        chain, rows = sweeps(weights, tables, q, start, COLOURS, count, rng)
        spent = time.process_time() - begun
        found.append(row(name, weights, chain, spent, float(rows), effective))
    return found
