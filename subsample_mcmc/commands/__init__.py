"""What the commands of `subsample-mcmc` do; subsample_mcmc/cli.py says which there are."""
