"""Passes of our own over the code of users' functions, between Python's bytecode and types.

indices.py puts a test before each look-up that could be beyond an array; signs.py gives whole
numbers without a sign one; squares.py knows a number times itself. rewriting.py is what these have
in common. They know numba from inside: numerics/compilers.py does without where it has moved.
"""

from subsample_mcmc.numerics.passes.indices import BEYOND, Refuse
from subsample_mcmc.numerics.passes.signs import Sign
from subsample_mcmc.numerics.passes.squares import Square

__all__ = ["BEYOND", "Refuse", "Sign", "Square"]
