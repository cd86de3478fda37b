"""Strategies of sm.identify: which arm next, what a reward teaches, which arm is the best.

One file for each family of papers; ../strategy.py says what a strategy is. Start with
elimination.py, whose Uniform is the plainest; gaussian.py and linear.py are what several files
learn by. Where rewards come from does not enter: a strategy is told numbers.
"""
