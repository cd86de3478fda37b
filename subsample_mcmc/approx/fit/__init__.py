"""The posterior mode, the Gaussian around it, and its moments."""
