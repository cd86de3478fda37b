"""What was learnt of a model's rows, used again: elsewhere, with more rows, or without some."""
