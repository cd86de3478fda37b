"""How what is registered for jets is compiled: once per content, and kept on disk, as `jit` does.

numba's own `overload` compiles an implementation anew in each process, and to machine code of its
own that nobody calls: two thirds of the time that a new model with derivatives took.
With `jit` and its like this file knows numba from inside.
"""

from types import FunctionType
from typing import Any

from numba import types
from numba.core.typing import templates

from subsample_mcmc.numerics.digest import PACKAGE
from subsample_mcmc.numerics.jit import CHOSEN_BY_TYPES, FLAGS, jit


def inlined(implementation: Any) -> Any:
    """An implementation, compiled to be inlined, free to reorder as a user's functions are."""
    made = jit(implementation, flags=FLAGS, inner="always", user=True)
    # With constants as they are: x**2 and x**3 are two functions, told apart by their arguments.
    vars(made).pop("get_call_template", None)
    return made


def by_content(template: Any) -> Any:
    """What numba asks a template for: with which options implementations are compiled, and how."""
    return lambda **options: inlined


NAMED: set[str] = set()


def known_as(name: str, one: Any) -> None:
    """Let `jit` know a function by its name, where numba finds what it is by arguments' types."""
    if name in NAMED:
        raise ValueError(f"two functions are {name}: machine code of one would serve the other.")
    NAMED.add(name)
    one.digest = name


def register(function: Any, choose: Any, strict: bool = True, literal: bool = False) -> None:
    """Let numba ask choose(types) for what a function is."""
    made = templates.make_overload_template(function, choose, {}, strict, "never", literal)
    made._get_jit_decorator = by_content
    templates.infer(made)
    templates.infer_global(function, types.Function(made))


def overload(function: Any, *, strict: bool = True, literal: bool = False) -> Any:
    """numba's `overload`: register choose(types) -> implementation, or None, for a function."""
    own = isinstance(function, FunctionType) and function.__module__.startswith(PACKAGE)
    if own and function not in CHOSEN_BY_TYPES:
        CHOSEN_BY_TYPES.add(function)
        known_as(f"{function.__module__}.{function.__qualname__}, {function.__name__}", function)

    def decorate(choose):
        register(function, choose, strict, literal)
        return choose

    return decorate


def read_from(make_template: Any) -> Any:
    """numba's `overload_method`, or `overload_attribute`, with implementations as here."""

    def named(kind: Any, name: str) -> Any:
        def decorate(choose):
            templates.infer_getattr(make_template(kind, name, choose, inline="never"))
            register(choose, choose)  # what such a template asks for is registered by this name
            return choose

        return decorate

    return named


method = read_from(templates.make_overload_method_template)
attribute = read_from(templates.make_overload_attribute_template)


# ----------------------------------------------------- functions of the package, called with jets
def serve(dispatcher: Any, implementation: Any, knows: Any, arguments: int = 1) -> None:
    """Let sm.log and its like be called with what is of some types: knows(type)."""
    if arguments == 1:

        @inlined
        def of_jets(x):
            return implementation(x)
    else:

        @inlined
        def of_jets(a, b):
            return implementation(a, b)

    def among(given) -> bool:
        return any(map(knows, given))

    template, overload_of = dispatcher.get_call_template, dispatcher.get_overload

    def get_call_template(args, kws):
        return (of_jets.get_call_template if among(args) else template)(args, kws)

    def get_overload(given):
        return (of_jets.get_overload if among(given) else overload_of)(given)

    dispatcher.get_call_template, dispatcher.get_overload = get_call_template, get_overload
