"""Ω: the feasible sets, each with a batched ``argmax`` of a linear objective."""

from __future__ import annotations

from typing import Any

from optensemble.exceptions import InputError
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible.box import Box
from optensemble.feasible.oracle import Oracle
from optensemble.feasible.polytope import Polytope
from optensemble.feasible.risk_budget import RiskBudget
from optensemble.feasible.simplex import Simplex
from optensemble.feasible.vertices import Vertices

__all__ = ["Box", "FeasibleSet", "Oracle", "Polytope", "RiskBudget", "Simplex", "Vertices"]

_KINDS: dict[str, type[FeasibleSet]] = {kind.__name__: kind for kind in (Box, Polytope, RiskBudget, Simplex, Vertices)}


def to_spec(omega: FeasibleSet) -> dict[str, Any] | None:
    """Return the arguments that make a set again, or None if only its owner can make it."""
    return omega.spec() if _KINDS.get(type(omega).__name__) is type(omega) else None


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
        return _KINDS[kind](**spec)
    except TypeError as error:
        raise InputError(f"the saved {kind} does not fit this version's arguments ({error}).") from error
