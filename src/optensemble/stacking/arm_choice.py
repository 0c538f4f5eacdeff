"""The calibrated choice: in every row the candidate policy (arm) of the highest calibrated assessment.

Raw self-assessments are too high where they are highest. So realised payoff differences are regressed on assessed ones,
``R_a − R̄ = c_a + Σ_e b_e·(Z_ae − Z̄_e)``, and the arm with the highest fitted value is played.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optensemble._core.arrays import Floats, Indices

INTERCEPT_PRIOR = 5.0
"""Pseudo-rows that hold each arm's intercept to 0."""

SLOPE_PRIOR = 400.0
"""Pseudo-rows that hold the slopes to their prior."""


@dataclass(frozen=True)
class Choice:
    """``c`` of each arm, and ``b`` of each evaluator."""

    constants: Floats
    slopes: Floats

    def __call__(self, assessed: Floats) -> Indices:
        """Return for every row the arm to play; ``assessed`` is of shape (arms, evaluators, n)."""
        return np.asarray(self.values(assessed).argmax(axis=0))

    def values(self, assessed: Floats) -> Floats:
        """Return the expected payoff of each arm beyond the mean arm, of shape (arms, n)."""
        beyond = assessed - assessed.mean(axis=0)
        return np.asarray(self.constants[:, None] + np.einsum("aen,e->an", beyond, self.slopes))


def fit_choice(assessed: Floats, realised: Floats, prior: Floats, strength: float = 1.0) -> Choice:
    """Fit constants and slopes by ridge regression.

    Parameters
    ----------
    assessed
        What each evaluator expects of each arm, of shape (arms, evaluators, n).
    realised
        What each arm earned, of shape (arms, n).
    prior
        The slopes to begin with.
    strength
        The prior strength, relative to that for independent rows.
    """
    arms, evaluators, n = assessed.shape
    beyond, earned = assessed - assessed.mean(axis=0), realised - realised.mean(axis=0)
    rounding = 1e-9 * float(np.abs(assessed).max(initial=0.0))  # arms that differ no more are the same
    spread = strength * SLOPE_PRIOR * arms * (max(float(beyond.var()), rounding**2) or 1.0)
    normal, target = np.zeros((arms + evaluators,) * 2), np.empty(arms + evaluators)
    normal[:arms, :arms] = np.eye(arms) * (n + strength * INTERCEPT_PRIOR)
    normal[:arms, arms:] = beyond.sum(axis=2)
    normal[arms:, :arms] = normal[:arms, arms:].T
    normal[arms:, arms:] = np.einsum("aen,afn->ef", beyond, beyond) + spread * np.eye(evaluators)
    target[:arms] = earned.sum(axis=1)
    target[arms:] = np.einsum("aen,an->e", beyond, earned) + spread * prior
    solution = np.linalg.solve(normal, target)
    return Choice(solution[:arms], solution[arms:])
