"""Feasible sets by the name of their class: validation, and the arguments that make a set again."""

from __future__ import annotations

from typing import Any

from optensemble import feasible as _sets
from optensemble.exceptions import InputError
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._composite import Composite
from optensemble.feasible._edges import is_plain

SAVED_KINDS = (
    "Assignment",
    "Box",
    "ByKey",
    "Knapsack",
    "MixedInteger",
    "Polytope",
    "Product",
    "RiskBudget",
    "ShortestPath",
    "Simplex",
    "TopK",
    "Vertices",
    "WithCost",
)
"""Sets that their arguments describe; the others are code of the user's. A class is imported when it is asked for."""


def require_set(feasible: Any) -> FeasibleSet:
    """Return a feasible set, or raise ``InputError`` with what to give instead."""
    if isinstance(feasible, FeasibleSet):
        return feasible
    if isinstance(feasible, type):
        raise InputError(f"feasible is the class {feasible.__name__}. Give an object of it, with its arguments.")
    raise InputError(
        f"feasible must be a set from optensemble.feasible; got {type(feasible).__name__}. Wrap a function of your own "
        "as feasible.Oracle(function, dimension)."
    )


def to_spec(omega: FeasibleSet) -> dict[str, Any] | None:
    """Return the arguments that make a set again, or None for a set that is code, or that one inside it is."""
    name = type(omega).__name__
    # A class of the user's may have the name of one of ours.
    if name not in SAVED_KINDS or type(omega) is not getattr(_sets, name):
        return None
    if isinstance(omega, Composite) and any(to_spec(inner) is None for inner in omega.inner):
        return None
    if any(parameter.columns is None for parameter in omega.parameters):  # a function of X is code of the user's
        return None
    if not all(is_plain(label) for parameter in omega.parameters for label in parameter.codes or ()):
        return None
    return omega.spec()


def from_spec(kind: str, spec: dict[str, Any]) -> FeasibleSet:
    """Make a set again from the name of its class and what its ``spec`` returned.

    >>> from_spec("Simplex", {"dimension": 3})
    Simplex(dimension=3)
    """
    if kind not in SAVED_KINDS:
        raise InputError(
            f"unknown kind of feasible set {kind!r}; known are {', '.join(SAVED_KINDS)}. A set of your own cannot "
            "be saved: give it again as feasible=."
        )
    try:
        arguments = {name: _with_sets(value) for name, value in spec.items()}
        if kind == "ByKey":
            arguments["sets"] = dict(zip(arguments.pop("keys"), arguments["sets"], strict=True))
        omega: FeasibleSet = getattr(_sets, kind)(**arguments)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the saved {kind} does not fit this version's arguments ({error}).") from error
    return omega


def is_inner(value: Any) -> bool:
    """Return whether an argument of a set is a set in turn: its kind and its ``spec``."""
    return isinstance(value, dict) and value.keys() == {"kind", "spec"}


def has_inner(value: Any) -> bool:
    """Return whether an argument is a list of sets.

    >>> has_inner([{"kind": "Simplex", "spec": {"dimension": 3}}]), has_inner([0.5, 1.0]), has_inner([])
    (True, False, False)
    """
    return isinstance(value, list) and bool(value) and all(map(is_inner, value))


def _with_sets(value: Any) -> Any:
    """Make the sets that an argument consists of."""
    if is_inner(value):
        return from_spec(value["kind"], value["spec"])
    return [from_spec(each["kind"], each["spec"]) for each in value] if has_inner(value) else value
