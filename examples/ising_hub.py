"""A Potts model with one hub that 10,000 leaves touch: a race for the hub, sums for the leaves.

The data are edges: edge n adds `strength` if its two ends have the same colour. A leaf touches
three edges, to the hub and to two neighbours, and is drawn exactly in one loop. The hub touches
10,000, and a race decides its colour. `touches` says who touches what, as CSR tables; `audit=1.0`
makes every hub decision again as sm.Exact() would, with the same Gumbels, and counts errors.

A strong hub is decided from a few edges, but then never changes its colour again; a weak one
changes it often, and every edge counts. Leaves read all edges in any case: the race saves the
hub's part.
"""

import numpy as np

import subsample_mcmc as sm

LEAVES, COLOURS = 10_000, 4


def log_likelihood(state, data, n):
    a, b = data.a[n], data.b[n]  # a is a leaf, or -1 for the hub
    colour = state.leaf[a] if a >= 0 else state.hub[0]
    return data.strength[n] if colour == state.leaf[b] else 0.0


def no_prior(state, data, site, arm):
    return 0.0


edges, leaves = np.arange(2 * LEAVES), np.arange(LEAVES)
spoke = edges < LEAVES  # to the hub; the others tie each leaf to the next
a = np.where(spoke, -1, edges - LEAVES)
b = np.concatenate([leaves, (leaves + 1) % LEAVES])
# A leaf stands at the end of its spoke, at the end of one tie, and at the start of another.
end, edge = np.concatenate([b, a[~spoke]]), np.concatenate([edges, edges[~spoke]])
indptr = np.concatenate([[0], np.cumsum(np.bincount(end))])
touches = {"hub": ([0, LEAVES], edges[spoke]), "leaf": (indptr, edge[np.argsort(end)])}

kernel = sm.Gibbs("leaf", log_prior=no_prior) >> sm.Gibbs("hub", sm.Racing(delta=0.01))
rng = np.random.default_rng(1)
start = [{"hub": k, "leaf": rng.integers(COLOURS, size=LEAVES)} for k in range(COLOURS)]
print("strength   share read   wrong of audited   hub changes colour   leaves of the hub's colour")
for strength in (0.01, 0.03, 0.1, 0.3, 1.0):
    data = {"a": a, "b": b, "strength": np.where(spoke, strength, 0.5)}
    support = {"hub": COLOURS, "leaf": COLOURS}
    model = sm.Model(log_likelihood, data, start[0], support=support, touches=touches)
    trace = sm.sample(
        model, kernel, draws=100, warmup=0, start=start, audit=1.0, seed=2, progress=False
    )
    hub, stats = trace.draws["hub"], {k: v.sum() for k, v in trace.stats["hub"].items()}
    print(f"{strength:8}{stats['pulls'] / stats['everything']:13.1%}", end="")
    print(f"{stats['wrong']:10.0f} of {stats['audited']:.0f}", end="")
    print(f"{stats['accepted'] / stats['decisions']:21.1%}", end="")
    print(f"{(trace.draws['leaf'] == hub[..., None]).mean():29.1%}")
print("\n" + kernel.describe(model))
