"""Mutants of sm.Thinned's rows by weight, for tests that must notice them."""


def halved(weights):
    """The process of points runs at half its rate."""
    return weights._replace(totals=0.5 * weights.totals)


def without_rare(weights):
    """Outliers are neither read nor drawn."""
    totals = weights.totals.copy()
    totals[:, 1] = 0.0
    return weights._replace(totals=totals)
