"""Finite lists of actions."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt
from scipy.spatial import KDTree

from optensemble._core.arrays import Floats
from optensemble._core.validation import as_floats, describe_rows
from optensemble.exceptions import EmptySetError, InputError
from optensemble.feasible._base import FeasibleSet, checks_actions
from optensemble.feasible._solvers.vertex_list import vertex_kernel


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

    Attributes
    ----------
    vertices
        The actions, in the order given.

    Examples
    --------
    >>> Vertices([[0, 0], [1, 0], [0, 1]]).argmax([[1.0, 2.0], [-1.0, -1.0], [3.0, 3.0]])
    array([[0., 1.],
           [0., 0.],
           [1., 0.]])
    """

    def __init__(
        self, array: npt.ArrayLike, lower: npt.ArrayLike | None = None, upper: npt.ArrayLike | None = None
    ) -> None:
        vertices = as_floats(array, "the vertices")
        if vertices.ndim in (1, 2) and not vertices.size:
            raise EmptySetError("the list of vertices is empty. Give at least one action.")
        if vertices.ndim != 2:
            raise InputError(
                "the vertices must have shape (number of vertices, dimension); got an array of shape "
                f"{vertices.shape}. One fixed set for all rows is supported."
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
        self.kernel = vertex_kernel(self.vertices)

    @checks_actions
    def violation(self, actions: Floats) -> Floats:
        """Return for each row the distance, in its largest coordinate, to the nearest vertex."""
        return np.asarray(KDTree(self.vertices).query(actions, p=np.inf)[0], dtype=np.float64)

    def spec(self) -> dict[str, Any]:
        """Return the keyword arguments that make this set again."""
        return {"array": self.vertices.copy(), "lower": self.lower.copy(), "upper": self.upper.copy()}
