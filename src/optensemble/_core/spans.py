"""A history of bounded size: rows in spans of equal length, which get longer as rows come."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.deferred import pd
from optensemble._core.kernel import entry, inner
from optensemble._core.validation import require_choice
from optensemble.exceptions import InputError

MOST_SPANS = 512
"""The number of spans at which neighbours are joined."""

JOINS = ("sum", "last", "max")
"""How the rows of a span are joined."""

OWN_COLUMNS = ("first", "rows")
"""The columns of a frame that say where a span lies."""


class Spans:
    """A history of rows of bounded size: at most 512 spans of equally many rows each.

    When all are full, neighbours are joined, and spans get twice as long. The same rows give the same bits, however
    they are cut into calls of :meth:`add`.

    Parameters
    ----------
    columns
        The name of each column, and how rows of a span are joined: ``"sum"``, ``"last"`` or ``"max"``.

    Examples
    --------
    >>> spans = Spans({"payoff": "sum", "level": "last"})
    >>> spans.add(np.array([[1.0, 10.0], [2.0, 20.0]]))
    >>> spans.frame()
       first  rows  payoff  level
    0      0     1     1.0   10.0
    1      1     1     2.0   20.0
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        for name, join in columns.items():
            require_choice(join, f"the join of {name!r}", JOINS)
            if name in OWN_COLUMNS:
                raise InputError(f"a column of spans must not be called {name!r}; got {list(columns)}. Rename it.")
        self.columns = dict(columns)
        self._joins = np.array([JOINS.index(join) for join in columns.values()], dtype=np.int64)
        self._values = np.zeros((MOST_SPANS, len(columns)))
        self._place = np.array([0, 1], dtype=np.int64)  # all rows so far, and those of a full span

    def __repr__(self) -> str:
        return f"Spans({self.rows:,} rows in {len(self):,} spans)"

    def __len__(self) -> int:
        return -(-self.rows // self.length)

    @property
    def rows(self) -> int:
        """The number of rows added so far."""
        return int(self._place[0])

    @property
    def length(self) -> int:
        """The number of rows of a full span."""
        return int(self._place[1])

    def add(self, values: Floats) -> None:
        """Add rows, of shape (n, columns), in their order."""
        values = np.ascontiguousarray(values, dtype=np.float64)
        if values.ndim != 2 or values.shape[1] != len(self.columns):
            raise InputError(f"values must have shape (n, {len(self.columns)}); got {values.shape}. Give a row each.")
        _add(values, self._joins, self._values, self._place)

    def frame(self) -> pd.DataFrame:
        """Return a row for each span: the number of its ``first`` row, its ``rows``, and its columns.

        The last span may be unfinished.
        """
        first = np.arange(len(self), dtype=np.int64) * self.length
        rows = np.minimum(self.length, self.rows - first)
        columns = zip(self.columns, self._values[: len(self)].T.copy(), strict=True)
        return pd.DataFrame({"first": first, "rows": rows, **dict(columns)})

    def copy(self) -> Self:
        """Return a history of the same rows, which goes on by itself."""
        spans = copy(self)
        spans._values, spans._place = self._values.copy(), self._place.copy()
        return spans

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is known of the rows: ``values`` of the spans, and ``place``, two whole numbers."""
        return {"values": self._values[: len(self)].copy(), "place": self._place.copy()}

    @classmethod
    def of_arrays(cls, columns: Mapping[str, str], arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return the history that :meth:`arrays` tells of."""
        spans = cls(columns)
        spans._values[: len(arrays["values"])] = arrays["values"]
        spans._place[:] = arrays["place"]
        return spans


def are_spans(rows: int, length: int, spans: int) -> bool:
    """Return whether so many rows come to so many spans of this length.

    >>> are_spans(513, 2, 257), are_spans(513, 1, 513), are_spans(3, 2, 2)
    (True, False, False)
    """
    power = length >= 1 and length & (length - 1) == 0
    shortest = length == 1 or rows > MOST_SPANS * (length // 2)
    return power and shortest and rows <= MOST_SPANS * length and spans == -(-rows // length)


@entry
def _add(values: Floats, joins: Indices, spans: Floats, place: Indices) -> None:
    n, d = values.shape
    most = len(spans)
    rows, length = place[0], place[1]
    for i in range(n):
        if rows == most * length:
            _halve(joins, spans)
            length *= 2
        span, begins = rows // length, rows % length == 0
        for j in range(d):
            value = values[i, j]
            spans[span, j] = value if begins else _joined(joins[j], spans[span, j], value)
        rows += 1
    place[0], place[1] = rows, length


@inner
def _halve(joins: Indices, spans: Floats) -> None:
    """Join neighbours in place; spans of the second half are left as they are, and begun anew."""
    for span in range(len(spans) // 2):
        for j in range(spans.shape[1]):
            spans[span, j] = _joined(joins[j], spans[2 * span, j], spans[2 * span + 1, j])


@inner
def _joined(join: int, before: float, after: float) -> float:
    if join == 0:
        return before + after
    return after if join == 1 or after > before else before
