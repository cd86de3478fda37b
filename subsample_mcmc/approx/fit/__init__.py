"""Where a posterior is: its mode, by Newton's steps, and its moments, by importance sampling.

laplace.py is the way in; fit.py what it returns.
"""
