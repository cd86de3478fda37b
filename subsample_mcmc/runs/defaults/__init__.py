"""Kernels as code, where none was given: what is written, and what makes it.

code.py makes a kernel of its code; hierarchies.py writes those of blocks whose sites see data of
their own; pilots.py makes short runs of them.
"""
