"""Outcomes made up by hand, so that a test knows what must be said of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from optensemble.experiments.outcome import (
    AVERAGE_FIRST,
    BEST_INITIAL,
    BLACK_BOX_ENSEMBLE,
    DECISION_ENSEMBLE,
    FORESIGHT,
    FRESH,
    IN_SAMPLE,
    PAPER_ENSEMBLES,
    RIDGE_STACKING,
    UNCORRECTED,
    WHITE_BOX_ENSEMBLE,
    DecisionAudit,
    Outcome,
    PolicyCost,
    PolicyGain,
    PolicyPayoff,
)

Pair = tuple[float, float]
"""What is promised and what is earned."""

OTHERS: dict[str, Pair] = {
    BEST_INITIAL: (3.0, 2.0),
    AVERAGE_FIRST: (1.0, 1.5),
    RIDGE_STACKING: (5.0, 5.0),
    UNCORRECTED: (7.0, 3.0),
    WHITE_BOX_ENSEMBLE: (6.0, 6.0),
    BLACK_BOX_ENSEMBLE: (4.0, 4.0),
    DECISION_ENSEMBLE: (5.5, 5.25),
}


def made_up(
    name: str = "A",
    *,
    in_sample: dict[str, Pair] | None = None,
    fresh: dict[str, Pair] | None = None,
    foresight: float = 12.0,
    error: float = 0.25,
    members: tuple[str, ...] = ("left", "right"),
    note: str = "risk limit 300",
    looks: int = 11,
    violations: tuple[float | None, float | None] = (None, None),
    allowed: float = 0.75,
    gain_error: float = 0.125,
) -> Outcome:
    """An outcome in which the best initial policy earns 2 and foresight 12, if nothing else is given.

    DecisionEnsemble promises its payoff to be off by no more than is ``allowed``.
    """
    tables = {IN_SAMPLE: {**OTHERS, **(in_sample or {})}, FRESH: {**OTHERS, **(fresh or {})}}
    payoffs = [payoff for where, pairs in tables.items() for payoff in _payoffs(where, pairs, foresight, error)]
    rng = np.random.default_rng([ord(letter) for letter in name])
    costs = [
        PolicyCost(BEST_INITIAL, row_solves=20, seconds=0.001),
        PolicyCost(RIDGE_STACKING, seconds=0.002),
        PolicyCost(WHITE_BOX_ENSEMBLE, 100, row_solves=1500, avoided=2500, seconds=0.25, **_end(violations[0])),
        PolicyCost(BLACK_BOX_ENSEMBLE, 90, row_solves=400, avoided=500, seconds=0.5, **_end(violations[1])),
        PolicyCost(DECISION_ENSEMBLE, seconds=0.125),
    ]
    return Outcome(
        name=name,
        note=note,
        members=list(members),
        best=members[-1],
        payoffs=tuple(payoffs),
        costs=tuple(costs),
        curves={where: _curves(rng, members, looks) for where in tables},
        disagreement=np.sort(rng.uniform(size=(looks, 7)), axis=1),
        audit=_audit(tables[FRESH], allowed, gain_error),
    )


def _audit(pairs: dict[str, Pair], allowed: float, error: float) -> DecisionAudit:
    promised, earned = pairs[DECISION_ENSEMBLE]
    gains = tuple(
        PolicyGain(policy, earned - other, error) for policy, (_, other) in pairs.items() if policy != DECISION_ENSEMBLE
    )
    kept = abs(promised - earned) <= allowed
    return DecisionAudit(
        low=promised - allowed,
        high=promised + allowed,
        kept=kept,
        gains=gains,
        way_error=1.5,
        verdict=f"promised {promised:g}, earned {earned:g}: {'kept' if kept else 'not kept'}",
        finding="ensemble earns 3 more than deciding by the mean label out of fold (95 %: 2 to 4)",
    )


def _end(violation: float | None) -> dict[str, Any]:
    """How an ensemble ended: converged, or with a violation left."""
    if violation is None:
        return {"converged": True, "worst_violation": 0.005, "stopped": "every cell is within alpha"}
    return {"converged": False, "worst_violation": violation, "stopped": "max_rounds reached"}


def _payoffs(where: str, pairs: dict[str, Pair], foresight: float, error: float) -> list[PolicyPayoff]:
    base = pairs[BEST_INITIAL][1]
    payoffs = [PolicyPayoff(where, FORESIGHT, np.nan, foresight, np.nan, np.nan, 100.0)]
    for policy, (promised, realised) in pairs.items():
        way = 100 * (realised - base) / (foresight - base)
        payoffs.append(PolicyPayoff(where, policy, promised, realised, promised - realised, error, way))
    return payoffs


def _curves(rng: np.random.Generator, members: tuple[str, ...], looks: int) -> pd.DataFrame:
    columns = {
        f"{name}, {what}": rng.normal(5, 2, size=looks) for name in PAPER_ENSEMBLES for what in ("promised", "realised")
    }
    columns |= {f"{member}, realised": rng.normal(3, 2, size=looks) for member in members}
    shares = rng.dirichlet(np.ones(len(members)), size=looks)
    columns |= {f"{member}, chosen": share for member, share in zip(members, shares.T, strict=True)}
    return pd.DataFrame({"round": np.arange(looks) * 10, **columns})
