"""The command line: `subsample-mcmc demo | reproduce | bench | report | resume | cite`.

main.py is the way in; papers.py lists what can be reproduced, cite.py which papers are behind what.
"""
