"""Folds: rows to learn from and rows to be judged on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Indices

_MANY_ROWS = 1000


class Fold(NamedTuple):
    """Learn from ``train``, judge on ``test``; both ascend."""

    train: Indices
    test: Indices


def folds(
    n: int, *, time_ordered: bool = False, clusters: Indices | None = None, random_state: int | None = None
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
        Seeds the shuffling of rows that are not in time order.

    Examples
    --------
    >>> [fold.test.tolist() for fold in folds(20, time_ordered=True)][:2]
    [[0, 1], [2, 3]]
    """
    count = 10 if n < _MANY_ROWS else 5
    part = np.empty(n, dtype=np.int64)
    if clusters is not None and not (time_ordered and _pass_by(clusters, 2 * n / count)):
        part[:] = _parts_of_clusters(clusters, count, random_state)[clusters]
    elif time_ordered:
        part[:] = np.arange(n) * count // n
        if clusters is not None:  # a day stays whole: it goes with its first row
            part[:] = part[np.unique(clusters, return_index=True)[1]][clusters]
    else:
        part[np.random.default_rng(random_state or 0).permutation(n)] = np.arange(n) % count
    return [Fold(np.flatnonzero(part != f), np.flatnonzero(part == f)) for f in range(count) if (part == f).any()]


def _pass_by(clusters: Indices, span: float) -> bool:
    """Return whether clusters come and go, as days do, each within ``span`` rows; customers may stay."""
    _, first = np.unique(clusters, return_index=True)
    _, last = np.unique(clusters[::-1], return_index=True)
    return bool((len(clusters) - 1 - last - first < span).all())


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


def fold_numbers(parts: list[Fold]) -> Indices:
    """Return the number of the fold that judges each row."""
    number = np.empty(sum(len(fold.test) for fold in parts), dtype=np.int64)
    for fold, part in enumerate(parts):
        number[part.test] = fold
    return number
