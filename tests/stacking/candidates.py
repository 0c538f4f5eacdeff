"""Candidate policies and what they earn."""

from __future__ import annotations

import numpy as np

from optensemble.stacking.leaderboard import Candidate
from tests.problems import Floats


def textbook_choice(assessed: Floats, realised: Floats, prior: Floats, pull: float) -> tuple[Floats, Floats]:
    """Regress on a design with a row for every arm in every row, and pseudo-rows for what the slopes are pulled to."""
    a, e, n = assessed.shape
    beyond, earned = assessed - assessed.mean(axis=0), realised - realised.mean(axis=0)
    rows, target = [], []
    for arm in range(a):
        for i in range(n):
            rows.append([*np.eye(a)[arm], *beyond[arm, :, i]])
            target.append(earned[arm, i])
    weight = 400 * pull * a * (beyond.var() or 1.0)
    penalty = np.diag(np.sqrt([5 * pull] * a + [weight] * e))
    design = np.vstack([rows, penalty])
    solution = np.linalg.lstsq(design, [*target, *(penalty @ [*np.zeros(a), *prior])], rcond=None)[0]
    return solution[:a], solution[a:]


def candidate(realised: Floats, margin: float = 2.0, name: str = "x") -> Candidate:
    return Candidate(name, "model", realised, realised, margin)
