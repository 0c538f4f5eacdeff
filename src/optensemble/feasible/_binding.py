"""Constraints that bind at an action, in words."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble.feasible._base import FeasibleSet

BINDS = 1e-9
"""Slack, as a share of a constraint's size, that an action leaves by rounding alone."""

MOST_NAMED = 6
"""Constraints that are named at most."""


def name_constraint(omega: FeasibleSet, name: str, value: float, entry: int | None = None) -> str:
    """Return a constraint in words: the argument, its value, and where it comes from if that is the row."""
    titles = next((each.titles() for each in omega.parameters if each.name == name), [""])
    title = titles[entry or 0] if len(titles) > 1 else titles[0]
    place = "" if entry is None else f"[{entry}]"
    return f"{name}{place} = {value:g}" + (f" ({title})" if title else "")


def name_entries(omega: FeasibleSet, name: str, values: Floats, binds: npt.NDArray[np.bool_]) -> list[str]:
    """Return the entries of an argument that bind, in words."""
    return [name_constraint(omega, name, float(values[j]), int(j)) for j in np.flatnonzero(binds)]


def name_bounds(omega: FeasibleSet, action: Floats) -> tuple[list[str], list[str]]:
    """Return the bounds that an action lies at: those from the row, what they close first, and those of all rows.

    A coordinate that all rows share one value of is no constraint worth naming.
    """
    omega._require_rows(1)
    lower, upper = (np.atleast_2d(side)[0] for side in omega._row_box())
    small = BINDS * omega.extent
    closed = upper - lower <= small
    at = {"upper": (upper, action >= upper - small), "lower": (lower, action <= lower + small)}
    own, shared = list[str](), list[str]()
    for name, (values, binds) in at.items():
        if omega._varies_in(name):
            own = name_entries(omega, name, values, binds & closed) + own
            own += name_entries(omega, name, values, binds & ~closed)
        else:
            shared += name_entries(omega, name, values, binds & ~closed)
    return own, shared


def name_unavailable(omega: FeasibleSet, flags: Floats | None) -> list[str]:
    """Return what is not available, in words."""
    if flags is None:
        return []
    first = np.atleast_2d(flags)[0]
    return name_entries(omega, "available", first, first == 0.0)
