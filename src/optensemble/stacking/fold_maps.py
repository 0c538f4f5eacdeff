"""Linear forecasts with coefficients for every fold, of all that members say of a row side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from optensemble._core.arrays import Floats
from optensemble.members.blocks import Chunk
from optensemble.members.outputs import MemberOutputs
from optensemble.stacking.filling import Filling


def wide_outputs(outputs: MemberOutputs, centre: Floats, filling: Filling | None = None) -> Floats:
    """Return all that members say of each row side by side about a centre (members·d,), of shape (n, members·d).

    What absent members would say is filled in, if that is known.
    """
    wide, d = np.empty((outputs.count, len(centre))), outputs.actions.shape[2]
    said = outputs.said
    if outputs.absent is not None and filling is not None:
        said = list(filling(np.stack(said), outputs.absent))
    for number, each in enumerate(said):
        own = slice(number * d, (number + 1) * d)
        centre_rows(each, centre[own], wide[:, own])
    return wide


@njit(cache=True, nogil=True)
def centre_rows(values: Floats, centre: Floats, centred: Floats) -> None:
    """Write every row of ``values`` about a centre."""
    n, d = values.shape
    for i in range(n):
        for j in range(d):
            centred[i, j] = values[i, j] - centre[j]


@dataclass(frozen=True)
class FoldMap:
    """A linear forecast for every fold: ``(what members say − centre) @ coefficients[f] + constants[f]``."""

    coefficients: Floats
    constants: Floats

    def __call__(self, wide: Floats, chunk: Chunk) -> Floats:
        """Return the forecast of every row by the map of its fold."""
        forecast = np.empty((len(wide), self.constants.shape[1]))
        for fold, coefficients, constants in zip(chunk.folds, self.coefficients, self.constants, strict=True):
            np.matmul(wide[fold], coefficients, out=forecast[fold])
            forecast[fold] += constants
        return forecast

    def reach(self, distance: Floats) -> float:
        """Return a bound on its size, given how far members' outputs are from the centre at most."""
        bound = np.abs(self.coefficients).transpose(0, 2, 1) @ distance + np.abs(self.constants)
        return float(bound.max(initial=0.0))


@dataclass(frozen=True)
class FoldStack:
    """A stack for every fold, with weights (folds, members, d) of what members say about the centre."""

    weights: Floats
    constants: Floats

    def __call__(self, wide: Floats, chunk: Chunk) -> Floats:
        """Return the forecast of every row by the stack of its fold."""
        forecast: Floats = stack_rows(wide, self.weights, self.constants, chunk.ends)
        return forecast

    def reach(self, distance: Floats) -> float:
        """Return a bound on its size, given how far members' outputs are from the centre at most."""
        bound = (np.abs(self.weights) * distance.reshape(self.weights.shape[1:])).sum(axis=1) + np.abs(self.constants)
        return float(bound.max(initial=0.0))


@njit(cache=True, nogil=True)
def stack_rows(wide, weights, constants, ends):  # type: ignore[no-untyped-def]
    """Return for every row what the stack of its fold says."""
    folds, members, d = weights.shape
    forecast = np.empty((len(wide), d))
    for f in range(folds):
        for i in range(ends[f], ends[f + 1]):
            for j in range(d):
                forecast[i, j] = constants[f, j]
            for m in range(members):
                for j in range(d):
                    forecast[i, j] += wide[i, m * d + j] * weights[f, m, j]
    return forecast
