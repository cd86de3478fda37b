"""How a chain moves: kernels, and how they are composed."""
