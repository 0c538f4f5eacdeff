"""Columns between Arrow and numpy, without a copy and without pandas, which pyarrow's own conversions load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_TYPES = {
    getattr(pa, name)(): np.dtype(name)
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
}


def as_numpy(column: pa.Array) -> npt.NDArray[Any] | None:
    """Return the numbers of a column where they lie; None if it holds anything else, or has gaps.

    >>> as_numpy(pa.array([1, 2])), as_numpy(pa.array([1, None])), as_numpy(pa.array(["one"]))
    (array([1, 2]), None, None)
    """
    dtype = _TYPES.get(column.type)
    if dtype is None or column.null_count:
        return None
    if not len(column):
        return np.empty(0, dtype)
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


def as_arrow(numbers: npt.NDArray[Any]) -> pa.Array:
    """Return numbers as a column, with a gap where one is NaN.

    >>> as_arrow(np.array([1.5, np.nan])).to_pylist(), as_arrow(np.arange(2)).to_pylist()
    ([1.5, None], [0, 1])
    """
    numbers = np.ascontiguousarray(numbers)
    validity, missing = None, 0
    if numbers.dtype.kind == "f":
        gaps = np.isnan(numbers)
        missing = int(gaps.sum())
        validity = pa.py_buffer(np.packbits(~gaps, bitorder="little")) if missing else None
    kind = pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(kind, len(numbers), [validity, pa.py_buffer(numbers)], missing)


def repeated_texts(texts: Sequence[str], places: npt.NDArray[np.int64]) -> pa.Array:
    """Return the text at each place, as a column.

    >>> repeated_texts(["stack", "größer"], np.array([1, 0, 1])).to_pylist()
    ['größer', 'stack', 'größer']
    """
    encoded = np.empty(len(texts), dtype=object)
    encoded[:] = [text.encode() for text in texts]
    ends = np.cumsum(np.array([len(text) for text in encoded])[places])
    if not len(ends) or ends[-1] > np.iinfo(np.int32).max:
        return pa.array([texts[place] for place in places], pa.string())
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    joined = b"".join(encoded[places].tolist())
    return pa.Array.from_buffers(pa.string(), len(places), [None, pa.py_buffer(offsets), pa.py_buffer(joined)])


def is_convertible(values: Any) -> bool:
    """Return whether values are numbers that :func:`as_arrow` takes."""
    return type(values) is np.ndarray and values.ndim == 1 and values.dtype in _TYPES.values()
