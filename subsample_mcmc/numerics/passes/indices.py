"""Look-ups beyond an array, and computed negative indices, raise."""

from typing import Any

import numba
import numpy as np
from numba.core import ir, ir_utils
from numba.core.compiler_machinery import register_pass
from numba.extending import intrinsic

from subsample_mcmc.numerics.passes.rewriting import Rewriting, constant, definition

PARTS = ("getattr", "getitem", "static_getitem", "exhaust_iter")
BEYOND = "index beyond the array"  # raised by compiled code; target/lookups/ says which and where


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


def taken(code, call) -> tuple | None:
    """(array, index) of a call of np.take or of an array's own take; else None."""
    called = definition(code, call.func)
    given, names = list(call.args), dict(call.kws)
    if isinstance(called, ir.Expr) and called.op == "getattr" and called.attr == "take":
        if constant(code, called.value) is not np:
            given.insert(0, called.value)
    elif constant(code, call.func) is not np.take:
        return None
    if len(given) == 1 and "indices" in names:
        given.append(names["indices"])
    return (given[0], given[1]) if len(given) > 1 else None


REFUSE = {kind: refusing(kind) for kind in (True, False)}


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
            made = definition(code, index)
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
        return constant(code, call.func) is slice

    def flattened(self, code, value) -> Any:
        """The array of which a value is .flat; else None."""
        made = definition(code, value)
        flat = isinstance(made, ir.Expr) and made.op == "getattr" and made.attr == "flat"
        return made.value if flat else None

    def given(self, code, array) -> bool:
        """Is an array an argument, or part of one (state.b, made[0]), even if written to."""
        found = definition(code, array)
        while isinstance(found, ir.Expr) and found.op in PARTS:
            found = definition(code, found.value)
        return isinstance(found, ir.Arg)
