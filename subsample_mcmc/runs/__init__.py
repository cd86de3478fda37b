"""From sm.sample to trace.report(): chains, what is kept of them, and how it is shown.

Read sample.py first: it checks what it is given, makes a Program (chain.py), runs its chains
(parallel.py), keeps what they draw (store/) and returns a Trace (trace.py), which views/ show.
How well a model predicts is found out in criticism/. How a chain moves and how a decision is made
have no place here: nothing in this room changes a draw.
"""
