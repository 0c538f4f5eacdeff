"""Names for the arrays that go from room to room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

Rows = Indices | slice
"""Some rows by number, or all of them."""


def gathered(pieces: Iterable[tuple[npt.NDArray[Any], ...]], rows: int) -> Iterator[tuple[npt.NDArray[Any], ...]]:
    """Put pieces of several arrays together until they have ``rows`` rows at least.

    >>> [rows.tolist() for (rows,) in gathered([(np.arange(2),), (np.arange(3),), (np.arange(1),)], 4)]
    [[0, 1, 0, 1, 2], [0]]
    """
    waiting = list[tuple[npt.NDArray[Any], ...]]()
    for piece in pieces:
        waiting.append(piece)
        if sum(len(each[0]) for each in waiting) >= rows:
            yield tuple(np.concatenate(each) for each in zip(*waiting, strict=True))
            waiting.clear()
    if waiting:
        yield tuple(np.concatenate(each) for each in zip(*waiting, strict=True))
