"""What was learnt of a model's rows, used again: elsewhere, and with more rows."""
