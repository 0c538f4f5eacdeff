"""A known cost of acting, row by row: ``linear·a + gamma * a'Qa + rate·|a - held|``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats


class Charges(NamedTuple):
    """The parts of the cost, of every row or, with a first dimension of 1, of all rows alike.

    Parts that are not charged are 0; without a quadratic part ``Q`` is empty.
    """

    linear: Floats
    gamma: Floats
    Q: Floats
    held: Floats
    rate: Floats

    def of(self, actions: Floats) -> Floats:
        """Return the cost of an action in each row. Sums run in one order, whatever the batch."""
        found = np.empty(len(actions))
        linear, gamma, Q, held, rate = (np.ascontiguousarray(part) for part in self)
        add_up(np.ascontiguousarray(actions), linear, gamma, Q, held, rate, found)
        return found

    def as_linear(self) -> Floats:
        """Return what a unit of each coordinate costs, for actions of zeros and ones; not what nothing costs.

        For those ``|a - h| = |h| + a (|1 - h| - |h|)`` and ``a² = a``; Q must be diagonal.
        """
        squares = self.gamma[:, None] * np.diag(self.Q) if self.Q.size else 0.0
        moved = self.rate * (np.abs(1.0 - self.held) - np.abs(self.held))
        return np.asarray(self.linear + moved + squares, dtype=np.float64)

    def own(self, n: int) -> tuple[Floats, Floats, Floats]:
        """Return gamma, held and rate of each of n rows."""
        d = self.held.shape[1]
        gamma = np.broadcast_to(self.gamma, (n,))
        return gamma, np.broadcast_to(self.held, (n, d)), np.broadcast_to(self.rate, (n, d))


def side_by_side(*parts: Floats) -> Floats:
    """Lay out parameters of rows as kernels take them, a row each; NumPy would keep the order of broadcast columns."""
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


@njit(cache=True, nogil=True)
def add_up(actions, linear, gamma, Q, held, rate, found):  # type: ignore[no-untyped-def]
    """Write the cost of each action."""
    n, d = actions.shape
    for i in range(n):
        a = actions[i]
        unit, at, fee = linear[min(i, len(linear) - 1)], held[min(i, len(held) - 1)], rate[min(i, len(rate) - 1)]
        total = squares = 0.0
        for j in range(d):
            total += unit[j] * a[j] + fee[j] * abs(a[j] - at[j])
        for j in range(len(Q)):
            product = 0.0
            for k in range(d):
                product += Q[j, k] * a[k]
            squares += a[j] * product
        found[i] = total + gamma[min(i, len(gamma) - 1)] * squares
