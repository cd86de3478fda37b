"""Hidden paths: all sites of a discrete block at once, where they see each other as in a tree.

Start with paths.py, the kernel; forest.py finds who sees whom.
"""
