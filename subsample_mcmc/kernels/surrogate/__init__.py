"""Moves by a surrogate that is made anew from what stands still: one pass, then many moves.

reference.py makes it: the log likelihood's polynomial, and the Gaussian of it with the prior;
transition.py is the kernel.
"""
