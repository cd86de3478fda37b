"""Whole numbers without a sign get one where a function takes them from an array."""

import numba
import numpy as np
from numba.core import ir, ir_utils
from numba.core.compiler_machinery import register_pass
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic

from subsample_mcmc.numerics.passes.rewriting import Rewriting, constant, definition

# What gives elements of an array, or their sum, in the array's own type or that without a sign.
OF_ELEMENTS = ("take", "min", "max", "amin", "amax", "sum", "prod", "item")


@intrinsic
def signed(typing, array, value):
    """Compiled: a whole number without a sign as one with a sign, all else as it is.

    Of columns of uint8, a - b is 2**64 - 1 for -1. Of 64 bits only those of data.
    """
    own = isinstance(array, numba.types.Array) and array.mutable and array.dtype == value
    known = isinstance(value, numba.types.Integer) and not value.signed
    known = known and (value.bitwidth < 64 or not own)

    def codegen(context, builder, signature, arguments):
        if known:
            return context.cast(builder, arguments[1], value, numba.types.int64)
        return impl_ret_borrowed(context, builder, value, arguments[1])

    return (numba.types.int64 if known else value)(array, value), codegen


@register_pass(mutates_CFG=False, analysis_only=False)
class Sign(Rewriting):
    """Whatever is looked up, met by a loop or given by one of OF_ELEMENTS goes through `signed`."""

    _name = "subsample_mcmc_sign"

    def rewrite(self, code, block, steps):
        for step in steps:
            value = getattr(step, "value", None)
            known = isinstance(step, ir.Assign) and isinstance(value, ir.Expr)
            array = self.array_of(code, value) if known else None
            if array is not None:
                read = ir.Var(block.scope, ir_utils.mk_unique_var("$read"), step.loc)
                block.body.append(ir.Assign(value, read, step.loc))
                self.call(block, signed, [array, read], step.target, step.loc)
            else:
                block.body.append(step)

    def array_of(self, code, value) -> ir.Var | None:
        """What an expression takes an element from; None: it is no such expression."""
        if value.op in ("getitem", "static_getitem"):
            return value.value
        if value.op == "pair_first":  # what a loop meets next
            return self.looped(code, value.value)
        return self.called(code, value) if value.op == "call" else None

    def looped(self, code, pair) -> ir.Var | None:
        """What is looped over; not a range, whose numbers are indices, nor what numba unrolls."""
        for op in ("iternext", "getiter"):
            made = definition(code, pair)
            if not (isinstance(made, ir.Expr) and made.op == op):
                return None
            pair = made.value
        made = definition(code, pair)
        counted = isinstance(made, ir.Expr) and made.op == "call"
        apart = (range, numba.literal_unroll)
        return None if counted and constant(code, made.func) in apart else pair

    def called(self, code, call) -> ir.Var | None:
        """The array that a call gives elements or sums of."""
        function = definition(code, call.func)
        if not (isinstance(function, ir.Expr) and function.op == "getattr"):
            return None
        if function.attr not in OF_ELEMENTS:
            return None
        if constant(code, function.value) is not np:
            return function.value
        return call.args[0] if call.args else None
