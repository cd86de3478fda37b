"""Distributions that are known exactly, and tests of samples against them.

All p-values are exact (binomial, Kolmogorov) or follow from a proved inequality; `alarm` is the
chance that a test cries wolf, shared among all that it looks at (Bonferroni).
"""

import itertools

import numpy as np
from scipy import stats

ALARM = 1e-6


# ------------------------------------------------------------------- small discrete state spaces
def log_posterior(model, names):
    """Every state of some discrete blocks, one a line, and its log posterior up to a constant."""
    ints, floats = model.ints.copy(), model.floats.copy()
    columns = [
        (model.variables[name].block.start + i, model.variables[name].support)
        for name in names
        for i in range(model.variables[name].block.length)
    ]
    states = np.array(list(itertools.product(*(range(support) for _, support in columns))))
    found = np.zeros(len(states))
    state = model.state(ints, floats)
    for s, values in enumerate(states):
        for (column, _), value in zip(columns, values, strict=True):
            ints[column] = value
        prior = 0.0 if model.log_prior is None else model.log_prior(state)
        found[s] = prior + sum(
            model.log_likelihood(state, model.data, n) for n in range(model.size)
        )
    return states, found


def normalised(log_weights):
    """Probabilities from their logs."""
    weights = np.exp(log_weights - np.max(log_weights))
    return weights / weights.sum()


def conditional(states, logp, column, temperature=1.0):
    """The transition matrix that draws one column given the others."""
    rest = np.delete(states, column, axis=1)
    same = (rest[:, None, :] == rest[None, :, :]).all(axis=2)
    weights = np.where(same, np.exp((logp - logp.max()) / temperature)[None, :], 0.0)
    return weights / weights.sum(axis=1, keepdims=True)


def contraction(matrix):
    """Dobrushin's coefficient: |nu P| <= rho |nu| for every nu of mass zero."""
    return 0.5 * max(np.abs(a - b).sum() for a, b in itertools.combinations(matrix, 2))


def transitions(before, after, states):
    """How often each state followed each."""
    counts = np.bincount(before * states + after, minlength=states * states)
    return counts.reshape(states, states)


def first_transitions(codes, states, each):
    """The first `each` steps out of every state of a chain: independent draws from its rows.

    A chain may be thought to read each row's draws from a pile of its own; the first of every
    pile are independent, whatever the order in which they were read.
    """
    order = np.argsort(codes[:-1], kind="stable")
    before = codes[order]
    place = np.arange(len(order)) - np.searchsorted(before, before)
    order = order[place < each]
    return transitions(codes[order], codes[order + 1], states)


# ------------------------------------------------------------------------------------- claims
def rows_equal(counts, matrix, alarm=ALARM):
    """Fail if independent rows of counts contradict a transition matrix.

    Cell by cell with exact binomial tests, and all rows together by their relative entropy: n
    D(observed, p) has the moment generating function of a Gamma(k - 1) variable or less (Agrawal
    2020, IEEE Trans. Inf. Theory 66(10)), so the sum exceeds t with probability at most
    exp(df - t) (t / df)^df.
    """
    n = np.broadcast_to(counts.sum(axis=-1, keepdims=True), counts.shape)
    assert n.min() > 0
    share = alarm / counts.size / 4
    chance = np.minimum(stats.binom.sf(counts - 1, n, matrix), stats.binom.cdf(counts, n, matrix))
    worst = np.unravel_index(np.argmin(chance), chance.shape)
    assert chance[worst] >= share, (
        f"cell {worst}: {counts[worst]} of {n[worst]}, expected {matrix[worst]:.5g}; "
        f"chance {chance[worst]:.1e} < {share:.1e}"
    )
    df = np.count_nonzero(matrix) - len(matrix)
    seen = counts > 0
    entropy = float((counts[seen] * np.log(counts[seen] / n[seen] / matrix[seen])).sum())
    bound = 1.0 if entropy <= df else np.exp(df - entropy + df * np.log(entropy / df))
    assert bound >= alarm / 2, f"{entropy:.1f} nats from what is expected: chance {bound:.1e}"


def rows_within(counts, matrix, delta, alarm=ALARM):
    """Fail if some row is proved further than delta from the matrix's in total variation.

    TV <= delta says that no set of outcomes has more than its probability plus delta; every set
    is tested (exact binomial).
    """
    worst = np.inf
    tests = sum(2 ** np.count_nonzero(row) for row in matrix)
    for row, found in zip(matrix, counts, strict=True):
        cells, n = np.flatnonzero(row), found.sum()
        assert n == found[cells].sum(), "an impossible transition was made"
        for k in range(1, len(cells)):
            for chosen in itertools.combinations(cells, k):
                limit = min(row[list(chosen)].sum() + delta, 1.0)
                worst = min(worst, stats.binom.sf(found[list(chosen)].sum() - 1, n, limit))
    assert worst >= alarm / tests, f"a row is more than {delta} away: chance {worst:.1e}"


def distance(counts, p):
    """Total variation between counts and probabilities."""
    return 0.5 * np.abs(counts / counts.sum() - p).sum()


def distance_margin(n, p, alarm=ALARM):
    """What n independent draws' distance from p may exceed the true one by.

    Its mean by at most sum_i sqrt(p_i (1 - p_i) / n) / 2, and the rest by McDiarmid.
    """
    return 0.5 * np.sqrt(p * (1.0 - p) / n).sum() + np.sqrt(np.log(1.0 / alarm) / (2.0 * n))


def uniform_chance(values):
    """p-value of independent values being uniform on (0, 1): exact Kolmogorov-Smirnov."""
    return stats.kstest(values, "uniform", method="exact").pvalue


def uniform(values, alarm=ALARM):
    """Fail if independent values (one column a statistic) contradict being uniform on (0, 1)."""
    for name, column in values.items():
        chance = uniform_chance(column)
        assert chance >= alarm / len(values), (
            f"{name} is not where it should be: chance {chance:.1e}"
        )


def not_uniform(values, alarm=ALARM):
    """Fail unless some statistic proves that a law is wrong: for mutants."""
    assert min(uniform_chance(column) for column in values.values()) < alarm / len(values)


def draws_have_the_law(fit, blocks, count, rng):
    """Squared distances are chi-squared of as many degrees as there are numbers."""
    mean, covariance = fit.gaussian(blocks)
    x = np.array([np.concatenate([np.ravel(v) for v in fit.draw(rng).values()])
                  for _ in range(count)])  # fmt: skip
    z = np.linalg.solve(np.linalg.cholesky(covariance), (x - mean).T)
    assert stats.kstest(np.sum(z * z, axis=0), "chi2", (len(mean),)).pvalue > 1e-4
    away = np.abs(x.mean(axis=0) - mean) / np.sqrt(np.diag(covariance) / len(x))
    assert away.max() < stats.norm.isf(0.5e-4 / len(mean))
