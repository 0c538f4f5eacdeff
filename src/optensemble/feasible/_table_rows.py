"""The rows that a set is bound to where it needs the rows themselves, not numbers read from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from optensemble._core.arrays import Indices


@dataclass(frozen=True)
class TableRows:
    """Rows of one or several tables.

    Attributes
    ----------
    tables
        The tables, each with the number of its first row and of the one after its last. A list that all selections
        of rows share, so that tables can be added while room is filled in.
    numbers
        The numbers of the rows, in the order of the set's.
    """

    tables: list[tuple[int, int, Any]]
    numbers: Indices

    @classmethod
    def of(cls, X: Any, n: int) -> Self:
        """Return all rows of a table."""
        return cls([(0, n, X)], np.arange(n))

    @classmethod
    def unfilled(cls, n: int) -> Self:
        """Return room for ``n`` rows."""
        return cls([], np.full(n, -1))

    @classmethod
    def joined(cls, found: Sequence[TableRows]) -> Self:
        """Return the rows of several, one after the other."""
        whole, begin = cls.unfilled(sum(len(each.numbers) for each in found)), 0
        for each in found:
            whole.take(slice(begin, begin := begin + len(each.numbers))).fill(each)
        return whole

    def take(self, rows: Any) -> Self:
        """Return some of the rows: a slice, indices or a mask."""
        return replace(self, numbers=self.numbers[rows])

    def fill(self, other: TableRows) -> None:
        """Write the numbers of other rows in the place of these, and add their tables."""
        start = self.tables[-1][1] if self.tables else 0
        self.tables.extend((start + first, start + last, X) for first, last, X in other.tables)
        self.numbers[:] = start + other.numbers

    def reorder(self, rows: slice, order: Indices) -> None:
        """Put the rows ``order`` in the place of ``rows``."""
        self.numbers[rows] = self.numbers[order]

    def pieces(self) -> Iterator[tuple[Indices, Any]]:
        """Go through the tables that rows come from: the places of these rows, and the rows, as the table is one."""
        for first, last, X in self.tables:
            places = np.flatnonzero((self.numbers >= first) & (self.numbers < last))
            if places.size:
                yield places, pick_rows(X, self.numbers[places] - first, last - first)


def pick_rows(X: Any, rows: Indices, n: int) -> Any:
    """Return rows of a table of ``n`` by number, as the same kind of thing; the table itself if they are all its rows.

    >>> pick_rows(["a", "b", "c"], np.array([2, 0]), 3)
    ['c', 'a']
    """
    if len(rows) == n and (rows == np.arange(n)).all():
        return X
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    import narwhals as nw  # takes a while to load

    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame[rows.tolist()].to_native()
    return [X[int(row)] for row in rows] if isinstance(X, (list, tuple)) else X[rows]
