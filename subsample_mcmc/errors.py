"""What can go wrong, by name. Messages say what was given, what is needed and what to do.

At the end: calls that do not fit their function. `helpful` leaves signatures and docstrings as they
are, and costs nothing where a call fits; `warn` points at the user's line, however many of our
functions lie between.
"""

import functools
import inspect
import linecache
import os
import re
import sys
import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np


class RewardError(ValueError):
    """A reward is nan or +inf, or every arm is impossible: no arm can be called the best.

    Example:
        >>> try:
        ...     sm.choose(np.array([[0.0, np.nan], [1.0, 2.0]]))
        ... except sm.RewardError as error:
        ...     print(str(error)[:40])
        ...
        the reward of arm 0 at datum 1 is nan: r
    """


class SpreadError(ValueError):
    """A reward lies outside the declared range, so the guarantee built on it would be void.

    Example:
        >>> racing = sm.Racing(sm.Betting(spread=1.0), retreat=False)
        >>> try:
        ...     sm.choose(np.array([[0.0, 9.0] * 5_000, [1.0, 2.0] * 5_000]), selector=racing)
        ... except sm.SpreadError as error:
        ...     print("outside the declared range" in str(error))
        ...
        True
    """


class CompileError(TypeError):
    """A user function cannot be compiled; the message shows the line numba stopped at.

    Example:
        >>> import scipy.special
        >>> def log_factor(data, arm, n):
        ...     return scipy.special.gammaln(data.y[n])  # use math.lgamma
        >>> try:
        ...     sm.draw(sm.Population(log_factor, {"y": np.ones(10)}, arms=2))
        ... except sm.CompileError as error:
        ...     print(str(error).splitlines()[0].split(":")[0])
        ...
        log_factor cannot be compiled
    """


class StoreError(OSError):
    """A stored run cannot be made, read or gone on with; the message says what is safe.

    Example:
        >>> try:
        ...     sm.load("no_such_run.nc")
        ... except OSError as error:
        ...     print(type(error).__name__)
        ...
        StoreError
    """


class SlowMathWarning(UserWarning):
    """A reward uses math.log and the like, which do not vectorise; sm.log and the like do.

    Example:
        >>> import math, warnings
        >>> def log_factor(data, arm, n):
        ...     return -math.log(1.0 + (data.y[n] - arm) ** 2)
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     population = sm.Population(log_factor, {"y": np.zeros(10)}, arms=2)
        >>> caught[0].category.__name__
        'SlowMathWarning'
    """


TEXT = r"f-string|Literal\[str\]|unicode_type"
FROM_OUTSIDE = r"ntyped (?:global name|closure variable)\W+(\w+).*<class '([\w.]+)'>"
PLAIN = (
    "Or run everything as plain Python, much slower: set NUMBA_DISABLE_JIT=1 in the environment "
    "before Python starts."
)


SEEN = 50  # lines of a function that are looked at
ELEMENTWISE = r"\b(?:\w+\.)?(?:log|log1p|exp|expm1|sqrt|f?abs|sin|cos|tan|tanh|lgamma|erf|float)\($"


def unread_field(line: str, own: str, index: str, given: Any = None) -> str:
    """Advice on a line that computes with a field of `own` without index; empty if none does.

    index: what one number of it is read with. given: the record itself, if it is at hand.
    """
    for found in re.finditer(rf"\b{own}\.([a-zA-Z]\w*)", line):
        before, after = line[: found.start()].rstrip(), line[found.end() :].lstrip()
        if after.startswith(("[", ".", "(")):
            continue
        if after.startswith((",", ")")) and re.search(r"(\w\(|,|=)$", before):  # handed on whole
            if not (after.startswith(")") and re.search(ELEMENTWISE, before)):
                continue
        field, value = found[0], np.asarray(getattr(given, found[1], 0.0))
        if given is not None and value.ndim == 0:
            continue
        if index == "0" and value.size > 1:
            return (
                f"{field} is an array of shape {value.shape}: read each component, such as "
                f"{field}[0], not {field}."
            )
        within = ", i" * (value.ndim - 1)
        return (
            f"{field} is an array, even of one number: read {field}[{index}{within}], not {field}."
        )
    return ""


def instead_of(name: str, kind: str) -> str:
    """What to write where a function reads an object from outside."""
    if kind.startswith("scipy.") or (kind == "numpy.ufunc" and not hasattr(np, name)):
        return (
            "Write the formula out, or use math.lgamma, math.erf: scipy's functions do not compile."
        )
    if kind == "numpy.ufunc":
        return "Write the formula out: this function of numpy does not compile."
    if kind == "functools.partial":
        return "Make it a function, with def."
    if kind.startswith("pandas."):
        return "Pass it as data, sm.Model(..., data=df), and read data.y[n]."
    item = f"{name}[...]" if kind in ("dict", "list") else f"{name}.sigma"
    return f"Take its numbers out before the function, sigma = {item}, or pass arrays as data."


def place_of(text: str, code) -> tuple[str, int]:
    """The file and line of a user's that an error of numba's names first; the innermost call."""
    for found in re.finditer(r'File "([^"]+)", line (\d+)|(?:at|from) (\S+) \((\d+)\)', text):
        file, line = found[1] or found[3], int(found[2] or found[4])
        if Path(file).name == Path(code.co_filename).name:
            return code.co_filename, line
        if not {"numba", Path(__file__).parent.name} & set(Path(file).parts):
            path = os.path.abspath(file)
            if linecache.getline(path, line):
                return path, line
    return code.co_filename, code.co_firstlineno


def unread_in(source: str, code) -> str:
    """Advice on a line of a function of (state, data, n, ...), (data, arm, n) or (state)."""
    own = code.co_varnames[: code.co_argcount]
    found = own and unread_field(source, own[0], "0")
    if found and len(own) > 2:  # of data, if it is indexed with n elsewhere
        whole = "".join(linecache.getlines(code.co_filename)[code.co_firstlineno - 1 :][:SEEN])
        if re.search(rf"\b{own[0]}\.\w+\[{own[2]}\b", whole):
            return unread_field(source, own[0], own[2])
    return found or (unread_field(source, own[1], own[2]) if len(own) > 2 else "")


def compile_message(error: Exception, function) -> str:
    """What the compiler objects to, with the line of the user's function it stopped at."""
    text = str(error)
    code = getattr(function, "py_func", function).__code__
    file, line = place_of(text, code)
    source = linecache.getline(file, line).strip()
    boilerplate = ("Failed in nopython", "During:", "File ", "There are", "- Resolution", "def ")
    reasons = [s.strip() for s in text.splitlines() if s.strip()]
    reason = next((r for r in reasons if not r.startswith(boilerplate)), type(error).__name__)
    reason, advice = reason.partition(" Raised from ")[0], ""
    if found := re.search(FROM_OUTSIDE, reason):
        reason = f"it reads {found[1]!r}, of type {found[2]}, from outside"
        advice = instead_of(found[1], found[2])
    elif "exception_match" in reason:
        reason, advice = "except with a name does not compile", "Test before, with if."
    elif re.search(TEXT, reason):
        advice = "Leave text out."
    if "Cannot modify readonly array" in text:
        reason = "it writes into an array that it may only read"
    advice = advice or unread_in(source, code)
    return (
        f"{function.__name__} cannot be compiled: {reason[:200]}\n"
        f"  {Path(file).name}, line {line}: {source}\n"
        f"{advice}{' ' * bool(advice)}Use numbers, arrays indexed with n, and sm.log, sm.log1p, "
        "sm.exp or the math module; scipy and Python objects do not compile.\n"
        f"{PLAIN}"
    )


# ---------------------------------------------------------------------- calls that do not fit
T = TypeVar("T")
HOME = os.path.dirname(__file__) + os.sep
SHORT = 30  # characters of a value that is shown

# What other libraries call our arguments; the first that the function has is meant.
USUAL = {
    "warmup": (
        "tune n_tune burn burnin burn_in num_warmup n_warmup warm_up warmup_steps iter_warmup "
        "nburn n_burn discard"
    ),
    "seed": "random_seed random_state rng rng_key rng_seed prng_key key generator",
    "draws steps size starts": (
        "n_samples num_samples nsamples samples n_draws num_draws ndraws iterations n_iter "
        "niter num_iter n_iterations iter_sampling steps n_steps num_steps draw"
    ),
    "chains": "nchains n_chains num_chains chain nwalkers n_walkers",
    "cores parallel": (
        "n_jobs njobs n_cores num_cores ncores n_workers num_workers workers threads n_threads "
        "num_threads parallel_chains core"
    ),
    "parallel": "backend client pool executor chain_method parallel_backend",
    "progress": "progressbar progress_bar show_progress verbose tqdm disable_tqdm bar",
    "thin": "thinning thin_by n_thin nthin thinning_interval",
    "start given": (
        "init inits initvals initval init_params initial initial_state initial_values "
        "start_values starts x0 starting_point p0 initial_params"
    ),
    "store": "save save_to file filename path output output_dir out",
    "audit": "audits audit_rate check",
    "kernel": "kernels sampler step step_method method move moves transition nuts_sampler",
    "log_likelihood log_factor": (
        "likelihood loglik log_lik loglikelihood logp log_prob logpdf log_density lpdf function"
    ),
    "log_prior": "prior priors logprior log_prior_fn prior_log",
    "state": "params parameters blocks variables init initial initial_state theta vars",
    "data": "observed dataset df x y observations",
    "constraints": "constraint bounds transforms transform domain",
    "support": "supports values levels categories n_values n_levels K k",
    "scale step width": (
        "step_size stepsize step proposal_scale proposal_sd sigma sd std epsilon eps width scale"
    ),
    "block": "var vars variable name target param parameter blocks",
    "selector": "racing race rule_ decide decision",
    "control": "control_variate control_variates cv controls surrogate",
    "adapt": "tune adaptive adaptation adapt_scale",
    "tolerance": "tol rtol atol xtol gtol eps accuracy",
    "arms": "n_arms num_arms narms D actions",
    "size": "N n n_rows rows",
    "prior_sd": "prior_scale prior_std sd_prior prior",
    "x": "X design features",
    "missing": "nan nans na dropna allow_nan",
}
SYNONYMS: dict[str, list[str]] = {}
for _names, _aliases in USUAL.items():
    for _alias in _aliases.split():
        SYNONYMS.setdefault(_alias, []).extend(_names.split())
# Arguments that belong elsewhere: where the function has the first name, the advice holds.
ELSEWHERE = (
    ("selector", "delta rule batch growth retreat guard",
     "it belongs to the selector, selector=sm.Racing(delta=0.01)"),
    ("kernel", "delta rule batch growth retreat guard",
     "it belongs to a kernel's selector, such as sm.Gibbs('k', sm.Racing(delta=0.01))"),
    ("kernel", "selector control scale proposal gradient adapt",
     "it belongs to a kernel, such as sm.Metropolis('mu', selector=sm.Exact())"),
    ("kernel", "target_accept target_accept_prob accept_rate target_accept_rate",
     "kernels adapt in warm-up to acceptance rates of their own; leave it out"),
    ("pairs", "weights weight p probs probabilities",
     "a kernel stands beside its weight, sm.mixture((sm.Gibbs('k'), 0.3), (other, 0.7))"),
    ("kernel", "return_inferencedata idata_kwargs", "leave it out, and call trace.to_arviz()"),
)  # fmt: skip
# What numpy and Python say where something stands for a number; and arguments by their classes.
OF_NUMBERS = ("must be a string or a real number", "not supported between instances of")
PLACES = {"Selector": "selector", "Control": "control", "Kernel": "kernel"}
NEEDED = {
    "model": "an sm.Model",
    "kernel": "how its blocks move, such as sm.Metropolis('mu') >> sm.Gibbs('k')",
    "selector": "how decisions are made, such as sm.Racing(delta=0.01)",
    "block": "the name of a block of the model's state, such as 'mu', or a tuple of several",
    "log_likelihood": "a function log_likelihood(state, data, n) -> float of one datum",
    "log_factor": "a function log_factor(data, arm, n) -> float of one datum",
    "data": "a dict of arrays, such as {'y': y}",
    "state": "a dict of named blocks with initial values, such as {'mu': 0.0}",
    "arms": "the number of arms",
    "population": "an sm.Population",
}


def helpful(made: T) -> T:
    """The function or class, whose TypeErrors of calls that do not fit say what to write."""
    if isinstance(made, type):
        cls: Any = made
        if "__init__" in vars(cls) and not hasattr(cls.__init__, "__wrapped__"):
            cls.__init__ = guarded(cls.__init__, called(cls), method=True)
        return made
    return guarded(made, called(made))


def called(made: Any) -> str:
    """What users call it."""
    parts = made.__module__.split(".")[1:]
    place = {"models": ".".join(parts[:2]), "bandits": "bandits"}.get(parts[0] if parts else "", "")
    return ".".join(filter(None, ("sm", place, made.__name__)))


def guarded(function: Any, name: str, method: bool = False) -> Any:
    """The function as it is, but for what a call that does not fit raises."""

    @functools.wraps(function)
    def call(*given, **named):
        try:
            return function(*given, **named)
        except TypeError as error:
            told = misfit(function, name, given[method:], named, method)
            if told or (told := misplaced(function, name, given[method:], named, error)):
                raise TypeError(told) from None
            raise

    return call


def misfit(function: Any, name: str, given: tuple, named: Mapping, method: bool) -> str:
    """Why a call does not fit, and what to write; empty if it does: the error is from within."""
    parameters = list(inspect.signature(function).parameters.values())[method:]
    names = [p.name for p in parameters]
    if any(p.kind == p.VAR_KEYWORD for p in parameters):
        return ""
    takes = f"It takes {', '.join(shown(p) for p in parameters) or 'no arguments'}."
    if unknown := [key for key in named if key not in names]:
        return " ".join([*(meant(name, key, named[key], names) for key in unknown), takes])
    positional = [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
    if len(given) > len(positional) and not any(p.kind == p.VAR_POSITIONAL for p in parameters):
        return f"{name} was given {len(given)} arguments by position, and has {len(positional)} "\
               f"that may be. Write them by name. {takes}"  # fmt: skip
    if twice := [key for key in positional[: len(given)] if key in named]:
        return f"{name} was given {twice[0]} twice, by position and by name. {takes}"
    had = {*positional[: len(given)], *named}
    lacks = [p.name for p in parameters if p.default is p.empty and p.name not in had
             and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]  # fmt: skip
    if not lacks:
        return ""
    wanted = {**NEEDED, **moves_of(given, named)}
    told = [f"{key}, {wanted[key]}" if key in wanted else key for key in lacks]
    return f"{name}(...) lacks {'; and '.join(told)}. {takes}"


def misplaced(function: Any, name: str, given: tuple, named: Mapping, error: TypeError) -> str:
    """Which argument stands where a number belongs, and what to write; empty: none, or it is told.

    sm.Metropolis("mu", sm.Exact()), as sm.Gibbs("k", sm.Exact()) is written; sm.interval("a", 1).
    """
    if not any(words in str(error) for words in OF_NUMBERS) or raised_by_users(error):
        return ""
    parameters = {p.name: p for p in inspect.signature(function).parameters.values()}
    names = [key for key in parameters if key != "self"]
    for key, value in [*zip(names, given, strict=False), *named.items()]:
        if not takes_number(parameters[key]):
            continue
        kinds = {cls.__name__ for cls in type(value).__mro__}
        if place := next((PLACES[kind] for kind in PLACES if kind in kinds), ""):
            text = f"sm.{type(value).__name__}(...)"
            use = f"by name, {place}={text}" if place in names else "a number"
            return f"{name}(..., {key}={text}): this is a {place}. Give {use}."
        if isinstance(value, str) and not isinstance(parameters[key].default, str):
            return f"{name}(..., {key}={value!r:.60}): give a number."
    return ""


def takes_number(parameter: inspect.Parameter) -> bool:
    """Is it a number, by its default or as it is declared, or a word for one."""
    declared = {parameter.annotation, *get_args(parameter.annotation)}
    default = parameter.default
    return bool(declared & {int, float}) or (
        isinstance(default, int | float | str) and not isinstance(default, bool)
    )


def raised_by_users(error: BaseException) -> bool:
    """Did a function of a user's raise it, or a run that had drawn: it arrives as it is."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    ours = trace is not None and trace.tb_frame.f_code.co_filename.startswith(HOME)
    return not ours or hasattr(error, "trace")


def shown(parameter: inspect.Parameter) -> str:
    """A parameter as users write it."""
    star = "*" if parameter.kind == parameter.VAR_POSITIONAL else ""
    default = parameter.default
    if default is parameter.empty:
        return star + parameter.name
    text = repr(default)
    return f"{parameter.name}={text}" if len(text) <= SHORT else f"{parameter.name}=..."


def meant(name: str, key: str, value: Any, names: list[str]) -> str:
    """What an argument that is not there is called here, or where it belongs."""
    simple = isinstance(value, str | int | float | bool | None) and len(repr(value)) <= SHORT
    text = f"={value!r}" if simple else ""
    head = f"{name}(..., {key}{text or '=...'}): there is no argument {key!r}"
    if found := next((n for n in SYNONYMS.get(key, ()) if n in names), ""):
        return f"{head}; here it is {found}{text}."
    for has, keys, advice in ELSEWHERE:
        if has in names and key in keys.split():
            return f"{head}: {advice}."
    close = [n for n in names if n == key.lower()] or get_close_matches(key, names, 1)
    if close:
        return f"{head}. Did you mean {close[0]}{text}?"
    return f"{head}."


def moves_of(given: tuple, named: Mapping) -> dict[str, str]:
    """A kernel for every block of the model that was given, as an advice."""
    model = next((v for v in (*given, *named.values()) if hasattr(v, "variables")), None)
    try:
        moves = [
            f"sm.{'Gibbs' if v.block.discrete else 'Metropolis'}({n!r})"
            for n, v in model.variables.items()  # type: ignore[union-attr]
        ]
    except AttributeError:
        return {}
    return {"kernel": f"how its blocks move, such as {' >> '.join(moves)}"}


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn, at the line of the caller outside this package."""
    depth, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HOME):
        depth, frame = depth + 1, frame.f_back
    warnings.warn(text, category, stacklevel=depth)
