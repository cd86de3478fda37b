"""How a run is looked at: reports, figures, a page, arviz, probabilities of models.

Each reads a trace, and nothing else: what it says of a kernel, it takes from the kernel's facts.
"""
