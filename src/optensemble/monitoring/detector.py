"""A detector of changes in the mean of errors, which may be asked after every row (Shiryaev and Roberts; e-processes).

For all ``x``, and ``μ ≤ 0``, ``exp(x − x²/6) ≤ 1 + B·(x − μ) + (x − μ)²/3``, with ``B = 1 + 2μ/3`` where ``μ > −3`` and
else 0. So if the conditional mean of ``y`` is at most 0 and its variance at most ``v``, ``E = exp(λy − λ²(y² + 2v)/6)``
is at most 1 on average, whatever the distribution. The sum, over
all rows at which a change may have begun, of the products of ``E`` since then exceeds ``A`` within ``n`` rows with a
probability of at most ``n/A``. Five sizes of change share this sum. Where rows depend on each other, terms of second
order are multiplied by the ratio of the long-run variance to the variance, and ``λ`` is divided by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats, Indices
from optensemble._core.kernel import entry

SIZES = np.array([0.1, 0.2, 0.4, 0.8, 1.6])
"""The sizes of change that are looked for, in standard deviations."""

MOST_EVIDENCE = 1e100
"""Evidence is not counted beyond that."""

LARGEST_ERROR = 1e70
"""Errors are taken for no larger, in standard deviations: their squares must not overflow."""

_FORGOTTEN = 250.0  # rows: the memory of the running variance

LEAST_VARIANCE = 1.0
"""Of that of the scale: between rare large errors the running variance would fall below what is true."""

KINDS = ("broken", "drifted")
"""What an alarm may be, the stronger one first."""

DIRECTIONS = {"less": -1.0, "more": 1.0}
"""Which way payoffs may be off, and the sign of the errors that show it."""


class Terms(NamedTuple):
    """What a detector looks for: signs of errors, margins of kinds of alarms, dependence, and the threshold."""

    signs: Floats
    margins: Floats
    long_run: float
    threshold: float


class Detector(NamedTuple):
    """The state of a detector: arrays by kind, direction and size of change; rows are numbered by the caller.

    Attributes
    ----------
    variance
        The running second moment of errors, a single number, never below that of the scale.
    evidence
        The evidence for each size of change.
    rising
        The logarithm of the evidence since the row where it began to rise, never negative.
    began
        That row.
    raised
        The row of the alarm of each kind and direction, and of its onset; −1 where there is none.
    strength
        The evidence at the alarm.
    """

    variance: Floats
    evidence: Floats
    rising: Floats
    began: Indices
    raised: Indices
    strength: Floats

    @classmethod
    def fresh(cls, directions: int, row: int) -> Self:
        """Return a detector that has seen nothing before this row."""
        shape = len(KINDS), directions
        sizes = *shape, len(SIZES)
        return cls(
            np.ones(1),
            np.zeros(sizes),
            np.zeros(sizes),
            np.full(sizes, row, dtype=np.int64),
            np.full((*shape, 2), -1, dtype=np.int64),
            np.zeros(shape),
        )

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Return a detector with a copy of these arrays, by their names."""
        return cls(*(arrays[name].copy() for name in cls._fields))

    def look(self, errors: Floats, first: int, terms: Terms) -> tuple[Self, Floats]:
        """Look at errors in their order, the first in row ``first``.

        Errors are in standard deviations.

        Returns
        -------
        The detector that has seen them, and the evidence of drift after each row, with a column for each direction.
        """
        shown = np.empty((len(errors), len(terms.signs)))
        after = self.of_arrays(self._asdict())
        _look(np.clip(errors, -LARGEST_ERROR, LARGEST_ERROR), first, SIZES, *terms, *after, shown)
        return after, shown


@entry
def _look(
    errors: Floats,
    first: int,
    sizes: Floats,
    signs: Floats,
    margins: Floats,
    long_run: float,
    threshold: float,
    variance: Floats,
    evidence: Floats,
    rising: Floats,
    began: Indices,
    raised: Indices,
    strength: Floats,
    shown: Floats,
) -> None:
    kinds, directions, count = evidence.shape
    v = variance[0]
    for i in range(len(errors)):
        x, row = errors[i], first + i
        # λ is in units of the spread of the rows before: otherwise a huge change would not be seen
        unit = 1.0 / (long_run * np.sqrt(v))
        for kind in range(kinds):
            if margins[kind] == np.inf:
                continue
            for way in range(directions):
                y = signs[way] * x - margins[kind]
                curvature = long_run * (y * y + 2.0 * v) / 6.0
                total, largest, begin = 0.0, -1.0, row
                for k in range(count):
                    rate = sizes[k] * unit
                    gain = rate * (y - rate * curvature)
                    found = min((evidence[kind, way, k] + 1.0 / count) * np.exp(gain), MOST_EVIDENCE)
                    evidence[kind, way, k] = found
                    height = rising[kind, way, k]
                    if height == 0.0:
                        began[kind, way, k] = row
                    rising[kind, way, k] = max(height + gain, 0.0)
                    if found > largest:
                        largest, begin = found, began[kind, way, k]
                    total += found
                if total >= threshold and raised[kind, way, 0] < 0:
                    raised[kind, way, 0], raised[kind, way, 1] = row, begin
                    strength[kind, way] = total
                if kind == kinds - 1:  # drift
                    shown[i, way] = total
        v = max(LEAST_VARIANCE, v + (x * x - v) / _FORGOTTEN)
    variance[0] = v
