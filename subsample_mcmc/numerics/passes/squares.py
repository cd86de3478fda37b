"""In functions for bounds a number times itself is a square."""

import operator
from collections import Counter

from numba.core import ir, ir_utils
from numba.core.compiler_machinery import register_pass

from subsample_mcmc.numerics.passes.rewriting import Rewriting


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
