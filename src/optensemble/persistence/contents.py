"""The contents of a saved ensemble, each listed once: learned attributes, and tables.

The packing of an ensemble, its restoration and the validation of its file all go by these lists.
"""

from __future__ import annotations

from collections.abc import Callable

from optensemble.persistence.parts import Part

Rule = Callable[[Part], object]
"""Raises :class:`~optensemble.persistence.parts.Wrong` for a value that no fit can have learned."""

WHITE, BLACK, DECISION = "WhiteBoxEnsemble", "BlackBoxEnsemble", "DecisionEnsemble"
LIVE = "LiveEnsemble"
"""The classes of ensembles, by the names that files have for them: only that of a file is loaded."""


def _schedule(part: Part) -> str:
    from optensemble.multicalibration.schedules import SCHEDULES  # loads the debiasing, which few files need

    return str(part.choice(list(SCHEDULES)))


PAPER_LEARNED: dict[str, Rule] = {
    "time_ordered_": Part.flag,
    "schedule_": _schedule,
    "shrinkage_": lambda part: part.number(0.0),
    "min_cell_": lambda part: part.whole(1),
    "M_": lambda part: part.number(0.0),
    **dict.fromkeys(["n_rows_", "n_rounds_", "n_solves_", "n_thin_"], Part.whole),
    "converged_": Part.flag,
    "stopped_": Part.text,
    "worst_violation_": lambda part: part.number(0.0),
}
"""What ``WhiteBoxEnsemble`` and ``BlackBoxEnsemble`` learn, and the rule for each value."""

DECISION_LEARNED: dict[str, Rule] = {
    "names_": Part.texts,
    "n_models_": Part.whole,
    "winner_": Part.text,
    "finding_": Part.text,
    "notes_": Part.texts,
    "time_ordered_": Part.flag,
    "n_rows_": Part.whole,
    "n_updated_": Part.whole,
    "refit_due_": Part.text,
}
"""What ``DecisionEnsemble`` learns, and the rule for each value."""

ANY_NUMBER = "biuf"
"""numpy's kinds of numbers, truth values among them."""

_GUARANTEES = {"lemma": "U", "quantity": "U", "bound": "f", "observed": "f", "holds": "b", "guaranteed": "b"}

PAPER_FRAMES = {
    "history_": {"promised": "f", "realised": "f", "worst_violation": "f", "solves": "i"},
    "guarantees_": _GUARANTEES,
    "conditional_": {
        "cell": "U",
        "rows": "i",
        "policy": "U",
        "bound": "f",
        "observed": "f",
        "holds": "b",
        "guaranteed": "b",
    },
    "validation_": {
        **dict.fromkeys(["shrinkage", "rounds", "realised", "promised", "gain", "standard_error"], ANY_NUMBER),
        "chosen": "b",
    },
}
"""The tables of the paper's ensembles: the columns that are read after loading, and numpy's kinds of each."""

DECISION_FRAMES = {
    "leaderboard_": {
        **dict.fromkeys(["candidate", "kind", "why"], "U"),
        **dict.fromkeys(["realised", "low", "high", "promised", "detectable", "followed"], "f"),
        **dict.fromkeys(["difference", "difference_low", "difference_high"], "f"),
        "chosen": "b",
    },
    "guarantees_": {**_GUARANTEES, "low": "f", "high": "f"},
}
"""The tables of ``DecisionEnsemble``, likewise."""
