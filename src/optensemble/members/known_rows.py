"""Rows that were given before: known again by an id, or by their numbers alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from optensemble._core.hashing import Hashes, mixed

Flags = npt.NDArray[np.bool_]


class Recognised(NamedTuple):
    """Which rows were given before: as they are now, or with other numbers under the same id."""

    repeated: Flags
    changed: Flags


@dataclass(frozen=True, eq=False)
class KnownRows:
    """The ids of rows and their fingerprints, both as hashes, in the order in which they came.

    Ids need not be distinct: rows of one id, such as a time, are told apart by their numbers. While all ids are
    distinct, an id that comes again with other numbers is the same row, changed.
    """

    keys: Hashes = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    prints: Hashes = field(default_factory=lambda: np.empty(0, dtype=np.uint64))

    def __len__(self) -> int:
        return len(self.keys)

    def __add__(self, other: Self) -> Self:
        """Return the rows of both."""
        keys = np.concatenate([self.keys, other.keys])
        return type(self)(keys, np.concatenate([self.prints, other.prints]))

    def recognise(self, given: KnownRows) -> Recognised:
        """Find those of further rows that are known.

        >>> ids, prints = np.arange(1, 4, dtype=np.uint64), np.arange(7, 10, dtype=np.uint64)
        >>> known = KnownRows(ids, prints)
        >>> known.recognise(KnownRows(ids, prints + np.array([0, 1, 0], dtype=np.uint64)))
        Recognised(repeated=array([ True, False,  True]), changed=array([False,  True, False]))
        """
        repeated = find_repeats(given._pairs, self._pairs)
        if not (self._distinct and given._distinct):
            return Recognised(repeated, np.zeros(len(given), dtype=bool))
        return Recognised(repeated, np.isin(given.keys, self.keys) & ~repeated)

    @property
    def _distinct(self) -> bool:
        return len(np.unique(self.keys)) == len(self.keys)

    @property
    def _pairs(self) -> Hashes:
        return mixed(mixed(self.keys) ^ self.prints)


def find_repeats(given: Hashes, known: Hashes) -> Flags:
    """Return which rows were there before, as many times as they were there.

    >>> find_repeats(np.array([5, 5, 5, 6], dtype=np.uint64), np.array([5, 4, 5], dtype=np.uint64))
    array([ True,  True, False, False])
    """
    order, before = np.argsort(given, kind="stable"), np.sort(known)
    in_order = given[order]
    times_known = np.searchsorted(before, in_order, "right") - np.searchsorted(before, in_order, "left")
    found = np.empty(len(given), dtype=bool)
    found[order] = np.arange(len(given)) - np.searchsorted(in_order, in_order, "left") < times_known
    return found


def count_alike(given: Hashes, known: Hashes, most: int) -> int:
    """Return how many rows are like more than ``most`` known ones: that may be by chance.

    >>> count_alike(np.array([5, 6], dtype=np.uint64), np.array([5, 5, 5, 6], dtype=np.uint64), most=2)
    1
    """
    different, times = np.unique(known, return_counts=True)
    return int(np.isin(given, different[times > most]).sum())
