"""One decision: selectors, the race, and how a single one is made."""
