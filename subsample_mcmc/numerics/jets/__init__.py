"""Derivatives of a user's function along a line, from one call: numbers that know them.

series.py has the arithmetic; kinds.py the types that numba is told of, operators.py what may be
done with them, arrays.py whole arrays of them, filled.py those that a function fills; plain.py the
same for plain Python. In the place of slopes may stand slopes that are written down (tapes.py), in
that of numbers what they lie between (ranges.py, intervals.py). unwrapped.py makes plain Python of
what is compiled here.
"""
