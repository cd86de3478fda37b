"""Look-ups beyond an array: told from a function's code, or by calling it for every datum.

What compiled code reads beyond a block, a column or a table is whatever lies there in memory.
"""
