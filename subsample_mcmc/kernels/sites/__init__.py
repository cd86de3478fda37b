"""Continuous blocks whose sites see data of their own: moved site by site.

moves.py makes the moves; touches.py checks which data and
priors they are said to be about.
"""
