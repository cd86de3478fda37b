"""How well a model predicts data that it has not seen: cross-validation, and priors.

Read loo.py first: it makes log likelihoods of some data at all draws at a time, which psis.py turns
into one number each, and keeps no more; elpd.py shows what was found.
"""
