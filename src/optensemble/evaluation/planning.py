"""Sample sizes: numbers in, numbers out.

``z(p)`` is the normal quantile. Intervals are 95 % intervals, and what is *detectable* is seen by them in four audits
of five. Rows are taken for independent: of rows that belong together, count the clusters, or the days.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt
from statistics import NormalDist
from typing import TypedDict, Unpack

import pandas as pd

from optensemble._core.validation import bucket_count, require_choice, require_number, require_options
from optensemble.stats.sample_size import LEARNING, MIN_CELL, MINIMUM_ROWS

__all__ = ["RowPlan", "plan"]


ACCESS = ["white", "black", "mixed"]

_z = NormalDist().inv_cdf
_SURE, _POWER = 0.975, 0.8


PROMISE, COMPARISON = "promise of the mean", "two candidates compared"
WHITE_BOX_CELLS, BLACK_BOX_CELLS = "white box cells", "black box cells"
"""The parts of the method."""


@dataclass(frozen=True)
class PlanPart:
    """A part of the method: ``n`` rows detect ``scale·√(1/n + used/n²)``, where ``used`` is what learning uses up.

    ``target`` is to be detected, with ``least`` rows at least. There are ``cells``, and ``shared`` of them divide
    the rows among them.
    """

    name: str
    of: str
    scale: float
    target: float | None = None
    least: int = MINIMUM_ROWS
    cells: int = 1
    shared: int = 1
    used: int = 0

    @property
    def needed(self) -> int:
        """The rows that this part needs."""
        if self.target is None:
            return self.least
        plain = (self.scale / self.target) ** 2
        return max(self.least, ceil((plain + sqrt(plain**2 + 4 * self.used * plain)) / 2))

    def detects(self, rows: int) -> float:
        """Return the size that so large a sample detects."""
        return self.scale * sqrt(1 / rows + self.used / rows**2)


@dataclass(frozen=True, eq=False, repr=False)
class RowPlan:
    """The rows that each part of the method needs, and what the rows there are can detect.

    Attributes
    ----------
    rows
        The rows there are, or else as many as all parts need.
    given
        Whether the rows were given.
    details
        The parts of the method.
    """

    rows: int
    given: bool
    details: tuple[PlanPart, ...]

    @cached_property
    def parts(self) -> pd.DataFrame:
        """The parts as a frame.

        The number of ``cells``; ``rows_per_cell`` if they are evenly filled; the rows ``needed``; whether there are
        ``enough``; the size that the rows there are ``detects``, and ``of`` what.
        """
        return pd.DataFrame(
            {
                "part": [part.name for part in self.details],
                "cells": [part.cells for part in self.details],
                "rows_per_cell": [self.rows / part.shared for part in self.details],
                "needed": [part.needed for part in self.details],
                "enough": [self.rows >= part.needed for part in self.details],
                "detects": [part.detects(self.rows) for part in self.details],
                "of": [part.of for part in self.details],
            }
        )

    @property
    def needed(self) -> int:
        """The rows that all parts need."""
        return max(part.needed for part in self.details)

    @property
    def enough(self) -> bool:
        """Whether there are enough rows for all parts."""
        return self.rows >= self.needed

    def __str__(self) -> str:
        lines = [self._sentence()]
        for part in self.details:
            size = part.detects(self.rows)
            lines.append(f"{part.name}: {part.needed:,} rows; {self.rows:,} show {part.of} of {size:.3g}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"RowPlan({self._sentence()!r})"

    def _repr_html_(self) -> str:
        from optensemble.report.notebook import plan_html

        return plan_html(self)

    def _sentence(self) -> str:
        if not self.given:
            return f"{self.needed:,} rows are enough"
        if self.enough:
            return f"{self.rows:,} rows are enough"
        short = [part.name for part in self.details if self.rows < part.needed]
        return f"{self.rows:,} rows are too few for: {', '.join(short)}"


class PlanTargets(TypedDict, total=False):
    """What is to be seen with the rows; see :func:`plan`."""

    payoff_noise: float | None
    accuracy: float | None
    alpha: float | None


def plan(
    k: int,
    d: int,
    bucket_width: float = 0.1,
    noise: float = 1.0,
    *,
    rows: int | None = None,
    access: str = "white",
    **targets: Unpack[PlanTargets],
) -> RowPlan:
    """Return how many rows each part of the method needs, and what the rows there are can detect.

    Parameters
    ----------
    k, d
        How many models or policies, and how many coordinates.
    bucket_width
        The width ``w`` of the level sets.
    noise
        The standard deviation ``σ`` of the labels around the predictions, in label units.
    rows
        How many rows there are; by default as many as all parts need.
    access
        ``"white"`` (models' predictions), ``"black"`` (policies' actions) or ``"mixed"`` (both).
    payoff_noise
        The standard deviation ``s`` of a row's payoff around its self-assessment. By default ``σ``, which is right for
        actions of length 1 and errors that are independent from coordinate to coordinate.
    accuracy
        How well the mean payoff is to be promised, and which difference between two candidates is to be detected.
    alpha
        Which violation of α-consistency is to be detected, in label units.

    Returns
    -------
    The plan. With ``n`` rows:

    - nothing goes with fewer than 100 rows;
    - the promise is right within ``z(0.975)·s·√(1/n + 50/n²)`` for many new rows (``m`` of them add their own ``1/m``);
    - two candidates differ detectably by ``(z(0.975) + z(0.8))·√2·s/√n``, about ``2.8·√2·s/√n``;
    - white box: ``k·d/w`` cells, ``d`` of them for each row, so that ``n·w/k`` rows are in each if they are evenly
      filled, and ``50·k/w`` rows are needed;
    - black box: ``(k + 1)·d/w`` cells, with ``n·w`` rows in each, so that ``50/w`` rows are needed;
    - a cell of ``r`` rows has a detectable bias of ``(z(1 − 0.025/m) + z(0.8))·σ/√r``, where ``m``, the number of cells
      times ``d``, is how many means are looked at together; times ``Pr[C]`` it is a violation.

    Examples
    --------
    >>> print(plan(k=3, d=4, noise=2.0, rows=600, accuracy=0.25))
    600 rows are too few for: two candidates compared, white box cells
    promise of the mean: 289 rows; 600 show a half-width of 0.167
    two candidates compared: 1,005 rows; 600 show a difference of 0.323
    white box cells: 1,500 rows; 600 show a bias of 2.11
    """
    for name, whole in (("k", k), ("d", d)):
        require_number(whole, name, at_least=1, whole=True)
    require_number(noise, "noise", above=0)
    require_choice(access, "access", ACCESS)
    require_options(targets, PlanTargets, "plan")
    for name, value in targets.items():
        if value is not None:
            require_number(value, name, above=0)
    payoff_noise, accuracy, alpha = targets.get("payoff_noise"), targets.get("accuracy"), targets.get("alpha")
    if rows is not None:
        require_number(rows, "rows", at_least=1, whole=True)
    s, count = noise if payoff_noise is None else payoff_noise, bucket_count(bucket_width)
    parts = [
        PlanPart(PROMISE, "a half-width", _z(_SURE) * s, accuracy, used=LEARNING),
        PlanPart(COMPARISON, "a difference", (_z(_SURE) + _z(_POWER)) * sqrt(2) * s, accuracy),
    ]
    if access != "black":
        parts.append(_cell_part(WHITE_BOX_CELLS, k * d * count, k * count, d, noise, alpha))
    if access != "white":
        parts.append(_cell_part(BLACK_BOX_CELLS, (k + 1) * d * count, count, d, noise, alpha))
    there = max(part.needed for part in parts) if rows is None else int(rows)
    return RowPlan(there, rows is not None, tuple(parts))


def _cell_part(name: str, cells: int, shared: int, d: int, noise: float, alpha: float | None) -> PlanPart:
    """Cells that divide the rows evenly, so that ``Pr[C]`` is ``1/shared``, and a bias of α/Pr[C] violates α."""
    errors = _z(1 - (1 - _SURE) / (cells * d)) + _z(_POWER)
    target = None if alpha is None else alpha * shared
    least = max(MINIMUM_ROWS, MIN_CELL * shared)
    return PlanPart(name, "a bias", errors * noise * sqrt(shared), target, least, cells, shared)
