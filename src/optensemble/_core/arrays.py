"""Names for the arrays that go from room to room."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

Rows = Indices | slice
"""Some rows by number, or all of them."""
