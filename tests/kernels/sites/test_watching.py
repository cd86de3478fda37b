"""Data that see more sites than touches says, in states that no check before the run tried."""

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.sites import asked, moves, watching

SIZE, GROUPS = 900, 30


def data_of() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    group = np.arange(SIZE) % GROUPS
    return {"y": 3.0 + rng.standard_normal(SIZE), "group": group, "other": (group + 1) % GROUPS}


def far_off(state, data, n):
    """Beyond 2, where no value is before the chain runs, a datum sees the next site, too."""
    eta = state.a[data.group[n]]
    if eta > 2.0:
        eta += 0.1 * state.a[data.other[n]]
    return -0.5 * (data.y[n] - eta) ** 2


def own(state, data, n):
    return -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2


def both(state, data, n):
    return -0.5 * (data.y[n] - state.a[data.group[n]] - 0.1 * state.a[data.other[n]]) ** 2


def by_hand(state, data, n):
    """What it looks up is not seen in its code."""
    g = data.group[n]
    g = (g + 0) % 30
    return -0.5 * (data.y[n] - state.a[g]) ** 2


def standard(state, i):
    return -0.5 * (state.a[i] - 3.0) ** 2


def model_of(likelihood, touches="group") -> sm.Model:
    return sm.Model(
        likelihood, data_of(), {"a": np.zeros(GROUPS)}, touches={"a": touches},
        site_prior={"a": standard},
    )  # fmt: skip


def sampled(model, kernel, draws=60):
    return sm.sample(model, kernel, draws=draws, warmup=40, chains=1, seed=3, progress=False)


def test_a_datum_that_sees_another_site_far_off_ends_the_chain(monkeypatch):
    """Within a hundred sweeps: two data are asked in each. Here no far state is asked before."""
    with pytest.raises(ValueError, match=r"touches\['a'\]: datum \d+ is said to see"):
        sampled(model_of(far_off), sm.Metropolis("a", 0.5))
    monkeypatch.setattr(asked, "AWAY", (0.0, 0.0))
    with pytest.raises(RuntimeError, match=r"touches\['a'\]: datum (\d+) .*said to see a\[\d+\]"):
        sampled(model_of(far_off), sm.Metropolis("a", 0.5))
    sampled(model_of(far_off, ("group", "other")), sm.Metropolis("a", 0.5))


def cells(state, data, n):
    """Only two neighbours that are both at the end of the support see each other."""
    z, next_one = state.z[data.group[n]], state.z[data.other[n]]
    return -0.1 * (data.y[n] - z) ** 2 - (0.5 if z > 37 and next_one > 37 else 0.0)


def test_so_does_one_of_a_discrete_block():
    data = data_of() | {"y": np.full(SIZE, 38.5)}
    for touches, right in (("group", False), (("group", "other"), True)):
        model = sm.Model(
            cells, data, {"z": np.zeros(GROUPS, int)}, support={"z": 40}, touches={"z": touches}
        )
        kernel = sm.Gibbs("z", sm.Exact())
        if right:
            sampled(model, kernel)
            continue
        with pytest.raises(RuntimeError, match=r"touches\['z'\]: datum \d+ .*see z\[\d+\], but"):
            sampled(model, kernel)


@pytest.mark.parametrize("likelihood", [own, both, by_hand])
def test_who_is_asked_changes_no_draw(likelihood, monkeypatch):
    """The state is as it was; and no random number of the chain's is used."""
    touches = ("group", "other") if likelihood is both else "group"
    real, made, found = watching.watched, [], []
    monkeypatch.setattr(moves, "watched", lambda *given: made.append(real(*given)) or made[-1])
    for known in (False, True):
        monkeypatch.setattr(watching, "is_known", lambda *given, known=known: known)
        trace = sampled(model_of(likelihood, touches), sm.Metropolis("a", 0.5))
        found.append(np.asarray(trace.draws["a"]))
    assert np.array_equal(*found)
    asked = [int(one.asked[0]) for one in made]  # tools are made twice a run, once to compile
    assert sum(asked) == max(asked[: len(asked) // 2]) == 2 * 100


def test_tables_that_the_code_says_need_no_asking():
    for likelihood, touches, known in (
        (own, "group", True), (both, ("group", "other"), True), (both, ("other", "group"), True),
        (own, ("group", "other"), False), (by_hand, "group", False), (far_off, "group", False),
    ):  # fmt: skip
        assert watching.is_known(model_of(likelihood, touches), "a") is known


# ------------------------------------------------------------------------------------------ priors
SEEN_AT = 3  # the value of k at which priors read more; k starts at 0


def of_its_own(state, i):
    """By hand: its code does not tell that it reads one site."""
    j = i + 0
    return -0.5 * (state.a[j] - 3.0) ** 2


def the_next_too(state, i):
    after = state.a[(i + 1) % GROUPS] if state.k[0] == SEEN_AT else 3.0
    return -0.5 * (state.a[i] - 3.0) ** 2 - 0.5 * (after - 3.0) ** 2


def ten_before_too(state, i):
    lag = 10 if state.k[0] == SEEN_AT else 1
    before = state.a[i - lag] if i >= lag else 3.0
    return -0.5 * (state.a[i] - before) ** 2


def of_b(state, i):
    return -0.5 * (state.b[i] - (state.a[i] if state.k[0] == SEEN_AT else 0.0)) ** 2


def the_rest(state):
    return -0.5 * state.a[4] ** 2 if state.k[0] == SEEN_AT else 0.0


def the_rest_alone(state):
    return -0.1 * state.k[0]


def k_and_own(state, data, n):
    return -0.5 * (data.y[n] - state.a[data.group[n]]) ** 2 + 0.01 * state.k[0]


def switched(rest=None, **priors) -> sm.Model:
    start = {"a": np.zeros(GROUPS), "k": 0, "b": np.zeros(5)}
    return sm.Model(
        k_and_own, data_of(), {name: start[name] for name in (*priors, "k")}, rest,
        support={"k": SEEN_AT + 1}, touches={"a": "group"}, site_prior=priors,
    )  # fmt: skip


MORE_READ = {
    "after its own": ({"a": the_next_too}, None, r"site_prior\['a'\] of site \d+ changes with"),
    "long before": ({"a": ten_before_too}, None, r"site_prior\['a'\] of site \d+ changes with"),
    "of another block": (
        {"a": of_its_own, "b": of_b}, None, r"site_prior\['b'\] of site \d+ changes where 'a' does"
    ),
    "the rest": ({"a": of_its_own}, the_rest, "log_prior changes where 'a' does, which has site"),
}  # fmt: skip
MOVES = {
    "Metropolis": sm.Metropolis("a", 0.5), "Slice": sm.Slice("a"), "windows": sm.windows("a"),
    "Langevin": sm.Langevin("a", 0.3),
}  # fmt: skip


@pytest.mark.plain
@pytest.mark.parametrize("kind", MOVES)
@pytest.mark.parametrize("case", MORE_READ)
def test_a_prior_that_reads_more_in_a_state_that_was_not_tried_ends_the_chain(
    case, kind, monkeypatch
):
    """Where an indicator is off it reads one site, or none of the block."""
    monkeypatch.setattr(asked, "AWAY", (0.0,))
    priors, rest, message = MORE_READ[case]
    kernel = MOVES[kind] >> sm.Gibbs("k", sm.Exact())
    if "b" in priors:
        kernel >>= sm.Metropolis("b", 0.5)
    with pytest.raises(RuntimeError, match=message + ".*, so draws before may be wrong"):
        sampled(switched(rest, **priors), kernel)


def test_draws_are_those_of_chains_that_do_not_ask(monkeypatch):
    kernel, found = sm.Metropolis("a", 0.5) >> sm.Gibbs("k", sm.Exact()), []
    for watch in (True, False):
        model = switched(the_rest_alone, a=of_its_own)
        assert [w.text for w in watching.watched_priors(model, "a")] == ["site_prior['a']"]
        if not watch:
            monkeypatch.setattr(watching, "watched_priors", lambda model, name: [])
        trace = sampled(model, kernel)
        found.append(np.asarray(trace.draws["a"]))
    assert np.array_equal(*found)


def test_priors_whose_code_tells_are_not_asked():
    """Of one site, or of the one before it, too."""

    def walk(state, i):
        return -0.5 * (state.a[i] - (state.a[i - 1] if i > 0 else 3.0)) ** 2

    for prior in (standard, walk):
        assert watching.watched_priors(switched(the_rest_alone, a=prior), "a") == []
    model = switched(the_rest, a=standard, b=of_b)
    asks = watching.watched_priors(model, "a")
    assert [(w.text, w.sites, w.behind) for w in asks] == [
        ("site_prior['b']", 5, -1), ("log_prior", 1, -1),
    ]  # fmt: skip
    assert [w.text for w in watching.watched_priors(model, "b")] == []
