"""Asking the members of a DecisionEnsemble: what models predict, what is best under that, and what policies do."""

from __future__ import annotations

from typing import Any

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.progress import Step, silent
from optensemble.feasible import FeasibleSet
from optensemble.members.outputs import View
from optensemble.members.subgroups import Subgroups
from optensemble.members.validation import as_actions, as_predictions, ask, row_count

Members = list[tuple[str, Any]]


def ask_members(
    models: Members,
    policies: Members,
    X: Any,
    omega: FeasibleSet,
    sign: float,
    scale: Floats,
    subgroups: Subgroups | None,
    step: Step = silent,
) -> View:
    """Return what the members say of the rows of X, in the sense of maximising; each of them is a step."""
    n, d = row_count(X), omega.dimension
    predictions, actions = np.empty((len(models), n, d)), np.empty((len(models) + len(policies), n, d))
    for number, (name, model) in enumerate(models):
        predictions[number] = sign * as_predictions(ask(model, name, "predict", X), name, n, d)
        actions[number] = omega.argmax(predictions[number])
        step()
    for number, (name, policy) in enumerate(policies, start=len(models)):
        actions[number] = as_actions(ask(policy, name, "decide", X), name, n, omega)
        step()
    if subgroups is None:
        return View(predictions, actions, scale)
    return View(predictions, actions, scale, subgroups(X), subgroups.titles)
