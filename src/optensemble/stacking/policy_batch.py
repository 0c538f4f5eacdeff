"""A batch of rows on its way to decisions: every forecast is made, and every policy solved, at most once.

The calibrated choice plays the arm of the highest ``c_a + a·g``, where ``g`` is the evaluators' blend. Where solves are
dear, the best action under ``g`` is found first: what it is worth bounds what any arm can be, and arms that cannot win
in a row are not solved there.
"""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import row_dots, take_rows
from optensemble.members.absence import solve_members
from optensemble.members.outputs import MemberOutputs
from optensemble.stacking.arm_choice import NO_ABSENCE, NO_COSTS, Choice, Contenders, pick_arms
from optensemble.stacking.arms import absent_arms, solve_few, solve_forecast
from optensemble.stacking.forecaster import AVERAGE, MEAN, RIDGE, Forecaster, Forecasts, Policies

_FEW = 3
"""Arms that may be needless must be at least so many, or the solve that could tell does not pay."""

_MANY_ROWS = 64
"""Of fewer rows, a compiled solver solves all arms in less time than it takes to find out which are needless."""

_ROUNDING = 1e-8
"""Relative to the size of what is added up: arms that are this close are told apart by the full computation.

It is more than rounding comes to, and than the best action under the blend may fall short by.
"""


class PolicyBatch:
    """The forecasts of some rows, and the actions of all candidates: solved when they are asked for.

    Parameters
    ----------
    forecaster
        Makes the forecasts.
    asked
        What members say. Models need not be solved yet.
    baselines
        The forecasts that are wanted beside those that the choice may play: ridge and mean.

    Attributes
    ----------
    outputs
        What members say; the actions of a model only once they are solved.
    names
        The forecasts whose policies the choice may play.
    values
        These forecasts, of shape (names, n, d).
    arms
        The actions of members, then of these forecasts, of shape (arms, n, d), of those that are solved.
    """

    def __init__(self, forecaster: Forecaster, asked: MemberOutputs, baselines: Collection[str] = ()) -> None:
        members, n, d = asked.actions.shape
        self.names = ((AVERAGE,) if asked.models else ()) + forecaster.chain
        self.arms, self.values = np.empty((members + len(self.names), n, d)), np.empty((len(self.names), n, d))
        if asked.absent is not None:  # others stand in for those who are
            solve_members(asked)
        known = 0 if asked.absent is not None else asked.models
        self.arms[known:members] = asked.actions[known:]
        self._solved = set(range(known, members))
        self.outputs = replace(asked, actions=self.arms[:members])
        self._solver, self._forecaster = asked.omega.batch_solver(n), forecaster
        wanted = baselines if asked.models else (*baselines, MEAN)
        forecasts = forecaster.unpatched(self.outputs, (*self.names, *wanted))
        self._baselines = {name: forecasts.pop(name) for name in (RIDGE, MEAN) if name in forecasts}
        self._by_baseline = Policies()
        for number, name in enumerate(self.names):
            if name in forecasts:
                self.values[number] = forecasts[name]
        self._apply_patches()

    def _apply_patches(self) -> None:
        patches = self._forecaster.patches
        if patches is None:
            return
        self.solve_members()
        before, last = len(self.arms) - 2, len(self.arms) - 1
        found = patches(self.outputs, self.values[-2], self.actions(before), self._solver)
        self.values[-1], self.arms[-1] = found
        self._solved.add(last)

    @property
    def forecasts(self) -> Forecasts:
        """All forecasts that were made, by name."""
        return {**self._baselines, **dict(zip(self.names, self.values, strict=True))}

    @property
    def last(self) -> Floats:
        """The forecast that was corrected most: the one to assess by."""
        forecast: Floats = self.values[-1]
        return forecast

    def actions(self, arm: int, hint: Floats | None = None) -> Floats:
        """Return the actions of an arm in all rows."""
        if arm not in self._solved:
            self._solver(self._coefficients(arm), self.arms[arm], hint)
            self._solved.add(arm)
        found: Floats = self.arms[arm]
        return found

    def _coefficients(self, arm: int) -> Floats:
        members = len(self.outputs.actions)
        found: Floats = self.outputs.predictions[arm] if arm < members else self.values[arm - members]
        return found

    def solve_members(self) -> None:
        """Solve the policies of all models."""
        self._solve(range(self.outputs.models))

    def _solve(self, arms: range) -> None:
        """Solve arms that are all models, or all forecasts; where that is dear, each begins where the last ended."""
        if not (self.outputs.omega.dear or self._solved.intersection(arms)):
            members = len(self.outputs.actions)
            own = self.values[arms.start - members : arms.stop - members] if arms.start else self.outputs.predictions
            self._solver.solve_each(own, self.arms[arms.start : arms.stop])
            self._solved.update(arms)
        hint = None
        for arm in arms:
            hint = self.actions(arm, hint)

    def _solve_all(self) -> None:
        self.solve_members()
        self._solve(range(len(self.outputs.actions), len(self.arms)))

    def policies(self, names: Collection[str]) -> Policies:
        """Return the actions that some forecasts induce, of those that were made."""
        members = len(self.outputs.actions)
        for name, forecast in self._baselines.items():
            if name in names and name not in self._by_baseline:
                solve = solve_few if name == MEAN else solve_forecast
                self._by_baseline[name] = solve(self.outputs.omega, forecast)
        played = {name: self.actions(members + at) for at, name in enumerate(self.names) if name in names}
        return played | {name: self._by_baseline[name] for name in names if name in self._by_baseline}

    def choose(self, choice: Choice) -> tuple[Indices, Floats]:
        """Return the arm to play in every row, and its actions."""
        unsolved = [arm for arm in range(len(self.arms)) if arm not in self._solved]
        omega, contenders = self.outputs.omega, self._contenders()
        many = self.outputs.count >= _MANY_ROWS or omega.kernel is None
        prunes = omega.dear and many and omega.on_failure == "raise" and len(unsolved) >= _FEW
        if prunes and not omega.has_cost and self.outputs.absent is None:
            return self._choose_by_bound(choice, contenders)
        self._solve_all()
        if omega.has_cost:
            contenders = contenders._replace(costs=np.stack([omega.cost(arm) for arm in self.arms]))
        return pick_arms(contenders, choice.constants, choice.slopes)

    def _contenders(self) -> Contenders:
        """Return all arms, and the forecasts that assess them."""
        outputs, evaluators = self.outputs, self.values[bool(self.outputs.models) :]
        if not outputs.models:  # what most policies do, and what is good on average, are evidence too
            usual, mean = outputs.mean_action * self._forecaster.scale, self._baselines[MEAN]
            evaluators = np.concatenate([evaluators, usual[None], mean[None]])
        absent = absent_arms(outputs, len(self.arms))
        return Contenders(self.arms, evaluators, NO_COSTS, NO_ABSENCE if absent is None else absent)

    def _choose_by_bound(self, choice: Choice, contenders: Contenders) -> tuple[Indices, Floats]:
        """Return the same, without solving what cannot win; a few rows that are too close are left to the other way."""
        blend = np.tensordot(choice.slopes, contenders.evaluators, 1)
        best = np.empty_like(blend)
        self._solver(blend, best, self.arms[-1] if len(self.arms) - 1 in self._solved else None)
        search = BoundedSearch(blend, best, self._largest_terms(choice, contenders))
        by_promise = sorted(range(len(self.arms)), key=lambda arm: (arm != len(self.arms) - 1, -choice.constants[arm]))
        for arm in by_promise:
            rows = search.rows_to_solve(choice.constants[arm])
            if len(rows):
                search.consider(arm, choice.constants[arm], rows, self._actions_in(arm, rows, best))
        if len(close := search.too_close()):
            part = self._take(close)
            part._solve_all()
            search.picked[close], search.actions[close] = part.choose(choice)
        return search.picked, search.actions

    def _largest_terms(self, choice: Choice, contenders: Contenders) -> Floats:
        """Return for every row the largest that sums can come to in which arms are compared."""
        omega = self.outputs.omega
        largest = np.maximum(np.abs(omega.lower), np.abs(omega.upper))
        sums = np.abs(choice.slopes) @ (np.abs(contenders.evaluators) @ largest)
        return np.asarray(sums + np.abs(choice.constants).max())

    def _actions_in(self, arm: int, rows: Indices, hint: Floats) -> Floats:
        """Return the actions of an arm in some rows."""
        if arm in self._solved or len(rows) == len(hint):
            return self.actions(arm, hint)[rows]
        found = np.empty((len(rows), hint.shape[1]))
        self._solver(self._coefficients(arm)[rows], found, hint[rows], rows)
        return found

    def _take(self, rows: Indices) -> PolicyBatch:
        """Return the same for some of the rows; what is not solved there is solved anew."""
        part = copy.copy(self)
        part.arms, part.values = take_rows(self.arms, rows), take_rows(self.values, rows)
        part.outputs = replace(self.outputs.take(rows), actions=part.arms[: len(self.outputs.actions)])
        part._baselines = {name: values[rows] for name, values in self._baselines.items()}
        part._solver, part._solved = part.outputs.omega.batch_solver(len(rows)), set(self._solved)
        return part


class BoundedSearch:
    """The best arm of every row so far, where arms come one after the other and what they can be worth is bounded.

    ``blend`` (n, d) is what arms are valued by, and ``best`` its best actions.
    """

    def __init__(self, blend: Floats, best: Floats, sizes: Floats) -> None:
        self._blend, n = blend, len(blend)
        self._bound, self._slack = row_dots(best, blend), _ROUNDING * sizes
        self._highest, self._next = np.full(n, -np.inf), np.full(n, -np.inf)
        self.picked, self.actions = np.zeros(n, dtype=np.int64), np.empty_like(blend)

    def rows_to_solve(self, constant: float) -> Indices:
        """Return the rows in which an arm with this constant may be the best, or too close to it to tell."""
        return np.flatnonzero(constant + self._bound + self._slack >= self._highest)

    def consider(self, arm: int, constant: float, rows: Indices, actions: Floats) -> None:
        """Take up an arm's actions in some rows."""
        values = constant + row_dots(actions, self._blend[rows])
        take_up_better(arm, values, rows, actions, self._highest, self._next, self.picked, self.actions)

    def too_close(self) -> Indices:
        """Return the rows in which rounding might tell which arm is the best."""
        return np.flatnonzero(self._highest - self._next <= self._slack)


@njit(cache=True, nogil=True)
def take_up_better(  # type: ignore[no-untyped-def]
    arm, values, rows, actions, highest, second, picked, taken
):
    """Write an arm, its value and its actions where it is the best of its row so far; where it is not, only its value.

    ``second`` is the value of the second best.
    """
    for i in range(len(rows)):
        row, value = rows[i], values[i]
        if value > highest[row]:
            highest[row], second[row], picked[row] = value, highest[row], arm
            taken[row] = actions[i]
        elif value > second[row]:
            second[row] = value
