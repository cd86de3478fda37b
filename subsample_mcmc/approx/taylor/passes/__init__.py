"""Passes over rows that have linear predictors.

predictor_blocks.py reads what they say of a block of rows; moments.py adds it up.
"""
