"""Totals over the period: promised, realised, and what foresight would have brought."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optensemble.report.data import ReportData


@dataclass(frozen=True)
class PeriodTotals:
    """Sums over all rows of a report, each row counted as often as its weight says.

    Attributes
    ----------
    rows
        The number of rows.
    weight
        The number of rows that they count for; ``rows`` without weights.
    promised, low, high
        The promised total with its 95 % interval; ±inf without one.
    realised
        The payoff or cost in all.
    foresight
        The same for the best decisions in hindsight, with the labels of each row known; None if not solved.
    cost
        Whether these are costs.
    """

    rows: int
    weight: float
    promised: float
    low: float
    high: float
    realised: float
    foresight: float | None
    cost: bool

    @property
    def share(self) -> float | None:
        """The share of foresight reached: realised/foresight of payoffs, foresight/realised of costs.

        None where there is no share: if foresight itself has no gain, or decisions lost what foresight would have won.

        >>> PeriodTotals(2, 2, 9, 8, 10, realised=9, foresight=12, cost=False).share
        0.75
        >>> PeriodTotals(2, 2, 15, 12, 18, realised=16, foresight=12, cost=True).share
        0.75
        >>> PeriodTotals(2, 2, 1, 0, 2, realised=-1, foresight=12, cost=False).share is None
        True
        """
        if self.foresight is None:
            return None
        whole, reached = (self.realised, self.foresight) if self.cost else (self.foresight, self.realised)
        return reached / whole if whole > 0 and reached >= 0 and self.foresight > 0 else None

    @property
    def behind(self) -> float | None:
        """What foresight would have brought more, or cost less; None if that is not known."""
        if self.foresight is None:
            return None
        return self.realised - self.foresight if self.cost else self.foresight - self.realised


def period_totals(data: ReportData) -> PeriodTotals:
    """Return the totals: means of the audit times the rows, as often as they count."""
    mean, weight = data.audit.totals, data.weight
    foresight = data.foresight
    return PeriodTotals(
        rows=data.rows,
        weight=weight,
        promised=mean.promise * weight,
        low=mean.low * weight,
        high=mean.high * weight,
        realised=mean.realised * weight,
        foresight=None if foresight is None else float(np.average(foresight, weights=data.weights)) * weight,
        cost=data.sense == "min",
    )
