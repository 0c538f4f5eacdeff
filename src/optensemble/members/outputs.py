"""What the members say of some rows, in one sense: greater is better."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
import numpy.typing as npt

from optensemble._core.arrays import Floats
from optensemble._core.exact_sums import row_dots
from optensemble._core.tolerances import SAME_ASSESSMENT
from optensemble.members.subgroups import Titles


@dataclass(frozen=True)
class View:
    """The members' words and deeds on a batch of rows.

    Attributes
    ----------
    predictions
        Of the models, of shape (models, n, d).
    actions
        Of all members, models first, of shape (members, n, d).
    scale
        The labels' standard deviations on the rows fitted on: what the unit of an action is worth as a feature.
    subgroups, titles
        The part of every row in every column of the user's subgroups, of shape (columns, n), and the parts' names.
    """

    predictions: Floats
    actions: Floats
    scale: Floats
    subgroups: npt.NDArray[np.int32] | None = None
    titles: Titles = ()

    @property
    def models(self) -> int:
        """How many members predict."""
        return len(self.predictions)

    @property
    def count(self) -> int:
        """How many rows."""
        return int(self.actions.shape[1])

    @cached_property
    def features(self) -> Floats:
        """Return predictions of models, and of policies their actions times ``scale``; shape (members, n, d)."""
        return np.concatenate([self.predictions, self.actions[self.models :] * self.scale])

    @property
    def prior(self) -> Floats:
        """Return the weights of a stack that knows nothing: the average of all predictions."""
        weights = np.zeros(len(self.actions))
        weights[: self.models] = 1 / max(self.models, 1)
        return weights

    @cached_property
    def winners(self) -> npt.NDArray[np.int32]:
        """Return per row the model with the highest self-assessment; of ties the first."""
        pairs = zip(self.actions, self.predictions, strict=False)
        assessed = np.stack([row_dots(actions, predictions) for actions, predictions in pairs])
        best = assessed.max(axis=0)
        return np.asarray((assessed >= best - SAME_ASSESSMENT * np.abs(best)).argmax(axis=0), dtype=np.int32)

    @property
    def groups(self) -> npt.NDArray[np.int32] | None:
        """Return the parts of all groups: of several models who promises most, and the user's; (columns, n)."""
        winners = [self.winners[None]] if self.models > 1 else []
        found = winners if self.subgroups is None else [*winners, self.subgroups]
        return np.concatenate(found) if found else None

    @property
    def group_sizes(self) -> tuple[int, ...]:
        """How many parts these have; the last is for values that no fitting row has."""
        winners = (self.models + 1,) if self.models > 1 else ()
        return (*winners, *map(len, self.titles))

    @property
    def said(self) -> list[Floats]:
        """Return the members' own words: predictions of models, actions of policies."""
        return [*self.predictions, *self.actions[self.models :]]

    @classmethod
    def joined(cls, views: list[Self]) -> Self:
        """Return the view of all rows of several."""
        if len(views) == 1:
            return views[0]
        predictions = np.concatenate([view.predictions for view in views], axis=1)
        actions = np.concatenate([view.actions for view in views], axis=1)
        found = [view.subgroups for view in views if view.subgroups is not None]
        subgroups = np.concatenate(found, axis=1) if found else None
        return cls(predictions, actions, views[0].scale, subgroups, views[0].titles)
