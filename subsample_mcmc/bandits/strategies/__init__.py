"""Strategies that sm.identify plays: one file per idea."""
