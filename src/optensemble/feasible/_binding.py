"""Constraints that bind at an action, and those that it violates, in words."""

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
    place = "" if entry is None else f"[{entry}]"
    return f"{name}{place} = {value:g}{_origin(omega, name, entry)}"


def _origin(omega: FeasibleSet, name: str, entry: int | None) -> str:
    """Return where an argument comes from, in brackets, if that is the row."""
    titles = next((each.titles() for each in omega.parameters if each.name == name), [""])
    title = titles[entry or 0] if len(titles) > 1 else titles[0]
    return f" ({title})" if title else ""


def told_apart(found: float, limit: float) -> tuple[str, str]:
    """Return two numbers with as few digits as show that they differ.

    >>> told_apart(1.2000004, 1.2)
    ('1.2000004', '1.2')
    """
    for digits in (6, 9, 12, 17):
        shown = f"{found:.{digits}g}", f"{limit:.{digits}g}"
        if shown[0] != shown[1]:
            return shown
    return shown


def name_excess(
    omega: FeasibleSet,
    title: str,
    found: float,
    relation: str,
    limit: float,
    origin: tuple[str, int | None] | None = None,
) -> str:
    """Return a violated constraint in words: "capacity: 1.203 > 1.2 (column 'budget')".

    ``origin`` is the argument, and its entry, that the limit is.
    """
    shown, wanted = told_apart(found, limit)
    return f"{title}: {shown} {relation} {wanted}" + ("" if origin is None else _origin(omega, *origin))


def name_wrong_sum(total: float, wanted: float, what: str = "sums to", at_most: bool = False) -> str:
    """Return a sum that is not as it must be, in words: "sums to 1.01, must be 1"."""
    shown, right = told_apart(total, wanted)
    return f"{what} {shown}, must be {'at most ' if at_most else ''}{right}"


def name_broken_bounds(omega: FeasibleSet, action: Floats, slack: float) -> list[str]:
    """Return the bounds that an action exceeds, in words."""
    lower, upper = (np.atleast_2d(side)[0] for side in omega._row_box())
    found = list[str]()
    for name, limits, excess, relation in (
        ("upper", upper, action - upper, ">"),
        ("lower", lower, lower - action, "<"),
    ):
        for j in np.flatnonzero(excess > slack).tolist():
            found.append(name_excess(omega, f"{name}[{j}]", action[j], relation, limits[j], (name, j)))
    return found


def name_broken_rows(omega: FeasibleSet, name: str, used: Floats, right: Floats, broken: npt.ArrayLike) -> list[str]:
    """Return the rows of ``A_ub`` or ``A_eq`` that an action breaks, in words: what they come to, and what they may."""
    rows = np.flatnonzero(broken).tolist()
    if name == "eq":
        return [name_wrong_sum(float(used[j]), float(right[j]), f"A_eq[{j}] comes to") for j in rows]
    return [name_excess(omega, f"A_ub[{j}]", float(used[j]), ">", float(right[j]), ("b_ub", j)) for j in rows]


def name_fractions(action: Floats, slack: float, kind: str = "a whole number") -> list[str]:
    """Return the coordinates of an action that are not whole, in words."""
    rows = np.flatnonzero(np.abs(action - np.rint(action)) > slack).tolist()
    return [f"coordinate {j} is {told_apart(action[j], np.rint(action[j]))[0]}, must be {kind}" for j in rows]


def name_taken(omega: FeasibleSet, action: Floats, flags: Floats | None, slack: float) -> list[str]:
    """Return what an action takes though it is not available, in words."""
    if flags is None:
        return []
    taken = np.flatnonzero(np.abs(action * (1.0 - np.atleast_2d(flags)[0])) > slack).tolist()
    return [f"{name_constraint(omega, 'available', 0.0, j)}, and takes {action[j]:.6g}" for j in taken]


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
