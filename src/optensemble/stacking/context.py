"""The context correction: what columns of X say of the stack's errors, by a forest of randomised trees.

It is learned from a sample of rows that adds up over blocks, out of fold as everything else.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.threads import thread_count
from optensemble.members.blocks import Chunk
from optensemble.members.outputs import MemberOutputs
from optensemble.stacking.forest import MOST_LABELS, Forest

CONTEXT_ROWS = 1 << 13
"""Rows that a forest is grown on, if there are more, and neither columns nor labels are many.

It takes n·log(n) steps for each column that a tree looks at, times the labels that it is judged by. Columns are those
of X and of the stack, which has one for every label: a tree looks at no more than
:data:`~optensemble.stacking.forest.MOST_LABELS` of the latter, and is judged by as many sums of labels.
"""

SEEN_NUMBERS, LABEL_NUMBERS = 1 << 19, 1 << 20
"""Numbers that a tree looks at in all these rows, and labels of them: its leaves hold no more than a fifth of those."""

FEWEST_ROWS = 1 << 8
"""Rows that it is grown on however many columns or labels there are."""

_HOPELESS = 2.0  # standard errors on the folds so far, of what should fall by one on all


def context_rows(p: int, d: int) -> int:
    """Return how many rows a forest is grown on, if there are more, with ``p`` columns of X and ``d`` labels.

    >>> [context_rows(p, d) for p, d in ((20, 10), (250, 2), (6, 200))]
    [8192, 2080, 5242]
    """
    most = min(CONTEXT_ROWS, SEEN_NUMBERS // (p + min(d, MOST_LABELS)), LABEL_NUMBERS // d)
    return max(most, FEWEST_ROWS)


def context_columns(outputs: MemberOutputs, stack: Floats) -> Floats:
    """Return what trees look at: the context of rows, and the stack, which they correct."""
    if outputs.context is None:
        raise ValueError("these rows have no context")
    return np.concatenate([outputs.context, stack], axis=1)


def correct_stack(forest: Forest, outputs: MemberOutputs, stack: Floats) -> Floats:
    """Return the stack of some rows, corrected."""
    return stack + forest(context_columns(outputs, stack))


@dataclass(frozen=True)
class FoldContext:
    """A forest for every fold, learned from the others."""

    forests: tuple[Forest, ...]

    def correct(self, chunk: Chunk, stack: Floats) -> Floats:
        """Return the stack of some rows, each corrected by the forest of its fold."""
        columns, found = context_columns(chunk.outputs, stack), stack.copy()
        for fold, forest in zip(chunk.folds, self.forests, strict=True):
            found[fold] += forest(columns[fold])
        return found

    @property
    def reach(self) -> float:
        """A bound on the size of a correction."""
        return max(forest.reach for forest in self.forests)


class ContextFit(NamedTuple):
    """The correction learned from all rows, and out of fold."""

    whole: Forest
    folds: FoldContext


@dataclass(frozen=True)
class ContextRows:
    """A sample of rows to learn from: the fold of each, columns to look at, what the stack missed, and weights.

    The last columns are the stack, as many as it missed labels.
    """

    fold: Indices
    columns: Floats
    missed: Floats
    weights: Floats | None = None

    def learn(self, folds: int, seed: int, n_jobs: int | None) -> ContextFit | None:
        """Grow a forest without each of the folds, and one on all rows, on ``n_jobs`` threads; None if it is hopeless.

        It is once the loss on the folds so far has risen by so many standard errors that it will hardly fall in all.
        """
        threads, grown, gains = thread_count(n_jobs), list[Forest](), np.empty(0)
        with ThreadPoolExecutor(threads) as pool:
            for first in range(0, folds, threads):
                some = range(first, min(first + threads, folds))
                for fold, forest in zip(some, pool.map(lambda fold: self._grow(fold, seed), some), strict=True):
                    grown.append(forest)
                    gains = np.concatenate([gains, self._gains(fold, forest)])
                    if _is_hopeless(gains):
                        return None
        return ContextFit(self._grow(None, seed), FoldContext(tuple(grown)))

    def _grow(self, left_out: int | None, seed: int) -> Forest:
        rows = np.flatnonzero(self.fold != (-1 if left_out is None else left_out))
        weights = None if self.weights is None else self.weights[rows]
        stack = self.missed.shape[1]  # the last columns
        return Forest.grow(self.columns[rows], self.missed[rows], weights, seed=seed, sampled=stack)

    def _gains(self, fold: int, forest: Forest) -> Floats:
        """Return by how much the squared error of each row of a fold falls."""
        rows = np.flatnonzero(self.fold == fold)
        missed, weights = self.missed[rows], 1.0 if self.weights is None else self.weights[rows]
        left = missed - forest(self.columns[rows])
        return np.asarray(weights * (np.square(missed).sum(axis=1) - np.square(left).sum(axis=1)))


def _is_hopeless(gains: Floats) -> bool:
    error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.inf
    return bool(gains.mean() < -_HOPELESS * error) if len(gains) else False
