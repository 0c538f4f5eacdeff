"""Samples of rows that add up: all rows, or of very many those with the smallest hashes of their numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.hashing import hash_numbers


@dataclass(frozen=True)
class RowSample:
    """Columns of rows, by number. Samples of disjoint rows add up.

    Attributes
    ----------
    rows, columns
        The numbers of rows, and what is kept of them, in pieces, which are put together only once.
    total
        The number of rows in all.
    exact, most
        Up to how many rows in all every row is kept, and how many are if there are more.
    """

    rows: tuple[Indices, ...]
    columns: tuple[Floats, ...]
    total: int
    exact: int
    most: int

    @classmethod
    def of(cls, rows: Indices, columns: Floats, total: int, *, exact: int, most: int) -> Self:
        """Keep some of ``total`` rows, with ``columns`` of shape (n, columns)."""
        return cls((rows,), (columns,), total, exact, most)

    def __add__(self, other: Self) -> Self:
        """Return the sample of the rows of both."""
        joined = replace(self, rows=(*self.rows, *other.rows), columns=(*self.columns, *other.columns))
        few = self.total <= self.exact or sum(map(len, joined.rows)) <= self.most
        return joined if few else joined.smallest()

    def smallest(self) -> Self:
        """Return the rows with the smallest hashes."""
        rows, columns = np.concatenate(self.rows), np.concatenate(self.columns)
        if self.total > self.exact and len(rows) > self.most:
            kept = np.argpartition(hash_numbers(rows), self.most - 1)[: self.most]
            rows, columns = rows[kept], columns[kept]
        return replace(self, rows=(rows,), columns=(columns,))

    def in_order(self) -> tuple[Indices, Floats]:
        """Return the numbers of the rows kept, ascending, and their columns, of shape (columns, n)."""
        if self.total <= self.exact and sum(map(len, self.rows)) == self.total:  # every row has its place
            whole = np.empty((self.columns[0].shape[1], self.total))
            for rows, columns in zip(self.rows, self.columns, strict=True):
                whole[:, rows] = columns.T
            return np.arange(self.total), whole
        found = self.smallest()
        order = np.argsort(found.rows[0])
        return found.rows[0][order], np.stack([column[order] for column in found.columns[0].T])
