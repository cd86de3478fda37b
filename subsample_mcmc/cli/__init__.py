"""The command line: `subsample-mcmc demo | reproduce | bench | report | resume | cite`.

Start with main.py, which reads the arguments and runs examples and benchmarks; stored.py has the
commands for saved runs, papers.py lists what can be reproduced, cite.py which papers are behind
what. What a command prints is made in the rooms below: nothing is computed here.
"""
