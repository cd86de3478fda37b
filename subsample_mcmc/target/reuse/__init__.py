"""What was learnt of a model's rows, used again in another process."""
