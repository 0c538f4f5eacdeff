"""Rows known again: a hash of what members said of a row and of its label."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Self

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.hashing import GOLDEN, Hashes, mix_in
from optensemble.exceptions import InputError
from optensemble.stats.row_design import EXACT_ROWS, ClusterTable, RowDesign

MOST_REPEATS = 20
"""What is there more often is alike by nature, as nights without sun are."""

_FEW_VALUES = 50
_MANY = 0.1  # of the rows
_LARGEST_BLOCK = 0.1  # of the rows: more copies than these would be a fold of their own
_SAMPLED = np.uint64(64)
_FEWEST_SAMPLED = 1000


def fingerprints(*arrays: Floats) -> Hashes:
    """Return a hash of every row over all arrays, of shape (n,): the same for the same numbers, anywhere, at any time.

    Parameters
    ----------
    arrays
        Each of shape (n,) or (n, ...).

    Examples
    --------
    >>> rows = np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0]])
    >>> first, second, third = fingerprints(rows)
    >>> bool(first == second), bool(first == third)
    (True, False)
    """
    n = {len(array) for array in arrays}
    if len(n) != 1:
        raise InputError(f"fingerprints need arrays of the same number of rows; got {sorted(n) or 'none'}.")
    state = np.full(n.pop(), GOLDEN, dtype=np.uint64)
    for array in arrays:
        numbers = np.require(array, np.float64, ["C", "W"])  # read-only arrays would compile again
        mix_in(state, numbers.reshape(len(array), prod(array.shape[1:])).view(np.uint64))
    return state


def marks(*arrays: Floats, total: int | None = None) -> Hashes:
    """Return fingerprints to know rows again by; none where values are so few that rows are alike by chance.

    Of very many rows, ``total`` in all, they are a sample.
    """
    found = Marks.of(fingerprints(*arrays), len(arrays[0]) if total is None else total, *arrays)
    return found.hashes if found.telling else np.empty(0, dtype=np.uint64)


def count_seen(rows: Hashes, fitted: Hashes) -> int:
    """Return how many rows are among those fitted on.

    >>> old = np.arange(100, dtype=np.uint64)
    >>> count_seen(old[:20], old), count_seen(old[:20] + np.uint64(100), old)
    (20, 0)
    """
    if is_sample(fitted):
        return int(np.isin(rows[rows % _SAMPLED == 0], fitted).sum() * int(_SAMPLED))
    return int(np.isin(rows, fitted).sum())


def is_sample(fitted: Hashes) -> bool:
    """Return whether marks are a sample: equal rows have equal hashes, so that duplicates are in it all or none."""
    return len(fitted) > _FEWEST_SAMPLED and not (fitted % _SAMPLED).any()


def add_marks(fitted: Hashes, rows: Hashes) -> Hashes:
    """Return marks with those of further rows; a sample stays one."""
    return np.concatenate([fitted, rows[rows % _SAMPLED == 0] if is_sample(fitted) else rows])


def alike_by_nature(labels: Floats, *known_by: Floats) -> Hashes:
    """Return the fingerprints of rows that are there several times but are no copies, ascending, where members learn.

    A member that is fitted here remembers copies, however many there are: they stay together up to a tenth of the rows.
    But where rows of one content have several labels, rows that share one may be alike by chance, and a member that
    sees only the others would be led astray: they are copies only if they are few, of labels of many values.

    Parameters
    ----------
    labels
        Of shape (n, d).
    known_by
        What the rows are known by otherwise.

    Examples
    --------
    >>> x, y = np.repeat(np.arange(20.0), 30)[:, None], np.tile([[1.0], [2.0], [2.0]], (200, 1))
    >>> len(alike_by_nature(x, x)), len(alike_by_nature(y, x))
    (0, 40)
    """
    contents, rows = fingerprints(*known_by), fingerprints(*known_by, labels)
    different, first, times = np.unique(rows, return_index=True, return_counts=True)
    _, content, labels_of_it = np.unique(contents[first], return_inverse=True, return_counts=True)
    few = MOST_REPEATS if _few_values([*labels.T]) is None else 1
    by_chance = (labels_of_it[content] > 1) & (times > few)
    return different[by_chance | (times > _LARGEST_BLOCK * len(rows))]


def repeat_notes(fitted: Hashes, rows: int, *, together: bool, single: Hashes | None = None) -> list[str]:
    """Return in a sentence how many rows are there several times, if more than a tenth are.

    ``together`` says whether copies stay in one fold. What is alike by nature is not counted: those that are there very
    often, or else ``single``.

    >>> repeat_notes(np.repeat(np.arange(50, dtype=np.uint64), 2), 100, together=True)
    ['100 of 100 rows are there several times: copies stay together, and count as one row in intervals']
    """
    different, times = np.unique(fitted, return_counts=True)
    alike = times > MOST_REPEATS if single is None else np.isin(different, single)
    count = int(times[(times > 1) & ~alike].sum())
    if len(fitted) != rows or count <= _MANY * rows:
        return []
    kept = ": copies stay together, and count as one row in intervals" if together else ""
    return [f"{count:,} of {rows:,} rows are there several times{kept}"]


@dataclass(frozen=True)
class Marks:
    """The fingerprints of rows as they add up: all of them, or of very many rows a sample by hash.

    Attributes
    ----------
    hashes
        In the order of the rows.
    often
        Those that are there very often in a single block, ascending.
    values
        The different values of every column while they are few; None once some column has many.
    """

    hashes: Hashes
    often: Hashes
    values: tuple[Floats, ...] | None

    @classmethod
    def of(cls, found: Hashes, total: int, *arrays: Floats) -> Self:
        """Mark some of ``total`` rows, with these fingerprints and these numbers."""
        kept = found if total <= EXACT_ROWS else found[found % _SAMPLED == 0]
        often = np.empty(0, dtype=np.uint64)
        if total > EXACT_ROWS:
            different, times = np.unique(found, return_counts=True)
            often = different[times > MOST_REPEATS]
        return cls(kept, often, _few_values([column for array in reversed(arrays) for column in array.T]))

    def __add__(self, other: Self) -> Self:
        """Return the marks of the rows of both."""
        values = None
        if self.values is not None and other.values is not None:
            pairs = zip(self.values, other.values, strict=True)
            values = _few_values([np.concatenate(pair) for pair in pairs])
        often = np.union1d(self.often, other.often)
        return type(self)(np.concatenate([self.hashes, other.hashes]), often, values)

    @property
    def telling(self) -> bool:
        """Whether values are so many that rows are not alike by chance."""
        return self.values is None

    def cluster(self, design: RowDesign, single: Hashes | None = None) -> RowDesign | None:
        """Return the design in which rows that are there several times stay together; None if there are none.

        They must not judge each other. What is alike by nature stays apart, each row for itself: ``single``, or else
        what is there very often, as nights without sun are, and all rows where values are few.
        """
        if single is None and not self.telling:
            return None
        different, times = np.unique(self.hashes, return_counts=True)
        if single is None:
            single = np.union1d(different[times > MOST_REPEATS], self.often)
        if times[~np.isin(different, single)].max(initial=1) == 1:
            return None
        pooled = design.pooled(single)
        if design.rows > EXACT_ROWS or pooled.clusters is None:
            return pooled
        return design.clustered(ClusterTable.of(pooled.clusters.row_ids(self.hashes, 0), 0), single)


def _few_values(columns: list[Floats]) -> tuple[Floats, ...] | None:
    """Return the different values of every column; None if some column has many."""
    found = []
    for column in columns:
        if len(np.unique(column[:256])) > _FEW_VALUES:
            return None
        found.append(np.unique(column))
        if len(found[-1]) > _FEW_VALUES:
            return None
    return tuple(found)
