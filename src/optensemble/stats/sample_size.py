"""How many rows are enough: the constants behind every refusal and every plan."""

LEARNING = 50
"""Independent rows used up by learning: ``n`` rows out of fold are worth ``n²/(n + 50)`` rows.

Measured: out-of-fold means of 100 and 400 rows miss what is later realised by as much as this explains.
"""

MINIMUM_ROWS = 100
"""The fewest rows of a fit that is judged out of fold."""

MIN_CELL = 50
"""The fewest rows of a cell that is corrected."""
