"""Typical decisions: rows at the quartiles of the payoff, and how to draw what was decided in them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble.exceptions import OptEnsembleError
from optensemble.feasible import FeasibleSet
from optensemble.feasible.shortest_path import ShortestPath
from optensemble.feasible.simplex import Simplex
from optensemble.feasible.with_cost import WithCost
from optensemble.report.data import ReportData

QUARTILES = (0.25, 0.5, 0.75)
KINDS = ("weak", "ordinary", "good")
"""What a row at each quartile is called, from the worst to the best."""


@dataclass(frozen=True)
class TypicalDecision:
    """One row: what was decided, promised and realised in it.

    ``low`` and ``high`` are the limits of the row's own payoff; ``foresight`` is what its best action would have
    brought, None if not known. ``omega`` is the feasible set of the row.
    """

    row: int
    kind: str
    name: str
    action: Floats
    promised: float
    low: float
    high: float
    realised: float
    foresight: float | None
    followed: str
    omega: FeasibleSet

    @property
    def path_set(self) -> ShortestPath | None:
        """The graph, if the decision is a path on one."""
        return self.omega if isinstance(self.omega, ShortestPath) else None

    @property
    def is_share(self) -> bool:
        """Whether the action shares out a whole, so that it is drawn in percent."""
        return isinstance(self.omega, Simplex) and self.action.sum() > 0


def typical_rows(realised: Floats, sign: float = 1.0) -> Indices:
    """Return the rows whose payoff is nearest to the quartiles, from the worst to the best.

    Of rows that are equally near, the first; no row is there twice. Of costs the worst is the dearest.

    >>> typical_rows(np.array([3.0, 1.0, 2.0, 4.0, 5.0]))
    array([2, 0, 3])
    """
    found = list[int]()
    for level in np.quantile(sign * realised, QUARTILES):
        away = np.abs(sign * realised - level)
        away[found] = np.inf
        if len(found) < len(realised):
            found.append(int(away.argmin()))
    return np.array(found, dtype=np.int64)


def typical_decisions(data: ReportData) -> list[TypicalDecision]:
    """Return the decisions at the quartiles of the payoff; fewer if there are fewer rows."""
    answer, names = data.answer, data.ensemble.names_
    return [
        TypicalDecision(
            row=row,
            kind=kind,
            name=data.row_name(row),
            action=answer.actions[row],
            promised=float(answer.promised[row]),
            low=float(answer.low[row]),
            high=float(answer.high[row]),
            realised=float(data.realised[row]),
            foresight=None if data.foresight is None else float(data.foresight[row]),
            followed=names[answer.chosen[row]],
            omega=_set_of_row(data, row),
        )
        for row, kind in zip(typical_rows(data.realised, data.sign).tolist(), KINDS, strict=False)
    ]


def _set_of_row(data: ReportData, row: int) -> FeasibleSet:
    """Return the set of a row, without its costs; that of all rows where the row has none of its own."""
    omega = data.ensemble.feasible_ if data.omega is None else data.omega
    try:
        own = omega.of_row(row)
    except OptEnsembleError:  # a row that took the fallback action
        return omega
    return own.omega if isinstance(own, WithCost) else own
