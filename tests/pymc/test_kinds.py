"""PyMC models of many kinds: those accepted have PyMC's density and draw; others say why not."""

import re
import types
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.approx.taylor.derivatives_jets import obstacle
from tests.helpers.marks import WARNINGS_OF_PYMC, slow_but
from tests.helpers.models import densities

pm = pytest.importorskip("pymc", reason="needs PyMC: pip install 'subsample-mcmc[pymc]'")
from tests.pymc import kinds  # noqa: E402

pytestmark = WARNINGS_OF_PYMC

REFUSED = {
    "gaussian_process": "y: a matrix of 80 rows that depends on parameters is factored.*HSGP",
    "time_series": "y: its log likelihood has shape .*lags",
    "unbounded_count": r"k is discrete and no Categorical, .* \(Poisson\)",
}
KINDS = [n for n, v in vars(kinds).items() if isinstance(v, types.FunctionType) and n != "made"]
ACCEPTED = [name for name in KINDS if name not in REFUSED]
QUICK = ["slopes_centred", "missing_covariate"]  # draw in tests that are not slow


@cache
def built(name):
    """(PyMC model, ours)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Data in . contains missing values")
        warnings.filterwarnings("ignore", "from_pymc: in place of pm.Minibatch")
        with pm.Model() as model:
            getattr(kinds, name)()
        return model, sm.from_pymc(model)


def point_near(model, rng):
    """Values of all blocks, at random: any of a discrete one, others near the start."""
    found = {}
    for part in model.parts:
        start = np.asarray(part.state)
        if part.discrete:
            found[part.block] = rng.integers(part.support, size=start.shape)
        else:
            value = part.value(start)
            found[part.block] = part.natural(value + 0.4 * rng.standard_normal(np.shape(value)))
    return found


def test_the_table_of_the_docs_has_all_kinds():
    text = (Path(__file__).parents[2] / "docs" / "guides" / "pymc_kinds.md").read_text("utf-8")
    told = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[2] in ("accepted", "refused"):
            told |= dict.fromkeys(re.findall(r"`(\w+)`", cells[1]), cells[2])
    assert told == {name: "refused" if name in REFUSED else "accepted" for name in KINDS}


@pytest.mark.parametrize("name", ACCEPTED)
def test_density_is_that_of_pymc(name, rng):
    """With Jacobians of blocks in PyMC's free coordinates; others are on their natural scale."""
    from pymc.model.transform.conditioning import remove_value_transforms

    pm_model, model = built(name)
    if name == "minibatch":  # PyMC's reads a part of the data, drawn anew
        with pm.Model() as pm_model:
            kinds.all_data()
    pm_model.rvs_to_initial_values.update(dict.fromkeys(pm_model.rvs_to_initial_values))
    held = [pm_model[p.name] for p in model.parts if not p.free]
    known = remove_value_transforms(pm_model, held).compile_logp(mode="FAST_COMPILE")
    values = []
    for _ in range(3):
        point = point_near(model, rng)
        wanted = known({p.key: np.asarray(point[p.block] + p.shift) for p in model.parts})
        each, prior = densities(model, point)
        values.append(float(np.sum(each)) + prior)
        assert np.isfinite(wanted)
        np.testing.assert_allclose(values[-1], wanted, rtol=1e-9)
    assert np.ptp(values) > 0.0


@pytest.mark.parametrize("name", ["normal_mixture", "mixture", "poisson_with_exposure"])
def test_coordinates_of_blocks_are_those_of_pymc(name, rng):
    """There and back."""
    pm_model, model = built(name)
    starts = {p.value_name: np.asarray(p.value(np.asarray(p.state))) for p in model.parts}
    point = {k: v + 0.3 * rng.standard_normal(v.shape) for k, v in starts.items()}
    parts = [p for p in model.parts if not p.free]
    values = pm_model.compile_fn(
        pm_model.replace_rvs_by_values([pm_model[p.name] for p in parts]), mode="FAST_COMPILE"
    )(point)
    for part, value in zip(parts, values, strict=True):
        ours = part.natural(point[part.value_name])
        np.testing.assert_allclose(ours, value, rtol=1e-12)
        np.testing.assert_allclose(part.value(ours), point[part.value_name], rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ACCEPTED)
def test_derivatives_by_jets_are_found(name):
    assert obstacle(built(name)[1]) == ""


@pytest.mark.parametrize("name", slow_but(QUICK, ACCEPTED))
def test_it_draws(name):
    model = built(name)[1]
    kernels = [
        sm.Gibbs(p.block) if p.discrete else sm.Metropolis(p.block, scale=0.1, selector=sm.Exact())
        for p in model.parts
    ]
    trace = sm.sample(model, sm.cycle(*kernels), 50, 50, chains=1, seed=1, progress=False, cores=1)
    for part in model.parts:
        found = np.asarray(trace.draws[part.block])
        assert found.shape == (1, 50, *np.shape(part.state)) and np.isfinite(found).all()
    assert any(np.ptp(trace.draws[p.block]) > 0 for p in model.parts)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_refused_says_why(name):
    with pytest.raises(ValueError, match=REFUSED[name]):
        built(name)
