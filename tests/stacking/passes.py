"""The passes of a fit on arrays; what they say of rows is put back into the order of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from optensemble import feasible
from optensemble._core.buckets import Buckets
from optensemble._core.engine import Local
from optensemble._core.hashing import hash_rows
from optensemble.members.blocks import ArrayBlocks, Block, Chunk
from optensemble.members.outputs import MemberOutputs
from optensemble.multicalibration.patches import Patch
from optensemble.stacking.cells import RowCells, make_layout
from optensemble.stacking.contest import ArmSums, ChoicePass, FoldChoices, learn_choices, look_at_choices
from optensemble.stacking.corrections import (
    CorrectionPass,
    Corrections,
    CorrectionSums,
    PatchCells,
    learn_corrections,
    make_forecaster,
    sum_corrections,
)
from optensemble.stacking.forecaster import Forecaster, Forecasts, Policies
from optensemble.stacking.linear import LinearFit, learn_linear
from optensemble.stacking.moments import Basis, FirstLook, FirstPass, look_first
from optensemble.stacking.patch import Selection
from optensemble.stats.paired_tests import PairedTest
from optensemble.stats.row_design import ClusterTable, RowDesign
from optensemble.stats.sampling import Sampling
from tests.problems import Floats


def solved(features: Floats) -> Floats:
    """The actions of models on the simplex."""
    omega = feasible.Simplex(features.shape[2])
    return np.stack([omega.argmax(np.ascontiguousarray(each)) for each in features])


def outputs_of(predictions: Floats, actions: Floats, omega: feasible.FeasibleSet | None = None) -> MemberOutputs:
    omega = omega or feasible.Simplex(actions.shape[2])
    return MemberOutputs(predictions, actions, omega, Buckets(omega.lower, omega.upper, 10))


@dataclass(frozen=True)
class FitRows:
    """Rows of a fit, and their folds."""

    outputs: MemberOutputs
    labels: Floats
    blocks: ArrayBlocks
    design: RowDesign

    @classmethod
    def of(cls, outputs: MemberOutputs, labels: Floats, sampling: Sampling | None = None, seed: int = 0) -> FitRows:
        """Deal rows out to folds as ``sampling.folds(n, seed)`` does."""
        sampling = sampling or Sampling()
        design, ids = RowDesign(len(labels), sampling.time_ordered, seed), None
        if sampling.clusters is not None:
            ids = hash_rows(0, int(sampling.clusters.max()) + 1)[sampling.clusters]
            design = design.clustered(ClusterTable.of(ids, 0))
        return cls(outputs, labels, ArrayBlocks(Block(0, outputs, labels, ids)), design)

    def run(self, function: Callable[[Block, Any], Any], state: Any) -> Any:
        return Local().run(function, self.blocks, state)

    def chunks(self) -> Iterator[Chunk]:
        for block in self.blocks.part(0, self.blocks.count):
            yield from block.chunks(self.design)

    def in_order(self, say: Callable[[Chunk], dict[str, Floats]]) -> dict[str, Floats]:
        """Put what is said of chunks into the order of the rows."""
        found: dict[str, Floats] = {}
        for chunk in self.chunks():
            for name, values in say(chunk).items():
                whole = found.setdefault(name, np.full((len(self.labels), *values.shape[1:]), np.nan))
                whole[chunk.rows] = values
        return found

    def look(self) -> tuple[FirstLook, Basis]:
        """Pass 1."""
        basis = Basis.of(self.blocks.first, len(self.labels))
        return self.run(look_first, FirstPass(self.design, basis)), basis

    def learn_linear(self) -> LinearFit:
        found, basis = self.look()
        return learn_linear(found.moments, basis, self.outputs)


@dataclass(frozen=True)
class Given:
    """A forecast that is given in place of one that is learned."""

    forecast: Floats

    def __call__(self, wide: Floats, chunk: Chunk) -> Floats:
        return self.forecast[chunk.rows]

    def reach(self, distance: Floats) -> float:
        return float(np.abs(self.forecast).max())


@dataclass(frozen=True)
class Learned:
    """Everything that the passes up to the choice have learned."""

    rows: FitRows
    linear: LinearFit
    cells: PatchCells
    corrections: Corrections
    arms: ArmSums
    choices: FoldChoices

    @classmethod
    def of(cls, rows: FitRows, forecast: Floats | None = None) -> Learned:
        """Learn as a fit does, with the stack as it is or with a ``forecast`` in its place."""
        first, basis = rows.look()
        linear = learn_linear(first.moments, basis, rows.outputs)
        if forecast is not None:
            linear = replace(linear, stacked=cast(Any, Given(forecast)), refined=cast(Any, Given(forecast)))
        cells = PatchCells.of(rows.outputs, first.counts)
        found = learn_corrections(linear, cells, rows.design, rows.run)
        looked = rows.run(look_at_choices, ChoicePass(rows.design, found.out_of_fold, bool(found.pending)))
        arms = looked.outcomes[0]
        if found.pending:
            found = found.judged(looked.gain)
            arms = looked.outcomes[0 if found.tests[-1].passed else 1]
        return cls(rows, linear, cells, found, arms, learn_choices(arms, rows.outputs.models))

    @cached_property
    def forecaster(self) -> Forecaster:
        return make_forecaster(self.linear, self.corrections, make_layout(self.rows.outputs))

    @cached_property
    def forecasts(self) -> Forecasts:
        """The out-of-fold forecasts of all rows."""
        found = self.corrections.out_of_fold
        return self.rows.in_order(lambda chunk: found.batch(chunk, RowCells(chunk.outputs)).forecasts)

    @cached_property
    def solved(self) -> Policies:
        """The actions of the forecasts that were solved on the way."""
        found = self.corrections.out_of_fold
        return self.rows.in_order(lambda chunk: found.batch(chunk, RowCells(chunk.outputs)).solved)

    @property
    def refinement(self) -> PairedTest:
        return self.corrections.refinement

    # The patch

    @property
    def log(self) -> tuple[Patch, ...]:
        return self.corrections.log

    @property
    def tests(self) -> tuple[PairedTest, ...]:
        return self.corrections.tests

    @property
    def predictions(self) -> Floats:
        """The last of the out-of-fold forecasts."""
        return self.forecasts["patched" if self.log else "refined" if self.refinement.passed else "stack"]

    @property
    def selection(self) -> Selection:
        return self.cells.select(self.arms.own)

    def tables(self, tabulated: Any) -> CorrectionSums:
        """Tables of the residuals of the stack, or of the forecast given in its place, on some cells."""
        out_of_fold = replace(self.corrections.out_of_fold, refined=False, patches=())
        state = CorrectionPass(self.rows.design, out_of_fold, np.asarray(tabulated), np.arange(len(tabulated)))
        found: CorrectionSums = self.rows.run(sum_corrections, state)
        return found
