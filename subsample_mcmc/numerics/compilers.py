"""How numba is made to compile: pipelines of our own, with `jit` all that knows it from inside.

Inner functions are translated once, with their outermost caller; arrays that never overlap are
said not to; checked functions refuse every look-up beyond an array, and every computed negative
index; in a user's functions whole numbers have a sign; and in functions for bounds a number times
itself is a square. If numba moves the names used here, `jit` compiles with what is left.
"""

import ctypes
import gc
import importlib
import operator
import sys
from collections import Counter
from contextlib import contextmanager, suppress
from typing import Any

import llvmlite.binding
import numba
import numpy as np


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


PARTS = ("getattr", "getitem", "static_getitem", "exhaust_iter")
BEYOND = "index beyond the array"  # raised by compiled code; target/lookups/ says which and where

try:
    from numba.core import caching, codegen, compiler, ir, ir_utils, options
    from numba.core.compiler_machinery import FunctionPass, register_pass
    from numba.core.imputils import impl_ret_borrowed
    from numba.core.runtime import rtsys  # noqa: F401
    from numba.core.untyped_passes import InlineClosureLikes
    from numba.extending import intrinsic

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
            with collecting_later():
                made = super().compile_extra(func)
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

    def least_of(index):
        least = 0
        for i in index.flat:
            least = min(least, np.int64(i))
        return least

    def refusing(only_shared: bool) -> Any:
        """refuse(array, index), compiled: raises where an index is negative.

        only_shared: of arrays that may only be read (blocks, data and what is compiled in), not of
        those that the function allocates for itself.
        """

        @intrinsic
        def refuse(typing, array, index):
            def codegen(context, builder, signature, arguments):
                negative = builder.icmp_signed("<", arguments[1], arguments[1].type(0))
                with builder.if_then(negative, likely=False):
                    context.call_conv.return_user_exc(builder, IndexError, (BEYOND,))
                return context.get_dummy_value()

            def codegen_of_array(context, builder, signature, arguments):
                least = context.compile_internal(
                    builder, least_of, numba.types.int64(index), [arguments[1]]
                )
                negative = builder.icmp_signed("<", least, least.type(0))
                with builder.if_then(negative, likely=False):
                    context.call_conv.return_user_exc(builder, IndexError, (BEYOND,))
                return context.get_dummy_value()

            def nothing(context, builder, signature, arguments):
                return context.get_dummy_value()

            several = isinstance(index, numba.types.Array)
            kind = index.dtype if several else index
            known = isinstance(array, numba.types.Array) and isinstance(kind, numba.types.Integer)
            known = known and kind.signed and not isinstance(kind, numba.types.Literal)
            known = known and not (only_shared and array.mutable)
            chosen = codegen_of_array if several else codegen
            return numba.types.none(array, index), chosen if known else nothing

        return refuse

    @intrinsic
    def refuse_beyond(typing, array, index):
        """Compiled: raises where array.flat has no element with this index."""

        def codegen(context, builder, signature, arguments):
            held = context.make_array(array)(context, builder, arguments[0])
            least = context.cast(builder, arguments[1], index, numba.types.intp)
            beyond = builder.icmp_unsigned(">=", least, held.nitems)
            with builder.if_then(beyond, likely=False):
                context.call_conv.return_user_exc(builder, IndexError, (BEYOND,))
            return context.get_dummy_value()

        def nothing(context, builder, signature, arguments):
            return context.get_dummy_value()

        known = isinstance(array, numba.types.Array) and isinstance(index, numba.types.Integer)
        return numba.types.none(array, index), codegen if known else nothing

    @intrinsic
    def signed(typing, array, value):
        """Compiled: a whole number without a sign as one with a sign, all else as it is.

        Of columns of uint8, a - b is 2**64 - 1 for -1. Of 64 bits only those of data.
        """
        bits = isinstance(array, numba.types.Array) and array.mutable
        known = isinstance(value, numba.types.Integer) and not value.signed
        known = known and (value.bitwidth < 64 or not bits)

        def codegen(context, builder, signature, arguments):
            if known:
                return context.cast(builder, arguments[1], value, numba.types.int64)
            return impl_ret_borrowed(context, builder, value, arguments[1])

        return (numba.types.int64 if known else value)(array, value), codegen

    def taken(code, call) -> tuple | None:
        """(array, index) of a call of np.take or of an array's own take; else None."""
        called = ir_utils.guard(ir_utils.get_definition, code, call.func)
        given, names = list(call.args), dict(call.kws)
        if isinstance(called, ir.Expr) and called.op == "getattr" and called.attr == "take":
            if ir_utils.guard(ir_utils.find_const, code, called.value) is not np:
                given.insert(0, called.value)
        elif ir_utils.guard(ir_utils.find_const, code, call.func) is not np.take:
            return None
        if len(given) == 1 and "indices" in names:
            given.append(names["indices"])
        return (given[0], given[1]) if len(given) > 1 else None

    REFUSE = {kind: refusing(kind) for kind in (True, False)}

    class Rewriting(FunctionPass):
        """A pass over a function's code: rewrite(code, block, steps) appends to an empty block."""

        def __init__(self):
            FunctionPass.__init__(self)

        def run_pass(self, state):
            code = state.func_ir
            for block in code.blocks.values():
                before, block.body = block.body, []
                self.rewrite(code, block, before)
            code._definitions = ir_utils.build_definitions(code.blocks)
            return True

        def call(self, block, function, arguments, target, where):
            """Append the call of an intrinsic; target: the variable that takes what it gives."""
            name = ir.Var(block.scope, ir_utils.mk_unique_var("$own"), where)
            block.body.append(ir.Assign(ir.Global("own", function, where), name, where))
            called = ir.Expr.call(name, list(arguments), (), where)
            block.body.append(ir.Assign(called, target, where))

    @register_pass(mutates_CFG=False, analysis_only=False)
    class Refuse(Rewriting):
        """Puts a test before each look-up whose index is not written as a constant."""

        _name = "subsample_mcmc_refuse_negative"

        def rewrite(self, code, block, steps):
            for step in steps:
                value = getattr(step, "value", None)
                if isinstance(step, ir.SetItem):
                    self.test(code, block, step.target, step.index, step.loc)
                elif isinstance(value, ir.Expr) and value.op == "getitem":
                    if array := self.flattened(code, value.value):
                        self.add(block, refuse_beyond, (array, value.index), step.loc)
                    else:
                        self.test(code, block, value.value, value.index, step.loc)
                elif isinstance(value, ir.Expr) and value.op == "call":
                    if pair := taken(code, value):
                        self.test(code, block, *pair, step.loc)
                block.body.append(step)

        def test(self, code, block, array, index, where):
            """Append a test of each part of an index."""
            try:
                ir_utils.find_const(code, index)
                return
            except ir_utils.GuardException:
                made = ir_utils.guard(ir_utils.get_definition, code, index)
            parts = ()
            if isinstance(made, ir.Expr) and made.op == "build_tuple":
                parts = made.items
            elif isinstance(made, ir.Expr) and made.op == "call" and self.slices(code, made):
                parts = made.args[:2]  # where it begins and where it ends
            for part in parts:
                self.test(code, block, array, part, where)
            if not parts:
                self.add(block, REFUSE[not self.given(code, array)], (array, index), where)

        def add(self, block, test, arguments, where):
            """Append a call of a test."""
            done = ir.Var(block.scope, ir_utils.mk_unique_var("$refused"), where)
            self.call(block, test, arguments, done, where)

        def slices(self, code, call) -> bool:
            """Is it a call of slice, as x[a:b] is."""
            return ir_utils.guard(ir_utils.find_const, code, call.func) is slice

        def flattened(self, code, value) -> Any:
            """The array of which a value is .flat; else None."""
            made = ir_utils.guard(ir_utils.get_definition, code, value)
            flat = isinstance(made, ir.Expr) and made.op == "getattr" and made.attr == "flat"
            return made.value if flat else None

        def given(self, code, array) -> bool:
            """Is an array an argument, or part of one (state.b, made[0]), even if written to."""
            found = ir_utils.guard(ir_utils.get_definition, code, array)
            while isinstance(found, ir.Expr) and found.op in PARTS:
                found = ir_utils.guard(ir_utils.get_definition, code, found.value)
            return isinstance(found, ir.Arg)

    @register_pass(mutates_CFG=False, analysis_only=False)
    class Sign(Rewriting):
        """Whatever is looked up goes through `signed`."""

        _name = "subsample_mcmc_sign"

        def rewrite(self, code, block, steps):
            for step in steps:
                value = getattr(step, "value", None)
                found = isinstance(value, ir.Expr) and value.op in ("getitem", "static_getitem")
                if found and isinstance(step, ir.Assign):
                    read = ir.Var(block.scope, ir_utils.mk_unique_var("$read"), step.loc)
                    block.body.append(ir.Assign(value, read, step.loc))
                    self.call(block, signed, [value.value, read], step.target, step.loc)
                else:
                    block.body.append(step)

    @register_pass(mutates_CFG=False, analysis_only=False)
    class Square(Rewriting):
        """Puts z ** 2 in the place of z * z: of a product nobody knows that both are one number."""

        _name = "subsample_mcmc_square"

        def rewrite(self, code, block, steps):
            written: Counter[str] = Counter()  # how often a name was, in this block
            meant: dict[str, tuple] = {}  # a name that is another's value, as it was then

            def value_of(var):
                return meant.get(var.name, (var.name, written[var.name]))

            for step in steps:
                if isinstance(step, ir.Assign):
                    name, value = step.target.name, step.value
                    if self.multiplies(value) and value_of(value.lhs) == value_of(value.rhs):
                        step = self.squared(block, step)
                    same = value_of(value) if isinstance(value, ir.Var) else None
                    written[name] += 1
                    meant.pop(name, None)
                    if same is not None:
                        meant[name] = same
                block.body.append(step)

        def multiplies(self, value) -> bool:
            """Is it a product; z *= z may write into an array that has another name, too."""
            known = isinstance(value, ir.Expr) and value.op == "binop"
            return known and value.fn is operator.mul

        def squared(self, block, step):
            """Append the number 2; the same assignment, of a power."""
            where = step.loc
            two = ir.Var(block.scope, ir_utils.mk_unique_var("$two"), where)
            block.body.append(ir.Assign(ir.Const(2, where), two, where))
            power = ir.Expr.binop(operator.pow, step.value.lhs, two, where)
            return ir.Assign(power, step.target, where)

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
