"""Clusters of records: kernels that move labels by scores of pairs."""
