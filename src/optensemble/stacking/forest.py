"""Extremely randomised trees with several outputs (Geurts, Ernst and Wehenkel, 2006), as arrays over all nodes.

A node draws one threshold for every column, and splits by the one that lowers the squared error most. Where outputs
are many a tree is judged by a few random sums of them (Joly, Geurts and Wehenkel, 2014), which keep squared errors in
the mean, and looks at only as many of the columns that are sampled. Fits of an ensemble are often on hundreds of rows,
and grow a dozen forests: scikit-learn's objects take most of their time then. A file of trees holds nothing that could
run.
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

MOST_LABELS = 16
"""Sums of outputs that a tree is judged by, and sampled columns that it looks at, if there are more of them."""


_WALKERS = 256  # rows that go through a tree together


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
    def grow(
        cls, columns: Floats, targets: Floats, weights: Floats | None = None, *, seed: int = 0, sampled: int = 0
    ) -> Forest:
        """Grow trees on rows of columns (n, p) and targets (n, d); of the last ``sampled`` columns each looks at a few.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(size=(500, 3))
        >>> forest = Forest.grow(X, np.stack([X[:, 0], X[:, 1] > 0.5], axis=1))
        >>> forest(np.array([[0.25, 0.9, 0.5]])).round(1)
        array([[0.3, 1. ]])
        """
        scale = np.ones((len(targets), 1)) if weights is None else weights[:, None]
        weighted = np.concatenate([targets * scale, scale], axis=1)
        parts, roots, nodes, leaves = list[tuple[Any, ...]](), list[int](), 0, 0
        for state in hash_numbers(np.arange(TREES), seed):
            chosen, judged = _chosen(columns.shape[1], sampled, int(state)), _judged(weighted, int(state))
            seen = np.ascontiguousarray(columns[:, chosen])
            found, threshold, left, right, values = grow_tree(seen, judged, weighted, LEAF, state)
            leaf = found < 0
            feature = np.concatenate([chosen, [-1]])[found]
            parts.append((feature, threshold, left + np.where(leaf, leaves, nodes), right + nodes, values))
            roots.append(nodes)
            nodes, leaves = nodes + len(feature), leaves + len(values)
        feature, threshold, left, right, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        right[feature < 0] = 0
        return cls(feature, threshold, left, right, np.array(roots, dtype=np.int64), values)


def _chosen(p: int, sampled: int, seed: int) -> Indices:
    """Return which of ``p`` columns a tree looks at: some of the last ``sampled``, and all others."""
    order = np.argsort(hash_numbers(np.arange(sampled), seed), kind="stable")
    return np.concatenate([np.arange(p - sampled), p - sampled + np.sort(order[:MOST_LABELS])])


def _judged(weighted: Floats, seed: int) -> Floats:
    """Return what a tree is judged by: targets (n, d), or sums of them with random signs; the weights stay the last."""
    d = weighted.shape[1] - 1
    if d <= MOST_LABELS:
        return weighted
    signs = np.where(hash_numbers(np.arange(d * MOST_LABELS), seed) >> np.uint64(63), -1.0, 1.0)
    return np.concatenate([weighted[:, :-1] @ signs.reshape(d, MOST_LABELS), weighted[:, -1:]], axis=1)


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
    """Write the mean over all trees of the leaf that each row comes to, tree by tree in order.

    Some rows go through a tree before the next is looked at: then the cache holds it, and them.
    """
    found[:] = 0.0
    for start in range(0, len(columns), _WALKERS):
        for root in roots:
            for i in range(start, min(start + _WALKERS, len(columns))):
                node, row, out = root, columns[i], found[i]
                while feature[node] >= 0:
                    node = left[node] if row[feature[node]] <= threshold[node] else right[node]
                value = values[left[node]]
                for j in range(len(out)):
                    out[j] += value[j]
    found /= len(roots)


@njit(cache=True, nogil=True)
def _draw_cuts(columns: Floats, rows: Indices, state: Any, cuts: Floats) -> Any:
    """Draw a threshold for every column among its values in some rows; infinity where no number may be between.

    Returns
    -------
    The state of the random numbers, of which every column takes one.
    """
    low, high = columns[rows[0]].copy(), columns[rows[0]].copy()
    for i in rows:
        row = columns[i]  # its numbers are next to each other: several are compared at a time
        for f in range(len(cuts)):
            low[f] = row[f] if row[f] < low[f] else low[f]
            high[f] = row[f] if row[f] > high[f] else high[f]
    for f in range(len(cuts)):
        state = state + GOLDEN
        cut = low[f] + np.float64(mixed(state) >> np.uint64(11)) * 2.0**-53 * (high[f] - low[f])
        cuts[f] = cut if low[f] <= cut < high[f] else np.inf
    return state


@njit(cache=True, nogil=True)
def _sum_below(columns: Floats, rows: Indices, targets: Floats, cuts: Floats, sizes: Floats, below: Floats) -> None:
    """Write how many rows are below the threshold of each column, and the sums of their targets, (width, columns).

    Four rows at a time, so that sums are read and written once for all of them; ``targets`` end in three rows of 0.
    """
    n, width, p = len(rows), targets.shape[1], len(cuts)
    marks = np.zeros((4, p))
    first, second, third, fourth = marks
    sizes[:], below[:] = 0.0, 0.0
    for start in range(0, n, 4):
        for at in range(min(4, n - start)):
            row, mark = columns[rows[start + at]], marks[at]
            for f in range(p):
                mark[f] = 1.0 if row[f] <= cuts[f] else 0.0
                sizes[f] += mark[f]
        for j in range(width):
            out, one, two = below[j], targets[start, j], targets[start + 1, j]
            three, four = targets[start + 2, j], targets[start + 3, j]
            for f in range(p):
                out[f] = out[f] + first[f] * one + second[f] * two + third[f] * three + fourth[f] * four


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
    p, width = columns.shape[1], len(sums)
    cuts, sizes, below = np.empty(p), np.empty(p), np.empty((width, p))
    state = _draw_cuts(columns, rows, state, cuts)
    _sum_below(columns, rows, targets, cuts, sizes, below)
    best, split, at_most = -np.inf, -1, 0.0
    for f in range(p):
        if min(sizes[f], len(rows) - sizes[f]) < least or not 0.0 < below[width - 1, f] < sums[width - 1]:
            continue
        gain = _gain(sums, below[:, f])
        if gain > best:
            best, split, at_most = gain, f, cuts[f]
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
    columns: Floats, judged: Floats, targets: Floats, least: int, state: Any
) -> tuple[Indices, Floats, Indices, Indices, Floats]:
    """Grow one tree on columns (n, p) by what it is judged by, (n, sums + 1), for targets (n, d + 1).

    Both are times weights, which are the last of them.

    Returns
    -------
    Feature, threshold, left and right of its nodes, and values of its leaves; both are numbered from 0.
    """
    n, width = judged.shape
    most, d = max(2 * (n // least), 1), targets.shape[1] - 1
    feature, threshold = np.full(most, -1, np.int64), np.zeros(most)
    left, right = np.zeros(most, np.int64), np.zeros(most, np.int64)
    first, last = np.zeros(most, np.int64), np.zeros(most, np.int64)
    values, space = np.zeros((max(n // least, 1), d)), np.empty((n + 3, width))
    rows, spare, sums = np.arange(n), np.empty(n, np.int64), np.empty(width)
    last[0] = n
    nodes, leaves, node = 1, 0, 0
    while node < nodes:
        here = rows[first[node] : last[node]]
        own = space[: len(here) + 3]
        sums[:], own[len(here) :] = 0.0, 0.0
        for at in range(len(here)):
            for j in range(width):
                own[at, j] = judged[here[at], j]
                sums[j] += own[at, j]
        split, at_most = -1, 0.0
        if len(here) >= 2 * least and sums[width - 1] > 0.0:
            split, at_most, state = _best_split(columns, here, own, sums, least, state)
        if split < 0:
            left[node] = leaves
            _mean_row(targets, here, values[leaves])
            leaves += 1
        else:
            middle = first[node] + _part(columns[:, split], here, at_most, spare)
            feature[node], threshold[node], left[node], right[node] = split, at_most, nodes, nodes + 1
            first[nodes], last[nodes], first[nodes + 1], last[nodes + 1] = first[node], middle, middle, last[node]
            nodes += 2
        node += 1
    return feature[:nodes], threshold[:nodes], left[:nodes], right[:nodes], values[:leaves].copy()


@njit(cache=True, nogil=True)
def _mean_row(targets: Floats, rows: Indices, mean: Floats) -> None:
    """Write the weighted mean of some rows of targets, (n, d + 1), times weights, which are the last; 0 without any."""
    d, weight = len(mean), 0.0
    mean[:] = 0.0
    for i in rows:
        weight += targets[i, d]
        for j in range(d):
            mean[j] += targets[i, j]
    for j in range(d):
        mean[j] = mean[j] / weight if weight > 0.0 else 0.0
