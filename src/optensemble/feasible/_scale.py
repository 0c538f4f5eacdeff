"""How large the coefficients of a row are."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def magnitude(c):  # type: ignore[no-untyped-def]
    """Return the largest absolute value. Without their sign bit, floats are in the order of their bits as integers.

    A maximum of integers is vectorised, unlike one of floats.
    """
    bits = c.view(np.int64)
    largest = np.int64(0)
    for j in range(len(bits)):
        largest = max(largest, bits[j] & np.int64(0x7FFFFFFFFFFFFFFF))
    return np.int64(largest).view(np.float64)


@njit(cache=True, nogil=True)
def row_scale(c):  # type: ignore[no-untyped-def]
    """Return 1, except for rows whose products could overflow or vanish: those are divided by their size."""
    size = magnitude(c)
    return size if size > 1e100 or 0.0 < size < 1e-100 else 1.0
