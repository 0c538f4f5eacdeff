"""The calibrated choice: in every row the candidate policy (arm) of the highest calibrated assessment.

Raw self-assessments are too high where they are highest. So realised payoff differences are regressed on assessed ones,
``R_a − R̄ = c_a + Σ_e b_e·(Z_ae − Z̄_e)``, and the arm with the highest fitted value is played.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.sums import LARGEST, Sums

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


@dataclass(frozen=True)
class ChoiceSums(Sums):
    """The sums over rows that a choice is fitted from, fold by fold.

    Attributes
    ----------
    rows
        The number of rows, (folds,).
    assessed, earned
        Of each arm beyond the mean arm: its assessments (folds, arms, evaluators), and its payoff (folds, arms).
    squares, products
        Over arms too: of assessments with each other (folds, evaluators, evaluators), and with payoffs.
    size
        The largest assessment.
    """

    rows: Floats
    assessed: Floats
    earned: Floats
    squares: Floats
    products: Floats
    size: float = field(metadata=LARGEST)

    @classmethod
    def of(cls, assessed: Floats, realised: Floats, folds: Sequence[slice] = (slice(None),)) -> Self:
        """Sum over the rows of each fold what evaluators expect of arms (arms, evaluators, n) and what these earned."""
        beyond, earned = assessed - assessed.mean(axis=0), realised - realised.mean(axis=0)
        evaluators = assessed.shape[1]
        flat = [np.ascontiguousarray(beyond[:, :, fold].transpose(1, 0, 2)).reshape(evaluators, -1) for fold in folds]
        return cls(
            rows=np.array([earned[:, fold].shape[1] for fold in folds], dtype=np.float64),
            assessed=np.stack([beyond[:, :, fold].sum(axis=2) for fold in folds]),
            earned=np.stack([earned[:, fold].sum(axis=1) for fold in folds]),
            squares=np.stack([each @ each.T for each in flat]),
            products=np.stack([each @ earned[:, fold].ravel() for each, fold in zip(flat, folds, strict=True)]),
            size=float(np.abs(assessed).max(initial=0.0)),
        )

    def fit(self, prior: Floats, strength: float = 1.0, left_out: int | None = None) -> Choice:
        """Fit constants and slopes by ridge regression, on all folds or all but one.

        Parameters
        ----------
        prior
            The slopes to begin with.
        strength
            The prior strength, relative to that for independent rows.
        left_out
            The fold that is not learned from.
        """
        keep = [fold for fold in range(len(self.rows)) if fold != left_out]
        n, sums, squares = self.rows[keep].sum(), self.assessed[keep].sum(axis=0), self.squares[keep].sum(axis=0)
        arms, evaluators = sums.shape
        rounding = 1e-9 * self.size  # arms that differ no more are the same
        variance = float(np.trace(squares) - sums.sum() ** 2 / (sums.size * n)) / (sums.size * n)
        spread = strength * SLOPE_PRIOR * arms * (max(variance, rounding**2) or 1.0)
        normal, target = np.zeros((arms + evaluators,) * 2), np.empty(arms + evaluators)
        normal[:arms, :arms] = np.eye(arms) * (n + strength * INTERCEPT_PRIOR)
        normal[:arms, arms:] = sums
        normal[arms:, :arms] = sums.T
        normal[arms:, arms:] = squares + spread * np.eye(evaluators)
        target[:arms] = self.earned[keep].sum(axis=0)
        target[arms:] = self.products[keep].sum(axis=0) + spread * prior
        solution = np.linalg.solve(normal, target)
        return Choice(solution[:arms], solution[arms:])
