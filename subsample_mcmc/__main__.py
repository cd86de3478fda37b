"""`python -m subsample_mcmc`: the command line without the installed command."""

import sys

from subsample_mcmc.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
