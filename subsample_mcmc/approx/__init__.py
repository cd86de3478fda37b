"""What is known before a datum is read: fits, and control variates made around them.

control.py says what a control variate is, prediction.py what it does to a race, thinning.py how a
decision is exact with few rows; fit/ finds modes and moments, taylor/ and bins/ are the two that
come with the package. They know models and how rewards are read, not chains nor kernels.
"""
