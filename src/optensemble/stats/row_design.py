"""The design of a fit's rows: fold, block of time and cluster of every row, by its number and its cluster's hash.

Nothing is kept for each row: what is needed of a block of rows is found from where it begins.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.hashing import Hashes, hash_numbers, hash_rows, mixed
from optensemble.stats.blocks import RowUnits, block_of, part_of

MOST_CLUSTERS = 4096
"""More clusters than these are pooled by their hashes: sums over pools vary as sums over clusters do."""

LISTED_CLUSTERS = np.uint64(1 << 20)
"""More clusters than these are not listed one by one."""

EXACT_ROWS = 1 << 20
"""Up to this number of rows, what is kept of rows is kept of every row; beyond, of a sample by hash."""

_MANY_ROWS = 1000
_FEWEST_PARTS = 5  # of fewer, clusters of two parts' length could all begin in the first
_DEALT = 1 << 10  # rows that are dealt out to folds evenly


def fold_count(n: int) -> int:
    """Return the number of folds: ten, or five of many rows."""
    return 10 if n < _MANY_ROWS else 5


class Places(NamedTuple):
    """The fold of each row, and the units of dependent rows that it belongs to."""

    fold: Indices
    units: RowUnits


@dataclass(frozen=True)
class ClusterTable:
    """The clusters among some rows: their hashes, ascending, numbers of rows, first and last rows; tables add up.

    More than :data:`LISTED_CLUSTERS` are ``folded`` into as many by their hashes: rows of one cluster stay together.
    """

    ids: Hashes
    sizes: Indices
    first: Indices
    last: Indices
    folded: bool = False

    @classmethod
    def of(cls, ids: Hashes, start: int, weights: Floats | None = None) -> Self:
        """Return the clusters of rows that begin with number ``start``; of weighted rows in whole numbers of rows."""
        rows, sizes = np.arange(start, start + len(ids)), np.ones(len(ids), dtype=np.int64)
        if weights is not None:
            sizes = np.maximum(np.rint(weights), 1.0).astype(np.int64)
        return cls(ids, sizes, rows, rows)._merged()

    def __add__(self, other: Self) -> Self:
        """Return the clusters of the rows of both."""
        left, right = (self._folded(), other._folded()) if self.folded or other.folded else (self, other)
        names = ("ids", "sizes", "first", "last")
        ids, sizes, first, last = (np.concatenate([getattr(left, name), getattr(right, name)]) for name in names)
        return replace(left, ids=ids, sizes=sizes, first=first, last=last)._merged()

    def _folded(self) -> Self:
        return self if self.folded else replace(self, ids=self.ids % LISTED_CLUSTERS, folded=True)._merged()

    def _merged(self) -> Self:
        ids, number = np.unique(self.ids, return_inverse=True)
        sizes, first = np.zeros(len(ids), dtype=np.int64), np.full(len(ids), np.iinfo(np.int64).max)
        last = np.full(len(ids), -1)
        np.add.at(sizes, number, self.sizes)
        np.minimum.at(first, number, self.first)
        np.maximum.at(last, number, self.last)
        merged = replace(self, ids=ids, sizes=sizes, first=first, last=last)
        return merged if len(ids) <= LISTED_CLUSTERS else merged._folded()


class KnownClusters(NamedTuple):
    """The clusters that rows have had so far, in the order of their numbers; only their pools where they are many."""

    ids: Hashes
    pooled: bool

    @classmethod
    def of(cls, table: ClusterTable) -> KnownClusters:
        """Return the clusters of a table, numbered in the order in which they first appear."""
        pooled = len(table.ids) > MOST_CLUSTERS
        return cls(table.ids[:0] if pooled else table.ids[np.argsort(table.first, kind="stable")], pooled)

    def number(self, ids: Hashes) -> tuple[Indices, KnownClusters]:
        """Return the number of each row's cluster, and the clusters known from now on."""
        if self.pooled:
            return pool_of(ids), self
        found, first = np.unique(ids, return_index=True)
        new = found[np.argsort(first)]
        known = np.concatenate([self.ids, new[~np.isin(new, self.ids)]])
        order = np.argsort(known)
        return order[np.searchsorted(known, ids, sorter=order)], KnownClusters(known, pooled=False)


@dataclass(frozen=True)
class Clusters:
    """The clusters of a fit: ``fold`` and ``number`` of each of ``ids``; without ids, both by hash.

    Rows whose hash is among ``single`` are alike by nature, and each is a cluster of its own.
    """

    ids: Hashes
    fold: Indices
    number: Indices
    count: int
    single: Hashes = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    folded: bool = False

    def row_ids(self, ids: Hashes, start: int) -> Hashes:
        """Return the hash of each row's cluster."""
        if not len(self.single):
            return ids % LISTED_CLUSTERS if self.folded else ids
        alone = np.isin(ids, self.single)
        return np.where(alone, hash_rows(start, len(ids)), ids)


@dataclass(frozen=True)
class RowDesign:
    """The fold, the block of time and the cluster of each of ``rows`` rows.

    Independent rows are dealt out by a hash of their numbers, as evenly as can be; rows in time order are cut into
    contiguous folds; clusters stay together. ``parts`` are the folds, if another number is asked for than usual.
    """

    rows: int
    time_ordered: bool = False
    seed: int = 0
    clusters: Clusters | None = None
    parts: int | None = None

    @property
    def folds(self) -> int:
        """The number of folds."""
        return self.parts or fold_count(self.rows)

    def __call__(self, start: int, count: int, ids: Hashes | None = None) -> Places:
        """Return the places of ``count`` rows from ``start`` on; ``ids`` are the hashes of their clusters."""
        rows = np.arange(start, start + count)
        block = block_of(rows, self.rows) if self.time_ordered else None
        if self.clusters is None or ids is None:
            fold = part_of(rows, self.rows, self.folds) if self.time_ordered else self._deal(start, count)
            return Places(fold, RowUnits(block))
        ids = self.clusters.row_ids(ids, start)
        if len(self.clusters.ids):
            number = np.searchsorted(self.clusters.ids, ids)
            fold, cluster = self.clusters.fold[number], self.clusters.number[number]
        else:
            fold = (mixed(ids ^ hash_rows(self.seed, 1)) % np.uint64(self.folds)).astype(np.int64)
            cluster = pool_of(ids)
        return Places(fold, RowUnits(block, cluster, self.clusters.count))

    def _deal(self, start: int, count: int) -> Indices:
        """Deal rows out to folds by their hashes, as evenly as can be among each thousand."""
        hashes, fold = hash_rows(start, count, self.seed), np.empty(count, dtype=np.int64)
        whole = count // _DEALT * _DEALT
        order = np.argsort(hashes[:whole].reshape(-1, _DEALT), axis=1, kind="stable")
        turns = np.arange(start, start + count) % self.folds  # goes on from one thousand to the next
        np.put_along_axis(fold[:whole].reshape(-1, _DEALT), order, turns[:whole].reshape(-1, _DEALT), axis=1)
        fold[whole:][np.argsort(hashes[whole:], kind="stable")] = turns[whole:]
        return fold

    def clustered(self, table: ClusterTable, single: Hashes | None = None) -> RowDesign:
        """Return the design with these clusters; in time order, those that come and go go with their first rows."""
        if self.passing(table):
            fold = part_of(table.first, self.rows, self.folds)
        else:
            fold = _balanced_folds(table, self.folds, self.seed)
        alone = np.empty(0, dtype=np.uint64) if single is None else single
        known = KnownClusters.of(table)
        number, _ = known.number(table.ids)
        count = MOST_CLUSTERS if known.pooled else len(known.ids)
        return replace(self, clusters=Clusters(table.ids, fold, number, count, alone, table.folded))

    def passing(self, table: ClusterTable) -> bool:
        """Return whether clusters come and go in time, as days do, and folds can be parts of time."""
        longest = 2 * self.rows / max(self.folds, _FEWEST_PARTS)
        return self.time_ordered and bool((table.last - table.first < longest).all())

    def pooled(self, single: Hashes) -> RowDesign:
        """Return the design with too many clusters to list: folds and pools are those of their hashes."""
        none = np.empty(0, dtype=np.int64)
        return replace(self, clusters=Clusters(none.astype(np.uint64), none, none, MOST_CLUSTERS, single))


def pool_of(ids: Hashes) -> Indices:
    """Return the pool of each cluster."""
    return (ids % np.uint64(MOST_CLUSTERS)).astype(np.int64)


def _balanced_folds(table: ClusterTable, folds: int, seed: int) -> Indices:
    """Give each cluster, the largest first, to the fold with the fewest rows so far."""
    # of equal ones by a hash of their first rows: what clusters are called does not matter
    order = np.lexsort((hash_numbers(table.first, seed), -table.sizes))
    fold, filled = np.empty(len(order), dtype=np.int64), np.zeros(folds, dtype=np.int64)
    several = int((table.sizes > 1).sum())
    for cluster in order[:several]:
        fold[cluster] = filled.argmin()
        filled[fold[cluster]] += table.sizes[cluster]
    # single rows fill up what is behind, and are dealt out evenly then
    left = len(order) - several
    ranked, level = np.sort(filled), 0
    for k in range(1, folds + 1):
        level = (int(ranked[:k].sum()) + left) // k
        if k == folds or level <= ranked[k]:
            break
    need = np.maximum(level - filled, 0)
    need[np.argsort(filled + need, kind="stable")[: left - int(need.sum())]] += 1
    fold[order[several:]] = np.repeat(np.arange(folds), need)
    return fold
