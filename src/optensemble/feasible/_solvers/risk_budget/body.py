"""What a set of portfolios is without its limit of variance: constraints, the least variance, and the solvers."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.kernel import Kernel
from optensemble.feasible._solvers.highs import LinearProgram
from optensemble.feasible._solvers.risk_budget.cone import PortfolioRows, least_variance, least_variance_face
from optensemble.feasible._solvers.risk_budget.critical_line import line_kernel
from optensemble.feasible._solvers.risk_budget.portfolio import Packed, guess_kernel, pack_portfolio
from optensemble.feasible._solvers.risk_budget.supports import least_variance_on_simplex, supports_kernel

_CLOSED_FORM = 8
"""Up to this dimension all supports (255 of them) are known in closed form."""


class Body:
    """Portfolios within linear constraints; limits of their variance come later, one for all rows or one for each.

    Attributes
    ----------
    plain
        Whether there are neither caps nor sectors.
    small
        Whether the closed form over all supports is used.
    centre, least_variance
        The portfolio of least variance, and its variance.
    """

    def __init__(self, covariance: Floats, rows: PortfolioRows) -> None:
        self.covariance, self.rows = covariance, rows
        self.plain = len(rows.b) == 1 and bool((rows.upper >= 1.0).all())
        self.small = len(covariance) <= _CLOSED_FORM and self.plain
        self.centre, self.least_variance = (
            least_variance_on_simplex(covariance) if self.small else least_variance(covariance, rows)
        )

    @cached_property
    def packed(self) -> Packed:
        """The data of the kernels that guess and that follow the critical line."""
        return pack_portfolio(self.covariance, self.centre, self.rows)

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel that comes first, without a limit."""
        if self.small:
            return supports_kernel(self.covariance, self.centre)
        return guess_kernel(self.packed) if self.packed.has_start else self.line

    @cached_property
    def line(self) -> Kernel:
        """The kernel for rows whose active set is not proven at once; compiled when there is such a row."""
        return line_kernel(self.packed)

    @cached_property
    def face(self) -> LinearProgram:
        """All portfolios of least variance: what a limit of just that leaves."""
        return least_variance_face(self.covariance, self.centre, self.rows)

    def own(self, limit: Floats, slack: Floats) -> Floats:
        """Return what the kernels need to know of limits, a row each."""
        return np.column_stack([limit, limit - self.least_variance <= slack])
