"""What a run finds of one experiment: everything that tables and figures need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from optensemble._core.arrays import Floats

IN_SAMPLE, FRESH = "in sample", "fresh rows"
WHITE, BLACK = "white box", "black box"
FORESIGHT, BEST, AVERAGE, RIDGE = "foresight", "best initial policy", "average, then optimise", "ridge stacking"
UNCORRECTED = "white box, uncorrected"
HONEST = "DecisionEnsemble"
POLICIES = (FORESIGHT, BEST, AVERAGE, RIDGE, UNCORRECTED, WHITE, BLACK, HONEST)

MEASURES = ("promised", "realised", "gap", "gap_error", "way")
_COUNTS = ("rounds", "row_solves", "avoided")


@dataclass(frozen=True)
class Judgement:
    """What the fresh rows say of DecisionEnsemble.

    Attributes
    ----------
    low, high, kept
        The 95 % interval that it promised the average payoff to lie in, before labels were seen; whether it does.
    gains
        A row for each policy but foresight: by how much it earns more than that one, and ``gain_error``, half of the
        95 % interval of differences row by row.
    way_error
        Half of the 95 % interval of its ``way`` in :attr:`Outcome.payoffs`.
    verdict, finding
        The audit's sentence, and the leaderboard's.
    """

    low: float
    high: float
    kept: bool
    gains: pd.DataFrame
    way_error: float
    verdict: str
    finding: str

    def gain(self, policy: str) -> Any:
        """Return the row of the comparison with one policy."""
        return self.gains[self.gains["policy"] == policy].iloc[0]


@dataclass(frozen=True)
class Outcome:
    """Everything that tables and figures need of one experiment.

    Attributes
    ----------
    name, note, members
        Of the experiment.
    best
        The member whose own policy is the best initial policy.
    payoffs
        A row for each of :data:`IN_SAMPLE` and :data:`FRESH` and each of :data:`POLICIES`: promised and realised
        payoff, ``gap`` and ``gap_error`` (half of its 95 % interval), and ``way``, the percentage of the way from the
        best initial policy to foresight. White box uncorrected is what it does before the first round.
    costs
        Of each policy that had to learn something: rounds, row-solves, row-solves that were not needed, seconds; of
        ensembles also whether they converged, the worst violation left, and why they stopped.
    curves
        On both kinds of rows, a frame with a row for each look at the rounds: promised and realised payoff of both
        ensembles; of white box also each member's payoff, and on what share of the rows it is chosen.
    disagreement
        Of shape (looks, rows): the variance between white box's members' actions on the rows debiased on, sorted.
    judgement
        What the fresh rows say of DecisionEnsemble.
    """

    name: str
    note: str
    members: list[str]
    best: str
    payoffs: pd.DataFrame
    costs: pd.DataFrame
    curves: dict[str, pd.DataFrame]
    disagreement: Floats
    judgement: Judgement

    def payoff(self, where: str, policy: str) -> Any:
        """Return the row of one policy on one kind of rows."""
        chosen = (self.payoffs["where"] == where) & (self.payoffs["policy"] == policy)
        return self.payoffs[chosen].iloc[0]

    def cost(self, policy: str) -> Any:
        """Return the row of what a policy cost, or None if it had nothing to learn."""
        rows = self.costs[self.costs["policy"] == policy]
        return rows.iloc[0] if len(rows) else None

    def share(self, where: str, policy: str, what: str) -> float:
        """Return a payoff as a percentage of the way from the best initial policy to foresight."""
        line, best, most = (self.payoff(where, each) for each in (policy, BEST, FORESIGHT))
        return _way(line[what], best.realised, most.realised)


def curve_columns(members: list[str]) -> list[str]:
    """Return the columns of :attr:`Outcome.curves`."""
    ensembles = [f"{name}, {what}" for name in (WHITE, BLACK) for what in ("promised", "realised")]
    return ["round", *ensembles, *(f"{member}, {what}" for what in ("realised", "chosen") for member in members)]


def payoffs_frame(where: str, answers: dict[str, tuple[Floats, Floats]], foresight: Floats) -> pd.DataFrame:
    """Return the part of :attr:`Outcome.payoffs` on one kind of rows, from payoffs promised and realised per row."""
    best, most = answers[BEST][1].mean(), foresight.mean()
    lines: list[dict[str, Any]] = [{"where": where, "policy": FORESIGHT, "realised": most, "way": 100.0}]
    for policy, (promised, realised) in answers.items():
        gap = promised - realised
        lines.append(
            {
                "where": where,
                "policy": policy,
                "promised": promised.mean(),
                "realised": realised.mean(),
                "gap": gap.mean(),
                "gap_error": half_width(gap),
                "way": _way(realised.mean(), best, most),
            }
        )
    return pd.DataFrame(lines, columns=["where", "policy", *MEASURES])


def half_width(values: Floats) -> float:
    """Return half of the 95 % interval of a mean."""
    return float(1.96 * values.std(ddof=1) / np.sqrt(len(values)))


def way_error(payoff: Floats, best: Floats, most: Floats) -> float:
    """Return half of the 95 % interval of the way, a ratio of two means over the same rows."""
    way, whole = _way(payoff.mean(), best.mean(), most.mean()) / 100, float((most - best).mean())
    return 100 * half_width(payoff - best - way * (most - best)) / whole if whole > 0 else np.nan


def _way(payoff: float, best: float, most: float) -> float:
    return float(100 * (payoff - best) / (most - best)) if most > best else np.nan


def debiasing_seconds(outcomes: Sequence[Outcome]) -> float:
    """Return how long debiasing took in all: both algorithms, all rounds."""
    return float(sum(outcome.cost(name).seconds for outcome in outcomes for name in (WHITE, BLACK)))


def costs_frame(costs: list[dict[str, Any]]) -> pd.DataFrame:
    """Return :attr:`Outcome.costs` from its rows, where a count can be missing and is still a whole number."""
    columns = ["policy", *_COUNTS, "seconds", "converged", "worst_violation", "stopped"]
    kinds = {**dict.fromkeys(_COUNTS, "Int64"), "converged": "boolean"}
    return pd.DataFrame(costs, columns=columns).astype(kinds)
