"""The context: columns of X that a forecast may look at beside what members say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.columns import Columns, as_frame, read_columns
from optensemble.members.validation import row_count, take_rows

AUTO, OFF = "auto", "off"

MOST_COLUMNS = 256
"""Columns that are taken without being named: trees look at every one of them in every split."""

_TOGETHER = 1 << 13  # rows that are read at once, for the sake of memory
_LARGEST = 1e30  # trees tell larger numbers apart no better, and sums of them stay finite


@dataclass(frozen=True, eq=False)
class Context:
    """Numeric columns of X.

    Attributes
    ----------
    columns
        Their names, or numbers if X is an array.
    fill
        What stands in for a missing value: the median of the column in the first rows fitted on.
    """

    columns: tuple[Any, ...]
    fill: Floats

    def __call__(self, X: Any, room: Floats | None = None) -> Floats:
        """Return the columns of every row, without gaps; written into ``room``, if there is one."""
        n = row_count(X)
        found = np.empty((n, len(self.columns))) if room is None else room
        for start in range(0, n, _TOGETHER):
            rows = X if n <= _TOGETHER else take_rows(X, start, min(start + _TOGETHER, n))
            values = read_columns(rows, self.columns)
            np.copyto(values, self.fill, where=np.isnan(values))
            np.clip(values, -_LARGEST, _LARGEST, out=found[start : start + _TOGETHER])
        return found

    @classmethod
    def learn(cls, columns: Sequence[Any], first: Any) -> Context | None:
        """Take some columns, but for those without any value in the first rows; None if none is left."""
        values = np.clip(read_columns(first, tuple(columns)), -_LARGEST, _LARGEST)  # half of inf and -inf is no number
        known = np.asarray(~np.isnan(values).all(axis=0))
        kept = tuple(name for name, there in zip(columns, known.tolist(), strict=True) if there)
        return cls(kept, np.nanmedian(values[:, known], axis=0)) if kept else None


def is_asked(given: Any) -> bool:
    """Return whether there is to be a context: columns are named, or to be found."""
    return given is not None and not (isinstance(given, str) and given == OFF)


def is_named(given: Any) -> bool:
    """Return whether columns are named, and not to be found."""
    return is_asked(given) and not (isinstance(given, str) and given == AUTO)


def find_columns(given: Any, X: Any, used: Iterable[Any]) -> list[Any]:
    """Return the columns that the context is made of: those named, or all numeric ones that are not ``used`` otherwise.

    >>> table = np.zeros((2, 3))
    >>> find_columns("auto", table, used=[1]), find_columns([2], table, used=[])
    ([0, 2], [2])
    """
    if not is_asked(given):
        return []
    if is_named(given):
        return list(Columns(given).found_in(X))
    found = [name for name in _numeric_columns(X) if name not in set(used)]
    return found if len(found) <= MOST_COLUMNS else []


def _numeric_columns(X: Any) -> list[Any]:
    frame = as_frame(X)
    if frame is not None:
        kinds = frame.schema.items()
        return [name for name, kind in kinds if isinstance(name, str) and (kind.is_numeric() or str(kind) == "Boolean")]
    numeric = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "biuf"
    return list(range(X.shape[1])) if numeric else []
