"""A quadratic cost over portfolios, by active sets."""

from __future__ import annotations

from optensemble._core.arrays import Floats
from optensemble.feasible._base import FeasibleSet
from optensemble.feasible._solvers.known_cost.charges import Charges
from optensemble.feasible._solvers.risk_budget.cone import PortfolioRows
from optensemble.feasible._solvers.risk_budget.mean_variance import MeanVariance


class TradeOff:
    """Maximise ``c·a - gamma a'Qa`` over weights that sum to 1, with caps and sectors."""

    name = "mean-variance"

    def __init__(self, Q: Floats, rows: PortfolioRows) -> None:
        self.solver = MeanVariance(Q, rows)

    def solve(self, omega: FeasibleSet, C: Floats, charges: Charges, hint: Floats | None) -> Floats:
        """Return the best action of each row; C is less the linear cost."""
        return self.solver.argmax(C, charges.gamma, hint)
