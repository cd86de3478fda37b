"""One decision: the arm with the largest total, found by reading what is needed.

Start with selector.py, what a selector is, and exact.py, the plainest; thinned.py is exact with few
rows, where residuals are bounded; racing.py and race.py are the paper's method, rules/ say when an
arm may be dropped, choose.py makes single decisions and draws. Control variates (approx/) and
states of chains (kernels/) do not enter.
"""
