"""How a run is looked at: report, figures, a page, ArviZ's groups, probabilities of models.

Read report.py first: figures and page show its numbers, which costs.py and mixing.py make, and
findings.py and verdict.py judge. A view reads a finished trace (figures.py
also a plan, arviz_groups.py also the model that was sampled) and changes nothing. What it says of a
kernel it takes from the facts that the kernel gave when it ran, never from its text.
"""
