"""Machine code and random numbers: nothing here knows of models, decisions or chains."""
