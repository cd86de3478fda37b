"""What is known before a datum is read: fits, and control variates made around them.

control.py says what a control variate is, prediction.py what it does to a race, thinning.py how a
decision is exact with few rows; fit/ finds modes and moments; taylor/, bins/ and by_site/ are the
control variates, columns/ what spikes know of columns. They know models and how rewards are read,
not chains nor kernels.
"""
