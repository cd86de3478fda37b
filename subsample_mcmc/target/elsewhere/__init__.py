"""Rows that are elsewhere: passes over their parts, and the few that chains have in memory.

A chain stays in this process. What it needs of all rows, sums and fits, is a pass over the parts,
each of which is an ordinary model of its own rows where these are (rows.py, shared_sums.py). What
its decisions read is in memory beforehand: row numbers come from a counter, so that it is known
which rows the next decisions will draw (pool.py); compiled code finds them by their numbers
(resident.py). A chain that wants what is not there stops, and goes on from its last whole draw once
it is.
"""
