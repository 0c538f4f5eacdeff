"""The one-standard-error test: a change is made only if it pays by enough paired standard errors, out of fold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optensemble._core.arrays import Floats
from optensemble.stats.blocks import UnitSums
from optensemble.stats.sampling import Sampling

NO_DIFFERENCE = 1e-10
"""Relative to the larger payoff: a smaller difference is rounding."""


@dataclass(frozen=True)
class PairedTest:
    """A mean gain beside its standard error, and the number of standard errors it must exceed.

    >>> PairedTest(gain=2.0, error=0.5, needed=2.0).passed
    True
    """

    gain: float
    error: float
    needed: float = 1.0

    @property
    def passed(self) -> bool:
        """Whether the gain is large enough."""
        return self.gain > self.needed * self.error

    def __str__(self) -> str:
        if self.gain <= 0:
            return "the out-of-fold loss did not fall"
        ratio = self.gain / self.error if self.error > 0 else 0.0
        return f"the out-of-fold loss fell by {ratio:.1f} standard errors; more than {self.needed:g} are needed"


def paired_test(gains: Floats, sampling: Sampling, needed: float = 1.0) -> PairedTest:
    """Test the mean of row-by-row gains, allowing for the dependence between rows."""
    return PairedTest(*sampling.mean_and_error(gains), needed)


def loss_test(gains: UnitSums) -> PairedTest:
    """Test whether a loss falls: by one standard error, or by two in time order, where tomorrow may differ."""
    return PairedTest(float(gains.means[0]), float(gains.errors[0]), 1.0 if gains.blocks is None else 2.0)


def best_of(gains: Floats, sampling: Sampling) -> int:
    """Return the candidate with the largest mean gain over the first if it passes the test, otherwise the first.

    ``gains`` has shape (candidates, n), and its first row is zero.
    """
    best = int(gains.mean(axis=1).argmax())
    return best if paired_test(gains[best], sampling).passed else 0


def paired_difference(left: Floats, right: Floats, size: float | None = None) -> Floats:
    """Return ``left − right`` row by row, with rounding errors set to zero; ``size`` is that of the largest payoff."""
    difference = left - right
    size = max(float(np.abs(left).max()), float(np.abs(right).max())) if size is None else size
    return np.where(np.abs(difference) <= NO_DIFFERENCE * size, 0.0, difference)
