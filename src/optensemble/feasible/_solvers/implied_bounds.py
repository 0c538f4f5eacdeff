"""Bounds of coordinates that linear rows imply, row of the table by row, where right-hand sides differ between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices

_MOST_PASSES = 50
"""Bounds that follow from others that follow from others ...: deeper chains than this are left open."""


class _Row(NamedTuple):
    """``entries·x[columns] + entry * x[j] <= right``, where ``right`` has a constant and a slope by each parameter."""

    columns: Indices
    entries: Floats
    entry: float
    right: Floats


class _Step(NamedTuple):
    """A bound of coordinate ``j`` from rows: the tightest that they imply, or the furthest one that can be needed."""

    j: int
    above: bool
    rows: list[_Row]
    needed: bool


@dataclass
class Bounds:
    """Bounds of coordinates: constants, affine functions of a row's parameters, and what linear rows imply."""

    lower: Floats
    upper: Floats
    below: list[tuple[int, Floats]] = field(default_factory=list)
    above: list[tuple[int, Floats]] = field(default_factory=list)
    """Lower and upper bounds by row: a coordinate, and a constant with a slope by each parameter."""
    steps: list[_Step] = field(default_factory=list)

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Which bounds are finite, lower ones in the first row and upper ones in the second."""
        known = np.isfinite([self.lower, self.upper])
        for side, found in enumerate((self.below, self.above)):
            known[side, [j for j, _ in found]] = True
        for step in self.steps:
            known[int(step.above), step.j] = True
        return known

    @property
    def varying(self) -> npt.NDArray[np.bool_]:
        """Which bounds differ between rows of the table."""
        varying = np.zeros((2, len(self.lower)), dtype=np.bool_)
        for side, found in enumerate((self.below, self.above)):
            varying[side, [j for j, _ in found]] = True
        for step in self.steps:
            varying[int(step.above), step.j] |= any(_differs(row, varying) for row in step.rows)
        return varying

    def at(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the bounds for each row of parameters, of shape (rows, coordinates); infinite where there are none."""
        lower, upper = (np.repeat(side[None], len(values), axis=0) for side in (self.lower, self.upper))
        for j, terms in self.below:
            lower[:, j] = np.maximum(lower[:, j], _affine(terms, values))
        for j, terms in self.above:
            upper[:, j] = np.minimum(upper[:, j], _affine(terms, values))
        for step in self.steps:
            found = [_reached(row, step, lower, upper, values) for row in step.rows]
            farthest = np.maximum if step.above == step.needed else np.minimum
            bound = farthest.reduce(found) if found else (lower if step.above else upper)[:, step.j]
            if step.needed:
                # The row's own bound on the other side may be what holds: not less than that is needed.
                bound = np.maximum(bound, lower[:, step.j]) if step.above else np.minimum(bound, upper[:, step.j])
            (upper if step.above else lower)[:, step.j] = bound
        return lower, upper

    def imply(self, matrix: Any, right: Floats, wanted: npt.NDArray[np.bool_]) -> None:
        """Find steps that give the wanted coordinates finite bounds, from rows ``matrix x <= right``."""
        for _ in range(_MOST_PASSES):
            known, varying, found = self.known, self.varying, list[_Step]()
            for j in np.flatnonzero(wanted & ~known.all(axis=0)):
                for above in (False, True):
                    rows = [] if known[int(above), j] else _usable(matrix, right, int(j), above, known)
                    # Bounds that hold in all rows are better than tighter ones that differ.
                    rows = [row for row in rows if not _differs(row, varying)] or rows
                    found += [_Step(int(j), above, rows, needed=False)] if rows else []
            if not found:
                return
            self.steps += found

    def need(self, matrix: Any, right: Floats, j: int, above: bool) -> bool:
        """Bound a coordinate that costs are keeping on one side: it never needs to go further than some row pushes it.

        All rows of the coordinate push it that way. Return whether their other coordinates are bounded.
        """
        rows = _usable(matrix, right, j, not above, self.known[::-1])
        if len(rows) < np.count_nonzero(matrix[:, j]) or not (rows or self.known[int(not above), j]):
            return False
        self.steps.append(_Step(j, above, rows, needed=True))
        return True


def _differs(row: _Row, varying: npt.NDArray[np.bool_]) -> bool:
    """Return whether what a row implies differs between rows of the table."""
    return bool(row.right[1:].any() or varying[:, row.columns].any())


def _usable(matrix: Any, right: Floats, j: int, above: bool, known: npt.NDArray[np.bool_]) -> list[_Row]:
    """Return the rows that bound a coordinate on one side and whose other coordinates are bounded as that needs."""
    found = list[_Row]()
    column = matrix[:, j]
    for i in np.flatnonzero(column > 0 if above else column < 0):
        columns = np.setdiff1d(np.flatnonzero(matrix[i]), j)
        entries = matrix[i, columns]
        if np.where(entries > 0, known[0, columns], known[1, columns]).all():
            found.append(_Row(columns, entries, float(column[i]), right[i]))
    return found


def _reached(row: _Row, step: _Step, lower: Floats, upper: Floats, values: Floats) -> Floats:
    """Return the bound that a row implies with the others where they leave most room, or least if that is needed."""
    low, high = (upper, lower) if step.needed else (lower, upper)
    room = _affine(row.right, values)
    for column, entry in zip(row.columns, row.entries, strict=True):
        room = room - entry * (low if entry > 0 else high)[:, column]
    reached: Floats = room / row.entry
    return reached


def _affine(terms: Floats, values: Floats) -> Floats:
    """Return constants plus slopes times parameters, one for each row."""
    found = np.full(len(values), terms[0])
    for parameter in np.flatnonzero(terms[1:]):
        found = found + terms[1 + parameter] * values[:, parameter]
    return found
