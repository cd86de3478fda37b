"""Machine code and random numbers: what everything else is built on.

jit.py compiles, digest.py names what was compiled by its content, cache.py keeps it on disk,
memo.py in memory; records.py are the NamedTuples that numbers travel in, pointers.py hands them to
compiled code by one address; rows.py are the mini-batches, random.py the streams, fastmath.py the
logarithms that vectorise, special.py other functions of likelihoods, jets/ derivatives of users'
functions. Nothing here knows of models, arms or chains.
"""
