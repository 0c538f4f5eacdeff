"""Extremely randomised trees with several outputs (Geurts, Ernst and Wehenkel, 2006), as arrays over all nodes.

A node draws one threshold for every column, and splits by the one that lowers the squared error most. Fits of an
ensemble are often on hundreds of rows, and grow a dozen forests: scikit-learn's objects take most of their time then.
A file of trees holds nothing that could run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.hashing import GOLDEN, hash_numbers, mixed

TREES, LEAF = 50, 5
"""Trees of a forest, and the fewest rows in a leaf."""

_TOGETHER = 32  # columns whose sums below their thresholds are one product of matrices


@dataclass(frozen=True)
class Forest:
    """Regression trees.

    Attributes
    ----------
    feature, threshold
        The column that a node looks at, -1 if it is a leaf; a row goes left where that is at most the threshold.
    left, right
        The nodes below, whose numbers are larger than its own; of a leaf ``left`` is the number of its value.
    roots
        The first node of each tree.
    values
        The values of leaves, of shape (leaves, d).
    """

    feature: Indices
    threshold: Floats
    left: Indices
    right: Indices
    roots: Indices
    values: Floats

    def __call__(self, columns: Floats) -> Floats:
        """Return the mean of all trees for every row of columns (n, p)."""
        found = np.empty((len(columns), self.values.shape[1]))
        nodes = (self.feature, self.threshold, self.left, self.right, self.roots)
        walk_forest(np.ascontiguousarray(columns), *nodes, self.values, found)
        return found

    @property
    def reach(self) -> float:
        """A bound on the size of what it says."""
        return float(np.abs(self.values).max(initial=0.0))

    @classmethod
    def grow(cls, columns: Floats, targets: Floats, weights: Floats | None = None, *, seed: int = 0) -> Forest:
        """Grow trees on rows of columns (n, p) and targets (n, d).

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(500, 3))
        >>> forest = Forest.grow(X, np.stack([X[:, 0], X[:, 1] > 0.5], axis=1))
        >>> forest(np.array([[0.25, 0.9, 0.5]])).round(1)
        array([[0.3, 1. ]])
        """
        by_column = np.ascontiguousarray(columns.T)
        scale = np.ones((len(targets), 1)) if weights is None else weights[:, None]
        weighted = np.concatenate([targets * scale, scale], axis=1)
        parts, roots, nodes, leaves = list[tuple[Any, ...]](), list[int](), 0, 0
        for state in hash_numbers(np.arange(TREES), seed):
            feature, threshold, left, right, values = grow_tree(by_column, weighted, LEAF, state)
            leaf = feature < 0
            parts.append((feature, threshold, left + np.where(leaf, leaves, nodes), right + nodes, values))
            roots.append(nodes)
            nodes, leaves = nodes + len(feature), leaves + len(values)
        feature, threshold, left, right, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        right[feature < 0] = 0
        return cls(feature, threshold, left, right, np.array(roots, dtype=np.int64), values)


@njit(cache=True, nogil=True)
def walk_forest(
    columns: Floats,
    feature: Indices,
    threshold: Floats,
    left: Indices,
    right: Indices,
    roots: Indices,
    values: Floats,
    found: Floats,
) -> None:
    """Write the mean over all trees of the leaf that each row comes to, tree by tree in order."""
    n, d, trees = len(columns), values.shape[1], len(roots)
    for i in range(n):
        for j in range(d):
            found[i, j] = 0.0
        for t in range(trees):
            node = roots[t]
            while feature[node] >= 0:
                node = left[node] if columns[i, feature[node]] <= threshold[node] else right[node]
            leaf = left[node]
            for j in range(d):
                found[i, j] += values[leaf, j]
        for j in range(d):
            found[i, j] /= trees


@njit(cache=True, nogil=True)
def _draw_cuts(columns: Floats, rows: Indices, first: int, state: Any, cuts: Floats, below: Floats) -> Any:
    """Draw a threshold for each of some columns, and write which rows are below it: 1 or 0; none where it is constant.

    Returns
    -------
    The state of the random numbers, of which every column takes one.
    """
    for f in range(len(cuts)):
        values = columns[first + f]
        low = high = values[rows[0]]
        for i in rows:
            low, high = min(low, values[i]), max(high, values[i])
        state = state + GOLDEN
        cut = low + np.float64(mixed(state) >> np.uint64(11)) * 2.0**-53 * (high - low)
        cuts[f] = cut if low <= cut < high else np.inf  # no number may be between
        for at in range(len(rows)):
            below[f, at] = 1.0 if values[rows[at]] <= cuts[f] else 0.0
    return state


@njit(cache=True, nogil=True)
def _gain(sums: Floats, below: Floats) -> float:
    """Return the sum of squares between two parts, given sums over both and over one; the last is of weights."""
    gain, d = 0.0, len(sums) - 1
    weight, rest = below[d], sums[d] - below[d]
    for j in range(d):
        above = sums[j] - below[j]
        gain += below[j] * below[j] / weight + above * above / rest
    return gain


@njit(cache=True, nogil=True)
def _best_split(
    columns: Floats, rows: Indices, targets: Floats, sums: Floats, least: int, state: Any
) -> tuple[int, float, Any]:
    """Return the column and the threshold that lower the squared error most, -1 if none may be split by."""
    p, m, width = len(columns), len(rows), len(sums)
    best, split, at_most = -np.inf, -1, 0.0
    marks, sides, cuts = np.empty(_TOGETHER * m), np.empty(_TOGETHER * width), np.empty(_TOGETHER)
    for first in range(0, p, _TOGETHER):
        count = min(_TOGETHER, p - first)
        below = marks[: count * m].reshape(count, m)
        found = sides[: count * width].reshape(count, width)
        state = _draw_cuts(columns, rows, first, state, cuts[:count], below)
        np.dot(below, targets, found)
        for f in range(count):
            size = 0
            for at in range(m):
                size += int(below[f, at])
            if size < least or m - size < least or not 0.0 < found[f, width - 1] < sums[width - 1]:
                continue
            gain = _gain(sums, found[f])
            if gain > best:
                best, split, at_most = gain, first + f, cuts[f]
    return split, at_most, state


@njit(cache=True, nogil=True)
def _part(values: Floats, rows: Indices, at_most: float, spare: Indices) -> int:
    """Put the rows of at most a value first, in their order; return how many they are."""
    middle, end = 0, 0
    for i in rows:
        if values[i] <= at_most:
            rows[middle] = i
            middle += 1
        else:
            spare[end] = i
            end += 1
    rows[middle:] = spare[:end]
    return middle


@njit(cache=True, nogil=True)
def grow_tree(
    columns: Floats, targets: Floats, least: int, state: Any
) -> tuple[Indices, Floats, Indices, Indices, Floats]:
    """Grow one tree on columns (p, n) and targets (n, d + 1), times weights, which are the last of them.

    Returns
    -------
    Feature, threshold, left and right of its nodes, and values of its leaves; both are numbered from 0.
    """
    n, width = targets.shape
    most = max(2 * (n // least), 1)
    feature, threshold = np.full(most, -1, np.int64), np.zeros(most)
    left, right = np.zeros(most, np.int64), np.zeros(most, np.int64)
    first, last = np.zeros(most, np.int64), np.zeros(most, np.int64)
    values, space = np.empty((most, width - 1)), np.empty(n * width)
    rows, spare, sums = np.arange(n), np.empty(n, np.int64), np.empty(width)
    last[0] = n
    nodes, leaves, node = 1, 0, 0
    while node < nodes:
        here = rows[first[node] : last[node]]
        own = space[: len(here) * width].reshape(len(here), width)
        sums[:] = 0.0
        for at in range(len(here)):
            for j in range(width):
                own[at, j] = targets[here[at], j]
                sums[j] += own[at, j]
        split, at_most = -1, 0.0
        if len(here) >= 2 * least and sums[width - 1] > 0.0:
            split, at_most, state = _best_split(columns, here, own, sums, least, state)
        if split < 0:
            weight = sums[width - 1]
            left[node] = leaves
            for j in range(width - 1):
                values[leaves, j] = sums[j] / weight if weight > 0.0 else 0.0
            leaves += 1
        else:
            middle = first[node] + _part(columns[split], here, at_most, spare)
            feature[node], threshold[node], left[node], right[node] = split, at_most, nodes, nodes + 1
            first[nodes], last[nodes], first[nodes + 1], last[nodes + 1] = first[node], middle, middle, last[node]
            nodes += 2
        node += 1
    return feature[:nodes], threshold[:nodes], left[:nodes], right[:nodes], values[:leaves].copy()
