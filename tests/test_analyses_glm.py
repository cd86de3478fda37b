"""The analyses of ratings and of times: what made the data, and scipy's optimum by hand."""

import numpy as np
import pytest
from scipy import optimize

from tests.test_analyses import loaded

SIZE = 12_000


@pytest.mark.slow
def test_what_guests_said_of_hotels():
    """Within 5 standard deviations of what made them: an alarm in 10^5."""
    module = loaded("ordered_ratings")
    frame = module.ratings(SIZE)
    _, trace, said = module.analysis(frame, draws=500)
    truth = {
        "beta[I(stars - 3)]": 0.8, "beta[noise]": -0.5, "beta[C(site)[T.coast]]": 0.6,
        "cutpoints[poor|fair]": -2.0, "cutpoints[fair|good]": -0.4, "cutpoints[good|superb]": 1.5,
    }  # fmt: skip
    table = trace.summary()
    assert table.index.tolist() == list(truth)
    assert np.all(np.abs(table["mean"] - [*truth.values()]) < 5.0 * table["sd"])
    assert table["sd"].max() < 0.05 and table["ess_bulk"].min() > 400.0
    shares = said.summary()
    assert np.all(np.abs(shares["mean"] - shares["observed"]) < 4.0 * shares["sd"])


def mode_of(frame, prior_sd=10.0):
    """Of the log posterior by scipy: the log density, or log(S(y) - S(latest))."""
    x = np.column_stack([np.ones(len(frame)), frame.load, frame.maker == "B"])
    y, late = frame.years.to_numpy(), frame.latest.to_numpy()

    def minus(u):
        shape, scale = np.exp(u[3]), np.exp(x @ u[:3])
        with np.errstate(all="ignore"):
            first, last = (y / scale) ** shape, (late / scale) ** shape
            known = u[3] + shape * np.log(y / scale) - np.log(y) - first
            between = np.log(np.exp(-first) - np.exp(-last))
        prior = u[:3] @ u[:3] / prior_sd**2 + u[3] ** 2 / 4.0
        return 0.5 * prior - np.where(y == late, known, between).sum()

    options = {"xatol": 1e-6, "fatol": 1e-6, "maxiter": 4_000}
    start = np.array([1.0, 0.0, 0.0, 0.0])
    return optimize.minimize(minus, start, method="Nelder-Mead", options=options).x


@pytest.mark.slow
def test_how_long_machines_run():
    """Means are next to the mode that scipy finds, of 12,000 data; and so many run on as did."""
    module = loaded("survival")
    frame = module.machines(SIZE)
    trace, said = module.analysis(frame, draws=500)
    table = trace.summary()
    assert [name.partition("[")[0] for name in table.index] == ["beta"] * 3 + ["log_shape"]
    allowed = (5.0 / np.sqrt(table["ess_bulk"]) + 0.05) * table["sd"]
    assert np.all(np.abs(table["mean"] - mode_of(frame)) < allowed)
    assert table["ess_bulk"].min() > 400.0
    ran = said.summary().loc["run for 5 years"]
    assert abs(ran["mean"] - np.isinf(frame.latest).mean()) < 5.0 * ran["sd"] < 0.05
