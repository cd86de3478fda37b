"""Runs on disk: a journal while they grow, netCDF at the same path when they are complete.

Read store.py first; journal.py appends, frames.py says what a journal's bytes are, netcdf.py writes
and reads the complete file. Models, kernels and chains have no place here: a run is a header,
arrays and where they lie. Nothing is ever pickled or unpickled.
"""
