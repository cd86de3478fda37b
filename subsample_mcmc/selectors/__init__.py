"""How a decision is made: one file per selector."""
