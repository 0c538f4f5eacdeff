"""What predictions induce on a batch of rows, kept up to date as they change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._exact import row_dots
from optensemble._types import Floats, Indices, Rows
from optensemble.events import EDGE, Buckets, Cells, Layout

TIE = 1e-9
"""Self-assessments this close, relative to the best one, are tied; the lowest index wins."""


class Situation:
    """What the current predictions induce on a batch of rows: actions, self-assessments, winners, cells.

    The *contenders* are the given policies (black box) followed by the models' own policies ``π_h``.

    Parameters
    ----------
    predictions
        Of shape (members, n, d), in the user's units. They belong to the situation from now on, and change in place.
    argmax
        Solves a batch: (n, d) coefficients to (n, d) actions.
    buckets
        Cuts actions into level sets.
    sign
        1 to maximise, -1 to minimise.
    actions
        Room for every contender's actions, of shape (contenders, n, d). What comes before the models' own is filled
        in with the actions of given policies; these are assessed by the only model.
    groups
        Parts of user-given groups, of shape (columns, n).

    Attributes
    ----------
    actions, level, assessed
        Per contender: its actions, their buckets, and their assessed payoff.
    winner
        Per row, the contender whose action is taken: of models the highest self-assessment; with given policies
        always the only model's own.
    choice
        Per row, whom the ensemble follows: the winner; with given policies the first contender, maybe itself, that
        takes the same action.
    solves
        How many rows were handed to ``argmax`` so far.
    """

    def __init__(
        self,
        predictions: Floats,
        argmax: Callable[[Floats], Floats],
        buckets: Buckets,
        *,
        sign: float = 1.0,
        actions: Floats | None = None,
        groups: npt.NDArray[np.int32] | None = None,
    ) -> None:
        members, n, d = predictions.shape
        self.predictions = predictions
        self.actions = np.empty((members, n, d)) if actions is None else actions
        self.given = len(self.actions) - members
        self.level = np.empty((len(self.actions), d, n), dtype=np.int16)
        self.assessed = np.empty((len(self.actions), n))
        self.winner = np.full(n, self.given, dtype=np.int64)
        self.choice = self.winner.copy() if self.given else self.winner
        self.groups = np.empty((0, n), dtype=np.int32) if groups is None else groups
        self.solves = 0
        self._argmax, self._buckets, self._sign = argmax, buckets, sign
        for policy in range(self.given):
            self.level[policy] = buckets(self.actions[policy]).T
        for member in range(members):
            self._solve(member, slice(None))
        self._compare(slice(None))

    def resolve(self, member: int, rows: Rows) -> None:
        """Take up changed predictions of ``member`` on ``rows``, and only there."""
        self._solve(member, rows)
        self._compare(rows)

    def parts(self, member: int) -> list[npt.NDArray[np.integer[Any]]]:
        """Return the partitions as ``member`` sees them: own level sets, winner, groups, given policies' level sets."""
        given = [bucket for policy in self.level[: self.given] for bucket in policy]
        return [*self.level[self.given + member], self.winner, *self.groups, *given]

    def cells(self, member: int, layout: Layout) -> Cells:
        """Return the cells of ``member`` as they are now."""
        parts = self.parts(member)
        for partition in layout.groups:  # a value that came after the layout was made belongs to the last part
            parts[partition] = np.minimum(parts[partition], layout.sizes[partition] - 1)
        return Cells(layout, parts)

    def taken(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Pick the winner's entry of an array with one row per contender."""
        return values[self.winner, np.arange(len(self.winner))]

    def behind(self) -> Floats:
        """Return the coefficients behind the winner's action: its own model's, or the only one's."""
        return self.predictions[0] if self.given else self.taken(self.predictions)

    def _solve(self, member: int, rows: Rows) -> None:
        own = self.given + member
        predictions = self.predictions[member, rows]
        actions = self._argmax(predictions if self._sign > 0 else -predictions)
        self.actions[own, rows] = actions
        self.level[own][:, rows] = self._buckets(actions).T
        self.assessed[own, rows] = row_dots(actions, predictions)
        for policy in range(self.given):
            self.assessed[policy, rows] = row_dots(self.actions[policy, rows], predictions)
        self.solves += len(actions)

    def _compare(self, rows: Rows) -> None:
        numbers = np.arange(len(self.winner)) if isinstance(rows, slice) else rows
        if self.given:  # Algorithm 3 decides by its own policy; note whether some given policy does the same
            _first_alike(self.actions, EDGE * (self._buckets.upper - self._buckets.lower), numbers, self.choice)
        else:
            _highest(self.assessed, self._sign, numbers, self.winner)


@njit(cache=True, nogil=True)
def _highest(assessed: Floats, sign: float, rows: Indices, winner: Indices) -> None:
    """Definition 5: write into ``winner`` who has the highest self-assessment; of ties the lowest index."""
    for row in rows:
        best = sign * assessed[0, row]
        for contender in range(1, len(assessed)):
            best = max(best, sign * assessed[contender, row])
        first = 0
        while sign * assessed[first, row] < best - TIE * abs(best):
            first += 1
        winner[row] = first


@njit(cache=True, nogil=True)
def _first_alike(actions: Floats, slack: Floats, rows: Indices, choice: Indices) -> None:
    """Write into ``choice`` the first contender that takes the same action as the last."""
    last, d = len(actions) - 1, actions.shape[2]
    for row in rows:
        first, j = 0, 0
        while j < d:
            j += 1
            if abs(actions[first, row, j - 1] - actions[last, row, j - 1]) > slack[j - 1]:
                first, j = first + 1, 0
        choice[row] = first
