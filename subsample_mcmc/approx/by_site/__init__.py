"""What is known of sites that see data of their own: a polynomial of each, bounds of its rows.

Decisions about a site, or about what sites have in common, then read hardly a row. What a kernel
does with them may not enter. Begin at control.py: SiteTaylor.
"""
