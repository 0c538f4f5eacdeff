"""Least squares on frozen cells: the limit of Algorithm 1 in one step."""

from __future__ import annotations

import numpy as np

from optensemble._core.arrays import Floats
from optensemble._core.threads import one_blas_thread
from optensemble.multicalibration import cell_tables as _tables
from optensemble.multicalibration.cell_tables import Correction, Tables, gram, overlaps
from optensemble.multicalibration.events import Cells


def least_squares(cells: Cells, residual: Floats, tables: Tables, shrinkage: float = 0.0) -> Correction:
    """Solve ``(G + shrinkage·I) δ = H`` at once: the limit of Algorithm 1; without shrinkage the smallest ``δ``.

    Cells that are not occupied get 0.
    """
    from scipy.linalg import eigh

    sums = tables.sums[tables.occupied]
    delta = np.zeros_like(tables.sums)
    if len(tables.occupied) > _tables.TABLE_LIMIT:
        delta = _conjugate_gradients(cells, tables, shrinkage)
        product = gram(cells, delta, tables)[tables.occupied]
    else:
        shared = overlaps(cells, tables)
        with one_blas_thread():
            values, vectors = eigh(shared, driver="evd")
            null = values <= len(values) * np.finfo(np.float64).eps * values[-1]
            inverse = np.where(null, 0.0, 1.0 / np.where(null, 1.0, values + shrinkage))
            solution = vectors @ (inverse[:, None] * (vectors.T @ sums))
            product = shared @ solution
        delta[tables.occupied] = solution
    drop = float((delta[tables.occupied] * (2.0 * sums - product)).sum())
    return Correction(delta, 1, drop / len(residual))


def _conjugate_gradients(cells: Cells, tables: Tables, shrinkage: float) -> Floats:
    """Solve the same equations without ever holding ``G``; from 0 the smallest solution is reached."""
    delta, residual = np.zeros_like(tables.sums), tables.sums.copy()
    direction = residual.copy()
    size = (residual**2).sum(axis=0)
    enough = 1e-13 * np.abs(tables.sums).max()
    for _ in range(2 * len(tables.occupied)):
        product = gram(cells, direction, tables) + shrinkage * direction
        curvature = (direction * product).sum(axis=0)
        step = np.divide(size, curvature, out=np.zeros_like(size), where=curvature > 0)
        delta += step * direction
        residual -= step * product
        if np.abs(residual).max() <= enough:
            break
        smaller = (residual**2).sum(axis=0)
        direction = residual + np.divide(smaller, size, out=np.zeros_like(size), where=size > 0) * direction
        size = smaller
    return delta
