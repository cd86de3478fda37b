"""A verdict says yes only of what was looked at, and names the law and what stood still."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.views import mixing
from tests.runs.test_trace import made

CHAINS, DRAWS = 4, 1000


@pytest.fixture
def noise(rng):
    return rng.normal(size=(CHAINS, DRAWS))


def trace_of(blocks, facts=None, **meta):
    return made(blocks, {"g": {"steps": 1}}, {"g": {"guarantee": "exact"} | (facts or {})}, **meta)


def reported(blocks, facts=None, **meta):
    return trace_of(blocks, facts, **meta).report()


# ------------------------------------------------------------------------------- many draws
@pytest.fixture
def many(rng):
    return rng.normal(size=(CHAINS, 60_000))  # more than are ranked


def test_of_many_draws_r_hat_sees_spread(many):
    assert many.size > mixing.MOST_RANKED
    assert reported({"a": many}).verdict.converged.startswith("yes: R-hat at most 1.00")
    wide = many * np.array([5.0, 1.0, 1.0, 1.0])[:, None]
    found = reported({"a": wide})
    assert found.blocks["a"].rhat > 1.2 and found.verdict.converged.startswith("no: R-hat 1.")
    still = many.copy()
    still[2] = many.mean()
    found = reported({"a": still})
    assert found.blocks["a"].rhat > 1.2
    assert found.verdict.converged == "no: a never moved in 1 of 4 chains, and did in others."


def test_of_many_draws_those_that_are_ranked_tell_of_location(many):
    """About the R-hat of all draws, one of every two: the same chains are called apart."""
    import arviz

    off = many + np.array([0.3, 0.0, 0.0, 0.0])[:, None]
    seen = trace_of({"a": off}).mixing("a").rhat
    assert seen == pytest.approx(float(arviz.rhat(off, method="rank")), abs=2e-3) and seen > 1.01


def test_chains_that_alternate_are_not_taken_to_stand_still(rng):
    """A two-valued block that flips in every draw: every second draw has one value."""
    flips = np.arange(60_000) % 2
    k = np.stack([flips, 1 - flips, flips, 1 - flips])
    assert trace_of({"k": k}).mixing("k").rhat < 1.01
    assert (len(mixing.some_draws(4, 60_000)), mixing.some_draws(4, 50_000)) == (
        30_000, slice(None),
    )  # fmt: skip
    picked = mixing.some_draws(3, 100_001)
    assert np.all(np.diff(picked) > 0) and picked[-1] < 100_001


# --------------------------------------------------------------------------- what stood still
@pytest.mark.parametrize("chains", [1, 4])
def test_a_continuous_block_that_never_moved_is_not_called_converged(noise, chains):
    found = reported({"mu": noise[:chains], "sigma": np.ones((chains, DRAWS))})
    told = found.verdict.converged
    assert told.startswith("not known: sigma never moved, which is continuous; ")
    assert told.endswith(" sigma never moved.")
    assert any(text.startswith("sigma: it never moved in any") for text in found.warnings)
    k = np.ones((chains, DRAWS), dtype=int)  # all mass may be at one value
    assert "k never moved, which" not in reported({"mu": noise[:chains], "k": k}).verdict.converged


def test_one_component_that_never_moved_is_warned_about(rng):
    w = rng.normal(size=(CHAINS, DRAWS, 300))
    w[..., 131] = 2.0  # and is none of the 200 whose ESS is computed
    found = reported({"w": w})
    assert all(c.site != 131 for c in found.blocks["w"].components)
    assert found.verdict.converged.startswith(
        "not known: w[131] never moved, which is continuous; R-hat at most 1.0"
    )
    (warning,) = found.warnings
    assert warning.startswith("w: w[131] never moved in any chain. It is continuous")
    w[:, :, 132] = np.where(np.arange(CHAINS)[:, None] == 3, 0.0, w[:, :, 132])
    told = reported({"w": w})
    assert told.verdict.converged == "no: w[132] never moved in 1 of 4 chains, and did in others."
    assert told.warnings[0].startswith("w: w[132] never moved in 1 of 4 chains, nor did 1 more.")


def test_discrete_components_and_functions_may_have_one_value(noise):
    k = np.round(np.stack([noise, noise], axis=2)).astype(int)
    k[..., 1] = 3
    assert reported({"k": k}).verdict.converged.startswith("yes: ")
    blocks = {"a": noise, "f": np.ones((CHAINS, DRAWS))}
    kept = {"names": ["a"], "functions": ["f"], "every": []}
    found = reported(blocks, {"writes": ["a"]}, keep=kept)
    assert found.verdict.converged.startswith("yes: ")
    assert not any("continuous" in text for text in found.warnings)


def test_a_kernel_whose_proposals_are_all_refused():
    def log_likelihood(state, data, n):
        return -0.5 * (data.y[n] - state.mu[0]) ** 2

    model = sm.Model(log_likelihood, {"y": np.linspace(-1.0, 1.0, 20)}, {"mu": 0.0, "sigma": 1.0},
                     lambda state: 0.0 if state.sigma[0] == 1.0 else -np.inf)  # fmt: skip
    exact = sm.Exact()
    kernel = sm.Slice("mu", selector=exact) >> sm.Metropolis("sigma", selector=exact, adapt=False)
    trace = sm.sample(model, kernel, 500, 100, chains=2, seed=1, progress=False)
    assert trace.report().verdict.converged.startswith("not known: sigma never moved, which")


def test_blocks_that_no_kernel_moves_are_conditions(noise):
    found = reported({"a": noise, "b": np.ones((CHAINS, DRAWS))}, {"writes": ["a"]})
    assert found.verdict.converged.startswith("yes, given b, which no kernel moves: R-hat at most")


# -------------------------------------------------------------------------- what was not kept
def two(keep, draws=1000, start=None):
    def log_likelihood(state, data, n):
        return 0.0 * data.y[n]

    def log_prior(state):
        near = min((state.b[0] - 9.0) ** 2, (state.b[0] + 9.0) ** 2)
        return -0.5 * near - 0.5 * state.a[0] ** 2

    model = sm.Model(log_likelihood, {"y": np.zeros(2)}, {"a": 0.0, "b": 9.0}, log_prior)
    kernel = sm.Slice("a", selector=sm.Exact()) >> sm.Slice("b", 1.0, selector=sm.Exact())
    start = [{"a": 0.0, "b": b} for b in start or (9.0,) * 4]
    return sm.sample(model, kernel, draws, 50, seed=1, keep=keep, progress=False, start=start)


APART = -9.0, 9.0, -9.0, 9.0


@pytest.mark.parametrize("keep", [("a",), {"a": True, "b": 400}, {"a": True, "b": 20}])
def test_blocks_of_which_too_little_was_kept_are_not_known(keep):
    found = two(keep).report()
    word = "kept" if keep == ("a",) else "looked at"
    assert found.verdict.converged.startswith(f"yes of what was {word}; not known of b: R-hat at")
    assert "(a)" in found.verdict.converged
    told = [text for text in found.warnings if text.startswith("b: of each chain ")]
    assert len(told) == (keep != ("a",))
    apart = two(keep, start=APART).report().verdict.converged
    assert apart.startswith("no: R-hat" if keep == {"a": True, "b": 20} else "yes of what was ")
    assert two({"b": 400}).report().verdict.converged == (
        "not known: too few draws were kept of a, b."
    )


def test_of_wide_blocks_those_that_were_not_looked_at_are_counted(rng):
    told = reported({"w": rng.normal(size=(CHAINS, DRAWS, 1300))}).verdict.converged
    assert told.startswith("yes of what was looked at; not known of 1,100 of 1,300 of w: R-hat")


def test_thinned_draws_do_not_tell_how_long_draws_depend_on_each_other():
    whole = two(None, 12_000).report()
    some = two({"b": 100}, 12_000).report()
    a, b = some.rows
    (iat,) = [row["iat"] for row in whole.rows if row["kernel"] == "b"]
    assert iat < b["iat"] == pytest.approx(48_000 / b["ess"]) and b["iat_at_most"]
    assert not whole.rows[1]["iat_at_most"] and np.isnan(a["ess"])
    assert some.verdict.faster == "nothing to go by, of b too few draws were kept."
    assert any("b: its IAT is at most" in note for note in some.notes)
    assert "of 480 kept draws (b)" in some.verdict.converged


def test_an_iat_beyond_thinning_is_told(rng):
    walk = np.zeros((CHAINS, 4000))
    for i in range(1, 4000):
        walk[:, i] = 0.95 * walk[:, i - 1] + rng.normal(size=CHAINS)
    whole = reported({"a": walk}).rows[0]["iat"]
    trace = trace_of({"a": walk, "z": walk}, {"writes": ["z"]})
    trace.thinned = {"z": walk[:, ::5]}
    trace.draws.pop("z")
    trace.meta["keep"] = {"names": ["a"], "functions": [], "every": [["z", False, [], 5]]}
    (row,) = trace.report().rows
    assert not row["iat_at_most"] and row["iat"] == pytest.approx(whole, rel=0.25)


# --------------------------------------------------------------------------------- which law
def test_draws_of_the_prior_say_so_everywhere():
    model = sm.models.glm.poisson(np.ones((50, 1)), np.arange(50) % 3)
    trace = sm.prior(model, draws=500, seed=1, progress=False)
    report = trace.report()
    assert report.verdict.converged.startswith("yes, to the prior, not the posterior: R-hat at")
    assert report.verdict.given_up.endswith("These are draws of the prior, not of the posterior.")
    assert "500 draws of the prior;" in repr(trace) and "draws of the prior" in report.title
    assert "Of the prior, not of the posterior." in report.summary.captions
    page = trace.to_html()
    assert "draws of the prior</title>" in page and "draws of the prior</h1>" in page
    assert "<th>law</th><td>prior</td>" in page


def test_laws_and_parts_are_told_together(noise):
    facts = {"guarantee": "none", "temperature": 2.0, "writes": ["a", "b"]}
    told = reported({"a": noise}, facts, law="prior").verdict.converged
    assert told.startswith(
        "yes of what was kept, to the prior, not the posterior, to a law that is not the "
        "posterior's; not known of b: R-hat"
    )


@pytest.mark.parametrize(("off", "answer"), [(1.2, "yes of what was"), (4.0, "no: R-hat")])
def test_of_few_kept_draws_r_hat_tells_only_of_chains_far_apart(rng, off, answer):
    """R-hat of 20 draws is above 1.05 by chance."""
    b = rng.normal(size=(CHAINS, 20))
    b[0] += off
    trace = trace_of({"a": rng.normal(size=(CHAINS, DRAWS)), "b": np.zeros((CHAINS, DRAWS))})
    trace.draws.pop("b")
    trace.thinned = {"b": b}
    trace.meta["keep"] = {"names": ["a"], "functions": [], "every": [["b", False, [], 50]]}
    found = trace.report()
    assert found.blocks["b"].rhat > 1.05 and found.verdict.converged.startswith(answer)
    assert any("chains disagree" in text for text in found.warnings) == (off > 2.0)


def test_sites_at_which_chains_stand_apart_are_seen_wherever_they_are(rng):
    """Of 300 discrete sites 200 are looked at; of another one it said: yes of what was."""
    z = rng.integers(0, 2, size=(CHAINS, DRAWS, 300))
    same = z.copy()
    same[..., 131] = 1  # and is none of the 200
    assert reported({"z": same}).verdict.converged.startswith("yes of what was looked at")
    z[..., 131] = np.array([0, 0, 1, 0])[:, None]
    told = reported({"z": z})
    wanted = "no: chains stand at different values of z[131], which none leaves."
    assert told.verdict.converged == wanted and told.blocks["z"].looked == 201
    assert told.blocks["z"].rhat == np.inf and told.blocks["z"].farthest == "z[131]"


def test_a_chain_that_stood_still_under_a_tilt_has_no_effective_draws():
    """arviz calls a constant perfectly mixed: it counted as many as it had draws."""
    k = np.stack([np.zeros(200, int), np.random.default_rng(0).integers(0, 3, 200)])
    one, both = (trace_of({"k": found}, {"block": "q"}).mixing("k").ess for found in (k[1:], k))
    assert one == both
