"""When an arm may be dropped: one file per theorem."""
