"""What is known before a datum is read: control variates, and the fits they are made around."""
