"""The multicalibration patch: a joint ridge on the paper's cells, kept only if it lowers the out-of-fold loss.

The cells are those of Algorithm 3 on the forecast's own level sets and every member's, Algorithm 2's leaders, and the
user's subgroups. The tables of folds add up: what the other folds teach is the whole table minus one's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.cell_sums import Cells as CellNumbers
from optensemble._core.cell_sums import Overlaps, add_limbs, count_overlaps, fill_lower, picked, weigh_overlaps
from optensemble._core.exact_sums import row_dots
from optensemble._core.kernel import inner
from optensemble._core.lanes import LANES, load, store
from optensemble._core.sums import Sums
from optensemble.members.outputs import MemberOutputs
from optensemble.multicalibration.events import Layout
from optensemble.multicalibration.patches import Patch, PatchLog
from optensemble.multicalibration.state import Situation
from optensemble.stacking.cells import Counts, Levels, RowCells, fill_groups, fill_levels, patch_groups
from optensemble.stats.sample_size import MIN_CELL

Solve = Callable[[Floats, Floats, Floats | None], None]
"""Writes the best actions under coefficients into an array, given a hint or None."""

MOST_CELLS = 2048
"""Beyond this number of cells only those with the most rows are kept: the table of overlaps is dense."""

MOST_ROUNDS = 2

SUMMED_TOGETHER = 1 << 15
"""Rows that are summed over cells at once: of more rows, each cell's sums are touched more rarely."""

PATCH_PENALTIES = (1000.0, 100.0, 10.0)
"""Pseudo-rows of zero residual in every cell, to choose from."""


@dataclass(frozen=True)
class Selection:
    """The cells that have enough rows and fit into the table, and how many do not.

    ``occupied`` cells have rows, ``below`` fewer than ``MIN_CELL``; ``cut`` were too many.
    """

    kept: Indices
    occupied: int = 0
    below: int = 0
    cut: int = 0

    @classmethod
    def of(cls, counts: Counts, first_subgroup: int) -> Selection:
        """Select cells by how many rows they have; the user's subgroups, from ``first_subgroup`` on, come first."""
        enough = np.flatnonzero(counts >= MIN_CELL)
        most = enough[np.lexsort((-counts[enough], enough < first_subgroup))[:MOST_CELLS]]
        occupied = int((counts > 0).sum())
        return cls(np.sort(most), occupied, occupied - len(enough), len(enough) - len(most))

    @property
    def notes(self) -> list[str]:
        """The cells left out, in words."""
        said = []
        if self.below:
            few = f"{self.below:,} of {self.occupied:,} cells hold fewer than {MIN_CELL} rows"
            said.append(f"{few} and were left out of the patch")
        if self.cut:
            said.append(f"{self.cut:,} further cells, those with the fewest rows, were more than the patch can hold")
        return said


@dataclass(frozen=True)
class FoldPatch:
    """Corrections for every fold, (folds, cells, d), of the cells ``kept``.

    The cells of a column begin at its offset; ``common`` is the one of each column that most rows lie in.
    """

    kept: Indices
    delta: Floats
    offsets: Indices
    common: CellNumbers

    @cached_property
    def _beyond(self) -> tuple[Floats, Floats]:
        """The correction of a row in all the common cells, and what each cell of a column adds to that."""
        whole = np.zeros((len(self.delta), self.offsets[-1], self.delta.shape[2]))
        whole[:, self.kept] = self.delta
        base = whole[:, self.common].sum(axis=1)
        for common, start, stop in zip(self.common, self.offsets[:-1], self.offsets[1:], strict=True):
            whole[:, start:stop] -= whole[:, common : common + 1].copy()
        return base, whole

    def __call__(self, forecast: Floats, cells: RowCells, ends: Indices) -> Floats:
        """Return the forecast with the corrections of every row's cells by its fold."""
        corrected = forecast.copy()
        add_corrections(cells.columns, self.common, *self._beyond, ends, corrected)
        return corrected

    def reach(self, columns: int) -> float:
        """Return a bound on the correction of a row that lies in so many cells."""
        return columns * float(np.abs(self.delta).max(initial=0.0))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_beyond"}


@njit(cache=True, nogil=True)
def add_corrections(columns, common, base, beyond, ends, forecast):  # type: ignore[no-untyped-def]
    """Add to each row of ``forecast`` its fold's corrections of its cells: most are those of the common cells."""
    events, d = columns.shape[1], forecast.shape[1]
    others = np.empty(events, np.int64)
    for f in range(len(ends) - 1):
        for i in range(ends[f], ends[f + 1]):
            m = 0
            for e in range(events):  # without a branch, which would be mispredicted in every other event
                others[m] = columns[i, e]
                m += columns[i, e] != common[e]
            row = forecast[i]
            for j in range(d):
                row[j] += base[f, j]
            for k in range(m):
                more = beyond[f, others[k]]
                for j in range(d):
                    row[j] += more[j]


def number_cells(kept: Indices, count: int) -> CellNumbers:
    """Return the place of every cell among those kept; -1 for the others."""
    number = np.full(count, -1, dtype=np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    return number


@dataclass(frozen=True)
class FoldTables(Sums):
    """The tables of every fold on the same cells, which a patch is learned from.

    Attributes
    ----------
    counts
        Rows of each cell, (folds, cells).
    high, low
        Limbs of the residual sums, (folds, cells, d).
    shared
        Rows that each two cells share, (folds, moving cells, cells), or all cells in place of the moving ones; see
        :func:`~optensemble._core.cell_sums.count_overlaps`. Of weighted rows the sum of their weights.
    squares
        Sums of squared residuals, (folds,).
    """

    counts: Indices
    high: Floats
    low: Floats
    shared: Overlaps
    squares: Floats

    @classmethod
    def empty(cls, folds: int, moving: int, cells: int, d: int, weighted: bool = False) -> FoldTables:
        """Return tables of no rows, to be added to in place."""
        shape = (folds, moving, cells)
        return cls(
            counts=np.zeros((folds, cells), dtype=np.int64),
            high=np.zeros((folds, cells, d)),
            low=np.zeros((folds, cells, d)),
            shared=np.zeros(shape) if weighted else np.zeros(shape, dtype=np.int32),
            squares=np.zeros(folds),
        )

    def add(self, rows: TabulatedRows, top: float, total: int, moving: Indices) -> None:
        """Add rows, of ``total``, whose residuals are about at most ``top``, in place; overlaps of ``moving`` cells."""
        squares, residual, shared = row_dots(rows.residual, rows.residual), rows.residual, cast("Any", self.shared)
        if rows.weights is None:
            count_overlaps(rows.cells, rows.fold, moving, shared)
        else:
            weigh_overlaps(rows.cells, rows.fold, rows.weights, moving, shared)
            squares, residual = squares * rows.weights, residual * rows.weights[:, None]
        add_limbs(rows.cells, rows.fold, residual, top, total, self.counts, self.high, self.low)
        self.squares[:] += np.bincount(rows.fold, weights=squares, minlength=len(self.squares))

    def over(self, earlier: FoldTables, moving: Indices) -> FoldTables:
        """Return the tables with the overlaps of fixed cells that an earlier pass has counted, in the room of those."""
        earlier.shared[:, :, moving] = 0
        earlier.shared[:, moving] = self.shared
        return replace(self, shared=earlier.shared)


class TabulatedRows(NamedTuple):
    """The cells of some rows among those tabulated, the rows' folds, their residuals, and weights if they have any."""

    cells: CellNumbers
    fold: Indices
    residual: Floats
    weights: Floats | None = None


@dataclass(frozen=True)
class LearnedPatch:
    """A patch from all rows, and the same for every fold from the others."""

    patch: Patch
    folds: FoldPatch


def learn_patch(
    tables: FoldTables, tabulated: Indices, kept: Indices, counts: Counts, offsets: Indices
) -> LearnedPatch | None:
    """Choose the penalty by the out-of-fold loss, which the tables tell; None if no penalty lowers it.

    ``counts`` are the rows of all cells; those of a column begin at its offset.

    The strongest comes first. Once the loss no longer falls, a weaker one, which corrects more, will not help either.
    """
    ridges = PatchRidges(tables, np.searchsorted(tabulated, kept))
    folds, squares = range(len(tables.squares)), float(tables.squares.sum())
    lowest, best = squares, None
    for penalty in PATCH_PENALTIES:
        delta = np.stack([ridges.solve(penalty, left_out=fold) for fold in folds])
        loss = squares - sum(ridges.drop(fold, delta[fold]) for fold in folds)
        if loss >= lowest:
            break
        best, lowest = (penalty, delta), loss
    if best is None:
        return None
    penalty, delta = best
    common = [start + counts[start:stop].argmax() for start, stop in pairwise(offsets)]
    patch = Patch(0, kept, ridges.solve(penalty), np.rint(counts[kept]).astype(np.int64))
    return LearnedPatch(patch, FoldPatch(kept, delta, offsets, np.array(common, dtype=np.int32)))


class PatchRidges:
    """The ridges on those cells of the tables that are at some ``places``, and what they do for each fold."""

    def __init__(self, tables: FoldTables, places: Indices) -> None:
        self._tables, self._places = tables, places
        self._high, self._low = tables.high[:, places], tables.low[:, places]
        self._whole = picked(tables.shared.sum(axis=0, dtype=tables.shared.dtype), places)
        self._room = np.empty(self._whole.shape, order="F")  # LAPACK goes by columns

    def solve(self, penalty: float, left_out: int | None = None) -> Floats:
        """Solve ``(G + penalty·I) δ = H``, on all folds or all but one."""
        from scipy.linalg import cho_factor, cho_solve

        high, low, shared = self._high.sum(axis=0), self._low.sum(axis=0), self._whole
        if left_out is not None:
            high, low, shared = high - self._high[left_out], low - self._low[left_out], shared - self._shared(left_out)
        fill_lower(shared, penalty, self._room)
        factor: Any = cho_factor(self._room, lower=True, overwrite_a=True, check_finite=False)
        return np.asarray(cho_solve(factor, high + low, check_finite=False))

    def drop(self, fold: int, delta: Floats) -> float:
        """Return by how much corrections lower the squared error of a fold's rows: ``2 δ·H − δ·Gδ``."""
        once = self._shared(fold).astype(np.float64)  # each two cells in one of their two places
        product = 2.0 * (once @ delta) - np.diag(once)[:, None] * delta
        return float((delta * (2.0 * (self._high[fold] + self._low[fold]) - product)).sum())

    def _shared(self, fold: int) -> Overlaps:
        found: Overlaps = picked(self._tables.shared[fold], self._places)
        return found


@dataclass(frozen=True)
class PatchRounds:
    """The patches of a forecast, laid out for compiled code round by round."""

    layout: Layout
    rounds: tuple[LanePatch, ...]

    @classmethod
    def of(cls, log: PatchLog) -> PatchRounds:
        """Lay out a log, whose rounds have one patch each."""
        patches = [patch for patches in log.rounds for patch in patches]
        return cls(
            log.layout, tuple(in_lanes(number_cells(each.cells, log.layout.count), each.delta) for each in patches)
        )

    def __call__(
        self,
        outputs: MemberOutputs,
        predictions: Floats,
        actions: Floats,
        solver: Solve,
        room: PatchedForecast | None = None,
    ) -> PatchedForecast:
        """Correct a forecast, which induces ``actions``, round after round, in ``room`` if there is any.

        All members' actions must be known.
        """
        groups, levels, offsets = patch_groups(outputs), Levels.of(outputs.buckets), self.layout.offsets
        forecast, found = PatchedForecast(np.empty_like(predictions), np.empty_like(actions)) if room is None else room
        forecast[:], before = predictions, actions
        for patch in self.rounds:
            patch_rows(outputs.actions, before[None], groups, levels, offsets, patch, forecast)
            solver(forecast, found, before)
            before = found
        return PatchedForecast(forecast, found)


class PatchedForecast(NamedTuple):
    """A forecast with its corrections, and the actions that it induces."""

    forecast: Floats
    actions: Floats


class LanePatch(NamedTuple):
    """Corrections one after the other, each with zeros after it to whole lanes, and in which lane each cell's begins.

    Cells without a correction share a last one of negative zeros, which leave every number as it is.
    """

    places: CellNumbers
    corrections: Floats


def in_lanes(number: CellNumbers, delta: Floats) -> LanePatch:
    """Lay out corrections (cells, d), given the place of every cell's among them, or -1."""
    cells, d = delta.shape
    width = -(-d // LANES)
    padded = np.full((cells + 1, width * LANES), -0.0)
    padded[:cells, :d] = delta
    return LanePatch(np.where(number < 0, cells, number).astype(np.int32) * np.int32(width), padded)


_ROWS, _EVENTS = 32, 32
"""Rows are corrected a few at a time, by a few events after the other: what that takes stays in the first cache."""


@njit(cache=True, nogil=True)
def patch_rows(  # type: ignore[no-untyped-def]
    fixed, own, groups, levels, offsets, patch, forecast
):
    """Add to each row of ``forecast`` the corrections of its cells.

    These are of members' actions (members, n, d), of those that the forecast induces (1, n, d), and of groups.
    """
    events, (_, n, d) = len(offsets) - 1, fixed.shape
    room = np.empty((_ROWS, events), np.int32)
    for start in range(0, n, _ROWS):
        columns = room[: min(_ROWS, n - start)]
        fill_levels(fixed, start, levels, offsets, columns, 0)
        fill_levels(own, start, levels, offsets, columns, len(fixed) * d)
        fill_groups(groups, start, offsets, columns, (len(fixed) + 1) * d)
        add_patch(columns, patch, forecast[start : start + _ROWS])


@njit(cache=True, nogil=True)
def add_patch(columns: CellNumbers, patch: LanePatch, forecast: Floats) -> None:
    """Add to each row of ``forecast`` the corrections of its cells, in their order."""
    (n, events), d = columns.shape, forecast.shape[1]
    width = patch.corrections.shape[1] // LANES
    places, flat, row = patch.places, patch.corrections.reshape(-1), np.zeros(width * LANES)
    for first in range(0, events, _EVENTS):
        for i in range(n):
            cells = columns[i, first : first + _EVENTS]
            for j in range(d):
                row[j] = forecast[i, j]
            for at in range(0, width - 5, 6):
                add_six(flat, places, cells, at, row)
            for at in range(width - width % 6, width):
                add_one(flat, places, cells, at, row)
            for j in range(d):
                forecast[i, j] = row[j]


# Sums stay in the processor while cells are added, as many at once as it has registers for.


@inner
def add_six(flat, places, cells, at, row):  # type: ignore[no-untyped-def]
    """Add the corrections of some cells to six times as many numbers of a row as a lane holds."""
    a, b, c = load(row, at), load(row, at + 1), load(row, at + 2)
    d, e, f = load(row, at + 3), load(row, at + 4), load(row, at + 5)
    for k in range(len(cells)):
        first = place_of(places, cells, k) + at
        a, b, c = a + load(flat, first), b + load(flat, first + 1), c + load(flat, first + 2)
        d, e, f = d + load(flat, first + 3), e + load(flat, first + 4), f + load(flat, first + 5)
    store(row, at, a)
    store(row, at + 1, b)
    store(row, at + 2, c)
    store(row, at + 3, d)
    store(row, at + 4, e)
    store(row, at + 5, f)


@inner
def add_one(flat, places, cells, at, row):  # type: ignore[no-untyped-def]
    """Add the same to as many as a lane holds."""
    a = load(row, at)
    for k in range(len(cells)):
        a = a + load(flat, place_of(places, cells, k) + at)
    store(row, at, a)


@inner
def place_of(places, cells, k):  # type: ignore[no-untyped-def]
    """Return where the corrections of a cell begin; its number, without a sign, is not looked at for one."""
    return np.int64(places[np.uint32(cells[k])])


def situate(outputs: MemberOutputs, predictions: Floats) -> Situation:
    """Return what a forecast induces beside the members; the leading model is a subgroup, as the user's are."""
    return Situation(
        predictions[None].copy(), outputs.omega, outputs.buckets, given=outputs.actions, groups=patch_groups(outputs)
    )
