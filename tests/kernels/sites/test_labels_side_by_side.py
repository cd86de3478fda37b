"""Labels that parts draw side by side: what a draw has from the chain that it is part of."""

import numpy as np

import subsample_mcmc as sm
from subsample_mcmc.kernels.sites import side_by_side as module
from tests.helpers.groups import sampled
from tests.helpers.labels import COUNT, labels

HOT = 20  # steps at temperature 1, before one at which labels are the most probable


def annealed(monkeypatch):
    """(labels, the most probable ones given the mean that they were drawn at)."""
    monkeypatch.setattr(module, "LEAST", 40)
    cooled = sm.Gibbs("k", temperature=np.r_[np.ones(HOT), 1e-9])
    mean = sm.Metropolis("mu", 0.5, adapt=False)
    trace = sampled(labels(), sm.side_by_side(cooled) >> mean, 60, 0)
    k, mu = (np.asarray(trace.draws[name])[0] for name in ("k", "mu"))
    odds = mu[:-1, None] * labels().data.y - 0.5 * mu[:-1, None] ** 2  # mu moves after them
    return k[1:], odds > 0.0


def test_parts_know_which_step_of_the_chain_it_is(monkeypatch):
    """A temperature is one of the step's: labels are drawn at first, and later the best."""
    k, best = annealed(monkeypatch)
    assert (k[HOT:] == best[HOT:]).all()
    assert (k[: HOT - 1] != best[: HOT - 1]).sum() > COUNT


def test_parts_that_begin_anew_would_be_seen(monkeypatch):
    move = module.Sides.move

    def at_the_first_step(self, k, now):
        now = now.copy()
        now["iteration"] = 0
        move(self, k, now)

    monkeypatch.setattr(module.Sides, "move", at_the_first_step)
    k, best = annealed(monkeypatch)
    assert (k[HOT:] != best[HOT:]).sum() > COUNT
