"""Ω: the feasible sets, each with a batched ``argmax`` of a linear objective."""

from __future__ import annotations

from typing import Any

from optensemble.exceptions import InputError
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible.assignment import Assignment
from optensemble.feasible.box import Box
from optensemble.feasible.contract import Finding, Report, check
from optensemble.feasible.cvxpy_set import CvxpySet
from optensemble.feasible.knapsack import Knapsack
from optensemble.feasible.mixed_integer import MixedInteger
from optensemble.feasible.oracle import Oracle
from optensemble.feasible.polytope import Polytope
from optensemble.feasible.product import Product
from optensemble.feasible.pyepo_set import PyEPOSet
from optensemble.feasible.risk_budget import RiskBudget
from optensemble.feasible.shortest_path import ShortestPath
from optensemble.feasible.simplex import Simplex
from optensemble.feasible.top_k import TopK
from optensemble.feasible.vertices import Vertices

__all__ = [
    "Assignment",
    "Box",
    "CvxpySet",
    "FeasibleSet",
    "Finding",
    "Knapsack",
    "MixedInteger",
    "Oracle",
    "Polytope",
    "Product",
    "PyEPOSet",
    "Report",
    "RiskBudget",
    "ShortestPath",
    "Simplex",
    "TopK",
    "Vertices",
    "check",
]

_SAVED = (Assignment, Box, Knapsack, MixedInteger, Polytope, Product, RiskBudget, ShortestPath, Simplex, TopK, Vertices)
_KINDS: dict[str, type[FeasibleSet]] = {kind.__name__: kind for kind in _SAVED}


def saved_kinds() -> dict[str, type[FeasibleSet]]:
    """Return the sets that can be described by their arguments alone, by name."""
    return dict(_KINDS)


def require_set(feasible: Any) -> FeasibleSet:
    """Return a feasible set, or say what to give instead of what was given."""
    if isinstance(feasible, FeasibleSet):
        return feasible
    if isinstance(feasible, type):
        raise InputError(f"feasible is the class {feasible.__name__}. Give an object of it, with its arguments.")
    raise InputError(
        f"feasible must be a set from optensemble.feasible; got {type(feasible).__name__}. Wrap a function of your own "
        "as feasible.Oracle(function, dimension). One set serves all rows."
    )


def to_spec(omega: FeasibleSet) -> dict[str, Any] | None:
    """Return the arguments that make a set again, or None if only its owner can make it."""
    blocks = omega.blocks if isinstance(omega, Product) else ()
    if _KINDS.get(type(omega).__name__) is not type(omega) or any(to_spec(block) is None for block in blocks):
        return None
    return omega.spec()


def from_spec(kind: str, spec: dict[str, Any]) -> FeasibleSet:
    """Make a set again from the name of its class and what its ``spec`` returned.

    >>> from_spec("Simplex", {"dimension": 3})
    Simplex(dimension=3)
    """
    if kind not in _KINDS:
        raise InputError(
            f"unknown kind of feasible set {kind!r}; known are {', '.join(_KINDS)}. A set of your own cannot "
            "be saved: give it again as feasible=."
        )
    try:
        if kind == "Product":
            spec = {"blocks": [from_spec(block["kind"], block["spec"]) for block in spec["blocks"]]}
        return _KINDS[kind](**spec)
    except (KeyError, TypeError) as error:
        raise InputError(f"the saved {kind} does not fit this version's arguments ({error}).") from error
