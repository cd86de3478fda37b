"""What all passes are: something is put beside, or in the place of, some steps of each block."""

from typing import Any

from numba.core import ir, ir_utils
from numba.core.compiler_machinery import FunctionPass


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


def definition(code, var) -> Any:
    """What a variable was given, if that is one thing; else None."""
    return ir_utils.guard(ir_utils.get_definition, code, var)


def constant(code, var) -> Any:
    """What a variable is, if that is known before its type is; else None."""
    return ir_utils.guard(ir_utils.find_const, code, var)
