"""Rows that are elsewhere, in files or on a cluster: read part by part, near where they are.

source.py says what all kinds have in common; local.py, parquet.py, dask.py and ray.py are the
kinds, found.py recognises what a user gave. digests.py tells whether rows changed, parts.py is what
runs beside the rows. Nothing here knows a model.
"""
