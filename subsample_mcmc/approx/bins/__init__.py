"""A quadratic in the data for every bin of them."""
