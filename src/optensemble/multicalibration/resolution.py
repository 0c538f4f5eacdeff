"""The smallest tolerance that rounding leaves visible."""

from __future__ import annotations

import numpy as np

from optensemble._core.arrays import Floats
from optensemble.exceptions import InputError

_RESOLUTION = 1024 * np.finfo(np.float64).eps


def require_resolution(alpha: float, labels: Floats, predictions: Floats) -> None:
    """Refuse an alpha that rounding would hide."""
    largest = max(float(np.abs(labels).max()), float(np.abs(predictions).max()))
    least = _RESOLUTION * largest
    if alpha < least:
        raise InputError(
            f"alpha={alpha:g} is below what float64 can tell apart in labels and predictions of size {largest:g}. "
            f"Take alpha of at least {least:.1g}, or rescale the data."
        )
