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
from optensemble.stacking.arm_choice import (
    NO_ABSENCE,
    NO_COSTS,
    Blend,
    Choice,
    Contenders,
    blend_evaluators,
    pick_arms,
    worth,
)
from optensemble.stacking.arms import absent_arms, solve_few, solve_forecast
from optensemble.stacking.forecaster import AVERAGE, MEAN, RIDGE, Forecaster, Forecasts, Policies
from optensemble.stacking.patch import PatchedForecast

_FEW = 3
"""Arms that may be needless must be at least so many, or the solve that could tell does not pay."""

_MANY_ROWS = 64
"""Of fewer rows, a compiled solver solves all arms in less time than it takes to find out which are needless."""


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
        self.outputs = replace(asked, predictions=asked.own_predictions, actions=self.arms[:members])
        self._solver, self._forecaster = asked.omega.batch_solver(n), forecaster
        wanted = baselines if asked.models else (*baselines, MEAN)
        room = dict(zip(self.names, self.values, strict=True))
        forecasts = forecaster.unpatched(self.outputs, (*self.names, *wanted), room)
        self._baselines = {name: forecasts[name] for name in (RIDGE, MEAN) if name in forecasts}
        self._by_baseline = Policies()
        self._apply_patches()

    def _apply_patches(self) -> None:
        patches = self._forecaster.patches
        if patches is None:
            return
        self.solve_members()
        before, last = len(self.arms) - 2, len(self.arms) - 1
        room = PatchedForecast(self.values[-1], self.arms[-1])
        patches(self.outputs, self.values[-2], self.actions(before), self._solver, room)
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
        """Solve arms that are all models, or all forecasts; a hint from one to the next would mostly lead astray."""
        left = [arm for arm in arms if arm not in self._solved]
        if left:
            first, stop, members = left[0], left[-1] + 1, len(self.outputs.actions)
            own, before = (self.outputs.predictions, 0) if first < members else (self.values, members)
            self._solver.solve_each(own[first - before : stop - before], self.arms[first:stop])
            self._solved.update(left)

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
        largest = np.maximum(np.abs(omega.lower), np.abs(omega.upper))
        blend = blend_evaluators(contenders.evaluators, choice.constants, choice.slopes, largest)
        if prunes and not omega.has_cost and self.outputs.absent is None:
            return self._choose_by_bound(choice, blend)
        self._solve_all()
        if omega.has_cost:
            contenders = contenders._replace(costs=np.stack([omega.cost(arm) for arm in self.arms]))
        return pick_arms(contenders, choice.constants, choice.slopes, blend)

    def _contenders(self) -> Contenders:
        """Return all arms, and the forecasts that assess them."""
        outputs, evaluators = self.outputs, self.values[bool(self.outputs.models) :]
        if not outputs.models:  # what most policies do, and what is good on average, are evidence too
            usual, mean = outputs.mean_action * self._forecaster.scale, self._baselines[MEAN]
            evaluators = np.concatenate([evaluators, usual[None], mean[None]])
        absent = absent_arms(outputs, len(self.arms))
        return Contenders(self.arms, evaluators, NO_COSTS, NO_ABSENCE if absent is None else absent)

    def _choose_by_bound(self, choice: Choice, blend: Blend) -> tuple[Indices, Floats]:
        """Return the same, without solving what cannot win; a few rows that are too close are left to the other way."""
        best, every = np.empty_like(blend.values), np.arange(self.outputs.count)
        self._solver(blend.values, best)
        search = BoundedSearch(blend, best)
        for arm in self._by_promise(choice):
            constant = choice.constants[arm]
            # the bound is of actions in Ω, which those of policies are but for a tolerance
            rows = every if arm in self._solved else search.rows_to_solve(constant)
            if len(rows):
                self._solve_in(arm, rows)
                search.consider(arm, constant, rows, self.arms[arm])
        if len(close := search.too_close()):
            part = self._take(close)
            part._solve_all()
            search.picked[close], self.arms[:, close] = part.choose(choice)[0], part.arms
        return search.picked, gather_arms(self.arms, search.picked)

    def _by_promise(self, choice: Choice) -> list[int]:
        """Return all arms: those that are solved, the forecast that was corrected most, then by their constants."""
        last = len(self.arms) - 1
        return sorted(range(last + 1), key=lambda arm: (arm not in self._solved, arm != last, -choice.constants[arm]))

    def _solve_in(self, arm: int, rows: Indices) -> None:
        """Solve an arm in some rows, unless it is solved in all."""
        if arm in self._solved or len(rows) == self.outputs.count:
            self.actions(arm)
            return
        found = np.empty((len(rows), self.arms.shape[2]))
        self._solver(take_rows(self._coefficients(arm)[None], rows)[0], found, None, rows)
        put_rows(found, rows, self.arms[arm])

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

    ``best`` are the best actions under the blend, which arms are valued by.
    """

    def __init__(self, blend: Blend, best: Floats) -> None:
        self._blend, n = blend, len(best)
        self._bound = row_dots(best, blend.values) + blend.slack
        self._highest, self._second = np.full(n, -np.inf), np.full(n, -np.inf)
        self.picked = np.zeros(n, dtype=np.int64)

    def rows_to_solve(self, constant: float) -> Indices:
        """Return the rows in which an arm with this constant may be the best, or too close to it to tell."""
        return rows_within(constant, self._bound, self._highest)

    def consider(self, arm: int, constant: float, rows: Indices, actions: Floats) -> None:
        """Take up an arm's actions in some rows."""
        take_up_better(arm, constant, rows, actions, self._blend.values, self._highest, self._second, self.picked)

    def too_close(self) -> Indices:
        """Return the rows in which rounding might tell which arm is the best."""
        return np.flatnonzero(self._highest - self._second <= self._blend.slack)


@njit(cache=True, nogil=True)
def rows_within(constant: float, bound: Floats, highest: Floats) -> Indices:
    """Return the rows in which ``constant + bound`` reaches what is the highest so far."""
    rows, count = np.empty(len(bound), np.int64), 0
    for i in range(len(bound)):  # without a branch, which would often be mispredicted
        rows[count] = i
        count += constant + bound[i] >= highest[i]
    return rows[:count]


@njit(cache=True, nogil=True)
def take_up_better(  # type: ignore[no-untyped-def]
    arm, constant, rows, actions, blend, highest, second, picked
):
    """Write an arm and its value where it is the best of its row so far; where it is not, only its value."""
    for row in rows:
        value = constant + worth(actions[row], blend[row])
        if value > highest[row]:
            highest[row], second[row], picked[row] = value, highest[row], arm
        elif value > second[row]:
            second[row] = value


@njit(cache=True, nogil=True)
def put_rows(values: Floats, rows: Indices, target: Floats) -> None:
    """Write values into some rows."""
    for i in range(len(rows)):
        for j in range(values.shape[1]):
            target[rows[i], j] = values[i, j]


@njit(cache=True, nogil=True)
def gather_arms(arms: Floats, picked: Indices) -> Floats:
    """Return the action of every row's arm."""
    _, n, d = arms.shape
    taken = np.empty((n, d))
    for i in range(n):
        for j in range(d):
            taken[i, j] = arms[picked[i], i, j]
    return taken
