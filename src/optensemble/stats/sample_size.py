"""How many rows are enough: the constants behind every refusal and every plan."""

LEARNING = 50
"""So many of the independent rows are used up by learning: what ``n`` rows say out of fold is worth ``n²/(n + 50)``.

Measured: out-of-fold means of 100 and 400 rows miss what is later realised by as much as this explains.
"""

MINIMUM_ROWS = 100
"""With fewer rows nothing can be judged out of fold."""

MIN_CELL = 50
"""With fewer rows a cell is better left uncorrected."""
