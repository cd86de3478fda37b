"""Best-arm strategies as selectors of decisions."""
