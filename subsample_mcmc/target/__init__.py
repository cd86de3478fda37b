"""What is sampled, and how its data are read: models, their blocks, data and rewards. No chain."""
