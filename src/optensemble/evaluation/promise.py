"""The promise: the average payoff on rows whose labels are not yet known, with an interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

import numpy as np

from optensemble._core.number_format import format_by_error
from optensemble.evaluation.payoff_summary import Assessments

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Promise:
    """The average payoff over some rows, as promised before their labels are known.

    Attributes
    ----------
    mean, low, high
        The promise and its 95 % interval for the average payoff that will be realised on these very rows, in the
        user's units and sense.
    rows
        How many rows.
    rely_on
        The limit to rely on: the lower one of a payoff, the upper one of a cost.
    unlike
        Whether these rows are unlike the fitted ones: their self-assessments spread much wider, or lie elsewhere.
    time_ordered
        Whether the interval allows for a mean that wanders with time.
    advantage
        The same for the advantage over the mean member, which is known much better than the level where members are
        policies without predictions; None where that was not recorded.
    note
        Reservations in words; empty if there are none.
    """

    mean: float
    low: float
    high: float
    rows: int
    rely_on: float
    unlike: bool = False
    time_ordered: bool = False
    advantage: Promise | None = None
    note: str = ""

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the promised mean with its interval, and the limit to rely on where rows are in time order.

        Parameters
        ----------
        ax
            Axes of matplotlib to draw into; by default those of a new figure of ``matplotlib.pyplot``.

        Returns
        -------
        The axes drawn into.
        """
        from optensemble.report.plots import plot_promise

        return plot_promise(self, ax)

    def _repr_html_(self) -> str:
        from optensemble.report.notebook import promise_html

        return promise_html(self)

    def __str__(self) -> str:
        half = (self.high - self.low) / 2
        mean, low, high, rely_on, _ = format_by_error([self.mean, self.low, self.high, self.rely_on, half])
        relied = f"; rely on {rely_on}" if self.time_ordered and isfinite(self.rely_on) else ""
        note = f" ({self.note})" if self.note else ""
        rows = f"{self.rows:,} row{'s' if self.rows != 1 else ''}"
        return f"{mean} ({self._between(low, high)}{relied}) on average over {rows}{note}"

    def _between(self, low: str, high: str) -> str:
        """Return the limits in words, where there are any."""
        if isfinite(self.low) and isfinite(self.high):
            return f"95 %: {low} to {high}"
        if isfinite(self.low):
            return f"95 %: at least {low}"
        return f"95 %: at most {high}" if isfinite(self.high) else "no limits"


def unknown_promise(assessed: Assessments, missing: str, sign: float, *, time_ordered: bool) -> Promise:
    """Return a promise without limits, where no out-of-fold record can back it; ``missing`` says why."""
    return Promise(
        mean=assessed.mean,
        low=-np.inf,
        high=np.inf,
        rows=assessed.count,
        rely_on=-sign * np.inf,
        time_ordered=time_ordered,
        note=f"{missing}: nothing is known of other rows. Judge it by audit(X, Y) on rows of known labels",
    )
