"""What every round found: summaries of the situation, never copies of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats, Indices, Rows
from optensemble._core.deferred import pd
from optensemble._core.exact_sums import row_dots
from optensemble._core.kernel import entry, inner
from optensemble._core.lanes import LANES, added_up, load, spread
from optensemble.multicalibration.state import Situation, State, assess

VIOLATION = 2
"""Where in an entry the violation stands that the round saw."""

SOLVES = 3
"""Where in an entry the number of rows stands that the solver was handed."""


class Tally(NamedTuple):
    """Running summaries of a situation, for compiled code: payoffs per contender and row, and means.

    ``followed`` holds for every row what the action that is taken there promises, and what it earns.
    """

    realised: Floats
    followed: Floats
    promised_by: Floats
    realised_by: Floats
    squared_error: Floats


class Recorder:
    """Follows a situation through the rounds, updating only what moved."""

    def __init__(self, situation: Situation, labels: Floats) -> None:
        contenders, members, n = len(situation.actions), len(situation.predictions), len(labels)
        self._situation, self._labels = situation, labels
        self.columns = 4 + 3 * contenders + members
        self.tally = Tally(
            realised=np.empty((contenders, n)),
            followed=np.empty((2, n)),
            promised_by=np.empty(contenders),
            realised_by=np.empty(contenders),
            squared_error=np.empty(members),
        )
        for contender, actions in enumerate(situation.actions):
            realised, cost = row_dots(actions, labels), situation.state.cost[contender]
            self.tally.realised[contender] = realised - cost if len(cost) else realised
            self.tally.realised_by[contender] = mean(self.tally.realised[contender])
        for member in range(members):
            refresh(self.tally, situation.state, labels, member, np.empty(0, dtype=np.int64))
        follow(self.tally, situation.state, np.arange(n))

    @property
    def squared_error(self) -> Floats:
        """Of each member, the mean of ``‖y − h‖²``."""
        return self.tally.squared_error

    def refresh(self, member: int, rows: Rows) -> None:
        """Take up that the predictions of ``member`` have moved on ``rows``."""
        numbers = np.arange(len(self._labels)) if isinstance(rows, slice) else rows
        refresh(self.tally, self._situation.state, self._labels, member, numbers)

    def entry(self, violation: float = np.nan) -> Floats:
        """Write down the state as it is now, in the order of :func:`history_frame`; without a violation, NaN."""
        line = np.empty(self.columns)
        record(self.tally, self._situation.state, violation, self._situation.solves, line)
        return line


@njit(cache=True, nogil=True)
def refresh(tally: Tally, state: State, labels: Floats, member: int, rows: Indices) -> None:
    """Take up that the predictions of ``member`` have moved on ``rows``."""
    given, n = len(state.actions) - len(state.predictions), len(labels)
    own, predictions = given + member, state.predictions[member]
    assess(state.actions[own], labels, rows, state.cost[own], tally.realised[own])
    tally.realised_by[own] = mean(tally.realised[own])
    for contender in range(given + 1 if given else 0):
        tally.promised_by[contender] = mean(state.assessed[contender])
    tally.promised_by[own] = mean(state.assessed[own])
    tally.squared_error[member] = squared_distance(labels.ravel(), predictions.ravel()) / n
    follow(tally, state, rows)


@entry
def follow(tally: Tally, state: State, rows: Indices) -> None:
    """Take up what the actions that are taken on ``rows`` promise and earn."""
    for row in rows:
        contender = state.winner[row]
        tally.followed[0, row] = state.assessed[contender, row]
        tally.followed[1, row] = tally.realised[contender, row]


@entry
def record(tally: Tally, state: State, violation: float, solves: int, line: Floats) -> None:
    """Write down the state as it is now, in the order of :func:`history_frame`."""
    contenders, promised, earned = len(state.assessed), tally.followed[0], tally.followed[1]
    line[0], line[1], line[2], line[3] = mean(promised), mean(earned), violation, solves
    for contender in range(contenders):
        line[4 + contender] = tally.promised_by[contender]
        line[4 + contenders + contender] = tally.realised_by[contender]
        line[4 + 2 * contenders + contender] = count_equal(state.choice, contender)
    for member in range(len(state.predictions)):
        line[4 + 3 * contenders + member] = tally.squared_error[member]


@inner
def count_equal(numbers: Indices, number: int) -> int:
    """Count how often a number occurs."""
    count = 0
    for i in range(len(numbers)):
        count += numbers[i] == number
    return count


# Sums in strands, always the same: a processor adds them side by side, and fewer digits are lost.


@entry
def mean(values: Floats) -> float:
    """Return the mean of a vector."""
    first = second = third = fourth = spread(0.0)
    vectors, rest = len(values) // LANES, 0.0
    for i in range(0, vectors - vectors % 4, 4):
        first, second = first + load(values, i), second + load(values, i + 1)
        third, fourth = third + load(values, i + 2), fourth + load(values, i + 3)
    for i in range(vectors - vectors % 4, vectors):
        first = first + load(values, i)
    for i in range(vectors * LANES, len(values)):
        rest += values[i]
    total: float = added_up((first + second) + (third + fourth)) + rest
    return total / len(values)


@inner
def squared_distance(left: Floats, right: Floats) -> float:
    """Return ``‖left − right‖²`` of two vectors."""
    first = second = third = fourth = spread(0.0)
    vectors, rest = len(left) // LANES, 0.0
    for i in range(0, vectors - vectors % 4, 4):
        first, second = first + _squares(left, right, i), second + _squares(left, right, i + 1)
        third, fourth = third + _squares(left, right, i + 2), fourth + _squares(left, right, i + 3)
    for i in range(vectors - vectors % 4, vectors):
        first = first + _squares(left, right, i)
    for i in range(vectors * LANES, len(left)):
        rest += (left[i] - right[i]) ** 2
    total: float = added_up((first + second) + (third + fourth)) + rest
    return total


@inner
def _squares(left, right, vector):  # type: ignore[no-untyped-def]
    apart = load(left, vector) - load(right, vector)
    return apart * apart


def history_frame(entries: Floats, contenders: Sequence[str], members: Sequence[str]) -> pd.DataFrame:
    """Return one row per round, of the state the round found; the last row is the state in the end.

    ``promised`` and ``realised`` are the ensemble's mean payoff as it assesses it and as the labels have it,
    ``worst_violation`` is what the round saw (in the end, of all cells), ``solves`` counts rows handed to the solver;
    then promise, payoff and number of rows followed of each contender, and the squared error of each model.
    """
    columns = ["promised", "realised", "worst_violation", "solves"]
    columns += [f"{what}_{name}" for what in ("promised", "realised", "chosen") for name in contenders]
    columns += [f"squared_error_{name}" for name in members]
    first = 4 + 2 * len(contenders)
    counts = {SOLVES, *range(first, first + len(contenders))}
    values = {name: entries[:, k].astype(np.int64) if k in counts else entries[:, k] for k, name in enumerate(columns)}
    return pd.DataFrame(values, index=pd.RangeIndex(len(entries), name="round"))
