"""What is shown of a run: reports, probabilities, figures, pages, groups of ArviZ."""
