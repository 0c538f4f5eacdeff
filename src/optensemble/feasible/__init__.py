"""Ω: the feasible sets, each with a batched ``argmax`` of a linear objective.

A set's module is imported when its name is first used, so that a set which needs no solver library loads none.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optensemble.feasible._base import FeasibleSet
    from optensemble.feasible.assignment import Assignment
    from optensemble.feasible.box import Box
    from optensemble.feasible.by_key import ByKey
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
    from optensemble.feasible.with_cost import WithCost

__all__ = [
    "Assignment",
    "Box",
    "ByKey",
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
    "WithCost",
    "check",
]

_MODULES = {
    "Assignment": "assignment",
    "Box": "box",
    "ByKey": "by_key",
    "CvxpySet": "cvxpy_set",
    "FeasibleSet": "_base",
    "Finding": "contract",
    "Knapsack": "knapsack",
    "MixedInteger": "mixed_integer",
    "Oracle": "oracle",
    "Polytope": "polytope",
    "Product": "product",
    "PyEPOSet": "pyepo_set",
    "Report": "contract",
    "RiskBudget": "risk_budget",
    "ShortestPath": "shortest_path",
    "Simplex": "simplex",
    "TopK": "top_k",
    "Vertices": "vertices",
    "WithCost": "with_cost",
    "check": "contract",
}
"""The module of each public name."""

if not TYPE_CHECKING:  # a type checker would take every misspelt name for Any

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first used (PEP 562)."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
