"""Control variates: what is known of every datum's log likelihood before it is read."""
