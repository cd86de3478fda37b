"""Clusters of records: each record draws its cluster, and clusters are merged and split.

gibbs_partition.py and merge_split.py are the kernels; members.py stores who is where, cluster_*.py
decide between clusters, whose members are rows of their own; pair_*.py read scores of pairs;
bilinear.py is the control variate whose sums over clusters need no pair.
"""
