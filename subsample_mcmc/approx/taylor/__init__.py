"""sm.Taylor: a polynomial in the parameters for every datum, around a reference.

taylor.py is the way in; polynomial.py what it does at work, derivatives_*.py the four places that
derivatives come from, and a look at them, found/ a fifth: predictors found in a plain function;
passes/ adds up over rows what predictors say of them;
pilot.py, remainder.py and influence.py measure what it leaves over.
"""
