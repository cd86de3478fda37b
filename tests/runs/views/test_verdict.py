"""The verdict's three lines, and the short summary: each answer, and what it rests on."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.runs.views import short_summary
from subsample_mcmc.style import significant, tabled
from tests.runs.test_trace import made

CHAINS, DRAWS = 4, 1000
AUDITED = 0, 400, 100, 0  # of kernels a, b, c, d
RACED = {"steps": 1, "decisions": 1, "pulls": 100, "everything": 2000, "early": 1, "raced": 1}


def some(total):
    """Counts per chain and draw that sum to `total`."""
    counts = np.zeros(CHAINS * DRAWS, dtype=np.int64)
    counts[:total] = 1
    return counts.reshape(CHAINS, DRAWS)


@pytest.fixture
def noise(rng):
    return rng.normal(size=(CHAINS, DRAWS))


def reported(blocks, stats=RACED, facts=None, **meta):
    return made(blocks, {"g": stats}, {"g": facts or {}}, **meta).report()


# -------------------------------------------------------------------------------------- converged
BEGINS = 3_000, 9_000, 12_000, 17_000  # of four visits, one in each chain


@pytest.mark.parametrize("usual", [0, 70, -5])
def test_a_value_entered_a_few_times_for_long_is_not_a_yes(usual):
    """Four visits of 150 draws: R-hat is 1.00, and what they say of is anything up to 3%."""
    k = np.full((CHAINS, 20_000), usual)
    for chain, begin in enumerate(BEGINS):
        k[chain, begin : begin + 150] = usual + 1
    found = reported({"k": k})
    told = found.verdict.converged
    assert found.blocks["k"].rhat < 1.01 and found.blocks["k"].ess > 400.0
    assert told.startswith("nearly: R-hat at most 1.00")
    end = "was entered 4 times, for 150 draws each: how probable it is rests on that."
    assert told.endswith(f"k={usual + 1} {end}")


@pytest.mark.parametrize("length", [80, 10])
def test_of_short_visits_a_small_probability_is_known(length):
    k = np.zeros((CHAINS, 20_000), dtype=int)
    for chain, begin in enumerate(BEGINS):
        k[chain, begin : begin + length] = 1
    assert reported({"k": k}).verdict.converged.startswith("yes: R-hat")


@pytest.mark.parametrize(("start", "alike"), [
    (None, True),
    ([{"a": 0.5}] * CHAINS, True),
    ([{"a": 0.5}] * (CHAINS - 1) + [{"a": 0.6}], False),
], ids=["not given", "one", "several"])  # fmt: skip
def test_a_yes_of_chains_that_began_at_one_state_says_so(noise, start, alike):
    """R-hat supposes that they began apart: else all may be in one mode of several."""
    told = reported({"a": noise}, start=start).verdict.converged
    end = "All began at one state, so other modes would not show: start=."
    assert told.startswith("yes: R-hat at most 1.00") and told.endswith(end) == alike
    apart = reported({"a": noise + 9.0 * np.arange(CHAINS)[:, None]}, start=start).verdict.converged
    assert apart.startswith("no: R-hat") and end not in apart
    assert end not in reported({"a": noise}).verdict.converged  # nothing is known
    assert end not in reported({"a": noise[:1]}, start=start).verdict.converged  # one chain


@pytest.mark.parametrize("share", [2e-3, 5e-5], ids=["as often", "hardly ever"])
def test_a_rare_value_that_is_left_at_once_is_one(share):
    k = (np.random.default_rng(1).random((CHAINS, 20_000)) < share).astype(int)
    assert k.sum() > 0 and reported({"k": k}).verdict.converged.startswith("yes: R-hat")


def test_the_usual_value_may_be_left_a_few_times():
    """It is entered as seldom, by a chain that returns from others."""
    k = np.full((CHAINS, 20_000), 3)
    for chain, begin in enumerate(BEGINS):
        k[chain, begin] = 2
    assert reported({"k": k}).verdict.converged.startswith("yes: R-hat")


def test_good_chains_have_converged_and_say_by_which_numbers(noise):
    found = reported({"theta": noise, "k": np.round(noise).astype(int)})
    told, worst = found.verdict.converged, found.rows[0]
    name = min(("theta", "k"), key=lambda block: found.blocks[block].ess)
    assert told.startswith("yes: R-hat at most 1.00")
    assert told.endswith(f"smallest ESS {worst['ess']:,.0f} of 4,000 draws ({name}).")


@pytest.mark.parametrize(
    ("off", "answer"), [(0.0, "yes: "), (0.5, "nearly: R-hat 1.0"), (2.0, "no: R-hat 1.")]
)
def test_one_component_that_is_apart_is_named(rng, off, answer):
    theta = rng.normal(size=(CHAINS, DRAWS, 3))
    theta[0, :, 1] += off
    found = reported({"theta": theta})
    assert found.verdict.converged.startswith(answer)
    assert off == 0.0 or "(theta[1]), above 1.01; smallest ESS" in found.verdict.converged
    flagged = [row[0] for row in found.summary.rows if row[-1].endswith(" !")]
    assert flagged == ["theta[1]"] * (off > 0.0)


def test_what_cannot_be_told_is_not_called_converged(noise):
    bad, stuck = noise.copy(), np.arange(4)[:, None] + np.zeros((4, DRAWS))
    bad[1, 7] = np.nan
    slow = np.repeat(noise[:, :50], 20, axis=1)
    for draws, answer in (
        (bad, "no: draws of a are not finite."),
        (1e300 * noise, "no: draws of a go beyond 1e+150, as where there is no law."),
        (1e140 * noise, "yes: "),
        (noise[:, :50], "not known: 50 draws per chain are too few"),
        (stuck, "no: chains stand at different values of a, which none leaves."),
        (np.ones((4, DRAWS)), "not known: nothing moved. a never moved."),
        (noise[:1], "not known: one chain cannot tell, R-hat needs two; smallest ESS"),
        (slow, "nearly: "),
    ):
        assert reported({"a": draws}).verdict.converged.startswith(answer)
    both = reported({"a": noise, "k": np.ones((4, DRAWS), dtype=int)}).verdict.converged
    assert both.startswith("yes, given k, which never moved: R-hat at most ")
    assert both.count("never moved") == 1
    assert "below the 400 that estimates need" in reported({"a": slow}).verdict.converged


def test_sites_that_never_moved_are_counted_where_others_did(rng):
    k = rng.integers(3, size=(CHAINS, DRAWS, 4))
    assert "moved" not in reported({"k": k}).verdict.converged
    k[..., 1] = k[..., 3] = 2
    told = reported({"k": k}).verdict.converged
    assert told.startswith("yes: R-hat") and told.endswith("). 2 of 4 sites of k never moved.")
    k[0, :, 1] = 1
    told = reported({"k": k}).verdict.converged
    assert told == "no: chains stand at different values of k[1], which none leaves."


def test_chains_without_a_law_have_not_converged():
    """A flat prior of a positive number that no datum sees: chains agree where floats end."""
    model = sm.Model(
        lambda state, data, n: -0.5 * (data.y[n] - state.mu[0]) ** 2, {"y": np.zeros(3)},
        {"mu": 0.0, "scale": 1.0}, constraints={"scale": sm.positive},
    )  # fmt: skip
    kernel = sm.Slice("mu") >> sm.Slice("scale")
    found = sm.sample(model, kernel, draws=2000, seed=1, progress=False).report()
    assert found.verdict.converged.startswith("no: draws of scale go beyond 1e+150")
    assert any("scale: its draws go beyond" in warning for warning in found.warnings)
    assert max(block.rhat for block in found.blocks.values()) < 1.01


def test_chains_may_converge_to_another_law(noise):
    found = reported({"a": noise}, {"steps": 1}, {"guarantee": "unadjusted", "kind": "Langevin"})
    assert found.verdict.converged.startswith("yes, to a law that is not the posterior's: R-hat")
    hot = reported({"a": noise}, {"steps": 1}, {"guarantee": "none", "temperature": 2.0})
    assert "not the posterior's: R-hat" in hot.verdict.converged
    assert hot.verdict.given_up == "g: tempered, these draws are not the posterior's."


# --------------------------------------------------------------------------------------- given up
@pytest.mark.parametrize(
    ("stats", "facts", "told"),
    [
        ({}, {"guarantee": "exact"}, "nothing: every decision is exact."),
        ({"early": 0}, {}, "nothing: every decision is exact."),  # none stopped before its end
        ({}, {}, "g: decided by estimates (asymptotic); no decision was audited."),
        (
            {"audited": some(400)}, {},
            "g: decided by estimates (asymptotic); 0 of 400 audited decisions were wrong, so at "
            "most 0.75% are (95%), within the 5% asked for.",
        ),
        (
            {"audited": some(40)}, {},
            "g: decided by estimates (asymptotic); 0 of 40 audited decisions were wrong, so at "
            "most 7.2% are (95%).",
        ),
        (
            {"audited": some(400), "wrong": some(60)}, {},
            "g: decided by estimates (asymptotic); 60 of 400 audited decisions were wrong, so at "
            "most 18% are (95%), more than the 5% asked for.",
        ),
        (
            {"audited": 1}, {},
            "g: nothing in these draws, all 4,000 decisions were audited, none wrong.",
        ),
        ({}, {"guarantee": "bounded"},
         "g: at most 5% of decisions differ from exact ones (proved)."),
        ({}, {"guarantee": "unadjusted"}, "g: unadjusted, a bias that depends on the step."),
        ({"decisions": 0}, {"guarantee": "none"}, "g: not known, nothing here checks it."),
        (
            {"audited": some(400), "wrong": some(2)}, {"guarantee": "none", "delta": None},
            "g: decided without a promise; 2 of 400 audited decisions were wrong, so at most 1.6% "
            "are (95%).",
        ),
        (
            {"audited": some(400), "wrong": some(2)}, {"guarantee": "exact"},
            "nothing was meant to be, and 2 of 400 audited decisions were wrong, so at most 1.6% "
            "are (95%).",
        ),
    ],
)  # fmt: skip
def test_what_was_given_up(noise, stats, facts, told):
    assert reported({"a": noise}, RACED | stats, facts).verdict.given_up == told


def test_the_weakest_promise_comes_first_and_names_its_kernels(noise):
    kernels = {
        "a": {"guarantee": "exact"}, "b": {"guarantee": "asymptotic"}, "c": {},
        "d": {"guarantee": "unadjusted"},
    }  # fmt: skip
    stats = {name: RACED | {"audited": some(n)} for name, n in zip("abcd", AUDITED, strict=True)}
    told = made({"x": noise}, stats, kernels).report().verdict.given_up
    assert told == (
        "d: unadjusted, a bias that depends on the step; b, c: decided by estimates (asymptotic); "
        "0 of 500 audited decisions were wrong, so at most 3% of c's are (95%), within "
        "the 5% asked for."
    )


# ----------------------------------------------------------------------------------------- faster
def test_one_suggestion_for_what_costs_most(noise):
    walk = {"kind": "Metropolis", "proposes": True, "walks": True, "subsamples": True,
            "takes_control": True, "control": ""}  # fmt: skip
    dear, slow = {"pulls": 1500}, {"a": np.repeat(noise[:, :50], 20, axis=1)}
    told = reported({"a": noise}, RACED | dear, walk).verdict.faster
    assert told == (
        "g reads 75% of 100,000 data in each decision: give it "
        "control=sm.Taylor(sm.laplace(model)), to decide mostly without data."
    )
    exact = walk | {"subsamples": False, "takes_control": False, "guarantee": "exact"}
    assert "leave its selector out and give it control=" in reported(
        {"a": noise}, RACED | dear, exact
    ).verdict.faster  # fmt: skip
    assert ": try control=" in reported({"a": noise}, RACED | dear, walk | {
        "kind": "Gibbs", "proposes": False,
    }).verdict.faster  # fmt: skip
    # With a control variate, or few data, reading is not what can be spared.
    for facts in (walk | {"control": "Taylor(order=3)"}, walk | {"rows": 900}):
        assert "reads" not in reported({"a": noise}, RACED | dear, facts).verdict.faster
    # Nor is a fit advised of a model that has no continuous block: sm.laplace refuses it.
    for facts in (walk, exact):
        told = reported({"a": noise}, RACED | dear, facts | {"continuous": False}).verdict.faster
        assert "control" not in told and told
    # Exact draws may be raced, but for those that are sums in one loop whatever the selector.
    gibbs = exact | {"kind": "Gibbs", "proposes": False, "parts": ["Exact"]}
    raced = ": selector=sm.Racing() reads fewer, at a stated risk."
    assert reported({"a": noise}, RACED | dear, gibbs).verdict.faster.endswith(raced)
    for note in (
        "cumulative sums over an ordered support",
        "at most 2 data per site: summed exactly in one loop",
    ):
        told = reported({"a": noise}, RACED | dear, gibbs | {"note": note}).verdict.faster
        assert "Racing" not in told
    told = reported(slow, RACED, walk).verdict.faster
    assert told.startswith("g takes 2") and "propose along a fit" in told
    along = reported(slow, RACED, walk | {"walks": False}).verdict.faster
    assert along.endswith("move it together with what it depends on.")
    sites = walk | {"walks": False, "moves": "a site by site (300 sites)"}
    assert reported(slow, RACED, sites).verdict.faster.endswith("sm.windows those in an order.")
    labels = gibbs | {"note": "at most 2 data per site: summed exactly in one loop"}
    assert "sm.paths draws sites in an order" in reported(slow, RACED, labels).verdict.faster
    told = reported({"a": noise}, RACED, walk).verdict.faster
    assert told == (
        "nothing obvious: nearly every draw is an effective one (g), and at most 5% of the data "
        "are read."
    )
    apart = noise.copy()
    apart[0] += 9.0
    assert reported({"a": apart}, RACED, walk).verdict.faster.startswith("first let the chains")


# ---------------------------------------------------------------------------------------- summary
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.4012345, "0.4012"), (1.0, "1.000"), (0.002, "0.002000"), (-12.34567, "-12.35"),
        (17_700.3, "17,700"), (999.97, "1,000"), (0.0, "0"), (3.2e-7, "3.200e-07"),
        (float("nan"), "-"), (9.99996, "10.00"), (float("-inf"), "-inf"),
    ],
)  # fmt: skip
def test_four_digits(value, text):
    assert significant(value) == text


def test_the_summary_has_moments_and_quantiles(rng):
    theta = rng.normal(3.0, 2.0, size=(CHAINS, DRAWS, 2))
    rows = reported({"theta": theta}).summary.rows
    for i, row in enumerate(rows):
        part = theta[..., i]
        wanted = [part.mean(), part.std(ddof=1), *np.quantile(part, [0.05, 0.95])]
        assert row[0] == f"theta[{i}]" and row[1:5] == [significant(x) for x in wanted]


def test_many_components_are_folded_to_the_first_and_the_worst(rng):
    theta = rng.normal(size=(CHAINS, DRAWS, 120))
    theta[1, :, 77] += 1.5  # R-hat
    theta[:, :, 40] = np.repeat(theta[:, :250, 40], 4, axis=1)  # ESS, by four; R-hat is fine
    rows = reported({"w": theta, "a": theta[..., 0]}).summary.rows
    names = [row[0] for row in rows]
    assert names[:3] == ["w[0]", "w[1]", "w[2]"] and {"w[40]", "w[77]"} <= {*names[3:6]}
    assert names[6:] == ["... 114 more of w, 120 in all", "a"]


def test_blocks_beyond_a_page_are_named(rng, monkeypatch):
    monkeypatch.setattr(short_summary, "MOST", 3)
    blocks = {name: rng.normal(size=(CHAINS, DRAWS, 2)) for name in "abc"}
    found = reported(blocks).summary
    assert [row[0] for row in found.rows] == ["a[0]", "a[1]"]
    assert found.captions == ["Not shown: b, c; trace.summary() has all."]


def test_tilted_chains_say_so_where_their_means_stand(noise):
    tilt = {"kind": "WangLandau", "block": "q", "writes": []}
    stats = {"g": RACED, "q_tilt": {"steps": 1, "tilt": 0.5}}
    trace = made({"q": np.round(noise).astype(int)}, stats, {"q_tilt": tilt})
    report = trace.report()
    assert "each chain has a tilt of its own, so R-hat says nothing" in report.verdict.converged
    assert [row[-1] for row in report.summary.rows] == ["-"]
    (caption,) = report.summary.captions
    assert caption.startswith("sm.WangLandau tilted q: these are means of the draws, not of the")
    for text in (str(report), report._repr_html_(), trace._repr_html_()):
        table, words = text.index("R-hat", text.index("95%")), text.index("sm.WangLandau tilted q")
        assert 0 < words - table < 2500


# ------------------------------------------------------------------------------------- notebooks
def test_what_notebooks_show_of_parts():
    def log_likelihood(state, data, n):
        return -0.5 * (data.y[n] - state.mu[0] - state.a[data.g[n]]) ** 2

    data = {"y": np.linspace(-1.0, 1.0, 300), "g": np.arange(300) % 3}
    model = sm.Model(log_likelihood, data, {"mu": 0.0, "a": np.zeros(3), "k": 1},
                     support={"k": 4}, constraints={"mu": sm.interval(-9.0, 9.0)},
                     touches={"a": "g"})  # fmt: skip
    told = model._repr_html_()
    for cell in ("<b>", "<script"):
        assert cell not in told
    for cell in ("3", "0 ... 3", "sm.interval(-9.0, 9.0)", "each of 3 sites", "real", "scalar"):
        assert f"<td>{cell}</td>" in told
    kernel = sm.Metropolis("mu", selector=sm.Racing(delta=0.01)) >> sm.Gibbs("k", sm.Exact())
    told = (kernel >> sm.Metropolis("a"))._repr_html_()
    for cell in ("Racing(delta=0.01)", "Exact()", "the default", "describe(model) says", "exact"):
        assert f"<td>{cell}</td>" in told
    assert "&gt;&gt;" in told


def test_names_in_tables_are_shown_as_they_are():
    told = "".join(tabled(["", "<i>"], [["<b>x</b>", "1 !"], ["... <more>", ""]]))
    assert "<i>" not in told and "<b>x" not in told and "<more>" not in told
    assert "<td><b>1 !</b></td>" in told and 'colspan="2"' in told


def test_blocks_of_which_some_draws_are_kept_are_looked_at():
    """Chains that stand at other values of such a block have not converged."""

    def two_modes(state, data, n):
        return -0.5 * min((state.b[0] - 9.0) ** 2, (state.b[0] + 9.0) ** 2) + 0.0 * data.y[n]

    model = sm.Model(two_modes, {"y": np.zeros(5)}, {"b": 0.0, "a": 0.0},
                     lambda state: -0.5 * state.a[0] ** 2)  # fmt: skip
    kernel = sm.Metropolis("b", adapt=False) >> sm.Metropolis("a", scale=2.0, adapt=False)
    trace = sm.sample(model, kernel, 2_000, 0, seed=1, keep={"a": True, "b": 5}, progress=False,
                      start=[{"b": b, "a": 0.0} for b in (-9.0, 9.0, -9.0, 9.0)])  # fmt: skip
    report = trace.report()
    assert "b" in report.blocks and report.blocks["b"].rhat > 1.5
    assert any("b" in text and "R-hat" in text for text in report.warnings)
    assert "b" in str(report.summary)


def test_what_never_moved_is_told_of_chains_that_are_nearly_there(noise):
    noise[0] += 0.5
    given = {"a": noise, "s": np.ones((CHAINS, DRAWS))}
    found = made(given, {"a": {}, "s": {}}).report().verdict.converged
    assert found.startswith("not known: s never moved, which is continuous; R-hat at most 1.0")


def test_the_iat_of_a_kernel_is_that_of_its_slowest_block(rng, noise):
    slow = rng.normal(size=(CHAINS, DRAWS))
    for i in range(1, DRAWS):
        slow[:, i] = 0.9 * slow[:, i - 1] + 0.44 * slow[:, i]
    stats = {"steps": 1, "decisions": 1, "audited": 1, "wrong": some(10), "early": 1}
    trace = made({"good": noise, "slow": slow}, {"g": stats}, {"g": {"writes": ["good", "slow"]}})
    (row,) = trace.report().rows
    assert row["iat"] == pytest.approx(CHAINS * DRAWS / trace.mixing("slow").ess)
    assert row["iat"] > 8.0
    assert row["bias_scale"] == pytest.approx(row["error_per_draw"] * row["iat"])


@pytest.mark.parametrize("raced", [0, 1])
def test_skewness_says_nothing_where_nothing_was_decided_by_some_rows(noise, raced):
    stats = {
        "steps": 1, "decisions": 1, "early": 1, "audited": some(40), "skewness": 4.0 * some(40),
        "raced": raced, "exhausted": 1 - raced,
    }  # fmt: skip
    found = made({"a": noise}, {"g": stats}).report()
    assert any("skewness" in text for text in found.warnings) == (raced == 1)


@pytest.mark.parametrize(("lost", "wrong"), [(5.0, 3), (60.0, 3), (0.1, 400)])
def test_losses_and_rates_that_delta_does_not_allow_are_another_law(noise, lost, wrong):
    """A slice that raced: "yes: R-hat 1.005", of a posterior ten times as wide."""
    stats = {
        "steps": 1, "decisions": 1, "early": 1, "raced": 1, "audited": some(1_000),
        "wrong": some(wrong), "regret": lost * some(wrong),
    }  # fmt: skip
    facts = {"delta": 0.05, "guarantee": "asymptotic"}
    found = made({"a": noise}, {"g": stats}, {"g": facts}).report()
    another = (lost, wrong) != (5.0, 3)
    assert ("to a law that is not the posterior's" in found.verdict.converged) == another
    assert ("by up to 60 nats" in found.verdict.given_up) == (lost == 60.0)
    assert not any("smaller delta" in text for text in found.warnings if lost == 60.0)
