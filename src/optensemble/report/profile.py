"""The distribution of actions by coordinate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.buckets import Buckets

MOST_COORDINATES = 30
"""Coordinates shown at most: those used most."""

ACTION_LEVELS = 10
"""Levels between the bounds of a coordinate."""

_BOUND_TOLERANCE = 1e-7  # share of the range: solvers return a bound only up to rounding


@dataclass(frozen=True)
class ActionProfile:
    """The distribution of actions on the coordinates in ``shown``: all of them, or those used most.

    ``shares`` (coordinates, 2 + levels) is the share of rows at the lower bound, at each level in between in ascending
    order, and at the upper bound. A coordinate with equal bounds is always at the lower. Where bounds come from the
    row, ``lower`` and ``upper`` are those of all fitting rows, and a row is at a bound if it is at its own.
    """

    shown: Indices
    mean: Floats
    lower: Floats
    upper: Floats
    shares: Floats


def summarise_actions(actions: Floats, lower: Floats, upper: Floats, own: tuple[Floats, Floats]) -> ActionProfile:
    """Return the distribution of actions; ``own`` are the bounds of each row."""
    span = np.where(upper > lower, upper - lower, 1.0)
    used = np.abs(actions).mean(axis=0) / span
    shown = np.sort(np.argsort(-used, kind="stable")[:MOST_COORDINATES])
    taken, lower, upper, margin = actions[:, shown], lower[shown], upper[shown], _BOUND_TOLERANCE * span[shown]
    least, most = (np.broadcast_to(side, actions.shape)[:, shown] for side in own)
    places = Buckets(lower, upper, ACTION_LEVELS)(np.ascontiguousarray(taken)) + 1
    places[taken >= most - margin] = ACTION_LEVELS + 1
    places[taken <= least + margin] = 0
    shares = np.stack([np.bincount(of, minlength=ACTION_LEVELS + 2) / len(of) for of in places.T])
    return ActionProfile(shown, taken.mean(axis=0), lower, upper, shares)
