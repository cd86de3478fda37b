"""Derivatives of a user's function along a line, from one call: numbers that know them.

series.py has the arithmetic; kinds.py the types that numba is told of, operators.py what may be
done with them, arrays.py whole arrays of them; plain.py the same for plain Python.
"""
