"""All points of a small set of whole numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble.exceptions import EmptySetError, InputError
from optensemble.feasible._solvers.constraints import Sparse

MOST_PREFIXES = 1 << 16
"""Choices for the first coordinates that are looked at together; more would need too much memory."""

MOST_WORK = 1 << 23
"""Numbers that are looked at in all; this many take a fraction of a second."""

MOST_NUMBERS = 1 << 18
"""With more numbers the list leaves the processor's cache, and is hardly faster than HiGHS."""

LARGEST_WHOLE = 2.0**53
"""Beyond this, floats do not hold every whole number."""

TOO_LARGE = (
    f"of whole numbers must be at most {LARGEST_WHOLE:g} in size, beyond which not all of them can be told apart"
)

_ROUNDED_OFF = 1e-9
"""What may be rounding, relative to the size of the terms."""


def whole_bounds(lower: Floats, upper: Floats, integer: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Move the bounds of whole numbers to the whole numbers inside them."""
    large = np.flatnonzero(integer & (np.maximum(np.abs(lower), np.abs(upper)) > LARGEST_WHOLE))
    if large.size:
        j = large[0]
        raise InputError(
            f"bounds of whole numbers must be at most {LARGEST_WHOLE:g} in size, beyond which not all of them can be "
            f"told apart; those of coordinate {j} are {lower[j]:g} and {upper[j]:g}. Choose other units."
        )
    low, high = round_inward(lower, upper, integer)
    empty = np.flatnonzero(low > high)
    if empty.size:
        j = empty[0]
        raise EmptySetError(
            f"no action is feasible: there is no whole number between the bounds {lower[j]:g} and {upper[j]:g} of "
            f"coordinate {j}. Widen them, or leave the coordinate out of integer=."
        )
    return low, high


def round_inward(lower: Floats, upper: Floats, integer: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Return the least and the largest whole number between bounds of whole numbers, and the other bounds as given."""
    low = np.where(integer, np.ceil(lower - _ROUNDED_OFF), lower)
    return low + 0.0, np.where(integer, np.floor(upper + _ROUNDED_OFF), upper) + 0.0


def list_points(rows: Sparse, row_lower: Floats, row_upper: Floats, lower: Floats, upper: Floats) -> Floats | None:
    """Return whole points in ascending lexicographic order, or None where there are too many to look at.

    Coordinates are set one after the other, and a prefix is dropped once no choice of the others can bring it inside
    the rows. No point inside is missed; the set itself decides which of those returned are inside, to the last bit.
    """
    d, width = len(lower), upper - lower
    columns, room = rows.tocsc(), _Room(rows, row_lower, row_upper, lower, upper)
    prefixes, sums, work = np.empty((1, 0)), (rows @ lower)[None], 0.0
    free = np.flatnonzero(width)
    for j in free:
        if not len(prefixes):
            return np.empty((0, d))
        count = len(prefixes) * (width[j] + 1.0)
        work += count * (prefixes.shape[1] + len(row_upper))
        if not (count <= MOST_PREFIXES and work <= MOST_WORK):  # nor infinite
            return None
        steps = np.arange(width[j] + 1.0)
        column = columns[:, [j]].toarray().ravel()
        sums = (sums[:, None] + np.multiply.outer(steps, column)).reshape(int(count), len(column))
        possible = room.after(column * width[j], sums)
        last = np.tile(lower[j] + steps, len(prefixes))
        prefixes = np.column_stack([np.repeat(prefixes, len(steps), axis=0), last])[possible]
        sums = sums[possible]
    if len(prefixes) * d > MOST_WORK:
        return None
    points = np.tile(lower, (len(prefixes), 1))
    points[:, free] = prefixes
    return points


class _Room:
    """The least and the most that the coordinates not set yet can still add to each row."""

    def __init__(self, rows: Sparse, row_lower: Floats, row_upper: Floats, lower: Floats, upper: Floats) -> None:
        swing = rows.multiply(upper - lower)
        self.least, self.most = swing.minimum(0.0).sum(axis=1), swing.maximum(0.0).sum(axis=1)
        slack = _ROUNDED_OFF * (1.0 + abs(rows) @ np.maximum(np.abs(lower), np.abs(upper)))
        self.row_lower, self.row_upper = row_lower - slack, row_upper + slack

    def after(self, swing: Floats, sums: Floats) -> npt.NDArray[np.bool_]:
        """Take one coordinate's swing away; return which sums the rest can still bring inside."""
        self.least, self.most = self.least - np.minimum(swing, 0.0), self.most - np.maximum(swing, 0.0)
        inside = (sums <= self.row_upper - self.least) & (sums >= self.row_lower - self.most)
        return np.asarray(inside.all(axis=1))


def without_between(points: Floats) -> Floats:
    """Drop points that lie between two others along one coordinate, one coordinate after the other.

    For no coefficients is such a point better than both, and where all three are tied one of the two comes before it.
    """
    for j in np.flatnonzero(np.ptp(points, axis=0) >= 2):
        others = np.delete(points, j, axis=1)
        others = others[:, np.ptp(others, axis=0) > 0]
        order = np.lexsort((points[:, j], *others.T))
        same_line = (others[order[1:]] == others[order[:-1]]).all(axis=1)
        between = np.zeros(len(points), dtype=np.bool_)
        between[order[1:-1]] = same_line[1:] & same_line[:-1]
        points = points[~between]
    return points
