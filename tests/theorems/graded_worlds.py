"""Worlds in which one grade of a promise is the right one, by construction.

Two models know one of three labels each, and one of three items is chosen. Labels of later rows are shifted by a
constant, which no model and no decision sees: payoffs shift by it. What the policy earns on average is measured on very
many rows, so that the gap between promise and payoff can be set at will, in half-widths of the promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import optensemble as oe
from optensemble import feasible
from optensemble.evaluation.verdict import Grade

Floats = npt.NDArray[np.float64]

_MEASURED_ON = 100_000  # rows: the mean is then known to a hundredth of a half-width


@dataclass(frozen=True)
class GradedWorld:
    """A world with its right grade.

    Attributes
    ----------
    grade
        The right grade.
    fitted, later
        Rows of the fit, and of the audit.
    signal
        How much the labels differ by what the models know, in standard deviations of their noise.
    gap
        The true gap between promise and payoff, in half-widths of the promise; None: labels are not shifted.
    """

    grade: Grade
    fitted: int
    later: int
    signal: float
    gap: float | None


WORLDS = (
    GradedWorld(Grade.KEPT, 1500, 500, 1.0, None),
    GradedWorld(Grade.BIASED, 150, 20_000, 1.0, 0.5),
    GradedWorld(Grade.WIDE, 150, 20_000, 0.2, 0.0),
    GradedWorld(Grade.FEW, 1500, 25, 0.2, None),
    GradedWorld(Grade.FEW, 1500, 6, 1.0, None),
    GradedWorld(Grade.LESS, 1500, 500, 1.0, 2.5),
    GradedWorld(Grade.MORE, 1500, 500, 1.0, -2.5),
)


def draw(world: GradedWorld, n: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw rows and their labels."""
    X = rng.normal(size=(n, 3))
    return X, 5.0 + world.signal * X + rng.normal(size=(n, 3))


def try_world(world: GradedWorld, seed: int, sense: str = "max") -> Grade:
    """Fit an ensemble, audit it on later rows, and return the grade."""
    rng = np.random.default_rng((seed, world.fitted, world.later, sense == "min"))
    known = np.eye(3)
    models = [(f"knows {i}", lambda X, i=i: 5.0 + world.signal * X * known[i]) for i in range(3)]
    ensemble = oe.DecisionEnsemble(models=models, feasible=feasible.Simplex(3), sense=sense)
    ensemble.fit(*draw(world, world.fitted, rng))
    X, Y = draw(world, world.later, rng)
    if world.gap is not None:
        promise, worse = ensemble.promise(X), 1.0 if sense == "max" else -1.0
        many, labels = draw(world, _MEASURED_ON, rng)
        earned = float((ensemble.decide(many) * labels).sum(axis=1).mean())
        Y = Y + (promise.mean - earned - worse * world.gap * (promise.high - promise.low) / 2)
    return ensemble.audit(X, Y).grade


def grades(world: GradedWorld, seeds: Sequence[int]) -> list[Grade]:
    """Return the grades of many such worlds, payoffs and costs in turn."""
    return [try_world(world, seed, "min" if seed % 2 else "max") for seed in seeds]
