"""From sm.sample to trace.report(): chains, and what is kept of them."""
