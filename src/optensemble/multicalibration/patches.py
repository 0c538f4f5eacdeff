"""Patches and their log: the fitted model of the paper's algorithms."""

from __future__ import annotations

from dataclasses import dataclass, field

from optensemble._core.arrays import Floats, Indices
from optensemble.multicalibration.events import Layout


@dataclass(frozen=True)
class Patch:
    """The corrections ``delta[c]`` to the predictions of ``member`` on every row of cell ``cells[c]``; cells ascend.

    ``rows[c]`` is the number of fitting rows of the cell when that was learned; -1 where it is not known.
    """

    member: int
    cells: Indices
    delta: Floats
    rows: Indices


@dataclass(frozen=True)
class PatchLog:
    """All corrections in order; the patches of one round are made on the same cells, then rows are solved again."""

    layout: Layout
    rounds: list[tuple[Patch, ...]] = field(default_factory=list)
