"""From sm.sample to trace.report(): chains, what is kept of them, and how it is shown.

sample.py is the way in; chain.py runs one chain, parallel.py several, store/ keeps them, trace.py
is what users get, views/ how it is looked at. Nothing here changes a draw.
"""
