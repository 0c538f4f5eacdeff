"""The public names of the package."""

from __future__ import annotations

import optensemble as oe


def test_the_public_names_are_pinned() -> None:
    estimators = ["BlackBoxEnsemble", "DecisionEnsemble", "WhiteBoxEnsemble"]
    results = ["Answer", "Audit", "Explanation", "Grade", "LiveAnswer", "Promise", "RowPlan", "Situation", "Verdict"]
    classes = sorted(["Columns", "LiveEnsemble", "Monitor", "Rows", *estimators, *results])
    assert oe.__all__ == [*classes, "exceptions", "feasible", "guarantees", "load", "make_pipeline", "plan"]
    assert oe.__all__ == sorted(oe.__all__)
    for name in ("exceptions", "guarantees", "feasible"):
        assert all(hasattr(getattr(oe, name), member) for member in getattr(oe, name).__all__)
