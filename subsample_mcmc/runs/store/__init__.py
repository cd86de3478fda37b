"""A run in one file: a journal under way, netCDF when complete."""
