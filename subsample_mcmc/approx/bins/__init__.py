"""sm.Bins: a quadratic in the data for every bin of them.

bins.py is the way in; cut.py and predictor_cut.py make the bins, quadratics.py and
predictor_bins.py are at work in a decision.
"""
