"""Plan.code: a kernel as Python code, which makes the same kernel again when it is run."""

from dataclasses import dataclass

import numpy as np
import pytest

import subsample_mcmc as sm
from subsample_mcmc.kernels.compose import changed
from subsample_mcmc.runs.fingerprint import spelled
from subsample_mcmc.runs.plan import Plan
from subsample_mcmc.runs.views.as_code import CodeWriter, code_of, names_of


def model_of(size=200):
    x = np.column_stack([np.ones(size), np.linspace(-1.0, 1.0, size)])
    y = x @ [1.0, 2.0] + np.random.default_rng(0).standard_normal(size)
    return sm.models.glm.gaussian(x, y, sigma=None)


MODEL = model_of()
FIT, OTHER = sm.laplace(MODEL, progress=False), sm.laplace(model_of(150), progress=False)


def anywhere(state):
    return True


def surrogate(state):
    return -0.5 * state.beta[0] ** 2


def walk(rng, current, out):
    out[0] = current[0] + rng.standard_normal()


def density(to, given):
    return 0.0


def gradient(state, data, n, out):
    out[0] = 0.0


def derivatives(state, data, n, gradient, hessian):
    gradient[0] = 0.0


@sm.kernel(writes="k")
def own(rng, state, data):
    """A kernel that decides nothing."""


@dataclass(frozen=True)
class Mine(sm.extend.Rule):
    """A rule of a user's own."""

    shift: float = 0.0


class Secret(sm.Racing):
    """A selector that says less of itself than it is."""

    def __init__(self, delta=0.05, known=""):
        super().__init__(delta=delta)
        object.__setattr__(self, "known", known)


def once_more(state):
    return True


EARLIER = once_more


def once_more(state):  # as a cell of a notebook that was changed and run again
    return False


# (what kernels are, the expression that is written)
WRITTEN = {
    'sm.Gibbs("k")': sm.Gibbs("k"),
    'sm.Gibbs("k", selector=sm.Racing(sm.Betting(), delta=0.01), scan="random")': sm.Gibbs(
        "k", sm.Racing(sm.Betting(), delta=0.01), "random"
    ),
    'sm.Gibbs("k", selector=sm.Racing(sm.Betting(bounds=(-1.0, float("inf")))))': sm.Gibbs(
        "k", sm.Racing(sm.Betting(bounds=(-1.0, np.inf)))
    ),
    'sm.Gibbs("k", selector=sm.Thinned(0.1), control=sm.Taylor(fit, order=3))': sm.Gibbs(
        "k", sm.Thinned(0.1), control=sm.Taylor(FIT, 3)
    ),
    'sm.Gibbs("k", control=sm.Bins(("a", "b"), bins=50))': sm.Gibbs(
        "k", control=sm.Bins(("a", "b"), 50)
    ),
    'sm.Gibbs("k", selector=sm.Racing(Mine(0.5)))': sm.Gibbs("k", sm.Racing(Mine(0.5))),
    'sm.Gibbs("k", pseudo=sm.PseudoPrior(fits, transform="log"))': sm.Gibbs(
        "k", pseudo=sm.PseudoPrior([FIT, FIT], "log")
    ),
    'sm.Metropolis(("beta", "log_sigma"), scale=[0.1, 0.25], adapt=False)': sm.Metropolis(
        ("beta", "log_sigma"), [0.1, 0.25], adapt=False
    ),
    'sm.Metropolis("beta", scale=0.5, proposal=sm.pcn())': sm.Metropolis(
        "beta", np.float64(0.5), sm.pcn()
    ),
    'sm.Metropolis("beta", proposal=sm.pcn(fit, beta=0.5, defensive=0.0))': sm.Metropolis(
        "beta", proposal=sm.pcn(FIT, beta=0.5, defensive=0.0)
    ),
    'sm.Metropolis("beta", proposal=sm.independence(fit), control=sm.Taylor(fit))': sm.Metropolis(
        "beta", proposal=sm.independence(FIT), control=sm.Taylor(FIT)
    ),
    'sm.Metropolis("beta", proposal=walk)': sm.Metropolis("beta", proposal=walk),
    'sm.Metropolis("beta", proposal=(walk, density))': sm.Metropolis(
        "beta", proposal=(walk, density)
    ),
    'sm.Metropolis("beta", control=sm.Taylor(fit, derivatives=derivatives))': sm.Metropolis(
        "beta", control=sm.Taylor(FIT, derivatives=derivatives)
    ),
    'sm.Metropolis("beta", control=sm.Taylor({"beta": [1.0, 2.0]}))': sm.Metropolis(
        "beta", control=sm.Taylor({"beta": [1.0, 2.0]})
    ),
    'sm.delayed(sm.Metropolis("beta", selector=sm.Exact()), surrogate)': sm.delayed(
        sm.Metropolis("beta", selector=sm.Exact()), surrogate
    ),
    'sm.Langevin("beta", control=sm.Taylor(fit))': sm.Langevin("beta", control=sm.Taylor(FIT)),
    'sm.Langevin("beta", precondition=fit) >> sm.Metropolis("beta", proposal=sm.pcn(fit))': (
        sm.Langevin("beta", precondition=FIT) >> sm.Metropolis("beta", proposal=sm.pcn(FIT))
    ),
    'sm.Langevin("beta", gradient=gradient, batch=64)': sm.Langevin(
        "beta", gradient=gradient, batch=64
    ),
    'sm.Langevin("beta", step=0.1, correct=False)': sm.Langevin("beta", 0.1, correct=False),
    'sm.Slice("say \\"b\\"", width=2.0, most=7, frozen=True)': sm.Slice(
        'say "b"', 2.0, most=7, frozen=True
    ),
    'sm.interweave("a", location="mu")': sm.interweave("a", "mu"),
    'sm.interweave("a", scale="tau", selector=sm.Exact())': sm.interweave(
        "a", scale="tau", selector=sm.Exact()
    ),
    'sm.Gibbs("k") >> sm.interweave("a", location="mu", scale="tau")': sm.Gibbs(
        "k"
    ) >> sm.interweave("a", "mu", "tau"),
    'sm.paths("z")': sm.paths("z"),
    'sm.windows("a", widest=8, selector=sm.Racing())': sm.windows(
        "a", widest=8, selector=sm.Racing()
    ),
    'sm.Gibbs("k") >> sm.windows("a", scale="tau", widest=4)': sm.Gibbs("k") >> sm.windows(
        "a", "tau", 4
    ),
    'sm.side_by_side(sm.Metropolis("a")) >> sm.side_by_side(sm.Slice("b"), cores=2)': (
        sm.side_by_side(sm.Metropolis("a")) >> sm.side_by_side(sm.Slice("b"), 2)
    ),
    'sm.mixture((sm.Gibbs("k"), 0.25), (sm.repeat(sm.Slice("b"), 3), 0.75))': sm.mixture(
        (sm.Gibbs("k"), 1.0), (sm.repeat(sm.Slice("b"), 3), 3.0)
    ),
    'own >> sm.when(anywhere, sm.Gibbs("k") >> own)': own >> sm.when(
        anywhere, sm.Gibbs("k") >> own
    ),
}  # fmt: skip
SCOPE = globals()


def run(code, scope):
    """What code makes that is run with what a user has."""
    given = SCOPE | scope | {"sm": sm}
    exec(code, given)
    return given["kernel"]


@pytest.mark.parametrize("expression", WRITTEN)
def test_the_code_makes_the_same_kernel(expression):
    kernel, scope = WRITTEN[expression], {"fit": FIT, "fits": [FIT, FIT]}
    code = code_of(kernel, names_of([kernel]))
    assert code == f"kernel = {expression}"
    made = run(code, scope)
    assert spelled(made) == spelled(kernel)
    assert made.text() == kernel.text() and type(made) is type(kernel)


MUTANTS = [  # an argument of those above, dropped or changed
    (", scan=\"random\"", ""), (", delta=0.01", ""), (", order=3", ""), ("(0.1)", "()"),
    (", bins=50", ""), ("Mine(0.5)", "Mine()"), (", transform=\"log\"", ""), ("density", "None"),
    (", adapt=False", ""), (", scale=0.5", ""), (", defensive=0.0", ""), ("independence", "pcn"),
    (", derivatives=derivatives", ""), (", batch=64", ""), (", frozen=True", ""), (", 0.75", ", 3"),
    (", gradient=gradient", ""), (", precondition=fit", ""), (", 3)", ", 2)"), (" >> own)", ")"),
    (", selector=sm.Exact()", ""), (", widest=8", ""), (", widest=4", ""),
    (", scale=\"tau\"", ""), ("anywhere", "lambda state: False"),
]  # fmt: skip


@pytest.mark.parametrize(("part", "other"), MUTANTS)
def test_what_tells_kernels_apart(part, other):
    """The comparison has power: without one of the arguments the kernel is another one."""
    met = 0
    for expression, kernel in WRITTEN.items():
        if part not in expression or (part, expression[:13]) == (', scale="tau"', "sm.interweave"):
            continue
        made = run(f"kernel = {expression.replace(part, other)}", {"fit": FIT, "fits": [FIT, FIT]})
        assert spelled(made) != spelled(kernel), expression
        met += 1
    assert met


def test_weights_come_to_the_same_probabilities():
    """To the last digit, also where these do not add up to 1."""
    parts, rng = [sm.Gibbs(name) for name in "abcdefg"], np.random.default_rng(0)
    for _ in range(200):
        weights = rng.integers(1, 10, size=rng.integers(1, 8)).tolist()
        kernel = sm.mixture(*zip(parts, weights, strict=False))
        made = run(code_of(kernel, {}), {})
        assert made.weights == kernel.weights


def test_fits_have_their_names():
    kernel = sm.Metropolis("beta", proposal=sm.pcn(OTHER), control=sm.Taylor(FIT)) >> sm.Gibbs(
        "k", control=sm.Taylor([FIT, OTHER])
    )
    names = names_of([kernel])
    assert names["fit_1"] is OTHER and names["fit_2"] is FIT and names["fits"] == [FIT, OTHER]
    *comments, code = code_of(kernel, names).partition("kernel = ")
    told = "".join(comments).splitlines()
    assert told[0] == (
        f"# fit_1: the fit of beta, log_sigma with log evidence {OTHER.log_evidence:.9g}"
    )
    assert len(told) == 4
    assert spelled(run(code_of(kernel, names), names)) == spelled(kernel)
    swapped = {"fit_1": FIT, "fit_2": OTHER, "fits": [FIT, OTHER]}
    assert spelled(run(code_of(kernel, names), swapped)) != spelled(kernel)
    assert code.startswith("(\n    sm.Metropolis(") and "\n    >> sm.Gibbs(" in code


def local_predicate():
    """Of the same name as one that stands in the module."""

    def anywhere(state):
        return False

    return anywhere


def without_name():
    return {
        "a lambda has no name": sm.when(lambda state: True, sm.Gibbs("k")),
        "scale of Metropolis: an array of shape (2,)": sm.Metropolis("b", np.array([0.1, 0.2])),
        "precondition of Langevin: an array": sm.Langevin("b", precondition=np.ones(2)),
        "an array, which location": sm.interweave("a", ("dept", np.zeros(3, int))),
        "an array, how far each site": sm.interweave("a", "mu", amounts=np.zeros(3)),
        "the name anywhere stands for something else": sm.when(local_predicate(), sm.Gibbs("k")),
        "name once_more stands for something else": sm.when(EARLIER, sm.Gibbs("k")),
        "make another kernel": sm.Gibbs("k", Secret(0.01, "what is no field")),
        "proposal of Metropolis: an array": sm.Metropolis(
            "b", proposal=sm.pcn(np.zeros(1), np.eye(1))
        ),
    }


@pytest.mark.parametrize("why", without_name())
def test_what_has_no_name_is_told(why):
    """And the code gives the kernel of the plan instead of another."""
    kernel = without_name()[why]
    rows = [{"kernel": "k", "variant": "as given", "us a decision": 1.0}]
    plan = Plan(rows, {}, 1, kernels={"as given": kernel})
    comment, code = plan.code.splitlines()
    assert code == "kernel = plan.best" and comment.startswith("# ") and why in comment
    assert run(plan.code, {"plan": plan}) is kernel


def test_a_wrong_line_is_noticed(monkeypatch):
    """What is written is run and compared before it is shown."""
    kernel = sm.Metropolis("b", scale=0.5)
    assert code_of(kernel, {}) == 'kernel = sm.Metropolis("b", scale=0.5)'
    monkeypatch.setattr(CodeWriter, "metropolis", lambda self, kernel: 'sm.Metropolis("b")')
    told, code = code_of(kernel, {}).splitlines()
    assert code == "kernel = plan.best" and "make another kernel" in told


def test_a_plan_shows_the_code_of_its_best():
    model = MODEL
    kernel = sm.Metropolis(
        ("beta", "log_sigma"), proposal=sm.pcn(FIT, beta=0.5), selector=sm.Racing()
    )
    controls = {"order 2": sm.Taylor(FIT, 2)}
    plan = sm.plan(model, kernel, controls, steps=20, warmup=0, seed=1, progress=False)
    made = run(plan.code, {"fit": FIT})
    assert spelled(made) == spelled(plan.best) and made.text() == plan.best.text()
    assert str(plan).endswith(f"\n{plan.code}") and "<pre>" in plan._repr_html_()
    for variant in plan.kernels.values():
        code = code_of(variant, names_of(plan.kernels.values()))
        assert spelled(run(code, {"fit": FIT})) == spelled(variant)
    assert "control=sm.Taylor(fit, order=2)" in code_of(plan.kernels["order 2"], {"fit": FIT})
    assert "selector=sm.Exact()" in code_of(plan.kernels["exact"], {"fit": FIT})
    # A kernel whose selector was not given has, in the plan, the one that the model says.
    settled = changed(sm.Metropolis("beta"), lambda leaf: leaf.settled(model))
    assert code_of(settled, {}) == 'kernel = sm.Metropolis("beta", selector=sm.Racing())'


# ----------------------------------------------------------------------------------- hierarchies
def counts_of_groups(state, data, n):
    eta = state.a[data.group[n]] + state.slope[0] * data.x[n]
    return data.y[n] * eta - sm.exp(eta)


def of_group(state, g):
    z = (state.a[g] - state.mu[0]) / state.tau[0]
    return -0.5 * z * z - sm.log(state.tau[0])


def of_the_rest(state):
    return -0.5 * (state.slope[0] ** 2 + state.mu[0] ** 2 + state.tau[0] ** 2)


def hierarchy():
    """Counts of 80 groups."""
    rng = np.random.default_rng(0)
    group, x = rng.integers(80, size=800), rng.standard_normal(800)
    y = rng.poisson(np.exp(0.3 + 0.5 * rng.standard_normal(80)[group] + 0.2 * x)).astype(float)
    return sm.Model(
        counts_of_groups, {"y": y, "x": x, "group": group},
        {"a": np.zeros(80), "slope": 0.0, "mu": 0.0, "tau": 1.0}, of_the_rest,
        constraints={"tau": sm.positive}, touches={"a": "group"}, site_prior={"a": of_group},
    )  # fmt: skip


def same_draws(model, one, other):
    """Do two kernels draw the same, from the same seed."""
    given = {"draws": 5, "warmup": 5, "chains": 1, "seed": 3, "progress": False}
    first, second = (sm.sample(model, kernel, **given).draws for kernel in (one, other))
    return all(np.array_equal(first[name], second[name]) for name in model.names)


def test_kernels_from_a_fit_of_groups_are_written_by_its_name():
    """Such a fit has one Gaussian for each group: no call makes it again but sm.laplace(model)."""
    model = hierarchy()
    fit = sm.laplace(model, progress=False)
    assert isinstance(fit, sm.HierarchyFit)
    kernel = (
        sm.Metropolis("a", proposal=sm.pcn(fit), selector=sm.Exact())
        >> sm.SurrogateTransition("slope", fit)
        >> sm.SurrogateTransition(("mu", "tau"), fit, moves=4)
        >> sm.interweave("a", location="mu", scale="tau")
    )
    plan = sm.plan(model, kernel, steps=20, warmup=20, seed=1, progress=False)
    assert set(plan.kernels) == {"as given", "exact"}  # a surrogate's decision is exact in both
    scope = {"sm": sm, "model": model}
    exec("fit = sm.laplace(model, progress=False)\n" + plan.code, scope)
    assert "plan.best" not in plan.code
    assert plan.code.count("fit)") + plan.code.count("fit,") == 3
    again = scope["kernel"]
    assert again.text() == plan.best.text() and same_draws(model, again, plan.best)
    # Another fit is another kernel, and two have two names.
    other = sm.laplace(model, given={"tau": 0.7}, progress=False)
    two = sm.Metropolis("a", proposal=sm.pcn(fit)) >> sm.SurrogateTransition("slope", other)
    names = names_of([two])
    assert names["fit_1"] is fit and names["fit_2"] is other
    assert "# fit_2: the fit of a, slope, mu, tau with log evidence" in code_of(two, names)
    assert spelled(run(code_of(two, names), names)) == spelled(two)


@pytest.mark.slow
def test_the_default_kernel_of_groups_is_code_that_runs():
    model = hierarchy()
    chosen = sm.default_kernel(model, steps=400, progress=False)
    scope = {"sm": sm, "model": model}
    exec(chosen.code, scope)
    assert scope["kernel"].text() == chosen.part.text()
    assert same_draws(model, scope["kernel"], chosen.part)
    # And a plan of it says the same, with the name that the code gave the fit.
    plan = sm.plan(model, chosen, steps=20, warmup=20, seed=1, progress=False)
    exec(plan.code, scope)
    assert "plan.best" not in plan.code and same_draws(model, scope["kernel"], plan.best)
