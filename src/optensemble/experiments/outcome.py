"""Outcome of a run: everything that tables and figures need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd

from optensemble._core.arrays import Floats

IN_SAMPLE, FRESH = "in sample", "fresh rows"
WHITE_BOX_ENSEMBLE, BLACK_BOX_ENSEMBLE = "white box", "black box"
FORESIGHT, BEST_INITIAL = "foresight", "best initial policy"
AVERAGE_FIRST, RIDGE_STACKING = "average, then optimise", "ridge stacking"
UNCORRECTED = "white box, uncorrected"
DECISION_ENSEMBLE = "DecisionEnsemble"
PAPER_ENSEMBLES = (WHITE_BOX_ENSEMBLE, BLACK_BOX_ENSEMBLE)
POLICIES = (
    FORESIGHT,
    BEST_INITIAL,
    AVERAGE_FIRST,
    RIDGE_STACKING,
    UNCORRECTED,
    WHITE_BOX_ENSEMBLE,
    BLACK_BOX_ENSEMBLE,
    DECISION_ENSEMBLE,
)


@dataclass(frozen=True)
class PolicyPayoff:
    """Mean payoff per row of one policy, ``where`` being :data:`IN_SAMPLE` or :data:`FRESH`.

    ``gap`` is promised − realised, and ``gap_error`` half the width of its 95 % interval. ``way`` is the normalised
    payoff in percent: 0 for the best initial policy, 100 for foresight. What foresight promises is NaN.
    """

    where: str
    policy: str
    promised: float
    realised: float
    gap: float
    gap_error: float
    way: float


@dataclass(frozen=True)
class PolicyCost:
    """Cost of fitting one policy; what does not apply is None or NaN.

    ``avoided`` are the row-solves that solving every row in every round would have needed on top. Only white box and
    black box have rounds, converge or not, have a worst violation left and a reason why they ``stopped``.
    """

    policy: str
    rounds: int | None = None
    row_solves: int | None = None
    avoided: int | None = None
    seconds: float = np.nan
    converged: bool | None = None
    worst_violation: float = np.nan
    stopped: str | None = None


@dataclass(frozen=True)
class PolicyGain:
    """Gain of DecisionEnsemble over one policy; ``gain_error`` is half the 95 % interval of paired differences."""

    policy: str
    gain: float
    gain_error: float


@dataclass(frozen=True)
class DecisionAudit:
    """Audit of DecisionEnsemble on the fresh rows.

    Attributes
    ----------
    low, high, kept
        The promised 95 % interval of the mean payoff, and whether the realised mean lies in it.
    gains
        The gain over every policy but foresight.
    way_error
        Half the width of the 95 % interval of its normalised payoff, :attr:`PolicyPayoff.way`.
    verdict, finding
        The sentences of the audit and of the leaderboard.
    """

    low: float
    high: float
    kept: bool
    gains: tuple[PolicyGain, ...]
    way_error: float
    verdict: str
    finding: str

    def gain_over(self, policy: str) -> PolicyGain:
        """Return the comparison with one policy."""
        return _entry_of(self.gains, policy)


@dataclass(frozen=True)
class Outcome:
    """Outcome of one experiment.

    Attributes
    ----------
    name, note, members
        Those of the experiment.
    best
        The member whose policy is the best initial policy.
    payoffs
        The payoff of each of :data:`POLICIES`, in sample and on fresh rows. White box uncorrected is white box before
        the first round.
    costs
        The cost of each policy that is fitted.
    curves
        In sample and on fresh rows, a frame with a row for each recorded round: promised and realised payoff of both
        ensembles; of white box also each member's payoff and the share of rows for which it is chosen.
    disagreement
        Of shape (recorded rounds, rows): the variance between the actions of white box's members in sample, sorted.
    audit
        The audit of DecisionEnsemble on the fresh rows.
    """

    name: str
    note: str
    members: list[str]
    best: str
    payoffs: tuple[PolicyPayoff, ...]
    costs: tuple[PolicyCost, ...]
    curves: dict[str, pd.DataFrame]
    disagreement: Floats
    audit: DecisionAudit

    def payoff(self, where: str, policy: str) -> PolicyPayoff:
        """Return the payoff of one policy on one kind of rows."""
        return _entry_of([payoff for payoff in self.payoffs if payoff.where == where], policy)

    def has_cost(self, policy: str) -> bool:
        """Return whether a policy is fitted."""
        return any(cost.policy == policy for cost in self.costs)

    def cost(self, policy: str) -> PolicyCost:
        """Return the cost of fitting a policy."""
        return _entry_of(self.costs, policy)

    def promised_way(self, where: str, policy: str) -> float:
        """Return the promised payoff, normalised like :attr:`PolicyPayoff.way`."""
        payoff, best, most = (self.payoff(where, each) for each in (policy, BEST_INITIAL, FORESIGHT))
        return _normalise(payoff.promised, best.realised, most.realised)


_Entry = TypeVar("_Entry", PolicyPayoff, PolicyCost, PolicyGain)


def _entry_of(entries: Sequence[_Entry], policy: str) -> _Entry:
    for entry in entries:
        if entry.policy == policy:
            return entry
    raise LookupError(f"no numbers of {policy}")


def curve_columns(members: list[str]) -> list[str]:
    """Return the columns of :attr:`Outcome.curves`."""
    ensembles = [f"{name}, {what}" for name in PAPER_ENSEMBLES for what in ("promised", "realised")]
    return ["round", *ensembles, *(f"{member}, {what}" for what in ("realised", "chosen") for member in members)]


def policy_payoffs(where: str, answers: dict[str, tuple[Floats, Floats]], foresight: Floats) -> list[PolicyPayoff]:
    """Return the payoffs on one kind of rows, from payoffs promised and realised per row."""
    best, most = float(answers[BEST_INITIAL][1].mean()), float(foresight.mean())
    payoffs = [PolicyPayoff(where, FORESIGHT, np.nan, most, np.nan, np.nan, 100.0)]
    for policy, (promised, realised) in answers.items():
        gap = promised - realised
        payoffs.append(
            PolicyPayoff(
                where=where,
                policy=policy,
                promised=float(promised.mean()),
                realised=float(realised.mean()),
                gap=float(gap.mean()),
                gap_error=half_width(gap),
                way=_normalise(realised.mean(), best, most),
            )
        )
    return payoffs


def half_width(values: Floats) -> float:
    """Return half the width of the 95 % interval of a mean."""
    return float(1.96 * values.std(ddof=1) / np.sqrt(len(values)))


def way_error(payoff: Floats, best: Floats, most: Floats) -> float:
    """Return half the width of the 95 % interval of a normalised payoff, a ratio of two means over the same rows."""
    way, whole = _normalise(payoff.mean(), best.mean(), most.mean()) / 100, float((most - best).mean())
    # delta method: a ratio is off by as much as the mean of what its numerator is off, over the denominator
    return 100 * half_width(payoff - best - way * (most - best)) / whole if whole > 0 else np.nan


def _normalise(payoff: float, best: float, most: float) -> float:
    return float(100 * (payoff - best) / (most - best)) if most > best else np.nan


def debiasing_seconds(outcomes: Sequence[Outcome]) -> float:
    """Return how long debiasing took in total, with both algorithms."""
    return float(sum(outcome.cost(name).seconds for outcome in outcomes for name in PAPER_ENSEMBLES))
