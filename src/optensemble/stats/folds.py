"""Folds: rows to learn from and rows to be judged on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Indices
from optensemble._core.hashing import hash_rows
from optensemble.stats.row_design import ClusterTable, RowDesign


class Fold(NamedTuple):
    """Learn from ``train``, judge on ``test``; both ascend."""

    train: Indices
    test: Indices


def folds(
    n: int,
    *,
    time_ordered: bool = False,
    clusters: Indices | None = None,
    random_state: int | None = None,
    count: int | None = None,
    gap: int = 0,
) -> list[Fold]:
    """Cut rows into ten folds, or five of many rows, each judged by what the others teach.

    Parameters
    ----------
    n
        The number of rows.
    time_ordered
        Cut contiguous parts: neighbours in time are alike, and would tell of each other.
    clusters
        A number for every row; rows of one number stay together. In time order, clusters that come and go (days) are
        cut into contiguous parts; if they stay (customers), parts are of clusters.
    random_state
        Seeds the hash of the row number by which rows that are not in time order are dealt out.
    count
        Another number of folds.
    gap
        Where folds are parts of time: how many rows before and after each of a fold's rows it is not judged by either.

    Examples
    --------
    >>> [fold.test.tolist() for fold in folds(20, time_ordered=True)][:2]
    [[0, 1], [2, 3]]
    >>> folds(6, time_ordered=True, count=3, gap=1)[1]
    Fold(train=array([0, 5]), test=array([2, 3]))
    """
    design = RowDesign(n, time_ordered, random_state or 0, parts=count)
    if clusters is None:
        part = design(0, n).fold
    else:
        ids = hash_rows(0, int(clusters.max()) + 1)[clusters]
        table = ClusterTable.of(ids, 0)
        part = design.clustered(table)(0, n, ids).fold
        gap = gap if design.passing(table) else 0
    return [_without(part == fold, gap if time_ordered else 0) for fold in np.unique(part)]


def _without(judged: npt.NDArray[np.bool_], gap: int) -> Fold:
    """Return the fold that is judged by the other rows, but for those within a gap of its own."""
    test, n = np.flatnonzero(judged), len(judged)
    first, last = np.maximum(test - gap, 0), np.minimum(test + gap, n - 1)
    near = np.cumsum(np.bincount(first, minlength=n + 1) - np.bincount(last + 1, minlength=n + 1))[:n]
    return Fold(np.flatnonzero(near == 0), test)
