"""Least squares on frozen cells: the limit of Algorithm 1 in one step."""

from __future__ import annotations

import numpy as np

from optensemble._core.arrays import Floats
from optensemble.multicalibration import cell_tables
from optensemble.multicalibration.cell_tables import CellTable, Correction, overlaps_times, with_overlaps
from optensemble.multicalibration.events import Cells


def least_squares(cells: Cells, residual: Floats, table: CellTable, shrinkage: float = 0.0) -> Correction:
    """Solve ``(G + shrinkage·I) δ = H`` at once: the limit of Algorithm 1; without shrinkage the smallest ``δ``."""
    if len(table.kept) > cell_tables.TABLE_LIMIT:
        delta = _conjugate_gradients(cells, table, shrinkage)
        return _corrected(table, len(residual), delta, overlaps_times(cells, table, delta))
    return least_squares_table(with_overlaps(cells, table), len(residual), shrinkage)


def least_squares_table(table: CellTable, n: int, shrinkage: float = 0.0) -> Correction:
    """Solve the same equations from the table of ``n`` rows, overlaps included."""
    return _corrected(table, n, *table.smallest(shrinkage))


def _corrected(table: CellTable, n: int, delta: Floats, product: Floats) -> Correction:
    drop = float((delta * (2.0 * table.sums - product)).sum())
    return Correction(delta, 1, drop / n)


def _conjugate_gradients(cells: Cells, table: CellTable, shrinkage: float) -> Floats:
    """Solve the same equations without ever holding ``G``; from 0 the smallest solution is reached."""
    residual = table.sums
    delta, direction = np.zeros_like(residual), residual.copy()
    size = (residual**2).sum(axis=0)
    enough = 1e-13 * np.abs(residual).max()
    for _ in range(2 * len(table.kept)):
        product = overlaps_times(cells, table, direction) + shrinkage * direction
        curvature = (direction * product).sum(axis=0)
        step = np.divide(size, curvature, out=np.zeros_like(size), where=curvature > 0)
        delta += step * direction
        residual = residual - step * product
        if np.abs(residual).max() <= enough:
            break
        smaller = (residual**2).sum(axis=0)
        direction = residual + np.divide(smaller, size, out=np.zeros_like(size), where=size > 0) * direction
        size = smaller
    return delta
