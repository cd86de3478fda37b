"""Runs on disk: a journal while they grow, netCDF when they are complete.

store.py is the way in; journal.py appends, frames.py reads and writes its frames, netcdf.py the
complete file. Nothing is ever unpickled.
"""
