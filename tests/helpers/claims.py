"""Claims about probabilities, tested on counts with a stated rate of false alarms.

`at_most` and `at_least` fail when the data contradict a promise: they protect a guarantee, and
pass when there is too little data to tell. `below` and `above` fail unless the data prove the
claim: they are for showing that something does, or does not, work. All are the one-sided exact
binomial tests that Clopper & Pearson's (1934) interval inverts. With `alarm=1e-6` a thousand
such tests on fresh seeds would cry wolf once in a thousand runs.
"""

from scipy import stats


def at_most(k, n, p, alarm=1e-6):
    """Fail if k successes in n trials contradict a success rate of at most p."""
    chance = stats.binom.sf(k - 1, n, p)
    assert chance >= alarm, (
        f"{k} of {n} = {k / n:.4g} contradicts a rate of at most {p:g}: the chance of so many is "
        f"{chance:.1e} < {alarm:g}"
    )


def at_least(k, n, p, alarm=1e-6):
    """Fail if k successes in n trials contradict a success rate of at least p."""
    chance = stats.binom.cdf(k, n, p)
    assert chance >= alarm, (
        f"{k} of {n} = {k / n:.4g} contradicts a rate of at least {p:g}: the chance of so few is "
        f"{chance:.1e} < {alarm:g}"
    )


def equal(k, n, p, alarm=1e-6):
    """Fail if k successes in n trials contradict a success rate of exactly p."""
    at_most(k, n, p, alarm / 2)
    at_least(k, n, p, alarm / 2)


def below(k, n, p, alarm=1e-6):
    """Fail unless k successes in n trials prove that the success rate is below p."""
    _, high = interval(k, n, alarm)
    assert high < p, f"{k} of {n} = {k / n:.4g} does not prove a rate below {p:g}: up to {high:.4g}"


def above(k, n, p, alarm=1e-6):
    """Fail unless k successes in n trials prove that the success rate is above p."""
    low, _ = interval(k, n, alarm)
    assert low > p, f"{k} of {n} = {k / n:.4g} does not prove a rate above {p:g}: from {low:.4g}"


def interval(k, n, alarm=0.025):
    """Clopper-Pearson limits of a rate; each is wrong with probability at most `alarm`."""
    if n < 1 or not 0 <= k <= n:
        raise ValueError(f"k={k} successes in n={n} trials: need n >= 1 and 0 <= k <= n")
    low = stats.beta.ppf(alarm, k, n - k + 1) if k > 0 else 0.0
    high = stats.beta.isf(alarm, k + 1, n - k) if k < n else 1.0
    return float(low), float(high)
