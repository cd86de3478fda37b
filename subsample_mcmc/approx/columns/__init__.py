"""What is known of moves of one coefficient at a time: columns, and sums to second order.

kernels/columns/ works with it; how chains move does not enter. Begin with columns.py.
"""
