"""How chains mix: which ESS it is, and which visits say how probable a value is."""

import arviz
import numpy as np
import pytest

from subsample_mcmc.runs.views.mixing import seldom_at
from tests.runs.test_trace import made


def test_ess_is_that_of_ranks(rng):
    """Of draws whose mean is that of a few of them."""
    noise = rng.normal(size=(4, 1_000))
    for i in range(1, 1_000):
        noise[:, i] = 0.8 * noise[:, i - 1] + 0.6 * noise[:, i]
    values = noise**9

    def known(method):
        return float(np.asarray(arviz.ess(values, method=method)).item())

    assert made({"a": values}, {"a": {}}).mixing("a").ess == pytest.approx(known("bulk"))
    assert abs(known("bulk") / known("mean") - 1.0) > 0.1


@pytest.mark.parametrize(("length", "told"), [
    (12, ""), (25, "k=1 was entered once, for 25 draws each"),
])  # fmt: skip
def test_a_visit_that_is_hardly_any_draw_does_not_matter(length, told):
    part = np.zeros((4, 1_000), dtype=int)
    part[0, 100 : 100 + length] = 1
    assert seldom_at(part, "k").told() == told


@pytest.mark.parametrize(("length", "told"), [
    (5, ""), (15, "k=1 was entered 8 times, for 15 draws each"),
])  # fmt: skip
def test_short_visits_say_enough(length, told):
    part = np.zeros((4, 1_000), dtype=int)
    for i in range(8):
        part[i % 4, 100 * i + 50 : 100 * i + 50 + length] = 1
    assert seldom_at(part, "k").told() == told
