"""From what members say to forecasts of the labels, each step cross-fitted and kept only if it pays out of fold.

::

    average → stack → refined or context → patched   each a candidate policy and, but for the average, an evaluator
    mean, ridge                                      what anyone would try; for the leaderboard

Two corrections of the stack compete: the refinement, linear in what members say, and the context correction, trees on
columns of X and the stack. Of those that pass the test, the one of the lower loss is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.engine import Engine, Local
from optensemble._core.threads import one_blas_thread
from optensemble.members.blocks import ArrayBlocks
from optensemble.members.outputs import MemberOutputs
from optensemble.multicalibration.patches import PatchLog
from optensemble.stacking.context import correct_stack
from optensemble.stacking.filling import Filling
from optensemble.stacking.forest import Forest
from optensemble.stacking.linear import learn_linear
from optensemble.stacking.moments import Basis, FirstPass, look_first
from optensemble.stacking.patch import apply_patch
from optensemble.stacking.patterns import PatternForecast, pattern_code, pattern_codes
from optensemble.stacking.ridge import Ridge
from optensemble.stacking.stack import Stack
from optensemble.stats.row_design import RowDesign

AVERAGE, STACK, RIDGE, MEAN = "average", "stack", "ridge", "mean"
REFINED, CONTEXT, PATCHED = "refined", "context", "patched"

CORRECTED = (REFINED, CONTEXT, PATCHED)
"""The stack after each correction, in order; each is kept only if it pays out of fold, and of the first two one."""

FORECASTS = (AVERAGE, STACK, *CORRECTED, RIDGE, MEAN)

Forecasts = dict[str, Floats]
"""Predictions of shape (n, d) by the name of who made them, from the simplest to the most corrected."""

Policies = dict[str, Floats]
"""Actions of shape (n, d) by the name of the forecast that induces them."""


@dataclass(frozen=True)
class ForecastBatch:
    """All forecasts for a batch of rows, and the actions of those that were solved on the way."""

    forecasts: Forecasts
    solved: Policies


@dataclass(frozen=True)
class Forecaster:
    """The forecasts of labels from what members say; ``refinement``, ``context`` and ``patch`` may be left out.

    ``mean`` and ``scale`` are the labels' means and standard deviations; ``filling`` is what absent members would say,
    and ``patterns`` are forecasts by those present, where some are absent.
    """

    mean: Floats
    scale: Floats
    stack: Stack
    ridge: Ridge
    refinement: Ridge | None = None
    patch: PatchLog | None = None
    filling: Filling | None = None
    patterns: tuple[PatternForecast, ...] = ()
    context: Forest | None = None

    def __call__(self, outputs: MemberOutputs) -> ForecastBatch:
        """Return all forecasts for some rows."""
        features = self._features(outputs)
        forecasts = {MEAN: np.broadcast_to(self.mean, (outputs.count, len(self.mean))), RIDGE: self.ridge(features)}
        if outputs.models:
            forecasts[AVERAGE] = average_of(outputs, features[: outputs.models])
        forecasts[STACK], name = self.stack(features), STACK
        if self.refinement is not None:
            forecasts[REFINED], name = forecasts[STACK] + self.refinement(features), REFINED
        self._by_those_present(outputs, features, forecasts)
        if self.context is not None:
            forecasts[CONTEXT], name = correct_stack(self.context, outputs, forecasts[STACK]), CONTEXT
        if self.patch is None:
            return ForecastBatch(forecasts, {})
        forecasts[PATCHED], before, after = apply_patch(self.patch, outputs, forecasts[name])
        return ForecastBatch(forecasts, {name: before, PATCHED: after})

    def _by_those_present(self, outputs: MemberOutputs, features: Floats, forecasts: Forecasts) -> None:
        """Put forecasts by those present in the place of those by all, where that is known for who is absent."""
        codes = pattern_codes(outputs.absent, outputs.count)
        for known in self.patterns:
            rows = np.flatnonzero(codes == pattern_code(known.absent))
            if len(rows):
                said = features[:, rows]
                forecasts[RIDGE][rows], forecasts[STACK][rows] = known.ridge(said), known.stack(said)
                if self.refinement is not None:
                    forecasts[REFINED][rows] = forecasts[STACK][rows] + known.refinement(said)

    def _features(self, outputs: MemberOutputs) -> Floats:
        """Return what is regressed on, with what absent members would say."""
        if outputs.absent is None:
            return outputs.features(self.scale)
        filling = self.filling
        if filling is None:  # of a file that knows nothing of absent members: by those present, as far from their means
            k, d = self.stack.centre.shape
            unit = np.where(np.arange(k)[:, None] < outputs.models, 1.0, np.where(self.scale > 0, self.scale, 1.0))
            filling = Filling(self.stack.centre / unit, np.ones((d, k, k)))
        said = filling(np.stack(outputs.said), outputs.absent)
        said[outputs.models :] *= self.scale
        return said


def average_of(outputs: MemberOutputs, filled: Floats) -> Floats:
    """Return the average of models: of those present, or, where none is, of what they would say (models, n, d)."""
    average = outputs.average
    if outputs.absent is not None:
        alone = outputs.absent[: outputs.models].all(axis=0)
        average[alone] = filled[:, alone].mean(axis=0)
    return average


def learn_baselines(blocks: ArrayBlocks, design: RowDesign, engine: Engine = Local()) -> Forecaster:  # noqa: B008
    """Fit only what anyone would try: mean, stack and ridge."""
    with one_blas_thread():
        first = blocks.first
        basis = Basis.of(first, design.rows)
        linear = learn_linear(engine.run(look_first, blocks, FirstPass(design, basis)).moments, basis, first.outputs)
    return Forecaster(linear.mean, linear.scale, linear.stack, linear.ridge, filling=linear.filling)
