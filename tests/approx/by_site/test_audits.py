"""What an audit of decisions by polynomials of sites adds up: residuals in closed form.

No chance decides here but which data there are.
"""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.base import NOW, Chain
from subsample_mcmc.kernels.sites.by_site import judge_of_sites
from subsample_mcmc.numerics.pointers import pointer_to
from subsample_mcmc.target.layout import Run
from tests.approx.by_site.test_decisions import CASES, FORMS, gain_of, pair_of, residuals
from tests.helpers.by_sums import Known, at_site, model_of, reference_of, repeat


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("back", [False, True])
def test_an_audit_adds_up_what_is_left_over(case, form, back):
    model = model_of("poisson")
    known = Known(model, sm.SiteTaylor(reference_of(model, "poisson")))
    block, site, here, x, y = pair_of(known, case)
    there = here.copy()
    there[model.variables[block].block.start + max(site, 0)] = y[0]
    if back:
        here, there, x, y = there, here, y, x
    kernel = sm.Metropolis(block, selector=FORMS[form], control=known.control).settled(model)
    run = Run.over(model.ints.copy(), here.copy(), np.zeros(64, dtype=np.int64), audited=True)
    judge = judge_of_sites(kernel, model, run) if site >= 0 else kernel.judge(model, run)
    pointed, now = pointer_to(judge), np.zeros(1, dtype=NOW).view(np.recarray)
    if site >= 0:
        at_site(pointed, 0, model.variables[block].touches[0], site)
    judge.trial.candidates[0], judge.trial.candidates[1] = x, y
    now.audit = 1.0
    one = np.ones(1, dtype=np.uint64)
    chain = Chain(np.random.Generator(np.random.PCG64(1)), one, one.copy(), now)
    repeat(pointer_to(chain), pointed, 0.3, 1)
    r, tally = residuals(known, case, here, there), judge.tally[0]
    gap = 0.3 - np.log(1.0 - np.random.Generator(np.random.PCG64(1)).random())
    rows = len(r) if site >= 0 else model.size
    assert tally.audited == 1 and tally.wrong == 0
    assert tally.regret == pytest.approx(np.maximum(-r, 0.0).sum(), rel=1e-6, abs=1e-9)
    assert tally.margin == pytest.approx(abs(gap + gain_of(known, site, here, there)), rel=1e-9)
    assert tally.variance == pytest.approx((r**2).sum() - r.sum() ** 2 / rows, rel=1e-6)
