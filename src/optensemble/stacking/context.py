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
from optensemble.stacking.forest import Forest

CONTEXT_ROWS = 1 << 13
"""Rows that a forest is grown on, if there are more: it takes n·log(n) steps for each column and label."""

_HOPELESS = 2.0  # standard errors on the folds so far, of what should fall by one on all


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
    """A sample of rows to learn from: the fold of each, columns to look at, what the stack missed, and weights."""

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
        return Forest.grow(self.columns[rows], self.missed[rows], weights, seed=seed)

    def _gains(self, fold: int, forest: Forest) -> Floats:
        """Return by how much the squared error of each row of a fold falls."""
        rows = np.flatnonzero(self.fold == fold)
        missed, weights = self.missed[rows], 1.0 if self.weights is None else self.weights[rows]
        left = missed - forest(self.columns[rows])
        return np.asarray(weights * (np.square(missed).sum(axis=1) - np.square(left).sum(axis=1)))


def _is_hopeless(gains: Floats) -> bool:
    error = gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.inf
    return bool(gains.mean() < -_HOPELESS * error) if len(gains) else False
