"""What predictions induce on a batch of rows, kept up to date as they change."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices, Rows
from optensemble._core.buckets import EDGE, Buckets, bucket
from optensemble._core.exact_sums import row_dots
from optensemble._core.kernel import Kernel, entry, inner
from optensemble._core.tolerances import SAME_ASSESSMENT
from optensemble.multicalibration.events import Cells, FixedOverlaps, Layout


class Solver(Protocol):
    """What a situation needs of Ω."""

    @property
    def varies(self) -> bool:
        """Whether it is bound to rows, each with a set of its own."""

    @property
    def has_cost(self) -> bool:
        """Whether acting has a known cost."""

    @property
    def bound_kernel(self) -> Kernel | None:
        """The compiled solver of the rows it is bound to, if there is one."""

    def argmax(self, C: Floats, hint: Floats | None = None) -> Floats:
        """Solve a batch of (n, d) coefficients; the hint is what was optimal before they changed."""

    def beyond(self) -> npt.NDArray[np.bool_]:
        """Return for each row whether its own bounds go beyond those that actions are bucketed between."""

    def took_fallback(self, actions: Floats, C: Floats) -> npt.NDArray[np.bool_]:
        """Return for each row whether its action is the fallback of rows that cannot be solved."""

    def take(self, rows: Any) -> Solver:
        """Return the same, bound to some of the rows."""

    def explain_binding(self, row: int, action: Floats) -> list[str]:
        """Return the constraints that bind at an action of a row, in words."""

    def cost(self, actions: Floats) -> Floats:
        """Return the known cost of each action."""

    def value(self, actions: Floats, coefficients: Floats) -> Floats:
        """Return what each action is worth under coefficients, net of the known cost."""


class State(NamedTuple):
    """The arrays of a situation, for compiled code; they change in place."""

    predictions: Floats
    actions: Floats
    level: npt.NDArray[np.int16]
    assessed: Floats
    winner: Indices
    choice: Indices
    groups: npt.NDArray[np.int32]
    sign: float
    lower: Floats
    per_unit: Floats
    buckets: int
    alike: Floats
    """How little the coordinates of two actions differ that count as the same."""
    cost: Floats
    """Of every contender and row, what its action costs, of the sign that it is taken off with; no rows without any."""


class Situation:
    """What the current predictions induce on a batch of rows: actions, self-assessments, leaders, cells.

    The *contenders* are the given policies (black box) followed by the models' own policies ``π_h``.

    Parameters
    ----------
    predictions
        Of shape (members, n, d), in the user's units. They belong to the situation from now on, and change in place.
    omega
        Solves batches.
    buckets
        Cuts actions into level sets.
    sign
        1 to maximise, -1 to minimise.
    given
        The actions of given policies, of shape (policies, n, d); these are assessed by the only model.
    solved
        The models' own actions under ``predictions``, of shape (members, n, d), if they are known already.
    groups
        Parts of the user's subgroups, of shape (columns, n).

    Attributes
    ----------
    actions, level, assessed
        Per contender: its actions, their buckets, and their assessed payoff.
    winner
        Per row, the contender whose action is taken: of models the highest self-assessment; with given policies
        always the only model's own.
    choice
        Per row, the contender that the ensemble follows: the winner; with given policies the first contender, maybe
        itself, that takes the same action.
    solves
        The number of rows solved so far.
    """

    def __init__(
        self,
        predictions: Floats,
        omega: Solver,
        buckets: Buckets,
        *,
        sign: float = 1.0,
        given: Floats | None = None,
        solved: Floats | None = None,
        groups: npt.NDArray[np.int32] | None = None,
    ) -> None:
        members, n, d = predictions.shape
        self.omega = omega
        self.predictions = predictions
        self.given = 0 if given is None else len(given)
        self.actions = np.empty((self.given + members, n, d))
        self.level = np.empty((len(self.actions), d, n), dtype=np.int16)
        self.assessed = np.zeros((len(self.actions), n))
        self.winner = np.full(n, self.given, dtype=np.int64)
        self.choice = self.winner.copy() if self.given else self.winner
        self.groups = np.empty((0, n), dtype=np.int32) if groups is None else groups
        self.solves = 0
        self._counted: FixedOverlaps = {}
        self.state = State(
            *(predictions, self.actions, self.level, self.assessed, self.winner, self.choice, self.groups),
            *(float(sign), buckets.lower, buckets.per_unit, buckets.count, EDGE * (buckets.upper - buckets.lower)),
            cost=np.zeros((len(self.actions), n if omega.has_cost else 0)),
        )
        if given is not None:
            self.actions[: self.given] = given
        for policy in range(self.given):
            self.level[policy] = buckets(self.actions[policy]).T
            self._charge(policy, slice(None), self.actions[policy])
        for member in range(members):
            if solved is None:
                self._solve(member, slice(None), None)
            else:
                self._take_up(member, np.arange(n), solved[member])

    def copy(self) -> Situation:
        """Return the same situation on the same rows, to be changed by itself."""
        other = copy.copy(self)
        other.predictions, other.actions = self.predictions.copy(), self.actions.copy()
        other.level, other.assessed, other.winner = self.level.copy(), self.assessed.copy(), self.winner.copy()
        other.choice = self.choice.copy() if self.given else other.winner
        other.state = self.state._replace(
            predictions=other.predictions,
            actions=other.actions,
            level=other.level,
            assessed=other.assessed,
            winner=other.winner,
            choice=other.choice,
            cost=self.state.cost.copy(),
        )
        return other

    def resolve(self, member: int, rows: Rows) -> None:
        """Take up changed predictions of ``member`` on ``rows``, and only there."""
        self._solve(member, rows, self.actions[self.given + member, rows])

    def parts(self, member: int) -> list[npt.NDArray[np.integer[Any]]]:
        """Return the partitions as ``member`` sees them: own level sets, winner, groups, given policies' level sets."""
        given = [bucket for policy in self.level[: self.given] for bucket in policy]
        return [*self.level[self.given + member], self.winner, *self.groups, *given]

    def cells(self, member: int, layout: Layout) -> Cells:
        """Return the cells of ``member`` as they are now."""
        parts = self.parts(member)
        for partition in layout.partitions.subgroups:  # a value learned after the layout belongs to the last part
            parts[partition] = np.minimum(parts[partition], layout.sizes[partition] - 1)
        return Cells(layout, parts, self._counted)

    def taken(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Pick the winner's entry of an array with one row per contender."""
        return values[self.winner, np.arange(len(self.winner))]

    def earned(self, labels: Floats) -> Floats:
        """Return what the winner's actions come to under labels, net of costs, in the user's units and sense."""
        gross: Floats = row_dots(self.taken(self.actions), labels)
        return gross - self.taken(self.state.cost) if self.state.cost.size else gross

    def behind(self) -> Floats:
        """Return the coefficients behind the winner's action: its own model's, or the only one's."""
        return self.predictions[0] if self.given else self.taken(self.predictions)

    def _solve(self, member: int, rows: Rows, hint: Floats | None) -> None:
        predictions = self.predictions[member, rows]
        actions = self.omega.take(rows).argmax(predictions if self.state.sign > 0 else -predictions, hint)
        self._take_up(member, np.arange(len(self.winner)) if isinstance(rows, slice) else rows, actions)

    def _take_up(self, member: int, rows: Indices, actions: Floats) -> None:
        self._charge(self.given + member, rows, actions)
        take_up(self.state, member, rows, actions)
        self.solves += len(actions)

    def _charge(self, contender: int, rows: Rows, actions: Floats) -> None:
        """Write down what the actions of a contender on some rows cost, if they cost anything."""
        if self.omega.has_cost:
            self.state.cost[contender, rows] = self.state.sign * self.omega.take(rows).cost(actions)


@entry
def take_up(state: State, member: int, rows: Indices, actions: Floats) -> None:
    """Write what new actions of ``member`` on ``rows`` entail: level sets, self-assessments, the leader."""
    take_up_own(state, member, rows, actions)
    compare_given(state, rows)


@inner
def take_up_own(state: State, member: int, rows: Indices, actions: Floats) -> None:
    """Write the same, but leave given policies as they are: no cell hangs on how they compare with the new actions."""
    given, d = len(state.actions) - len(state.predictions), actions.shape[1]
    own, predictions, cost = state.actions[given + member], state.predictions[member], state.cost[given + member]
    level, lower, per_unit, buckets = state.level[given + member], state.lower, state.per_unit, state.buckets
    assessed = state.assessed[given + member]
    for i in range(len(rows)):
        row, total = rows[i], 0.0
        for j in range(d):
            own[row, j] = actions[i, j]
            level[j, row] = bucket(actions[i, j], lower[j], per_unit[j], buckets)
            total += actions[i, j] * predictions[row, j]
        assessed[row] = total - cost[row] if len(cost) else total
    if given == 0:
        find_highest(state.assessed, state.sign, rows, state.winner)


@entry
def compare_given(state: State, rows: Indices) -> None:
    """Assess given policies on ``rows`` by the only model, and note whether some take the same action as its own.

    Algorithm 3 decides by its own policy, whatever comes out.
    """
    given = len(state.actions) - len(state.predictions)
    for policy in range(given):
        assess(state.actions[policy], state.predictions[0], rows, state.cost[policy], state.assessed[policy])
    if given > 0:
        find_alike(state.actions, state.alike, rows, state.choice)


@inner
def assess(actions: Floats, values: Floats, rows: Indices, cost: Floats, payoff: Floats) -> None:
    """Write ``actions·values`` of some rows, less the cost if there is any, into ``payoff``.

    The products are summed in the order of the coordinates.
    """
    for row in rows:
        total = 0.0
        for j in range(actions.shape[1]):
            total += actions[row, j] * values[row, j]
        payoff[row] = total - cost[row] if len(cost) else total


@inner
def find_highest(assessed: Floats, sign: float, rows: Indices, winner: Indices) -> None:
    """Definition 5: write into ``winner`` who has the highest self-assessment; of ties the lowest index."""
    for row in rows:
        best = sign * assessed[0, row]
        for contender in range(1, len(assessed)):
            best = max(best, sign * assessed[contender, row])
        close, first = best - SAME_ASSESSMENT * abs(best), 0
        for contender in range(len(assessed) - 1, -1, -1):  # without a branch, which could not be predicted
            first = first if sign * assessed[contender, row] < close else contender
        winner[row] = first


@inner
def find_alike(actions: Floats, alike: Floats, rows: Indices, choice: Indices) -> None:
    """Write into ``choice`` the first contender that takes the same action as the last."""
    last, d = len(actions) - 1, actions.shape[2]
    for row in rows:
        first, j = 0, 0
        while j < d:
            j += 1
            if abs(actions[first, row, j - 1] - actions[last, row, j - 1]) > alike[j - 1]:
                first, j = first + 1, 0
        choice[row] = first
