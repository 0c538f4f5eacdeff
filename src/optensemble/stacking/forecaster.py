"""From what members say to forecasts of the labels, each step cross-fitted and kept only if it pays out of fold.

::

    average → stack → refined or context → patched   each a candidate policy and, but for the average, an evaluator
    mean, ridge                                      what anyone would try; for the leaderboard

Two corrections of the stack compete: the refinement, linear in what members say, and the context correction, trees on
columns of X and the stack. Of those that pass the test, the one of the lower loss is kept.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble.members.outputs import MemberOutputs
from optensemble.multicalibration.patches import PatchLog
from optensemble.stacking.context import correct_stack
from optensemble.stacking.filling import Filling
from optensemble.stacking.forest import Forest
from optensemble.stacking.patterns import PatternForecast, pattern_code, pattern_codes
from optensemble.stacking.ridge import Ridge
from optensemble.stacking.stack import Stack

if TYPE_CHECKING:
    from optensemble.stacking.patch import PatchRounds

AVERAGE, STACK, RIDGE, MEAN = "average", "stack", "ridge", "mean"
REFINED, CONTEXT, PATCHED = "refined", "context", "patched"

CORRECTED = (REFINED, CONTEXT, PATCHED)
"""The stack after each correction, in order; each is kept only if it pays out of fold, and of the first two one."""

FORECASTS = (AVERAGE, STACK, *CORRECTED, RIDGE, MEAN)

Forecasts = dict[str, Floats]
"""Predictions of shape (n, d) by the name of who made them, from the simplest to the most corrected."""

NO_ROOM = Forecasts()

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
        """Return all forecasts for some rows, whose members are all solved."""
        forecasts = self.unpatched(outputs)
        if self.patches is None:
            return ForecastBatch(forecasts, {})
        name, solver = self.chain[-2], outputs.omega.batch_solver(outputs.count)
        before = np.empty_like(forecasts[name])
        solver(forecasts[name], before)
        forecasts[PATCHED], after = self.patches(outputs, forecasts[name], before, solver)
        return ForecastBatch(forecasts, {name: before, PATCHED: after})

    @property
    def chain(self) -> tuple[str, ...]:
        """The forecasts from the stack to the one that is corrected most."""
        kept = {REFINED: self.refinement, CONTEXT: self.context, PATCHED: self.patch}
        return (STACK, *(name for name in CORRECTED if kept[name] is not None))

    @cached_property
    def patches(self) -> PatchRounds | None:
        """The patches, laid out for compiled code; None without any."""
        if self.patch is None:
            return None
        from optensemble.stacking.patch import PatchRounds  # how to fit one is there too, and most have none

        return PatchRounds.of(self.patch)

    def unpatched(
        self, outputs: MemberOutputs, names: Collection[str] = FORECASTS, room: Forecasts = NO_ROOM
    ) -> Forecasts:
        """Return the chain of forecasts for some rows, but for the patched one, and others as far as they are named.

        Those that there is ``room`` for are written there. The actions of models are not looked at.
        """
        features, forecasts = self._features(outputs), Forecasts()
        if MEAN in names:
            forecasts[MEAN] = np.broadcast_to(self.mean, (outputs.count, len(self.mean)))
        if RIDGE in names:
            forecasts[RIDGE] = self.ridge(features)
        if AVERAGE in names and outputs.models:
            forecasts[AVERAGE] = average_of(outputs, features[: outputs.models])
        forecasts[STACK] = self.stack(features, room.get(STACK))
        if self.refinement is not None:
            forecasts[REFINED] = self.refinement(features, room.get(REFINED))
            forecasts[REFINED] += forecasts[STACK]
        self._by_those_present(outputs, features, forecasts)
        if self.context is not None:
            forecasts[CONTEXT] = correct_stack(self.context, outputs, forecasts[STACK])
        for name in forecasts.keys() & room.keys():
            if forecasts[name] is not room[name]:
                room[name][:] = forecasts[name]
        return forecasts

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "patches"}

    def _by_those_present(self, outputs: MemberOutputs, features: Floats, forecasts: Forecasts) -> None:
        """Put forecasts by those present in the place of those by all, where that is known for who is absent."""
        if outputs.absent is None:
            return
        codes = pattern_codes(outputs.absent, outputs.count)
        for known in self.patterns:
            rows = np.flatnonzero(codes == pattern_code(known.absent))
            if len(rows):
                said = features[:, rows]
                forecasts[STACK][rows] = known.stack(said)
                if RIDGE in forecasts:
                    forecasts[RIDGE][rows] = known.ridge(said)
                if self.refinement is not None:
                    forecasts[REFINED][rows] = forecasts[STACK][rows] + known.refinement(said)

    def _features(self, outputs: MemberOutputs) -> Floats:
        """Return what is regressed on, with what absent members would say."""
        if outputs.absent is None:
            return np.ascontiguousarray(outputs.features(self.scale))
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
