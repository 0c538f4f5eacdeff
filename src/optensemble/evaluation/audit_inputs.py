"""The inputs of an audit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optensemble._core.arrays import Floats, Indices
from optensemble._core.validation import require_finite
from optensemble.evaluation.promise import Promise
from optensemble.exceptions import InputError
from optensemble.members.validation import require_rows
from optensemble.multicalibration.cell_names import CellName

SEEN = 0.01
"""The largest share of rows that may have been fitted on; with more, an audit proves nothing."""


AuditedPartition = tuple[list[CellName], Indices]
"""The names of disjoint cells, and the number of each row's."""


@dataclass(frozen=True, eq=False)
class AuditInputs:
    """The inputs of an audit; payoffs in the user's units: a cost is a cost.

    Attributes
    ----------
    promised, realised
        Of every row, what the ensemble promised and what it earned, of shape (n,).
    interval
        Its promise of the mean, made before labels were seen.
    names, chosen, arms
        The names of the candidates that it may follow; the one followed, as an index into them; and what following
        each of them everywhere would have earned, of shape (k, n).
    rivals
        By name the payoff of each baseline (members and simple forecasts), of shape (n,).
    residuals
        Labels minus the coefficients behind the decision, of shape (n, d).
    partitions
        The cells of α-consistency: of each partition the names of its parts, and the part of every row.
    sign
        1 to maximise, -1 to minimise.
    time_ordered, clusters
        Whether rows are in time order; the number of the cluster each row belongs to, if rows belong together.
    seen
        The number of these rows that were fitted on.
    weights
        The number of rows that each row counts for; None where each is one.
    unlabelled
        The number of further rows that lack labels, and were left out.
    coordinates
        The names of the coordinates of an action, if they have any.
    blind
        The payoff of deciding by the mean label, of shape (n,); None if that decides, or was not learned.
    """

    promised: Floats
    realised: Floats
    interval: Promise
    names: list[str]
    chosen: Indices
    arms: Floats
    rivals: dict[str, Floats]
    residuals: Floats
    partitions: list[AuditedPartition]
    sign: float = 1.0
    time_ordered: bool = False
    clusters: Indices | None = None
    seen: int = 0
    weights: Floats | None = None
    unlabelled: int = 0
    coordinates: tuple[str, ...] = ()
    blind: Floats | None = None

    def __post_init__(self) -> None:
        n = len(self.realised)
        require_rows(n, 1)
        payoffs = [("promised", self.promised), ("realised", self.realised), ("residuals", self.residuals)]
        payoffs += [(f"the payoff of {name!r}", payoff) for name, payoff in self.rivals.items()]
        numbers = [("chosen", self.chosen, len(self.names))]
        numbers += [(f"the partition into {[*map(str, names)]}", part, len(names)) for names, part in self.partitions]
        optional = [("clusters", self.clusters), ("sample_weight", self.weights), ("blind", self.blind)]
        clusters = [(name, each) for name, each in optional if each is not None]
        for name, array in [*payoffs, *clusters, *((name, part) for name, part, _ in numbers)]:
            if len(array) != n:
                raise InputError(f"{name} must have one entry for each of the {n} rows; got {len(array)}.")
        if self.arms.shape != (len(self.names), n):
            raise InputError(f"arms must have shape ({len(self.names)}, {n}); got {self.arms.shape}.")
        for name, payoff in [*payoffs, ("arms", self.arms)]:
            require_finite(payoff, name)
        if self.clusters is not None and len(np.unique(self.clusters)) == 1:
            raise InputError("all rows are in one group, so that nothing can be compared. Leave groups out.")
        for name, part, count in numbers:
            if part.min() < 0 or part.max() >= count:
                raise InputError(f"{name} must number {count} names from 0; got {part.min()} to {part.max()}.")

    def mean(self, values: Floats) -> float:
        """Return the mean of a number for each row."""
        return float(np.average(values, weights=self.weights))

    def weights_of(self, rows: Indices) -> Floats | None:
        """Return the weights of some rows; None where each counts for one."""
        return None if self.weights is None else self.weights[rows]

    @property
    def distance(self) -> float | None:
        """How far the mean payoff is from that of deciding by the mean label; None where that is no baseline."""
        return None if self.blind is None else abs(self.mean(self.realised) - self.mean(self.blind))

    @cached_property
    def triple(self) -> Floats:
        """The gap (promised − realised), promised and realised, side by side."""
        return np.column_stack([self.promised - self.realised, self.promised, self.realised])

    @cached_property
    def gains(self) -> Floats:
        """The gain of the ensemble over each baseline, of shape (n, baselines)."""
        payoffs = np.array(list(self.rivals.values())).reshape(len(self.rivals), len(self.realised))
        return np.ascontiguousarray(self.sign * (self.realised - payoffs).T)

    @property
    def series(self) -> Floats:
        """All columns that means are taken of; the gap first."""
        return np.column_stack([self.triple, self.gains, self.residuals])
