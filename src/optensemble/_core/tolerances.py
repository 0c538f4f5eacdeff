"""Tolerances that more than one module needs, each with its reason."""

SAME_ASSESSMENT = 1e-9
"""Self-assessments this close, relative to the best one, are tied: the lowest index wins."""

SAME_VIOLATION = 1e-9
"""Violations this close, relative to the larger one, are tied: the first cell is patched."""

SAME_VALUE = 1e-12
"""Values of actions this close, relative to the size of their terms, are tied: the lowest index wins.

Sums of a thousand terms are rounded by 1e-13 of their size; and no forecast is known to twelve digits.
"""
