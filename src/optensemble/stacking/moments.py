"""The first pass: sums over rows that everything linear in what members say is learned from.

For each fold the Gram matrix of [what members say, labels, 1], and a small one of what sets members' actions apart;
where members are absent in some rows, the same for each common pattern of who is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.sums import LARGEST, Sums
from optensemble.members.absence import Absent, mean_present
from optensemble.members.blocks import Block, Chunk
from optensemble.members.fingerprints import Marks
from optensemble.members.outputs import MemberOutputs
from optensemble.members.validation import mean_explained
from optensemble.stacking.cells import Counts, RowCells
from optensemble.stacking.filling import Filling
from optensemble.stacking.fold_maps import wide_outputs
from optensemble.stacking.patterns import columns_of, pattern_codes
from optensemble.stats.row_design import RowDesign


@dataclass(frozen=True)
class Basis:
    """The columns that members' outputs are regressed on: about ``centre``, in units of ``scale``, along ``span``.

    The centre is provisional, the mean of the first rows, so that sums of squares lose no digits. A ridge does not
    mind a rotation: where there are more columns than rows, their span will do.
    """

    centre: Floats
    labels: Floats
    scale: Floats | None = None
    span: Floats | None = None
    filling: Filling | None = None

    @classmethod
    def of(cls, first: Block, rows: int, filling: Filling | None = None) -> Basis:
        """Choose the columns by the first of ``rows`` rows; ``filling`` says what absent members would have said."""
        block = first.between(first.start, first.start + min(len(first.labels), first.enough))
        said = block.outputs.said
        centre, labels = np.concatenate([each.mean(axis=0) for each in said]), block.labels.mean(axis=0)
        n, p = len(block.labels), len(centre)
        if rows > n or n >= p:
            return cls(centre, labels, filling=filling)
        from scipy.linalg import eigh

        wide = wide_outputs(block.outputs, centre, filling)
        spread = weighted_std(wide, block.weights)
        scale = np.where(spread > 1e-9 * spread.max(initial=0.0), spread, 1.0)
        columns = wide / scale
        values, vectors = eigh(columns @ columns.T, driver="evd")
        kept = values > n * np.finfo(np.float64).eps * values[-1]
        return cls(centre, labels, scale, columns.T @ (vectors[:, kept] / np.sqrt(values[kept])), filling)

    def of_members(self, present: Indices, k: int) -> Basis:
        """Return the basis of some of ``k`` members alone; there must be no span."""
        return replace(self, centre=self.centre.reshape(k, -1)[present].ravel(), filling=None)

    def wide(self, outputs: MemberOutputs) -> Floats:
        """Return what members say of some rows about the centre, side by side."""
        return wide_outputs(outputs, self.centre, self.filling)

    def columns(self, wide: Floats) -> Floats:
        """Return the columns, given what members say about the centre."""
        return wide if self.span is None or self.scale is None else (wide / self.scale) @ self.span


@dataclass(frozen=True)
class MemberMoments(Sums):
    """Sums of what members say about the centre, for each fold.

    ``features`` (folds, members, d) are of what they say; by coordinate, ``squares`` (folds, d, members, members) are
    of its products with each other, and ``products`` (folds, d, members) with labels.
    """

    features: Floats
    squares: Floats
    products: Floats

    @classmethod
    def of(cls, said: Floats, labels: Floats, folds: list[slice], weights: Floats | None = None) -> Self:
        """Sum over the rows of each fold what members say (n, members, d), and labels, both about the centre."""
        said, truth = np.ascontiguousarray(said.transpose(2, 1, 0)), np.ascontiguousarray(labels.T)[:, :, None]
        weighted = said if weights is None else said * weights
        return cls(
            np.stack([weighted[:, :, fold].sum(axis=2).T for fold in folds]),
            np.stack([weighted[:, :, fold] @ said[:, :, fold].transpose(0, 2, 1) for fold in folds]),
            np.stack([(weighted[:, :, fold] @ truth[:, fold])[:, :, 0] for fold in folds]),
        )


@dataclass(frozen=True)
class DecisionMoments(Sums):
    """What models and labels say of the differences between members' actions, as sums over rows and members.

    Attributes
    ----------
    gram
        For each fold the Gram matrix of [the worth of a difference by each model, its worth by the labels, the
        difference], of shape (folds, models + 1 + d, models + 1 + d); a difference is that of a member's action and the
        mean action in its row, and worth is about the centre.
    size
        The size that a worth may have: those far below it are rounding.
    by_pattern
        The same of the rows of each common pattern of who is absent, (patterns, folds, …, …), if asked for.
    """

    gram: Floats
    size: float = field(metadata=LARGEST)
    by_pattern: Floats | None = None

    @classmethod
    def of(cls, actions: Floats, said: Floats, labels: Floats, rows: DecisionRows) -> Self:
        """Sum over some rows; what models say (n, models, d) and labels are about the centre."""
        (_, n, d), count = actions.shape, said.shape[1] + 1
        middle = mean_present(actions, rows.absent)
        codes = None if rows.patterns is None else pattern_codes(rows.absent, n)
        parts = [] if rows.patterns is None else [(codes == code)[:, None] for code in rows.patterns]
        gram = np.zeros((len(rows.folds), count + d, count + d))
        by_pattern, columns = np.zeros((len(parts), *gram.shape)), np.empty((n, count + d))
        for member, action in enumerate(actions):  # one after the other, for the sake of memory
            _write_difference(action, middle, said, labels, columns)
            if rows.absent is not None:
                columns[rows.absent[member]] = 0.0
            weighted = columns if rows.weights is None else columns * rows.weights[:, None]
            gram += _fold_grams(weighted, columns, rows.folds)
            for known, part in zip(by_pattern, parts, strict=True):
                known += _fold_grams(np.where(part, weighted, 0.0), columns, rows.folds)
        size = max(_size(said), _size(labels)) * _size(actions)
        return cls(gram, size, None if rows.patterns is None else by_pattern)

    def of_models(self, present: Indices, models: int) -> DecisionMoments:
        """Return the same for some of the models alone."""
        at = np.concatenate([present, np.arange(models, self.gram.shape[1])])
        return replace(self, gram=self.gram[:, at[:, None], at[None, :]], by_pattern=None)


class DecisionRows(NamedTuple):
    """The folds of some rows, who is absent in them, the common patterns of that, and their weights."""

    folds: list[slice]
    absent: Absent | None = None
    patterns: Indices | None = None
    weights: Floats | None = None


@njit(cache=True, nogil=True)
def _write_difference(action: Floats, middle: Floats, said: Floats, labels: Floats, columns: Floats) -> None:
    """Write for every row what the difference of two actions is worth by each model and the labels, and itself."""
    n, models, d = said.shape
    for i in range(n):
        apart = columns[i, models + 1 :]
        for j in range(d):
            apart[j] = action[i, j] - middle[i, j]
        for m in range(models + 1):
            values = said[i, m] if m < models else labels[i]
            worth = 0.0
            for j in range(d):
                worth += apart[j] * values[j]
            columns[i, m] = worth


@njit(cache=True, nogil=True)
def _size(values: Floats) -> float:
    """Return the size of the largest of some numbers."""
    size = 0.0
    for value in values.flat:
        size = max(size, abs(value))
    return size


def _fold_grams(left: Floats, right: Floats, folds: list[slice]) -> Floats:
    """Return the products of columns (n, columns) over the rows of each fold."""
    return np.stack([left[fold].T @ right[fold] for fold in folds])


@dataclass(frozen=True)
class Moments(Sums):
    """Sums over rows: for each fold the Gram matrix of [columns, labels, 1], and what a stack needs.

    Attributes
    ----------
    gram
        Of shape (folds, columns + d + 1, columns + d + 1).
    by_member
        Where columns are not those of members: what :attr:`members` finds in the Gram matrix otherwise.
    reach
        The largest distance of each member's output from the centre, (members, d).
    size, label_size, weight_size
        The largest output of each member, (members, d), the largest label, and the largest weight.
    absent
        The number of rows in which each member is absent, (members,).
    by_pattern
        The Gram matrix of the rows of each common pattern of who is absent, (patterns, folds, …, …), if asked for.
    decisions
        What sets members' actions apart, where all members are models.
    """

    gram: Floats
    by_member: MemberMoments | None
    reach: Floats = field(metadata=LARGEST)
    size: Floats = field(metadata=LARGEST)
    label_size: float = field(metadata=LARGEST)
    weight_size: float = field(metadata=LARGEST)
    absent: Indices
    by_pattern: Floats | None = None
    decisions: DecisionMoments | None = None

    def of_patterns(self, which: npt.NDArray[np.bool_]) -> Moments:
        """Return the moments of the rows of some patterns of who is absent, of all rows if there are no patterns."""
        if self.by_pattern is None:
            return self
        found, decisions = self.by_pattern[which].sum(axis=0), self.decisions
        if decisions is not None and decisions.by_pattern is not None:
            decisions = replace(decisions, gram=decisions.by_pattern[which].sum(axis=0), by_pattern=None)
        return replace(self, gram=found, by_pattern=None, decisions=decisions)

    def of_members(self, present: Indices) -> Moments:
        """Return the moments of some members alone."""
        (k, d), decisions = self.reach.shape, self.decisions
        at = columns_of(present, k, d)
        return replace(
            self,
            gram=self.gram[:, at[:, None], at[None, :]],
            by_member=None,
            by_pattern=None,
            reach=self.reach[present],
            size=self.size[present],
            decisions=None if decisions is None else decisions.of_models(present, k),
        )

    @property
    def in_one_fold(self) -> Moments:
        """The moments of all rows as those of one fold; those of members must be found in the Gram matrix."""
        decisions = self.decisions
        if decisions is not None:
            decisions = replace(decisions, gram=decisions.gram.sum(axis=0, keepdims=True))
        return replace(self, gram=self.gram.sum(axis=0, keepdims=True), decisions=decisions)

    @property
    def members(self) -> MemberMoments:
        """What a stack needs: sums of what members say, and of products by coordinate."""
        if self.by_member is not None:
            return self.by_member
        k, d = self.reach.shape
        own = np.arange(k * d).reshape(k, d).T  # (d, members)
        return MemberMoments(
            features=self.gram[:, -1, : k * d].reshape(-1, k, d),
            squares=self.gram[:, own[:, :, None], own[:, None, :]],
            products=self.gram[:, own, k * d + np.arange(d)[:, None]],
        )


@dataclass(frozen=True)
class FirstLook(Sums):
    """What the first pass finds: moments, how many rows each fixed cell has, fingerprints."""

    moments: Moments
    counts: Counts
    marks: Marks


@dataclass(frozen=True)
class FirstPass:
    """What the first pass needs to know; ``patterns`` are the common ones of who is absent, by number."""

    design: RowDesign
    basis: Basis
    patterns: Indices | None = None


def look_first(block: Block, state: FirstPass) -> FirstLook:
    """Pass 1: moments of what members say and of labels, sizes of the cells that do not change, fingerprints."""
    marks = Marks.of(block.marks, state.design.rows, *block.outputs.known_by, block.labels)
    found = [_first_sums(chunk, state) for chunk in block.chunks(state.design)]
    moments, counts = zip(*found, strict=True)
    return FirstLook(reduce(add, moments), reduce(add, counts), marks)


def _first_sums(chunk: Chunk, state: FirstPass) -> tuple[Moments, Counts]:
    outputs, basis, weights = chunk.outputs, state.basis, chunk.weights
    (k, n, d), folds = outputs.actions.shape, chunk.folds
    wide = basis.wide(outputs)
    labels = chunk.labels - basis.labels
    rows = np.concatenate([basis.columns(wide), labels, np.ones((n, 1))], axis=1)
    weighted = rows if weights is None else rows * weights[:, None]
    by_pattern = None
    if state.patterns is not None and basis.span is None:
        codes = pattern_codes(outputs.absent, n)
        parts = [np.where((codes == code)[:, None], weighted, 0.0) for code in state.patterns]
        by_pattern = np.stack([[part[fold].T @ rows[fold] for fold in folds] for part in parts])
    decisions = None
    if outputs.models == k:
        found = DecisionRows(folds, outputs.absent, state.patterns, weights)
        decisions = DecisionMoments.of(outputs.actions, wide.reshape(n, k, d), labels, found)
    moments = Moments(
        gram=_fold_grams(weighted, rows, folds),
        by_pattern=by_pattern,
        decisions=decisions,
        by_member=None if basis.span is None else MemberMoments.of(wide.reshape(n, k, d), labels, folds, weights),
        reach=column_sizes(wide).reshape(k, d),
        size=np.stack([column_sizes(each) for each in outputs.said]),
        label_size=float(np.abs(chunk.labels).max(initial=0.0)),
        weight_size=1.0 if weights is None else float(weights.max(initial=0.0)),
        absent=np.zeros(k, dtype=np.int64) if outputs.absent is None else outputs.absent.sum(axis=1),
    )
    return moments, RowCells(outputs).fixed_counts(weights)


def weighted_std(values: Floats, weights: Floats | None) -> Floats:
    """Return the standard deviation of every column over rows of some weights."""
    if weights is None:
        return np.asarray(values.std(axis=0))
    mean = weights @ values / weights.sum()
    return np.asarray(np.sqrt(weights @ np.square(values - mean) / weights.sum()))


@njit(cache=True, nogil=True)
def column_sizes(values: Floats) -> Floats:
    """Return the size of the largest value of each column."""
    n, d = values.shape
    sizes = np.zeros(d)
    for i in range(n):
        for j in range(d):
            sizes[j] = max(sizes[j], abs(values[i, j]))
    return sizes


def model_scores(found: Moments, basis: Basis, models: int) -> list[float]:
    """Return the share of the labels' variance that each model explains."""
    (k, d), members = found.reach.shape, found.members
    whole = found.gram.sum(axis=0)
    p, n = len(whole) - d - 1, whole[-1, -1]
    sums, squares = whole[-1, p : p + d], np.diag(whole)[p : p + d]
    spread = np.maximum(squares - sums**2 / n, 0.0)
    apart = basis.labels - basis.centre.reshape(k, d)
    scores = []
    for model in range(models):
        said, shift = members.features.sum(axis=0)[model], apart[model]
        own = members.squares.sum(axis=0)[:, model, model]
        missed = squares - 2 * members.products.sum(axis=0)[:, model] + own + 2 * shift * (sums - said) + n * shift**2
        scores.append(mean_explained(np.maximum(missed, 0.0), spread))
    return scores
