"""The arms of the calibrated choice: members, and the policies of forecasts; what they do and are assessed at."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Self

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import row_dots
from optensemble.members.absence import Absent
from optensemble.members.outputs import MemberOutputs
from optensemble.multicalibration.state import Solver
from optensemble.stacking.forecaster import (
    AVERAGE,
    CORRECTED,
    FORECASTS,
    MEAN,
    STACK,
    ForecastBatch,
    Forecasts,
    Policies,
)

ENSEMBLE = -1
"""The number of the calibrated choice among policies; members and forecasts have their index into ``names_``."""

ENSEMBLE_NAME = "ensemble"

PLAYED = (AVERAGE, STACK, *CORRECTED)
"""Forecasts whose policies the calibrated choice may play, beside the members."""

EVALUATORS = (STACK, *CORRECTED)
"""Forecasts that assess every policy."""


@dataclass(frozen=True)
class Decisions:
    """The actions on a batch of rows, the candidate followed in each, its assessment, and the forecast behind it."""

    actions: Floats
    chosen: Indices
    assessed: Floats
    forecast: Floats

    @classmethod
    def empty(cls, n: int, d: int) -> Self:
        """Return room for the decisions on ``n`` rows."""
        return cls(np.empty((n, d)), np.empty(n, dtype=np.int64), np.empty(n), np.empty((n, d)))

    def fill(self, rows: slice, decided: Decisions) -> None:
        """Write the decisions on some rows."""
        self.actions[rows], self.chosen[rows] = decided.actions, decided.chosen
        self.assessed[rows], self.forecast[rows] = decided.assessed, decided.forecast


def list_arms(outputs: MemberOutputs, played: Policies) -> list[Floats]:
    """Return the actions of all that the calibrated choice may play: members, then forecasts."""
    return [*outputs.actions, *(played[name] for name in PLAYED if name in played)]


def absent_arms(outputs: MemberOutputs, arms: int) -> Absent | None:
    """Return where arms cannot be played: where members are absent, and the average where all models are."""
    if outputs.absent is None:
        return None
    away = np.zeros((arms, outputs.count), dtype=np.bool_)
    away[: len(outputs.absent)] = outputs.absent
    if outputs.models:
        away[len(outputs.absent)] = outputs.absent[: outputs.models].all(axis=0)
    return away


def follow_member(outputs: MemberOutputs, member: int, forecast: Floats) -> Floats:
    """Return the actions of a member, or of who stands in for it; where nobody is present, those of a forecast."""
    actions: Floats = outputs.actions[member]
    if outputs.absent is None or not (alone := outputs.absent.all(axis=0)).any():
        return actions
    actions = actions.copy()
    actions[alone] = outputs.omega.take(alone).argmax(np.ascontiguousarray(forecast[alone]))
    return actions


def play_arms(
    outputs: MemberOutputs, forecasts: Forecasts, arms: list[Floats], picked: Indices, names: tuple[str, ...]
) -> Decisions:
    """Return the decisions where each row plays the arm picked for it."""
    forecast, members = forecasts[last_of(forecasts)], len(outputs.actions)
    numbers = [*range(members), *(members + names.index(name) for name in PLAYED if name in forecasts)]
    actions = np.empty_like(forecast)
    for number, arm in enumerate(arms):
        rows = picked == number
        actions[rows] = arm[rows]
    return Decisions(actions, np.array(numbers)[picked], outputs.omega.value(actions, forecast), forecast)


def last_of(forecasts: Collection[str]) -> str:
    """Return the forecast that was corrected most: the one to assess by."""
    return [name for name in EVALUATORS if name in forecasts][-1]


def solve_policies(omega: Solver, batch: ForecastBatch, names: tuple[str, ...] = FORECASTS) -> Policies:
    """Return the actions that some forecasts induce, each solved once."""
    found = {}
    for name in names:
        if name in batch.solved:
            found[name] = batch.solved[name]
        elif name in batch.forecasts:
            found[name] = (solve_few if name == MEAN else solve_forecast)(omega, batch.forecasts[name])
    return found


def solve_forecast(omega: Solver, forecast: Floats) -> Floats:
    """Return the best actions under a forecast."""
    return omega.argmax(np.ascontiguousarray(forecast))


def solve_few(omega: Solver, forecast: Floats) -> Floats:
    """Return the same under a forecast with few different rows: each is solved once, if all rows share one set."""
    if omega.varies:
        return solve_forecast(omega, forecast)
    keys = row_dots(forecast, np.broadcast_to(np.sqrt(np.arange(2.0, 2.0 + forecast.shape[1])), forecast.shape).copy())
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return np.asarray(omega.argmax(forecast[first])[number])


def assess_arms(outputs: MemberOutputs, forecasts: Forecasts, arms: list[Floats], scale: Floats) -> Floats:
    """Return each evaluator's assessment of each arm, of shape (arms, evaluators, n)."""
    evaluators = [forecasts[name] for name in EVALUATORS if name in forecasts]
    if not outputs.models:  # what most policies do, and what is good on average, are evidence too
        evaluators += [outputs.mean_action * scale, np.ascontiguousarray(forecasts[MEAN])]
    return outputs.payoffs(arms, evaluators)
