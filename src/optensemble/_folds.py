"""Rows to learn from and rows to be judged on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optensemble._types import Indices

_MANY_ROWS = 1000


class Fold(NamedTuple):
    """Learn from ``train``, judge on ``test``; both ascend."""

    train: Indices
    test: Indices


def folds(
    n: int, *, time_ordered: bool = False, clusters: Indices | None = None, random_state: int | None = None
) -> list[Fold]:
    """Cut rows into ten parts, or five of many rows, each judged by what the others teach.

    Parameters
    ----------
    n
        How many rows.
    time_ordered
        Cut contiguous parts: neighbours in time are alike, and would tell of each other.
    clusters
        A number for every row; rows of one number stay together.
    random_state
        Seeds the shuffling of rows that are not in time order.

    Examples
    --------
    >>> [fold.test.tolist() for fold in folds(20, time_ordered=True)][:2]
    [[0, 1], [2, 3]]
    """
    count = 10 if n < _MANY_ROWS else 5
    part = np.empty(n, dtype=np.int64)
    if time_ordered:
        part[:] = np.arange(n) * count // n
        if clusters is not None:  # all of a cluster goes with its first row
            part[:] = part[np.unique(clusters, return_index=True)[1]][np.unique(clusters, return_inverse=True)[1]]
    elif clusters is None:
        part[np.random.default_rng(random_state or 0).permutation(n)] = np.arange(n) % count
    else:
        part[:] = _parts_of_clusters(clusters, count, random_state)[clusters]
    return [Fold(np.flatnonzero(part != f), np.flatnonzero(part == f)) for f in range(count) if (part == f).any()]


def _parts_of_clusters(clusters: Indices, count: int, random_state: int | None) -> Indices:
    """Give each cluster, the largest first, to the part with the fewest rows so far."""
    sizes = np.bincount(clusters)
    order = np.random.default_rng(random_state or 0).permutation(len(sizes))
    order = order[np.argsort(-sizes[order], kind="stable")]
    part, filled = np.empty(len(sizes), dtype=np.int64), np.zeros(count, dtype=np.int64)
    for cluster in order:
        part[cluster] = filled.argmin()
        filled[part[cluster]] += sizes[cluster]
    return part
