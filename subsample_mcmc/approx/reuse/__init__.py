"""Sums of control variates, used again: in another process, and where rows are appended."""
