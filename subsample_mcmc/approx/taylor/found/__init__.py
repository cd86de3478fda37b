"""Predictors that are found in a plain log likelihood, and what follows from them.

row_slopes.py finds those of each row; derivatives_found.py adds up what is made of them.
"""
