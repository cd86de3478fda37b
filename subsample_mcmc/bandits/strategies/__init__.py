"""Strategies of sm.identify: which arm next, what a reward teaches, which arm is the best.

One file for each family of papers; ../strategy.py says what a strategy is.
"""
