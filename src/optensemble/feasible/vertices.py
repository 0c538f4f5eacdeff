"""Finite lists of actions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy.spatial import KDTree

from optensemble._core.arrays import Floats
from optensemble._core.validation import as_floats, describe_rows
from optensemble.exceptions import EmptySetError, InputError
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._binding import MOST_NAMED, name_unavailable
from optensemble.feasible._bound_rows import Fault
from optensemble.feasible._flags import as_flags, flag_faults
from optensemble.feasible._row_parameters import row_parameters
from optensemble.feasible._solvers.vertex_list import padded_flags, vertex_kernel

_AT_ONCE = 1 << 22
"""Distances of coordinates that are computed at once, where each row has a list of its own."""


@final
class Vertices(FeasibleSet):
    """A finite list of actions, convex position or not: schedules, slates, routes, crews.

    Values within 1e-12 of the best are tied, relative to ``sum_j |v_j c_j|`` of the action v that has it; the lowest
    index of the list wins.

    Parameters
    ----------
    array
        The actions, of shape (number of actions, dimension).
    lower, upper
        The box whose sides the buckets of actions divide. Left out, the unit box if it holds every action,
        and otherwise the bounding box of the actions.
    available
        Which actions may be taken: a 1 for each of them and a 0 for the others, or booleans. By row as ``Columns`` or a
        callable of X; then at least one of each row.
    on_failure, fallback
        What to do with a row that has no action: "raise" an error, or take the "fallback" action and warn.

    Attributes
    ----------
    vertices
        The actions, in the order given.
    available
        As given; None if it comes from the row, and if all are available.

    Examples
    --------
    >>> Vertices([[0, 0], [1, 0], [0, 1]]).argmax([[1.0, 2.0], [-1.0, -1.0], [3.0, 3.0]])
    array([[0., 1.],
           [0., 0.],
           [1., 0.]])

    Which may be taken differs between rows:

    >>> import pandas as pd
    >>> from optensemble import Columns
    >>> rows = pd.DataFrame({"runs_0": [1, 1], "runs_1": [1, 1], "runs_2": [0, 1]})
    >>> routes = Vertices([[0, 0], [1, 0], [0, 1]], available=Columns("runs_*"))
    >>> routes.for_rows(rows).argmax([[1.0, 2.0], [1.0, 2.0]])
    array([[1., 0.],
           [0., 1.]])
    """

    def __init__(
        self,
        array: npt.ArrayLike,
        lower: npt.ArrayLike | None = None,
        upper: npt.ArrayLike | None = None,
        *,
        available: Any = None,
        on_failure: str = "raise",
        fallback: npt.ArrayLike | None = None,
    ) -> None:
        vertices = as_floats(array, "the vertices")
        if vertices.ndim in (1, 2) and not vertices.size:
            raise EmptySetError("the list of vertices is empty. Give at least one action.")
        if vertices.ndim != 2:
            raise InputError(
                "the vertices must have shape (number of vertices, dimension); got an array of shape "
                f"{vertices.shape}. If it differs between rows which may be taken, list all and give available=."
            )
        in_unit_box = bool(np.all((vertices >= 0) & (vertices <= 1)))
        least, most = (0.0, 1.0) if in_unit_box else (vertices.min(axis=0), vertices.max(axis=0))
        self._set_bounds(
            least if lower is None else lower, most if upper is None else upper, dimension=vertices.shape[1]
        )
        outside = np.flatnonzero(self._outside_box(vertices) > 0)
        if outside.size:
            raise InputError(
                f"every vertex must lie within lower= and upper=; {describe_rows(outside)} of "
                f"{len(vertices)} do not. Widen the bounds, or leave them out."
            )
        self.vertices = vertices + 0.0  # negative zero is zero
        self.parameters = row_parameters(available=(available, (len(vertices),)))
        self.available: Floats | None = None
        if available is not None and not self.varies:
            self.available = as_flags(available, "available", len(vertices), "vertices")
            if not self.available.any():
                raise EmptySetError("no vertex is available. Give a 1 for each that may be taken.")
        self.kernel = vertex_kernel(self._listed)
        self._set_failure(on_failure, fallback)

    @property
    def _listed(self) -> Floats:
        """The vertices that may be taken in some row."""
        return self.vertices if self.available is None else self.vertices[self.available != 0.0]

    def _pack(self) -> Floats:
        return padded_flags(self.values)

    def _faults(self) -> Iterator[Fault]:
        yield from super()._faults()
        yield from flag_faults(self.values, "available", "may be taken", "may not")
        if (none := (self.values == 0.0).all(axis=1)).any():
            yield Fault("available", none, "must be 1 for at least one vertex")

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the distance, in its largest coordinate, to the nearest vertex."""
        if self.varies:
            self._require_rows(len(actions))
            return self._nearest_of_row(actions)
        return np.asarray(KDTree(self._listed).query(actions, p=np.inf)[0], dtype=np.float64)

    def _nearest_of_row(self, actions: Floats) -> Floats:
        """Return the distance of each row to the nearest vertex that is available in it."""
        nearest, step = np.empty(len(actions)), max(1, _AT_ONCE // self.vertices.size)
        for start in range(0, len(actions), step):
            rows = slice(start, start + step)
            distance = np.abs(actions[rows, None] - self.vertices).max(axis=2)
            nearest[rows] = np.where(self.values[rows] != 0.0, distance, np.inf).min(axis=1)
        return nearest

    def _project(self, actions: Floats) -> Floats:
        """Return the nearest vertex, by the sum of squares; of ties the first."""
        nearest, step = np.empty_like(actions), max(1, _AT_ONCE // self.vertices.size)
        allowed = self.values if self.varies else np.ones((1, len(self.vertices)))
        if self.available is not None:
            allowed = self.available[None]
        allowed = np.broadcast_to(allowed != 0.0, (len(actions), len(self.vertices)))
        for start in range(0, len(actions), step):
            rows = slice(start, start + step)
            distance = np.square(actions[rows, None] - self.vertices).sum(axis=2)
            nearest[rows] = self.vertices[np.where(allowed[rows], distance, np.inf).argmin(axis=1)]
        return nearest

    def _broken(self, action: Floats, slack: float) -> list[str]:
        nearest = self._project(action[None])[0]
        number = int(np.flatnonzero((self.vertices == nearest).all(axis=1))[0])
        away = float(np.abs(action - nearest).max())
        return [f"the nearest action that may be taken, vertices[{number}], is {away:.3g} away in a coordinate"]

    def binding(self, action: Floats) -> list[str]:
        """Return which vertices are not available, in the only row that the set is bound to, or in a fixed set."""
        self._require_rows(1)
        return name_unavailable(self, self.values if self.varies else self.available)[:MOST_NAMED]

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        arguments = {"array": self.vertices.copy(), "lower": self.lower.copy(), "upper": self.upper.copy()}
        if self.available is not None or self.varies:
            arguments["available"] = self._argument("available", self.available)
        return arguments | self._failure_spec_if_any()
