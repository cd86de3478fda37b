"""Blocks whose sites see data of their own; the continuous ones are moved site by site here.

moves.py makes the moves; touches.py checks which data and priors they are said to be about, for the
sites of discrete blocks, too; own_prior.py compares a kernel's prior of a site with the model's.
"""
