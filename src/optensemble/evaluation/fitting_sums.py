"""What the paper's lemmas ask of the fitting rows, as sums over them: tables of disjoint rows add up."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.exact_sums import cell_sums, dots_of_each
from optensemble._core.sums import EACH, LARGEST, Sums
from optensemble.multicalibration.events import Partitions
from optensemble.multicalibration.state import Situation


@dataclass(frozen=True)
class PartSums(Sums):
    """Per part of a partition its rows, and what each given policy earned on them beyond the ensemble."""

    counts: Indices
    gains: Floats


@dataclass(frozen=True)
class FittingSums(Sums):
    """Payoffs on some rows, in the sense of maximising.

    Attributes
    ----------
    rows
        The number of rows.
    largest
        The largest prediction in absolute value.
    assessed, realised
        The payoff of every contender, as the model assesses it and as the labels have it.
    promised, earned, pointwise
        The payoff of the action taken, assessed and by the labels, and the best self-assessment of each row.
    swapped
        In line ``j`` and column ``i``, what contender ``j`` earned where ``i`` was followed.
    parts
        With given policies, the comparison on the level sets of the own policy, the subgroups and the level sets of
        every given policy.
    """

    rows: int
    largest: float = field(metadata=LARGEST)
    assessed: Floats
    realised: Floats
    promised: float
    earned: float
    pointwise: float
    swapped: Floats
    parts: tuple[PartSums, ...] = field(metadata=EACH)

    @classmethod
    def of(cls, situation: Situation, labels: Floats, partitions: Partitions) -> FittingSums:
        """Sum up some rows."""
        sign, contenders = float(situation.state.sign), len(situation.actions)
        realised = sign * dots_of_each(situation.actions, [labels])[:, 0]
        if situation.state.cost.size:
            realised -= sign * situation.state.cost
        assessed = sign * situation.assessed
        return cls(
            rows=len(labels),
            largest=float(np.abs(situation.predictions).max()),
            assessed=assessed.sum(axis=1),
            realised=np.array([row.sum() for row in realised]),
            promised=float(situation.taken(assessed).sum()),
            earned=float(situation.taken(realised).sum()),
            pointwise=float(assessed.max(axis=0).sum()),
            swapped=np.stack([np.bincount(situation.winner, row, minlength=contenders) for row in realised]),
            parts=_part_sums(situation, realised, partitions) if situation.given else (),
        )


def compared_partitions(partitions: Partitions) -> list[int]:
    """Return the numbers of the partitions on whose parts a black box is compared with each given policy."""
    return [*partitions.own, *partitions.subgroups, *partitions.given]


def _part_sums(situation: Situation, realised: Floats, partitions: Partitions) -> tuple[PartSums, ...]:
    gain, parts = np.ascontiguousarray((realised[:-1] - realised[-1]).T), situation.parts(0)
    return tuple(
        PartSums(*cell_sums(parts[number].astype(np.int64), gain, partitions.sizes[number]))
        for number in compared_partitions(partitions)
    )
