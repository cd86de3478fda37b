"""Sums of control variates, used again in another process."""
