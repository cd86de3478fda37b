"""How numba is made to compile: pipelines of our own, with `jit` all that knows it from inside.

Inner functions are translated once, with their outermost caller; arrays that never overlap are
said not to; checked functions refuse every look-up beyond an array, and every computed negative
index; in a user's functions whole numbers have a sign; and in functions for bounds a number times
itself is a square. If numba moves the names used here, `jit` compiles with what is left.
"""

import ctypes
import gc
import importlib
import sys
import traceback
from contextlib import contextmanager, suppress
from typing import Any

import llvmlite.binding
import numba

# What numba raises by mistake of what it did not foresee: zip(..., strict=True), say.
GAVE_UP = (AssertionError, AttributeError, KeyError, NotImplementedError)


def gave_up(error: Exception) -> Exception:
    """The same as an error of numba's own kind, with the line of the function if it is known."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    places = [getattr(frame.f_locals.get("self"), "loc", None) for frame in frames]
    at = traceback.extract_tb(error.__traceback__)[-1].line or ""
    why = f"numba gives up on it with {type(error).__name__} at `{at}`: {error}".rstrip(": ")
    if at.startswith("assert not kws"):
        why = "it gives an argument by name to what is compiled without names"
    return numba.core.errors.TypingError(why, loc=next(filter(None, reversed(places)), None))


@contextmanager
def collecting_later():
    """Collect no garbage now, but as soon as this is over.

    Compiling makes millions of objects: to look through them again and again is a tenth of it.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


try:
    from numba.core import caching, codegen, compiler, options
    from numba.core.runtime import rtsys  # noqa: F401
    from numba.core.untyped_passes import InlineClosureLikes

    from subsample_mcmc.numerics.passes import Refuse, Sign, Square

    def free_pass_managers() -> None:
        """Let LLVM's pass managers, of which a model takes twenty, go when Python's objects do.

        llvmlite says how in a base class that comes second, after one that does nothing: each
        leaves 60 kB for good.
        """
        made = llvmlite.binding.newpassmanagers
        for kind in (made.ModulePassManager, made.FunctionPassManager):
            if kind._dispose is llvmlite.binding.ffi.ObjectRef._dispose:
                kind._dispose = made.NewPassManager._dispose

    with suppress(AttributeError):  # an llvmlite that has other names for them
        free_pass_managers()

    class Draft(codegen.JITCodeLibrary):
        """Code of an inner function: optimised and translated once, with its outermost caller."""

        def _optimize_final_module(self):
            return

        def _finalize_final_module(self):
            self._finalize_dynamic_globals()
            self._finalized = True

        def get_pointer_to_function(self, name):
            return 0  # there is no machine code of its own

        @property
        def codegen(self):
            return self

        def set_env(self, name, environment):
            """Set by Outer, in the module that the function ends up in."""

        def serialize_using_object_code(self):
            return self.serialize_using_bitcode()

        @classmethod
        def read(cls, target, name, bitcode):
            """The inverse of serialize."""
            self = cls(target.codegen(), name)
            self._final_module = llvmlite.binding.parse_bitcode(bitcode)
            self._finalize_final_module()
            return self

    def new_engine(shared) -> Any:
        """An engine of LLVM that holds nothing yet, with the options of the shared one."""
        chosen: dict[str, Any] = {"opt": numba.config.OPT}  # type: ignore[attr-defined]
        shared._customize_tm_options(chosen)
        target = llvmlite.binding.Target.from_triple(llvmlite.binding.get_process_triple())
        empty = llvmlite.binding.parse_assembly(str(shared._create_empty_module("own")))
        given = {}
        if hasattr(numba.config, "USE_LLVMLITE_MEMORY_MANAGER"):
            given["use_lmm"] = numba.config.USE_LLVMLITE_MEMORY_MANAGER
        machine = target.create_target_machine(**chosen)
        return llvmlite.binding.create_mcjit_compiler(empty, machine, **given)

    class OwnLibrary(codegen.JITCodeLibrary):
        """Code in an engine of its own, which goes when the function goes.

        numba has one engine for all, and never takes anything out of it. Here the shared target
        machine translates, and the engine is given object code only: no module of LLVM stays.
        """

        own: Any = None  # the engine; None: not translated yet, or in the shared one
        code, names = b"", frozenset[str]()
        linked = b""  # of one from disk: the module that others may link

        def _finalize_final_module(self):
            prefix = codegen.RuntimeLinker.PREFIX
            if any(v.name.startswith(prefix) for v in self._final_module.global_variables):
                super()._finalize_final_module()  # it calls itself, which the shared one resolves
                return
            self._finalize_dynamic_globals()
            self._verify_declare_only_symbols()
            names = {f.name for f in self._final_module.functions if not f.is_declaration}
            self.take(self._codegen._tm.emit_object(self._final_module), frozenset(names))

        def take(self, code, names):
            """Load object code."""
            self.code, self.names, self.own = code, names, new_engine(self._codegen)
            self.own.add_object_file(llvmlite.binding.ObjectFileRef.from_data(code))
            self.own.finalize_object()
            self._finalized = True

        def get_pointer_to_function(self, name):
            self._ensure_finalized()
            if self.own is None:
                return super().get_pointer_to_function(name)
            return self.own.get_function_address(name) if name in self.names else 0

        @property
        def codegen(self):
            return self

        def set_env(self, name, environment):
            """As numba does in the shared engine; one that the code does not mention is left."""
            if self.own is None:
                self._codegen.set_env(name, environment)
            elif place := self.own.get_global_value_address(name):
                (ctypes.c_void_p * 1).from_address(place)[0] = ctypes.c_void_p(id(environment))

        def serialize_using_object_code(self):
            if self.own is None:
                return super().serialize_using_object_code()
            linked = self._get_module_for_linking().as_bitcode()
            return self.name, "own", (self.code, self.names, linked)

        @classmethod
        def read(cls, target, name, kept):
            """The inverse of serialize."""
            self = cls(target.codegen(), name)
            code, names, self.linked = kept
            self.take(code, names)
            return self

        def _get_module_for_linking(self):
            if self._shared_module is None and self.linked:
                self._shared_module = llvmlite.binding.parse_bitcode(self.linked)
            return super()._get_module_for_linking()

    def read_library(target, kept) -> Any:
        """A library from disk, of any kind: (name, kind, what it is made of)."""
        name, kind, content = kept
        if kind == "bitcode":
            return Draft.read(target, name, content)
        if kind == "own":
            return OwnLibrary.read(target, name, content)
        return target.codegen().unserialize_library(kept)

    def import_array_functions() -> None:
        """Import what numba compiles array functions with, but not scipy.linalg.

        It tries that here, which takes .2 s of every process that compiles anything, and again
        where a function needs it.
        """
        if "numba.np.arraymath" in sys.modules:
            return
        from numba.np import linalg

        tried = getattr(linalg, "ensure_blas", None)
        linalg.ensure_blas = lambda: None  # scipy is there: this package needs it
        try:
            importlib.import_module("numba.np.arraymath")
        finally:
            if tried is not None:
                linalg.ensure_blas = tried

    class Lean(compiler.Compiler):
        """Keeps nothing of a function but its machine code, so that all else can be freed.

        Else numba keeps its text with the types of all values in it, some ten times the size of
        the code, for `inspect_types`; and with it the functions that it calls, for good.
        """

        def __init__(self, *given):
            import_array_functions()
            super().__init__(*given)

        def compile_extra(self, func):
            try:
                with collecting_later():
                    made = super().compile_extra(func)
            except GAVE_UP as error:
                raise gave_up(error) from error
            return made._replace(type_annotation="") if hasattr(made, "type_annotation") else made

    class Outer(Lean):
        """Compiles what Python calls; gives what it calls the environment that print needs."""

        def compile_extra(self, func):
            made = super().compile_extra(func)
            for env in getattr(made, "_find_referenced_environments", list)():
                made.library.codegen.set_env(env.env_name, env)
            return made

    class OfUser(Outer):
        """Compiles what was made from a user's function, and is freed with it."""

        def __init__(self, typingctx, targetctx, library, *rest):
            own = OwnLibrary(targetctx.codegen(), "own")
            super().__init__(typingctx, targetctx, own, *rest)

    class Disjoint(compiler.Compiler):
        """Compiles a function whose array arguments never overlap (4x on mini-batches)."""

        def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
            if hasattr(flags, "noalias"):
                flags.noalias = True
            super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)

    class Inner(Lean):
        """Compiles what only compiled functions call."""

        def __init__(self, typingctx, targetctx, library, *rest):
            super().__init__(typingctx, targetctx, Draft(targetctx.codegen(), "inner"), *rest)

    class Passing:
        """Mixed into a compiler: its functions go through passes of ours, one after another."""

        ours: tuple = ()

        def define_pipelines(self):
            made = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
            for one in reversed(self.ours):
                made.add_pass_after(one, InlineClosureLikes)  # what stands in lambdas, too
            made.finalize()
            return [made]

    def compiler_of(where, apart: bool, ours: tuple) -> Any:
        kinds = (*(Passing,) * bool(ours), where, *(Disjoint,) * apart)
        return type(where.__name__, kinds, {"ours": ours})

    # By (who calls it, whether its arrays never overlap, what is done to it, is it a user's).
    MORE: Any = {"": (), "checked": (Refuse,), "squares": (Square,)}
    COMPILERS: Any = {
        (where, apart, more, foreign): compiler_of(where, apart, (*ours, *(Sign,) * foreign))
        for where in (Inner, Outer, OfUser) for apart in (True, False)
        for more, ours in MORE.items() for foreign in (True, False)
    }  # fmt: skip
    CACHE_BASE: Any = caching._Cache
    Dispatcher: Any = numba.core.registry.CPUDispatcher
    KNOWN: Any = vars(options.DefaultOptions)
except (ImportError, AttributeError):  # pragma: no cover  (a numba that moved its private names)
    CACHE_BASE, KNOWN, COMPILERS = None, (), {}
    Dispatcher = type(numba.njit(lambda: None))


class Named(Dispatcher):
    """A compiled function of this package: another process has it under its name.

    Sent by value it would be another one there, of which nobody knows what it is made from, nor how
    it serves numbers that know their derivatives. Functions of users' are sent with all they name,
    sm.exp among it.
    """

    place: tuple[str, str]  # its module, and its name there

    def __repr__(self) -> str:
        return f"<compiled function {'.'.join(self.place)}>"

    def __reduce__(self):
        module, name = self.place
        if getattr(sys.modules.get(module), name, None) is self:
            return by_name, (module, name)
        return super().__reduce__()


def by_name(module: str, name: str) -> Any:
    """A function of this package."""
    return getattr(importlib.import_module(module), name)
