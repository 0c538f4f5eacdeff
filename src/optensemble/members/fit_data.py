"""The rows of a fit: what members say of them, their labels, their dependence, and how they are cut into folds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from optensemble._core.arrays import Floats
from optensemble.members.outputs import MemberOutputs
from optensemble.stats.folds import Fold
from optensemble.stats.sampling import Sampling


@dataclass(frozen=True)
class FitData:
    """Everything that is learned from.

    Attributes
    ----------
    outputs
        What the members say of the rows.
    labels
        Of shape (n, d), in the sense of maximising.
    sampling
        The dependence between rows.
    random_state
        Seeds the folds of rows that are not in time order.
    """

    outputs: MemberOutputs
    labels: Floats
    sampling: Sampling
    random_state: int | None = None

    @cached_property
    def folds(self) -> list[Fold]:
        """The rows to learn from and the rows to judge on, fold by fold."""
        return self.sampling.folds(len(self.labels), self.random_state)

    @cached_property
    def scale(self) -> Floats:
        """The standard deviations of the labels."""
        return np.asarray(self.labels.std(axis=0))

    @cached_property
    def features(self) -> Floats:
        """What members say as features of a regression, of shape (members, n, d)."""
        return self.outputs.features(self.scale)
