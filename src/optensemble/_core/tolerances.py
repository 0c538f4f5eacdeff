"""Tolerances that more than one module needs, each with its reason."""

SAME_ASSESSMENT = 1e-9
"""Self-assessments this close, relative to the best one, are tied: the lowest index wins."""

SAME_VIOLATION = 1e-9
"""Violations this close, relative to the larger one, are tied: the first cell is patched."""
