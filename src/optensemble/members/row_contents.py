"""Rows known by their own contents: a number for every row of X, the same for the same values."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from math import prod
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.deferred import nw, pd
from optensemble._core.hashing import hash_labels
from optensemble.members.fingerprints import fingerprints
from optensemble.members.validation import row_count, take_rows

_NUMBERS = "biuf"  # kinds of dtypes
_FLOAT = np.dtype(np.float64)
_AT_ONCE = 1 << 20  # numbers that are written out at a time, which are 8 MB
_EXACT = 1 << 53  # whole numbers up to here are floats


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
    rows = X.tocsr() if hasattr(X, "toarray") else _sliced(X)
    step = max(_AT_ONCE // max(prod(rows.shape[1:]), 1), 1)
    starts = range(0, rows.shape[0], step)
    found = [fingerprints(*_columns(take_rows(rows, start, start + step))) for start in starts]
    return np.concatenate(found).astype(np.float64)[:, None]  # the bits of a number may mean NaN, which equals nothing


def _columns(X: Any) -> list[Floats]:
    X = X.toarray() if hasattr(X, "toarray") else X
    if isinstance(X, pd.DataFrame):  # whose columns may have any names
        return list(map(_as_numbers, _runs(X)))
    frame = None if isinstance(X, np.ndarray) else nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return [_as_numbers(np.asarray(frame[name].to_numpy())) for name in frame.columns]
    array = np.asarray(X)
    flat = array.reshape(len(array), -1)
    return [_as_numbers(flat)] if flat.dtype.kind in _NUMBERS else [_as_numbers(column) for column in flat.T]


def _runs(X: pd.DataFrame) -> Iterator[npt.NDArray[Any]]:
    """Go through the columns of a frame; floats that follow each other at once, for single columns take a while."""
    floats, start = (X.dtypes == _FLOAT).to_numpy(), 0
    while start < len(floats):
        others = np.flatnonzero(floats[start:] != floats[start])
        stop = start + int(others[0]) if len(others) else len(floats)
        if floats[start]:
            yield X.iloc[:, start:stop].to_numpy()
        else:
            yield from (X.iloc[:, number].to_numpy() for number in range(start, stop))
        start = stop


def _sliced(X: Any) -> Any:
    """Return what rows can be taken from by slices, and has a shape."""
    return X if hasattr(X, "shape") and hasattr(X, "__getitem__") else _as_array(X)


def _as_array(X: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(X)
    except ValueError:  # rows of different lengths
        rows = np.empty(len(X), dtype=object)
        rows[:] = X
        return rows


def _as_numbers(values: npt.NDArray[Any]) -> Floats:
    """Return values as numbers, equal where they are equal, whatever is beside them; what is missing is one NaN."""
    if values.dtype.kind == "M":
        values = values.astype("datetime64[us]").astype(np.int64)
    if values.dtype.kind not in _NUMBERS:
        return _each_as_number(values.tolist())
    numbers = values.astype(np.float64)
    if values.dtype.kind in "iu" and (large := np.abs(numbers) > _EXACT).any():
        numbers[large] = _each_as_number(values[large].tolist())
    numbers[np.isnan(numbers)] = np.nan  # of all its bit patterns
    return numbers


def _each_as_number(values: list[Any]) -> Floats:
    plain = [_number_or_text(value) for value in values]
    texts = list({value for value in plain if isinstance(value, str)})
    known = dict(zip(texts, hash_labels(texts).astype(np.float64).tolist(), strict=True))
    return np.array([known[value] if isinstance(value, str) else value for value in plain], dtype=np.float64)


def _number_or_text(value: Any) -> float | str:
    """Return what is a float as it is; text of all else, also of whole numbers that are too large to be floats."""
    if isinstance(value, Integral) and not _is_float(int(value)):
        return str(int(value))
    if isinstance(value, (Real, Decimal, np.bool_)):
        return np.nan if value != value else float(value)
    return np.nan if pd.isna(value) is True else str(value)


def _is_float(number: int) -> bool:
    return abs(number) <= _EXACT or (abs(number) < 1 << 1023 and int(float(number)) == number)
