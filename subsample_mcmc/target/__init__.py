"""What is sampled, and how its data are read, without a chain.

model.py and population.py are what a user writes; rewards.py compiles access to log likelihoods,
exact_sums.py to their sums, and remembers the last few. axes.py is what blocks are called outside.
lookups/ refuses functions that look up what is not there. No decision is made here.
"""
