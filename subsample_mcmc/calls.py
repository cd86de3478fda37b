"""Calls that do not fit their function, and what to write instead.

`helpful` leaves signatures and docstrings as they are, and costs nothing where a call fits. Told
are arguments that are lacking or not there, by what other libraries call them; what stands where a
number belongs; and which argument an error of Python's or numpy's is about, with what the
docstring says of it.
"""

import functools
import inspect
import itertools
import linecache
import os
import re
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

import numpy as np

from subsample_mcmc.errors import HOME

T = TypeVar("T")
# What decides, moves and plays: its methods are called by the engine.
ENGINE = {"Selector", "Kernel", "Control", "Rule", "Strategy"}
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
# What Python and numpy say of types: those that these name did not fit.
OF_TYPES = (
    r"\bnot '?(?:\w+\.)*(\w+)'?\.?$", r"'(?:\w+\.)*(\w+)' object",
    r"instances of '(\w+)' and '(\w+)'", r"for [^:]+: '(\w+)' and '(\w+)'",
    r"operand type for [^:]+: '(\w+)'", r"<class '(?:\w+\.)*(\w+)'>", r"non-iterable (\w+) object",
    r"of type '(\w+)'",
)  # fmt: skip
NO_NUMBER = r"(?:could not convert string to \w+|invalid literal for int\(\)[^:]*): (.+)"
PYTHON = os.path.dirname(os.__file__) + os.sep  # where its own modules stand
INSTALLED = r"(?:site|dist)-packages[/\\](\w+)"
OWN = {__name__.partition(".")[0]}
LIBRARIES = {"arviz", "matplotlib", "numba", "numpy", "pandas", "scipy", "xarray"}  # below this one
# Classes of this package, and the argument that their objects are given as.
PLACES = {
    "Selector": "selector", "Strategy": "selector", "Control": "control", "Kernel": "kernel",
    "Model": "model",
}  # fmt: skip
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
    """The function or class, whose calls that do not fit say what to write.

    Of a class that is not one of the engine's: its public methods, too.
    """
    if not isinstance(made, type):
        return guarded(made, called(made), made.__doc__)
    cls: Any = made
    if "__init__" in vars(cls) and not hasattr(cls.__init__, "__wrapped__"):
        cls.__init__ = guarded(cls.__init__, called(cls), cls.__doc__, method=True)
    if not ENGINE & {base.__name__ for base in cls.__mro__}:
        for name, method in list(vars(cls).items()):
            plain = inspect.isfunction(method) and not hasattr(method, "__wrapped__")
            if plain and not name.startswith("_"):
                title = f"{cls.__name__}.{name}"
                setattr(cls, name, guarded(method, title, method.__doc__, method=True))
    return made


def called(made: Any) -> str:
    """What users call it."""
    parts = made.__module__.split(".")[1:]
    place = {"models": ".".join(parts[:2]), "bandits": "bandits"}.get(parts[0] if parts else "", "")
    return ".".join(filter(None, ("sm", place, made.__name__)))


def guarded(function: Any, name: str, doc: str | None, method: bool = False) -> Any:
    """The function as it is, but for what a call that does not fit raises."""

    @functools.wraps(function)
    def call(*given, **named):
        try:
            return function(*given, **named)
        except (TypeError, ValueError, AttributeError) as error:
            if sys._getframe(1).f_code.co_filename.startswith(HOME):
                raise  # a call of ours: the user's own is told of
            arguments = given[method:]
            if isinstance(error, TypeError):
                if told := misfit(function, name, arguments, named, method):
                    raise TypeError(told) from None
            if told := misplaced(function, name, doc, arguments, named, error):
                found = TypeError(told)
                for note in getattr(error, "__notes__", ()):
                    found.add_note(note)
                raise found from error
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
        many = f"{len(given)} argument{'s' * (len(given) != 1)}"
        return (
            f"{name} was given {many} by position, and has {len(positional)} that may be. Write "
            f"them by name. {takes}"
        )
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


def misplaced(
    function: Any, name: str, doc: str | None, given: tuple, named: Mapping, error: Exception
) -> str:
    """Which argument Python or numpy could do nothing with, and what to write; empty: not known.

    sm.Metropolis("mu", sm.Exact()), as sm.Gibbs("k", sm.Exact()) is written; sm.interval("a", 1).
    """
    if not is_raw(error):
        return ""
    parameters = {p.name: p for p in inspect.signature(function).parameters.values()}
    names = [key for key in parameters if key != "self"]
    had = {**dict(zip(names, given, strict=False)), **named}
    blamed = [
        key for key in had
        if key in parameters and is_named(had[key], str(error))
        and not fits(parameters[key], had[key], doc or "")
    ]  # fmt: skip
    if len(blamed) > 1:  # numbers are least in doubt
        blamed = [key for key in blamed if takes_number(parameters[key])][:1]
    if not blamed:
        return ""
    key, value = blamed[0], had[blamed[0]]
    needed = advice(parameters[key], doc, str(error))
    if place := place_of(value):
        text = f"sm.{type(value).__name__}(...)"
        if place in names:
            return f"{name}(..., {key}={text}): this is a {place}. Give by name, {place}={text}."
        return f"{name}(..., {key}={text}): this is a {place}; {needed}"
    return f"{name}(..., {key}={value!r:.60}): {needed}"


def place_of(value: Any) -> str:
    """Which argument objects of this class are given as; empty: none that is known."""
    kinds = {cls.__name__ for cls in type(value).__mro__}
    return next((PLACES[kind] for kind in PLACES if kind in kinds), "")


def advice(parameter: inspect.Parameter, doc: str | None, error: str) -> str:
    """What to give for a parameter: a number, or what the error and the docstring say of it."""
    if takes_number(parameter) and parameter.annotation is not Any:
        return "give a number."
    if parameter.name in NEEDED:
        return f"give {NEEDED[parameter.name]}."
    said = documented(doc or "", parameter.name)
    return f"{error}. {parameter.name}: {said}" if said else error


def documented(doc: str, name: str) -> str:
    """What a docstring says of a parameter: the lines that begin with its name, and are below."""
    lines = inspect.cleandoc(doc).splitlines()
    for i, line in enumerate(lines):
        if found := re.match(rf"(?:\w+, )*{name}(?:, \w+)*(\([^)]*\)[^:]*)?: (.*)", line):
            more = itertools.takewhile(lambda line: line.startswith("    "), lines[i + 1 :])
            return " ".join([found[2], *(text.strip() for text in more)])
    return ""


def is_named(value: Any, text: str) -> bool:
    """Does an error name the type of a value, or say that a text within it is no number."""
    if found := re.search(NO_NUMBER, text):
        return not isinstance(value, int | float) and found[1].rstrip(")")[-3:] in repr(value)
    names = {name for pattern in OF_TYPES for found in re.findall(pattern, text)
             for name in ([found] if isinstance(found, str) else found)}  # fmt: skip
    return type(value).__name__ in names


def fits(parameter: inspect.Parameter, value: Any, doc: str) -> bool:
    """Is a value of a kind that a parameter takes, as far as default, declaration and doc say."""
    default = parameter.default
    declared = {parameter.annotation, *get_args(parameter.annotation)}
    if value is default or (value is None and {None, type(None)} & declared):
        return True
    if place_of(value) == parameter.name:
        return True
    if inspect.isfunction(value) and re.search(rf"\b{parameter.name}\(", doc):
        return True
    number = isinstance(value, int | float | np.number)
    if number and (takes_number(parameter) or parameter.name == "seed"):
        return True
    if isinstance(value, str) and isinstance(default, str):
        return True
    kinds = tuple(kind for kind in declared if isinstance(kind, type) and kind is not Any)
    return isinstance(value, kinds)


def takes_number(parameter: inspect.Parameter) -> bool:
    """Is it a number, by its default or as it is declared, or a word for one."""
    declared = {parameter.annotation, *get_args(parameter.annotation)}
    default = parameter.default
    return bool(declared & {int, float}) or (
        isinstance(default, int | float | str) and not isinstance(default, bool)
    )


def is_raw(error: BaseException) -> bool:
    """Did Python or a library raise it, and neither this package in words nor a user's function.

    Nor is it of a run that had drawn: it arrives as it is.
    """
    if hasattr(error, "trace"):
        return False
    file, line, trace = "", 0, error.__traceback__
    while trace is not None:
        file, line = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        if not is_library(file, trace.tb_frame.f_globals.get("__name__", "")):
            return False
        trace = trace.tb_next
    return not (file.startswith(HOME) and linecache.getline(file, line).strip().startswith("raise"))


def is_library(file: str, module: str) -> bool:
    """Is code of this package, of Python, or of a library below it.

    file, module: where it stands; of what was made of text, or typed, "<...>", the module tells.
    """
    if file.startswith("<"):
        return module.partition(".")[0] in {*LIBRARIES, *OWN} or file.startswith("<frozen")
    if file.startswith(HOME):
        return True
    if found := re.search(INSTALLED, file):
        return found[1] in LIBRARIES
    return file.startswith(PYTHON)


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
