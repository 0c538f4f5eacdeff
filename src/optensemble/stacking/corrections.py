"""The corrections of the stack: each is learned after one pass, judged out of fold in the next, and kept if it pays.

Two compete: the refinement, linear in what members say, and the context correction, trees on columns of X and the
stack. Of those that pass the test, the one of the lower loss is kept. Patches come after either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Indices, gathered
from optensemble._core.cell_sums import renumbered
from optensemble._core.sums import Sums
from optensemble.members.blocks import Block, Chunk
from optensemble.members.outputs import MemberOutputs
from optensemble.multicalibration.events import Layout
from optensemble.multicalibration.patches import Patch, PatchLog
from optensemble.stacking.cells import Counts, RowCells, first_subgroup, make_layout
from optensemble.stacking.context import ContextRows, context_columns, context_rows
from optensemble.stacking.forecaster import (
    CONTEXT,
    CORRECTED,
    PATCHED,
    REFINED,
    Forecaster,
)
from optensemble.stacking.forest import Forest
from optensemble.stacking.linear import LinearFit
from optensemble.stacking.out_of_fold import OutOfFold, gain_sums
from optensemble.stacking.patch import (
    MOST_ROUNDS,
    SUMMED_TOGETHER,
    FoldTables,
    Selection,
    TabulatedRows,
    learn_patch,
    number_cells,
)
from optensemble.stats.blocks import UnitSums
from optensemble.stats.paired_tests import PairedTest, loss_test
from optensemble.stats.row_design import RowDesign
from optensemble.stats.row_sample import RowSample
from optensemble.stats.sample_size import MIN_CELL


@dataclass(frozen=True)
class CorrectionPass:
    """A pass that judges the last correction, and tabulates the cells of the forecast for the next."""

    design: RowDesign
    out_of_fold: OutOfFold
    tabulated: Indices
    moving: Indices
    """Those of them whose overlaps are counted: all, or only the ones that move with the forecast."""


@dataclass(frozen=True)
class CorrectionSums(Sums):
    """What the last correction gained, and the tables for the next."""

    gain: UnitSums
    tables: FoldTables
    own: Counts


def sum_corrections(block: Block, state: CorrectionPass) -> CorrectionSums:
    """Pass 2 and those for further rounds: what the last correction gained, and tables of the forecast's residuals."""
    design, out_of_fold = state.design, state.out_of_fold
    weighted = block.weights is not None
    tables = FoldTables.empty(design.folds, len(state.moving), len(state.tabulated), block.labels.shape[1], weighted)
    gain, own = list[UnitSums](), list[Counts]()

    def rows() -> Iterator[tuple[npt.NDArray[Any], ...]]:
        for chunk in block.chunks(design):
            cells = RowCells(chunk.outputs)
            found = out_of_fold.corrected(chunk, out_of_fold.wide(chunk), cells)
            last = found[-1].forecast
            cells.take_up(chunk.outputs.omega.argmax(last))
            gain.append(gain_sums(chunk, out_of_fold, found))
            own.append(cells.own_counts(chunk.weights))
            number = number_cells(state.tabulated, cells.layout.count)
            weights = () if chunk.weights is None else (chunk.weights,)
            yield renumbered(cells.columns, number), chunk.fold, chunk.labels - last, *weights

    top = out_of_fold.reach(len(make_layout(block.outputs).events))
    for together in gathered(rows(), SUMMED_TOGETHER):
        tables.add(TabulatedRows(*together), top, design.rows, state.moving)
    return CorrectionSums(reduce(add, gain), tables, reduce(add, own))


Run = Callable[[Callable[[Block, Any], Any], Any], Any]
"""Runs a pass: ``run(function, state)`` is the sum of ``function(block, state)`` over all blocks."""


NOTHING_GAINED = PairedTest(0.0, 0.0)

CROSS_FITTED = "members are cross-fitted, and the levels of their copies would give away the labels they are judged by"
"""Why there is no refinement then.

A copy that was fitted without a row has seen more of the other labels: the higher the row's own label, the lower its
level. With k folds, the mean label of a fold is a line in what is said there, of slope −(k − 1). A ridge finds it in
the other folds, and reads off the labels of the rows it is judged on. The weights of a stack are not negative.
"""

SUBGROUPS = "subgroups"
"""The step in which the user's subgroups are corrected by themselves."""


@dataclass(frozen=True)
class Corrections:
    """The corrections of the stack so far: each is learned after one pass, and judged in the next.

    Attributes
    ----------
    out_of_fold
        The out-of-fold forecasts.
    log
        The patches learned from all rows.
    pending
        The step that is not judged yet: refined, context, subgroups or patched; empty if there is none.
    refinement, tests
        The one-standard-error test of the refinement, and of every round of patches.
    refined_by
        By how much the refinement lowers squared error, if it is kept; otherwise by nothing.
    context, forest
        That of the context correction, None if there was none to judge; and the correction learned from all rows.
    note
        The reason why no further patch was made.
    unrefined
        The reason why there is no refinement to judge, if there is none.
    """

    out_of_fold: OutOfFold
    log: tuple[Patch, ...] = ()
    pending: str = REFINED
    refinement: PairedTest = NOTHING_GAINED
    refined_by: float = 0.0
    tests: tuple[PairedTest, ...] = ()
    context: PairedTest | None = None
    forest: Forest | None = None
    note: str = ""
    unrefined: str = ""

    def judged(self, gain: UnitSums) -> Corrections:
        """Keep what is pending if it pays, or take it back; by squared error if members' actions never differ."""
        test = loss_test(gain if gain.squares[0] > 0 else gain.column(1))
        if self.pending == REFINED:
            lower = float(gain.means[1]) if test.passed else 0.0
            found = replace(self, refinement=test, refined_by=lower, pending="")
        elif self.pending == CONTEXT:
            return self._with_context(test)
        else:
            note = str(test) if self.pending == PATCHED and not test.passed else ""
            found = replace(self, tests=(*self.tests, test), note=note, pending="")
        return found if test.passed else replace(found, out_of_fold=self.out_of_fold.without_last(), log=self.log[:-1])

    def _with_context(self, test: PairedTest) -> Corrections:
        """Keep the context correction if it passes its test, and lowers squared error more than the refinement does."""
        found = replace(self, context=test, pending="")
        if test.passed and test.gain > self.refined_by:
            return found
        return replace(found, forest=None, out_of_fold=self.out_of_fold.without_last())

    def patched(
        self, found: CorrectionSums, cells: PatchCells, tabulated: Indices, kept: Indices, which: str
    ) -> Corrections:
        """Learn the next patch; none where no penalty lowers the out-of-fold loss."""
        learned = learn_patch(found.tables, tabulated, kept, cells.fixed + found.own, cells.layout.offsets)
        if learned is None:
            note = str(NOTHING_GAINED) if which == PATCHED else ""
            return replace(self, tests=(*self.tests, NOTHING_GAINED), note=note)
        further = replace(self.out_of_fold, patches=(*self.out_of_fold.patches, learned.folds))
        return replace(self, out_of_fold=further, log=(*self.log, learned.patch), pending=which)

    @property
    def left_out(self) -> dict[str, str]:
        """The forecasts that were not kept, and why."""
        tests = {REFINED: self.refinement, CONTEXT: self.context}
        found = {name: str(test) for name, test in tests.items() if test is not None and name not in self.kept}
        if self.unrefined:
            found[REFINED] = self.unrefined
        both = self.refinement.passed and self.context is not None and self.context.passed
        if both:
            loser, winner = (REFINED, CONTEXT) if self.forest is not None else (CONTEXT, REFINED)
            found[loser] = f"the {winner} forecast lowered the out-of-fold error more"
        return found if self.log else {**found, PATCHED: self.note}

    @property
    def kept(self) -> list[str]:
        """The forecasts that were kept, in order."""
        trees = self.forest is not None
        there = {REFINED: self.refinement.passed and not trees, CONTEXT: trees, PATCHED: bool(self.log)}
        return [name for name in CORRECTED if there[name]]


@dataclass(frozen=True)
class PatchCells:
    """The cells that a patch may correct; ``fixed`` counts the rows of each, but for the forecast's own."""

    layout: Layout
    columns: int
    fixed: Counts

    @classmethod
    def of(cls, outputs: MemberOutputs, fixed: Counts) -> PatchCells:
        """Return the cells of an ensemble; of ``outputs``, which may be those of any rows, only the members matter."""
        return cls(make_layout(outputs), len(outputs.titles), fixed)

    def select(self, own: Counts) -> Selection:
        """Select the cells to be kept, given how many rows each of the forecast's own has."""
        return Selection.of(self.fixed + own, first_subgroup(self.layout, self.columns))

    @property
    def subgroups(self) -> Indices:
        """The user's subgroups of enough rows."""
        numbers = np.arange(first_subgroup(self.layout, self.columns), self.layout.count)
        return numbers[self.fixed[numbers] >= MIN_CELL]

    @property
    def own(self) -> range:
        """The forecast's own level sets."""
        d, offsets = len(self.layout.partitions.levels), self.layout.offsets
        first = self.layout.partitions.policies * d
        return range(int(offsets[first]), int(offsets[first + d]))

    @property
    def candidates(self) -> Indices:
        """The cells that may be kept: fixed ones of the most rows, and all of the forecast's own."""
        return np.union1d(self.select(np.zeros_like(self.fixed)).kept, self.own)


@dataclass
class _Tables:
    """The tables of a forecast's cells, in passes; what fixed cells share is counted only once."""

    cells: PatchCells
    design: RowDesign
    run: Run
    counted: FoldTables | None = None

    def __call__(self, out_of_fold: OutOfFold, tabulated: Indices, which: str) -> CorrectionSums:
        """Judge the last step of a forecast and tabulate its residuals."""
        known = which == PATCHED and self.counted is not None
        moving = np.flatnonzero(np.isin(tabulated, self.cells.own)) if known else np.arange(len(tabulated))
        found: CorrectionSums = self.run(sum_corrections, CorrectionPass(self.design, out_of_fold, tabulated, moving))
        if self.counted is not None and known:
            return replace(found, tables=found.tables.over(self.counted, moving))
        if which == PATCHED:
            self.counted = found.tables
        return found


@dataclass(frozen=True)
class ContextPass:
    """A pass that judges the refinement, and takes a sample of rows to learn the context correction from."""

    design: RowDesign
    out_of_fold: OutOfFold


@dataclass(frozen=True)
class ContextLook(Sums):
    """What the refinement gained, and a sample of rows, with fold, weight, context, stack and labels as columns."""

    gain: UnitSums
    sample: RowSample


def look_at_context(block: Block, state: ContextPass) -> ContextLook:
    """Gather what the context correction is learned from, in rows out of fold."""
    return reduce(add, (_look_at_chunk(chunk, state) for chunk in block.chunks(state.design)))


def _look_at_chunk(chunk: Chunk, state: ContextPass) -> ContextLook:
    steps = state.out_of_fold.corrected(chunk, state.out_of_fold.wide(chunk), RowCells(chunk.outputs))
    looked_at, d = context_columns(chunk.outputs, steps[0].forecast), chunk.labels.shape[1]
    weights = np.ones(len(chunk.rows)) if chunk.weights is None else chunk.weights
    wide = np.concatenate([chunk.fold[:, None], weights[:, None], looked_at, chunk.labels], axis=1)
    most = context_rows(looked_at.shape[1] - d, d)
    kept = RowSample.of(chunk.rows, wide, state.design.rows, exact=most, most=most).smallest()
    return ContextLook(gain_sums(chunk, state.out_of_fold, steps), kept)


def learn_context(now: Corrections, design: RowDesign, run: Run, n_jobs: int | None) -> Corrections:
    """Judge the refinement, and learn the context correction of the stack, which is pending then."""
    found: ContextLook = run(look_at_context, ContextPass(design, now.out_of_fold))
    if now.pending:
        now = now.judged(found.gain)
    d = len(now.out_of_fold.linear.mean)
    _, columns = found.sample.in_order()
    (fold, weights), (looked_at, labels) = columns[:2], np.split(columns[2:].T, [-d], axis=1)
    rows = ContextRows(
        fold=fold.astype(np.int64),
        columns=looked_at,
        missed=labels - looked_at[:, -d:],  # the stack is the last of them
        weights=None if bool((weights == 1).all()) else weights,
    )
    fit = rows.learn(design.folds, design.seed, n_jobs)
    if fit is None:
        return replace(now, context=NOTHING_GAINED)
    return replace(now, out_of_fold=replace(now.out_of_fold, context=fit.folds), forest=fit.whole, pending=CONTEXT)


def learn_corrections(
    linear: LinearFit,
    cells: PatchCells,
    design: RowDesign,
    run: Run,
    *,
    context: bool = False,
    cross_fitted: bool = False,
    n_jobs: int | None = None,
) -> Corrections:
    """Correct the stack as long as that lowers the out-of-fold loss, with at most two patches; the last is pending.

    Subgroups are corrected by themselves first: beside hundreds of level sets, which ask for a strong ridge, they would
    hardly be. With ``context`` rows have one, and forests are grown on ``n_jobs`` threads. Where members are
    ``cross_fitted``, there is no refinement, and no ridge to compare with.
    """
    now = Corrections(OutOfFold(linear))
    if cross_fitted:
        now = Corrections(OutOfFold(linear, refined=False, ridged=False), pending="", unrefined=CROSS_FITTED)
    tabulate = _Tables(cells, design, run)
    if context:
        now = learn_context(now, design, run, n_jobs)
    for which in ([SUBGROUPS] if len(cells.subgroups) else []) + [PATCHED] * MOST_ROUNDS:
        tabulated = cells.subgroups if which == SUBGROUPS else cells.candidates
        found = tabulate(now.out_of_fold, tabulated, which)
        if now.pending:
            before = now.out_of_fold
            now = now.judged(found.gain)
            if now.note:
                break
            if now.out_of_fold is not before:  # it was taken back
                found = tabulate(now.out_of_fold, tabulated, which)
        kept = cells.subgroups if which == SUBGROUPS else cells.select(found.own).kept
        if not len(kept):
            return replace(now, note=f"no cell has {MIN_CELL} rows")
        now = now.patched(found, cells, tabulated, kept, which)
        if now.note:
            break
    return now


def make_forecaster(linear: LinearFit, found: Corrections, layout: Layout) -> Forecaster:
    """Return the forecasts learned from all rows."""
    log = PatchLog(layout, [(patch,) for patch in found.log])
    return Forecaster(
        mean=linear.mean,
        scale=linear.scale,
        stack=linear.stack,
        ridge=linear.ridge,
        refinement=linear.refinement if REFINED in found.kept else None,
        patch=log if found.log else None,
        filling=linear.filling,
        patterns=linear.forecasts,
        context=found.forest,
    )
