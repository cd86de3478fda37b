"""A polynomial in the parameters for every datum."""
