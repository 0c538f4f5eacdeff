"""The final policy: forecasts, candidate policies, calibrated choice, leaderboard; it decides for any rows.

In the sense of maximising throughout. The same functions serve out-of-fold forecasts when fitting and the fitted ones
later, so that what is judged is what is played.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.threads import share
from optensemble.exceptions import SolverError
from optensemble.members.absence import mean_rows_present, stand_in_numbers
from optensemble.members.outputs import MemberOutputs
from optensemble.stacking.arm_choice import Choice
from optensemble.stacking.arms import ENSEMBLE, ENSEMBLE_NAME, PLAYED, Decisions, follow_member, last_of, solve_policies
from optensemble.stacking.forecaster import (
    AVERAGE,
    FORECASTS,
    MEAN,
    RIDGE,
    STACK,
    ForecastBatch,
    Forecaster,
    Forecasts,
    Policies,
)
from optensemble.stacking.policy_batch import PolicyBatch

ROWS_TOGETHER = 64
"""Linear algebra rounds a row that is alone, or left over, otherwise than one of many: rows are cut by so many."""

ROWS_AT_ONCE, NUMBERS_AT_ONCE = 1 << 13, 1 << 15
"""The most rows, and numbers of one member, that are decided at once: their forecasts and actions stay in the cache."""

SMALL_PRODUCT = 1_000_000
"""A product of matrices by so few multiplications is rounded otherwise where BLAS has kernels for small ones."""

MARGIN = 2.0
POLICY_MARGIN = 0.5  # the choice knows little of a policy without predictions: it needs less to be preferred


@dataclass(frozen=True)
class PolicyPass:
    """One pass over a batch of rows: members' outputs, forecasts, the policies solved, and the decisions."""

    outputs: MemberOutputs
    forecasts: Forecasts
    played: Policies
    decisions: Decisions

    @property
    def members_assessed(self) -> Floats:
        """The mean member's payoff, as assessed by the forecast behind the decision."""
        return self._mean_member(np.ascontiguousarray(self.decisions.forecast))

    def _mean_member(self, coefficients: Floats) -> Floats:
        """Return what the members that are present are worth on average."""
        outputs = self.outputs
        return mean_rows_present(outputs.payoffs(outputs.actions, [coefficients])[:, 0], outputs.absent)

    def beyond_members(self, labels: Floats) -> tuple[Floats, Floats]:
        """Return the assessed and the realised advantage over the mean member."""
        earned = self._mean_member(labels)
        assessed = self.decisions.assessed - self.members_assessed
        return assessed, self.outputs.omega.value(self.decisions.actions, labels) - earned


@dataclass(frozen=True)
class FinalPolicy:
    """Everything that decides: forecasts, the calibrated choice, and the winner of the leaderboard.

    Members are numbered first, then ``forecasts``; ``winner`` is such a number, or that of the ensemble.
    """

    members: int
    forecasts: tuple[str, ...]
    forecaster: Forecaster
    choice: Choice
    winner: int

    def __call__(self, asked: MemberOutputs, *, every: bool = False) -> PolicyPass:
        """Decide for some rows, with all members solved; with ``every``, also the policies of all forecasts."""
        batch = PolicyBatch(self.forecaster, asked, FORECASTS if every else self._needed)
        batch.solve_members()
        decisions = self._decide(batch)
        played = batch.policies(FORECASTS if every else self._needed)
        return PolicyPass(batch.outputs, batch.forecasts, played, decisions)

    def decide(self, asked: MemberOutputs) -> Decisions:
        """Decide for some rows, a few at a time on all threads, without what no decision hangs on."""
        starts = self._cut(asked)
        if len(starts) == 2:
            return self._decide(PolicyBatch(self.forecaster, asked, self._needed))
        room = Decisions.empty(*asked.actions.shape[1:])

        def work(number: int) -> None:
            rows = slice(starts[number], starts[number + 1])
            room.fill(rows, self._decide(PolicyBatch(self.forecaster, asked.take(rows), self._needed)))

        try:
            share(work, range(len(starts) - 1))
        except SolverError:  # it names a row by its place among a few: once more, for its place among all
            return self(asked).decisions
        return room

    def _cut(self, asked: MemberOutputs) -> Sequence[int]:
        """Return where to cut rows: not where a solver sees all at once, or their number is part of a warning."""
        omega, n = asked.omega, asked.count
        if omega.kernel is None or omega.on_failure == "fallback" or asked.absent is not None:
            return [0, n]
        least = self._fewest_rows
        step = math.ceil(max(min(ROWS_AT_ONCE, NUMBERS_AT_ONCE // omega.dimension), least) / ROWS_TOGETHER)
        return [*range(0, max(n - least, 0) + 1, step * ROWS_TOGETHER), n]

    @property
    def _fewest_rows(self) -> int:
        """The fewest rows that forecasts are made for at once, with the bits they have in any larger number."""
        ridges = [self.forecaster.refinement, self.forecaster.ridge if RIDGE in self._needed else None]
        return max([2, *(SMALL_PRODUCT // ridge.coefficients.size + 1 for ridge in ridges if ridge is not None)])

    def follow_winner(self, outputs: MemberOutputs, batch: ForecastBatch) -> PolicyPass:
        """Return what the winner of the leaderboard, which is not the ensemble, does under other forecasts."""
        played = solve_policies(outputs.omega, batch, self._needed)
        decisions = self._decide_by_winner(outputs, batch.forecasts, played)
        return PolicyPass(outputs, batch.forecasts, played, decisions)

    @property
    def _needed(self) -> tuple[str, ...]:
        if self.winner == ENSEMBLE:
            return PLAYED
        return () if self.winner < self.members else (self.forecasts[self.winner - self.members],)

    def _decide(self, batch: PolicyBatch) -> Decisions:
        if self.winner != ENSEMBLE:
            if self.winner < self.members:
                batch.actions(self.winner)
            return self._decide_by_winner(batch.outputs, batch.forecasts, batch.policies(self._needed))
        picked, actions = batch.choose(self.choice)
        numbers = [*range(self.members), *(self.members + self.forecasts.index(name) for name in batch.names)]
        assessed = batch.outputs.omega.value(actions, batch.last)
        return Decisions(actions, np.array(numbers)[picked], assessed, batch.last)

    def _decide_by_winner(self, outputs: MemberOutputs, forecasts: Forecasts, played: Policies) -> Decisions:
        chosen, forecast = np.full(outputs.count, self.winner), forecasts[last_of(forecasts)]
        if self.winner < self.members:
            actions = follow_member(outputs, self.winner, forecast)
            if outputs.absent is not None:
                away, known = outputs.absent[self.winner], self.forecasts
                average = self.members + known.index(AVERAGE) if AVERAGE in known else 0
                instead = stand_in_numbers(outputs.absent, outputs.models, average, self.members + known.index(STACK))
                chosen[away] = instead[away]
        else:
            name = self.forecasts[self.winner - self.members]
            actions = played[name]
            if name in (RIDGE, MEAN):
                forecast = np.ascontiguousarray(forecasts[name])
        return Decisions(actions, chosen, outputs.omega.value(actions, forecast), forecast)

    def margin(self, models: int) -> float:
        """Return the margin by which the winner beat the ensemble; 0 for the ensemble itself."""
        if self.winner == ENSEMBLE:
            return 0.0
        return POLICY_MARGIN if models <= self.winner < self.members else MARGIN


def title_all(members: list[str]) -> dict[str, str]:
    """Name all forecasts and the ensemble for display; they give way to members of the same name.

    >>> title_all(["ridge", "ours"])["ridge"]
    'ridge of all'
    """
    titles = {name: name for name in (*FORECASTS, ENSEMBLE_NAME)}
    for name in titles:
        while titles[name] in members:
            titles[name] += " of all"
    return titles
