"""The command line, and what it prints from papers, scripts and stored runs."""
