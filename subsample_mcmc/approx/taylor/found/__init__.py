"""Predictors that are found in a plain log likelihood, and what follows from them.

row_slopes.py finds those of each row, derivatives_found.py adds up what is made of them;
two_passes.py has residuals of many rows at once;
row_bounds.py bounds each row's remainder, bounds_found.py all of them, or says why it does not;
undecided.py finds the line of a user's function that is to blame.
"""
