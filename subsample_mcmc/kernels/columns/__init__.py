"""Moves of one coefficient at a time, with the predictors of all rows kept.

kept.py keeps them, proposal.py proposes, flip.py decides, and sweep.py goes over coefficients that
may be 0; what is known beforehand comes from approx/columns/.
"""
