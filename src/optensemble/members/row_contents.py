"""Rows known by their own contents: a number for every row of X, the same for the same values."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt
import pandas as pd

from optensemble._core.arrays import Floats
from optensemble._core.hashing import hash_labels
from optensemble.members.fingerprints import fingerprints
from optensemble.members.validation import row_count

_NUMBERS = "biuf"  # kinds of dtypes
_DENSE_ROWS = 1 << 10  # of a sparse matrix, written out at a time


def row_contents(X: Any) -> Floats:
    """Return a hash of every row of X as a number, of shape (n, 1): of a frame, an array, or a list of anything.

    Members that are fitted here say one thing of a row out of fold and another once they have seen it: such rows are
    known again by their contents.

    Examples
    --------
    >>> first, second, third = row_contents(np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0]]))
    >>> bool(first == second), bool(first == third)
    (True, False)
    """
    if row_count(X) == 0:
        return np.empty((0, 1))
    if hasattr(X, "toarray"):
        rows = X.tocsr()
        starts = range(0, rows.shape[0], _DENSE_ROWS)
        return np.concatenate([row_contents(rows[start : start + _DENSE_ROWS].toarray()) for start in starts])
    found = fingerprints(*_columns(X))
    return found.astype(np.float64)[:, None]  # the bits of a number may mean NaN, which equals nothing


def _columns(X: Any) -> list[Floats]:
    if isinstance(X, pd.DataFrame):  # whose columns may have any names
        return [_as_numbers(X.iloc[:, number].to_numpy()) for number in range(X.shape[1])]
    frame = None if isinstance(X, np.ndarray) else nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return [_as_numbers(np.asarray(frame[name].to_numpy())) for name in frame.columns]
    array = X if isinstance(X, np.ndarray) else _as_array(X)
    flat = array.reshape(len(array), -1)
    return [_as_numbers(flat)] if flat.dtype.kind in _NUMBERS else [_as_numbers(column) for column in flat.T]


def _as_array(X: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(X)
    except ValueError:  # rows of different lengths
        rows = np.empty(len(X), dtype=object)
        rows[:] = X
        return rows


def _as_numbers(values: npt.NDArray[Any]) -> Floats:
    """Return values as numbers, equal where they are equal; what is missing is one NaN."""
    if values.dtype.kind == "M":
        values = values.astype("datetime64[us]").astype(np.int64)
    if values.dtype.kind not in _NUMBERS:
        return hash_labels([str(value) for value in values.tolist()]).astype(np.float64)
    numbers = values.astype(np.float64)
    numbers[np.isnan(numbers)] = np.nan  # of all its bit patterns
    return numbers
