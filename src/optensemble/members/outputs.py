"""The outputs of all members on a batch of rows, in one sense: greater is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from numba import njit

from optensemble._core.arrays import Floats, Indices
from optensemble._core.buckets import Buckets
from optensemble._core.exact_sums import dots_of_each, dots_of_own, row_dots, take_rows
from optensemble._core.tolerances import SAME_ASSESSMENT
from optensemble.feasible import FeasibleSet
from optensemble.members.absence import Absent, absence_titles, join_absent, mean_present
from optensemble.members.subgroups import PartTitles


@njit(cache=True, nogil=True)
def first_of_best(assessed: Floats) -> npt.NDArray[np.int32]:
    """Return per row the model of the highest assessment, given all of them (models, n); of ties the first."""
    models, n = assessed.shape
    first = np.zeros(n, np.int32)
    for i in range(n):
        best, found = assessed[0, i], 0
        for m in range(1, models):
            best = max(best, assessed[m, i])
        least = best - SAME_ASSESSMENT * abs(best)
        for m in range(models - 1, -1, -1):  # without a branch, which could not be predicted
            found = m if assessed[m, i] >= least else found
        first[i] = found
    return first


@njit(cache=True, nogil=True)
def model_by_model(lying: Floats) -> Floats:
    """Return what models say, (n, models, d), model by model, (models, n, d)."""
    n, models, d = lying.shape
    found = np.empty((models, n, d))
    for i in range(n):
        for m in range(models):
            for j in range(d):
                found[m, i, j] = lying[i, m, j]
    return found


@dataclass(frozen=True)
class MemberOutputs:
    """Predictions and actions of the members on a batch of rows, with the set and the buckets they are about.

    Attributes
    ----------
    predictions
        Of the models, of shape (models, n, d), in the sense of maximising.
    actions
        Of all members, models first, of shape (members, n, d).
    omega
        The feasible set Ω, bound to these rows.
    buckets
        The bucketing of its actions.
    sign
        1 if the user maximises, -1 if the user minimises: ``sign * predictions`` are the user's units.
    subgroups, titles
        The part of every row in every column of subgroups, of shape (columns, n), and the parts' names: whether a
        member that was absent in fitting is there, then the user's.
    absent
        Whether each member has no answer in each row, of shape (members, n); None where all have. What stands in its
        place is not the member's: see :mod:`optensemble.members.absence`.
    contents
        A hash of each row of X as a number, of shape (n, 1), where members are fitted here: what they say of a row
        depends on whether they were fitted on it, and rows must be known again by something else.
    context
        The columns of X that a forecast may look at beside what members say, of shape (n, columns); None if it may not.
    """

    predictions: Floats
    actions: Floats
    omega: FeasibleSet
    buckets: Buckets
    sign: float = 1.0
    subgroups: npt.NDArray[np.int32] | None = None
    titles: PartTitles = ()
    absent: Absent | None = None
    contents: Floats | None = None
    context: Floats | None = None

    @property
    def models(self) -> int:
        """The number of members that predict."""
        return len(self.predictions)

    @property
    def count(self) -> int:
        """The number of rows."""
        return int(self.actions.shape[1])

    @property
    def own_predictions(self) -> Floats:
        """The predictions, each model's after the other's in memory that may be written to; a copy if they lie in X."""
        lying = self.predictions.transpose(1, 0, 2)
        if lying.flags.c_contiguous and lying.flags.writeable and len(self.predictions) > 1:
            return model_by_model(lying)
        return np.require(self.predictions, requirements=["C", "W"])

    def features(self, scale: Floats) -> Floats:
        """Return what is regressed on: predictions, and actions of policies times ``scale``; shape (members, n, d).

        ``scale`` are the labels' standard deviations on the fitting rows: what a unit of an action is worth.
        """
        if self.models == len(self.actions):
            return self.predictions
        return np.concatenate([self.predictions, self.actions[self.models :] * scale])

    @cached_property
    def leaders(self) -> npt.NDArray[np.int32]:
        """Per row the model with the highest self-assessment; of ties the first."""
        own = self.actions[: self.models]
        assessed = dots_of_own(np.ascontiguousarray(own), np.ascontiguousarray(self.predictions))
        if self.omega.has_cost:
            assessed -= np.stack([self.omega.cost(actions) for actions in own])
        if self.absent is not None:
            assessed[self.absent[: self.models]] = -np.inf
        leaders: npt.NDArray[np.int32] = first_of_best(assessed)
        if self.absent is not None:
            leaders[self.absent[: self.models].all(axis=0)] = self.models  # the part beyond all models
        return leaders

    @property
    def incomplete(self) -> npt.NDArray[np.bool_]:
        """The rows in which some member is absent."""
        return np.zeros(self.count, dtype=np.bool_) if self.absent is None else np.asarray(self.absent.any(axis=0))

    @property
    def average(self) -> Floats:
        """The mean prediction of the models that are present; 0 in rows in which none is."""
        return mean_present(self.predictions, None if self.absent is None else self.absent[: self.models])

    @property
    def mean_action(self) -> Floats:
        """The mean action of the members that are present; 0 in rows in which none is."""
        return mean_present(self.actions, self.absent)

    def payoffs(self, actions: Sequence[Floats] | Floats, coefficients: Sequence[Floats]) -> Floats:
        """Return what each of several policies' actions are worth under each of several coefficients, net of costs.

        In the sense of maximising, of shape (policies, coefficients, rows).
        """
        found = dots_of_each(actions, coefficients)
        if self.omega.has_cost:
            for here, taken in zip(found, actions, strict=True):
                here -= self.omega.cost(taken)
        return found

    def earned(self, actions: Floats, labels: Floats) -> Floats:
        """Return what actions come to, net of costs, in the user's units and sense, as ``labels`` are."""
        gross: Floats = row_dots(actions, labels)
        return gross - self.sign * self.omega.cost(actions) if self.omega.has_cost else gross

    @property
    def said(self) -> list[Floats]:
        """Each member's own output: predictions of models, actions of policies."""
        return [*self.predictions, *self.actions[self.models :]]

    @property
    def known_by(self) -> list[Floats]:
        """What rows are known again by, beside their labels: members' own outputs, and the parameters of rows' sets.

        Where members are fitted here it is the rows' own contents.
        """
        own = self.said if self.contents is None else [self.contents]
        return [*own, *([self.omega.values] if self.omega.varies else [])]

    def in_subgroups(self, parts: npt.NDArray[np.int32], titles: PartTitles) -> Self:
        """Return the same outputs with the part of every row in every column of subgroups."""
        return replace(self, subgroups=parts, titles=titles)

    def with_absences(self, members: Sequence[int], names: Sequence[str]) -> Self:
        """Return the same where the absence of some members is an event, as the user's subgroups are."""
        absent = np.zeros((len(self.actions), self.count), dtype=np.bool_) if self.absent is None else self.absent
        parts = absent[list(members)].astype(np.int32)
        known = parts if self.subgroups is None else np.concatenate([parts, self.subgroups])
        return replace(self, subgroups=known, titles=(*absence_titles([names[m] for m in members]), *self.titles))

    def take(self, rows: Indices | slice) -> Self:
        """Return the outputs on some of the rows."""
        if isinstance(rows, slice):
            taken = (self.predictions[:, rows], self.actions[:, rows])
        else:  # in memory, each member's rows after the other's
            taken = (take_rows(self.predictions, rows), take_rows(self.actions, rows))
        subgroups = None if self.subgroups is None else self.subgroups[:, rows]
        omega = self.omega.take(rows)
        absent = None if self.absent is None else self.absent[:, rows]
        beside: Any = {name: values[rows] for name, values in self._of_rows.items() if values is not None}
        found = replace(
            self, predictions=taken[0], actions=taken[1], omega=omega, subgroups=subgroups, absent=absent, **beside
        )
        if "leaders" in vars(self):
            vars(found)["leaders"] = self.leaders[rows]
        return found

    def reorder(self, rows: slice, order: Indices) -> None:
        """Put the rows ``order`` in the place of ``rows``, which are the same ones: for who owns the arrays."""
        for values in (self.predictions, self.actions):
            values[:, rows] = take_rows(values, order)
        for parts in (self.subgroups, self.absent):
            if parts is not None:
                parts[:, rows] = parts[:, order]
        for own in self._of_rows.values():
            if own is not None:
                own[rows] = own[order]
        self.omega.reorder(rows, order)
        vars(self).pop("leaders", None)

    @property
    def _of_rows(self) -> dict[str, Floats | None]:
        """What is known of rows beside what members say, by name."""
        return {"contents": self.contents, "context": self.context}

    @property
    def arrays(self) -> dict[str, Any]:
        """Predictions, actions, the parameters of rows' sets, and who is absent, by name."""
        own: dict[str, Any] = {"values": self.omega.values} if self.omega.varies else {}
        own |= {} if self.absent is None else {"absent": self.absent}
        return {"predictions": self.predictions, "actions": self.actions, **own}

    @classmethod
    def joined(cls, batches: list[Self]) -> Self:
        """Return the outputs on the rows of several batches, one after the other."""
        if len(batches) == 1:
            return batches[0]
        found = [batch.subgroups for batch in batches if batch.subgroups is not None]
        return replace(
            batches[0],
            predictions=np.concatenate([batch.predictions for batch in batches], axis=1),
            actions=np.concatenate([batch.actions for batch in batches], axis=1),
            omega=batches[0].omega.joined([batch.omega for batch in batches]),
            subgroups=np.concatenate(found, axis=1) if found else None,
            absent=join_absent([batch.absent for batch in batches], [batch.count for batch in batches]),
            **cls.beside(batches),
        )

    @classmethod
    def beside(cls, batches: Sequence[Self]) -> dict[str, Any]:
        """Return what is known of the rows of several batches beside what members say, of what is known of all."""
        found = {name: [batch._of_rows[name] for batch in batches] for name in batches[0]._of_rows}
        whole = {name: [each for each in parts if each is not None] for name, parts in found.items()}
        return {name: np.concatenate(parts) for name, parts in whole.items() if len(parts) == len(batches)}
