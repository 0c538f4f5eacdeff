"""Tolerances that more than one room needs, each with its reason."""

SAME_ASSESSMENT = 1e-9
"""Self-assessments this close, relative to the best one, are tied: the lowest index wins."""
