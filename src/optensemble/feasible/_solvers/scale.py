"""The size of a row's coefficients, and rows brought to a size of 1."""

from __future__ import annotations

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.kernel import inner, maker

BITS = 40
"""Costs are rounded to this many bits below the largest of their row: 1e-12 of it, a tie (``SAME_VALUE``)."""


LARGE, SMALL = 1e100, 1e-100
"""Rows of a size beyond these, whose products could overflow or vanish, are scaled."""


@maker
def magnitude(c):  # type: ignore[no-untyped-def]
    """Return the largest absolute value. Without their sign bit, floats are in the order of their bits as integers.

    A maximum of integers is vectorised, unlike one of floats.
    """
    bits = c.view(np.int64)
    largest = np.int64(0)
    for j in range(len(bits)):
        largest = max(largest, bits[j] & np.int64(0x7FFFFFFFFFFFFFFF))
    return np.int64(largest).view(np.float64)


@inner
def row_scale(c):  # type: ignore[no-untyped-def]
    """Return 1, except for rows whose products could overflow or vanish: those are divided by their size."""
    size = 0.0
    for value in c:
        size = max(size, abs(value))
    return size if size > LARGE or 0.0 < size < SMALL else 1.0


def normalised(coefficients: Floats) -> Floats:
    """Divide rows by their largest magnitude."""
    largest = np.abs(coefficients).max(axis=1, keepdims=True)
    return np.asarray(coefficients / np.where(largest > 0, largest, 1.0), dtype=np.float64)


def rounded(coefficients: Floats) -> Floats:
    """Divide rows by their largest magnitude, and round away what may be noise of the last bits."""
    return np.asarray(np.rint(normalised(coefficients) * 2.0**BITS) * 2.0**-BITS, dtype=np.float64)
